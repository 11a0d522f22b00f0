//! Slash commands: which of them the terminal does itself, and how.
//!
//! Names, aliases and properties of the commands are declared once for all faces: [`BuiltinCommand`] for
//! the built-in ones, [`CommandRegistry`] for all. The terminal shows some of them with views of its own;
//! the rest is answered by the engine, or becomes a prompt for the model (`extending`).

use crate::app::{App, Leave};
use crate::dialog::{Dialog, Form, Purpose};
use crate::editor::vim::Vim;
use lathe_engine::SessionChoice;
use lathe_extensions::{Command, CommandAction, CommandRegistry, SkillCatalog};
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::op::Op;
use std::sync::LazyLock;

/// The commands that the terminal knows before a session is open.
static FIRST: LazyLock<CommandRegistry> =
    LazyLock::new(|| CommandRegistry::new(&SkillCatalog::default(), &[]));

/// What stands for `!` among the commands that wait: a shell command has no name.
pub(crate) const SHELL: &str = "!";

/// A command that waits, as it was typed.
pub(crate) fn as_typed(name: &str, arguments: &str) -> String {
    if name == SHELL {
        format!("{SHELL}{arguments}")
    } else {
        format!("/{name} {arguments}").trim_end().to_owned()
    }
}

/// The bundled skill that changes keys. Without arguments the terminal shows the keys instead.
const KEYBINDINGS: &str = "keybindings";

/// The commands that fit a beginning, best first: by name, by another name, by letters.
pub(crate) fn matching<'a>(registry: &'a CommandRegistry, word: &str) -> Vec<&'a Command> {
    let listed: Vec<&Command> = registry.listed().collect();
    if word.is_empty() {
        return listed;
    }
    let begins_with = |command: &Command| {
        command.name.starts_with(word)
            || command.aliases.iter().any(|alias| alias.starts_with(word))
    };
    let is_it = |command: &Command| {
        command.name == word || command.aliases.iter().any(|alias| alias == word)
    };
    let mut found: Vec<&Command> = listed
        .iter()
        .copied()
        .filter(|command| begins_with(command))
        .collect();
    found.sort_by_key(|command| (!is_it(command), !command.name.starts_with(word)));
    let names = listed.iter().map(|command| command.name.as_str());
    for index in crate::fuzzy::rank(word, names, 20) {
        if let Some(command) = listed.get(index)
            && !found.iter().any(|known| known.name == command.name)
        {
            found.push(command);
        }
    }
    found
}

/// What puts a text into the clipboard of the terminal (OSC 52), wherever it runs.
pub(crate) fn clipboard_sequence(text: &str) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    format!("\x1b]52;c;{encoded}\x07")
}

impl App {
    /// All commands: of the session, or those that there always are until it is open.
    pub(crate) fn registry(&self) -> CommandRegistry {
        self.session
            .as_ref()
            .map_or_else(|| FIRST.clone(), |session| session.extensions().commands())
    }

    /// Whether there is a command of this name.
    pub(crate) fn knows_command(&self, name: &str) -> bool {
        FIRST.find(name).is_some()
            || self
                .session
                .as_ref()
                .is_some_and(|session| session.extensions().commands().find(name).is_some())
    }

    /// Runs a command, or keeps it until it can be run.
    pub(crate) fn command(&mut self, name: &str, arguments: &str) {
        #[cfg(debug_assertions)]
        if name == "panic" {
            return self.panic(arguments);
        }
        if name == SHELL {
            return self.run_shell(arguments);
        }
        let registry = self.registry();
        let Some(command) = registry.find(name).cloned() else {
            if self.session.is_none() {
                // Whether there is such a command is known when the session is open.
                self.wait_with(name, arguments);
            } else if name.starts_with("mcp__") {
                // A server that is still being connected may bring it; the turn waits for that.
                self.prompt_command(name, arguments);
            } else {
                self.warn(registry.unknown(name));
            }
            return;
        };
        let shows_keys = command.name == KEYBINDINGS && arguments.is_empty();
        let without_session = match command.action {
            // A session that is being opened is finished first if another one is named.
            CommandAction::Builtin(BuiltinCommand::Resume) => !self.opening || arguments.is_empty(),
            CommandAction::Builtin(builtin) => !builtin.declaration().needs_session,
            CommandAction::Prompt => command.name == KEYBINDINGS,
        };
        if self.session.is_none() && !without_session {
            self.wait_with(&command.name, arguments);
            return;
        }
        match command.action {
            CommandAction::Prompt if shows_keys => self.keybindings(),
            CommandAction::Prompt => self.prompt_command(&command.name, arguments),
            // What was said before comes first, and some things can't be done in the middle of a turn.
            CommandAction::Builtin(_) if self.busy() && !command.while_busy => {
                self.wait_with(&command.name, arguments);
            }
            CommandAction::Builtin(builtin) => self.terminal_command(builtin, arguments),
        }
    }

    /// Keeps a command until it can be run: after what was said before it.
    pub(crate) fn wait_with(&mut self, name: &str, arguments: &str) {
        self.waiting_commands
            .push((name.to_owned(), arguments.to_owned()));
    }

