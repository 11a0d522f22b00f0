//! Text as it lies on disk: which encoding, which line ends, and back again without a lost byte.
//!
//! A file is decoded to text, changed there, and encoded the way it was. Decoding and encoding are
//! inverse for every file that [`decode`] accepts, so a change touches what it means to touch and
//! nothing else. A file for which that can't be promised is refused.

use std::borrow::Cow;

/// How the characters of a text file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8 without a mark.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8WithMark,
    /// UTF-16, little end first, with a byte order mark.
    Utf16Little,
    /// UTF-16, big end first, with a byte order mark.
    Utf16Big,
    /// UTF-16, little endian, without a byte order mark: detected by its zero bytes.
    PlainUtf16Little,
    /// UTF-16, big end first, without a mark.
    PlainUtf16Big,
    /// One byte a character: Latin-1, in the Windows-1252 form that has no gaps.
    Latin1,
}

impl Encoding {
    /// The name that people know it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf8WithMark => "UTF-8 with BOM",
            Self::Utf16Little | Self::PlainUtf16Little => "UTF-16LE",
            Self::Utf16Big | Self::PlainUtf16Big => "UTF-16BE",
            Self::Latin1 => "Latin-1",
        }
    }

    /// The encoding that a byte order mark at the start of a file says, and the mark's length.
    #[must_use]
    pub fn of_mark(start: &[u8]) -> Option<(Self, usize)> {
        match start {
            [0xEF, 0xBB, 0xBF, ..] => Some((Self::Utf8WithMark, 3)),
            [0xFF, 0xFE, ..] => Some((Self::Utf16Little, 2)),
            [0xFE, 0xFF, ..] => Some((Self::Utf16Big, 2)),
            _ => None,
        }
    }

    /// The encoding that the start of a file tells, by a mark or, for UTF-16 without one, by where its
    /// zeros are. Anything else is told by the whole file.
    #[must_use]
    pub fn of_start(start: &[u8]) -> Option<(Self, usize)> {
        let start = start.get(..LOOKED_AT).unwrap_or(start);
        Self::of_mark(start).or_else(|| {
            [
                (
                    Self::PlainUtf16Little,
                    u16::from_le_bytes as fn([u8; 2]) -> u16,
                ),
                (Self::PlainUtf16Big, u16::from_be_bytes),
            ]
            .into_iter()
            .find(|(_, unit)| is_plain_utf16(start, *unit))
            .map(|(encoding, _)| (encoding, 0))
        })
    }

    /// Whether a character takes two bytes or four.
    #[must_use]
    pub fn is_utf16(self) -> bool {
        matches!(
            self,
            Self::Utf16Little | Self::Utf16Big | Self::PlainUtf16Little | Self::PlainUtf16Big
        )
    }

    fn is_little(self) -> bool {
        matches!(self, Self::Utf16Little | Self::PlainUtf16Little)
    }
}

/// How much of a file is looked at to tell what it is.
const LOOKED_AT: usize = 8192;

/// Whether bytes read two by two are text for the most part of ASCII, with nothing that text doesn't hold.
/// Programs, pictures and archives have zeros in other places too.
fn is_plain_utf16(start: &[u8], unit: fn([u8; 2]) -> u16) -> bool {
    if start.len() < 4 || (start.len() < LOOKED_AT && !start.len().is_multiple_of(2)) {
        return false;
    }
    let (mut all, mut ascii) = (0_usize, 0_usize);
    for pair in start.chunks_exact(2) {
        all += 1;
        match unit([pair[0], pair[1]]) {
            0x09 | 0x0A | 0x0C | 0x0D | 0x20..=0x7E => ascii += 1,
            0..=0x1F | 0x7F..=0x9F | 0xFFFE | 0xFFFF => return false,
            _ => {}
        }
    }
    ascii * 4 >= all * 3
}

/// Why bytes are not text, or text can't be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// Half a character at the end, or half a pair.
    #[error("it starts as {0} but contains bytes that are invalid in {0}")]
    Malformed(&'static str),
    /// The file's encoding has no such character.
    #[error(
        "the file is encoded as {encoding}, which can't represent '{character}'; convert the file first (iconv) or omit that character"
    )]
    NoSuchCharacter {
        /// The encoding.
        encoding: &'static str,
        /// The character.
        character: char,
    },
}

