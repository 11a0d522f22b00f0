//! The approval of a plan: what the model wants to do, and how the work may continue.

use super::form::{edit, field};
use super::permission::{PermissionAnswer, deny_with};
use super::review::{Review, Reviewed};
use super::{Layer, Level, Outcome};
use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::editor::Editor;
use crate::prompt::keymap::Keymap;
use crate::render::markdown::{self, Look};
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, more_lines, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::{PermissionMode, PermissionReply, PermissionRequest};
use lathe_tools::plan_mode::{self, MODES_AFTER};
use std::sync::Arc;

/// The row that starts again with the plan alone, and the last one.
const START_FRESH: usize = MODES_AFTER.len();
const KEEP_PLANNING: usize = START_FRESH + 1;

/// The message to the model when the dialog is closed without an answer.
pub(super) const NOT_YET: &str = "The user doesn't agree with the plan yet. Plan mode is still on. Stop and wait for their next message.";

/// The message to the model when the user starts again with the plan alone.
pub(super) const FRESH: &str =
    "The user accepts the plan and starts a new conversation with it. Stop here.";

/// A plan to be approved.
pub(crate) struct PlanDialog {
    pub(crate) request: Arc<PermissionRequest>,
    pub(crate) armed: bool,
    plan: String,
    selected: usize,
    feedback: Editor,
    keymap: Keymap,
    /// The plan part by part, while it is reviewed.
    review: Option<Review>,
    /// The words of a review that is done, and what they are about.
    reviewed: Option<(String, String)>,
}

impl PlanDialog {
    /// `None` when the request has no plan in it.
    pub(crate) fn new(request: Arc<PermissionRequest>) -> Option<Self> {
        let plan = plan_mode::plan_of(&request.input)?.to_owned();
        Some(Self {
            request,
            armed: true,
            plan,
            selected: 0,
            feedback: Editor::default(),
            keymap: Keymap::default(),
            review: None,
            reviewed: None,
        })
    }

    /// The plan as it stands, for the user's editor.
    pub(crate) fn plan(&self) -> &str {
        &self.plan
    }

    /// The user edited the plan.
    pub(crate) fn set_plan(&mut self, plan: String) {
        self.plan = plan;
    }

    fn typing(&self) -> bool {
        self.selected == KEEP_PLANNING
    }

    /// Whether the user starts again with the plan alone.
    pub(crate) fn starts_fresh(&self) -> bool {
        self.selected == START_FRESH
    }

    fn decide(&self) -> Outcome {
        if self.starts_fresh() {
            return deny_with(FRESH, true);
        }
        let reply = match MODES_AFTER.get(self.selected) {
            Some(mode) => self.approve(*mode),
            None => {
                let report = self.reviewed.as_ref().map_or("", |(report, _)| report);
                let words = format!("{}\n{report}", self.feedback.text());
                plan_mode::keep_planning(words.trim())
            }
        };
        let comment = self.reviewed.as_ref().map(|(report, _)| report.clone());
        Outcome::Answered(PermissionAnswer {
            reply,
            comment: comment.filter(|_| !self.typing()),
        })
    }

    fn review_key(&mut self, key: Key) -> Outcome {
        let Some(review) = &mut self.review else {
            return Outcome::Stay;
        };
        match review.key(key) {
            Reviewed::Stay => return Outcome::Stay,
            Reviewed::Back => {}
            Reviewed::Done => {
                let (rejected, edited, comments) = review.counts();
                let counts = [
                    (rejected, "rejected part"),
                    (edited, "edited part"),
                    (comments, "comment"),
                ];
                let words = counts.iter().filter(|(count, _)| *count > 0);
                let words: Vec<String> = words.map(|(count, what)| counted(*count, what)).collect();
                if !words.is_empty() {
                    self.plan = review.merged();
                    let mut report = review.report();
                    if let Some((before, _)) = &self.reviewed {
                        report = format!("{before}\n{report}");
                    }
                    self.reviewed = Some((report, words.join(", ")));
                    if comments > 0 {
                        // Who comments wants an answer first.
                        self.selected = KEEP_PLANNING;
                    }
                }
            }
        }
        self.review = None;
        Outcome::Stay
    }

