//! Reviewing a change hunk by hunk: accept, reject, edit in place, and comment on lines.
//!
//! Of a change that is asked about, the part that the user accepts becomes the input of the call. Of one that was made,
//! rejected hunks are put back. A plan is reviewed part by part. The model is told exactly what is not in the file or
//! the plan, and what was said about which line.

use crate::layers::form::{edit, field};
use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::editor::Editor;
use crate::prompt::keymap::Keymap;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{counted, reveal, truncate_line, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The decision about one hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Rejected,
    Edited,
}

/// Lines that are replaced by others.
#[derive(Debug, Clone)]
struct Hunk {
    /// The first line in the old text, from 0.
    start: usize,
    removed: Vec<String>,
    added: Vec<String>,
    verdict: Verdict,
}

/// The subject of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A change that is asked about.
    Asked,
    /// A change that was made.
    Made,
    Plan,
}

/// A line on the screen that the cursor can stand on: a hunk, and its line (removed ones first).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hunk: usize,
    line: usize,
}

/// The text that is being typed.
enum Typing {
    Nothing,
    Comment(Editor),
    Hunk(Editor),
}

/// The end of a key.
pub(crate) enum Reviewed {
    Stay,
    /// Back to the question.
    Back,
    /// The review is over.
    Done,
}

/// A change under review.
pub(crate) struct Review {
    subject: Subject,
    path: String,
    old: String,
    hunks: Vec<Hunk>,
    at: usize,
    comments: BTreeMap<Place, String>,
    typing: Typing,
    keymap: Keymap,
}

impl Review {
    /// The review of a change that is asked about. `None` if there is nothing to decide about, or the file has line ends
    /// that an edit would not find again.
    pub(crate) fn new(path: &str, old: String, new: &str) -> Option<Self> {
        if old.contains('\r') || new.contains('\r') {
            return None;
        }
        let hunks = hunks(&old, new);
        Self::of(Subject::Asked, path, old, hunks)
    }

    /// The review of a change that was made.
    pub(crate) fn of_made(path: &str, old: String, new: &str) -> Option<Self> {
        let mut review = Self::new(path, old, new)?;
        review.subject = Subject::Made;
        Some(review)
    }

    /// The review of a plan, part by part.
    pub(crate) fn of_plan(plan: &str) -> Option<Self> {
        let hunks = parts(plan);
        Self::of(Subject::Plan, "the plan", String::new(), hunks)
    }

    fn of(subject: Subject, path: &str, old: String, hunks: Vec<Hunk>) -> Option<Self> {
        (!hunks.is_empty()).then(|| Self {
            subject,
            path: path.to_owned(),
            old,
            hunks,
            at: 0,
            comments: BTreeMap::new(),
            typing: Typing::Nothing,
            keymap: Keymap::default(),
        })
    }

    fn places(&self) -> Vec<Place> {
        let lines = |(hunk, it): (usize, &Hunk)| {
            let count = it.removed.len() + it.added.len();
            (0..count).map(move |line| Place { hunk, line })
        };
        self.hunks.iter().enumerate().flat_map(lines).collect()
    }

    fn place(&self) -> Place {
        let places = self.places();
        let last = places.len().saturating_sub(1);
        let first = Place { hunk: 0, line: 0 };
        places.get(self.at.min(last)).copied().unwrap_or(first)
    }

    fn text_at(&self, place: Place) -> &str {
        let Some(hunk) = self.hunks.get(place.hunk) else {
            return "";
        };
        let line = match place.line.checked_sub(hunk.removed.len()) {
            Some(line) => hunk.added.get(line),
            None => hunk.removed.get(place.line),
        };
        line.map_or("", |line| line.trim_end_matches('\n'))
    }

    pub(crate) fn paste(&mut self, text: &str) {
        match &mut self.typing {
            Typing::Nothing => {}
            Typing::Comment(editor) => editor.insert(text.lines().next().unwrap_or_default()),
            Typing::Hunk(editor) => editor.insert(text),
        }
    }

    /// Whether a comment or a hunk is being written.
    pub(crate) fn takes_text(&self) -> bool {
        !matches!(self.typing, Typing::Nothing)
    }

    pub(crate) fn key(&mut self, key: Key) -> Reviewed {
        match &self.typing {
            Typing::Nothing => self.command(key),
            _ => {
                self.typed(key);
                Reviewed::Stay
            }
        }
    }

