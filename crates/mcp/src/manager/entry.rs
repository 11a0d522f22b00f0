//! One server of the manager, and the task that keeps it connected.
//!
//! One task per server (the *keeper*, [`keep`]) connects, reads the lists, and reconnects after a
//! loss: once for a local program, with increasing delays for a remote server. Others send it
//! orders ([`Order`]) and read [`ManagedServer::live`].

use super::Inner;
use crate::auth::Authoriser;
use crate::client::{ConnectionContext, Dirty};
use crate::connect::{self, Recipe};
use crate::connection::{CallError, Connection};
use crate::error::McpError;
use crate::headers;
use crate::limits::LIST_ITEMS;
use crate::lists::{self, List, Listed};
use crate::log::ServerLog;
use crate::server::{ServerConfig, TransportConfig};
use crate::status::{Change, ServerDescription, ServerStatus, State};
use lathe_protocol::diagnostic::Diagnostic;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The maximum number of authorisations for one connection or call.
pub(super) const AUTHORISATIONS: usize = 2;

/// A message to a keeper.
pub(crate) enum Order {
    /// Connect anew.
    Connect(oneshot::Sender<()>),
    /// Disconnect and stay disconnected.
    Disable(oneshot::Sender<()>),
    /// This connection is broken.
    Lost(Arc<Connection>, String),
    /// Authorisation by the user is required.
    NeedsAuth,
    Close(oneshot::Sender<()>),
}

pub(crate) struct ManagedServer {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    pub(crate) shared: Arc<ConnectionContext>,
    pub(crate) authoriser: Option<Arc<Authoriser>>,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) live: Mutex<Live>,
}

/// The current state of a server.
pub(crate) struct Live {
    pub(crate) state: State,
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) description: Option<Arc<ServerDescription>>,
    pub(crate) tools: Arc<Vec<Value>>,
    pub(crate) resources: Arc<Vec<Value>>,
    pub(crate) templates: Arc<Vec<Value>>,
    pub(crate) prompts: Arc<Vec<Value>>,
    remarks: [Vec<Diagnostic>; 4],
    cut: [usize; 4],
}

impl ManagedServer {
    /// Creates a server and the channel of its keeper.
    pub(crate) fn new(
        name: &str,
        config: ServerConfig,
        inner: &Inner,
    ) -> (Self, mpsc::UnboundedReceiver<Order>) {
        let options = &inner.options;
        let shared = ConnectionContext::new(
            name,
            inner.handlers.clone(),
            inner.changes.clone(),
            ServerLog::new(&options.home, name),
            options,
        );
        let authoriser = config.transport.remote().and_then(|remote| {
            let own = |(header, _): &(String, String)| header.eq_ignore_ascii_case("authorization");
            if remote.headers.iter().any(own) {
                // The configuration has its own authorisation.
                return None;
            }
            let url = remote
                .url
                .replacen("ws", "http", usize::from(remote.url.starts_with("ws")));
            Some(Arc::new(Authoriser::new(
                name,
                headers::address(&url).ok()?,
                remote.oauth.clone(),
                options.environment.clone(),
                inner.credentials.clone(),
                options.browser.clone(),
                inner.changes.clone(),
            )))
        });
        let (orders, receiver) = mpsc::unbounded_channel();
        let state = if config.disabled {
            State::Disabled
        } else {
            State::Pending
        };
        let entry = Self {
            name: name.to_owned(),
            config,
            shared: Arc::new(shared),
            authoriser,
            orders,
            live: Mutex::new(Live {
                state,
                connection: None,
                description: None,
                tools: Arc::default(),
                resources: Arc::default(),
                templates: Arc::default(),
                prompts: Arc::default(),
                remarks: Default::default(),
                cut: Default::default(),
            }),
        };
        (entry, receiver)
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let live = self.live.lock();
        ServerStatus {
            name: self.name.clone(),
            transport: self.config.transport.kind(),
            state: live.state.clone(),
            description: live.description.clone(),
            tools: live.tools.clone(),
            remarks: live.remarks.concat(),
            cut: live.cut.iter().sum(),
        }
    }

    /// The error for a server that is not connected.
    pub(crate) fn not_connected(&self) -> McpError {
        let server = self.name.clone();
        let why = match &self.live.lock().state {
            State::NeedsAuth => return McpError::NeedsAuth(server),
            State::Failed { reason } => format!("{reason}; `/mcp` or `lathe mcp list` shows more"),
            State::Disabled => "it is disabled".to_owned(),
            State::Pending | State::Connected => "it is connecting".to_owned(),
        };
        McpError::NotConnected { server, why }
    }

