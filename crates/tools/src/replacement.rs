//! Finding what an edit means and putting the new text there: functions of text, without files.
//!
//! The model sees a file's lines with `\n` ends and writes straight quotes where a document has
//! curly ones, or drops a space at a line's end. So a text is looked for in three views of the file:
//! as it is; with every `\r\n` seen as `\n`; and, only when nothing was found, with quotes
//! straightened and trailing spaces dropped. Each view knows where its bytes stand in the file, and
//! only the bytes that were found are replaced: whatever else the file holds stays as it is, down to
//! mixed line ends.

use crate::text_file::{LineEnd, line_end_of, with_lf, with_line_end};
use std::borrow::Cow;
use std::ops::Range;

/// Up to this size a file is searched with tolerance: that view takes several times its size.
const TOLERANT_UP_TO: usize = 16 * 1024 * 1024;
/// How many places are named when there are too many.
const MOST_PLACES_NAMED: usize = 10;
/// How many lines are looked through for something similar.
const MOST_LINES_COMPARED: usize = 50_000;

/// One replacement to make.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// The text to be replaced.
    pub old: &'a str,
    /// The text to put there.
    pub new: &'a str,
    /// Whether every place is meant.
    pub all: bool,
}

/// The result of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The new text.
    pub text: String,
    /// How many places were replaced.
    pub count: usize,
    /// The line of the first of them, from 1.
    pub first_line: usize,
    /// The old text at the first position.
    pub old: String,
    /// The new text there.
    pub new: String,
    /// The difference that was ignored to find it, if any.
    pub tolerance: Option<&'static str>,
}

/// Why nothing was replaced. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    /// There is nothing to do.
    #[error("old_string and new_string are the same, so there is nothing to change.")]
    Identical,
    /// Nothing to look for.
    #[error(
        "old_string is empty, but the file already has content. Give the text to replace, or use Write to replace the whole file."
    )]
    Empty,
    /// Found nowhere.
    #[error("old_string was not found in the file.{0}")]
    NotFound(String),
    /// Found more than once.
    #[error(
        "old_string occurs {count} times (lines {lines}), but must be unique. Add surrounding lines to it, or set replace_all to replace every one."
    )]
    NotUnique {
        /// How many times.
        count: usize,
        /// Where.
        lines: String,
    },
}

/// Makes one replacement in a text.
///
/// # Errors
/// When the old text is not found, or more than once and not every place is meant.
pub fn replace(text: &str, replacement: Replacement<'_>) -> Result<Replaced, NotReplaced> {
    let Replacement { old, new, all } = replacement;
    if old == new {
        return Err(NotReplaced::Identical);
    }
    if old.is_empty() {
        return Err(NotReplaced::Empty);
    }
    let view = LineEndView::of(text);
    let old_lf = with_lf(old);
    let mut tolerance = None;
    let places_of = |wanted: &str| -> Vec<Range<usize>> {
        memchr::memmem::find_iter(view.text.as_bytes(), wanted.as_bytes())
            .map(|start| view.range(start..start + wanted.len()))
            .collect()
    };
    let mut places = places_of(old);
    if places.is_empty() {
        places = places_of(&old_lf);
    }
    if places.is_empty() && text.len() <= TOLERANT_UP_TO {
        let tolerant = TolerantView::of(&view.text);
        places = tolerant
            .find(&old_lf)
            .into_iter()
            .map(|range| view.range(range))
            .collect();
        tolerance = places
            .first()
            .and_then(|place| text.get(place.clone()))
            .map(|found| difference(&with_lf(found), &old_lf));
    }
    match places.as_slice() {
        [] => return Err(NotReplaced::NotFound(advice(&view.text, &old_lf))),
        several if several.len() > 1 && !all => {
            return Err(NotReplaced::NotUnique {
                count: several.len(),
                lines: named_lines(text, several),
            });
        }
        _ => {}
    }

    let mut result = String::with_capacity(text.len() + places.len() * new.len());
    let mut done = 0;
    let mut first = None;
    for place in &places {
        let found = text.get(place.clone()).unwrap_or_default();
        let put = fitted(text, found, old, new, tolerance.is_some());
        result.push_str(text.get(done..place.start).unwrap_or_default());
        result.push_str(&put);
        done = place.end;
        first.get_or_insert_with(|| (found.to_owned(), put.into_owned()));
    }
    result.push_str(text.get(done..).unwrap_or_default());
    let (old, new) = first.unwrap_or_default();
    Ok(Replaced {
        text: result,
        count: places.len(),
        first_line: places.first().map_or(1, |place| line_at(text, place.start)),
        old,
        new,
        tolerance,
    })
}

