//! Vim's motions and text objects, as functions of the text.

use super::Editor;
use super::vim::class;
use std::ops::Range;

/// The target of a motion, and the range that an operator covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) to: usize,
    pub(super) inclusive: bool,
    pub(super) lines: bool,
}

impl Reach {
    pub(super) fn exclusive(to: usize) -> Self {
        Self {
            to,
            inclusive: false,
            lines: false,
        }
    }

    pub(super) fn inclusive(to: usize) -> Self {
        Self {
            to,
            inclusive: true,
            lines: false,
        }
    }

    fn lines(to: usize) -> Self {
        Self {
            to,
            inclusive: false,
            lines: true,
        }
    }
}

pub(super) fn left(editor: &Editor, at: usize, times: usize) -> Reach {
    let start = editor.line_start(at);
    let mut to = at;
    for _ in 0..times {
        if to <= start {
            break;
        }
        to = editor.previous_grapheme(to);
    }
    Reach::exclusive(to)
}

/// To the right; an operator may reach behind the last character.
pub(super) fn right(editor: &Editor, at: usize, times: usize, operator: bool) -> Reach {
    let end = editor.line_end(at);
    let mut to = at;
    for _ in 0..times {
        if to >= end {
            break;
        }
        let next = editor.next_grapheme(to);
        if next >= end && !operator {
            break;
        }
        to = next;
    }
    Reach::exclusive(to)
}

fn column(editor: &Editor, at: usize) -> usize {
    editor.text()[editor.line_start(at)..at].chars().count()
}

fn at_column(editor: &Editor, start: usize, column: usize) -> usize {
    let end = editor.line_end(start);
    let mut to = start;
    for _ in 0..column {
        let next = editor.next_grapheme(to);
        if next >= end {
            break;
        }
        to = next;
    }
    to
}

pub(super) fn down(editor: &Editor, at: usize, times: usize) -> Reach {
    let column = column(editor, at);
    let mut start = editor.line_start(at);
    for _ in 0..times {
        let end = editor.line_end(start);
        if end == editor.text().len() {
            break;
        }
        start = end + 1;
    }
    Reach::lines(at_column(editor, start, column))
}

pub(super) fn up(editor: &Editor, at: usize, times: usize) -> Reach {
    let column = column(editor, at);
    let mut start = editor.line_start(at);
    for _ in 0..times {
        if start == 0 {
            break;
        }
        start = editor.line_start(start - 1);
    }
    Reach::lines(at_column(editor, start, column))
}

/// The first character of a line that is no blank.
pub(super) fn first_word(editor: &Editor, at: usize) -> usize {
    let start = editor.line_start(at);
    let line = &editor.text()[start..editor.line_end(at)];
    start + (line.len() - line.trim_start_matches([' ', '\t']).len())
}

pub(super) fn line_end(editor: &Editor, at: usize, times: usize) -> Reach {
    let mut end = editor.line_end(at);
    for _ in 1..times {
        if end < editor.text().len() {
            end = editor.line_end(end + 1);
        }
    }
    if end > editor.line_start(end) {
        Reach::inclusive(editor.previous_grapheme(end))
    } else {
        Reach::exclusive(end)
    }
}

/// A line by its number from 1; the last one without.
pub(super) fn line(editor: &Editor, number: Option<usize>) -> Reach {
    let text = editor.text();
    let start = match number {
        Some(number) => {
            let mut start = 0;
            for _ in 1..number {
                match text[start..].find('\n') {
                    Some(found) => start += found + 1,
                    None => break,
                }
            }
            start
        }
        None => editor.line_start(text.len()),
    };
    Reach::lines(first_word(editor, start))
}

fn kind(c: char, big: bool) -> u8 {
    match class(c) {
        0 => 0,
        other => {
            if big {
                1
            } else {
                other
            }
        }
    }
}

pub(super) fn word_forward(
    text: &str,
    at: usize,
    times: usize,
    big: bool,
    operator: bool,
) -> Reach {
    let mut to = at;
    for turn in 0..times {
        let rest = &text[to..];
        let Some(first) = rest.chars().next() else {
            break;
        };
        let here = kind(first, big);
        let mut rest = rest;
        if here != 0 {
            rest = rest.trim_start_matches(|c| kind(c, big) == here);
        }
        let after_word = text.len() - rest.len();
        // An empty line is a word.
        let mut end = after_word;
        for (offset, c) in rest.char_indices() {
            if kind(c, big) != 0 {
                break;
            }
            end = after_word + offset + c.len_utf8();
            if c == '\n' && text[end..].starts_with('\n') {
                break;
            }
        }
        // The last word that an operator takes doesn't reach over the end of its line.
        if operator
            && turn + 1 == times
            && here != 0
            && let Some(line_break) = text[after_word..end].find('\n')
        {
            end = after_word + line_break;
        }
        to = end;
    }
    Reach::exclusive(to)
}

