//! Reading a zip archive of a stranger.
//!
//! Only what bundles of servers hold is understood: plain files and folders, stored or deflated. An
//! archive that holds a link, a path that leads out, a secret, or more than it may hold is refused as a
//! whole; what a file says about its size is held to while it is unpacked, so that a few kilobytes
//! never become terabytes.

use super::copy::{Limits, Meter, write_file};
use super::plain;
use super::source::inside;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const END: [u8; 4] = *b"PK\x05\x06";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// What the end of an archive has without a comment.
const END_BYTES: usize = 22;
/// How far from the end of the file it may be: a comment, or a signature.
const END_REACH: usize = 128 * 1024;

/// An archive whose list of files was read and found harmless.
pub(crate) struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
}

struct Entry {
    path: PathBuf,
    is_folder: bool,
    runs: bool,
    is_deflated: bool,
    packed: usize,
    size: u64,
    sum: u32,
    header: usize,
}

impl<'a> Archive<'a> {
    /// Reads the list of files.
    ///
    /// # Errors
    /// In words, when the archive is broken or refused.
    pub(crate) fn read(bytes: &'a [u8], limits: Limits) -> Result<Self, String> {
        let no_zip = || "it is no zip archive, or a broken one".to_owned();
        let first = bytes.len().saturating_sub(END_REACH);
        let end = bytes[first..]
            .windows(END_BYTES)
            .rposition(|window| window.starts_with(&END))
            .ok_or_else(no_zip)?
            + first;
        let count = number16(bytes, end + 10)?;
        let mut at = usize_of(number32(bytes, end + 16)?)?;
        if count == u16::MAX || at == usize_of(u32::MAX)? {
            return Err("it is too large".to_owned());
        }
        let mut meter = Meter::new(limits);
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..count {
            if bytes.get(at..at + 4) != Some(&CENTRAL) {
                return Err(no_zip());
            }
            let lengths = [28, 30, 32].map(|field| number16(bytes, at + field));
            let [name, extra, comment] = lengths.map(|length| length.map(usize::from));
            let (name, extra, comment) = (name?, extra?, comment?);
            let text = bytes.get(at + 46..at + 46 + name).ok_or_else(no_zip)?;
            let text = std::str::from_utf8(text).map_err(|_| "a name in it is not UTF-8")?;
            let entry = entry(bytes, at, text)?;
            meter.entry(&entry.path)?;
            meter.weigh(&entry.path, entry.size)?;
            if entries.iter().any(|known| known.path == entry.path) {
                return Err(format!("{} is in it twice", plain(text, 120)));
            }
            // The folder of everything itself has no place of its own.
            if !entry.path.as_os_str().is_empty() {
                entries.push(entry);
            }
            at += 46 + name + extra + comment;
        }
        Ok(Self { bytes, entries })
    }

    /// A file's content.
    ///
    /// # Errors
    /// In words, when it isn't there or is broken.
    pub(crate) fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        let found = self
            .entries
            .iter()
            .find(|entry| entry.path == Path::new(path));
        self.content(found.ok_or_else(|| format!("it has no {path}"))?)
    }

    /// Writes everything into a folder.
    ///
    /// # Errors
    /// In words, when a file is broken or can't be written. What was written is then worth nothing.
    pub(crate) fn unpack(&self, to: &Path) -> Result<(), String> {
        let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        for entry in &self.entries {
            let target = to.join(&entry.path);
            let folder = match target.parent() {
                Some(parent) if !entry.is_folder => parent,
                _ => &target,
            };
            std::fs::create_dir_all(folder).map_err(|error| told(folder, error))?;
            if !entry.is_folder {
                let content = self.content(entry)?;
                write_file(&target, &content, entry.runs).map_err(|error| told(&target, error))?;
            }
        }
        Ok(())
    }

    fn content(&self, entry: &Entry) -> Result<Vec<u8>, String> {
        let broken = || {
            format!(
                "{} in it is broken",
                plain(&entry.path.display().to_string(), 120)
            )
        };
        let bytes = self.bytes;
        if bytes.get(entry.header..).and_then(|rest| rest.get(..4)) != Some(&LOCAL) {
            return Err(broken());
        }
        let name = usize::from(number16(bytes, entry.header + 26)?);
        let extra = usize::from(number16(bytes, entry.header + 28)?);
        let start = entry.header + 30 + name + extra;
        let packed = bytes
            .get(start..)
            .and_then(|rest| rest.get(..entry.packed))
            .ok_or_else(broken)?;
        let mut content = Vec::new();
        if entry.is_deflated {
            // One more than it says would be a lie, and is enough to see it.
            let mut unpacked = DeflateDecoder::new(packed).take(entry.size + 1);
            unpacked.read_to_end(&mut content).map_err(|_| broken())?;
        } else {
            content.extend_from_slice(packed);
        }
        let mut sum = Crc::new();
        sum.update(&content);
        if content.len() as u64 == entry.size && sum.sum() == entry.sum {
            Ok(content)
        } else {
            Err(broken())
        }
    }
}

