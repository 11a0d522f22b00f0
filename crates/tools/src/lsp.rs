//! LSP: questions to language servers.
//!
//! The servers are asked by [`lathe_lsp`]; here their answers are written for the model: one line each, paths
//! as people write them, bounded. Lines of code are shown only from files that may be read without a question.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_lsp::{
    CodeLocation, LanguageServers, LspError, Operation, QueryAnswer, Question, Symbol,
};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The name that the model calls.
pub const NAME: &str = "LSP";
/// The most entries that are shown.
const MOST_ENTRIES: usize = 100;
/// The most characters that are shown.
const MOST_CHARS: usize = 20_000;

/// Asks language servers.
pub struct Lsp {
    servers: LanguageServers,
}

impl Lsp {
    /// The tool for these servers.
    #[must_use]
    pub fn new(servers: LanguageServers) -> Self {
        Self { servers }
    }
}

// The words are enough; what they mean is in the tool's description.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Wanted {
    GoToDefinition,
    FindReferences,
    Hover,
    DocumentSymbol,
    WorkspaceSymbol,
    GoToImplementation,
    PrepareCallHierarchy,
    IncomingCalls,
    OutgoingCalls,
    Diagnostics,
    CodeActions,
}

impl Wanted {
    fn operation(self) -> Operation {
        match self {
            Self::GoToDefinition => Operation::GoToDefinition,
            Self::FindReferences => Operation::FindReferences,
            Self::Hover => Operation::Hover,
            Self::DocumentSymbol => Operation::DocumentSymbol,
            Self::WorkspaceSymbol => Operation::WorkspaceSymbol,
            Self::GoToImplementation => Operation::GoToImplementation,
            Self::PrepareCallHierarchy => Operation::PrepareCallHierarchy,
            Self::IncomingCalls => Operation::IncomingCalls,
            Self::OutgoingCalls => Operation::OutgoingCalls,
            Self::Diagnostics => Operation::Diagnostics,
            Self::CodeActions => Operation::CodeActions,
        }
    }
}

/// A query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    operation: Wanted,
    /// The file that it is about.
    file_path: String,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    character: Option<u32>,
    #[serde(default)]
    query: Option<String>,
}

impl Tool for Lsp {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        include_str!("lsp.md")
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["filePath"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("file_path", "filePath"), ("path", "filePath")]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        Subject::Read {
            paths: vec![context.resolve_path(&input.file_path)],
        }
    }

    fn activity(&self, input: &Input) -> String {
        format!("Asking about {}", input.file_path)
    }

    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let session = &context.session;
        let written = session.resolve_path(&input.file_path);
        // Servers name files by where they really are.
        let path = std::fs::canonicalize(&written)
            .map_err(|error| ToolError::failed(format!("{}: {error}", session.shown(&written))))?;
        let operation = input.operation.operation();
        let query = input.query.filter(|query| !query.trim().is_empty());
        if operation == Operation::WorkspaceSymbol && query.is_none() {
            return Err(ToolError::invalid("workspaceSymbol requires query"));
        }
        let question = Question {
            operation,
            path,
            line: input.line,
            character: input.character,
            query,
        };
        let answer =
            self.servers
                .ask(&question, &context.cancel)
                .await
                .map_err(|error| match error {
                    LspError::Question(_) => ToolError::invalid(error.to_string()),
                    LspError::Cancelled => ToolError::Cancelled(error.to_string()),
                    LspError::NoServer(_)
                    | LspError::Unsupported { .. }
                    | LspError::Start { .. }
                    | LspError::GivenUp { .. } => {
                        ToolError::failed(format!("{error}. Use Grep and Read instead."))
                    }
                    other => ToolError::failed(other.to_string()),
                })?;
        let written = Written::of(&answer, operation, session);
        let structured = json!({
            "operation": operation.name(),
            "filePath": input.file_path,
            "result": written.text,
            "resultCount": written.entries,
            "fileCount": written.files.len(),
        });
        let display = Display::Text {
            text: written.text.clone(),
        };
        Ok(ToolOutput::new(written.text, structured, display))
    }
}

/// An answer in words.
struct Written<'a> {
    text: String,
    entries: usize,
    files: Vec<PathBuf>,
    session: &'a ToolContext,
}

