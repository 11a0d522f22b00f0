//! Changing a cell of a Jupyter notebook without touching the rest of the file.
//!
//! A notebook is JSON that people keep under version control, so a change to a cell must not
//! rewrite the others: numbers, escapes and indentation stay as they were. The parts to be changed
//! are found by their place in the text and only those bytes are exchanged.

use serde::Deserialize;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Range;

/// Why a notebook can't be shown or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotebookError {
    /// Not JSON, or not a notebook.
    #[error("{0}")]
    Malformed(#[from] serde_json::Error),
    /// JSON, but no notebook.
    #[error("it has no list of cells")]
    NoCells,
    /// Not text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// No such cell.
    #[error("there is no cell {wanted}; the cells are {known}")]
    NoSuchCell {
        /// The id that was asked for.
        wanted: String,
        /// The ids that exist.
        known: String,
    },
    /// A part of the file isn't where it should be.
    #[error("cell {0} has no source")]
    NoSource(usize),
}

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CellKind {
    /// Code.
    Code,
    /// Text.
    Markdown,
}

/// A notebook's cells as they stand in its text.
struct Spans<'a> {
    text: &'a str,
    list: &'a RawValue,
    cells: Vec<&'a RawValue>,
    has_ids: bool,
}

impl<'a> Spans<'a> {
    fn parse(text: &'a str) -> Result<Self, NotebookError> {
        #[derive(Deserialize)]
        struct Outline<'a> {
            #[serde(borrow)]
            cells: &'a RawValue,
            #[serde(default)]
            nbformat: u32,
            #[serde(default)]
            nbformat_minor: u32,
        }
        let outline: Outline<'a> = serde_json::from_str(text)?;
        Ok(Self {
            text,
            list: outline.cells,
            cells: serde_json::from_str(outline.cells.get())?,
            has_ids: (outline.nbformat, outline.nbformat_minor) >= (4, 5),
        })
    }

    /// Where a part of the text stands in it.
    fn place(&self, part: &RawValue) -> Range<usize> {
        // The part is borrowed from the text, so its address tells its place.
        let start = part.get().as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + part.get().len()
    }

    fn cell(&self, index: usize) -> Result<&'a RawValue, NotebookError> {
        self.cells
            .get(index)
            .copied()
            .ok_or(NotebookError::NoSource(index))
    }

    /// The white space in front of a place, if nothing else stands before it on its line.
    fn indent_at(&self, place: usize) -> Option<&'a str> {
        let (_, line) = self.text.get(..place)?.rsplit_once('\n')?;
        line.bytes()
            .all(|byte| matches!(byte, b' ' | b'\t'))
            .then_some(line)
    }

    /// The white space that the line of a place starts with.
    fn line_indent(&self, place: usize) -> &'a str {
        let before = self.text.get(..place).unwrap_or_default();
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        let length = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..length).unwrap_or_default()
    }

    /// The layout of the file, detected from its first cell.
    fn layout(&self) -> Layout {
        let Some(first) = self.cells.first() else {
            if !self.text.trim_end().contains('\n') {
                return Layout::OneLine;
            }
            let list = self.line_indent(self.place(self.list).start);
            let step = if list.is_empty() { " " } else { list };
            return Layout::Lines {
                cell: format!("{list}{step}"),
                step: step.to_owned(),
            };
        };
        let start = self.place(first).start;
        let field = first.get().find('"').map(|quote| start + quote);
        match (
            self.indent_at(start),
            field.and_then(|place| self.indent_at(place)),
        ) {
            (Some(cell), Some(field)) => Layout::Lines {
                cell: cell.to_owned(),
                step: match field.strip_prefix(cell) {
                    Some(step) if !step.is_empty() => step.to_owned(),
                    _ => " ".to_owned(),
                },
            },
            _ => Layout::OneLine,
        }
    }
}

/// How a notebook's JSON is laid out.
enum Layout {
    /// Everything in one line.
    OneLine,
    /// One value a line.
    Lines {
        /// The indentation of a cell.
        cell: String,
        /// The indentation of each level.
        step: String,
    },
}

impl Layout {
    /// A value so many levels inside a cell, as the file would have it.
    fn write(&self, value: &Value, level: usize) -> Result<String, NotebookError> {
        let Self::Lines { cell, step } = self else {
            return Ok(serde_json::to_string(value)?);
        };
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(step.as_bytes());
        value.serialize(&mut serde_json::Serializer::with_formatter(
            &mut bytes, formatter,
        ))?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.replace('\n', &format!("\n{cell}{}", step.repeat(level))))
    }

    /// The separator between two cells, after the comma.
    fn between(&self) -> String {
        match self {
            Self::OneLine => " ".to_owned(),
            Self::Lines { cell, .. } => format!("\n{cell}"),
        }
    }
}

