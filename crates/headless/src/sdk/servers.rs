//! MCP servers that live in the host's own process: their JSON-RPC messages travel inside control requests
//! (`mcp_message`). To the session they are servers like any other; here is only the way to them.
//!
//! Each request of ours is a question to the host, and the host's answer holds the server's response. A call
//! that is given up withdraws its question. When the host is gone, the connection ends.

use super::host::Host;
use lathe_mcp::{InProcess, MessageChannel, UnknownServer};
use lathe_protocol::frame::HostError;
use lathe_protocol::ids::RequestId;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// The capacity of a message channel.
const ROOM: usize = 64;

/// Reaches servers in the host's process. Cheap to clone.
#[derive(Clone)]
pub struct Servers {
    host: Host,
    listening: Arc<watch::Sender<bool>>,
    parked: Arc<Mutex<HashMap<String, Manifest>>>,
}

/// A server's answers to the host's own handshake: the next connection needs no messages for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    initialize: Value,
    tools: Option<Value>,
}

impl Manifest {
    /// Reads one; `None` when it isn't of the shape that it should have.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        let initialize = value.get("initializeResult")?;
        if !initialize.is_object() || !initialize.get("protocolVersion")?.is_string() {
            return None;
        }
        let tools = match value.get("toolsListResult") {
            None => None,
            // A list in pages isn't whole.
            Some(list) if list.get("nextCursor").is_some() => None,
            Some(list) if list.get("tools").is_some_and(Value::is_array) => Some(list.clone()),
            Some(_) => return None,
        };
        Some(Self {
            initialize: initialize.clone(),
            tools,
        })
    }

    /// The version of the protocol that was agreed on.
    #[must_use]
    pub fn version(&self) -> &str {
        let version = self.initialize.get("protocolVersion");
        version.and_then(Value::as_str).unwrap_or_default()
    }

    /// The answer to one of our messages that is known without asking; `Some(None)` needs no answer.
    fn answer(&mut self, message: &Value) -> Option<Option<Value>> {
        let result = match message.get("method").and_then(Value::as_str)? {
            "initialize" => self.initialize.clone(),
            "notifications/initialized" => return Some(None),
            // Only the first list: a later one is asked for because something changed.
            "tools/list" => self.tools.take()?,
            _ => return None,
        };
        let id = message.get("id")?;
        Some(Some(json!({"jsonrpc": "2.0", "id": id, "result": result})))
    }
}

impl Servers {
    /// The servers of a host. Nothing is sent to them before [`Self::host_listens`].
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            host,
            listening: Arc::new(watch::Sender::new(false)),
            parked: Arc::default(),
        }
    }

    /// Keeps a handshake for the next connection to a server, and only for that.
    pub fn park(&self, name: &str, manifest: Manifest) {
        self.parked.lock().insert(name.to_owned(), manifest);
    }

    /// The host has its first answer, so it can be asked things from now on.
    pub fn host_listens(&self) {
        self.listening.send_replace(true);
    }
}

impl InProcess for Servers {
    fn open(&self, name: &str) -> Result<MessageChannel, UnknownServer> {
        let (outgoing, from_us) = mpsc::channel(ROOM);
        let (to_us, incoming) = mpsc::channel(ROOM);
        let manifest = self.parked.lock().remove(name);
        let (host, name) = (self.host.clone(), name.to_owned());
        let mut listening = self.listening.subscribe();
        lathe_spawn::task(async move {
            if listening.wait_for(|listens| *listens).await.is_ok() {
                pass_on(host, name, manifest, from_us, to_us).await;
            }
        });
        Ok(MessageChannel { outgoing, incoming })
    }
}