    fn is_local(&self) -> bool {
        matches!(
            self.config.transport,
            TransportConfig::Stdio(_) | TransportConfig::Sdk { .. }
        )
    }

    fn set_state(&self, inner: &Inner, state: State) {
        {
            let mut live = self.live.lock();
            if state != State::Connected {
                live.connection = None;
                // The lists of a disconnected server are empty.
                live.tools = Arc::default();
                live.resources = Arc::default();
                live.templates = Arc::default();
                live.prompts = Arc::default();
            }
            if live.state == state {
                return;
            }
            live.state = state.clone();
        }
        self.shared.tell(Change::State {
            server: self.name.clone(),
            state,
        });
        inner.pulse.send_modify(|count| *count += 1);
    }

    fn notice(&self, text: String) {
        self.shared.tell(Change::Notice {
            server: self.name.clone(),
            text,
        });
    }

    /// Connects, with up to the maximum number of authorisations.
    async fn connect(&self, inner: &Inner) -> Result<Arc<Connection>, CallError> {
        let mut authorisations = 0;
        loop {
            match self.connect_once(inner).await {
                Err(CallError::Auth(challenge)) if authorisations < AUTHORISATIONS => {
                    authorisations += 1;
                    let Some(authoriser) = &self.authoriser else {
                        return Err(CallError::Failed(
                            "the server refused the configured Authorization header".to_owned(),
                        ));
                    };
                    match authoriser.authorise(&challenge).await {
                        Ok(()) => {}
                        Err(McpError::NeedsAuth(_)) => return Err(CallError::Auth(challenge)),
                        Err(error) => return Err(CallError::Failed(error.to_string())),
                    }
                }
                Err(CallError::Auth(_)) if authorisations > 0 => {
                    return Err(CallError::Failed(
                        "the server still refuses access after signing in".to_owned(),
                    ));
                }
                outcome => return outcome,
            }
        }
    }

    async fn connect_once(&self, inner: &Inner) -> Result<Arc<Connection>, CallError> {
        let slots = if self.is_local() {
            &inner.local_starts
        } else {
            &inner.remote_starts
        };
        // The semaphore is closed on shutdown.
        let _slot = slots.acquire().await.map_err(|_| CallError::Cancelled)?;
        let limit = self
            .config
            .start_timeout
            .unwrap_or(inner.options.timeouts.start);
        let recipe = Recipe {
            config: &self.config,
            options: &inner.options,
            shared: &self.shared,
            authoriser: self.authoriser.as_ref(),
        };
        let start = async {
            let connection = Arc::new(connect::open(&recipe).await?);
            let announced = self.shared.announced();
            match self.read_lists(&connection, ALL).await {
                Ok(()) => {
                    self.shared.lists_read(announced);
                    Ok(connection)
                }
                Err(error) => {
                    connection.close().await;
                    Err(error)
                }
            }
        };
        match tokio::time::timeout(limit, start).await {
            Ok(outcome) => outcome,
            Err(_) => Err(CallError::Failed(match self.shared.log.last_words() {
                Some(words) => format!(
                    "it was not ready within {} s (MCP_TIMEOUT); it said: {words}",
                    limit.as_secs_f64()
                ),
                None => format!(
                    "it was not ready within {} s (MCP_TIMEOUT)",
                    limit.as_secs_f64()
                ),
            })),
        }
    }

    /// Reads and stores lists. A list that the server refuses is empty, with a remark.
    async fn read_lists(
        &self,
        connection: &Arc<Connection>,
        which: Dirty,
    ) -> Result<(), CallError> {
        let one = async |wanted: bool, capability: &str, list: List| {
            if !wanted || !connection.offers(capability) {
                return Ok(None);
            }
            match Box::pin(lists::read(connection, list)).await {
                Ok(listed) => Ok(Some(listed)),
                // Templates are optional even where resources are offered.
                Err(CallError::Rpc(_)) if list == List::Templates => Ok(Some(Listed::default())),
                Err(CallError::Rpc(error)) => Ok(Some(without(list, &error.message))),
                // A server keeps its tools if it gets one of the other lists wrong.
                Err(
                    CallError::Protocol(reason)
                    | CallError::Failed(reason)
                    | CallError::NotServed(reason),
                ) if list != List::Tools => Ok(Some(without(list, &reason))),
                Err(error) => Err(error),
            }
        };
        let (tools, resources, templates, prompts) = futures::future::try_join4(
            one(which.tools, "tools", List::Tools),
            one(which.resources, "resources", List::Resources),
            one(which.resources, "resources", List::Templates),
            one(which.prompts, "prompts", List::Prompts),
        )
        .await?;
        let mut live = self.live.lock();
        let live = &mut *live;
        let kept = [
            (tools, &mut live.tools),
            (resources, &mut live.resources),
            (templates, &mut live.templates),
            (prompts, &mut live.prompts),
        ];
        let said = live.remarks.iter_mut().zip(&mut live.cut);
        for ((listed, place), (remarks, cut)) in kept.into_iter().zip(said) {
            if let Some(listed) = listed {
                *cut = listed.cut;
                debug_assert!(listed.items.len() <= LIST_ITEMS);
                *place = Arc::new(listed.items);
                *remarks = listed.remarks;
            }
        }
        Ok(())
    }

