//! The prompt editor: text, a cursor, and what keys do to them. A pure state machine; the tables in
//! `tests.rs` say what each key does.
//!
//! The cursor is a byte position between graphemes. Placeholders for pastes and images are ordinary
//! text that is deleted as one piece and expanded when the prompt is sent.

mod layout;
mod motion;
#[cfg(test)]
mod tests;
pub(crate) mod vim;

pub(crate) use layout::{Row, rows};

use crate::prompt::keymap::Action;
use unicode_segmentation::UnicodeSegmentation as _;

/// The content behind a placeholder.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Attached {
    Text { content: String },
    Image { media_type: String, data: String },
}

/// A placeholder and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Attachment {
    pub(crate) label: String,
    pub(crate) what: Attached,
}

/// The kind of the last change, so that typing is undone by words and kills are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    #[default]
    Other,
    Typed,
    Killed,
    Yanked,
}

/// The most states that undo remembers.
const UNDO_LIMIT: usize = 500;
/// The most texts that the kill ring keeps.
const KILL_LIMIT: usize = 60;

/// The editor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Editor {
    text: String,
    cursor: usize,
    goal: Option<usize>,
    undo: Vec<(String, usize)>,
    redo: Vec<(String, usize)>,
    kills: Vec<String>,
    yanked: Option<(usize, usize, usize)>,
    last: Last,
    attachments: Vec<Attachment>,
    pasted: usize,
    /// Whether the text begins with something that was pasted.
    begins_pasted: bool,
}

impl Editor {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// Replaces everything, as one change that can be undone.
    pub(crate) fn set_text(&mut self, text: &str) {
        self.remember(Last::Other);
        text.clone_into(&mut self.text);
        self.cursor = self.text.len();
        self.begins_pasted = false;
    }

    /// Whether the first character was typed: only then `!` and `#` have a meaning of their own.
    pub(crate) fn begins_typed(&self) -> bool {
        !self.begins_pasted
    }

    /// The first character, if it was typed.
    pub(crate) fn typed_mark(&self) -> Option<char> {
        self.text.chars().next().filter(|_| self.begins_typed())
    }

    /// Puts a text before what is there, with the placeholders that belong to it.
    pub(crate) fn put_before(&mut self, text: &str, attachments: Vec<Attachment>) {
        self.remember(Last::Other);
        let joined = if self.text.trim().is_empty() {
            text.to_owned()
        } else {
            format!("{text}\n{}", self.text)
        };
        self.text = joined;
        self.cursor = self.text.len();
        self.pasted += attachments.len();
        self.attachments.extend(attachments);
        self.begins_pasted = false;
    }

    /// Replaces everything together with its placeholders.
    pub(crate) fn restore(&mut self, text: &str, attachments: Vec<Attachment>) {
        self.set_text(text);
        self.pasted = self.pasted.max(attachments.len());
        self.attachments = attachments;
    }

    /// Moves the cursor; a position inside a grapheme goes to its start.
    pub(crate) fn set_cursor(&mut self, at: usize) {
        let at = at.min(self.text.len());
        self.cursor = if self.text.is_char_boundary(at) && self.is_grapheme_boundary(at) {
            at
        } else {
            self.text
                .grapheme_indices(true)
                .map(|(start, _)| start)
                .take_while(|start| *start <= at)
                .last()
                .unwrap_or(0)
        };
        self.goal = None;
        if self.last != Last::Other {
            self.last = Last::Other;
        }
    }

    fn is_grapheme_boundary(&self, at: usize) -> bool {
        at == 0 || at == self.text.len() || {
            let mut cursor = unicode_segmentation::GraphemeCursor::new(at, self.text.len(), true);
            cursor.is_boundary(&self.text, 0).unwrap_or(true)
        }
    }

