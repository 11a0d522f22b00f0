//! Notifications and requests from a server.
//!
//! Servers ask for their configuration, announce what else they can do, tell how far they are with reading
//! the project, and report problems. None of that blocks: it is stored here, and tasks that wait for a
//! change are woken.

use crate::connection::{METHOD_NOT_FOUND, Receiver};
use crate::diagnostics::{Problem, read_list};
use crate::limits::FILES_WITH_PROBLEMS;
use crate::position::from_uri;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The most pieces of work that are followed.
const PIECES_OF_WORK: usize = 200;

/// The state that a server's messages have built up.
pub(crate) struct Inbox {
    settings: Option<Value>,
    folders: Value,
    state: Mutex<State>,
    /// Counts what changed.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Problems that it pushed.
    pushed: HashMap<PathBuf, Published>,
    /// Problems that were pulled.
    pulled: HashMap<PathBuf, Vec<Problem>>,
    /// The newest problems of a few files as they were written: code actions are asked for with them.
    written: HashMap<PathBuf, Vec<Value>>,
    /// Capabilities registered after initialisation: ids and methods.
    registered: HashMap<String, String>,
    /// Tokens of work in progress.
    work: HashSet<String>,
    /// True once it has reported work.
    has_worked: bool,
    /// How often it asked for problems to be pulled again.
    refreshes: u64,
    /// Incremented with every report.
    sequence: u64,
}

/// Of how many files problems are kept as they were written, and how many of each.
const WRITTEN_FILES: usize = 32;
const WRITTEN_PROBLEMS: usize = 200;

struct Published {
    problems: Vec<Problem>,
    version: Option<i64>,
    sequence: u64,
}

