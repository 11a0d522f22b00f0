//! Keys, and how they are written down.
//!
//! One notation serves `keybindings.json`, the help and the tests: `ctrl+a`, `alt+enter`, `shift+tab`,
//! `f5`, `?`.

use std::fmt;
use std::str::FromStr;

/// Which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Code {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Insert,
    Esc,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Function(u8),
}

/// A key as it was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) code: Code,
    pub(crate) ctrl: bool,
    pub(crate) alt: bool,
    pub(crate) shift: bool,
}

impl Key {
    pub(crate) const fn new(code: Code) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    pub(crate) const fn char(c: char) -> Self {
        Self::new(Code::Char(c))
    }

    pub(crate) const fn ctrl(c: char) -> Self {
        let mut key = Self::char(c);
        key.ctrl = true;
        key
    }

    /// The character that it types, if it types one.
    pub(crate) fn typed(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// Whether it is this key without modifiers.
    pub(crate) fn is(self, code: Code) -> bool {
        self == Self::new(code)
    }
}

const NAMES: &[(&str, Code)] = &[
    ("enter", Code::Enter),
    ("return", Code::Enter),
    ("tab", Code::Tab),
    ("backspace", Code::Backspace),
    ("delete", Code::Delete),
    ("insert", Code::Insert),
    ("esc", Code::Esc),
    ("escape", Code::Esc),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("pageup", Code::PageUp),
    ("pagedown", Code::PageDown),
    ("space", Code::Char(' ')),
    ("plus", Code::Char('+')),
];

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, name) in [
            (self.ctrl, "ctrl+"),
            (self.alt, "alt+"),
            (self.shift, "shift+"),
        ] {
            if on {
                f.write_str(name)?;
            }
        }
        match self.code {
            Code::Function(number) => write!(f, "f{number}"),
            Code::Char(c) if c != ' ' && c != '+' => write!(f, "{c}"),
            code => {
                let name = NAMES
                    .iter()
                    .find(|(_, named)| *named == code)
                    .map_or("?", |(name, _)| name);
                f.write_str(name)
            }
        }
    }
}

/// A text that names no key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a key; keys are written like ctrl+a, alt+enter, shift+tab, f5, ?")]
pub(crate) struct NotAKey(pub(crate) String);

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let wrong = || NotAKey(text.to_owned());
        let mut key = Self::char(' ');
        let mut rest = text;
        loop {
            let lower = rest.to_lowercase();
            let Some((modifier, length)) =
                ["ctrl+", "control+", "alt+", "meta+", "option+", "shift+"]
                    .iter()
                    .find(|name| lower.starts_with(**name) && lower.len() > name.len())
                    .map(|name| (*name, name.len()))
            else {
                break;
            };
            match modifier {
                "ctrl+" | "control+" => key.ctrl = true,
                "shift+" => key.shift = true,
                _ => key.alt = true,
            }
            rest = rest.get(length..).ok_or_else(wrong)?;
        }
        let lower = rest.to_lowercase();
        let mut chars = rest.chars();
        key.code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() => {
                if key.ctrl || key.alt {
                    Code::Char(c.to_ascii_lowercase())
                } else {
                    Code::Char(c)
                }
            }
            _ => {
                if let Some((_, code)) = NAMES.iter().find(|(name, _)| *name == lower) {
                    *code
                } else {
                    let number: u8 = lower
                        .strip_prefix('f')
                        .and_then(|number| number.parse().ok())
                        .filter(|number| (1..=24).contains(number))
                        .ok_or_else(wrong)?;
                    Code::Function(number)
                }
            }
        };
        Ok(key)
    }
}

/// Keys as tests write them: characters are themselves, everything else stands in `<…>`.
#[cfg(test)]
pub(crate) fn keys(text: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let named = (c == '<')
            .then(|| {
                rest.match_indices('>')
                    .take(2)
                    .filter(|(end, _)| *end > 1)
                    .find_map(|(end, _)| Some((rest[1..end].parse::<Key>().ok()?, end)))
            })
            .flatten();
        if let Some((key, end)) = named {
            keys.push(key);
            rest = &rest[end + 1..];
            continue;
        }
        keys.push(if c == '\n' {
            Key::new(Code::Enter)
        } else {
            Key::char(c)
        });
        rest = &rest[c.len_utf8()..];
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back_as_it_is_written() {
        for text in [
            "ctrl+a",
            "alt+enter",
            "shift+tab",
            "f5",
            "?",
            "space",
            "ctrl+alt+x",
            "G",
            "plus",
            "ctrl+_",
        ] {
            let key: Key = text.parse().unwrap();
            assert_eq!(key.to_string(), text);
        }
        assert_eq!(
            "Ctrl+Shift+K".parse::<Key>().unwrap().to_string(),
            "ctrl+shift+k"
        );
        assert!(
            "ctrl+nokey"
                .parse::<Key>()
                .unwrap_err()
                .to_string()
                .contains("ctrl+a")
        );
        assert!("".parse::<Key>().is_err());
    }
}
