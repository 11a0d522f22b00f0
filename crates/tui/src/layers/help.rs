//! The short list of keys below the prompt.

use super::{Layer, Level, Outcome};
use crate::prompt::keymap::Action;
use crate::render::markdown::Look;
use crate::render::style::Line;
use crate::render::text::truncate_line;
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::Key;

/// The short list of keys.
pub(crate) struct Help;

impl Layer for Help {
    fn level(&self) -> Level {
        Level::BelowPrompt
    }

    fn key(&mut self, _key: Key) -> Outcome {
        Outcome::Ignored
    }

    fn action(&mut self, action: Action) -> Outcome {
        match action {
            Action::Cancel => Outcome::Cancelled,
            _ => Outcome::Ignored,
        }
    }

    fn view(&self, look: Look<'_>, _rows: usize) -> (Vec<Line>, Cursor) {
        (lines(look), Cursor::default())
    }
}

fn lines(look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let pairs = [
        ("/", "commands"),
        ("@", "files"),
        ("!", "shell command"),
        ("#", "remember"),
        ("esc esc", "rewind"),
        ("shift+tab", "permission mode"),
        ("ctrl+o", "whole conversation"),
        ("ctrl+t", "task list"),
        ("ctrl+r", "search history"),
        ("ctrl+s", "stash prompt"),
        ("ctrl+g", "external editor"),
        ("ctrl+b", "to background"),
        ("ctrl+_", "undo"),
        ("ctrl+z", "suspend"),
        ("ctrl+c ×2", "leave"),
        ("/keybindings", "all keys"),
    ];
    let per_row = (look.columns / 34).clamp(1, 4);
    pairs
        .chunks(per_row)
        .map(|chunk| {
            let mut line = Line::plain("  ");
            for (key, what) in chunk {
                line.push(format!("{key:<13}"), theme.accent);
                line.push(format!("{what:<19}"), theme.muted);
            }
            truncate_line(&line, look.columns)
        })
        .collect()
}
