//! DER, as far as a certificate needs it: a tag, a length, the content.

/// The tags that are used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tag {
    Integer,
    Octets,
    Identifier,
    Text,
    Set,
    /// A time with two digits for the year.
    ShortTime,
    Time,
    /// A plain value whose meaning the context gives.
    Context(u8),
    /// The same around other values.
    Constructed(u8),
}

impl Tag {
    fn byte(self) -> u8 {
        match self {
            Self::Integer => 0x02,
            Self::Octets => 0x04,
            Self::Identifier => 0x06,
            Self::Text => 0x0c,
            Self::Set => 0x31,
            Self::ShortTime => 0x17,
            Self::Time => 0x18,
            Self::Context(number) => 0x80 | number,
            Self::Constructed(number) => 0xa0 | number,
        }
    }
}

/// A value with its tag.
pub(crate) fn tagged(tag: Tag, content: &[u8]) -> Vec<u8> {
    with_byte(tag.byte(), content)
}

/// Values one after the other.
pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    with_byte(0x30, &parts.concat())
}

/// Bits whose number is a multiple of eight.
pub(crate) fn bits(content: &[u8]) -> Vec<u8> {
    with_byte(0x03, &[&[0], content].concat())
}

/// True.
pub(crate) fn yes() -> Vec<u8> {
    vec![1, 1, 0xff]
}

fn with_byte(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let all = length.to_be_bytes();
            let used: Vec<u8> = all.into_iter().skip_while(|&byte| byte == 0).collect();
            bytes.push(0x80 | u8::try_from(used.len()).unwrap_or(8));
            bytes.extend(used);
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_short_as_they_can_be() {
        for (length, head) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (255, &[4, 0x81, 255]),
            (256, &[4, 0x82, 1, 0]),
            (65_536, &[4, 0x83, 1, 0, 0]),
        ] {
            let made = tagged(Tag::Octets, &vec![0; length]);
            assert_eq!(&made[..head.len()], head);
            assert_eq!(made.len(), head.len() + length);
        }
    }
}
