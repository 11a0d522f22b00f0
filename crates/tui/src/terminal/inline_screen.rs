//! The inline screen: finished lines go into the terminal's own scrollback, the live area is redrawn
//! below them.
//!
//! All movement is relative to the cursor, because nobody knows where on the screen we are. A frame
//! is built as one string and written at once inside synchronized output. Only lines that changed are
//! written; a line is overwritten and its rest cleared, never cleared first, so that nothing flickers
//! even where synchronized output is unknown. No live line fills its row, so the cursor never waits
//! behind the last column, where terminals differ. Finished lines that are longer than the screen is wide
//! are left to the terminal to wrap: it then also rewraps them when its size changes.
//!
//! After a change of width, most terminals have rewrapped what was drawn. How many rows the live area
//! then takes is computed from the widths of its lines ([`InlineScreen::resized`]); terminals that are known
//! not to rewrap say so by their surroundings ([`rewraps`]).

use crate::render::style::{Encoder, Line};
use std::fmt::Write as _;

/// Where the cursor stands in the live area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) visible: bool,
}

/// A frame to draw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The live area. Every line is narrower than the screen, and there are no more of them than rows.
    pub(crate) live: Vec<Line>,
    pub(crate) cursor: Cursor,
}

/// The screen as far as it is ours.
pub(crate) struct InlineScreen {
    encoder: Encoder,
    columns: usize,
    rewraps: bool,
    drawn: Vec<String>,
    widths: Vec<usize>,
    cursor: Cursor,
    title: String,
}

/// Whether the terminal rewraps lines when its width changes.
pub(crate) fn rewraps(variable: impl Fn(&str) -> Option<String>) -> bool {
    if let Some(forced) = variable("LATHE_TERMINAL_REWRAPS") {
        return forced != "0";
    }
    let term = variable("TERM").unwrap_or_default();
    let in_tmux = variable("TMUX").is_some();
    !(variable("XTERM_VERSION").is_some() && !in_tmux
        || term == "linux"
        || term.starts_with("screen") && !in_tmux)
}

impl InlineScreen {
    pub(crate) fn new(encoder: Encoder, columns: usize, rewraps: bool) -> Self {
        Self {
            encoder,
            columns,
            rewraps,
            drawn: Vec::new(),
            widths: Vec::new(),
            cursor: Cursor::default(),
            title: String::new(),
        }
    }

    /// How colours are written.
    pub(crate) fn encoder(&self) -> Encoder {
        self.encoder
    }

    /// The terminal's size changed: forgets what stands where, and gives what clears it.
    pub(crate) fn resized(&mut self, columns: usize) -> String {
        let old = std::mem::replace(&mut self.columns, columns);
        let mut up = self.cursor.row;
        if self.rewraps && columns < old && columns > 0 {
            let rows = |width: usize| width.div_ceil(columns).max(1);
            up = self
                .widths
                .iter()
                .take(self.cursor.row)
                .map(|width| rows(*width))
                .sum::<usize>()
                + self.cursor.column / columns;
        }
        self.forget(up)
    }

    /// Takes the live area off the screen, with the cursor where it began.
    pub(crate) fn clear(&mut self) -> String {
        let up = self.cursor.row;
        self.forget(up)
    }

    fn forget(&mut self, up: usize) -> String {
        let mut out = String::from("\r");
        if up > 0 {
            let _ = write!(out, "\x1b[{up}A");
        }
        out.push_str(erase_from_here(self.drawn.len()));
        self.drawn.clear();
        self.widths.clear();
        self.cursor = Cursor {
            visible: self.cursor.visible,
            ..Cursor::default()
        };
        out
    }

    /// Sets the window's title.
    pub(crate) fn title(&mut self, title: &str) -> String {
        if title == self.title {
            return String::new();
        }
        title.clone_into(&mut self.title);
        format!("\x1b]2;{}\x07", crate::render::text::clean(title))
    }

