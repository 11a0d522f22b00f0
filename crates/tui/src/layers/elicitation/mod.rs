//! Questions of MCP servers to the user: the fields of a form, or a page to open.
//!
//! The form is made from the server's flat schema. Texts and numbers are typed, choices are gone through
//! with ← and →, several choices are marked with the space bar. A value that violates the schema is reported at
//! its field when the form is sent. Nothing is filled in for the user but the server's own defaults,
//! and the server is always named: a form must not pass for one of ours.

pub(crate) mod error;
mod fields;

use super::form::edit;
use super::{Layer, Level, Outcome};
use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::editor::Editor;
use crate::prompt::keymap::Keymap;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, reveal, width, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use fields::{Field, FieldInput, fields};
use lathe_protocol::elicitation::{ElicitationKind, ElicitationReply, ElicitationRequest};
use lathe_protocol::ids::RequestId;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A server's question.
pub(crate) struct ElicitationDialog {
    pub(crate) request: Arc<ElicitationRequest>,
    pub(crate) armed: bool,
    fields: Vec<Field>,
    /// The field, or one of the two answers below the fields.
    selected: usize,
    keymap: Keymap,
}

impl ElicitationDialog {
    pub(crate) fn new(request: Arc<ElicitationRequest>) -> Self {
        let fields = match &request.kind {
            ElicitationKind::Form { requested_schema } => fields(requested_schema),
            ElicitationKind::Url { .. } => Vec::new(),
        };
        Self {
            request,
            armed: true,
            fields,
            selected: 0,
            keymap: Keymap::default(),
        }
    }

    fn editor(&mut self) -> Option<&mut Editor> {
        match &mut self.fields.get_mut(self.selected)?.entry {
            FieldInput::Text(editor) | FieldInput::Number(editor) => Some(editor),
            _ => None,
        }
    }

    fn enter(&mut self) -> Outcome {
        if self.selected < self.fields.len() {
            self.selected += 1;
            return Outcome::Stay;
        }
        if self.selected == self.fields.len() {
            return self.accept();
        }
        Outcome::Elicited(ElicitationReply::Decline)
    }