    fn command(&mut self, key: Key) -> Reviewed {
        let last = self.places().len().saturating_sub(1);
        let place = self.place();
        match key.code {
            Code::Esc => return Reviewed::Back,
            Code::Enter => return Reviewed::Done,
            Code::Up | Code::Char('k') => self.at = self.at.min(last).saturating_sub(1),
            Code::Down | Code::Char('j') => self.at = (self.at + 1).min(last),
            Code::Tab => {
                let next = self.places().iter().position(|it| it.hunk > place.hunk);
                self.at = next.unwrap_or(0);
            }
            Code::Char('y') => self.judge(place.hunk, Verdict::Accepted),
            Code::Char('n') => self.judge(place.hunk, Verdict::Rejected),
            Code::Char(' ') => {
                let rejected = self.hunks[place.hunk].verdict == Verdict::Rejected;
                let next = if rejected {
                    Verdict::Accepted
                } else {
                    Verdict::Rejected
                };
                self.judge(place.hunk, next);
            }
            Code::Char('c') => {
                let mut editor = Editor::default();
                editor.set_text(self.comments.get(&place).map_or("", String::as_str));
                self.typing = Typing::Comment(editor);
            }
            Code::Char('e') => {
                let mut editor = Editor::default();
                editor.set_text(self.hunks[place.hunk].added.concat().trim_end_matches('\n'));
                self.typing = Typing::Hunk(editor);
            }
            _ => {}
        }
        Reviewed::Stay
    }

    fn judge(&mut self, hunk: usize, verdict: Verdict) {
        if let Some(hunk) = self.hunks.get_mut(hunk) {
            hunk.verdict = verdict;
        }
    }

    fn typed(&mut self, key: Key) {
        let place = self.place();
        match std::mem::replace(&mut self.typing, Typing::Nothing) {
            Typing::Nothing => {}
            Typing::Comment(mut editor) => match key.code {
                Code::Esc => {}
                Code::Enter => {
                    let text = editor.text().trim().to_owned();
                    if text.is_empty() {
                        self.comments.remove(&place);
                    } else {
                        self.comments.insert(place, text);
                    }
                }
                _ => {
                    edit(&mut editor, &self.keymap, key);
                    self.typing = Typing::Comment(editor);
                }
            },
            Typing::Hunk(mut editor) => match key.code {
                Code::Esc => {}
                Code::Enter if !key.alt && !key.shift => {
                    self.replace_hunk(place.hunk, editor.text());
                }
                Code::Up | Code::Down => {
                    let step = if key.code == Code::Up { -1 } else { 1 };
                    editor.vertical(usize::MAX / 2, step);
                    self.typing = Typing::Hunk(editor);
                }
                _ => {
                    if key.code == Code::Enter {
                        editor.insert("\n");
                    } else {
                        edit(&mut editor, &self.keymap, key);
                    }
                    self.typing = Typing::Hunk(editor);
                }
            },
        }
    }

    /// The user wrote the new lines of a hunk.
    fn replace_hunk(&mut self, at: usize, text: &str) {
        // Comments were about lines that may be gone.
        self.comments.retain(|place, _| place.hunk != at);
        let Some(hunk) = self.hunks.get_mut(at) else {
            return;
        };
        hunk.added = if text.is_empty() {
            Vec::new()
        } else {
            format!("{text}\n")
                .split_inclusive('\n')
                .map(str::to_owned)
                .collect()
        };
        hunk.verdict = Verdict::Edited;
    }

    /// Whether the change is taken as it is, without a word.
    pub(crate) fn is_untouched(&self) -> bool {
        let accepted = |hunk: &Hunk| hunk.verdict == Verdict::Accepted;
        self.hunks.iter().all(accepted) && self.comments.is_empty()
    }

    /// Whether nothing of the change is taken.
    pub(crate) fn is_refused(&self) -> bool {
        let rejected = |hunk: &Hunk| hunk.verdict == Verdict::Rejected;
        self.hunks.iter().all(rejected)
    }