    /// Reads changed lists and notifies subscribers.
    async fn refresh(&self, connection: &Arc<Connection>, dirty: Dirty) {
        let announced = self.shared.announced();
        self.reload(connection, dirty).await;
        self.shared.lists_read(announced);
    }

    async fn reload(&self, connection: &Arc<Connection>, dirty: Dirty) {
        if let Err(error) = self.read_lists(connection, dirty).await {
            let reason = error.reason(&self.name);
            self.shared
                .log
                .note(&format!("a changed list can't be read: {reason}"));
            return;
        }
        let server = || self.name.clone();
        if dirty.tools {
            self.shared.tell(Change::Tools { server: server() });
        }
        if dirty.resources {
            self.shared.tell(Change::Resources { server: server() });
        }
        if dirty.prompts {
            self.shared.tell(Change::Prompts { server: server() });
        }
    }
}

/// An empty list with the reason as a remark.
fn without(list: List, reason: &str) -> Listed {
    Listed {
        items: Vec::new(),
        remarks: vec![Diagnostic::warning(format!(
            "{list:?}: {}",
            crate::text::line(reason, 200)
        ))],
        cut: 0,
    }
}

const ALL: Dirty = Dirty {
    tools: true,
    resources: true,
    prompts: true,
};

/// The next action of a keeper.
enum Next {
    /// Connect at once.
    Connect(Vec<oneshot::Sender<()>>),
    /// Reconnect after a loss.
    Seek(String),
    Idle,
    End(oneshot::Sender<()>),
}

/// Keeps a server connected until it is closed.
pub(crate) async fn keep(
    entry: Arc<ManagedServer>,
    inner: Arc<Inner>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let mut restarted = false;
    let mut next = if entry.config.disabled {
        Next::Idle
    } else {
        Next::Connect(Vec::new())
    };
    loop {
        next = match next {
            Next::Connect(told) => {
                restarted = false;
                let next = first(&entry, &inner, &mut orders).await;
                for one in told {
                    let _ = one.send(());
                }
                next
            }
            Next::Seek(reason) if entry.is_local() => {
                let sdk = matches!(entry.config.transport, TransportConfig::Sdk { .. });
                if restarted || sdk {
                    let state = State::Failed {
                        reason: reason.clone(),
                    };
                    entry.set_state(&inner, state);
                    entry.notice(format!(
                        "The MCP server {} has exited ({reason}). `/mcp` restarts it.",
                        entry.name
                    ));
                    Next::Idle
                } else {
                    restarted = true;
                    entry.shared.log.note(&format!("{reason}; restarting it"));
                    first(&entry, &inner, &mut orders).await
                }
            }
            Next::Seek(reason) => seek(&entry, &inner, &mut orders, reason).await,
            Next::Idle => idle(&entry, &inner, &mut orders).await,
            Next::End(told) => {
                let _ = told.send(());
                return;
            }
        };
    }
}

