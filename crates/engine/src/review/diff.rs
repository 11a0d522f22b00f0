//! A difference that is reviewed: read from git's output, shown to reviewers with line numbers, and the place that
//! findings are anchored to.

use std::fmt::Write as _;

/// How far from a changed line a finding may be to be moved to it.
const NEAR: u32 = 3;

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDiff {
    /// Its path in the repository, as it is now.
    pub(crate) path: String,
    lines: Vec<Line>,
    is_binary: bool,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    kind: Kind,
    /// Its number in the new file; for a removed line that of the line after it.
    number: u32,
    text: String,
    /// Whether a hunk begins with it.
    begins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Context,
    Added,
    Removed,
}

impl FileDiff {
    /// A file that is reviewed as a whole.
    pub(crate) fn whole(path: &str, text: &str) -> Self {
        let lines = text.lines().zip(1..).map(|(text, number)| Line {
            kind: Kind::Added,
            number,
            text: text.to_owned(),
            begins: number == 1,
        });
        Self {
            path: path.to_owned(),
            lines: lines.collect(),
            is_binary: false,
        }
    }

    /// Whether there is anything to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The text for reviewers: each line with its number in the file as it is now.
    pub(crate) fn numbered(&self) -> String {
        let mut text = format!("=== {}\n", self.path);
        if self.is_binary {
            text.push_str("(binary)\n");
        }
        for line in &self.lines {
            if line.begins {
                text.push_str("@@\n");
            }
            let _ = match line.kind {
                Kind::Removed => writeln!(text, "      - {}", line.text),
                Kind::Added => writeln!(text, "{:>5} + {}", line.number, line.text),
                Kind::Context => writeln!(text, "{:>5}   {}", line.number, line.text),
            };
        }
        text
    }

    /// The line that a finding belongs to: the one it names if the difference has it, else the nearest changed line
    /// close by, else as it is.
    pub(crate) fn anchor(&self, line: u32) -> u32 {
        let shown = |wanted: u32| {
            let mut lines = self.lines.iter();
            lines.any(|line| line.kind != Kind::Removed && line.number == wanted)
        };
        if shown(line) {
            return line;
        }
        let changed = self.lines.iter().filter(|line| line.kind != Kind::Context);
        changed
            .map(|changed| changed.number)
            .filter(|number| number.abs_diff(line) <= NEAR && shown(*number))
            .min_by_key(|number| number.abs_diff(line))
            .unwrap_or(line)
    }

    /// Whether a line can be commented on where only the difference is shown.
    pub(crate) fn shows(&self, line: u32) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|it| it.kind != Kind::Removed && it.number == line)
    }
}

/// Reads the output of `git diff`. Lines that don't belong to a hunk are left out.
pub(crate) fn parse(text: &str) -> Vec<FileDiff> {
    let mut files: Vec<FileDiff> = Vec::new();
    // Lines of the old and of the new file that the hunk still has, and the next number in the new file.
    let (mut old, mut new, mut number, mut begins) = (0_u32, 0_u32, 0_u32, false);
    for line in text.split('\n') {
        if old == 0 && new == 0 {
            if let Some(rest) = line.strip_prefix("diff --git ") {
                files.push(FileDiff {
                    path: path_of_header(rest),
                    lines: Vec::new(),
                    is_binary: false,
                });
            } else if let Some(file) = files.last_mut() {
                if let Some(path) = line.strip_prefix("+++ ").and_then(path_of_side) {
                    file.path = path;
                } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch")
                {
                    file.is_binary = true;
                } else if let Some((lines_old, lines_new, start)) = hunk(line) {
                    (old, new, number, begins) = (lines_old, lines_new, start, true);
                }
            }
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        let (kind, text) = match line.as_bytes().first() {
            Some(b'+') => (Kind::Added, &line[1..]),
            Some(b'-') => (Kind::Removed, &line[1..]),
            Some(b' ') => (Kind::Context, &line[1..]),
            // `\ No newline at end of file`, and an empty line whose space an editor took.
            Some(b'\\') => continue,
            None => (Kind::Context, ""),
            Some(_) => {
                (old, new) = (0, 0);
                continue;
            }
        };
        file.lines.push(Line {
            kind,
            number,
            text: text.trim_end_matches('\r').to_owned(),
            begins: std::mem::take(&mut begins),
        });
        if kind != Kind::Added {
            old = old.saturating_sub(1);
        }
        if kind != Kind::Removed {
            new = new.saturating_sub(1);
            number += 1;
        }
    }
    files
}

/// `@@ -1,2 +3,4 @@`: the lines of both sides, and where the new one begins.
fn hunk(line: &str) -> Option<(u32, u32, u32)> {
    let rest = line.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |side: &str| match side.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    let start = new.split(',').next()?.parse().ok()?;
    Some((count(old)?, count(new)?, start))
}

/// The path of `+++ b/path`; `None` for a removed file.
fn path_of_side(side: &str) -> Option<String> {
    let side = side.trim_end_matches('\t');
    let side = unquoted(side);
    side.strip_prefix("b/").map(str::to_owned)
}

/// The new path of `a/path b/path`, for files without hunks.
fn path_of_header(header: &str) -> String {
    let at = header.rfind(" b/").or_else(|| header.rfind(" \"b/"));
    let side = at.map_or(header, |at| &header[at + 1..]);
    let side = unquoted(side);
    side.strip_prefix("b/").unwrap_or(&side).to_owned()
}

/// A path that git wrote in quotes.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
        return text.to_owned();
    };
    let (mut bytes, mut rest) = (Vec::new(), inner.bytes().peekable());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(first @ b'0'..=b'3') => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    if let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) {
                        value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                    }
                }
                bytes.push(value);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Puts files together so that each reviewer has about so many bytes; a file is not taken apart unless it is larger.
