//! The diff viewer: the files that changed, and one of them at a time.
//!
//! Tab goes between what changed since the last commit and what the session changed. In the list Enter
//! or → opens a file, in a file ← → go to the ones beside it; Esc goes back to the list, then out. `r` reviews a file
//! hunk by hunk.

use super::review::{Review, Reviewed};
use super::{Layer, Outcome, Purpose};
use crate::commands::diff::changes::{self, ChangedFile, Changes};
use crate::prompt::dialog_keys::DialogContext;
use crate::render::diff;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, truncate, truncate_line, width, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

/// Lines of one file that are shown.
const MOST_LINES: usize = 20_000;

/// A kind of change, with its name.
#[derive(Debug)]
struct Side {
    name: &'static str,
    nothing: &'static str,
    changes: Changes,
}

/// The lines of a file as they were last made: for which side, file, width and theme.
type Made = ((usize, usize, usize, String), Vec<Line>);

/// The diff viewer.
pub(crate) struct ChangesDialog {
    sides: [Side; 2],
    side: usize,
    selected: usize,
    open: bool,
    top: usize,
    made: RefCell<Option<Made>>,
    /// How many lines there were and how many had room when it was last shown.
    seen: Cell<(usize, usize)>,
    /// The file that is reviewed, with its text as it was read.
    review: Option<(Review, ReviewedFile)>,
    /// Why a file can't be reviewed.
    problem: Option<&'static str>,
}

/// The result of the review of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReviewedFile {
    pub(crate) path: String,
    pub(crate) file: PathBuf,
    /// Its text when the review began.
    pub(crate) read: String,
    /// The text that it is to have.
    pub(crate) text: String,
    /// The words for the model.
    pub(crate) report: String,
    /// Whether it was not there before the change.
    pub(crate) is_new: bool,
}

impl ChangesDialog {
    pub(crate) fn new(commit: Changes, session: Changes) -> Self {
        // Where one side has nothing to show, the other is shown first.
        let empty = |changes: &Changes| changes.as_ref().map_or(true, Vec::is_empty);
        let side = usize::from(empty(&commit) && !empty(&session));
        Self {
            sides: [
                Side {
                    name: "since the last commit",
                    nothing: "no changes since the last commit",
                    changes: commit,
                },
                Side {
                    name: "by this session",
                    nothing: "this session changed no files",
                    changes: session,
                },
            ],
            side,
            selected: 0,
            open: false,
            top: 0,
            made: RefCell::new(None),
            seen: Cell::new((0, 1)),
            review: None,
            problem: None,
        }
    }

    fn files(&self) -> &[ChangedFile] {
        self.sides[self.side].changes.as_deref().unwrap_or_default()
    }

    /// Opens the review of the selected file.
    fn open_review(&mut self) {
        let Some(file) = self.files().get(self.selected) else {
            return;
        };
        let now = std::fs::read_to_string(&file.file);
        let before = now
            .as_ref()
            .ok()
            .and_then(|now| changes::before(now, &file.hunks));
        let review = now.ok().zip(before).and_then(|(now, before)| {
            let review = Review::of_made(&file.path, before, &now)?;
            let reviewed = ReviewedFile {
                path: file.path.clone(),
                file: file.file.clone(),
                read: now,
                is_new: file.note.as_deref() == Some("new"),
                ..ReviewedFile::default()
            };
            Some((review, reviewed))
        });
        self.problem = review
            .is_none()
            .then_some("it can't be reviewed: it is gone, is no text, or changed meanwhile");
        self.review = review;
    }

    fn review_key(&mut self, key: Key) -> Outcome {
        let Some((review, reviewed)) = &mut self.review else {
            return Outcome::Stay;
        };
        match review.key(key) {
            Reviewed::Stay => return Outcome::Stay,
            Reviewed::Done if !review.is_untouched() => {
                reviewed.text = review.merged();
                reviewed.report = review.report();
                return Outcome::Other {
                    value: String::new(),
                    key: 'r',
                };
            }
            Reviewed::Back | Reviewed::Done => self.review = None,
        }
        Outcome::Stay
    }

    /// The result of a review that is done.
    pub(crate) fn take_reviewed(&mut self) -> Option<ReviewedFile> {
        self.review.take().map(|(_, reviewed)| reviewed)
    }

    /// Continues by some files, round and round.
    fn turn(&mut self, by: usize) {
        let count = self.files().len().max(1);
        self.selected = (self.selected + by) % count;
        self.top = 0;
    }

