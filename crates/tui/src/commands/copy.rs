//! `/copy` copies the last answer to the clipboard.

use crate::app::App;
use crate::app::notices::{Notice, Priority};
use lathe_process::{Command, Job};
use lathe_settings::Environment;
use std::time::Duration;

/// How long a program may take to fill the clipboard.
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn run(app: &mut App) {
    match app.conversation.last_answer().map(str::to_owned) {
        Some(text) => {
            app.screen.pending.push_str(&clipboard_sequence(&text));
            fill_clipboard(app, &text);
            let words = "Copied the last answer.";
            let notice = Notice::new("copied", Priority::Immediate, words);
            app.alarms.notices.add(notice);
        }
        None => app.warn("No answer to copy yet."),
    }
}

/// The sequence that puts a text into the clipboard of the terminal (OSC 52), also over ssh.
pub(crate) fn clipboard_sequence(text: &str) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    format!("\x1b]52;c;{encoded}\x07")
}

/// Gives a text to the program that fills the clipboard of this machine: many terminals ignore the sequence.
pub(crate) fn fill_clipboard(app: &App, text: &str) {
    let Some(command) = program(&app.places.environment) else {
        return;
    };
    let mut job = Job::new(command, LIMIT);
    job.stdin = text.as_bytes().to_vec();
    app.jobs.task(async move {
        // Without the program the terminal's own way is all there is.
        let _ = lathe_process::run(job).await;
        None
    });
}

/// The program that fills the clipboard here; none over ssh, where the clipboard is on another machine.
fn program(environment: &Environment) -> Option<Command> {
    let is_set = |name: &str| environment.foreign(name).is_some();
    if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
        None
    } else if cfg!(target_os = "macos") {
        Some(Command::new("pbcopy"))
    } else if is_set("WAYLAND_DISPLAY") {
        Some(Command::new("wl-copy"))
    } else if is_set("DISPLAY") {
        Some(Command::new("xclip").arguments(["-selection", "clipboard"]))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_clipboard_is_filled_by_the_program_of_the_display() {
        let name = |variables: &[(&str, &str)]| {
            let variables = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let command = program(&Environment::of_variables(variables))?;
            command.program().to_str().map(str::to_owned)
        };
        assert_eq!(name(&[("DISPLAY", ":0")]).as_deref(), Some("xclip"));
        let wayland = [("DISPLAY", ":0"), ("WAYLAND_DISPLAY", "wayland-0")];
        assert_eq!(name(&wayland).as_deref(), Some("wl-copy"));
        assert_eq!(name(&[("DISPLAY", ":0"), ("SSH_TTY", "/dev/pts/1")]), None);
        assert_eq!(name(&[]), None);
    }
}
