//! Slash commands.
//!
//! A command is either built in ([`BuiltinCommand`]) or becomes a prompt for the model: skills, custom
//! commands and prompts of MCP servers. [`CommandRegistry`] lists both; every face completes, lists and
//! finds commands through it, so a command has the same name everywhere.

#[cfg(test)]
mod tests;

use crate::skills::{Skill, SkillCatalog};
use crate::source::ExtensionSource;
use lathe_protocol::command::{BUILTIN_PREFIX, BuiltinCommand};
use std::collections::HashSet;
use std::path::PathBuf;

/// The effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandAction {
    /// Runs a built-in command.
    Builtin(BuiltinCommand),
    /// Sends a prompt to the model.
    Prompt,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Without the slash; `a:b` for commands in folders and of plugins.
    pub name: String,
    pub aliases: Vec<String>,
    pub description: String,
    pub argument_hint: Option<String>,
    pub action: CommandAction,
    /// True if it is not listed.
    pub hidden: bool,
    /// True if it runs during a turn.
    pub while_busy: bool,
    /// True if it runs without a terminal.
    pub headless: bool,
    pub source: ExtensionSource,
    pub path: Option<PathBuf>,
}

impl From<&Skill> for Command {
    fn from(skill: &Skill) -> Self {
        let shown = skill.about.display_name.iter();
        let shown = shown.filter(|name| !name.contains(char::is_whitespace));
        Self {
            name: skill.name.clone(),
            aliases: shown.cloned().chain(skill.typed_name()).collect(),
            description: one_line(&skill.description),
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

/// A description without line breaks.
fn one_line(text: &str) -> String {
    if text.contains('\n') {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ")
    } else {
        text.to_owned()
    }
}

/// The names and aliases of built-in commands.
fn builtin_names() -> HashSet<&'static str> {
    let all = BuiltinCommand::ALL.iter();
    all.map(|command| command.declaration())
        .flat_map(|declared| declared.aliases.iter().copied().chain([declared.name]))
        .collect()
}

/// True if a skill replaces the built-in command of its name: it is the user's own file, or one in
/// a folder that the user trusts.
fn replaces_builtin(source: &ExtensionSource, trusted: bool) -> bool {
    match source {
        ExtensionSource::User | ExtensionSource::Managed | ExtensionSource::Flag => true,
        ExtensionSource::Project => trusted,
        ExtensionSource::Builtin | ExtensionSource::Plugin(_) | ExtensionSource::Mcp(_) => false,
    }
}

/// The names of built-in commands that skills and custom commands replace.
fn replaced(skills: &SkillCatalog, builtin: &HashSet<&'static str>) -> HashSet<String> {
    skills
        .iter()
        .filter(|skill| skill.user_invocable && builtin.contains(skill.name.as_str()))
        .filter(|skill| replaces_builtin(&skill.source, skill.trusted))
        .map(|skill| skill.name.clone())
        .collect()
}

#[derive(Debug, Clone, Default)]
pub struct CommandRegistry {
    commands: Vec<Command>,
}

impl CommandRegistry {
    /// Built-in commands, skills and custom commands, and `others` (prompts of servers). A skill or
    /// custom command of the user or of a trusted project replaces a built-in command or alias of the
    /// same name, which stays available as `/lathe:name`.
    #[must_use]
    pub fn new(skills: &SkillCatalog, others: &[Command]) -> Self {
        let builtin = builtin_names();
        let replaced = replaced(skills, &builtin);
        let mut commands: Vec<Command> = BuiltinCommand::ALL
            .iter()
            .copied()
            .map(|command| {
                let mut command = Command::from(command);
                command.aliases.retain(|alias| !replaced.contains(alias));
                if replaced.contains(&command.name) {
                    command.name = format!("{BUILTIN_PREFIX}{}", command.name);
                }
                command
            })
            .collect();
        let prompts = skills
            .iter()
            .map(Command::from)
            .chain(others.iter().cloned());
        commands.extend(prompts.filter(|command| {
            !builtin.contains(command.name.as_str()) || replaced.contains(&command.name)
        }));
        Self { commands }
    }

    /// The names of the listed commands that work without a terminal, as the registry would give them.
    /// Sent to hosts at every turn, so nothing else is built.
    #[must_use]
    pub fn names_without_terminal(skills: &SkillCatalog, others: &[Command]) -> Vec<String> {
        let names = builtin_names();
        let replaced = replaced(skills, &names);
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
            .filter(|name| !names.contains(name.as_str()) || replaced.contains(*name));
        builtin
            .map(|command| {
                if replaced.contains(command.name) {
                    format!("{BUILTIN_PREFIX}{}", command.name)
                } else {
                    command.name.to_owned()
                }
            })
            .chain(prompts.cloned())
            .collect()
    }

    /// The command of a name or an alias, a built-in one also as `lathe:name`; a plugin's also without
    /// its prefix if it is unique.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Command> {
        if let Some(builtin) = name
            .strip_prefix(BUILTIN_PREFIX)
            .and_then(BuiltinCommand::find)
        {
            let action = CommandAction::Builtin(builtin);
            return self
                .commands
                .iter()
                .find(|command| command.action == action);
        }
        let named = |command: &&Command| command.name == name;
        let by_alias = |command: &&Command| command.aliases.iter().any(|alias| alias == name);
        let found = self.commands.iter().find(named);
        if let Some(found) = found.or_else(|| self.commands.iter().find(by_alias)) {
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

    pub fn listed(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().filter(|command| !command.hidden)
    }

    /// All commands, including hidden ones.
    pub fn iter(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// Up to three known names that are similar to an unknown one, the most similar first.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        // The name of a folder or plugin alone matches its commands.
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

    /// The message for an unknown name.
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
