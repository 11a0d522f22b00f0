//! Markdown as it streams in.
//!
//! [`MarkdownStream`] takes pieces of text and gives finished lines as soon as nothing that follows can
//! change them: a block when the next one begins, a line of code when it is complete. Only the last,
//! unfinished block is rendered again with every frame. Rendering a whole text at once goes the same
//! way, so what was streamed and what is printed later are the same lines.

use crate::highlight::Highlighter;
use crate::style::{Line, Span, Style};
use crate::text::{clean, width, wrap};
use crate::theme::Theme;
use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};

/// How to render.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) columns: usize,
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
    /// What is not finished yet.
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
            return vec![code(Line::plain(clean(strip_indent(text, fence.indent))))];
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
        out.push(code(fence.highlighter.line(&text, look.theme)));
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
                // Whether a list goes on can't be told from a line that has only begun.
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

fn code(line: Line) -> Line {
    let mut out = Line::plain("  ");
    for span in line.spans {
        out.push_span(span);
    }
    out
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

/// Renders one block.
fn block_lines(source: &str, look: Look<'_>) -> Vec<Line> {
    let source = clean(source);
    let mut options = Options::empty();
    options.insert(Options::ENABLE_TABLES);
    options.insert(Options::ENABLE_STRIKETHROUGH);
    options.insert(Options::ENABLE_TASKLISTS);
    let mut writer = Writer {
        look,
        lines: Vec::new(),
        current: Line::empty(),
        styles: vec![Style::PLAIN],
        link: None,
        lists: Vec::new(),
        quotes: 0,
        item_prefix: None,
        table: None,
        code: None,
        first_in_item: false,
    };
    for event in Parser::new_ext(&source, options) {
        writer.event(event);
    }
    writer.flush();
    while writer
        .lines
        .last()
        .is_some_and(|line| line.spans.is_empty())
    {
        writer.lines.pop();
    }
    writer.lines
}

struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Line>>,
    row: Vec<Line>,
}

struct Writer<'a> {
    look: Look<'a>,
    lines: Vec<Line>,
    current: Line,
    styles: Vec<Style>,
    link: Option<String>,
    lists: Vec<Option<u64>>,
    quotes: usize,
    item_prefix: Option<String>,
    table: Option<Table>,
    code: Option<Highlighter>,
    first_in_item: bool,
}

