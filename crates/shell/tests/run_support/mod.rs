//! Shared by the tests of running commands: a session in a temporary folder whose processes carry
//! a mark of their own, and a search for survivors that knows nothing of how the crate searches.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code, of which each file uses its own part"
)]

use lathe_shell::run::{Finished, RunError, RunOptions, ShellOptions, ShellSession};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No test should come near this; it only turns a hang into a failure.
pub const HANG: Duration = Duration::from_secs(60);

pub struct Fixture {
    pub folder: tempfile::TempDir,
    pub mark: String,
    pub session: ShellSession,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ShellOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mark = format!(
            "mark-{}-{}",
            std::process::id(),
            folder.path().file_name().unwrap().to_string_lossy()
        );
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let mut options = ShellOptions::new(&work, folder.path().join("output"));
        options.snapshot = false;
        options.shell = Some(PathBuf::from("/bin/bash"));
        options.kill_grace = Duration::from_millis(300);
        options.environment = Some(environment(&mark, folder.path()));
        change(&mut options);
        Self {
            session: ShellSession::new(options),
            folder,
            mark,
        }
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    pub async fn run(&self, command: &str) -> Finished {
        self.run_with(command, RunOptions::default()).await
    }

    pub async fn run_with(&self, command: &str, options: RunOptions) -> Finished {
        self.try_run(command, options).await.unwrap()
    }

    pub async fn try_run(&self, command: &str, options: RunOptions) -> Result<Finished, RunError> {
        tokio::time::timeout(HANG, self.session.run(command, options))
            .await
            .expect("the command did not return")
    }

    /// Fails if any process that this fixture's commands started is alive.
    pub fn assert_no_survivor(&self) {
        let alive = survivors(&self.mark);
        assert!(alive.is_empty(), "still alive: {alive:?}");
    }
}

pub fn environment(mark: &str, home: &Path) -> Vec<(OsString, OsString)> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    [
        ("PATH", path.as_str()),
        ("HOME", &home.to_string_lossy()),
        ("LANG", "C.UTF-8"),
        ("MARK", mark),
    ]
    .map(|(name, value)| (OsString::from(name), OsString::from(value)))
    .to_vec()
}

/// Living processes with the mark in their environment or their arguments.
pub fn survivors(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let holds = |bytes: &[u8]| {
            bytes
                .windows(mark.len())
                .any(|window| window == mark.as_bytes())
        };
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let dead = stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
        let arguments = read("cmdline");
        if !dead && (holds(&read("environ")) || holds(&arguments)) {
            found.push(format!(
                "{pid}: {}",
                String::from_utf8_lossy(&arguments).replace('\0', " ")
            ));
        }
    }
    found
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, wait)
        .await
        .unwrap_or_else(|_| panic!("never happened: {what}"));
}
