//! Tables: columns that fit the width, cells that wrap.

use crate::render::style::{Line, Style};
use crate::render::text::wrap;

/// The width of each column, so that all of them fit with their separators.
pub(crate) fn fit(rows: &[Vec<usize>], count: usize, columns: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = (0..count)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column).copied())
                .max()
                .unwrap_or(0)
                .max(1)
        })
        .collect();
    let available = columns
        .saturating_sub(count.saturating_sub(1) * 3)
        .max(count * 4);
    while widths.iter().sum::<usize>() > available {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= 4 {
            break;
        }
        *widest -= 1;
    }
    widths
}

/// One row; a cell that is too long continues below.
pub(crate) fn row(cells: &[Line], widths: &[usize], right: &[bool], muted: Style) -> Vec<Line> {
    let wrapped: Vec<Vec<Line>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrap(cell, *width, 0))
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
    (0..height)
        .map(|index| {
            let mut line = Line::empty();
            for (column, part) in wrapped.iter().enumerate() {
                if column > 0 {
                    line.push(" │ ", muted);
                }
                let part = part.get(index).cloned().unwrap_or_default();
                let columns = widths.get(column).copied().unwrap_or(0);
                let padding = " ".repeat(columns.saturating_sub(part.width()));
                let to_right = right.get(column).copied().unwrap_or(false);
                let last = column + 1 == wrapped.len();
                if to_right {
                    line.push(padding.clone(), Style::PLAIN);
                }
                for span in part.spans {
                    line.push_span(span);
                }
                if !to_right && !last {
                    line.push(padding, Style::PLAIN);
                }
            }
            line
        })
        .collect()
}

/// The line below the titles.
pub(crate) fn rule(widths: &[usize], muted: Style) -> Line {
    let text = widths
        .iter()
        .map(|width| "─".repeat(*width))
        .collect::<Vec<_>>()
        .join("─┼─");
    Line::styled(text, muted)
}
