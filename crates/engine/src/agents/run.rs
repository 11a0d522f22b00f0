//! Running an agent to its end, whatever happens.

use crate::agents::notice::{self, Notice};
use crate::agents::{AgentEntry, Agents, WORKFLOW};
use crate::call::panic_message;
use crate::conversation::records::reminder;
use crate::conversation::{Conversation, ConversationShared, RunningTurn};
use crate::mcp::agents::{AgentServers, Owner};
use crate::session::events::EventStream;
use crate::worktree::{Conclusion, Worktree};
use futures::FutureExt as _;
use lathe_extensions::AgentDefinition;
use lathe_hooks::SourceHandle;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::event::{Event, NoticeLevel, TaskNotice, TaskStatus, TerminalReason};
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::MessageRecord;
use lathe_shell::run::BackgroundStatus;
use lathe_tools::host::AgentStatus;
use parking_lot::Mutex;
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

/// How many calls the review of a hand-over is shown.
const MOST_ACTIONS: usize = 200;

/// An agent that is ready to run.
pub(crate) struct Ready {
    pub(crate) entry: Arc<AgentEntry>,
    pub(crate) conversation: Conversation,
    pub(crate) stream: EventStream,
    /// The conversation that started it.
    pub(crate) parent: Arc<ConversationShared>,
    pub(crate) prompt: Prompt,
    pub(crate) worktree: Option<Worktree>,
    /// The hooks of its definition, while it runs.
    pub(crate) hooks: Option<SourceHandle>,
    /// Text beside the prompt.
    pub(crate) briefing: Option<String>,
    /// Who it is; a fork has no definition.
    pub(crate) definition: Option<AgentDefinition>,
}

/// The end of an agent.
struct Ended {
    status: AgentStatus,
    result: String,
}

impl Ready {
    /// Starts it beside whatever else runs.
    pub(crate) fn spawn(self) {
        let agents = self.parent.session.agents.clone();
        agents.tracker.spawn(self.run());
    }

    async fn run(self) {
        let Self {
            entry,
            mut conversation,
            stream,
            parent,
            prompt,
            worktree,
            hooks,
            briefing,
            definition,
        } = self;
        let root = parent.root();
        let agents = parent.session.agents.clone();
        agents.keep(&entry);
        root.events.send(Event::Task(started(&entry)));
        let actions = Arc::new(Mutex::new(Vec::new()));
        let forwarding = lathe_spawn::task(forward(
            stream,
            Arc::downgrade(&root),
            Arc::downgrade(&conversation.shared),
            entry.clone(),
            actions.clone(),
        ));
        let servers = connect_servers(&conversation, &root, &entry, definition.as_ref()).await;
        brief(&mut conversation, briefing, &servers);
        let order = prompt.content.text();
        let mut ended = Box::pin(work(&mut conversation, &entry, prompt)).await;
        let resources = Resources {
            servers,
            hooks,
            worktree,
        };
        resources.release(&conversation, &parent, &entry).await;
        close(&mut conversation, &root, &entry).await;
        let actions = actions.lock().clone();
        ended.review(&conversation, &order, &actions).await;
        let usage = usage_of(&conversation, &entry);
        let cost_usd = conversation.ledger.totals().cost_usd();
        let tokens = conversation.ledger.totals().usage();
        // Its events are passed on before its end is reported.
        conversation.shared.events.send(Event::SessionEnded);
        let _ = forwarding.await;
        drop(conversation);
        Agents::note_output(
            &entry,
            &format!("[{}]\n{}", ended.status.word(), ended.result),
        );
        entry.update(|state| {
            state.usage = usage;
            state.cost_usd = cost_usd;
            state.tokens = tokens;
            state.result = ended.result;
            state.conversation = Weak::new();
        });
        finish(&agents, &root, &parent, &entry, ended.status);
    }
}

