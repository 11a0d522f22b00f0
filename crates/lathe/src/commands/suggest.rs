//! `lathe suggest`: a message for a commit or a pull request, written by the small model.

use super::print;
use crate::error::{CliError, Outcome};
use clap::{Args, Subcommand};
use lathe_engine::{
    Change, ChangeTextError, HistoryOptions, OpenError, SessionOptions, change_text,
};
use lathe_settings::Environment;

// `lathe suggest`.
#[derive(Debug, Args)]
pub(crate) struct SuggestArguments {
    #[command(subcommand)]
    command: SuggestCommand,
}

// The text to write.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SuggestCommand {
    /// A commit message for the staged changes, or for all changes if none are staged.
    Commit,
    /// A title and a description for a pull request of the current branch.
    Pr {
        /// The base branch; determined from the remote if absent.
        #[arg(long, value_name = "BRANCH")]
        base: Option<String>,
    },
}

/// `lathe suggest`.
pub(crate) async fn run(mut environment: Environment, arguments: SuggestArguments) -> Outcome {
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    let change = match arguments.command {
        SuggestCommand::Commit => Change::Commit,
        SuggestCommand::Pr { base } => Change::PullRequest { base },
    };
    let options = SessionOptions {
        history: HistoryOptions::ephemeral(),
        ..SessionOptions::default()
    };
    let text = change_text(environment, options, change)
        .await
        .map_err(|error| match error {
            ChangeTextError::Open(OpenError::NoCredentials) => CliError::no_credentials(error),
            _ => CliError::failure(error),
        })?;
    print(&text)
}
