//! The session actor: takes ops from a face, runs turns one after another, and never blocks on either.
//!
//! While a turn runs in its own task, the actor continues reading ops: an interruption, an answer to a
//! question or a new prompt reaches the turn at once.

mod aside;
pub(crate) mod background;
pub(crate) mod commands;
pub mod cost;
pub mod events;
pub(crate) mod handles;
pub mod ledger;
pub(crate) mod live;
pub(crate) mod messages;
pub(crate) mod monitors;
pub mod observe;
pub mod plugins;
pub(crate) mod purse;
mod restart;
pub(crate) mod schedule;
mod services;

pub use handles::{
    BesideError, ChangedFilesError, ContextHandle, EFFORTS, ExtensionsHandle, GoalHandle,
    HistoryHandle, ModelHandle, PermissionsHandle, PluginsHandle, SettingsHandle,
    SideQuestionsHandle, SwitchError, SwitchSource, TaskError, TasksHandle, UnknownEffort,
};
pub use live::FlagError;
pub use messages::{MessageRefused, SessionMessage};
pub use restart::{Carried, Restart};
pub(crate) use services::{Session, SessionSettings};

use self::aside::Aside;
use crate::agents::{notice, team};
use crate::call::panic_message;
use crate::context::compaction;
use crate::conversation::records::reminder;
use crate::conversation::{Arrival, Conversation, ConversationShared, RunningTurn};
use crate::editor::EditorControl;
use crate::mcp::McpControl;
use crate::turn::decide::Done;
use crate::turn::report::keep_totals;
use futures::FutureExt as _;
use lathe_hooks::HookRegistry;
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::event::{
    Event, News, NoticeLevel, Priority, SessionInit, SessionState, TerminalReason, TurnResult,
    TurnTimes,
};
use lathe_protocol::ids::{RecordId, RequestId, SessionId};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::PermissionReply;
use lathe_protocol::usage::Usage;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

/// Why a session ends; its `SessionEnd` hooks get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndReason {
    /// The conversation was cleared; another begins.
    Clear,
    /// Another session is resumed.
    Resume,
    /// The user left the terminal.
    PromptInputExit,
    /// Anything else.
    #[default]
    Other,
}

impl EndReason {
    /// Its name for hooks.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Resume => "resume",
            Self::PromptInputExit => "prompt_input_exit",
            Self::Other => "other",
        }
    }
}

/// The handle of a face on a session.
pub struct SessionHandle {
    ops: mpsc::UnboundedSender<Message>,
    pub(crate) shared: Arc<ConversationShared>,
    transcript: PathBuf,
    task: JoinHandle<()>,
}

impl SessionHandle {
    /// Tells the session something. Returns whether it still lives.
    pub fn send(&self, op: Op) -> bool {
        if let Op::Prompt(prompt) = &op {
            self.shared.inbox.undelivered.lock().push(prompt.uuid);
        }
        self.ops.send(Message::Op(op)).is_ok()
    }

    /// Waits until the actor has processed every operation that was sent so far: a prompt is in the queue then.
    pub async fn processed(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.ops.send(Message::Heard(sender)).is_ok() {
            // The session may end meanwhile; then there is nothing to wait for.
            let _ = receiver.await;
        }
    }

    /// Tells `Notification` hooks something that a face notifies the user of. Nobody waits for them.
    pub fn notify(&self, kind: &'static str, message: &str) {
        let (hooks, message) = (self.shared.hooks.clone(), message.to_owned());
        lathe_spawn::task(async move { hooks.notification(kind, &message).await });
    }

    /// Notes a command that the user gave and the session answered without the model, with its answer if that
    /// is text. It stands in the transcript once something was said; the model doesn't see it.
    pub fn note_command(&self, name: &str, arguments: &str, answer: Option<&str>) {
        for aside in aside::of_command(name, arguments, answer) {
            // An error means that the session is over.
            let _ = self.ops.send(Message::Aside(aside));
        }
    }

