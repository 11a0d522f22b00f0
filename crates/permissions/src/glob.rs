//! Matching names with the patterns of shells and programs, on the wide side.
//!
//! A pattern decides which files a command would read. Shells and programs differ in what they make of character
//! classes, ranges and bytes that are no text; here a pattern matches at least what any of them makes it match, and
//! one that isn't understood matches every name.

/// Whether a pattern could match a name. A backslash takes the meaning of a special character away.
pub(crate) fn could_match(pattern: &str, name: &str) -> bool {
    // What is one character to one is several to another.
    if !name.is_ascii() || !pattern.is_ascii() {
        return true;
    }
    match pieces(pattern) {
        Some(pieces) => fits(&pieces, name.as_bytes()),
        None => true,
    }
}

/// Whether a text has special characters.
pub(crate) fn is_pattern(text: &str) -> bool {
    first_special(text).is_some()
}

/// Where the first special character stands.
pub(crate) fn first_special(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let special = !escaped && matches!(character, '*' | '?' | '[' | '{');
        escaped = !escaped && character == '\\';
        special.then_some(at)
    })
}

/// The text without its escapes.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain
}

enum Piece {
    /// A character, in either case.
    One(u8),
    Any,
    /// One of these, or none of these.
    Set {
        ranges: Vec<(u8, u8)>,
        negated: bool,
    },
    Star,
}

/// The pieces of a pattern; none for one that isn't understood.
fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let bytes = pattern.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        at += 1;
        match byte {
            b'\\' => {
                pieces.push(Piece::One(bytes.get(at)?.to_ascii_lowercase()));
                at += 1;
            }
            b'*' => pieces.push(Piece::Star),
            b'?' => pieces.push(Piece::Any),
            b'[' => {
                let end = at + bytes.get(at..)?.iter().position(|byte| *byte == b']')?;
                pieces.push(set(bytes.get(at..end)?)?);
                at = end + 1;
            }
            b'{' => return None,
            other => pieces.push(Piece::One(other.to_ascii_lowercase())),
        }
    }
    Some(pieces)
}

/// A set of plain characters and ranges. Anything else in brackets isn't understood.
fn set(inside: &[u8]) -> Option<Piece> {
    let (negated, inside) = match inside.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, inside),
    };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if inside.is_empty() || !inside.iter().all(plain) {
        return None;
    }
    // Where letters differ by case only, and in the order of another language, a range has more than it says.
    if negated && inside.contains(&b'-') {
        return Some(Piece::Any);
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(first) = inside.get(at).copied() {
        match (inside.get(at + 1), inside.get(at + 2)) {
            (Some(b'-'), Some(last)) => {
                let letters = first.is_ascii_alphabetic() && last.is_ascii_alphabetic();
                let digits = first.is_ascii_digit() && last.is_ascii_digit();
                if letters {
                    ranges.push((b'a', b'z'));
                } else if digits {
                    ranges.push((first.min(*last), first.max(*last)));
                } else {
                    return None;
                }
                at += 3;
            }
            _ => {
                let lower = first.to_ascii_lowercase();
                ranges.push((lower, lower));
                at += 1;
            }
        }
    }
    Some(Piece::Set { ranges, negated })
}

fn fits(pieces: &[Piece], name: &[u8]) -> bool {
    // The usual matching with one point to come back to.
    let (mut piece, mut at) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while at < name.len() || piece < pieces.len() {
        let fits = match (pieces.get(piece), name.get(at)) {
            (Some(Piece::Star), _) => {
                back = Some((piece, at));
                piece += 1;
                continue;
            }
            (Some(one), Some(byte)) => one.fits(byte.to_ascii_lowercase()),
            _ => false,
        };
        if fits {
            piece += 1;
            at += 1;
            continue;
        }
        match back {
            Some((star, from)) if from < name.len() => {
                back = Some((star, from + 1));
                piece = star + 1;
                at = from + 1;
            }
            _ => return false,
        }
    }
    true
}

impl Piece {
    fn fits(&self, byte: u8) -> bool {
        match self {
            Piece::One(wanted) => *wanted == byte,
            Piece::Any | Piece::Star => true,
            Piece::Set { ranges, negated } => {
                let inside = ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&byte));
                // A letter that a negated set names may be there in the other case.
                if *negated {
                    !inside || byte.is_ascii_alphabetic()
                } else {
                    inside
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::could_match;

    #[test]
    fn patterns_match_what_shells_make_of_them() {
        for (pattern, name) in [
            ("*.rs", "a.rs"),
            (".en?", ".env"),
            (".e*v", ".env"),
            (".en[v]", ".env"),
            (".en[a-z]", ".env"),
            (".en[[:lower:]]", ".env"),
            (".en[!x]", ".env"),
            (".en[^A-Z]", ".env"),
            (".en[\\v]", ".env"),
            (".en[]v]", ".env"),
            ("a\\*b", "a*b"),
            ("*", "é"),
            ("**", "abc"),
            ("*a*b*", "xxaxxbxx"),
        ] {
            assert!(could_match(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.rs", "a.py"),
            ("a\\*b", "axb"),
            (".en[xyz]", ".env"),
            ("[0-9]*", "a1"),
            ("?", "ab"),
            ("", "a"),
        ] {
            assert!(!could_match(pattern, name), "{pattern} {name}");
        }
    }
}
