//! The alternate screen: a view of the whole window, of which only changed rows are written.

use crate::render::style::{Encoder, Line};
use crate::terminal::inline_screen::Cursor;

#[derive(Debug, Default)]
pub(crate) struct FullScreen {
    drawn: Vec<String>,
    /// Written when the view is closed: it belongs to the screen below.
    pub(crate) after: String,
}

impl FullScreen {
    /// Writes every row the next time.
    pub(crate) fn invalidate(&mut self) {
        self.drawn.clear();
    }

    /// The bytes that draw these lines from the first row on. Empty when nothing changed.
    pub(crate) fn draw(&mut self, encoder: Encoder, lines: &[Line], cursor: Cursor) -> String {
        let mut out = String::new();
        let mut drawn = Vec::with_capacity(lines.len());
        for (row, line) in lines.iter().enumerate() {
            let mut text = String::new();
            encoder.line(line, &mut text);
            if self.drawn.get(row) != Some(&text) {
                out.push_str(&format!("\x1b[{};1H\x1b[2K{text}", row + 1));
            }
            drawn.push(text);
        }
        self.drawn = drawn;
        if out.is_empty() {
            return out;
        }
        let shown = if cursor.visible {
            format!("\x1b[{};{}H\x1b[?25h", cursor.row + 1, cursor.column + 1)
        } else {
            String::new()
        };
        format!("\x1b[?2026h\x1b[?25l{out}{shown}\x1b[?2026l")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::style::ColorDepth;

    #[test]
    fn only_rows_that_changed_are_written() {
        let encoder = Encoder {
            depth: ColorDepth::None,
            links: false,
        };
        let mut screen = FullScreen::default();
        let lines = |last: &str| vec![Line::plain("first"), Line::plain(last)];
        let first = screen.draw(encoder, &lines("a"), Cursor::default());
        assert!(first.contains("first") && first.contains("\x1b[2;1H\x1b[2Ka"));
        let second = screen.draw(encoder, &lines("b"), Cursor::default());
        assert!(!second.contains("first") && second.contains("\x1b[2;1H\x1b[2Kb"));
        assert_eq!(screen.draw(encoder, &lines("b"), Cursor::default()), "");
        screen.invalidate();
        assert!(
            screen
                .draw(encoder, &lines("b"), Cursor::default())
                .contains("first")
        );
    }
}
