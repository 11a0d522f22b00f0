//! A session that runs in another process: followed over its socket. It continues when the editor is gone.

use super::capabilities::ClientCapabilities;
use super::client::Client;
use super::frames::{self, Frame};
use super::questions;
use super::replayed::Replayed;
use super::session::{Cancelled, End, cancelled, outcome_of, stopped};
use super::updates::{self, Updates, chunk};
use super::wire::RpcError;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::event::{Event, NoticeLevel, SessionState};
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::MessageRecord;
use lathe_protocol::stream::StreamEvent;
use lathe_wire::client::{Follower, Update};
use lathe_wire::{ClientKind, Folder, Hello, HostInfo, HostState, OpId, Snapshot, WireOp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// The name that others see.
const NAME: &str = "editor";
/// How long the session may take to describe itself.
const FIRST_WORDS: Duration = Duration::from_secs(10);

/// Why the session refuses an operation, in its words.
struct Refused(String);

/// The answer to an operation.
type Answer = Result<(), Refused>;

/// An operation and who waits for its answer.
type Asked = (WireOp, oneshot::Sender<Answer>);

/// A session that another process runs.
pub(super) struct Attached {
    pub(super) id: String,
    client: Client,
    able: ClientCapabilities,
    operations: mpsc::UnboundedSender<Asked>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    prompts: Vec<Waiting>,
    mode: Option<PermissionMode>,
    model: Option<String>,
    no_thinking: bool,
}

/// A prompt of this editor.
struct Waiting {
    uuid: RecordId,
    request: Value,
    accepted: bool,
    cancelled: Option<Cancelled>,
}

/// The connection of an attached session, until it is followed.
pub(super) struct Line {
    follower: Follower,
    operations: mpsc::UnboundedReceiver<Asked>,
    snapshot: Box<Snapshot>,
}

/// Connects to a session that runs.
pub(super) async fn attach(
    folder: Folder,
    host: &HostInfo,
    client: Client,
    able: ClientCapabilities,
) -> Result<(Arc<Attached>, Line), RpcError> {
    let hello = Hello::new(NAME, ClientKind::Sdk);
    let mut follower = Follower::new(folder, host.id.clone(), hello);
    let first = async {
        loop {
            match follower.next().await {
                Update::Snapshot(snapshot) => return Ok(snapshot),
                Update::Ended(why) => return Err(RpcError::internal(why)),
                _ => {}
            }
        }
    };
    let silent = || RpcError::internal("the session's process does not answer");
    let first = tokio::time::timeout(FIRST_WORDS, first).await;
    let snapshot = first.map_err(|_| silent())??;
    let (operations, receiver) = mpsc::unbounded_channel();
    let attached = Attached {
        id: host.session_id.to_string(),
        client,
        able,
        operations,
        state: Mutex::default(),
    };
    attached.began(&snapshot.init);
    let line = Line {
        follower,
        operations: receiver,
        snapshot,
    };
    Ok((Arc::new(attached), line))
}

impl Attached {
    /// The answer to the request that opened it.
    pub(super) fn opened(&self) -> Value {
        let mut answer = json!({
            "sessionId": self.id, "configOptions": self.options(),
            "_meta": {"lathe": {"attached": true}},
        });
        if let Some(mode) = self.state.lock().mode {
            let modes = offered(mode).map(|mode| json!({"id": mode.name(), "name": mode.name()}));
            answer["modes"] = json!({
                "currentModeId": mode.name(), "availableModes": modes.collect::<Vec<_>>(),
            });
        }
        answer
    }

    /// The options that can be changed from here. What the session did not tell yet is left out.
    pub(super) fn options(&self) -> Value {
        let state = self.state.lock();
        let select = |id: &str, name: &str, category: &str, current: &str, values: &[&str]| {
            let values = values.iter();
            let values = values.map(|value| json!({"value": value, "name": value}));
            json!({
                "id": id, "name": name, "category": category, "type": "select",
                "currentValue": current, "options": values.collect::<Vec<_>>(),
            })
        };
        let mut options = Vec::new();
        if let Some(mode) = state.mode {
            let modes: Vec<&str> = offered(mode).map(PermissionMode::name).collect();
            options.push(select(
                "mode",
                "Permission mode",
                "mode",
                mode.name(),
                &modes,
            ));
        }
        if let Some(model) = &state.model {
            options.push(select("model", "Model", "model", model, &[model.as_str()]));
        }
        let thinking = if state.no_thinking { "off" } else { "on" };
        options.push(select(
            "thinking",
            "Thinking",
            "model_config",
            thinking,
            &["on", "off"],
        ));
        options.into()
    }

    /// Asks the session for something.
    async fn ask(&self, operation: WireOp) -> Result<(), RpcError> {
        let (sender, answer) = oneshot::channel();
        let _ = self.operations.send((operation, sender));
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refused(why))) => Err(RpcError::params(why)),
            Err(_) => Err(RpcError::internal("the session is over")),
        }
    }

    /// Changes an option.
    pub(super) async fn set(&self, option: &str, value: &Value) -> Result<(), RpcError> {
        let text = value.as_str().unwrap_or_default();
        match option {
            "mode" => {
                let mode = PermissionMode::from_str(text);
                let mode = mode.map_err(|error| RpcError::params(error.to_string()))?;
                self.ask(WireOp::SetMode { mode }).await?;
                self.state.lock().mode = Some(mode);
            }
            "model" if !text.is_empty() => {
                let model = text.to_owned();
                self.ask(WireOp::SetModel { model }).await?;
                self.state.lock().model = Some(text.to_owned());
            }
            "thinking" => {
                let on = match (value, text) {
                    (Value::Bool(on), _) => *on,
                    (_, "on") => true,
                    (_, "off") => false,
                    _ => return Err(RpcError::params("thinking is on or off")),
                };
                let max_thinking_tokens = (!on).then_some(0);
                self.ask(WireOp::SetThinking {
                    max_thinking_tokens,
                })
                .await?;
                self.state.lock().no_thinking = !on;
            }
            other => {
                return Err(RpcError::params(format!(
                    "there is no option {other:?} with the value {value} for a session that runs in another process; options: mode, model, thinking"
                )));
            }
        }
        Ok(())
    }

    /// Takes a prompt. It is answered when its turn is over, or when the session refuses it.
    pub(super) async fn submit(&self, content: Vec<ContentBlock>, request: Value) {
        let uuid = RecordId::random();
        self.state.lock().prompts.push(Waiting {
            uuid,
            request: request.clone(),
            accepted: false,
            cancelled: None,
        });
        let content = Content::Blocks(content);
        let uuid_of = Some(uuid);
        let asked = self.ask(WireOp::Prompt {
            content,
            uuid: uuid_of,
        });
        if let Err(error) = asked.await {
            let mut state = self.state.lock();
            let before = state.prompts.len();
            state.prompts.retain(|waiting| waiting.uuid != uuid);
            let was_waiting = state.prompts.len() < before;
            drop(state);
            if was_waiting {
                self.client.respond(&request, Err(error));
            }
        }
    }

    /// Stops the turn. Prompts of this editor that wait are taken back; those of others stay.
    pub(super) async fn cancel(&self, how: Cancelled) {
        let mut waiting = Vec::new();
        for prompt in &mut self.state.lock().prompts {
            prompt.cancelled = Some(how);
            if !prompt.accepted {
                waiting.push(prompt.uuid);
            }
        }
        for uuid in waiting {
            if self.ask(WireOp::CancelPrompt { uuid }).await.is_ok() {
                self.answer(|prompt| prompt.uuid == uuid, || cancelled(how));
            }
        }
        // A session that has nothing to stop has nothing to stop.
        let drop_queued = false;
        let _ = self.ask(WireOp::Interrupt { drop_queued }).await;
    }

    /// Answers the prompts that fit.
    fn answer(
        &self,
        fits: impl Fn(&Waiting) -> bool,
        outcome: impl Fn() -> Result<Value, RpcError>,
    ) {
        let mut over = Vec::new();
        self.state.lock().prompts.retain_mut(|prompt| {
            let ends = fits(prompt);
            if ends {
                over.push((prompt.request.clone(), prompt.cancelled));
            }
            !ends
        });
        for (request, how) in over {
            let outcome = how.map_or_else(&outcome, cancelled);
            self.client.respond(&request, outcome);
        }
    }

    /// Whether a request is a prompt that isn't answered yet.
    pub(super) fn is_waiting(&self, request: &Value) -> bool {
        let state = self.state.lock();
        let mut prompts = state.prompts.iter();
        prompts.any(|prompt| prompt.request == *request)
    }

    fn update(&self, update: &Value) {
        self.client.update(&self.id, update);
    }

    /// Shows the conversation so far: what the transcript has, then what only the process knows yet. Without `shown`
    /// only the calls that still run are taken note of.
    pub(super) async fn replay(&self, line: &Line, records: &[Replayed], shown: bool) -> Following {
        let mut following = Following {
            updates: Updates::new(self.able),
            seen: records.iter().map(|it| it.record.uuid).collect(),
            joined: false,
            asked: HashMap::new(),
        };
        for update in following.updates.replay(records.iter()) {
            if shown {
                self.client.host().room().await;
                self.update(&update);
            }
        }
        following.updates.goes_on();
        for frame in &line.snapshot.records {
            for update in self.record(&mut following, frame) {
                if shown {
                    self.update(&update);
                }
            }
        }
        following
    }

    /// The updates of a frame that is a record which was not shown yet.
    fn record(&self, following: &mut Following, frame: &Value) -> Vec<Value> {
        let Frame::Event(event) = frames::read(frame) else {
            return Vec::new();
        };
        let (record, parent) = match &*event {
            Event::PromptAccepted { record } => (record, None),
            Event::Record {
                record,
                parent_tool_use_id,
            } => (record, parent_tool_use_id.as_ref()),
            _ => return Vec::new(),
        };
        if !following.seen.insert(record.uuid) {
            return Vec::new();
        }
        if matches!(*event, Event::PromptAccepted { .. }) {
            return self.prompt_accepted(record);
        }
        let mut updates = Vec::new();
        if parent.is_none() {
            updates.extend(following.updates.plan_of(record));
        }
        updates.extend(following.updates.event(&event));
        updates
    }

    /// A prompt of this editor begins its turn; one of somebody else is shown.
    fn prompt_accepted(&self, record: &MessageRecord) -> Vec<Value> {
        let mut state = self.state.lock();
        let mut prompts = state.prompts.iter_mut();
        match prompts.find(|prompt| prompt.uuid == record.uuid) {
            Some(prompt) => {
                prompt.accepted = true;
                Vec::new()
            }
            None => updates::prompt(record),
        }
    }

    /// Shows what happens until the session is over or the editor leaves it.
    pub(super) async fn follow(self: Arc<Self>, line: Line, mut following: Following) {
        let Line {
            mut follower,
            mut operations,
            snapshot,
        } = line;
        let mut answers: HashMap<OpId, oneshot::Sender<Answer>> = HashMap::new();
        for question in &snapshot.questions {
            self.frame(&mut following, question);
        }
        drop(snapshot);
        loop {
            // A client that doesn't read is left behind by the other process, and gets what it missed later.
            self.client.host().room().await;
            tokio::select! {
                asked = operations.recv() => match asked {
                    Some((operation, answer)) => {
                        let id = follower.send(operation, None).await;
                        answers.insert(id, answer);
                    }
                    None => break,
                },
                update = follower.next() => match update {
                    Update::Event { event, .. } => {
                        let frame = serde_json::from_str(event.get()).unwrap_or_default();
                        self.frame(&mut following, &frame);
                    }
                    Update::Snapshot(snapshot) => {
                        if snapshot.session_id.to_string() != self.id {
                            self.say("The process has another conversation now.");
                            break;
                        }
                        self.start_over(&mut following, &snapshot);
                    }
                    Update::Done(id) => {
                        if let Some(answer) = answers.remove(&id) {
                            let _ = answer.send(Ok(()));
                        }
                    }
                    Update::Refused(nak) => {
                        if let Some(answer) = answers.remove(&nak.id) {
                            let _ = answer.send(Err(Refused(nak.why.clone())));
                        }
                    }
                    Update::Ended(why) => {
                        self.say(&format!("The session is over: {why}"));
                        break;
                    }
                    Update::Current | Update::Reconnecting => {}
                },
            }
        }
        following.withdraw();
        self.left();
    }

    /// The editor leaves the session: its prompts that are not answered are its own no more.
    pub(super) fn left(&self) {
        self.answer(|_| true, || Ok(stopped("cancelled")));
    }

    /// Shows a warning.
    pub(super) fn say(&self, words: &str) {
        let updates = Updates::new(self.able);
        for update in updates.notice(NoticeLevel::Warning, words) {
            self.update(&update);
        }
    }

    /// Events were lost: what came in the meantime is in the snapshot.
    fn start_over(self: &Arc<Self>, following: &mut Following, snapshot: &Snapshot) {
        following.withdraw();
        following.joined = false;
        for frame in &snapshot.records {
            for update in self.record(following, frame) {
                self.update(&update);
            }
        }
        for question in &snapshot.questions {
            self.frame(following, question);
        }
        if snapshot.state == HostState::Idle {
            self.answer(|prompt| prompt.accepted, || Ok(stopped("end_turn")));
        }
    }

    /// Shows a frame.
    fn frame(self: &Arc<Self>, following: &mut Following, frame: &Value) {
        let event = match frames::read(frame) {
            Frame::Event(event) => event,
            Frame::TurnOver(end, frame) => return self.turn_over(&end, &frame),
            Frame::Init(init) => {
                if self.began(&init) {
                    self.options_changed();
                }
                return self.show_commands(&init);
            }
            Frame::Running(call) => {
                return self.update(&json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": call,
                    "status": "in_progress",
                }));
            }
            Frame::Title(title) => {
                return self
                    .update(&json!({"sessionUpdate": "session_info_update", "title": title}));
            }
            Frame::Answer(text) => return self.update(&chunk("agent_message_chunk", &text, None)),
            Frame::Nothing => return,
        };
        match &*event {
            Event::PromptAccepted { .. } | Event::Record { .. } => {
                for update in self.record(following, frame) {
                    self.update(&update);
                }
            }
            // The beginning of an answer that was being written is not known: it comes whole.
            Event::Stream { event: piece, .. } => {
                following.joined |= matches!(piece.event, StreamEvent::MessageStart { .. });
                if following.joined {
                    self.tell(following, &event);
                }
            }
            _ => {
                self.tell(following, &event);
                self.look(following, &event);
            }
        }
    }

    fn tell(&self, following: &mut Following, event: &Event) {
        for update in following.updates.event(event) {
            self.update(&update);
        }
    }

    fn look(self: &Arc<Self>, following: &mut Following, event: &Event) {
        let session = self.clone();
        match event {
            Event::PermissionRequested(request) => {
                let (request_id, request) = (request.request_id.clone(), request.clone());
                let task = lathe_spawn::task(async move {
                    let (client, id) = (&session.client, &session.id);
                    let answer = questions::permission(client, session.able, id, &request);
                    // Another client may answer what this one can't ask.
                    if let Ok(reply) = answer.await
                        && !client.is_closed()
                    {
                        let request_id = request.request_id.clone();
                        let reply = WireOp::PermissionReply { request_id, reply };
                        let _ = session.ask(reply).await;
                    }
                });
                following.asked.insert(request_id, task.abort_handle());
            }
            Event::ElicitationRequested(request) => {
                let (request_id, request) = (request.request_id.clone(), request.clone());
                let task = lathe_spawn::task(async move {
                    let (client, id) = (&session.client, &session.id);
                    let answer = questions::elicitation(client, session.able, id, &request);
                    if let Ok(reply) = answer.await
                        && !client.is_closed()
                    {
                        let request_id = request.request_id.clone();
                        let reply = WireOp::ElicitationReply { request_id, reply };
                        let _ = session.ask(reply).await;
                    }
                });
                following.asked.insert(request_id, task.abort_handle());
            }
            Event::PermissionResolved { request_id, .. } => {
                if let Some(task) = following.asked.remove(request_id) {
                    task.abort();
                }
            }
            Event::ModeChanged(mode) => {
                self.state.lock().mode = Some(*mode);
                self.update(&json!({
                    "sessionUpdate": "current_mode_update", "currentModeId": mode.name(),
                }));
                self.options_changed();
            }
            Event::StateChanged(SessionState::Idle) => following.withdraw(),
            _ => {}
        }
    }

    /// Takes note of the mode and the model. Gives whether they are others than before.
    fn began(&self, init: &Value) -> bool {
        let mode = init["permissionMode"].as_str();
        let mode = mode.and_then(|mode| PermissionMode::from_str(mode).ok());
        let model = init["model"].as_str().map(str::to_owned);
        let mut state = self.state.lock();
        let changed =
            (mode.is_some() && state.mode != mode) || (model.is_some() && state.model != model);
        state.mode = mode.or(state.mode);
        if model.is_some() {
            state.model = model;
        }
        changed
    }

    fn options_changed(&self) {
        let options = self.options();
        self.update(&json!({"sessionUpdate": "config_option_update", "configOptions": options}));
    }

    fn show_commands(&self, init: &Value) {
        let commands = init["slash_commands"].as_array().into_iter().flatten();
        let commands: Vec<Value> = commands
            .filter(|name| name.is_string())
            .map(|name| json!({"name": name, "description": ""}))
            .collect();
        self.update(&json!({
            "sessionUpdate": "available_commands_update", "availableCommands": commands,
        }));
    }

    /// Answers the prompts of a turn that is over.
    fn turn_over(&self, end: &End, result: &Value) {
        let models = result["modelUsage"].as_object();
        let models = || models.into_iter().flat_map(|models| models.values());
        let window = models().filter_map(|model| model["contextWindow"].as_u64());
        let used = [
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        ];
        let used = used
            .iter()
            .filter_map(|name| result["usage"][name].as_u64());
        if let Some(window) = window.max() {
            let mut update = json!({
                "sessionUpdate": "usage_update", "used": used.sum::<u64>().min(window), "size": window,
            });
            let known = models().all(|model| model["priceUnknown"] != true);
            if let Some(cost) = result["total_cost_usd"].as_f64().filter(|_| known) {
                update["cost"] = json!({"amount": cost, "currency": "USD"});
            }
            self.update(&update);
        }
        self.answer(
            |prompt| prompt.accepted || prompt.cancelled.is_some(),
            || outcome_of(end),
        );
    }
}

/// The modes that can be chosen from an editor: none that asks less than the session was started with.
fn offered(current: PermissionMode) -> impl Iterator<Item = PermissionMode> {
    PermissionMode::ALL.into_iter().filter(move |mode| {
        *mode == current
            || !matches!(
                mode,
                PermissionMode::BypassPermissions | PermissionMode::DontAsk
            )
    })
}

/// The state of a session that is followed.
pub(super) struct Following {
    updates: Updates,
    /// Records that were shown.
    seen: HashSet<RecordId>,
    /// Whether the answer that is being written was seen from its beginning.
    joined: bool,
    asked: HashMap<RequestId, AbortHandle>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Following {
    /// Takes open questions back.
    fn withdraw(&mut self) {
        for (_, task) in self.asked.drain() {
            task.abort();
        }
    }
}
