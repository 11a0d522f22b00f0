//! Operators on the text: delete, change, yank, shift, put, join, change the case.

use super::{Mode, Operator, Vim};
use crate::prompt::editor::{Editor, motion};
use std::ops::Range;

impl Vim {
    pub(super) fn operate_lines(&mut self, operator: Operator, editor: &mut Editor) -> bool {
        self.pending.operator = Some(operator);
        let start = editor.line_start(editor.cursor());
        let mut end = editor.line_end(editor.cursor());
        for _ in 1..self.pending.times() {
            if end < editor.text().len() {
                end = editor.line_end(end + 1);
            }
        }
        self.operate(start..end, true, editor)
    }

    pub(super) fn operate_selection(&mut self, operator: Operator, editor: &mut Editor) -> bool {
        let Some(range) = self.selection(editor) else {
            return true;
        };
        let lines = self.mode == Mode::VisualLine;
        self.mode = Mode::Normal;
        self.pending.operator = Some(operator);
        self.operate(range, lines, editor)
    }

    pub(super) fn operate(
        &mut self,
        range: Range<usize>,
        lines: bool,
        editor: &mut Editor,
    ) -> bool {
        let Some(operator) = self.pending.operator.take() else {
            return self.done(editor, false);
        };
        match operator {
            Operator::Indent | Operator::Outdent => {
                let start = editor.line_start(range.start);
                let end = editor.line_end(range.end.max(range.start));
                let shifted: Vec<String> = editor.text()[start..end]
                    .split('\n')
                    .map(|line| match operator {
                        Operator::Indent if line.is_empty() => String::new(),
                        Operator::Indent => format!("  {line}"),
                        _ => {
                            let blanks = line.len() - line.trim_start_matches(' ').len();
                            line[blanks.min(2)..].to_owned()
                        }
                    })
                    .collect();
                editor.replace_range(start..end, &shifted.join("\n"));
                editor.set_cursor(motion::first_word(editor, start));
                self.done(editor, true)
            }
            Operator::Yank => {
                self.register = editor.text()[range.clone()].to_owned();
                self.register_lines = lines;
                if !lines || editor.cursor() > range.end {
                    editor.set_cursor(range.start);
                }
                self.done(editor, false)
            }
            Operator::Change => {
                self.register = editor.delete_range(range);
                self.register_lines = lines;
                self.enter_insert();
                true
            }
            Operator::Delete => {
                self.register = editor.text()[range.clone()].to_owned();
                self.register_lines = lines;
                let range = if lines {
                    whole_lines(editor.text(), range)
                } else {
                    range
                };
                editor.delete_range(range);
                if lines {
                    let at = editor.cursor().min(editor.text().len());
                    editor.set_cursor(motion::first_word(editor, editor.line_start(at)));
                }
                self.done(editor, true)
            }
        }
    }

    pub(super) fn put(&self, after: bool, times: usize, editor: &mut Editor) {
        if self.register.is_empty() {
            return;
        }
        let at = editor.cursor();
        if self.register_lines {
            let text = vec![self.register.as_str(); times].join("\n");
            if after {
                let end = editor.line_end(at);
                editor.replace_range(end..end, &format!("\n{text}"));
                editor.set_cursor(motion::first_word(editor, end + 1));
            } else {
                let start = editor.line_start(at);
                editor.replace_range(start..start, &format!("{text}\n"));
                editor.set_cursor(motion::first_word(editor, start));
            }
            return;
        }
        let place = if after && at < editor.line_end(at) {
            editor.next_grapheme(at)
        } else {
            at
        };
        editor.replace_range(place..place, &self.register.repeat(times));
        editor.set_cursor(editor.previous_grapheme(editor.cursor()));
    }
}

/// Lines with one of the line breaks around them, so that none is left over.
fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    if range.end < text.len() {
        range.start..range.end + 1
    } else if range.start > 0 {
        range.start - 1..range.end
    } else {
        range
    }
}

pub(super) fn recase(c: char, how: char) -> char {
    let upper = |c: char| c.to_uppercase().next().unwrap_or(c);
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    match how {
        'u' => lower(c),
        'U' => upper(c),
        _ if c.is_uppercase() => lower(c),
        _ => upper(c),
    }
}

/// Joins lines with one blank between them.
pub(super) fn join(editor: &mut Editor, times: usize) {
    for _ in 0..times {
        let end = editor.line_end(editor.cursor());
        if end == editor.text().len() {
            return;
        }
        let rest = &editor.text()[end + 1..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let next = rest[blanks..].chars().next();
        let before = editor.text()[..end].chars().next_back();
        let glue = if next.is_none_or(|c| c == '\n' || c == ')')
            || before.is_none_or(|c| c == ' ' || c == '\n')
        {
            ""
        } else {
            " "
        };
        editor.replace_range(end..end + 1 + blanks, glue);
        editor.set_cursor(end);
    }
}
