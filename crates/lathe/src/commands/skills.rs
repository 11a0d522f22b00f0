//! `lathe skills`: which skills and custom commands there are, what one of them says, and what is wrong
//! with their files.

use super::extensions::{self, Listing, Named};
use super::{finish, places};
use clap::{Args, Subcommand};
use lathe_extensions::{Skill, SkillCatalog, SkillForm, Sources};
use lathe_headless::exit::Exit;
use lathe_settings::Environment;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// `lathe skills`.
#[derive(Debug, Args)]
pub(crate) struct SkillsArguments {
    #[command(subcommand)]
    command: Option<SkillsCommand>,
    /// As JSON.
    #[arg(long, global = true)]
    json: bool,
    /// A folder with a plugin. Repeatable.
    #[arg(long, value_name = "FOLDER", global = true)]
    plugin_dir: Vec<PathBuf>,
}

/// What to do with skills.
#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List all skills and custom commands with where they come from.
    List {
        /// Also those that a stronger one of the same name hides.
        #[arg(long)]
        all: bool,
    },
    /// Show one skill: its keys and its text.
    Show {
        /// Its name.
        name: String,
    },
    /// Say what is wrong with the files of skills and commands; fails if one doesn't count.
    Validate {
        /// Only this file, or what lies in this folder, wherever it is.
        path: Option<PathBuf>,
    },
}

/// `lathe skills`.
pub(crate) fn run(environment: Environment, arguments: SkillsArguments) -> Exit {
    let places = places(environment);
    let sources = extensions::sources(&places, &arguments.plugin_dir);
    let mut catalog = SkillCatalog::load(&sources);
    let mut problems = catalog.problems.clone();
    let mut inside: Option<PathBuf> = None;
    if let Some(SkillsCommand::Validate { path: Some(path) }) = &arguments.command {
        let path = match extensions::named_path(&places, path) {
            Ok(path) => path,
            Err(error) => return finish(Err(error), Exit::Failure),
        };
        let lies = |file: &Path| extensions::lies_in(file, &path);
        let known = catalog
            .iter()
            .filter_map(|skill| skill.path.as_deref())
            .any(lies)
            || problems.iter().any(|problem| lies(&problem.file));
        if !known {
            catalog = SkillCatalog::load(&alone(&path));
            problems.clone_from(&catalog.problems);
        }
        problems.retain(|problem| lies(&problem.file));
        let some = catalog
            .iter()
            .filter_map(|skill| skill.path.as_deref())
            .any(lies);
        if !some && problems.is_empty() {
            let error = format!(
                "{}: there is neither a skill (a folder with SKILL.md) nor a command (a .md file)",
                path.display()
            );
            return finish(Err(error), Exit::Failure);
        }
        inside = Some(path);
    }
    let counts = |skill: &&Skill| {
        let file = skill.path.as_deref();
        inside
            .as_ref()
            .is_none_or(|path| file.is_some_and(|file| extensions::lies_in(file, path)))
    };
    let listing = Listing {
        what: "skill",
        entries: catalog.iter().filter(counts).map(entry).collect(),
        hidden: catalog.hidden.iter().map(entry).collect(),
        problems: &problems,
        json: arguments.json,
    };
    match arguments.command {
        None => listing.list(false),
        Some(SkillsCommand::List { all }) => listing.list(all),
        Some(SkillsCommand::Validate { .. }) => listing.validate(),
        Some(SkillsCommand::Show { name }) => {
            let Some(skill) = catalog.get(&name) else {
                let names = catalog.iter().map(|skill| skill.name.as_str());
                let near = lathe_settings::nearest::nearest(&name, names)
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                return finish(
                    Err(format!("there is no skill {name}{near}")),
                    Exit::Failure,
                );
            };
            finish(show(skill, arguments.json), Exit::Failure)
        }
    }
}

/// Skills or commands that lie where nothing looks for them.
fn alone(path: &Path) -> Sources {
    extensions::alone(path, |it| {
        let is_skill = path.file_name().is_some_and(|name| name == "SKILL.md");
        let folder = path.parent().unwrap_or(path);
        match path {
            _ if is_skill => it.skills.push(folder.to_owned()),
            path if path.is_dir() && !path.ends_with("commands") => it.skills.push(path.to_owned()),
            path => it.commands.push(path.to_owned()),
        }
    })
}

fn entry(skill: &Skill) -> Named {
    Named {
        name: skill.name.clone(),
        source: skill.source.clone(),
        description: skill.description.clone(),
        path: skill.path.clone(),
        more: json!({
            "form": skill.form, "argumentHint": skill.argument_hint,
            "modelInvocable": skill.model_invocable, "userInvocable": skill.user_invocable,
        }),
    }
}

fn show(skill: &Skill, json: bool) -> Result<String, String> {
    let body = skill.body().map_err(|problem| problem.to_string())?;
    let mut value = serde_json::to_value(skill).unwrap_or_default();
    if json {
        if let Some(fields) = value.as_object_mut() {
            fields.insert("body".to_owned(), body.into());
        }
        return Ok(serde_json::to_string_pretty(&value).unwrap_or_default());
    }
    let kind = match skill.form {
        SkillForm::Skill => "skill",
        SkillForm::Command => "command",
    };
    let hint = skill.argument_hint.as_deref().unwrap_or_default();
    let mut text = format!("/{} {hint}\n  {}\n", skill.name, skill.description);
    let _ = writeln!(text, "  {kind}, from: {}", skill.source);
    if let Some(path) = &skill.path {
        let _ = writeln!(text, "  file: {}", path.display());
    }
    if let Some(when) = &skill.when_to_use {
        let _ = writeln!(text, "  when to use: {when}");
    }
    if !skill.allowed_tools.is_empty() {
        let _ = writeln!(
            text,
            "  allowed while it is in use: {}",
            skill.allowed_tools.join(", ")
        );
    }
    if skill.is_conditional() {
        let _ = writeln!(text, "  waits for: {}", skill.paths.join(", "));
    }
    if skill.fork {
        let agent = skill.agent.as_deref().unwrap_or("general-purpose");
        let _ = writeln!(text, "  runs in an agent: {agent}");
    }
    if !skill.model_invocable {
        let _ = writeln!(
            text,
            "  only for people: the model may not use it by itself"
        );
    }
    let _ = write!(text, "\n{body}\n");
    Ok(text)
}
