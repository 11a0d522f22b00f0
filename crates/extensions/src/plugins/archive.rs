//! Unpacks a package of an npm registry: a tar archive in gzip.
//!
//! The `tar` crate reads the headers, one at a time ([`Entries::raw`]), so that every header, name and
//! size passes our limits before anything is done with it. Only plain files and folders are written. A
//! package that contains a link, a device, a path that leads out of it, or more than the limits allow is
//! refused as a whole while it is being unpacked: a few kilobytes that decompress to terabytes never do.
//!
//! [`Entries::raw`]: tar::Entries::raw

pub use super::archive_error::ArchiveError;
use super::copy::{Limits, Meter, write_file};
use super::source::inside;
use super::{PluginError, plain};
use flate2::read::GzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// How many headers there may be for each entry: its own, and the extended ones before it.
const HEADERS_PER_ENTRY: usize = 4;
/// The largest extended header, in bytes.
const LARGEST_EXTENDED_HEADER: u64 = 64 * 1024;

/// Unpacks a package into a folder. The first folder of every path (`package/`) is dropped.
///
/// # Errors
/// When the package is broken or refused. The folder may then hold a part of it.
pub fn unpack(package: impl Read, to: &Path, limits: Limits) -> Result<(), PluginError> {
    unpack_tar(GzDecoder::new(package), to, limits)
        .map_err(|why| PluginError::refused("the package", why))
}

fn unpack_tar(tar: impl Read, to: &Path, limits: Limits) -> Result<(), ArchiveError> {
    let mut meter = Meter::new(limits);
    // Extended headers are no entries, but their number must be limited as well.
    let mut headers = limits.entries.saturating_mul(HEADERS_PER_ENTRY);
    let mut long_name: Option<String> = None;
    make_folder(to)?;
    let mut archive = Archive::new(tar);
    for entry in archive.entries().map_err(ArchiveError::Tar)?.raw(true) {
        let mut entry = entry.map_err(ArchiveError::Tar)?;
        headers = headers.checked_sub(1).ok_or(ArchiveError::TooManyHeaders)?;
        let name = match long_name.take() {
            Some(name) => name,
            None => utf8(entry.header().path_bytes().into_owned())?,
        };
        match entry.header().entry_type() {
            EntryType::Regular => {
                let relative = package_path(&name)?;
                meter.entry(&relative)?;
                meter.weigh(&relative, entry.size())?;
                let runs = entry.header().mode().map_err(ArchiveError::Tar)? & 0o111 != 0;
                let bytes = content(&mut entry)?;
                write(to, &relative, &bytes, runs)?;
            }
            EntryType::Directory => {
                // The top folder itself is not created.
                if inside(&name)?.components().count() > 1 {
                    let relative = package_path(&name)?;
                    meter.entry(&relative)?;
                    make_folder(&to.join(relative))?;
                }
            }
            kind @ (EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName) => {
                if entry.size() > LARGEST_EXTENDED_HEADER {
                    return Err(ArchiveError::LargeHeader);
                }
                let bytes = content(&mut entry)?;
                match kind {
                    EntryType::XHeader => long_name = extended_path(&bytes)?,
                    EntryType::GNULongName => {
                        long_name = Some(utf8(bytes)?.trim_end_matches('\0').to_owned());
                    }
                    _ => {}
                }
            }
            EntryType::Link | EntryType::Symlink => {
                return Err(ArchiveError::Link(plain(&name, 120)));
            }
            _ => {
                return Err(ArchiveError::Special(plain(&name, 120)));
            }
        }
    }
    Ok(())
}

fn utf8(name: Vec<u8>) -> Result<String, ArchiveError> {
    String::from_utf8(name).map_err(|_| ArchiveError::NotUtf8)
}

/// The bytes of an entry whose size was checked.
fn content(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, ArchiveError> {
    let size = entry.size();
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(ArchiveError::Tar)?;
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(ArchiveError::Truncated)
    }
}

/// The path in a pax header.
fn extended_path(records: &[u8]) -> Result<Option<String>, ArchiveError> {
    let mut path = None;
    for record in PaxExtensions::new(records) {
        let record = record.map_err(ArchiveError::Tar)?;
        match record.key_bytes() {
            b"path" => path = Some(utf8(record.value_bytes().to_vec())?),
            // Would override the size in the entry's own header.
            b"size" => return Err(ArchiveError::OverriddenSize),
            _ => {}
        }
    }
    Ok(path)
}

/// A path without its first folder; it can't lead out of the package.
fn package_path(name: &str) -> Result<PathBuf, ArchiveError> {
    let clean = inside(name)?;
    let mut parts = clean.components();
    parts.next();
    let rest = parts.as_path();
    if rest.as_os_str().is_empty() {
        return Err(ArchiveError::NotInFolder(plain(name, 120)));
    }
    Ok(rest.to_path_buf())
}