/// Whether the start of a file looks like something other than text: it holds a NUL that UTF-16 doesn't
/// explain.
#[must_use]
pub fn looks_binary(start: &[u8]) -> bool {
    memchr::memchr(0, start.get(..LOOKED_AT).unwrap_or(start)).is_some()
        && !Encoding::of_start(start).is_some_and(|(encoding, _)| encoding.is_utf16())
}

/// Decodes a whole file. The mark, if any, is not part of the text.
///
/// # Errors
/// When the bytes contradict the file's own mark, so that encoding the text again would give other
/// bytes.
pub fn decode(bytes: &[u8]) -> Result<(Cow<'_, str>, Encoding), EncodingError> {
    match Encoding::of_start(bytes) {
        Some((encoding, mark)) if encoding.is_utf16() => {
            let body = bytes.get(mark..).unwrap_or_default();
            let malformed = || EncodingError::Malformed(encoding.name());
            if body.len() % 2 != 0 {
                return Err(malformed());
            }
            let units = body.chunks_exact(2).map(|pair| {
                let pair = [pair[0], pair[1]];
                if encoding.is_little() {
                    u16::from_le_bytes(pair)
                } else {
                    u16::from_be_bytes(pair)
                }
            });
            let mut text = String::with_capacity(body.len() / 2);
            for character in char::decode_utf16(units) {
                text.push(character.map_err(|_| malformed())?);
            }
            Ok((Cow::Owned(text), encoding))
        }
        Some((encoding, mark)) => {
            let body = bytes.get(mark..).unwrap_or_default();
            std::str::from_utf8(body)
                .map(|text| (Cow::Borrowed(text), encoding))
                .map_err(|_| EncodingError::Malformed(encoding.name()))
        }
        None => Ok(match std::str::from_utf8(bytes) {
            Ok(text) => (Cow::Borrowed(text), Encoding::Utf8),
            Err(_) => (decode_latin1(bytes), Encoding::Latin1),
        }),
    }
}

/// Decodes one byte a character. Every byte has a character and every such character its byte.
#[must_use]
pub fn decode_latin1(bytes: &[u8]) -> Cow<'_, str> {
    let (text, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes);
    text
}

