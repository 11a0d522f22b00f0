//! Tries out what a model can do: `lathe models test`.

use crate::assemble::{AssembleError, MessageAssembler};
use crate::error::ModelError;
use crate::provider::{Provider, Transfer};
use crate::request::ModelRequest;
use futures::StreamExt as _;
use lathe_protocol::content::{ContentBlock, joined_text};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{AssistantMessage, Role};
use serde_json::{Value, json};
use std::time::Duration;

/// How long one try may take.
const LIMIT: Duration = Duration::from_secs(120);
/// A red PNG of two by two pixels.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==";

/// The outcome of one try.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// `text`, `stream`, `tool`, `parallel`, `image` or `structured`.
    pub name: &'static str,
    /// Whether it went as it should.
    pub passed: bool,
    /// The outcome, on one line.
    pub detail: String,
}

/// Tries everything out, one after the other.
pub async fn run(provider: &dyn Provider, model: &str) -> Vec<Trial> {
    let mut trials = Vec::new();
    let plain = request(model, "Answer with the one word: ready", None);
    let (passed, detail) = match ask(provider, &plain, Transfer::Whole).await {
        Ok((message, _)) => spoken(&message),
        Err(error) => (false, error.to_string()),
    };
    trials.push(trial("text", passed, &detail));
    let (passed, detail) = match ask(provider, &plain, Transfer::Streaming).await {
        Ok((message, deltas)) => {
            let (passed, _) = spoken(&message);
            (
                passed,
                format!(
                    "{deltas} pieces, {} output tokens",
                    message.usage.output_tokens
                ),
            )
        }
        Err(error) => (false, error.to_string()),
    };
    trials.push(trial("stream", passed, &detail));
    if !trials.iter().any(|trial| trial.passed) {
        let rest = ["tool", "parallel", "image", "structured"];
        trials.extend(rest.map(|name| trial(name, false, "not tried: there was no answer")));
        return trials;
    }
    let tool = "Call the tool weather for the city Oslo. Do not answer in words.";
    trials.push(called(provider, "tool", &request(model, tool, Some(weather())), 1).await);
    let both =
        "Call the tool weather twice in one answer: for Oslo and for Rome. Do not answer in words.";
    trials.push(
        called(
            provider,
            "parallel",
            &request(model, both, Some(weather())),
            2,
        )
        .await,
    );
    let (passed, detail) = match ask(provider, &image(model), Transfer::Streaming).await {
        Ok((message, _)) => {
            let (_, words) = spoken(&message);
            (words.to_lowercase().contains("red"), words)
        }
        Err(error) => (false, error.to_string()),
    };
    trials.push(trial("image", passed, &detail));
    let mut structured = request(
        model,
        "Give the capital of Norway by the tool answer.",
        Some(answer()),
    );
    structured.extra.insert(
        "tool_choice".to_owned(),
        json!({"type": "tool", "name": "answer"}),
    );
    trials.push(called(provider, "structured", &structured, 1).await);
    trials
}

fn trial(name: &'static str, passed: bool, detail: &str) -> Trial {
    let line: String = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    Trial {
        name,
        passed,
        detail: line.chars().take(160).collect(),
    }
}

fn weather() -> Value {
    json!([{"name": "weather", "description": "Tells the weather of a city.", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string", "description": "The city."}}, "required": ["city"]}}])
}

fn answer() -> Value {
    json!([{"name": "answer", "description": "Takes the answer.", "input_schema": {
        "type": "object", "properties": {"capital": {"type": "string"}}, "required": ["capital"]}}])
}

fn request(model: &str, prompt: &str, tools: Option<Value>) -> ModelRequest {
    let mut request = ModelRequest::new(model, 1024);
    if let Some(tools) = tools {
        request.tools = tools.to_string().into();
    }
    request.system =
        json!([{"type": "text", "text": "You are being tested. Do exactly what is asked."}])
            .to_string()
            .into();
    request.messages.extend(EncodedMessage::new(
        Role::User,
        &[ContentBlock::text(prompt)],
    ));
    request
}

fn image(model: &str) -> ModelRequest {
    let mut request = request(model, "", None);
    request.messages.clear();
    let blocks = [
        ContentBlock::image("image/png", IMAGE),
        ContentBlock::text("Which colour is this image? One word."),
    ];
    request
        .messages
        .extend(EncodedMessage::new(Role::User, &blocks));
    request
}

fn spoken(message: &AssistantMessage) -> (bool, String) {
    let words = joined_text(&message.content);
    (!words.trim().is_empty(), words)
}

async fn called(
    provider: &dyn Provider,
    name: &'static str,
    request: &ModelRequest,
    wanted: usize,
) -> Trial {
    let message = match ask(provider, request, Transfer::Streaming).await {
        Ok((message, _)) => message,
        Err(error) => return trial(name, false, &error.to_string()),
    };
    let calls: Vec<String> = message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(format!("{}({})", call.name, call.input)),
            _ => None,
        })
        .collect();
    if calls.is_empty() {
        let (_, words) = spoken(&message);
        return trial(name, false, &format!("no call; it said: {words}"));
    }
    trial(name, calls.len() >= wanted, &calls.join(", "))
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("{}", .0.summary())]
    Model(#[from] ModelError),
    #[error(transparent)]
    Malformed(#[from] AssembleError),
    #[error("no answer within {} s", LIMIT.as_secs())]
    Late,
}

/// The message and the number of its pieces.
async fn ask(
    provider: &dyn Provider,
    request: &ModelRequest,
    transfer: Transfer,
) -> Result<(AssistantMessage, usize), TrialError> {
    let asking = async {
        let mut response = provider.stream(request, transfer).await?;
        let mut assembler = MessageAssembler::default();
        let mut pieces = 0;
        while let Some(piece) = response.next().await {
            assembler.feed(&piece?.event)?;
            pieces += 1;
        }
        Ok((assembler.finish()?, pieces))
    };
    tokio::time::timeout(LIMIT, asking)
        .await
        .unwrap_or(Err(TrialError::Late))
}