    fn field_key(&mut self, key: Key) {
        let Some(shown) = self.fields.get_mut(self.selected) else {
            return;
        };
        shown.problem = None;
        let forward = !matches!(key.code, Code::Left);
        let moves = matches!(key.code, Code::Left | Code::Right | Code::Char(' '));
        match &mut shown.entry {
            FieldInput::Text(editor) | FieldInput::Number(editor) => {
                edit(editor, &self.keymap, key);
            }
            FieldInput::Switch(value) => match key.code {
                Code::Char('y') => *value = Some(true),
                Code::Char('n') => *value = Some(false),
                _ if moves => *value = Some(*value != Some(true)),
                _ => {}
            },
            FieldInput::One { offered, chosen } => {
                let count = offered.len();
                if moves && count > 0 {
                    *chosen = Some(match *chosen {
                        None => 0,
                        Some(at) if forward => (at + 1) % count,
                        Some(at) => (at + count - 1) % count,
                    });
                }
            }
            FieldInput::Many {
                offered,
                chosen,
                at,
            } => {
                let count = offered.len().max(1);
                match key.code {
                    Code::Right => *at = (*at + 1) % count,
                    Code::Left => *at = (*at + count - 1) % count,
                    Code::Char(' ') if chosen.contains(at) => {
                        chosen.remove(at);
                    }
                    Code::Char(' ') => {
                        chosen.insert(*at);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Sends the form if everything fits; otherwise goes to the first field that doesn't.
    fn accept(&mut self) -> Outcome {
        if matches!(self.request.kind, ElicitationKind::Url { .. }) {
            return Outcome::Elicited(ElicitationReply::Accept { content: None });
        }
        let mut content = Map::new();
        let mut wrong = None;
        for (index, shown) in self.fields.iter_mut().enumerate() {
            match shown.value() {
                Ok(Some(value)) => {
                    content.insert(shown.name.clone(), value);
                }
                Ok(None) => {}
                Err(problem) => {
                    shown.problem = Some(problem.to_string());
                    wrong.get_or_insert(index);
                }
            }
        }
        if let Some(index) = wrong {
            self.selected = index;
            return Outcome::Stay;
        }
        Outcome::Elicited(ElicitationReply::Accept {
            content: Some(Value::Object(content)),
        })
    }

    /// The page that is to be opened.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.request.kind {
            ElicitationKind::Url { url, .. } => Some(url),
            ElicitationKind::Form { .. } => None,
        }
    }
}

impl Layer for ElicitationDialog {
    fn level(&self) -> Level {
        Level::Question
    }

    fn paste(&mut self, text: &str) {
        if let Some(editor) = self.editor() {
            editor.insert(text.lines().next().unwrap_or_default());
        }
    }

    fn key(&mut self, key: Key) -> Outcome {
        let rows = self.fields.len() + 2;
        match key.code {
            Code::Esc => return Outcome::Elicited(ElicitationReply::Cancel),
            Code::Up => self.selected = (self.selected + rows - 1) % rows,
            Code::Tab if key.shift => self.selected = (self.selected + rows - 1) % rows,
            Code::Down | Code::Tab => self.selected = (self.selected + 1) % rows,
            Code::Enter => return self.enter(),
            _ if self.selected >= self.fields.len() => {
                if let Code::Char(c) = key.code {
                    match c {
                        '1' | 'y' => return self.accept(),
                        '2' | 'n' => return Outcome::Elicited(ElicitationReply::Decline),
                        _ => {}
                    }
                }
            }
            _ => self.field_key(key),
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let mut out = wrap(
            &Line::styled("The MCP server ", theme.heading)
                .with(clean(&self.request.mcp_server_name), theme.code)
                .with(" asks", theme.heading),
            look.columns,
            0,
        );
        for line in clean(&self.request.message).lines().take(8) {
            out.extend(wrap(&Line::plain(line), look.columns, 0));
        }
        if let Some(url) = self.url() {
            out.extend(wrap(
                &Line::styled(format!("  {}", reveal(url)), theme.link),
                look.columns,
                4,
            ));
        }
        out.push(Line::empty());
        let mut cursor = Cursor::default();
        let column = self
            .fields
            .iter()
            .map(|shown| width(&shown.title) + usize::from(shown.required))
            .max()
            .unwrap_or(0)
            .min(look.columns / 3);
        // The fields scroll; the selected one is always visible.
        let room = (rows.saturating_sub(out.len() + 5) / 2).max(1);
        let at = self.selected.min(self.fields.len().saturating_sub(1));
        let first = (at + 1).saturating_sub(room);
        for (index, shown) in self.fields.iter().enumerate().skip(first).take(room) {
            let here = index == self.selected;
            shown.rows(here, column, look, &mut out, &mut cursor);
        }
        if self.fields.len() > room {
            out.push(Line::styled(
                format!("  field {} of {}", at + 1, self.fields.len()),
                theme.muted,
            ));
        }
        let words = if self.url().is_some() {
            ["Open the page", "No"]
        } else {
            ["Send", "No"]
        };
        for (index, word) in words.into_iter().enumerate() {
            let here = self.selected == self.fields.len() + index;
            let mut line = if here {
                Line::styled("❯ ", theme.selected)
            } else {
                Line::plain("  ")
            };
            line.push(format!("{}. ", index + 1), theme.muted);
            line.push(word, if here { theme.selected } else { Style::PLAIN });
            out.push(line);
        }
        let hint = match self.fields.get(self.selected).map(|shown| &shown.entry) {
            Some(FieldInput::Text(_) | FieldInput::Number(_)) => "type · enter next · esc dismiss",
            Some(FieldInput::Switch(_) | FieldInput::One { .. }) => {
                "←→ choose · enter next · esc dismiss"
            }
            Some(FieldInput::Many { .. }) => "←→ go · space mark · enter next · esc dismiss",
            None => "enter choose · esc dismiss",
        };
        let hint = look.keys.dialog_hint(self.contexts(), hint);
        out.extend(wrap(&Line::styled(hint, theme.muted), look.columns, 0));
        (out, cursor)
    }

    fn request_id(&self) -> Option<&RequestId> {
        Some(&self.request.request_id)
    }

    fn contexts(&self) -> &'static [DialogContext] {
        &[DialogContext::Question]
    }

    fn takes_text(&self) -> bool {
        let field = self.fields.get(self.selected);
        field
            .is_some_and(|field| matches!(field.entry, FieldInput::Text(_) | FieldInput::Number(_)))
    }

    fn armed(&self) -> bool {
        self.armed
    }

    fn arm(&mut self, armed: bool) {
        self.armed = armed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::key::keys;
    use serde_json::json;

    fn form(schema: Value) -> ElicitationDialog {
        ElicitationDialog::new(Arc::new(ElicitationRequest {
            request_id: "r1".into(),
            mcp_server_name: "tickets".into(),
            message: "Which ticket?".into(),
            kind: ElicitationKind::Form {
                requested_schema: schema,
            },
        }))
    }

    fn press(dialog: &mut ElicitationDialog, text: &str) -> Option<ElicitationReply> {
        for key in keys(text) {
            match dialog.key(key) {
                Outcome::Stay => {}
                Outcome::Elicited(reply) => return Some(reply),
                other => panic!("{other:?}"),
            }
        }
        None
    }

    #[test]
    fn every_kind_of_field_is_filled_in() {
        let mut dialog = form(
            json!({"type": "object", "required": ["title"], "properties": {
                "title": {"type": "string", "minLength": 3},
                "weight": {"type": "integer", "minimum": 1, "default": 5},
                "urgent": {"type": "boolean"},
                "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
                "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}]}},
            }}),
        );
        let reply = press(
            &mut dialog,
            "fix\n<backspace>7\ny\n<right><right>\n<right> \n\n",
        );
        assert_eq!(
            reply,
            Some(ElicitationReply::Accept {
                content: Some(
                    json!({"title": "fix", "weight": 7, "urgent": true, "colour": "g", "tags": ["b"]})
                )
            })
        );
    }

    #[test]
    fn a_schema_violation_is_shown_at_its_field() {
        let mut dialog = form(
            json!({"type": "object", "required": ["title"], "properties": {
            "title": {"type": "string", "minLength": 3}, "weight": {"type": "number"}}}),
        );
        assert_eq!(press(&mut dialog, "ab\nmany\n\n"), None);
        assert_eq!(dialog.selected, 0);
        assert!(dialog.fields.iter().all(|field| field.problem.is_some()));
        assert_eq!(
            press(&mut dialog, "c\n<ctrl+u>1.5\n\n"),
            Some(ElicitationReply::Accept {
                content: Some(json!({"title": "abc", "weight": 1.5}))
            })
        );
    }

    #[test]
    fn no_and_away_are_different_answers() {
        let schema = json!({"type": "object", "properties": {}});
        assert_eq!(
            press(&mut form(schema.clone()), "2"),
            Some(ElicitationReply::Decline)
        );
        assert_eq!(
            press(&mut form(schema), "<esc>"),
            Some(ElicitationReply::Cancel)
        );
    }
}
