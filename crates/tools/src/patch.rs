//! The difference between two texts as hunks (what hosts and faces show) and as a unified diff
//! (what the model reads).
//!
//! Lines that both texts begin and end with are set aside first, so that a small change to a large
//! file costs what it changes.

use lathe_protocol::display::Hunk;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// After this the diff is finished coarsely.
const LONGEST_TIME: Duration = Duration::from_millis(500);
/// Changed text beyond this is not shown line by line: the patch would be larger than anyone reads.
const LARGEST_CHANGE: usize = 1024 * 1024;

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
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(LONGEST_TIME)
        .diff_slices(old_part, new_part);
    diff.grouped_ops(CONTEXT)
        .iter()
        .map(|group| hunk(&diff, group, start))
        .collect()
}

fn hunk(diff: &TextDiff<'_, '_, str>, group: &[DiffOp], offset: usize) -> Hunk {
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
    for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
        let mark = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        hunk.old_lines += usize::from(change.tag() != ChangeTag::Insert);
        hunk.new_lines += usize::from(change.tag() != ChangeTag::Delete);
        let line = change.value();
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

/// The difference as a unified diff; empty when there is none.
#[must_use]
pub fn unified(path: &Path, old: &str, new: &str) -> String {
    let hunks = hunks(old, new);
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
        for line in hunk.lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
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
}