    /// How many hunks were rejected or edited, and how many lines have a comment.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let of = |verdict| {
            let hunks = self.hunks.iter();
            hunks.filter(|hunk| hunk.verdict == verdict).count()
        };
        let (rejected, edited) = (of(Verdict::Rejected), of(Verdict::Edited));
        (rejected, edited, self.comments.len())
    }

    /// The text with what was accepted.
    pub(crate) fn merged(&self) -> String {
        let mut out = String::new();
        let mut lines = self.old.split_inclusive('\n');
        let mut at = 0;
        for hunk in &self.hunks {
            for line in lines.by_ref().take(hunk.start - at) {
                out.push_str(line);
            }
            let gone: String = lines.by_ref().take(hunk.removed.len()).collect();
            at = hunk.start + hunk.removed.len();
            match hunk.verdict {
                Verdict::Rejected => out.push_str(&gone),
                Verdict::Accepted | Verdict::Edited => out.push_str(&hunk.added.concat()),
            }
        }
        out.extend(lines);
        out
    }

    /// The input of the call with what was accepted; `None` if that is all of it.
    pub(crate) fn input(&self, tool: &str, input: &Value) -> Option<Value> {
        let taken = |hunk: &Hunk| hunk.verdict == Verdict::Accepted;
        if self.hunks.iter().all(taken) {
            return None;
        }
        let merged = self.merged();
        let mut input = input.clone();
        let fields = input.as_object_mut()?;
        if tool == "Write" {
            fields.insert("content".to_owned(), merged.into());
            return Some(input);
        }
        let (from, to) = region(&self.old, &merged);
        if tool == "MultiEdit" {
            let edits = json!([{"old_string": from, "new_string": to}]);
            fields.insert("edits".to_owned(), edits);
        } else {
            fields.insert("old_string".to_owned(), from.into());
            fields.insert("new_string".to_owned(), to.into());
            fields.shift_remove("replace_all");
        }
        Some(input)
    }

    /// The number of a line: of a removed one in the old text, of another in the new.
    fn number(&self, place: Place) -> usize {
        let Some(hunk) = self.hunks.get(place.hunk) else {
            return 0;
        };
        let Some(line) = place.line.checked_sub(hunk.removed.len()) else {
            return hunk.start + place.line + 1;
        };
        let before = &self.hunks[..place.hunk];
        let added: usize = before.iter().map(|hunk| hunk.added.len()).sum();
        let removed: usize = before.iter().map(|hunk| hunk.removed.len()).sum();
        (hunk.start + added + line + 1).saturating_sub(removed)
    }

    /// The words for the model: what is not in the file or the plan, and what was said about which line.
    pub(crate) fn report(&self) -> String {
        let mut out = String::new();
        let of = |verdict| {
            self.hunks
                .iter()
                .filter(move |hunk| hunk.verdict == verdict)
        };
        let rejected = of(Verdict::Rejected).count();
        if rejected > 0 {
            let (path, all) = (&self.path, self.hunks.len());
            let _ = match self.subject {
                Subject::Asked => writeln!(
                    out,
                    "I rejected {rejected} of {} of the change to {path}; these lines stay as they were:",
                    counted(all, "hunk")
                ),
                Subject::Made => writeln!(
                    out,
                    "I put {rejected} of {} of the change to {path} back; these lines are as they were before it:",
                    counted(all, "hunk")
                ),
                Subject::Plan => writeln!(
                    out,
                    "I rejected {rejected} of {} of the plan; leave this out:",
                    counted(all, "part")
                ),
            };
            of(Verdict::Rejected).for_each(|hunk| self.patch(&mut out, hunk));
        }
        if of(Verdict::Edited).next().is_some() {
            let words = match self.subject {
                Subject::Plan => "I changed these parts of the plan; they are now as follows:",
                _ => "I changed this part of it; the file has it as follows:",
            };
            let _ = writeln!(out, "{words}");
            of(Verdict::Edited).for_each(|hunk| self.patch(&mut out, hunk));
        }
        for (place, comment) in &self.comments {
            let text = self.text_at(*place).trim();
            let _ = match self.subject {
                Subject::Plan => writeln!(
                    out,
                    "Line {} of the plan, `{text}`: {comment}",
                    self.number(*place)
                ),
                _ => writeln!(
                    out,
                    "{}:{} `{text}`: {comment}",
                    self.path,
                    self.number(*place)
                ),
            };
        }
        out.trim_end().to_owned()
    }

    /// A hunk as lines of a diff, a part of a plan as it is.
    fn patch(&self, out: &mut String, hunk: &Hunk) {
        if self.subject == Subject::Plan {
            out.push_str(hunk.added.concat().trim_end_matches('\n'));
            out.push('\n');
            return;
        }
        let _ = writeln!(out, "@@ line {} @@", hunk.start + 1);
        for (sign, lines) in [('-', &hunk.removed), ('+', &hunk.added)] {
            for line in lines {
                let _ = writeln!(out, "{sign}{}", line.trim_end_matches('\n'));
            }
        }
    }

    fn rows(&self, look: Look<'_>) -> (Vec<Line>, usize) {
        let theme = look.theme;
        let here = self.place();
        let mut out = Vec::new();
        let mut selected = 0;
        for (index, hunk) in self.hunks.iter().enumerate() {
            let (mark, word, style) = match hunk.verdict {
                Verdict::Accepted => ("✓", "accepted", theme.success),
                Verdict::Rejected => ("✗", "rejected", theme.error),
                Verdict::Edited => ("✎", "edited", theme.warning),
            };
            let (what, word) = match (self.subject, hunk.verdict) {
                (Subject::Plan, _) => ("part", word),
                (Subject::Made, Verdict::Accepted) => ("hunk", "kept"),
                (Subject::Made, Verdict::Rejected) => ("hunk", "put back"),
                _ => ("hunk", word),
            };
            let title = format!(
                "{mark} {what} {} of {} · {word}",
                index + 1,
                self.hunks.len()
            );
            out.push(Line::styled(title, style));
            let removed = hunk
                .removed
                .iter()
                .map(|line| ('-', line, theme.diff.removed));
            let (sign, style) = match self.subject {
                Subject::Plan => (' ', Style::PLAIN),
                _ => ('+', theme.diff.added),
            };
            let added = hunk.added.iter().map(|line| (sign, line, style));
            for (line, (sign, text, style)) in removed.chain(added).enumerate() {
                let place = Place { hunk: index, line };
                let chosen = place == here;
                if chosen {
                    selected = out.len();
                }
                let mut row = if chosen {
                    Line::styled("❯ ", theme.selected)
                } else {
                    Line::plain("  ")
                };
                let text = reveal(text.trim_end_matches('\n'));
                row.push(format!("{sign} {text}"), style);
                out.push(truncate_line(&row, look.columns));
                if let Some(comment) = self.comments.get(&place) {
                    let words = Line::styled(format!("    ▸ {comment}"), theme.accent);
                    out.extend(wrap(&words, look.columns, 6));
                }
            }
        }
        (out, selected)
    }

    pub(crate) fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let title = match self.subject {
            Subject::Plan => "Review the plan".to_owned(),
            _ => format!("Review the change to {}", self.path),
        };
        let mut out = wrap(&Line::styled(title, theme.heading), look.columns, 0);
        let mut cursor = Cursor::default();
        let mut foot = Vec::new();
        let hint = match &self.typing {
            Typing::Nothing => match self.subject {
                Subject::Asked => {
                    "enter done · y n accept, reject · e edit · c comment · tab next hunk · esc back"
                }
                Subject::Made => {
                    "enter done · y n keep, put back · e edit · c comment · tab next hunk · esc back"
                }
                Subject::Plan => {
                    "enter done · y n accept, reject · e edit · c comment · tab next part · esc back"
                }
            },
            Typing::Comment(editor) => {
                let (shown, column) = field(editor, look.columns.saturating_sub(10));
                cursor = Cursor {
                    row: 0,
                    column: 9 + column,
                    visible: true,
                };
                foot.push(Line::styled("Comment: ", theme.accent).with(shown, Style::PLAIN));
                "enter keep · esc back"
            }
            Typing::Hunk(editor) => {
                let before = &editor.text()[..editor.cursor()];
                let column = before.rsplit('\n').next().unwrap_or_default();
                cursor = Cursor {
                    row: before.matches('\n').count(),
                    column: 2 + crate::render::text::width(column),
                    visible: true,
                };
                foot.extend(editor.text().split('\n').map(|line| {
                    Line::styled("+ ", theme.success).with(line.to_owned(), Style::PLAIN)
                }));
                "enter keep · alt+enter new line · esc back"
            }
        };
        let hint = look.keys.dialog_hint(&[DialogContext::Review], hint);
        let typed = foot.len();
        foot.extend(wrap(&Line::styled(hint, theme.muted), look.columns, 0));
        let (lines, selected) = self.rows(look);
        let room = rows.saturating_sub(out.len() + foot.len()).max(3);
        let first = selected
            .saturating_sub(room / 2)
            .min(lines.len().saturating_sub(room));
        out.extend(lines.into_iter().skip(first).take(room));
        if typed > 0 {
            cursor.row += out.len();
        }
        out.extend(foot);
        (out, cursor)
    }
}

