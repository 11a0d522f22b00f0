//! Workflows: scripts that direct agents of the session.
//!
//! A run is listed as an agent of the type `workflow`, so everything that shows, stops or awaits agents knows it; its
//! agents have it as their parent. The script runs on a thread of its own in the engine of `lathe-workflow`, which is
//! made for the run and can do nothing but ask for agents. Answers of agents are in the run's journal before the script
//! gets them, so a run that was killed continues from there.

mod files;
mod remote;
mod runs;

pub use files::{PluginFolder, SavedWorkflow, WorkflowFileError, find, list, of_plugins, read};
pub use remote::{Elsewhere, RemoteAgents, RemoteEnd, RemoteOrder, RemoteRules};
pub use runs::RunView;
pub(crate) use runs::{run_of, runs, save};

use crate::agents::{AgentEntry, NewAgent, WorkflowAgents};
use crate::conversation::ConversationShared;
use crate::session::SessionHandle;
use lathe_protocol::ids::{AgentId, RecordId, ToolUseId};
use lathe_tools::agent::FORK;
use lathe_tools::context::ProgressSink;
use lathe_tools::host::{AgentOrder, AgentStatus, WorkflowOrder, WorkflowStarted};
use lathe_tools::{CallContext, ToolError};
use lathe_workflow::{
    AgentCall, Answer, Journal, Outcome, Recorded, Request, RunOptions, Script, journal_line,
};
use parking_lot::Mutex;
use remote::Remote;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc as answers;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Agents of a run at the same time.
const AT_ONCE: usize = 16;
/// Agents of one run.
const MOST_AGENTS: usize = 1_000;
/// How often an agent is started for an answer that must match a schema.
const TRIES: usize = 3;