/// Connects the MCP servers of an agent's definition.
async fn connect_servers(
    conversation: &Conversation,
    root: &Arc<ConversationShared>,
    entry: &AgentEntry,
    definition: Option<&AgentDefinition>,
) -> AgentServers {
    let mut servers = AgentServers::default();
    if let Some(definition) = definition {
        let owner = Owner {
            agent: &conversation.shared,
            root,
            description: &entry.description,
            definition,
        };
        tokio::select! {
            () = servers.connect(&owner) => {}
            () = entry.cancel.cancelled() => {}
        }
    }
    servers
}

/// Adds what an agent should know beside the prompt.
fn brief(conversation: &mut Conversation, briefing: Option<String>, servers: &AgentServers) {
    let texts: Vec<String> = briefing
        .into_iter()
        .chain(servers.news.iter().cloned())
        .collect();
    if !texts.is_empty() {
        let record = conversation
            .records
            .meta(conversation.tip, reminder(&texts.join("\n\n")));
        conversation.append(record);
    }
}

/// Runs an agent's turns. A panic is a failure of the agent.
async fn work(conversation: &mut Conversation, entry: &Arc<AgentEntry>, prompt: Prompt) -> Ended {
    let working = AssertUnwindSafe(converse(conversation, entry, prompt)).catch_unwind();
    working.await.unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        tracing::error!(message, "an agent panicked");
        Ended {
            status: AgentStatus::Failed,
            result: format!("Lathe crashed while it worked ({message}); this is a bug."),
        }
    })
}

/// Resources that an agent holds while it runs.
struct Resources {
    servers: AgentServers,
    hooks: Option<SourceHandle>,
    worktree: Option<Worktree>,
}

impl Resources {
    /// Ends everything that an agent left running, and removes its worktree if it is empty.
    async fn release(
        self,
        conversation: &Conversation,
        parent: &ConversationShared,
        entry: &AgentEntry,
    ) {
        entry.cancel.cancel();
        stop_shells(&conversation.shared, entry).await;
        self.servers.close().await;
        if let Some(handle) = self.hooks {
            parent.hooks.registry.remove(handle);
        }
        let Some(worktree) = &self.worktree else {
            return;
        };
        let files = conversation.shared.tools.file_cache.recent(usize::MAX);
        let note = match worktree.conclude(Some(&files)).await {
            Conclusion::Removed => {
                parent.hooks.worktree_removed(&worktree.path).await;
                entry.update(|state| state.worktree = None);
                None
            }
            Conclusion::Kept(note) => Some(note),
        };
        entry.update(|state| state.worktree_note = note);
    }
}

/// Reports the last usage and closes the transcript.
async fn close(conversation: &mut Conversation, root: &ConversationShared, entry: &AgentEntry) {
    conversation.pass_usage_on();
    if let Err(error) = conversation.transcript.close().await {
        root.events.notice(
            NoticeLevel::Warning,
            format!(
                "The transcript of agent {} is incomplete: {error}",
                entry.id
            ),
        );
    }
}

impl Ended {
    /// Puts the classifier's warning before the result, in auto mode.
    async fn review(
        &mut self,
        conversation: &Conversation,
        order: &str,
        actions: &[(String, Value)],
    ) {
        let shared = &conversation.shared;
        if self.status != AgentStatus::Completed
            || shared.permissions.mode() != PermissionMode::Auto
        {
            return;
        }
        let review = shared.questions.review(order, actions, &self.result);
        if let Some(warning) = review.await {
            self.result = format!("{warning}\n\n{}", self.result);
        }
    }
}

