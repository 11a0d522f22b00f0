//! Slash commands: the table of them, and what each does.

use crate::app::{App, Leave};
use crate::dialog::{Dialog, Form, Purpose};
use crate::editor::vim::Vim;
use crate::jobs::Found;
use lathe_engine::SessionChoice;
use lathe_protocol::op::Op;
use lathe_session::{Scope, SessionStore};

/// A slash command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) what: &'static str,
    /// Whether it works while a turn runs.
    busy: bool,
}

const fn command(
    name: &'static str,
    aliases: &'static [&'static str],
    what: &'static str,
    busy: bool,
) -> Command {
    Command {
        name,
        aliases,
        what,
        busy,
    }
}

/// All commands, in the order of the help.
pub(crate) const COMMANDS: &[Command] = &[
    command("help", &["?"], "what can be done here", true),
    command(
        "clear",
        &["new", "reset"],
        "start a new conversation",
        false,
    ),
    command(
        "compact",
        &[],
        "replace the conversation by a summary; words after it say what matters",
        false,
    ),
    command("context", &[], "how full the model's window is", true),
    command("cost", &["usage"], "what this session has used", true),
    command("model", &[], "choose the model", true),
    command("effort", &["think"], "how much the model may think", true),
    command(
        "permissions",
        &["allowed-tools"],
        "what may run without a question",
        true,
    ),
    command("mode", &[], "choose the permission mode", true),
    command("plan", &[], "plan mode: look, don't touch", true),
    command("add-dir", &[], "allow work in one more folder", true),
    command("resume", &["continue"], "go on with another session", false),
    command("rename", &[], "give this session a title", true),
    command(
        "rewind",
        &["checkpoint", "undo"],
        "go back to before a prompt",
        false,
    ),
    command(
        "fork",
        &["branch"],
        "go on in a copy of this session",
        false,
    ),
    command("diff", &[], "what changed in the working folder", true),
    command("export", &[], "write the conversation to a file", true),
    command("copy", &[], "copy the last answer", true),
    command("status", &[], "session, model, folder, settings", true),
    command("config", &["settings"], "settings that count here", true),
    command("memory", &[], "the instruction files that are loaded", true),
    command("hooks", &[], "the hooks that are set up", true),
    command("tools", &[], "the tools that the model has", true),
    command(
        "mcp",
        &[],
        "the MCP servers, and what to do with them",
        true,
    ),
    command("agents", &[], "the agents that work can be given to", true),
    command("skills", &[], "skills and custom commands", true),
    command("plugin", &["plugins"], "what plugins bring", true),
    command("output-style", &[], "how the model talks", true),
    command("tasks", &["bashes"], "what runs in the background", true),
    command("todos", &[], "show or hide the task list", true),
    command("theme", &[], "choose the colours", true),
    command("vim", &[], "switch vim keys on or off", true),
    command(
        "keybindings",
        &["keys"],
        "all keys, and where to change them",
        true,
    ),
    command("statusline", &[], "how to have your own status line", true),
    command("release-notes", &["version"], "the version of Lathe", true),
    command(
        "feedback",
        &["bug"],
        "write a report to a file; nothing is sent",
        true,
    ),
    command("doctor", &[], "check this installation", true),
    command("exit", &["quit", "q"], "leave", true),
];

/// Takes `name arguments` apart; `None` when it is no command (a path, a sentence).
pub(crate) fn parse(text: &str) -> Option<(&str, &str)> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let fine = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-' | '?'));
    fine.then_some((name, rest.trim()))
}

/// The command of a name or alias.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS
        .iter()
        .find(|command| command.name == name || command.aliases.contains(&name))
}

pub(crate) fn is_known(name: &str) -> bool {
    find(name).is_some()
}

/// Whether a command is about the session, so that it waits until there is one.
fn needs_session(name: &str) -> bool {
    !matches!(
        name,
        "help"
            | "resume"
            | "diff"
            | "copy"
            | "status"
            | "todos"
            | "theme"
            | "vim"
            | "keybindings"
            | "statusline"
            | "release-notes"
            | "feedback"
            | "doctor"
            | "exit"
    )
}

