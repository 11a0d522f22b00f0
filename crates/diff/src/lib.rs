//! The difference between two texts: as hunks (what hosts and faces show), as a unified diff (what
//! the model and the user read), and word by word within a line.
//!
//! Lines that both texts begin and end with are set aside first, so that a small change to a large
//! file costs what it changes. The rest is compared as numbers, one for each different line: the
//! comparing itself is then compiled once for everyone, which is why this is a crate of its own.
//!
//! Start with [`hunks`].
#![forbid(unsafe_code)]

use lathe_protocol::display::Hunk;
use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};
use unicode_segmentation::UnicodeSegmentation as _;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// After this the diff is finished coarsely.
const LONGEST_TIME: Duration = Duration::from_millis(500);
/// Changed text beyond this is not shown line by line: the patch would be larger than anyone reads.
const LARGEST_CHANGE: usize = 1024 * 1024;

/// How a part of a text changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is in both.
    Kept,
    /// Only in the old one.
    Removed,
    /// Only in the new one.
    Added,
}

/// The steps from one list of texts to another.
fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffOp> {
    let mut numbers: HashMap<&'a str, usize> = HashMap::new();
    let mut numbered = |texts: &[&'a str]| -> Vec<usize> {
        texts
            .iter()
            .map(|text| {
                let next = numbers.len();
                *numbers.entry(text).or_insert(next)
            })
            .collect()
    };
    let (old, new) = (numbered(old), numbered(new));
    let (old, new) = (old.as_slice(), new.as_slice());
    let mut steps = Compact::new(Replace::new(Capture::new()), old, new);
    let end = Instant::now() + LONGEST_TIME;
    // Nothing here can fail: what is captured is only kept.
    let Ok(()) = myers::diff_deadline(&mut steps, old, 0..old.len(), new, 0..new.len(), Some(end));
    steps.into_inner().into_inner().into_ops()
}

/// The hunks between two texts; none when they are the same, or differ by more than 1 MiB.
#[must_use]
pub fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let same_start = old_lines
        .iter()
        .zip(&new_lines)
        .take_while(|(old, new)| old == new)
        .count();
    let same_end = old_lines
        .iter()
        .skip(same_start)
        .rev()
        .zip(new_lines.iter().skip(same_start).rev())
        .take_while(|(old, new)| old == new)
        .count();
    // The context of the first and last change lies in the parts set aside.
    let start = same_start.saturating_sub(CONTEXT);
    let end = same_end.saturating_sub(CONTEXT);
    let old_part = old_lines
        .get(start..old_lines.len() - end)
        .unwrap_or_default();
    let new_part = new_lines
        .get(start..new_lines.len() - end)
        .unwrap_or_default();
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    if bytes(old_part) + bytes(new_part) > LARGEST_CHANGE {
        return Vec::new();
    }
    similar::group_diff_ops(steps(old_part, new_part), CONTEXT)
        .iter()
        .map(|group| hunk(old_part, new_part, group, start))
        .collect()
}

/// The parts that a step is about, each with what became of it.
fn parts<'a>(old: &[&'a str], new: &[&'a str], step: &DiffOp) -> Vec<(Fate, &'a str)> {
    let of = |fate: Fate, texts: &[&'a str], range: Range<usize>| {
        let texts = texts.get(range).unwrap_or_default();
        texts.iter().map(|text| (fate, *text)).collect::<Vec<_>>()
    };
    if matches!(step, DiffOp::Equal { .. }) {
        return of(Fate::Kept, old, step.old_range());
    }
    let mut parts = of(Fate::Removed, old, step.old_range());
    parts.extend(of(Fate::Added, new, step.new_range()));
    parts
}

fn hunk(old: &[&str], new: &[&str], group: &[DiffOp], offset: usize) -> Hunk {
    let mut hunk = Hunk {
        old_start: 0,
        old_lines: 0,
        new_start: 0,
        new_lines: 0,
        lines: Vec::new(),
    };
    if let Some(first) = group.first() {
        hunk.old_start = offset + first.old_range().start + 1;
        hunk.new_start = offset + first.new_range().start + 1;
    }
    for (fate, line) in group.iter().flat_map(|step| parts(old, new, step)) {
        let mark = match fate {
            Fate::Kept => ' ',
            Fate::Removed => '-',
            Fate::Added => '+',
        };
        hunk.old_lines += usize::from(fate != Fate::Added);
        hunk.new_lines += usize::from(fate != Fate::Removed);
        let ends = line.ends_with('\n');
        let line = line.strip_suffix('\n').unwrap_or(line);
        hunk.lines.push(format!("{mark}{line}"));
        if !ends {
            hunk.lines.push("\\ No newline at end of file".to_owned());
        }
    }
    // An empty side is counted from the line before it, as diff does.
    if hunk.old_lines == 0 {
        hunk.old_start -= 1;
    }
    if hunk.new_lines == 0 {
        hunk.new_start -= 1;
    }
    hunk
}