/// Why a workflow can't be started.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    /// The script is wrong.
    #[error(transparent)]
    Script(#[from] lathe_workflow::ScriptError),
    /// It can't be found.
    #[error(transparent)]
    File(#[from] WorkflowFileError),
    /// There is no such run.
    #[error("there is no run {0} in the sessions of this folder")]
    NoRun(String),
    /// Nothing runs agents elsewhere.
    #[error("this program can't use a fleet: it runs agents only by itself")]
    NoFleet,
}

/// Starts a workflow for a tool call.
pub(crate) fn start(
    shared: &Arc<ConversationShared>,
    order: &WorkflowOrder,
    call: &CallContext,
) -> Result<WorkflowStarted, ToolError> {
    let run = prepare(shared, order, call).map_err(|error| ToolError::failed(error.to_string()))?;
    let started = WorkflowStarted {
        run_id: run.entry.id.0.clone(),
        name: run.script.meta.name.clone(),
        output_file: run.entry.output_file.clone(),
    };
    run.agents.begin(&run.entry);
    let agents = run.agents.clone();
    agents.spawn(run.carry_out());
    Ok(started)
}

/// Runs a workflow in a session that is open for it, and gives what it returns.
///
/// # Errors
/// When it can't be started, fails or is stopped; the text says which.
pub async fn run_in(
    session: &SessionHandle,
    order: WorkflowOrder,
    cancel: &CancellationToken,
) -> Result<String, WorkflowRunError> {
    let shared = session.shared.clone();
    let call = CallContext {
        session: shared.tools.clone(),
        tool_use_id: ToolUseId::from("workflow"),
        turn: RecordId::random(),
        cancel: cancel.clone(),
        to_background: CancellationToken::new(),
        progress: ProgressSink::none(),
        sandbox: None,
        confinement: None,
    };
    let run = prepare(&shared, &order, &call)?;
    let entry = run.entry.clone();
    // Its end is the caller's answer.
    entry.set_known(true);
    run.agents.begin(&entry);
    let agents = run.agents.clone();
    agents.spawn(run.carry_out());
    tokio::select! {
        () = entry.over() => {}
        () = cancel.cancelled() => {
            entry.cancel.cancel();
            entry.over().await;
        }
    }
    let state = entry.state();
    match state.status {
        AgentStatus::Completed => Ok(state.result),
        _ => Err(WorkflowRunError::Ended {
            run_id: entry.id.0.clone(),
            why: state.result,
        }),
    }
}

/// Why a workflow has no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowRunError {
    /// It did not begin.
    #[error(transparent)]
    Start(#[from] WorkflowError),
    /// It failed or was stopped.
    #[error("{why}")]
    Ended {
        /// The run, which can be resumed.
        run_id: String,
        /// The reason.
        why: String,
    },
}

/// Why an agent of a run gave no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("a workflow can't fork: it has no conversation")]
    Fork,
    #[error("the schema is wrong: {0}")]
    Schema(#[from] lathe_schema::SchemaError),
    #[error("{0}")]
    Start(#[from] ToolError),
    #[error("{0}")]
    Died(String),
    #[error("it is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("{0}")]
    Mismatch(String),
    #[error("no answer matches the schema: {0}")]
    NoneMatches(String),
    #[error("the session's budget is used up")]
    Budget,
}

/// A run that is ready.
struct Run {
    shared: Arc<ConversationShared>,
    agents: WorkflowAgents,
    entry: Arc<AgentEntry>,
    script: Arc<Script>,
    args: Value,
    journal: Journal,
    /// `None` in a session that keeps no transcripts.
    journal_file: Option<PathBuf>,
    call: CallContext,
    remote: Option<Remote>,
}

/// The state that the agents of a run share.
struct Direction {
    shared: Arc<ConversationShared>,
    remote: Option<Remote>,
    agents: WorkflowAgents,
    entry: Arc<AgentEntry>,
    call: CallContext,
    journal_file: Option<PathBuf>,
    places: Semaphore,
    started: AtomicUsize,
    tokens: AtomicU64,
}

fn prepare(
    shared: &Arc<ConversationShared>,
    order: &WorkflowOrder,
    call: &CallContext,
) -> Result<Run, WorkflowError> {
    let places = &shared.session.settings.loader.places;
    let folder = shared.session.agents.paths.subagents();
    let file = |id: &str, end: &str| folder.join(format!("workflow-{id}.{end}"));
    let earlier = order.resume.as_ref().map(|id| {
        let kept = runs::kept(&shared.session.agents.paths, id);
        kept.ok_or_else(|| WorkflowError::NoRun(id.clone()))
    });
    let (earlier, earlier_script) = earlier.transpose()?.unzip();
    let script = match (&order.script, &order.name, &order.path, &order.resume) {
        (Some(text), ..) => Script::parse("workflow", text)?,
        (_, Some(name), ..) => {
            let saved = find(places, &of_plugins(&shared.session.plugins.loaded()), name)?;
            Script::parse(&saved.name, &saved.text)?
        }
        (_, _, Some(path), _) => Script::parse(&path.display().to_string(), &read(path)?)?,
        (None, None, None, Some(_)) => {
            Script::parse("workflow", &read(&earlier_script.unwrap_or_default())?)?
        }
        _ => return Err(WorkflowError::NoRun(String::new())),
    };
    let agents = WorkflowAgents::new(shared);
    let id = AgentId(agents.new_id('w'));
    let keeps = shared.session.agents.writer.is_some();
    let journal_file = keeps.then(|| file(&id.0, "jsonl"));
    let resumed = order.resume.as_deref().unwrap_or(&id.0);
    let (origin, first) = remote::origin(earlier.as_deref(), resumed);
    let remote = match (&shared.session.agents.elsewhere, order.fleet) {
        (Some(agents), true) => Some(Remote {
            agents: agents.clone(),
            origin,
            equal: Mutex::default(),
        }),
        (None, true) => return Err(WorkflowError::NoFleet),
        (_, false) => None,
    };
    if let Some(journal_file) = &journal_file {
        let journal = first.unwrap_or_default() + earlier.as_deref().unwrap_or_default();
        let journal = journal.as_bytes();
        let kept =
            lathe_session::paths::write_private_file(&file(&id.0, "js"), script.text.as_bytes())
                .and_then(|()| lathe_session::paths::write_private_file(journal_file, journal));
        if let Err(error) = kept {
            tracing::warn!(%error, "a workflow's run could not be kept");
        }
    }
    let entry = AgentEntry::new(NewAgent {
        output_file: shared
            .tools
            .results_folder
            .join(format!("workflow-{id}.output")),
        id,
        name: None,
        agent_type: crate::agents::WORKFLOW.to_owned(),
        description: script.meta.name.clone(),
        prompt: script.meta.description.clone(),
        tool_use_id: Some(call.tool_use_id.clone()),
        parent: None,
        background: true,
        cancel: shared.session.agents.cancel.child_token(),
        status: AgentStatus::Running,
    });
    Ok(Run {
        shared: shared.clone(),
        agents,
        entry,
        script: Arc::new(script),
        args: order.args.clone(),
        journal: Journal::read(&earlier.unwrap_or_default()),
        journal_file,
        call: call.clone(),
        remote,
    })
}

impl Run {
    async fn carry_out(self) {
        let Self {
            shared,
            agents,
            entry,
            script,
            args,
            mut journal,
            journal_file,
            call,
            remote,
        } = self;
        // Workers limit how many jobs run at a time.
        let at_once = if remote.is_some() {
            MOST_AGENTS
        } else {
            AT_ONCE
        };
        let direction = Arc::new(Direction {
            shared: shared.clone(),
            remote,
            agents: agents.clone(),
            entry: entry.clone(),
            call,
            journal_file,
            places: Semaphore::new(at_once),
            started: AtomicUsize::new(0),
            tokens: AtomicU64::new(0),
        });
        let options = RunOptions {
            args,
            total_tokens: tokens_left(&shared),
            ..RunOptions::default()
        };
        let (to_script, from_agents) = answers::channel();
        let (to_agents, mut from_script) = mpsc::unbounded_channel();
        let stop = options.stop.clone();
        let mut running = lathe_spawn::blocking(move || {
            let send = |requests| drop(to_agents.send(requests));
            lathe_workflow::run(&script, &options, send, &from_agents)
        });
        let mut dropped = Vec::new();
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                Some(requests) = from_script.recv() => {
                    direct(&shared, &direction, &mut journal, requests, &to_script, &mut dropped);
                }
                () = entry.cancel.cancelled() => {
                    stop.store(true, Ordering::Relaxed);
                    let _ = to_script.send(Answer::Stop);
                    break (&mut running).await;
                }
            }
        };
        // What was said last may still wait.
        while let Ok(requests) = from_script.try_recv() {
            direct(
                &shared,
                &direction,
                &mut journal,
                requests,
                &to_script,
                &mut dropped,
            );
        }
        let (status, result) = match ended {
            Ok(Ok(value)) => (AgentStatus::Completed, with_dropped(&value, &dropped)),
            Ok(Err(error)) if entry.cancel.is_cancelled() => {
                (AgentStatus::Killed, error.to_string())
            }
            Ok(Err(error)) => (
                AgentStatus::Failed,
                format!(
                    "{error}\nWorkflow with resumeFromRunId \"{}\" continues it: agents that finished are not run again.",
                    entry.id
                ),
            ),
            Err(error) => (
                AgentStatus::Failed,
                format!("Lathe crashed in the workflow ({error}); this is a bug."),
            ),
        };
        // Agents that nobody waits for any more.
        entry.cancel.cancel();
        let tokens = direction.tokens.load(Ordering::Relaxed);
        agents.end(&entry, status, result, tokens);
    }
}