    /// Notes the summary that the user got who had been away.
    pub fn note_away_summary(&self, text: &str) {
        let _ = self.ops.send(Message::Aside(aside::of_absence(text)));
    }

    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.shared.session.id
    }

    /// The session's transcript.
    #[must_use]
    pub fn transcript(&self) -> &Path {
        &self.transcript
    }

    /// The model: which one answers, how hard it tries, how it may reason.
    #[must_use]
    pub fn model(&self) -> ModelHandle<'_> {
        ModelHandle {
            shared: &self.shared,
        }
    }

    /// Permission mode, rules and roots.
    #[must_use]
    pub fn permissions(&self) -> PermissionsHandle<'_> {
        PermissionsHandle {
            shared: &self.shared,
        }
    }

    /// Agents, background commands and other work beside the turns.
    #[must_use]
    pub fn tasks(&self) -> TasksHandle<'_> {
        TasksHandle {
            shared: &self.shared,
        }
    }

    /// The goal that turns go on for.
    #[must_use]
    pub fn goal(&self) -> GoalHandle<'_> {
        GoalHandle {
            shared: &self.shared,
        }
    }

    /// Plugins.
    #[must_use]
    pub fn plugins(&self) -> PluginsHandle<'_> {
        PluginsHandle {
            shared: &self.shared,
        }
    }

    /// Commands, skills, agent definitions, output styles and language servers.
    #[must_use]
    pub fn extensions(&self) -> ExtensionsHandle<'_> {
        ExtensionsHandle {
            shared: &self.shared,
        }
    }

    /// The context of the model: its window, tools, notes and files.
    #[must_use]
    pub fn context(&self) -> ContextHandle<'_> {
        ContextHandle {
            shared: &self.shared,
        }
    }

    /// Queued prompts, title, changed files and cost.
    #[must_use]
    pub fn history(&self) -> HistoryHandle<'_> {
        HistoryHandle {
            shared: &self.shared,
        }
    }

    /// Settings, and the commands that settings name.
    #[must_use]
    pub fn settings(&self) -> SettingsHandle<'_> {
        SettingsHandle {
            shared: &self.shared,
        }
    }

    /// Small questions to the small model: titles, suggestions, summaries.
    #[must_use]
    pub fn side_questions(&self) -> SideQuestionsHandle<'_> {
        SideQuestionsHandle {
            shared: &self.shared,
        }
    }

    /// The MCP servers.
    #[must_use]
    pub fn mcp(&self) -> McpControl {
        McpControl {
            shared: self.shared.clone(),
        }
    }

    /// The editor beside the session.
    #[must_use]
    pub fn editor(&self) -> EditorControl {
        EditorControl::new(self.shared.clone())
    }

    /// The hooks, for a host that adds its own.
    #[must_use]
    pub fn hooks(&self) -> &Arc<HookRegistry> {
        &self.shared.hooks.registry
    }

    /// The facts that a face gets at the start of a turn.
    #[must_use]
    pub fn init(&self) -> SessionInit {
        self.shared.session_init(&self.model().current())
    }

    /// Sets the reason that `SessionEnd` hooks get. Call it before the session ends.
    pub fn ends_by(&self, reason: EndReason) {
        self.shared.session.background.set_end_reason(reason);
    }

    /// Answers a permission question for somebody who is named to everyone. Returns whether the question was open:
    /// the first answer wins, once.
    pub fn answer_permission(&self, id: &RequestId, reply: PermissionReply, by: &str) -> bool {
        self.shared.questions.answer_as(id, reply, by)
    }

    /// Answers a question of an MCP server for somebody who is named to everyone. Returns whether it was open.
    pub fn answer_elicitation(&self, id: &RequestId, reply: ElicitationReply, by: &str) -> bool {
        let elicitations = &self.shared.integrations.mcp.elicitations;
        elicitations.answer_as(id, reply, by)
    }

    /// Takes a message of another session of this user, or asks the user about it first.
    ///
    /// # Errors
    /// If the setting, or the user's answer, refuses it.
    pub fn receive_message(&self, message: SessionMessage) -> Result<(), MessageRefused> {
        messages::receive(&self.shared, message)
    }

    /// Withdraws every open question: nobody can answer any more.
    pub fn withdraw_questions(&self) {
        self.shared.questions.withdraw_all();
        self.shared.integrations.mcp.elicitations.withdraw_all();
    }

    /// Ends the session: what was accepted is finished, everything is flushed, no child is left.
    pub async fn finish(self) {
        let _ = self.ops.send(Message::Op(Op::Shutdown));
        drop(self.ops);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the session's task failed");
        }
    }
}

/// A message to the actor.
enum Message {
    Op(Op),
    /// Answered when everything before it was processed.
    Heard(oneshot::Sender<()>),
    /// Something for the transcript alone.
    Aside(Aside),
}

