//! The slash commands that come with Lathe, declared once.
//!
//! A command is a variant of [`BuiltinCommand`]; the table below gives its name, aliases, argument hint,
//! description and properties. The engine and every face match the enum exhaustively, so a new command
//! doesn't compile until each of them handles it. Commands that become prompts for the model (skills,
//! custom commands, prompts of MCP servers) come from files and servers and are not listed here.

use std::fmt;

/// How a built-in command is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinKind {
    /// The engine answers it in text, in every face.
    Local,
    /// It opens a view, so only a terminal can run it.
    Dialog,
}

/// Everything that is declared about a built-in command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandDeclaration {
    /// The name, without the slash.
    pub name: &'static str,
    /// Other names for the same command.
    pub aliases: &'static [&'static str],
    /// The arguments it takes, such as `[model|off]`; empty if it takes none.
    pub argument_hint: &'static str,
    /// A short description.
    pub description: &'static str,
    /// How it is carried out.
    pub kind: BuiltinKind,
    /// Whether it runs while a turn is running; otherwise it waits for the end of the turn.
    pub while_busy: bool,
    /// Whether it is left out of listings.
    pub hidden: bool,
    /// Whether it needs an open session.
    pub needs_session: bool,
}

impl CommandDeclaration {
    const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn when_idle(self) -> Self {
        Self {
            while_busy: false,
            ..self
        }
    }

    const fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }

    const fn without_session(self) -> Self {
        Self {
            needs_session: false,
            ..self
        }
    }

    /// Whether it works without a terminal.
    #[must_use]
    pub const fn headless(&self) -> bool {
        matches!(self.kind, BuiltinKind::Local)
    }

    /// Whether it takes arguments.
    #[must_use]
    pub const fn takes_arguments(&self) -> bool {
        !self.argument_hint.is_empty()
    }
}

const fn local(
    name: &'static str,
    argument_hint: &'static str,
    description: &'static str,
) -> CommandDeclaration {
    CommandDeclaration {
        name,
        aliases: &[],
        argument_hint,
        description,
        kind: BuiltinKind::Local,
        while_busy: true,
        hidden: false,
        needs_session: true,
    }
}

const fn dialog(
    name: &'static str,
    argument_hint: &'static str,
    description: &'static str,
) -> CommandDeclaration {
    CommandDeclaration {
        kind: BuiltinKind::Dialog,
        ..local(name, argument_hint, description)
    }
}

/// Makes the enum, [`BuiltinCommand::ALL`] and the table from one list.
macro_rules! builtin_commands {
    ($($variant:ident => $declaration:expr,)+) => {
        /// A slash command that comes with Lathe and is not a prompt for the model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the declaration of each command describes it")]
        pub enum BuiltinCommand {
            $($variant,)+
        }

        impl BuiltinCommand {
            /// All commands, in the order in which help lists them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Everything that is declared about the command.
            #[must_use]
            pub const fn declaration(self) -> &'static CommandDeclaration {
                match self {
                    $(Self::$variant => const { &$declaration },)+
                }
            }
        }
    };
}

builtin_commands! {
    Help => local("help", "[command]", "What can be done here").aliases(&["?"]).without_session(),
    Clear => local("clear", "", "Start a new conversation").aliases(&["new", "reset"]).when_idle(),
    Compact => local("compact", "[what matters]", "Replace the conversation by a summary").when_idle(),
    Context => local("context", "", "How full the model's window is"),
    Cost => local("cost", "", "What this session has used").aliases(&["usage"]),
    Stats => local("stats", "", "Numbers about this session"),
    Config => local("config", "[key[=value]]", "Settings that count here").aliases(&["settings"]),
    Model => local("model", "[name]", "Show or choose the model"),
    Fallback => local("fallback", "[model|off]", "The model that takes over when the first is overloaded"),
    Effort => local("effort", "[level|tokens|off]", "How hard the model tries and how much it may think").aliases(&["think"]),
    Permissions => local("permissions", "", "What may run without a question").aliases(&["allowed-tools"]),
    Mode => local("mode", "[mode]", "Show or choose the permission mode"),
    Plan => local("plan", "", "Plan mode: look, don't touch"),
    Sandbox => local("sandbox", "", "How commands are isolated"),
    Hooks => local("hooks", "", "The hooks that are set up"),
    Mcp => local("mcp", "", "The servers and their state"),
    Agents => local("agents", "", "The agents that work can be given to"),
    Skills => local("skills", "", "The skills that are there"),
    Plugin => local("plugin", "", "The plugins that are on").aliases(&["plugins"]),
    Tools => local("tools", "", "The tools that the model has"),
    Memory => local("memory", "", "The instruction files and notes that are loaded"),
    OutputStyle => local("output-style", "[name]", "Show or choose how the model talks"),
    Resume => dialog("resume", "[session]", "Go on with another session").aliases(&["continue"]).when_idle().without_session(),
    Rename => local("rename", "<title>", "Give this session a title"),
    Tag => local("tag", "<tag>", "Give this session a tag"),
    Fork => dialog("fork", "", "Go on in a copy of this session").aliases(&["branch"]).when_idle(),
    Rewind => dialog("rewind", "", "Go back to before a prompt").aliases(&["checkpoint", "undo"]).when_idle(),
    Diff => local("diff", "", "What changed in the working folder").without_session(),
    Export => local("export", "[file]", "Write the conversation to a file"),
    Copy => dialog("copy", "", "Copy the last answer").without_session(),
    AddDir => local("add-dir", "<folder>", "Allow work in one more folder"),
    Cd => local("cd", "<folder>", "Change the working folder"),
    Tasks => local("tasks", "", "What runs in the background").aliases(&["bashes"]),
    Todos => local("todos", "", "The task list").without_session(),
    Status => local("status", "", "Session, model, folder, settings").without_session(),
    Statusline => dialog("statusline", "", "How to have your own status line").without_session(),
    Doctor => local("doctor", "", "Check this installation").without_session(),
    Theme => dialog("theme", "[name]", "Choose the colours").without_session(),
    Vim => dialog("vim", "", "Switch vim keys on or off").without_session(),
    Ide => dialog("ide", "", "Connect to an editor"),
    Login => dialog("login", "", "Where the key for the model comes from"),
    Logout => dialog("logout", "", "How to take the key away"),
    Version => local("version", "", "The version of Lathe"),
    ReleaseNotes => local("release-notes", "", "What is new in this version"),
    Feedback => dialog("feedback", "", "Write a report to a file; nothing is sent").aliases(&["bug"]).without_session(),
    ReloadSkills => local("reload-skills", "", "Read agents, skills and commands again").hidden(),
    ReloadPlugins => local("reload-plugins", "", "Read plugins again: what was installed or switched since counts").hidden(),
    Exit => dialog("exit", "", "Leave").aliases(&["quit", "q"]).without_session(),
}

impl BuiltinCommand {
    /// The command with this name or alias.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|command| command.name() == name || command.declaration().aliases.contains(&name))
    }

    /// The name, without the slash.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.declaration().name
    }
}

impl fmt::Display for BuiltinCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_aliases_are_unique_and_find_their_command() {
        let mut seen = HashSet::new();
        for command in BuiltinCommand::ALL {
            let declared = command.declaration();
            for name in declared.aliases.iter().chain([&declared.name]) {
                assert!(seen.insert(name), "{name}");
                assert_eq!(BuiltinCommand::find(name), Some(*command), "{name}");
            }
            assert!(!declared.description.is_empty(), "{command}");
        }
        assert_eq!(BuiltinCommand::find("novelty"), None);
    }
}
