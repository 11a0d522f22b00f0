//! One connection to a server.
//!
//! [`crate::connect::open`] creates a [`Connection`]. Requests go through [`Connection::request`]
//! and [`Connection::ask`], which run input rounds, follow progress, and cancel the request at the
//! server if the caller gives up. [`CallError`] classifies failures by what can be done about them.

// Roots and subscriptions by request are deprecated in the newest protocol; older servers need them.
#![expect(deprecated, reason = "older servers use them")]

use crate::client::{Client, ConnectionContext};
use crate::error::McpError;
use crate::limits::{FAREWELL, INPUT_ROUNDS, INSTRUCTIONS_CHARS, TEXT_CHARS};
use crate::manager::Progress;
use crate::status::ServerDescription;
use crate::text;
use crate::transport::http::HttpError;
use crate::transport::{Ending, SendError};
use parking_lot::Mutex;
use rmcp::model::{
    CancelledNotificationParam, ClientRequest, ErrorData, InputRequiredResult, ProtocolVersion,
    RequestId, ServerNotification, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    Peer, PeerRequestOptions, RoleClient, RunningService, RunningServiceCancellationToken,
    ServiceError,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The code of the error that names pages which the user has to finish first.
const URL_ELICITATION_REQUIRED: i32 = -32042;

/// Why a connection or a request failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallError {
    /// The server requires authorisation; the value is its challenge.
    Auth(String),
    /// The server answered with an error.
    Rpc(ErrorData),
    /// The connection is unusable. `unsent`: the server can't have received the request.
    Lost {
        reason: String,
        unsent: bool,
    },
    /// This request failed; the connection may still work.
    Failed(String),
    /// The address doesn't serve streamable HTTP: it answered with 400, 404 or 405.
    NotServed(String),
    /// The answer violates the protocol.
    Protocol(String),
    Cancelled,
}

