//! Edits that servers work out: a rename, a code action, the replacement of a symbol.
//!
//! Nothing is changed here. An edit becomes the whole new text of each file that it touches, so that someone can judge
//! and show it first. An edit that creates, renames or deletes files is refused as a whole.

use crate::error::LspError;
use crate::limits::{CHECK, INDEXING};
use crate::manager::LanguageServers;
use crate::position::{Encoding, from_uri, to_uri};
use crate::query::{Operation, Question};
use crate::server::{Server, read_text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// The most files of one edit.
const MOST_FILES: usize = 500;
/// The most bytes of all files of one edit.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// The most code actions that are read.
const MOST_ACTIONS: usize = 100;

/// An edit to work out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditOrder {
    /// Gives the symbol at a place another name, wherever it is used.
    Rename {
        /// The new name.
        new_name: String,
    },
    /// Does the code action of this title.
    CodeAction {
        /// The title.
        title: String,
    },
    /// Replaces the whole definition of a symbol.
    ReplaceSymbol {
        /// The symbol, with those that contain it before it: `Class.method`.
        symbol: String,
        /// The new text.
        text: String,
    },
}

impl EditOrder {
    /// The question that servers must be able to answer for it.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Rename { .. } => Operation::Rename,
            Self::CodeAction { .. } => Operation::CodeActions,
            Self::ReplaceSymbol { .. } => Operation::DocumentSymbol,
        }
    }
}

/// The change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// Its text now.
    pub before: String,
    /// Its text afterwards.
    pub after: String,
}

/// A code action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeAction {
    /// Its title.
    pub title: String,
    /// Its kind, such as `quickfix`.
    pub kind: String,
    /// Why it can't be done here, if so.
    pub refused: Option<String>,
}

