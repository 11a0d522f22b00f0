//! An editor's extension, as editors have them: a WebSocket server that speaks MCP, and the file that names it.

use futures::{SinkExt as _, StreamExt as _};
use lathe_testkit::TestHome;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;

/// How long something may take before it counts as never happening. Generous: machines differ.
const LIMIT: Duration = Duration::from_secs(120);
const TOKEN: &str = "a-token-of-the-editor";

/// The state of the editor, and the requests that it got.
#[derive(Default)]
pub(crate) struct Seen {
    /// Calls of tools: the name and the arguments.
    pub(crate) calls: Vec<(String, Value)>,
    /// Notifications of the client.
    pub(crate) notifications: Vec<(String, Value)>,
    pub(crate) connections: usize,
    pub(crate) protocol: Option<Value>,
    /// Buffers that were not saved: path and text.
    pub(crate) unsaved: HashMap<PathBuf, String>,
    /// Folders that it has open by now.
    pub(crate) opened_since: Vec<PathBuf>,
    /// Problems that `getDiagnostics` reports, each where the file has a text.
    pub(crate) problems: Vec<(&'static str, Value)>,
    /// Requests for a diff that wait for the user.
    diffs: Vec<Value>,
    line: Option<mpsc::UnboundedSender<Message>>,
}

/// An extension that runs.
pub(crate) struct Extension {
    seen: Arc<(Mutex<Seen>, Condvar)>,
    closing: Arc<tokio::sync::Notify>,
    pub(crate) port: u16,
    pub(crate) lock: PathBuf,
}

const TOOLS: [&str; 12] = [
    "openDiff",
    "close_tab",
    "closeAllDiffTabs",
    "openFile",
    "getDiagnostics",
    "getCurrentSelection",
    "getLatestSelection",
    "getOpenEditors",
    "getWorkspaceFolders",
    "checkDocumentDirty",
    "saveDocument",
    "executeCode",
];

impl Extension {
    /// An editor that has the home's project open.
    pub(crate) fn start(home: &TestHome, name: &str) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<(Mutex<Seen>, Condvar)> = Arc::default();
        let closing: Arc<tokio::sync::Notify> = Arc::default();
        let (shared, closed) = (seen.clone(), closing.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(serve(listener, shared, &closed));
        });
        let lock = home.home().join(format!(".claude/ide/{port}.lock"));
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let file = json!({
            "pid": std::process::id(), "workspaceFolders": [home.project()], "ideName": name,
            "transport": "ws", "authToken": TOKEN,
        });
        std::fs::write(&lock, file.to_string()).unwrap();
        Self {
            seen,
            closing,
            port,
            lock,
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.0.lock().unwrap()
    }

    /// Waits until something was seen.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut find: impl FnMut(&mut Seen) -> Option<T>) -> T {
        let mut seen = self.seen();
        loop {
            if let Some(found) = find(&mut seen) {
                return found;
            }
            let (next, waited) = self.seen.1.wait_timeout(seen, LIMIT).unwrap();
            assert!(!waited.timed_out(), "never came: {what}; {:?}", next.calls);
            seen = next;
        }
    }

    /// Waits for a call of a tool and gives its arguments.
    #[track_caller]
    pub(crate) fn called(&self, tool: &str) -> Value {
        self.until(tool, |seen| {
            let mut calls = seen.calls.iter().rev();
            calls.find(|(name, _)| name == tool).map(|it| it.1.clone())
        })
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.until("a connection", |seen| {
            let line = seen.line.as_ref()?;
            line.send(Message::text(message.to_string())).ok()
        });
    }

    /// The user selects lines, counted from 0, of a file.
    pub(crate) fn select(&self, path: &std::path::Path, lines: (u64, u64), text: &str) {
        self.notify(
            "selection_changed",
            &json!({
                "text": text, "filePath": path, "fileUrl": format!("file://{}", path.display()),
                "selection": {
                    "start": {"line": lines.0, "character": 0},
                    "end": {"line": lines.1, "character": 4}, "isEmpty": text.is_empty(),
                },
            }),
        );
    }

    /// The user leaves the diff that is open.
    pub(crate) fn leave_diff(&self, texts: &[&str]) {
        let id = self.until("a diff", |seen| seen.diffs.pop());
        let content: Vec<Value> = texts
            .iter()
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}});
        let line = self.seen().line.clone().unwrap();
        line.send(Message::text(answer.to_string())).unwrap();
    }

    /// The connection breaks, as if the editor's window was loaded anew.
    pub(crate) fn hang_up(&self) {
        let line = self.seen().line.take().unwrap();
        let _ = line.send(Message::Close(None));
    }
}