impl From<lathe_net::NetError> for CallError {
    fn from(error: lathe_net::NetError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<crate::headers::HeaderError> for CallError {
    fn from(error: crate::headers::HeaderError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl CallError {
    pub(crate) fn into_error(self, server: &str) -> McpError {
        let server = server.to_owned();
        match self {
            Self::Auth(_) => McpError::NeedsAuth(server),
            Self::Rpc(error) => McpError::Rpc {
                code: error.code.0.into(),
                message: text::cut(&error.message, TEXT_CHARS),
                data: error.data,
            },
            Self::Lost { reason, .. } | Self::Failed(reason) | Self::NotServed(reason) => {
                McpError::Broken { server, reason }
            }
            Self::Protocol(reason) => McpError::Protocol { server, reason },
            Self::Cancelled => McpError::Cancelled,
        }
    }

    pub(crate) fn reason(self, server: &str) -> String {
        match self {
            Self::Lost { reason, .. } | Self::Failed(reason) | Self::NotServed(reason) => reason,
            other => other.into_error(server).to_string(),
        }
    }
}

pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    ended: CancellationToken,
    ending: Ending,
    /// True if a process or a socket ends after the connection.
    lingers: bool,
    pub(crate) shared: Arc<ConnectionContext>,
    pub(crate) description: Arc<ServerDescription>,
    /// True for the stateless protocol.
    pub(crate) modern: bool,
    watched: Mutex<HashMap<String, CancellationToken>>,
}

pub(crate) type Running = RunningService<RoleClient, Client>;

/// Classifies an error of a transport.
pub(crate) fn sort_transport(error: &(dyn std::error::Error + 'static)) -> CallError {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(required) = current.downcast_ref::<AuthRequiredError>() {
            return CallError::Auth(required.www_authenticate_header.clone());
        }
        if let Some(scope) = current.downcast_ref::<InsufficientScopeError>() {
            return CallError::Auth(scope.www_authenticate_header.clone());
        }
        if let Some(error) = current.downcast_ref::<HttpError>() {
            let reason = error.to_string();
            return if error.unsent {
                CallError::Lost {
                    reason,
                    unsent: true,
                }
            } else if error
                .status
                .is_some_and(|status| matches!(status.as_u16(), 400 | 404 | 405))
            {
                CallError::NotServed(reason)
            } else {
                CallError::Failed(reason)
            };
        }
        if let Some(error) = current.downcast_ref::<SendError>() {
            return CallError::Lost {
                reason: error.to_string(),
                unsent: false,
            };
        }
        match current.downcast_ref::<StreamableHttpError<HttpError>>() {
            // These contain the error without returning it as their source.
            Some(StreamableHttpError::Client(error)) => {
                cause = Some(error);
                continue;
            }
            Some(StreamableHttpError::TransportChannelClosed) => {
                return CallError::Lost {
                    reason: "the connection is closed".to_owned(),
                    unsent: false,
                };
            }
            _ => cause = current.source(),
        }
    }
    CallError::Failed(text::line(&error.to_string(), 300))
}

impl Connection {
    pub(crate) fn new(
        running: Running,
        shared: Arc<ConnectionContext>,
        ending: Ending,
        lingers: bool,
    ) -> Result<Self, CallError> {
        let peer = running.peer().clone();
        let info = peer
            .peer_info()
            .ok_or_else(|| CallError::Protocol("it did not describe itself".to_owned()))?;
        let version = info.protocol_version.clone();
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
            return Err(CallError::Failed(format!(
                "it uses the protocol version {}, which is not supported",
                text::line(version.as_str(), 50)
            )));
        }
        let value = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
        let mut implementation = value(serde_json::to_value(&info.server_info));
        for field in ["name", "version", "title"] {
            if let Some(Value::String(words)) = implementation.get_mut(field) {
                *words = text::line(words, 200);
            }
        }
        let description = ServerDescription {
            info: implementation,
            protocol_version: version.to_string(),
            capabilities: value(serde_json::to_value(&info.capabilities)),
            instructions: info
                .instructions
                .as_deref()
                .map(|words| text::cut(words, INSTRUCTIONS_CHARS)),
        };
        let ended = CancellationToken::new();
        let stop = running.cancellation_token();
        {
            let ended = ended.clone();
            lathe_spawn::task(async move {
                let _ = running.waiting().await;
                ended.cancel();
            });
        }
        Ok(Self {
            peer,
            stop: Mutex::new(Some(stop)),
            ended,
            ending,
            lingers,
            shared,
            description: Arc::new(description),
            modern: !version.has_initialize(),
            watched: Mutex::default(),
        })
    }

    /// True if the server has a capability: `tools`, `resources`, `prompts`, `completions`, ….
    pub(crate) fn offers(&self, capability: &str) -> bool {
        self.description.capabilities.get(capability).is_some()
    }

    /// Waits for the end of the connection and returns the reason.
    pub(crate) async fn ended(&self) -> String {
        self.ended.cancelled().await;
        if self.lingers {
            let _ = tokio::time::timeout(FAREWELL * 2, self.ending.gone()).await;
        }
        let reason = self.ending.reason();
        let reason = reason.unwrap_or_else(|| "the connection was closed".to_owned());
        match self.shared.log.last_words() {
            Some(words) => format!("{reason}; it said: {words}"),
            None => reason,
        }
    }

    /// Closes the connection and waits until its process or socket is gone.
    pub(crate) async fn close(&self) {
        if let Some(stop) = self.stop.lock().take() {
            stop.cancel();
        }
        let gone = async {
            self.ended.cancelled().await;
            if self.lingers {
                self.ending.gone().await;
            }
        };
        // Longer than a program gets to exit: this only guards against a hang.
        if tokio::time::timeout(FAREWELL * 5, gone).await.is_err() {
            tracing::warn!(server = %self.shared.server, "a connection doesn't close");
        }
    }

    /// Sends a request and returns the raw answer.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<Value, CallError> {
        let answer = self.send(request, None, None).await?;
        serde_json::to_value(answer).map_err(|error| CallError::Protocol(error.to_string()))
    }