pub(crate) fn portions(files: &[FileDiff], most: usize) -> Vec<String> {
    let mut portions: Vec<String> = Vec::new();
    for file in files.iter().filter(|file| !file.is_empty()) {
        let text = file.numbered();
        for piece in pieces(&text, &file.path, most) {
            match portions.last_mut() {
                Some(last) if last.len() + piece.len() <= most => last.push_str(&piece),
                _ => portions.push(piece),
            }
        }
    }
    portions
}

/// The parts of a file's text, cut at lines.
fn pieces(text: &str, path: &str, most: usize) -> Vec<String> {
    if text.len() <= most {
        return vec![text.to_owned()];
    }
    let mut parts = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let last = parts.len() - 1;
        if parts[last].len() + line.len() > most && !parts[last].is_empty() {
            parts.push(format!("=== {path} (continued)\n"));
        }
        let last = parts.len() - 1;
        parts[last].push_str(line);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -10,4 +10,5 @@ fn a() {\n one\n-two\n+two b\n+three\n four\n five\n@@ -40 +41,2 @@\n-x\n+y\n+z\n\\ No newline at end of file\ndiff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-+++ b/not/a/header\ndiff --git \"a/f\\303\\274r.txt\" \"b/f\\303\\274r.txt\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/f\\303\\274r.txt\"\n@@ -0,0 +1 @@\n+hi\ndiff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n";

    #[test]
    fn a_difference_is_read_with_the_numbers_of_the_new_file() {
        let files = parse(DIFF);
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["src/a.rs", "gone", "für.txt", "p.png"]);
        let text = files[0].numbered();
        assert!(
            text.contains("   10   one\n      - two\n   11 + two b\n   12 + three\n   13   four\n"),
            "{text}"
        );
        assert!(
            text.contains("@@\n      - x\n   41 + y\n   42 + z\n"),
            "{text}"
        );
        assert!(files[3].numbered().contains("(binary)"));
        assert!(files[3].is_empty() && !files[1].is_empty());
    }

    #[test]
    fn a_finding_is_anchored_to_a_line_that_is_shown() {
        let files = parse(DIFF);
        for (named, anchored) in [
            (11, 11),
            (13, 13),
            (9, 11),
            (43, 42),
            (44, 42),
            (46, 46),
            (200, 200),
        ] {
            assert_eq!(files[0].anchor(named), anchored, "{named}");
        }
        assert!(files[0].shows(42) && !files[0].shows(43));
    }

    #[test]
    fn large_differences_are_cut_between_lines() {
        let files = [
            FileDiff::whole("a", &"word\n".repeat(100)),
            FileDiff::whole("b", "b\n"),
            FileDiff::whole("c", ""),
        ];
        let portions = portions(&files, 400);
        assert!(portions.len() > 3 && portions.iter().all(|it| it.len() <= 440));
        assert!(portions[1].starts_with("=== a (continued)\n"));
        assert!(portions.last().unwrap().contains("=== b\n"));
        let all = portions.concat();
        for number in [1, 50, 100] {
            assert_eq!(all.matches(&format!("{number:>5} + word\n")).count(), 1);
        }
    }

    #[test]
    fn what_is_no_difference_gives_nothing() {
        for text in [
            "",
            "hello\n",
            "@@ -1 +1 @@\n+x\n",
            "diff --git",
            "diff --git a/x b/x\n@@ -1,999 +1,999 @@\n",
        ] {
            assert!(
                parse(text).iter().all(FileDiff::is_empty) || text.contains("999"),
                "{text}"
            );
        }
    }
}
