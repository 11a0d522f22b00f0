//! One line to fill in.

use super::{Layer, Outcome, Purpose};
use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::editor::Editor;
use crate::prompt::keymap::{Context, KeyMatch, Keymap};
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{width, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};

/// One line to fill in.
pub(crate) struct Form {
    pub(crate) purpose: Purpose,
    title: String,
    editor: Editor,
    keymap: Keymap,
    /// Whether what is typed is not shown.
    secret: bool,
}

impl Form {
    /// Hides the input.
    pub(crate) fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    pub(crate) fn new(purpose: Purpose, title: impl Into<String>, text: &str) -> Self {
        let mut editor = Editor::default();
        editor.set_text(text);
        Self {
            purpose,
            title: title.into(),
            editor,
            keymap: Keymap::default(),
            secret: false,
        }
    }
}

impl Layer for Form {
    fn paste(&mut self, text: &str) {
        self.editor.insert(text.lines().next().unwrap_or_default());
    }

    fn key(&mut self, key: Key) -> Outcome {
        match key.code {
            Code::Esc => Outcome::Cancelled,
            Code::Enter => Outcome::Chosen(self.editor.text().trim().to_owned()),
            _ => {
                edit(&mut self.editor, &self.keymap, key);
                Outcome::Stay
            }
        }
    }

    fn view(&self, look: Look<'_>, _rows: usize) -> (Vec<Line>, Cursor) {
        let mut out = wrap(
            &Line::styled(self.title.clone(), look.theme.heading),
            look.columns,
            0,
        );
        let (mut line, mut column) = field(&self.editor, look.columns.saturating_sub(2));
        if self.secret {
            line = "•".repeat(line.chars().count());
            column = column.min(line.chars().count());
        }
        let mut row = Line::styled("❯ ", look.theme.prompt);
        row.push(line, Style::PLAIN);
        out.push(row);
        let cursor = Cursor {
            row: out.len() - 1,
            column: column + 2,
            visible: true,
        };
        let hint = look
            .keys
            .dialog_hint(self.contexts(), "enter accept · esc back");
        out.push(Line::styled(hint, look.theme.muted));
        (out, cursor)
    }

    fn contexts(&self) -> &'static [DialogContext] {
        &[DialogContext::List]
    }

    fn takes_text(&self) -> bool {
        true
    }

    fn purpose(&self) -> Option<&Purpose> {
        Some(&self.purpose)
    }
}

/// Gives a key to a one-line editor.
pub(crate) fn edit(editor: &mut Editor, keymap: &Keymap, key: Key) {
    match keymap.find(Context::Prompt, &[key]) {
        KeyMatch::Action(action) => {
            editor.apply(action, usize::MAX / 2);
        }
        _ => {
            if let Some(c) = crate::prompt::keymap::typed(key) {
                editor.insert(&c.to_string());
            }
        }
    }
}

/// The part of a one-line text around the cursor that fits, and the cursor's column in it.
pub(crate) fn field(editor: &Editor, columns: usize) -> (String, usize) {
    let text = editor.text().replace('\n', " ");
    let before = &text[..editor.cursor()];
    let mut start = 0;
    while width(&before[start..]) >= columns.max(2) {
        start += before[start..].chars().next().map_or(1, char::len_utf8);
    }
    let mut shown = String::new();
    for c in text[start..].chars() {
        if width(&shown) + width(&c.to_string()) > columns {
            break;
        }
        shown.push(c);
    }
    (shown, width(&before[start..]))
}
