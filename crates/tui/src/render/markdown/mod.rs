//! Markdown as it streams in.
//!
//! [`MarkdownStream`] takes pieces of text and gives finished lines as soon as nothing that follows can
//! change them: a block when the next one begins, a line of code when it is complete. Only the last,
//! unfinished block is rendered again with every frame. Rendering a whole text at once goes the same
//! way, so what was streamed and what is printed later are the same lines.

mod block;

use crate::prompt::keymap::Keymap;
use crate::render::highlight::Highlighter;
use crate::render::style::Line;
use crate::render::text::{clean, wrap_beside};
use crate::render::theme::Theme;
use block::block_lines;

/// How to render.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) columns: usize,
    /// The keys that hints name.
    pub(crate) keys: &'a Keymap,
}

/// A fenced block of code that is open.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    highlighter: Highlighter,
}

/// Markdown that comes in pieces.
#[derive(Default)]
pub(crate) struct MarkdownStream {
    /// The unfinished part.
    pending: String,
    fence: Option<Fence>,
    began: bool,
    /// Whether a blank line is due before the next block.
    gap: bool,
}

/// Renders a whole text.
pub(crate) fn render(text: &str, look: Look<'_>) -> Vec<Line> {
    let mut stream = MarkdownStream::default();
    let mut lines = stream.push(text, look);
    lines.extend(stream.finish(look));
    lines
}

impl MarkdownStream {
    /// Takes more text; gives the lines that are finished.
    pub(crate) fn push(&mut self, text: &str, look: Look<'_>) -> Vec<Line> {
        self.pending.push_str(text);
        let mut out = Vec::new();
        loop {
            if self.fence.is_some() {
                if !self.code_line(&mut out, look) {
                    return out;
                }
            } else {
                match self.next_block() {
                    Some(NextBlock::Fence(length, fence)) => {
                        self.take(length);
                        self.start_block(&mut out);
                        self.fence = Some(fence);
                    }
                    Some(NextBlock::Done(length)) => {
                        let block = self.take(length);
                        self.emit(&block, &mut out, look);
                    }
                    None => return out,
                }
            }
        }
    }

    /// Nothing more comes: gives the rest.
    pub(crate) fn finish(&mut self, look: Look<'_>) -> Vec<Line> {
        let mut out = Vec::new();
        if !self.pending.ends_with('\n') {
            self.pending.push('\n');
        }
        out.extend(self.push("", look));
        if self.fence.is_none() {
            let block = std::mem::take(&mut self.pending);
            self.emit(&block, &mut out, look);
        }
        self.pending.clear();
        self.fence = None;
        out
    }

    /// The unfinished end as it looks now.
    pub(crate) fn tail(&self, look: Look<'_>) -> Vec<Line> {
        if let Some(fence) = &self.fence {
            let text = self.pending.trim_end_matches('\n');
            if text.is_empty() || is_closing(text, fence) {
                return Vec::new();
            }
            let line = Line::plain(clean(strip_indent(text, fence.indent)));
            return code(&line, look);
        }
        let mut out = Vec::new();
        let lines = block_lines(&self.pending, look);
        if !lines.is_empty() && self.gap {
            out.push(Line::empty());
        }
        out.extend(lines);
        out
    }

    fn take(&mut self, length: usize) -> String {
        self.pending.drain(..length).collect()
    }

    fn start_block(&mut self, out: &mut Vec<Line>) {
        if self.gap {
            out.push(Line::empty());
        }
        self.gap = true;
        self.began = true;
    }

    fn emit(&mut self, block: &str, out: &mut Vec<Line>, look: Look<'_>) {
        let lines = block_lines(block, look);
        if lines.is_empty() {
            return;
        }
        self.start_block(out);
        out.extend(lines);
    }