impl<'a> Written<'a> {
    fn of(answer: &QueryAnswer, operation: Operation, session: &'a ToolContext) -> Self {
        let mut written = Self {
            text: String::new(),
            entries: 0,
            files: Vec::new(),
            session,
        };
        let total = match answer {
            QueryAnswer::Text(text) => {
                written.entries = usize::from(!text.is_empty());
                written.text.clone_from(text);
                written.entries
            }
            QueryAnswer::Places(places) => {
                written.list(places, Self::place);
                places.len()
            }
            QueryAnswer::Symbols(symbols) => {
                let in_file = operation == Operation::DocumentSymbol;
                written.list(symbols, |written, symbol| written.symbol(symbol, in_file));
                symbols.len()
            }
            QueryAnswer::Calls(calls) => {
                written.list(calls, |written, (symbol, lines)| {
                    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                    let text = written.symbol(symbol, false);
                    match lines.as_slice() {
                        [] => text,
                        [line] => format!("{text}  (called in line {line})"),
                        lines => format!("{text}  (called in lines {})", lines.join(", ")),
                    }
                });
                calls.len()
            }
            QueryAnswer::Problems(problems) => {
                written.list(problems, |_, problem| problem.line_text());
                problems.len()
            }
            QueryAnswer::Actions(actions) => {
                written.list(actions, |_, action| match &action.refused {
                    Some(reason) => format!("{} (not possible: {reason})", action.title),
                    None if action.kind.is_empty() => action.title.clone(),
                    None => format!("{} ({})", action.title, action.kind),
                });
                actions.len()
            }
        };
        if total == 0 {
            written.text = match operation {
                Operation::Diagnostics => "The language server finds no problems.".to_owned(),
                Operation::CodeActions => "There are no code actions for this line.".to_owned(),
                Operation::Hover => "The language server has nothing for this position.".to_owned(),
                Operation::DocumentSymbol | Operation::WorkspaceSymbol => {
                    "No symbols found.".to_owned()
                }
                _ => "Nothing found. The position must be on a symbol's name.".to_owned(),
            };
        } else if written.entries < total {
            let left = total - written.entries;
            let _ = write!(written.text, "\n\n[{left} more omitted.]");
        }
        written
    }

    /// One line for each, as many as fit.
    fn list<T>(&mut self, items: &[T], line: impl Fn(&mut Self, &T) -> String) {
        for item in items.iter().take(MOST_ENTRIES) {
            let text = line(self, item);
            if self.text.len() + text.len() > MOST_CHARS {
                return;
            }
            if self.entries > 0 {
                self.text.push('\n');
            }
            self.text.push_str(&text);
            self.entries += 1;
        }
    }

    fn place(&mut self, place: &CodeLocation) -> String {
        let shown = self.position(place);
        if place.text.is_empty() || !self.may_show(&place.path) {
            shown
        } else {
            format!("{shown}  {}", place.text)
        }
    }

    fn symbol(&mut self, symbol: &Symbol, in_file: bool) -> String {
        if in_file {
            let place = &symbol.place;
            return format!(
                "{}{} {}  {}:{}",
                "  ".repeat(symbol.depth),
                symbol.kind,
                symbol.name,
                place.line,
                place.column
            );
        }
        let container = symbol
            .container
            .as_ref()
            .map_or_else(String::new, |container| format!(" in {container}"));
        format!(
            "{} {}{container}  {}",
            symbol.kind,
            symbol.name,
            self.position(&symbol.place)
        )
    }

    fn position(&mut self, place: &CodeLocation) -> String {
        if !self.files.contains(&place.path) {
            self.files.push(place.path.clone());
        }
        let shown = self.session.shown(&place.path);
        match place.line {
            0 => shown,
            line => format!("{shown}:{line}:{}", place.column),
        }
    }

    /// Whether a line of a file may be shown. A server names it as it likes: by a link, or with steps up.
    fn may_show(&self, path: &Path) -> bool {
        let Ok(real) = std::fs::canonicalize(path) else {
            return false;
        };
        let inside = self
            .session
            .roots
            .read()
            .iter()
            .any(|root| real.starts_with(root));
        let hidden = |path: &Path| (self.session.secrets)(path);
        inside && !hidden(path) && !hidden(&real)
    }
}
