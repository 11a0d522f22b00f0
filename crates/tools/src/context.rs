//! The parts of a session that a tool may use.

use crate::editor::Editor;
use crate::file_cache::FileCache;
use crate::host::SessionHost;
use crate::task_store::TaskStore;
use crate::tool::ToolError;
use lathe_protocol::display::{Display, TodoItem};
use lathe_protocol::ids::{RecordId, SessionId, ToolUseId};
use lathe_session::SessionError;
use lathe_settings::Environment;
use lathe_shell::run::{ShellOptions, ShellSession};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The session-wide part of a tool's surroundings. One per conversation: a sub-agent has its own.
pub struct ToolContext {
    /// The session.
    pub session_id: SessionId,
    /// The user's home folder, for `~`.
    pub home: PathBuf,
    /// Where results that are too large for the model are written. Created on first use.
    pub results_folder: PathBuf,
    /// The folders that may be worked in; the first is where the session started.
    pub roots: RwLock<Vec<PathBuf>>,
    /// The working folder; shell commands move it.
    pub working_folder: RwLock<PathBuf>,
    /// Runs shell commands; knows the background ones.
    pub shell: Arc<ShellSession>,
    /// The files that were read, and which parts.
    pub file_cache: Arc<FileCache>,
    /// The task list.
    pub todos: Mutex<Vec<TodoItem>>,
    /// The newer task list, shared by the agents of a session.
    pub tasks: Arc<TaskStore>,
    host: RwLock<Option<Arc<dyn SessionHost>>>,
    /// Told of every file before it is changed, so that the change can be undone.
    pub change_observer: Arc<dyn ChangeObserver>,
    /// Says which files' contents may not be read without the user's word.
    pub secrets: SecretCheck,
    /// The environment of the session.
    pub environment: Arc<Environment>,
    /// How programs of the session are confined.
    pub programs: Programs,
    /// The editor that runs the session, if it lends its buffers or terminals.
    pub editor: Option<Arc<dyn Editor>>,
}

/// How programs of a session are confined.
#[derive(Clone, Default)]
pub struct Programs {
    /// The sandbox of the session, if the program can make one.
    pub sandbox: Option<Arc<lathe_sandbox::Sandbox>>,
    /// Puts programs other than commands there: servers, hooks.
    pub confine: Option<lathe_process::Confine>,
}

/// Told of every file before a tool changes it.
pub trait ChangeObserver: Send + Sync {
    /// The file at `path` (which may not exist yet) is about to change in the given turn.
    ///
    /// # Errors
    /// When its present content can't be kept; the change must then not be made.
    fn before_change(&self, path: &Path, turn: RecordId) -> Result<(), SessionError>;

    /// The file at `path` was changed by this session; its new content is on disk.
    fn after_change(&self, path: &Path, turn: RecordId);
}

/// Keeps nothing: for sessions without undo.
pub struct NoChangeObserver;

impl ChangeObserver for NoChangeObserver {
    fn before_change(&self, _path: &Path, _turn: RecordId) -> Result<(), SessionError> {
        Ok(())
    }

    fn after_change(&self, _path: &Path, _turn: RecordId) {}
}

/// One call's surroundings.
#[derive(Clone)]
pub struct CallContext {
    /// The session-wide part.
    pub session: Arc<ToolContext>,
    /// The call.
    pub tool_use_id: ToolUseId,
    /// The user record whose turn it is.
    pub turn: RecordId,
    /// Cancelled when the call must stop.
    pub cancel: CancellationToken,
    /// Cancelled when the call should continue in the background (only a running command can).
    pub to_background: CancellationToken,
    /// Takes what to show meanwhile.
    pub progress: ProgressSink,
    /// The sandbox that a command runs in; `None` runs it outside.
    pub sandbox: Option<Arc<lathe_shell::run::SandboxedRun>>,
    /// The confinement of a command that was allowed as read-only.
    pub confinement: Option<Arc<lathe_sandbox::ReadOnlyPolicy>>,
}

/// Takes what to show while a call runs.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(Display) + Send + Sync>);