pub(super) fn word_back(text: &str, at: usize, times: usize, big: bool) -> Reach {
    let mut to = at;
    for _ in 0..times {
        let before = text[..to].trim_end_matches(|c| kind(c, big) == 0);
        let Some(last) = before.chars().next_back() else {
            to = 0;
            break;
        };
        let here = kind(last, big);
        to = before.trim_end_matches(|c| kind(c, big) == here).len();
    }
    Reach::exclusive(to)
}

/// The end of a word. With `stay`, a cursor on an end stays there.
pub(super) fn word_end(text: &str, at: usize, times: usize, big: bool, stay: bool) -> Reach {
    let mut to = at;
    for turn in 0..times {
        let step = if stay && turn == 0 {
            0
        } else {
            text[to..].chars().next().map_or(0, char::len_utf8)
        };
        let rest = &text[to + step..];
        let skipped = rest.trim_start_matches(|c| kind(c, big) == 0);
        let Some(first) = skipped.chars().next() else {
            break;
        };
        let here = kind(first, big);
        let start = text.len() - skipped.len();
        let length: usize = skipped
            .chars()
            .take_while(|c| kind(*c, big) == here)
            .map(char::len_utf8)
            .sum();
        let last = skipped[..length]
            .chars()
            .next_back()
            .map_or(1, char::len_utf8);
        to = start + length - last;
    }
    Reach::inclusive(to)
}

pub(super) fn word_end_back(text: &str, at: usize, times: usize) -> Reach {
    let mut to = at;
    for _ in 0..times {
        let here = text[to..].chars().next().map_or(0, |c| kind(c, false));
        let mut before = &text[..to];
        if here != 0 {
            before = before.trim_end_matches(|c| kind(c, false) == here);
        }
        let before = before.trim_end_matches(|c| kind(c, false) == 0);
        to = before
            .char_indices()
            .next_back()
            .map_or(0, |(index, _)| index);
    }
    Reach::inclusive(to)
}

pub(super) fn paragraph_forward(text: &str, at: usize) -> usize {
    let rest = text[at..].trim_start_matches('\n');
    let from = text.len() - rest.len();
    rest.find("\n\n")
        .map_or(text.len(), |found| from + found + 1)
}

pub(super) fn paragraph_back(text: &str, at: usize) -> usize {
    text[..at].rfind("\n\n").map_or(0, |found| found + 1)
}

/// The same search in the other direction.
pub(super) fn turned(kind: char) -> char {
    match kind {
        'f' => 'F',
        'F' => 'f',
        't' => 'T',
        _ => 't',
    }
}

/// `f`, `F`, `t`, `T` in the line. A repeated `t` doesn't stay where it is.
pub(super) fn find(
    editor: &Editor,
    at: usize,
    kind: char,
    wanted: char,
    times: usize,
    again: bool,
) -> Option<Reach> {
    let text = editor.text();
    let (start, end) = (editor.line_start(at), editor.line_end(at));
    if kind == 'f' || kind == 't' {
        let mut from = editor.next_grapheme(at);
        if kind == 't' && again && text.get(from..end)?.starts_with(wanted) {
            from = editor.next_grapheme(from);
        }
        let found = text.get(from..end)?.match_indices(wanted).nth(times - 1)?.0 + from;
        return Some(Reach::inclusive(if kind == 't' {
            editor.previous_grapheme(found)
        } else {
            found
        }));
    }
    let mut to = at;
    if kind == 'T' && again && text[start..to].ends_with(wanted) {
        to = editor.previous_grapheme(to);
    }
    let found = text[start..to].rmatch_indices(wanted).nth(times - 1)?.0 + start;
    Some(Reach::exclusive(if kind == 'T' {
        editor.next_grapheme(found)
    } else {
        found
    }))
}

