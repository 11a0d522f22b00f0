//! The loop over the client's lines: every method of the protocol, matched in one place.

use super::AcpOptions;
use super::attached::{self, Attached};
use super::capabilities::{self, ClientCapabilities};
use super::choices;
use super::client::Client;
use super::lent::Lent;
use super::params::{self, Earlier, List, Named, PromptParams, SetMode, SetOption, Workspace};
use super::replayed;
use super::servers::{self, Listeners, Servers};
use super::session::{Cancelled, OpenSession};
use super::updates::{self, Updates};
use super::wire::{
    self, AUTH_REQUIRED, CANCELLED, INVALID_REQUEST, METHOD_NOT_FOUND, Message, NOT_FOUND, RpcError,
};
use crate::exit::Exit;
use crate::print::Signal;
use crate::sdk::input::{Line, MAX_LINE};
use lathe_engine::{Answerer, LentEditor, OpenError, SessionChoice, SessionOptions};
use lathe_model::ModelError;
use lathe_model::key_store::KeyStore;
use lathe_protocol::ids::SessionId;
use lathe_protocol::op::Prompt;
use lathe_session::{Scope, SessionInfo, SessionStore};
use lathe_settings::Environment;
use lathe_tools::editor::Lends;
use lathe_wire::{Folder, HostInfo};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

/// Sessions of one page of `session/list`.
const PAGE: usize = 50;

/// The state behind the loop.
pub(super) struct Connection {
    shared: Arc<Shared>,
    signals: tokio::sync::watch::Receiver<Signal>,
    initialized: bool,
    /// Requests that take their time, by the client's id.
    running: HashMap<String, AbortHandle>,
}

/// State shared by the tasks of the connection.
struct Shared {
    environment: Environment,
    options: SessionOptions,
    client: Client,
    able: Mutex<ClientCapabilities>,
    /// Servers that the client reaches for us.
    listeners: Listeners,
    sessions: Mutex<HashMap<String, Followed>>,
}

/// An open session and the task that shows its events.
struct Followed {
    session: Opened,
    task: JoinHandle<()>,
}

/// A session of this process, or one that runs in another.
#[derive(Clone)]
enum Opened {
    Here(Arc<OpenSession>),
    Elsewhere(Arc<Attached>),
}

impl Opened {
    async fn cancel(&self, how: Cancelled) {
        match self {
            Self::Here(session) => session.cancel(how).await,
            Self::Elsewhere(session) => session.cancel(how).await,
        }
    }

    fn is_waiting(&self, request: &Value) -> bool {
        match self {
            Self::Here(session) => session.is_waiting(request),
            Self::Elsewhere(session) => session.is_waiting(request),
        }
    }
}

impl Followed {
    /// Ends a session of this process. One that runs elsewhere continues without us.
    async fn end(self) {
        match &self.session {
            Opened::Here(session) => session.end(),
            Opened::Elsewhere(session) => {
                self.task.abort();
                session.left();
            }
        }
        let _ = self.task.await;
    }
}

/// How an earlier session is opened: `Load` replays its messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    Load,
    Resume,
    Fork,
}

impl Connection {
    pub(super) fn new(environment: Environment, options: AcpOptions, client: Client) -> Self {
        let mut session = options.session;
        session.permissions.answerer = Answerer::Face;
        session.mcp.face_answers = true;
        Self {
            shared: Arc::new(Shared {
                environment,
                options: session,
                client,
                able: Mutex::default(),
                listeners: Listeners::default(),
                sessions: Mutex::default(),
            }),
            signals: options.signals,
            initialized: false,
            running: HashMap::new(),
        }
    }

    pub(super) async fn run(&mut self, mut lines: mpsc::UnboundedReceiver<Line>) -> Exit {
        let exit = loop {
            tokio::select! {
                biased;
                changed = self.signals.changed() => {
                    let signal = *self.signals.borrow();
                    break match signal {
                        Signal::Interrupt if changed.is_ok() => Exit::Interrupted,
                        _ => Exit::Terminated,
                    };
                }
                line = lines.recv() => match line {
                    Some(line) => self.line(line).await,
                    None => break Exit::Success,
                },
            }
        };
        self.shared.client.close();
        for (_, task) in self.running.drain() {
            task.abort();
        }
        self.shared.end_all().await;
        exit
    }