/// Encodes text the way the file had it.
///
/// # Errors
/// When the encoding has no place for a character of the text.
pub fn encode(text: &str, encoding: Encoding) -> Result<Vec<u8>, EncodingError> {
    Ok(match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Utf8WithMark => [&[0xEF, 0xBB, 0xBF], text.as_bytes()].concat(),
        Encoding::Utf16Little => [0xFF, 0xFE]
            .into_iter()
            .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
            .collect(),
        Encoding::Utf16Big => [0xFE, 0xFF]
            .into_iter()
            .chain(text.encode_utf16().flat_map(u16::to_be_bytes))
            .collect(),
        Encoding::PlainUtf16Little => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Encoding::PlainUtf16Big => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Encoding::Latin1 => {
            let mut encoder = encoding_rs::WINDOWS_1252.new_encoder();
            let room = encoder
                .max_buffer_length_from_utf8_without_replacement(text.len())
                .unwrap_or(text.len());
            let mut bytes = Vec::with_capacity(room);
            match encoder
                .encode_from_utf8_to_vec_without_replacement(text, &mut bytes, true)
                .0
            {
                encoding_rs::EncoderResult::InputEmpty => {}
                encoding_rs::EncoderResult::Unmappable(character) => {
                    return Err(EncodingError::NoSuchCharacter {
                        encoding: encoding.name(),
                        character,
                    });
                }
                encoding_rs::EncoderResult::OutputFull => {
                    return Err(EncodingError::Malformed(encoding.name()));
                }
            }
            bytes
        }
    })
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`
    Lf,
    /// `\r\n`
    Crlf,
}

/// The way most lines of a text end; `\n` when there is none.
#[must_use]
pub fn line_end_of(text: &str) -> LineEnd {
    let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let crlf = memchr::memmem::find_iter(text.as_bytes(), b"\r\n").count();
    if crlf * 2 > all {
        LineEnd::Crlf
    } else {
        LineEnd::Lf
    }
}

/// The text with every line end made `\n`.
#[must_use]
pub fn with_lf(text: &str) -> Cow<'_, str> {
    if memchr::memmem::find(text.as_bytes(), b"\r\n").is_none() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.replace("\r\n", "\n"))
    }
}

/// The text with every line end made as given.
#[must_use]
pub fn with_line_end(text: &str, line_end: LineEnd) -> Cow<'_, str> {
    match line_end {
        LineEnd::Lf => with_lf(text),
        LineEnd::Crlf => Cow::Owned(with_lf(text).replace('\n', "\r\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_decides_the_encoding() {
        let (text, encoding) = decode(b"\xEF\xBB\xBFhi").unwrap();
        assert_eq!((text.as_ref(), encoding), ("hi", Encoding::Utf8WithMark));
        let (text, encoding) = decode(b"\xFF\xFEh\0i\0").unwrap();
        assert_eq!((text.as_ref(), encoding), ("hi", Encoding::Utf16Little));
        let (text, encoding) = decode(b"\xFE\xFF\0h\0i").unwrap();
        assert_eq!((text.as_ref(), encoding), ("hi", Encoding::Utf16Big));
    }

    #[test]
    fn what_is_no_utf8_is_latin1() {
        let (text, encoding) = decode(b"caf\xE9 \x80").unwrap();
        assert_eq!((text.as_ref(), encoding), ("café €", Encoding::Latin1));
        let error = encode("→", Encoding::Latin1).unwrap_err().to_string();
        assert!(error.contains('→') && error.contains("Latin-1"), "{error}");
    }

    #[test]
    fn utf16_without_a_mark_is_told_by_its_zeros() {
        let line = "name = \"Zoë\"\r\n";
        let little: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = line.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (bytes, expected) in [
            (&little, Encoding::PlainUtf16Little),
            (&big, Encoding::PlainUtf16Big),
        ] {
            assert!(!looks_binary(bytes));
            let (text, encoding) = decode(bytes).unwrap();
            assert_eq!((text.as_ref(), encoding), (line, expected));
            assert_eq!(encode(&text, encoding).unwrap(), *bytes);
        }
        // Numbers of two bytes, a program's start, and text with a stray NUL are none.
        for other in [
            &b"\x01\0\x02\0\x03\0"[..],
            b"\x7fELF\x02\x01\x01\0\0\0\0\0",
            b"plain text\0and more",
            b"a\0b\0\0\0c\0",
        ] {
            assert!(looks_binary(other), "{other:?}");
        }
    }

    #[test]
    fn broken_utf16_is_refused() {
        assert!(decode(b"\xFF\xFEh").is_err());
        assert!(decode(b"\xFF\xFE\x00\xD8h\0").is_err());
    }

    #[test]
    fn a_nul_without_a_mark_is_binary() {
        assert!(looks_binary(b"ab\0c"));
        assert!(!looks_binary(b"\xFF\xFEh\0"));
        assert!(!looks_binary("naïve".as_bytes()));
    }

    #[test]
    fn the_majority_of_line_ends_decides() {
        assert_eq!(line_end_of("a\r\nb\r\nc\n"), LineEnd::Crlf);
        assert_eq!(line_end_of("a\nb\r\n"), LineEnd::Lf);
        assert_eq!(line_end_of("a"), LineEnd::Lf);
        assert_eq!(with_line_end("a\nb\r\n", LineEnd::Crlf), "a\r\nb\r\n");
    }

    proptest! {
        #[test]
        fn every_file_that_decodes_encodes_to_the_same_bytes(
            mark in prop_oneof![
                Just(&b""[..]), Just(&b"\xEF\xBB\xBF"[..]), Just(&b"\xFF\xFE"[..]), Just(&b"\xFE\xFF"[..])
            ],
            body in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let bytes = [mark, &body].concat();
            if let Ok((text, encoding)) = decode(&bytes) {
                prop_assert_eq!(encode(&text, encoding).unwrap(), bytes);
            }
        }
    }
}
