//! Why a command is refused or failed. The user reads the text.

use lathe_protocol::command::BuiltinCommand;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{command} takes nothing after its name, so {arguments:?} was not understood.")]
    UnexpectedArguments {
        command: BuiltinCommand,
        arguments: String,
    },
    #[error("{command} needs a terminal.{}{instead}", if instead.is_empty() { "" } else { " " })]
    NeedsTerminal {
        command: BuiltinCommand,
        /// The way without a terminal, as a sentence; empty if there is none.
        instead: &'static str,
    },
    #[error("{command}: which {what}?")]
    MissingArgument {
        command: BuiltinCommand,
        what: &'static str,
    },
    #[error("/loop needs a session that stays open: the terminal, or an SDK host.")]
    SessionEnds,
    #[error("/goal needs a session that stays open; in print mode, start with --goal.")]
    GoalInPrint,
    #[error("/code-review needs a session that stays open; without one, run `lathe review`.")]
    ReviewInPrint,
    #[error(
        "/code-review: {0:?} was not understood. It takes --base REF, --commit SHA, --uncommitted, a pull request, paths, low, medium or high, and --fix."
    )]
    ReviewUsage(String),
    #[error(
        "/workflows takes nothing, or watch, pause, resume, stop or save and a run; save may have a name."
    )]
    WorkflowsUsage,
    #[error("/loops takes nothing, or pause, resume or delete and an id.")]
    LoopsUsage,
    #[error(transparent)]
    Schedule(#[from] lathe_tools::schedule::ScheduleError),
    #[error("/tag: which tag? One word.")]
    NoTag,
    /// Names the commands that may have been meant.
    #[error("{0}")]
    UnknownCommand(String),
    #[error(
        "/effort: {word:?} is neither low, medium, high, xhigh or max nor a number of tokens; also: off, default"
    )]
    UnknownEffort { word: String },
    #[error("There is no setting {key}{}", near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    UnknownSetting { key: String, near: Option<String> },
    #[error("{key} is not set.")]
    NotSet { key: String },
    #[error("{}: {source}", path.display())]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a folder.", path.display())]
    NotAFolder { path: PathBuf },
    #[error("{} is outside the folders of this session; /add-dir allows it.", path.display())]
    OutsideRoots { path: PathBuf },
    #[error(transparent)]
    Git(#[from] lathe_engine::context::git::GitError),
    #[error("There is nothing to export yet.")]
    NothingToExport,
    #[error("{} can't be written: {source}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Transcript(#[from] lathe_session::SessionError),
    /// An error that the session reports, as text.
    #[error("{0}")]
    Session(String),
}

impl CommandError {
    /// An error of the session.
    pub(crate) fn session(error: impl std::fmt::Display) -> Self {
        Self::Session(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_needs_a_terminal_names_the_alternative_if_there_is_one() {
        let text = |command, instead| CommandError::NeedsTerminal { command, instead }.to_string();
        assert_eq!(text(BuiltinCommand::Copy, ""), "/copy needs a terminal.");
        assert_eq!(
            text(BuiltinCommand::Resume, "Start with --resume instead."),
            "/resume needs a terminal. Start with --resume instead."
        );
    }
}