fn make_folder(path: &Path) -> Result<(), ArchiveError> {
    std::fs::create_dir_all(path).map_err(ArchiveError::write(path))
}

fn write(to: &Path, relative: &Path, bytes: &[u8], runs: bool) -> Result<(), ArchiveError> {
    let target = to.join(relative);
    if let Some(parent) = target.parent() {
        make_folder(parent)?;
    }
    write_file(&target, bytes, runs).map_err(ArchiveError::write(&target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const BLOCK: usize = 512;

    fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = [0_u8; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000755");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        header[148..156].copy_from_slice(b"        ");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend(content);
        bytes.resize(bytes.len().div_ceil(BLOCK) * BLOCK, 0);
        bytes
    }

    fn zipped(tar: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(tar).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(tar: &[u8]) -> Result<tempfile::TempDir, String> {
        let folder = tempfile::tempdir().unwrap();
        unpack(&zipped(tar)[..], &folder.path().join("to"), Limits::SMALL)
            .map(|()| folder)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn files_and_folders_come_out() {
        let long = format!("package/{}/x.md", "deep".repeat(20));
        let record = format!(" path={long}\n");
        let length = record.len() + 3;
        let mut tar = entry("package/.claude-plugin/plugin.json", b'0', b"{}");
        tar.extend(entry("package/agents", b'5', b""));
        tar.extend(entry("pax", b'x', format!("{length}{record}").as_bytes()));
        tar.extend(entry("package/short", b'0', b"long"));
        tar.extend([0; 2 * BLOCK]);
        let folder = unpacked(&tar).unwrap();
        let read =
            |path: &str| std::fs::read_to_string(folder.path().join("to").join(path)).unwrap();
        assert_eq!(read(".claude-plugin/plugin.json"), "{}");
        assert_eq!(read(&format!("{}/x.md", "deep".repeat(20))), "long");
        assert!(folder.path().join("to/agents").is_dir());
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for name in [
            "package/../../evil",
            "/etc/passwd",
            "../evil",
            "package/a/../../../evil",
        ] {
            for kind in [b'0', b'5'] {
                let error = unpacked(&entry(name, kind, b"")).unwrap_err();
                assert!(error.contains("refused"), "{name}: {error}");
            }
        }
        let record = " path=package/../../evil\n";
        let pax = format!("{}{record}", record.len() + 2);
        let mut tar = entry("pax", b'x', pax.as_bytes());
        tar.extend(entry("package/fine", b'0', b"x"));
        assert!(unpacked(&tar).unwrap_err().contains("leads out"));
    }

    #[test]
    fn links_and_devices_are_refused() {
        for kind in [b'1', b'2', b'3', b'4', b'6'] {
            let error = unpacked(&entry("package/x", kind, b"")).unwrap_err();
            let why = match kind {
                b'1' | b'2' => "package/x is a link",
                _ => "package/x is neither a file nor a folder",
            };
            assert!(error.contains(why), "{}: {error}", char::from(kind));
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_goes_off() {
        // 4 MB of zeros are a few kB on the way.
        let bomb = entry("package/zeros", b'0', &vec![0; 4 * 1024 * 1024]);
        assert!(zipped(&bomb).len() < 100 * 1024);
        assert!(unpacked(&bomb).unwrap_err().contains("larger than"));
        let many: Vec<u8> = (0..30)
            .flat_map(|n| entry(&format!("package/{n}"), b'0', b""))
            .collect();
        assert!(unpacked(&many).unwrap_err().contains("more than 20 files"));
        let parts: Vec<u8> = (0..3)
            .flat_map(|n| entry(&format!("package/{n}"), b'0', &vec![0; 1024 * 1024]))
            .collect();
        assert!(unpacked(&parts).unwrap_err().contains("altogether"));
        // Headers of nothing, for ever.
        for (name, kind) in [("pax", b'g'), ("package", b'5')] {
            let headers: Vec<u8> = (0..100).flat_map(|_| entry(name, kind, b"")).collect();
            let error = unpacked(&headers).unwrap_err();
            assert!(error.contains("too many headers"), "{error}");
        }
    }

    #[test]
    fn broken_archives_are_refused() {
        let whole = entry("package/x", b'0', &[7; 2000]);
        for cut in [100, 600, 1500] {
            assert!(unpacked(&whole[..cut]).is_err(), "{cut}");
        }
        let mut changed = whole.clone();
        changed[0] = b'q';
        assert!(
            unpacked(&changed)
                .unwrap_err()
                .contains("not a valid tar archive")
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(unpack(&b"not gzip"[..], folder.path(), Limits::default()).is_err());
    }
}
