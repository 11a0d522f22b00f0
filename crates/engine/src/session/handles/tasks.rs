//! The agents, background commands and other work beside the turns of a session.

use crate::conversation::ConversationShared;
use crate::session::schedule;
use lathe_protocol::display::TodoItem;
use lathe_protocol::op::Prompt;
use lathe_protocol::record::Record;
use lathe_shell::run::{BackgroundCommand, BackgroundError, ShellSession};
use lathe_tools::schedule::Schedule;
use lathe_tools::task_store::Task;
use lathe_tools::team::TeamConfig;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a background task can't be read or stopped.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The agent is over.
    #[error("agent {0} is no longer running")]
    NotRunning(String),
    /// There is no such agent.
    #[error("there is no agent {0}")]
    NoSuchAgent(String),
    /// A message did not reach an agent.
    #[error("{0}")]
    NotDelivered(String),
    /// The transcript of an agent can't be read.
    #[error(transparent)]
    Transcript(#[from] lathe_session::SessionError),
    /// Reading was interrupted.
    #[error("its transcript can't be read: {0}")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The script of a run can't be saved.
    #[error("the workflow can't be saved: {0}")]
    NotSaved(String),
    /// Its output can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no such command.
    #[error(transparent)]
    Background(#[from] BackgroundError),
}

/// The agents, background commands and other work beside the turns of a session.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct TasksHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl TasksHandle<'_> {
    /// The commands that run, or ran, in the background.
    #[must_use]
    pub fn commands(self) -> Vec<BackgroundCommand> {
        self.shared.tools.shell.background().list()
    }

    /// The task list of the conversation, in whichever of the two forms the model keeps it.
    #[must_use]
    pub fn todos(self) -> Vec<TodoItem> {
        let todos = self.shared.tools.todos.lock().clone();
        if !todos.is_empty() {
            return todos;
        }
        let list = self.shared.tools.tasks.read();
        list.map(|list| list.shown()).unwrap_or_default()
    }

    /// The scheduled prompts.
    #[must_use]
    pub fn schedule(self) -> Arc<Schedule> {
        self.shared.session.schedule.clone()
    }

    /// Runs a prompt as a turn of its own, after the turn that runs.
    pub fn run_between_turns(self, mut prompt: Prompt) {
        schedule::mark_as_own(&mut prompt, self.shared.permissions.mode());
        self.shared.inbox.queue.lock().push_back(prompt);
        self.shared.inbox.wake.notify_one();
    }

    /// The team that the session leads, and the unfinished tasks of each member.
    #[must_use]
    pub fn team(self) -> Option<(TeamConfig, Vec<Task>)> {
        let team = self.shared.session.team.read().clone()?;
        let config = team.store.config().ok()?;
        let list = self.shared.tools.tasks.read().ok()?;
        let open = list.tasks().iter();
        let open = open.filter(|task| task.owner.is_some() && !task.status.is_finished());
        Some((config, open.cloned().collect()))
    }

    /// The runs of workflows, oldest first, with the agents of each.
    #[must_use]
    pub fn workflows(self) -> Vec<crate::workflow::RunView> {
        crate::workflow::runs(self.shared)
    }

    /// Keeps a run from starting agents, or lets it start them again. Those that work go on.
    ///
    /// # Errors
    /// When there is no such run, or it is over.
    pub fn pause_workflow(self, id: &str, paused: bool) -> Result<(), TaskError> {
        let entry = crate::workflow::run_of(self.shared, id);
        let entry = entry.ok_or_else(|| TaskError::NoSuchAgent(id.to_owned()))?;
        if !entry.is_running() {
            return Err(TaskError::NotRunning(id.to_owned()));
        }
        entry.paused.send_replace(paused);
        Ok(())
    }

    /// Saves the script of a run among the project's workflows. Gives the file.
    ///
    /// # Errors
    /// When there is no such run, or the file exists or can't be written.
    pub fn save_workflow(self, id: &str, name: &str) -> Result<PathBuf, TaskError> {
        crate::workflow::save(self.shared, id, name)
    }

    /// Whether the conversation only directs workers.
    #[must_use]
    pub fn coordinates(self) -> bool {
        self.shared.coordinates()
    }

    /// Switches coordinator mode, from the next step on.
    ///
    /// # Errors
    /// When the scratch folder can't be made; then nothing changes.
    pub fn coordinate(self, on: bool) -> Result<(), crate::NoScratch> {
        crate::conversation::coordinator::set(self.shared, on)
    }

    /// Whether a turn runs or is about to.
    #[must_use]
    pub fn is_busy(self) -> bool {
        let inbox = &self.shared.inbox;
        inbox.busy.load(Ordering::Relaxed) || !inbox.queue.lock().is_empty()
    }

    /// The session's agents, oldest first, those of an earlier run of it too.
    #[must_use]
    pub fn agents(self) -> Vec<lathe_tools::host::AgentTask> {
        self.shared
            .session
            .agents
            .all()
            .iter()
            .map(|entry| entry.view())
            .collect()
    }

    /// Writes to an agent: a running one reads it with its next step, one that is over continues with it.
    pub fn write_to_agent(
        self,
        id: &str,
        message: &str,
    ) -> impl Future<Output = Result<(), TaskError>> + Send + 'static {
        let shared = self.shared.clone();
        let (id, message) = (id.to_owned(), message.to_owned());
        async move {
            let Some(entry) = shared.session.agents.find(&id) else {
                return Err(TaskError::NoSuchAgent(id));
            };
            let sent = crate::agents::message::write_to(&shared, &entry, &message).await;
            sent.map_err(|error| TaskError::NotDelivered(error.to_string()))
        }
    }

    /// The words and calls of an agent so far, as its transcript has them.
    pub fn agent_records(
        self,
        id: &str,
    ) -> impl Future<Output = Result<Vec<Arc<Record>>, TaskError>> + Send + 'static {
        let agents = &self.shared.session.agents;
        let path = agents
            .find(id)
            .map(|entry| agents.paths.agent_transcript(&entry.id));
        let id = id.to_owned();
        async move {
            let path = path.ok_or(TaskError::NoSuchAgent(id))?;
            let reading = lathe_spawn::blocking(move || lathe_session::load_tail(&path));
            let loaded = reading.await.map_err(TaskError::Interrupted)??;
            Ok(loaded.chain())
        }
    }

    /// The last bytes that a background command printed, how much it printed in all, and whether
    /// that is more.
    ///
    /// # Errors
    /// When there is no such task, or its output can't be read.
    pub fn output(self, id: &str, limit: u64) -> Result<(String, u64, bool), TaskError> {
        let output_file = match self.shared.session.agents.find(id) {
            Some(agent) => agent.output_file.clone(),
            None => {
                let background = self.shared.tools.shell.background();
                background.get(id)?.output_file
            }
        };
        let failed = |source: std::io::Error| TaskError::Output {
            path: output_file.clone(),
            source,
        };
        let mut file = std::fs::File::open(&output_file).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(limit)))
            .map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((text, size, size > limit))
    }

    /// Stops a background task.
    ///
    /// # Errors
    /// When there is no such task.
    pub async fn stop(self, id: &str) -> Result<(), TaskError> {
        self.shared.stop_task(id).await
    }

    /// Stops an agent or a run of a workflow; its end is told as that of any other.
    ///
    /// # Errors
    /// When there is none, or it doesn't run.
    pub fn begin_stop(self, id: &str) -> Result<(), TaskError> {
        let agent = self.shared.session.agents.find(id);
        match agent.filter(|agent| agent.is_running()) {
            Some(agent) => {
                agent.cancel.cancel();
                Ok(())
            }
            None => Err(TaskError::NotRunning(id.to_owned())),
        }
    }

    /// Stops a background task, without holding on to the session meanwhile.
    pub fn stop_later(
        self,
        id: &str,
    ) -> impl Future<Output = Result<(), TaskError>> + Send + 'static {
        let shared = self.shared.clone();
        let id = id.to_owned();
        async move { shared.stop_task(&id).await }
    }

    /// Keeps a background command when the session ends, or no longer: the user's word.
    ///
    /// # Errors
    /// When there is no such command, or it can't stay.
    pub fn keep(self, id: &str, is_kept: bool) -> Result<BackgroundCommand, TaskError> {
        Ok(self.shared.tools.shell.background().keep(id, is_kept)?)
    }

    /// Keeps every background command that runs and can stay.
    pub fn keep_all(self) {
        for command in self.commands() {
            if let Err(error) = self.keep(command.id.as_str(), true) {
                tracing::info!(%error, "not kept");
            }
        }
    }

    /// Stops every agent and every background command that still runs.
    pub async fn stop_all(self) {
        self.kill_agents();
        let background = self.shared.tools.shell.background();
        for command in background.list() {
            if command.status == lathe_shell::run::BackgroundStatus::Running {
                let _ = background.stop(command.id.as_str()).await;
            }
        }
    }

    /// Stops every running agent at once. Returns how many. Each is reported as killed.
    #[expect(
        clippy::must_use_candidate,
        reason = "most callers only want the effect"
    )]
    pub fn kill_agents(self) -> usize {
        self.shared.session.agents.kill_all()
    }

    /// Sends running calls to the background. Returns whether there was one.
    pub fn send_to_background(self, call: Option<&lathe_protocol::ids::ToolUseId>) -> bool {
        self.shared.toolbox.backgrounds.send(call)
    }

    /// How planning stands: whether plan mode is on, the plan's file and text.
    #[must_use]
    pub fn plan(self) -> lathe_tools::host::PlanState {
        self.shared.plan_state()
    }

    /// The session's shell, for commands that the user runs.
    #[must_use]
    pub fn shell(self) -> Arc<ShellSession> {
        self.shared.tools.shell.clone()
    }

    /// Waits until nothing runs beside the turns.
    pub async fn settled(self) {
        self.shared.session.background.settled().await;
    }
}
