//! Vim's modes over the editor: a pure layer that turns keys into changes.
//!
//! A command is read key by key into [`Pending`]: a count, an operator, another count, a motion or a
//! text object. The last change is recorded as its keys and repeated by `.`.

mod operate;

use super::motion::{self, Reach};
use super::{Editor, is_word};
use crate::prompt::keymap::Action;
use crate::terminal::key::{Code, Key};
use operate::{join, recase};
use std::ops::Range;

/// Which mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    #[default]
    Insert,
    Normal,
    Visual,
    VisualLine,
}

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Delete,
    Change,
    Yank,
    Indent,
    Outdent,
}

/// The part of a command that was typed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Pending {
    count: Option<usize>,
    operator: Option<Operator>,
    motion_count: Option<usize>,
    prefix: Option<char>,
}

impl Pending {
    fn times(self) -> usize {
        self.count
            .unwrap_or(1)
            .saturating_mul(self.motion_count.unwrap_or(1))
            .min(10_000)
    }

    fn given(self) -> bool {
        self.count.is_some() || self.motion_count.is_some()
    }
}

/// Vim's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vim {
    mode: Mode,
    pending: Pending,
    anchor: usize,
    register: String,
    register_lines: bool,
    last_find: Option<(char, char)>,
    /// The keys of the command that is being typed, and of the last change.
    recording: Vec<Key>,
    last_change: Vec<Key>,
    inserted: bool,
    replaying: bool,
    /// Letters that leave insert mode, and those typed last.
    remaps: Vec<String>,
    typed: String,
}

impl Vim {
    pub(crate) fn inserting(&self) -> bool {
        self.mode == Mode::Insert
    }

    /// Letters that leave insert mode when they are typed one after the other.
    pub(crate) fn set_remaps(&mut self, remaps: Vec<String>) {
        self.remaps = remaps;
    }

    /// Notes a typed letter. Returns how many bytes before the cursor belong to letters that are now complete and
    /// mean to leave insert mode.
    fn remapped(&mut self, key: Key) -> Option<usize> {
        let Code::Char(letter) = key.code else {
            self.typed.clear();
            return None;
        };
        if key.ctrl || key.alt || self.remaps.is_empty() {
            self.typed.clear();
            return None;
        }
        self.typed.push(letter);
        let longest = self.remaps.iter().map(String::len).max().unwrap_or(0);
        while self.typed.len() > longest {
            self.typed.remove(0);
        }
        let found = self
            .remaps
            .iter()
            .find(|letters| !letters.is_empty() && self.typed.ends_with(letters.as_str()))?;
        let before = found.len() - letter.len_utf8();
        self.typed.clear();
        Some(before)
    }

