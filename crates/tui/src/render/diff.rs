//! Changes to files as lines: numbers, colours, and the words that differ.

use crate::render::highlight::Highlighter;
use crate::render::style::{Line, Style};
use crate::render::text::clean;
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

/// The lines of a change. `limit` lines at most; the last line then says how many are left out.
pub(crate) fn lines(path: &Path, hunks: &[Hunk], theme: &Theme, limit: usize) -> Vec<Line> {
    let digits = hunks
        .iter()
        .map(|hunk| (hunk.old_start + hunk.old_lines).max(hunk.new_start + hunk.new_lines))
        .max()
        .unwrap_or(1)
        .to_string()
        .len();
    let mut out = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            out.push(Line::styled(format!("{:>digits$} ⋮", ""), theme.muted));
        }
        let mut highlighter = Highlighter::for_path(path);
        hunk_lines(hunk, digits, theme, &mut highlighter, &mut out);
    }
    if out.len() > limit {
        let more = out.len() - limit;
        out.truncate(limit);
        out.push(Line::styled(format!("… {more} more lines"), theme.muted));
    }
    out
}

fn hunk_lines(
    hunk: &Hunk,
    digits: usize,
    theme: &Theme,
    highlighter: &mut Highlighter,
    out: &mut Vec<Line>,
) {
    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
    let mut at = 0;
    while at < hunk.lines.len() {
        let mark = hunk.lines[at].chars().next().unwrap_or(' ');
        if mark != '-' && mark != '+' {
            let text = hunk.lines[at].get(1..).unwrap_or_default();
            let mut line = Line::styled(format!("{new:>digits$}   "), theme.muted);
            for span in highlighter.line(&clean(text), theme).spans {
                line.push_span(span);
            }
            out.push(line);
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
            let mut line = Line::styled(format!("{old:>digits$} "), theme.muted);
            line.push("- ", theme.error.over(theme.diff.removed));
            match words.get(index).and_then(Option::as_ref) {
                Some(words) => paint(
                    &words.old,
                    theme.diff.removed,
                    theme.diff.removed_word,
                    &mut line,
                ),
                None => line.push(text.clone(), theme.diff.removed),
            }
            out.push(line);
            old += 1;
        }
        for (index, text) in added.iter().enumerate() {
            let mut line = Line::styled(format!("{new:>digits$} "), theme.muted);
            line.push("+ ", theme.success.over(theme.diff.added));
            match words.get(index).and_then(Option::as_ref) {
                Some(words) => paint(
                    &words.new,
                    theme.diff.added,
                    theme.diff.added_word,
                    &mut line,
                ),
                None => {
                    for span in highlighter.line(text, theme).over(theme.diff.added).spans {
                        line.push_span(span);
                    }
                }
            }
            out.push(line);
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

fn paint(parts: &[(String, bool)], plain: Style, changed: Style, line: &mut Line) {
    for (text, is_changed) in parts {
        line.push(text.clone(), if *is_changed { changed } else { plain });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changed_words_stand_out() {
        let theme = Theme::built_in("dark", false);
        let hunks = hunks("one\nlet x = 1;\nthree\n", "one\nlet x = 2;\nthree\nfour\n");
        assert_eq!(lathe_diff::counts(&hunks), (2, 1));
        let lines = lines(Path::new("a.rs"), &hunks, &theme, 50);
        let text: Vec<String> = lines.iter().map(Line::text).collect();
        assert_eq!(
            text,
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
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let theme = Theme::built_in("dark", false);
        let new: String = (0..100).map(|n| format!("{n}\n")).collect();
        let shown = lines(Path::new("a"), &hunks("", &new), &theme, 10);
        assert_eq!(shown.len(), 11);
        assert_eq!(shown[10].text(), "… 90 more lines");
    }
}
