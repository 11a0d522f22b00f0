//! `lathe skills`: lists skills and custom commands, shows one, and checks their files.

use super::extensions::{self, Listing, Named};
use super::{places, print_line};
use crate::error::{CliError, Outcome};
use clap::{Args, Subcommand};
use lathe_extensions::{Problem, Skill, SkillCatalog, SkillForm, Sources};
use lathe_settings::Environment;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

// `lathe skills`.
#[derive(Debug, Args)]
pub(crate) struct SkillsArguments {
    #[command(subcommand)]
    command: Option<SkillsCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// A folder with a plugin. Repeatable.
    #[arg(long, value_name = "FOLDER", global = true)]
    plugin_dir: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum SkillsCommand {
    /// List all skills and custom commands with their sources.
    List {
        /// Also those that are hidden by another of the same name.
        #[arg(long)]
        all: bool,
    },
    /// Show one skill: its keys and its text.
    Show {
        /// Its name.
        name: String,
    },
    /// Check the files of skills and commands; fails if one can't be loaded.
    Validate {
        /// Only this file or folder; it may be anywhere.
        path: Option<PathBuf>,
    },
}

/// `lathe skills`.
pub(crate) fn run(environment: Environment, arguments: SkillsArguments) -> Outcome {
    let places = places(environment);
    let sources = extensions::sources(&places, &arguments.plugin_dir);
    let mut catalog = SkillCatalog::load(&sources);
    let mut within = None;
    if let Some(SkillsCommand::Validate { path: Some(path) }) = &arguments.command {
        let path = extensions::named_path(&places, path)?;
        catalog = of_path(catalog, &path)?;
        within = Some(path);
    }
    let selected = |skill: &&Skill| within.as_ref().is_none_or(|path| lies_in(skill, path));
    let listing = Listing {
        what: "skill",
        entries: catalog.iter().filter(selected).map(entry).collect(),
        hidden: catalog.hidden.iter().map(entry).collect(),
        problems: &catalog.problems,
        json: arguments.json,
    };
    match arguments.command {
        None => listing.list(false),
        Some(SkillsCommand::List { all }) => listing.list(all),
        Some(SkillsCommand::Validate { .. }) => listing.validate(),
        Some(SkillsCommand::Show { name }) => {
            let skill = catalog.get(&name).ok_or_else(|| {
                let names = catalog.iter().map(|skill| skill.name.as_str());
                let nearest = lathe_settings::nearest::nearest(&name, names);
                extensions::no_such("skill", &name, nearest)
            })?;
            print_line(&show(skill, arguments.json)?)
        }
    }
}

fn lies_in(skill: &Skill, path: &Path) -> bool {
    let file = skill.path.as_deref();
    file.is_some_and(|file| extensions::lies_in(file, path))
}

/// The catalog with the problems of one file or folder. A path that no skill of the session comes from is
/// loaded by itself.
fn of_path(mut catalog: SkillCatalog, path: &Path) -> Result<SkillCatalog, CliError> {
    let in_path = |problem: &Problem| extensions::lies_in(&problem.file, path);
    let known =
        catalog.iter().any(|skill| lies_in(skill, path)) || catalog.problems.iter().any(in_path);
    if !known {
        catalog = SkillCatalog::load(&alone(path));
    }
    catalog.problems.retain(in_path);
    if catalog.problems.is_empty() && !catalog.iter().any(|skill| lies_in(skill, path)) {
        let error = format!("there is no skill or command in {}", path.display());
        return Err(CliError::failure(error)
            .hint("a skill is a folder with SKILL.md, a command is a .md file"));
    }
    Ok(catalog)
}

/// Skills or commands outside of the folders that sessions load.
fn alone(path: &Path) -> Sources {
    extensions::alone(path, |it| {
        let is_skill = path.file_name().is_some_and(|name| name == "SKILL.md");
        let folder = path.parent().unwrap_or(path);
        match path {
            _ if is_skill => it.skills.push(folder.to_owned()),
            path if path.is_dir() && !path.ends_with("commands") => it.skills.push(path.to_owned()),
            path => it.commands.push(path.to_owned().into()),
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
            "form": skill.form, "displayName": skill.about.display_name,
            "argumentHint": skill.argument_hint,
            "modelInvocable": skill.model_invocable, "userInvocable": skill.user_invocable,
        }),
    }
}

fn show(skill: &Skill, json: bool) -> Result<String, CliError> {
    let body = skill
        .body()
        .map_err(|problem| CliError::failure(problem.to_string()))?;
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
    if let Some(name) = &skill.about.display_name {
        let _ = writeln!(text, "  name: {name}");
    }
    let _ = writeln!(text, "  {kind}, from: {}", skill.source);
    if let Some(path) = &skill.path {
        let _ = writeln!(text, "  file: {}", path.display());
    }
    let about = &skill.about;
    for (what, fact) in [
        ("version", &about.version),
        ("license", &about.license),
        ("compatibility", &about.compatibility),
    ] {
        if let Some(fact) = fact {
            let _ = writeln!(text, "  {what}: {fact}");
        }
    }
    for (name, value) in &about.metadata {
        let _ = writeln!(text, "  {name}: {value}");
    }
    if let Some(when) = &skill.when_to_use {
        let _ = writeln!(text, "  when to use: {when}");
    }
    if !skill.run.allowed_tools.is_empty() {
        let _ = writeln!(
            text,
            "  allowed while it is in use: {}",
            skill.run.allowed_tools.join(", ")
        );
    }
    if skill.is_conditional() {
        let _ = writeln!(text, "  waits for: {}", skill.condition.paths.join(", "));
    }
    if skill.run.fork {
        let agent = skill.run.agent.as_deref().unwrap_or("general-purpose");
        let _ = writeln!(text, "  runs in an agent: {agent}");
    }
    if !skill.model_invocable {
        let _ = writeln!(text, "  only the user can run it");
    }
    let _ = write!(text, "\n{body}\n");
    Ok(text)
}
