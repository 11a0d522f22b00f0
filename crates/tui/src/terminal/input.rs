//! From the terminal's bytes to keys, pastes and reports. A pure state machine: bytes may come in
//! any pieces.

use crate::terminal::key::{Code, Key};

/// Input from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Key(Key),
    Paste(String),
    FocusGained,
    FocusLost,
    /// The terminal speaks the Kitty keyboard protocol.
    KittyKeyboard,
    /// The background colour, from 0 (black) to 1 (white) times 255.
    Background(u8),
    /// The terminal shows images by the Kitty protocol.
    KittyGraphics,
    /// Height and width of a character in pixels.
    CellSize(u16, u16),
    /// The terminal named its abilities. Every terminal answers this question.
    Attributes {
        sixel: bool,
    },
}

const PASTE_END: &[u8] = b"\x1b[201~";

/// The state between pieces.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl Parser {
    /// Whether something waits for more bytes that may be an escape key on its own.
    pub(crate) fn waits(&self) -> bool {
        self.paste.is_none() && self.pending.first() == Some(&0x1b)
    }

    /// Whether it is in the middle of a paste or a sequence.
    pub(crate) fn is_inside(&self) -> bool {
        self.paste.is_some() || !self.pending.is_empty()
    }

    /// Takes bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Input>) {
        self.pending.extend_from_slice(bytes);
        self.drain(false, out);
    }

    /// Nothing more came for a moment: what waits is what it is.
    pub(crate) fn flush(&mut self, out: &mut Vec<Input>) {
        self.drain(true, out);
    }

    fn drain(&mut self, flush: bool, out: &mut Vec<Input>) {
        loop {
            if let Some(paste) = &mut self.paste {
                let end = find(&self.pending, PASTE_END);
                match end {
                    Some(at) => {
                        paste.extend_from_slice(&self.pending[..at]);
                        self.pending.drain(..at + PASTE_END.len());
                        let text = pasted(paste);
                        self.paste = None;
                        out.push(Input::Paste(text));
                        continue;
                    }
                    None => {
                        // The end mark may be cut in two.
                        let keep = (1..PASTE_END.len())
                            .rev()
                            .find(|length| self.pending.ends_with(&PASTE_END[..*length]))
                            .unwrap_or(0);
                        let take = self.pending.len() - keep;
                        paste.extend(self.pending.drain(..take));
                        return;
                    }
                }
            }
            if self.pending.is_empty() {
                return;
            }
            match step(&self.pending, flush) {
                Step::Wait => return,
                Step::Skip(length) => {
                    self.pending.drain(..length);
                }
                Step::Paste(length) => {
                    self.pending.drain(..length);
                    self.paste = Some(Vec::new());
                }
                Step::Got(length, input) => {
                    self.pending.drain(..length);
                    out.push(input);
                }
            }
        }
    }
}

/// The text of a paste: terminals send enter for a line end.
pub(crate) fn pasted(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .replace("\r\n", "\n")
        .replace('\r', "\n")
}

