//! Transports.
//!
//! Streamable HTTP is the SDK's own transport over our [`http::HttpClient`]. The others are made of
//! two channels ([`Link`]): JSON text goes out through one, parsed messages come in through the
//! other, and tasks move the bytes (a program's pipes, a WebSocket, an event stream, an SDK host).
//! The tasks end when the link is dropped; [`Ending`] has the reason for the end of the connection.

pub(crate) mod http;
pub(crate) mod sdk;
pub(crate) mod sse;
pub(crate) mod stdio;
pub(crate) mod stream;
pub(crate) mod websocket;

use crate::client::ConnectionContext;
use crate::limits::TEXT_CHARS;
use crate::log::ServerLog;
use crate::text;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::transport::Transport;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The number of messages buffered in each direction.
const QUEUE: usize = 64;

/// The end of a connection and its reason. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    reason: Arc<Mutex<Option<String>>>,
    /// The process has exited or the socket is closed.
    gone: CancellationToken,
}

impl Ending {
    /// Sets the reason, unless set before.
    pub(crate) fn because(&self, reason: impl Into<String>) {
        self.reason.lock().get_or_insert_with(|| reason.into());
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }

    pub(crate) fn is_gone(&self) {
        self.gone.cancel();
    }

    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// An outgoing message, with a channel for the result.
pub(crate) struct Outgoing {
    pub(crate) text: String,
    pub(crate) sent: oneshot::Sender<Result<(), SendError>>,
}

/// The near end of a connection made of channels.
pub(crate) struct Link {
    outgoing: Option<mpsc::Sender<Outgoing>>,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    /// Pending requests.
    asked: HashSet<RequestId>,
    log: ServerLog,
}

impl Link {
    /// False for answers to requests that we did not send.
    fn is_ours(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let answered = match message {
            ServerJsonRpcMessage::Response(response) => &response.id,
            ServerJsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                None => return true,
            },
            _ => return true,
        };
        let ours = self.asked.remove(answered);
        if !ours {
            let id = text::line(&answered.to_string(), 100);
            self.log.fault("an answer to no request", &id);
        }
        ours
    }
}

/// The far end, for the tasks that move bytes.
pub(crate) struct FarEnd {
    pub(crate) outgoing: mpsc::Receiver<Outgoing>,
    pub(crate) incoming: Incoming,
    pub(crate) ending: Ending,
}

/// Accepts messages from a server.
#[derive(Clone)]
pub(crate) struct Incoming {
    messages: mpsc::Sender<ServerJsonRpcMessage>,
    log: ServerLog,
}

impl Incoming {
    /// Accepts one message. Other text is logged, since many programs print a greeting. Returns
    /// false if the connection is closed.
    pub(crate) async fn text(&self, bytes: &[u8]) -> bool {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        match serde_json::from_slice::<ServerJsonRpcMessage>(bytes) {
            Ok(message) => self.messages.send(message).await.is_ok(),
            Err(error) => {
                let shown = &bytes[..bytes.len().min(TEXT_CHARS)];
                let shown = text::line(&String::from_utf8_lossy(shown), 200);
                if meant_as_message(bytes) {
                    self.log.fault("invalid JSON", &shown);
                } else {
                    self.log.note(&format!("not a message ({error}): {shown}"));
                }
                true
            }
        }
    }

    pub(crate) async fn value(&self, value: serde_json::Value) -> bool {
        match serde_json::from_value::<ServerJsonRpcMessage>(value) {
            Ok(message) => self.messages.send(message).await.is_ok(),
            Err(error) => {
                self.log.note(&format!("not a message ({error})"));
                true
            }
        }
    }
}

/// True if an invalid line was meant as a message: it starts like one.
fn meant_as_message(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()
}

/// Creates both ends of a connection.
pub(crate) fn link(log: ServerLog, ending: Ending) -> (Link, FarEnd) {
    let (out_sender, out_receiver) = mpsc::channel(QUEUE);
    let (in_sender, in_receiver) = mpsc::channel(QUEUE);
    let link = Link {
        outgoing: Some(out_sender),
        incoming: in_receiver,
        asked: HashSet::new(),
        log: log.clone(),
    };
    let far = FarEnd {
        outgoing: out_receiver,
        incoming: Incoming {
            messages: in_sender,
            log,
        },
        ending,
    };
    (link, far)
}

/// A transport that passes progress and changed lists on in order: the SDK handles notifications
/// concurrently with answers, and what is handled after the answer would be too late.
pub(crate) struct InOrder<T> {
    pub(crate) transport: T,
    pub(crate) shared: Arc<ConnectionContext>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InOrder<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.transport.receive().await?;
        if let ServerJsonRpcMessage::Notification(told) = &message {
            let shared = &self.shared;
            match &told.notification {
                ServerNotification::ProgressNotification(progress) => {
                    shared.progressed(&progress.params);
                }
                ServerNotification::ToolListChangedNotification(_) => {
                    shared.mark(|dirty| dirty.tools = true);
                }
                ServerNotification::PromptListChangedNotification(_) => {
                    shared.mark(|dirty| dirty.prompts = true);
                }
                ServerNotification::ResourceListChangedNotification(_) => {
                    shared.mark(|dirty| dirty.resources = true);
                }
                _ => {}
            }
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SendError(pub(crate) String);

impl Transport<RoleClient> for Link {
    type Error = SendError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        if let ClientJsonRpcMessage::Request(request) = &item {
            self.asked.insert(request.id.clone());
        }
        async move {
            let text =
                serde_json::to_string(&item).map_err(|error| SendError(error.to_string()))?;
            let (sent, told) = oneshot::channel();
            let closed = || SendError("the connection is closed".to_owned());
            outgoing
                .ok_or_else(closed)?
                .send(Outgoing { text, sent })
                .await
                .map_err(|_| closed())?;
            told.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.incoming.recv().await?;
            if self.is_ours(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.outgoing = None;
        self.incoming.close();
        Ok(())
    }
}