    /// The bytes that put finished lines above the live area and draw a frame, with what must be written
    /// before them in the same update. Empty when nothing changed.
    pub(crate) fn draw(&mut self, before: &str, finished: &[Line], frame: &Frame) -> String {
        let mut body = String::from(before);
        let mut at = self.cursor.row;
        let mut stale = self.drawn.len();
        if !finished.is_empty() {
            move_rows(&mut body, at, 0);
            body.push('\r');
            for line in finished {
                self.encoder.line(line, &mut body);
                let width = line.width();
                // At the end of a full row the cursor still stands on its last character.
                if width == 0 || width % self.columns != 0 {
                    self.encoder.clear_rest(line, &mut body);
                }
                body.push_str("\r\n");
            }
            // Whatever of the old live area is still below is overwritten or cleared at the end.
            self.drawn.clear();
            self.widths.clear();
            at = 0;
            stale = usize::MAX;
        }
        let encoded: Vec<String> = frame
            .live
            .iter()
            .map(|line| {
                let mut text = String::new();
                self.encoder.line(line, &mut text);
                self.encoder.clear_rest(line, &mut text);
                text
            })
            .collect();
        let widths: Vec<usize> = frame.live.iter().map(Line::width).collect();
        let mut known = self.drawn.len().max(1);
        for (row, text) in encoded.iter().enumerate() {
            if self.drawn.get(row) == Some(text) && !self.drawn.is_empty() {
                continue;
            }
            if row >= known {
                // A row that isn't there yet: line feeds make it, scrolling if they must.
                move_rows(&mut body, at, known - 1);
                for _ in known..=row {
                    body.push_str("\r\n");
                }
                known = row + 1;
            } else {
                move_rows(&mut body, at, row);
                body.push('\r');
            }
            at = row;
            body.push_str(text);
        }
        if stale > encoded.len() {
            // Rows that are no longer needed.
            if encoded.is_empty() {
                move_rows(&mut body, at, 0);
                body.push('\r');
                body.push_str(if finished.is_empty() {
                    erase_from_here(self.drawn.len())
                } else {
                    "\x1b[J"
                });
                at = 0;
            } else {
                let last = encoded.len() - 1;
                move_rows(&mut body, at, last);
                let width = widths.get(last).copied().unwrap_or(0);
                body.push('\r');
                if width > 0 {
                    let _ = write!(body, "\x1b[{width}C");
                }
                body.push_str("\x1b[J");
                at = last;
            }
        }
        let moved = !body.is_empty() || frame.cursor != self.cursor;
        if !moved {
            return String::new();
        }
        move_rows(&mut body, at, frame.cursor.row);
        body.push('\r');
        if frame.cursor.column > 0 {
            let _ = write!(body, "\x1b[{}C", frame.cursor.column);
        }
        let show = if frame.cursor.visible {
            "\x1b[?25h"
        } else {
            ""
        };
        let out = format!("\x1b[?2026h\x1b[?25l{body}{show}\x1b[?2026l");
        self.drawn = encoded;
        self.widths = widths;
        self.cursor = frame.cursor;
        out
    }
}

/// Clears from the start of the row to the end of the screen. Never from the screen's first cell: some
/// terminals take that for a clearing of the whole screen and keep what was on it in the scrollback.
fn erase_from_here(rows: usize) -> &'static str {
    if rows < 2 {
        "\x1b[K"
    } else {
        "\x1b[K\x1b[1B\x1b[J\x1b[1A"
    }
}

fn move_rows(out: &mut String, from: usize, to: usize) {
    match to.cmp(&from) {
        std::cmp::Ordering::Less => {
            let _ = write!(out, "\x1b[{}A", from - to);
        }
        std::cmp::Ordering::Greater => {
            let _ = write!(out, "\x1b[{}B", to - from);
        }
        std::cmp::Ordering::Equal => {}
    }
}

#[cfg(test)]
mod tests {
    use super::rewraps;

    #[test]
    fn a_terminal_rewraps_unless_it_or_the_environment_says_otherwise() {
        let with = |set: &'static [(&'static str, &'static str)]| {
            rewraps(|name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(with(&[("TERM", "xterm-256color")]));
        assert!(!with(&[("TERM", "linux")]));
        assert!(with(&[("TERM", "linux"), ("LATHE_TERMINAL_REWRAPS", "1")]));
        assert!(!with(&[("LATHE_TERMINAL_REWRAPS", "0")]));
    }
}
