//! Requests about code, and their answers in one form.
//!
//! Servers answer the same question in several forms (a place, a list of places, a list of links; a tree of
//! symbols or a flat list). Here they become one form each, with lines and characters counted from 1.

use crate::diagnostics::{Problem, cut};
use crate::error::LspError;
use crate::limits::{CHECK, INDEXING};
use crate::position::{Encoding, from_uri, to_uri};
use crate::server::{Server, Shown, read_text};
use crate::workspace_edit::CodeAction;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// The most entries of an answer that are read.
const MOST_ENTRIES: usize = 1000;
/// The most characters of a line of code that are shown.
const LINE_CHARS: usize = 200;
/// The longest explanation.
const HOVER_CHARS: usize = 10_000;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Where a symbol is defined.
    GoToDefinition,
    /// Where a symbol is used.
    FindReferences,
    /// Documentation and type of a symbol.
    Hover,
    /// The symbols of a file.
    DocumentSymbol,
    /// Symbols of the project, by name.
    WorkspaceSymbol,
    /// Implementations of a symbol.
    GoToImplementation,
    /// The function at a place.
    PrepareCallHierarchy,
    /// Callers of a function.
    IncomingCalls,
    /// Functions that a function calls.
    OutgoingCalls,
    /// The problems of a file.
    Diagnostics,
    /// Changes that a server offers for a line.
    CodeActions,
    /// Another name for a symbol.
    Rename,
}

impl Operation {
    /// The capability and the method of the protocol.
    fn asks(self) -> (&'static str, &'static str) {
        match self {
            Self::GoToDefinition => ("definitionProvider", "textDocument/definition"),
            Self::FindReferences => ("referencesProvider", "textDocument/references"),
            Self::Hover => ("hoverProvider", "textDocument/hover"),
            Self::DocumentSymbol => ("documentSymbolProvider", "textDocument/documentSymbol"),
            Self::WorkspaceSymbol => ("workspaceSymbolProvider", "workspace/symbol"),
            Self::GoToImplementation => ("implementationProvider", "textDocument/implementation"),
            Self::PrepareCallHierarchy | Self::IncomingCalls | Self::OutgoingCalls => {
                ("callHierarchyProvider", "textDocument/prepareCallHierarchy")
            }
            Self::Diagnostics => ("diagnosticProvider", "textDocument/diagnostic"),
            Self::CodeActions => ("codeActionProvider", "textDocument/codeAction"),
            Self::Rename => ("renameProvider", "textDocument/rename"),
        }
    }

    /// Its name, as the model writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GoToDefinition => "goToDefinition",
            Self::FindReferences => "findReferences",
            Self::Hover => "hover",
            Self::DocumentSymbol => "documentSymbol",
            Self::WorkspaceSymbol => "workspaceSymbol",
            Self::GoToImplementation => "goToImplementation",
            Self::PrepareCallHierarchy => "prepareCallHierarchy",
            Self::IncomingCalls => "incomingCalls",
            Self::OutgoingCalls => "outgoingCalls",
            Self::Diagnostics => "diagnostics",
            Self::CodeActions => "codeActions",
            Self::Rename => "rename",
        }
    }

    /// Whether it is about a place in a file.
    #[must_use]
    pub fn needs_place(self) -> bool {
        !matches!(
            self,
            Self::DocumentSymbol | Self::WorkspaceSymbol | Self::Diagnostics
        )
    }

    /// Whether a server can answer. Reports come also from servers that can't be asked for them.
    pub(crate) fn is_known_to(self, server: &Server) -> bool {
        let (key, method) = self.asks();
        self == Self::Diagnostics || server.can(key, method)
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The kind of request.
    pub operation: Operation,
    /// The file that it is about, or that says which server is asked.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The character in the line, from 1.
    pub character: Option<u32>,
    /// The symbol: looked for in the line where there is no character, or in the project.
    pub query: Option<String>,
}

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLocation {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 where the server names only the file.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
    /// The line itself.
    pub text: String,
}

/// A symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its kind: `function`, `class`.
    pub kind: &'static str,
    /// The symbol that contains it.
    pub container: Option<String>,
    /// How deep it is inside others.
    pub depth: usize,
    /// Where it is.
    pub place: CodeLocation,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryAnswer {
    /// Places.
    Places(Vec<CodeLocation>),
    /// An explanation.
    Text(String),
    /// Symbols.
    Symbols(Vec<Symbol>),
    /// Calls: the function at the other end, and the lines of the calls.
    Calls(Vec<(Symbol, Vec<u32>)>),
    /// Problems, worst first.
    Problems(Vec<Problem>),
    /// Code actions.
    Actions(Vec<CodeAction>),
}

