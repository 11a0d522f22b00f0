//! A job's session: our own binary over the SDK protocol on its standard input and output.

use crate::entry::Entry;
use lathe_process::{Command, Running};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

/// The name of our hook, which runs before every call.
const BEFORE_CALLS: &str = "before-calls";
/// The most of standard error that is kept for a message.
const KEPT: usize = 4_096;
/// How long a session has for its end.
const GRACE: Duration = Duration::from_secs(10);

/// How a session starts.
#[derive(Debug)]
pub(super) enum Start {
    /// As a new one.
    New,
    /// From a transcript.
    Resume(PathBuf),
}

/// A running session.
#[derive(Debug)]
pub(super) struct Session {
    running: Running,
    stdin: Option<ChildStdin>,
    frames: mpsc::Receiver<Value>,
    errors: Arc<Mutex<String>>,
}

/// The words of the command line.
pub(super) fn words(entry: &Entry, start: &Start) -> Vec<String> {
    let job = &entry.job;
    let mut words: Vec<String> = [
        "--print",
        "--verbose",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--permission-prompt-tool=stdio",
        // A worker that is killed takes its sessions along: another one may have their jobs.
        "--end-with-parent",
    ]
    .map(str::to_owned)
    .into();
    match start {
        Start::New => {
            let id = entry.session.clone().unwrap_or_default();
            words.push(format!("--session-id={id}"));
        }
        Start::Resume(transcript) => words.push(format!("--resume={}", transcript.display())),
    }
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name}={value}")));
    };
    add("model", job.model.clone());
    add("effort", job.effort.clone());
    add("agent", job.agent.clone());
    let mode = job.rules.permission_mode;
    add("permission-mode", mode.map(|mode| mode.name().to_owned()));
    add("max-turns", job.limits.max_turns.map(|it| it.to_string()));
    let left = job.limits.budget_usd.map(|usd| usd - entry.cost_usd);
    // A budget that is used up allows nothing; the flag must be above 0.
    add("max-budget-usd", left.map(|usd| usd.max(1e-6).to_string()));
    add("json-schema", job.schema.as_ref().map(ToString::to_string));
    for rule in &job.rules.allow {
        add("allowedTools", Some(rule.clone()));
    }
    for rule in &job.rules.deny {
        add("disallowedTools", Some(rule.clone()));
    }
    if !job.rules.ask.is_empty() {
        let settings = json!({"permissions": {"ask": job.rules.ask}});
        add("settings", Some(settings.to_string()));
    }
    words
}

impl Session {
    /// Starts a session and says what it is to report.
    pub(super) async fn start(command: Command, folder: &Path) -> io::Result<Self> {
        let mut running = command.directory(folder).spawn()?;
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdout = running.stdout.take().ok_or_else(gone)?;
        let mut stderr = running.stderr.take().ok_or_else(gone)?;
        let (sender, frames) = mpsc::channel(64);
        lathe_spawn::task(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(frame) = serde_json::from_str(&line)
                    && sender.send(frame).await.is_err()
                {
                    return;
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&errors);
        lathe_spawn::task(async move {
            let mut buffer = vec![0; KEPT];
            while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                let mut kept = kept.lock();
                if kept.len() < KEPT {
                    kept.push_str(&String::from_utf8_lossy(&buffer[..count]));
                }
            }
        });
        let mut session = Self {
            stdin: running.stdin.take(),
            running,
            frames,
            errors,
        };
        // Without an answer no call runs: the worker may be gone, or the job another's.
        let hooks = json!({"PreToolUse": [
            {"matcher": null, "hookCallbackIds": [BEFORE_CALLS], "timeout": 600, "onFailure": "block"},
        ]});
        session
            .send(&json!({"type": "control_request", "request_id": "start",
                "request": {"subtype": "initialize", "hooks": hooks}}))
            .await?;
        Ok(session)
    }

    async fn send(&mut self, frame: &Value) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        stdin.write_all(format!("{frame}\n").as_bytes()).await?;
        stdin.flush().await
    }

    /// Sends a prompt.
    pub(super) async fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.send(
            &json!({"type": "user", "message": {"role": "user", "content": text},
            "parent_tool_use_id": null, "session_id": ""}),
        )
        .await
    }

    /// Answers a request of the session.
    pub(super) async fn reply(&mut self, request: &str, response: &Value) -> io::Result<()> {
        self.send(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": request, "response": response}}))
            .await
    }

    /// Refuses a request of the session.
    pub(super) async fn refuse(&mut self, request: &str, why: &str) -> io::Result<()> {
        self.send(&json!({"type": "control_response", "response": {
            "subtype": "error", "request_id": request, "error": why}}))
            .await
    }

    /// The next frame; `None` at its end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        self.frames.recv().await
    }

    /// Standard error so far.
    pub(super) fn errors(&self) -> String {
        self.errors.lock().trim().to_owned()
    }

    /// Says that nothing more comes, and waits for the end.
    pub(super) async fn close(&mut self) {
        self.stdin = None;
        // Its output must not block it.
        let drained = async { while self.frames.recv().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, drained).await;
        let _ = self.running.end(GRACE).await;
    }

    /// Asks it to end, so that its transcript is whole.
    pub(super) async fn stop(&mut self) {
        // Its input stays open until it has ended: without a host, open questions would be refused and the turn would go on.
        let _ = self.running.end(GRACE).await;
        self.stdin = None;
    }

    /// Ends it at once, with everything below it.
    pub(super) fn kill(&mut self) {
        self.running.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;

    #[test]
    fn the_command_line_has_the_rules_and_limits_of_the_job() {
        let text = r#"{"prompt":"p","model":"opus","effort":"low","agent":"Explore","ask":["Edit(a)"],"permissionMode":"acceptEdits","allow":["Edit","Bash(git log:*)"],
            "deny":["WebFetch"],"budgetUsd":2,"maxTurns":3,"schema":{"type":"object"}}"#;
        let mut entry = Entry::new(Job::parse(text).unwrap(), 0).claimed("w", 0, GRACE);
        entry.cost_usd = 0.5;
        let words = words(&entry, &Start::Resume("/t.jsonl".into()));
        for word in [
            "--resume=/t.jsonl",
            "--model=opus",
            "--effort=low",
            "--agent=Explore",
            r#"--settings={"permissions":{"ask":["Edit(a)"]}}"#,
            "--permission-mode=acceptEdits",
            "--allowedTools=Edit",
            "--allowedTools=Bash(git log:*)",
            "--disallowedTools=WebFetch",
            "--max-budget-usd=1.5",
            "--max-turns=3",
            r#"--json-schema={"type":"object"}"#,
        ] {
            assert!(words.iter().any(|it| it == word), "{word}: {words:?}");
        }
    }
}
