//! Settings as files on disk, end to end.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod claude_home;
mod cli;
mod corpus;
mod docs;
mod instructions;
mod merging;
mod sources;
mod trusting;
mod watching;
mod writing;

use lathe_settings::{Environment, Places};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A made-up machine in a temporary folder: nothing of the real one is read or written.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(machine.path("home/project")).unwrap();
        machine
    }

    /// A path on this machine.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        // macOS reaches temporary folders through a link; what is compared must be real.
        fs::canonicalize(self.folder.path()).unwrap().join(relative)
    }

    /// Writes a file, making its folder.
    pub(crate) fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap()
    }

    /// The places with the project as the working folder.
    pub(crate) fn places(&self) -> Places {
        self.places_at("home/project")
    }

    pub(crate) fn places_at(&self, cwd: &str) -> Places {
        self.places_with(cwd, BTreeMap::new())
    }

    pub(crate) fn places_with(&self, cwd: &str, variables: BTreeMap<String, String>) -> Places {
        let environment = Environment {
            variables,
            home: Some(self.path("home")),
            cwd: self.path(cwd),
            ..Environment::default()
        };
        Places::with_managed(environment, self.path("etc/lathe"))
    }
}

/// Runs git without the machine's configuration.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git is installed");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
