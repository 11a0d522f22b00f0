//! Keys by their names, and the bytes that a terminal sends for them.

/// The name of a key that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown key {0:?}; keys are Enter, Tab, Escape, Space, Backspace, Delete, Insert, Up, Down, Left, Right, Home, End, PageUp, PageDown, F1 to F12, C-a to C-z (ctrl) and M-x (alt)"
)]
pub struct UnknownKey(pub String);

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalKey {
    /// Ends a line.
    Enter,
    /// Ctrl with a letter, in lower case.
    Control(char),
    /// Alt with a character.
    Alt(char),
    /// The key that says where to go: `A` is up, and so on in the terminal's own letters.
    Cursor(char),
    /// Any other key with fixed bytes.
    Fixed(&'static str),
}

/// Keys with fixed bytes.
const FIXED: &[(&str, &str)] = &[
    ("tab", "\t"),
    ("escape", "\x1b"),
    ("esc", "\x1b"),
    ("space", " "),
    ("backspace", "\x7f"),
    ("delete", "\x1b[3~"),
    ("insert", "\x1b[2~"),
    ("pageup", "\x1b[5~"),
    ("pagedown", "\x1b[6~"),
    ("s-tab", "\x1b[Z"),
    ("f1", "\x1bOP"),
    ("f2", "\x1bOQ"),
    ("f3", "\x1bOR"),
    ("f4", "\x1bOS"),
    ("f5", "\x1b[15~"),
    ("f6", "\x1b[17~"),
    ("f7", "\x1b[18~"),
    ("f8", "\x1b[19~"),
    ("f9", "\x1b[20~"),
    ("f10", "\x1b[21~"),
    ("f11", "\x1b[23~"),
    ("f12", "\x1b[24~"),
];

impl std::str::FromStr for TerminalKey {
    type Err = UnknownKey;

    fn from_str(name: &str) -> Result<Self, UnknownKey> {
        let lower = name.to_ascii_lowercase();
        let single = |rest: &str| {
            let mut characters = rest.chars();
            characters.next().filter(|_| characters.next().is_none())
        };
        match lower.as_str() {
            "enter" | "return" => return Ok(Self::Enter),
            "up" => return Ok(Self::Cursor('A')),
            "down" => return Ok(Self::Cursor('B')),
            "right" => return Ok(Self::Cursor('C')),
            "left" => return Ok(Self::Cursor('D')),
            "home" => return Ok(Self::Cursor('H')),
            "end" => return Ok(Self::Cursor('F')),
            _ => {}
        }
        if let Some((_, bytes)) = FIXED.iter().find(|(known, _)| *known == lower) {
            return Ok(Self::Fixed(bytes));
        }
        let unknown = || UnknownKey(name.to_owned());
        let control = lower
            .strip_prefix("c-")
            .or_else(|| lower.strip_prefix("ctrl+"));
        if let Some(rest) = control {
            return single(rest)
                .filter(|c| c.is_ascii_lowercase() || "@[\\]^_".contains(*c))
                .map(Self::Control)
                .ok_or_else(unknown);
        }
        let alt = name
            .strip_prefix("M-")
            .or_else(|| name.strip_prefix("alt+"));
        alt.and_then(single)
            .filter(|c| !c.is_control())
            .map(Self::Alt)
            .ok_or_else(unknown)
    }
}

impl TerminalKey {
    /// The bytes; cursor keys have others while a program asks for that.
    #[must_use]
    pub fn bytes(self, application_cursor: bool) -> Vec<u8> {
        match self {
            Self::Enter => b"\r".to_vec(),
            Self::Control(letter) => {
                let byte = u8::try_from(letter).unwrap_or_default();
                vec![byte.to_ascii_uppercase() & 0x1f]
            }
            Self::Alt(character) => format!("\x1b{character}").into_bytes(),
            Self::Cursor(letter) if application_cursor => format!("\x1bO{letter}").into_bytes(),
            Self::Cursor(letter) => format!("\x1b[{letter}").into_bytes(),
            Self::Fixed(text) => text.as_bytes().to_vec(),
        }
    }

    /// Whether it only interrupts or ends: ctrl+c, ctrl+d and ctrl+z.
    #[must_use]
    pub fn only_ends(self) -> bool {
        matches!(self, Self::Control('c' | 'd' | 'z'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names_and_bytes() {
        for (name, bytes) in [
            ("Enter", "\r"),
            ("C-c", "\x03"),
            ("ctrl+D", "\x04"),
            ("C-[", "\x1b"),
            ("Escape", "\x1b"),
            ("Up", "\x1b[A"),
            ("End", "\x1b[F"),
            ("F5", "\x1b[15~"),
            ("M-x", "\x1bx"),
            ("M-X", "\x1bX"),
        ] {
            let key: TerminalKey = name.parse().unwrap();
            assert_eq!(key.bytes(false), bytes.as_bytes(), "{name}");
        }
        let up: TerminalKey = "up".parse().unwrap();
        assert_eq!(up.bytes(true), b"\x1bOA");
        for name in ["", "C-", "C-cc", "C-é", "F13", "q", "M-"] {
            assert!(name.parse::<TerminalKey>().is_err(), "{name}");
        }
    }
}
