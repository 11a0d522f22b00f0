//! The editor beside a session in the terminal: an extension that listens on a local WebSocket and speaks MCP.
//!
//! It is the MCP server `ide` of the session, so that connecting, authorisation and reconnecting are those of every
//! server; here is what an editor is more than that. Its notifications say what the user selects and mentions
//! (`context`); changes that need permission are shown there as a diff and can be answered there (`diff`); its
//! problems and unsaved buffers are looked at around an edit (`files`). Of its tools the model sees two.

mod context;
mod control;
mod diff;
mod files;
mod locks;

pub(crate) use context::attach;
pub(crate) use control::connect_by_itself;
pub use control::{EditorControl, EditorUnknown};
pub(crate) use diff::Answering;
pub(crate) use files::editor_news;
pub use locks::RunningEditor;

use crate::conversation::ConversationShared;
use context::Shown;
use control::Search;
use files::Watched;
use lathe_mcp::{CallOptions, Manager, McpError, State as ServerState};
use lathe_protocol::event::{EditorNotice, EditorView, Event, News, NoticeLevel, Priority};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The name of the editor among the MCP servers.
pub(crate) const SERVER: &str = "ide";
/// The tools of an editor that the model is offered.
const FOR_MODEL: [&str; 2] = ["getDiagnostics", "executeCode"];
/// The protocol that extensions speak.
const PROTOCOL: &str = "2025-03-26";
/// How long an editor may take for what is asked beside a call.
const SHORT: Duration = Duration::from_secs(5);
/// How long the user may take for a diff.
const LONG: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A session's hold on the editor beside it; agents share it.
#[derive(Default)]
pub(crate) struct EditorLink {
    manager: OnceLock<Manager>,
    /// Where editors leave their files.
    folders: OnceLock<Vec<PathBuf>>,
    /// How the session finds an editor by itself, where settings agree.
    search: OnceLock<Search>,
    /// Whether a search is under way.
    searching: AtomicBool,
    /// Editors that could not be reached, by port and token: they are not tried again by themselves.
    unreachable: Mutex<HashSet<(u16, String)>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    editor: Option<RunningEditor>,
    /// Whether the connection stands.
    live: bool,
    /// Whether it ever stood.
    was_live: bool,
    /// The user's selection or open file.
    shown: Option<Shown>,
    /// The part of it that the model has seen.
    told: Option<Shown>,
    /// Files whose problems are looked at after an edit.
    watched: Vec<Watched>,
}

/// The entry of an editor among the servers.
fn entry(editor: &RunningEditor) -> Value {
    let scheme = if editor.secure { "wss" } else { "ws" };
    let mut entry = json!({
        "type": "ws", "url": format!("{scheme}://127.0.0.1:{}", editor.port),
        "protocolVersion": PROTOCOL,
    });
    if !editor.token.is_empty() {
        entry["headers"] = json!({"x-claude-code-ide-authorization": editor.token});
    }
    entry
}

/// Whether the model may see a tool of a server.
pub(crate) fn is_for_model(link: &EditorLink, server: &str, tool: &str) -> bool {
    server != SERVER || link.state.lock().editor.is_none() || FOR_MODEL.contains(&tool)
}

impl EditorLink {
    /// The editor's name, while it is connected.
    pub(crate) fn name(&self) -> Option<String> {
        let state = self.state.lock();
        let editor = state.editor.as_ref().filter(|_| state.live);
        editor.map(|editor| editor.name.clone())
    }

    fn folders(&self) -> Vec<PathBuf> {
        self.folders.get().cloned().unwrap_or_default()
    }

    fn set_folders(&self, folders: Vec<PathBuf>) {
        let _ = self.folders.set(folders);
    }

    /// The session chose an editor; `None` goes without.
    fn choose(&self, editor: Option<RunningEditor>) {
        *self.state.lock() = State {
            editor,
            ..State::default()
        };
    }

    /// The connection stands, or it doesn't any more.
    pub(crate) fn server_is(&self, shared: &Arc<ConversationShared>, state: &ServerState) {
        let live = *state == ServerState::Connected;
        let lost = {
            let now = self.state.lock();
            let given_up = matches!(state, ServerState::Failed { .. }) && now.was_live;
            now.editor.clone().filter(|_| given_up)
        };
        if let Some(editor) = lost {
            // The window of an editor that was loaded anew listens on another port.
            let name = lathe_tools::mcp_result::clean(&editor.name);
            self.give_up(editor);
            self.tell(shared);
            let text =
                format!("The connection to {name} was lost. /ide lists the running editors.");
            shared.events.news(
                News::of("editor", Priority::Medium),
                NoticeLevel::Warning,
                text,
            );
            control::search_again(shared);
            return;
        }
        {
            let mut now = self.state.lock();
            if now.editor.is_none() || now.live == live {
                return;
            }
            now.live = live;
            now.was_live |= live;
            now.shown = None;
        }
        self.tell(shared);
        if live {
            context::look(shared);
        }
    }

