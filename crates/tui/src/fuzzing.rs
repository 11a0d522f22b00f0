//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::terminal::input::{Input, Parser};
use crate::terminal::key::Key;

/// Bytes from a terminal are the same keys and pastes in whatever pieces they arrive, and a key's name reads back
/// as that key.
pub fn fuzz_keys(bytes: &[u8]) {
    let whole = parsed(bytes, bytes.len().max(1));
    for size in [1, 3] {
        assert_eq!(parsed(bytes, size), whole, "in pieces of {size}");
    }
    for input in whole {
        if let Input::Key(key) = input {
            let name = key.to_string();
            assert_eq!(name.parse::<Key>().ok(), Some(key), "{name:?}");
        }
    }
    // A name from a settings file.
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(key) = text.trim().parse::<Key>()
    {
        assert_eq!(key.to_string().parse::<Key>().ok(), Some(key), "{text:?}");
    }
}

fn parsed(bytes: &[u8], size: usize) -> Vec<Input> {
    let mut parser = Parser::default();
    let mut inputs = Vec::new();
    for piece in bytes.chunks(size) {
        parser.feed(piece, &mut inputs);
    }
    parser.flush(&mut inputs);
    inputs
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_are_the_same_in_any_pieces() {
        let words = [
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}O",
            "\u{1b}[200~",
            "\u{1b}[201~",
            "\u{1b}]11;rgb:",
            "\u{7}",
            "\u{1b}\\",
            ";",
            "~",
            "u",
            "1",
            "99999999999",
            "ctrl+",
            "alt+",
            "shift+",
            "f5",
            "\r\n",
        ];
        lathe_fuzzing::run("keys", 2000, &words, super::fuzz_keys);
    }
}