    /// Sends a request that may need more input, and answers the server's questions.
    pub(crate) async fn ask(
        &self,
        make: impl Fn(Option<Rounds>) -> ClientRequest,
        progress: Option<mpsc::Sender<Progress>>,
        meta: Option<&Value>,
    ) -> Result<Value, CallError> {
        let mut rounds = None;
        let mut page_was_opened = false;
        for round in 0..INPUT_ROUNDS {
            let answer = self.send(make(rounds.take()), progress.clone(), meta).await;
            // The user has to finish something on a page; then the request is repeated, once.
            if let Err(CallError::Rpc(error)) = &answer
                && error.code.0 == URL_ELICITATION_REQUIRED
                && !page_was_opened
                && self.shared.open_pages(error).await
            {
                page_was_opened = true;
                continue;
            }
            match answer? {
                ServerResult::InputRequiredResult(wanted) => {
                    rounds = Some(self.input(wanted, round).await?);
                }
                ServerResult::CreateTaskResult(_) => {
                    return Err(CallError::Protocol("an unrequested task".to_owned()));
                }
                answer => {
                    return serde_json::to_value(answer)
                        .map_err(|error| CallError::Protocol(error.to_string()));
                }
            }
        }
        Err(CallError::Protocol(format!(
            "it asked for more input {INPUT_ROUNDS} times"
        )))
    }

    async fn input(&self, wanted: InputRequiredResult, round: usize) -> Result<Rounds, CallError> {
        let requests = wanted.input_requests.unwrap_or_default();
        if requests.is_empty() {
            if wanted.request_state.is_none() {
                return Err(CallError::Protocol(
                    "it asked for input without naming any".to_owned(),
                ));
            }
            // It only wants to be polled again; wait a moment.
            let wait = std::time::Duration::from_millis(50 << round.min(3));
            tokio::time::sleep(wait).await;
        }
        let answers = requests.iter().map(|(key, request)| async move {
            let answer = self.shared.input(request).await?;
            Ok::<_, ErrorData>((key.clone(), answer))
        });
        let answers = futures::future::try_join_all(answers).await;
        Ok(Rounds {
            responses: answers.map_err(CallError::Rpc)?.into_iter().collect(),
            state: wanted.request_state,
        })
    }

