//! Forks: agents that continue from where the conversation stands.
//!
//! A fork's first request has the same system prompt, the same tools and the same messages as its
//! parent's, byte for byte; only the prompt at the end differs. So all forks of one answer read the
//! provider's cache. The calls that are still open, their own among them, all get the same fixed result.
//!
//! The conversation publishes a [`ForkPoint`] when an answer that asks for forks is complete: every fork
//! of that answer starts from the very same point.

use crate::conversation::Conversation;
use crate::turn::frozen::Step;
use bytes::Bytes;
use lathe_model::Thinking;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessages;
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_session::History;
use lathe_tools::ToolRegistry;
use std::sync::Arc;

/// The result of each open call in a fork.
pub(crate) const PLACEHOLDER: &str =
    "This call was handed to a copy of you. You are one of these copies; your order follows.";

/// Where forks start.
pub(crate) struct ForkPoint {
    /// The open calls.
    pub(crate) calls: Vec<ToolUseId>,
    pub(crate) history: History,
    pub(crate) tip: Option<RecordId>,
    pub(crate) model: String,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) system: Bytes,
    pub(crate) tools: ToolRegistry,
    pub(crate) tools_encoded: Bytes,
}

/// Lets the forks of the present answer start.
pub(crate) fn publish_fork_point(conversation: &Conversation, step: &Step) {
    let calls = conversation.history.unanswered_calls();
    let point = ForkPoint {
        calls: calls.into_iter().map(|call| call.id).collect(),
        history: conversation.history.clone(),
        tip: conversation.tip,
        model: conversation.model.clone(),
        thinking: step.choices.thinking,
        system: conversation.fixed.system.clone(),
        tools: step.tools.listed.clone(),
        tools_encoded: step.tools.encoded.clone(),
    };
    conversation
        .shared
        .state
        .fork_point
        .send_replace(Some(Arc::new(point)));
}

/// Whether these messages are a fork's first: then all up to the placeholders is what its siblings
/// send, too.
pub(crate) fn begins_as_fork(conversation: &Conversation, messages: &EncodedMessages) -> bool {
    let is_fork = conversation.shared.role.is_fork();
    is_fork
        && messages
            .last()
            .is_some_and(|last| memchr::memmem::find(&last.bytes, PLACEHOLDER.as_bytes()).is_some())
}

/// Takes over where a fork starts: the history, and a result for each open call.
pub(crate) fn take_fork_point(conversation: &mut Conversation, point: &ForkPoint) {
    conversation.history = point.history.clone();
    conversation.tip = point.tip;
    conversation.fixed.system = point.system.clone();
    conversation.tools_encoded = Some((point.tools.clone(), point.tools_encoded.clone()));
    conversation.context.tools_generation = conversation.shared.toolbox.deferred.generation();
    let window = crate::context::room::window_of_model(conversation);
    conversation.fixed.prompt.lean = crate::context::lean::applies(window);
    conversation.context.tools_lean = conversation.fixed.prompt.lean;
    for id in &point.calls {
        let block = ContentBlock::tool_result(id.clone(), PLACEHOLDER.to_owned(), false);
        let record = conversation.records.user(conversation.tip, vec![block]);
        let uuid = record.uuid;
        conversation.take_in(lathe_protocol::record::Record::Message(Box::new(record)));
        conversation.tip = Some(uuid);
    }
}

/// The prompt of a fork.
pub(crate) fn directive(prompt: &str) -> String {
    format!(
        "You are a copy of the agent above, working in parallel. Do only the following, with your own tool calls; don't start forks, don't ask the user, don't repeat what was done. End with a short report of what you did and found: it goes to the agent that you were copied from.\n\nYour order: {prompt}"
    )
}