/// Tokens that the session may still use, where it has a limit.
fn tokens_left(shared: &Arc<ConversationShared>) -> Option<u64> {
    let most = shared.seed.limits.max_tokens?;
    let used = shared.root().spending.totals.lock().tokens();
    Some(most.saturating_sub(used))
}

/// The result as text, with what failed on the way.
fn with_dropped(value: &Value, dropped: &[String]) -> String {
    let mut text = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    if !dropped.is_empty() {
        let _ = write!(text, "\n\nDropped ({}):", dropped.len());
        for what in dropped.iter().take(20) {
            let _ = write!(text, "\n- {what}");
        }
    }
    text
}

/// Does what a script asks for. Recorded answers are given in the order in which they came.
fn direct(
    shared: &Arc<ConversationShared>,
    direction: &Arc<Direction>,
    journal: &mut Journal,
    requests: Vec<Request>,
    to_script: &answers::Sender<Answer>,
    dropped: &mut Vec<String>,
) {
    let mut recorded: Vec<(usize, u64, Recorded)> = Vec::new();
    for request in requests {
        match request {
            Request::Phase(title) => direction
                .agents
                .say(&direction.entry, &format!("== {title} ==")),
            Request::Log(text) => direction.agents.say(&direction.entry, &text),
            Request::Dropped(what) => {
                direction
                    .agents
                    .say(&direction.entry, &format!("dropped: {what}"));
                dropped.push(what);
            }
            Request::Workflow { id, reference } => {
                let places = &shared.session.settings.loader.places;
                let plugins = of_plugins(&shared.session.plugins.loaded());
                let found = find(places, &plugins, &reference).map_err(WorkflowError::from);
                let script = found.and_then(|saved| Ok(Script::parse(&saved.name, &saved.text)?));
                let outcome = match script {
                    Ok(script) => Outcome::Script(Box::new(script)),
                    Err(error) => Outcome::Failed(error.to_string()),
                };
                let spent = direction.tokens.load(Ordering::Relaxed);
                let _ = to_script.send(Answer::To { id, outcome, spent });
            }
            Request::Agent { id, call } => {
                // Counted for recorded answers too: equal calls have their names in the order of the script.
                let name = direction.remote.as_ref().map(|remote| remote.name(&call));
                if let Some((place, answer)) = journal.take(&call) {
                    recorded.push((place, id, answer));
                    continue;
                }
                let (direction, to_script) = (direction.clone(), to_script.clone());
                lathe_spawn::task(async move {
                    let outcome = direction.ask(&call, name).await;
                    let spent = direction.tokens.load(Ordering::Relaxed);
                    let _ = to_script.send(Answer::To { id, outcome, spent });
                });
            }
        }
    }
    recorded.sort_by_key(|(place, ..)| *place);
    for (_, id, answer) in recorded {
        let spent = direction.tokens.fetch_add(answer.tokens, Ordering::Relaxed) + answer.tokens;
        let outcome = Outcome::Value(answer.value);
        let _ = to_script.send(Answer::To { id, outcome, spent });
    }
}

