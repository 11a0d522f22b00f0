//! Where something is: addresses of files, and places in them.
//!
//! People and models count lines and characters from 1. Servers count from 0, and within a line in units that
//! are agreed upon at the start: bytes, UTF-16 units or characters.

use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The units that a server counts in within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Bytes of UTF-8.
    Utf8,
    /// Units of UTF-16: what holds where nothing was agreed.
    #[default]
    Utf16,
    /// Characters.
    Utf32,
}

impl Encoding {
    /// By its name in the protocol.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Self::Utf8),
            "utf-16" => Some(Self::Utf16),
            "utf-32" => Some(Self::Utf32),
            _ => None,
        }
    }

    fn units(self, character: char) -> u32 {
        let units = match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        };
        u32::try_from(units).unwrap_or(1)
    }

    /// How many units lie before a character, which is counted from 1. Behind the end is the end.
    #[must_use]
    pub fn offset(self, line: &str, column: u32) -> u32 {
        let before = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
        line.chars()
            .take(before)
            .map(|character| self.units(character))
            .sum()
    }

    /// Which character, counted from 1, an offset points at.
    #[must_use]
    pub fn column(self, line: &str, offset: u32) -> u32 {
        let mut column: u32 = 1;
        let mut passed: u32 = 0;
        for character in line.chars() {
            if passed >= offset {
                return column;
            }
            passed = passed.saturating_add(self.units(character));
            column = column.saturating_add(1);
        }
        column
    }
}

/// The `file:` address of an absolute path.
#[must_use]
pub fn to_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            other => {
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    uri
}

/// The path of a `file:` address; `None` for any other.
#[must_use]
pub fn from_uri(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    if !rest.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let Some((first, others)) = left.split_first() {
        left = others;
        let escaped = (*first == b'%')
            .then(|| left.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                left = &left[2..];
            }
            None => bytes.push(*first),
        }
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_were() {
        for path in ["/a/b.rs", "/with space/ü/%41.py", "/a#b?c"] {
            let path = Path::new(path);
            assert_eq!(from_uri(&to_uri(path)).as_deref(), Some(path));
        }
        assert_eq!(to_uri(Path::new("/a b")), "file:///a%20b");
        assert_eq!(
            from_uri("file://localhost/x%zz"),
            Some(PathBuf::from("/x%zz"))
        );
        assert_eq!(from_uri("untitled:1"), None);
        assert_eq!(from_uri("file://host/x"), None);
    }

    #[test]
    fn characters_are_counted_in_the_units_that_were_agreed() {
        let line = "é😀x";
        for (encoding, offset) in [
            (Encoding::Utf8, 6),
            (Encoding::Utf16, 3),
            (Encoding::Utf32, 2),
        ] {
            assert_eq!(encoding.offset(line, 3), offset, "{encoding:?}");
            assert_eq!(encoding.column(line, offset), 3, "{encoding:?}");
            assert_eq!(encoding.offset(line, 1), 0);
            assert_eq!(encoding.column(line, 0), 1);
            // Behind the end.
            assert_eq!(encoding.column(line, 99), 4);
            assert_eq!(encoding.offset(line, 99), encoding.offset(line, 4));
        }
        // In the middle of a pair.
        assert_eq!(Encoding::Utf16.column(line, 2), 3);
    }
}
