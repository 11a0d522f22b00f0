//! The line to the client: responses, notifications, and requests of ours that it answers.

use super::wire::{self, RpcError};
use crate::sdk::host::Host;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    host: Host,
    open: Arc<Mutex<OpenRequests>>,
}

#[derive(Default)]
struct OpenRequests {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>,
    closed: bool,
}

impl Client {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            open: Arc::default(),
        }
    }

    /// The line that everything is written to.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn respond(&self, id: &Value, outcome: Result<Value, RpcError>) {
        self.host.send(wire::response(id, outcome));
    }

    /// Sends an update of a session.
    pub(super) fn update(&self, session: &str, update: &Value) {
        let params = json!({"sessionId": session, "update": update});
        self.notify("session/update", &params);
    }

    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.host.send(wire::notification(method, params));
    }

    /// Asks the client. A question that is dropped is taken back with `$/cancel_request`.
    pub(super) async fn request(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut open = self.open.lock();
            if open.closed {
                return Err(RpcError::internal("the client disconnected"));
            }
            open.last += 1;
            let id = open.last;
            open.waiting.insert(id, sender);
            id
        };
        let withdrawal = Withdrawal { client: self, id };
        self.host.send(wire::request(id, method, params));
        let answer = answer
            .await
            .unwrap_or_else(|_| Err(RpcError::internal("the client disconnected")));
        drop(withdrawal);
        answer
    }

    /// Takes an answer of the client. An answer to no open question is ignored.
    pub(super) fn answered(&self, id: &Value, outcome: Result<Value, RpcError>) {
        let waiting = id
            .as_u64()
            .and_then(|id| self.open.lock().waiting.remove(&id));
        if let Some(sender) = waiting {
            let _ = sender.send(outcome);
        }
    }

    /// Whether the client is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.open.lock().closed
    }

    /// The client is gone: open questions fail, and so do later ones.
    pub(super) fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        open.waiting.clear();
    }
}

/// Takes a question back that was dropped before its answer came.
struct Withdrawal<'a> {
    client: &'a Client,
    id: u64,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let unanswered = self.client.open.lock().waiting.remove(&self.id).is_some();
        if unanswered {
            let params = json!({"requestId": self.id});
            let message = wire::notification("$/cancel_request", &params);
            self.client.host.send(message);
        }
    }
}