impl Inbox {
    pub(crate) fn new(settings: Option<Value>, folders: Value) -> Self {
        Self {
            settings,
            folders,
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Wakes whenever something changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether the server is still at work on something that it told of.
    pub(crate) fn is_busy(&self) -> bool {
        !self.state.lock().work.is_empty()
    }

    /// Whether it tells something by itself: of work, or of problems.
    pub(crate) fn speaks(&self) -> bool {
        let state = self.state.lock();
        state.has_worked || state.sequence > 0
    }

    /// Whether it announced that it can do something.
    pub(crate) fn has_registered(&self, method: &str) -> bool {
        self.state
            .lock()
            .registered
            .values()
            .any(|registered| registered == method)
    }

    /// How often it asked for problems to be pulled again.
    pub(crate) fn refreshes(&self) -> u64 {
        self.state.lock().refreshes
    }

    /// A mark in the sequence of reports.
    pub(crate) fn mark(&self) -> u64 {
        self.state.lock().sequence
    }

    /// Whether a file was reported after the mark, in this version of it or a later one.
    pub(crate) fn was_reported(&self, path: &Path, mark: u64, version: i64) -> bool {
        self.state.lock().pushed.get(path).is_some_and(|published| {
            published.sequence > mark && published.version.is_none_or(|known| known >= version)
        })
    }

    /// Keeps what the server answered about a file.
    pub(crate) fn keep_answer(&self, path: PathBuf, problems: Vec<Problem>) {
        let mut state = self.state.lock();
        if state.pulled.len() < FILES_WITH_PROBLEMS || state.pulled.contains_key(&path) {
            state.pulled.insert(path, problems);
        }
    }

    /// Keeps problems as they were written.
    pub(crate) fn keep_written(&self, path: &Path, problems: &Value) {
        let problems = problems.as_array().map(Vec::as_slice).unwrap_or_default();
        let problems = problems.iter().take(WRITTEN_PROBLEMS).cloned().collect();
        let mut state = self.state.lock();
        if state.written.len() >= WRITTEN_FILES && !state.written.contains_key(path) {
            state.written.clear();
        }
        state.written.insert(path.to_owned(), problems);
    }

    /// The problems of a file as they were written.
    pub(crate) fn written(&self, path: &Path) -> Vec<Value> {
        let state = self.state.lock();
        state.written.get(path).cloned().unwrap_or_default()
    }

    /// The problems of a file without duplicates.
    pub(crate) fn problems(&self, path: &Path) -> Vec<Problem> {
        let state = self.state.lock();
        let mut problems = state.pulled.get(path).cloned().unwrap_or_default();
        let pushed = state.pushed.get(path).map(|published| &published.problems);
        for problem in pushed.into_iter().flatten() {
            if !problems.contains(problem) {
                problems.push(problem.clone());
            }
        }
        problems
    }

    /// Forgets a file that isn't there any more.
    pub(crate) fn forget(&self, path: &Path) {
        let mut state = self.state.lock();
        state.pulled.remove(path);
        state.pushed.remove(path);
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn published(&self, params: &Value) {
        let Some(path) = params.get("uri").and_then(Value::as_str).and_then(from_uri) else {
            return;
        };
        let list = params.get("diagnostics").unwrap_or(&Value::Null);
        self.keep_written(&path, list);
        let problems = read_list(list);
        let mut state = self.state.lock();
        state.sequence += 1;
        let published = Published {
            problems,
            version: params.get("version").and_then(Value::as_i64),
            sequence: state.sequence,
        };
        if state.pushed.len() < FILES_WITH_PROBLEMS || state.pushed.contains_key(&path) {
            state.pushed.insert(path, published);
        }
        drop(state);
        self.changed();
    }

    fn progressed(&self, params: &Value) {
        let Some(token) = params.get("token") else {
            return;
        };
        let token = token.to_string();
        let mut state = self.state.lock();
        match params.pointer("/value/kind").and_then(Value::as_str) {
            Some("begin") if state.work.len() < PIECES_OF_WORK => {
                state.has_worked = true;
                state.work.insert(token);
            }
            Some("end") => {
                state.work.remove(&token);
            }
            _ => return,
        }
        drop(state);
        self.changed();
    }

    fn register(&self, params: &Value) {
        let mut state = self.state.lock();
        let list = params.get("registrations").and_then(Value::as_array);
        for entry in list.into_iter().flatten().take(1000) {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            if let (Some(id), Some(method)) = (text("id"), text("method")) {
                state.registered.insert(id, method);
            }
        }
        drop(state);
        self.changed();
    }

    fn unregister(&self, params: &Value) {
        let mut state = self.state.lock();
        // The protocol's own spelling.
        let list = params.get("unregisterations").and_then(Value::as_array);
        for entry in list.into_iter().flatten() {
            if let Some(id) = entry.get("id").and_then(Value::as_str) {
                state.registered.remove(id);
            }
        }
    }

    /// The configured value of each section that the server asks for.
    fn configuration(&self, params: &Value) -> Value {
        let items = params.get("items").and_then(Value::as_array);
        let answers = items.into_iter().flatten().map(|item| {
            let Some(settings) = &self.settings else {
                return Value::Null;
            };
            match item.get("section").and_then(Value::as_str) {
                None | Some("") => settings.clone(),
                Some(section) => section_of(settings, section),
            }
        });
        Value::Array(answers.collect())
    }
}

/// A section of settings: written as one key (`"python.analysis": {}`) or as nested ones.
fn section_of(settings: &Value, section: &str) -> Value {
    if let Some(found) = settings.get(section) {
        return found.clone();
    }
    section
        .split('.')
        .try_fold(settings, |value, step| value.get(step))
        .cloned()
        .unwrap_or_default()
}

impl Receiver for Inbox {
    fn notified(&self, method: &str, params: Value) {
        match method {
            "textDocument/publishDiagnostics" => self.published(&params),
            "$/progress" => self.progressed(&params),
            "window/logMessage" | "window/showMessage" => {
                let text = params.get("message").and_then(Value::as_str);
                let text: String = text.unwrap_or_default().chars().take(500).collect();
                tracing::debug!(text, "a language server says");
            }
            _ => {}
        }
    }

    fn asked(&self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        match method {
            "workspace/configuration" => Ok(self.configuration(&params)),
            "client/registerCapability" => {
                self.register(&params);
                Ok(Value::Null)
            }
            "client/unregisterCapability" => {
                self.unregister(&params);
                Ok(Value::Null)
            }
            "window/workDoneProgress/create" | "window/showMessageRequest" => Ok(Value::Null),
            "workspace/workspaceFolders" => Ok(self.folders.clone()),
            "workspace/applyEdit" => Ok(json!({
                "applied": false,
                "failureReason": "this client changes files only by its own tools",
            })),
            "window/showDocument" => Ok(json!({"success": false})),
            "workspace/diagnostic/refresh" => {
                self.state.lock().refreshes += 1;
                self.changed();
                Ok(Value::Null)
            }
            "workspace/semanticTokens/refresh"
            | "workspace/inlayHint/refresh"
            | "workspace/inlineValue/refresh"
            | "workspace/codeLens/refresh"
            | "workspace/foldingRange/refresh" => Ok(Value::Null),
            other => Err((
                METHOD_NOT_FOUND,
                format!("{} is not supported", crate::diagnostics::cut(other, 100)),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_answered_whatever_it_asks() {
        let settings = json!({"python": {"analysis": {"mode": "strict"}}, "a.b": 1});
        let inbox = Inbox::new(Some(settings), json!([{"uri": "file:///p", "name": "p"}]));
        let items = json!({"items": [
            {"section": "python.analysis"}, {"section": "a.b"}, {"section": "none.such"}, {"scopeUri": "x"},
        ]});
        let answer = inbox.asked("workspace/configuration", items).unwrap();
        assert_eq!(answer[0]["mode"], "strict");
        assert_eq!(answer[1], 1);
        assert_eq!(answer[2], Value::Null);
        assert_eq!(answer[3]["a.b"], 1);
        let refused = inbox
            .asked("workspace/applyEdit", json!({"edit": {}}))
            .unwrap();
        assert_eq!(refused["applied"], false);
        assert_eq!(
            inbox
                .asked("workspace/workspaceFolders", Value::Null)
                .unwrap()[0]["name"],
            "p"
        );
        assert_eq!(
            inbox.asked("no/such", Value::Null).unwrap_err().0,
            METHOD_NOT_FOUND
        );
        inbox
            .asked(
                "client/registerCapability",
                json!({"registrations": [{"id": "1", "method": "textDocument/hover"}]}),
            )
            .unwrap();
        assert!(inbox.has_registered("textDocument/hover"));
        inbox
            .asked(
                "client/unregisterCapability",
                json!({"unregisterations": [{"id": "1"}]}),
            )
            .unwrap();
        assert!(!inbox.has_registered("textDocument/hover"));
    }

    #[test]
    fn work_is_followed_from_its_beginning_to_its_end() {
        let inbox = Inbox::new(None, Value::Null);
        let say = |token: Value, kind: &str| {
            inbox.notified(
                "$/progress",
                json!({"token": token, "value": {"kind": kind}}),
            );
        };
        say(json!(1), "begin");
        say(json!("1"), "begin");
        say(json!(1), "end");
        assert!(inbox.is_busy());
        say(json!("1"), "end");
        assert!(!inbox.is_busy());
    }

    #[test]
    fn a_report_of_an_older_version_is_not_the_one_that_is_waited_for() {
        let inbox = Inbox::new(None, Value::Null);
        let path = Path::new("/p/a.py");
        let report = |version: Value| {
            inbox.notified(
                "textDocument/publishDiagnostics",
                json!({"uri": "file:///p/a.py", "version": version, "diagnostics": [
                    {"range": {"start": {"line": 0, "character": 0}}, "message": "m"},
                ]}),
            );
        };
        let mark = inbox.mark();
        report(json!(1));
        assert!(!inbox.was_reported(path, mark, 2));
        report(json!(2));
        assert!(inbox.was_reported(path, mark, 2));
        assert!(!inbox.was_reported(path, inbox.mark(), 2));
        let mark = inbox.mark();
        report(Value::Null);
        assert!(
            inbox.was_reported(path, mark, 7),
            "a server without versions"
        );
        assert_eq!(inbox.problems(path).len(), 1);
        inbox.keep_answer(path.to_owned(), inbox.problems(path));
        assert_eq!(inbox.problems(path).len(), 1, "each thing once");
    }
}