impl Server {
    /// Answers a question.
    pub(crate) async fn answer(
        &self,
        question: &Question,
        cancel: &CancellationToken,
    ) -> Result<QueryAnswer, LspError> {
        let operation = question.operation;
        let shown = self.show(&question.path).await?;
        self.show_changes().await;
        if operation == Operation::Diagnostics {
            let judged = self.judged(&question.path, &shown, CHECK, cancel).await;
            if cancel.is_cancelled() {
                return Err(LspError::Cancelled);
            }
            let problems = self.problems(&question.path).await;
            if !judged && problems.is_empty() && self.is_over() {
                return Err(self.ending().await);
            }
            return Ok(QueryAnswer::Problems(problems));
        }
        self.idle(INDEXING, cancel).await;
        if operation == Operation::CodeActions {
            return Ok(QueryAnswer::Actions(
                self.list_actions(question, cancel).await?,
            ));
        }
        let (_, method) = operation.asks();
        let document = json!({"uri": to_uri(&question.path)});
        let params = match operation {
            Operation::WorkspaceSymbol => {
                json!({"query": question.query.as_deref().unwrap_or_default()})
            }
            Operation::DocumentSymbol => json!({"textDocument": document}),
            _ => {
                let mut params = json!({
                    "textDocument": document,
                    "position": self.position(question, &shown)?,
                });
                if operation == Operation::FindReferences {
                    params["context"] = json!({"includeDeclaration": true});
                }
                params
            }
        };
        let answer = self.ask(method, &params, cancel).await?;
        let mut lines = Lines::new(self.encoding);
        lines.know(&question.path, &shown.text);
        Ok(match operation {
            Operation::Hover => QueryAnswer::Text(cut(&hover(&answer), HOVER_CHARS)),
            Operation::DocumentSymbol | Operation::WorkspaceSymbol => {
                let mut symbols = Vec::new();
                read_symbols(&answer, &question.path, 0, None, &mut symbols);
                QueryAnswer::Symbols(lines.fill_symbols(symbols).await)
            }
            Operation::PrepareCallHierarchy => {
                let items = entries(&answer).iter().filter_map(|item| named(item, None));
                QueryAnswer::Symbols(lines.fill_symbols(items.collect()).await)
            }
            Operation::IncomingCalls | Operation::OutgoingCalls => {
                let calls = self.calls(operation, &answer, cancel).await?;
                QueryAnswer::Calls(lines.fill_calls(calls).await)
            }
            _ => {
                let places = match &answer {
                    Value::Array(items) => {
                        items.iter().take(MOST_ENTRIES).filter_map(place).collect()
                    }
                    one => place(one).into_iter().collect(),
                };
                QueryAnswer::Places(lines.fill(places).await)
            }
        })
    }

    /// The place of a question in the server's units.
    pub(crate) fn position(&self, question: &Question, shown: &Shown) -> Result<Value, LspError> {
        let wrong = |text: String| Err(LspError::Question(text));
        let operation = question.operation.name();
        let Some(number) = question.line.filter(|line| *line > 0) else {
            return wrong(format!("{operation} needs \"line\", counted from 1"));
        };
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let Some(line) = shown.text.lines().nth(index) else {
            return wrong(format!(
                "{} has {} lines, so there is no line {number}",
                question.path.display(),
                shown.text.lines().count()
            ));
        };
        let column = match (question.character, &question.query) {
            (Some(character), _) => character.max(1),
            (None, Some(query)) => match column_of(line, query) {
                Some(column) => column,
                None => {
                    return wrong(format!(
                        "line {number} does not contain {query:?}: {}",
                        line.trim()
                    ));
                }
            },
            (None, None) => {
                return wrong(format!(
                    "{operation} needs \"character\", counted from 1, or the symbol as \"query\""
                ));
            }
        };
        Ok(json!({"line": number - 1, "character": self.encoding.offset(line, column)}))
    }

    /// Follows the calls of what was found at a place.
    async fn calls(
        &self,
        operation: Operation,
        prepared: &Value,
        cancel: &CancellationToken,
    ) -> Result<Vec<(Symbol, Vec<u32>)>, LspError> {
        let (method, key) = match operation {
            Operation::IncomingCalls => ("callHierarchy/incomingCalls", "from"),
            _ => ("callHierarchy/outgoingCalls", "to"),
        };
        let mut calls = Vec::new();
        for item in entries(prepared).iter().take(5) {
            let answer = self.ask(method, &json!({"item": item}), cancel).await?;
            for call in entries(&answer).iter().take(MOST_ENTRIES) {
                let Some(symbol) = call.get(key).and_then(|item| named(item, None)) else {
                    continue;
                };
                let ranges = call.get("fromRanges").map(entries).unwrap_or_default();
                let lines = ranges.iter().take(20).filter_map(|range| {
                    let line = range.pointer("/start/line")?.as_u64()?;
                    u32::try_from(line).ok()?.checked_add(1)
                });
                calls.push((symbol, lines.collect()));
            }
        }
        Ok(calls)
    }
}

