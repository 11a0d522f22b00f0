//! Reads a zip archive from an untrusted source.
//!
//! The `zip` crate reads the format; this module decides what is taken: plain files and folders, stored
//! or deflated. An archive that contains a link, an encrypted file, a path that leads out, or more than the
//! limits allow is refused as a whole. The list of files is read one at a time ([`ZipIterable`]), so that an
//! archive is refused at its first bad entry, and the size in the list limits what is decompressed.

use super::archive_error::ArchiveError;
use super::copy::{Limits, Meter, write_file};
use super::plain;
use super::source::inside;
use ::zip::read::{Config, ZipFileEntry};
use ::zip::result::ZipResult;
use ::zip::unstable::read::ZipIterable;
use ::zip::{CompressionMethod, System, ZipReadOptions};
use std::collections::HashSet;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

/// An archive whose list of files was read and found harmless.
pub(crate) struct Archive<'a> {
    zip: ZipIterable<Cursor<&'a [u8]>>,
    /// The entries that passed, in the order of the list.
    files: Vec<ArchiveFile>,
}

/// A file or a folder of an archive.
struct ArchiveFile {
    path: PathBuf,
    size: u64,
    is_folder: bool,
    is_executable: bool,
}

impl<'a> Archive<'a> {
    /// Reads the list of files.
    ///
    /// # Errors
    /// If the archive is broken or refused.
    pub(crate) fn read(bytes: &'a [u8], limits: Limits) -> Result<Self, ArchiveError> {
        let mut zip = ZipIterable::try_new(Cursor::new(bytes), Config::default())?;
        let mut meter = Meter::new(limits);
        let mut paths = HashSet::new();
        let mut files = Vec::new();
        for entry in zip.files()? {
            let file = checked(&entry?)?;
            meter.entry(&file.path)?;
            meter.weigh(&file.path, file.size)?;
            if !paths.insert(file.path.clone()) {
                return Err(ArchiveError::Duplicate(shown(&file.path)));
            }
            files.push(file);
        }
        Ok(Self { zip, files })
    }

    /// A file's content.
    ///
    /// # Errors
    /// If it isn't there or is broken.
    pub(crate) fn file(&mut self, path: &str) -> Result<Vec<u8>, ArchiveError> {
        let entries = self.zip.files()?;
        for file in &self.files {
            let entry = entries.next();
            if file.path == Path::new(path) {
                return content(file, entry, entries.reader_mut());
            }
        }
        Err(ArchiveError::Missing(path.to_owned()))
    }

    /// Writes everything into a folder.
    ///
    /// # Errors
    /// If a file is broken or can't be written. The folder may then hold a part of it.
    pub(crate) fn unpack(&mut self, to: &Path) -> Result<(), ArchiveError> {
        let entries = self.zip.files()?;
        for file in &self.files {
            let entry = entries.next();
            let target = to.join(&file.path);
            let folder = match target.parent() {
                Some(parent) if !file.is_folder => parent,
                _ => &target,
            };
            std::fs::create_dir_all(folder).map_err(ArchiveError::write(folder))?;
            if !file.is_folder {
                let content = content(file, entry, entries.reader_mut())?;
                write_file(&target, &content, file.is_executable)
                    .map_err(ArchiveError::write(&target))?;
            }
        }
        Ok(())
    }
}

/// The decompressed bytes of a file. The reader fails where they are more than the list says, and at the
/// end if the checksum doesn't match.
fn content(
    file: &ArchiveFile,
    entry: Option<ZipResult<ZipFileEntry<'_>>>,
    archive: &mut Cursor<&[u8]>,
) -> Result<Vec<u8>, ArchiveError> {
    let broken = || ArchiveError::BrokenFile(shown(&file.path));
    let mut content = Vec::new();
    entry
        .and_then(Result::ok)
        .and_then(|entry| entry.with_reader(archive, ZipReadOptions::new()).ok())
        .ok_or_else(broken)?
        .take(file.size + 1)
        .read_to_end(&mut content)
        .map_err(|_| broken())?;
    if content.len() as u64 == file.size {
        Ok(content)
    } else {
        Err(broken())
    }
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string(), 120)
}

/// An entry of the list, if it is a plain file or folder with a harmless path.
fn checked(entry: &ZipFileEntry<'_>) -> Result<ArchiveFile, ArchiveError> {
    let name = std::str::from_utf8(entry.name_raw()).map_err(|_| ArchiveError::NotUtf8)?;
    let shown = || plain(name, 120);
    if entry.encrypted() {
        return Err(ArchiveError::Encrypted(shown()));
    }
    if !matches!(
        entry.compression(),
        CompressionMethod::Stored | CompressionMethod::Deflated
    ) {
        return Err(ArchiveError::Compression(shown()));
    }
    // Other systems have no file modes; the crate would make some up.
    let mode = match entry.system() {
        System::Unix => entry.external_attributes() >> 16,
        _ => 0,
    };
    let is_folder = name.ends_with('/');
    match mode & 0o170_000 {
        0 => {}
        0o100_000 if !is_folder => {}
        0o040_000 if is_folder => {}
        0o120_000 => return Err(ArchiveError::Link(shown())),
        _ => return Err(ArchiveError::Special(shown())),
    }
    Ok(ArchiveFile {
        path: inside(name)?,
        size: entry.size(),
        is_folder,
        is_executable: mode & 0o111 != 0,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flate2::Crc;
    use std::io::Write as _;

    const END: [u8; 4] = *b"PK\x05\x06";
    const CENTRAL: [u8; 4] = *b"PK\x01\x02";
    const LOCAL: [u8; 4] = *b"PK\x03\x04";

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
        Archive::read(bytes, Limits::SMALL)
            .and_then(|mut archive| archive.unpack(&folder.path().join("to")))
            .map(|()| folder)
            .map_err(|error| error.to_string())
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