struct Actor {
    shared: Arc<ConversationShared>,
    conversation: Arc<Mutex<Conversation>>,
    ops: mpsc::UnboundedReceiver<Message>,
    running: Option<Running>,
    /// A compaction that was asked for while something ran: up to where, and how.
    compact_later: Option<(Option<RecordId>, Option<String>)>,
    /// A background hook wanted to be heard while something ran.
    rewake_later: bool,
    /// Records that wait for the transcript.
    asides: Vec<Aside>,
    ending: bool,
    /// Until when the end waits for background agents.
    deadline: Option<tokio::time::Instant>,
    /// Whether the faces were told that there is nothing to do.
    idle: bool,
    /// No face is left that could say something.
    deserted: bool,
}

struct Running {
    turn: Arc<RunningTurn>,
    task: JoinHandle<()>,
}

/// Starts the actor.
pub(crate) fn start(conversation: Conversation) -> SessionHandle {
    let (sender, ops) = mpsc::unbounded_channel();
    let shared = conversation.shared.clone();
    let transcript = conversation.transcript.path().to_owned();
    let actor = Actor {
        shared: shared.clone(),
        conversation: Arc::new(Mutex::new(conversation)),
        ops,
        running: None,
        compact_later: None,
        rewake_later: false,
        asides: Vec::new(),
        ending: false,
        deadline: None,
        idle: true,
        deserted: false,
    };
    SessionHandle {
        ops: sender,
        shared,
        transcript,
        task: lathe_spawn::task(actor.run()),
    }
}