    /// Empties the editor and returns its text. Undo restores it.
    pub(crate) fn take(&mut self) -> (String, Vec<Attachment>) {
        self.remember(Last::Other);
        self.cursor = 0;
        self.begins_pasted = false;
        (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.attachments),
        )
    }

    fn remember(&mut self, kind: Last) {
        let joins = kind == Last::Typed && self.last == Last::Typed;
        if !joins {
            if self.undo.last().is_none_or(|(text, _)| *text != self.text) {
                self.undo.push((self.text.clone(), self.cursor));
                if self.undo.len() > UNDO_LIMIT {
                    self.undo.remove(0);
                }
            }
            self.redo.clear();
        }
        self.last = kind;
        self.goal = None;
    }

    /// Types text at the cursor.
    pub(crate) fn insert(&mut self, text: &str) {
        // A blank ends a word: undo goes back by words.
        let kind = if text.chars().all(char::is_whitespace) {
            Last::Other
        } else {
            Last::Typed
        };
        self.remember(if self.last == Last::Typed && kind == Last::Other {
            Last::Typed
        } else {
            kind
        });
        self.last = kind;
        if self.cursor == 0 {
            self.begins_pasted = false;
        }
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Takes a paste: a long one becomes a placeholder.
    pub(crate) fn paste(&mut self, text: &str) {
        let text = text.trim_end_matches('\0');
        let lines = text.lines().count();
        if self.cursor == 0 {
            self.begins_pasted = true;
        }
        if lines > 10 || text.len() > 2000 {
            self.pasted += 1;
            let label = if lines > 1 {
                format!("[Pasted text #{} +{lines} lines]", self.pasted)
            } else {
                format!(
                    "[Pasted text #{} {} characters]",
                    self.pasted,
                    text.chars().count()
                )
            };
            self.remember(Last::Other);
            self.insert_label(
                label,
                Attached::Text {
                    content: text.to_owned(),
                },
            );
        } else {
            self.remember(Last::Other);
            let cleaned: String = text
                .chars()
                .filter(|c| *c == '\n' || *c == '\t' || !c.is_control())
                .collect::<String>()
                .replace('\t', "    ");
            self.text.insert_str(self.cursor, &cleaned);
            self.cursor += cleaned.len();
        }
    }

    /// Takes an image.
    pub(crate) fn attach_image(&mut self, media_type: &str, data: String) {
        self.pasted += 1;
        let label = format!("[Image #{}]", self.pasted);
        self.remember(Last::Other);
        self.insert_label(
            label,
            Attached::Image {
                media_type: media_type.to_owned(),
                data,
            },
        );
    }

    fn insert_label(&mut self, label: String, what: Attached) {
        self.text.insert_str(self.cursor, &label);
        self.cursor += label.len();
        self.attachments.push(Attachment { label, what });
    }

    /// The placeholder that ends or begins at the cursor.
    fn placeholder(&self, before: bool) -> Option<std::ops::Range<usize>> {
        self.attachments.iter().find_map(|attachment| {
            let length = attachment.label.len();
            let start = if before {
                self.cursor.checked_sub(length)?
            } else {
                self.cursor
            };
            (self.text.get(start..start + length)? == attachment.label)
                .then_some(start..start + length)
        })
    }

    /// Removes a range; the cursor goes to its start.
    pub(crate) fn remove(&mut self, range: std::ops::Range<usize>) -> String {
        let removed: String = self.text.drain(range.clone()).collect();
        self.cursor = range.start;
        removed
    }

    /// Removes a range as one change.
    pub(crate) fn delete_range(&mut self, range: std::ops::Range<usize>) -> String {
        self.remember(Last::Other);
        self.remove(range)
    }

    /// Replaces a range as one change; the cursor goes behind it.
    pub(crate) fn replace_range(&mut self, range: std::ops::Range<usize>, with: &str) {
        self.remember(Last::Other);
        self.remove(range);
        self.text.insert_str(self.cursor, with);
        self.cursor += with.len();
    }

    /// The position behind the grapheme at a position.
    pub(crate) fn next_grapheme(&self, at: usize) -> usize {
        let at = self.text.floor_char_boundary(at);
        self.text[at..]
            .graphemes(true)
            .next()
            .map_or(at, |grapheme| at + grapheme.len())
    }

    /// The position before the grapheme that ends at a position.
    pub(crate) fn previous_grapheme(&self, at: usize) -> usize {
        let at = self.text.floor_char_boundary(at);
        self.text[..at]
            .graphemes(true)
            .next_back()
            .map_or(0, |grapheme| at - grapheme.len())
    }

    pub(crate) fn line_start(&self, at: usize) -> usize {
        let at = self.text.floor_char_boundary(at);
        self.text[..at].rfind('\n').map_or(0, |found| found + 1)
    }

    pub(crate) fn line_end(&self, at: usize) -> usize {
        let at = self.text.floor_char_boundary(at);
        self.text[at..]
            .find('\n')
            .map_or(self.text.len(), |found| at + found)
    }

    fn word_left(&self) -> usize {
        let before = &self.text[..self.cursor];
        let trimmed = before.trim_end_matches(|c| !is_word(c));
        trimmed.trim_end_matches(is_word).len()
    }

    fn word_right(&self) -> usize {
        let after = &self.text[self.cursor..];
        let rest = after.trim_start_matches(|c| !is_word(c));
        self.text.len() - rest.trim_start_matches(is_word).len()
    }

    fn blank_word_left(&self) -> usize {
        let before = &self.text[..self.cursor];
        before
            .trim_end_matches(char::is_whitespace)
            .trim_end_matches(|c: char| !c.is_whitespace())
            .len()
    }

    fn kill(&mut self, range: std::ops::Range<usize>, forward: bool) {
        if range.is_empty() {
            return;
        }
        let joins = self.last == Last::Killed;
        self.remember(Last::Killed);
        let removed = self.remove(range);
        match self.kills.last_mut() {
            Some(last) if joins && forward => last.push_str(&removed),
            Some(last) if joins => last.insert_str(0, &removed),
            _ => {
                self.kills.push(removed);
                if self.kills.len() > KILL_LIMIT {
                    self.kills.remove(0);
                }
            }
        }
    }

    /// Does what an action says. Returns whether it is one of the editor's.
    pub(crate) fn apply(&mut self, action: Action, columns: usize) -> bool {
        match action {
            Action::Left => {
                let to = self
                    .placeholder(true)
                    .map_or_else(|| self.previous_grapheme(self.cursor), |range| range.start);
                self.set_cursor(to);
            }
            Action::Right | Action::Keyboard => {
                let to = self
                    .placeholder(false)
                    .map_or_else(|| self.next_grapheme(self.cursor), |range| range.end);
                self.set_cursor(to);
            }
            Action::WordLeft => self.set_cursor(self.word_left()),
            Action::WordRight => self.set_cursor(self.word_right()),
            Action::LineStart => self.set_cursor(self.line_start(self.cursor)),
            Action::LineEnd => self.set_cursor(self.line_end(self.cursor)),
            Action::TextStart => self.set_cursor(0),
            Action::TextEnd => self.set_cursor(self.text.len()),
            Action::Up => {
                self.vertical(columns, -1);
            }
            Action::Down => {
                self.vertical(columns, 1);
            }
            Action::Newline | Action::Queue => {
                self.remember(Last::Other);
                self.text.insert(self.cursor, '\n');
                self.cursor += 1;
            }
            Action::DeleteBack => {
                let start = self
                    .placeholder(true)
                    .map_or_else(|| self.previous_grapheme(self.cursor), |range| range.start);
                if start < self.cursor {
                    self.delete_range(start..self.cursor);
                }
            }
            Action::DeleteForward => {
                let end = self
                    .placeholder(false)
                    .map_or_else(|| self.next_grapheme(self.cursor), |range| range.end);
                if end > self.cursor {
                    self.delete_range(self.cursor..end);
                }
            }
            Action::DeleteWordBack => {
                let start = self
                    .placeholder(true)
                    .map_or_else(|| self.blank_word_left(), |range| range.start);
                self.kill(start..self.cursor, false);
            }
            Action::DeleteWordLeft => self.kill(self.word_left()..self.cursor, false),
            Action::DeleteWordForward => self.kill(self.cursor..self.word_right(), true),
            Action::KillToEnd => {
                let end = self.line_end(self.cursor);
                let end = if end == self.cursor {
                    self.next_grapheme(end)
                } else {
                    end
                };
                self.kill(self.cursor..end, true);
            }
            Action::KillToStart => {
                let start = self.line_start(self.cursor);
                let start = if start == self.cursor {
                    self.previous_grapheme(start)
                } else {
                    start
                };
                self.kill(start..self.cursor, false);
            }
            Action::Yank => {
                if let Some(text) = self.kills.last().cloned() {
                    self.remember(Last::Yanked);
                    let start = self.cursor;
                    self.text.insert_str(start, &text);
                    self.cursor += text.len();
                    self.yanked = Some((start, self.cursor, self.kills.len() - 1));
                }
            }
            Action::YankPop => self.yank_pop(),
            Action::Undo => self.undo(),
            Action::Redo => self.redo(),
            Action::Transpose => self.transpose(),
            _ => return false,
        }
        true
    }

    fn yank_pop(&mut self) {
        if self.last != Last::Yanked {
            return;
        }
        let Some((start, end, index)) = self.yanked else {
            return;
        };
        let index = if index == 0 {
            self.kills.len() - 1
        } else {
            index - 1
        };
        let Some(text) = self.kills.get(index).cloned() else {
            return;
        };
        self.remove(start..end);
        self.text.insert_str(start, &text);
        self.cursor = start + text.len();
        self.yanked = Some((start, self.cursor, index));
        self.last = Last::Yanked;
    }

    fn transpose(&mut self) {
        let mut at = self.cursor;
        if at == self.text.len() || self.text[at..].starts_with('\n') {
            at = self.previous_grapheme(at);
        }
        let start = self.previous_grapheme(at);
        let end = self.next_grapheme(at);
        if start == at || at == end || self.text[start..end].contains('\n') {
            return;
        }
        self.remember(Last::Other);
        let swapped = format!("{}{}", &self.text[at..end], &self.text[start..at]);
        self.text.replace_range(start..end, &swapped);
        self.cursor = end;
    }

    pub(crate) fn undo(&mut self) {
        if let Some((text, cursor)) = self.undo.pop() {
            self.redo
                .push((std::mem::replace(&mut self.text, text), self.cursor));
            self.cursor = cursor.min(self.text.len());
            self.last = Last::Other;
        }
    }

    pub(crate) fn redo(&mut self) {
        if let Some((text, cursor)) = self.redo.pop() {
            self.undo
                .push((std::mem::replace(&mut self.text, text), self.cursor));
            self.cursor = cursor.min(self.text.len());
            self.last = Last::Other;
        }
    }

    /// Moves a row up or down. Returns whether there was one.
    pub(crate) fn vertical(&mut self, columns: usize, by: isize) -> bool {
        let rows = rows(&self.text, columns);
        let at = layout::row_of(&rows, self.cursor);
        let Some(target) = at.checked_add_signed(by).and_then(|at| rows.get(at)) else {
            return false;
        };
        let column = self
            .goal
            .unwrap_or_else(|| crate::render::text::width(&self.text[rows[at].start..self.cursor]));
        let to = layout::at_column(&self.text, target, column);
        self.set_cursor(to);
        self.goal = Some(column);
        true
    }

    /// The text as it is sent: placeholders of pasted text give way to what they stand for.
    pub(crate) fn expand(text: &str, attachments: &[Attachment]) -> String {
        let mut expanded = text.to_owned();
        for attachment in attachments {
            if let Attached::Text { content } = &attachment.what {
                expanded = expanded.replace(&attachment.label, content);
            }
        }
        expanded
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
