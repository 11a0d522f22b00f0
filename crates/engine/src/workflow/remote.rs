//! Agents of a run as jobs of a fleet: who runs them is the caller's, what they may do and cost is the session's.

use crate::conversation::ConversationShared;
use crate::session::ledger::{Part, PartUsage, Totals};
use futures::future::BoxFuture;
use lathe_protocol::event::ModelUsage;
use lathe_protocol::permission::{Behavior, PermissionMode};
use lathe_settings::Places;
use lathe_tools::agent::GENERAL;
use lathe_workflow::AgentCall;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The permissions of an agent elsewhere: those of the session.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteRules {
    /// The mode.
    pub mode: PermissionMode,
    /// Rules that allow.
    pub allow: Vec<String>,
    /// Rules that ask.
    pub ask: Vec<String>,
    /// Rules that deny.
    pub deny: Vec<String>,
}

/// An agent that is to run elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteOrder {
    /// Names it. The same call of the same run has the same name, also when the run is resumed.
    pub id: String,
    /// A line for lists.
    pub title: String,
    /// The prompt.
    pub prompt: String,
    /// The type of agent; `None` is the general one.
    pub agent_type: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How hard the model should try.
    pub effort: Option<String>,
    /// The schema that the answer must fit.
    pub schema: Option<Value>,
    /// Whether its changes are apart from the folder.
    pub isolated: bool,
    /// The folder of the session.
    pub folder: PathBuf,
    /// Its permissions.
    pub rules: RemoteRules,
    /// The most that it may cost, in dollars.
    pub budget_usd: Option<f64>,
}

/// The end of an agent elsewhere.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RemoteEnd {
    /// Its last message, or why there is none.
    pub text: String,
    /// Whether it finished.
    pub done: bool,
    /// The answer that fits the schema.
    pub structured: Option<Value>,
    /// Dollars of all attempts.
    pub cost_usd: f64,
    /// Tokens and dollars of the last attempt, by model.
    pub usage: BTreeMap<String, ModelUsage>,
    /// Where its changes are.
    pub changes: Option<String>,
}

/// Whatever runs agents elsewhere.
pub trait RemoteAgents: Send + Sync {
    /// Runs one to its end. `say` takes remarks for who watches the run. One that is cancelled is stopped.
    fn run<'a>(
        &'a self,
        places: &'a Places,
        order: RemoteOrder,
        say: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, RemoteEnd>;
}

/// Where agents run that are not to run in this process.
#[derive(Clone)]
pub struct Elsewhere(pub Arc<dyn RemoteAgents>);

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Elsewhere")
    }
}

/// The first line of a journal: the run that it began with.
#[derive(Serialize, Deserialize)]
struct Origin {
    origin: String,
}

/// The run that a journal began with, and the line that says so for a new one.
pub(super) fn origin(journal: Option<&str>, id: &str) -> (String, Option<String>) {
    let first = journal.and_then(|text| text.lines().next());
    if let Some(Ok(Origin { origin })) = first.map(serde_json::from_str) {
        return (origin, None);
    }
    let line = serde_json::json!({ "origin": id });
    (id.to_owned(), Some(format!("{line}\n")))
}

/// The part of a run that is elsewhere.
pub(super) struct Remote {
    pub(super) agents: Elsewhere,
    /// The run that the journal began with.
    pub(super) origin: String,
    /// Equal calls so far, in the order of the script.
    pub(super) equal: Mutex<HashMap<String, usize>>,
}

impl Remote {
    /// The name of a call's job: the same when the script makes the same call again in a run that is resumed.
    pub(super) fn name(&self, call: &AgentCall) -> String {
        let key = call.key();
        let mut equal = self.equal.lock();
        let count = equal.entry(key.clone()).or_default();
        *count += 1;
        format!("{}-{key}-{count}", self.origin)
    }
}

/// The order for a call, with the permissions and the money of the session.
pub(super) fn order(shared: &Arc<ConversationShared>, call: &AgentCall, id: String) -> RemoteOrder {
    let context = shared.permissions.snapshot();
    let rules = |behavior| -> Vec<String> {
        let rules = context.rules.iter().filter(|it| it.behavior == behavior);
        rules.map(lathe_permissions::Rule::text).collect()
    };
    let agent_type = call.agent_type.clone().filter(|name| name != GENERAL);
    RemoteOrder {
        id,
        title: super::title_of(call),
        prompt: call.prompt.clone(),
        agent_type,
        // The model of the session, unless the call names one.
        model: Some(
            call.model
                .clone()
                .unwrap_or_else(|| shared.choices.read().model.clone()),
        ),
        effort: call.effort.clone(),
        schema: call.schema.clone(),
        isolated: call.isolation.as_deref() == Some("worktree"),
        folder: shared.tools.working_folder.read().clone(),
        rules: RemoteRules {
            mode: context.mode,
            allow: rules(Behavior::Allow),
            ask: rules(Behavior::Ask),
            deny: rules(Behavior::Deny),
        },
        budget_usd: money_left(shared),
    }
}

/// Dollars that the session may still spend, where it has a limit.
fn money_left(shared: &Arc<ConversationShared>) -> Option<f64> {
    let root = shared.root();
    let most = root.seed.limits.max_session_usd()?;
    let waiting = root.spending.waiting.lock();
    let totals = root.spending.totals.lock();
    let waiting: f64 = waiting.iter().map(|(_, used)| used.cost_usd()).sum();
    Some(most - totals.cost_usd() - waiting)
}

/// Counts what an agent elsewhere used as the session's, and gives its tokens. `model` is who pays for attempts before the
/// last, of which only the dollars are known.
pub(super) fn charge(shared: &Arc<ConversationShared>, model: &str, end: &RemoteEnd) -> u64 {
    let mut totals = Totals {
        models: end.usage.clone().into_iter().collect(),
        ..Totals::default()
    };
    let before = end.cost_usd - totals.cost_usd();
    if before > 0.0 {
        let entry = totals.models.entry(model.to_owned()).or_default();
        entry.cost_usd += before;
    }
    let tokens = totals.tokens();
    let mut part = PartUsage {
        calls: 1,
        cost_usd: totals.cost_usd(),
        ..PartUsage::default()
    };
    for usage in totals.models.values() {
        part.input_tokens += usage.input_tokens;
        part.output_tokens += usage.output_tokens;
        part.cache_read_input_tokens += usage.cache_read_input_tokens;
        part.cache_creation_input_tokens += usage.cache_creation_input_tokens;
    }
    totals.parts.insert(Part::Agents, part);
    let root = shared.root();
    root.spending.waiting.lock().push((Part::Agents, totals));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_keeps_the_name_that_its_jobs_have() {
        let (first, line) = origin(None, "w1");
        assert_eq!(first, "w1");
        let journal = line.unwrap();
        assert_eq!(origin(Some(&journal), "w2"), ("w1".to_owned(), None));
        // One that began in this process has no such line.
        assert_eq!(origin(Some("{\"key\":1}\n"), "w3").0, "w3");
    }
}
