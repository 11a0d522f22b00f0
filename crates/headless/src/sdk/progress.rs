//! Progress summaries of agents, for hosts that show them: every half minute in which something happened,
//! the small model writes one, and the host gets a `task_progress` frame with that `summary`.

use super::host::Host;
use lathe_engine::SessionHandle;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::event::{Event, TaskNotice, TaskUsage};
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::record::{MessageRecord, RecordKind};
use lathe_settings::{Environment, Variable};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often an agent is looked at.
const EVERY: Duration = Duration::from_secs(30);
/// The number of newest lines of an agent's work that the small model sees.
const MOST_LINES: usize = 40;

/// The agents that are at work.
#[derive(Default)]
pub(super) struct Progress {
    /// How often they are looked at; `None` is never.
    every: Option<Duration>,
    agents: HashMap<String, Arc<Agent>>,
}

struct Agent {
    task_id: String,
    description: String,
    order: String,
    tool_use_id: Option<ToolUseId>,
    work: Mutex<Work>,
    stop: CancellationToken,
}

/// The work of an agent so far.
#[derive(Default)]
struct Work {
    lines: VecDeque<String>,
    /// Whether something came since it was last told.
    news: bool,
    usage: TaskUsage,
    last_tool: Option<String>,
}

impl Work {
    fn add(&mut self, line: String) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        self.news = true;
    }
}

impl Progress {
    /// Switches summaries on, unless the environment forbids them.
    pub(super) fn tell(&mut self, environment: &Environment) {
        let off = environment.is_on(Variable::DisableAgentProgress);
        let every = environment
            .number(Variable::AgentProgressInterval)
            .map_or(EVERY, |ms| Duration::from_millis(ms.max(1)));
        self.every = (!off).then_some(every);
    }

    /// Looks at what happened.
    pub(super) fn look(&mut self, event: &Event, session: &Arc<SessionHandle>, host: &Host) {
        let Some(every) = self.every else { return };
        match event {
            Event::Task(TaskNotice::Started {
                task_id,
                description,
                tool_use_id,
                task_type,
                extra,
                ..
            }) if task_type == "local_agent" => {
                let order = extra.get("prompt").and_then(Value::as_str);
                let agent = Arc::new(Agent {
                    task_id: task_id.0.clone(),
                    description: description.clone(),
                    order: order.unwrap_or_default().to_owned(),
                    tool_use_id: tool_use_id.clone(),
                    work: Mutex::default(),
                    stop: CancellationToken::new(),
                });
                let before = self.agents.insert(task_id.0.clone(), agent.clone());
                if let Some(before) = before {
                    before.stop.cancel();
                }
                lathe_spawn::task(watch(agent, every, Arc::downgrade(session), host.clone()));
            }
            Event::Task(TaskNotice::Progress {
                task_id,
                description,
                usage,
                last_tool_name,
                ..
            }) => {
                if let Some(agent) = self.agents.get(task_id.as_str()) {
                    let mut work = agent.work.lock();
                    work.usage = *usage;
                    work.last_tool.clone_from(last_tool_name);
                    work.add(format!("(call) {description}"));
                }
            }
            Event::Task(TaskNotice::Finished { task_id, .. }) => {
                if let Some(agent) = self.agents.remove(task_id.as_str()) {
                    agent.stop.cancel();
                }
            }
            Event::Record {
                record,
                parent_tool_use_id: Some(parent),
            } => {
                let agent = self
                    .agents
                    .values()
                    .find(|agent| agent.tool_use_id.as_ref() == Some(parent));
                if let (Some(agent), Some(words)) = (agent, words_of(record)) {
                    agent.work.lock().add(words);
                }
            }
            _ => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        for agent in self.agents.values() {
            agent.stop.cancel();
        }
    }
}

/// The text of an agent's answer.
fn words_of(record: &MessageRecord) -> Option<String> {
    if record.kind != RecordKind::Assistant {
        return None;
    }
    let words: Vec<String> = record
        .message
        .as_ref()?
        .blocks()
        .into_iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.trim().chars().take(500).collect()),
            _ => None,
        })
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Says what an agent does until it is done.
async fn watch(agent: Arc<Agent>, every: Duration, session: Weak<SessionHandle>, host: Host) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = agent.stop.cancelled() => return,
        }
        let done = {
            let mut work = agent.work.lock();
            if !std::mem::take(&mut work.news) {
                continue;
            }
            let lines: Vec<&str> = work.lines.iter().map(String::as_str).collect();
            lines.join("\n")
        };
        let Some(session) = session.upgrade() else {
            return;
        };
        let summary = session
            .side_questions()
            .progress(&agent.order, &done, &agent.stop)
            .await;
        let Some(summary) = summary.filter(|_| !agent.stop.is_cancelled()) else {
            continue;
        };
        let (usage, last_tool) = {
            let work = agent.work.lock();
            (work.usage, work.last_tool.clone())
        };
        host.send(json!({
            "type": "system", "subtype": "task_progress", "task_id": agent.task_id,
            "tool_use_id": agent.tool_use_id, "description": agent.description,
            "usage": usage, "last_tool_name": last_tool, "summary": summary,
            "uuid": RecordId::random(), "session_id": session.session_id(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_the_progress_of_agents_is_told_is_a_variable() {
        let every = |variables: &[(&str, &str)]| {
            let mut progress = Progress::default();
            progress.tell(&Environment::of_variables(variables.iter().copied()));
            progress.every
        };
        let soon = ("LATHE_AGENT_PROGRESS_MS", "20");
        let off = ("CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES", "1");
        assert_eq!(every(&[]), Some(EVERY));
        assert_eq!(every(&[soon]), Some(Duration::from_millis(20)));
        assert_eq!(every(&[soon, off]), None);
    }
}