    /// Runs commands that waited, and sends what was said between and after them, in the order in which
    /// all that was typed.
    pub(crate) fn run_waiting_commands(&mut self) {
        while self.session.is_some() {
            self.send_unsent();
            let Some((name, arguments)) = self.waiting_commands.first().cloned() else {
                return;
            };
            let goes_beside = self
                .registry()
                .find(&name)
                .is_none_or(|command| command.while_busy);
            // What was sent and isn't taken yet begins a turn in a moment.
            let busy = self.busy() || self.queued.iter().any(|queued| queued.sent);
            if busy && !goes_beside {
                return;
            }
            self.waiting_commands.remove(0);
            for queued in &mut self.queued {
                queued.after = queued.after.saturating_sub(1);
            }
            self.from_waiting = true;
            self.command(&name, &arguments);
            self.from_waiting = false;
        }
    }

    /// A command that the terminal shows in its own way; the engine answers the others.
    fn terminal_command(&mut self, command: BuiltinCommand, arguments: &str) {
        use BuiltinCommand as C;
        match command {
            C::Help if arguments.is_empty() => self.help(),
            C::Clear => self.clear(),
            C::Compact => {
                let instructions = Some(arguments.to_owned()).filter(|words| !words.is_empty());
                self.send(Op::Compact { instructions });
            }
            C::Context => self.context(),
            C::Cost => self.cost(),
            C::Model => self.choose_model(arguments),
            C::Effort => self.choose_effort(arguments),
            C::Permissions => self.permissions(arguments),
            C::Mode => self.choose_mode(arguments),
            C::Plan => self.plan(),
            C::AddDir if arguments.is_empty() => {
                self.dialog = Some(Dialog::Form(Form::new(Purpose::AddDirectory, "Which folder?", "")));
            }
            C::AddDir => self.add_directory(arguments),
            C::Resume if arguments.is_empty() => self.list_sessions(),
            C::Resume => self.resume(arguments),
            C::Rename if arguments.is_empty() => {
                self.dialog = Some(Dialog::Form(Form::new(Purpose::Rename, "A title for this session", "")));
            }
            C::Rename => self.rename(arguments),
            C::Rewind => self.list_prompts(),
            C::Fork => self.fork(),
            C::Diff => self.diff(),
            C::Export => self.export(arguments),
            C::Copy => match self.conversation.last_answer().map(str::to_owned) {
                Some(text) => {
                    self.pending_output.push_str(&clipboard_sequence(&text));
                    self.remark("the last answer is copied");
                }
                None => self.warn("There is no answer to copy yet."),
            },
            C::Status => self.status_answer(),
            C::Config => self.config(arguments),
            C::Memory => self.memory(arguments),
            C::Hooks => self.hooks(),
            C::Tools => self.tools(),
            C::Mcp => self.mcp(arguments),
            C::Agents => self.agents(),
            C::Skills => self.skills(),
            C::Plugin => self.plugins(arguments),
            C::Ide => self.editors(arguments),
            C::Login => self.login(),
            C::Logout => self.logout(),
            C::OutputStyle => self.output_style(arguments),
            C::Tasks => self.tasks(),
            C::Todos => self.todos(),
            C::Theme => self.choose_theme(arguments),
            C::Vim => {
                self.vim = if self.vim.is_some() { None } else { Some(Vim::default()) };
                let (word, mode) = if self.vim.is_some() { ("on", "vim") } else { ("off", "normal") };
                self.save_setting("editorMode", mode.into());
                self.remark(format!("vim keys are {word}"));
            }
            C::Statusline => self.remark(
                "statusLine in settings.json: {\"type\": \"command\", \"command\": \"…\"}. The command gets a JSON object on standard input (model, folder, cost, context) and prints one line.",
            ),
            C::Feedback => self.feedback(arguments),
            C::Doctor => self.doctor(),
            C::Exit => self.leaving = Some(Leave::Asked),
            C::Help
            | C::Stats
            | C::Fallback
            | C::Sandbox
            | C::Tag
            | C::Cd
            | C::Version
            | C::ReleaseNotes
            | C::ReloadSkills
            | C::ReloadPlugins => self.engine_command(command, arguments),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(word: &str) -> Vec<String> {
        matching(&FIRST, word)
            .into_iter()
            .map(|command| command.name.clone())
            .collect()
    }

    #[test]
    fn the_exact_name_comes_first() {
        assert_eq!(names("com")[0], "compact");
        assert_eq!(names("cost")[0], "cost");
        assert_eq!(names("q")[0], "exit");
        assert!(names("zzzz").is_empty());
    }

    #[test]
    fn the_skill_whose_keys_the_terminal_shows_is_bundled() {
        let skills = SkillCatalog::load(&lathe_extensions::Sources::default());
        assert!(skills.get(KEYBINDINGS).is_some());
    }

    #[test]
    fn a_shell_command_that_is_typed_early_waits_and_can_be_taken_back() {
        let mut app = crate::view_tests::app(80, 24);
        app.run_shell("ls -l");
        assert_eq!(app.waiting_commands, [("!".to_owned(), "ls -l".to_owned())]);
        assert_eq!(as_typed("!", "ls -l"), "!ls -l");
        assert_eq!(as_typed("clear", ""), "/clear");
    }
}
