//! The session as its tools see it: agents, messages, plans, monitoring.

use crate::agents::message::send_message;
use crate::agents::order::run_agent;
use crate::agents::{FORBIDDEN, MOST_DEPTH, monitor, team};
use crate::conversation::ConversationShared;
use crate::mcp::McpControl;
use crate::session::background::ask_beside;
use crate::session::ledger::Part;
use futures::future::BoxFuture;
use lathe_protocol::permission::PermissionMode;
use lathe_tools::agent;
use lathe_tools::host::{
    AgentOrder, AgentReport, AgentTask, MonitorOrder, OtherSession, PlanModeError, PlanState,
    SessionHost, TaskChange, TeamMade, WorkflowOrder, WorkflowStarted, WorktreeMove, WorktreeWish,
};
use lathe_tools::schedule::Schedule;
use lathe_tools::send_message::Letter;
use lathe_tools::task_store::{Seat, Task};
use lathe_tools::web_search::SearchAnswer;
use lathe_tools::{CallContext, ToolError, ToolOutput};
use lathe_web::search::Query;
use serde_json::Value;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a tool that is built on another waits for that one's server.
const CONNECTING: Duration = Duration::from_secs(60);

/// A conversation, as its tools see it.
pub(crate) struct Host {
    shared: Weak<ConversationShared>,
}

impl Host {
    pub(crate) fn new(shared: &Arc<ConversationShared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
        }
    }

    fn shared(&self) -> Result<Arc<ConversationShared>, ToolError> {
        self.shared
            .upgrade()
            .ok_or_else(|| ToolError::failed("The session is over."))
    }
}

impl SessionHost for Host {
    fn schedule(&self) -> Option<(Arc<Schedule>, PermissionMode)> {
        let shared = self.shared.upgrade()?;
        Some((shared.session.schedule.clone(), shared.permissions.mode()))
    }

    fn settings(&self) -> Value {
        let shared = self.shared.upgrade();
        shared.map_or(Value::Null, |shared| {
            shared.session.settings.value.read().clone()
        })
    }

    fn change_settings(&self, changes: &serde_json::Map<String, Value>) -> Result<(), ToolError> {
        crate::session::live::change_flags(&*self.shared()?, changes)
            .map_err(|error| ToolError::failed(format!("Nothing was changed: {error}.")))
    }