/// The new text as it fits where it goes: with the file's line ends, and, where quotes were
/// overlooked to find the place, with the kind of quotes that stand there.
fn fitted<'a>(text: &str, found: &str, old: &str, new: &'a str, tolerant: bool) -> Cow<'a, str> {
    // The place's own line ends say more than the rest of a mixed file.
    let line_end = if found.contains('\n') {
        line_end_of(found)
    } else {
        line_end_of(text)
    };
    let new = match line_end {
        LineEnd::Crlf => with_line_end(new, LineEnd::Crlf),
        // `\r\n` in the new text is meant, unless the model takes the file for one that has it.
        LineEnd::Lf if old.contains("\r\n") && !found.contains("\r\n") => with_lf(new),
        LineEnd::Lf => Cow::Borrowed(new),
    };
    if tolerant {
        Cow::Owned(with_quotes_of(&new, found, old))
    } else {
        new
    }
}

/// A text with `\r\n` seen as `\n`.
struct LineEndView<'a> {
    text: Cow<'a, str>,
    /// Where in the view the `\n` stand that are `\r\n` in the text.
    folded: Vec<usize>,
}

impl<'a> LineEndView<'a> {
    fn of(text: &'a str) -> Self {
        let folded = memchr::memmem::find_iter(text.as_bytes(), b"\r\n")
            .enumerate()
            .map(|(earlier, place)| place - earlier)
            .collect();
        Self {
            text: with_lf(text),
            folded,
        }
    }

    /// Where a range of the view stands in the text.
    fn range(&self, range: Range<usize>) -> Range<usize> {
        let place = |place: usize| place + self.folded.partition_point(|folded| *folded < place);
        place(range.start)..place(range.end)
    }
}

/// A text with quotes straightened and spaces at line ends dropped.
struct TolerantView {
    text: String,
    /// For every byte of the view, where its character starts and ends in the text.
    places: Vec<(usize, usize)>,
}

impl TolerantView {
    fn of(text: &str) -> Self {
        let mut view = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
        };
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.strip_suffix('\n').unwrap_or(line);
            let kept = content.trim_end_matches([' ', '\t']);
            for (place, character) in kept.char_indices() {
                view.push(
                    straight(character),
                    (start + place, start + place + character.len_utf8()),
                );
            }
            if content.len() != line.len() {
                view.push('\n', (start + content.len(), start + line.len()));
            }
            start += line.len();
        }
        view
    }

    fn push(&mut self, character: char, place: (usize, usize)) {
        self.text.push(character);
        for _ in 0..character.len_utf8() {
            self.places.push(place);
        }
    }

    /// Where a text stands, as ranges of the original.
    fn find(&self, wanted: &str) -> Vec<Range<usize>> {
        let wanted_view = Self::of(wanted);
        let needle = wanted_view.text.as_str();
        if needle.trim().is_empty() {
            return Vec::new();
        }
        // Spaces at the end of the wanted text count as trailing only where a line ends: `x = `
        // must not be found in `x == y`.
        let must_end_line = wanted.ends_with([' ', '\t']);
        self.text
            .match_indices(needle)
            .filter(|(place, _)| {
                !must_end_line
                    || matches!(
                        self.text.as_bytes().get(place + needle.len()),
                        None | Some(b'\n')
                    )
            })
            .filter_map(|(place, _)| {
                let (start, _) = *self.places.get(place)?;
                let (_, end) = *self.places.get(place + needle.len() - 1)?;
                Some(start..end)
            })
            .collect()
    }
}

fn straight(character: char) -> char {
    match character {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{201B}' => '\'',
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' => '"',
        other => other,
    }
}

