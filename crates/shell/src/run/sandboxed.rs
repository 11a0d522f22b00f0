//! A command in the sandbox: what stands before it, and what the sandbox refused to it.

use super::supervise::Outcome;
use super::{Exit, RunError, RunOptions};
use lathe_protocol::wildcard;
use lathe_sandbox::{Request, Violation, Wrapping};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sandbox of a command.
#[derive(Debug)]
pub struct SandboxedRun {
    /// The session's sandbox.
    pub sandbox: Arc<lathe_sandbox::Sandbox>,
    /// The policy of the command.
    pub policy: Arc<lathe_sandbox::SandboxPolicy>,
    /// The way to the network.
    pub network: Option<SandboxedNetwork>,
    /// Variables that the command doesn't see, by their name: patterns in which `*` stands for anything.
    pub scrubbed: Vec<String>,
    /// Paths and hosts that are not reported as violations.
    pub ignored: Vec<String>,
    /// Variables whose value is replaced.
    pub replaced: Vec<(OsString, OsString)>,
}

/// The proxy's refusals for the command of this name.
pub type RefusedHosts = Arc<dyn Fn(&str) -> Vec<Violation> + Send + Sync>;

/// The way from a sandbox to the network.
#[derive(Clone)]
pub struct SandboxedNetwork {
    /// The socket of the proxy.
    pub socket: PathBuf,
    /// The command's name there.
    pub name: String,
    /// Says what the proxy refused to the command so far.
    pub refused: RefusedHosts,
}

impl std::fmt::Debug for SandboxedNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SandboxedNetwork")
            .field("socket", &self.socket)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SandboxedRun {
    /// The prefix of a command. Removes secrets from its environment.
    pub(super) fn wrap(
        &self,
        directory: &Path,
        files: &[PathBuf],
        keeps: &[RawFd],
        terminal: bool,
        is_secret: Option<fn(&str) -> bool>,
        environment: &mut Vec<(OsString, OsString)>,
    ) -> Result<Wrapping, RunError> {
        environment.retain(|(name, _)| {
            name.to_str().is_none_or(|name| {
                !is_secret.is_some_and(|is_secret| is_secret(name))
                    && !self
                        .scrubbed
                        .iter()
                        .any(|pattern| wildcard::matches(pattern, name))
            })
        });
        let network = self.network.as_ref();
        let request = Request {
            directory,
            files,
            keeps,
            terminal,
            proxy: network.map(|it| (it.socket.as_path(), it.name.as_str())),
        };
        let wrapping = self
            .sandbox
            .wrap(&self.policy, &request)
            .map_err(|source| RunError::Sandbox { source })?;
        environment.extend(self.replaced.iter().cloned());
        environment.extend(wrapping.variables.iter().cloned());
        Ok(wrapping)
    }
}

/// The sandbox's refusals for a command that failed.
pub(super) fn violations(
    outcome: &Outcome,
    options: &RunOptions,
    began_in: &Path,
    ended_in: &Path,
) -> Vec<Violation> {
    let Some(run) = &options.sandbox else {
        return Vec::new();
    };
    if matches!(outcome.exit, Exit::Exited(0)) {
        return Vec::new();
    }
    let text = &outcome.output.text;
    let both = [began_in, ended_in];
    let folders = if began_in == ended_in {
        &both[..1]
    } else {
        &both[..]
    };
    let mut found = lathe_sandbox::violations(text, folders, &run.policy, run.sandbox.tier());
    if let Some(network) = &run.network {
        let refused = (network.refused)(&network.name);
        // What the proxy knows is better than what a program made of it.
        found.retain(|known| {
            !refused
                .iter()
                .any(|other| other.subject() == known.subject())
        });
        found.extend(refused);
    }
    found.retain(|violation| !run.ignored.iter().any(|text| violation.is_about(text)));
    found
}
