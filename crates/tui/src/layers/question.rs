//! Questions of the model to the user: one to four, each with answers to choose from, one or several,
//! or words of the user's own.
//!
//! A single question with one answer is over with one key. Several are gone through one after another;
//! ← and → go back and forth, and at the end stands a page with all answers before they are sent.

use super::form::{edit, field};
use super::permission::{PermissionAnswer, deny_with};
use super::{Layer, Level, Outcome};
use crate::app::agents::asked_by;
use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::editor::Editor;
use crate::prompt::keymap::Keymap;
use crate::render::markdown::{self, Look};
use crate::render::style::{Line, Style};
use crate::render::text::{clean, more_lines, truncate, truncate_line, width, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::PermissionRequest;
use lathe_tools::ask_user_question::{self, Question};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How far the user is with one question.
struct Asked {
    question: Question,
    selected: usize,
    chosen: BTreeSet<usize>,
    /// Words of the user's own, in place of an answer that is offered.
    own: Editor,
    own_counts: bool,
}

impl Asked {
    /// The row below the offered answers: words of one's own.
    fn own_row(&self) -> usize {
        self.question.options.len()
    }

    fn answer(&self) -> Option<String> {
        let mut parts: Vec<&str> = self
            .chosen
            .iter()
            .filter_map(|index| self.question.options.get(*index))
            .map(|option| option.label.as_str())
            .collect();
        let own = self.own.text().trim();
        if self.own_counts && !own.is_empty() {
            parts.push(own);
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The questions of one call.
pub(crate) struct QuestionDialog {
    pub(crate) request: Arc<PermissionRequest>,
    pub(crate) armed: bool,
    asked: Vec<Asked>,
    /// The question that is shown; one past the last is the page with the answers.
    at: usize,
    keymap: Keymap,
}

impl QuestionDialog {
    /// `None` when the request has no questions in it.
    pub(crate) fn new(request: Arc<PermissionRequest>) -> Option<Self> {
        let questions = ask_user_question::questions(&request.input)?;
        if questions.is_empty() {
            return None;
        }
        let asked = questions
            .into_iter()
            .map(|question| Asked {
                question,
                selected: 0,
                chosen: BTreeSet::new(),
                own: Editor::default(),
                own_counts: false,
            })
            .collect();
        Some(Self {
            request,
            armed: true,
            asked,
            at: 0,
            keymap: Keymap::default(),
        })
    }

    fn typing(&self) -> bool {
        self.asked
            .get(self.at)
            .is_some_and(|asked| asked.selected == asked.own_row())
    }

    /// Goes to the next or the previous question.
    fn turn(&mut self, forward: bool) {
        // One question needs no page with its answer.
        let last = if self.asked.len() > 1 {
            self.asked.len()
        } else {
            0
        };
        self.at = if forward {
            (self.at + 1).min(last)
        } else {
            self.at.saturating_sub(1)
        };
    }

    fn enter(&mut self) -> Outcome {
        let Some(asked) = self.asked.get_mut(self.at) else {
            return Outcome::Stay;
        };
        let row = asked.selected;
        if row == asked.own_row() {
            if asked.own.text().trim().is_empty() {
                return Outcome::Stay;
            }
            asked.own_counts = true;
            if !asked.question.multi_select {
                asked.chosen.clear();
            }
        } else if asked.question.multi_select {
            if asked.chosen.is_empty() && !asked.own_counts {
                asked.chosen.insert(row);
            }
        } else {
            asked.own_counts = false;
            asked.chosen = [row].into();
        }
        if self.asked.len() == 1 {
            return self.send();
        }
        self.turn(true);
        Outcome::Stay
    }

    fn review_key(&mut self, key: Key) -> Outcome {
        match key.code {
            Code::Left => self.turn(false),
            Code::Tab if key.shift => self.turn(false),
            Code::Enter => {
                match self.asked.iter().position(|asked| asked.answer().is_none()) {
                    // Missing answers are asked for again; a second Enter there continues.
                    Some(missing) => self.at = missing,
                    None => return self.send(),
                }
            }
            _ => {}
        }
        Outcome::Stay
    }

    fn send(&self) -> Outcome {
        let answers: Vec<(String, String)> = self
            .asked
            .iter()
            .filter_map(|asked| Some((asked.question.question.clone(), asked.answer()?)))
            .collect();
        Outcome::Answered(PermissionAnswer {
            reply: ask_user_question::answer(&self.request.input, &answers),
            comment: None,
        })
    }

    /// Everything that is asked, however long.
    fn full_lines(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let mut out = Vec::new();
        for asked in &self.asked {
            out.extend(wrap(
                &Line::styled(clean(&asked.question.question), theme.heading),
                look.columns,
                0,
            ));
            for option in &asked.question.options {
                let line = Line::styled(format!("  • {}", clean(&option.label)), theme.accent)
                    .with(format!("  {}", clean(&option.description)), theme.muted);
                out.extend(wrap(&line, look.columns, 4));
                if let Some(preview) = &option.preview {
                    out.extend(markdown::render(preview, look));
                }
            }
            out.push(Line::empty());
        }
        out
    }

    fn tabs(&self, look: Look<'_>) -> Line {
        let theme = look.theme;
        let mut line = Line::empty();
        for (index, asked) in self.asked.iter().enumerate() {
            let mark = if asked.answer().is_some() {
                "✓ "
            } else {
                "□ "
            };
            let style = if index == self.at {
                theme.selected
            } else {
                theme.muted
            };
            line.push(mark, theme.success);
            line.push(clean(&asked.question.header).replace('\n', " "), style);
            line.push("   ", Style::PLAIN);
        }
        let style = if self.at == self.asked.len() {
            theme.selected
        } else {
            theme.muted
        };
        line.push("send", style);
        truncate_line(&line, look.columns)
    }

    fn row(
        &self,
        asked: &Asked,
        index: usize,
        look: Look<'_>,
        out: &mut Vec<Line>,
        cursor: &mut Cursor,
    ) {
        let theme = look.theme;
        let here = index == asked.selected;
        let style = if here { theme.selected } else { Style::PLAIN };
        let mut line = if here {
            Line::styled("❯ ", theme.selected)
        } else {
            Line::plain("  ")
        };
        line.push(format!("{}. ", index + 1), theme.muted);
        let marked = if index == asked.own_row() {
            asked.own_counts && !asked.own.text().trim().is_empty()
        } else {
            asked.chosen.contains(&index)
        };
        if asked.question.multi_select {
            line.push(if marked { "[x] " } else { "[ ] " }, theme.accent);
        }
        let Some(option) = asked.question.options.get(index) else {
            line.push("Something else: ", style);
            let used = line.width();
            let (shown, column) = field(&asked.own, look.columns.saturating_sub(used + 1).max(4));
            if here {
                *cursor = Cursor {
                    row: out.len(),
                    column: used + column,
                    visible: true,
                };
            }
            line.push(shown, theme.code);
            out.push(truncate_line(&line, look.columns));
            return;
        };
        line.push(clean(&option.label).replace('\n', " "), style);
        if marked && !asked.question.multi_select {
            line.push(" ✓", theme.success);
        }
        if !option.description.trim().is_empty() {
            line.push(
                format!("  {}", clean(&option.description).replace('\n', " ")),
                theme.muted,
            );
        }
        out.extend(wrap(&line, look.columns, 5));
    }

    /// The preview of the selected answer, as far as there is room.
    fn preview(&self, asked: &Asked, look: Look<'_>, rows: usize, out: &mut Vec<Line>) {
        let Some(preview) = asked
            .question
            .options
            .get(asked.selected)
            .and_then(|option| option.preview.as_deref())
            .filter(|preview| !preview.trim().is_empty())
        else {
            return;
        };
        let inner = Look {
            columns: look.columns.saturating_sub(2),
            ..look
        };
        let lines = markdown::render(preview, inner);
        let room = rows.saturating_sub(out.len() + 3).max(3);
        out.push(Line::empty());
        for line in lines.iter().take(room) {
            let mut shown = Line::plain("  ");
            shown.spans.extend(line.spans.clone());
            out.push(truncate_line(&shown, look.columns));
        }
        if lines.len() > room {
            out.push(Line::styled(
                format!("  {}", more_lines(lines.len() - room, look.keys)),
                look.theme.muted,
            ));
        }
    }

    fn review(&self, look: Look<'_>, mut out: Vec<Line>) -> Vec<Line> {
        let theme = look.theme;
        out.push(Line::styled("Your answers", theme.heading));
        let heads: Vec<String> = self
            .asked
            .iter()
            .map(|asked| truncate(&clean(&asked.question.header).replace('\n', " "), 20))
            .collect();
        let column = heads.iter().map(|head| width(head)).max().unwrap_or(0);
        for (asked, head) in self.asked.iter().zip(&heads) {
            let padding = " ".repeat(column - width(head));
            let mut line = Line::styled(format!("  {head}{padding}  "), theme.muted);
            match asked.answer() {
                Some(answer) => line.push(clean(&answer), Style::PLAIN),
                None => line.push("not answered yet", theme.warning),
            }
            out.extend(wrap(&line, look.columns, 4));
        }
        let hint = if self.asked.iter().all(|asked| asked.answer().is_some()) {
            "enter send · ← back · esc back"
        } else {
            "enter answers the rest · ← back · esc back"
        };
        let hint = look.keys.dialog_hint(self.contexts(), hint);
        out.extend(wrap(&Line::styled(hint, theme.muted), look.columns, 0));
        out
    }
}

/// The result that the model gets when a question is dismissed.
pub(super) const DISMISSED: &str =
    "The user doesn't want to answer this now. Stop and wait for their next message.";

impl Layer for QuestionDialog {
    fn level(&self) -> Level {
        Level::Question
    }

    fn paste(&mut self, text: &str) {
        if self.typing()
            && let Some(asked) = self.asked.get_mut(self.at)
        {
            asked.own.insert(text.lines().next().unwrap_or_default());
        }
    }

    fn key(&mut self, key: Key) -> Outcome {
        if key.is(Code::Esc) {
            if self.at == self.asked.len() {
                self.at -= 1;
                return Outcome::Stay;
            }
            return deny_with(DISMISSED, true);
        }
        let Some(asked) = self.asked.get_mut(self.at) else {
            return self.review_key(key);
        };
        let rows = asked.own_row() + 1;
        let typing = asked.selected == asked.own_row();
        match key.code {
            Code::Up => asked.selected = (asked.selected + rows - 1) % rows,
            Code::Down => asked.selected = (asked.selected + 1) % rows,
            Code::Tab => self.turn(!key.shift),
            Code::Left if !typing || asked.own.is_empty() => self.turn(false),
            Code::Right if !typing || asked.own.is_empty() => self.turn(true),
            Code::Enter => return self.enter(),
            _ if typing => edit(&mut asked.own, &self.keymap, key),
            Code::Char(' ') if asked.question.multi_select => {
                let row = asked.selected;
                toggle(&mut asked.chosen, row);
            }
            Code::Char(c) if !key.ctrl && !key.alt => {
                let row = c.to_digit(10).and_then(|number| number.checked_sub(1));
                if let Some(row) = row.map(|row| row as usize).filter(|row| *row < rows) {
                    asked.selected = row;
                    if row == asked.own_row() {
                        return Outcome::Stay;
                    }
                    if asked.question.multi_select {
                        toggle(&mut asked.chosen, row);
                    } else {
                        return self.enter();
                    }
                }
            }
            _ => {}
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let mut out = Vec::new();
        if self.asked.len() > 1 {
            out.push(self.tabs(look));
        }
        let Some(asked) = self.asked.get(self.at) else {
            return (self.review(look, out), Cursor::default());
        };
        let theme = look.theme;
        out.extend(wrap(
            &Line::styled(clean(&asked.question.question), theme.heading),
            look.columns,
            0,
        ));
        if let Some(agent) = &self.request.agent {
            out.extend(wrap(&asked_by(agent, theme.muted), look.columns, 0));
        }
        out.push(Line::empty());
        let mut cursor = Cursor::default();
        for index in 0..=asked.own_row() {
            self.row(asked, index, look, &mut out, &mut cursor);
        }
        self.preview(asked, look, rows, &mut out);
        let hint = if asked.selected == asked.own_row() {
            "type your answer · enter accept · esc don't answer"
        } else if asked.question.multi_select {
            "space mark · enter accept · esc don't answer"
        } else {
            "enter choose · esc don't answer"
        };
        let hint = if self.asked.len() > 1 {
            format!("{hint} · ←→ questions")
        } else {
            hint.to_owned()
        };
        let hint = look.keys.dialog_hint(self.contexts(), &hint);
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
        self.typing()
    }

    fn armed(&self) -> bool {
        self.armed
    }

    fn arm(&mut self, armed: bool) {
        self.armed = armed;
    }

    fn in_full(&self, look: Look<'_>) -> Option<Vec<Line>> {
        Some(self.full_lines(look))
    }
}

fn toggle(chosen: &mut BTreeSet<usize>, row: usize) {
    if !chosen.remove(&row) {
        chosen.insert(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::key::keys;
    use lathe_protocol::permission::PermissionReply;
    use serde_json::{Value, json};

    fn dialog(questions: &Value) -> QuestionDialog {
        let request = serde_json::from_value(json!({
            "request_id": "r1", "tool_name": "AskUserQuestion", "tool_use_id": "toolu_1",
            "input": {"questions": questions}, "permission_suggestions": [],
        }));
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        QuestionDialog::new(Arc::new(request)).unwrap()
    }

    fn store() -> Value {
        json!({"question": "Which store?", "header": "Store", "options": [
            {"label": "SQLite", "description": "a file"}, {"label": "Postgres", "description": "a server"}]})
    }

    fn checks() -> Value {
        json!({"question": "Which checks?", "header": "Checks", "multiSelect": true, "options": [
            {"label": "Tests"}, {"label": "Lints"}, {"label": "Types"}]})
    }

    /// Presses keys and gives the answers that were sent, if any.
    fn press(dialog: &mut QuestionDialog, text: &str) -> Option<Value> {
        for key in keys(text) {
            match dialog.key(key) {
                Outcome::Stay => {}
                Outcome::Answered(PermissionAnswer {
                    reply:
                        PermissionReply::Allow {
                            updated_input: Some(input),
                            ..
                        },
                    ..
                }) => return Some(input["answers"].clone()),
                other => panic!("{other:?}"),
            }
        }
        None
    }

    #[test]
    fn one_question_is_answered_with_one_key() {
        for (pressed, expected) in [
            ("2", "Postgres"),
            ("<down>\n", "Postgres"),
            ("\n", "SQLite"),
            ("<up>Duck\n", "Duck"),
            ("3x1\n", "x1"),
        ] {
            let mut dialog = dialog(&json!([store()]));
            assert_eq!(
                press(&mut dialog, pressed),
                Some(json!({"Which store?": expected})),
                "{pressed}"
            );
        }
    }

    #[test]
    fn several_answers_are_joined() {
        let mut dialog = dialog(&json!([checks()]));
        assert_eq!(press(&mut dialog, "1<down><down> "), None);
        assert_eq!(
            press(&mut dialog, "<down>bench\n"),
            Some(json!({"Which checks?": "Tests, Types, bench"}))
        );
    }

    #[test]
    fn several_questions_end_with_a_page_of_answers() {
        let mut dialog = dialog(&json!([store(), checks()]));
        assert_eq!(press(&mut dialog, "2<right>\n"), None);
        // Skipped questions are asked again before anything is sent.
        assert_eq!(dialog.at, 1);
        assert_eq!(press(&mut dialog, "2\n"), None);
        assert_eq!(
            press(&mut dialog, "<left><left>1<right>\n"),
            Some(json!({"Which store?": "SQLite", "Which checks?": "Lints"}))
        );
    }

    #[test]
    fn escape_refuses_to_answer() {
        let mut dialog = dialog(&json!([store()]));
        assert!(matches!(
            dialog.key(Key::new(Code::Esc)),
            Outcome::Answered(PermissionAnswer {
                reply: PermissionReply::Deny {
                    interrupt: true,
                    ..
                },
                ..
            })
        ));
    }
}
