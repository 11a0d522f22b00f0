//! One connection to a server: used, and ended.
//!
//! [`crate::connect::open`] makes a [`Connection`].
//! Requests go through [`Connection::request`] and [`Connection::ask`], which drive input rounds,
//! follow progress, and tell the server when nobody waits for its answer any more. What goes wrong is
//! sorted into what can be done about it ([`CallError`]).

// Roots and subscriptions by request are deprecated in the newest protocol; older servers need them.
#![expect(deprecated, reason = "older servers use them")]

use crate::client::{Client, Shared};
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

/// Why a connection wasn't made or a request not answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallError {
    /// The server wants an authorisation; this is its challenge.
    Auth(String),
    /// The server answered with an error.
    Rpc(ErrorData),
    /// The connection is of no more use. `unsent`: the server can't have seen the request.
    Lost { reason: String, unsent: bool },
    /// This request failed; the connection may be fine.
    Failed(String),
    /// The answer isn't in the protocol.
    Protocol(String),
    /// It was given up.
    Cancelled,
}

impl CallError {
    /// In the words of the crate's boundary.
    pub(crate) fn into_error(self, server: &str) -> McpError {
        let server = server.to_owned();
        match self {
            Self::Auth(_) => McpError::NeedsAuth(server),
            Self::Rpc(error) => McpError::Rpc {
                code: error.code.0.into(),
                message: text::cut(&error.message, TEXT_CHARS),
                data: error.data,
            },
            Self::Lost { reason, .. } | Self::Failed(reason) => McpError::Broken { server, reason },
            Self::Protocol(reason) => McpError::Protocol { server, reason },
            Self::Cancelled => McpError::Cancelled,
        }
    }

    pub(crate) fn reason(self, server: &str) -> String {
        match self {
            Self::Lost { reason, .. } | Self::Failed(reason) => reason,
            other => other.into_error(server).to_string(),
        }
    }
}

/// A connection that works.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    /// The conversation is over.
    ended: CancellationToken,
    ending: Ending,
    /// Whether something behind the connection (a program, a socket) ends after it.
    lingers: bool,
    pub(crate) shared: Arc<Shared>,
    pub(crate) description: Arc<ServerDescription>,
    /// Whether the stateless protocol is spoken.
    pub(crate) modern: bool,
    watched: Mutex<HashMap<String, CancellationToken>>,
}

/// A conversation as the SDK runs it.
pub(crate) type Running = RunningService<RoleClient, Client>;

/// Sorts what a transport says.
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
            // These hold what is looked for without naming it as their source.
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
        shared: Arc<Shared>,
        ending: Ending,
        lingers: bool,
    ) -> Result<Self, CallError> {
        let peer = running.peer().clone();
        let info = peer
            .peer_info()
            .ok_or_else(|| CallError::Protocol("it didn't say what it is".to_owned()))?;
        let version = info.protocol_version.clone();
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
            return Err(CallError::Failed(format!(
                "it speaks the protocol version {}, which isn't known here",
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

    /// Whether the server offers something: `tools`, `resources`, `prompts`, `completions`, ….
    pub(crate) fn offers(&self, capability: &str) -> bool {
        self.description.capabilities.get(capability).is_some()
    }

    /// Waits for the end and says why.
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

    /// Ends the connection and what is behind it. Returns when nothing is left.
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
        // Longer than a program is given to end: this only guards against a hang.
        if tokio::time::timeout(FAREWELL * 5, gone).await.is_err() {
            tracing::warn!(server = %self.shared.server, "a connection doesn't end");
        }
    }

    /// Sends a request and gives the answer as it came.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<Value, CallError> {
        let answer = self.send(request, None, None).await?;
        serde_json::to_value(answer).map_err(|error| CallError::Protocol(error.to_string()))
    }

    /// Sends a request that may need more input, and answers what the server asks on the way.
    pub(crate) async fn ask(
        &self,
        make: impl Fn(Option<Rounds>) -> ClientRequest,
        progress: Option<mpsc::Sender<Progress>>,
        meta: Option<&Value>,
    ) -> Result<Value, CallError> {
        let mut rounds = None;
        for round in 0..INPUT_ROUNDS {
            let answer = self
                .send(make(rounds.take()), progress.clone(), meta)
                .await?;
            match answer {
                ServerResult::InputRequiredResult(wanted) => {
                    rounds = Some(self.input(wanted, round).await?);
                }
                ServerResult::CreateTaskResult(_) => {
                    return Err(CallError::Protocol(
                        "a task that nobody asked for".to_owned(),
                    ));
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

    /// Answers one round of questions.
    async fn input(&self, wanted: InputRequiredResult, round: usize) -> Result<Rounds, CallError> {
        let requests = wanted.input_requests.unwrap_or_default();
        if requests.is_empty() {
            if wanted.request_state.is_none() {
                return Err(CallError::Protocol(
                    "it asked for input and named none".to_owned(),
                ));
            }
            // It only wants to be asked again; not at once.
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
            // Here a server sends log messages only for requests that say from which level on.
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
                // How a program ended is known a moment after its output.
                CallError::Lost { unsent, .. } if self.lingers => CallError::Lost {
                    reason: self.why().await,
                    unsent,
                },
                other => other,
            }),
        }
    }

    /// Why the connection ended, as soon as that is known.
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

    /// Tells the server that the folders worked in are others now.
    pub(crate) async fn roots_changed(&self) {
        if !self.modern && self.shared.handlers.offers().roots {
            let _ = self.peer.notify_roots_list_changed().await;
        }
    }

    /// In the older protocol a server is told once from which level on it sends its log. Nobody waits for
    /// its answer.
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
                    "it doesn't let its log be chosen: {}",
                    error.message
                ));
            }
        });
    }

    /// In the newer protocol a client says what it wants to be told. Ends with the connection.
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

    /// Wants to be told when a resource changes.
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

    /// Doesn't want to be told any more.
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

/// What a request of several rounds carries from one to the next.
#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    pub(crate) responses: rmcp::model::InputResponses,
    pub(crate) state: Option<String>,
}

impl Rounds {
    /// The fields of the next request.
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
                shared.log.note(&format!("changes aren't told: {error}"));
                return;
            }
        };
        while let Ok(Some(notification)) = subscription.next().await {
            match notification {
                ServerNotification::ToolListChangedNotification(_) => {
                    shared.mark(|dirty| dirty.tools = true);
                }
                ServerNotification::PromptListChangedNotification(_) => {
                    shared.mark(|dirty| dirty.prompts = true);
                }
                ServerNotification::ResourceListChangedNotification(_) => {
                    shared.mark(|dirty| dirty.resources = true);
                }
                ServerNotification::ResourceUpdatedNotification(updated) => {
                    shared.tell(crate::status::Change::ResourceUpdated {
                        server: shared.server.clone(),
                        uri: updated.params.uri,
                    });
                }
                _ => {}
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
    shared: &'a Shared,
    token: rmcp::model::ProgressToken,
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        self.shared.unfollow(&self.token);
    }
}

/// Tells the server when nobody waits for an answer any more.
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
            let reason = "nobody waits for the answer any more".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}