    /// The folders that the editor has open now; its file has those of its start.
    fn has_open(&self, folders: Vec<PathBuf>) {
        if let Some(editor) = &mut self.state.lock().editor {
            editor.folders = folders;
        }
    }

    /// An editor can't be reached: the session goes without it.
    fn give_up(&self, editor: RunningEditor) {
        self.choose(None);
        let mut unreachable = self.unreachable.lock();
        unreachable.insert((editor.port, editor.token));
    }

    /// Whether the server `ide` is an editor, which is reported on here rather than as a server.
    pub(crate) fn is_used(&self) -> bool {
        self.manager.get().is_some()
    }

    /// Tells faces what the editor shows.
    fn tell(&self, shared: &ConversationShared) {
        let view = {
            let state = self.state.lock();
            let editor = state.editor.as_ref().filter(|_| state.live);
            editor.map(|editor| EditorView {
                name: lathe_tools::mcp_result::clean(&editor.name),
                file: state
                    .shown
                    .as_ref()
                    .map(|shown| shared.tools.shown(&shown.path)),
                selected_lines: state.shown.as_ref().map_or(0, Shown::selected_lines),
            })
        };
        let notice = EditorNotice::Shows(view);
        shared.events.send(Event::Editor(notice));
    }

    /// Whether the editor is connected and has a tool.
    fn offers(&self, tool: &str) -> bool {
        let live = self.state.lock().live;
        let server = self.manager.get().filter(|_| live);
        let status = server.and_then(|manager| manager.server(SERVER));
        status.is_some_and(|status| {
            let mut tools = status.tools.iter();
            tools.any(|entry| entry.get("name").and_then(Value::as_str) == Some(tool))
        })
    }

    /// Calls a tool of the editor; the texts of its answer.
    async fn call(
        &self,
        tool: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Vec<String>, McpError> {
        let Some(manager) = self.manager.get() else {
            return Err(McpError::Unknown(SERVER.to_owned()));
        };
        let options = CallOptions {
            timeout: Some(limit),
            ..CallOptions::default()
        };
        let answer = manager.call_tool(SERVER, tool, arguments, options).await?;
        Ok(texts_of(&answer))
    }

    /// Calls a tool whose answer is JSON. An editor that doesn't have it, or fails, has no answer.
    async fn ask(&self, tool: &str, arguments: Value) -> Option<Value> {
        if !self.offers(tool) {
            return None;
        }
        let texts = self.call(tool, arguments, SHORT).await.ok()?;
        let values: Vec<Value> = texts
            .iter()
            .filter_map(|text| serde_json::from_str(text).ok())
            .collect();
        match values.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(Value::Array(values)),
        }
    }
}

/// The texts of a tool's answer.
fn texts_of(answer: &Value) -> Vec<String> {
    let content = answer.get("content").and_then(Value::as_array);
    content
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text")?.as_str().map(str::to_owned))
        .collect()
}

/// The address of a file.
fn uri_of(path: &Path) -> Option<String> {
    url::Url::from_file_path(path).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_editor_is_reached_on_this_machine_with_its_token() {
        let editor = RunningEditor {
            port: 41_000,
            name: "E".to_owned(),
            folders: Vec::new(),
            secure: false,
            token: "t".to_owned(),
        };
        assert_eq!(
            entry(&editor),
            json!({
                "type": "ws", "url": "ws://127.0.0.1:41000", "protocolVersion": "2025-03-26",
                "headers": {"x-claude-code-ide-authorization": "t"},
            })
        );
    }

    #[test]
    fn the_model_sees_two_tools_of_an_editor_and_all_of_other_servers() {
        let link = EditorLink::default();
        // A server that only has the name is none.
        assert!(is_for_model(&link, SERVER, "openDiff"));
        link.choose(Some(RunningEditor {
            port: 1,
            name: "E".to_owned(),
            folders: Vec::new(),
            secure: false,
            token: String::new(),
        }));
        assert!(!is_for_model(&link, SERVER, "openDiff"));
        assert!(is_for_model(&link, SERVER, "getDiagnostics"));
        assert!(is_for_model(&link, SERVER, "executeCode"));
        assert!(is_for_model(&link, "other", "openDiff"));
    }
}