/// Reports the end of an agent: on disk, to the faces, to calls that wait, and to the conversation.
pub(super) fn finish(
    agents: &Agents,
    root: &Arc<ConversationShared>,
    parent: &Arc<ConversationShared>,
    entry: &Arc<AgentEntry>,
    status: AgentStatus,
) {
    let view = entry.view();
    let kind = if entry.agent_type == WORKFLOW {
        "Workflow"
    } else {
        "Agent"
    };
    let summary = format!("{kind} \"{}\" {}", entry.description, ended_words(status));
    root.events.send(Event::Task(TaskNotice::Finished {
        task_id: entry.task_id(),
        tool_use_id: entry.tool_use_id.clone(),
        status: match status {
            AgentStatus::Completed => TaskStatus::Completed,
            AgentStatus::Failed => TaskStatus::Failed,
            AgentStatus::Killed | AgentStatus::Running => TaskStatus::Stopped,
        },
        output_file: entry.output_file.display().to_string(),
        summary: summary.clone(),
        usage: Some(view.usage),
    }));
    let tells = entry.is_background() && !entry.is_known() && !agents.is_ending();
    if !entry.is_background() {
        entry.set_known(true);
    }
    // The queue is filled before the agent is over, so that the session never looks idle in between.
    if super::team::ended(root, entry, status, &view.result) {
        entry.set_known(true);
    } else if tells {
        let mut result = view.result.clone();
        if let Some(note) = &view.worktree {
            result.push_str("\n\n");
            result.push_str(note);
        }
        let text = Notice {
            task_id: entry.id.as_str(),
            tool_use_id: entry
                .tool_use_id
                .as_ref()
                .map(lathe_protocol::ids::ToolUseId::as_str),
            status: status.word(),
            summary: &summary,
            result: Some(&result),
            output_file: &view.output_file.display().to_string(),
            usage: Some(view.usage),
        }
        .text();
        let mut prompt = notice::prompt(entry.id.as_str(), text);
        // The user or host who ended it needs no answer; the model learns of it with the next words.
        prompt.context_only = status == AgentStatus::Killed;
        parent.enqueue(prompt);
    }
    entry.update(|state| state.status = status);
    agents.keep(entry);
    entry.over.send_replace(true);
    parent.inbox.wake.notify_one();
    root.inbox.wake.notify_one();
}

fn ended_words(status: AgentStatus) -> &'static str {
    match status {
        AgentStatus::Completed => "completed",
        AgentStatus::Failed => "failed",
        AgentStatus::Killed | AgentStatus::Running => "was stopped",
    }
}

pub(crate) fn started(entry: &AgentEntry) -> TaskNotice {
    let mut extra = lathe_protocol::Extra::new();
    extra.insert("subagent_type".to_owned(), entry.agent_type.as_str().into());
    extra.insert("prompt".to_owned(), entry.prompt.as_str().into());
    if let Some(parent) = &entry.parent {
        extra.insert("parent_task_id".to_owned(), parent.as_str().into());
    }
    if let Some(phase) = entry.state().phase {
        extra.insert("phase".to_owned(), phase.into());
    }
    TaskNotice::Started {
        task_id: entry.task_id(),
        description: entry.description.clone(),
        tool_use_id: entry.tool_use_id.clone(),
        task_type: "local_agent".to_owned(),
        is_backgrounded: entry.is_background(),
        extra,
    }
}

/// Runs turns until there is nothing left to do.
async fn converse(
    conversation: &mut Conversation,
    entry: &Arc<AgentEntry>,
    first: Prompt,
) -> Ended {
    let shared = conversation.shared.clone();
    let context = shared.hooks.subagent_start(&entry.cancel).await;
    if !context.is_empty() {
        let record = conversation
            .records
            .meta(conversation.tip, reminder(&context.join("\n\n")));
        conversation.append(record);
    }
    let mut prompt = first;
    let mut text = String::new();
    let mut objections = 0;
    loop {
        let turn = RunningTurn::new(prompt.uuid);
        let result = {
            let running = conversation.run_turn(prompt, &turn);
            tokio::pin!(running);
            tokio::select! {
                result = &mut running => result,
                () = entry.cancel.cancelled() => {
                    turn.cancel.cancel();
                    running.await
                }
            }
        };
        if entry.cancel.is_cancelled() {
            return Ended {
                status: AgentStatus::Killed,
                result: format!("It was stopped before it was done. {}", said(&result.text)),
            };
        }
        if result.structured_output.is_some() {
            entry.update(|state| state.structured.clone_from(&result.structured_output));
        }
        if !result.text.is_empty() {
            text.clone_from(&result.text);
        }
        if result.is_error {
            let mut why = result.errors.join("; ");
            if why.is_empty() {
                why = std::mem::take(&mut text);
            }
            let reason = reason_of(result.terminal_reason, &why);
            return Ended {
                status: AgentStatus::Failed,
                result: format!("{reason} {}", said(&text)).trim_end().to_owned(),
            };
        }
        match next(&shared, entry).await {
            Some(more) => prompt = more,
            None if entry.cancel.is_cancelled() => {
                return Ended {
                    status: AgentStatus::Killed,
                    result: format!("It was stopped before it was done. {}", said(&text)),
                };
            }
            None => match idle_objection(&shared, entry, &text, objections).await {
                Some(objection) => {
                    objections += 1;
                    prompt = objection;
                }
                None => {
                    return Ended {
                        status: AgentStatus::Completed,
                        result: text,
                    };
                }
            },
        }
    }
}

