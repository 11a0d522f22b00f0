//! The hub of a session: its mirror, its clients, and requests to its face.

use crate::facts::{Facts, HubError};
use crate::mirror::Mirror;
use crate::outbox::{Line, Outbox};
use crate::past::{self, Past};
use crate::ring::{Begun, OpRing, Ring};
use crate::state::{Awaited, Client, State, now_ms};
use lathe_engine::{ObserveOptions, Observer};
use lathe_process::Console;
use lathe_protocol::event::Event;
use lathe_protocol::ids::{RecordId, RequestId, SessionId};
use lathe_protocol::record::MessageRecord;
use lathe_settings::Environment;
use lathe_wire::peer::Standing;
use lathe_wire::{
    ClaimError, ClientInfo, ClientKind, Folder, Hello, HostFrame, HostId, HostInfo, Nak, NakCode,
    OpId, QueuedPrompt, Size, WireOp,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// How many clients there may be.
const CLIENTS: usize = 256;

/// A request of a client to the face.
#[derive(Debug)]
pub enum Request {
    /// An operation, to be answered with the [`Done`].
    Op {
        /// The operation.
        op: Box<WireOp>,
        /// Names it; a prompt without an id of its own becomes the record of this id.
        id: OpId,
        /// Who asks.
        by: String,
        /// How it is answered.
        done: Done,
    },
    /// A terminal was attached while the session has one of its own: move to a console ([`Hub::use_console`]) and let
    /// the stub attach too.
    ShareTerminal,
    /// Terminals were attached or resized: draw everything.
    Repaint,
    /// The number of clients changed.
    Clients,
}

/// The right to answer an operation.
#[derive(Debug)]
pub struct Done {
    hub: Hub,
    id: OpId,
}

impl Done {
    /// It was done.
    pub fn ok(self) {
        self.hub.answered(self.id, &HostFrame::Ack(self.id));
    }

    /// It was not done.
    pub fn refuse(self, code: NakCode, why: impl Into<String>) {
        let nak = Nak {
            id: self.id,
            why: why.into(),
            code,
            by: None,
            reply: None,
        };
        self.hub.answered(self.id, &HostFrame::Nak(Box::new(nak)));
    }

    /// It is done when the prompt is in the transcript, and was not if the session has nothing to do before.
    pub fn when_accepted(self, prompt: RecordId) {
        let awaited = Awaited {
            op: self.id,
            may_end: false,
        };
        self.hub.shared.state.lock().awaited.insert(prompt, awaited);
    }

    /// The question was not open any more: says who answered it, once that is known.
    pub fn too_late(self, question: &RequestId) {
        let mut state = self.hub.shared.state.lock();
        if state.mirror.is_open(question) {
            state.late.push((question.clone(), self.id));
            return;
        }
        state.answer_late(question, self.id);
    }
}

pub(crate) struct Shared {
    pub(crate) folder: Folder,
    state: Mutex<State>,
    requests: mpsc::UnboundedSender<Request>,
    /// The description of the host changed.
    changed: Notify,
}

/// The hub of a session. Clones are the same hub.
#[derive(Clone)]
pub struct Hub {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hub").finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub that nobody can reach yet, and the requests of its clients.
    #[must_use]
    pub fn new(environment: &Environment) -> (Self, mpsc::UnboundedReceiver<Request>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let state = State {
            mirror: Mirror::new(String::new()),
            generation: 0,
            next: None,
            ring: None,
            clients: BTreeMap::new(),
            last_client: 0,
            ops: OpRing::default(),
            awaited: HashMap::new(),
            late: Vec::new(),
            prompts: HashSet::new(),
            info: None,
            registration: None,
            console: None,
            typed_last: None,
        };
        let shared = Shared {
            folder: Folder::of(environment),
            state: Mutex::new(state),
            requests,
            changed: Notify::new(),
        };
        let shared = Arc::new(shared);
        (Self { shared }, receiver)
    }

    /// Lets the hub see the events of the sessions that are opened with these options, beside who sees them already.
    #[must_use]
    pub fn observing(&self, others: ObserveOptions) -> ObserveOptions {
        let hub = self.clone();
        ObserveOptions(Some(Arc::new(move |settings, environment| {
            let other = others
                .0
                .as_ref()
                .and_then(|begin| begin(settings, environment));
            let generation = hub.begin();
            let hub = hub.clone();
            let observer: Observer = Arc::new(move |event| {
                if let Some(other) = &other {
                    other(event);
                }
                hub.event(generation, event);
            });
            Some(observer)
        })))
    }

    /// A session is being opened.
    fn begin(&self) -> u64 {
        let mut state = self.shared.state.lock();
        let newest = state.next.as_ref().map_or(state.generation, |(it, _)| *it);
        let epoch = RequestId::random().0;
        state.next = Some((newest + 1, Mirror::new(epoch)));
        newest + 1
    }

    fn event(&self, generation: u64, event: &Event) {
        let mut state = self.shared.state.lock();
        if generation == state.generation {
            let before = state.mirror.state();
            state.event(event);
            if before != state.mirror.state()
                || matches!(event, Event::TurnFinished(_) | Event::CallStarted { .. })
            {
                self.shared.changed.notify_one();
            }
        } else if let Some((next, mirror)) = &mut state.next
            && *next == generation
        {
            mirror.apply(event);
        }
    }

    /// The session that was being opened is open. Clients of the one before get a snapshot.
    pub fn opened(&self, facts: &Facts, records: &[MessageRecord]) {
        let mut state = self.shared.state.lock();
        if let Some((generation, mirror)) = state.next.take() {
            state.generation = generation;
            state.mirror = mirror;
        }
        state.mirror.session_id = Some(facts.session_id);
        state.mirror.title.clone_from(&facts.title);
        state.mirror.resume(records);
        state.refuse_awaited(|_| true, "another session took the place of this one");
        state.prompts = records
            .iter()
            .filter(|record| record.is_prompt())
            .map(|record| record.uuid)
            .chain(facts.waiting.iter().copied())
            .collect();
        let ring = state.ring.is_some().then(|| Ring::after(state.mirror.seq));
        state.ring = ring;
        let id = state.registration.as_ref().map(|it| it.id().clone());
        let before = state.info.take();
        state.info = Some(HostInfo {
            id: id.unwrap_or_else(|| HostId::of(facts.session_id)),
            session_id: facts.session_id,
            title: facts.title.clone(),
            folder: facts.folder.clone(),
            state: state.mirror.state(),
            pid: std::process::id().cast_signed(),
            config_home: self.shared.folder.config_home().to_owned(),
            background: before.as_ref().is_some_and(|before| before.background),
            clients: state.clients.len(),
            activity: None,
            failed: false,
            started_ms: before.map_or_else(now_ms, |before| before.started_ms),
            changed_ms: now_ms(),
        });
        let clients: Vec<u64> = state.clients.keys().copied().collect();
        for client in clients {
            state.start_over(client);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Makes the session reachable, after [`Hub::opened`]. Once it is, this gives its id again.
    ///
    /// # Errors
    /// If the socket can't be made.
    pub fn listen(&self) -> Result<HostId, HubError> {
        let wanted = {
            let state = self.shared.state.lock();
            if let Some(registration) = &state.registration {
                return Ok(registration.id().clone());
            }
            state.info.as_ref().map(|info| info.id.clone())
        };
        self.shared.folder.prepare()?;
        let wanted = wanted.unwrap_or_else(|| HostId::of(SessionId::random()));
        let registration = match self.shared.folder.claim(&wanted) {
            // A session that was left by /clear elsewhere may still have given its id to that process. One that is
            // open there is not opened here.
            Err(ClaimError::Taken(_)) if !self.is_open_elsewhere(&wanted) => {
                let other = HostId::of(SessionId::random());
                self.shared.folder.claim(&other)?
            }
            other => other?,
        };
        let listener = registration.listen()?;
        let id = registration.id().clone();
        let mut state = self.shared.state.lock();
        if let Some(info) = &mut state.info {
            info.id = id.clone();
            registration.publish(info)?;
        }
        state.registration = Some(Arc::new(registration));
        drop(state);
        lathe_spawn::task(crate::serve::accept(self.clone(), listener));
        lathe_spawn::task(publish(self.clone()));
        Ok(id)
    }

    /// Whether another process has this session under an id.
    fn is_open_elsewhere(&self, id: &HostId) -> bool {
        let own = self.shared.state.lock();
        let own = own.info.as_ref().map(|info| info.session_id);
        let other = self.shared.folder.read(id).map(|info| info.session_id);
        // Without a description the other process is about to begin.
        other.is_none() || other == own
    }

    /// The id, once the session is reachable.
    #[must_use]
    pub fn id(&self) -> Option<HostId> {
        let state = self.shared.state.lock();
        state.registration.as_ref().map(|it| it.id().clone())
    }

    /// Names the session.
    pub fn set_title(&self, title: &str) {
        let mut state = self.shared.state.lock();
        state.mirror.title = Some(title.to_owned());
        if let Some(info) = &mut state.info {
            info.title = Some(title.to_owned());
        }
        let frame = serde_json::json!({"type": "system", "subtype": "title", "title": title});
        state.frame(frame.to_string().as_bytes());
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The prompts that wait.
    pub fn set_queue(&self, queue: Vec<QueuedPrompt>) {
        let mut state = self.shared.state.lock();
        if let Some(frame) = state.mirror.set_queue(queue) {
            state.frame(frame.to_string().as_bytes());
        }
    }

    /// How many clients are connected.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.state.lock().clients.len()
    }

    /// The session has no terminal of its own any more: what it draws on the console goes to attached terminals.
    pub fn use_console(&self, console: Arc<Console>) {
        let mut state = self.shared.state.lock();
        state.console = Some(console.clone());
        if let Some(info) = &mut state.info {
            info.background = true;
        }
        drop(state);
        self.shared.changed.notify_one();
        let hub = self.clone();
        let drained = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || hub.drain(&console));
        if let Err(error) = drained {
            tracing::error!(%error, "no thread for the screen");
        }
    }

    /// Passes on what is drawn, until the terminal is gone.
    fn drain(&self, console: &Console) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count) = console.read(&mut buffer) {
            if count == 0 {
                return;
            }
            let line: Line = HostFrame::Output(buffer[..count].to_vec()).to_line().into();
            let state = self.shared.state.lock();
            for client in state.clients.values().filter(|it| it.size.is_some()) {
                client.outbox.push(&line);
            }
        }
    }

    /// Ends the connection of the terminal that typed last, or of all if `everyone`.
    pub fn detach(&self, why: &str, everyone: bool) {
        let state = self.shared.state.lock();
        let last = state.typed_last;
        for (number, client) in &state.clients {
            if client.size.is_some() && (everyone || Some(*number) == last) {
                let bye = HostFrame::Bye(why.to_owned()).to_line();
                client.outbox.answer(bye.into());
                client.outbox.close();
            }
        }
    }

    /// Notes that the session's terminal was closed and that it continues, for the next start.
    pub fn terminal_closed(&self) {
        let info = self.shared.state.lock().described();
        if let Some(Err(error)) = info.map(|info| past::note_closed(&info)) {
            tracing::warn!(%error, "the next start will not name the session");
        }
    }

    /// The session is over: clients are told, and the files go.
    pub fn close(&self, why: &str) {
        let mut state = self.shared.state.lock();
        for client in state.clients.values() {
            let bye = HostFrame::Bye(why.to_owned()).to_line();
            client.outbox.answer(bye.into());
            client.outbox.close();
        }
        let info = state.described();
        state.registration = None;
        state.info = None;
        drop(state);
        if let Some(mut info) = info.filter(|info| info.background) {
            info.clients = 0;
            let past = Past {
                info,
                ended_ms: Some(now_ms()),
            };
            if let Err(error) = past::note(&past) {
                tracing::warn!(%error, "the end of the session is not in the list");
            }
        }
    }

    /// Waits until every client has what was sent to it, or is gone. For the end of the process.
    pub async fn drained(&self) {
        while !self.shared.state.lock().clients.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

/// For connections.
impl Hub {
    /// Takes a client in. Gives its number and what it is sent; `None` if there are too many.
    pub(crate) fn join(&self, hello: &Hello, standing: Standing) -> Option<(u64, Arc<Outbox>)> {
        let sender = match standing {
            Standing::User => None,
            Standing::Session(pid) => self.sender(pid),
        };
        let mut state = self.shared.state.lock();
        if state.clients.len() >= CLIENTS {
            return None;
        }
        state.last_client += 1;
        let number = state.last_client;
        let outbox = Arc::new(Outbox::default());
        let kind = match standing {
            Standing::User => hello.kind,
            Standing::Session(_) => ClientKind::Session,
        };
        let size = hello.size.filter(|_| kind == ClientKind::Terminal);
        let client = Client {
            info: ClientInfo {
                client: hello.client.chars().take(64).collect(),
                kind,
            },
            outbox: outbox.clone(),
            size,
            sender,
        };
        state.clients.insert(number, client);
        if state.ring.is_none() {
            state.ring = Some(Ring::after(state.mirror.seq));
        }
        if size.is_some() {
            let ask = if state.console.is_some() {
                Request::Repaint
            } else {
                Request::ShareTerminal
            };
            state.fit_console();
            let _ = self.shared.requests.send(ask);
        } else if kind != ClientKind::Session {
            state.catch_up(number, hello);
        }
        drop(state);
        let _ = self.shared.requests.send(Request::Clients);
        self.shared.changed.notify_one();
        Some((number, outbox))
    }

    /// The session of a process.
    fn sender(&self, pid: i32) -> Option<(SessionId, Option<String>)> {
        let hosts = self.shared.folder.all_hosts().unwrap_or_default();
        let host = hosts.into_iter().find(|host| host.pid == pid)?;
        Some((host.session_id, host.title))
    }

    pub(crate) fn part(&self, number: u64) {
        let mut state = self.shared.state.lock();
        let gone = state.clients.remove(&number);
        if gone.is_some_and(|client| client.size.is_some()) {
            state.fit_console();
        }
        drop(state);
        let _ = self.shared.requests.send(Request::Clients);
        self.shared.changed.notify_one();
    }

    /// A client lost lines and gets everything anew.
    pub(crate) fn start_over(&self, number: u64) {
        let mut state = self.shared.state.lock();
        if state.start_over(number) {
            let _ = self.shared.requests.send(Request::Repaint);
        }
    }

    pub(crate) fn beat(&self) -> Line {
        let seq = self.shared.state.lock().mirror.seq;
        HostFrame::Beat(seq).to_line().into()
    }

    /// A terminal was resized.
    pub(crate) fn resized(&self, number: u64, size: Size) {
        let mut state = self.shared.state.lock();
        if let Some(client) = state.clients.get_mut(&number)
            && client.size.is_some()
        {
            client.size = Some(size);
            state.fit_console();
        }
    }

    /// The console that a terminal types into.
    pub(crate) fn typing(&self, number: u64) -> Option<Arc<Console>> {
        let mut state = self.shared.state.lock();
        let is_terminal = state.clients.get(&number)?.size.is_some();
        state.typed_last = Some(number);
        state.console.clone().filter(|_| is_terminal)
    }

    /// An operation of a client.
    pub(crate) fn op(&self, number: u64, id: OpId, op: WireOp, by: Option<String>) {
        let mut state = self.shared.state.lock();
        let Some(client) = state.clients.get(&number) else {
            return;
        };
        let by = by.unwrap_or_else(|| client.info.client.clone());
        let is_session = client.info.kind == ClientKind::Session;
        let op = match (op, &client.sender) {
            (WireOp::Message { text, .. }, Some((from, name))) => WireOp::Message {
                from: *from,
                name: name.clone(),
                text,
            },
            (op, _) => op,
        };
        let is_known_sender = client.sender.is_some();
        match state.ops.begin(id, number) {
            Begun::New => {}
            Begun::Waiting => return,
            Begun::Answered(answer) => {
                state.send_to(number, answer);
                return;
            }
        }
        let done = Done {
            hub: self.clone(),
            id,
        };
        let known = match &op {
            WireOp::Prompt { uuid, .. } => !state.prompts.insert(uuid.unwrap_or(RecordId(id))),
            _ => false,
        };
        drop(state);
        let is_message = matches!(op, WireOp::Message { .. });
        if is_session != is_message || is_message != is_known_sender {
            done.refuse(
                NakCode::Refused,
                "sessions exchange messages, and nobody else sends those",
            );
        } else if known {
            // It is in the transcript, or on its way there.
            done.ok();
        } else if self
            .shared
            .requests
            .send(Request::Op {
                op: Box::new(op),
                id,
                by,
                done,
            })
            .is_err()
        {
            tracing::warn!("an operation came after the end of the session");
        }
    }

    fn answered(&self, id: OpId, answer: &HostFrame) {
        self.shared.state.lock().answered(id, answer);
    }
}

/// Keeps the description of the host up to date.
async fn publish(hub: Hub) {
    loop {
        hub.shared.changed.notified().await;
        let (registration, info) = {
            let mut state = hub.shared.state.lock();
            let Some(registration) = state.registration.clone() else {
                return;
            };
            let Some(info) = state.described() else {
                continue;
            };
            (registration, info)
        };
        let written = lathe_spawn::blocking(move || {
            if info.background {
                let past = Past {
                    info: info.clone(),
                    ended_ms: None,
                };
                past::note(&past)?;
            }
            registration.publish(&info)
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!(%error, "the description of the session was not written");
        }
    }
}
