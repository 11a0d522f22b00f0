//! LSPEdit: edits that a language server works out.
//!
//! The server is asked while the call is validated, before anyone is asked for permission. What it would change is then
//! part of the input ([`Tool::plans`]): every file is judged, hooks and people see the difference. The call itself only
//! puts those texts in place, in all files or in none, if the files are still what they were.

use crate::change::{self, Wanted};
use crate::context::{CallContext, ToolContext};
use crate::file_cache::Need;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_lsp::{EditOrder, FileChange, LanguageServers, LspError, Question};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The name that the model calls.
pub const NAME: &str = "LSPEdit";
/// The most characters of a difference that are shown.
const MOST_CHARS: usize = 30_000;
/// How many plans are kept between judging and running.
const PLANS: usize = 16;

/// Changes code by language servers.
pub struct LspEdit {
    servers: LanguageServers,
    plans: Mutex<VecDeque<(String, Arc<Vec<FileChange>>)>>,
}

impl LspEdit {
    /// The tool for these servers.
    #[must_use]
    pub fn new(servers: LanguageServers) -> Self {
        Self {
            servers,
            plans: Mutex::default(),
        }
    }

    fn plan(&self, key: &str) -> Option<Arc<Vec<FileChange>>> {
        let plans = self.plans.lock();
        let found = plans.iter().rev().find(|(known, _)| known == key);
        found.map(|(_, plan)| Arc::clone(plan))
    }

    fn keep(&self, key: String, plan: Vec<FileChange>) {
        let mut plans = self.plans.lock();
        if plans.len() >= PLANS {
            plans.pop_front();
        }
        plans.push_back((key, Arc::new(plan)));
    }
}

// The words are enough; what they mean is in the tool's description.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Rename,
    CodeAction,
    ReplaceSymbol,
}

/// An edit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditInput {
    operation: Kind,
    file_path: String,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    character: Option<u32>,
    #[serde(default)]
    query: Option<String>,
    /// Of rename.
    #[serde(default)]
    new_name: Option<String>,
    /// Of codeAction.
    #[serde(default)]
    title: Option<String>,
    /// Of replaceSymbol.
    #[serde(default)]
    symbol: Option<String>,
    /// Of replaceSymbol: the new definition.
    #[serde(default)]
    text: Option<String>,
    /// The files that change.
    #[serde(default)]
    files: Option<Vec<PathBuf>>,
    /// The difference.
    #[serde(default)]
    diff: Option<String>,
}

impl EditInput {
    fn order(&self) -> Result<EditOrder, ToolError> {
        let given = |field: &Option<String>, name: &str, kind: &str| {
            let text = field.clone().filter(|text| !text.trim().is_empty());
            text.ok_or_else(|| ToolError::invalid(format!("{kind} requires {name}.")))
        };
        Ok(match self.operation {
            Kind::Rename => EditOrder::Rename {
                new_name: given(&self.new_name, "newName", "rename")?,
            },
            Kind::CodeAction => EditOrder::CodeAction {
                title: given(&self.title, "title", "codeAction")?,
            },
            Kind::ReplaceSymbol => EditOrder::ReplaceSymbol {
                symbol: given(&self.symbol, "symbol", "replaceSymbol")?,
                text: given(&self.text, "text", "replaceSymbol")?,
            },
        })
    }
}

/// The fields that the session fills in.
const PLANNED: [&str; 2] = ["files", "diff"];

/// Names the plan of an input.
fn key_of(input: &Value, context: &ToolContext) -> String {
    let mut input = input.clone();
    if let Value::Object(fields) = &mut input {
        for field in PLANNED {
            fields.shift_remove(field);
        }
    }
    format!("{:p} {input}", std::ptr::from_ref(context))
}

fn key_of_input(input: &EditInput, context: &ToolContext) -> String {
    // The same fields, in the order of the type.
    let fields = json!([
        format!("{:?}", input.operation),
        input.file_path,
        input.line,
        input.character,
        input.query,
        input.new_name,
        input.title,
        input.symbol,
        input.text,
    ]);
    key_of(&fields, context)
}

