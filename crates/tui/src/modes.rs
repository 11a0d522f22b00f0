//! The prompt's other modes: `!` runs a shell command, `#` remembers something.

use crate::app::App;
use crate::cell::Cell;
use crate::dialog::{Dialog, Item, Picker, Purpose};
use crate::jobs::Found;
use crate::style::Line;
use lathe_protocol::op::{Op, Prompt};

impl App {
    /// Runs the person's shell command.
    pub(crate) fn run_shell(&mut self, command: &str) {
        let Some(session) = &self.session else {
            self.wait_with(crate::commands::SHELL, command);
            return;
        };
        if self.shell_run.is_some() {
            self.warn("A shell command runs already; esc stops it.");
            return;
        }
        let shell = session.tasks().shell();
        let cancel = tokio_util::sync::CancellationToken::new();
        self.shell_run = Some(crate::app::ShellRun {
            command: command.to_owned(),
            tail: String::new(),
            cancel: cancel.clone(),
        });
        let command = command.to_owned();
        let sender = self.jobs.sender();
        let progress = self.jobs.sender();
        lathe_spawn::task(async move {
            let options = lathe_shell::run::RunOptions {
                timeout: std::time::Duration::from_secs(600),
                cancel,
                progress: Some(std::sync::Arc::new(
                    move |so_far: lathe_shell::run::Progress| {
                        let _ = progress.send(Found::ShellProgress(so_far.last_lines));
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
                    Found::ShellFinished {
                        command,
                        output: finished.output.text,
                        exit_code,
                        failed: None,
                    }
                }
                Err(error) => Found::ShellFinished {
                    command,
                    output: String::new(),
                    exit_code: None,
                    failed: Some(error.to_string()),
                },
            };
            let _ = sender.send(found);
        });
    }

    pub(crate) fn shell_finished(
        &mut self,
        command: &str,
        output: String,
        exit_code: Option<i32>,
        failed: Option<String>,
    ) {
        self.shell_run = None;
        if let Some(error) = failed {
            self.warn(error);
            return;
        }
        let told = told(command, &output, exit_code);
        let cell = Cell::Shell {
            command: command.to_owned(),
            output,
            exit_code,
        };
        self.with_look(|conversation, look| conversation.push(cell, look));
        let mut prompt = Prompt::new(told);
        prompt.context_only = true;
        self.own_context.insert(prompt.uuid);
        self.send(Op::Prompt(prompt));
    }

    pub(crate) fn ask_memory(&mut self, text: &str) {
        let project = &self.places.project;
        let existing = ["AGENTS.md", "CLAUDE.md"]
            .iter()
            .find(|name| project.join(name).is_file())
            .unwrap_or(&"AGENTS.md");
        let user = self.user_memory();
        let items = vec![
            Item::new(
                project.join(existing).display().to_string(),
                "For this project",
                format!("{existing}, shared with everybody"),
            ),
            Item::new(
                user.display().to_string(),
                "For all your projects",
                user.display().to_string(),
            ),
        ];
        let picker = Picker::new(
            Purpose::Memory {
                text: text.to_owned(),
            },
            "Where should this be remembered?",
            items,
        )
        .explained(vec![Line::plain(format!("  {text}"))]);
        self.dialog = Some(Dialog::Picker(picker));
    }

    fn user_memory(&self) -> std::path::PathBuf {
        let home = &self.places.config_home;
        ["AGENTS.md", "LATHE.md", "CLAUDE.md"]
            .iter()
            .map(|name| home.join(name))
            .find(|path| path.is_file())
            .unwrap_or_else(|| home.join("AGENTS.md"))
    }

    pub(crate) fn remember(&mut self, text: &str, file: &str) {
        let path = std::path::Path::new(file);
        let before = std::fs::read_to_string(path).unwrap_or_default();
        let gap = if before.is_empty() || before.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let result = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(path, format!("{before}{gap}- {text}\n")));
        match result {
            Ok(()) => {
                self.remark(format!("remembered in {}", path.display()));
                let mut prompt = Prompt::new(format!(
                    "The user asked to remember this, and it was added to {}: {text}",
                    path.display()
                ));
                prompt.context_only = true;
                prompt.is_meta = true;
                self.own_context.insert(prompt.uuid);
                self.send(Op::Prompt(prompt));
            }
            Err(error) => self.warn(format!("{} can't be written: {error}", path.display())),
        }
    }
}

/// What the model hears of a shell command that the person ran.
fn told(command: &str, output: &str, exit_code: Option<i32>) -> String {
    let mut told = format!(
        "{TOLD}<bash-input>{command}</bash-input>\n<bash-output>{}</bash-output>",
        crate::text::terminal_lines(output).join("\n")
    );
    if let Some(code) = exit_code.filter(|code| *code != 0) {
        told.push_str(&format!("\n<exit-code>{code}</exit-code>"));
    }
    told
}

const TOLD: &str = "The user ran a shell command.\n";

/// The shell command that the model was told of, for a conversation that is taken up again.
pub(crate) fn shell_told(text: &str) -> Option<Cell> {
    let rest = text.strip_prefix(TOLD)?.strip_prefix("<bash-input>")?;
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
    fn a_shell_command_is_told_and_found_again() {
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
                shell_told(&told("ls; exit", output, exit_code)),
                Some(expected)
            );
        }
        assert_eq!(shell_told("The user ran a shell command."), None);
    }
}