impl Writer<'_> {
    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, style: Style) {
        let below = self.style();
        self.styles.push(style.over(below));
    }

    fn text(&mut self, text: &str) {
        let style = self.style();
        if self.link.is_some() {
            self.current.push_span(Span {
                text: text.to_owned(),
                style: self.look.theme.link.over(style),
                link: self.link.clone(),
            });
        } else {
            self.current.push(text, style);
        }
    }

    /// Columns that lists and quotations take on the left.
    fn indent(&self) -> usize {
        self.quotes * 2 + self.lists.len().saturating_sub(1) * 3
    }

    fn flush(&mut self) {
        if self.current.spans.is_empty() && self.item_prefix.is_none() {
            return;
        }
        let line = std::mem::take(&mut self.current);
        let theme = self.look.theme;
        let quote = "│ ".repeat(self.quotes);
        let nested = " ".repeat(self.lists.len().saturating_sub(1) * 3);
        let (marker, hanging) = match self.item_prefix.take() {
            Some(prefix) => {
                let columns = width(&prefix);
                (prefix, columns)
            }
            None if !self.lists.is_empty() => {
                let columns = match self.lists.last() {
                    Some(Some(number)) => number.to_string().len() + 2,
                    _ => 2,
                };
                (" ".repeat(columns), columns)
            }
            None => (String::new(), 0),
        };
        let available = self
            .look
            .columns
            .saturating_sub(width(&quote) + nested.len() + hanging)
            .max(8);
        let base = if self.quotes > 0 {
            theme.quote
        } else {
            Style::PLAIN
        };
        for (index, row) in wrap(&line, available, 0).into_iter().enumerate() {
            let mut out = Line::empty();
            out.push(quote.clone(), theme.muted);
            out.push(nested.clone(), Style::PLAIN);
            if index == 0 {
                out.push(marker.clone(), theme.muted);
            } else {
                out.push(" ".repeat(hanging), Style::PLAIN);
            }
            for span in row.over(base).spans {
                out.push_span(span);
            }
            self.lines.push(out);
        }
    }

    fn event(&mut self, event: Event<'_>) {
        if let Some(highlighter) = &mut self.code {
            match event {
                Event::Text(text) => {
                    let indent = " ".repeat(2 + self.quotes * 2 + self.lists.len() * 2);
                    for line in text.lines() {
                        let mut out = Line::plain(indent.clone());
                        for span in highlighter.line(line, self.look.theme).spans {
                            out.push_span(span);
                        }
                        self.lines.push(out);
                    }
                }
                Event::End(TagEnd::CodeBlock) => self.code = None,
                _ => {}
            }
            return;
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text(&text.replace('\n', " "));
            }
            Event::Code(text) => {
                let style = self.look.theme.code;
                self.push_style(style);
                self.text(&text);
                self.styles.pop();
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.flush();
                let columns = self.look.columns.min(24);
                self.lines
                    .push(Line::styled("─".repeat(columns), self.look.theme.muted));
            }
            Event::TaskListMarker(done) => {
                let (mark, style) = if done {
                    ("☑ ", self.look.theme.success)
                } else {
                    ("☐ ", self.look.theme.muted)
                };
                self.current.push(mark, style);
            }
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let theme = self.look.theme;
        match tag {
            Tag::Paragraph => {
                self.flush_unless_marker();
                if !self.lines.is_empty() && self.lists.is_empty() {
                    self.blank();
                }
            }
            Tag::Heading { level, .. } => {
                self.flush();
                if !self.lines.is_empty() {
                    self.blank();
                }
                let style = if level as usize <= 2 {
                    theme.heading
                } else {
                    Style::PLAIN.bold()
                };
                self.push_style(style);
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                let name = match kind {
                    pulldown_cmark::CodeBlockKind::Fenced(info) => info.to_string(),
                    pulldown_cmark::CodeBlockKind::Indented => String::new(),
                };
                self.code = Some(Highlighter::new(&name));
            }
            Tag::List(start) => {
                self.flush();
                if self.lists.is_empty() {
                    self.blank();
                }
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush();
                let prefix = match self.lists.last() {
                    Some(Some(number)) => format!("{number}. "),
                    _ if self.lists.len() % 2 == 1 => "• ".to_owned(),
                    _ => "◦ ".to_owned(),
                };
                self.item_prefix = Some(prefix);
                self.first_in_item = true;
            }
            Tag::Emphasis => self.push_style(Style::PLAIN.italic()),
            Tag::Strong => self.push_style(Style::PLAIN.bold()),
            Tag::Strikethrough => self.push_style(Style::PLAIN.strike()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let safe = !dest_url.chars().any(char::is_control);
                self.link = safe.then(|| dest_url.to_string());
            }
            Tag::Table(alignments) => {
                self.flush();
                self.table = Some(Table {
                    alignments,
                    rows: Vec::new(),
                    row: Vec::new(),
                });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.row.clear();
                }
            }
            Tag::TableCell => self.current = Line::empty(),
            _ => {}
        }
    }

    /// A paragraph that begins a list item goes into the item's first line.
    fn flush_unless_marker(&mut self) {
        if self.item_prefix.is_none() {
            self.flush();
        }
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.spans.is_empty()) {
            self.lines.push(Line::empty());
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                if let Some(Some(number)) = self.lists.last_mut() {
                    *number += 1;
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.link = None,
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.current);
                if let Some(table) = &mut self.table {
                    table.row.push(cell);
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    let row = std::mem::take(&mut table.row);
                    table.rows.push(row);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let columns = self.look.columns.saturating_sub(self.indent());
                    self.lines
                        .extend(table_lines(&table, columns, self.look.theme));
                }
            }
            _ => {}
        }
    }
}

fn table_lines(table: &Table, columns: usize, theme: &Theme) -> Vec<Line> {
    let count = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    if count == 0 {
        return Vec::new();
    }
    let widths = crate::table::fit(
        &table
            .rows
            .iter()
            .map(|row| row.iter().map(Line::width).collect())
            .collect::<Vec<_>>(),
        count,
        columns,
    );
    let mut lines = Vec::new();
    for (index, row) in table.rows.iter().enumerate() {
        let style = if index == 0 {
            Style::PLAIN.bold()
        } else {
            Style::PLAIN
        };
        let cells: Vec<Line> = (0..count)
            .map(|column| row.get(column).cloned().unwrap_or_default().over(style))
            .collect();
        let right: Vec<bool> = (0..count)
            .map(|column| matches!(table.alignments.get(column), Some(Alignment::Right)))
            .collect();
        lines.extend(crate::table::row(&cells, &widths, &right, theme.muted));
        if index == 0 {
            lines.push(crate::table::rule(&widths, theme.muted));
        }
    }
    lines
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
                },
            ) {
                assert!(line.width() <= columns.max(24), "{:?}", line.text());
            }
        }
    }
}
