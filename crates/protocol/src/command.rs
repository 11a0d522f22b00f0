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
    Help => local("help", "[command]", "Show help").aliases(&["?"]).without_session(),
    Clear => local("clear", "", "Start a new conversation").aliases(&["new", "reset"]).when_idle(),
    Compact => local("compact", "[what matters]", "Replace the conversation with a summary").when_idle(),
    Context => local("context", "", "Show how full the context window is"),
    Cost => local("cost", "", "Show tokens used and cost").aliases(&["usage"]),
    Stats => local("stats", "", "Show session statistics"),
    Insights => dialog("insights", "", "Show what was done and what it cost, by day, project, model and tool"),
    Config => local("config", "[key[=value]]", "View and change settings").aliases(&["settings"]),
    Model => local("model", "[name]", "Show or change the model"),
    Fallback => local("fallback", "[model|off]", "Show or change the model used when the first is overloaded"),
    Effort => local("effort", "[level|tokens|off]", "Show or change effort and thinking budget").aliases(&["think"]),
    Permissions => local("permissions", "", "View and change permission rules").aliases(&["allowed-tools"]),
    FewerPermissionPrompts => dialog("fewer-permission-prompts", "", "Propose rules for commands that asked before"),
    Mode => local("mode", "[mode]", "Show or change the permission mode"),
    Plan => local("plan", "", "Switch to plan mode: read, don't change"),
    Sandbox => local("sandbox", "[on|off]", "Show how commands are sandboxed, and switch it"),
    Hooks => local("hooks", "", "Show the configured hooks"),
    Mcp => local("mcp", "", "Show MCP servers and their status"),
    Agents => local("agents", "", "List agents"),
    Skills => local("skills", "", "List skills"),
    Plugin => local("plugin", "", "Show the enabled plugins").aliases(&["plugins"]),
    Tools => local("tools", "", "Show the model's tools"),
    Memory => local("memory", "", "Show the loaded instruction files and notes"),
    OutputStyle => local("output-style", "[name]", "Show or change the output style"),
    Resume => dialog("resume", "[session]", "Resume a session").aliases(&["continue"]).when_idle().without_session(),
    Rename => local("rename", "<title>", "Give this session a title"),
    Tag => local("tag", "<tag>", "Give this session a tag"),
    Fork => dialog("fork", "", "Continue in a copy of this session").aliases(&["branch"]).when_idle(),
    Rewind => dialog("rewind", "", "Rewind to before a prompt").aliases(&["checkpoint", "undo"]).when_idle(),
    Tree => dialog("tree", "", "Show the branches of this session, go to one, or bring one back").when_idle(),
    Diff => local("diff", "", "Show changes in the working folder").without_session(),
    Export => local("export", "[file]", "Write the conversation to a file"),
    Queue => dialog("queue", "", "Edit, reorder or remove queued prompts"),
    Btw => dialog("btw", "<question>", "Ask beside the conversation; it does not become part of it"),
    Copy => dialog("copy", "", "Copy the last answer").without_session(),
    AddDir => local("add-dir", "<folder>", "Allow work in one more folder"),
    Cd => local("cd", "<folder>", "Change the working folder"),
    Tasks => local("tasks", "", "Show background commands and agents").aliases(&["bashes"]),
    Loop => local("loop", "[5m] <prompt>", "Repeat a prompt at an interval, or as the model paces it"),
    Loops => local("loops", "[pause|resume|delete <id>]", "List, pause or delete scheduled prompts"),
    Goal => local("goal", "[condition|!command|clear]", "Show, set or end the goal that turns go on for"),
    Coordinator => local("coordinator", "[on|off]", "Show or switch coordinator mode: direct workers, do nothing yourself"),
    CodeReview => local("code-review", "[--base REF|--commit SHA|--uncommitted|PR|paths] [--fix]", "Review a change with several agents"),
    Workflows => local("workflows", "[watch|pause|resume|stop|save <run> [name]]", "Show runs of workflows by phase; watch, pause, stop or save one"),
    Todos => local("todos", "", "Show the task list").without_session(),
    Status => local("status", "", "Show session, model, folder and settings").without_session(),
    Statusline => dialog("statusline", "", "Explain how to set up a status line").without_session(),
    Doctor => local("doctor", "", "Check this installation").without_session(),
    Theme => dialog("theme", "[name]", "Choose a color theme").without_session(),
    Vim => dialog("vim", "", "Switch vim keys on or off").without_session(),
    Ide => dialog("ide", "[editor | open file]", "Connect to an editor, or open a file in it"),
    Login => dialog("login", "", "Show where the API key comes from"),
    Logout => dialog("logout", "", "Explain how to remove the API key"),
    Version => local("version", "", "Show the version"),
    ReleaseNotes => local("release-notes", "", "Show what is new in this version"),
    Feedback => dialog("feedback", "", "Write a report to a file; nothing is sent").aliases(&["bug"]).without_session(),
    ReloadSkills => local("reload-skills", "", "Reload agents, skills and commands").hidden(),
    ReloadPlugins => local("reload-plugins", "", "Reload plugins that were installed or changed").hidden(),
    Bg => dialog("bg", "", "Leave the terminal; the session continues in the background").aliases(&["background"]),
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

    /// The name that a command file can't replace: `lathe:` and the name.
    #[must_use]
    pub fn qualified_name(self) -> String {
        format!("{BUILTIN_PREFIX}{}", self.name())
    }
}