/// The changed runs of lines between two texts.
fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let mut out: Vec<Hunk> = Vec::new();
    for hunk in lathe_diff::hunks(old, new) {
        let mut at = hunk
            .old_start
            .saturating_sub(usize::from(hunk.old_lines > 0));
        let mut open = false;
        for line in &hunk.lines {
            let (sign, text) = line.split_at(1);
            if sign == "\\" {
                // The line before it has no end.
                let last = out.last_mut().filter(|_| open);
                let lines = last.map(|hunk| match hunk.added.is_empty() {
                    true => &mut hunk.removed,
                    false => &mut hunk.added,
                });
                if let Some(last) = lines.and_then(|lines| lines.last_mut()) {
                    last.truncate(last.trim_end_matches('\n').len());
                }
                continue;
            }
            if sign == " " {
                open = false;
                at += 1;
                continue;
            }
            if !open {
                open = true;
                out.push(Hunk {
                    start: at,
                    removed: Vec::new(),
                    added: Vec::new(),
                    verdict: Verdict::Accepted,
                });
            }
            let Some(hunk) = out.last_mut() else { continue };
            if sign == "-" {
                hunk.removed.push(format!("{text}\n"));
                at += 1;
            } else {
                hunk.added.push(format!("{text}\n"));
            }
        }
    }
    out
}