impl Direction {
    /// Runs an agent to its end.
    async fn ask(&self, call: &AgentCall, name: Option<String>) -> Outcome {
        if self.started.fetch_add(1, Ordering::Relaxed) >= MOST_AGENTS {
            return Outcome::Failed(format!("a run starts at most {MOST_AGENTS} agents"));
        }
        self.unless_paused().await;
        let Ok(_place) = self.places.acquire().await else {
            return Outcome::Failed("the run is over".to_owned());
        };
        let answered = match (&self.remote, name) {
            (Some(remote), Some(name)) => self.answered_elsewhere(&remote.agents, call, name).await,
            _ => self.answered(call).await,
        };
        match answered {
            Ok(recorded) => {
                let line = journal_line(call, &recorded);
                if let Some(Err(error)) = self.journal_file.as_ref().map(|file| append(file, &line))
                {
                    tracing::warn!(%error, "an answer could not be kept");
                }
                self.tokens.fetch_add(recorded.tokens, Ordering::Relaxed);
                Outcome::Value(recorded.value)
            }
            Err(why) => Outcome::Failed(why.to_string()),
        }
    }

    /// Waits while the run is paused.
    async fn unless_paused(&self) {
        let mut paused = self.entry.paused.subscribe();
        tokio::select! {
            // The sender lives as long as the entry.
            _ = paused.wait_for(|paused| !paused) => {}
            () = self.entry.cancel.cancelled() => {}
        }
    }

