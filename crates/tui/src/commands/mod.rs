//! Slash commands, one module each.
//!
//! Names, aliases and properties of the built-in commands are declared once for all faces
//! ([`BuiltinCommand`]); [`run_builtin`] matches them exhaustively. [`CommandRegistry`] also has the commands
//! that become prompts for the model: skills, custom commands and prompts of MCP servers.

pub(crate) mod add_dir;
pub(crate) mod agents;
pub(crate) mod btw;
pub(crate) mod clear;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod cost;
pub(crate) mod definitions;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod effort;
pub(crate) mod exit;
pub(crate) mod export;
pub(crate) mod feedback;
pub(crate) mod fewer_permission_prompts;
pub(crate) mod fork;
pub(crate) mod help;
pub(crate) mod hooks;
pub(crate) mod ide;
pub(crate) mod insights;
pub(crate) mod keybindings;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod mode;
pub(crate) mod model;
pub(crate) mod output_style;
pub(crate) mod permissions;
pub(crate) mod plan;
pub(crate) mod plugin;
pub(crate) mod queue;
pub(crate) mod rename;
pub(crate) mod results;
pub(crate) mod resume;
pub(crate) mod rewind;
pub(crate) mod search;
pub(crate) mod skills;
pub(crate) mod status;
pub(crate) mod statusline;
pub(crate) mod surgery;
pub(crate) mod tasks;
pub(crate) mod theme;
pub(crate) mod todos;
pub(crate) mod tools;
pub(crate) mod tree;
pub(crate) mod vim;
pub(crate) mod workflows;

use crate::app::queue::submit_content;
use crate::app::{App, shell};
use crate::commands::resume::SessionList;
use crate::layers::{Page, Purpose};
use crate::render::style::Line;
use crate::render::text::clean;
use futures::FutureExt as _;
use lathe_commands::CommandOutcome;
use lathe_extensions::plugins::Prepared;
use lathe_extensions::{Command, CommandAction, CommandRegistry, SkillCatalog};
use lathe_protocol::command::BuiltinCommand;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The commands that the terminal knows before a session is open.
static FIRST: LazyLock<CommandRegistry> =
    LazyLock::new(|| CommandRegistry::new(&SkillCatalog::default(), &[]));

/// State that commands keep between two dialogs.
#[derive(Default)]
pub(crate) struct CommandState {
    /// The sessions that `/resume` listed last.
    pub(crate) sessions: SessionList,
    /// The prompts that `/rewind` listed last, by record: what was said.
    pub(crate) prompts: HashMap<String, String>,
    /// The prompts that `/tree` listed last.
    pub(crate) tree: Vec<tree::Branch>,
    /// The messages that a search found last, and what was searched for.
    pub(crate) found: Vec<lathe_session::search::FoundSession>,
    pub(crate) searched: String,
    /// Texts of the message to show when its session is open, the most exact first.
    pub(crate) jump: Vec<String>,
    /// The results in the context as `/context` listed them last.
    pub(crate) contents: surgery::Contents,
    pub(crate) insights: Option<lathe_session::insights::Insights>,
    /// Rules that were proposed, with how often each would have helped.
    pub(crate) proposals: Vec<fewer_permission_prompts::Proposal>,
    /// MCP servers of the folder that the question about trust shows.
    pub(crate) project_servers: Vec<(String, serde_json::Value)>,
    /// How much was said of what this is.
    pub(crate) welcome: crate::app::welcome::Welcome,
    /// A plugin that was fetched and waits for the user's confirmation.
    pub(crate) prepared_plugin: Option<Box<Prepared>>,
}

/// The name of a shell command (`!`) among the held commands.
pub(crate) const SHELL: &str = "!";

/// The bundled skill that changes keys. Without arguments the terminal shows the keys instead.
const KEYBINDINGS: &str = "keybindings";

/// A command that waits, as it was typed.
pub(crate) fn as_typed(name: &str, arguments: &str) -> String {
    if name == SHELL {
        format!("{SHELL}{arguments}")
    } else {
        format!("/{name} {arguments}").trim_end().to_owned()
    }
}

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
    for index in crate::prompt::fuzzy::rank(word, names, 20) {
        if let Some(command) = listed.get(index)
            && !found.iter().any(|known| known.name == command.name)
        {
            found.push(command);
        }
    }
    found
}

/// All commands: of the session, or those that there always are until it is open.
pub(crate) fn registry(app: &App) -> CommandRegistry {
    app.engine
        .handle
        .as_ref()
        .map_or_else(|| FIRST.clone(), |session| session.extensions().commands())
}

