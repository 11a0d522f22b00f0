//! Jupyter notebooks as the model sees them: cells with their outputs, and pictures as pictures.

use crate::notebook::{NotebookError, joined, language};
use base64::Engine as _;
use lathe_protocol::content::ContentBlock;
use serde_json::{Value, json};

/// The longest text of one output that is shown.
const LONGEST_OUTPUT: usize = 10_000;

/// The notebook as blocks (text for cells and outputs, pictures where an output is one), and its
/// cells without their outputs for programs.
pub(crate) fn show(bytes: &[u8]) -> Result<(Vec<ContentBlock>, Vec<Value>), NotebookError> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotebookError::NotText)?;
    let notebook: Value = serde_json::from_str(text)?;
    let no_cells = Vec::new();
    let cells = match notebook.get("cells") {
        Some(Value::Array(cells)) => cells,
        _ if notebook.get("nbformat").is_some() => &no_cells,
        _ => return Err(NotebookError::NoCells),
    };
    let mut shown = Shown::default();
    for (index, cell) in cells.iter().enumerate() {
        shown.cell(index, cell);
    }
    if shown.blocks.is_empty() && shown.text.is_empty() {
        shown.text.push_str("The notebook has no cells.");
    }
    shown.flush();
    let language = language(&notebook);
    let listed = cells.iter().enumerate();
    let listed = listed.map(|(index, cell)| summary(index, cell, language));
    Ok((shown.blocks, listed.collect()))
}

/// A cell for programs.
fn summary(index: usize, cell: &Value, language: &str) -> Value {
    let kind = cell["cell_type"].as_str().unwrap_or("unknown");
    let mut summary = json!({
        "cellType": kind,
        "cell_id": cell["id"].as_str().map_or_else(|| format!("cell-{index}"), str::to_owned),
        "source": joined(cell.get("source")),
    });
    if kind == "code" {
        summary["language"] = language.into();
        summary["execution_count"] = cell["execution_count"].clone();
    }
    summary
}

/// Collects text and breaks it where a picture comes.
#[derive(Default)]
struct Shown {
    text: String,
    blocks: Vec<ContentBlock>,
}

impl Shown {
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim_end();
        if !text.is_empty() {
            self.blocks.push(ContentBlock::text(text));
        }
    }

    fn cell(&mut self, index: usize, cell: &Value) {
        let field = |name: &str| cell.get(name).and_then(Value::as_str);
        let id = field("id").map_or_else(|| format!("cell-{index}"), str::to_owned);
        let kind = field("cell_type").unwrap_or("unknown");
        let source = joined(cell.get("source"));
        self.text.push_str(&format!(
            "<cell id=\"{id}\" type=\"{kind}\">\n{source}\n</cell>\n"
        ));
        if let Some(Value::Array(outputs)) = cell.get("outputs") {
            for output in outputs {
                self.output(output);
            }
        }
    }

    fn output(&mut self, output: &Value) {
        let kind = output.get("output_type").and_then(Value::as_str);
        match kind.unwrap_or_default() {
            "stream" => self.output_text(&joined(output.get("text"))),
            "error" => {
                let part = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or("");
                let trace = match output.get("traceback") {
                    Some(Value::Array(lines)) => lines
                        .iter()
                        .filter_map(Value::as_str)
                        .collect::<Vec<_>>()
                        .join("\n"),
                    _ => String::new(),
                };
                let text = format!("{}: {}\n{trace}", part("ename"), part("evalue"));
                self.output_text(&without_escapes(&text));
            }
            _ => {
                let data = output.get("data").and_then(Value::as_object);
                for (media_type, content) in data.into_iter().flatten() {
                    if media_type.starts_with("image/") && media_type != "image/svg+xml" {
                        self.picture(&joined(Some(content)));
                    } else if media_type == "text/plain" {
                        self.output_text(&joined(Some(content)));
                    }
                }
            }
        }
    }

    fn output_text(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let cut = text.char_indices().nth(LONGEST_OUTPUT).map(|(end, _)| end);
        let shown = text.get(..cut.unwrap_or(text.len())).unwrap_or(text);
        let more = if cut.is_some() { "\n[cut]" } else { "" };
        self.text.push_str(&format!(
            "<output>\n{}{more}\n</output>\n",
            shown.trim_end_matches('\n')
        ));
    }

    fn picture(&mut self, data: &str) {
        let data: String = data.split_ascii_whitespace().collect();
        let engine = base64::engine::general_purpose::STANDARD;
        let fitted = engine
            .decode(data)
            .ok()
            .and_then(|bytes| lathe_images::fit(&bytes).ok());
        match fitted {
            Some(fitted) => {
                self.flush();
                self.blocks.push(ContentBlock::image(
                    fitted.media_type,
                    engine.encode(&fitted.bytes),
                ));
            }
            None => self.output_text("[an image that can't be shown]"),
        }
    }
}

/// The text without the colour sequences that tracebacks are full of.
fn without_escapes(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            result.push(character);
            continue;
        }
        if characters.next() == Some('[') {
            for next in characters.by_ref() {
                if ('@'..='~').contains(&next) {
                    break;
                }
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_shown_with_ids_and_outputs() {
        let notebook = json!({"nbformat": 4, "cells": [
            {"cell_type": "markdown", "id": "intro", "source": ["# Title\n", "words"]},
            {"cell_type": "code", "source": "print('hi')", "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hi\n"]},
                {"output_type": "execute_result", "data": {"text/html": "<b>", "text/plain": "5"}},
                {"output_type": "stream", "text": "x".repeat(LONGEST_OUTPUT + 1)},
            ]},
        ]});
        let (blocks, cells) = show(notebook.to_string().as_bytes()).unwrap();
        assert_eq!(cells.len(), 2);
        let [ContentBlock::Text(text)] = blocks.as_slice() else {
            panic!("{blocks:?}")
        };
        assert_eq!(
            text.text,
            format!(
                "<cell id=\"intro\" type=\"markdown\">\n# Title\nwords\n</cell>\n\
                 <cell id=\"cell-1\" type=\"code\">\nprint('hi')\n</cell>\n\
                 <output>\nhi\n</output>\n<output>\n5\n</output>\n\
                 <output>\n{}\n[cut]\n</output>",
                "x".repeat(LONGEST_OUTPUT)
            )
        );
    }

    #[test]
    fn colours_are_taken_out_of_tracebacks() {
        assert_eq!(without_escapes("\u{1b}[0;31mError\u{1b}[0m: x"), "Error: x");
    }

    #[test]
    fn an_empty_notebook_says_so_and_other_json_is_refused() {
        let (blocks, _) = show(br#"{"nbformat": 4, "cells": []}"#).unwrap();
        assert_eq!(blocks, [ContentBlock::text("The notebook has no cells.")]);
        assert!(matches!(show(b"{}"), Err(NotebookError::NoCells)));
        assert!(matches!(show(b"{"), Err(NotebookError::Malformed(_))));
    }
}
