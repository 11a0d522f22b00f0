//! `lathe suggest`: the words for a commit or a pull request, by the small model.

use super::print;
use crate::complain;
use clap::{Args, Subcommand};
use lathe_engine::{Change, ChangeTextError, OpenError, SessionOptions, change_text};
use lathe_headless::exit::Exit;
use lathe_settings::Environment;

/// `lathe suggest`.
#[derive(Debug, Args)]
pub(crate) struct SuggestArguments {
    #[command(subcommand)]
    command: SuggestCommand,
}

/// What words are wanted for.
#[derive(Debug, Subcommand)]
pub(crate) enum SuggestCommand {
    /// A message for a commit of what is staged, or of everything that changed where nothing is.
    Commit,
    /// A title and a description for a pull request of the present branch.
    Pr {
        /// The branch that it goes to; found from the remote if absent.
        #[arg(long, value_name = "BRANCH")]
        base: Option<String>,
    },
}

/// `lathe suggest`.
pub(crate) async fn run(mut environment: Environment, arguments: SuggestArguments) -> Exit {
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    let change = match arguments.command {
        SuggestCommand::Commit => Change::Commit,
        SuggestCommand::Pr { base } => Change::PullRequest { base },
    };
    let options = SessionOptions {
        persist: false,
        ..SessionOptions::default()
    };
    match change_text(environment, options, change).await {
        Ok(text) => print(&text),
        Err(error) => {
            complain(&error.to_string());
            match error {
                ChangeTextError::Open(OpenError::NoCredentials) => Exit::NoCredentials,
                _ => Exit::Failure,
            }
        }
    }
}
