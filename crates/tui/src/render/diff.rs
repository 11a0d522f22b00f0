//! Changes to files as lines: numbers, colours, and the words that differ.

use crate::render::highlight::Highlighter;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, more_lines, wrap_beside};
use crate::render::theme::Theme;
use lathe_diff::Fate;
use lathe_protocol::display::Hunk;
use std::path::Path;

/// The hunks between two texts, as they are shown: without line ends and remarks on them.
pub(crate) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let mut hunks = lathe_diff::hunks(old, new);
    for hunk in &mut hunks {
        hunk.lines.retain(|line| !line.starts_with('\\'));
        for line in &mut hunk.lines {
            line.truncate(line.trim_end_matches('\r').len());
        }
    }
    hunks
}

/// The lines of a change, broken inside their gutter. `limit` lines at most: context goes first, and what is
/// left out of the change itself is counted in the last line.
pub(crate) fn lines(path: &Path, hunks: &[Hunk], look: Look<'_>, limit: usize) -> Vec<Line> {
    let theme = look.theme;
    let digits = hunks
        .iter()
        .map(|hunk| (hunk.old_start + hunk.old_lines).max(hunk.new_start + hunk.new_lines))
        .max()
        .unwrap_or(1)
        .to_string()
        .len();
    let mut rows = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            rows.push(Row::Gap);
        }
        hunk_rows(hunk, theme, &mut Highlighter::for_path(path), &mut rows);
    }
    let mut shown = None;
    for context in [usize::MAX, 1, 0] {
        let fewer = if context == usize::MAX {
            rows.clone()
        } else {
            with_context(&rows, context)
        };
        let fits = fewer.len() <= limit;
        shown = Some(fewer);
        if fits {
            break;
        }
    }
    let mut shown = shown.unwrap_or_default();
    let cut = shown.split_off(limit.min(shown.len()));
    let mut out: Vec<Line> = shown
        .iter()
        .flat_map(|row| row.lines(digits, look))
        .collect();
    if !cut.is_empty() {
        let of = |wanted: Change| {
            cut.iter()
                .filter(|row| matches!(row, Row::Line { change, .. } if *change == wanted))
                .count()
        };
        let mut counts = String::new();
        for (mark, count) in [('+', of(Change::Added)), ('−', of(Change::Removed))] {
            if count > 0 {
                counts.push_str(&format!(" {mark}{count}"));
            }
        }
        out.push(Line::styled(
            format!("{}:{counts}", more_lines(cut.len(), look.keys)),
            theme.muted,
        ));
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Kept,
    Removed,
    Added,
}

#[derive(Debug, Clone)]
enum Row {
    /// Lines that are not shown.
    Gap,
    Line {
        change: Change,
        number: usize,
        text: Line,
    },
}

impl Row {
    fn is_change(&self) -> bool {
        matches!(self, Self::Line { change, .. } if *change != Change::Kept)
    }

    fn lines(&self, digits: usize, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let Self::Line {
            change,
            number,
            text,
        } = self
        else {
            return vec![Line::styled(format!("{:>digits$} ⋮", ""), theme.muted)];
        };
        let (mark, mark_style, below) = match change {
            Change::Kept => ("  ", Style::PLAIN, Style::PLAIN),
            Change::Removed => ("- ", theme.error, theme.diff.removed),
            Change::Added => ("+ ", theme.success, theme.diff.added),
        };
        let gutter = |number: &str, mark: &str| {
            Line::styled(format!("{number:>digits$} "), theme.muted)
                .with(mark, mark_style.over(below))
        };
        wrap_beside(
            &gutter("", "  "),
            &gutter(&number.to_string(), mark),
            &text.clone().filled(below),
            look.columns,
        )
    }
}

/// The changes with at most this many unchanged lines around each.
fn with_context(rows: &[Row], context: usize) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::new();
    let mut dropped = false;
    for (index, row) in rows.iter().enumerate() {
        let from = index.saturating_sub(context);
        let near = rows
            .get(from..=(index + context).min(rows.len() - 1))
            .is_some_and(|near| near.iter().any(Row::is_change));
        if matches!(row, Row::Gap) || !near {
            dropped = true;
            continue;
        }
        if std::mem::take(&mut dropped) && !out.is_empty() {
            out.push(Row::Gap);
        }
        out.push(row.clone());
    }
    out
}

