//! Unpacking a package of an npm registry: tar in gzip.
//!
//! Only plain files and folders are taken. A package that holds a link, a device, a path that leads
//! out, or more than it may hold is refused as a whole, while it is being unpacked: the few
//! kilobytes that would become terabytes never do.

use super::copy::{Limits, Meter, write_file};
use super::source::inside;
use super::{PluginError, plain};
use flate2::read::GzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

const BLOCK: usize = 512;
/// How many headers there may be for each entry: its own, and those before it that say more of it.
const HEADERS_PER_ENTRY: usize = 4;
/// The longest name that an extended header may give.
const LONGEST_NAME: u64 = 64 * 1024;

/// Unpacks a package into a folder. The first folder of every path (`package/`) is dropped.
///
/// # Errors
/// When the package is broken or refused. What was unpacked is then worth nothing.
pub fn unpack(package: impl Read, to: &Path, limits: Limits) -> Result<(), PluginError> {
    unpack_tar(GzDecoder::new(package), to, limits)
        .map_err(|why| PluginError::refused("the package", why))
}

fn unpack_tar(mut tar: impl Read, to: &Path, limits: Limits) -> Result<(), String> {
    let mut meter = Meter::new(limits);
    // Headers that say nothing of a file are no entries, and must end all the same.
    let mut headers = limits.entries.saturating_mul(HEADERS_PER_ENTRY);
    let mut long_name: Option<String> = None;
    std::fs::create_dir_all(to).map_err(|error| error.to_string())?;
    loop {
        let mut header = [0_u8; BLOCK];
        match read_block(&mut tar, &mut header)? {
            Block::End => return Ok(()),
            Block::Whole if header.iter().all(|byte| *byte == 0) => return Ok(()),
            Block::Whole => {}
        }
        headers = headers
            .checked_sub(1)
            .ok_or_else(|| "it has too many headers".to_owned())?;
        check_sum(&header)?;
        let size = number(&header[124..136])?;
        let kind = header[156];
        let name = match long_name.take() {
            Some(name) => name,
            None => header_name(&header)?,
        };
        match kind {
            b'0' | 0 => {
                let relative = package_path(&name)?;
                meter.entry(&relative)?;
                meter.weigh(&relative, size)?;
                let bytes = read_content(&mut tar, size)?;
                let runs = number(&header[100..108])? & 0o111 != 0;
                write(to, &relative, &bytes, runs)?;
            }
            b'5' => {
                // The folder of everything itself has no place of its own.
                if inside(&name)?.components().count() > 1 {
                    let relative = package_path(&name)?;
                    meter.entry(&relative)?;
                    make_folder(&to.join(relative))?;
                }
            }
            // An extended header: of the next entry (x), of all (g); or a long name (L).
            b'x' | b'g' | b'L' => {
                if size > LONGEST_NAME {
                    return Err("a header in it is too large".to_owned());
                }
                let bytes = read_content(&mut tar, size)?;
                let text =
                    String::from_utf8(bytes).map_err(|_| "a name in it is not UTF-8".to_owned())?;
                match kind {
                    b'x' => long_name = extended_path(&text)?,
                    b'L' => long_name = Some(text.trim_end_matches('\0').to_owned()),
                    _ => {}
                }
            }
            b'1' | b'2' => {
                return Err(format!("{} is a link", plain(&name, 120)));
            }
            _ => {
                return Err(format!(
                    "{} is neither a file nor a folder",
                    plain(&name, 120)
                ));
            }
        }
    }
}

enum Block {
    Whole,
    End,
}

fn read_block(tar: &mut impl Read, block: &mut [u8; BLOCK]) -> Result<Block, String> {
    let mut filled = 0;
    while filled < BLOCK {
        match tar.read(&mut block[filled..]) {
            Ok(0) if filled == 0 => return Ok(Block::End),
            Ok(0) => return Err("it ends in the middle".to_owned()),
            Ok(count) => filled += count,
            Err(error) => return Err(format!("it can't be unpacked: {error}")),
        }
    }
    Ok(Block::Whole)
}

fn read_content(tar: &mut impl Read, size: u64) -> Result<Vec<u8>, String> {
    let padded = size.div_ceil(BLOCK as u64) * BLOCK as u64;
    let mut bytes = Vec::new();
    tar.take(padded)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("it can't be unpacked: {error}"))?;
    if (bytes.len() as u64) < padded {
        return Err("it ends in the middle".to_owned());
    }
    bytes.truncate(usize::try_from(size).map_err(|_| "it is too large".to_owned())?);
    Ok(bytes)
}

fn check_sum(header: &[u8; BLOCK]) -> Result<(), String> {
    let wanted = number(&header[148..156])?;
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(index, byte)| {
            if (148..156).contains(&index) {
                u64::from(b' ')
            } else {
                u64::from(*byte)
            }
        })
        .sum();
    if sum == wanted {
        Ok(())
    } else {
        Err("it is no tar archive, or a broken one".to_owned())
    }
}

/// An octal number. The binary form for sizes above 8 GB is refused: nothing here is that large.
fn number(field: &[u8]) -> Result<u64, String> {
    let text: String = field
        .iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| char::from(*byte))
        .collect();
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(text, 8).map_err(|_| "a number in it is broken".to_owned())
}

fn header_name(header: &[u8; BLOCK]) -> Result<String, String> {
    let text = |field: &[u8]| {
        let end = field
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(field.len());
        String::from_utf8(field[..end].to_vec()).map_err(|_| "a name in it is not UTF-8".to_owned())
    };
    let name = text(&header[..100])?;
    let prefix = if &header[257..262] == b"ustar" {
        text(&header[345..500])?
    } else {
        String::new()
    };
    Ok(if prefix.is_empty() {
        name
    } else {
        format!("{prefix}/{name}")
    })
}

/// The path of a pax header: records of `length key=value`.
fn extended_path(text: &str) -> Result<Option<String>, String> {
    let broken = || "a header in it is broken".to_owned();
    let mut rest = text;
    let mut path = None;
    while !rest.is_empty() {
        let (length, _) = rest.split_once(' ').ok_or_else(broken)?;
        let length: usize = length.parse().map_err(|_| broken())?;
        let record = rest.get(..length).ok_or_else(broken)?;
        let (_, record) = record.split_once(' ').ok_or_else(broken)?;
        let (key, value) = record
            .strip_suffix('\n')
            .and_then(|record| record.split_once('='))
            .ok_or_else(broken)?;
        match key {
            "path" => path = Some(value.to_owned()),
            // Would make the size of the entry another one than its header says.
            "size" => return Err("a file in it is too large".to_owned()),
            _ => {}
        }
        rest = rest.get(length..).ok_or_else(broken)?;
    }
    Ok(path)
}

/// A path without its first folder, held to the package.
fn package_path(name: &str) -> Result<PathBuf, String> {
    let clean = inside(name)?;
    let mut parts = clean.components();
    parts.next();
    let rest = parts.as_path();
    if rest.as_os_str().is_empty() {
        return Err(format!("{:?} is not in a folder", plain(name, 120)));
    }
    Ok(rest.to_path_buf())
}

fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(to: &Path, relative: &Path, bytes: &[u8], runs: bool) -> Result<(), String> {
    let target = to.join(relative);
    if let Some(parent) = target.parent() {
        make_folder(parent)?;
    }
    write_file(&target, bytes, runs).map_err(|error| format!("{}: {error}", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

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
        assert!(unpacked(&changed).unwrap_err().contains("broken"));
        let folder = tempfile::tempdir().unwrap();
        assert!(unpack(&b"not gzip"[..], folder.path(), Limits::default()).is_err());
    }
}