/// Carries messages both ways until either side is gone.
async fn pass_on(
    host: Host,
    server: String,
    mut manifest: Option<Manifest>,
    mut from_us: mpsc::Receiver<Value>,
    to_us: mpsc::Sender<Value>,
) {
    let mut asking: JoinSet<(Option<String>, Result<Value, HostError>)> = JoinSet::new();
    let mut open: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        tokio::select! {
            message = from_us.recv() => {
                let Some(message) = message else { return };
                let known = manifest.as_mut().and_then(|manifest| manifest.answer(&message));
                if let Some(answer) = known {
                    if let Some(answer) = answer && to_us.send(answer).await.is_err() {
                        return;
                    }
                    continue;
                }
                if message.get("method").and_then(Value::as_str) == Some("notifications/cancelled") {
                    let id = message.pointer("/params/requestId").map(ToString::to_string);
                    // Dropping the question withdraws it; the host then answers nothing.
                    if let Some(question) = id.and_then(|id| open.remove(&id)) {
                        question.abort();
                    }
                }
                let id = message.get("id").filter(|id| !id.is_null()).map(ToString::to_string);
                let (host, server, name) = (host.clone(), server.clone(), id.clone());
                let question = asking.spawn(async move {
                    let request = json!({
                        "subtype": "mcp_message", "server_name": server, "message": message,
                    });
                    (name, host.ask(RequestId::random(), request).await)
                });
                if let Some(id) = id {
                    open.insert(id, question);
                }
            }
            Some(answered) = asking.join_next(), if !asking.is_empty() => {
                let Ok((id, answer)) = answered else { continue };
                let Some(id) = id else {
                    if answer.is_err() { return; }
                    continue;
                };
                open.remove(&id);
                let response = match answer {
                    Ok(mut answer) => answer
                        .get_mut("mcp_response")
                        .map(Value::take)
                        .unwrap_or_default(),
                    Err(HostError::Closed) => return,
                    Err(error) => failure(&id, &error.to_string()),
                };
                let response = if response.is_object() {
                    response
                } else {
                    failure(&id, "the host gave no response")
                };
                if to_us.send(response).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A response that says that there is none. The id is JSON already.
fn failure(id: &str, error: &str) -> Value {
    let id: Value = serde_json::from_str(id).unwrap_or_default();
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": error}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Buffer {
        /// Waits until a frame fits.
        async fn frame(&self, fits: impl Fn(&Value) -> bool) -> Value {
            loop {
                let text = String::from_utf8(self.0.lock().clone()).unwrap();
                let mut frames = text
                    .split_inclusive('\n')
                    .filter(|line| line.ends_with('\n'))
                    .map(|line| serde_json::from_str::<Value>(line).unwrap());
                if let Some(frame) = frames.find(|frame| fits(frame)) {
                    return frame;
                }
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_handshake_of_the_host_is_used_once_and_calls_still_travel() {
        let buffer = Buffer::default();
        let (host, _writer) = Host::start(buffer.clone()).unwrap();
        let servers = Servers::new(host.clone());
        let manifest = json!({
            "initializeResult": {"protocolVersion": "1", "capabilities": {"tools": {}}},
            "toolsListResult": {"tools": []},
        });
        servers.park("s", Manifest::read(&manifest).unwrap());
        let mut channel = servers.open("s").unwrap();
        servers.host_listens();
        for (id, method) in [(1, "initialize"), (2, "tools/list")] {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method});
            channel.outgoing.send(request).await.unwrap();
            let answer = channel.incoming.recv().await.unwrap();
            assert_eq!(answer["id"], id);
            let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            channel.outgoing.send(note).await.unwrap();
        }
        // The list is asked for when it changed, and another connection shakes hands itself.
        let again = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"});
        channel.outgoing.send(again).await.unwrap();
        let first = buffer
            .frame(|frame| frame["type"] == "control_request")
            .await;
        assert_eq!(first["request"]["message"]["id"], 3);
        let other = servers.open("s").unwrap();
        let hello = json!({"jsonrpc": "2.0", "id": 4, "method": "initialize"});
        other.outgoing.send(hello).await.unwrap();
        buffer
            .frame(|frame| frame["request"]["message"]["id"] == 4)
            .await;
        for wrong in [
            json!(null),
            json!({"initializeResult": {}}),
            json!({"initializeResult": {"protocolVersion": "1"}, "toolsListResult": 3}),
        ] {
            assert_eq!(Manifest::read(&wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn messages_travel_in_questions_to_the_host() {
        let buffer = Buffer::default();
        let (host, _writer) = Host::start(buffer.clone()).unwrap();
        let servers = Servers::new(host.clone());
        let mut channel = servers.open("s").unwrap();
        servers.host_listens();
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call"});
        channel.outgoing.send(call.clone()).await.unwrap();
        let asked = buffer
            .frame(|frame| frame["request"]["message"]["id"] == 7)
            .await;
        assert_eq!(asked["request"]["server_name"], "s");
        let id: RequestId = asked["request_id"].as_str().unwrap().into();
        let response = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
        host.answered(&id, Ok(json!({"mcp_response": response})));
        assert_eq!(channel.incoming.recv().await, Some(response));

        // What is given up is withdrawn.
        let slow = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call"});
        channel.outgoing.send(slow).await.unwrap();
        let asked = buffer
            .frame(|frame| frame["request"]["message"]["id"] == 8)
            .await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}});
        channel.outgoing.send(cancel).await.unwrap();
        buffer
            .frame(|frame| {
                frame["type"] == "control_cancel_request"
                    && frame["request_id"] == asked["request_id"]
            })
            .await;

        // An error of the host is an error of the call; a host that is gone ends the connection.
        let third = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/list"});
        channel.outgoing.send(third).await.unwrap();
        let asked = buffer
            .frame(|frame| frame["request"]["message"]["id"] == "x")
            .await;
        let id: RequestId = asked["request_id"].as_str().unwrap().into();
        host.answered(&id, Err(HostError::Reported("no such server".to_owned())));
        let failed = channel.incoming.recv().await.unwrap();
        assert_eq!(
            (&failed["id"], &failed["error"]["message"]),
            (&json!("x"), &json!("no such server"))
        );
        host.close();
        channel.outgoing.send(call).await.unwrap();
        assert_eq!(channel.incoming.recv().await, None);
    }
}