    fn list(&self, look: Look<'_>, rows: usize) -> Vec<Line> {
        let theme = look.theme;
        let side = &self.sides[self.side];
        let files = self.files();
        let mut title = Line::styled(format!("Changes {}", side.name), theme.heading);
        if !files.is_empty() {
            let (added, removed) = files.iter().fold((0, 0), |sum, file| {
                let (added, removed) = file.counts();
                (sum.0 + added, sum.1 + removed)
            });
            title.push(format!(" · {} ", counted(files.len(), "file")), theme.muted);
            push_counts(&mut title, (added, removed), look);
        }
        let mut out = wrap(&title, look.columns, 0);
        match &side.changes {
            Err(error) => out.extend(wrap(
                &Line::styled(clean(&error.to_string()).replace('\n', " "), theme.warning),
                look.columns,
                2,
            )),
            Ok(files) if files.is_empty() => {
                out.push(Line::styled(format!("  {}", side.nothing), theme.muted));
            }
            Ok(files) => {
                let room = rows.saturating_sub(out.len() + 1).max(1);
                let first = self
                    .selected
                    .saturating_sub(room.saturating_sub(1) / 2)
                    .min(files.len().saturating_sub(room));
                let widest = files
                    .iter()
                    .map(|file| width(&clean(&file.path)))
                    .max()
                    .unwrap_or(0)
                    .min(look.columns * 3 / 5);
                for (index, file) in files.iter().enumerate().skip(first).take(room) {
                    let chosen = index == self.selected;
                    let style = if chosen { theme.selected } else { Style::PLAIN };
                    let mut line = Line::styled(if chosen { "❯ " } else { "  " }, style);
                    let path = clean(&file.path);
                    let path = if width(&path) > widest {
                        shortened(&path, widest)
                    } else {
                        path
                    };
                    let padding = widest.saturating_sub(width(&path)) + 2;
                    line.push(path, style);
                    line.push(" ".repeat(padding), Style::PLAIN);
                    push_counts(&mut line, file.counts(), look);
                    if let Some(note) = &file.note {
                        line.push(format!("  {}", clean(note)), theme.muted);
                    }
                    out.push(truncate_line(&line, look.columns));
                }
            }
        }
        let other = self.sides[1 - self.side].name;
        let mut hint = Vec::new();
        if !files.is_empty() {
            hint.push("enter open".to_owned());
            hint.push("r review".to_owned());
        }
        hint.push("esc back".to_owned());
        hint.push(format!("tab {other}"));
        let hint = look.keys.dialog_hint(self.contexts(), &hint.join(" · "));
        out.push(Line::styled(truncate(&hint, look.columns), theme.muted));
        out
    }

    fn file(&self, file: &ChangedFile, look: Look<'_>, rows: usize) -> Vec<Line> {
        let theme = look.theme;
        let mut title = Line::styled(clean(&file.path), theme.heading);
        title.push("  ", Style::PLAIN);
        push_counts(&mut title, file.counts(), look);
        if let Some(note) = &file.note {
            title.push(format!("  {}", clean(note)), theme.muted);
        }
        let mut out = wrap(&title, look.columns, 2);
        let lines = self.lines_of(file, look);
        let room = rows.saturating_sub(out.len() + 1).max(1);
        self.seen.set((lines.len(), room));
        let top = self.top.min(lines.len().saturating_sub(room));
        let count = lines.len();
        out.extend(lines.into_iter().skip(top).take(room));
        let mut hint = vec!["esc list".to_owned(), "r review".to_owned()];
        let files = self.files().len();
        if files > 1 {
            hint.push(format!("← → file {}/{files}", self.selected + 1));
        }
        if count > room {
            hint.push(format!(
                "↑↓ {}–{} of {count}",
                top + 1,
                (top + room).min(count)
            ));
        }
        let (words, style) = match self.problem {
            Some(problem) => (problem.to_owned(), theme.warning),
            None => (hint.join(" · "), theme.muted),
        };
        out.push(Line::styled(truncate(&words, look.columns), style));
        out
    }

    /// The lines of a file; made once for a width and a theme.
    fn lines_of(&self, file: &ChangedFile, look: Look<'_>) -> Vec<Line> {
        let key = (
            self.side,
            self.selected,
            look.columns,
            look.theme.name.clone(),
        );
        let mut made = self.made.borrow_mut();
        if let Some((known, lines)) = &*made
            && *known == key
        {
            return lines.clone();
        }
        let mut lines = diff::lines(Path::new(&file.path), &file.hunks, look, MOST_LINES);
        if lines.is_empty() {
            lines.push(Line::styled("  no lines to show", look.theme.muted));
        }
        *made = Some((key, lines.clone()));
        lines
    }
}

impl Layer for ChangesDialog {
    fn paste(&mut self, text: &str) {
        if let Some((review, _)) = &mut self.review {
            review.paste(text);
        }
    }