/// How often hooks may keep a member from going idle, one time after another.
const MOST_OBJECTIONS: u32 = 8;

/// A member is about to go idle. Gives the words with which it continues if a hook objects.
async fn idle_objection(
    shared: &Arc<ConversationShared>,
    entry: &AgentEntry,
    last: &str,
    objections: u32,
) -> Option<Prompt> {
    if objections >= MOST_OBJECTIONS {
        return None;
    }
    let reason = super::team::idle_objection(shared, last, &entry.cancel).await?;
    // Messages reach it again.
    entry.update(|state| state.conversation = Arc::downgrade(shared));
    let mut prompt = Prompt::new(reminder(&format!("A hook wants you to continue: {reason}")));
    prompt.is_meta = true;
    prompt.verbatim = true;
    Some(prompt)
}

fn said(text: &str) -> String {
    if text.trim().is_empty() {
        String::new()
    } else {
        format!("It had said: {}", text.trim())
    }
}

/// Why an agent failed, with what to change.
fn reason_of(reason: TerminalReason, why: &str) -> String {
    match reason {
        TerminalReason::MaxTurns => format!(
            "It reached its limit of steps ({why}). Resume it with SendMessage, or start one with a smaller task."
        ),
        TerminalReason::BudgetExhausted => {
            format!("The session's budget is used up ({why}); agents share it.")
        }
        _ => format!("It failed: {why}."),
    }
}

/// The next thing to do: a message, or the end of something that it started. `None` when there is
/// nothing, or it was stopped.
async fn next(shared: &Arc<ConversationShared>, entry: &Arc<AgentEntry>) -> Option<Prompt> {
    loop {
        // Before the look into the inbox: the end of an agent is there before it stops to count. Under no lock: other code
        // locks the list first, and the state of each agent after it.
        let waits = waits_for_others(shared, entry);
        {
            // Held, so that no message slips in between the look and the end.
            let mut state = entry.state.lock();
            let mut queue = shared.inbox.queue.lock();
            if let Some(mut prompt) = queue.pop_front() {
                prompt.context_only = false;
                return Some(prompt);
            }
            if !waits {
                state.conversation = Weak::new();
                return None;
            }
        }
        tokio::select! {
            () = shared.inbox.wake.notified() => {}
            () = entry.cancel.cancelled() => return None,
        }
    }
}

/// Whether an agent that it started still works.
fn waits_for_others(shared: &ConversationShared, entry: &Arc<AgentEntry>) -> bool {
    shared.session.agents.all().iter().any(|other| {
        other.parent.as_ref() == Some(&entry.id) && !Arc::ptr_eq(other, entry) && other.is_running()
    })
}

/// Ends the commands that an agent left running.
async fn stop_shells(shared: &ConversationShared, entry: &AgentEntry) {
    let calls = entry.state().calls;
    let background = shared.tools.shell.background();
    for command in background.list() {
        let own = command
            .tool_use_id
            .as_ref()
            .is_some_and(|id| calls.contains(id));
        if own && command.status == BackgroundStatus::Running {
            let _ = background.stop(command.id.as_str()).await;
        }
    }
}

