//! Shared by the tests of connections: fixtures, a home of their own, and waiting for what happens.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

use futures::future::BoxFuture;
use indexmap::IndexMap;
use lathe_mcp::{
    Backoff, CallOptions, Change, Elicitation, ElicitationAnswer, Handlers, Manager, Offers,
    Options, Root, SamplingRefused, ServerConfig, State,
};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::broadcast;

/// A guard against hanging, not a measure of anything.
pub const LONG: Duration = Duration::from_secs(120);

pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    path.to_str().unwrap().to_owned()
}

/// A home of its own for each test.
pub struct Home {
    pub folder: TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self {
            folder: tempfile::Builder::new()
                .prefix("lathe-mcp-")
                .tempdir()
                .unwrap(),
        }
    }
}

impl Home {
    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn environment(&self) -> Environment {
        let mut variables = std::collections::BTreeMap::new();
        variables.insert("PATH".to_owned(), std::env::var("PATH").unwrap());
        variables.insert("HOME".to_owned(), self.path().to_str().unwrap().to_owned());
        variables.insert(
            "LATHE_CONFIG_DIR".to_owned(),
            self.path().join("config").to_str().unwrap().to_owned(),
        );
        variables.insert("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
        Environment {
            variables,
            home: Some(self.path()),
            cwd: self.path(),
            ..Environment::default()
        }
    }

    pub fn options(&self) -> Options {
        let mut options = Options::new(self.environment(), "0.0.0-test");
        options.timeouts.start = LONG;
        options.backoff = Backoff {
            first: Duration::from_millis(20),
            longest: Duration::from_millis(500),
            tries: 100,
            give_up: LONG,
        };
        options
    }

    pub fn log(&self, server: &str) -> String {
        lathe_mcp::log::read(&self.options().home, server).unwrap()
    }

    pub fn manager(&self) -> Manager {
        Manager::new(self.options(), Arc::new(Person))
    }
}

/// The fixture with some habits.
pub fn local(habits: &[&str]) -> ServerConfig {
    let arguments =
        std::iter::once(fixture("server.py")).chain(habits.iter().map(|habit| (*habit).to_owned()));
    ServerConfig::stdio("python3", arguments)
}

pub fn servers<const N: usize>(
    servers: [(&str, ServerConfig); N],
) -> IndexMap<String, ServerConfig> {
    servers
        .into_iter()
        .map(|(name, config)| (name.to_owned(), config))
        .collect()
}

/// A manager with one server, settled.
pub async fn one(home: &Home, config: ServerConfig) -> Manager {
    let manager = home.manager();
    manager.set_servers(servers([("s", config)]));
    assert!(manager.settled(LONG).await);
    manager
}

pub fn state(manager: &Manager) -> State {
    manager.server("s").unwrap().state
}

pub fn reason(manager: &Manager) -> String {
    match state(manager) {
        State::Failed { reason } => reason,
        other => panic!("not failed: {other:?}"),
    }
}

pub async fn call(
    manager: &Manager,
    tool: &str,
    arguments: Value,
) -> Result<String, lathe_mcp::McpError> {
    let calling = manager.call_tool("s", tool, arguments, CallOptions::default());
    let result = tokio::time::timeout(LONG, calling)
        .await
        .expect("a call that ends")?;
    Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
}

/// Waits for a change.
pub async fn wait_for(
    changes: &mut broadcast::Receiver<Change>,
    wanted: impl Fn(&Change) -> bool,
) -> Change {
    let wait = async {
        loop {
            match changes.recv().await {
                Ok(change) if wanted(&change) => return change,
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(LONG, wait)
        .await
        .expect("the change comes")
}

/// Waits until a file or a log holds what it should.
pub async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, wait)
        .await
        .expect("it comes true");
}

/// Answers every question.
pub struct Person;

impl Handlers for Person {
    fn offers(&self) -> Offers {
        Offers {
            roots: true,
            sampling: true,
            elicitation_form: true,
            elicitation_url: true,
        }
    }

    fn roots(&self) -> Vec<Root> {
        vec![Root {
            uri: "file:///work".to_owned(),
            name: Some("work".to_owned()),
        }]
    }

    fn elicit<'a>(
        &'a self,
        server: &'a str,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        assert_eq!(server, "s");
        assert!(!question.message.contains('\u{1b}'));
        Box::pin(async { ElicitationAnswer::Accept(json!({"age": 7})) })
    }

    fn sample<'a>(
        &'a self,
        _server: &'a str,
        request: Value,
    ) -> BoxFuture<'a, Result<Value, SamplingRefused>> {
        Box::pin(async move {
            Ok(json!({
                "role": "assistant", "model": "m", "stopReason": "endTurn",
                "content": {"type": "text", "text": format!("{} tokens", request["maxTokens"])},
            }))
        })
    }
}