impl LanguageServers {
    /// Works out an edit for the place of a question. The first server that can answer does.
    ///
    /// # Errors
    /// When none can, or the edit is one that is not made.
    pub async fn edit(
        &self,
        question: &Question,
        order: &EditOrder,
        cancel: &CancellationToken,
    ) -> Result<Vec<FileChange>, LspError> {
        let mut failure = None;
        for slot in self.inner.slots_of(&question.path) {
            let server = tokio::select! {
                server = slot.server() => server,
                () = cancel.cancelled() => return Err(LspError::Cancelled),
            };
            let result = match server {
                Ok(server) if question.operation.is_known_to(&server) => {
                    server.edit(question, order, cancel).await
                }
                Ok(_) => Err(LspError::Unsupported {
                    name: slot.config.name.clone(),
                    operation: question.operation.name().to_owned(),
                }),
                Err(error) => Err(error),
            };
            match result {
                Ok(changes) => return Ok(changes),
                Err(error @ (LspError::Question(_) | LspError::Cancelled)) => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        Err(failure.unwrap_or_else(|| self.no_server(&question.path)))
    }
}

impl Server {
    async fn edit(
        &self,
        question: &Question,
        order: &EditOrder,
        cancel: &CancellationToken,
    ) -> Result<Vec<FileChange>, LspError> {
        let shown = self.show(&question.path).await?;
        self.show_changes().await;
        self.idle(INDEXING, cancel).await;
        let document = json!({"uri": to_uri(&question.path)});
        match order {
            EditOrder::Rename { new_name } => {
                // A server that has not looked at the project yet would leave out its other files.
                self.judged(&question.path, &shown, CHECK, cancel).await;
                let params = json!({
                    "textDocument": document,
                    "position": self.position(question, &shown)?,
                    "newName": new_name,
                });
                let answer = self.ask("textDocument/rename", &params, cancel).await?;
                if answer.is_null() {
                    return Err(LspError::Question(
                        "nothing can be renamed there; the place must be that of a symbol's name"
                            .to_owned(),
                    ));
                }
                self.changes(&answer).await
            }
            EditOrder::CodeAction { title } => {
                let actions = self.actions(question, cancel).await?;
                let found = actions
                    .iter()
                    .find(|action| text_of(action, "title").trim() == title.trim());
                let Some(action) = found else {
                    let titles = actions.iter().map(|action| text_of(action, "title"));
                    return Err(LspError::Question(format!(
                        "there is no code action {title:?} in this line; there are: {}",
                        titles.collect::<Vec<_>>().join("; ")
                    )));
                };
                let refused =
                    |reason| LspError::Question(format!("{title:?} is not done: {reason}"));
                if let Some(reason) = refusal(action, self.resolves()) {
                    return Err(refused(reason));
                }
                let action = self.resolved(action, cancel).await?;
                if let Some(reason) = refusal(&action, false) {
                    return Err(refused(reason));
                }
                self.changes(&action["edit"]).await
            }
            EditOrder::ReplaceSymbol { symbol, text } => {
                let params = json!({"textDocument": document});
                let symbols = self
                    .ask("textDocument/documentSymbol", &params, cancel)
                    .await?;
                let range = find_symbol(&symbols, symbol, question.line)?;
                let edit = TextEdit {
                    start: position(&range["start"]),
                    end: position(&range["end"]),
                    text: text.clone(),
                };
                let before = shown.text;
                let edit = fitted(edit, &before, self.encoding);
                let after = applied(&before, vec![edit], self.encoding, &question.path)?;
                let path = question.path.clone();
                Ok(vec![FileChange {
                    path,
                    before,
                    after,
                }])
            }
        }
    }

    /// The code actions for the line of a question, as the server gives them.
    async fn actions(
        &self,
        question: &Question,
        cancel: &CancellationToken,
    ) -> Result<Vec<Value>, LspError> {
        let shown = self.show(&question.path).await?;
        let Some(number) = question.line.filter(|line| *line > 0) else {
            return Err(LspError::Question(
                "codeActions needs \"line\", counted from 1".to_owned(),
            ));
        };
        // Fixes are for problems: those of the line go with the question.
        self.judged(&question.path, &shown, CHECK, cancel).await;
        let line = number - 1;
        let of_line = usize::try_from(line).unwrap_or(usize::MAX);
        let length = shown.text.lines().nth(of_line).map_or(0, |line| {
            let characters = u32::try_from(line.chars().count()).unwrap_or(u32::MAX);
            self.encoding.offset(line, characters.saturating_add(1))
        });
        let reports = self.written(&question.path);
        let touches = |report: &&Value| {
            let at = |end: &str| report["range"][end]["line"].as_u64();
            let (Some(start), Some(end)) = (at("start"), at("end")) else {
                return false;
            };
            (start..=end).contains(&u64::from(line))
        };
        let reports: Vec<Value> = reports.iter().filter(touches).cloned().collect();
        let start = match (question.character, &question.query) {
            (None, None) => json!({"line": line, "character": 0}),
            _ => self.position(question, &shown)?,
        };
        let end = match (question.character, &question.query) {
            (None, None) => json!({"line": line, "character": length}),
            _ => start.clone(),
        };
        let params = json!({
            "textDocument": {"uri": to_uri(&question.path)},
            "range": {"start": start, "end": end},
            "context": {"diagnostics": reports, "triggerKind": 1},
        });
        let answer = self.ask("textDocument/codeAction", &params, cancel).await?;
        let actions = answer.as_array().cloned().unwrap_or_default();
        Ok(actions.into_iter().take(MOST_ACTIONS).collect())
    }

    /// The code actions for the line of a question.
    pub(crate) async fn list_actions(
        &self,
        question: &Question,
        cancel: &CancellationToken,
    ) -> Result<Vec<CodeAction>, LspError> {
        let actions = self.actions(question, cancel).await?;
        Ok(actions
            .iter()
            .map(|action| CodeAction {
                title: text_of(action, "title"),
                kind: text_of(action, "kind"),
                refused: refusal(action, self.resolves()),
            })
            .filter(|action| !action.title.is_empty())
            .collect())
    }

    /// Whether edits of code actions may come with a second question.
    fn resolves(&self) -> bool {
        self.capability("/codeActionProvider/resolveProvider") == Some(&Value::Bool(true))
    }

    async fn resolved(
        &self,
        action: &Value,
        cancel: &CancellationToken,
    ) -> Result<Value, LspError> {
        if action.get("edit").is_some() || !self.resolves() {
            return Ok(action.clone());
        }
        self.ask("codeAction/resolve", action, cancel).await
    }

    /// The files that a workspace edit changes, with their texts.
    async fn changes(&self, edit: &Value) -> Result<Vec<FileChange>, LspError> {
        let files = read_edit(edit)?;
        let mut changes = Vec::with_capacity(files.len());
        let mut bytes = 0;
        for (path, edits) in files {
            let wrong = |error: &dyn std::fmt::Display| LspError::Question(error.to_string());
            let before = read_text(&path).await.map_err(|error| wrong(&error))?;
            let after = applied(&before, edits, self.encoding, &path)?;
            bytes += before.len() + after.len();
            if bytes > MOST_BYTES {
                return Err(LspError::Question(
                    "the edit is too large; nothing was changed".to_owned(),
                ));
            }
            if before != after {
                changes.push(FileChange {
                    path,
                    before,
                    after,
                });
            }
        }
        Ok(changes)
    }
}

fn text_of(value: &Value, key: &str) -> String {
    let text = value.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Why a code action is not done.
fn refusal(action: &Value, may_come_later: bool) -> Option<String> {
    if let Some(disabled) = action.get("disabled") {
        return Some(text_of(disabled, "reason"));
    }
    let commands = action
        .get("command")
        .is_some_and(|command| !command.is_null());
    match action.get("edit") {
        Some(edit) if edit.is_object() => read_edit(edit).err().map(|error| error.to_string()),
        _ if may_come_later && action.get("data").is_some() => None,
        _ if commands => Some("it runs a command of the server instead of an edit".to_owned()),
        _ if may_come_later => None,
        _ => Some("the server gives no edit for it".to_owned()),
    }
}

/// A place in the server's units.
type Position = (u32, u32);

/// A change of a part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextEdit {
    start: Position,
    end: Position,
    text: String,
}

fn position(value: &Value) -> Position {
    let number = |key: &str| {
        let number = value.get(key).and_then(Value::as_u64).unwrap_or(0);
        u32::try_from(number).unwrap_or(u32::MAX)
    };
    (number("line"), number("character"))
}

/// The edits of each file.
type Edits = BTreeMap<PathBuf, Vec<TextEdit>>;

/// Reads a workspace edit in either of its two forms.
pub(crate) fn read_edit(edit: &Value) -> Result<Edits, LspError> {
    let mut files = Edits::new();
    let mut add = |uri: &str, edits: &Value| {
        let Some(path) = from_uri(uri) else {
            return Err(LspError::Question(format!(
                "the edit is about {uri}, which is no file; nothing was changed"
            )));
        };
        let edits = edits.as_array().map(Vec::as_slice).unwrap_or_default();
        let edits = edits.iter().map(|edit| TextEdit {
            start: position(&edit["range"]["start"]),
            end: position(&edit["range"]["end"]),
            text: text_of(edit, "newText"),
        });
        files.entry(path).or_default().extend(edits);
        Ok(())
    };
    if let Some(changes) = edit.get("documentChanges").and_then(Value::as_array) {
        for change in changes {
            if let Some(kind) = change.get("kind").and_then(Value::as_str) {
                let name = ["uri", "oldUri"].map(|key| text_of(change, key)).concat();
                return Err(LspError::Question(format!(
                    "the edit would also {kind} the file {name}, which is not done this way; nothing was changed. \
                     Do it with other tools"
                )));
            }
            let uri = text_of(&change["textDocument"], "uri");
            add(&uri, &change["edits"])?;
        }
    } else if let Some(changes) = edit.get("changes").and_then(Value::as_object) {
        for (uri, edits) in changes {
            add(uri, edits)?;
        }
    }
    if files.len() > MOST_FILES {
        return Err(LspError::Question(format!(
            "the edit would change {} files; nothing was changed",
            files.len()
        )));
    }
    Ok(files)
}

/// A text with edits made to it.
pub(crate) fn applied(
    text: &str,
    mut edits: Vec<TextEdit>,
    encoding: Encoding,
    path: &Path,
) -> Result<String, LspError> {
    edits.sort_by_key(|edit| edit.start);
    let lines = line_starts(text);
    let mut after = String::with_capacity(text.len());
    let mut done = 0;
    for edit in edits {
        let start = byte_at(text, &lines, edit.start, encoding);
        let end = byte_at(text, &lines, edit.end, encoding);
        if start < done || end < start {
            return Err(LspError::Question(format!(
                "the server's edits of {} overlap; nothing was changed",
                path.display()
            )));
        }
        after.push_str(text.get(done..start).unwrap_or_default());
        after.push_str(&edit.text);
        done = end;
    }
    after.push_str(text.get(done..).unwrap_or_default());
    Ok(after)
}

fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(breaks).collect()
}

/// The byte at a place. Behind the end of a line is its end, behind the last line the end of the text.
fn byte_at(text: &str, lines: &[usize], (line, character): Position, encoding: Encoding) -> usize {
    let number = usize::try_from(line).unwrap_or(usize::MAX);
    let Some(&start) = lines.get(number) else {
        return text.len();
    };
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let column = encoding.column(line, character);
    let before = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    let bytes: usize = line.chars().take(before).map(char::len_utf8).sum();
    start + bytes
}

/// The range of a symbol by its name, with the names of what contains it before it.
fn find_symbol(symbols: &Value, wanted: &str, line: Option<u32>) -> Result<Value, LspError> {
    let mut all = Vec::new();
    collect(symbols, "", 0, &mut all);
    let wanted = wanted.trim();
    let fits = |name: &str| name == wanted || name.ends_with(&format!(".{wanted}"));
    let mut found: Vec<&(String, Value)> = all.iter().filter(|(name, _)| fits(name)).collect();
    if let (true, Some(line)) = (found.len() > 1, line) {
        let inside = |range: &Value| {
            let at = |end: &str| range[end]["line"].as_u64().unwrap_or(0) + 1;
            (at("start")..=at("end")).contains(&u64::from(line))
        };
        found.retain(|(_, range)| inside(range));
    }
    match found.as_slice() {
        [(_, range)] => Ok(range.clone()),
        [] => {
            let names: Vec<&str> = all.iter().take(50).map(|(name, _)| name.as_str()).collect();
            Err(LspError::Question(format!(
                "the file has no symbol {wanted:?}; it has: {}",
                names.join(", ")
            )))
        }
        several => {
            let lines = several.iter().map(|(name, range)| {
                let line = range["start"]["line"].as_u64().unwrap_or(0) + 1;
                format!("{name} in line {line}")
            });
            Err(LspError::Question(format!(
                "{wanted:?} is not the only one: {}; give its line too",
                lines.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

fn collect(symbols: &Value, container: &str, depth: usize, found: &mut Vec<(String, Value)>) {
    for symbol in symbols.as_array().map(Vec::as_slice).unwrap_or_default() {
        if depth > 20 || found.len() > 10_000 {
            return;
        }
        let flat = text_of(symbol, "containerName");
        let above = if container.is_empty() {
            &flat
        } else {
            container
        };
        let name = text_of(symbol, "name");
        let name = if above.is_empty() {
            name
        } else {
            format!("{above}.{name}")
        };
        let range = symbol
            .get("range")
            .or_else(|| symbol.pointer("/location/range"));
        if let Some(range) = range {
            found.push((name.clone(), range.clone()));
        }
        if let Some(children) = symbol.get("children") {
            collect(children, &name, depth + 1, found);
        }
    }
}

/// A definition as it stands in its place: without the indentation before it and the line end behind it, which stay.
fn fitted(mut edit: TextEdit, text: &str, encoding: Encoding) -> TextEdit {
    let lines = line_starts(text);
    let start = byte_at(text, &lines, edit.start, encoding);
    let line_start = usize::try_from(edit.start.0)
        .ok()
        .and_then(|line| lines.get(line).copied())
        .unwrap_or(start);
    let indentation = text.get(line_start..start).unwrap_or_default();
    if indentation.chars().all(char::is_whitespace)
        && let Some(rest) = edit.text.strip_prefix(indentation)
    {
        edit.text = rest.to_owned();
    }
    let end = byte_at(text, &lines, edit.end, encoding);
    let goes_on = text.get(end..).unwrap_or_default();
    if goes_on.starts_with(['\n', '\r']) || goes_on.is_empty() && !text.ends_with('\n') {
        edit.text
            .truncate(edit.text.trim_end_matches(['\n', '\r']).len());
    }
    edit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(start: Position, end: Position, text: &str) -> TextEdit {
        TextEdit {
            start,
            end,
            text: text.to_owned(),
        }
    }

    #[test]
    fn edits_are_made_in_the_servers_units_and_never_over_each_other() {
        let text = "é😀 = old\r\nold\n";
        let path = Path::new("/p/a");
        for (encoding, from) in [
            (Encoding::Utf8, 9),
            (Encoding::Utf16, 6),
            (Encoding::Utf32, 5),
        ] {
            let edits = vec![
                edit((1, 0), (1, 3), "new"),
                edit((0, from), (0, from + 3), "new"),
            ];
            let after = applied(text, edits, encoding, path).unwrap();
            assert_eq!(after, "é😀 = new\r\nnew\n", "{encoding:?}");
        }
        let clash = vec![edit((1, 0), (1, 2), "x"), edit((1, 1), (1, 3), "y")];
        assert!(applied(text, clash, Encoding::Utf8, path).is_err());
        let wild = vec![edit((7, 9), (u32::MAX, 0), "end")];
        assert_eq!(
            applied("a\n", wild, Encoding::Utf8, path).unwrap(),
            "a\nend"
        );
        let backwards = vec![edit((1, 2), (0, 0), "x")];
        assert!(applied(text, backwards, Encoding::Utf8, path).is_err());
        let inserts = vec![edit((0, 0), (0, 0), "1"), edit((0, 0), (0, 0), "2")];
        assert_eq!(applied("x", inserts, Encoding::Utf8, path).unwrap(), "12x");
    }

    #[test]
    fn an_edit_with_file_operations_or_other_addresses_is_refused_whole() {
        let range =
            json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
        let edits = json!([{"range": range, "newText": "x"}]);
        let fine = json!({"changes": {"file:///p/a": edits}});
        assert_eq!(read_edit(&fine).unwrap().len(), 1);
        let document =
            json!({"textDocument": {"uri": "file:///p/a", "version": null}, "edits": edits});
        let fine = json!({"documentChanges": [document], "changes": {"file:///p/b": edits}});
        let files: Vec<PathBuf> = read_edit(&fine).unwrap().into_keys().collect();
        assert_eq!(files, [PathBuf::from("/p/a")]);
        for operation in [
            json!({"kind": "create", "uri": "file:///p/new"}),
            json!({"kind": "rename", "oldUri": "file:///p/a", "newUri": "file:///p/b"}),
            json!({"kind": "delete", "uri": "file:///p/a"}),
        ] {
            let edit = json!({"documentChanges": [document, operation]});
            let error = read_edit(&edit).unwrap_err().to_string();
            assert!(error.contains("nothing was changed"), "{error}");
        }
        let elsewhere = json!({"changes": {"jdt://x": edits}});
        assert!(read_edit(&elsewhere).is_err());
        for odd in [
            json!(null),
            json!([1]),
            json!({"changes": 7}),
            json!({"documentChanges": [3]}),
        ] {
            let _ = read_edit(&odd);
        }
    }

    #[test]
    fn a_symbol_is_found_by_its_path() {
        let range = |line: u32| json!({"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 3}});
        let tree = json!([
            {"name": "A", "range": range(0), "children": [{"name": "f", "range": range(1)}]},
            {"name": "B", "range": range(5), "children": [{"name": "f", "range": range(6)}]},
        ]);
        let start = |symbol: &str, line: Option<u32>| {
            find_symbol(&tree, symbol, line).map(|range| range["start"]["line"].clone())
        };
        assert_eq!(start("A.f", None).unwrap(), 1);
        assert_eq!(start("f", Some(7)).unwrap(), 6);
        let error = start("f", None).unwrap_err().to_string();
        assert!(error.contains("A.f in line 2"), "{error}");
        let error = start("g", None).unwrap_err().to_string();
        assert!(error.contains("A, A.f, B, B.f"), "{error}");
        let flat = json!([{"name": "f", "containerName": "A", "location": {"uri": "file:///p/a", "range": range(1)}}]);
        assert!(find_symbol(&flat, "A.f", None).is_ok());
    }

    #[test]
    fn a_definition_keeps_its_place() {
        let text = "class A:\n    def f(self):\n        pass\n\nx = 1\n";
        let replace = edit((1, 4), (2, 12), "    def f(self):\n        return 1\n");
        let fitted = fitted(replace, text, Encoding::Utf8);
        let after = applied(text, vec![fitted], Encoding::Utf8, Path::new("/p/a")).unwrap();
        assert_eq!(
            after,
            "class A:\n    def f(self):\n        return 1\n\nx = 1\n"
        );
    }
}
