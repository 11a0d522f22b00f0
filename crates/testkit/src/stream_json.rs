//! A session over the NDJSON protocol: write a frame, wait for a frame.

use crate::run::{Output, Running};
use crate::{HANG_LIMIT, TestHome};
use serde_json::{Value, json};
use std::ffi::OsStr;

/// `lathe -p --input-format stream-json --output-format stream-json`, driven frame by frame.
#[derive(Debug)]
pub struct StreamJson {
    running: Running,
    /// Bytes of stdout that have been looked at.
    seen: usize,
    requests: usize,
}

impl StreamJson {
    /// Starts a session with more arguments.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn start<A: AsRef<OsStr>>(home: &TestHome, arguments: impl IntoIterator<Item = A>) -> Self {
        let mut command = home.command([
            "--print",
            "--verbose",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
        ]);
        command.args(arguments);
        Self {
            running: Running::start(command),
            seen: 0,
            requests: 0,
        }
    }

    /// The process.
    #[must_use]
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Writes a frame.
    pub fn send(&mut self, frame: &Value) {
        self.running.write(format!("{frame}\n").as_bytes());
    }

    /// Writes a prompt.
    pub fn prompt(&mut self, text: &str) {
        self.send(&json!({
            "type": "user",
            "message": {"role": "user", "content": text},
            "parent_tool_use_id": null,
            "session_id": "",
        }));
    }

    /// Writes a control request and waits for the answer to it.
    ///
    /// # Panics
    /// If there is none in time.
    #[track_caller]
    pub fn control(&mut self, request: &Value) -> Value {
        self.requests += 1;
        let id = format!("request-{}", self.requests);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        self.wait_for(|frame| {
            frame["type"] == "control_response" && frame["response"]["request_id"] == id.as_str()
        })
    }

    /// The next frame.
    ///
    /// # Panics
    /// If there is none in time, or it isn't JSON.
    #[track_caller]
    pub fn next_frame(&mut self) -> Value {
        let seen = self.seen;
        let line = self.running.stdout.wait(HANG_LIMIT, |bytes, _| {
            let rest = &bytes[seen..];
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            Some(rest[..end].to_vec())
        });
        let Some(line) = line else {
            panic!("no frame comes any more: {}", self.running.describe());
        };
        self.seen += line.len() + 1;
        serde_json::from_slice(&line).unwrap_or_else(|error| {
            panic!("not a frame ({error}): {}", String::from_utf8_lossy(&line))
        })
    }

    /// The next frame that fits; those before it are passed over.
    ///
    /// # Panics
    /// If there is none in time.
    #[track_caller]
    pub fn wait_for(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let frame = self.next_frame();
            if fits(&frame) {
                return frame;
            }
        }
    }

    /// The result of the turn.
    ///
    /// # Panics
    /// If there is none in time.
    #[track_caller]
    pub fn wait_for_result(&mut self) -> Value {
        self.wait_for(|frame| frame["type"] == "result")
    }

    /// Closes stdin and waits for the end.
    ///
    /// # Panics
    /// If it doesn't come in time.
    #[track_caller]
    #[must_use]
    pub fn close(self) -> Output {
        self.running.finish()
    }
}

/// The payload of a successful control response.
///
/// # Panics
/// If the response is an error.
#[expect(clippy::must_use_candidate, reason = "often called to check only")]
pub fn success(frame: &Value) -> &Value {
    assert_eq!(frame["response"]["subtype"], "success", "{frame}");
    &frame["response"]["response"]
}
