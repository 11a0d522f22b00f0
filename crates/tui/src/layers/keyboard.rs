//! The keyboard of a command that runs on a terminal, in the hands of the user.

use super::{Layer, Outcome};
use crate::render::ansi;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line, truncate, truncate_line};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use lathe_shell::run::{InteractiveCommand, Keyboard, TerminalKey};
use std::sync::Arc;

/// The screen of a command. Every key goes to it; Esc twice gives the keyboard back.
pub(crate) struct KeyboardLayer {
    keyboard: Keyboard,
    /// The command asked for what is typed here and not shown.
    for_secret: bool,
    /// The last key was Esc.
    escaped: bool,
    armed: bool,
}

impl KeyboardLayer {
    pub(crate) fn new(command: &Arc<InteractiveCommand>, for_secret: bool, armed: bool) -> Self {
        Self {
            keyboard: command.keyboard(),
            for_secret,
            escaped: false,
            armed,
        }
    }

    pub(crate) fn command(&self) -> &Arc<InteractiveCommand> {
        self.keyboard.command()
    }

    /// The program's lines as far as they are used.
    fn screen(&self) -> (Vec<Line>, (usize, usize)) {
        let (rows, (row, column)) = self.command().rows();
        let (row, column) = (usize::from(row), usize::from(column));
        let mut lines: Vec<Line> = rows
            .iter()
            .map(|line| {
                let mut drawn = ansi::lines(line, Style::PLAIN).into_iter();
                drawn.next().unwrap_or_default()
            })
            .collect();
        let used = lines
            .iter()
            .rposition(|line| !line.text().trim().is_empty());
        lines.truncate((row + 1).max(used.map_or(0, |last| last + 1)));
        (lines, (row, column))
    }
}

impl Layer for KeyboardLayer {
    fn key(&mut self, key: Key) -> Outcome {
        if key.is(Code::Esc) && self.escaped {
            if self.for_secret {
                // What was begun must not be a part of the next answer.
                self.keyboard.press(TerminalKey::Control('u'));
            }
            return Outcome::Cancelled;
        }
        self.escaped = key.is(Code::Esc);
        if self.escaped && self.for_secret {
            return Outcome::Stay;
        }
        match terminal_key(key) {
            Some(Typed::Key(key)) => self.keyboard.press(key),
            Some(Typed::Text(c)) => self.keyboard.type_text(&c.to_string()),
            None => {}
        }
        if self.for_secret && key.code == Code::Enter {
            return Outcome::Cancelled;
        }
        Outcome::Stay
    }

    fn paste(&mut self, text: &str) {
        self.escaped = false;
        self.keyboard.type_text(text);
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let room = rows.saturating_sub(2).max(1);
        let size = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        self.keyboard.resize(size(room), size(look.columns));
        let command = one_line(&clean(&self.command().command));
        let mut title = Line::styled("⌨ ", theme.accent);
        title.push(
            truncate(&command, look.columns.saturating_sub(4)),
            theme.heading,
        );
        let mut out = vec![title];
        let (lines, (row, column)) = self.screen();
        let skipped = lines.len().saturating_sub(room);
        let shown = lines.into_iter().skip(skipped);
        out.extend(shown.map(|line| truncate_line(&line, look.columns)));
        let hint = if self.for_secret {
            "only the command gets what you type · enter sends it · esc esc cancels"
        } else {
            "the keyboard is yours · esc esc gives it back"
        };
        out.push(Line::styled(truncate(hint, look.columns), theme.warning));
        let cursor = Cursor {
            row: (row + 1).saturating_sub(skipped),
            column: column.min(look.columns.saturating_sub(1)),
            visible: self.armed,
        };
        (out, cursor)
    }

    fn armed(&self) -> bool {
        self.armed
    }

    fn arm(&mut self, armed: bool) {
        // Words are never an answer for the prompt here.
        self.armed |= armed;
    }
}

enum Typed {
    Key(TerminalKey),
    Text(char),
}

/// A key as a terminal has it; `None` where it has none.
fn terminal_key(key: Key) -> Option<Typed> {
    let named = |name: &str| name.parse().ok().map(Typed::Key);
    match key.code {
        Code::Char(' ') if key.ctrl => named("C-@"),
        Code::Char(c) if key.ctrl => named(&format!("C-{}", c.to_ascii_lowercase())),
        Code::Char(c) if key.alt => named(&format!("M-{c}")),
        Code::Char(c) => Some(Typed::Text(c)),
        Code::Tab if key.shift => named("S-Tab"),
        Code::Enter => Some(Typed::Key(TerminalKey::Enter)),
        Code::Function(number) => named(&format!("F{number}")),
        code => named(&Key::new(code).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::key::keys;

    #[test]
    fn every_key_has_its_bytes() {
        for (pressed, bytes) in [
            ("a", "a"),
            ("\n", "\r"),
            ("<tab>", "\t"),
            ("<up>", "\x1b[A"),
            ("<esc>", "\x1b"),
            ("<ctrl+c>", "\x03"),
            ("<ctrl+space>", "\0"),
            ("<alt+b>", "\x1bb"),
            ("<shift+tab>", "\x1b[Z"),
            ("<backspace>", "\x7f"),
            ("<f5>", "\x1b[15~"),
        ] {
            let found = match terminal_key(keys(pressed)[0]).unwrap() {
                Typed::Key(key) => key.bytes(false),
                Typed::Text(c) => c.to_string().into_bytes(),
            };
            assert_eq!(found, bytes.as_bytes(), "{pressed:?}");
        }
    }
}
