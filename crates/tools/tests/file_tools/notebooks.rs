//! Notebooks: read as cells, changed by cell.

use crate::support::{Workshop, blocks_of};
use lathe_protocol::content::ContentBlock;
use serde_json::json;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z8DA8J8BAAf/Af8Bf4mnAAAAAElFTkSuQmCC";

fn notebook() -> String {
    format!(
        r##"{{
 "cells": [
  {{
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {{}},
   "source": ["# Title"]
  }},
  {{
   "cell_type": "code",
   "execution_count": 1,
   "id": "plot",
   "metadata": {{}},
   "outputs": [
    {{"output_type": "display_data", "data": {{"image/png": "{PNG}", "text/plain": ["<Figure>"]}}}},
    {{"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["\u001b[31mTrace\u001b[0m"]}}
   ],
   "source": ["plot()"]
  }}
 ],
 "metadata": {{}},
 "nbformat": 4,
 "nbformat_minor": 5
}}
"##
    )
}

#[tokio::test]
async fn a_notebook_is_shown_as_cells_with_outputs_and_pictures() {
    let workshop = Workshop::new();
    workshop.put("a.ipynb", notebook());
    let output = workshop
        .call("Read", json!({"file_path": "a.ipynb"}))
        .await
        .unwrap();
    assert_eq!(output.structured["type"], "notebook");
    assert_eq!(output.structured["file"]["numCells"], 2);
    let blocks = blocks_of(output);
    let kinds: Vec<&str> = blocks.iter().map(ContentBlock::kind).collect();
    assert_eq!(kinds, ["text", "image", "text"]);
    let ContentBlock::Text(text) = &blocks[2] else {
        panic!("{blocks:?}")
    };
    assert!(
        text.text.contains("ValueError: bad\nTrace"),
        "{}",
        text.text
    );
}

#[tokio::test]
async fn a_cell_is_replaced_inserted_and_deleted() {
    let workshop = Workshop::new();
    workshop.put("a.ipynb", notebook());
    let replace =
        json!({"notebook_path": "a.ipynb", "cell_id": "intro", "new_source": "# New\nmore"});
    let error = workshop.error("NotebookEdit", replace.clone()).await;
    assert!(error.contains("has not been read"), "{error}");
    workshop.read("a.ipynb").await;
    workshop.call("NotebookEdit", replace).await.unwrap();
    let text = String::from_utf8(workshop.bytes("a.ipynb")).unwrap();
    assert_eq!(
        text,
        notebook().replace(
            r##"["# Title"]"##,
            "[\n    \"# New\\n\",\n    \"more\"\n   ]"
        )
    );

    let insert = json!({
        "notebook_path": "a.ipynb", "cell_id": "intro", "edit_mode": "insert",
        "cell_type": "code", "new_source": "x = 1",
    });
    let output = workshop.call("NotebookEdit", insert).await.unwrap();
    assert_eq!(output.structured["cell_number"], 1);
    let delete = json!({"notebook_path": "a.ipynb", "cell_number": 1, "edit_mode": "delete"});
    workshop.call("NotebookEdit", delete).await.unwrap();
    assert_eq!(workshop.bytes("a.ipynb"), text.as_bytes());
}

#[tokio::test]
async fn what_can_not_be_done_says_what_is_missing() {
    let workshop = Workshop::new();
    workshop.put("a.ipynb", notebook());
    workshop.read("a.ipynb").await;
    for (input, part) in [
        (
            json!({"notebook_path": "a.txt", "new_source": "x"}),
            "not a notebook",
        ),
        (
            json!({"notebook_path": "a.ipynb", "new_source": "x"}),
            "cell_id or cell_number",
        ),
        (
            json!({"notebook_path": "a.ipynb", "cell_id": "intro"}),
            "new_source",
        ),
        (
            json!({"notebook_path": "a.ipynb", "edit_mode": "insert", "new_source": "x"}),
            "cell_type",
        ),
        (
            json!({"notebook_path": "a.ipynb", "cell_id": "nope", "new_source": "x"}),
            "intro, plot",
        ),
        (
            json!({"notebook_path": "b.ipynb", "cell_id": "a", "new_source": "x"}),
            "does not exist",
        ),
    ] {
        let error = workshop.error("NotebookEdit", input).await;
        assert!(error.contains(part), "{part} in {error}");
    }
    assert_eq!(workshop.bytes("a.ipynb"), notebook().as_bytes());
    workshop.put("broken.ipynb", "{\"cells\": 3}");
    let error = workshop
        .error("Read", json!({"file_path": "broken.ipynb"}))
        .await;
    assert!(error.contains("not a valid notebook"), "{error}");
}
