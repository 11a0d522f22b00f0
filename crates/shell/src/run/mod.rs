//! Running shell commands so that each one comes back, and nothing of it stays.
//!
//! The promise, for any command whatsoever: the call returns by its limit; what is kept of the
//! output is bounded in memory; and when it has returned, every process that the command started is
//! gone, whether it ignored SIGTERM, left the group, made a session of its own, closed its
//! descriptors or still holds the output open. The one exception is asked for: a command in the
//! background runs on until it ends, is stopped, or this process leaves.
//!
//! | module | its part |
//! |---|---|
//! | `session` | what stays between commands: folder, environment, background commands |
//! | `program` | which shell, and the few lines around a command |
//! | `sandboxed` | a command in the sandbox |
//! | `supervise` | the life of one command, from start to nothing left |
//! | `capture` | bounded output |
//! | `background` | commands that run on |
//! | `terminal` | commands on a terminal, that ask and are answered |
//! | `snapshot` | what the user's start-up files define |
//! | `exit_code` | what exit codes mean |
//!
//! Starting a process and finding everything that it started is the `lathe-process` crate.
//!
//! Start with [`ShellSession::run`].

mod background;
mod capture;
mod exit_code;
mod program;
mod sandboxed;
mod session;
mod snapshot;
mod supervise;
mod terminal;

pub use background::{
    BackgroundCommand, BackgroundCommands, BackgroundError, BackgroundEvent, BackgroundStatus,
    NewOutput,
};
pub use exit_code::{ExitMeaning, explain_exit};
pub use lathe_process::kill_everything;
pub use program::ShellProgram;
pub use sandboxed::{RefusedHosts, SandboxedNetwork, SandboxedRun};
pub use session::ShellSession;
pub use terminal::{
    Asked, InteractiveCommand, Keyboard, Prompt, PromptLine, Screen, ScreenText, Settled,
    TerminalError, TerminalKey, Terminals, UnknownKey,
};

use lathe_protocol::ids::{TaskId, ToolUseId};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Says whether a folder may become the working folder.
pub type DirectoryCheck = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Takes progress; called at most ten times a second.
pub type ProgressCallback = Arc<dyn Fn(Progress) + Send + Sync>;

/// How a session's shell is set up.
#[derive(Clone)]
pub struct ShellOptions {
    /// Where it starts.
    pub directory: PathBuf,
    /// Where background commands' output goes.
    pub output_folder: PathBuf,
    /// Which folders a `cd` may end in; `None` is any.
    pub directory_allowed: Option<DirectoryCheck>,
    /// The shell; `None` finds one.
    pub shell: Option<PathBuf>,
    /// Whether to take over what the user's start-up files define.
    pub snapshot: bool,
    /// The environment to start from; `None` is that of this process.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// Says whether a variable holds a secret, by its name. A command that runs without a question doesn't get those.
    pub is_secret: Option<fn(&str) -> bool>,
    /// How long a command has between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
}

impl ShellOptions {
    /// The usual set-up for a folder.
    pub fn new(directory: impl Into<PathBuf>, output_folder: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            output_folder: output_folder.into(),
            directory_allowed: None,
            shell: None,
            snapshot: true,
            environment: None,
            is_secret: None,
            kill_grace: Duration::from_secs(1),
        }
    }
}

/// How to run one command.
#[derive(Clone)]
pub struct RunOptions {
    /// How long it may take.
    pub timeout: Duration,
    /// The consequence.
    pub on_timeout: OnTimeout,
    /// Ends it when cancelled.
    pub cancel: CancellationToken,
    /// Moves it into the background when cancelled.
    pub to_background: CancellationToken,
    /// Where to run it; `None` is the session's folder, which it may then move.
    pub directory: Option<PathBuf>,
    /// Which folders a `cd` may end in; `None` is the session's answer.
    pub directory_allowed: Option<DirectoryCheck>,
    /// Variables for this command alone.
    pub environment: Vec<(OsString, OsString)>,
    /// Words before the shell: a program that runs it in a sandbox.
    pub prefix: Vec<OsString>,
    /// The sandbox that it runs in; `None` runs it outside.
    pub sandbox: Option<Arc<SandboxedRun>>,
    /// The confinement of a command that was found to only read; `None` for no confinement.
    pub confinement: Option<Arc<lathe_sandbox::ReadOnlyPolicy>>,
    /// How many bytes of output are kept in memory, half of it head and half tail.
    pub output_limit: usize,
    /// Where all of the output goes when it is more than that. The file must not exist.
    pub spill: Option<PathBuf>,
    /// The most that is written there.
    pub spill_limit: u64,
    /// Takes progress.
    pub progress: Option<ProgressCallback>,
    /// Its purpose in a few words, shown when it goes into the background.
    pub description: String,
    /// The call that it is for.
    pub tool_use_id: Option<ToolUseId>,
    /// It serves the session itself (a plugin's monitor) and is not told as work in the background.
    pub is_service: bool,
    /// The screen of the terminal that it runs on; `None` gives it no terminal and no input.
    pub screen: Option<Arc<Screen>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            on_timeout: OnTimeout::Kill,
            cancel: CancellationToken::new(),
            to_background: CancellationToken::new(),
            directory: None,
            directory_allowed: None,
            environment: Vec::new(),
            prefix: Vec::new(),
            sandbox: None,
            confinement: None,
            output_limit: 30_000,
            spill: None,
            spill_limit: 256 * 1024 * 1024,
            progress: None,
            description: String::new(),
            tool_use_id: None,
            is_service: false,
            screen: None,
        }
    }
}