    pub(crate) fn label(&self) -> &'static str {
        match self.mode {
            Mode::Insert => "INSERT",
            Mode::Normal => "NORMAL",
            Mode::Visual => "VISUAL",
            Mode::VisualLine => "V-LINE",
        }
    }

    /// The selection.
    pub(crate) fn selection(&self, editor: &Editor) -> Option<Range<usize>> {
        // Redo may have changed the text since the selection began.
        let anchor = editor.text().floor_char_boundary(self.anchor);
        let (from, to) = (anchor.min(editor.cursor()), anchor.max(editor.cursor()));
        match self.mode {
            Mode::Visual => Some(from..editor.next_grapheme(to)),
            Mode::VisualLine => Some(editor.line_start(from)..editor.line_end(to)),
            Mode::Insert | Mode::Normal => None,
        }
    }

    /// Takes a key. Returns whether it was one of vim's; others go the usual way.
    pub(crate) fn key(&mut self, key: Key, editor: &mut Editor) -> bool {
        if self.mode == Mode::Insert {
            return self.insert_key(key, editor);
        }
        if key.is(Code::Enter) || key.is(Code::Tab) {
            return false;
        }
        if key.ctrl && key.code == Code::Char('r') {
            editor.redo();
            self.clamp(editor);
            return true;
        }
        if key.ctrl
            || key.alt
            || matches!(key.code, Code::Function(_) | Code::PageUp | Code::PageDown)
        {
            return false;
        }
        if key.is(Code::Esc) {
            let idle = self.mode == Mode::Normal && self.pending == Pending::default();
            self.pending = Pending::default();
            self.recording.clear();
            self.mode = Mode::Normal;
            // With nothing to cancel, the key means what it means outside.
            return !idle;
        }
        if !self.replaying {
            self.recording.push(key);
        }
        let c = match key.code {
            Code::Char(c) => c,
            Code::Left => 'h',
            Code::Right => 'l',
            Code::Up => 'k',
            Code::Down => 'j',
            Code::Home => '0',
            Code::End => '$',
            Code::Backspace => 'h',
            Code::Delete => 'x',
            _ => return true,
        };
        let arrow = !matches!(key.code, Code::Char(_));
        if arrow
            && self.pending == Pending::default()
            && self.mode == Mode::Normal
            && matches!(key.code, Code::Up | Code::Down)
        {
            self.recording.clear();
            return false;
        }
        self.command(c, editor)
    }

    fn insert_key(&mut self, key: Key, editor: &mut Editor) -> bool {
        let remapped = self.remapped(key);
        if let Some(before) = remapped {
            let at = editor.cursor();
            editor.replace_range(at.saturating_sub(before)..at, "");
        }
        if key.is(Code::Esc) || key == Key::ctrl('[') || remapped.is_some() {
            self.mode = Mode::Normal;
            if self.inserted {
                if !self.replaying {
                    self.recording.push(key);
                    self.last_change = std::mem::take(&mut self.recording);
                }
                self.inserted = false;
            }
            if editor.cursor() > editor.line_start(editor.cursor()) {
                editor.set_cursor(editor.previous_grapheme(editor.cursor()));
            }
            return true;
        }
        if self.inserted && !self.replaying {
            self.recording.push(key);
        }
        false
    }

    /// The cursor stands on a character, not behind the last one.
    fn clamp(&self, editor: &mut Editor) {
        let at = editor.cursor();
        if at > editor.line_start(at) && at == editor.line_end(at) {
            editor.set_cursor(editor.previous_grapheme(at));
        }
    }

    fn done(&mut self, editor: &mut Editor, changed: bool) -> bool {
        self.pending = Pending::default();
        if self.mode == Mode::Normal {
            if changed && !self.replaying {
                self.last_change = std::mem::take(&mut self.recording);
            }
            self.recording.clear();
            self.clamp(editor);
        }
        true
    }

    fn enter_insert(&mut self) {
        self.mode = Mode::Insert;
        self.inserted = true;
        self.pending = Pending::default();
    }

    fn command(&mut self, c: char, editor: &mut Editor) -> bool {
        if let Some(prefix) = self.pending.prefix {
            return self.prefixed(prefix, c, editor);
        }
        if c.is_ascii_digit() && (c != '0' || self.counting()) {
            let digit = c as usize - '0' as usize;
            let slot = if self.pending.operator.is_some() {
                &mut self.pending.motion_count
            } else {
                &mut self.pending.count
            };
            *slot = Some(
                slot.unwrap_or(0)
                    .saturating_mul(10)
                    .saturating_add(digit)
                    .min(10_000),
            );
            return true;
        }
        let visual = matches!(self.mode, Mode::Visual | Mode::VisualLine);
        match c {
            'g' | 'f' | 'F' | 't' | 'T' | 'r' => {
                self.pending.prefix = Some(c);
                return true;
            }
            'i' | 'a' if visual || self.pending.operator.is_some() => {
                self.pending.prefix = Some(c);
                return true;
            }
            _ => {}
        }
        if let Some(operator) = operator(c) {
            if visual {
                return self.operate_selection(operator, editor);
            }
            if self.pending.operator == Some(operator) {
                return self.operate_lines(operator, editor);
            }
            if self.pending.operator.is_none() {
                self.pending.operator = Some(operator);
                return true;
            }
            return self.done(editor, false);
        }
        if let Some(reach) = self.reach(c, editor) {
            return self.go(reach, editor);
        }
        if visual {
            self.visual(c, editor)
        } else {
            self.normal(c, editor)
        }
    }

    fn counting(&self) -> bool {
        if self.pending.operator.is_some() {
            self.pending.motion_count.is_some()
        } else {
            self.pending.count.is_some()
        }
    }

    /// Where a motion goes.
    fn reach(&mut self, c: char, editor: &Editor) -> Option<Reach> {
        let (text, at, times) = (editor.text(), editor.cursor(), self.pending.times());
        let changing = self.pending.operator == Some(Operator::Change);
        Some(match c {
            'h' => motion::left(editor, at, times),
            'l' | ' ' => motion::right(editor, at, times, self.pending.operator.is_some()),
            'j' => motion::down(editor, at, times),
            'k' => motion::up(editor, at, times),
            '0' => Reach::exclusive(editor.line_start(at)),
            '^' => Reach::exclusive(motion::first_word(editor, at)),
            '_' => Reach::exclusive(motion::first_word(editor, at)),
            '$' => motion::line_end(editor, at, times),
            // `cw` on a word changes to its end, not to the next one.
            'w' | 'W'
                if changing
                    && text[at..]
                        .chars()
                        .next()
                        .is_some_and(|c| !c.is_whitespace()) =>
            {
                motion::word_end(text, at, times, c == 'W', true)
            }
            'w' => motion::word_forward(text, at, times, false, self.pending.operator.is_some()),
            'W' => motion::word_forward(text, at, times, true, self.pending.operator.is_some()),
            'b' => motion::word_back(text, at, times, false),
            'B' => motion::word_back(text, at, times, true),
            'e' => motion::word_end(text, at, times, false, false),
            'E' => motion::word_end(text, at, times, true, false),
            'G' => motion::line(
                editor,
                if self.pending.given() {
                    Some(times)
                } else {
                    None
                },
            ),
            '{' => Reach::exclusive(motion::paragraph_back(text, at)),
            '}' => Reach::exclusive(motion::paragraph_forward(text, at)),
            '%' => Reach::inclusive(motion::matching_bracket(text, at)?),
            ';' | ',' => {
                let (kind, wanted) = self.last_find?;
                let kind = if c == ';' { kind } else { motion::turned(kind) };
                motion::find(editor, at, kind, wanted, times, true)?
            }
            _ => return None,
        })
    }

    fn prefixed(&mut self, prefix: char, c: char, editor: &mut Editor) -> bool {
        self.pending.prefix = None;
        let (at, times) = (editor.cursor(), self.pending.times());
        match prefix {
            'g' => match c {
                'g' => {
                    let reach =
                        motion::line(editor, Some(if self.pending.given() { times } else { 1 }));
                    self.go(reach, editor)
                }
                'e' => {
                    let reach = motion::word_end_back(editor.text(), at, times);
                    self.go(reach, editor)
                }
                _ => self.done(editor, false),
            },
            'f' | 'F' | 't' | 'T' => {
                self.last_find = Some((prefix, c));
                match motion::find(editor, at, prefix, c, times, false) {
                    Some(reach) => self.go(reach, editor),
                    None => self.done(editor, false),
                }
            }
            'r' => {
                if let Some(selected) = self.selection(editor) {
                    let with: String = editor.text()[selected.clone()]
                        .chars()
                        .map(|old| if old == '\n' { old } else { c })
                        .collect();
                    let start = selected.start;
                    editor.replace_range(selected, &with);
                    editor.set_cursor(start);
                    self.mode = Mode::Normal;
                    return self.done(editor, true);
                }
                let mut end = at;
                for _ in 0..times {
                    if end >= editor.line_end(at) {
                        return self.done(editor, false);
                    }
                    end = editor.next_grapheme(end);
                }
                editor.replace_range(at..end, &c.to_string().repeat(times));
                editor.set_cursor(editor.previous_grapheme(editor.cursor()));
                self.done(editor, true)
            }
            'i' | 'a' => match motion::text_object(editor.text(), at, c, prefix == 'a') {
                Some(range) if self.pending.operator.is_some() => {
                    self.operate(range, false, editor)
                }
                Some(range) => {
                    self.anchor = range.start;
                    let end = range.end.max(range.start);
                    editor.set_cursor(if end > range.start {
                        editor.previous_grapheme(end)
                    } else {
                        end
                    });
                    self.done(editor, false)
                }
                None => self.done(editor, false),
            },
            _ => self.done(editor, false),
        }
    }

    /// Moves, or lets the operator work on what lies between.
    fn go(&mut self, reach: Reach, editor: &mut Editor) -> bool {
        let at = editor.cursor();
        if self.pending.operator.is_none() {
            editor.set_cursor(reach.to);
            return self.done(editor, false);
        }
        if reach.lines {
            let range = editor.line_start(at.min(reach.to))..editor.line_end(at.max(reach.to));
            return self.operate(range, true, editor);
        }
        let (from, mut to) = (at.min(reach.to), at.max(reach.to));
        if reach.inclusive {
            to = editor.next_grapheme(to);
        }
        self.operate(from..to, false, editor)
    }

    fn visual(&mut self, c: char, editor: &mut Editor) -> bool {
        match c {
            'v' => {
                self.mode = if self.mode == Mode::Visual {
                    Mode::Normal
                } else {
                    Mode::Visual
                }
            }
            'V' => {
                self.mode = if self.mode == Mode::VisualLine {
                    Mode::Normal
                } else {
                    Mode::VisualLine
                }
            }
            'o' => {
                let at = editor.cursor();
                editor.set_cursor(self.anchor);
                self.anchor = at;
            }
            'x' | 's' | 'X' | 'D' | 'C' | 'S' | 'Y' => {
                let operator = match c {
                    's' | 'C' | 'S' => Operator::Change,
                    'Y' => Operator::Yank,
                    _ => Operator::Delete,
                };
                return self.operate_selection(operator, editor);
            }
            '~' | 'u' | 'U' => {
                if let Some(range) = self.selection(editor) {
                    let start = range.start;
                    let text: String = editor.text()[range.clone()]
                        .chars()
                        .map(|old| recase(old, c))
                        .collect();
                    editor.replace_range(range, &text);
                    editor.set_cursor(start);
                }
                self.mode = Mode::Normal;
                return self.done(editor, true);
            }
            'J' => {
                if let Some(range) = self.selection(editor) {
                    let joins = editor.text()[range.clone()].matches('\n').count().max(1);
                    editor.set_cursor(range.start);
                    join(editor, joins);
                }
                self.mode = Mode::Normal;
                return self.done(editor, true);
            }
            'p' | 'P' => {
                if let Some(range) = self.selection(editor) {
                    let put = self.register.clone();
                    let replaced = editor.text()[range.clone()].to_owned();
                    editor.replace_range(range, &put);
                    editor.set_cursor(editor.previous_grapheme(editor.cursor()));
                    self.register = replaced;
                    self.register_lines = false;
                }
                self.mode = Mode::Normal;
                return self.done(editor, true);
            }
            _ => {}
        }
        self.done(editor, false)
    }

    fn normal(&mut self, c: char, editor: &mut Editor) -> bool {
        let (at, times) = (editor.cursor(), self.pending.times());
        let was_operator = self.pending.operator.is_some();
        if was_operator {
            return self.done(editor, false);
        }
        match c {
            'i' => self.enter_insert(),
            'I' => {
                editor.set_cursor(motion::first_word(editor, at));
                self.enter_insert();
            }
            'a' => {
                if at < editor.line_end(at) {
                    editor.set_cursor(editor.next_grapheme(at));
                }
                self.enter_insert();
            }
            'A' => {
                editor.set_cursor(editor.line_end(at));
                self.enter_insert();
            }
            'o' => {
                editor.set_cursor(editor.line_end(at));
                editor.apply(Action::Newline, usize::MAX);
                self.enter_insert();
            }
            'O' => {
                editor.set_cursor(editor.line_start(at));
                let start = editor.cursor();
                editor.apply(Action::Newline, usize::MAX);
                editor.set_cursor(start);
                self.enter_insert();
            }
            'x' | 'X' | 's' => return self.delete_characters(c, editor),
            'D' | 'C' | 'Y' => return self.operate_to_line_end(c, editor),
            'S' => return self.operate_lines(Operator::Change, editor),
            'J' => {
                join(editor, times.saturating_sub(1).max(1));
                return self.done(editor, true);
            }
            '~' => {
                let end = motion::right(editor, at, times, true).to;
                let text: String = editor.text()[at..end]
                    .chars()
                    .map(|old| recase(old, '~'))
                    .collect();
                editor.replace_range(at..end, &text);
                return self.done(editor, true);
            }
            'p' | 'P' => {
                self.put(c == 'p', times, editor);
                return self.done(editor, true);
            }
            'u' => {
                for _ in 0..times {
                    editor.undo();
                }
                return self.done(editor, false);
            }
            '.' => self.repeat(times, editor),
            'v' | 'V' => {
                self.anchor = at;
                self.mode = if c == 'v' {
                    Mode::Visual
                } else {
                    Mode::VisualLine
                };
                self.pending = Pending::default();
            }
            _ => return self.done(editor, false),
        }
        true
    }

    /// `x`, `X` and `s`: deletes or changes characters at the cursor.
    fn delete_characters(&mut self, c: char, editor: &mut Editor) -> bool {
        let (at, times) = (editor.cursor(), self.pending.times());
        let range = if c == 'X' {
            motion::left(editor, at, times).to..at
        } else {
            at..motion::right(editor, at, times, true).to
        };
        self.pending.operator = Some(if c == 's' {
            Operator::Change
        } else {
            Operator::Delete
        });
        if range.is_empty() && c != 's' {
            return self.done(editor, false);
        }
        self.operate(range, false, editor)
    }

    /// `D`, `C` and `Y`: to the end of the line, or the whole line for `Y`.
    fn operate_to_line_end(&mut self, c: char, editor: &mut Editor) -> bool {
        let (at, times) = (editor.cursor(), self.pending.times());
        let end = motion::line_end(editor, at, times).to;
        let end = if end > at || at < editor.line_end(at) {
            editor.line_end(end)
        } else {
            end
        };
        self.pending.operator = Some(match c {
            'D' => Operator::Delete,
            'C' => Operator::Change,
            _ => Operator::Yank,
        });
        if c == 'Y' {
            return self.operate_lines(Operator::Yank, editor);
        }
        self.operate(at..end, false, editor)
    }

    /// Plays the last change again.
    fn repeat(&mut self, times: usize, editor: &mut Editor) {
        self.pending = Pending::default();
        self.recording.clear();
        let keys = self.last_change.clone();
        self.replaying = true;
        for _ in 0..times {
            for key in &keys {
                if !self.key(*key, editor) {
                    // Keys of the insert mode go where they went the first time.
                    match key.code {
                        Code::Char(c) if !key.ctrl && !key.alt => editor.insert(&c.to_string()),
                        Code::Backspace => {
                            editor.apply(Action::DeleteBack, usize::MAX);
                        }
                        Code::Enter => {
                            editor.apply(Action::Newline, usize::MAX);
                        }
                        _ => {}
                    }
                }
            }
        }
        self.replaying = false;
    }
}

fn operator(c: char) -> Option<Operator> {
    Some(match c {
        'd' => Operator::Delete,
        'c' => Operator::Change,
        'y' => Operator::Yank,
        '>' => Operator::Indent,
        '<' => Operator::Outdent,
        _ => return None,
    })
}

/// Whether a character belongs to a word for `iw`.
pub(super) fn class(c: char) -> u8 {
    if c.is_whitespace() {
        0
    } else if is_word(c) {
        1
    } else {
        2
    }
}
