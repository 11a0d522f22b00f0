//! The client side of a connection: requests and notifications from a server.
//!
//! Requests of the older protocol and input rounds of the newer one use the same three functions
//! ([`ConnectionContext::roots`], [`ConnectionContext::sample`], [`ConnectionContext::elicit`]).
//! Notifications of changed lists only set a flag (the keeper reads the lists again, once for any
//! number of notifications); others are passed to subscribers.

// Roots, sampling and logging are deprecated in the newest protocol; older servers still need them.
#![expect(deprecated, reason = "older servers use them")]

use crate::handlers::{
    Elicitation, ElicitationAnswer, ElicitationKind, Handlers, Offers, SamplingRefused,
    form_defaults,
};
use crate::limits::{NOTIFICATION_BYTES, OPEN_QUESTIONS, TEXT_CHARS};
use crate::lists;
use crate::log::ServerLog;
use crate::manager::{Options, Progress};
use crate::status::Change;
use crate::text;
use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    CustomNotification, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult, ErrorCode,
    ErrorData, Implementation, InputRequest, ListRootsResult, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, broadcast, mpsc, watch};

/// The lists that a server reported as changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

/// How many changes of lists a server announced, and how many of them were read.
#[derive(Debug, Clone, Copy, Default)]
struct ListProgress {
    announced: u64,
    read: u64,
}

/// The state of a server that its connections share.
pub(crate) struct ConnectionContext {
    pub(crate) server: String,
    pub(crate) handlers: Arc<dyn Handlers>,
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) log: ServerLog,
    client_version: String,
    /// The minimum level of log messages.
    pub(crate) log_level: LoggingLevel,
    progress: Mutex<Following>,
    dirty: Mutex<Dirty>,
    marked: Notify,
    lists: watch::Sender<ListProgress>,
    /// The last pages that the server reported as complete, by id.
    completed_pages: watch::Sender<VecDeque<String>>,
    /// Limits the number of open questions to the user.
    questions: Semaphore,
}

/// How long the user may take for a page that a call needs.
const PAGE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// The number of progress messages kept for calls that are not followed yet.
const EARLY: usize = 64;

/// Subscribers to the progress of calls.
#[derive(Default)]
struct Following {
    followers: HashMap<ProgressToken, mpsc::Sender<Progress>>,
    /// Progress that arrived before its call was registered.
    early: VecDeque<(ProgressToken, Progress)>,
}

impl ConnectionContext {
    pub(crate) fn new(
        server: &str,
        handlers: Arc<dyn Handlers>,
        changes: broadcast::Sender<Change>,
        log: ServerLog,
        options: &Options,
    ) -> Self {
        let level = Value::from(options.log_level);
        log.on_fault({
            let (server, changes) = (server.to_owned(), changes.clone());
            move |what| {
                let text = format!(
                    "The MCP server {server} sends invalid messages ({what}). They are ignored; `lathe mcp logs {server}` shows them."
                );
                let _ = changes.send(Change::Notice { server, text });
            }
        });
        Self {
            server: server.to_owned(),
            handlers,
            changes,
            log,
            client_version: options.client_version.clone(),
            log_level: serde_json::from_value(level).unwrap_or(LoggingLevel::Info),
            progress: Mutex::default(),
            dirty: Mutex::default(),
            marked: Notify::new(),
            lists: watch::Sender::default(),
            completed_pages: watch::Sender::default(),
            questions: Semaphore::new(OPEN_QUESTIONS),
        }
    }

    pub(crate) fn tell(&self, change: Change) {
        // An error means that nobody is subscribed.
        let _ = self.changes.send(change);
    }

    pub(crate) fn mark(&self, mark: impl FnOnce(&mut Dirty)) {
        self.lists.send_modify(|lists| lists.announced += 1);
        mark(&mut self.dirty.lock());
        self.marked.notify_one();
    }

    /// The number of changes that were announced so far.
    pub(crate) fn announced(&self) -> u64 {
        self.lists.borrow().announced
    }

    /// All changes up to this number were read, or can't be.
    pub(crate) fn lists_read(&self, announced: u64) {
        self.lists
            .send_modify(|lists| lists.read = lists.read.max(announced));
    }

    /// Waits until the changes that were announced before now are read, for a limited time.
    pub(crate) async fn lists_current(&self, limit: Duration) {
        let announced = self.announced();
        let mut lists = self.lists.subscribe();
        let read = lists.wait_for(|lists| lists.read >= announced);
        let _ = tokio::time::timeout(limit, read).await;
    }

    /// Waits until lists have changed, and resets the flags.
    pub(crate) async fn marked(&self) -> Dirty {
        loop {
            let dirty = std::mem::take(&mut *self.dirty.lock());
            if dirty != Dirty::default() {
                return dirty;
            }
            self.marked.notified().await;
        }
    }

