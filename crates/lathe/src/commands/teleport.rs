//! `lathe teleport`: a session with its git state, moved between machines.

use super::{places, print, print_line};
use crate::error::{CliError, Kinded as _, Outcome};
use clap::{Args, Subcommand};
use lathe_session::{Scope, SessionStore};
use lathe_settings::Environment;
use lathe_teleport::{Pull, Pulled, Push, Secrets, SnapshotOptions, Target};
use serde_json::json;
use std::path::PathBuf;

// `lathe teleport`.
#[derive(Debug, Args)]
pub(crate) struct TeleportArguments {
    #[command(subcommand)]
    pub(crate) command: TeleportCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TeleportCommand {
    /// Send a session to a file, a git remote, or another machine.
    Push(PushArguments),
    /// Receive a session.
    Pull(PullArguments),
    /// List the sessions that were moved from this machine.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Note that a session went elsewhere. Used by a pull over ssh.
    #[command(hide = true)]
    Moved {
        /// The session.
        session: String,
        /// Where to.
        to: String,
    },
}

// `lathe teleport push`.
#[derive(Debug, Args)]
pub(crate) struct PushArguments {
    /// The session (an id, the beginning of one, or a title; the newest of this folder if absent), then the target: a
    /// file, git:REMOTE, or ssh://host/path.
    #[arg(required = true, num_args = 1..=2, value_names = ["SESSION", "TARGET"])]
    words: Vec<String>,
    /// Send a copy; the session also continues here.
    #[arg(long)]
    fork: bool,
    /// End the process that has the session open, even in the middle of a turn.
    #[arg(long)]
    interrupt: bool,
    /// Hide keys, tokens, passwords and mail addresses in the conversation.
    #[arg(long, conflicts_with = "with_secrets")]
    redact: bool,
    /// Include what looks like a secret.
    #[arg(long)]
    with_secrets: bool,
    /// Include the whole history, even commits that remotes have.
    #[arg(long)]
    whole_history: bool,
    /// The largest file to include.
    #[arg(long, value_name = "MB", default_value_t = 100)]
    max_file_mb: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

// `lathe teleport pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArguments {
    /// A file, git:REMOTE[#SESSION], or ssh://host/path[#SESSION].
    source: String,
    /// The repository's folder on this machine.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    into: PathBuf,
    /// Put the files into a new worktree, even if they would fit in place.
    #[arg(long)]
    worktree: bool,
    /// Receive the session as a copy with a new id.
    #[arg(long)]
    fork: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `lathe teleport`.
pub(crate) fn run(environment: Environment, command: TeleportCommand) -> Outcome {
    let places = places(environment);
    let store = SessionStore::new(&places.config_home);
    let folder = &places.environment.cwd;
    match command {
        TeleportCommand::Push(arguments) => push(&store, folder, arguments),
        TeleportCommand::Pull(arguments) => pull(&store, folder, &arguments),
        TeleportCommand::Status { json } => status(&store, json),
        TeleportCommand::Moved { session, to } => {
            lathe_teleport::mark_moved(&store, folder, &session, &to).or_failure()?;
            print("")
        }
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let uname = lathe_process::Command::new("uname").argument("-n");
    lathe_process::run_blocking(uname, Vec::new(), std::time::Duration::from_secs(5))
        .map(|finished| finished.stdout.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "another machine".to_owned())
}

fn push(store: &SessionStore, folder: &std::path::Path, mut arguments: PushArguments) -> Outcome {
    let target = arguments.words.pop().unwrap_or_default();
    let options = Push {
        session: arguments.words.pop(),
        target: Target::parse(&target).map_err(CliError::usage)?,
        fork: arguments.fork,
        interrupt: arguments.interrupt,
        secrets: match (arguments.redact, arguments.with_secrets) {
            (true, _) => Secrets::Redact,
            (false, true) => Secrets::Carry,
            (false, false) => Secrets::Refuse,
        },
        snapshot: SnapshotOptions {
            largest_file: arguments.max_file_mb,
            whole: arguments.whole_history,
        },
    };
    let pushed = lathe_teleport::push(store, folder, &host(), &options).or_failure()?;
    if options.target == Target::Standard {
        return print("");
    }
    if arguments.json {
        return print(&format!(
            "{}\n",
            json!({"session": pushed.session, "to": pushed.to, "bytes": pushed.bytes, "fork": options.fork,
                "leftOut": pushed.left_out, "withFiles": pushed.with_files})
        ));
    }
    let mut text = format!(
        "{} {} to {} ({} KB)\n",
        if options.fork { "copied" } else { "moved" },
        pushed.session,
        pushed.to,
        pushed.bytes.div_ceil(1024),
    );
    if !pushed.with_files {
        text.push_str(
            "the folder is not in a git repository: only the conversation was included\n",
        );
    }
    if !pushed.left_out.is_empty() {
        text.push_str(&format!(
            "omitted because of secrets: {} stored contents\n",
            pushed.left_out.len()
        ));
    }
    match (&pushed.answer, &options.target) {
        (Some(answer), _) => text.push_str(&format!("there: {answer}\n")),
        (None, Target::Git { .. }) => text.push_str(&format!(
            "on the other machine: lathe teleport pull {}#{}\n",
            pushed.to, pushed.session
        )),
        (None, _) => text.push_str(&format!(
            "on the other machine: lathe teleport pull {target}\n"
        )),
    }
    print(&text)
}

fn pull(store: &SessionStore, folder: &std::path::Path, arguments: &PullArguments) -> Outcome {
    let options = Pull {
        source: Target::parse(&arguments.source).map_err(CliError::usage)?,
        folder: folder.join(&arguments.into),
        worktree: arguments.worktree,
        fork: arguments.fork,
    };
    let pulled = lathe_teleport::pull(store, &host(), &options).or_failure()?;
    if arguments.json {
        return print(&format!(
            "{}\n",
            json!({"session": pulled.session, "title": pulled.title, "folder": pulled.folder, "branch": pulled.branch,
                "worktree": pulled.worktree, "from": pulled.from})
        ));
    }
    print_line(&arrived(&pulled))
}

fn arrived(pulled: &Pulled) -> String {
    let place = if pulled.worktree {
        " (a new worktree)"
    } else {
        ""
    };
    let branch = match &pulled.branch {
        Some(branch) => format!(", branch {branch}"),
        None => String::new(),
    };
    format!(
        "received {} from {} into {}{place}{branch}\ncontinue: cd {} && lathe --resume {}",
        pulled.session,
        pulled.from,
        pulled.folder.display(),
        pulled.folder.display(),
        pulled.session,
    )
}

fn status(store: &SessionStore, json: bool) -> Outcome {
    let sessions = store.list(Scope::Everywhere, None);
    let moved: Vec<_> = sessions
        .iter()
        .filter(|info| info.moved.is_some())
        .collect();
    if json {
        return print(&format!("{:#}\n", json!(moved)));
    }
    if moved.is_empty() {
        return print_line("no session was moved from this machine");
    }
    let mut text = String::new();
    for info in moved {
        text.push_str(&format!(
            "{}  {}  {}\n",
            info.id,
            info.moved.as_deref().unwrap_or_default(),
            info.title.as_deref().unwrap_or("(no title)")
        ));
    }
    print(&text)
}
