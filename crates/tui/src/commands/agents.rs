//! `/agents` lists the agents, creates one, and stops those at work.

use crate::app::App;
use crate::commands::definitions;
use crate::layers::{Form, Item, Picker, Purpose};
use crate::prompt::external_editor;
use crate::render::text::counted;
use std::io::Write as _;
use std::path::PathBuf;

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
    let words = "Enter mentions an agent in the prompt, ctrl+o shows it, ctrl+n creates one (a file in .lathe/agents/). /tasks lists running agents.";
    definitions::choose(app, Purpose::Agents, "Agents", items, words);
}

/// Asks for the name of a new agent.
pub(crate) fn ask_name(app: &mut App) {
    let title = "The name of the new agent (small letters, digits and hyphens)";
    app.layers.open(Form::new(Purpose::NewAgent, title, ""));
}

/// A new agent was named: asks where it belongs.
pub(crate) fn named(app: &mut App, name: &str) {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(is_name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        app.warn(format!(
            "'{name}' is no name for an agent: it begins with a small letter and has small letters, digits and hyphens, such as code-reader."
        ));
        return;
    }
    let shown = |place: &str| file(app, name, place).display().to_string();
    let items = vec![
        Item::new(PROJECT, "This project (shared)", shown(PROJECT)),
        Item::new(USER, "All my projects", shown(USER)),
    ];
    let purpose = Purpose::NewAgentPlace {
        name: name.to_owned(),
    };
    let title = format!("Where does {name} belong?");
    app.layers.open(Picker::new(purpose, title, items));
}

const PROJECT: &str = "project";
const USER: &str = "user";

/// The file of an agent.
fn file(app: &App, name: &str, place: &str) -> PathBuf {
    let folder = if place == USER {
        app.places.config_home.clone()
    } else {
        app.places.project.join(".lathe")
    };
    folder.join("agents").join(format!("{name}.md"))
}

/// Opens the user's editor with a first version of a new agent, and saves what is written there.
pub(crate) fn create(app: &mut App, name: &str, place: &str) {
    let file = file(app, name, place);
    if file.exists() {
        app.warn(format!("{} is there already.", file.display()));
        return;
    }
    let first = format!(
        "---\nname: {name}\ndescription: When this agent is to be used, in one sentence\ntools: Read, Grep, Glob\n---\n\nHow the agent works, and the form of its answer.\n"
    );
    let Some(text) = external_editor::edit(app, &first) else {
        return;
    };
    if text == first || text.trim().is_empty() {
        app.remark("Nothing was written, so no agent was created.");
        return;
    }
    let written = file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::File::create_new(&file))
        .and_then(|mut open| open.write_all(text.as_bytes()));
    match written {
        Ok(()) => app.remark(format!("Created {}", file.display())),
        Err(error) => app.warn(format!("can't write {}: {error}", file.display())),
    }
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
        "No agents are running.".to_owned()
    } else {
        format!("{} stopped", counted(stopped, "agent"))
    });
}

/// Names an agent in the prompt.
pub(crate) fn mention(app: &mut App, name: &str) {
    app.prompt.editor.insert(&format!("@agent-{name} "));
    app.edited();
}
