//! Commands in a terminal of the editor that runs the session.
//!
//! Only what was allowed to run as it is runs there: a command that is confined, or that belongs into the
//! sandbox, stays with us, and so does one for the background.

use crate::context::CallContext;
use crate::editor::{Editor, TerminalCommand, TerminalEnd};
use crate::tool::ToolError;
use lathe_settings::Variable;
use lathe_shell::run::{DirectoryChange, Exit, Finished, Output, RunOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The editor, if it lends a terminal and the call may use one.
pub(crate) fn lent(context: &CallContext) -> Option<Arc<dyn Editor>> {
    let editor = context.session.editor.clone()?;
    let free = context.sandbox.is_none() && context.confinement.is_none();
    (free && editor.lends().terminals).then_some(editor)
}

/// Runs a command there. Gives what came of it, and the terminal's name.
pub(crate) async fn run(
    editor: &dyn Editor,
    command: &str,
    options: &RunOptions,
    context: &CallContext,
) -> Result<(Finished, String), ToolError> {
    let session = &context.session;
    let folder = session.working_folder.read().clone();
    let program = session
        .shell
        .program()
        .map_or_else(|| PathBuf::from("/bin/sh"), |program| program.path.clone());
    // Where the command ends is where the next one begins.
    let _ = std::fs::create_dir_all(&session.results_folder);
    let note = options
        .spill
        .as_ref()
        .map(|spill| spill.with_extension("folder"));
    let arguments = ["-c".to_owned(), script(command, note.as_deref())];
    let variables = Variable::InsideLathe
        .declaration()
        .names()
        .map(|name| (name.to_owned(), "1".to_owned()));
    let variables: Vec<(String, String)> = variables.collect();
    let started = Instant::now();
    let done = editor
        .run(TerminalCommand {
            call: &context.tool_use_id,
            program: &program,
            arguments: &arguments,
            folder: &folder,
            variables: &variables,
            output_limit: options.output_limit,
            timeout: options.timeout,
            cancel: &context.cancel,
        })
        .await
        .map_err(|error| ToolError::failed(format!("The command was not run: {error}.")))?;
    let ended = note.as_deref().and_then(where_it_ended);
    let roots = session.roots.read().clone();
    let directory = match ended {
        Some(now) if now == folder => DirectoryChange::None(folder),
        Some(now) if roots.iter().any(|root| now.starts_with(root)) => DirectoryChange::Moved(now),
        Some(refused) => DirectoryChange::Undone {
            refused,
            now: folder,
        },
        None => DirectoryChange::None(folder),
    };
    let mut text = done.output;
    if done.truncated {
        text.insert_str(0, "[The start of the output was not kept.]\n");
    }
    let exit = match done.end {
        TerminalEnd::Exited(code) => Exit::Exited(code),
        TerminalEnd::Signalled(signal) => match number_of(&signal) {
            Some(number) => Exit::Signalled(number),
            None => {
                text.push_str(&format!("\n[The command was ended by {signal}.]"));
                Exit::Exited(128)
            }
        },
        TerminalEnd::TimedOut => Exit::TimedOut,
        TerminalEnd::Cancelled => Exit::Cancelled,
    };
    let finished = Finished {
        blocked: None,
        violations: Vec::new(),
        exit,
        output: Output {
            total_bytes: text.len() as u64,
            omitted_bytes: 0,
            file: None,
            file_truncated: false,
            text,
        },
        directory,
        leftovers: Vec::new(),
        duration: started.elapsed(),
    };
    Ok((finished, done.terminal))
}

/// The command, and a note of where it ended.
fn script(command: &str, note: Option<&Path>) -> String {
    match note {
        Some(note) => {
            let leave = format!("pwd -P > {}", quoted(&note.display().to_string()));
            format!("trap {} EXIT\n{command}\n", quoted(&leave))
        }
        None => command.to_owned(),
    }
}

fn where_it_ended(note: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(note).ok()?;
    let _ = std::fs::remove_file(note);
    let folder = PathBuf::from(text.strip_suffix('\n')?);
    folder.is_dir().then_some(folder)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The number of a signal that an editor names.
fn number_of(signal: &str) -> Option<i32> {
    let known = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ABRT", 6),
        ("KILL", 9),
        ("SEGV", 11),
        ("PIPE", 13),
        ("TERM", 15),
    ];
    let name = signal.strip_prefix("SIG").unwrap_or(signal);
    let found = known.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, number)| *number)
        .or_else(|| signal.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_where_it_ended_whatever_the_folders_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("it's a \"folder\" $HOME");
        std::fs::create_dir(&odd).unwrap();
        let note = odd.join("note");
        let command = script("cd / && exit 3", Some(&note));
        let status = std::process::Command::new("sh")
            .args(["-c", &command])
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(where_it_ended(&note), Some(PathBuf::from("/")));
        assert!(!note.exists());
    }

    #[test]
    fn signals_have_numbers() {
        assert_eq!(number_of("SIGKILL"), Some(9));
        assert_eq!(number_of("TERM"), Some(15));
        assert_eq!(number_of("9"), Some(9));
        assert_eq!(number_of("SIGODD"), None);
    }
}
