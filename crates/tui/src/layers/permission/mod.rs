//! The permission question: what would happen, why it is asked, and the answers.

mod keeping;
#[cfg(test)]
mod tests;
mod what;

use super::form::{edit, field};
use super::review::{Review, Reviewed};
use super::{Layer, Level, Outcome};
use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::editor::Editor;
use crate::prompt::keymap::Keymap;
use crate::render::markdown::Look;
use crate::render::shell_edit::{self, ShellEdit};
use crate::render::style::{Line, Style};
use crate::render::text::{clean, more_lines, one_line, reveal, truncate, truncate_line, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
pub(crate) use keeping::{beside_rules, is_dangerous, worth_keeping};
use lathe_permissions::format_rule;
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::{
    Behavior, PermissionReply, PermissionRequest, PermissionUpdate, RuleSource,
};
use lathe_shell::analysis::{Analysis, ReadOnly, analyse};
use lathe_shell::syntax::ShellKind;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub(crate) use what::change_of;

/// A user's answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PermissionAnswer {
    pub(crate) reply: PermissionReply,
    /// Words for the model beside a yes.
    pub(crate) comment: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Once,
    Always,
    No,
    NoBecause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Editing {
    Nothing,
    Rule,
    Reason,
    Comment,
}

/// How many lines of what is asked about are shown, however few rows there are.
const LEAST_SHOWN: usize = 3;

/// The destinations of 'always', in the order in which Left and Right go through them.
const DESTINATIONS: &[(RuleSource, &str)] = &[
    (RuleSource::Session, "this session"),
    (RuleSource::LocalSettings, "this project (just me)"),
    (RuleSource::ProjectSettings, "this project (shared)"),
    (RuleSource::UserSettings, "all your projects"),
];

/// The permission question.
pub(crate) struct PermissionDialog {
    pub(crate) request: Arc<PermissionRequest>,
    cwd: PathBuf,
    choices: Vec<Choice>,
    selected: usize,
    editing: Editing,
    rule: Editor,
    rule_problem: Option<String>,
    /// The effect of 'always' if it isn't a rule (a mode, a folder).
    other_updates: Vec<PermissionUpdate>,
    destination: usize,
    words: Editor,
    keymap: Keymap,
    change: Vec<lathe_protocol::display::Hunk>,
    analysis: Option<Analysis>,
    /// The change hunk by hunk, while it is reviewed.
    review: Option<Review>,
    /// Whether keys answer. A user who was typing when the question came up continues typing until
    /// they turn to it.
    pub(crate) armed: bool,
}

impl PermissionDialog {
    pub(crate) fn new(request: Arc<PermissionRequest>, cwd: &Path) -> Self {
        let mut rule = Editor::default();
        let mut destination = 1;
        let mut other_updates = Vec::new();
        for update in &worth_keeping(&request) {
            match update {
                PermissionUpdate::AddRules {
                    rules,
                    destination: saved,
                    ..
                } if !rules.is_empty() => {
                    rule.set_text(&rules.iter().map(format_rule).collect::<Vec<_>>().join(", "));
                    destination = DESTINATIONS
                        .iter()
                        .position(|(source, _)| source == saved)
                        .unwrap_or(1);
                }
                update => other_updates.push(update.clone()),
            }
        }
        let mut choices = vec![Choice::Once];
        if !rule.is_empty() || !other_updates.is_empty() {
            choices.push(Choice::Always);
        }
        choices.extend([Choice::No, Choice::NoBecause]);
        let mut change = change_of(&request.tool_name, &request.input);
        let analysis = matches!(request.tool_name.as_str(), "Bash" | "BashInput")
            .then(|| request.input.get("command").and_then(Value::as_str))
            .flatten()
            .map(|command| analyse(command, ShellKind::Bash));
        let command = request.input.get("command").and_then(Value::as_str);
        if request.tool_name == "Bash"
            && let (Some(analysis), Some(command)) = (&analysis, command)
            && let Some(edit) = shell_edit::of_analysis(analysis, command, cwd)
        {
            change = crate::render::diff::hunks(&edit.old, &edit.new);
        }
        // What needs confirmation whatever the rules say is not approved by one key too many.
        let selected = choices
            .iter()
            .position(|choice| *choice == Choice::No)
            .filter(|_| is_dangerous(&request))
            .unwrap_or(0);
        Self {
            request,
            cwd: cwd.to_owned(),
            choices,
            selected,
            editing: Editing::Nothing,
            rule,
            rule_problem: None,
            other_updates,
            destination,
            words: Editor::default(),
            keymap: Keymap::default(),
            change,
            analysis,
            review: None,
            armed: true,
        }
    }

    /// Opens the review of a change, if there is one.
    fn open_review(&mut self) {
        if let Some(edit) = self.shell_edit() {
            // What is left of it must be something that a command can write.
            let is_whole = |text: &str| shell_edit::writing(&edit.path, text).is_some();
            if is_whole(&edit.old) && is_whole(&edit.new) {
                let path = edit.path.display().to_string();
                let path = crate::render::cell::short_path(&path, &self.cwd);
                self.review = Review::new(&path, edit.old, &edit.new);
            }
            return;
        }
        let (tool, input) = (&self.request.tool_name, &self.request.input);
        let texts = what::texts_of(tool, input);
        self.review = texts.and_then(|(old, new)| Review::new(&self.path("file_path"), old, &new));
    }

    /// The edit of a shell command that is known before it runs.
    fn shell_edit(&self) -> Option<ShellEdit> {
        let command = self.request.input.get("command").and_then(Value::as_str)?;
        let analysis = self.analysis.as_ref()?;
        let is_shell = self.request.tool_name == "Bash";
        is_shell
            .then(|| shell_edit::of_analysis(analysis, command, &self.cwd))
            .flatten()
    }

    /// The input of a shell command that writes what was accepted of its edit; `None` if that is all of it.
    fn shell_input(&self, review: &Review) -> Option<Value> {
        let edit = self.shell_edit()?;
        let merged = review.merged();
        let command = shell_edit::writing(&edit.path, &merged).filter(|_| merged != edit.new)?;
        let mut input = self.request.input.clone();
        input
            .as_object_mut()?
            .insert("command".to_owned(), command.into());
        Some(input)
    }

    fn review_key(&mut self, key: Key) -> Outcome {
        let Some(review) = &mut self.review else {
            return Outcome::Stay;
        };
        match review.key(key) {
            Reviewed::Stay => Outcome::Stay,
            Reviewed::Back => {
                self.review = None;
                Outcome::Stay
            }
            Reviewed::Done if review.is_refused() => deny_with(review.report(), false),
            Reviewed::Done => {
                let Some(review) = self.review.take() else {
                    return Outcome::Stay;
                };
                let comment = (!review.is_untouched()).then(|| review.report());
                let tool = self.request.tool_name.as_str();
                let input = match tool {
                    "Bash" => self.shell_input(&review),
                    tool => review.input(tool, &self.request.input),
                };
                let mut reply = PermissionReply::allow();
                if let PermissionReply::Allow { updated_input, .. } = &mut reply {
                    *updated_input = input;
                }
                Outcome::Answered(PermissionAnswer { reply, comment })
            }
        }
    }

    fn choice(&self) -> Choice {
        self.choices
            .get(self.selected)
            .copied()
            .unwrap_or(Choice::No)
    }

    fn select(&mut self, choice: Choice) {
        if let Some(index) = self.choices.iter().position(|other| *other == choice) {
            self.selected = index;
        }
    }

    fn move_destination(&mut self, forward: bool) {
        let count = DESTINATIONS.len();
        self.destination = (self.destination + if forward { 1 } else { count - 1 }) % count;
    }

    fn editing_key(&mut self, key: Key) -> Outcome {
        match key.code {
            Code::Esc => {
                self.editing = Editing::Nothing;
                self.rule_problem = None;
            }
            Code::Enter => match self.editing {
                Editing::Reason => {
                    let words = self.words.text().trim().to_owned();
                    return deny(&words, words.is_empty());
                }
                Editing::Comment | Editing::Rule => return self.decide(),
                Editing::Nothing => {}
            },
            Code::Tab if self.editing == Editing::Rule => self.move_destination(!key.shift),
            _ => {
                let editor = if self.editing == Editing::Rule {
                    &mut self.rule
                } else {
                    &mut self.words
                };
                edit(editor, &self.keymap, key);
                self.rule_problem = None;
            }
        }
        Outcome::Stay
    }

    fn decide(&mut self) -> Outcome {
        let comment = Some(self.words.text().trim().to_owned()).filter(|words| !words.is_empty());
        match self.choice() {
            Choice::Once => Outcome::Answered(PermissionAnswer {
                reply: PermissionReply::allow(),
                comment,
            }),
            Choice::Always => {
                let mut updates = self.other_updates.clone();
                if !self.rule.text().trim().is_empty() {
                    let mut rules = Vec::new();
                    for rule in lathe_permissions::parse_rule_list(self.rule.text()) {
                        match rule {
                            Ok(rule) => rules.push(rule),
                            Err(error) => {
                                self.editing = Editing::Rule;
                                self.rule_problem = Some(error.to_string());
                                return Outcome::Stay;
                            }
                        }
                    }
                    updates.push(PermissionUpdate::AddRules {
                        rules,
                        behavior: Behavior::Allow,
                        destination: DESTINATIONS[self.destination].0,
                    });
                }
                let mut reply = PermissionReply::allow();
                if let PermissionReply::Allow {
                    updated_permissions,
                    ..
                } = &mut reply
                {
                    *updated_permissions = updates;
                }
                Outcome::Answered(PermissionAnswer { reply, comment })
            }
            Choice::No => deny("", true),
            Choice::NoBecause => {
                self.editing = Editing::Reason;
                Outcome::Stay
            }
        }
    }

    /// Why a user is asked, and what is doubtful.
    fn why(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let mut out = Vec::new();
        for (index, reason) in self.reasons().into_iter().enumerate() {
            let words = if index == 0 { "Why it asks:" } else { "and:" };
            let style = if index == 0 && is_dangerous(&self.request) {
                theme.error
            } else {
                theme.muted
            };
            out.extend(wrap(
                &Line::styled(format!("{words} {}", clean(&reason)), style),
                look.columns,
                2,
            ));
        }
        if let Some(analysis) = &self.analysis {
            for concern in analysis
                .concerns
                .iter()
                .chain(analysis.parts.iter().flat_map(|part| &part.concerns))
                .take(3)
            {
                out.extend(wrap(
                    &Line::styled(format!("⚠ {}", clean(&concern.message)), theme.warning),
                    look.columns,
                    2,
                ));
            }
        }
        out
    }

    /// The reasons beside the one that decided: of each other part that does more than read.
    /// All reasons for the question.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let first = self.request.decision_reason.clone().unwrap_or_default();
        let further = self.further_reasons(&first);
        let first = std::iter::once(first).filter(|reason| !reason.is_empty());
        first.chain(further).collect()
    }

    fn further_reasons(&self, first: &str) -> Vec<String> {
        let parts = self.analysis.iter().flat_map(|analysis| &analysis.parts);
        let mut reasons: Vec<String> = Vec::new();
        for part in parts {
            let ReadOnly::No { reason } = &part.read_only else {
                continue;
            };
            let named = format!("`{}`: {reason}", one_line(&part.text));
            if !first.contains(reason.as_str())
                && !first.contains(&part.text)
                && !reasons.contains(&named)
                && reasons.len() < 3
                && self.analysis.as_ref().is_some_and(|it| it.parts.len() > 1)
            {
                reasons.push(named);
            }
        }
        reasons
    }

    /// The question with everything that it is about, however long.
    fn full_lines(&self, look: Look<'_>) -> Vec<Line> {
        let mut out = self.heading(look);
        out.extend(self.what(look, usize::MAX));
        out.extend(self.why(look));
        if !self.rule.is_empty() {
            let rule = Line::styled("Always allow would save: ", look.theme.muted)
                .with(reveal(self.rule.text()), look.theme.code);
            out.extend(wrap(&rule, look.columns, 2));
        }
        out
    }

    /// The possible answers; `bare` leaves out the keys.
    fn answers(&self, look: Look<'_>, bare: bool) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let mut out = Vec::new();
        if !bare {
            out.push(Line::empty());
        }
        let mut cursor = Cursor::default();
        for (index, choice) in self.choices.iter().enumerate() {
            let chosen = index == self.selected;
            let mut line = if chosen {
                Line::styled("❯ ", theme.selected)
            } else {
                Line::plain("  ")
            };
            line.push(format!("{}. ", index + 1), theme.muted);
            let style = if chosen { theme.selected } else { Style::PLAIN };
            let mut edited: Option<&Editor> = None;
            match choice {
                Choice::Once => {
                    line.push("Yes, this once", style);
                    if self.editing == Editing::Comment {
                        line.push(", and: ", style);
                        edited = Some(&self.words);
                    }
                }
                Choice::Always if self.rule.is_empty() => {
                    line.push(format!("Yes{}", self.other_words()), style);
                }
                Choice::Always => {
                    line.push("Yes, and always allow ", style);
                    if self.editing == Editing::Rule {
                        edited = Some(&self.rule);
                    } else {
                        let most = look.columns.saturating_mul(2).saturating_sub(30).max(20);
                        line.push(truncate(&reveal(self.rule.text()), most), theme.code);
                        line.push(
                            format!(" in {}", DESTINATIONS[self.destination].1),
                            theme.muted,
                        );
                        line.push(self.other_words(), style);
                    }
                }
                Choice::No => line.push("No", style),
                Choice::NoBecause => {
                    line.push("No, and say why", style);
                    if self.editing == Editing::Reason {
                        line.push(": ", style);
                        edited = Some(&self.words);
                    }
                }
            }
            if let Some(editor) = edited {
                let used = line.width();
                let (shown, column) = field(editor, look.columns.saturating_sub(used + 1));
                cursor = Cursor {
                    row: out.len(),
                    column: used + column,
                    visible: true,
                };
                line.push(shown, theme.code);
                out.push(line);
            } else {
                out.extend(wrap(&line, look.columns, 5));
            }
        }
        if let Some(problem) = &self.rule_problem {
            out.extend(wrap(
                &Line::styled(format!("  {problem}"), theme.error),
                look.columns,
                2,
            ));
        }
        if !self.armed || bare {
            return (out, cursor);
        }
        let hint = match (self.editing, self.choice()) {
            (Editing::Rule, _) => "enter allow · tab where to save it · esc back",
            (Editing::Reason, _) => "enter send to the model · esc back",
            (Editing::Comment, _) => "enter allow and tell the model · esc back",
            (_, Choice::Always) if !self.rule.is_empty() => {
                "enter choose · tab edit the rule · ←→ where to save it · esc no"
            }
            (_, Choice::Once) if !self.change.is_empty() => {
                "enter choose · tab add a comment · h review by hunk · esc no"
            }
            (_, Choice::Once) => "enter choose · tab add a comment · esc no",
            _ => "enter choose · esc no",
        };
        let hint = if self.editing == Editing::Rule {
            format!("{hint} · saved in {}", DESTINATIONS[self.destination].1)
        } else {
            hint.to_owned()
        };
        let hint = look.keys.dialog_hint(self.contexts(), &hint);
        out.extend(wrap(&Line::styled(hint, theme.muted), look.columns, 0));
        (out, cursor)
    }

    /// Changes that 'always' makes beside the rule, in words that follow "Yes".
    fn other_words(&self) -> String {
        let others = self.other_updates.iter().filter_map(beside_rules);
        others.map(|words| format!(", and {words}")).collect()
    }
}

