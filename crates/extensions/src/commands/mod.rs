//! Commands: what a person types after a slash.
//!
//! There are three kinds: *local* ones answer themselves, *dialog* ones open a view and so need a
//! terminal, and *prompt* ones become words for the model. The first two are the table in `builtin`;
//! the third are skills, custom commands and servers' prompts. [`CommandRegistry`] puts them together
//! for whoever lists, completes or runs them; every face uses it, so a command is called the same
//! everywhere.

mod builtin;
#[cfg(test)]
mod tests;

pub use builtin::{BUILTIN, Builtin};

use crate::skills::{Skill, SkillCatalog};
use crate::source::ExtensionSource;
use serde::Serialize;
use std::collections::HashSet;
use std::path::PathBuf;

/// What kind of command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandKind {
    /// Answers itself.
    Local,
    /// Opens a view, so it needs a terminal.
    Dialog,
    /// Becomes words for the model.
    Prompt,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Its name, without the slash; folders and plugins give `a:b`.
    pub name: String,
    /// Other names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// What kind it is.
    pub kind: CommandKind,
    /// Whether it is left out of listings.
    pub hidden: bool,
    /// Whether it works while the model is busy.
    pub while_busy: bool,
    /// Whether it works without a terminal.
    pub headless: bool,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl From<&Skill> for Command {
    fn from(skill: &Skill) -> Self {
        Self {
            name: skill.name.clone(),
            aliases: Vec::new(),
            description: skill.description.clone(),
            argument_hint: skill.argument_hint.clone(),
            kind: CommandKind::Prompt,
            hidden: !skill.user_invocable,
            while_busy: false,
            headless: true,
            source: skill.source.clone(),
            path: skill.path.clone(),
        }
    }
}

impl From<&Builtin> for Command {
    fn from(builtin: &Builtin) -> Self {
        Self {
            name: builtin.name.to_owned(),
            aliases: builtin.aliases.iter().map(ToString::to_string).collect(),
            description: builtin.description.to_owned(),
            argument_hint: Some(builtin.hint.to_owned()).filter(|hint| !hint.is_empty()),
            kind: builtin.kind,
            hidden: builtin.hidden,
            while_busy: builtin.while_busy,
            headless: builtin.headless,
            source: ExtensionSource::Builtin,
            path: None,
        }
    }
}

/// What a person typed, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invocation<'a> {
    /// The name, without the slash.
    pub name: &'a str,
    /// What follows it.
    pub arguments: &'a str,
}

/// Reads a text as `/name arguments`. `None` for anything else: a path (`/tmp/x is full`), a lone
/// slash, a sentence.
#[must_use]
pub fn parse(text: &str) -> Option<Invocation<'_>> {
    let rest = text.trim().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let is_name = name == "?"
        || name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, ':' | '_' | '-'));
    is_name.then(|| Invocation {
        name,
        arguments: arguments.trim(),
    })
}

/// The names and aliases that can't be replaced.
fn own_names() -> HashSet<&'static str> {
    let all = BUILTIN.iter();
    all.flat_map(|command| command.aliases.iter().copied().chain([command.name]))
        .collect()
}

/// All commands of a session.
#[derive(Debug, Clone, Default)]
pub struct CommandRegistry {
    commands: Vec<Command>,
}

impl CommandRegistry {
    /// Puts together what comes with Lathe, skills and custom commands, and `others` (servers'
    /// prompts). A local or dialog command can't be replaced; a prompt that comes with Lathe can.
    #[must_use]
    pub fn new(skills: &SkillCatalog, others: &[Command]) -> Self {
        let mut commands: Vec<Command> = BUILTIN.iter().map(Command::from).collect();
        let own = own_names();
        let prompts = skills
            .iter()
            .map(Command::from)
            .chain(others.iter().cloned());
        commands.extend(prompts.filter(|command| !own.contains(command.name.as_str())));
        Self { commands }
    }

    /// The names of those that are listed and work without a terminal, as the registry of the same
    /// would give them. Hosts are told of them at every turn, so nothing else is put together.
    #[must_use]
    pub fn names_without_terminal(skills: &SkillCatalog, others: &[Command]) -> Vec<String> {
        let own = own_names();
        let builtin = BUILTIN.iter().filter(|command| !command.hidden);
        let builtin = builtin.filter(|command| command.headless);
        let skills = skills.iter().filter(|skill| skill.user_invocable);
        let others = others.iter().filter(|command| !command.hidden);
        let others = others.filter(|command| command.headless);
        let prompts = skills
            .map(|skill| &skill.name)
            .chain(others.map(|command| &command.name))
            .filter(|name| !own.contains(name.as_str()));
        builtin
            .map(|command| command.name.to_owned())
            .chain(prompts.cloned())
            .collect()
    }

    /// The command of a name or an alias; a plugin's also without its prefix where only one has it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Command> {
        let named = |command: &&Command| {
            command.name == name || command.aliases.iter().any(|alias| alias == name)
        };
        if let Some(found) = self.commands.iter().find(named) {
            return Some(found);
        }
        let mut short = self.commands.iter().filter(|command| {
            matches!(command.source, ExtensionSource::Plugin(_))
                && command
                    .name
                    .rsplit_once(':')
                    .is_some_and(|(_, short)| short == name)
        });
        let first = short.next();
        first.filter(|_| short.next().is_none())
    }

    /// All commands that are listed.
    pub fn listed(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().filter(|command| !command.hidden)
    }

    /// All commands, hidden ones too.
    pub fn iter(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// The names that someone who typed `name` may have meant, nearest first, at most three.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        // A folder's or plugin's name alone means what is in it.
        let inside = |command: &&Command| {
            let rest = command.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(':'))
        };
        let mut found: Vec<&str> = self
            .listed()
            .filter(inside)
            .map(|command| command.name.as_str())
            .take(3)
            .collect();
        let mut left: Vec<&str> = self
            .listed()
            .flat_map(|command| {
                command
                    .aliases
                    .iter()
                    .map(String::as_str)
                    .chain([command.name.as_str()])
            })
            .filter(|other| !found.contains(other))
            .collect();
        while found.len() < 3 {
            let Some(near) = lathe_settings::nearest::nearest(name, left.iter().copied()) else {
                break;
            };
            found.push(near);
            left.retain(|other| *other != near);
        }
        found
    }

    /// What someone who typed a name that nothing has is told.
    #[must_use]
    pub fn unknown(&self, name: &str) -> String {
        let near: Vec<String> = self
            .nearest(name)
            .into_iter()
            .map(|near| format!("/{near}"))
            .collect();
        if near.is_empty() {
            format!("Unknown slash command: /{name}. /help lists the commands.")
        } else {
            format!(
                "Unknown slash command: /{name}. Did you mean {}?",
                near.join(", ")
            )
        }
    }
}
