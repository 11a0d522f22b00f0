//! The shell of a session: what stays from one command to the next.

use super::background::{Adoption, BackgroundCommands};
use super::capture::Spill;
use super::program::{CommandText, ShellProgram};
use super::sandboxed;
use super::snapshot::{self, SnapshotState};
use super::supervise::{self, Grace, Outcome, StopCause, Supervised, Watch};
use super::terminal::{InteractiveCommand, Screen, Terminals, USUAL_SIZE};
use super::{
    DirectoryChange, Exit, Finished, OnTimeout, Output, RunError, RunOptions, ShellOptions,
};
use lathe_process::{Command, session};
use lathe_protocol::ids::TaskId;
use lathe_sandbox::{Block, Confinement, ReadOnlyPolicy, SystemPaths};
use parking_lot::{Mutex, RwLock};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Longer commands than this reach the shell through a file: the kernel takes arguments of up to
/// 128 KiB.
const LONGEST_ARGUMENT: usize = 100 * 1024;

/// Variables that make programs work without the user at a terminal.
const WITHOUT_A_PERSON: &[(&str, &str)] = &[
    // An editor that is done at once, leaving the text as it is.
    ("GIT_EDITOR", "true"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    // No pager waits for a key.
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    // A missing password is an error, not a question.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Variables of a command on a terminal: what the screen understands.
const ON_A_TERMINAL: &[(&str, &str)] = &[("TERM", "xterm-256color")];

/// Variables by which a script can tell who runs it.
const MARKS: &[(&str, &str)] = &[("LATHE", "1"), ("CLAUDECODE", "1")];

/// The shell of a session.
pub struct ShellSession {
    options: ShellOptions,
    program: Option<ShellProgram>,
    environment: Arc<RwLock<Vec<(OsString, OsString)>>>,
    directory: RwLock<PathBuf>,
    extra_environment: Arc<RwLock<Vec<(OsString, OsString)>>>,
    /// Variables that no command gets.
    withheld: Arc<RwLock<Vec<OsString>>>,
    snapshot: Arc<Mutex<SnapshotState>>,
    background: BackgroundCommands,
    terminals: Terminals,
    /// Where confined commands may write. Made for the first of them.
    scratch: OnceLock<Option<tempfile::TempDir>>,
    /// The paths of the system that confined commands may use.
    system: OnceLock<SystemPaths>,
    /// The attributes that git gets in confined commands.
    git_attributes: OnceLock<Option<tempfile::TempPath>>,
}

impl std::fmt::Debug for ShellSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ShellSession")
            .field("program", &self.program)
            .field("directory", &*self.directory.read())
            .finish_non_exhaustive()
    }
}

impl ShellSession {
    /// A shell that starts in the given folder. Nothing runs yet.
    #[must_use]
    pub fn new(options: ShellOptions) -> Self {
        let environment = options
            .environment
            .clone()
            .unwrap_or_else(lathe_process::inherited_environment);
        let program = options
            .shell
            .clone()
            .map(ShellProgram::at)
            .or_else(|| ShellProgram::find(&environment));
        let state = if options.snapshot {
            SnapshotState::NotTaken
        } else {
            SnapshotState::Off
        };
        Self {
            program,
            environment: Arc::new(RwLock::new(environment)),
            directory: RwLock::new(options.directory.clone()),
            extra_environment: Arc::default(),
            withheld: Arc::new(RwLock::new(vec!["CDPATH".into(), "GLOBIGNORE".into()])),
            snapshot: Arc::new(Mutex::new(state)),
            background: BackgroundCommands::default(),
            terminals: Terminals::default(),
            scratch: OnceLock::new(),
            system: OnceLock::new(),
            git_attributes: OnceLock::new(),
            options,
        }
    }

