//! `!`: runs a shell command of the user and shares it with the model.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::render::cell::Cell;
use lathe_protocol::op::{Op, Prompt};

const NOTE_START: &str = "The user ran a shell command.\n";

/// Runs the user's shell command.
pub(crate) fn run(app: &mut App, command: &str) {
    let Some(session) = &app.engine.handle else {
        app.queue.hold(crate::commands::SHELL, command);
        return;
    };
    if app.session.shell_run.is_some() {
        app.warn("A shell command is already running; esc stops it.");
        return;
    }
    let shell = session.tasks().shell();
    let cancel = tokio_util::sync::CancellationToken::new();
    app.session.shell_run = Some(crate::app::session_status::ShellRun {
        began: std::time::Instant::now(),
        command: command.to_owned(),
        tail: String::new(),
        cancel: cancel.clone(),
    });
    let command = command.to_owned();
    let sender = app.jobs.sender();
    let progress = app.jobs.sender();
    lathe_spawn::task(async move {
        let options = lathe_shell::run::RunOptions {
            timeout: std::time::Duration::from_secs(600),
            cancel,
            progress: Some(std::sync::Arc::new(
                move |so_far: lathe_shell::run::Progress| {
                    let _ = progress.send(JobResult::ShellProgress(so_far.last_lines));
                },
            )),
            ..lathe_shell::run::RunOptions::default()
        };
        let found = match shell.run(&command, options).await {
            Ok(finished) => {
                let exit_code = match finished.exit {
                    lathe_shell::run::Exit::Exited(code) => Some(code),
                    _ => None,
                };
                JobResult::ShellFinished {
                    command,
                    output: finished.output.text,
                    exit_code,
                    failed: None,
                }
            }
            Err(error) => JobResult::ShellFinished {
                command,
                output: String::new(),
                exit_code: None,
                failed: Some(error.to_string()),
            },
        };
        let _ = sender.send(found);
    });
}

pub(crate) fn finished(
    app: &mut App,
    command: &str,
    output: String,
    exit_code: Option<i32>,
    failed: Option<String>,
) {
    app.session.shell_run = None;
    if let Some(error) = failed {
        app.warn(error);
        return;
    }
    let text = note(command, &output, exit_code);
    let cell = Cell::Shell {
        command: command.to_owned(),
        output,
        exit_code,
    };
    app.with_look(|conversation, look| conversation.push(cell, look));
    let mut prompt = Prompt::new(text);
    prompt.context_only = true;
    app.queue.own_context.insert(prompt.uuid);
    app.engine.send(Op::Prompt(prompt));
}

/// The text about a shell command that is sent to the model.
fn note(command: &str, output: &str, exit_code: Option<i32>) -> String {
    let mut note = format!(
        "{NOTE_START}<bash-input>{command}</bash-input>\n<bash-output>{}</bash-output>",
        crate::render::text::terminal_lines(output).join("\n")
    );
    if let Some(code) = exit_code.filter(|code| *code != 0) {
        note.push_str(&format!("\n<exit-code>{code}</exit-code>"));
    }
    note
}

/// The shell command in such a text, for a conversation that is resumed.
pub(crate) fn parse_note(text: &str) -> Option<Cell> {
    let rest = text
        .strip_prefix(NOTE_START)?
        .strip_prefix("<bash-input>")?;
    let (command, rest) = rest.split_once("</bash-input>\n<bash-output>")?;
    let (output, rest) = rest.rsplit_once("</bash-output>")?;
    let exit_code = match rest.trim() {
        "" => Some(0),
        code => code
            .strip_prefix("<exit-code>")?
            .strip_suffix("</exit-code>")?
            .parse()
            .ok(),
    };
    Some(Cell::Shell {
        command: command.to_owned(),
        output: output.to_owned(),
        exit_code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_note_is_parsed_back() {
        for (output, exit_code) in [
            ("a\nb", Some(0)),
            ("", Some(3)),
            ("</bash-output>", Some(1)),
        ] {
            let expected = Cell::Shell {
                command: "ls; exit".to_owned(),
                output: output.to_owned(),
                exit_code,
            };
            assert_eq!(
                parse_note(&note("ls; exit", output, exit_code)),
                Some(expected)
            );
        }
        assert_eq!(parse_note("The user ran a shell command."), None);
    }
}
