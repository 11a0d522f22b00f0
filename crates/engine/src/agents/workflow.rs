//! The agents of a session, as a workflow uses them.

use crate::agents::order::{child_of, start_agent};
use crate::agents::run::{self, finish};
use crate::agents::{AgentEntry, AgentError, Agents, NewAgent};
use crate::conversation::ConversationShared;
use crate::workflow::{Elsewhere, RemoteEnd, RemoteOrder};
use lathe_protocol::event::Event;
use lathe_protocol::ids::AgentId;
use lathe_tools::agent::GENERAL;
use lathe_tools::host::{AgentOrder, AgentStatus, AgentTask};
use lathe_tools::{CallContext, ToolError};
use std::sync::Arc;

/// The type of the entry that stands for a run.
pub(crate) const WORKFLOW: &str = "workflow";

/// The type of the entry that stands for a job of a fleet.
pub(crate) const REMOTE: &str = "fleet";

/// The agents of a session, for a workflow that a conversation runs.
#[derive(Clone)]
pub(crate) struct WorkflowAgents {
    shared: Arc<ConversationShared>,
}

impl WorkflowAgents {
    pub(crate) fn new(shared: &Arc<ConversationShared>) -> Self {
        Self {
            shared: shared.clone(),
        }
    }

    pub(crate) fn new_id(&self, kind: char) -> String {
        crate::agents::order::new_id(kind)
    }

    /// Lists a run.
    pub(crate) fn begin(&self, entry: &Arc<AgentEntry>) {
        let agents = &self.shared.session.agents;
        agents.remember(entry.clone());
        agents.keep(entry);
        self.shared
            .root()
            .events
            .send(Event::Task(run::started(entry)));
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.session.agents.tracker.spawn(work);
    }

    /// Writes to the output of a run.
    pub(crate) fn say(&self, entry: &AgentEntry, text: &str) {
        Agents::note_output(entry, text);
    }

    /// Ends a run, and tells the conversation.
    pub(crate) fn end(
        &self,
        entry: &Arc<AgentEntry>,
        status: AgentStatus,
        result: String,
        tokens: u64,
    ) {
        Agents::note_output(entry, &format!("[{}]\n{result}", status.word()));
        let mut usage = entry.usage();
        usage.total_tokens = tokens;
        entry.update(|state| {
            state.usage = usage;
            state.result = result;
        });
        let root = self.shared.root();
        finish(
            &self.shared.session.agents,
            &root,
            &self.shared,
            entry,
            status,
        );
    }

    /// Runs an agent of a run on the fleet, to its end. `charge` counts what it used, and gives the tokens.
    pub(crate) async fn run_elsewhere(
        &self,
        run: &Arc<AgentEntry>,
        elsewhere: &Elsewhere,
        order: RemoteOrder,
        phase: Option<String>,
        charge: impl FnOnce(&RemoteEnd) -> u64 + Send,
    ) -> (RemoteEnd, u64) {
        let agents = &self.shared.session.agents;
        let id = AgentId(self.new_id('a'));
        let entry = AgentEntry::new(NewAgent {
            output_file: self
                .shared
                .tools
                .results_folder
                .join(format!("agent-{id}.output")),
            id,
            name: None,
            agent_type: REMOTE.to_owned(),
            description: order.title.clone(),
            prompt: order.prompt.clone(),
            tool_use_id: run.tool_use_id.clone(),
            parent: Some(run.id.clone()),
            background: false,
            cancel: run.cancel.child_token(),
            status: AgentStatus::Running,
        });
        entry.update(|state| state.phase = phase);
        agents.remember(entry.clone());
        let root = self.shared.root();
        root.events.send(Event::Task(run::started(&entry)));
        let places = &self.shared.session.settings.loader.places;
        let say = |text: &str| {
            Agents::note_output(&entry, text);
            Agents::note_output(run, &format!("{}: {text}", entry.description));
        };
        let end = elsewhere.0.run(places, order, &say, &entry.cancel).await;
        let tokens = charge(&end);
        let status = match end.done {
            true => AgentStatus::Completed,
            false if entry.cancel.is_cancelled() => AgentStatus::Killed,
            false => AgentStatus::Failed,
        };
        Agents::note_output(&entry, &format!("[{}]\n{}", status.word(), end.text));
        let mut usage = entry.usage();
        usage.total_tokens = tokens;
        entry.update(|state| {
            state.usage = usage;
            state.cost_usd = end.cost_usd;
            state.result.clone_from(&end.text);
            state.structured.clone_from(&end.structured);
        });
        finish(agents, &root, &self.shared, &entry, status);
        (end, tokens)
    }

    /// Runs an agent of a run to its end.
    pub(crate) async fn run(
        &self,
        run: &Arc<AgentEntry>,
        order: AgentOrder,
        call: &CallContext,
    ) -> Result<AgentTask, ToolError> {
        let agents = &self.shared.session.agents;
        let wanted = order.agent_type.as_deref().unwrap_or(GENERAL);
        let definition = agents.catalog().get(wanted).cloned();
        let definition = definition
            .ok_or_else(|| ToolError::failed(format!("there is no agent type {wanted}")))?;
        let entry = child_of(&self.shared, &order, &definition, run, call);
        // Other agents of the session may have all places.
        while let Err(error) = agents.admit(entry.clone()) {
            let other = agents.all().into_iter().find(|it| it.takes_place());
            match (error, other) {
                (AgentError::TooMany, Some(other)) => tokio::select! {
                    () = other.over() => {}
                    () = run.cancel.cancelled() => return Err(ToolError::failed("the run was stopped")),
                },
                // All of them ended in between.
                (AgentError::TooMany, None) => {}
                (error, _) => return Err(error.into()),
            }
        }
        let started = start_agent(&self.shared, &order, Some(&definition), &entry, call).await;
        if let Err(error) = started {
            entry.update(|state| {
                state.status = AgentStatus::Failed;
                state.result = error.to_string();
            });
            entry.set_known(true);
            entry.over.send_replace(true);
            return Err(error);
        }
        entry.over().await;
        Ok(entry.view())
    }
}