    /// A shell for someone else in the same session (a sub-agent): with a working folder of its own,
    /// and the same environment, snapshot and background commands.
    #[must_use]
    pub fn sibling(&self, directory: PathBuf) -> Self {
        let mut options = self.options.clone();
        options.directory.clone_from(&directory);
        Self {
            options,
            program: self.program.clone(),
            environment: Arc::clone(&self.environment),
            directory: RwLock::new(directory),
            extra_environment: Arc::clone(&self.extra_environment),
            withheld: Arc::clone(&self.withheld),
            snapshot: Arc::clone(&self.snapshot),
            background: self.background.clone(),
            terminals: self.terminals.clone(),
            scratch: OnceLock::new(),
            system: OnceLock::new(),
            git_attributes: OnceLock::new(),
        }
    }

    /// The working folder.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.directory.read().clone()
    }

    /// Moves the working folder.
    pub fn set_directory(&self, directory: PathBuf) {
        *self.directory.write() = directory;
    }

    /// Which shell runs commands, if there is one at all.
    #[must_use]
    pub fn program(&self) -> Option<&ShellProgram> {
        self.program.as_ref()
    }

    /// Keeps variables from all later commands, whether they were inherited or come from start-up files: our own keys,
    /// and those that change what the words of a command mean.
    pub fn withhold(&self, names: impl IntoIterator<Item = OsString>) {
        self.withheld.write().extend(names);
    }

    /// Replaces the variables that all later commands inherit, such as when settings changed.
    pub fn set_environment(&self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        *self.environment.write() = variables.into_iter().collect();
    }

    /// Sets variables for all later commands (what a hook exported). The newest value wins.
    pub fn add_environment(&self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut extra = self.extra_environment.write();
        for (name, value) in variables {
            extra.retain(|(known, _)| *known != name);
            extra.push((name, value));
        }
    }

    /// The commands that run in the background.
    #[must_use]
    pub fn background(&self) -> &BackgroundCommands {
        &self.background
    }

    /// The commands that run on terminals.
    #[must_use]
    pub fn terminals(&self) -> &Terminals {
        &self.terminals
    }

    /// Begins to take the snapshot of the user's shell, unless it was begun or isn't wanted. The
    /// first command does so too; called at the start, the snapshot is there when it comes.
    pub fn prepare(&self) {
        if let Some(program) = &self.program {
            snapshot::ensure_taken(&self.snapshot, program, &self.environment.read());
        }
    }

    /// Whether the snapshot has been taken (or won't be).
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        !matches!(
            *self.snapshot.lock(),
            SnapshotState::NotTaken | SnapshotState::BeingTaken
        )
    }

    /// Runs a command and waits for its end, its time limit or its cancellation. Whatever it started
    /// is gone when this returns, unless it went into the background. Dropping the future ends it.
    ///
    /// # Errors
    /// When the command can't be started at all.
    pub async fn run(&self, command: &str, options: RunOptions) -> Result<Finished, RunError> {
        let start = options
            .directory
            .clone()
            .unwrap_or_else(|| self.directory());
        let grace = Grace::usual(self.options.kill_grace);
        let started = self.start(command, &options, start.clone(), grace);
        let (supervised, directory) = started.await?;
        let mut guard = StopOnDrop(Some(supervised.clone()));
        let timeout = tokio::time::sleep(options.timeout);
        let moves = tokio::select! {
            biased;
            outcome = supervised.finished() => {
                guard.0 = None;
                return self.conclude(outcome.as_deref(), &options, &start, directory);
            }
            () = options.cancel.cancelled() => {
                supervised.stop(StopCause::Cancelled);
                false
            }
            () = options.to_background.cancelled() => true,
            () = timeout => {
                if options.on_timeout == OnTimeout::Kill {
                    supervised.stop(StopCause::TimedOut);
                    false
                } else {
                    true
                }
            }
        };
        if moves {
            let id = self
                .move_to_background(command, &options, supervised.clone())
                .await?;
            guard.0 = None;
            return Ok(self.moved(id, &supervised, start));
        }
        let outcome = supervised.finished().await;
        guard.0 = None;
        self.conclude(outcome.as_deref(), &options, &start, directory)
    }

    /// Starts a command that runs on by itself, and with it what it leaves running when its shell is done: a
    /// daemon continues until it is stopped or the session ends.
    ///
    /// # Errors
    /// When the command can't be started, or its output file can't be made.
    pub async fn start_in_background(
        &self,
        command: &str,
        options: RunOptions,
    ) -> Result<TaskId, RunError> {
        let start = options
            .directory
            .clone()
            .unwrap_or_else(|| self.directory());
        let grace = Grace::for_daemons(self.options.kill_grace);
        let (supervised, _) = self.start(command, &options, start, grace).await?;
        self.move_to_background(command, &options, supervised).await
    }

    /// Starts a command on a terminal. It ends by itself, when it is stopped, or with the session.
    ///
    /// # Errors
    /// When the command can't be started, or too many run already.
    pub async fn start_on_terminal(
        &self,
        command: &str,
        mut options: RunOptions,
    ) -> Result<Arc<InteractiveCommand>, RunError> {
        self.terminals.check_room()?;
        let start = options
            .directory
            .clone()
            .unwrap_or_else(|| self.directory());
        let screen = Arc::new(Screen::new(USUAL_SIZE));
        options.screen = Some(Arc::clone(&screen));
        options.spill = None;
        let grace = Grace::usual(self.options.kill_grace);
        let (supervised, _) = self.start(command, &options, start, grace).await?;
        let in_sandbox = options.sandbox.is_some();
        let shell = self.program.clone();
        Ok(self
            .terminals
            .add(command, screen, supervised, shell, in_sandbox))
    }

    /// Ends everything that this session runs in the background, but what the user keeps.
    pub async fn shut_down(&self) {
        self.terminals.end_session().await;
        self.background.end_session().await;
    }

    async fn move_to_background(
        &self,
        command: &str,
        options: &RunOptions,
        supervised: Supervised,
    ) -> Result<TaskId, RunError> {
        self.background
            .adopt(Adoption {
                supervised,
                command: command.to_owned(),
                description: options.description.clone(),
                tool_use_id: options.tool_use_id.clone(),
                is_service: options.is_service,
                in_sandbox: options.sandbox.is_some(),
                folder: self.options.output_folder.clone(),
                file_limit: options.spill_limit,
            })
            .await
    }

    fn moved(&self, id: TaskId, supervised: &Supervised, directory: PathBuf) -> Finished {
        let file = self.background.get(id.as_str()).ok();
        let capture = supervised.capture.lock();
        Finished {
            blocked: None,
            violations: Vec::new(),
            exit: Exit::MovedToBackground(id),
            output: Output {
                text: capture.text(|cut| format!("\n\n[{cut} bytes omitted]\n\n")),
                total_bytes: capture.total(),
                omitted_bytes: capture.omitted(),
                file: file.map(|command| command.output_file),
                file_truncated: false,
            },
            directory: DirectoryChange::None(directory),
            leftovers: Vec::new(),
            duration: supervised.started.elapsed(),
        }
    }

    /// Starts a command; says where it really runs when the wanted folder is gone.
    async fn start(
        &self,
        command: &str,
        options: &RunOptions,
        wanted: PathBuf,
        grace: Grace,
    ) -> Result<(Supervised, Option<PathBuf>), RunError> {
        let program = self.program.as_ref().ok_or(RunError::NoShell)?;
        if command.contains('\0') {
            return Err(RunError::NulInCommand);
        }
        self.prepare();
        let snapshot = match &*self.snapshot.lock() {
            SnapshotState::Taken(snapshot) => Some(Arc::clone(snapshot)),
            _ => None,
        };
        let replaced = if wanted.is_dir() {
            None
        } else {
            Some(self.existing_directory(&wanted, options)?)
        };
        let mut keep = Vec::new();
        if command.len() > LONGEST_ARGUMENT {
            keep.push(write_long_form(command).map_err(|source| RunError::LongCommand { source })?);
        }
        let fail = |source| RunError::Start {
            program: program.path.clone(),
            source,
        };
        let (control, control_end) =
            session::control_socket(program.fixed_descriptor()).map_err(fail)?;
        let arguments = program.arguments(
            &CommandText {
                text: command,
                snapshot: snapshot
                    .as_ref()
                    .and_then(|snapshot| snapshot.file.as_deref()),
                long_form: keep.first().map(|path: &tempfile::TempPath| &**path),
            },
            control_end.descriptor(),
        );
        let mut environment = self.environment_of(snapshot.as_deref(), options);
        let confinement = match &options.confinement {
            Some(policy) => {
                let needed = [
                    snapshot
                        .as_ref()
                        .and_then(|snapshot| snapshot.file.as_deref()),
                    keep.first().map(|path: &tempfile::TempPath| &**path),
                ];
                self.confine(policy, &needed, program, &mut environment)?
            }
            None => None,
        };
        let directory = replaced.clone().unwrap_or(wanted);
        let files = [
            snapshot
                .as_ref()
                .and_then(|snapshot| snapshot.file.as_ref().map(|file| file.to_path_buf())),
            keep.first()
                .map(|path: &tempfile::TempPath| path.to_path_buf()),
        ];
        let files: Vec<PathBuf> = files.into_iter().flatten().collect();
        let wrapping = match &options.sandbox {
            Some(run) => {
                let keeps = [control_end.descriptor()];
                let is_secret = self.options.is_secret;
                let terminal = options.screen.is_some();
                let environment = &mut environment;
                Some(run.wrap(&directory, &files, &keeps, terminal, is_secret, environment)?)
            }
            None => None,
        };
        let words = wrapping
            .as_ref()
            .map(|it| it.words.clone())
            .unwrap_or_default();
        let entry = wrapping.as_ref().and_then(|it| it.entry.clone());
        let launch = Command::new(&program.path)
            .arguments(arguments)
            .wrap(options.prefix.iter().cloned())
            .wrap(words)
            .directory(directory)
            .without_inherited_environment()
            .variables(environment);
        let mut spawned = spawn(launch, control_end, confinement.or(entry), options)
            .await
            .map_err(fail)?;
        if let Some(wrapping) = &wrapping {
            spawned.family.set_wrappers(wrapping.processes_between);
        }
        let supervised = supervise::supervise(
            spawned,
            control,
            Watch {
                output_limit: options.output_limit,
                spill: options.spill.clone().map_or(Spill::Off, Spill::Later),
                spill_limit: options.spill_limit,
                grace,
                progress: options.progress.clone(),
                keep,
                wrapping,
                screen: options.screen.clone(),
            },
        );
        Ok((supervised, replaced))
    }

    /// The whole environment of a command.
    fn environment_of(
        &self,
        snapshot: Option<&snapshot::Snapshot>,
        options: &RunOptions,
    ) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.read().clone();
        if let Some(snapshot) = snapshot {
            environment.extend(snapshot.environment.iter().cloned());
        }
        {
            let withheld = self.withheld.read();
            environment.retain(|(name, _)| !withheld.contains(name));
        }
        let mut fixed: Vec<&(&str, &str)> = MARKS.iter().collect();
        fixed.extend(match options.screen {
            None => WITHOUT_A_PERSON,
            Some(_) => ON_A_TERMINAL,
        });
        let fixed = fixed.into_iter();
        environment.extend(fixed.map(|&(name, value)| (name.into(), value.into())));
        environment.extend(self.extra_environment.read().iter().cloned());
        environment.extend(options.environment.iter().cloned());
        environment
    }

    /// The confinement of a command that only reads, with what the system and the shell need. `None` where
    /// the kernel can't confine.
    fn confine(
        &self,
        policy: &ReadOnlyPolicy,
        needed: &[Option<&Path>],
        program: &ShellProgram,
        environment: &mut Vec<(OsString, OsString)>,
    ) -> Result<Option<Arc<Confinement>>, RunError> {
        // Nobody was asked, so it must not be able to print them. Clients of services sign in with theirs.
        if let Some(is_secret) = self.options.is_secret
            && !policy.network
        {
            environment.retain(|(name, _)| !name.to_str().is_some_and(is_secret));
        }
        if !lathe_sandbox::support().confines_reads() {
            return Ok(None);
        }
        let mut policy = policy.clone();
        policy.add_system(self.system.get_or_init(|| {
            let value = |name: &str| {
                let mut found = environment.iter().rev().filter(|(key, _)| key == name);
                found.next().map(|(_, value)| value.clone())
            };
            let home = value("HOME").map(PathBuf::from);
            SystemPaths::find(value("PATH").as_deref(), home.as_deref())
        }));
        policy
            .readable
            .extend(needed.iter().flatten().map(|path| path.to_path_buf()));
        policy.executable.push(program.path.clone());
        let scratch = self.scratch.get_or_init(|| {
            let folder = tempfile::Builder::new().prefix("lathe-scratch-").tempdir();
            folder
                .inspect_err(|error| tracing::warn!(%error, "no folder for confined commands"))
                .ok()
        });
        if let Some(folder) = scratch {
            policy.writable.push(folder.path().to_path_buf());
            environment.push(("TMPDIR".into(), folder.path().into()));
        }
        if !policy.git_attributes.is_empty() {
            let file = self.git_attributes.get_or_init(|| {
                write_attributes(&policy.git_attributes)
                    .inspect_err(|error| tracing::warn!(%error, "no attributes file for git"))
                    .ok()
            });
            if let Some(file) = file {
                policy.readable.push(file.to_path_buf());
                add_git_setting("core.attributesFile", file, environment);
            }
        }
        Confinement::new(&policy)
            .map(|confinement| Some(Arc::new(confinement)))
            .map_err(|source| RunError::Confinement { source })
    }

    /// Where to go when the working folder no longer exists: the nearest folder above that is
    /// allowed, else where the session began.
    fn existing_directory(&self, gone: &Path, options: &RunOptions) -> Result<PathBuf, RunError> {
        gone.ancestors()
            .skip(1)
            .find(|folder| folder.is_dir())
            .filter(|folder| self.may_enter(folder, options))
            .or_else(|| Some(self.options.directory.as_path()).filter(|folder| folder.is_dir()))
            .map(Path::to_path_buf)
            .ok_or_else(|| RunError::NoDirectory {
                directory: gone.to_path_buf(),
            })
    }

    fn may_enter(&self, folder: &Path, options: &RunOptions) -> bool {
        match options
            .directory_allowed
            .as_ref()
            .or(self.options.directory_allowed.as_ref())
        {
            Some(allowed) => allowed(folder),
            None => true,
        }
    }

    fn conclude(
        &self,
        outcome: Option<&Outcome>,
        options: &RunOptions,
        wanted: &Path,
        replaced: Option<PathBuf>,
    ) -> Result<Finished, RunError> {
        let outcome = outcome.ok_or(RunError::ShuttingDown)?;
        let began_in = replaced.clone().unwrap_or_else(|| wanted.to_path_buf());
        let ended_in = outcome
            .report
            .as_ref()
            .map(|report| report.directory.clone());
        let directory = match ended_in {
            Some(Some(ended_in)) if same_folder(&ended_in, &began_in) => match replaced {
                Some(now) => DirectoryChange::Lost {
                    gone: wanted.to_path_buf(),
                    now,
                },
                None => DirectoryChange::None(began_in),
            },
            Some(Some(ended_in)) if self.may_enter(&ended_in, options) => {
                DirectoryChange::Moved(ended_in)
            }
            Some(Some(ended_in)) => DirectoryChange::Undone {
                refused: ended_in,
                now: began_in,
            },
            // It had moved, and that folder is gone: it is back where it was.
            Some(None) if began_in.is_dir() => DirectoryChange::None(began_in),
            Some(None) => DirectoryChange::Lost {
                gone: wanted.to_path_buf(),
                now: self.existing_directory(&began_in, options)?,
            },
            None => match replaced {
                Some(now) => DirectoryChange::Lost {
                    gone: wanted.to_path_buf(),
                    now,
                },
                None => DirectoryChange::None(began_in),
            },
        };
        if options.directory.is_none() {
            self.set_directory(directory.now().to_path_buf());
        }
        Ok(Finished {
            blocked: blocked(outcome, options, wanted),
            violations: sandboxed::violations(outcome, options, wanted, directory.now()),
            exit: outcome.exit.clone(),
            output: outcome.output.clone(),
            directory,
            leftovers: outcome.leftovers.clone(),
            duration: outcome.duration,
        })
    }
}