enum Step {
    Wait,
    Skip(usize),
    Paste(usize),
    Got(usize, Input),
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn key(length: usize, code: Code) -> Step {
    Step::Got(length, Input::Key(Key::new(code)))
}

fn step(bytes: &[u8], flush: bool) -> Step {
    let first = bytes.first().copied().unwrap_or_default();
    match first {
        0x1b => escape(bytes, flush),
        b'\r' => key(1, Code::Enter),
        // Ctrl+J; also what a terminal without raw mode sends for Enter.
        b'\n' => Step::Got(1, Input::Key(Key::ctrl('j'))),
        b'\t' => key(1, Code::Tab),
        0x7f => key(1, Code::Backspace),
        0x08 => Step::Got(
            1,
            Input::Key(Key {
                ctrl: true,
                ..Key::new(Code::Backspace)
            }),
        ),
        0x00 => Step::Got(1, Input::Key(Key::ctrl(' '))),
        0x01..=0x1a => Step::Got(1, Input::Key(Key::ctrl((first - 1 + b'a') as char))),
        0x1c => Step::Got(1, Input::Key(Key::ctrl('\\'))),
        0x1d => Step::Got(1, Input::Key(Key::ctrl(']'))),
        0x1e => Step::Got(1, Input::Key(Key::ctrl('^'))),
        0x1f => Step::Got(1, Input::Key(Key::ctrl('_'))),
        _ => character(bytes, flush),
    }
}

fn character(bytes: &[u8], flush: bool) -> Step {
    let length = match bytes.first().copied().unwrap_or_default() {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Step::Skip(1),
    };
    if bytes.len() < length {
        return if flush {
            Step::Skip(bytes.len())
        } else {
            Step::Wait
        };
    }
    match std::str::from_utf8(&bytes[..length])
        .ok()
        .and_then(|text| text.chars().next())
    {
        // A control character in two bytes is no key.
        Some(c) if c.is_control() => Step::Skip(length),
        Some(c) => key(length, Code::Char(c)),
        None => Step::Skip(1),
    }
}

/// The key with Alt held. A capital is the small letter with Shift, as terminals with the Kitty protocol send it
/// and as it is written in settings.
fn with_alt(key: Key) -> Key {
    match key.code {
        Code::Char(c) if c.is_ascii_uppercase() => Key {
            code: Code::Char(c.to_ascii_lowercase()),
            alt: true,
            shift: true,
            ..key
        },
        _ => Key { alt: true, ..key },
    }
}

fn escape(bytes: &[u8], flush: bool) -> Step {
    let Some(second) = bytes.get(1) else {
        return if flush { key(1, Code::Esc) } else { Step::Wait };
    };
    match second {
        // Nothing follows: the key itself, with Alt held.
        b']' | b'P' | b'_' if flush && bytes.len() == 2 => {
            let key = Key::char(char::from(*second));
            Step::Got(2, Input::Key(with_alt(key)))
        }
        b'[' => csi(bytes, flush),
        b'O' => match bytes.get(2) {
            None if flush => Step::Got(2, Input::Key(with_alt(Key::char('O')))),
            None => Step::Wait,
            Some(last) => match letter(*last) {
                Some(code) => key(3, code),
                None => Step::Skip(3),
            },
        },
        b']' => osc(bytes, flush),
        b'P' | b'_' => match string_end(bytes) {
            Some(end) if is_graphics_answer(&bytes[2..end]) => Step::Got(end, Input::KittyGraphics),
            Some(end) => Step::Skip(end),
            None if flush => Step::Skip(bytes.len()),
            None => Step::Wait,
        },
        // Two escapes: the first is a key of its own.
        0x1b => key(1, Code::Esc),
        _ => match step(&bytes[1..], flush) {
            Step::Got(length, Input::Key(inner)) => {
                Step::Got(length + 1, Input::Key(with_alt(inner)))
            }
            Step::Wait => Step::Wait,
            Step::Skip(length) | Step::Paste(length) | Step::Got(length, _) => {
                Step::Skip(length + 1)
            }
        },
    }
}

/// Whether the terminal agreed to show an image: `G i=…;OK`.
fn is_graphics_answer(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\x1b\\").unwrap_or(text);
    text.first() == Some(&b'G') && text.ends_with(b";OK")
}

fn string_end(bytes: &[u8]) -> Option<usize> {
    let bell = bytes.iter().position(|byte| *byte == 0x07).map(|at| at + 1);
    let terminator = find(bytes.get(2..)?, b"\x1b\\").map(|at| at + 4);
    match (bell, terminator) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// `OSC 11 ; rgb:rrrr/gggg/bbbb`: the background colour.
fn osc(bytes: &[u8], flush: bool) -> Step {
    let Some(end) = string_end(bytes) else {
        return if flush {
            Step::Skip(bytes.len())
        } else {
            Step::Wait
        };
    };
    let text = String::from_utf8_lossy(&bytes[2..end]);
    let Some(color) = text.strip_prefix("11;rgb:") else {
        return Step::Skip(end);
    };
    let parts: Vec<u32> = color
        .split('/')
        .filter_map(|part| {
            let hex: String = part
                .chars()
                .take_while(char::is_ascii_hexdigit)
                .take(2)
                .collect();
            u32::from_str_radix(&hex, 16).ok()
        })
        .collect();
    match parts[..] {
        [r, g, b] => {
            let light = (r * 299 + g * 587 + b * 114) / 1000;
            Step::Got(end, Input::Background(u8::try_from(light).unwrap_or(255)))
        }
        _ => Step::Skip(end),
    }
}

fn letter(last: u8) -> Option<Code> {
    Some(match last {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'P' => Code::Function(1),
        b'Q' => Code::Function(2),
        b'R' => Code::Function(3),
        b'S' => Code::Function(4),
        b'M' => Code::Enter,
        _ => return None,
    })
}

/// The longest sequence that is read. What is longer is no sequence, however it arrives.
const LONGEST_SEQUENCE: usize = 64;

fn csi(bytes: &[u8], flush: bool) -> Step {
    let Some(end) = bytes
        .iter()
        .take(LONGEST_SEQUENCE)
        .skip(2)
        .position(|byte| (0x40..=0x7e).contains(byte))
        .map(|at| at + 2)
    else {
        if bytes.len() >= LONGEST_SEQUENCE {
            return Step::Skip(LONGEST_SEQUENCE);
        }
        if flush {
            return if bytes.len() == 2 {
                Step::Got(
                    2,
                    Input::Key(Key {
                        alt: true,
                        ..Key::char('[')
                    }),
                )
            } else {
                Step::Skip(bytes.len())
            };
        }
        return Step::Wait;
    };
    let length = end + 1;
    let last = bytes[end];
    let parameters = String::from_utf8_lossy(&bytes[2..end]).into_owned();
    if let Some(values) = parameters.strip_prefix('?') {
        return private_answer(values, last, length);
    }
    if parameters.starts_with(['<', '>', '=']) {
        return Step::Skip(length);
    }
    let fields: Vec<&str> = parameters.split(';').collect();
    let number =
        |index: usize| -> Option<u32> { fields.get(index)?.split(':').next()?.parse().ok() };
    // A key's release comes as the second part of the modifiers; only presses are used.
    let released = fields
        .get(1)
        .and_then(|field| field.split(':').nth(1))
        .is_some_and(|kind| kind == "3");
    let modified = |code: Code| {
        let bits = number(1).unwrap_or(1).saturating_sub(1);
        Step::Got(
            length,
            Input::Key(Key {
                code,
                shift: bits & 1 != 0,
                alt: bits & 2 != 0,
                ctrl: bits & 4 != 0,
            }),
        )
    };
    if released {
        return Step::Skip(length);
    }
    match last {
        b'I' if parameters.is_empty() => Step::Got(length, Input::FocusGained),
        b'O' if parameters.is_empty() => Step::Got(length, Input::FocusLost),
        b'Z' => Step::Got(
            length,
            Input::Key(Key {
                shift: true,
                ..Key::new(Code::Tab)
            }),
        ),
        b'~' => match number(0) {
            Some(200) => Step::Paste(length),
            Some(27) => match number(2).and_then(|code| unicode(code, number(1))) {
                Some(key) => Step::Got(length, Input::Key(key)),
                None => Step::Skip(length),
            },
            Some(code) => match tilde(code) {
                Some(code) => modified(code),
                None => Step::Skip(length),
            },
            None => Step::Skip(length),
        },
        b'u' => match number(0).and_then(|code| unicode(code, number(1))) {
            Some(key) => Step::Got(length, Input::Key(key)),
            None => Step::Skip(length),
        },
        b't' if number(0) == Some(6) => cell_size(number(1), number(2), length),
        b'R' if fields.len() == 2 && number(0) != Some(1) => Step::Skip(length),
        last => match letter(last) {
            Some(code) => modified(code),
            None => Step::Skip(length),
        },
    }
}

/// The terminal's answer to a question about its abilities.
fn private_answer(values: &str, last: u8, length: usize) -> Step {
    match last {
        b'u' => Step::Got(length, Input::KittyKeyboard),
        b'c' => {
            let sixel = values.split(';').skip(1).any(|value| value == "4");
            Step::Got(length, Input::Attributes { sixel })
        }
        _ => Step::Skip(length),
    }
}

/// The terminal's answer to the question how large a character is.
fn cell_size(height: Option<u32>, width: Option<u32>, length: usize) -> Step {
    let pixels = |size: Option<u32>| u16::try_from(size?).ok();
    match (pixels(height), pixels(width)) {
        (Some(height), Some(width)) => Step::Got(length, Input::CellSize(height, width)),
        _ => Step::Skip(length),
    }
}

fn tilde(code: u32) -> Option<Code> {
    Some(match code {
        1 | 7 => Code::Home,
        2 => Code::Insert,
        3 => Code::Delete,
        4 | 8 => Code::End,
        5 => Code::PageUp,
        6 => Code::PageDown,
        11..=15 => Code::Function(u8::try_from(code - 10).ok()?),
        17..=21 => Code::Function(u8::try_from(code - 11).ok()?),
        23 | 24 => Code::Function(u8::try_from(code - 12).ok()?),
        _ => return None,
    })
}

/// A key of the Kitty protocol or of `modifyOtherKeys`.
fn unicode(code: u32, modifiers: Option<u32>) -> Option<Key> {
    let bits = modifiers.unwrap_or(1).saturating_sub(1);
    let (shift, alt, ctrl) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
    let named = match code {
        9 => Some(Code::Tab),
        13 | 57414 => Some(Code::Enter),
        27 => Some(Code::Esc),
        127 => Some(Code::Backspace),
        _ => None,
    };
    if let Some(code) = named {
        return Some(Key {
            code,
            ctrl,
            alt,
            shift,
        });
    }
    // Keys of the private area that have no meaning here: modifiers alone, media keys.
    if (57344..=63743).contains(&code) {
        return None;
    }
    let c = char::from_u32(code).filter(|c| !c.is_control())?;
    if alt || ctrl {
        let shift = shift || c.is_ascii_uppercase();
        return Some(Key {
            code: Code::Char(c.to_ascii_lowercase()),
            ctrl,
            alt,
            shift,
        });
    }
    // A shifted letter types the capital; the modifier is then part of the character.
    let c = if shift {
        c.to_uppercase().next().unwrap_or(c)
    } else {
        c
    };
    Some(Key::char(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Vec<Input> {
        let mut parser = Parser::default();
        let mut out = Vec::new();
        parser.feed(bytes, &mut out);
        parser.flush(&mut out);
        out
    }

    fn named(bytes: &[u8]) -> String {
        parse(bytes)
            .iter()
            .map(|input| match input {
                Input::Key(key) => key.to_string(),
                other => format!("{other:?}"),
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn keys_of_all_kinds_of_terminals_are_understood() {
        let table: &[(&[u8], &str)] = &[
            (b"a", "a"),
            ("é漢".as_bytes(), "é 漢"),
            (b"\r", "enter"),
            (b"\n", "ctrl+j"),
            (b"\x03", "ctrl+c"),
            (b"\x1f", "ctrl+_"),
            (b"\x7f", "backspace"),
            (b"\x1b", "esc"),
            (b"\x1b\x1b", "esc esc"),
            (b"\x1bb", "alt+b"),
            (b"\x1b\r", "alt+enter"),
            (b"\x1b\x7f", "alt+backspace"),
            (b"\x1b[A", "up"),
            (b"\x1bOA", "up"),
            (b"\x1b[1;5C", "ctrl+right"),
            (b"\x1b[1;3D", "alt+left"),
            (b"\x1b[3~", "delete"),
            (b"\x1b[3;5~", "ctrl+delete"),
            (b"\x1b[H", "home"),
            (b"\x1b[4~", "end"),
            (b"\x1b[Z", "shift+tab"),
            (b"\x1b[15~", "f5"),
            (b"\x1bOP", "f1"),
            (b"\x1b[13;2u", "shift+enter"),
            (b"\x1b[27;2;13~", "shift+enter"),
            (b"\x1b[97;5u", "ctrl+a"),
            (b"\x1b[97;2u", "A"),
            (b"\x1b[97;1:3u", ""),
            (b"\x1b[27u", "esc"),
            (b"\x1b[57441u", ""),
            (b"\x1b[I\x1b[O", "FocusGained FocusLost"),
            (b"\x1b[?1u", "KittyKeyboard"),
            (b"\x1b[?62;4c", "Attributes { sixel: true }"),
            (b"\x1b[?4;22c", "Attributes { sixel: false }"),
            (b"\x1b_Gi=31;OK\x1b\\x", "KittyGraphics x"),
            (b"\x1b_Gi=31;ENOTSUPPORTED\x1b\\", ""),
            (b"\x1b[6;20;9t", "CellSize(20, 9)"),
            (b"\x1b[8;24;80t", ""),
            (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\x", "Background(255) x"),
            (b"\x1b]11;rgb:0000/0000/0000\x07", "Background(0)"),
            (b"\x1b[24;80R", ""),
            (b"\xff\xfea", "a"),
            // A capital with Alt is the same from every terminal.
            (b"\x1bE", "alt+shift+e"),
            (b"\x1b_", "alt+_"),
            (b"\x1b]", "alt+]"),
            (b"\x1bP", "alt+shift+p"),
            (b"\x1b[101;4u", "alt+shift+e"),
            (b"\x1b[69;3u", "alt+shift+e"),
            // Control characters are no keys in any form.
            (b"\x1b[1u\xc2\x85", ""),
        ];
        for (bytes, expected) in table {
            assert_eq!(
                &named(bytes),
                expected,
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn any_pieces_give_the_same() {
        let all = "x\x1b[1;5C漢\x1b[200~a\r\nb\x1b[31m\x1b[201~y\x1b[13;2u".as_bytes();
        let whole = parse(all);
        assert!(whole.contains(&Input::Paste("a\nb\x1b[31m".into())));
        for size in 1..7 {
            let mut parser = Parser::default();
            let mut out = Vec::new();
            for piece in all.chunks(size) {
                parser.feed(piece, &mut out);
            }
            parser.flush(&mut out);
            assert_eq!(out, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn a_sequence_without_an_end_is_skipped_the_same_in_any_pieces() {
        let long = [b"\x1b[".as_slice(), &[b'1'; 80], b"m", b"x"].concat();
        let whole = parse(&long);
        for size in [1, 10, 63, 64, 65] {
            let mut parser = Parser::default();
            let mut out = Vec::new();
            for piece in long.chunks(size) {
                parser.feed(piece, &mut out);
            }
            parser.flush(&mut out);
            assert_eq!(out, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn an_escape_waits_until_it_is_clear_that_nothing_follows() {
        let mut parser = Parser::default();
        let mut out = Vec::new();
        parser.feed(b"\x1b", &mut out);
        assert!(out.is_empty() && parser.waits());
        parser.feed(b"[A", &mut out);
        assert_eq!(out, [Input::Key(Key::new(Code::Up))]);
        assert!(!parser.waits());
    }
}