fn hunk_rows(hunk: &Hunk, theme: &Theme, highlighter: &mut Highlighter, out: &mut Vec<Row>) {
    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
    let mut at = 0;
    while at < hunk.lines.len() {
        let mark = hunk.lines[at].chars().next().unwrap_or(' ');
        if mark != '-' && mark != '+' {
            let text = hunk.lines[at].get(1..).unwrap_or_default();
            out.push(Row::Line {
                change: Change::Kept,
                number: new,
                text: highlighter.line(&clean(text), theme),
            });
            old += 1;
            new += 1;
            at += 1;
            continue;
        }
        let run = |from: usize, mark: char| {
            hunk.lines[from..]
                .iter()
                .take_while(|line| line.starts_with(mark))
                .map(|line| clean(line.get(1..).unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        let removed = run(at, '-');
        let added = run(at + removed.len(), '+');
        at += (removed.len() + added.len()).max(1);
        let words: Vec<Option<Words>> = (0..removed.len().max(added.len()))
            .map(|index| changed_words(removed.get(index)?, added.get(index)?))
            .collect();
        for (index, text) in removed.iter().enumerate() {
            let (below, word) = (theme.diff.removed, theme.diff.removed_word);
            let text = match words.get(index).and_then(Option::as_ref) {
                Some(words) => painted(&words.old, below, word),
                None => Line::styled(text.clone(), below),
            };
            out.push(Row::Line {
                change: Change::Removed,
                number: old,
                text,
            });
            old += 1;
        }
        for (index, text) in added.iter().enumerate() {
            let (below, word) = (theme.diff.added, theme.diff.added_word);
            let text = match words.get(index).and_then(Option::as_ref) {
                Some(words) => painted(&words.new, below, word),
                None => highlighter.line(text, theme).over(below),
            };
            out.push(Row::Line {
                change: Change::Added,
                number: new,
                text,
            });
            new += 1;
        }
    }
}

/// The parts of two lines, each with whether it changed.
struct Words {
    old: Vec<(String, bool)>,
    new: Vec<(String, bool)>,
}

/// The words that differ; `None` when the lines have little in common.
fn changed_words(old: &str, new: &str) -> Option<Words> {
    if old.len() > 500 || new.len() > 500 {
        return None;
    }
    let mut words = Words {
        old: Vec::new(),
        new: Vec::new(),
    };
    for (fate, text) in lathe_diff::words(old, new)? {
        let text = text.to_owned();
        match fate {
            Fate::Kept => {
                words.old.push((text.clone(), false));
                words.new.push((text, false));
            }
            Fate::Removed => words.old.push((text, true)),
            Fate::Added => words.new.push((text, true)),
        }
    }
    Some(words)
}

fn painted(parts: &[(String, bool)], plain: Style, changed: Style) -> Line {
    let mut line = Line::empty();
    for (text, is_changed) in parts {
        line.push(text.clone(), if *is_changed { changed } else { plain });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(theme: &Theme) -> Look<'_> {
        Look {
            theme,
            columns: 24,
            keys: crate::prompt::keymap::Keymap::standard(),
        }
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn the_changed_words_stand_out() {
        let theme = Theme::built_in("dark", false);
        let hunks = hunks("one\nlet x = 1;\nthree\n", "one\nlet x = 2;\nthree\nfour\n");
        assert_eq!(lathe_diff::counts(&hunks), (2, 1));
        let lines = lines(Path::new("a.rs"), &hunks, look(&theme), 50);
        assert_eq!(
            texts(&lines),
            [
                "1   one",
                "2 - let x = 1;",
                "2 + let x = 2;",
                "3   three",
                "4 + four"
            ]
        );
        assert!(
            lines[2]
                .spans
                .iter()
                .any(|span| span.text == "2" && span.style == theme.diff.added_word)
        );
        assert_eq!(lines[2].fill, theme.diff.added.background);
        assert_eq!(lines[3].fill, None);
    }

    #[test]
    fn long_lines_are_broken_beside_their_numbers() {
        let theme = Theme::built_in("dark", false);
        let shown = lines(
            Path::new("a"),
            &hunks("", "some words that are too many\n"),
            look(&theme),
            9,
        );
        assert_eq!(texts(&shown), ["1 + some words that are", "    too many"]);
        assert!(shown.iter().all(|line| line.fill.is_some()));
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let theme = Theme::built_in("dark", false);
        let new: String = (0..100).map(|n| format!("{n}\n")).collect();
        let shown = lines(Path::new("a"), &hunks("", &new), look(&theme), 10);
        assert_eq!(shown.len(), 11);
        assert_eq!(
            shown[10].text(),
            "… 90 more lines (ctrl+o shows everything): +90"
        );
    }

    #[test]
    fn what_did_not_change_is_cut_first() {
        let theme = Theme::built_in("dark", false);
        let old: String = (1..=7).map(|n| format!("{n}\n")).collect();
        let new = old.replace("4\n", "4\nadded\n");
        let shown = |limit| {
            texts(&lines(
                Path::new("a"),
                &hunks(&old, &new),
                look(&theme),
                limit,
            ))
        };
        assert_eq!(shown(7).len(), 7);
        assert_eq!(shown(4), ["4   4", "5 + added", "6   5"]);
        assert_eq!(shown(1), ["5 + added"]);
    }
}