/// Where a word stands in a line, by itself before inside another; counted in characters from 1.
fn column_of(line: &str, word: &str) -> Option<u32> {
    let word = word.trim();
    if word.is_empty() {
        return None;
    }
    let in_word = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphanumeric() || character == '_')
    };
    let alone = line.match_indices(word).find(|(index, _)| {
        let before = line.get(..*index).and_then(|text| text.chars().next_back());
        let after = line
            .get(index + word.len()..)
            .and_then(|text| text.chars().next());
        !in_word(before) && !in_word(after)
    });
    let (index, _) = alone.or_else(|| line.match_indices(word).next())?;
    let before = line.get(..index)?.chars().count();
    u32::try_from(before + 1).ok()
}

/// Reads an answer in every way that there is.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_any(answer: &Value) {
    let mut symbols = Vec::new();
    read_symbols(answer, Path::new("/p"), 0, None, &mut symbols);
    let _ = hover(answer);
    for item in entries(answer) {
        let _ = (place(item), named(item, None));
    }
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A place as servers write it: a location, or a link to one.
fn place(value: &Value) -> Option<CodeLocation> {
    let uri = value.get("uri").or_else(|| value.get("targetUri"))?;
    let range = value
        .get("range")
        .or_else(|| value.get("targetSelectionRange"))
        .or_else(|| value.get("targetRange"));
    place_at(uri.as_str()?, range)
}

fn place_at(uri: &str, range: Option<&Value>) -> Option<CodeLocation> {
    let number = |key: &str| {
        let number = range?.get("start")?.get(key)?.as_u64()?;
        u32::try_from(number).ok()
    };
    Some(CodeLocation {
        path: from_uri(uri)?,
        line: number("line").map_or(0, |line| line.saturating_add(1)),
        column: number("character").unwrap_or(0),
        text: String::new(),
    })
}

/// A symbol, or an item of a call hierarchy.
fn named(item: &Value, file: Option<&Path>) -> Option<Symbol> {
    let text = |key: &str| {
        let text = item.get(key).and_then(Value::as_str)?;
        (!text.is_empty()).then(|| cut(text, 300))
    };
    let range = item.get("selectionRange").or_else(|| item.get("range"));
    let place = match (item.get("location"), item.get("uri"), file) {
        (Some(location), _, _) => place(location)?,
        (None, Some(uri), _) => place_at(uri.as_str()?, range)?,
        (None, None, Some(path)) => CodeLocation {
            path: path.to_owned(),
            ..place_at("file:///", range)?
        },
        (None, None, None) => return None,
    };
    Some(Symbol {
        name: text("name")?,
        kind: kind(item.get("kind").and_then(Value::as_u64).unwrap_or(0)),
        container: text("containerName"),
        depth: 0,
        place,
    })
}

fn read_symbols(
    value: &Value,
    file: &Path,
    depth: usize,
    container: Option<&str>,
    found: &mut Vec<Symbol>,
) {
    for item in entries(value) {
        if found.len() >= MOST_ENTRIES || depth > 20 {
            return;
        }
        let Some(mut symbol) = named(item, Some(file)) else {
            continue;
        };
        symbol.depth = depth;
        symbol.container = symbol.container.or_else(|| container.map(str::to_owned));
        let name = symbol.name.clone();
        found.push(symbol);
        if let Some(children) = item.get("children") {
            read_symbols(children, file, depth + 1, Some(&name), found);
        }
    }
}

fn hover(value: &Value) -> String {
    let one = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => {
            let text = other
                .get("value")
                .and_then(Value::as_str)
                .unwrap_or_default();
            match other.get("language").and_then(Value::as_str) {
                Some(language) => format!("```{language}\n{text}\n```"),
                None => text.to_owned(),
            }
        }
    };
    match value.get("contents") {
        None => String::new(),
        Some(Value::Array(parts)) => {
            let parts: Vec<String> = parts.iter().map(one).collect();
            parts.join("\n\n")
        }
        Some(contents) => one(contents),
    }
    .trim()
    .to_owned()
}

fn kind(number: u64) -> &'static str {
    const KINDS: [&str; 26] = [
        "file",
        "module",
        "namespace",
        "package",
        "class",
        "method",
        "property",
        "field",
        "constructor",
        "enum",
        "interface",
        "function",
        "variable",
        "constant",
        "string",
        "number",
        "boolean",
        "array",
        "object",
        "key",
        "null",
        "enum member",
        "struct",
        "event",
        "operator",
        "type parameter",
    ];
    usize::try_from(number)
        .ok()
        .and_then(|number| KINDS.get(number.checked_sub(1)?))
        .copied()
        .unwrap_or("symbol")
}