    /// Runs an agent as a job of the fleet.
    async fn answered_elsewhere(
        &self,
        agents: &Elsewhere,
        call: &AgentCall,
        name: String,
    ) -> Result<Recorded, NoAnswer> {
        if call.agent_type.as_deref() == Some(FORK) {
            return Err(NoAnswer::Fork);
        }
        let order = remote::order(&self.shared, call, name);
        if order.budget_usd.is_some_and(|left| left <= 0.0) {
            return Err(NoAnswer::Budget);
        }
        let model = order.model.clone().unwrap_or_default();
        let shared = self.shared.clone();
        let (end, tokens) = self
            .agents
            .run_elsewhere(&self.entry, agents, order, call.phase.clone(), |end| {
                remote::charge(&shared, &model, end)
            })
            .await;
        if !end.done {
            return Err(NoAnswer::Died(end.text));
        }
        let value = match (end.structured, &call.schema, end.changes) {
            (Some(value), Some(_), _) => value,
            (None, Some(_), _) => return Err(NoAnswer::NoneMatches(end.text)),
            (_, None, Some(changes)) => Value::String(format!("{}\n\n{changes}", end.text)),
            (_, None, None) => Value::String(end.text),
        };
        Ok(Recorded { value, tokens })
    }

    async fn answered(&self, call: &AgentCall) -> Result<Recorded, NoAnswer> {
        if call.agent_type.as_deref() == Some(FORK) {
            return Err(NoAnswer::Fork);
        }
        let schema = call.schema.clone().map(lathe_schema::Schema::new);
        let schema = schema.transpose()?;
        let mut tokens = 0;
        let mut problem = String::new();
        for _ in 0..TRIES {
            let order = order_of(call, &problem);
            let task = self.agents.run(&self.entry, order, &self.call).await?;
            tokens += task.usage.total_tokens;
            if task.status != AgentStatus::Completed {
                return Err(NoAnswer::Died(task.result));
            }
            let Some(schema) = &schema else {
                let value = Value::String(task.result);
                return Ok(Recorded { value, tokens });
            };
            if let Some(value) = task.structured {
                return Ok(Recorded { value, tokens });
            }
            // Models that can't call the tool write the value down.
            match matching(&task.result, schema) {
                Ok(value) => return Ok(Recorded { value, tokens }),
                Err(why) => problem = why.to_string(),
            }
        }
        Err(NoAnswer::NoneMatches(problem))
    }
}

fn order_of(call: &AgentCall, problem: &str) -> AgentOrder {
    let mut prompt = call.prompt.clone();
    if let Some(schema) = &call.schema {
        let _ = write!(
            prompt,
            "\n\nGive your answer with the tool StructuredOutput; this is its schema:\n{schema}"
        );
    }
    if !problem.is_empty() {
        let _ = write!(prompt, "\n\nAn earlier answer did not match: {problem}");
    }
    AgentOrder {
        description: title_of(call),
        prompt,
        agent_type: call.agent_type.clone(),
        model: call.model.clone(),
        effort: call.effort.clone(),
        background: Some(false),
        worktree: call.isolation.as_deref() == Some("worktree"),
        schema: call.schema.clone(),
        phase: call.phase.clone(),
        ..AgentOrder::default()
    }
}

/// The phase and the label of an agent, or the beginning of its prompt.
fn title_of(call: &AgentCall) -> String {
    let label = call.label.clone().unwrap_or_else(|| {
        let first = call.prompt.lines().next().unwrap_or_default();
        first.chars().take(40).collect()
    });
    match &call.phase {
        Some(phase) => format!("{phase}: {label}"),
        None => label,
    }
}

/// The JSON value of an answer, if it matches.
fn matching(answer: &str, schema: &lathe_schema::Schema) -> Result<Value, NoAnswer> {
    let text = answer.trim();
    let fenced = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"));
    let text = fenced
        .and_then(|rest| rest.strip_suffix("```"))
        .unwrap_or(text);
    let value: Value = serde_json::from_str(text.trim())?;
    let problems = schema.problems(&value);
    if problems.is_empty() {
        Ok(value)
    } else {
        Err(NoAnswer::Mismatch(problems.join("; ")))
    }
}

fn append(file: &std::path::Path, line: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file)?;
    file.write_all(line.as_bytes())
}
