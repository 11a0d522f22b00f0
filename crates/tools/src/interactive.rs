//! Commands on a terminal, for Bash and BashInput: waiting for them, and their screen for the model.

use crate::context::CallContext;
use crate::tool::{ToolError, ToolOutput};
use lathe_protocol::content::Content;
use lathe_protocol::display::Display;
use lathe_shell::run::{Asked, Exit, InteractiveCommand, Settled};
use serde_json::json;
use std::time::Duration;

/// How a call on a terminal ended.
enum State {
    Settled(Settled),
    /// It asks for a secret, and nobody is there to type it.
    Nobody(String),
    /// It asks for a secret, and the user did not type it.
    Declined(String),
}

/// Waits until a command on a terminal waits for input or is over, and gives what its screen shows. What it must not
/// be told by the model, the user is asked to type.
pub(crate) async fn wait(
    command: &InteractiveCommand,
    limit: Duration,
    most: usize,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let terminals = context.session.shell.terminals();
    let state = loop {
        match command.settle(limit, &context.cancel).await {
            Settled::WantsSecret(words) => {
                match command.ask_user(terminals, &context.cancel).await {
                    Asked::Answered => {}
                    Asked::Nobody => break State::Nobody(words),
                    Asked::Declined => break State::Declined(words),
                    Asked::Cancelled => break State::Settled(Settled::Cancelled),
                }
            }
            settled => break State::Settled(settled),
        }
    };
    if matches!(state, State::Settled(Settled::Cancelled)) {
        return Err(ToolError::Cancelled(format!(
            "Waiting was cancelled; {} keeps running.",
            command.id
        )));
    }
    Ok(output(command, &state, most))
}

fn output(command: &InteractiveCommand, state: &State, most: usize) -> ToolOutput {
    let screen = command.look();
    let id = &command.id;
    let program = Some(command.prompt().program).filter(|name| !name.is_empty());
    let program = program.unwrap_or_else(|| "the program".to_owned());
    let mut is_error = false;
    let mut exit_code = None;
    let status = match state {
        State::Settled(Settled::Ended(exit)) => {
            is_error = *exit != Exit::Exited(0);
            match exit {
                Exit::Exited(code) => {
                    exit_code = Some(*code);
                    format!("[{id} ended with exit code {code}.]")
                }
                Exit::Signalled(signal) => format!("[{id} was ended by signal {signal}.]"),
                _ => format!("[{id} was ended.]"),
            }
        }
        State::Settled(Settled::Waits) => {
            format!("[{id}: {program} waits for input. BashInput types into it, TaskStop ends it.]")
        }
        State::Settled(_) => format!(
            "[{id}: {program} still works. BashInput without text waits for it, TaskStop ends it.]"
        ),
        State::Nobody(words) => {
            is_error = true;
            format!(
                "[{id} asks for a secret ({words:?}), which only the user may type, and nobody can in this session. \
                 End it with TaskStop, and use a way that needs no secret typed.]"
            )
        }
        State::Declined(words) => {
            is_error = true;
            format!(
                "[{id} asks for a secret ({words:?}), and the user did not type it. \
                 End it with TaskStop or with the key C-c, or ask the user.]"
            )
        }
    };
    let shown = bounded(&screen.text, most);
    let mut text = String::new();
    if screen.is_cut {
        text.push_str("[earlier lines are gone]\n");
    }
    text.push_str(&shown);
    if !shown.is_empty() {
        text.push('\n');
    }
    if screen.is_full && exit_code.is_none() {
        let (row, column) = screen.cursor;
        text.push_str(&format!("[cursor: line {row}, column {column}]\n"));
    }
    text.push_str(&status);
    let leftovers = command.leftovers();
    if !leftovers.is_empty() {
        text.push_str(&format!(
            "\n[These processes were still running when the shell exited and were killed: {}.]",
            leftovers.join(", ")
        ));
    }
    let runs = command.exit().is_none();
    let mut structured = json!({
        "stdout": shown, "stderr": "", "interrupted": false, "isImage": false,
        "waitsForInput": matches!(state, State::Settled(Settled::Waits)),
    });
    if runs {
        structured["backgroundTaskId"] = json!(id);
    }
    ToolOutput {
        content: Content::Text(text),
        structured,
        display: Display::Terminal {
            output: shown,
            exit_code,
        },
        is_error,
    }
}

/// The text within a limit, cut in the middle.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most / 4);
    let tail = text.ceil_char_boundary(text.len() - most / 4 * 3);
    format!(
        "{}\n[{} bytes omitted]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

/// The state of a command on a terminal for TaskOutput, without waiting.
pub(crate) fn state_now(command: &InteractiveCommand, most: usize) -> ToolOutput {
    let settled = match command.exit() {
        Some(exit) => Settled::Ended(exit),
        None => Settled::Runs,
    };
    output(command, &State::Settled(settled), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_screens_keep_their_end() {
        let text = format!("{}é{}", "a".repeat(3_000), "z".repeat(3_000));
        let cut = bounded(&text, 1_000);
        assert!(cut.starts_with('a') && cut.ends_with('z') && cut.len() < 1_100);
        assert_eq!(bounded("short", 1_000), "short");
    }
}