    async fn line(&mut self, line: Line) {
        let client = self.shared.client.clone();
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong(bytes) => {
                let why = format!("a line of {bytes} bytes; the limit is {MAX_LINE}");
                return client.respond(&Value::Null, Err(RpcError::new(INVALID_REQUEST, why)));
            }
            Line::NotText => {
                let why = "the line isn't UTF-8";
                return client.respond(&Value::Null, Err(RpcError::new(wire::PARSE_ERROR, why)));
            }
        };
        match wire::parse(&text) {
            Ok(Message::Request { id, method, params }) => self.request(id, &method, params).await,
            Ok(Message::Notification { method, params }) => {
                self.notification(&method, params).await;
            }
            Ok(Message::Response { id, outcome }) => client.answered(&id, outcome),
            Err((id, error)) => client.respond(&id, Err(error)),
        }
    }

    async fn request(&mut self, id: Value, method: &str, params: Value) {
        let shared = self.shared.clone();
        let client = shared.client.clone();
        if method == "initialize" {
            let able = ClientCapabilities::of(&params["clientCapabilities"]);
            *shared.able.lock() = able;
            self.initialized = true;
            return client.respond(&id, Ok(capabilities::initialized(able)));
        }
        if !self.initialized {
            let why = "send `initialize` first";
            return client.respond(&id, Err(RpcError::new(INVALID_REQUEST, why)));
        }
        let outcome = match method {
            "authenticate" => authenticate(&params),
            "logout" => shared.log_out(),
            "session/prompt" => match shared.prompt(&id, params).await {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            "session/set_mode" => shared.set_mode(params).await,
            "session/set_config_option" => shared.set_option(params).await,
            "session/new" | "session/load" | "session/resume" | "session/fork" | "session/list"
            | "session/close" | "session/delete" => {
                self.run_beside(id, method.to_owned(), params);
                return;
            }
            other => Err(RpcError::new(
                METHOD_NOT_FOUND,
                format!("there is no method {other:?}"),
            )),
        };
        client.respond(&id, outcome);
    }

    /// Runs a request that takes its time beside the loop.
    fn run_beside(&mut self, id: Value, method: String, params: Value) {
        self.running.retain(|_, task| !task.is_finished());
        let shared = self.shared.clone();
        let key = id.to_string();
        let task = lathe_spawn::task(async move {
            let outcome = match method.as_str() {
                "session/new" => match params::read::<Workspace>(params) {
                    Ok(workspace) => shared.open_new(&id, workspace).await,
                    Err(error) => Err(error),
                },
                "session/load" => shared.take_up(&id, params, Taking::Load).await,
                "session/resume" => shared.take_up(&id, params, Taking::Resume).await,
                "session/fork" => shared.take_up(&id, params, Taking::Fork).await,
                "session/list" => shared.list(params).await,
                "session/close" => shared.close(params).await,
                _ => shared.delete(params).await,
            };
            // A session that was opened has answered for itself.
            match outcome {
                Ok(Value::Null) => {}
                outcome => shared.client.respond(&id, outcome),
            }
        });
        self.running.insert(key, task.abort_handle());
    }

    async fn notification(&mut self, method: &str, params: Value) {
        match method {
            "session/cancel" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                match self.shared.session(session) {
                    Ok(Opened::Here(session)) => session.cancel(Cancelled::Turn).await,
                    // Another process answers; meanwhile there may be more lines.
                    Ok(session) => {
                        lathe_spawn::task(async move { session.cancel(Cancelled::Turn).await });
                    }
                    Err(_) => {}
                }
            }
            "mcp/message" => self.shared.listeners.notify(&params),
            "$/cancel_request" => {
                let request = &params["requestId"];
                if let Some(task) = self.running.remove(&request.to_string())
                    && !task.is_finished()
                {
                    task.abort();
                    let error = RpcError::new(CANCELLED, "the request was cancelled");
                    return self.shared.client.respond(request, Err(error));
                }
                if let Some(session) = self.shared.session_of_request(request) {
                    lathe_spawn::task(async move { session.cancel(Cancelled::Request).await });
                }
            }
            // Notifications that are not known are not answered.
            _ => {}
        }
    }
}