impl Actor {
    async fn run(mut self) {
        loop {
            if self.running.is_none()
                && let Some((up_to, instructions)) = self.compact_later.take()
            {
                self.compact(up_to, instructions);
            }
            if self.running.is_none() && std::mem::take(&mut self.rewake_later) {
                self.rewoken();
            }
            if self.running.is_none() {
                self.keep_asides().await;
                self.start_next();
            }
            let owes = self.owes();
            // An agent that has just ended has put its notification there before it counted as ended.
            let quiet =
                self.running.is_none() && !owes && self.shared.inbox.queue.lock().is_empty();
            if quiet && !self.idle {
                self.idle = true;
                self.shared.inbox.busy.store(false, Ordering::Relaxed);
                self.shared
                    .events
                    .send(Event::StateChanged(SessionState::Idle));
                if !self.ending {
                    team::went_idle(&self.shared);
                }
            }
            if self.running.is_none() && self.ending && (quiet || !self.waits()) {
                break;
            }
            let deadline = self.deadline;
            let patience = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let wake = self.shared.clone();
            let turn_ended = async {
                match &mut self.running {
                    Some(running) => {
                        let _ = (&mut running.task).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Also after the face said that it is done: the last turn may wait for an answer.
                op = self.ops.recv(), if !self.deserted => match op {
                    Some(Message::Op(op)) => self.handle(op).await,
                    Some(Message::Heard(sender)) => drop(sender.send(())),
                    Some(Message::Aside(aside)) => self.asides.push(aside),
                    None => {
                        self.ending = true;
                        self.deserted = true;
                    }
                },
                () = turn_ended => self.running = None,
                () = wake.inbox.wake.notified() => {}
                () = wake.hooks.registry.rewoken() => self.rewoken(),
                () = patience => {
                    self.shared.events.notice(
                        NoticeLevel::Warning,
                        "Background agents were stopped: the time limit for them was reached.",
                    );
                    self.shared.session.agents.kill_all();
                    self.deadline = None;
                }
            }
        }
        self.close().await;
    }

    /// Whether an agent is running whose end the conversation gets, or a message is on its way to one.
    fn owes(&self) -> bool {
        let session = &self.shared.session;
        let delivers = session.team.read().as_ref().is_some_and(|it| it.delivers());
        delivers || session.agents.owes_an_end()
    }

    /// Whether the end of the session waits for background agents. The wait begins with the question.
    fn waits(&mut self) -> bool {
        match self.shared.session.agents.patience() {
            None => false,
            Some(limit) => {
                if self.deadline.is_none() && !limit.is_zero() {
                    self.deadline = Some(tokio::time::Instant::now() + limit);
                }
                true
            }
        }
    }

    /// Writes what waits for the transcript. A session in which nothing was said has none.
    async fn keep_asides(&mut self) {
        if self.asides.is_empty() {
            return;
        }
        let mut conversation = self.conversation.lock().await;
        if conversation.tip.is_none() && self.shared.inbox.queue.lock().is_empty() {
            return;
        }
        for aside in self.asides.drain(..) {
            let record = aside.record(&conversation.records, conversation.tip);
            conversation.append(record);
        }
    }

    async fn handle(&mut self, op: Op) {
        match op {
            Op::Prompt(prompt) => {
                self.shared.session.background.interrupted(false);
                {
                    let mut queue = self.shared.inbox.queue.lock();
                    if !self.shared.arrived(prompt.uuid) {
                        // It was taken back before it arrived.
                        return;
                    }
                    queue.push_back(prompt);
                }
                if let Some(running) = &self.running {
                    running.turn.steered.notify_one();
                }
            }
            Op::Interrupt { drop_queued } => {
                self.shared.session.background.interrupted(true);
                if drop_queued {
                    self.shared.inbox.queue.lock().retain(|prompt| {
                        notice::is_notification(prompt) || schedule::is_fire(prompt)
                    });
                }
                if let Some(running) = &self.running {
                    running.turn.cancel.cancel();
                }
            }
            Op::Background { tool_use_id } => {
                self.shared.toolbox.backgrounds.send(tool_use_id.as_ref());
            }
            Op::PermissionReply { request_id, reply } => {
                // A late answer to a question that was closed meanwhile changes nothing.
                self.shared.questions.answer(&request_id, reply);
            }
            Op::ElicitationReply { request_id, reply } => {
                self.shared
                    .integrations
                    .mcp
                    .elicitations
                    .answer(&request_id, reply);
            }
            Op::Compact { instructions } => self.compact(None, instructions),
            Op::CompactUpTo {
                record,
                instructions,
            } => self.compact(Some(record), instructions),
            Op::Shutdown => self.ending = true,
        }
    }

    fn start_next(&mut self) {
        let Some(prompt) = self.next_prompt() else {
            return;
        };
        if prompt.context_only {
            self.add_context(prompt);
            return;
        }
        self.idle = false;
        self.shared.inbox.busy.store(true, Ordering::Relaxed);
        team::turn_begins(&self.shared);
        self.shared
            .events
            .send(Event::StateChanged(SessionState::Running));
        let turn = Arc::new(RunningTurn::new(prompt.uuid));
        let task = lathe_spawn::task(run_turn(self.conversation.clone(), prompt, turn.clone()));
        self.running = Some(Running { turn, task });
    }

    /// The next prompt. Notifications that wait together become one.
    fn next_prompt(&self) -> Option<Prompt> {
        let mut queue = self.shared.inbox.queue.lock();
        let mut prompt = queue.pop_front()?;
        while notice::is_notification(&prompt)
            && queue.front().is_some_and(notice::is_notification)
            && let Some(more) = queue.pop_front()
        {
            notice::join(&mut prompt, &more);
            prompt.context_only &= more.context_only;
        }
        Some(prompt)
    }

    /// Adds words to the conversation without running a turn. Hooks may take their time, so it is a task.
    fn add_context(&mut self, prompt: Prompt) {
        let turn = Arc::new(RunningTurn::new(prompt.uuid));
        let (conversation, running) = (self.conversation.clone(), turn.clone());
        let task = lathe_spawn::task(async move {
            let mut conversation = conversation.lock().await;
            let accepted = conversation
                .accept(prompt, Arrival::ContextOnly, &running)
                .await;
            if let Err(Done::Ended { message, .. }) = accepted {
                let events = &conversation.shared.events;
                events.notice(NoticeLevel::Error, message);
            }
        });
        self.running = Some(Running { turn, task });
    }

    /// A background hook objected and wants the model to hear it now. While a turn runs, its next step does;
    /// if there is none, a turn of its own.
    fn rewoken(&mut self) {
        if self.running.is_some() {
            self.rewake_later = true;
            return;
        }
        let texts = self.shared.hooks.take_late_context();
        if !texts.is_empty() {
            let mut prompt = Prompt::new(reminder(&texts.join("\n\n")));
            prompt.is_meta = true;
            prompt.verbatim = true;
            self.shared.inbox.queue.lock().push_back(prompt);
        }
    }

    fn compact(&mut self, up_to: Option<RecordId>, instructions: Option<String>) {
        if self.running.is_some() {
            self.compact_later = Some((up_to, instructions));
            self.shared.events.news(
                News::of("compaction", Priority::Low),
                NoticeLevel::Info,
                "The conversation will be compacted after the turn.",
            );
            return;
        }
        self.idle = false;
        self.shared
            .events
            .send(Event::StateChanged(SessionState::Running));
        let turn = Arc::new(RunningTurn::new(RecordId::random()));
        let (conversation, shared, cancel) = (
            self.conversation.clone(),
            self.shared.clone(),
            turn.cancel.clone(),
        );
        let task = lathe_spawn::task(async move {
            let mut conversation = conversation.lock().await;
            let instructions = instructions.as_deref();
            let outcome = match up_to {
                Some(record) => {
                    compaction::compact_up_to(&mut conversation, record, instructions, &cancel)
                        .await
                }
                None => {
                    compaction::compact(&mut conversation, "manual", instructions, &cancel).await
                }
            };
            // A summary costs as much as an answer.
            keep_totals(&mut conversation).await;
            // There is no turn to end: the next one finds the budget spent.
            let _ = purse::check(&shared, conversation.ledger.cost_usd());
            if let Err(error) = outcome {
                shared.events.send(Event::CompactionFailed {
                    reason: error.to_string(),
                });
            }
        });
        self.running = Some(Running { turn, task });
    }

    async fn close(self) {
        self.shared.session.agents.shut_down().await;
        // Another process may lead the team from now on.
        *self.shared.session.team.write() = None;
        self.shared
            .session
            .background
            .finish(&self.shared.state.notes.cancel)
            .await;
        if !self.shared.spending.waiting.lock().is_empty() {
            // Questions beside the last turn are part of the cost, too.
            let mut conversation = self.conversation.lock().await;
            keep_totals(&mut conversation).await;
            // There is no turn to end any more.
            let _ = purse::check(&self.shared, conversation.ledger.cost_usd());
        }
        tokio::join!(
            self.shared.integrations.mcp.shut_down(),
            self.shared.integrations.language.servers.shut_down(),
        );
        for command in self.shared.tools.shell.background().list() {
            if let Some(text) = command.at_session_end() {
                self.shared.events.notice(NoticeLevel::Warning, text);
            }
        }
        self.shared.tools.shell.shut_down().await;
        let reason = self.shared.session.background.end_reason();
        crate::worktree::session::close(&self.shared, reason).await;
        crate::conversation::coordinator::close(&self.shared);
        self.shared.hooks.session_end(reason.name()).await;
        if let Err(error) = self.shared.transcript.close().await {
            self.shared.events.notice(
                NoticeLevel::Error,
                format!("The end of the transcript was not saved and is lost: {error}"),
            );
        }
        self.shared.events.send(Event::SessionEnded);
    }
}

/// Runs a turn. A panic in the engine itself ends the turn, not the session.
async fn run_turn(conversation: Arc<Mutex<Conversation>>, prompt: Prompt, turn: Arc<RunningTurn>) {
    let mut conversation = conversation.lock().await;
    let origin = prompt.origin.clone();
    let outcome = AssertUnwindSafe(conversation.run_turn(prompt, &turn))
        .catch_unwind()
        .await;
    if let Ok(result) = &outcome {
        team::turn_ended(&conversation.shared, result);
    }
    if let Err(panic) = outcome {
        let message = panic_message(panic.as_ref()).to_owned();
        tracing::error!(message, "a turn panicked");
        let _ = conversation.transcript.flush().await;
        let shared = conversation.shared.clone();
        shared.events.send(Event::TurnFinished(Arc::new(TurnResult {
            session_id: shared.session.id,
            terminal_reason: TerminalReason::InternalError,
            is_error: true,
            text: String::new(),
            errors: vec![format!(
                "Lathe crashed during the turn ({message}); this is a bug. The conversation is saved; you can continue."
            )],
            stop_reason: None,
            num_turns: 0,
            duration: Duration::ZERO,
            duration_api: Duration::ZERO,
            usage: Usage::default(),
            total_cost_usd: conversation.ledger.cost_usd(),
            model_usage: conversation.ledger.totals().models.clone(),
            permission_denials: std::mem::take(&mut conversation.denials),
            api_error_status: None,
            structured_output: None,
            deferred_tool_use: None,
            origin,
            times: TurnTimes::default(),
        })));
    }
}