/// Whether there is a command of this name.
pub(crate) fn is_known(app: &App, name: &str) -> bool {
    FIRST.find(name).is_some()
        || app
            .engine
            .handle
            .as_ref()
            .is_some_and(|session| session.extensions().commands().find(name).is_some())
}

/// Runs a built-in command, whatever command file has its name: keys, dialogs and other commands mean
/// the terminal's own.
pub(crate) fn run_own(app: &mut App, command: BuiltinCommand, arguments: &str) {
    run(app, &command.qualified_name(), arguments);
}

/// Shows a command that was typed, above what it answers. One that becomes a prompt is shown as such.
pub(crate) fn echo(app: &mut App, name: &str, typed: &str) {
    let registry = registry(app);
    let action = registry.find(name).map(|command| &command.action);
    let is_shown = match action {
        // They leave nothing that the words could stand above.
        Some(CommandAction::Builtin(BuiltinCommand::Clear | BuiltinCommand::Exit)) => false,
        Some(CommandAction::Builtin(_)) => true,
        _ => false,
    };
    if is_shown {
        app.remark(format!("❯ {typed}"));
    }
}

/// Runs the command of a name, or keeps it until it can be run.
pub(crate) fn run(app: &mut App, name: &str, arguments: &str) {
    #[cfg(debug_assertions)]
    if name == "panic" {
        return panic(app, arguments);
    }
    if name == SHELL {
        return shell::run(app, arguments);
    }
    let registry = registry(app);
    let Some(command) = registry.find(name).cloned() else {
        if app.engine.handle.is_none() {
            // Whether there is such a command is known when the session is open.
            app.queue.hold(name, arguments);
        } else if name.starts_with("mcp__") {
            // A server that is still being connected may bring it; the turn waits for that.
            send_as_prompt(app, name, arguments);
        } else {
            app.warn(registry.unknown(name));
        }
        return;
    };
    let shows_keys = command.name == KEYBINDINGS && arguments.is_empty();
    let without_session = match command.action {
        // A session that is being opened is finished first if another one is named.
        CommandAction::Builtin(BuiltinCommand::Resume) => {
            !app.engine.opening || arguments.is_empty()
        }
        CommandAction::Builtin(builtin) => !builtin.declaration().needs_session,
        CommandAction::Prompt => command.name == KEYBINDINGS,
    };
    if app.engine.handle.is_none() && !without_session {
        app.queue.hold(&command.name, arguments);
        return;
    }
    match command.action {
        CommandAction::Prompt if shows_keys => keybindings::run(app),
        CommandAction::Prompt => send_as_prompt(app, &command.name, arguments),
        // Earlier prompts come first, and some commands can't run during a turn.
        CommandAction::Builtin(_) if app.session.busy() && !command.while_busy => {
            app.queue.hold(&command.name, arguments);
        }
        CommandAction::Builtin(builtin) => run_builtin(app, builtin, arguments),
    }
}

/// Runs a built-in command. The engine answers those that need no view of their own.
fn run_builtin(app: &mut App, command: BuiltinCommand, arguments: &str) {
    use BuiltinCommand as C;
    note(app, command, arguments);
    match command {
        C::AddDir => add_dir::run(app, arguments),
        C::Agents => agents::run(app),
        C::Bg => crate::app::hosting::background(app),
        C::Btw => btw::run(app, arguments),
        C::Clear => clear::run(app),
        C::Compact => compact::run(app, arguments),
        C::Config => config::run(app, arguments),
        C::Context => context::run(app),
        C::Copy => copy::run(app),
        C::Cost => cost::run(app),
        C::Diff => diff::run(app),
        C::Doctor => doctor::run(app),
        C::Effort => effort::run(app, arguments),
        C::Exit => exit::run(app),
        C::Export => export::run(app, arguments),
        C::Feedback => feedback::run(app, arguments),
        C::FewerPermissionPrompts => fewer_permission_prompts::run(app),
        C::Fork => fork::run(app),
        C::Help if arguments.is_empty() => help::run(app),
        C::Hooks => hooks::run(app),
        C::Ide => ide::run(app, arguments),
        C::Insights => insights::run(app),
        C::Login => login::run(app),
        C::Logout => logout::run(app),
        C::Mcp => mcp::run(app, arguments),
        C::Memory => memory::run(app, arguments),
        C::Mode => mode::run(app, arguments),
        C::Model => model::run(app, arguments, lathe_engine::SwitchSource::Command),
        C::OutputStyle => output_style::run(app, arguments),
        C::Permissions => permissions::run(app, arguments),
        C::Plan => plan::run(app),
        C::Plugin => plugin::run(app, arguments),
        C::Queue => queue::run(app),
        C::Rename => rename::run(app, arguments),
        C::Resume => resume::run(app, arguments),
        C::Rewind => rewind::run(app),
        C::Skills => skills::run(app),
        C::Status => status::run(app),
        C::Statusline => statusline::run(app),
        C::Tasks => tasks::run(app),
        C::Theme => theme::run(app, arguments),
        C::Todos => todos::run(app),
        C::Tools => tools::run(app),
        C::Tree => tree::run(app),
        C::Vim => vim::run(app),
        C::Workflows => workflows::run(app, arguments),
        C::Cd
        | C::Fallback
        | C::Help
        | C::CodeReview
        | C::Coordinator
        | C::Goal
        | C::Loop
        | C::Loops
        | C::ReleaseNotes
        | C::ReloadPlugins
        | C::ReloadSkills
        | C::Sandbox
        | C::Stats
        | C::Tag
        | C::Version => answered_by_engine(app, command, arguments),
    }
}