    async fn send(
        &self,
        request: ClientRequest,
        progress: Option<mpsc::Sender<Progress>>,
        meta: Option<&Value>,
    ) -> Result<ServerResult, CallError> {
        let mut options = PeerRequestOptions::no_options();
        options.meta = meta.and_then(|meta| serde_json::from_value(meta.clone()).ok());
        if self.modern && self.offers("logging") {
            // In this protocol, log messages are sent only for requests that name a level.
            let meta = options.meta.get_or_insert_default();
            meta.set_log_level(self.shared.log_level);
        }
        let handle = self
            .peer
            .send_request_with_option(request, options)
            .await
            .map_err(|error| self.sort(error))?;
        let token = handle.progress_token.clone();
        let _followed = progress.map(|progress| {
            self.shared.follow(token.clone(), progress);
            Followed {
                shared: &self.shared,
                token,
            }
        });
        let mut abandoned = Abandoned {
            peer: &self.peer,
            id: Some(handle.id.clone()),
        };
        let answer = handle.await_response().await;
        abandoned.id = None;
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(match self.sort(error) {
                // The exit status is known a moment after the end of the output.
                CallError::Lost { unsent, .. } if self.lingers => CallError::Lost {
                    reason: self.why().await,
                    unsent,
                },
                other => other,
            }),
        }
    }

    /// The reason for the end, as soon as it is known.
    pub(crate) async fn why(&self) -> String {
        match tokio::time::timeout(FAREWELL, self.ended()).await {
            Ok(reason) => reason,
            Err(_) => "the connection was closed".to_owned(),
        }
    }

    fn sort(&self, error: ServiceError) -> CallError {
        match error {
            ServiceError::McpError(error) => CallError::Rpc(error),
            ServiceError::TransportSend(error) => sort_transport(error.error.as_ref()),
            ServiceError::TransportClosed => CallError::Lost {
                reason: self
                    .ending
                    .reason()
                    .unwrap_or_else(|| "the connection was closed".to_owned()),
                unsent: false,
            },
            ServiceError::Cancelled { .. } => CallError::Cancelled,
            other => CallError::Protocol(text::line(&other.to_string(), 300)),
        }
    }

    /// Notifies the server of changed roots.
    pub(crate) async fn roots_changed(&self) {
        if !self.modern && self.shared.handlers.offers().roots {
            let _ = self.peer.notify_roots_list_changed().await;
        }
    }

    /// Sets the log level, which the older protocol does by request. Doesn't wait for the answer.
    pub(crate) fn choose_log_level(self: &Arc<Self>) {
        if self.modern || !self.offers("logging") {
            return;
        }
        let connection = self.clone();
        lathe_spawn::task(async move {
            let params = rmcp::model::SetLevelRequestParams::new(connection.shared.log_level);
            let asked = connection.peer.set_level(params);
            if let Err(ServiceError::McpError(error)) = asked.await {
                let log = &connection.shared.log;
                log.note(&format!(
                    "it doesn't support setting the log level: {}",
                    error.message
                ));
            }
        });
    }

    /// Subscribes to changes of lists, as the newer protocol requires. Ends with the connection.
    pub(crate) fn listen(self: &Arc<Self>) {
        let changes = |list: &str| {
            let offered = self.description.capabilities.get(list);
            offered.and_then(|list| list.get("listChanged")) == Some(&Value::Bool(true))
        };
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = changes("tools").then_some(true);
        filter.resources_list_changed = changes("resources").then_some(true);
        filter.prompts_list_changed = changes("prompts").then_some(true);
        if self.modern && filter != SubscriptionFilter::new() {
            lathe_spawn::task(listen(self.clone(), filter, CancellationToken::new()));
        }
    }

    /// Subscribes to changes of a resource.
    pub(crate) async fn watch(self: &Arc<Self>, uri: &str) -> Result<(), CallError> {
        if !self.modern {
            let params = rmcp::model::SubscribeRequestParams::new(uri);
            return self
                .peer
                .subscribe(params)
                .await
                .map_err(|error| self.sort(error));
        }
        let stop = CancellationToken::new();
        if let Some(before) = self.watched.lock().insert(uri.to_owned(), stop.clone()) {
            before.cancel();
        }
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(vec![uri.to_owned()]);
        lathe_spawn::task(listen(self.clone(), filter, stop));
        Ok(())
    }

    /// Unsubscribes from changes of a resource.
    pub(crate) async fn unwatch(&self, uri: &str) -> Result<(), CallError> {
        if !self.modern {
            let params = rmcp::model::UnsubscribeRequestParams::new(uri);
            return self
                .peer
                .unsubscribe(params)
                .await
                .map_err(|error| self.sort(error));
        }
        if let Some(stop) = self.watched.lock().remove(uri) {
            stop.cancel();
        }
        Ok(())
    }
}

/// The state of a request with several rounds.
#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    pub(crate) responses: rmcp::model::InputResponses,
    pub(crate) state: Option<String>,
}

impl Rounds {
    pub(crate) fn split(
        rounds: Option<Self>,
    ) -> (Option<rmcp::model::InputResponses>, Option<String>) {
        match rounds {
            None => (None, None),
            Some(rounds) => {
                let responses = (!rounds.responses.is_empty()).then_some(rounds.responses);
                (responses, rounds.state)
            }
        }
    }
}

async fn listen(connection: Arc<Connection>, filter: SubscriptionFilter, stop: CancellationToken) {
    let shared = connection.shared.clone();
    let pump = async {
        let mut subscription = match connection.peer.listen(filter).await {
            Ok(subscription) => subscription,
            Err(error) => {
                shared
                    .log
                    .note(&format!("can't subscribe to changes: {error}"));
                return;
            }
        };
        while let Ok(Some(notification)) = subscription.next().await {
            // Changed lists are noticed by the transport.
            if let ServerNotification::ResourceUpdatedNotification(updated) = notification {
                shared.tell(crate::status::Change::ResourceUpdated {
                    server: shared.server.clone(),
                    uri: updated.params.uri,
                });
            }
        }
    };
    tokio::select! {
        () = pump => {}
        () = stop.cancelled() => {}
        () = connection.ended.cancelled() => {}
    }
}

struct Followed<'a> {
    shared: &'a ConnectionContext,
    token: rmcp::model::ProgressToken,
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        self.shared.unfollow(&self.token);
    }
}

/// Cancels the request at the server if dropped before the answer.
struct Abandoned<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = "the caller no longer waits for the answer".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}
