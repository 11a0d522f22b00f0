//! A home whose model is a scripted one behind a declared provider.

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{Output, TestHome};
use serde_json::{Value, json};

/// A kind of provider.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The suffix of the server's address.
    path: &'static str,
    /// Scenarios that can't happen on its wire.
    pub(crate) skips: &'static [&'static str],
}

pub(crate) const KINDS: [Kind; 6] = [
    kind("anthropic", "", &[]),
    kind("openai-chat", "/v1", &[]),
    kind("openai", "/v1", &[]),
    // Its calls come whole and parsed.
    kind(
        "gemini",
        "/v1beta",
        &["broken_arguments_are_an_error_for_the_model"],
    ),
    // Frames have no lines.
    kind("bedrock", "", &["odd_framing_is_read"]),
    kind("vertex", "/v1", &[]),
];

const fn kind(name: &'static str, path: &'static str, skips: &'static [&'static str]) -> Kind {
    Kind { name, path, skips }
}

/// The key of the house.
pub(crate) const KEY: &str = "sk-house-0123456789";

/// A home for one scenario.
pub(crate) struct House {
    pub(crate) kind: &'static Kind,
    pub(crate) home: TestHome,
}

impl House {
    pub(crate) fn new(kind: &'static Kind) -> Self {
        let home = TestHome::new()
            .variable("HOUSE_KEY", KEY)
            .variable("AWS_ACCESS_KEY_ID", "AKIDHOUSE")
            .variable("AWS_SECRET_ACCESS_KEY", "secret-of-the-house")
            .variable("LATHE_RETRY_BASE_MS", "1");
        Self { kind, home }
    }

    /// Starts a server with these replies and declares it as `house`.
    pub(crate) fn serve(&self, replies: impl IntoIterator<Item = Reply>) -> BlockingServer {
        let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
        self.serve_scenario(scenario)
    }

    pub(crate) fn serve_scenario(&self, scenario: Scenario) -> BlockingServer {
        let server = BlockingServer::start(scenario).unwrap();
        self.settings(&json!({"providers": {"house": self.entry(&server.base_url())}}));
        server
    }

    /// The declaration of a provider of this kind.
    pub(crate) fn entry(&self, base: &str) -> Value {
        let mut entry = json!({
            "kind": self.kind.name,
            "baseUrl": format!("{base}{}", self.kind.path),
            "models": {"m-1": {"contextWindow": 200_000, "maxOutputTokens": 8_000, "reasoning": true,
                "price": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1}}},
        });
        match self.kind.name {
            "bedrock" => entry["region"] = json!("us-east-1"),
            "vertex" => {
                entry["region"] = json!("europe-west1");
                entry["project"] = json!("the-project");
                entry["apiKeyEnv"] = json!("HOUSE_KEY");
            }
            _ => entry["apiKeyEnv"] = json!("HOUSE_KEY"),
        }
        entry
    }

    pub(crate) fn settings(&self, settings: &Value) {
        std::fs::write(
            self.home.config().join("settings.json"),
            settings.to_string(),
        )
        .unwrap();
    }

    /// Runs print mode with JSON output.
    pub(crate) fn ask(&self, more: &[&str]) -> Output {
        self.ask_model("house/m-1", more)
    }

    pub(crate) fn ask_model(&self, model: &str, more: &[&str]) -> Output {
        let mut arguments = vec![
            "-p",
            "the prompt",
            "--output-format",
            "json",
            "--model",
            model,
        ];
        arguments.extend(more);
        self.home.run(arguments, "")
    }

    /// The result of a run that must go well.
    pub(crate) fn result(&self, more: &[&str]) -> Value {
        let output = self.ask(more);
        assert_eq!(output.code(), Some(0), "{output:#?}");
        output.result()
    }
}