/// The prefix under which a built-in command can always be run.
pub const BUILTIN_PREFIX: &str = "lathe:";

impl fmt::Display for BuiltinCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.name())
    }
}

/// A command as the user typed it: `/name arguments`. Parsed once, when the prompt is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The name, without the slash.
    pub name: String,
    /// The rest of the text, trimmed.
    pub arguments: String,
}

impl Invocation {
    /// Reads a text as `/name arguments`. `None` for anything else: a path (`/tmp/x is full`), a lone
    /// slash, a sentence.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix('/')?;
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, arguments) = rest.split_at(end);
        (name == "?" || is_typed_name(name)).then(|| Self {
            name: name.to_owned(),
            arguments: arguments.trim().to_owned(),
        })
    }
}

/// True if a word after a slash can be the name of a command: `speckit.plan`, `5why`, `_x`, `c++`, but
/// neither a number nor a file (`/5`, `/notes.txt`).
fn is_typed_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && name.ends_with(|last: char| last != '.')
        && name.contains(char::is_alphabetic)
        && name
            .chars()
            .all(|letter| letter.is_alphanumeric() || ":_-.+#&@=".contains(letter))
        && name
            .rsplit_once('.')
            .is_none_or(|(_, ending)| !FILE_ENDINGS.contains(&ending))
}

/// Words after a dot that make a name a file's.
const FILE_ENDINGS: [&str; 16] = [
    "c", "conf", "css", "csv", "html", "js", "json", "log", "md", "py", "rs", "sh", "toml", "ts",
    "txt", "yaml",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn commands_are_told_from_paths_and_sentences() {
        let read = |text: &str| {
            let parsed = Invocation::parse(text)?;
            Some((parsed.name, parsed.arguments))
        };
        let command = |name: &str, arguments: &str| Some((name.to_owned(), arguments.to_owned()));
        assert_eq!(read("/clear"), command("clear", ""));
        assert_eq!(
            read(" /compact  the tests \n"),
            command("compact", "the tests")
        );
        assert_eq!(read("/a:b-c_d 1"), command("a:b-c_d", "1"));
        assert_eq!(read("/review\nline two"), command("review", "line two"));
        assert_eq!(read("/?"), command("?", ""));
        for name in [
            "speckit.plan",
            "5why",
            "1st",
            "_x",
            "a:b.plan",
            "prüfen",
            "提交",
            "c++",
            "f#:check",
            "r&d",
        ] {
            assert_eq!(read(&format!("/{name} now")), command(name, "now"));
        }
        for text in [
            "/tmp/x",
            "/usr/bin is full",
            "hello /clear",
            "/",
            "/ x",
            "/1",
            "/2.5",
            "/a.txt",
            "/end.",
            "",
            "//x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

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
