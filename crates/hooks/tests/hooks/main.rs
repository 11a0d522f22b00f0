//! Hooks as real processes, addresses and functions.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests assert by panicking and build values in place"
)]

mod answers;
mod background;
mod cli;
mod corpus;
mod docs;
mod helpers;
mod nasty;
mod registry;
mod remote;

use lathe_hooks::{HookOutcome, HookRegistry, LateAnswer, RunContext};
use lathe_protocol::hook::{HookEvent, HookInput};
use lathe_settings::load::load_text;
use lathe_settings::{Environment, Places, Resolved, Source, Trust};
use serde_json::{Value, json};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// Guards against a hang; nothing is measured with it.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, what)
        .await
        .expect("nothing hangs")
}

/// A project folder with hooks.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    pub(crate) registry: Arc<HookRegistry>,
    pub(crate) late: UnboundedReceiver<LateAnswer>,
}

impl Bench {
    pub(crate) fn new(settings: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (registry, late) = HookRegistry::new();
        let bench = Self {
            folder,
            registry,
            late,
        };
        bench
            .registry
            .set_settings(&bench.resolve(settings, Source::User));
        bench
    }

    /// Hooks of one event without a matcher.
    pub(crate) fn with(event: &str, hooks: &Value) -> Self {
        Self::new(&json!({"hooks": {event: [{"hooks": hooks}]}}))
    }

    pub(crate) fn path(&self) -> PathBuf {
        std::fs::canonicalize(self.folder.path()).unwrap()
    }

    pub(crate) fn resolve(&self, settings: &Value, source: Source) -> Resolved {
        let environment = Environment {
            cwd: self.path(),
            home: Some(self.path()),
            ..Environment::default()
        };
        let places = Places::with_managed(environment, self.path().join("managed"));
        load_text(
            source,
            Path::new("settings.json"),
            &settings.to_string(),
            &places,
            &Trust::Trusted,
        )
    }

    pub(crate) fn context(&self) -> RunContext {
        RunContext::new(self.path(), self.path())
    }

    pub(crate) async fn run(&self, event: &str, fields: Value) -> HookOutcome {
        let input = input(event, fields);
        within(self.registry.run(&input, &self.context())).await
    }
}

pub(crate) fn input(event: &str, fields: Value) -> HookInput {
    let event: HookEvent = event.parse().unwrap();
    lathe_hooks::cli::trial_input(event, &fields.to_string(), Path::new("/w")).unwrap()
}

pub(crate) fn command(line: &str) -> Value {
    json!({"type": "command", "command": line})
}

pub(crate) fn bash(line: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": line}, "tool_use_id": "t1"})
}

/// Whether a process still runs (a dead one that nobody has reaped doesn't).
pub(crate) fn is_alive(id: &str) -> bool {
    let state = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", id.trim()])
        .output()
        .expect("ps is installed");
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}