/// Notes a command in the transcript, unless it leads out of the session.
fn note(app: &App, command: BuiltinCommand, arguments: &str) {
    use BuiltinCommand as C;
    let leads_out = matches!(
        command,
        C::Bg
            | C::Clear
            | C::Exit
            | C::Fork
            | C::Resume
            | C::Rewind
            | C::Compact
            | C::Tree
            | C::Btw
    );
    if let Some(session) = &app.engine.handle
        && !leads_out
    {
        session.note_command(command.name(), arguments, None);
    }
}

/// Crashes on purpose, for the tests. Not in release builds.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "the tests need a crash")]
fn panic(app: &mut App, arguments: &str) {
    if arguments == "job" {
        app.jobs.blocking(|| panic!("a job was asked to fall"));
    } else {
        panic!("it was asked to fall");
    }
}

/// Sends a command that becomes words for the model: the engine fills it in.
pub(crate) fn send_as_prompt(app: &mut App, name: &str, arguments: &str) {
    let text = format!("/{name} {arguments}").trim().to_owned();
    if app.session.busy() {
        // A skill always starts a turn of its own.
        app.remark(format!("/{name} runs after this turn"));
    }
    submit_content(app, &text, text.clone().into());
}

/// Runs a command that the engine answers.
pub(crate) fn answered_by_engine(app: &mut App, command: BuiltinCommand, arguments: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    // The engine knows the answer at once; only git and files make it wait, and the commands that
    // need those are the terminal's own.
    match lathe_commands::run_builtin(session, command, arguments).now_or_never() {
        Some(CommandOutcome::Answer(answer)) if command == BuiltinCommand::ReleaseNotes => {
            app.layers
                .open(Page::of_markdown(Purpose::Reading, "Release notes", answer));
        }
        Some(CommandOutcome::Answer(answer)) => {
            let lines: Vec<Line> = answer
                .lines()
                .map(|line| Line::plain(clean(line)))
                .collect();
            if lines.len() * 2 > app.screen.rows {
                show_page(app, command.to_string(), lines);
            } else {
                app.answer(lines);
            }
        }
        Some(CommandOutcome::Refused(why)) => app.warn(why),
        Some(CommandOutcome::Clear) => run_own(app, BuiltinCommand::Clear, ""),
        Some(CommandOutcome::Compact(words)) => {
            run_own(app, BuiltinCommand::Compact, &words.unwrap_or_default());
        }
        Some(CommandOutcome::Prompt) => send_as_prompt(app, &command.qualified_name(), arguments),
        None => app.warn(format!("{command} did not answer in time.")),
    }
    if command == BuiltinCommand::ReloadPlugins {
        crate::app::settings::plugins_loaded(app);
    }
    app.session.mode = app
        .engine
        .handle
        .as_ref()
        .map_or(app.session.mode, |session| session.permissions().mode());
}

/// Opens a page to read.
pub(crate) fn show_page(app: &mut App, title: impl Into<String>, lines: Vec<Line>) {
    app.layers
        .open(Page::of_lines(Purpose::Reading, title, lines));
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
        let mut app = crate::render::view_tests::app(80, 24);
        shell::run(&mut app, "ls -l");
        assert_eq!(app.queue.commands, [("!".to_owned(), "ls -l".to_owned())]);
        assert_eq!(as_typed("!", "ls -l"), "!ls -l");
        assert_eq!(as_typed("clear", ""), "/clear");
    }
}
