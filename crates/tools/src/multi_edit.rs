//! MultiEdit: several replacements in one file, all or none.

use crate::change::{self, Present, Wanted};
use crate::context::{CallContext, ToolContext};
use crate::edit;
use crate::file_cache::Need;
use crate::replacement::Replacement;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Makes several replacements in one file.
pub struct MultiEdit;

/// The file and the replacements.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The file to change.
    file_path: String,
    /// The edits, in order; each sees the result of those before it.
    edits: Vec<OneEdit>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneEdit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

impl Tool for MultiEdit {
    type Input = Input;

    fn name(&self) -> &'static str {
        "MultiEdit"
    }

    fn description(&self) -> &'static str {
        include_str!("multi_edit.md")
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["file_path"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("path", "file_path")]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        change::TRAITS
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        change::subject(&input.file_path, context)
    }

    fn activity(&self, input: &Input) -> String {
        format!("Editing {}", input.file_path)
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        if input.edits.is_empty() {
            return Err(ToolError::invalid("edits is empty: give at least one."));
        }
        change::precheck(&input.file_path, Need::Part, context)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let path = context.session.resolve_path(&input.file_path);
        let shown = path.display().to_string();
        let edits = input.edits.clone();
        let done = change::change(path.clone(), Need::Part, context, move |present| {
            apply_all(present, &shown, &edits)
        })
        .await?;

        let verb = if done.created { "Created" } else { "Edited" };
        let count = input.edits.len();
        let mut text = format!(
            "{verb} {}: {count} {} made.",
            path.display(),
            if count == 1 { "edit" } else { "edits" }
        );
        for (index, tolerance) in &done.detail {
            text.push_str(&format!(
                " edits[{index}]:{}",
                edit::tolerance_note(tolerance)
            ));
        }
        text.push_str(&done.notes_text());
        Ok(ToolOutput::new(
            text,
            json!({
                "filePath": path,
                "edits": input.edits,
                "originalFile": done.original,
                "structuredPatch": done.hunks,
                "userModified": false,
            }),
            done.display(&path),
        ))
    }
}

/// The text after all edits, and which of them were found only by overlooking something.
fn apply_all(
    present: &Present,
    shown: &str,
    edits: &[OneEdit],
) -> Result<Wanted<Vec<(usize, &'static str)>>, ToolError> {
    let mut now = Present {
        text: present.text.clone(),
        encoding: present.encoding,
        exists: present.exists,
    };
    let mut overlooked = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let replaced = edit::apply(
            &now,
            shown,
            Replacement {
                old: &edit.old_string,
                new: &edit.new_string,
                all: edit.replace_all.unwrap_or(false),
            },
        )
        .map_err(|error| {
            ToolError::failed(format!("edits[{index}] failed, so none was made. {error}"))
        })?;
        now.text = replaced.text;
        now.exists = true;
        overlooked.extend(replaced.tolerance.map(|tolerance| (index, tolerance)));
    }
    Ok(Wanted {
        text: now.text,
        detail: overlooked,
    })
}