/// The lines that answers point at; each file is read once.
struct Lines {
    encoding: Encoding,
    files: HashMap<PathBuf, Vec<String>>,
}

impl Lines {
    fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            files: HashMap::new(),
        }
    }

    fn know(&mut self, path: &Path, text: &str) {
        let lines = text.lines().map(str::to_owned).collect();
        self.files.insert(path.to_owned(), lines);
    }

    /// Puts the line in, and makes a character of the offset.
    async fn fill_one(&mut self, place: &mut CodeLocation) {
        if !self.files.contains_key(&place.path) {
            // So many files aren't shown anyway; a file that can't be read has no lines.
            let text = if self.files.len() < 100 {
                read_text(&place.path).await.unwrap_or_default()
            } else {
                String::new()
            };
            self.know(&place.path.clone(), &text);
        }
        let line = self
            .files
            .get(&place.path)
            .zip(usize::try_from(place.line).ok())
            .and_then(|(lines, number)| lines.get(number.checked_sub(1)?));
        let line = line.map_or("", String::as_str);
        place.column = self.encoding.column(line, place.column);
        place.text = cut(line.trim(), LINE_CHARS);
    }

    async fn fill(&mut self, mut places: Vec<CodeLocation>) -> Vec<CodeLocation> {
        for place in &mut places {
            self.fill_one(place).await;
        }
        places
    }

    async fn fill_symbols(&mut self, mut symbols: Vec<Symbol>) -> Vec<Symbol> {
        for symbol in &mut symbols {
            self.fill_one(&mut symbol.place).await;
        }
        symbols
    }

    async fn fill_calls(&mut self, mut calls: Vec<(Symbol, Vec<u32>)>) -> Vec<(Symbol, Vec<u32>)> {
        for (symbol, _) in &mut calls {
            self.fill_one(&mut symbol.place).await;
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_in_all_forms() {
        let range =
            json!({"start": {"line": 4, "character": 2}, "end": {"line": 4, "character": 3}});
        let wanted = Some((PathBuf::from("/p/a"), 5, 2));
        for value in [
            json!({"uri": "file:///p/a", "range": range}),
            json!({"targetUri": "file:///p/a", "targetRange": {}, "targetSelectionRange": range}),
            json!({"targetUri": "file:///p/a", "targetRange": range}),
        ] {
            let found = place(&value).map(|place| (place.path, place.line, place.column));
            assert_eq!(found, wanted, "{value}");
        }
        assert_eq!(place(&json!({"uri": "jdt://x", "range": range})), None);
        assert_eq!(place(&json!({"uri": "file:///p/a"})).unwrap().line, 0);
    }

    #[test]
    fn symbols_are_read_as_a_tree_and_as_a_list() {
        let range = json!({"start": {"line": 0, "character": 0}});
        let tree = json!([{"name": "A", "kind": 5, "range": range, "selectionRange": range, "children": [
            {"name": "f", "kind": 6, "range": range, "selectionRange": range},
        ]}]);
        let mut found = Vec::new();
        read_symbols(&tree, Path::new("/p/a"), 0, None, &mut found);
        let shown: Vec<_> = found
            .iter()
            .map(|symbol| {
                (
                    symbol.name.as_str(),
                    symbol.kind,
                    symbol.depth,
                    symbol.container.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [("A", "class", 0, None), ("f", "method", 1, Some("A"))]
        );
        let list = json!([{"name": "g", "kind": 12, "containerName": "m",
            "location": {"uri": "file:///p/b", "range": range}}]);
        found.clear();
        read_symbols(&list, Path::new("/p/a"), 0, None, &mut found);
        assert_eq!(found[0].place.path, Path::new("/p/b"));
        assert_eq!(found[0].container.as_deref(), Some("m"));
    }

    #[test]
    fn explanations_are_read_in_all_forms() {
        for (contents, text) in [
            (json!("plain"), "plain"),
            (json!({"kind": "markdown", "value": "x\n"}), "x"),
            (
                json!({"language": "rust", "value": "fn a()"}),
                "```rust\nfn a()\n```",
            ),
            (
                json!(["a", {"language": "x", "value": "b"}]),
                "a\n\n```x\nb\n```",
            ),
        ] {
            assert_eq!(hover(&json!({"contents": contents})), text);
        }
        assert_eq!(hover(&Value::Null), "");
    }

    #[test]
    fn a_symbol_is_found_in_its_line_by_itself_first() {
        assert_eq!(column_of("let foobar = foo;", "foo"), Some(14));
        assert_eq!(column_of("é = foobar", "foo"), Some(5));
        assert_eq!(column_of("x", "foo"), None);
        assert_eq!(column_of("x", " "), None);
    }
}
