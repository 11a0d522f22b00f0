//! git's index, looked through for repositories inside the repository.

use std::path::Path;

/// The mode of an entry that is another repository.
const GITLINK: u32 = 0o160_000;

/// The entry of an index that makes git enter another repository, if there is one.
pub(super) fn problem(file: &Path) -> Option<String> {
    let bytes = match lathe_settings::regular_file::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("`{}`: {error}", file.display())),
    };
    match has_gitlink(&bytes) {
        Some(false) => None,
        Some(true) => {
            Some("there is another repository inside it, which git would enter".to_owned())
        }
        None => Some(format!("`{}` isn't understood", file.display())),
    }
}

/// The names in an index, from the top of the worktree; none when it isn't understood.
pub(super) fn names(bytes: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    walk(bytes, &mut |_, name| {
        names.push(String::from_utf8_lossy(name).into_owned());
    })?;
    Some(names)
}

/// Whether an entry is another repository; none when the index isn't understood.
fn has_gitlink(bytes: &[u8]) -> Option<bool> {
    let mut found = false;
    walk(bytes, &mut |mode, _| found |= mode & 0o170_000 == GITLINK)?;
    Some(found)
}

/// Goes through the entries of an index: their modes and names. None when it isn't understood.
fn walk(bytes: &[u8], each: &mut dyn FnMut(u32, &[u8])) -> Option<()> {
    let number = |at: usize| -> Option<u32> {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(four))
    };
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = number(8)?;
    let mut at = 12;
    let mut previous: Vec<u8> = Vec::new();
    // Objects are named by twenty bytes, or by 32 in a newer format, which isn't said here: with the wrong length the
    // names don't end where they should, and the index isn't understood.
    for _ in 0..count {
        let start = at;
        let mode = number(at + 24)?;
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        at += 62;
        if flags & 0x4000 != 0 {
            if version < 3 {
                return None;
            }
            at += 2;
        }
        if version == 4 {
            // How much of the name before is kept, then the rest of the name.
            let mut dropped = usize::from(bytes.get(at)? & 0x7f);
            while bytes.get(at)? & 0x80 != 0 {
                at += 1;
                dropped = ((dropped + 1) << 7) | usize::from(bytes.get(at)? & 0x7f);
            }
            at += 1;
            let length = bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
            previous.truncate(previous.len().checked_sub(dropped)?);
            previous.extend_from_slice(bytes.get(at..at + length)?);
            at += length + 1;
            each(mode, &previous);
        } else {
            let length = bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
            let expected = usize::from(flags & 0x0fff);
            if length == 0 || (expected < 0x0fff && length != expected) {
                return None;
            }
            each(mode, bytes.get(at..at + length)?);
            at += length;
            // Padded with NULs to a multiple of eight.
            let used = at - start;
            let padded = (used + 8) / 8 * 8;
            at = start + padded;
        }
    }
    // A shared index keeps further entries in another file.
    while bytes.len() >= at + 8 + 20 {
        let name = bytes.get(at..at + 4)?;
        if name == b"link" {
            return None;
        }
        at += 8 + usize::try_from(number(at + 4)?).ok()?;
    }
    Some(())
}