/// One line of the list.
fn entry(bytes: &[u8], at: usize, name: &str) -> Result<Entry, String> {
    const SECRET: u16 = 1;
    const UNIX: u8 = 3;
    let shown = || plain(name, 120);
    if number16(bytes, at + 8)? & SECRET != 0 {
        return Err(format!("{} is encrypted", shown()));
    }
    let is_deflated = match number16(bytes, at + 10)? {
        0 => false,
        8 => true,
        _ => return Err(format!("{} is packed in an unusual way", shown())),
    };
    let (packed, size) = (number32(bytes, at + 20)?, number32(bytes, at + 24)?);
    if packed == u32::MAX || size == u32::MAX {
        return Err(format!("{} is too large", shown()));
    }
    let made_by = bytes.get(at + 5).copied().unwrap_or_default();
    let mode = if made_by == UNIX {
        number32(bytes, at + 38)? >> 16
    } else {
        0
    };
    let is_folder = name.ends_with('/');
    match mode & 0o170_000 {
        0 => {}
        0o100_000 if !is_folder => {}
        0o040_000 if is_folder => {}
        0o120_000 => return Err(format!("{} is a link", shown())),
        _ => return Err(format!("{} is neither a file nor a folder", shown())),
    }
    Ok(Entry {
        path: inside(name)?,
        is_folder,
        runs: mode & 0o111 != 0,
        is_deflated,
        packed: usize_of(packed)?,
        size: u64::from(size),
        sum: number32(bytes, at + 16)?,
        header: usize_of(number32(bytes, at + 42)?)?,
    })
}

fn number16(bytes: &[u8], at: usize) -> Result<u16, String> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field
        .map(|field| u16::from_le_bytes(*field))
        .ok_or_else(|| "it ends in the middle".to_owned())
}

fn number32(bytes: &[u8], at: usize) -> Result<u32, String> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field
        .map(|field| u32::from_le_bytes(*field))
        .ok_or_else(|| "it ends in the middle".to_owned())
}

fn usize_of(number: u32) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| "it is too large".to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write as _;

    /// A file of an archive: name, mode, content, and the size that it claims to have.
    pub(crate) struct File<'a>(pub &'a str, pub u32, pub &'a [u8], pub Option<u32>);

    /// An archive as the usual programs write it.
    pub(crate) fn zipped(files: &[File<'_>]) -> Vec<u8> {
        let (mut all, mut list) = (Vec::new(), Vec::new());
        for File(name, mode, content, claimed) in files {
            let mut encoder =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            let packed = encoder.finish().unwrap();
            let mut sum = Crc::new();
            sum.update(content);
            let size = claimed.unwrap_or(u32::try_from(content.len()).unwrap());
            let mut common = Vec::new();
            common.extend([20, 0, 0, 0, 8, 0, 0, 0, 0, 0]);
            common.extend(sum.sum().to_le_bytes());
            common.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
            common.extend(size.to_le_bytes());
            common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
            common.extend([0, 0]);
            list.extend(CENTRAL);
            list.extend([30, 3]);
            list.extend(&common);
            list.extend([0; 6]);
            list.extend((mode << 16).to_le_bytes());
            list.extend(u32::try_from(all.len()).unwrap().to_le_bytes());
            list.extend(name.as_bytes());
            all.extend(LOCAL);
            all.extend(&common);
            all.extend(name.as_bytes());
            all.extend(packed);
        }
        let start = u32::try_from(all.len()).unwrap();
        all.extend(&list);
        all.extend(END);
        all.extend([0; 4]);
        let count = u16::try_from(files.len()).unwrap().to_le_bytes();
        all.extend(count);
        all.extend(count);
        all.extend(u32::try_from(list.len()).unwrap().to_le_bytes());
        all.extend(start.to_le_bytes());
        all.extend([0; 2]);
        all
    }

    fn unpacked(bytes: &[u8]) -> Result<tempfile::TempDir, String> {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::read(bytes, Limits::SMALL)?;
        archive.unpack(&folder.path().join("to"))?;
        Ok(folder)
    }

    #[test]
    fn files_and_folders_come_out_whole() {
        use std::os::unix::fs::PermissionsExt as _;
        let mut bytes = zipped(&[
            File("server/", 0o040_755, b"", None),
            File("server/run", 0o100_755, b"#!/bin/sh\n", None),
            File("manifest.json", 0, &[b'x'; 5000], None),
        ]);
        // A signature after the end.
        bytes.extend([7; 300]);
        let folder = unpacked(&bytes).unwrap();
        let to = folder.path().join("to");
        assert_eq!(
            std::fs::read(to.join("manifest.json")).unwrap(),
            [b'x'; 5000]
        );
        let mode = std::fs::metadata(to.join("server/run"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
    }

    #[test]
    fn what_could_harm_is_refused() {
        let long = vec![0; 1024 * 1024 + 1];
        for (files, why) in [
            (vec![File("../evil", 0, b"x", None)], "leads out"),
            (vec![File("/etc/passwd", 0, b"x", None)], "absolute"),
            (vec![File("a\\..\\b", 0, b"x", None)], "can't be in one"),
            (
                vec![File("l", 0o120_777, b"/etc/passwd", None)],
                "is a link",
            ),
            (vec![File("p", 0o010_644, b"", None)], "neither a file nor"),
            (vec![File("big", 0, &long, None)], "larger than 1 MB"),
            // Says less than it holds.
            (vec![File("bomb", 0, &long, Some(10))], "broken"),
            (
                vec![File("a", 0, b"x", None), File("./a", 0, b"y", None)],
                "twice",
            ),
            (
                (0..30).map(|_| File("many", 0, b"", None)).collect(),
                "twice",
            ),
            (
                vec![
                    File("1", 0, &long[1..], None),
                    File("2", 0, &long[1..], None),
                    File("3", 0, &long[1..], None),
                ],
                "altogether",
            ),
        ] {
            let error = unpacked(&zipped(&files)).unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
    }

    #[test]
    fn a_broken_archive_is_refused_wherever_it_is_cut_or_changed() {
        let whole = zipped(&[
            File("a", 0, b"some words, some words", None),
            File("b", 0, b"c", None),
        ]);
        assert!(unpacked(&whole).is_ok());
        for cut in 0..whole.len() {
            assert!(unpacked(&whole[..cut]).is_err(), "{cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            // Whatever it says now: nothing leads out, nothing hangs, nothing panics.
            let _ = unpacked(&changed);
        }
    }
}
