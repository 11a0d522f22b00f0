//! Tables: those of data as tables, those that only place things as what they place.

use super::markdown::Writer;
use super::tree::{Node, Tree};

/// The most columns and rows of a table.
const MOST_COLUMNS: usize = 50;
const MOST_ROWS: usize = 5_000;

/// Writes a table.
pub(super) fn write(writer: &mut Writer<'_>, table: Node) {
    let tree = writer.tree();
    writer.block();
    for caption in tree
        .children(table)
        .filter(|child| tree.name(*child) == "caption")
    {
        if !writer.hides(caption) {
            writer.inside(caption);
            writer.block();
        }
    }
    let rows: Vec<Node> = rows(tree, table)
        .into_iter()
        .filter(|row| !writer.hides(*row))
        .collect();
    if places_things(tree, &rows) {
        for row in rows {
            for cell in cells(tree, row) {
                if !writer.hides(cell) {
                    writer.block();
                    writer.inside(cell);
                }
            }
            writer.block();
        }
        return;
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    for row in rows.iter().take(MOST_ROWS) {
        let mut line = Vec::new();
        for cell in cells(tree, *row) {
            if writer.hides(cell) || line.len() >= MOST_COLUMNS {
                continue;
            }
            line.push(writer.line_of(cell).replace('|', "\\|"));
            let span = tree
                .attribute(cell, "colspan")
                .and_then(|span| span.trim().parse().ok());
            for _ in 1..span.unwrap_or(1_usize).min(MOST_COLUMNS - line.len() + 1) {
                line.push(String::new());
            }
        }
        if line.iter().any(|cell| !cell.is_empty()) {
            lines.push(line);
        }
    }
    print(
        writer,
        &lines,
        rows.first().is_some_and(|row| is_heading(tree, *row)),
    );
    if rows.len() > MOST_ROWS {
        writer.block();
        writer.put(&format!("({} more rows)", rows.len() - MOST_ROWS));
    }
    writer.block();
}

fn print(writer: &mut Writer<'_>, lines: &[Vec<String>], headed: bool) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let mut show = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = (0..columns).map(cells).collect();
        writer.line();
        writer.put(&format!("| {} |", cells.join(" | ")));
    };
    let (head, body) = match lines.split_first() {
        None => return,
        Some((head, body)) if headed => (head.clone(), body),
        Some(_) => (Vec::new(), lines),
    };
    show(&|at| head.get(at).cloned().unwrap_or_default());
    show(&|_| "---".to_owned());
    for line in body {
        show(&|at| line.get(at).cloned().unwrap_or_default());
    }
}

fn rows(tree: &Tree<'_>, table: Node) -> Vec<Node> {
    let mut rows = Vec::new();
    for child in tree.children(table) {
        match tree.name(child) {
            "tr" => rows.push(child),
            "thead" | "tbody" | "tfoot" => {
                rows.extend(tree.children(child).filter(|row| tree.name(*row) == "tr"));
            }
            _ => {}
        }
    }
    rows
}

fn cells<'a>(tree: &'a Tree<'_>, row: Node) -> impl Iterator<Item = Node> + 'a {
    tree.children(row)
        .filter(|cell| matches!(tree.name(*cell), "td" | "th"))
}

fn is_heading(tree: &Tree<'_>, row: Node) -> bool {
    tree.name(tree.parent(row)) == "thead" || cells(tree, row).all(|cell| tree.name(cell) == "th")
}

/// Whether a table only places things on the page: one column, tables in tables, or whole sections in cells.
fn places_things(tree: &Tree<'_>, rows: &[Node]) -> bool {
    let widest = rows
        .iter()
        .take(100)
        .map(|row| cells(tree, *row).count())
        .max()
        .unwrap_or_default();
    let headed = rows
        .iter()
        .take(100)
        .any(|row| cells(tree, *row).any(|cell| tree.name(cell) == "th"));
    let large = rows.iter().take(100).any(|row| {
        tree.inside(*row).take(5_000).any(|inner| {
            matches!(
                tree.name(inner),
                "table"
                    | "pre"
                    | "h1"
                    | "h2"
                    | "h3"
                    | "blockquote"
                    | "article"
                    | "section"
                    | "form"
            )
        })
    });
    large || (widest <= 1 && !headed)
}
