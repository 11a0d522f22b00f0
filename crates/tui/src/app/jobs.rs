//! Work in the background, and what it finds.

use crate::app::conversation::Picture;
use crate::commands::diff::changes::Changes;
use crate::prompt::completion;
use crate::prompt::completion::FileIndex;
use crate::prompt::history::History;
use crate::prompt::keymap::{self, Keymap};
use crate::terminal::graphics::Graphic;
use futures::FutureExt as _;
use lathe_engine::{
    LoadedSettings, OpenError, Opened, SessionHandle, SessionOptions, SettingsOptions, SwitchError,
    SwitchSource,
};
use lathe_extensions::plugins::{PluginError, Prepared};
use lathe_hooks::HelperError;
use lathe_protocol::ids::TaskId;
use lathe_protocol::record::{MessageRecord, Record, WaitingPrompt};
use lathe_session::{Loaded, SessionError, SessionInfo};
use lathe_settings::trust::Bring;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, LoadOptions, Places, trust_store};
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The message of a finished job to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    Done(String),
    Failed(String),
}

impl<E: Display> From<Result<String, E>> for Report {
    fn from(result: Result<String, E>) -> Self {
        match result {
            Ok(text) => Self::Done(text),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// The result of a background job.
pub(crate) enum JobResult {
    Settings {
        loaded: Arc<LoadedSettings>,
        keymap: Box<Keymap>,
        files: crate::app::watching::Contents,
        problems: Vec<String>,
    },
    Trust(Vec<Bring>),
    /// A session, and the conversation so far if it was resumed.
    Opened(Box<Result<(Opened, Earlier), OpenError>>),
    History(Vec<String>),
    Files(FileIndex),
    FileMatches {
        query: String,
        matches: Vec<String>,
    },
    /// The user's own command for files gave no answer.
    FileCommandFailed(String),
    Branch(Option<String>),
    Suggestion {
        question: u64,
        text: String,
    },
    /// The model was switched, or why not.
    ModelSwitched {
        wanted: String,
        source: SwitchSource,
        done: Result<String, SwitchError>,
    },
    /// A summary of the time the user was away.
    AwaySummary {
        question: u64,
        text: String,
    },
    /// The watcher of themes and key bindings runs.
    Watching(Box<crate::app::watching::Watching>),
    /// One of the watched files may have changed.
    FilesTouched,
    FilesRead(crate::app::watching::Contents),
    StatusLine(Result<String, HelperError>),
    ShellProgress(String),
    ShellFinished {
        command: String,
        output: String,
        exit_code: Option<i32>,
        failed: Option<String>,
    },
    Sessions {
        sessions: Vec<SessionInfo>,
        everywhere: bool,
    },
    /// The session that a name stands for, or why there is none.
    Resolved {
        wanted: String,
        result: Result<Box<SessionInfo>, SessionError>,
    },
    /// Files changed since the last commit, and by the session.
    Changes {
        commit: Changes,
        session: Changes,
    },
    /// Rules for commands that came again.
    Proposals(Vec<crate::commands::fewer_permission_prompts::Proposal>),
    /// The pull request of a branch, if there is one.
    PullRequest {
        branch: String,
        found: Option<serde_json::Value>,
    },
    /// A picture in the terminal's form; `None` if it can't be drawn.
    Picture {
        picture: Arc<Picture>,
        graphic: Option<Graphic>,
    },
    /// Which local model servers answer.
    LocalServers(Vec<(&'static str, u16)>),
    /// The providers, and where their keys come from.
    Providers(Vec<lathe_engine::models::ProviderKey>),
    /// A key was stored: what to say about it, or why it wasn't.
    KeyStored {
        provider: String,
        said: Result<String, lathe_engine::models::KeyStoreError>,
    },
    Diagnosis(Box<lathe_doctor::Diagnosis>),
    /// No MCP server is being connected any more.
    ServersSettled,
    /// Something was done with an MCP server.
    ServerChanged(Report),
    /// A task was stopped, or not.
    Stopped(Report),
    /// A plugin was fetched and waits for a user's yes.
    PluginReady(Result<Box<Prepared>, PluginError>),
    /// Something was done with plugins or marketplaces.
    PluginsChanged(Report),
    Prompts(Vec<(String, String, String)>),
    Rewound(Report),
    /// A command asks for what only the user may type.
    KeyboardWanted(TaskId),
    /// A program whose keyboard the user has printed something, or is over.
    KeyboardChanged,
    /// For the command that started the job.
    Command(crate::commands::results::CommandResult),
    /// Something to show, and nothing else to do.
    Reported(Report),
    /// The job panicked.
    Crashed,
}

impl JobResult {
    /// A text to show, or the error in its place.
    pub(crate) fn report<E: Display>(result: Result<String, E>) -> Self {
        Self::Reported(result.into())
    }
}

/// Starts jobs and receives their results.
pub(crate) struct Jobs {
    sender: mpsc::UnboundedSender<JobResult>,
    receiver: mpsc::UnboundedReceiver<JobResult>,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }

    pub(crate) fn sender(&self) -> mpsc::UnboundedSender<JobResult> {
        self.sender.clone()
    }

    /// The next thing that was found.
    pub(crate) async fn next(&mut self) -> JobResult {
        match self.receiver.recv().await {
            Some(found) => found,
            // We hold a sender ourselves.
            None => std::future::pending().await,
        }
    }

    /// The session that is being opened. None if that failed.
    pub(crate) async fn opened(&mut self) -> Option<SessionHandle> {
        loop {
            match self.next().await {
                JobResult::Opened(opened) => return opened.ok().map(|(opened, _)| opened.session),
                JobResult::Crashed => return None,
                _ => {}
            }
        }
    }

    /// Does something that takes time, off the loop.
    pub(crate) fn blocking(&self, work: impl FnOnce() -> Option<JobResult> + Send + 'static) {
        let sender = self.sender();
        lathe_spawn::blocking(move || {
            let found = std::panic::catch_unwind(AssertUnwindSafe(work));
            if let Some(found) = found.unwrap_or(Some(JobResult::Crashed)) {
                let _ = sender.send(found);
            }
        });
    }

    /// Does something that waits.
    pub(crate) fn task(&self, work: impl Future<Output = Option<JobResult>> + Send + 'static) {
        let sender = self.sender();
        lathe_spawn::task(async move {
            let found = AssertUnwindSafe(work).catch_unwind().await;
            if let Some(found) = found.unwrap_or(Some(JobResult::Crashed)) {
                let _ = sender.send(found);
            }
        });
    }

    /// Reads settings and key bindings.
    pub(crate) fn settings(&self, places: &Places, options: &SessionOptions) {
        let read = settings(places, options);
        self.blocking(move || Some(read()));
    }

    /// Reads settings and key bindings, and then lists what in the folder needs the user's trust: the
    /// session that is opened after that uses these settings.
    pub(crate) fn start(&self, places: &Places, options: &SessionOptions) {
        let read = settings(places, options);
        let named = options.settings.sources.is_some();
        let places = places.clone();
        let sender = self.sender();
        self.blocking(move || {
            let _ = sender.send(read());
            let store = TrustStore::new(&places);
            let brings = if named || store.entry(&places.project).is_some() {
                Vec::new()
            } else {
                trust_store::brings(&places)
            };
            Some(JobResult::Trust(brings))
        });
    }

    pub(crate) fn history(&self, place: (PathBuf, String)) {
        self.blocking(move || Some(JobResult::History(History::read(&place.0, &place.1))));
    }

    pub(crate) fn branch(&self, folder: &Path) {
        let folder = folder.to_owned();
        self.blocking(move || Some(JobResult::Branch(lathe_engine::prompt::git_branch(&folder))));
    }

    pub(crate) fn index(&self, folder: &Path, respect_gitignore: bool) {
        let folder = folder.to_owned();
        self.blocking(move || {
            Some(JobResult::Files(
                lathe_tools::project_files(&folder, respect_gitignore).into(),
            ))
        });
    }

    pub(crate) fn find_files(&self, index: FileIndex, query: String) {
        self.blocking(move || {
            let matches = completion::find_files(&index, &query, 50);
            Some(JobResult::FileMatches { query, matches })
        });
    }
}

/// The work of reading settings and key bindings.
/// How settings are loaded for a session with these options.
pub(crate) fn load_options(places: &Places, options: &SettingsOptions) -> LoadOptions {
    let sources = options.sources.clone();
    LoadOptions {
        flags: options.flags.clone(),
        managed_flags: options.managed.clone(),
        trust: TrustStore::new(places).headless_trust(&places.project, sources.as_deref()),
        sources,
    }
}

fn settings(places: &Places, options: &SessionOptions) -> impl FnOnce() -> JobResult + use<> {
    let places = places.clone();
    let settings = options.settings.clone();
    move || {
        let options = load_options(&places, &settings);
        let resolved = lathe_settings::load(&places, &options);
        // Read before they are parsed: later changes are noticed by comparing with these.
        let files = crate::app::watching::contents(&places.config_home);
        let (keymap, problems) = Keymap::load(&keymap::files(&places));
        JobResult::Settings {
            loaded: Arc::new(LoadedSettings {
                project: places.project,
                options,
                resolved,
            }),
            keymap: Box::new(keymap),
            files,
            problems,
        }
    }
}

/// Opens a session, and reads its conversation if it is resumed: before anything new can be
/// said in it, so that what was said before stands above.
pub(crate) async fn open(
    environment: Environment,
    options: SessionOptions,
) -> Result<(Opened, Earlier), OpenError> {
    let mut opened = Box::pin(lathe_engine::open(environment, options)).await?;
    let earlier = match opened.history.take() {
        Some(history) => lathe_spawn::blocking(move || conversation(history))
            .await
            .unwrap_or_default(),
        None => Earlier::default(),
    };
    Ok((opened, earlier))
}

/// The messages and waiting prompts of a resumed session.
#[derive(Default)]
pub(crate) struct Earlier {
    /// Its messages.
    pub(crate) records: Vec<MessageRecord>,
    /// The prompts that waited when it ended.
    pub(crate) waiting: Vec<WaitingPrompt>,
}

fn conversation(history: Loaded) -> Earlier {
    let waiting = history.facts.waiting.clone().unwrap_or_default();
    let Ok(loaded) = history.whole() else {
        return Earlier {
            waiting,
            ..Earlier::default()
        };
    };
    let records = loaded
        .history()
        .into_iter()
        .filter_map(|record| match &*record {
            Record::Message(message) if !message.is_sidechain => Some((**message).clone()),
            _ => None,
        })
        .collect();
    Earlier { records, waiting }
}
