//! The editor around an edit: buffers that were not saved, and problems that come up.

use super::EditorLink;
use crate::conversation::Conversation;
use lathe_protocol::permission::Subject;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a file's problems are looked at after an edit: an editor needs a moment to find them.
const LOOKS: u8 = 3;
/// Files that are looked at.
const MOST_FILES: usize = 20;
/// Problems that are told at once.
const MOST_PROBLEMS: usize = 30;

/// A file that was edited.
pub(super) struct Watched {
    path: PathBuf,
    /// The problems that are known.
    known: BTreeSet<Problem>,
    looks: u8,
}

/// A problem that an editor reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    line: u64,
    severity: String,
    message: String,
}

impl Problem {
    /// The line may move with an edit; what is said there stays.
    fn is_in(&self, known: &BTreeSet<Self>) -> bool {
        known
            .iter()
            .any(|it| it.message == self.message && it.severity == self.severity)
    }
}

/// The problems in an answer of `getDiagnostics`, whichever way the editor nests them.
fn problems_in(answer: &Value, found: &mut BTreeSet<Problem>) {
    match answer {
        Value::Array(all) => all.iter().for_each(|one| problems_in(one, found)),
        Value::Object(fields) => {
            let Some(message) = fields.get("message").and_then(Value::as_str) else {
                for field in ["diagnostics", "content", "problems"] {
                    if let Some(inner) = fields.get(field) {
                        problems_in(inner, found);
                    }
                }
                return;
            };
            let line = answer
                .pointer("/range/start/line")
                .and_then(Value::as_u64)
                .map(|line| line + 1)
                .or_else(|| fields.get("line").and_then(Value::as_u64));
            found.insert(Problem {
                line: line.unwrap_or_default(),
                severity: severity(fields.get("severity")),
                message: lathe_tools::mcp_result::clean(message),
            });
        }
        _ => {}
    }
}

fn severity(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(word)) => word.to_lowercase(),
        Some(Value::Number(number)) => match number.as_u64() {
            Some(1) => "error",
            Some(2) => "warning",
            _ => "note",
        }
        .to_owned(),
        _ => "problem".to_owned(),
    }
}

impl EditorLink {
    /// The problems of a file; `None` if the editor doesn't say.
    async fn problems(&self, path: &Path) -> Option<BTreeSet<Problem>> {
        let answer = self
            .ask("getDiagnostics", json!({"uri": super::uri_of(path)?}))
            .await?;
        let mut found = BTreeSet::new();
        problems_in(&answer, &mut found);
        Some(found)
    }

    /// A file of a call that has changes in the editor which were not saved.
    pub(crate) async fn unsaved(&self, subject: &Subject) -> Option<PathBuf> {
        let Subject::Write { paths } = subject else {
            return None;
        };
        for path in paths {
            let asked = self.ask("checkDocumentDirty", json!({"filePath": path}));
            if asked.await.is_some_and(|answer| answer["isDirty"] == true) {
                return Some(path.clone());
            }
        }
        None
    }

    /// Has the editor save a file. Says whether it did.
    pub(crate) async fn save(&self, path: &Path) -> bool {
        let answer = self.ask("saveDocument", json!({"filePath": path})).await;
        answer.is_some_and(|answer| answer["success"] != false)
    }

    /// An edit is about to be made: what is wrong with the file already is no news.
    pub(crate) async fn before_edit(&self, subject: &Subject) {
        let Subject::Write { paths } = subject else {
            return;
        };
        for path in paths {
            let known = self.state.lock().watched.iter().any(|it| it.path == *path);
            let problems = if known {
                None
            } else {
                self.problems(path).await
            };
            let mut state = self.state.lock();
            let place = state.watched.iter().position(|it| it.path == *path);
            match (place.and_then(|at| state.watched.get_mut(at)), problems) {
                (Some(watched), _) => watched.looks = LOOKS,
                (None, Some(known)) => {
                    if state.watched.len() == MOST_FILES {
                        state.watched.remove(0);
                    }
                    state.watched.push(Watched {
                        path: path.clone(),
                        known,
                        looks: LOOKS,
                    });
                }
                (None, None) => {}
            }
        }
    }

    /// Problems that came up since the edits, once each, by file.
    async fn news(&self) -> Vec<(PathBuf, Vec<Problem>)> {
        let watched: Vec<PathBuf> = {
            let mut state = self.state.lock();
            for one in &mut state.watched {
                one.looks = one.looks.saturating_sub(1);
            }
            state.watched.iter().map(|it| it.path.clone()).collect()
        };
        let mut news = Vec::new();
        for path in watched {
            let now = self.problems(&path).await;
            let mut state = self.state.lock();
            let Some(at) = state.watched.iter().position(|it| it.path == path) else {
                continue;
            };
            if let (Some(now), Some(watched)) = (now, state.watched.get_mut(at)) {
                let new: Vec<Problem> = now
                    .iter()
                    .filter(|problem| !problem.is_in(&watched.known))
                    .cloned()
                    .collect();
                watched.known.extend(now);
                if !new.is_empty() {
                    news.push((path.clone(), new));
                }
            }
            state.watched.retain(|it| it.looks > 0);
        }
        news
    }
}

/// Problems that the editor reports since the last edits, for the model.
pub(crate) async fn editor_news(conversation: &Conversation) -> Option<String> {
    let shared = &conversation.shared;
    let link: &Arc<EditorLink> = &shared.integrations.editor;
    let editor = link.name()?;
    let news = link.news().await;
    if news.is_empty() {
        return None;
    }
    let editor = lathe_tools::mcp_result::clean(&editor);
    let mut text = format!("{editor} reports new problems since your last edit:");
    let mut left = MOST_PROBLEMS;
    for (path, problems) in &news {
        for problem in problems.iter().take(left) {
            let place = shared.tools.shown(path);
            text.push_str(&format!(
                "\n- {place}:{}: {}: {}",
                problem.line, problem.severity, problem.message
            ));
        }
        left = left.saturating_sub(problems.len());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_read_in_both_shapes() {
        let mut found = BTreeSet::new();
        let nested = json!([{"uri": "file:///w/a.rs", "diagnostics": [
            {"message": "no such name", "severity": "Error", "range": {"start": {"line": 4, "character": 0}}}]}]);
        problems_in(&nested, &mut found);
        problems_in(
            &json!({"filePath": "/w/a.rs", "line": 7, "severity": 2, "message": "unused"}),
            &mut found,
        );
        let all: Vec<(u64, &str, &str)> = found
            .iter()
            .map(|it| (it.line, it.severity.as_str(), it.message.as_str()))
            .collect();
        assert_eq!(
            all,
            [(5, "error", "no such name"), (7, "warning", "unused")]
        );
        // The same words on another line are the same problem.
        let moved = Problem {
            line: 9,
            severity: "error".to_owned(),
            message: "no such name".to_owned(),
        };
        assert!(moved.is_in(&found));
    }
}