/// How many lines hunks add and remove.
#[must_use]
pub fn counts(hunks: &[Hunk]) -> (usize, usize) {
    let count = |mark| {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| line.starts_with(mark)).count()
    };
    (count('+'), count('-'))
}

/// The difference as a unified diff; empty when there is none.
#[must_use]
pub fn unified(path: &Path, old: &str, new: &str) -> String {
    unified_of(path, &hunks(old, new))
}

/// Hunks as a unified diff; empty when there are none.
#[must_use]
pub fn unified_of(path: &Path, hunks: &[Hunk]) -> String {
    let mut text = String::new();
    if hunks.is_empty() {
        return text;
    }
    let name = path.display();
    let _ = writeln!(text, "--- {name}\n+++ {name}");
    for hunk in hunks {
        let _ = writeln!(
            text,
            "@@ -{},{} +{},{} @@",
            hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines
        );
        for line in &hunk.lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// The changed words of two lines, in order; `None` if the lines have little in common.
#[must_use]
pub fn words<'a>(old: &'a str, new: &'a str) -> Option<Vec<(Fate, &'a str)>> {
    let old: Vec<&str> = old.split_word_bounds().collect();
    let new: Vec<&str> = new.split_word_bounds().collect();
    let words: Vec<(Fate, &str)> = steps(&old, &new)
        .iter()
        .flat_map(|step| parts(&old, &new, step))
        .collect();
    let kept = words.iter().filter(|(fate, _)| *fate == Fate::Kept).count();
    // Of ten words on both sides together, at least four are in both.
    (kept * 2 * 10 >= (old.len() + new.len()) * 4).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_the_middle_has_three_lines_of_context() {
        let old: String = (1..=20).map(|number| format!("{number}\n")).collect();
        let new = old.replace("10\n", "ten\nTEN\n");
        let hunks = hunks(&old, &new);
        assert_eq!(hunks.len(), 1);
        let hunk = &hunks[0];
        assert_eq!(
            (
                hunk.old_start,
                hunk.old_lines,
                hunk.new_start,
                hunk.new_lines
            ),
            (7, 7, 7, 8)
        );
        assert_eq!(
            hunk.lines,
            [" 7", " 8", " 9", "-10", "+ten", "+TEN", " 11", " 12", " 13"]
        );
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: String = (1..=100).map(|number| format!("{number}\n")).collect();
        let new = old.replace("\n10\n", "\nx\n").replace("\n90\n", "\ny\n");
        let starts: Vec<usize> = hunks(&old, &new)
            .iter()
            .map(|hunk| hunk.old_start)
            .collect();
        assert_eq!(starts, [7, 87]);
    }

    #[test]
    fn a_created_file_is_all_plus_and_starts_at_zero() {
        let hunks = hunks("", "a\nb");
        assert_eq!(hunks[0].lines, ["+a", "+b", "\\ No newline at end of file"]);
        assert_eq!((hunks[0].old_start, hunks[0].old_lines), (0, 0));
        assert_eq!((hunks[0].new_start, hunks[0].new_lines), (1, 2));
    }

    #[test]
    fn the_same_text_has_no_hunks() {
        assert!(hunks("a\n", "a\n").is_empty());
        assert_eq!(unified(Path::new("a"), "a\n", "a\n"), "");
    }

    #[test]
    fn a_small_change_to_a_large_file_is_shown() {
        let old: String = (0..200_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        let new = old.replace("line 150000\n", "changed\n");
        let hunks = hunks(&old, &new);
        assert_eq!(hunks.len(), 1);
        assert_eq!(hunks[0].old_start, 149_998);
    }

    #[test]
    fn words_are_told_apart_within_a_line() {
        assert_eq!(
            words("let x = 1;", "let x = 2;").unwrap(),
            [
                (Fate::Kept, "let"),
                (Fate::Kept, " "),
                (Fate::Kept, "x"),
                (Fate::Kept, " "),
                (Fate::Kept, "="),
                (Fate::Kept, " "),
                (Fate::Removed, "1"),
                (Fate::Added, "2"),
                (Fate::Kept, ";"),
            ]
        );
        assert_eq!(words("abc def", "something/else_here"), None);
        assert_eq!(words("", ""), Some(Vec::new()));
    }

    #[test]
    fn counts_are_those_of_the_marks() {
        assert_eq!(counts(&hunks("a\nb\n", "a\nc\nd\n")), (2, 1));
    }
}
