//! The server for code that isn't async: it runs on a thread of its own.

use crate::scenario::Scenario;
use crate::server::ScriptedServer;
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A [`ScriptedServer`] with a runtime of its own, for plain `#[test]`s that start the real binary.
#[derive(Debug)]
pub struct BlockingServer {
    server: ScriptedServer,
    /// Dropped after the server.
    runtime: Option<Runtime>,
}

impl BlockingServer {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port or no thread is available.
    pub fn start(scenario: Scenario) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("scripted-model")
            .enable_all()
            .build()?;
        let server = runtime.block_on(ScriptedServer::start(scenario))?;
        Ok(Self {
            server,
            runtime: Some(runtime),
        })
    }

    /// Waits until there have been this many requests; `false` if the limit came first.
    #[must_use]
    pub fn wait_for_requests(&self, count: usize, limit: Duration) -> bool {
        self.wait(limit, self.server.wait_for_requests(count))
    }

    /// Waits until this many replies have come to a gate; `false` if the limit came first.
    #[must_use]
    pub fn wait_for_gate(&self, name: &str, count: usize, limit: Duration) -> bool {
        let gate = self.server.gate(name);
        self.wait(limit, async move { gate.wait_reached(count).await })
    }

    fn wait(&self, limit: Duration, work: impl Future<Output = ()>) -> bool {
        self.runtime.as_ref().is_some_and(|runtime| {
            runtime.block_on(async { tokio::time::timeout(limit, work).await.is_ok() })
        })
    }
}

impl Deref for BlockingServer {
    type Target = ScriptedServer;

    fn deref(&self) -> &ScriptedServer {
        &self.server
    }
}

impl Drop for BlockingServer {
    fn drop(&mut self) {
        // Not waited for: a scenario may be in the middle of never answering.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
