//! MCP servers that the client reaches for us: their messages travel in `mcp/message` over its own connection.
//!
//! The protocol inside is the stateless one: every request carries what it needs, and an answer may be preceded
//! by notifications that belong to it.

use super::client::Client;
use super::wire::RpcError;
use lathe_mcp::{InProcess, MessageChannel, UnknownServer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The version of the protocol inside.
pub(super) const PROTOCOL: &str = "2026-07-28";
/// Messages that wait in each direction.
const ROOM: usize = 64;

/// Who waits for notifications of which server.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<HashMap<String, mpsc::Sender<Value>>>>);

impl Listeners {
    /// Passes a notification of the client on. One for nobody, or for somebody who doesn't keep up, is dropped.
    pub(super) fn notify(&self, params: &Value) {
        let server = params["serverId"].as_str().unwrap_or_default();
        let Some(listener) = self.0.lock().get(server).cloned() else {
            return;
        };
        let mut message = json!({"jsonrpc": "2.0", "method": params["method"]});
        if let Some(inner) = params.get("params").filter(|inner| !inner.is_null()) {
            message["params"] = inner.clone();
        }
        let _ = listener.try_send(message);
    }
}

/// The servers of one session, by name with the client's id.
pub(super) struct Servers {
    pub(super) client: Client,
    pub(super) ids: HashMap<String, String>,
    pub(super) listeners: Listeners,
}

impl InProcess for Servers {
    fn open(&self, name: &str) -> Result<MessageChannel, UnknownServer> {
        let id = self.ids.get(name).cloned();
        let id = id.ok_or_else(|| UnknownServer(name.to_owned()))?;
        let (outgoing, from_us) = mpsc::channel(ROOM);
        let (to_us, incoming) = mpsc::channel(ROOM);
        self.listeners.0.lock().insert(id.clone(), to_us.clone());
        lathe_spawn::task(pass_on(self.client.clone(), id, from_us, to_us));
        Ok(MessageChannel { outgoing, incoming })
    }
}

/// Carries our messages to the client, and its answers back, until either side is gone.
async fn pass_on(
    client: Client,
    server: String,
    mut from_us: mpsc::Receiver<Value>,
    to_us: mpsc::Sender<Value>,
) {
    let mut open: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(message) = from_us.recv().await {
        let method = message["method"].as_str().unwrap_or_default();
        if method == "notifications/cancelled" {
            // A question that is dropped is taken back.
            let id = message["params"]["requestId"].to_string();
            if let Some(question) = open.remove(&id) {
                question.abort();
            }
            continue;
        }
        // There are no notifications to the server in this protocol.
        let Some(id) = message.get("id").filter(|id| !id.is_null()).cloned() else {
            continue;
        };
        open.retain(|_, question| !question.is_finished());
        let params = envelope(&server, &id, method, &message["params"]);
        let (client, to_us, key) = (client.clone(), to_us.clone(), id.to_string());
        let question = lathe_spawn::task(async move {
            let outcome = client.request("mcp/message", &params).await;
            let _ = to_us.send(answer(&id, outcome)).await;
        });
        open.insert(key, question.abort_handle());
    }
    for (_, question) in open {
        question.abort();
    }
}

/// The parameters of `mcp/message`.
fn envelope(server: &str, id: &Value, method: &str, params: &Value) -> Value {
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let mut envelope = json!({"serverId": server, "requestId": id, "method": method});
    if !params.is_null() {
        envelope["params"] = params.clone();
    }
    envelope
}

/// The response inside an answer of the client.
fn answer(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(outcome) => match outcome.get("error").filter(|error| !error.is_null()) {
            Some(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            None => json!({"jsonrpc": "2.0", "id": id, "result": outcome["result"]}),
        },
        Err(error) => json!({
            "jsonrpc": "2.0", "id": id,
            "error": {"code": super::wire::INTERNAL_ERROR, "message": error.message},
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_wrapped_and_unwrapped() {
        assert_eq!(
            envelope("s", &json!(7), "tools/list", &Value::Null),
            json!({"serverId": "s", "requestId": "7", "method": "tools/list"})
        );
        let id = json!(7);
        assert_eq!(
            answer(&id, Ok(json!({"result": {"tools": []}})))["result"],
            json!({"tools": []})
        );
        assert_eq!(
            answer(&id, Ok(json!({"error": {"code": -32601, "message": "no"}})))["error"]["code"],
            -32601
        );
        let gone = RpcError::new(-33001, "unavailable");
        assert_eq!(answer(&id, Err(gone))["error"]["message"], "unavailable");
    }
}
