//! Slash commands that are answered in text, the same in every face.
//!
//! [`run`] takes a command that the user typed: it is carried out and answered here, from what the session
//! knows, or it is a prompt for the model. [`run_builtin`] is the one exhaustive match over the built-in
//! commands. A terminal shows some of them with views of its own instead; it finds all commands in
//! `SessionHandle::extensions`.
#![forbid(unsafe_code)]

mod answers;
mod error;
mod goal;
mod lists;
mod loops;
mod review;
mod workflows;

use error::CommandError;
use lathe_doctor::{Diagnosis, DoctorOptions, TerminalFacts, diagnose};
use lathe_engine::SessionHandle;
use lathe_extensions::CommandAction;
use lathe_protocol::command::{BuiltinCommand, Invocation};

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The command is a prompt for the model, which the engine expands: send it.
    Prompt,
    /// The command's answer.
    Answer(String),
    /// The command failed or can't be run here; the text says why.
    Refused(String),
    /// The face should begin a new conversation.
    Clear,
    /// The face should have the conversation compacted, with these instructions.
    Compact(Option<String>),
}

/// Runs a command that the session answers; any other becomes a prompt. Commands that need a terminal are
/// refused.
pub async fn run(session: &SessionHandle, command: &Invocation) -> CommandOutcome {
    let Invocation { name, arguments } = command;
    let registry = session.extensions().commands();
    let Some(command) = registry.find(name) else {
        // A server that is still being connected may have it; the turn waits for that.
        if name.starts_with("mcp__") {
            return CommandOutcome::Prompt;
        }
        return CommandOutcome::Refused(registry.unknown(name));
    };
    match command.action {
        CommandAction::Builtin(builtin) => {
            let outcome = run_builtin(session, builtin, arguments).await;
            if let CommandOutcome::Answer(text) | CommandOutcome::Refused(text) = &outcome {
                session.note_command(builtin.name(), arguments, Some(text));
            }
            outcome
        }
        CommandAction::Prompt if command.hidden => CommandOutcome::Refused(format!(
            "/{} can only be used by the model (user-invocable: false). Describe the task instead.",
            command.name
        )),
        CommandAction::Prompt => CommandOutcome::Prompt,
    }
}

/// Runs a built-in command. Commands that need a terminal are refused.
pub async fn run_builtin(
    session: &SessionHandle,
    command: BuiltinCommand,
    arguments: &str,
) -> CommandOutcome {
    let declared = command.declaration();
    if declared.headless() && !declared.takes_arguments() && !arguments.is_empty() {
        let error = CommandError::UnexpectedArguments {
            command,
            arguments: arguments.to_owned(),
        };
        return CommandOutcome::Refused(error.to_string());
    }
    match answers::answer(session, command, arguments).await {
        Ok(outcome) => outcome,
        Err(error) => CommandOutcome::Refused(error.to_string()),
    }
}

/// Checks the installation with the settings, flags and plugins of a session. Its MCP servers are
/// connected already, so they are not started again to see whether they answer.
pub async fn diagnose_session(session: &SessionHandle, terminal: TerminalFacts) -> Diagnosis {
    let (places, options) = session.settings().origin();
    let options = DoctorOptions {
        settings_flags: options.flags,
        setting_sources: options.sources,
        plugin_folders: session.plugins().folders(),
        terminal,
        ..DoctorOptions::default()
    };
    diagnose(&places.environment, &options).await
}
