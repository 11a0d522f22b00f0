//! Write: a whole file, new or in the place of one that has been read.

use crate::change::{self, Wanted};
use crate::context::{CallContext, ToolContext};
use crate::file_cache::Need;
use crate::text_file::{LineEnd, line_end_of, with_line_end};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Writes a whole file.
pub struct Write;

/// The file and its content.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The file to write.
    file_path: String,
    /// All of its new content.
    content: String,
}

impl Tool for Write {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Write"
    }

    fn description(&self) -> &'static str {
        include_str!("write.md")
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
        format!("Writing {}", input.file_path)
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        change::precheck(&input.file_path, Need::Whole, context)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let path = context.session.resolve_path(&input.file_path);
        let content = input.content.clone();
        let done = change::change(path.clone(), Need::Whole, context, move |present| {
            let text = if line_end_of(&present.text) == LineEnd::Crlf {
                with_line_end(&content, LineEnd::Crlf).into_owned()
            } else {
                content
            };
            Ok(Wanted { text, detail: () })
        })
        .await?;
        let (kind, verb) = if done.created {
            ("create", "Created")
        } else {
            ("update", "Replaced the content of")
        };
        Ok(ToolOutput::new(
            format!("{verb} {}.{}", path.display(), done.notes_text()),
            json!({
                "type": kind,
                "filePath": path,
                "content": input.content,
                "structuredPatch": done.hunks,
                "originalFile": done.original,
                "userModified": false,
            }),
            done.display(&path),
        ))
    }
}