/// The commands that fit a beginning, best first.
pub(crate) fn matching(word: &str) -> Vec<&'static Command> {
    if word.is_empty() {
        return COMMANDS.iter().collect();
    }
    let mut begins: Vec<&Command> = COMMANDS
        .iter()
        .filter(|command| {
            command.name.starts_with(word)
                || command.aliases.iter().any(|alias| alias.starts_with(word))
        })
        .collect();
    begins.sort_by_key(|command| {
        (
            command.name != word && !command.aliases.contains(&word),
            !command.name.starts_with(word),
        )
    });
    let fuzzy = crate::fuzzy::rank(word, COMMANDS.iter().map(|command| command.name), 5);
    for index in fuzzy {
        if let Some(command) = COMMANDS.get(index)
            && !begins.iter().any(|begun| begun.name == command.name)
        {
            begins.push(command);
        }
    }
    begins
}

/// The names that are nearest to a mistyped one.
fn nearest(name: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &str)> = COMMANDS
        .iter()
        .map(|command| (distance(name, command.name), command.name))
        .filter(|(distance, _)| *distance <= 2)
        .collect();
    found.sort_unstable();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// How many letters have to be changed, added or taken away.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, b) in to.iter().enumerate() {
            let above = row[column + 1];
            let changed = diagonal + usize::from(a != *b);
            diagonal = above;
            row[column + 1] = changed.min(above + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// What puts a text into the clipboard of the terminal (OSC 52), wherever it runs.
pub(crate) fn clipboard_sequence(text: &str) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    format!("\x1b]52;c;{encoded}\x07")
}

impl App {
    /// Runs a command.
    pub(crate) fn command(&mut self, name: &str, arguments: &str) {
        #[cfg(debug_assertions)]
        if name == "panic" {
            return self.panic(arguments);
        }
        let Some(command) = find(name) else {
            if self.session.is_none() {
                // Whether there is such a command is known when the session is open.
                self.waiting_commands
                    .push((name.to_owned(), arguments.to_owned()));
                return;
            }
            if self.session_command(name, arguments) {
                return;
            }
            let mut near: Vec<String> = nearest(name)
                .into_iter()
                .map(|name| format!("/{name}"))
                .collect();
            for command in self.session_commands() {
                if distance(name, &command.name) <= 2 && near.len() < 4 {
                    near.push(format!("/{}", command.name));
                }
            }
            let hint = if near.is_empty() {
                "/help lists them".to_owned()
            } else {
                format!("did you mean {}?", near.join(", "))
            };
            self.warn(format!("There is no command /{name}; {hint}"));
            return;
        };
        if self.busy() && !command.busy {
            self.warn(format!(
                "/{} waits until the turn is over; esc interrupts it.",
                command.name
            ));
            return;
        }
        let another = self.opening && command.name == "resume" && !arguments.is_empty();
        if self.session.is_none() && (needs_session(command.name) || another) {
            self.waiting_commands
                .push((command.name.to_owned(), arguments.to_owned()));
            return;
        }
        match command.name {
            "help" => self.help(),
            "clear" => self.clear(),
            "compact" => {
                let instructions = Some(arguments.to_owned()).filter(|words| !words.is_empty());
                self.send(Op::Compact { instructions });
            }
            "context" => self.context(),
            "cost" => self.cost(),
            "model" => self.choose_model(arguments),
            "effort" => self.choose_effort(arguments),
            "permissions" => self.permissions(arguments),
            "mode" => self.choose_mode(arguments),
            "plan" => self.plan(),
            "add-dir" if arguments.is_empty() => {
                self.dialog = Some(Dialog::Form(Form::new(Purpose::AddDirectory, "Which folder?", "")));
            }
            "add-dir" => self.add_directory(arguments),
            "resume" if arguments.is_empty() => self.list_sessions(false),
            "resume" => self.resume(arguments),
            "rename" if arguments.is_empty() => {
                self.dialog = Some(Dialog::Form(Form::new(Purpose::Rename, "A title for this session", "")));
            }
            "rename" => self.rename(arguments),
            "rewind" => self.list_prompts(),
            "fork" => self.fork(),
            "diff" => self.diff(),
            "export" => self.export(arguments),
            "copy" => match self.conversation.last_answer().map(str::to_owned) {
                Some(text) => {
                    self.pending_output.push_str(&clipboard_sequence(&text));
                    self.remark("the last answer is copied");
                }
                None => self.warn("There is no answer to copy yet."),
            },
            "status" => self.status_answer(),
            "config" => self.config(arguments),
            "memory" => self.memory(arguments),
            "hooks" => self.hooks(),
            "tools" => self.tools(),
            "mcp" => self.mcp(arguments),
            "agents" => self.agents(),
            "skills" => self.skills(),
            "plugin" => self.plugins(),
            "output-style" => self.output_style(arguments),
            "tasks" => self.tasks(),
            "todos" => self.todos(),
            "theme" => self.choose_theme(arguments),
            "vim" => {
                self.vim = if self.vim.is_some() { None } else { Some(Vim::default()) };
                let (word, mode) = if self.vim.is_some() { ("on", "vim") } else { ("off", "normal") };
                self.save_setting("editorMode", mode.into());
                self.remark(format!("vim keys are {word}"));
            }
            "keybindings" => self.keybindings(),
            "statusline" => self.remark(
                "statusLine in settings.json: {\"type\": \"command\", \"command\": \"…\"}. The command gets a JSON object on standard input (model, folder, cost, context) and prints one line.",
            ),
            "release-notes" => self.remark(format!("lathe {}", env!("CARGO_PKG_VERSION"))),
            "feedback" => self.feedback(arguments),
            "doctor" => self.doctor(),
            "exit" => self.leaving = Some(Leave::Asked),
            _ => {}
        }
    }