const PAIRS: &[(char, char)] = &[('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

pub(super) fn matching_bracket(text: &str, at: usize) -> Option<usize> {
    let line_end = text[at..].find('\n').map_or(text.len(), |found| at + found);
    let (start, c) = text[at..line_end]
        .char_indices()
        .map(|(offset, c)| (at + offset, c))
        .find(|(_, c)| {
            PAIRS
                .iter()
                .any(|(open, close)| *c != '<' && *c != '>' && (c == open || c == close))
        })?;
    let (open, close) = PAIRS
        .iter()
        .find(|(open, close)| *open == c || *close == c)?;
    if c == *open {
        closing(text, start + c.len_utf8(), *open, *close)
    } else {
        opening(text, start, *open, *close)
    }
}

fn closing(text: &str, from: usize, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    for (offset, c) in text[from..].char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            if depth == 0 {
                return Some(from + offset);
            }
            depth -= 1;
        }
    }
    None
}

fn opening(text: &str, before: usize, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text[..before].char_indices().rev() {
        if c == close {
            depth += 1;
        } else if c == open {
            if depth == 0 {
                return Some(at);
            }
            depth -= 1;
        }
    }
    None
}

/// A text object: a word, a quotation, brackets, a paragraph.
pub(super) fn text_object(text: &str, at: usize, c: char, around: bool) -> Option<Range<usize>> {
    match c {
        'w' | 'W' => Some(word_object(text, at, c == 'W', around)),
        '"' | '\'' | '`' => quoted(text, at, c, around),
        'p' => Some(paragraph_object(text, at, around)),
        '(' | ')' | 'b' => bracketed(text, at, '(', ')', around),
        '[' | ']' => bracketed(text, at, '[', ']', around),
        '{' | '}' | 'B' => bracketed(text, at, '{', '}', around),
        '<' | '>' => bracketed(text, at, '<', '>', around),
        _ => None,
    }
}

fn word_object(text: &str, at: usize, big: bool, around: bool) -> Range<usize> {
    let Some(here) = text[at..].chars().next().map(|c| kind(c, big)) else {
        return at..at;
    };
    let same = |c: char| kind(c, big) == here && c != '\n';
    let start = text[..at].trim_end_matches(same).len();
    let end = text.len() - text[at..].trim_start_matches(same).len();
    if !around {
        return start..end;
    }
    let blank = |c: char| c == ' ' || c == '\t';
    if here == 0 {
        let next = text[end..].chars().next().map_or(0, |c| kind(c, big));
        let end = text.len()
            - text[end..]
                .trim_start_matches(|c| kind(c, big) == next && c != '\n')
                .len();
        return start..end;
    }
    let behind = text.len() - text[end..].trim_start_matches(blank).len();
    if behind > end {
        return start..behind;
    }
    text[..start].trim_end_matches(blank).len()..end
}

fn quoted(text: &str, at: usize, quote: char, around: bool) -> Option<Range<usize>> {
    let start = text[..at].rfind('\n').map_or(0, |found| found + 1);
    let end = text[at..].find('\n').map_or(text.len(), |found| at + found);
    let marks: Vec<usize> = text[start..end]
        .match_indices(quote)
        .map(|(offset, _)| start + offset)
        .collect();
    let pair = marks
        .chunks(2)
        .find(|pair| pair.len() == 2 && pair[1] >= at)?;
    if around {
        let close = pair[1] + 1;
        let behind = text.len() - text[close..].trim_start_matches(' ').len();
        return Some(pair[0]..behind.min(end));
    }
    Some(pair[0] + 1..pair[1])
}

fn bracketed(text: &str, at: usize, open: char, close: char, around: bool) -> Option<Range<usize>> {
    let here = text[at..].chars().next();
    let start = if here == Some(open) {
        at
    } else {
        opening(text, at, open, close)?
    };
    let end = closing(text, start + open.len_utf8(), open, close)?;
    if end < at {
        return None;
    }
    Some(if around {
        start..end + close.len_utf8()
    } else {
        start + open.len_utf8()..end
    })
}

fn paragraph_object(text: &str, at: usize, around: bool) -> Range<usize> {
    let start = text[..at].rfind("\n\n").map_or(0, |found| found + 2);
    let end = text[at..]
        .find("\n\n")
        .map_or(text.len(), |found| at + found);
    if !around {
        return start.min(end)..end;
    }
    let behind = text.len() - text[end..].trim_start_matches('\n').len();
    start.min(end)..behind
}