fn authenticate(params: &Value) -> Result<Value, RpcError> {
    match params["methodId"].as_str() {
        // The key is looked for when a session is opened, and its absence is answered there.
        Some(capabilities::AUTH_METHOD | capabilities::SIGN_IN_METHOD) => Ok(json!({})),
        other => Err(RpcError::params(format!(
            "methodId: there is no method {:?}; there are {} and {}",
            other.unwrap_or_default(),
            capabilities::AUTH_METHOD,
            capabilities::SIGN_IN_METHOD
        ))),
    }
}

impl Shared {
    /// Removes the keys that were stored. Keys of the environment and of helpers are not ours to remove.
    fn log_out(&self) -> Result<Value, RpcError> {
        let store = KeyStore::new(&self.environment);
        for provider in store.providers() {
            let removed = store.remove(&provider);
            removed.map_err(|error| RpcError::internal(error.to_string()))?;
        }
        Ok(json!({}))
    }

    fn session(&self, id: &str) -> Result<Opened, RpcError> {
        let sessions = self.sessions.lock();
        let found = sessions.get(id).map(|followed| followed.session.clone());
        found.ok_or_else(|| {
            RpcError::new(NOT_FOUND, format!("sessionId: no session {id:?} is open"))
        })
    }

    fn session_of_request(&self, request: &Value) -> Option<Opened> {
        let sessions = self.sessions.lock();
        let mut open = sessions.values().map(|followed| &followed.session);
        open.find(|session| session.is_waiting(request)).cloned()
    }

    async fn prompt(self: &Arc<Self>, id: &Value, params: Value) -> Result<(), RpcError> {
        let PromptParams { session_id, prompt } = params::read(params)?;
        let session = self.session(&session_id)?;
        let content = params::content(&prompt)?;
        let session = match session {
            Opened::Here(session) => session,
            Opened::Elsewhere(session) => {
                let id = id.clone();
                lathe_spawn::task(async move { session.submit(content, id).await });
                return Ok(());
            }
        };
        let prompt = Prompt::new(content);
        match prompt.typed_command().cloned() {
            Some(command) => {
                let id = id.clone();
                lathe_spawn::task(async move { session.command(prompt, command, id).await });
            }
            None => session.submit(prompt, id.clone()),
        }
        Ok(())
    }

    async fn set_mode(&self, params: Value) -> Result<Value, RpcError> {
        let SetMode {
            session_id,
            mode_id,
        } = params::read(params)?;
        match self.session(&session_id)? {
            Opened::Here(session) => choices::set_mode(&session.handle, &mode_id)?,
            Opened::Elsewhere(session) => session.set("mode", &mode_id.into()).await?,
        }
        Ok(json!({}))
    }

    async fn set_option(&self, params: Value) -> Result<Value, RpcError> {
        let SetOption {
            session_id,
            config_id,
            value,
        } = params::read(params)?;
        let options = match self.session(&session_id)? {
            Opened::Here(session) => {
                let (choices, handle) = (&session.choices, &session.handle);
                choices.set(handle, &config_id, &value).await?;
                choices.options(handle)
            }
            Opened::Elsewhere(session) => {
                session.set(&config_id, &value).await?;
                session.options()
            }
        };
        Ok(json!({"configOptions": options}))
    }

    async fn open_new(
        self: &Arc<Self>,
        id: &Value,
        workspace: Workspace,
    ) -> Result<Value, RpcError> {
        self.open(id, workspace, SessionChoice::New, Taking::Resume)
            .await
    }

    /// Takes up an earlier session.
    async fn take_up(
        self: &Arc<Self>,
        id: &Value,
        params: Value,
        how: Taking,
    ) -> Result<Value, RpcError> {
        let Earlier {
            session_id,
            workspace,
        } = params::read(params)?;
        if how == Taking::Fork {
            // What the session said so far must be in its file.
            if let Ok(Opened::Here(session)) = self.session(&session_id) {
                let _ = session.handle.history().flush().await;
            }
        } else {
            self.end(&session_id).await;
            if let Some(host) = self.running(&session_id) {
                return self.attach(id, &host, &workspace, how).await;
            }
        }
        let found = self.find(&session_id).await?;
        let choice = SessionChoice::Resume(found.id.to_string());
        self.open(id, workspace, choice, how).await
    }

