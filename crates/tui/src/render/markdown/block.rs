//! One block of Markdown made into lines.

use super::Look;
use crate::render::highlight::Highlighter;
use crate::render::style::{Line, Span, Style};
use crate::render::text::{clean, width, wrap, wrap_beside};
use crate::render::theme::Theme;
use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};

/// Renders one block.
pub(super) fn block_lines(source: &str, look: Look<'_>) -> Vec<Line> {
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
                    let gutter = Line::plain(indent);
                    for line in text.lines() {
                        let line = highlighter.line(line, self.look.theme);
                        let rows = wrap_beside(&gutter, &gutter, &line, self.look.columns);
                        self.lines.extend(rows);
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
    let widths = crate::render::table::fit(
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
        lines.extend(crate::render::table::row(
            &cells,
            &widths,
            &right,
            theme.muted,
        ));
        if index == 0 {
            lines.push(crate::render::table::rule(&widths, theme.muted));
        }
    }
    lines
}
