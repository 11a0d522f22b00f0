//! `lathe agents`: lists agents, shows one, and checks their files.

use super::extensions::{self, Listing, Named};
use super::{places, print_line};
use crate::error::{CliError, Outcome};
use clap::{Args, Subcommand};
use lathe_doctor::advice;
use lathe_extensions::{AgentCatalog, AgentDefinition, ExtensionSource, Problem, SkillCatalog};
use lathe_settings::{Environment, Places};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

// `lathe agents`.
#[derive(Debug, Args)]
pub(crate) struct AgentsArguments {
    #[command(subcommand)]
    command: Option<AgentsCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Agents as JSON, or a file that holds it, as for a session.
    #[arg(long, value_name = "JSON-OR-FILE", global = true)]
    agents: Option<String>,
    /// A folder with a plugin. Repeatable.
    #[arg(long, value_name = "FOLDER", global = true)]
    plugin_dir: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum AgentsCommand {
    /// List all agents with their sources.
    List {
        /// Also those that are hidden by another of the same name.
        #[arg(long)]
        all: bool,
    },
    /// Show one agent: its tools and its prompt.
    Show {
        /// Its name.
        name: String,
    },
    /// Check the files of agents; fails if one can't be loaded.
    Validate {
        /// Only this file or folder; it may be anywhere.
        path: Option<PathBuf>,
    },
}

/// `lathe agents`.
pub(crate) fn run(environment: Environment, arguments: AgentsArguments) -> Outcome {
    let places = places(environment);
    let sources = extensions::sources(&places, &arguments.plugin_dir);
    let flags = arguments
        .agents
        .as_deref()
        .map(crate::arguments::agents_json)
        .transpose()?;
    let mut catalog = AgentCatalog::load(&sources, flags.as_slice());
    if let Some(AgentsCommand::Validate { path: Some(path) }) = &arguments.command {
        catalog = of_path(&places, catalog, path)?;
    }
    let skills = SkillCatalog::load(&sources);
    let advice = advice::of_agents(&catalog, &skills);
    catalog.problems.extend(advice);
    let listing = Listing {
        what: "agent",
        entries: catalog.iter().map(entry).collect(),
        hidden: catalog.hidden.iter().map(entry).collect(),
        problems: &catalog.problems,
        json: arguments.json,
    };
    match arguments.command {
        None => listing.list(false),
        Some(AgentsCommand::List { all }) => listing.list(all),
        Some(AgentsCommand::Validate { .. }) => listing.validate(),
        Some(AgentsCommand::Show { name }) => {
            let agent = catalog
                .get(&name)
                .ok_or_else(|| extensions::no_such("agent", &name, catalog.nearest(&name)))?;
            let text = if arguments.json {
                serde_json::to_string_pretty(agent).unwrap_or_default()
            } else {
                shown(agent, &catalog.problems)
            };
            print_line(&text)
        }
    }
}

/// The agents of a file or a folder, with their problems.
fn of_path(places: &Places, mut all: AgentCatalog, path: &Path) -> Result<AgentCatalog, CliError> {
    let path = extensions::named_path(places, path)?;
    let inside = |agent: &AgentDefinition| {
        let file = agent.path.as_deref();
        file.is_some_and(|file| extensions::lies_in(file, &path))
    };
    let known = all.iter().chain(&all.hidden).any(inside)
        || all
            .problems
            .iter()
            .any(|problem| extensions::lies_in(&problem.file, &path));
    if !known {
        let sources = extensions::alone(&path, |it| it.agents.push(path.clone()));
        all = AgentCatalog::load(&sources, &[]);
    }
    all.problems
        .retain(|problem| extensions::lies_in(&problem.file, &path));
    all.retain(inside);
    if all.is_empty() && all.problems.is_empty() {
        let error = CliError::failure(format!("there is no agent in {}", path.display()));
        return Err(error.hint("a file defines an agent if its front matter has a name"));
    }
    Ok(all)
}

fn entry(agent: &AgentDefinition) -> Named {
    Named {
        name: agent.name.clone(),
        source: agent.source.clone(),
        description: agent.description.clone(),
        path: agent.path.clone(),
        more: json!({"model": agent.model, "tools": agent.tools, "background": agent.run.background}),
    }
}

fn shown(agent: &AgentDefinition, problems: &[Problem]) -> String {
    let mut text = format!("{}\n  {}\n", agent.name, agent.description);
    let value = serde_json::to_value(agent).unwrap_or_default();
    for (key, value) in value.as_object().into_iter().flatten() {
        if matches!(key.as_str(), "name" | "description" | "prompt") || *value == json!(false) {
            continue;
        }
        let words = match value {
            Value::String(words) => words.clone(),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                words.join(", ")
            }
            other => other.to_string(),
        };
        let _ = writeln!(text, "  {key}: {words}");
    }
    for problem in problems {
        if agent.source != ExtensionSource::Builtin && agent.path.as_ref() == Some(&problem.file) {
            let _ = writeln!(text, "  ! {problem}");
        }
    }
    let _ = write!(text, "\n{}\n", agent.prompt);
    text
}