impl Tool for LspEdit {
    type Input = EditInput;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("lsp_edit.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["filePath"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("file_path", "filePath"),
            ("path", "filePath"),
            ("new_name", "newName"),
        ]
    }

    fn withheld_fields(&self) -> &'static [&'static str] {
        &PLANNED
    }

    fn plans(&self) -> bool {
        true
    }

    fn fill_in(&self, input: &mut Value, context: &ToolContext) {
        let Ok(typed) = EditInput::deserialize(&*input) else {
            return;
        };
        if let Some(plan) = self.plan(&key_of_input(&typed, context)) {
            let files: Vec<&Path> = plan.iter().map(|change| change.path.as_path()).collect();
            input["files"] = json!(files);
            input["diff"] = json!(diff_of(&plan));
        }
    }

    fn traits(&self, _input: &EditInput) -> CallTraits {
        change::TRAITS
    }

    fn subject(&self, input: &EditInput, _context: &ToolContext) -> Subject {
        match &input.files {
            Some(paths) if !paths.is_empty() => Subject::Write {
                paths: paths.clone(),
            },
            // Before it was planned nothing is known.
            _ => Subject::Unknown,
        }
    }

    fn activity(&self, input: &EditInput) -> String {
        let what = match input.operation {
            Kind::Rename => format!("Renaming to {}", input.new_name.as_deref().unwrap_or("?")),
            Kind::CodeAction => input.title.clone().unwrap_or_default(),
            Kind::ReplaceSymbol => {
                format!("Replacing {}", input.symbol.as_deref().unwrap_or("?"))
            }
        };
        match input.files.as_deref() {
            Some([_, _, ..]) => {
                let count = input.files.as_ref().map_or(0, Vec::len);
                format!("{what} in {count} files")
            }
            _ => what,
        }
    }

    /// Has the server work the edit out, unless that was done.
    async fn validate(&self, input: &EditInput, context: &ToolContext) -> Result<(), ToolError> {
        let order = input.order()?;
        let written = context.resolve_path(&input.file_path);
        let shown = context.shown(&written);
        // Servers name files by where they really are.
        let path = std::fs::canonicalize(&written)
            .map_err(|error| ToolError::failed(format!("{shown}: {error}")))?;
        let inside = context
            .roots
            .read()
            .iter()
            .any(|root| path.starts_with(root));
        if !inside || (context.secrets)(&path) {
            return Err(ToolError::failed(format!(
                "{shown} is outside the folders of this session or holds secrets, so its language server was not queried."
            )));
        }
        let question = Question {
            operation: order.operation(),
            path,
            line: input.line,
            character: input.character,
            query: input.query.clone().filter(|query| !query.trim().is_empty()),
        };
        let answer = self
            .servers
            .edit(&question, &order, &CancellationToken::new())
            .await;
        let plan = answer.map_err(|error| match error {
            LspError::Question(_) => ToolError::invalid(format!("{error}.")),
            LspError::Cancelled => ToolError::Cancelled(error.to_string()),
            other => ToolError::failed(format!("{other}. Use Edit instead.")),
        })?;
        if plan.is_empty() {
            return Err(ToolError::failed("The edit would change nothing."));
        }
        self.keep(key_of_input(input, context), plan);
        Ok(())
    }

    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: EditInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let plan = self
            .plan(&key_of_input(&input, &context.session))
            .filter(|plan| {
                let files = plan.iter().map(|change| &change.path);
                files.eq(input.files.iter().flatten()) && Some(diff_of(plan)) == input.diff
            });
        let Some(plan) = plan else {
            return Err(ToolError::failed(
                "The edit differs from the one that was allowed; nothing was changed. Try again.",
            ));
        };
        let mut done: Vec<&FileChange> = Vec::new();
        for change in plan.iter() {
            if let Err(error) = put(change, &change.before, &change.after, &context).await {
                let left = take_back(&done, &context).await;
                return Err(ToolError::failed(format!("{error}{left}")));
            }
            done.push(change);
        }
        let session = &context.session;
        let files: Vec<String> = plan
            .iter()
            .map(|change| session.shown(&change.path))
            .collect();
        let diff = diff_of(&plan);
        let text = format!("Changed {}:\n{diff}", files.join(", "));
        let structured = json!({
            "files": input.files, "fileCount": files.len(), "diff": diff,
        });
        let display = match plan.as_slice() {
            [change] => Display::Diff {
                path: change.path.clone(),
                hunks: lathe_diff::hunks(&change.before, &change.after),
            },
            _ => Display::Markdown {
                text: format!("```diff\n{diff}```\n"),
            },
        };
        Ok(ToolOutput::new(text, structured, display))
    }
}

/// Gives a file its new text, if it has the expected one.
async fn put(
    change: &FileChange,
    from: &str,
    to: &str,
    context: &CallContext,
) -> Result<(), ToolError> {
    let (path, from, to) = (change.path.clone(), from.to_owned(), to.to_owned());
    let shown = context.session.shown(&path);
    change::change(path, Need::Nothing, context.clone(), move |present| {
        if present.text != from {
            return Err(ToolError::failed(format!(
                "{shown} has changed since the language server was asked; nothing was changed."
            )));
        }
        Ok(Wanted {
            text: to,
            detail: (),
        })
    })
    .await
    .map(|_| ())
}

/// Gives files their old texts back. Says which could not be.
async fn take_back(done: &[&FileChange], context: &CallContext) -> String {
    // Also where the call was stopped.
    let mut context = context.clone();
    context.cancel = CancellationToken::new();
    let mut left = String::new();
    for change in done.iter().rev() {
        if let Err(error) = put(change, &change.after, &change.before, &context).await {
            left.push_str(&format!(
                " {} could not be restored: {error}",
                context.session.shown(&change.path)
            ));
        }
    }
    left
}

fn diff_of(plan: &[FileChange]) -> String {
    let mut text = String::new();
    for change in plan {
        text.push_str(&lathe_diff::unified(
            &change.path,
            &change.before,
            &change.after,
        ));
        if text.len() > MOST_CHARS {
            text.truncate(text.floor_char_boundary(MOST_CHARS));
            text.push_str("\n[the rest is omitted]\n");
            break;
        }
    }
    text
}