/// Starts a shell, on a terminal if it is to have one.
async fn spawn(
    launch: Command,
    control: session::ControlEnd,
    confinement: Option<Arc<Confinement>>,
    options: &RunOptions,
) -> std::io::Result<session::Spawned> {
    let Some(screen) = &options.screen else {
        return session::spawn(launch, control, confinement).await;
    };
    let size = screen.size();
    let (spawned, terminal) =
        session::spawn_on_terminal(launch, control, confinement, size).await?;
    screen.attach(terminal);
    Ok(spawned)
}

/// A setting for git in the environment, beside those that are there already.
fn add_git_setting(key: &str, value: &Path, environment: &mut Vec<(OsString, OsString)>) {
    let given = environment
        .iter()
        .rev()
        .find(|(name, _)| name == "GIT_CONFIG_COUNT")
        .and_then(|(_, value)| value.to_str()?.parse::<u32>().ok())
        .unwrap_or(0);
    environment.push(("GIT_CONFIG_COUNT".into(), (given + 1).to_string().into()));
    environment.push((format!("GIT_CONFIG_KEY_{given}").into(), key.into()));
    environment.push((format!("GIT_CONFIG_VALUE_{given}").into(), value.into()));
}

fn write_attributes(lines: &str) -> std::io::Result<tempfile::TempPath> {
    let mut file = tempfile::Builder::new()
        .prefix("lathe-attributes-")
        .tempfile()?;
    file.write_all(lines.as_bytes())?;
    Ok(file.into_temp_path())
}

/// The access that the confinement refused to a failed command.
fn blocked(outcome: &Outcome, options: &RunOptions, folder: &Path) -> Option<Block> {
    let policy = options.confinement.as_ref()?;
    let failed =
        !matches!(outcome.exit, Exit::Exited(0)) && lathe_sandbox::support().confines_reads();
    failed
        .then(|| lathe_sandbox::blocked(&outcome.output.text, folder, policy))
        .flatten()
}

/// Whether two names mean one folder; a path through a symlink is not a move.
fn same_folder(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    one == other
        || match (one.metadata(), other.metadata()) {
            (Ok(one), Ok(other)) => one.dev() == other.dev() && one.ino() == other.ino(),
            _ => false,
        }
}

fn write_long_form(command: &str) -> std::io::Result<tempfile::TempPath> {
    let mut file = tempfile::Builder::new()
        .prefix("lathe-command-")
        .tempfile()?;
    file.write_all(command.as_bytes())?;
    Ok(file.into_temp_path())
}

/// Ends a command whose caller is gone.
struct StopOnDrop(Option<Supervised>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(supervised) = &self.0 {
            supervised.stop(StopCause::Cancelled);
        }
    }
}