    /// Falls by a fault of our own, so that what happens then can be tried. Not in what people use.
    #[cfg(debug_assertions)]
    #[allow(clippy::panic, reason = "that is what it is for")]
    fn panic(&mut self, arguments: &str) {
        if arguments == "job" {
            self.jobs.blocking(|| panic!("a job was asked to fall"));
        } else {
            panic!("it was asked to fall");
        }
    }

    fn clear(&mut self) {
        self.options.session = SessionChoice::New;
        self.options.fork = false;
        self.options.session_id = None;
        self.options.resume_at = None;
        self.conversation.cells.clear();
        self.conversation.todos.clear();
        self.remark("── a new conversation ──");
        self.conversation.cells.clear();
        self.reopen();
    }

    fn resume(&mut self, wanted: &str) {
        self.options.session = SessionChoice::Resume(wanted.to_owned());
        self.options.fork = false;
        self.options.session_id = None;
        self.options.resume_at = None;
        self.conversation.cells.clear();
        self.conversation.todos.clear();
        self.remark("── another conversation ──");
        self.conversation.cells.clear();
        self.reopen();
    }

    fn fork(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        self.options.session = SessionChoice::Resume(session.session_id().to_string());
        self.options.fork = true;
        self.options.session_id = None;
        self.conversation.cells.clear();
        self.remark("── a copy of this conversation ──");
        self.conversation.cells.clear();
        self.reopen();
    }

    pub(crate) fn list_sessions(&mut self, everywhere: bool) {
        let store = SessionStore::new(&self.places.config_home);
        let cwd = self.places.environment.cwd.clone();
        self.jobs.blocking(move || {
            let scope = if everywhere {
                Scope::Everywhere
            } else {
                Scope::Project(&cwd)
            };
            Some(Found::Sessions {
                sessions: store.list(scope, Some(200)),
                everywhere,
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_sentences_are_no_commands() {
        assert_eq!(parse("help"), Some(("help", "")));
        assert_eq!(parse("rename my title"), Some(("rename", "my title")));
        assert_eq!(parse("tmp/x is odd"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("a:b-c_d 1"), Some(("a:b-c_d", "1")));
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let mut seen = std::collections::HashSet::new();
        for command in COMMANDS {
            assert!(seen.insert(command.name), "{}", command.name);
            for alias in command.aliases {
                assert!(seen.insert(alias), "{alias}");
            }
        }
    }

    #[test]
    fn a_mistyped_name_finds_its_neighbours() {
        assert_eq!(nearest("hlep"), ["help"]);
        assert_eq!(nearest("exot"), ["exit", "export"]);
        assert!(nearest("entirely-other").is_empty());
    }

    #[test]
    fn the_exact_name_comes_first() {
        assert_eq!(matching("com")[0].name, "compact");
        assert_eq!(matching("cost")[0].name, "cost");
        assert_eq!(matching("q")[0].name, "exit");
        assert!(matching("zzzz").is_empty());
    }
}