    /// Yes, with the plan as the user changed it, if they did.
    fn approve(&self, mode: PermissionMode) -> PermissionReply {
        let mut reply = plan_mode::approve(mode);
        if let PermissionReply::Allow { updated_input, .. } = &mut reply
            && plan_mode::plan_of(&self.request.input) != Some(self.plan.as_str())
        {
            let mut input = self.request.input.clone();
            if let Some(fields) = input.as_object_mut() {
                fields.insert("plan".to_owned(), self.plan.as_str().into());
            }
            *updated_input = Some(input);
        }
        reply
    }

    /// The whole plan.
    fn full_lines(&self, look: Look<'_>) -> Vec<Line> {
        let mut out = vec![Line::styled("Go ahead with this plan?", look.theme.heading)];
        out.extend(self.rendered(look));
        if let Some(file) = self
            .request
            .input
            .get("planFilePath")
            .and_then(serde_json::Value::as_str)
        {
            out.push(Line::styled(
                format!("saved in {}", clean(file)),
                look.theme.muted,
            ));
        }
        out
    }

    fn rendered(&self, look: Look<'_>) -> Vec<Line> {
        let inner = Look {
            columns: look.columns.saturating_sub(2),
            ..look
        };
        markdown::render(&self.plan, inner)
            .into_iter()
            .map(|line| {
                let mut shown = Line::styled("│ ", look.theme.modes.plan);
                shown.spans.extend(line.spans);
                shown
            })
            .collect()
    }

    fn answers(&self, look: Look<'_>) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let mut out = vec![Line::empty()];
        let mut cursor = Cursor::default();
        for index in 0..=KEEP_PLANNING {
            let here = index == self.selected;
            let style = if here { theme.selected } else { Style::PLAIN };
            let mut line = if here {
                Line::styled("❯ ", theme.selected)
            } else {
                Line::plain("  ")
            };
            line.push(format!("{}. ", index + 1), theme.muted);
            if let Some(mode) = MODES_AFTER.get(index) {
                line.push(words(*mode), style);
                out.extend(wrap(&line, look.columns, 5));
                continue;
            }
            if index == START_FRESH {
                line.push("Yes, in a new conversation with the plan alone", style);
                out.extend(wrap(&line, look.columns, 5));
                continue;
            }
            line.push("No, keep planning", style);
            if here {
                line.push(": ", style);
                let used = line.width();
                let (shown, column) =
                    field(&self.feedback, look.columns.saturating_sub(used + 1).max(4));
                cursor = Cursor {
                    row: out.len(),
                    column: used + column,
                    visible: true,
                };
                line.push(shown, theme.code);
            }
            out.push(crate::render::text::truncate_line(&line, look.columns));
        }
        if let Some((_, words)) = &self.reviewed {
            let words = format!("Your review goes along: {words}");
            out.extend(wrap(&Line::styled(words, theme.accent), look.columns, 0));
        }
        let hint = if self.typing() {
            "say what to change · enter send · esc stop"
        } else {
            "enter choose · h review by part · ctrl+g edit the plan · esc stop"
        };
        let hint = look.keys.dialog_hint(self.contexts(), hint);
        out.extend(wrap(&Line::styled(hint, theme.muted), look.columns, 0));
        (out, cursor)
    }
}

impl Layer for PlanDialog {
    fn level(&self) -> Level {
        Level::Question
    }

    fn paste(&mut self, text: &str) {
        if let Some(review) = &mut self.review {
            review.paste(text);
        } else if self.typing() {
            self.feedback.insert(text);
        }
    }

