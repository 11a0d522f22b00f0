//! A preview of the next request of a session here, without sending it.

use crate::context::usage::{ContextUsage, complete};
use crate::conversation::Conversation;
use crate::conversation::attachments;
use crate::open::options::{OpenError, SessionOptions};
use crate::open::prepare;
use crate::skills::announce::announce_skills;
use crate::turn::decide::OutputCap;
use lathe_model::body::{Purpose, RequestBody};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::Environment;
use serde::Serialize;
use serde_json::Value;

/// A request that was not sent.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The request's body, as the Messages API gets it.
    pub request: Value,
    /// The system prompt's parts: name and text.
    pub system: Vec<(String, String)>,
    /// The instruction files in it: path, why, bytes.
    pub instructions: Vec<(String, String, usize)>,
    /// Instruction files that were left out: path, why.
    pub skipped: Vec<(String, String)>,
    /// The tools: name and bytes.
    pub tools: Vec<(String, usize)>,
    /// Every part of the request with its size, in the order in which it is sent.
    pub parts: Vec<PreviewPart>,
    /// Problems of the configuration.
    pub remarks: Vec<Diagnostic>,
}

/// A part of a request that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviewPart {
    /// `tool`, `system`, `instructions`, `memory` (both within `system`) or `message`.
    pub kind: &'static str,
    /// Which.
    pub name: String,
    /// As JSON.
    pub bytes: usize,
    /// By estimate.
    pub tokens: u64,
}

impl PreviewPart {
    fn new(kind: &'static str, name: impl Into<String>, text: &str) -> Self {
        Self {
            kind,
            name: name.into(),
            bytes: text.len(),
            tokens: lathe_model::estimate::text(text),
        }
    }

    /// Whether it is counted in another part already.
    #[must_use]
    pub fn is_within_another(&self) -> bool {
        matches!(self.kind, "instructions" | "memory")
    }
}

impl Preview {
    /// Tokens of the whole request, by estimate.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.parts
            .iter()
            .filter(|part| !part.is_within_another())
            .map(|part| part.tokens)
            .sum()
    }
}

/// How full the window of a session would be at its next request, and what the user should know.
///
/// # Errors
/// As [`crate::open::open`].
pub async fn context_usage(
    environment: Environment,
    options: SessionOptions,
) -> Result<(ContextUsage, Vec<Diagnostic>), OpenError> {
    let mut prepared = prepare(environment, options).await?;
    let extensions = prepared.conversation.shared.integrations.extensions.clone();
    prepared.remarks.extend(extensions.remarks());
    let conversation = &mut prepared.conversation;
    conversation.measure_context();
    let mut usage = conversation.shared.state.usage.lock().clone();
    complete(&mut usage, &conversation.shared, &conversation.model);
    Ok((usage, prepared.remarks))
}

/// Adds the state of the repository, if the user trusted it.
async fn add_status(conversation: &mut Conversation) {
    let folder = conversation.shared.tools.working_folder.read().clone();
    let permissions = conversation.shared.permissions.snapshot();
    if permissions.tells_git_status
        && let Ok(git) = crate::context::git::Git::new(&permissions, &folder)
        && let Some(state) = git.state().await
    {
        let record = conversation.records.meta(
            conversation.tip,
            crate::conversation::records::reminder(&state),
        );
        conversation.append(record);
    }
}

/// Puts together what would be sent for a prompt.
///
/// # Errors
/// As [`crate::open::open`].
pub async fn preview(
    environment: Environment,
    options: SessionOptions,
    prompt: String,
) -> Result<Preview, OpenError> {
    let mut prepared = prepare(environment, options).await?;
    let extensions = prepared.conversation.shared.integrations.extensions.clone();
    prepared.remarks.extend(extensions.remarks());
    let conversation = &mut prepared.conversation;
    let is_new = conversation.tip.is_none();
    if !prompt.trim().is_empty() {
        let words = prompt.clone();
        let record = conversation.records.user(conversation.tip, prompt);
        conversation.append(record);
        attachments::attach_mentions(conversation, &words);
    }
    announce_skills(conversation);
    if is_new {
        add_status(conversation).await;
    }
    let request = conversation.request(OutputCap::Small);
    let body = RequestBody::messages_api(&request, Purpose::Streaming);
    let request: Value = serde_json::from_slice(&body.parts().concat()).unwrap_or_default();
    let list = |name: &str| {
        let list = request.get(name).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    let names = ["fixed part", "what varies", "appended"];
    let system_parts: Vec<(String, String)> = list("system")
        .enumerate()
        .map(|(index, block)| {
            let name = names.get(index).unwrap_or(&"further part");
            let text = block
                .get("text")
                .and_then(Value::as_str)
                .unwrap_or_default();
            ((*name).to_owned(), text.to_owned())
        })
        .collect();
    let mut parts: Vec<PreviewPart> = Vec::new();
    for tool in list("tools") {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        parts.push(PreviewPart::new("tool", name, &tool.to_string()));
    }
    let tool_sizes = parts
        .iter()
        .map(|part| (part.name.clone(), part.bytes))
        .collect();
    for ((name, _), block) in system_parts.iter().zip(list("system")) {
        parts.push(PreviewPart::new("system", name, &block.to_string()));
    }
    if !conversation.fixed.prompt.memory.is_empty() {
        let memory = &conversation.fixed.prompt.memory;
        parts.push(PreviewPart::new("memory", "what is kept", memory));
    }
    let (mut instructions, mut skipped) = (Vec::new(), Vec::new());
    if let Some(files) = conversation.shared.state.instructions.lock().as_ref() {
        for file in files.files() {
            let path = file.path.display().to_string();
            parts.push(PreviewPart::new("instructions", &path, &file.text));
            instructions.push((path, file.reason.text(), file.text.len()));
        }
        for file in files.skipped() {
            skipped.push((file.path.display().to_string(), file.why.clone()));
        }
    }
    for (number, message) in list("messages").enumerate() {
        let role = message.get("role").and_then(Value::as_str);
        let name = format!("{} {}", number + 1, role.unwrap_or_default());
        parts.push(PreviewPart::new("message", name, &message.to_string()));
    }
    Ok(Preview {
        request,
        system: system_parts,
        instructions,
        skipped,
        tools: tool_sizes,
        parts,
        remarks: prepared.remarks,
    })
}
