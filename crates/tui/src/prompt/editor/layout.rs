//! How the text stands in rows: soft wrap between words, by graphemes.

use crate::render::text::grapheme_width;
use unicode_segmentation::UnicodeSegmentation as _;

/// A row: bytes of the text, without the line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether the text continues in the next row without a line break.
    pub(crate) soft: bool,
}

/// The rows of a text. There is always one, and the cursor fits behind the last character of each.
pub(crate) fn rows(text: &str, columns: usize) -> Vec<Row> {
    let columns = columns.max(4);
    let mut rows = Vec::new();
    let mut line_start = 0;
    for line in text.split('\n') {
        let mut start = line_start;
        let mut used = 0;
        let mut last_blank = None;
        for (offset, grapheme) in line.grapheme_indices(true) {
            let at = line_start + offset;
            let wide = grapheme_width(grapheme);
            if used + wide > columns - 1 {
                let end = match last_blank {
                    Some(blank) if blank > start => blank,
                    _ => at,
                };
                rows.push(Row {
                    start,
                    end,
                    soft: true,
                });
                start = end;
                used = crate::render::text::width(&text[start..at]);
                last_blank = None;
            }
            used += wide;
            if grapheme == " " {
                last_blank = Some(at + 1);
            }
        }
        let end = line_start + line.len();
        rows.push(Row {
            start,
            end,
            soft: false,
        });
        line_start = end + 1;
    }
    rows
}

/// The row that the cursor is in.
pub(crate) fn row_of(rows: &[Row], cursor: usize) -> usize {
    rows.iter()
        .position(|row| cursor >= row.start && (cursor < row.end || cursor == row.end && !row.soft))
        .unwrap_or(rows.len().saturating_sub(1))
}

/// The position in a row that is nearest to a column.
pub(crate) fn at_column(text: &str, row: &Row, column: usize) -> usize {
    let mut used = 0;
    let mut last = row.start;
    for (offset, grapheme) in text[row.start..row.end].grapheme_indices(true) {
        last = row.start + offset;
        if used >= column {
            return last;
        }
        used += grapheme_width(grapheme);
    }
    // The place behind the last character belongs to the next row when the text continues there.
    if row.soft { last } else { row.end }
}