    pub(crate) fn follow(&self, token: ProgressToken, progress: mpsc::Sender<Progress>) {
        let mut following = self.progress.lock();
        following.early.retain(|(early, step)| {
            if *early == token {
                let _ = progress.try_send(step.clone());
            }
            *early != token
        });
        following.followers.insert(token, progress);
    }

    pub(crate) fn unfollow(&self, token: &ProgressToken) {
        self.progress.lock().followers.remove(token);
    }

    /// Passes progress to the follower of a call.
    pub(crate) fn progressed(&self, params: &ProgressNotificationParam) {
        let message = params.message.as_deref();
        let step = Progress {
            progress: params.progress,
            total: params.total,
            message: message.map(|message| text::line(message, TEXT_CHARS)),
        };
        let mut following = self.progress.lock();
        match following.followers.get(&params.progress_token) {
            Some(follower) => {
                let _ = follower.try_send(step);
            }
            None => {
                if following.early.len() == EARLY {
                    following.early.pop_front();
                }
                let token = params.progress_token.clone();
                following.early.push_back((token, step));
            }
        }
    }

    fn notification(&self, method: &str, params: Value) {
        // They are queued for subscribers, and a server may send any number.
        let params = match lists::size(&params) {
            ..=NOTIFICATION_BYTES => params,
            _ => Value::Null,
        };
        self.tell(Change::Notification {
            server: self.server.clone(),
            method: text::line(method, 200),
            params,
        });
    }

    fn roots(&self) -> Value {
        let roots = self.handlers.roots();
        let roots: Vec<Value> = roots
            .into_iter()
            .map(|root| match root.name {
                Some(name) => json!({"uri": root.uri, "name": name}),
                None => json!({"uri": root.uri}),
            })
            .collect();
        json!({ "roots": roots })
    }

    async fn sample(&self, params: Value) -> Result<Value, ErrorData> {
        if !self.handlers.offers().sampling {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "sampling is not available here",
                None,
            ));
        }
        self.handlers
            .sample(&self.server, params)
            .await
            .map_err(|SamplingRefused(reason)| ErrorData::new(ErrorCode(-1), reason, None))
    }

    async fn elicit(&self, params: Value) -> Value {
        let Ok(_open) = self.questions.try_acquire() else {
            self.log.note("too many open questions: one was declined");
            return json!({"action": ElicitationAnswer::Decline.action()});
        };
        let word = |name: &str| params.get(name).and_then(Value::as_str);
        let kind = match word("url") {
            Some(url) if word("mode") == Some("url") => ElicitationKind::Url {
                url: url.to_owned(),
                elicitation_id: word("elicitationId").map(str::to_owned),
            },
            _ => ElicitationKind::Form {
                schema: params.get("requestedSchema").cloned().unwrap_or_default(),
            },
        };
        let schema = match &kind {
            ElicitationKind::Form { schema } => Some(schema.clone()),
            ElicitationKind::Url { .. } => None,
        };
        let question = Elicitation {
            message: text::cut(word("message").unwrap_or_default(), TEXT_CHARS),
            kind,
            params,
        };
        let answer = self.handlers.elicit(&self.server, question).await;
        match (answer, schema) {
            (ElicitationAnswer::Accept(given), Some(schema)) => {
                // Fields that the user left unchanged have the form's default.
                let mut content = form_defaults(&schema);
                if let (Some(content), Value::Object(given)) = (content.as_object_mut(), given) {
                    content.extend(given);
                }
                json!({"action": "accept", "content": content})
            }
            (answer, _) => json!({"action": answer.action()}),
        }
    }

    /// Asks the user to open the pages that an error names, and waits until the server reports each as
    /// complete. Returns false if there is none, or if the user declines.
    pub(crate) async fn open_pages(&self, error: &ErrorData) -> bool {
        let pages = error
            .data
            .as_ref()
            .and_then(|data| data.get("elicitations"));
        let Some(Value::Array(pages)) = pages else {
            return false;
        };
        if pages.is_empty() || !self.handlers.offers().elicitation_url {
            return false;
        }
        for page in pages {
            let mut params = page.clone();
            if let Some(params) = params.as_object_mut() {
                params.insert("mode".to_owned(), "url".into());
            }
            if params.get("url").is_none() || self.elicit(params).await["action"] != "accept" {
                return false;
            }
            if let Some(id) = page.get("elicitationId").and_then(Value::as_str) {
                let mut completed = self.completed_pages.subscribe();
                let id = text::line(id, 200);
                let complete = completed.wait_for(|pages| pages.contains(&id));
                let _ = tokio::time::timeout(PAGE_LIMIT, complete).await;
            }
        }
        true
    }

    /// Remembers that a page is complete; the server may report it before anyone waits for it.
    fn page_completed(&self, params: &Value) {
        let Some(id) = params.get("elicitationId").and_then(Value::as_str) else {
            return;
        };
        self.completed_pages.send_modify(|pages| {
            if pages.len() == EARLY {
                pages.pop_front();
            }
            pages.push_back(text::line(id, 200));
        });
    }

    /// Answers a request of an input round.
    pub(crate) async fn input(&self, request: &InputRequest) -> Result<Value, ErrorData> {
        let request = serde_json::to_value(request)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let params = request.get("params").cloned().unwrap_or_default();
        let method = request.get("method").and_then(Value::as_str);
        self.answer(method.unwrap_or_default(), params).await
    }

    async fn answer(&self, method: &str, params: Value) -> Result<Value, ErrorData> {
        match method {
            "roots/list" => Ok(self.roots()),
            "sampling/createMessage" => self.sample(params).await,
            "elicitation/create" => Ok(self.elicit(params).await),
            other => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                text::line(other, 200),
                None,
            )),
        }
    }

    /// Answers a typed request, unless the server cancels it.
    async fn answer_as<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        params: impl serde::Serialize,
        context: RequestContext<RoleClient>,
    ) -> Result<T, ErrorData> {
        let internal =
            |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
        let params = serde_json::to_value(params).map_err(internal)?;
        let answer = tokio::select! {
            answer = self.answer(method, params) => answer?,
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("taken back", None));
            }
        };
        serde_json::from_value(answer).map_err(internal)
    }

    fn capabilities(&self) -> ClientCapabilities {
        let Offers {
            roots,
            sampling,
            elicitation_form,
            elicitation_url,
        } = self.handlers.offers();
        let mut offered = serde_json::Map::new();
        if roots {
            offered.insert("roots".to_owned(), json!({"listChanged": true}));
        }
        if sampling {
            offered.insert("sampling".to_owned(), json!({}));
        }
        if elicitation_form || elicitation_url {
            let mut modes = serde_json::Map::new();
            if elicitation_form {
                modes.insert("form".to_owned(), json!({}));
            }
            if elicitation_url {
                modes.insert("url".to_owned(), json!({}));
            }
            offered.insert("elicitation".to_owned(), Value::Object(modes));
        }
        serde_json::from_value(Value::Object(offered)).unwrap_or_default()
    }
}

