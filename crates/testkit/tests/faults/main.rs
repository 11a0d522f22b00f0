//! Every row of the recovery table, from a scripted fault to its end: success, or a clear error
//! with the documented exit code. The binary is the real one; only the model is scripted.
//!
//! No test waits for a wall clock: the pauses between retries and the stall limit are set to
//! milliseconds, and a run that hangs is killed and shown by the driver.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

mod answers;
mod limits;
mod machine;
mod refusals;
mod reliability;
mod streams;

use lathe_scripted::{BlockingServer, RecordedRequest, Scenario};
use lathe_testkit::{Output, TestHome};
use serde_json::Value;

pub(crate) const MODEL: &str = "claude-sonnet-4-6";

/// A run against a script.
pub(crate) struct Run {
    pub(crate) server: BlockingServer,
    pub(crate) home: TestHome,
}

impl Run {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let server = BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server)
            .variable("IS_SANDBOX", "1")
            .variable("LATHE_RETRY_BASE_MS", "1")
            .variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "5000");
        Self { server, home }
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.home = self.home.variable(name, value);
        self
    }

    pub(crate) fn go(&self, more: &[&str]) -> Output {
        let usual = [
            "-p",
            "do the thing",
            "--output-format",
            "stream-json",
            "--verbose",
            "--model",
            MODEL,
            "--permission-mode",
            "bypassPermissions",
        ];
        self.home.run(usual.iter().chain(more), "")
    }

    /// Runs, and expects success with this text, good requests and a quiet stderr.
    #[track_caller]
    pub(crate) fn succeeds(&self, more: &[&str], text: &str) -> Output {
        let output = self.go(more);
        let result = output.result();
        assert_eq!(result["is_error"], false, "{output:#?}");
        assert_eq!(result["subtype"], "success", "{output:#?}");
        assert_eq!(result["result"], text, "{output:#?}");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        self.server.finish();
        output
    }

    /// Runs, and expects an error whose text has all of these words.
    #[track_caller]
    pub(crate) fn fails(&self, more: &[&str], words: &[&str]) -> Output {
        let output = self.go(more);
        let result = output.result();
        assert_eq!(result["is_error"], true, "{output:#?}");
        assert_eq!(output.code(), Some(1), "{output:#?}");
        let told = format!("{}{}", result["result"], result["errors"]).to_lowercase();
        for word in words {
            assert!(
                told.contains(&word.to_lowercase()),
                "{word:?} is not in {told}"
            );
        }
        self.server.finish();
        output
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.server.message_requests()
    }
}

pub(crate) fn frames_of<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a Value> {
    frames
        .iter()
        .filter(|frame| frame["type"] == kind || frame["subtype"] == kind)
        .collect()
}

/// The text of a request's messages, as one string to search in.
pub(crate) fn conversation(request: &RecordedRequest) -> String {
    request.body["messages"].to_string()
}
