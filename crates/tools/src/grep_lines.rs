//! Matching lines and their surroundings, collected from many files at once in the order of their
//! paths, keeping no more than will be shown.

use crate::text_file;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The longest line that is shown whole, in characters.
const LONGEST_LINE: usize = 500;

/// How lines are written.
pub(crate) struct Shape {
    /// Whether with their numbers.
    pub(crate) numbers: bool,
    /// How many are wanted at most.
    pub(crate) most: usize,
}

/// Collects the lines of one file as they are shown.
pub(crate) struct LineSink<'a> {
    matcher: &'a RegexMatcher,
    name: &'a str,
    shape: &'a Shape,
    lines: Vec<String>,
}

impl<'a> LineSink<'a> {
    pub(crate) fn new(matcher: &'a RegexMatcher, name: &'a str, shape: &'a Shape) -> Self {
        Self {
            matcher,
            name,
            shape,
            lines: Vec::new(),
        }
    }

    pub(crate) fn into_lines(mut self) -> Vec<String> {
        if self.lines.last().is_some_and(|line| line == "--") {
            self.lines.pop();
        }
        self.lines
    }

    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        if self.lines.len() >= self.shape.most {
            return;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = self.cut(line);
        let name = self.name;
        self.lines.push(match number {
            Some(number) if self.shape.numbers => format!("{name}{mark}{number}{mark}{text}"),
            _ => format!("{name}{mark}{text}"),
        });
    }

    /// The line, or of a very long one the part around what was found.
    fn cut(&self, line: &[u8]) -> String {
        let text = readable(line);
        if text.len() <= LONGEST_LINE || text.chars().count() <= LONGEST_LINE {
            return text.into_owned();
        }
        let found = self.matcher.find(line).ok().flatten();
        let before = found.map_or(0, |found| {
            readable(line.get(..found.start()).unwrap_or_default())
                .chars()
                .count()
        });
        let skipped = before.saturating_sub(LONGEST_LINE / 4);
        let part: String = text.chars().skip(skipped).take(LONGEST_LINE).collect();
        let start = if skipped > 0 { "…" } else { "" };
        format!(
            "{start}{part}… [line of {} characters]",
            text.chars().count()
        )
    }
}

/// A line as Read would show it: what isn't UTF-8 is Latin-1.
fn readable(line: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => text_file::decode_latin1(line),
    }
}

impl Sink for LineSink<'_> {
    type Error = std::io::Error;

    fn matched(
        &mut self,
        _searcher: &Searcher,
        found: &SinkMatch<'_>,
    ) -> Result<bool, Self::Error> {
        for (index, line) in found.lines().enumerate() {
            let number = found.line_number().map(|number| number + index as u64);
            self.push(number, ':', line);
        }
        Ok(self.lines.len() < self.shape.most)
    }

    fn context(
        &mut self,
        _searcher: &Searcher,
        context: &SinkContext<'_>,
    ) -> Result<bool, Self::Error> {
        self.push(context.line_number(), '-', context.bytes());
        Ok(self.lines.len() < self.shape.most)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, Self::Error> {
        if self.lines.len() < self.shape.most {
            self.lines.push("--".to_owned());
        }
        Ok(true)
    }
}

/// The lines of many files, the first by path that are needed.
pub(crate) struct Collected {
    needed: usize,
    count: usize,
    files: BTreeMap<PathBuf, Vec<String>>,
    dropped: bool,
}

impl Collected {
    pub(crate) fn new(needed: usize) -> Self {
        Self {
            needed,
            count: 0,
            files: BTreeMap::new(),
            dropped: false,
        }
    }

    /// Whether nothing of this file would be shown: enough comes before it.
    pub(crate) fn is_beyond(&self, path: &Path) -> bool {
        // One line more than needed is there, so it is known already that there is more.
        self.count > self.needed
            && self
                .files
                .last_key_value()
                .is_some_and(|(last, _)| path > last.as_path())
    }

    pub(crate) fn add(&mut self, path: &Path, lines: Vec<String>) {
        self.count += lines.len();
        self.files.insert(path.to_owned(), lines);
        while let Some((_, last)) = self.files.last_key_value()
            && self.count - last.len() > self.needed
        {
            self.count -= last.len();
            self.files.pop_last();
            self.dropped = true;
        }
    }

    /// The files and lines of a window, and whether there are lines after it.
    pub(crate) fn window(self, offset: usize, limit: usize) -> (Vec<PathBuf>, Vec<String>, bool) {
        let mut files = Vec::new();
        let mut lines = Vec::new();
        let mut before = 0;
        let more = self.dropped || self.count > self.needed;
        for (path, file_lines) in self.files {
            let start = offset.saturating_sub(before).min(file_lines.len());
            let room = limit.saturating_sub(lines.len());
            before += file_lines.len();
            let part: Vec<String> = file_lines.into_iter().skip(start).take(room).collect();
            if !part.is_empty() {
                files.push(path);
                lines.extend(part);
            }
        }
        (files, lines, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize, name: &str) -> Vec<String> {
        (0..count).map(|number| format!("{name}{number}")).collect()
    }

    #[test]
    fn only_the_first_files_by_path_are_kept() {
        let mut collected = Collected::new(3);
        for name in ["c", "b", "d", "a"] {
            if !collected.is_beyond(Path::new(name)) {
                collected.add(Path::new(name), lines(2, name));
            }
        }
        assert_eq!(collected.files.len(), 2);
        let (files, lines, more) = collected.window(1, 2);
        assert_eq!(files, [Path::new("a"), Path::new("b")]);
        assert_eq!(lines, ["a1", "b0"]);
        assert!(more);
    }

    #[test]
    fn exactly_as_many_as_needed_is_not_more() {
        let mut collected = Collected::new(4);
        collected.add(Path::new("a"), lines(2, "a"));
        collected.add(Path::new("b"), lines(2, "b"));
        let (_, lines, more) = collected.window(0, 4);
        assert_eq!(lines.len(), 4);
        assert!(!more);
    }
}