impl Extension {
    /// The editor ends: nobody listens on its port any more, and its file is gone.
    pub(crate) fn quit(self) {
        self.closing.notify_one();
        self.hang_up();
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.lock);
    }
}

async fn serve(
    listener: std::net::TcpListener,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    closing: &tokio::sync::Notify,
) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.notified() => return,
        };
        let Ok((stream, _)) = accepted else { return };
        #[expect(clippy::result_large_err, reason = "the shape of the library")]
        let check = |request: &Request, mut response: Response| {
            let headers = request.headers();
            let token = headers.get("x-claude-code-ide-authorization");
            if token.map(HeaderValue::as_bytes) != Some(TOKEN.as_bytes()) {
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() =
                    tokio_tungstenite::tungstenite::http::StatusCode::UNAUTHORIZED;
                return Err(refusal);
            }
            response
                .headers_mut()
                .insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
            Ok(response)
        };
        let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, check).await else {
            continue;
        };
        let (sender, mut outgoing) = mpsc::unbounded_channel();
        {
            let mut now = seen.0.lock().unwrap();
            now.connections += 1;
            now.line = Some(sender.clone());
        }
        seen.1.notify_all();
        let (mut sink, mut stream) = socket.split();
        loop {
            tokio::select! {
                message = outgoing.recv() => {
                    let Some(message) = message else { break };
                    let ends = message.is_close();
                    if sink.send(message).await.is_err() || ends { break; }
                }
                message = stream.next() => {
                    let Some(Ok(message)) = message else { break };
                    let Ok(text) = message.to_text() else { continue };
                    let Ok(message) = serde_json::from_str::<Value>(text) else { continue };
                    if let Some(answer) = answer(&message, &seen) {
                        let _ = sender.send(Message::text(answer.to_string()));
                    }
                    seen.1.notify_all();
                }
            }
        }
    }
}

fn answer(message: &Value, seen: &(Mutex<Seen>, Condvar)) -> Option<Value> {
    let method = message["method"].as_str().unwrap_or_default();
    let mut seen = seen.0.lock().unwrap();
    let Some(id) = message.get("id") else {
        seen.notifications
            .push((method.to_owned(), message["params"].clone()));
        return None;
    };
    let result = match method {
        "initialize" => {
            seen.protocol = Some(message["params"]["protocolVersion"].clone());
            json!({
                "protocolVersion": "2025-03-26", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "fake-editor", "version": "1"},
            })
        }
        "tools/list" => {
            let tools: Vec<Value> = TOOLS
                .iter()
                .map(|name| json!({"name": name, "description": name, "inputSchema": {"type": "object"}}))
                .collect();
            json!({"tools": tools})
        }
        "tools/call" => {
            let name = message["params"]["name"].as_str().unwrap_or_default();
            let arguments = message["params"]["arguments"].clone();
            seen.calls.push((name.to_owned(), arguments.clone()));
            if name == "openDiff" {
                seen.diffs.push(id.clone());
                return None;
            }
            let text = call(name, &arguments, &mut seen);
            json!({"content": [{"type": "text", "text": text}]})
        }
        "ping" => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn call(name: &str, arguments: &Value, seen: &mut Seen) -> String {
    let path = PathBuf::from(arguments["filePath"].as_str().unwrap_or_default());
    match name {
        "checkDocumentDirty" => {
            json!({"success": true, "isDirty": seen.unsaved.contains_key(&path)}).to_string()
        }
        "saveDocument" => {
            if let Some(text) = seen.unsaved.remove(&path) {
                std::fs::write(&path, text).unwrap();
            }
            json!({"success": true, "saved": true}).to_string()
        }
        "getDiagnostics" => {
            let uri = arguments["uri"].as_str().unwrap_or_default();
            let path = uri.strip_prefix("file://").unwrap_or_default();
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let there = seen
                .problems
                .iter()
                .filter(|(needs, _)| text.contains(needs));
            let problems: Vec<&Value> = there.map(|(_, problem)| problem).collect();
            json!([{"uri": uri, "diagnostics": problems}]).to_string()
        }
        "getCurrentSelection" | "getLatestSelection" => {
            json!({"success": false, "message": "nothing is selected"}).to_string()
        }
        "getOpenEditors" => json!({"tabs": []}).to_string(),
        "getWorkspaceFolders" => {
            let folders: Vec<Value> = seen
                .opened_since
                .iter()
                .map(|it| json!({"path": it}))
                .collect();
            json!({"success": true, "folders": folders}).to_string()
        }
        "executeCode" => "forty-two".to_owned(),
        "close_tab" => "TAB_CLOSED".to_owned(),
        _ => "{}".to_owned(),
    }
}