/// The difference between the text that was found and the one that was asked for.
fn difference(found: &str, wanted: &str) -> &'static str {
    let quotes = |text: &str| -> Vec<char> {
        text.chars()
            .filter(|character| matches!(straight(*character), '\'' | '"'))
            .collect()
    };
    let spaces = |text: &str| -> Vec<usize> {
        text.split('\n')
            .map(|line| line.len() - line.trim_end_matches([' ', '\t']).len())
            .collect()
    };
    match (
        quotes(found) != quotes(wanted),
        spaces(found) != spaces(wanted),
    ) {
        (true, false) => "curly and straight quotes",
        (false, _) => "spaces at the ends of lines",
        (true, true) => "curly and straight quotes, and spaces at the ends of lines",
    }
}

/// Gives the new text the kind of quotes that stand at the place, where the model wrote the other.
fn with_quotes_of(new: &str, found: &str, old: &str) -> String {
    let has_curly = |text: &str, straight_form: char| {
        text.chars()
            .any(|character| character != straight_form && straight(character) == straight_form)
    };
    let mut result = String::with_capacity(new.len());
    let mut previous = None;
    for character in new.chars() {
        let plain = straight(character);
        let put = if !matches!(plain, '\'' | '"') {
            character
        } else if character == plain && has_curly(found, plain) && !found.contains(plain) {
            curly(plain, previous)
        } else if character != plain && has_curly(old, plain) && !has_curly(found, plain) {
            plain
        } else {
            character
        };
        result.push(put);
        previous = Some(put);
    }
    result
}

/// The curly form of a quote after the given character.
fn curly(quote: char, previous: Option<char>) -> char {
    let opens = previous.is_none_or(|previous| {
        previous.is_whitespace()
            || matches!(
                previous,
                '(' | '[' | '{' | '\u{2018}' | '\u{201C}' | '—' | '–'
            )
    });
    match (quote, opens) {
        ('"', true) => '\u{201C}',
        ('"', false) => '\u{201D}',
        (_, true) => '\u{2018}',
        (_, false) => '\u{2019}',
    }
}

fn line_at(text: &str, place: usize) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes().get(..place).unwrap_or_default()).count() + 1
}

fn named_lines(text: &str, places: &[Range<usize>]) -> String {
    let mut lines: Vec<String> = places
        .iter()
        .take(MOST_PLACES_NAMED)
        .map(|place| line_at(text, place.start).to_string())
        .collect();
    if places.len() > MOST_PLACES_NAMED {
        lines.push("…".to_owned());
    }
    lines.join(", ")
}