    fn run_agent(
        &self,
        order: AgentOrder,
        call: CallContext,
    ) -> BoxFuture<'_, Result<AgentReport, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            run_agent(&shared, order, &call).await
        })
    }

    fn start_workflow(
        &self,
        order: WorkflowOrder,
        call: CallContext,
    ) -> BoxFuture<'_, Result<WorkflowStarted, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            crate::workflow::start(&shared, &order, &call)
        })
    }

    fn send_message(
        &self,
        to: String,
        message: Letter,
        call: CallContext,
    ) -> BoxFuture<'_, Result<String, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            if let Some(sent) = team::send(&shared, &to, &message) {
                return sent;
            }
            let Letter::Text(message) = message else {
                return Err(ToolError::failed(
                    "Such a message is for members of a team; send words.",
                ));
            };
            send_message(&shared, &to, &message, &call).await
        })
    }

    fn team_seat(&self) -> Option<Seat> {
        team::seat(&*self.shared.upgrade()?)
    }

    fn task_given(&self, task: &Task) {
        if let Some(shared) = self.shared.upgrade() {
            team::task_given(&shared, task);
        }
    }

    fn create_team(&self, name: &str, description: &str) -> Result<TeamMade, ToolError> {
        team::create(&self.shared()?, name, description)
    }

    fn delete_team(&self) -> Result<String, ToolError> {
        team::delete(&self.shared()?)
    }

    fn agent(&self, id: &str) -> Option<AgentTask> {
        let shared = self.shared.upgrade()?;
        shared.session.agents.find(id).map(|entry| entry.view())
    }

    fn agents(&self) -> Vec<AgentTask> {
        let all = self
            .shared
            .upgrade()
            .map(|shared| shared.session.agents.all());
        let all = all.unwrap_or_default();
        all.iter().map(|entry| entry.view()).collect()
    }

    fn other_sessions(&self) -> Vec<OtherSession> {
        let shared = self.shared.upgrade();
        shared.map_or_else(Vec::new, |shared| crate::session::messages::others(&shared))
    }

    fn agent_output(&self, id: &str) -> String {
        let entry = self
            .shared
            .upgrade()
            .and_then(|it| it.session.agents.find(id));
        entry.map(|entry| entry.new_output()).unwrap_or_default()
    }

    fn wait_for_agent(&self, id: &str, limit: Duration) -> BoxFuture<'_, ()> {
        let entry = self
            .shared
            .upgrade()
            .and_then(|it| it.session.agents.find(id));
        Box::pin(async move {
            if let Some(entry) = entry {
                // Working on past the limit is an answer too.
                drop(tokio::time::timeout(limit, entry.over()).await);
            }
        })
    }

    fn stop_agent(&self, id: &str) -> BoxFuture<'_, ()> {
        let entry = self
            .shared
            .upgrade()
            .and_then(|it| it.session.agents.find(id));
        Box::pin(async move {
            if let Some(entry) = entry {
                // The model ends it itself: it needn't be told.
                entry.set_known(true);
                entry.cancel.cancel();
                entry.over().await;
            }
        })
    }

    fn end_is_known(&self, task: &str) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        shared.forget_notices(task);
        if let Some(entry) = shared.session.agents.find(task) {
            entry.set_known(true);
            shared.session.agents.keep(&entry);
        } else {
            shared.toolbox.known_ends.lock().insert(task.to_owned());
        }
    }

    fn plan(&self) -> PlanState {
        self.shared
            .upgrade()
            .map(|shared| shared.plan_state())
            .unwrap_or_default()
    }

    fn enter_plan_mode(&self) -> Result<PlanState, PlanModeError> {
        let shared = self.shared.upgrade().ok_or(PlanModeError::SessionOver)?;
        shared.enter_plan_mode()
    }

    fn leave_plan_mode(&self) -> PermissionMode {
        match self.shared.upgrade() {
            Some(shared) => shared.leave_plan_mode(),
            None => PermissionMode::Default,
        }
    }

    fn task_changed(&self, task: Task, change: TaskChange) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let shared = self.shared.upgrade()?;
            shared.hooks.task_changed(&task, change).await
        })
    }

    fn is_unloaded(&self, tool: &str) -> bool {
        let shared = self.shared.upgrade();
        shared.is_some_and(|shared| shared.toolbox.deferred.waits(tool))
    }

    fn why_missing(&self, tool: &str) -> Option<String> {
        let shared = self.shared.upgrade()?;
        if shared.coordinates() && !crate::conversation::coordinator::has(tool) {
            return Some(format!(
                "You coordinate, so you don't have {tool}: start a worker with Agent that does it."
            ));
        }
        let Some(place) = shared.role.place() else {
            return (team::seat(&shared).is_some_and(|seat| !seat.leads)
                && FORBIDDEN.contains(&tool))
            .then(|| format!("Members of a team don't have {tool}: it is for the leader."));
        };
        if tool == agent::NAME || tool == agent::ALIAS {
            return (place.depth >= MOST_DEPTH).then(|| {
                format!(
                    "Agents may start agents only {MOST_DEPTH} deep, and you are at that depth. Do it yourself."
                )
            });
        }
        FORBIDDEN
            .contains(&tool)
            .then(|| format!("Agents don't have {tool}: it is for the main conversation."))
    }

    fn ask_small_model(
        &self,
        system: &'static str,
        prompt: String,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<String, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            let model = shared.session.catalog.small_fast_model().id;
            let asking = ask_beside(&shared, Part::Inner, model, system, prompt, &cancel);
            tokio::select! {
                answer = asking => answer.map_err(|error| ToolError::failed(error.to_string())),
                () = cancel.cancelled() => Err(ToolError::Cancelled("The call was stopped.".to_owned())),
            }
        })
    }

    fn search_by_model(
        &self,
        query: Query,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<SearchAnswer, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            super::web_search::by_model(&shared, &query, &cancel).await
        })
    }

    fn call_tool(
        &self,
        name: String,
        input: Value,
        call: CallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            let tool = shared.all_tools().find_or_late(&name);
            let missing = || ToolError::failed(format!("There is no tool {name} in this session."));
            let prepared = tool.ok_or_else(missing)?.prepare(input, &call.session)?;
            prepared.call(call).await
        })
    }

    fn input_schema(&self, name: String) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async move {
            let shared = self.shared.upgrade()?;
            let servers = McpControl {
                shared: shared.clone(),
            };
            // A server that takes longer is one that isn't there.
            drop(tokio::time::timeout(CONNECTING, servers.settled()).await);
            let tool = shared.all_tools().find_or_late(&name)?;
            Some(tool.input_schema().as_ref().clone())
        })
    }

    fn enter_worktree(&self, wish: WorktreeWish) -> BoxFuture<'_, Result<WorktreeMove, ToolError>> {
        Box::pin(async move {
            let entered = crate::worktree::session::enter(&self.shared()?, wish).await;
            entered.map_err(|error| ToolError::failed(error.to_string()))
        })
    }

    fn exit_worktree(
        &self,
        remove: bool,
        discard: bool,
    ) -> BoxFuture<'_, Result<WorktreeMove, ToolError>> {
        Box::pin(async move {
            let left = crate::worktree::session::exit(&self.shared()?, remove, discard).await;
            left.map_err(|error| ToolError::failed(error.to_string()))
        })
    }

    fn read_from_outside(&self, source: &str) {
        if let Some(shared) = self.shared.upgrade() {
            shared.questions.read_from_outside(source);
            shared.root().questions.read_from_outside(source);
        }
    }

    fn monitor(&self, order: MonitorOrder) {
        if let Some(shared) = self.shared.upgrade() {
            monitor::start(&shared, order);
        }
    }
}
