//! `@path` in an instruction file: which other files it takes in.

use std::path::Path;

/// The imports of a Markdown text, in order. What stands in code — a fenced or indented block, a
/// span in backticks — is an example and no import.
#[must_use]
pub fn imports_of(text: &str) -> Vec<String> {
    let mut imports = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let mut layout = Layout::default();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let trimmed = line.trim_start();
        let indented_code = layout.is_indented_code(line);
        if let Some((mark, length)) = fence_of(trimmed) {
            match fence {
                None => fence = Some((mark, length)),
                Some((open, needed)) => {
                    let closes = mark == open
                        && length >= needed
                        && trimmed.trim_end().chars().all(|c| c == mark);
                    if closes {
                        fence = None;
                        layout.after_text = false;
                    }
                }
            }
            continue;
        }
        if fence.is_some() || indented_code {
            continue;
        }
        imports_of_line(&without_spans(line), &mut imports);
    }
    imports
}

/// Tells indented code from what is merely indented: it follows an empty line (or more of it) and
/// doesn't belong to a list.
#[derive(Default)]
struct Layout {
    after_text: bool,
    in_list: bool,
}

impl Layout {
    fn is_indented_code(&mut self, line: &str) -> bool {
        if line.trim().is_empty() {
            self.after_text = false;
            return false;
        }
        let indented = line.starts_with("    ") || line.starts_with('\t');
        if indented && !self.after_text && !self.in_list {
            return true;
        }
        if !indented {
            let word = line.split_whitespace().next().unwrap_or_default();
            let number = word.trim_end_matches(['.', ')']);
            let numbered = number.len() < word.len() && number.chars().all(|c| c.is_ascii_digit());
            self.in_list = matches!(word, "-" | "*" | "+") || (numbered && !number.is_empty());
        }
        self.after_text = true;
        false
    }
}

pub(super) fn fence_of(line: &str) -> Option<(char, usize)> {
    let mark = line
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line
        .chars()
        .take_while(|character| *character == mark)
        .count();
    // A span that opens a line, as in ```code``` words, is no fence.
    let opens = length >= 3 && (mark == '~' || !line[length..].contains('`'));
    opens.then_some((mark, length))
}

/// The line with code spans blanked out. A run of backticks is closed by a run of the same length.
fn without_spans(line: &str) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        result.push_str(&rest[..start]);
        let after = &rest[start..];
        let length = after
            .chars()
            .take_while(|character| *character == '`')
            .count();
        let body = &after[length..];
        let close = body
            .match_indices('`')
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || !body[..*at].ends_with('`'))
            .find(|at| {
                body[*at..]
                    .chars()
                    .take_while(|character| *character == '`')
                    .count()
                    == length
            });
        match close {
            Some(close) => {
                result.push(' ');
                rest = &body[close + length..];
            }
            None => {
                result.push_str(&after[..length]);
                rest = body;
            }
        }
    }
    result.push_str(rest);
    result
}

fn imports_of_line(line: &str, imports: &mut Vec<String>) {
    for (at, _) in line.match_indices('@') {
        let starts_a_word = line[..at].chars().next_back().is_none_or(|before| {
            before.is_whitespace() || matches!(before, '(' | '[' | '"' | '\'' | '*' | '_')
        });
        if !starts_a_word {
            continue;
        }
        let mut path = String::new();
        let mut characters = line[at + 1..].chars().peekable();
        while let Some(next) = characters.next() {
            if next == '\\' && characters.peek() == Some(&' ') {
                path.push(' ');
                characters.next();
            } else if next.is_whitespace() || matches!(next, ')' | ']' | '"' | '\'' | '`') {
                break;
            } else {
                path.push(next);
            }
        }
        // `@guide.md#part` is the whole file.
        let path = path.split('#').next().unwrap_or_default();
        let path = path.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
        if !path.is_empty() && !path.starts_with('@') {
            imports.push(path.to_owned());
        }
    }
}

/// Whether a missing file was probably meant as an import, so that it is worth a word.
pub(super) fn looks_like_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        matches!(
            extension.to_str(),
            Some("md" | "txt" | "mdx" | "json" | "yaml" | "yml" | "toml")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_stand_in_prose_and_not_in_code() {
        let text = "\
See @README.md and @docs/guide.md, then (@~/notes.md).
Mail me@example.com or ask @someone.
- @./a\\ b.md
`@not/this.md` but @this/one.md and ``also `@not` this``
```
@not/in/a/fence.md
```
~~~md
``` @nor here
~~~

    @not/indented.md

@/absolute/path.txt
1. a list
    - @in/a/list.md
";
        assert_eq!(
            imports_of(text),
            [
                "README.md",
                "docs/guide.md",
                "~/notes.md",
                "someone",
                "./a b.md",
                "this/one.md",
                "/absolute/path.txt",
                "in/a/list.md"
            ]
        );
    }

    #[test]
    fn emphasis_and_a_part_of_a_file_do_not_hide_an_import() {
        assert_eq!(
            imports_of("**@a.md** and *@b.md*, _@e.md_ @docs/c.md#part"),
            ["a.md", "b.md", "e.md", "docs/c.md"]
        );
    }

    #[test]
    fn a_byte_order_mark_hides_no_import_and_code_may_follow_a_fence_at_once() {
        assert_eq!(imports_of("\u{feff}@a.md\n"), ["a.md"]);
        assert_eq!(imports_of("```\nx\n```\n    @b.md\n"), Vec::<String>::new());
    }

    #[test]
    fn a_fence_that_is_never_closed_hides_the_rest() {
        assert_eq!(imports_of("```sh\n@a.md\n@b.md"), Vec::<String>::new());
    }
}
