//! A home folder for each test: nothing of the user's is read, and nothing is left.

use crate::binary;
use crate::run::{Output, Running};
use lathe_scripted::ScriptedServer;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Marks every process that a test's run starts, however far it goes from its parents.
pub(crate) const TOKEN_VARIABLE: &str = "LATHE_TEST_TOKEN";

/// A user without special rights, for tests that root runs.
const OTHER_USER: u32 = 31_337;

/// A temporary home with a configuration folder, a project folder and a clean environment.
#[derive(Debug)]
pub struct TestHome {
    folder: TempDir,
    token: String,
    environment: Vec<(String, String)>,
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHome {
    /// A fresh home.
    ///
    /// # Panics
    /// If no temporary folder can be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("lathe-test-")
            .tempdir()
            .unwrap();
        let home = Self {
            token: uuid::Uuid::new_v4().to_string(),
            environment: Vec::new(),
            folder,
        };
        for made in [home.home(), home.config(), home.project(), home.temporary()] {
            std::fs::create_dir_all(made).unwrap();
        }
        home
    }

    /// A fresh home whose model is a scripted one.
    #[must_use]
    pub fn with_server(server: &ScriptedServer) -> Self {
        Self::new().server(server)
    }

    /// Points the home at a scripted model.
    #[must_use]
    pub fn server(self, server: &ScriptedServer) -> Self {
        self.variable("ANTHROPIC_BASE_URL", server.base_url())
            .variable("ANTHROPIC_API_KEY", "test-key")
    }

    /// Sets a variable for every run; the last value wins.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Leaves it to settings and the default whether commands run in the sandbox, as it is for users.
    #[must_use]
    pub fn sandbox_by_default(self) -> Self {
        self.variable("LATHE_SANDBOX", "")
    }

    /// The resolved path of the temporary folder.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// `HOME`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// `LATHE_CONFIG_DIR`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.home().join(".lathe")
    }

    /// The working folder.
    #[must_use]
    pub fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    /// `TMPDIR`.
    #[must_use]
    pub fn temporary(&self) -> PathBuf {
        self.root().join("tmp")
    }

    /// The marker of the processes of this home.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Writes a file of the project, with its folders.
    ///
    /// # Panics
    /// If it can't be written.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Reads a file of the project as text.
    ///
    /// # Panics
    /// If it can't be read.
    #[must_use]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.project().join(path);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()))
    }

    /// Makes the project a git repository with everything in it committed.
    ///
    /// # Panics
    /// If git fails.
    pub fn git_init(&self) {
        for arguments in [
            &["init", "-q", "-b", "main"][..],
            &["add", "-A"],
            &["commit", "-q", "--allow-empty", "-m", "start"],
        ] {
            let mut git = Command::new("git");
            self.dress(&mut git);
            let status = git.args(arguments).status().expect("git can be started");
            assert!(status.success(), "git {arguments:?} failed");
        }
    }

    /// Gives a command the clean environment and the project as its folder.
    pub fn dress(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("LATHE_CONFIG_DIR", self.config())
            .env("TMPDIR", self.temporary())
            .env("LANG", "C.UTF-8")
            // A scripted model answers what a test asks; a test of titles switches them on.
            .env("LATHE_SESSION_TITLES", "0")
            // Most tests are about questions, rules and processes outside of the sandbox, where commands ask; a
            // test of the sandbox, or of the default, says so.
            .env("LATHE_SANDBOX", "0")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "Test")
            .env("GIT_AUTHOR_EMAIL", "test@example.invalid")
            .env("GIT_COMMITTER_NAME", "Test")
            .env("GIT_COMMITTER_EMAIL", "test@example.invalid")
            .env(TOKEN_VARIABLE, &self.token)
            .current_dir(self.project());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
    }

    /// A `lathe` command in this home.
    #[must_use]
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(binary::lathe());
        self.dress(&mut command);
        command.args(arguments);
        command
    }

    /// Runs `lathe` to its end as a user without special rights. Where the tests run as root, the home is handed
    /// over to another user; any other user is one without special rights already.
    ///
    /// # Panics
    /// If it can't be started or hangs.
    #[must_use]
    pub fn run_unprivileged<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Output {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(binary::for_everybody());
        self.dress(&mut command);
        command.args(arguments);
        if nix::unistd::geteuid().is_root() {
            let status = Command::new("chown")
                .args(["-R", &format!("{OTHER_USER}:{OTHER_USER}")])
                .arg(self.root())
                .status();
            assert!(status.expect("chown can be started").success());
            command.uid(OTHER_USER).gid(OTHER_USER);
        }
        let mut running = Running::start(command);
        running.close_stdin();
        running.finish()
    }

    /// Starts `lathe`; its stdin stays open until the test closes it.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn spawn<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Running {
        Running::start(self.command(arguments))
    }

    /// Runs `lathe` to its end.
    ///
    /// # Panics
    /// If it can't be started or hangs.
    #[must_use]
    pub fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        stdin: impl AsRef<[u8]>,
    ) -> Output {
        let mut running = self.spawn(arguments);
        running.write(stdin.as_ref());
        running.finish()
    }
}