/// The action at the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// The command is ended.
    Kill,
    /// It continues in the background.
    MoveToBackground,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that didn't come from here.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// It hasn't: it continues in the background under this name.
    MovedToBackground(TaskId),
}

/// The output of a command, standard output and standard error in the order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Head and tail, with a note between them where something is left out.
    pub text: String,
    /// How many bytes there were.
    pub total_bytes: u64,
    /// How many bytes the text leaves out.
    pub omitted_bytes: u64,
    /// The file with all of it, if one was needed.
    pub file: Option<PathBuf>,
    /// Whether even the file reached its limit.
    pub file_truncated: bool,
}

/// The change of the working folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryChange {
    /// It is where it was.
    None(PathBuf),
    /// The command moved it.
    Moved(PathBuf),
    /// The command moved it to where it may not be; it is back.
    Undone {
        /// Where it may not be.
        refused: PathBuf,
        /// Where it is.
        now: PathBuf,
    },
    /// It no longer exists.
    Lost {
        /// The folder that no longer exists.
        gone: PathBuf,
        /// Where it is now.
        now: PathBuf,
    },
}

impl DirectoryChange {
    /// The working folder after the command.
    #[must_use]
    pub fn now(&self) -> &Path {
        match self {
            Self::None(now)
            | Self::Moved(now)
            | Self::Undone { now, .. }
            | Self::Lost { now, .. } => now,
        }
    }
}

/// The result of a finished command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The access that the confinement refused, if that made it fail.
    pub blocked: Option<lathe_sandbox::Block>,
    /// The sandbox's refusals, if the command failed in it.
    pub violations: Vec<lathe_sandbox::Violation>,
    /// How it ended.
    pub exit: Exit,
    /// Its output.
    pub output: Output,
    /// The change of the working folder.
    pub directory: DirectoryChange,
    /// Processes that outlived the shell (`server &`) and were ended.
    pub leftovers: Vec<String>,
    /// How long it took.
    pub duration: Duration,
}

/// Progress of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The last lines it printed.
    pub last_lines: String,
    /// How many bytes it printed.
    pub total_bytes: u64,
    /// How long it has run.
    pub elapsed: Duration,
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no shell.
    #[error(
        "no shell was found: neither $SHELL nor bash nor sh can be run; install bash or set SHELL to its path"
    )]
    NoShell,
    /// The command can't be an argument.
    #[error("the command contains a NUL character, which no shell accepts; remove it")]
    NulInCommand,
    /// The working folder is gone, and so is every other choice.
    #[error("the working folder {} doesn't exist, and neither does the folder that the session began in; create one of them", .directory.display())]
    NoDirectory {
        /// The folder that no longer exists.
        directory: PathBuf,
    },
    /// The command can't be confined to reading.
    #[error("the command was not run, because it can't be confined to reading: {source}")]
    Confinement {
        /// Why not.
        source: lathe_sandbox::ConfinementError,
    },
    /// The command can't be run in the sandbox.
    #[error("the command was not run, because the sandbox could not be set up: {source}")]
    Sandbox {
        /// Why not.
        source: lathe_sandbox::SandboxError,
    },
    /// The process could not be started.
    #[error("{} could not be started: {source}", .program.display())]
    Start {
        /// The shell.
        program: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A very long command could not be handed over.
    #[error(
        "the command is too long for an argument, and a temporary file for it could not be written: {source}"
    )]
    LongCommand {
        /// Why not.
        source: std::io::Error,
    },
    /// The output file of a background command could not be made.
    #[error(
        "the output file of the background command could not be written, so the command was ended: {reason}"
    )]
    OutputFile {
        /// Which, and why not.
        reason: String,
    },
    /// It can't have a terminal.
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    /// The program is on its way out.
    #[error("the program is shutting down; the command was ended")]
    ShuttingDown,
}
