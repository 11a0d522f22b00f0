//! A server asks for a model's answer. The user is asked each time, whatever the rules say: the prompt is the
//! server's, and the user pays. The cost is part of the session's.

use crate::conversation::ConversationShared;
use crate::conversation::questions::{Answer, HookMay};
use crate::session::background::note_side_usage;
use crate::session::ledger::Part;
use bytes::Bytes;
use lathe_mcp::ServerStatus;
use lathe_model::ask::complete;
use lathe_model::{CacheMarkers, ModelRequest, RecoveryPolicy};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::ids::RequestId;
use lathe_protocol::message::Role;
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_tools::mcp_result::{self, ResultStore, clean};
use lathe_tools::mcp_tool::prefix;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many answers servers may ask for in one turn.
const MOST_ANSWERS: usize = 10;
/// How many tokens an answer may have.
const MOST_TOKENS: u32 = 8_192;
/// How many messages a question may have.
const MOST_MESSAGES: usize = 100;
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(180);

/// Why a server gets no answer of the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum SamplingError {
    #[error("the session is over")]
    SessionOver,
    #[error("servers get at most {MOST_ANSWERS} model answers per turn")]
    TooMany,
    #[error("the budget of this session is used up")]
    BudgetSpent,
    #[error("the user declined")]
    Denied,
    /// The user's words.
    #[error("{0}")]
    DeniedWith(String),
    #[error("there is no user to approve a request to the model")]
    NobodyToAsk,
    #[error("the question was withdrawn")]
    Withdrawn,
    #[error("the first message must have the role user")]
    FirstMessage,
    #[error("a message is invalid: {0}")]
    Message(#[from] serde_json::Error),
    #[error("the model took too long")]
    TimedOut,
    #[error(transparent)]
    Model(#[from] lathe_model::ask::AskError),
}

/// Answers `sampling/createMessage`.
///
/// # Errors
/// With the reason why there is no answer; the server gets it.
pub(super) async fn sample(
    shared: &Arc<ConversationShared>,
    server: &str,
    request: &Value,
) -> Result<Value, SamplingError> {
    let running = shared
        .integrations
        .mcp
        .running()
        .ok_or(SamplingError::SessionOver)?;
    if running.samples.fetch_add(1, Ordering::Relaxed) >= MOST_ANSWERS {
        return Err(SamplingError::TooMany);
    }
    if let Some(most) = running.max_session_usd {
        let inner: f64 = shared
            .spending
            .waiting
            .lock()
            .iter()
            .map(|(_, totals)| totals.cost_usd())
            .sum();
        if shared.spending.totals.lock().cost_usd() + inner >= most {
            return Err(SamplingError::BudgetSpent);
        }
    }
    let cancel = CancellationToken::new();
    let _ends = cancel.clone().drop_guard();
    let asked = question(server, request, running.manager.server(server).as_ref());
    let question = shared
        .questions
        .ask(asked, &shared.hooks, HookMay::Decide, None, &cancel);
    match question.await {
        Answer::Reply(PermissionReply::Allow { .. })
        | Answer::HookReply(PermissionReply::Allow { .. }) => {}
        Answer::Reply(PermissionReply::Deny { message, .. })
        | Answer::HookReply(PermissionReply::Deny { message, .. }) => {
            return Err(if message.trim().is_empty() {
                SamplingError::Denied
            } else {
                SamplingError::DeniedWith(message)
            });
        }
        Answer::NobodyToAsk => {
            return Err(SamplingError::NobodyToAsk);
        }
        Answer::Withdrawn => return Err(SamplingError::Withdrawn),
    }
    let model = model(shared, request);
    let model_request = model_request(shared, request, &model)?;
    let provider = shared.session.provider.clone();
    let policy = RecoveryPolicy::default();
    let asked = complete(provider, model_request, policy, &cancel);
    let lathe_model::ask::Answer { text, header } = tokio::time::timeout(LIMIT, asked)
        .await
        .map_err(|_| SamplingError::TimedOut)??;
    note_side_usage(shared, Part::Side, &header);
    let stopped = header
        .stop_reason
        .as_ref()
        .and_then(|reason| serde_json::to_value(reason).ok());
    let stop_reason = match stopped.as_ref().and_then(Value::as_str) {
        Some("max_tokens") => "maxTokens",
        Some("stop_sequence") => "stopSequence",
        _ => "endTurn",
    };
    Ok(json!({
        "role": "assistant", "content": {"type": "text", "text": text},
        "model": header.model, "stopReason": stop_reason,
    }))
}

/// The question to the user.
fn question(server: &str, request: &Value, status: Option<&ServerStatus>) -> PermissionRequest {
    let mut shown = Vec::new();
    for message in request
        .get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(MOST_MESSAGES)
    {
        let text = message
            .pointer("/content/text")
            .and_then(Value::as_str)
            .map_or_else(|| "(not text)".to_owned(), clean);
        let role = message
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or("user");
        shown.push(json!({"role": role, "text": text.chars().take(2_000).collect::<String>()}));
    }
    let title = status
        .and_then(|status| status.description.as_ref())
        .and_then(|said| said.info.get("title")?.as_str())
        .map_or_else(|| server.to_owned(), clean);
    let first = shown
        .last()
        .and_then(|message| message["text"].as_str())
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect::<String>();
    let input = json!({
        "server": server, "messages": shown,
        "systemPrompt": request.get("systemPrompt").and_then(Value::as_str).map(clean),
        "maxTokens": request.get("maxTokens"),
    });
    let tool_use_id = format!("sampling_{}", RequestId::random()).into();
    PermissionRequest {
        decision_reason: Some(format!(
            "the MCP server {server} requests a model answer; this needs approval each time"
        )),
        decision_reason_type: Some("other".to_owned()),
        display_name: Some(format!("{title}: a question to the model")),
        title: Some(format!("Let the MCP server {server} ask the model")),
        description: Some(first),
        ..PermissionRequest::new(format!("{}sampling", prefix(server)), input, tool_use_id)
    }
}

/// The model that answers: one that the server hints at and that is known, otherwise the small one unless
/// the server says that wit matters more than price and speed.
fn model(shared: &ConversationShared, request: &Value) -> String {
    let preferences = request.get("modelPreferences");
    let hints = preferences
        .and_then(|preferences| preferences.get("hints")?.as_array())
        .into_iter()
        .flatten()
        .filter_map(|hint| hint.get("name")?.as_str());
    for hint in hints {
        let known = shared
            .session
            .catalog
            .aliases()
            .find(|(alias, id)| hint == *alias || id.contains(hint) || hint.contains(*alias));
        if let Some((_, id)) = known {
            return id.to_owned();
        }
    }
    let priority = |name: &str| {
        preferences
            .and_then(|preferences| preferences.get(name)?.as_f64())
            .unwrap_or(0.0)
    };
    let wit = priority("intelligencePriority");
    if wit > priority("costPriority") && wit > priority("speedPriority") {
        return shared.choices.read().model.clone();
    }
    shared.session.catalog.small_fast_model().id
}

fn model_request(
    shared: &ConversationShared,
    request: &Value,
    model: &str,
) -> Result<ModelRequest, SamplingError> {
    let place = ResultStore::new(
        &shared.tools.results_folder,
        &format!("sampling-{}", RequestId::random()),
        None,
    );
    let mut messages: Vec<(Role, Vec<ContentBlock>)> = Vec::new();
    for message in request
        .get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(MOST_MESSAGES)
    {
        let role = match message.get("role").and_then(Value::as_str) {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let content = message.get("content").cloned().unwrap_or_default();
        let mut blocks = mcp_result::of_content(&content, &place);
        match messages.last_mut() {
            Some((last, known)) if *last == role => known.append(&mut blocks),
            _ => messages.push((role, blocks)),
        }
    }
    if !matches!(messages.first(), Some((Role::User, _))) {
        return Err(SamplingError::FirstMessage);
    }
    let messages = messages
        .iter()
        .map(|(role, blocks)| EncodedMessage::new(*role, blocks))
        .collect::<Result<_, _>>()?;
    let system = request
        .get("systemPrompt")
        .and_then(Value::as_str)
        .filter(|words| !words.is_empty())
        .unwrap_or("You answer a question from a program. Be brief and exact.");
    let wanted = request
        .get("maxTokens")
        .and_then(Value::as_u64)
        .and_then(|tokens| u32::try_from(tokens).ok())
        .unwrap_or(MOST_TOKENS);
    let most = shared.session.catalog.resolve(model).info.max_output;
    let stop_sequences = request
        .get("stopSequences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .take(4)
        .collect();
    Ok(ModelRequest {
        model: model.to_owned(),
        max_tokens: wanted.clamp(1, MOST_TOKENS.min(most)),
        system: Bytes::from(json!([{"type": "text", "text": clean(system)}]).to_string()),
        tools: Bytes::from_static(b"[]"),
        messages,
        cache_markers: CacheMarkers::None,
        shared_results: false,
        thinking: None,
        betas: Vec::new(),
        stop_sequences,
        extra: serde_json::Map::new(),
    })
}
