//! Commands that answer themselves, for every face.
//!
//! A face asks [`SessionHandle::run_command`] what a text is. What becomes words for the model is sent as
//! a prompt like any other (the engine fills skills and custom commands in itself); what answers itself
//! is answered here, in plain words, from what a session knows. A terminal may show more of the same
//! with views of its own; it finds all commands in [`SessionHandle::commands`].

mod answers;
mod lists;

use crate::core::Shared;
use crate::session::SessionHandle;
use lathe_extensions::commands::{Invocation, parse};
use lathe_extensions::{Command, CommandAction, CommandRegistry, ExtensionSource};
use lathe_protocol::command::BuiltinCommand;

/// What a text is to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Words for the model, as they are or after the engine filled them in: send it as a prompt.
    Prompt,
    /// It is answered.
    Answer(String),
    /// It could not be done, or not here; why.
    Refused(String),
    /// The face should begin a new conversation.
    Clear,
    /// The face should have the conversation compacted, with these instructions.
    Compact(Option<String>),
}

/// Whether a text looks like `/name …`. A path (`/tmp/x is full`) doesn't.
#[must_use]
pub fn is_command(text: &str) -> bool {
    parse(text).is_some()
}

impl Shared {
    pub(crate) fn commands(&self) -> CommandRegistry {
        CommandRegistry::new(&self.extensions.skills(), &self.prompt_commands())
    }

    fn prompt_commands(&self) -> Vec<Command> {
        self.mcp.prompts().iter().map(of_server).collect()
    }

    /// The names of commands that work without a terminal.
    pub(crate) fn command_names(&self) -> Vec<String> {
        let skills = self.extensions.skills();
        CommandRegistry::names_without_terminal(&skills, &self.prompt_commands())
    }
}

/// A server's prompt as a command.
fn of_server(prompt: &crate::mcp::control::Prompt) -> Command {
    Command {
        name: prompt.command.clone(),
        aliases: Vec::new(),
        description: prompt.description.clone(),
        argument_hint: Some(prompt.hint()).filter(|hint| !hint.is_empty()),
        action: CommandAction::Prompt,
        hidden: false,
        while_busy: false,
        headless: true,
        source: ExtensionSource::Mcp(prompt.server.clone()),
        path: None,
    }
}

impl SessionHandle {
    /// Takes a text for what it is, and answers it if it is a command that answers itself. Commands that
    /// need a terminal say so.
    pub async fn run_command(&self, text: &str) -> CommandOutcome {
        let Some(Invocation { name, arguments }) = parse(text) else {
            return CommandOutcome::Prompt;
        };
        let registry = self.extensions().commands();
        let Some(command) = registry.find(name) else {
            // A server that is still being connected may bring it; the turn waits for that.
            if name.starts_with("mcp__") {
                return CommandOutcome::Prompt;
            }
            return CommandOutcome::Refused(registry.unknown(name));
        };
        match command.action {
            CommandAction::Builtin(builtin) => self.run_builtin(builtin, arguments).await,
            CommandAction::Prompt if command.hidden => CommandOutcome::Refused(format!(
                "/{} is for the model to use, not for people (user-invocable: false). Ask for what it does in your own words.",
                command.name
            )),
            CommandAction::Prompt => CommandOutcome::Prompt,
        }
    }

    /// Runs a built-in command. Commands that need a terminal are refused.
    pub async fn run_builtin(&self, command: BuiltinCommand, arguments: &str) -> CommandOutcome {
        let declared = command.declaration();
        if declared.headless() && !declared.takes_arguments() && !arguments.is_empty() {
            return CommandOutcome::Refused(format!(
                "{command} takes nothing after its name, so {arguments:?} was not understood."
            ));
        }
        match self.answer(command, arguments).await {
            Ok(outcome) => outcome,
            Err(error) => CommandOutcome::Refused(error),
        }
    }
}