/// Connects; on failure the server is marked as failed.
async fn first(
    entry: &Arc<ManagedServer>,
    inner: &Arc<Inner>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Next {
    make(entry, inner, orders)
        .await
        .unwrap_or_else(|NotConnected(reason)| {
            entry.set_state(inner, State::Failed { reason });
            Next::Idle
        })
}

/// Why a server is not connected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotConnected(String);

/// Connects. On failure the server stays pending.
async fn make(
    entry: &Arc<ManagedServer>,
    inner: &Arc<Inner>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Result<Next, NotConnected> {
    entry.set_state(inner, State::Pending);
    let mut told = Vec::new();
    let outcome = {
        let connecting = entry.connect(inner);
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                outcome = &mut connecting => break outcome,
                order = orders.recv() => match order {
                    // It is connecting already.
                    Some(Order::Connect(one)) => told.push(one),
                    Some(Order::Lost(..)) => {}
                    Some(Order::NeedsAuth) => {}
                    Some(Order::Disable(one)) => {
                        entry.set_state(inner, State::Disabled);
                        let _ = one.send(());
                        return Ok(Next::Idle);
                    }
                    Some(Order::Close(one)) => return Ok(Next::End(one)),
                    None => return Ok(Next::End(oneshot::channel().0)),
                },
            }
        }
    };
    let made = match outcome {
        Ok(connection) => {
            {
                let mut live = entry.live.lock();
                live.connection = Some(connection.clone());
                live.description = Some(connection.description.clone());
            }
            connection.listen();
            connection.choose_log_level();
            entry.set_state(inner, State::Connected);
            Ok(Next::Idle)
        }
        Err(CallError::Auth(_)) => {
            entry.set_state(inner, State::NeedsAuth);
            Ok(Next::Idle)
        }
        Err(error) => {
            let reason = error.reason(&entry.name);
            entry.shared.log.note(&format!("not connected: {reason}"));
            Err(NotConnected(reason))
        }
    };
    for one in told {
        let _ = one.send(());
    }
    made
}

/// Reconnects to a remote server, with increasing delays.
async fn seek(
    entry: &Arc<ManagedServer>,
    inner: &Arc<Inner>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    mut reason: String,
) -> Next {
    entry.set_state(inner, State::Pending);
    let backoff = inner.options.backoff;
    let began = Instant::now();
    let mut pause = backoff.first;
    for _ in 0..backoff.tries {
        if began.elapsed() + pause > backoff.give_up {
            break;
        }
        let waited = tokio::time::sleep(pause);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => break,
                order = orders.recv() => match order {
                    Some(Order::Connect(one)) => return Next::Connect(vec![one]),
                    Some(Order::Lost(..) | Order::NeedsAuth) => {}
                    Some(Order::Disable(one)) => {
                        entry.set_state(inner, State::Disabled);
                        let _ = one.send(());
                        return Next::Idle;
                    }
                    Some(Order::Close(one)) => return Next::End(one),
                    None => return Next::End(oneshot::channel().0),
                },
            }
        }
        match make(entry, inner, orders).await {
            Ok(next) => return next,
            Err(NotConnected(again)) => reason = again,
        }
        pause = (pause * 2).min(backoff.longest);
    }
    entry.set_state(
        inner,
        State::Failed {
            reason: reason.clone(),
        },
    );
    entry.notice(format!(
        "The MCP server {} can't be reached any longer ({reason}). `/mcp` reconnects.",
        entry.name
    ));
    Next::Idle
}

/// Waits for orders, changed lists, and the end of the connection.
async fn idle(
    entry: &Arc<ManagedServer>,
    inner: &Arc<Inner>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Next {
    loop {
        let connection = entry.live.lock().connection.clone();
        let happened = async {
            match &connection {
                None => std::future::pending().await,
                Some(connection) => tokio::select! {
                    reason = connection.ended() => Err(reason),
                    dirty = entry.shared.marked() => Ok(dirty),
                },
            }
        };
        tokio::select! {
            happened = happened => match (happened, &connection) {
                (Ok(dirty), Some(connection)) => entry.refresh(connection, dirty).await,
                (Ok(_), None) => {}
                (Err(reason), _) => return Next::Seek(reason),
            },
            order = orders.recv() => match order {
                Some(Order::Connect(one)) => {
                    close(connection).await;
                    return Next::Connect(vec![one]);
                }
                Some(Order::Disable(one)) => {
                    entry.set_state(inner, State::Disabled);
                    close(connection).await;
                    let _ = one.send(());
                }
                Some(Order::NeedsAuth) => {
                    entry.set_state(inner, State::NeedsAuth);
                    close(connection).await;
                }
                Some(Order::Lost(lost, reason)) => {
                    if connection.as_ref().is_some_and(|now| Arc::ptr_eq(now, &lost)) {
                        entry.set_state(inner, State::Pending);
                        close(connection).await;
                        let known = reason != "the connection was closed";
                        return Next::Seek(if known { reason } else { lost.why().await });
                    }
                }
                Some(Order::Close(one)) => {
                    close(connection).await;
                    return Next::End(one);
                }
                None => {
                    close(connection).await;
                    return Next::End(oneshot::channel().0);
                }
            },
        }
    }
}

async fn close(connection: Option<Arc<Connection>>) {
    if let Some(connection) = connection {
        connection.close().await;
    }
}

/// How long a call waits for a connecting server, beyond its start limit.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