    /// The process that runs a session, if it can be reached.
    fn running(&self, id: &str) -> Option<HostInfo> {
        let id: SessionId = id.parse().ok()?;
        let hosts = Folder::of(&self.environment).hosts().ok()?;
        hosts.into_iter().find(|host| host.session_id == id)
    }

    /// Follows a session that runs in another process.
    async fn attach(
        self: &Arc<Self>,
        request: &Value,
        host: &HostInfo,
        workspace: &Workspace,
        how: Taking,
    ) -> Result<Value, RpcError> {
        workspace.check()?;
        let able = *self.able.lock();
        let folder = Folder::of(&self.environment);
        let attaching = attached::attach(folder, host, self.client.clone(), able);
        let (session, line) = attaching.await?;
        let records = match self.find(&session.id).await {
            Ok(found) => {
                let reading = lathe_spawn::blocking(move || {
                    let loaded = lathe_session::load::load(&found.path).ok()?;
                    Some(replayed::conversation(loaded, &found.path))
                });
                reading.await.ok().flatten().unwrap_or_default()
            }
            // It has not said anything yet.
            Err(_) => Vec::new(),
        };
        let shown = how == Taking::Load;
        let following = session.replay(&line, &records, shown).await;
        let followed = Followed {
            session: Opened::Elsewhere(session.clone()),
            task: lathe_spawn::task(session.clone().follow(line, following)),
        };
        self.sessions.lock().insert(session.id.clone(), followed);
        self.client.respond(request, Ok(session.opened()));
        if workspace
            .mcp_servers
            .iter()
            .any(|servers| !servers.is_empty())
        {
            session.say(
                "This session runs in another process, with its own MCP servers; those of the editor are not used.",
            );
        }
        Ok(Value::Null)
    }

    /// Opens a session, answers the request and shows its events from then on.
    async fn open(
        self: &Arc<Self>,
        request: &Value,
        workspace: Workspace,
        choice: SessionChoice,
        how: Taking,
    ) -> Result<Value, RpcError> {
        workspace.check()?;
        let mut options = self.options.clone();
        options.mcp.configs.extend(workspace.servers()?);
        let hosted = workspace.hosted()?;
        if !hosted.is_empty() {
            options.mcp.hosted = hosted.keys().cloned().collect();
            options.mcp.hosted_protocol = Some(servers::PROTOCOL.to_owned());
            options.mcp.in_process = Some(Arc::new(Servers {
                client: self.client.clone(),
                ids: hosted,
                listeners: self.listeners.clone(),
            }));
        }
        let able = *self.able.lock();
        let lent = Arc::new(Lent::new(self.client.clone(), able));
        if able.lends != Lends::default() {
            options.tools.editor = Some(LentEditor(lent.clone()));
        }
        options
            .permissions
            .folders
            .extend(workspace.additional_directories.unwrap_or_default());
        options.schedule.fires = true;
        options.history.fork = how == Taking::Fork;
        options.history.session = choice;
        let mut environment = self.environment.clone();
        environment.cwd = std::fs::canonicalize(&workspace.cwd).unwrap_or(workspace.cwd);
        let allow_bypass = options.permissions.allow_bypass;
        let opened = Box::pin(lathe_engine::open(environment, options)).await;
        let opened = opened.map_err(|error| open_error(&error))?;
        let handle = Arc::new(opened.session);
        let session = OpenSession::new(handle, self.client.clone(), able, allow_bypass);
        lent.opened(&session.id);
        let mut replay = Updates::new(able);
        if let Some(history) = opened.history.filter(|_| how == Taking::Load) {
            let transcript = session.handle.transcript().to_owned();
            let reading = move || replayed::conversation(history, &transcript);
            let records = lathe_spawn::blocking(reading).await;
            for update in replay.replay(records.unwrap_or_default().iter()) {
                self.client.host().room().await;
                self.client.update(&session.id, &update);
            }
            if let Some(plan) = updates::kept_plan(&session.handle) {
                self.client.update(&session.id, &plan);
            }
        }
        let answer = session.opened();
        opened.events.for_people();
        let follow = session.clone().follow(opened.events, {
            // Calls of the replay are over; what is live begins anew.
            Updates::new(able)
        });
        let followed = Followed {
            session: Opened::Here(session.clone()),
            task: lathe_spawn::task(follow),
        };
        self.sessions.lock().insert(session.id.clone(), followed);
        self.client.respond(request, Ok(answer));
        for remark in &opened.remarks {
            session.remark(&replay, &remark.to_string());
        }
        session.show_commands();
        Ok(Value::Null)
    }