/// The text of a log message. Some servers wrap it in an object.
fn words_of(data: Value) -> String {
    if let Value::Object(fields) = &data {
        let mut some = fields.iter().filter(|(_, value)| !value.is_null());
        if let (Some((name, Value::String(said))), None) = (some.next(), some.next())
            && matches!(name.as_str(), "msg" | "message" | "text")
        {
            return said.clone();
        }
    }
    match data {
        Value::String(said) => said,
        other => other.to_string(),
    }
}

/// The handler for the SDK.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) shared: Arc<ConnectionContext>,
    /// The protocol version in the handshake.
    pub(crate) version: ProtocolVersion,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut implementation = Implementation::new("lathe", self.shared.client_version.clone());
        implementation.title = Some("Lathe".to_owned());
        ClientConfig::new(self.shared.capabilities(), implementation)
            .with_protocol_version(self.version.clone())
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.shared
            .answer_as("sampling/createMessage", params, context)
            .await
    }

    async fn list_roots(
        &self,
        context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.shared
            .answer_as("roots/list", Value::Null, context)
            .await
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.shared
            .answer_as("elicitation/create", request, context)
            .await
    }

    /// Requests that don't match the SDK's types, or that it doesn't know.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default();
        let answer: Value = self
            .shared
            .answer_as(&request.method, params, context)
            .await?;
        Ok(CustomResult::new(answer))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // Progress was passed on when it arrived.
        let told = json!({"progressToken": params.progress_token});
        self.shared.notification("notifications/progress", told);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let shared = &self.shared;
        shared.notification("notifications/message", Value::Null);
        let said = words_of(params.data);
        let level = serde_json::to_value(params.level).unwrap_or_default();
        let level = level.as_str().unwrap_or("info").to_owned();
        let said = text::cut(&said, TEXT_CHARS);
        shared.log.note(&format!("[{level}] {said}"));
        shared.tell(Change::Log {
            server: shared.server.clone(),
            level,
            logger: params.logger.map(|logger| text::line(&logger, 200)),
            text: said,
        });
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let shared = &self.shared;
        shared.notification(
            "notifications/resources/updated",
            json!({"uri": params.uri}),
        );
        shared.tell(Change::ResourceUpdated {
            server: shared.server.clone(),
            uri: params.uri,
        });
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let shared = &self.shared;
        shared.notification("notifications/resources/list_changed", Value::Null);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let shared = &self.shared;
        shared.notification("notifications/tools/list_changed", Value::Null);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let shared = &self.shared;
        shared.notification("notifications/prompts/list_changed", Value::Null);
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        let params = notification.params.unwrap_or_default();
        if notification.method == "notifications/elicitation/complete" {
            self.shared.page_completed(&params);
        }
        self.shared.notification(&notification.method, params);
    }
}
