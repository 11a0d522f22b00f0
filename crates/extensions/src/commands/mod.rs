//! Commands: what a person types after a slash.
//!
//! A command is either built in ([`BuiltinCommand`]) or becomes a prompt for the model: skills, custom
//! commands and prompts of MCP servers. [`CommandRegistry`] lists both; every face completes, lists and
//! finds commands through it, so a command has the same name everywhere.

#[cfg(test)]
mod tests;

use crate::skills::{Skill, SkillCatalog};
use crate::source::ExtensionSource;
use lathe_protocol::command::BuiltinCommand;
use std::collections::HashSet;
use std::path::PathBuf;

/// What running a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandAction {
    /// Runs a built-in command.
    Builtin(BuiltinCommand),
    /// Sends a prompt to the model.
    Prompt,
}

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Its name, without the slash; folders and plugins give `a:b`.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    pub argument_hint: Option<String>,
    /// What running it does.
    pub action: CommandAction,
    /// Whether it is left out of listings.
    pub hidden: bool,
    /// Whether it works while the model is busy.
    pub while_busy: bool,
    /// Whether it works without a terminal.
    pub headless: bool,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its file.
    pub path: Option<PathBuf>,
}

impl From<&Skill> for Command {
    fn from(skill: &Skill) -> Self {
        Self {
            name: skill.name.clone(),
            aliases: Vec::new(),
            description: skill.description.clone(),
            argument_hint: skill.argument_hint.clone(),
            action: CommandAction::Prompt,
            hidden: !skill.user_invocable,
            while_busy: false,
            headless: true,
            source: skill.source.clone(),
            path: skill.path.clone(),
        }
    }
}

impl From<BuiltinCommand> for Command {
    fn from(builtin: BuiltinCommand) -> Self {
        let declared = builtin.declaration();
        Self {
            name: declared.name.to_owned(),
            aliases: declared.aliases.iter().map(ToString::to_string).collect(),
            description: declared.description.to_owned(),
            argument_hint: declared
                .takes_arguments()
                .then(|| declared.argument_hint.to_owned()),
            action: CommandAction::Builtin(builtin),
            hidden: declared.hidden,
            while_busy: declared.while_busy,
            headless: declared.headless(),
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
    let all = BuiltinCommand::ALL.iter();
    all.map(|command| command.declaration())
        .flat_map(|declared| declared.aliases.iter().copied().chain([declared.name]))
        .collect()
}

/// All commands of a session.
#[derive(Debug, Clone, Default)]
pub struct CommandRegistry {
    commands: Vec<Command>,
}

impl CommandRegistry {
    /// Puts together what comes with Lathe, skills and custom commands, and `others` (servers'
    /// prompts). A built-in command can't be replaced; a prompt that comes with Lathe can.
    #[must_use]
    pub fn new(skills: &SkillCatalog, others: &[Command]) -> Self {
        let mut commands: Vec<Command> = BuiltinCommand::ALL
            .iter()
            .copied()
            .map(Command::from)
            .collect();
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
        let builtin = BuiltinCommand::ALL
            .iter()
            .map(|command| command.declaration())
            .filter(|declared| !declared.hidden && declared.headless());
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