/// Which cell is meant.
#[derive(Debug, Clone)]
pub(crate) enum CellName {
    /// By its id, or `cell-N` where it has none.
    Id(String),
    /// By its number, from 0.
    Number(usize),
}

/// A change to a notebook.
#[derive(Debug, Clone)]
pub(crate) enum CellChange {
    /// Give a cell another source, and perhaps another kind.
    Replace(CellName, String, Option<CellKind>),
    /// Put a cell after another, or first.
    Insert(Option<CellName>, String, CellKind),
    /// Take a cell away.
    Delete(CellName),
}

/// A notebook after a change.
#[derive(Debug)]
pub(crate) struct ChangedNotebook {
    /// The file's text.
    pub(crate) text: String,
    /// The cell's number.
    pub(crate) index: usize,
    /// The cell's id, if it has one.
    pub(crate) id: Option<String>,
    /// The cell's kind.
    pub(crate) kind: CellKind,
    /// The source that was replaced or deleted.
    pub(crate) old_source: Option<String>,
    /// The language of the code cells.
    pub(crate) language: String,
}

/// The language that a notebook says its code is in.
pub(crate) fn language(notebook: &Value) -> &str {
    let metadata = &notebook["metadata"];
    metadata["language_info"]["name"]
        .as_str()
        .or_else(|| metadata["kernelspec"]["language"].as_str())
        .unwrap_or("python")
}

/// Makes a change to a notebook's text.
pub(crate) fn change(text: &str, change: &CellChange) -> Result<ChangedNotebook, NotebookError> {
    let notebook = Spans::parse(text)?;
    let layout = notebook.layout();
    let language = language(&serde_json::from_str(text)?).to_owned();
    match change {
        CellChange::Replace(name, source, kind) => {
            let index = find(&notebook, name)?;
            let cell = Cell::parse(&notebook, index)?;
            let edits = cell.replaced(&layout, source, kind.unwrap_or(cell.kind))?;
            Ok(ChangedNotebook {
                text: splice(text, edits),
                index,
                kind: kind.unwrap_or(cell.kind),
                old_source: Some(joined(cell.value.get("source"))),
                id: cell.id,
                language,
            })
        }
        CellChange::Insert(after, source, kind) => {
            let index = match after {
                Some(name) => find(&notebook, name)? + 1,
                None => 0,
            };
            let id = notebook.has_ids.then(new_id);
            let cell = layout.write(&new_cell(id.as_deref(), *kind, source), 0)?;
            Ok(ChangedNotebook {
                text: splice(text, vec![inserted(&notebook, &layout, index, &cell)]),
                index,
                id,
                kind: *kind,
                old_source: None,
                language,
            })
        }
        CellChange::Delete(name) => {
            let index = find(&notebook, name)?;
            let cell = Cell::parse(&notebook, index)?;
            Ok(ChangedNotebook {
                text: splice(text, vec![deleted(&notebook, index)]),
                index,
                kind: cell.kind,
                old_source: Some(joined(cell.value.get("source"))),
                id: cell.id,
                language,
            })
        }
    }
}

/// A range of the text and what takes its place.
type Exchange = (Range<usize>, String);