    /// Takes a complete line of code. Returns whether there was one.
    fn code_line(&mut self, out: &mut Vec<Line>, look: Look<'_>) -> bool {
        let Some(end) = self.pending.find('\n') else {
            return false;
        };
        let line = self.take(end + 1);
        let Some(fence) = &mut self.fence else {
            return true;
        };
        let text = line.trim_end_matches(['\n', '\r']);
        if is_closing(text, fence) {
            self.fence = None;
            return true;
        }
        let text = clean(strip_indent(text, fence.indent));
        out.extend(code(&fence.highlighter.line(&text, look.theme), look));
        true
    }

    /// Where the first block ends, once that is certain.
    fn next_block(&self) -> Option<NextBlock> {
        let mut at = 0;
        let mut list = false;
        let mut table_or_text = false;
        let mut blank = false;
        let mut inner_fence: Option<(char, usize)> = None;
        for line in self.pending.split_inclusive('\n') {
            let complete = line.ends_with('\n');
            let text = line.trim_end_matches(['\n', '\r']);
            let trimmed = text.trim_start();
            let indent = text.len() - trimmed.len();
            let started = list || table_or_text;
            if let Some((mark, length)) = inner_fence {
                if complete
                    && fence_of(trimmed)
                        .is_some_and(|(m, l, info)| m == mark && l >= length && info.is_empty())
                {
                    inner_fence = None;
                }
                at += line.len();
                continue;
            }
            if trimmed.is_empty() {
                if !complete {
                    return None;
                }
                if !started {
                    // Blank lines in front belong to nobody.
                    return Some(NextBlock::Done(at + line.len()));
                }
                blank = true;
                at += line.len();
                continue;
            }
            let continues = list && (indent >= 2 || list_marker(trimmed).is_some());
            if blank && !continues {
                // Whether a list continues can't be told from a line that has only begun.
                if list && !complete && trimmed.len() < 4 {
                    return None;
                }
                return Some(NextBlock::Done(at));
            }
            if let Some((mark, length, info)) = fence_of(trimmed)
                && indent < 4
            {
                if !complete {
                    return (started && !list).then_some(NextBlock::Done(at));
                }
                if list && indent >= 2 {
                    inner_fence = Some((mark, length));
                    at += line.len();
                    blank = false;
                    continue;
                }
                if started {
                    return Some(NextBlock::Done(at));
                }
                return Some(NextBlock::Fence(
                    at + line.len(),
                    Fence {
                        mark,
                        length,
                        indent,
                        highlighter: Highlighter::new(info),
                    },
                ));
            }
            let heading = trimmed.starts_with('#') && indent < 4;
            if heading && started && !list {
                return Some(NextBlock::Done(at));
            }
            if heading && !started {
                return complete.then_some(NextBlock::Done(at + line.len()));
            }
            if !started {
                list = list_marker(trimmed).is_some();
                table_or_text = !list;
            } else if !list && list_marker(trimmed).is_some() && indent < 2 && complete {
                // A list right below a paragraph.
                return Some(NextBlock::Done(at));
            }
            // A long list is given in parts, between its items.
            if list && indent == 0 && list_marker(trimmed).is_some() && at > 2000 {
                return Some(NextBlock::Done(at));
            }
            blank = false;
            at += line.len();
        }
        None
    }
}

enum NextBlock {
    Done(usize),
    Fence(usize, Fence),
}

/// A line of code, indented, also where it is broken.
fn code(line: &Line, look: Look<'_>) -> Vec<Line> {
    let gutter = Line::plain("  ");
    wrap_beside(&gutter, &gutter, line, look.columns)
}

fn strip_indent(text: &str, indent: usize) -> &str {
    let blanks = text.len() - text.trim_start_matches(' ').len();
    &text[blanks.min(indent)..]
}

fn is_closing(text: &str, fence: &Fence) -> bool {
    let trimmed = text.trim();
    trimmed.len() >= fence.length && trimmed.chars().all(|c| c == fence.mark)
}