    fn store(&self) -> SessionStore {
        SessionStore::new(lathe_settings::paths::config_home(&self.environment))
    }

    /// A session on disk.
    async fn find(&self, id: &str) -> Result<SessionInfo, RpcError> {
        let missing = || RpcError::new(NOT_FOUND, format!("sessionId: there is no session {id:?}"));
        let parsed: SessionId = id.parse().map_err(|_| missing())?;
        let store = self.store();
        let found = lathe_spawn::blocking(move || store.find_anywhere(parsed)).await;
        found.ok().flatten().ok_or_else(missing)
    }

    async fn list(&self, params: Value) -> Result<Value, RpcError> {
        let List { cwd, cursor } = params::read(params)?;
        let from = match cursor.as_deref() {
            None | Some("") => 0,
            Some(cursor) => cursor
                .parse::<usize>()
                .map_err(|_| RpcError::params("cursor: not one of ours"))?,
        };
        let store = self.store();
        let listing = lathe_spawn::blocking(move || {
            let cwd = cwd.map(|cwd| std::fs::canonicalize(&cwd).unwrap_or(cwd));
            let scope = cwd.as_deref().map_or(Scope::Everywhere, Scope::Folder);
            store.list(scope, Some(from + PAGE + 1))
        });
        let listed = listing.await.unwrap_or_default();
        let more = listed.len() > from + PAGE;
        let sessions: Vec<Value> = listed
            .iter()
            .skip(from)
            .take(PAGE)
            .map(|info| {
                let title = info.custom_title.as_ref().or(info.title.as_ref());
                json!({
                    "sessionId": info.id,
                    "cwd": info.cwd.as_deref().unwrap_or(Path::new("/")),
                    "title": title.or(info.first_prompt.as_ref()),
                    "updatedAt": info.modified.to_string(),
                })
            })
            .collect();
        let mut answer = json!({"sessions": sessions});
        if more {
            answer["nextCursor"] = (from + PAGE).to_string().into();
        }
        Ok(answer)
    }

    /// Ends a session of this connection, if it is open.
    async fn end(&self, id: &str) -> bool {
        let followed = self.sessions.lock().remove(id);
        match followed {
            Some(followed) => {
                followed.end().await;
                true
            }
            None => false,
        }
    }

    async fn close(&self, params: Value) -> Result<Value, RpcError> {
        let Named { session_id } = params::read(params)?;
        if self.end(&session_id).await {
            Ok(json!({}))
        } else {
            let why = format!("sessionId: no session {session_id:?} is open");
            Err(RpcError::new(NOT_FOUND, why))
        }
    }

    async fn delete(&self, params: Value) -> Result<Value, RpcError> {
        let Named { session_id } = params::read(params)?;
        self.end(&session_id).await;
        if let Some(host) = self.running(&session_id) {
            return Err(RpcError::params(format!(
                "the session runs in another process; `lathe stop {}` ends it",
                host.id
            )));
        }
        let found = self.find(&session_id).await?;
        let store = self.store();
        let deleting = lathe_spawn::blocking(move || store.delete(&found));
        match deleting.await {
            Ok(Ok(())) => Ok(json!({})),
            Ok(Err(error)) => Err(RpcError::internal(error.to_string())),
            Err(error) => Err(RpcError::internal(error.to_string())),
        }
    }

    /// The client is gone: everything stops and is written.
    async fn end_all(&self) {
        let sessions: Vec<Followed> = {
            let mut open = self.sessions.lock();
            open.drain().map(|(_, followed)| followed).collect()
        };
        futures::future::join_all(sessions.into_iter().map(Followed::end)).await;
    }
}

fn open_error(error: &OpenError) -> RpcError {
    let code = match error {
        OpenError::NoCredentials | OpenError::Model(ModelError::MissingKey { .. }) => AUTH_REQUIRED,
        OpenError::Usage(_) | OpenError::Mode(_) | OpenError::NoSandbox { .. } => {
            wire::INVALID_PARAMS
        }
        OpenError::Session(_) | OpenError::Model(_) => wire::INTERNAL_ERROR,
    };
    RpcError::new(code, error.to_string())
}
