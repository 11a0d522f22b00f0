//! `/workflows`: the runs of workflows in this session.

use crate::CommandError;
use lathe_engine::SessionHandle;
use lathe_engine::workflow::RunView;
use lathe_tools::host::AgentStatus;
use std::fmt::Write as _;

/// Agents of one phase that are shown one by one.
const MOST_SHOWN: usize = 12;

/// Shows runs, or pauses, stops or saves one.
pub(crate) fn answer(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let tasks = session.tasks();
    match words.as_slice() {
        [] => {
            let runs: Vec<String> = tasks.workflows().iter().map(tree).collect();
            Ok(if runs.is_empty() {
                "No workflow was run in this session. `lathe workflow list` shows those that there are.".to_owned()
            } else {
                runs.join("\n\n")
            })
        }
        ["watch", id] => {
            let runs = tasks.workflows();
            let run = runs.iter().find(|view| view.run.id.as_str() == *id);
            let run = run.ok_or_else(|| CommandError::session(format!("there is no run {id}")))?;
            let output = std::fs::read_to_string(&run.run.output_file).unwrap_or_default();
            Ok(format!("{}\n\n{}", tree(run), output.trim_end()))
        }
        [word @ ("pause" | "resume"), id] => {
            let pauses = *word == "pause";
            tasks
                .pause_workflow(id, pauses)
                .map_err(CommandError::session)?;
            Ok(if pauses {
                format!(
                    "{id} starts no further agents until /workflows resume {id}; those that work go on."
                )
            } else {
                format!("{id} starts agents again.")
            })
        }
        ["stop", id] => {
            let known = tasks.workflows();
            if !known.iter().any(|view| view.run.id.as_str() == *id) {
                return Err(CommandError::session(format!("there is no run {id}")));
            }
            // Faces hear of its end; none of them waits for it here.
            tasks.begin_stop(id).map_err(CommandError::session)?;
            Ok(format!(
                "{id} is stopped. Workflow with resumeFromRunId \"{id}\" continues it."
            ))
        }
        ["save", id] => {
            let runs = tasks.workflows();
            let run = runs.iter().find(|view| view.run.id.as_str() == *id);
            let name = run.map(|view| view.run.description.clone());
            save(session, id, &name.unwrap_or_default())
        }
        ["save", id, name] => save(session, id, name),
        _ => Err(CommandError::WorkflowsUsage),
    }
}

fn save(session: &SessionHandle, id: &str, name: &str) -> Result<String, CommandError> {
    let file = session.tasks().save_workflow(id, name);
    let file = file.map_err(CommandError::session)?;
    Ok(format!("Saved as {}.", file.display()))
}

/// A run with its agents by phase, with tokens and cost.
fn tree(view: &RunView) -> String {
    let run = &view.run;
    let cost: f64 = view.agents.iter().map(|agent| agent.cost_usd).sum();
    let tokens: u64 = view.agents.iter().map(|it| it.usage.total_tokens).sum();
    let state = match (run.status, view.paused) {
        (AgentStatus::Running, true) => "paused",
        (status, _) => status.word(),
    };
    let mut text = format!(
        "{} {} ({state}): {}, {tokens} tokens, ${cost:.2}",
        run.id,
        run.description,
        counted(view.agents.len())
    );
    let mut phases: Vec<Option<&str>> = Vec::new();
    for agent in &view.agents {
        if !phases.contains(&agent.phase.as_deref()) {
            phases.push(agent.phase.as_deref());
        }
    }
    for phase in phases {
        let agents = view.agents.iter();
        let agents: Vec<_> = agents.filter(|it| it.phase.as_deref() == phase).collect();
        let tokens: u64 = agents.iter().map(|it| it.usage.total_tokens).sum();
        let cost: f64 = agents.iter().map(|it| it.cost_usd).sum();
        let _ = write!(
            text,
            "\n├ {}: {}, {tokens} tokens, ${cost:.2}",
            phase.unwrap_or("without a phase"),
            counted(agents.len())
        );
        for agent in agents.iter().take(MOST_SHOWN) {
            let label = phase.and_then(|phase| {
                let rest = agent.description.strip_prefix(phase)?;
                rest.strip_prefix(": ")
            });
            let _ = write!(
                text,
                "\n│  └ {} {} ({} tokens, ${:.2})",
                label.unwrap_or(&agent.description),
                agent.status.word(),
                agent.usage.total_tokens,
                agent.cost_usd
            );
        }
        if agents.len() > MOST_SHOWN {
            let _ = write!(text, "\n│  └ and {} more", agents.len() - MOST_SHOWN);
        }
    }
    text
}

fn counted(agents: usize) -> String {
    match agents {
        1 => "1 agent".to_owned(),
        agents => format!("{agents} agents"),
    }
}
