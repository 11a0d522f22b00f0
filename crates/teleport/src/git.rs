//! git by its command line, without programs that a repository names.

use crate::error::TeleportError;
use lathe_process::{Command, Ending};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest that one call may take: a bundle of a large history.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The most output of one call that is read.
const OUTPUT: usize = 1 << 30;

/// git in a folder.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    folder: PathBuf,
    /// Arguments before the subcommand.
    before: Vec<OsString>,
}

impl Git {
    /// git in a folder, with every content filter off: a filter is a program that the configuration names, and the raw
    /// bytes are what is carried.
    pub(crate) fn new(folder: &Path) -> Result<Self, TeleportError> {
        let mut git = Self {
            folder: folder.to_owned(),
            before: Vec::new(),
        };
        let names = git.try_run(&["config", "--name-only", "--get-regexp", r"^filter\..*"])?;
        let names = String::from_utf8_lossy(&names.unwrap_or_default()).into_owned();
        let mut filters: Vec<&str> = names
            .lines()
            .filter_map(|name| Some(name.strip_prefix("filter.")?.rsplit_once('.')?.0))
            .collect();
        filters.sort_unstable();
        filters.dedup();
        let settings = filters.iter().flat_map(|name| {
            ["clean=", "smudge=", "process=", "required=false"]
                .map(|end| format!("filter.{name}.{end}"))
        });
        for setting in settings {
            git.before.push("-c".into());
            git.before.push(setting.into());
        }
        for setting in [
            "gc.auto=0",
            "maintenance.auto=false",
            "protocol.ext.allow=never",
            "core.quotePath=false",
            "advice.detachedHead=false",
            "core.safecrlf=false",
            "user.name=lathe",
            "user.email=lathe@localhost",
        ] {
            git.before.push("-c".into());
            git.before.push(setting.into());
        }
        Ok(git)
    }

    /// The same with another repository folder and the files of this one.
    pub(crate) fn with_repository(mut self, repository: &Path, files: &Path) -> Self {
        let option = |name: &str, path: &Path| {
            let mut option = OsString::from(name);
            option.push(path);
            option
        };
        self.before.push(option("--git-dir=", repository));
        self.before.push(option("--work-tree=", files));
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, arguments: &[&str]) -> Command {
        Command::git(&self.folder)
            .without_variable("GIT_OBJECT_DIRECTORY")
            .without_variable("GIT_ALTERNATE_OBJECT_DIRECTORIES")
            .without_variable("GIT_COMMON_DIR")
            .arguments(self.before.iter().cloned())
            .arguments(arguments)
    }

    /// The output of a call, or `None` if it failed.
    pub(crate) fn try_run(&self, arguments: &[&str]) -> Result<Option<Vec<u8>>, TeleportError> {
        let output = lathe_process::read_blocking(self.command(arguments), LIMIT, OUTPUT)
            .map_err(|error| failed(arguments, &error.to_string()))?;
        Ok((output.ending == Ending::Exited(0)).then_some(output.stdout))
    }

    /// The output of a call that must succeed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, TeleportError> {
        let output = lathe_process::read_blocking(self.command(arguments), LIMIT, OUTPUT)
            .map_err(|error| failed(arguments, &error.to_string()))?;
        if output.ending == Ending::Exited(0) {
            return Ok(output.stdout);
        }
        Err(failed(arguments, output.stderr.trim()))
    }

    /// The output of a call as one line.
    pub(crate) fn line(&self, arguments: &[&str]) -> Result<String, TeleportError> {
        Ok(text(&self.run(arguments)?))
    }

    /// The output of a call as one line, or `None` if it failed or was empty.
    pub(crate) fn try_line(&self, arguments: &[&str]) -> Result<Option<String>, TeleportError> {
        let line = self.try_run(arguments)?.map(|bytes| text(&bytes));
        Ok(line.filter(|line| !line.is_empty()))
    }

    /// The output of a call that reads `input`.
    pub(crate) fn feed(&self, arguments: &[&str], input: Vec<u8>) -> Result<String, TeleportError> {
        let finished = lathe_process::run_blocking(self.command(arguments), input, LIMIT)
            .map_err(|error| failed(arguments, &error.to_string()))?;
        if finished.ending == Ending::Exited(0) {
            return Ok(finished.stdout.trim_end().to_owned());
        }
        Err(failed(arguments, finished.stderr.trim()))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn failed(arguments: &[&str], message: &str) -> TeleportError {
    TeleportError::Program {
        what: format!("git {}", arguments.first().copied().unwrap_or_default()),
        message: message.to_owned(),
    }
}

/// The parts of output that `-z` separates.
pub(crate) fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
}