fn usage_of(conversation: &Conversation, entry: &AgentEntry) -> lathe_protocol::event::TaskUsage {
    let mut usage = entry.usage();
    usage.total_tokens = conversation.ledger.totals().tokens();
    usage
}

/// Passes on what the faces should see of an agent, and keeps count.
async fn forward(
    mut stream: EventStream,
    root: Weak<ConversationShared>,
    agent: Weak<ConversationShared>,
    entry: Arc<AgentEntry>,
    actions: Arc<Mutex<Vec<(String, Value)>>>,
) {
    while let Some(event) = stream.next().await {
        let Some(root) = root.upgrade() else { continue };
        match event {
            Event::Stream { event, .. } if root.events.shows_agents() => {
                root.events.send(Event::Stream {
                    event,
                    parent_tool_use_id: entry.tool_use_id.clone(),
                });
            }
            Event::Record { record, .. } | Event::PromptAccepted { record } => {
                note(&entry, &record, &actions);
                count(&entry, &agent);
                let mut shown = MessageRecord::clone(&record);
                let fields = &mut shown.extra;
                fields.insert("subagent_type".into(), entry.agent_type.as_str().into());
                fields.insert("task_description".into(), entry.description.as_str().into());
                root.events.send(Event::Record {
                    record: Arc::new(shown),
                    parent_tool_use_id: entry.tool_use_id.clone(),
                });
            }
            Event::CallStarted {
                tool_use_id,
                tool_name,
                activity,
            } => {
                Agents::note_output(&entry, &format!("· {activity}"));
                entry.update(|state| {
                    state.calls.insert(tool_use_id);
                    state.usage.tool_uses += 1;
                    state.last_tool = Some(tool_name.clone());
                });
                count(&entry, &agent);
                root.events.send(Event::Task(TaskNotice::Progress {
                    task_id: entry.task_id(),
                    description: activity,
                    tool_use_id: entry.tool_use_id.clone(),
                    usage: entry.usage(),
                    last_tool_name: Some(tool_name),
                }));
            }
            Event::Notice {
                level: level @ (NoticeLevel::Warning | NoticeLevel::Error),
                text,
                news,
            } => root.events.send(Event::Notice {
                level,
                text: format!("Agent \"{}\": {text}", entry.description),
                news,
            }),
            event @ (Event::PermissionDenied { .. }
            | Event::Retrying { .. }
            | Event::ModelFellBack { .. }
            | Event::Hook(_)) => root.events.send(event),
            Event::SessionEnded => break,
            _ => {}
        }
    }
}

/// Takes over what an agent has used so far.
fn count(entry: &AgentEntry, agent: &Weak<ConversationShared>) {
    if let Some(agent) = agent.upgrade() {
        let (tokens, cost) = {
            let totals = agent.spending.totals.lock();
            (totals.tokens(), totals.cost_usd())
        };
        entry.update(|state| {
            state.usage.total_tokens = tokens;
            state.cost_usd = cost;
        });
    }
}

/// Keeps an agent's words in its output, and its calls for the review.
fn note(entry: &AgentEntry, record: &MessageRecord, actions: &Mutex<Vec<(String, Value)>>) {
    if record.is_meta || record.is_prompt() {
        return;
    }
    for block in record
        .message
        .iter()
        .flat_map(lathe_protocol::record::RecordMessage::blocks)
    {
        match block {
            ContentBlock::Text(text)
                if record.kind == lathe_protocol::record::RecordKind::Assistant =>
            {
                Agents::note_output(entry, &text.text);
            }
            ContentBlock::ToolUse(call) => {
                let mut actions = actions.lock();
                if actions.len() < MOST_ACTIONS {
                    actions.push((call.name, call.input));
                }
            }
            _ => {}
        }
    }
}