/// The parts of a plan: paragraphs, headings, the entries of its lists, blocks of code. Blank lines go with the part before
/// them.
fn parts(plan: &str) -> Vec<Hunk> {
    let mut out: Vec<Hunk> = Vec::new();
    let mut in_code = false;
    let mut after_blank = true;
    for line in plan.split_inclusive('\n') {
        let text = line.trim_end();
        let is_fence = text.trim_start().starts_with("```");
        let begins = !in_code && !text.is_empty() && (after_blank || begins_part(text));
        if begins || out.is_empty() {
            out.push(Hunk {
                start: 0,
                removed: Vec::new(),
                added: Vec::new(),
                verdict: Verdict::Accepted,
            });
        }
        if let Some(part) = out.last_mut() {
            part.added.push(line.to_owned());
        }
        in_code ^= is_fence;
        after_blank = text.is_empty() && !in_code;
    }
    out.retain(|part| part.added.iter().any(|line| !line.trim().is_empty()));
    out
}

/// Whether a line begins an entry of a list, or is a heading.
fn begins_part(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered =
        number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") "));
    numbered
        || ["- ", "* ", "+ ", "#"]
            .iter()
            .any(|mark| line.starts_with(mark))
}

/// The smallest run of lines that differs, with enough around it to be found once.
fn region(old: &str, new: &str) -> (String, String) {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let pairs = old_lines.iter().zip(&new_lines);
    let start = pairs.take_while(|(one, other)| one == other).count();
    let rest = old_lines.len().min(new_lines.len()) - start;
    let pairs = old_lines.iter().rev().zip(new_lines.iter().rev());
    let end = pairs
        .take(rest)
        .take_while(|(one, other)| one == other)
        .count();
    let mut around = 1;
    loop {
        let (from, to) = (start.saturating_sub(around), end.saturating_sub(around));
        let part = old_lines[from..old_lines.len() - to].concat();
        let found = !part.is_empty() && old.match_indices(&part).nth(1).is_none();
        if found || (from == 0 && to == 0) {
            return (part, new_lines[from..new_lines.len() - to].concat());
        }
        around *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::key::keys;

    const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";
    const NEW: &str = "one\n2\nthree\nfour\nfive\nsix\nseven\neight\nnine\n10\neleven\n";

    fn review() -> Review {
        Review::new("a.txt", OLD.to_owned(), NEW).unwrap()
    }

    fn press(review: &mut Review, text: &str) {
        for key in keys(text) {
            assert!(matches!(review.key(key), Reviewed::Stay), "{text}");
        }
    }

    #[test]
    fn what_is_rejected_stays_as_it_was_and_is_told() {
        let mut review = review();
        press(&mut review, "n");
        assert_eq!(review.merged(), OLD.replace("ten\n", "10\neleven\n"));
        let told = review.report();
        assert!(
            told.starts_with("I rejected 1 of 2 hunks of the change to a.txt"),
            "{told}"
        );
        assert!(
            told.contains("@@ line 2 @@\n-two\n+2") && !told.contains("ten"),
            "{told}"
        );
        press(&mut review, "<tab>n");
        assert!(review.is_refused());
        assert_eq!(review.merged(), OLD);
    }

    #[test]
    fn a_hunk_is_edited_in_place_and_lines_are_commented() {
        let mut review = review();
        press(&mut review, "<down>cwhy a digit?\n<tab>e<backspace>!\n");
        assert_eq!(review.merged(), NEW.replace("eleven", "eleve!"));
        let told = review.report();
        assert!(told.contains("a.txt:2 `2`: why a digit?"), "{told}");
        assert!(told.contains("+eleve!"), "{told}");
        assert!(!review.is_untouched() && !review.is_refused());
    }

    #[test]
    fn the_input_of_each_tool_makes_what_was_accepted() {
        let mut review = review();
        press(&mut review, "n");
        let merged = review.merged();
        let write = review.input("Write", &json!({"content": NEW})).unwrap();
        assert_eq!(write["content"], merged.as_str());
        let edit = review
            .input(
                "Edit",
                &json!({"old_string": "x", "new_string": "y", "replace_all": true}),
            )
            .unwrap();
        let (from, to) = (
            edit["old_string"].as_str().unwrap(),
            edit["new_string"].as_str().unwrap(),
        );
        assert_eq!(OLD.replacen(from, to, 1), merged);
        assert_eq!(OLD.matches(from).count(), 1);
        assert!(edit.get("replace_all").is_none());
        let multi = review.input("MultiEdit", &json!({"edits": []})).unwrap();
        assert_eq!(multi["edits"][0]["old_string"], from);
    }

    #[test]
    fn texts_without_a_last_line_end_and_new_files_are_merged() {
        for (old, new) in [
            ("a\nb", "a\nc"),
            ("", "x\ny\n"),
            ("a\nb", "a\nb\nc"),
            ("a\n", ""),
        ] {
            let mut review = Review::new("a", old.to_owned(), new).unwrap();
            assert_eq!(review.merged(), new, "{old:?} → {new:?}");
            press(&mut review, "n");
            assert_eq!(review.merged(), old, "{old:?} → {new:?}");
        }
        assert!(Review::new("a", "same".to_owned(), "same").is_none());
        assert!(Review::new("a", "a\r\n".to_owned(), "b\r\n").is_none());
    }

    #[test]
    fn a_plan_is_reviewed_by_its_parts() {
        let plan = "# Plan\n\n1. first\n   with more\n2. second\n\n```sh\n- no entry\n\nls\n```\n\nThe end.";
        let mut review = Review::of_plan(plan).unwrap();
        assert_eq!(review.hunks.len(), 5);
        assert_eq!(review.merged(), plan);
        press(&mut review, "<tab><tab>n");
        press(&mut review, "<tab><tab>cwhy?\n");
        assert_eq!(review.counts(), (1, 0, 1));
        assert!(!review.merged().contains("second"), "{}", review.merged());
        let report = review.report();
        assert!(
            report.contains("1 of 5 parts of the plan; leave this out:\n2. second"),
            "{report}"
        );
        assert!(
            report.contains("Line 13 of the plan, `The end.`: why?"),
            "{report}"
        );
    }

    #[test]
    fn lines_of_a_change_that_was_made_are_numbered_as_the_file_is_now() {
        let mut review = Review::of_made(
            "a",
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n".to_owned(),
            "1\nx\ny\n3\n4\n5\n6\n7\n8\nz\n",
        )
        .unwrap();
        press(&mut review, "<tab>jcodd\n");
        press(&mut review, "<tab>n");
        let report = review.report();
        assert!(
            report.contains("I put 1 of 2 hunks of the change to a back"),
            "{report}"
        );
        assert!(report.contains("a:10 `z`: odd"), "{report}");
        assert_eq!(review.merged(), "1\n2\n3\n4\n5\n6\n7\n8\nz\n");
    }
}