    fn key(&mut self, key: Key) -> Outcome {
        if self.review.is_some() {
            return self.review_key(key);
        }
        let rows = KEEP_PLANNING + 1;
        match key.code {
            Code::Esc => {
                return deny_with(NOT_YET, true);
            }
            Code::Up => self.selected = (self.selected + rows - 1) % rows,
            Code::Down => self.selected = (self.selected + 1) % rows,
            Code::Enter => return self.decide(),
            _ if self.typing() => edit(&mut self.feedback, &self.keymap, key),
            Code::Char('n') if !key.ctrl && !key.alt => self.selected = KEEP_PLANNING,
            Code::Char('h' | 'c') if !key.ctrl && !key.alt => {
                self.review = Review::of_plan(&self.plan);
            }
            Code::Char(c) if !key.ctrl && !key.alt => {
                let row = match c {
                    'y' => Some(0),
                    c => c
                        .to_digit(10)
                        .and_then(|number| (number as usize).checked_sub(1)),
                };
                if let Some(row) = row.filter(|row| *row < rows) {
                    self.selected = row;
                    if !self.typing() {
                        return self.decide();
                    }
                }
            }
            _ => {}
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        if let Some(review) = &self.review {
            return review.view(look, rows);
        }
        let theme = look.theme;
        let (answers, mut cursor) = self.answers(look);
        let mut out = vec![Line::styled("Go ahead with this plan?", theme.heading)];
        let room = rows.saturating_sub(out.len() + answers.len() + 1).max(3);
        let mut plan = self.rendered(look);
        if plan.len() > room {
            let more = plan.len() - room + 1;
            plan.truncate(room - 1);
            plan.push(Line::styled(
                format!("  {}", more_lines(more, look.keys)),
                theme.muted,
            ));
        }
        out.extend(plan);
        cursor.row += out.len();
        out.extend(answers);
        (out, cursor)
    }

    fn request_id(&self) -> Option<&RequestId> {
        Some(&self.request.request_id)
    }

    fn contexts(&self) -> &'static [DialogContext] {
        if self.review.is_some() {
            &[DialogContext::Review]
        } else {
            &[DialogContext::Question]
        }
    }

    fn takes_text(&self) -> bool {
        let reviewed = self.review.as_ref();
        reviewed.map_or(self.typing(), Review::takes_text)
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

fn words(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::AcceptEdits => "Yes, and accept all edits this session",
        PermissionMode::Auto => "Yes, and let a classifier answer the questions (auto mode)",
        _ => "Yes, and ask before each change",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::key::keys;
    use lathe_protocol::permission::PermissionUpdate;
    use serde_json::json;

    fn dialog() -> PlanDialog {
        let request = serde_json::from_value(json!({
            "request_id": "r1", "tool_name": "ExitPlanMode", "tool_use_id": "toolu_1",
            "input": {"plan": "# Do it\n\n1. first\n2. second", "planFilePath": "/p/plan.md"},
            "permission_suggestions": [],
        }));
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        PlanDialog::new(Arc::new(request)).unwrap()
    }

    fn press(dialog: &mut PlanDialog, text: &str) -> PermissionReply {
        for key in keys(text) {
            match dialog.key(key) {
                Outcome::Stay => {}
                Outcome::Answered(answer) => return answer.reply,
                other => panic!("{other:?}"),
            }
        }
        panic!("nothing was answered");
    }

    #[test]
    fn the_mode_after_the_plan_is_chosen() {
        for (pressed, expected) in [
            ("\n", PermissionMode::AcceptEdits),
            ("y", PermissionMode::AcceptEdits),
            ("2", PermissionMode::Default),
            ("<down><down>\n", PermissionMode::Auto),
        ] {
            let PermissionReply::Allow {
                updated_permissions,
                updated_input: None,
                ..
            } = press(&mut dialog(), pressed)
            else {
                panic!("{pressed}");
            };
            assert!(
                matches!(updated_permissions[..], [PermissionUpdate::SetMode { mode, .. }] if mode == expected)
            );
        }
    }

    #[test]
    fn feedback_goes_to_the_model() {
        for pressed in ["nsmaller\n", "<up>smaller\n", "5smaller\n"] {
            let PermissionReply::Deny {
                message, interrupt, ..
            } = press(&mut dialog(), pressed)
            else {
                panic!("{pressed}");
            };
            assert!(message.contains("smaller") && !interrupt, "{message}");
        }
    }

    #[test]
    fn a_changed_plan_goes_along() {
        let mut dialog = dialog();
        dialog.set_plan("only the first".to_owned());
        let PermissionReply::Allow {
            updated_input: Some(input),
            ..
        } = press(&mut dialog, "1")
        else {
            panic!("the plan is missing");
        };
        assert_eq!(input["plan"], "only the first");
    }
}
