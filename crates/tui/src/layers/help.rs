//! The short list of keys below the prompt.

use super::{Layer, Level, Outcome};
use crate::prompt::keymap::{Action, Context};
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
    let fixed = |keys: &str, what| Some((keys.to_owned(), what));
    let bound = |action, what| Some((look.keys.key(Context::Prompt, action)?, what));
    let cancel = look.keys.key(Context::Prompt, Action::Cancel);
    let pairs: Vec<(String, &str)> = [
        fixed("/", "commands"),
        fixed("@", "files"),
        fixed("!", "shell command"),
        fixed("#", "remember"),
        cancel.map(|key| (format!("{key} {key}"), "rewind")),
        bound(Action::CycleMode, "permission mode"),
        bound(Action::Transcript, "whole conversation"),
        bound(Action::Todos, "task list"),
        bound(Action::HistorySearch, "search history"),
        bound(Action::Stash, "stash prompt"),
        bound(Action::ExternalEditor, "external editor"),
        bound(Action::Background, "to background"),
        bound(Action::Undo, "undo"),
        bound(Action::Suspend, "suspend"),
        fixed("ctrl+c ×2", "leave"),
        fixed("/keybindings", "all keys"),
    ]
    .into_iter()
    .flatten()
    .collect();
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