/// The message for a text that wasn't found: the likely mistake and the nearest lines.
fn advice(text: &str, wanted: &str) -> String {
    let numbered = |line: &str| {
        line.trim_start()
            .split_once('\t')
            .is_some_and(|(number, _)| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    if wanted.lines().all(numbered) {
        return " It seems to contain the line numbers that Read shows; leave them out.".to_owned();
    }
    let Some((skipped, first)) = wanted
        .lines()
        .enumerate()
        .find(|(_, line)| !line.trim().is_empty())
    else {
        return String::new();
    };
    let Some((index, exact)) = nearest_line(text, first.trim()) else {
        return " Nothing in the file is similar. Is it the right file? Read it again.".to_owned();
    };
    let start = index.saturating_sub(skipped);
    let length = wanted.lines().count().clamp(1, 8);
    let shown: Vec<String> = text
        .lines()
        .enumerate()
        .skip(start)
        .take(length)
        .map(|(number, line)| format!("{:>6}\t{}", number + 1, cut(line, 300)))
        .collect();
    let reason = if exact {
        " Its first line was found, so the lines after it or the indentation differ."
    } else {
        ""
    };
    format!(
        "{reason} The most similar place:\n{}\nCopy the text exactly as Read shows it, without the line numbers.",
        shown.join("\n")
    )
}

fn cut(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((place, _)) => format!("{}…", line.get(..place).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// The line most like the wanted one, and whether only the space around it differs.
fn nearest_line(text: &str, wanted: &str) -> Option<(usize, bool)> {
    let pairs_wanted = letter_pairs(wanted);
    let mut best: Option<(usize, f64)> = None;
    for (index, line) in text.lines().take(MOST_LINES_COMPARED).enumerate() {
        let line = line.trim();
        if line == wanted {
            return Some((index, true));
        }
        // A line of a very different length can't be similar enough.
        if line.len() > wanted.len() * 3 + 8 || wanted.len() > line.len() * 3 + 8 {
            continue;
        }
        let likeness = likeness(&pairs_wanted, &letter_pairs(line));
        if likeness >= 0.5 && best.is_none_or(|(_, best)| likeness > best) {
            best = Some((index, likeness));
        }
    }
    best.map(|(index, _)| (index, false))
}

pub(crate) fn letter_pairs(line: &str) -> Vec<(char, char)> {
    let mut pairs: Vec<(char, char)> = line.chars().zip(line.chars().skip(1)).collect();
    pairs.sort_unstable();
    pairs
}

/// The share of letter pairs that two lines have in common, from 0 to 1.
pub(crate) fn likeness(one: &[(char, char)], other: &[(char, char)]) -> f64 {
    let (mut left, mut right, mut common) = (0, 0, 0_u32);
    while let (Some(a), Some(b)) = (one.get(left), other.get(right)) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => left += 1,
            std::cmp::Ordering::Greater => right += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                left += 1;
                right += 1;
            }
        }
    }
    let all = (one.len() + other.len()) as f64;
    if all == 0.0 {
        0.0
    } else {
        2.0 * f64::from(common) / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edit(text: &str, old: &str, new: &str) -> Result<Replaced, NotReplaced> {
        replace(
            text,
            Replacement {
                old,
                new,
                all: false,
            },
        )
    }

    fn edit_all(text: &str, old: &str, new: &str) -> Result<Replaced, NotReplaced> {
        replace(
            text,
            Replacement {
                old,
                new,
                all: true,
            },
        )
    }

    #[test]
    fn lines_of_a_crlf_file_are_found_and_stay_crlf() {
        let replaced = edit("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz").unwrap();
        assert_eq!(replaced.text, "x\r\ny\r\nz\r\nc\r\n");
        let replaced = edit("a\r\nb\r\n", "b", "b\nc").unwrap();
        assert_eq!(replaced.text, "a\r\nb\r\nc\r\n");
        let replaced = edit("a\r\nb\r\n", "\nb\n", "\n").unwrap();
        assert_eq!(replaced.text, "a\r\n");
    }

    #[test]
    fn the_other_lines_of_a_mixed_file_keep_their_ends() {
        let replaced = edit("a\nb\r\nc\nd\r\n", "b\nc", "B\nC").unwrap();
        assert_eq!(replaced.text, "a\nB\r\nC\nd\r\n");
        let replaced = edit("a\nb\r\nc\r\nd\n", "b\nc\n", "B\nC\n").unwrap();
        assert_eq!(replaced.text, "a\nB\r\nC\r\nd\n");
    }

    #[test]
    fn a_model_that_writes_crlf_for_an_lf_file_is_understood() {
        let replaced = edit("a\nb\nc\n", "a\r\nb\r\n", "x\r\ny\r\n").unwrap();
        assert_eq!(replaced.text, "x\ny\nc\n");
    }

    #[test]
    fn curly_quotes_are_found_by_straight_ones_and_kept_curly() {
        let replaced = edit(
            "He said “it’s late” and left.",
            "said \"it's late\"",
            "said \"it isn't 'late' yet\"",
        )
        .unwrap();
        assert_eq!(replaced.text, "He said “it isn’t ‘late’ yet” and left.");
        assert_eq!(replaced.tolerance, Some("curly and straight quotes"));
        let replaced = edit("let a = \"x\";", "let a = “x”;", "let b = “y”;").unwrap();
        assert_eq!(replaced.text, "let b = \"y\";");
    }

    #[test]
    fn spaces_at_line_ends_are_overlooked_and_that_is_said() {
        let replaced = edit("one  \ntwo\t\nthree\n", "one\ntwo\n", "1\n2\n").unwrap();
        assert_eq!(replaced.text, "1\n2\nthree\n");
        assert_eq!(replaced.tolerance, Some("spaces at the ends of lines"));
        let replaced = edit("one\ntwo\n", "one  \ntwo ", "1").unwrap();
        assert_eq!(replaced.text, "1\n");
    }

    #[test]
    fn a_trailing_space_is_not_overlooked_in_the_middle_of_a_line() {
        assert!(matches!(
            edit("if x == y\n", "if x = ", "z"),
            Err(NotReplaced::NotFound(_))
        ));
    }

    #[test]
    fn an_exact_match_is_never_tolerant() {
        let replaced = edit("‘a’ 'a'", "'a'", "b").unwrap();
        assert_eq!(
            (replaced.text.as_str(), replaced.tolerance),
            ("‘a’ b", None)
        );
    }

    #[test]
    fn more_than_one_place_is_an_error_with_count_and_lines() {
        let error = edit("x\ny\nx\nz x\n", "x", "q").unwrap_err();
        assert_eq!(
            error,
            NotReplaced::NotUnique {
                count: 3,
                lines: "1, 3, 4".into()
            }
        );
        let replaced = edit_all("x\ny\nx\nz x\n", "x", "q").unwrap();
        assert_eq!(
            (replaced.text.as_str(), replaced.count),
            ("q\ny\nq\nz q\n", 3)
        );
    }

    #[test]
    fn a_text_that_is_not_there_is_answered_with_the_nearest_lines() {
        let text = "fn main() {\n    let count = 3;\n    run(count);\n}\n";
        let error = edit(text, "let counts = 4;", "x").unwrap_err().to_string();
        assert!(error.contains("     2\t    let count = 3;"), "{error}");
        let error = edit(text, "  let count = 3;\n  run(counts);", "x")
            .unwrap_err()
            .to_string();
        assert!(error.contains("indentation"), "{error}");
        let error = edit(text, "     2\t    let count = 3;", "x")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line numbers"), "{error}");
        let error = edit(text, "zzzzqqqq", "x").unwrap_err().to_string();
        assert!(error.contains("right file"), "{error}");
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        assert_eq!(edit("a", "a", "a"), Err(NotReplaced::Identical));
        assert_eq!(edit("a", "", "b"), Err(NotReplaced::Empty));
    }

    proptest! {
        /// Whatever the file holds, the bytes around the match stay as they are.
        #[test]
        fn only_the_matched_bytes_change(
            before in "[ab\r\n “”'\"\t]{0,20}",
            middle in "[ab\r\n “”'\"]{1,8}",
            after in "[ab\r\n “”'\"\t]{0,20}",
            new in "[xyz\n]{0,8}",
        ) {
            let text = format!("{before}{middle}{after}");
            let old = middle.replace("\r\n", "\n");
            match edit(&text, &old, &new) {
                Ok(replaced) => {
                    let start = replaced.text.len().min(text.len());
                    let same_start = text.bytes().zip(replaced.text.bytes()).take_while(|(a, b)| a == b).count().min(start);
                    // The result is the text with one range exchanged for the new text in some line end.
                    prop_assert!(
                        (0..=same_start).any(|place| {
                            text.is_char_boundary(place)
                                && text[place..].starts_with(&replaced.old)
                                && replaced.text == format!(
                                    "{}{}{}", &text[..place], replaced.new, &text[place + replaced.old.len()..]
                                )
                        }),
                        "{text:?} {replaced:?}"
                    );
                    prop_assert_eq!(replaced.new.replace("\r\n", "\n"), new);
                    if replaced.tolerance.is_none() {
                        let found = with_lf(&replaced.old);
                        prop_assert!(found == old || found == with_lf(&old), "{found:?} {old:?}");
                    }
                }
                Err(NotReplaced::NotUnique { count, .. }) => prop_assert!(count > 1),
                // A `\r` at the end of the middle may join a `\n` after it.
                Err(NotReplaced::NotFound(_)) => prop_assert!(
                    middle.ends_with('\r') || before.ends_with('\r')
                ),
                Err(NotReplaced::Identical) => prop_assert_eq!(old, new),
                Err(NotReplaced::Empty) => prop_assert!(false, "the middle is never empty"),
            }
        }
    }
}