    fn key(&mut self, key: Key) -> Outcome {
        if self.review.is_some() {
            return self.review_key(key);
        }
        self.problem = None;
        let count = self.files().len();
        let (lines, room) = self.seen.get();
        let last = lines.saturating_sub(room);
        match key.code {
            Code::Esc | Code::Char('q') if self.open => self.open = false,
            Code::Esc | Code::Char('q') => return Outcome::Cancelled,
            Code::Tab => {
                self.side = 1 - self.side;
                self.selected = 0;
                self.open = false;
            }
            Code::Char('r') if count > 0 => {
                self.open = true;
                self.open_review();
            }
            Code::Right | Code::Char('n' | 'l') if self.open => self.turn(1),
            Code::Left | Code::Char('p' | 'h') if self.open => self.turn(count.saturating_sub(1)),
            Code::Up | Code::Char('k') if self.open => {
                self.top = self.top.min(last).saturating_sub(1);
            }
            Code::Down | Code::Char('j') if self.open => self.top = (self.top + 1).min(last),
            Code::PageUp | Code::Char('b') if self.open => {
                self.top = self.top.min(last).saturating_sub(room);
            }
            Code::PageDown | Code::Char(' ') if self.open => {
                self.top = (self.top + room).min(last);
            }
            Code::Home | Code::Char('g') if self.open => self.top = 0,
            Code::End | Code::Char('G') if self.open => self.top = last,
            Code::Enter | Code::Right | Code::Char(' ' | 'l') if !self.open && count > 0 => {
                self.open = true;
                self.top = 0;
            }
            Code::Up | Code::Char('k') => {
                self.selected = self
                    .selected
                    .checked_sub(1)
                    .unwrap_or(count.saturating_sub(1));
            }
            Code::Down | Code::Char('j') => {
                self.selected = if self.selected + 1 >= count {
                    0
                } else {
                    self.selected + 1
                };
            }
            Code::Home | Code::Char('g') => self.selected = 0,
            Code::End | Code::Char('G') => self.selected = count.saturating_sub(1),
            _ => {}
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        if let Some((review, _)) = &self.review {
            return review.view(look, rows);
        }
        let lines = match self.files().get(self.selected) {
            Some(file) if self.open => self.file(file, look, rows),
            _ => self.list(look, rows),
        };
        (lines, Cursor::default())
    }

    fn contexts(&self) -> &'static [DialogContext] {
        if self.review.is_some() {
            &[DialogContext::Review]
        } else {
            &[DialogContext::Changes]
        }
    }

    fn takes_text(&self) -> bool {
        let reviewed = self.review.as_ref();
        reviewed.is_some_and(|(review, _)| review.takes_text())
    }

    fn purpose(&self) -> Option<&Purpose> {
        Some(&Purpose::Changes)
    }
}

fn push_counts(line: &mut Line, (added, removed): (usize, usize), look: Look<'_>) {
    line.push(format!("+{added}"), look.theme.success);
    line.push(" ", Style::PLAIN);
    line.push(format!("−{removed}"), look.theme.error);
}

/// A path whose end is what matters.
fn shortened(path: &str, columns: usize) -> String {
    let mut start = 0;
    while width(&path[start..]) + 1 > columns {
        match path[start..].chars().next() {
            Some(c) => start += c.len_utf8(),
            None => break,
        }
    }
    format!("…{}", &path[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diff::changes::ChangesError;
    use crate::layers::tests::{drawn, walk};
    use crate::terminal::key::keys;

    fn file(path: &str, lines: usize) -> ChangedFile {
        let text: String = (1..=lines).map(|n| format!("{path} {n}\n")).collect();
        ChangedFile {
            path: path.to_owned(),
            file: PathBuf::from(path),
            hunks: diff::hunks("", &text),
            note: None,
        }
    }

    fn shown(dialog: &ChangesDialog) -> String {
        drawn(|look| dialog.view(look, 8))
    }

    #[test]
    fn files_are_opened_turned_and_left_one_step_at_a_time() {
        let mut dialog = ChangesDialog::new(
            Ok(vec![file("a.rs", 3), file("b.rs", 40), file("c.rs", 1)]),
            Err(ChangesError::Session("no history is kept".to_owned())),
        );
        assert!(shown(&dialog).contains("3 files +44 −0"));
        let table = [
            ("<down>\n", "b.rs 1", "file 2/3"),
            (" ", "b.rs 7", "7–12 of 40"),
            ("G", "b.rs 40", "35–40 of 40"),
            ("<right>", "c.rs 1", "file 3/3"),
            ("<right>", "a.rs 3", "file 1/3"),
            ("<left>", "c.rs 1", "file 3/3"),
            ("<esc>", "❯ c.rs", "enter open"),
            ("<tab>", "no history is kept", "tab since the last commit"),
        ];
        walk(&mut dialog, ChangesDialog::key, shown, &table);
        assert_eq!(dialog.key(keys("<esc>")[0]), Outcome::Cancelled);
    }

    #[test]
    fn the_side_with_something_to_show_comes_first() {
        let dialog = ChangesDialog::new(Ok(Vec::new()), Ok(vec![file("a.rs", 1)]));
        assert!(shown(&dialog).contains("by this session"));
        let dialog = ChangesDialog::new(Ok(Vec::new()), Ok(Vec::new()));
        assert!(shown(&dialog).contains("no changes since the last commit"));
    }
}