fn splice(text: &str, mut exchanges: Vec<Exchange>) -> String {
    exchanges.sort_by_key(|(range, _)| range.start);
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in exchanges {
        result.push_str(text.get(done..range.start).unwrap_or_default());
        result.push_str(&new);
        done = range.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    result
}

/// A new cell in its place, with the comma that it needs.
fn inserted(notebook: &Spans<'_>, layout: &Layout, index: usize, cell: &str) -> Exchange {
    let between = layout.between();
    if let Some(next) = notebook.cells.get(index) {
        let place = notebook.place(next).start;
        (place..place, format!("{cell},{between}"))
    } else if let Some(last) = notebook.cells.last() {
        let place = notebook.place(last).end;
        (place..place, format!(",{between}{cell}"))
    } else {
        let place = notebook.place(notebook.list);
        let list = match layout {
            Layout::OneLine => format!("[{cell}]"),
            Layout::Lines { .. } => {
                let end = notebook.line_indent(place.start);
                format!("[{between}{cell}\n{end}]")
            }
        };
        (place, list)
    }
}

/// A cell gone, with its comma.
fn deleted(notebook: &Spans<'_>, index: usize) -> Exchange {
    let place = |index: usize| notebook.cells.get(index).map(|cell| notebook.place(cell));
    let this = place(index).unwrap_or_default();
    let range = match (index.checked_sub(1).and_then(place), place(index + 1)) {
        (_, Some(next)) => this.start..next.start,
        (Some(previous), None) => previous.end..this.end,
        (None, None) => return (notebook.place(notebook.list), "[]".to_owned()),
    };
    (range, String::new())
}

fn find(notebook: &Spans<'_>, name: &CellName) -> Result<usize, NotebookError> {
    let count = notebook.cells.len();
    match name {
        CellName::Number(number) if *number < count => Ok(*number),
        CellName::Number(number) => Err(NotebookError::NoSuchCell {
            wanted: number.to_string(),
            known: format!("numbered from 0, {count} in all"),
        }),
        CellName::Id(wanted) => {
            let ids = ids(notebook);
            ids.iter()
                .position(|id| id == wanted)
                .or_else(|| {
                    let number: usize = wanted.strip_prefix("cell-")?.parse().ok()?;
                    (number < count).then_some(number)
                })
                .ok_or_else(|| NotebookError::NoSuchCell {
                    wanted: wanted.clone(),
                    known: ids.into_iter().take(50).collect::<Vec<_>>().join(", "),
                })
        }
    }
}

/// The ids of all cells, as they are shown.
fn ids(notebook: &Spans<'_>) -> Vec<String> {
    #[derive(Deserialize)]
    struct Id {
        #[serde(default)]
        id: Option<String>,
    }
    notebook
        .cells
        .iter()
        .enumerate()
        .map(|(index, cell)| {
            serde_json::from_str::<Id>(cell.get())
                .ok()
                .and_then(|cell| cell.id)
                .unwrap_or_else(|| format!("cell-{index}"))
        })
        .collect()
}

/// A cell, and where its parts stand in the file.
struct Cell {
    place: Range<usize>,
    value: Value,
    source: Range<usize>,
    outputs: Option<Range<usize>>,
    execution_count: Option<Range<usize>>,
    kind: CellKind,
    id: Option<String>,
}

impl Cell {
    fn parse(notebook: &Spans<'_>, index: usize) -> Result<Self, NotebookError> {
        let raw = notebook.cell(index)?;
        let fields: HashMap<String, &RawValue> = serde_json::from_str(raw.get())?;
        let value: Value = serde_json::from_str(raw.get())?;
        let field = |name: &str| fields.get(name).map(|raw| notebook.place(raw));
        Ok(Self {
            place: notebook.place(raw),
            source: field("source").ok_or(NotebookError::NoSource(index))?,
            outputs: field("outputs"),
            execution_count: field("execution_count"),
            kind: match value.get("cell_type").and_then(Value::as_str) {
                Some("code") => CellKind::Code,
                _ => CellKind::Markdown,
            },
            id: value.get("id").and_then(Value::as_str).map(str::to_owned),
            value,
        })
    }

    /// The replacements that give the cell another source and kind.
    fn replaced(
        &self,
        layout: &Layout,
        source: &str,
        kind: CellKind,
    ) -> Result<Vec<Exchange>, NotebookError> {
        let as_list = self.value.get("source").is_some_and(Value::is_array);
        let source = source_value(source, as_list);
        if kind != self.kind {
            return Ok(vec![(
                self.place.clone(),
                layout.write(&self.converted(kind, source), 0)?,
            )]);
        }
        let mut exchanges = vec![(self.source.clone(), layout.write(&source, 1)?)];
        if kind == CellKind::Code {
            // What the old source printed is not what the new one prints.
            exchanges.extend(self.outputs.clone().map(|place| (place, "[]".to_owned())));
            exchanges.extend(
                self.execution_count
                    .clone()
                    .map(|place| (place, "null".to_owned())),
            );
        }
        Ok(exchanges)
    }

    /// The whole cell as one of another kind: code has outputs, text has none.
    fn converted(&self, kind: CellKind, source: Value) -> Value {
        let mut value = self.value.clone();
        if let Some(cell) = value.as_object_mut() {
            cell.insert("cell_type".into(), json!(kind));
            cell.insert("source".into(), source);
            match kind {
                CellKind::Code => {
                    cell.insert("execution_count".into(), Value::Null);
                    cell.insert("outputs".into(), json!([]));
                }
                CellKind::Markdown => {
                    cell.shift_remove("execution_count");
                    cell.shift_remove("outputs");
                }
            }
        }
        value
    }
}

/// A source or an output, which stands as one text or as a list of lines.
pub(crate) fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn source_value(source: &str, as_list: bool) -> Value {
    if as_list {
        source
            .split_inclusive('\n')
            .map(|line| Value::String(line.to_owned()))
            .collect()
    } else {
        Value::String(source.to_owned())
    }
}

fn new_id() -> String {
    let id = lathe_protocol::ids::RecordId::random().to_string();
    id.chars().take(8).collect()
}

fn new_cell(id: Option<&str>, kind: CellKind, source: &str) -> Value {
    let mut cell = json!({"cell_type": kind});
    if let Some(fields) = cell.as_object_mut() {
        if kind == CellKind::Code {
            fields.insert("execution_count".into(), Value::Null);
        }
        fields.extend(id.map(|id| ("id".to_owned(), json!(id))));
        fields.insert("metadata".into(), json!({}));
        if kind == CellKind::Code {
            fields.insert("outputs".into(), json!([]));
        }
        fields.insert("source".into(), source_value(source, true));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\u00e9\n",
    "words"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "metadata": {"scale": 1.50e-7},
   "outputs": [{"output_type": "stream", "name": "stdout", "text": ["hi\n"]}],
   "source": "print('hi')"
  }
 ],
 "metadata": {"zoom": 1.0},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

    fn id(name: &str) -> CellName {
        CellName::Id(name.to_owned())
    }

    #[test]
    fn replacing_a_source_touches_nothing_else() {
        let changed = change(
            NOTEBOOK,
            &CellChange::Replace(id("intro"), "# New\nlines".into(), None),
        )
        .unwrap();
        assert_eq!(
            changed.text,
            NOTEBOOK
                .replace("# Title\\u00e9\\n", "# New\\n")
                .replace("words", "lines")
        );
        assert_eq!((changed.index, changed.id.as_deref()), (0, Some("intro")));
    }

    #[test]
    fn new_code_has_no_old_outputs() {
        let changed = change(
            NOTEBOOK,
            &CellChange::Replace(CellName::Number(1), "x".into(), None),
        )
        .unwrap();
        assert_eq!(
            changed.text,
            NOTEBOOK
                .replace("print('hi')", "x")
                .replace("\"execution_count\": 3", "\"execution_count\": null")
                .replace(
                    r#"[{"output_type": "stream", "name": "stdout", "text": ["hi\n"]}]"#,
                    "[]"
                )
        );
    }

    #[test]
    fn an_inserted_cell_looks_like_its_neighbours() {
        let changed = change(
            NOTEBOOK,
            &CellChange::Insert(Some(id("intro")), "a\nb".into(), CellKind::Code),
        )
        .unwrap();
        let new_id = changed.id.unwrap();
        let cell = format!(
            "  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"{new_id}\",\n   \
             \"metadata\": {{}},\n   \"outputs\": [],\n   \"source\": [\n    \"a\\n\",\n    \"b\"\n   ]\n  }},\n"
        );
        let at = NOTEBOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
        assert_eq!(
            changed.text,
            format!("{}{cell}{}", &NOTEBOOK[..at], &NOTEBOOK[at..])
        );
    }

    #[test]
    fn cells_can_be_inserted_anywhere_and_deleted_again() {
        for after in [None, Some(id("intro")), Some(CellName::Number(1))] {
            let inserted = change(
                NOTEBOOK,
                &CellChange::Insert(after, "a".into(), CellKind::Markdown),
            )
            .unwrap();
            serde_json::from_str::<Value>(&inserted.text).unwrap();
            let back = change(
                &inserted.text,
                &CellChange::Delete(CellName::Number(inserted.index)),
            )
            .unwrap();
            assert_eq!(back.text, NOTEBOOK);
        }
    }

    #[test]
    fn a_notebook_in_one_line_stays_in_one_line() {
        let text = r#"{"cells": [], "nbformat": 4, "nbformat_minor": 2}"#;
        let inserted = change(
            text,
            &CellChange::Insert(None, "a".into(), CellKind::Markdown),
        )
        .unwrap();
        assert_eq!(
            inserted.text,
            r#"{"cells": [{"cell_type":"markdown","metadata":{},"source":["a"]}], "nbformat": 4, "nbformat_minor": 2}"#
        );
        let back = change(&inserted.text, &CellChange::Delete(CellName::Number(0))).unwrap();
        assert_eq!(back.text, text);
    }

    #[test]
    fn a_cell_of_another_kind_loses_or_gains_outputs() {
        let changed = change(
            NOTEBOOK,
            &CellChange::Replace(CellName::Number(1), "t".into(), Some(CellKind::Markdown)),
        )
        .unwrap();
        let value: Value = serde_json::from_str(&changed.text).unwrap();
        assert_eq!(
            value["cells"][1],
            json!({"cell_type": "markdown", "metadata": {"scale": 1.5e-7}, "source": "t"})
        );
    }

    #[test]
    fn an_unknown_cell_is_answered_with_the_known_ones() {
        let error = change(NOTEBOOK, &CellChange::Delete(id("nope"))).unwrap_err();
        assert!(error.to_string().contains("intro, cell-1"), "{error}");
        assert!(change(NOTEBOOK, &CellChange::Delete(CellName::Number(2))).is_err());
        assert!(change("{}", &CellChange::Delete(id("x"))).is_err());
    }
}