/// The mark, its length and the words behind it.
fn fence_of(trimmed: &str) -> Option<(char, usize, &str)> {
    let mark = trimmed.chars().next().filter(|c| *c == '`' || *c == '~')?;
    let length = trimmed.chars().take_while(|c| *c == mark).count();
    let info = trimmed[length..].trim();
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length, info))
}

fn list_marker(trimmed: &str) -> Option<usize> {
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    if digits > 0 && digits < 10 {
        let rest = &trimmed[digits..];
        return (rest.starts_with(". ") || rest.starts_with(") ")).then_some(digits + 2);
    }
    ["- ", "* ", "+ "]
        .iter()
        .any(|mark| trimmed.starts_with(mark))
        .then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, columns: usize) -> String {
        let theme = Theme::built_in("dark", false);
        render(
            text,
            Look {
                theme: &theme,
                columns,
                keys: Keymap::standard(),
            },
        )
        .iter()
        .map(|line| line.text().trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
    }

    const SAMPLE: &str = "# Title\n\nSome *words* with `code` and a [link](https://example.com) that go on and on.\nSecond line.\n\n- one\n- two\n  - nested item\n  - other\n\n1. first\n2. second that is longer than the row is wide, so it wraps\n\n> quoted\n> more\n\n```rust\nfn main() {\n\n    println!(\"hi\");\n}\n```\n\n| a | long column |\n|---|---:|\n| 1 | 2 |\n| three | 4 |\n\n- [x] done\n- [ ] open\n\nlast\n---\nEnd **bold**.";

    #[test]
    fn markdown_looks_as_it_should() {
        assert_eq!(
            shown(SAMPLE, 40),
            "Title\n\nSome words with code and a link that go\non and on. Second line.\n\n• one\n• two\n   ◦ nested item\n   ◦ other\n\n1. first\n2. second that is longer than the row is\n   wide, so it wraps\n\n│ quoted more\n\n  fn main() {\n\n      println!(\"hi\");\n  }\n\na     │ long column\n──────┼────────────\n1     │           2\nthree │           4\n\n• ☑ done\n• ☐ open\n\nlast\n\nEnd bold."
        );
    }

    #[test]
    fn any_pieces_give_the_same_lines() {
        let theme = Theme::built_in("dark", false);
        for columns in [20, 40, 80] {
            let look = Look {
                theme: &theme,
                columns,
                keys: Keymap::standard(),
            };
            let whole = render(SAMPLE, look);
            for size in [1, 2, 3, 7, 50] {
                let mut stream = MarkdownStream::default();
                let mut lines = Vec::new();
                let chars: Vec<char> = SAMPLE.chars().collect();
                for piece in chars.chunks(size) {
                    lines.extend(stream.push(&piece.iter().collect::<String>(), look));
                    let _ = stream.tail(look);
                }
                lines.extend(stream.finish(look));
                assert_eq!(lines, whole, "pieces of {size} at {columns}");
            }
        }
    }

    #[test]
    fn code_is_given_line_by_line_while_it_comes() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: Keymap::standard(),
        };
        let mut stream = MarkdownStream::default();
        assert!(stream.push("```py\nx = 1", look).is_empty());
        assert_eq!(stream.tail(look)[0].text(), "  x = 1");
        assert_eq!(stream.push("\ny", look)[0].text(), "  x = 1");
        assert_eq!(stream.push("\n``", look)[0].text(), "  y");
        assert_eq!(stream.push("`\nafter", look), Vec::<Line>::new());
        assert_eq!(stream.tail(look).last().unwrap().text(), "after");
    }

    #[test]
    fn rows_never_overflow() {
        let theme = Theme::built_in("dark", false);
        for columns in [20, 33, 60] {
            for line in render(
                &SAMPLE.replace("```rust", "``` rust"),
                Look {
                    theme: &theme,
                    columns,
                    keys: Keymap::standard(),
                },
            ) {
                assert!(line.width() <= columns.max(24), "{:?}", line.text());
            }
        }
    }
}
