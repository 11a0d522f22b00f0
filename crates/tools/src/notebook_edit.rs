//! NotebookEdit: replaces, inserts or deletes one cell of a notebook.

use crate::change::{self, Wanted};
use crate::context::{CallContext, ToolContext};
use crate::file_cache::Need;
use crate::notebook::{self, CellChange, CellKind, CellName, ChangedNotebook};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Changes one cell of a notebook.
pub struct NotebookEdit;

/// Which cell, and what to do with it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The .ipynb file.
    notebook_path: String,
    /// The cell's id as Read shows it. With insert: the cell to insert after.
    #[serde(default)]
    cell_id: Option<String>,
    /// The cell's number from 0, instead of its id.
    #[serde(default)]
    cell_number: Option<usize>,
    /// The cell's new source.
    #[serde(default)]
    new_source: Option<String>,
    /// Needed for insert.
    #[serde(default)]
    cell_type: Option<CellKind>,
    /// Default: replace.
    #[serde(default)]
    edit_mode: Option<EditMode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EditMode {
    Replace,
    Insert,
    Delete,
}

impl Input {
    fn mode(&self) -> EditMode {
        self.edit_mode.unwrap_or(EditMode::Replace)
    }

    fn change(&self) -> Result<CellChange, ToolError> {
        let cell = match (&self.cell_id, self.cell_number) {
            (Some(id), _) => Some(CellName::Id(id.clone())),
            (None, Some(number)) => Some(CellName::Number(number)),
            (None, None) => None,
        };
        let named = |cell: Option<CellName>| {
            cell.ok_or_else(|| ToolError::invalid("Give cell_id or cell_number."))
        };
        let source = || {
            self.new_source
                .clone()
                .ok_or_else(|| ToolError::invalid("Give new_source."))
        };
        Ok(match self.mode() {
            EditMode::Replace => CellChange::Replace(named(cell)?, source()?, self.cell_type),
            EditMode::Insert => CellChange::Insert(
                cell,
                source()?,
                self.cell_type.ok_or_else(|| {
                    ToolError::invalid("Give cell_type (code or markdown) for the new cell.")
                })?,
            ),
            EditMode::Delete => CellChange::Delete(named(cell)?),
        })
    }
}

impl Tool for NotebookEdit {
    type Input = Input;

    fn name(&self) -> &'static str {
        "NotebookEdit"
    }

    fn description(&self) -> &'static str {
        include_str!("notebook_edit.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["notebook_path"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("file_path", "notebook_path")]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        change::TRAITS
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        change::subject(&input.notebook_path, context)
    }

    fn activity(&self, input: &Input) -> String {
        format!("Editing {}", input.notebook_path)
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        if !input.notebook_path.ends_with(".ipynb") {
            return Err(ToolError::invalid(format!(
                "{} is not a notebook (.ipynb). Use Edit for other files.",
                input.notebook_path
            )));
        }
        input.change()?;
        change::precheck(&input.notebook_path, Need::Part, context)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let path = context.session.resolve_path(&input.notebook_path);
        let wanted = input.change()?;
        let shown = path.display().to_string();
        let done = change::change(path.clone(), Need::Part, context, move |present| {
            if !present.exists {
                return Err(ToolError::failed(format!("{shown} does not exist.")));
            }
            let changed = notebook::change(&present.text, &wanted)
                .map_err(|error| ToolError::failed(format!("{shown} was not changed: {error}.")))?;
            Ok(Wanted {
                text: changed.text.clone(),
                detail: changed,
            })
        })
        .await?;

        let ChangedNotebook { index, id, .. } = &done.detail;
        let name = id.clone().unwrap_or_else(|| format!("cell-{index}"));
        let verb = match input.mode() {
            EditMode::Replace => "Replaced",
            EditMode::Insert => "Inserted",
            EditMode::Delete => "Deleted",
        };
        let mut structured = json!({
            "notebook_path": path,
            "cell_id": name,
            "cell_number": index,
            "new_source": input.new_source.as_deref().unwrap_or_default(),
            "cell_type": done.detail.kind,
            "language": done.detail.language,
            "edit_mode": input.mode(),
            "structuredPatch": done.hunks,
            "originalFile": done.original,
        });
        if let Some(source) = &done.detail.old_source {
            structured["old_source"] = source.as_str().into();
        }
        // A text that is too long to report is left out before and after.
        if let Some(original) = &done.original {
            structured["original_file"] = original.as_str().into();
            structured["updated_file"] = done.detail.text.as_str().into();
        }
        Ok(ToolOutput::new(
            format!(
                "{verb} cell {name} (number {index}) of {}.{}",
                path.display(),
                done.notes_text()
            ),
            structured,
            done.display(&path),
        ))
    }
}
