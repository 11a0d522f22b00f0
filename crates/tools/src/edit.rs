//! Edit: replaces one text in a file by another.

use crate::change::{self, Present, Wanted};
use crate::context::{CallContext, ToolContext};
use crate::file_cache::Need;
use crate::replacement::{self, Replaced, Replacement};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Replaces text in a file.
pub struct Edit;

/// A replacement.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The file to change.
    file_path: String,
    /// The text to replace, exactly as in the file. Empty to create the file.
    old_string: String,
    /// The text to put there.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: Option<bool>,
}

impl Tool for Edit {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Edit"
    }

    fn description(&self) -> &'static str {
        include_str!("edit.md")
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
        if input.old_string == input.new_string {
            return Err(ToolError::invalid(
                replacement::NotReplaced::Identical.to_string(),
            ));
        }
        if input.file_path.ends_with(".ipynb") && !input.old_string.is_empty() {
            return Err(ToolError::invalid(
                "A notebook is shown as cells, not as the text that Edit matches. Change its cells with NotebookEdit.",
            ));
        }
        change::precheck(&input.file_path, Need::Part, context)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let path = context.session.resolve_path(&input.file_path);
        let replace_all = input.replace_all.unwrap_or(false);
        let shown = path.display().to_string();
        let done = change::change(path.clone(), Need::Part, context, move |present| {
            let replaced = apply(
                present,
                &shown,
                Replacement {
                    old: &input.old_string,
                    new: &input.new_string,
                    all: replace_all,
                },
            )?;
            Ok(Wanted {
                text: replaced.text.clone(),
                detail: Replaced {
                    text: String::new(),
                    ..replaced
                },
            })
        })
        .await?;

        let replaced = &done.detail;
        let mut text = if done.created {
            format!("Created {}.", path.display())
        } else if replaced.count > 1 {
            format!(
                "Edited {}: {} places replaced.",
                path.display(),
                replaced.count
            )
        } else {
            format!("Edited {} at line {}.", path.display(), replaced.first_line)
        };
        if let Some(tolerance) = replaced.tolerance {
            text.push_str(&tolerance_note(tolerance));
        }
        text.push_str(&done.notes_text());
        Ok(ToolOutput::new(
            text,
            json!({
                "filePath": path,
                "oldString": replaced.old,
                "newString": replaced.new,
                "originalFile": done.original,
                "structuredPatch": done.hunks,
                "userModified": false,
                "replaceAll": replace_all,
            }),
            done.display(&path),
        ))
    }
}

/// The remark when the text was found only by ignoring a difference.
pub(crate) fn tolerance_note(tolerance: &str) -> String {
    format!(" old_string had no exact match; it matched when ignoring {tolerance}.")
}

/// Makes one replacement in a file's text, or gives a file its first content.
pub(crate) fn apply(
    present: &Present,
    shown: &str,
    replacement: Replacement<'_>,
) -> Result<Replaced, ToolError> {
    if replacement.old.is_empty() && present.text.is_empty() {
        return Ok(Replaced {
            text: replacement.new.to_owned(),
            count: 1,
            first_line: 1,
            old: String::new(),
            new: replacement.new.to_owned(),
            tolerance: None,
        });
    }
    if !present.exists {
        return Err(ToolError::failed(format!(
            "{shown} does not exist. To create it, give an empty old_string or use Write."
        )));
    }
    replacement::replace(&present.text, replacement)
        .map_err(|error| ToolError::failed(format!("{shown} was not changed: {error}")))
}