impl ProgressSink {
    /// A sink that calls a function.
    pub fn new(function: impl Fn(Display) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// A sink that shows nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    /// Shows something.
    pub fn show(&self, display: Display) {
        (self.0)(display);
    }
}

/// Says of a file whether its content may not be read without the user's word.
pub type SecretCheck = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

impl ToolContext {
    /// The surroundings of a conversation that starts in `working_folder`. `roots` holds real paths.
    #[must_use]
    pub fn new(
        session_id: SessionId,
        home: PathBuf,
        working_folder: PathBuf,
        roots: Vec<PathBuf>,
        results_folder: PathBuf,
        secrets: SecretCheck,
        variables: BTreeMap<String, String>,
    ) -> Self {
        let options = ShellOptions {
            environment: Some(
                variables
                    .iter()
                    .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                    .collect(),
            ),
            is_secret: Some(lathe_settings::environment::looks_secret),
            ..ShellOptions::new(&working_folder, &results_folder)
        };
        let shell = ShellSession::new(options);
        shell.withhold(lathe_settings::environment::secret_names().map(OsString::from));
        let environment = Environment {
            variables,
            home: Some(home.clone()),
            cwd: working_folder.clone(),
            ..Environment::default()
        };
        Self {
            session_id,
            home,
            results_folder,
            roots: RwLock::new(roots),
            working_folder: RwLock::new(working_folder),
            shell: Arc::new(shell),
            file_cache: Arc::new(FileCache::new()),
            todos: Mutex::default(),
            tasks: Arc::default(),
            host: RwLock::default(),
            change_observer: Arc::new(NoChangeObserver),
            secrets,
            environment: Arc::new(environment),
            programs: Programs::default(),
            editor: None,
        }
    }

    /// The surroundings of a sub-agent: its own working folder, memory of files and to-do list; the
    /// same shell environment, background commands, task list and undo.
    #[must_use]
    pub fn for_agent(&self, working_folder: PathBuf, roots: Vec<PathBuf>) -> Self {
        Self {
            session_id: self.session_id,
            home: self.home.clone(),
            results_folder: self.results_folder.clone(),
            roots: RwLock::new(roots),
            shell: Arc::new(self.shell.sibling(working_folder.clone())),
            working_folder: RwLock::new(working_folder),
            file_cache: Arc::new(self.file_cache.for_agent()),
            todos: Mutex::default(),
            tasks: Arc::clone(&self.tasks),
            programs: self.programs.clone(),
            editor: self.editor.clone(),
            host: RwLock::default(),
            change_observer: Arc::clone(&self.change_observer),
            secrets: Arc::clone(&self.secrets),
            environment: Arc::clone(&self.environment),
        }
    }

    /// Says which session this is.
    pub fn set_host(&self, host: Arc<dyn SessionHost>) {
        *self.host.write() = Some(host);
    }

    /// The session, where there is one.
    #[must_use]
    pub fn host(&self) -> Option<Arc<dyn SessionHost>> {
        self.host.read().clone()
    }

    /// The session.
    ///
    /// # Errors
    /// When there is none: the tool can't work here.
    pub fn needs_host(&self, tool: &str) -> Result<Arc<dyn SessionHost>, ToolError> {
        self.host()
            .ok_or_else(|| ToolError::failed(format!("{tool} can't be used in this conversation.")))
    }

    /// Makes a path as a model writes it absolute: `~` is the home folder, anything relative hangs
    /// off the working folder, `.` and `..` are folded. Symlinks are not followed here.
    #[must_use]
    pub fn resolve_path(&self, written: &str) -> PathBuf {
        let written = written.trim();
        let path = match written.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => self.home.join(rest.trim_start_matches('/')),
            _ => self.working_folder.read().join(written),
        };
        fold(&path)
    }

    /// The path as the user would write it: relative to the working folder where it lies inside.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        let working_folder = self.working_folder.read();
        match path.strip_prefix(&*working_folder) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }
}

/// Folds `.` and `..` without asking the file system.
fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !folded.pop() && !folded.has_root() {
                    folded.push(component);
                }
            }
            other => folded.push(other),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_folded_without_the_file_system() {
        assert_eq!(fold(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(fold(Path::new("/../a")), Path::new("/a"));
    }
}
