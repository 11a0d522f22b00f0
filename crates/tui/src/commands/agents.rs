//! `/agents` lists the agents, and stops those at work.

use crate::app::App;
use crate::commands::definitions;
use crate::layers::{Item, Purpose};
use crate::render::text::counted;

/// The agents that work can be given to, and those at work.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let catalog = session.extensions().agents();
    let items: Vec<Item> = catalog
        .iter()
        .map(|agent| {
            let mut facts = vec![agent.source.name().to_owned()];
            facts.extend(agent.model.clone());
            if let Some(tools) = &agent.tools {
                facts.push(counted(tools.len(), "tool"));
            }
            let mut item = Item::new(agent.name.clone(), agent.name.clone(), facts.join(" · "));
            item.preview = agent
                .description
                .lines()
                .take(4)
                .map(str::to_owned)
                .collect();
            if let Some(path) = &agent.path {
                item.preview.push(path.display().to_string());
            }
            item
        })
        .collect();
    let words = "Enter mentions an agent in the prompt, ctrl+o shows it. Files in .lathe/agents/ add more; /tasks lists running agents.";
    definitions::choose(app, Purpose::Agents, "Agents", items, words);
}

/// Shows an agent's definition.
pub(crate) fn show(app: &mut App, name: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let catalog = session.extensions().agents();
    let Some(agent) = catalog.iter().find(|agent| agent.name == name) else {
        return;
    };
    let facts = [
        ("from", agent.source.name().to_owned()),
        ("model", agent.model.clone().unwrap_or_default()),
        (
            "tools",
            agent
                .tools
                .as_ref()
                .map_or_else(|| "all".to_owned(), |tools| tools.join(", ")),
        ),
    ];
    let (path, prompt) = (agent.path.clone(), agent.prompt.clone());
    let description = agent.description.clone();
    definitions::show(app, name, &facts, path.as_deref(), &description, &prompt);
}

/// Stops every agent at work.
pub(crate) fn stop_all(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let stopped = session.tasks().kill_agents();
    app.session.agents.clear();
    app.remark(if stopped == 0 {
        "no agents are running".to_owned()
    } else {
        format!("{} stopped", counted(stopped, "agent"))
    });
}

/// Names an agent in the prompt.
pub(crate) fn mention(app: &mut App, name: &str) {
    app.prompt.editor.insert(&format!("@agent-{name} "));
    app.edited();
}