impl Layer for PermissionDialog {
    fn level(&self) -> Level {
        Level::Question
    }

    fn paste(&mut self, text: &str) {
        if let Some(review) = &mut self.review {
            review.paste(text);
            return;
        }
        let line = text.lines().next().unwrap_or_default();
        match self.editing {
            Editing::Rule => self.rule.insert(line),
            Editing::Reason | Editing::Comment => self.words.insert(line),
            Editing::Nothing => {}
        }
    }

    fn key(&mut self, key: Key) -> Outcome {
        if self.review.is_some() {
            return self.review_key(key);
        }
        if self.editing != Editing::Nothing {
            return self.editing_key(key);
        }
        match key.code {
            Code::Up => {
                self.selected = self
                    .selected
                    .checked_sub(1)
                    .unwrap_or(self.choices.len() - 1);
            }
            Code::Down => self.selected = (self.selected + 1) % self.choices.len(),
            Code::Left | Code::Right if self.choice() == Choice::Always => {
                self.move_destination(key.code == Code::Right);
            }
            Code::Tab if !key.shift => match self.choice() {
                Choice::Once => self.editing = Editing::Comment,
                Choice::Always if !self.rule.is_empty() => self.editing = Editing::Rule,
                Choice::No | Choice::NoBecause => {
                    self.select(Choice::NoBecause);
                    self.editing = Editing::Reason;
                }
                Choice::Always => {}
            },
            Code::Enter => return self.decide(),
            Code::Esc => return deny("", true),
            Code::Char('h') if !key.ctrl && !key.alt && !self.change.is_empty() => {
                self.open_review();
            }
            Code::Char(c) if !key.ctrl && !key.alt => {
                let choice = match c {
                    'y' => Some(Choice::Once),
                    'a' => Some(Choice::Always),
                    'n' => Some(Choice::No),
                    'd' => Some(Choice::NoBecause),
                    'e' => {
                        self.select(Choice::Always);
                        if self.choice() == Choice::Always && !self.rule.is_empty() {
                            self.editing = Editing::Rule;
                        }
                        None
                    }
                    c => c
                        .to_digit(10)
                        .and_then(|number| (number as usize).checked_sub(1))
                        .and_then(|index| self.choices.get(index).copied()),
                };
                if let Some(choice) = choice
                    && self.choices.contains(&choice)
                {
                    self.select(choice);
                    return self.decide();
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
        let mut answers = self.answers(look, false);
        let mut out = self.heading(look);
        let mut what = self.what(look, usize::MAX);
        let mut why = self.why(look);
        // The subject matters most. Where rows are few, its description, the keys and the
        // reasons give way to it; nobody should have to answer without having seen it.
        let least = what.len().min(LEAST_SHOWN);
        if rows < out.len() + answers.0.len() + least {
            out.truncate(1);
        }
        if rows < out.len() + answers.0.len() + least {
            answers = self.answers(look, true);
        }
        // A long rule must not push the subject off: what it would allow is cut to its first line.
        if rows < out.len() + answers.0.len() + least && self.editing == Editing::Nothing {
            let cut = Look {
                columns: usize::MAX,
                ..look
            };
            let (mut lines, cursor) = self.answers(cut, true);
            for line in &mut lines {
                *line = truncate_line(line, look.columns);
            }
            answers = (lines, cursor);
        }
        let room = rows.saturating_sub(out.len() + answers.0.len()).max(1);
        let for_what = room.saturating_sub(why.len()).max(least).min(room);
        if what.len() > for_what && !self.change.is_empty() {
            // Of a change, what stays the same goes first.
            what = self.what(look, for_what.saturating_sub(1).max(1));
        }
        if what.len() > for_what {
            let more = what.len() - for_what + 1;
            what = what::most_telling(what, for_what - 1, theme);
            let line = Line::styled(format!("  {}", more_lines(more, look.keys)), theme.muted);
            what.push(truncate_line(&line, look.columns));
        }
        if why.len() > room - what.len() {
            why.truncate(room - what.len());
            if let Some(last) = why.last_mut() {
                last.push(" …", theme.muted);
                *last = truncate_line(last, look.columns);
            }
        }
        out.extend(what);
        out.extend(why);
        let offset = out.len();
        out.extend(answers.0);
        let mut cursor = answers.1;
        cursor.row += offset;
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
        reviewed.map_or(self.editing != Editing::Nothing, Review::takes_text)
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

/// The result that the model gets when a user says no.
const NO: &str = "The user refused this. Stop and wait for their next message.";

/// The start of the result when the user says why.
const NO_BECAUSE: &str = "The user refused this and said: ";

fn deny(words: &str, interrupt: bool) -> Outcome {
    if words.is_empty() {
        deny_with(NO, interrupt)
    } else {
        deny_with(format!("{NO_BECAUSE}{words}"), interrupt)
    }
}

/// A refusal, as the user who refused reads it; the text for the model is in the third person.
pub(crate) fn refusal(told: &str) -> Option<String> {
    if told == NO {
        return Some("You said no.".to_owned());
    }
    if told == super::plan::FRESH {
        return Some("You start again with the plan alone.".to_owned());
    }
    if told == super::plan::NOT_YET {
        return Some("You did not accept the plan yet.".to_owned());
    }
    if told == super::question::DISMISSED {
        return Some("You chose not to answer.".to_owned());
    }
    if let Some(reviewed) = told.strip_prefix("I rejected ") {
        return Some(format!("You rejected {reviewed}"));
    }
    told.strip_prefix(NO_BECAUSE)
        .map(|words| format!("You said no: {words}"))
        .or_else(|| lathe_tools::plan_mode::refusal_words(told))
}

/// A refusal with these words for the model.
pub(super) fn deny_with(message: impl Into<String>, interrupt: bool) -> Outcome {
    let reply = PermissionReply::Deny {
        message: message.into(),
        interrupt,
        extra: lathe_protocol::Extra::new(),
    };
    Outcome::Answered(PermissionAnswer {
        reply,
        comment: None,
    })
}
