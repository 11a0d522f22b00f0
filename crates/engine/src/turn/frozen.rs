//! The configuration of a step, read once before its request is sent.
//!
//! Faces, settings files and servers change choices and tools at any time. A step must not see half of a
//! change: the request, its repetitions, the calls of its answer and the forks of it all use the same
//! [`Step`]. A change takes effect with the next step.
//!
//! Two things stay live on purpose, because a change of them must not wait. Permissions: each call takes one
//! snapshot when it is decided (`call/permit.rs`), so that a mode that the user switches to, or a rule that a
//! person gives in an answer, is in effect for the next call of the same step. Hooks: those of a skill that a
//! call starts are in effect for the calls after it.

use crate::call::CallEnvironment;
use crate::conversation::{Choices, Conversation, RunningTurn};
use bytes::Bytes;
use lathe_model::RecoveryPolicy;
use lathe_model::providers::Kind;
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_session::history::LeftOut;
use lathe_tools::ToolRegistry;
use std::sync::Arc;

/// The configuration of one step.
pub(crate) struct Step {
    /// The model that answers, thinking, effort and fallback.
    pub(crate) choices: Choices,
    pub(crate) tools: StepTools,
    pub(crate) policy: RecoveryPolicy,
    /// The environment of the step's calls, with the tools that the step offers.
    pub(crate) calls: Arc<CallEnvironment>,
}

/// The tools of one step.
#[derive(Clone)]
pub(crate) struct StepTools {
    /// The tools that definitions are made of.
    pub(crate) listed: ToolRegistry,
    /// The definitions as they are sent.
    pub(crate) encoded: Bytes,
    /// The tools that calls may use.
    pub(crate) offered: ToolRegistry,
}

impl Step {
    /// Reads choices and tools for the next step.
    pub(crate) fn begin(conversation: &mut Conversation, turn: &RunningTurn) -> Self {
        let choices = choices(conversation);
        tell_left_out(conversation, &choices.model);
        let tools = tools(conversation);
        Self {
            policy: conversation.recovery_policy(&choices),
            calls: Arc::new(call_environment(conversation, turn, tools.offered.clone())),
            choices,
            tools,
        }
    }
}

/// Says what another model does not get of the conversation: reasoning is good only for the model that wrote it, and
/// other families have neither calls that a provider ran nor, most of them, documents. Words, calls, results and images
/// go along.
fn tell_left_out(conversation: &mut Conversation, model: &str) {
    let LeftOut {
        reasoning,
        server_calls,
        documents,
    } = conversation.history.newly_left_out();
    let providers = conversation.shared.session.catalog.providers();
    let entry = providers.get(providers.located(model).provider);
    let kind = entry.map_or(Kind::Anthropic, |entry| entry.kind);
    let is_foreign = !kind.is_messages();
    let parts = [
        (
            true,
            reasoning,
            "piece of reasoning that another model wrote",
            "pieces of reasoning that another model wrote",
        ),
        (
            is_foreign,
            server_calls,
            "call of a tool of another provider",
            "calls of tools of another provider",
        ),
        (
            is_foreign && kind != Kind::Gemini,
            documents,
            "document",
            "documents",
        ),
    ];
    let lost: Vec<String> = parts
        .into_iter()
        .filter(|(counts, count, ..)| *counts && *count > 0)
        .map(|(_, count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    if !lost.is_empty() {
        conversation.shared.events.news(
            News::new(Priority::Medium),
            NoticeLevel::Warning,
            format!("{model} does not get {}", lost.join(", ")),
        );
    }
}

/// Uses the chosen model from now on, if the choice changed.
pub(crate) fn take_chosen_model(conversation: &mut Conversation) {
    let chosen = crate::turn::models::next_model(&conversation.shared);
    if chosen != conversation.chosen {
        conversation.model.clone_from(&chosen);
        conversation.history.set_model(&chosen);
        conversation.chosen = chosen;
    }
}

/// Asks the server of the model that answers next for what nobody declared, such as the window that it uses. A model
/// that was asked about costs nothing.
pub(crate) async fn learn_model(conversation: &mut Conversation) {
    let shared = conversation.shared.clone();
    for notice in shared.session.provider.learn(&conversation.model).await {
        shared
            .events
            .news(News::new(Priority::Medium), NoticeLevel::Warning, notice);
    }
}

/// The choices of a request that is made now: those of the conversation, with the model that answers (it
/// differs after a fallback and for a skill) and the effort of a skill in use.
pub(crate) fn choices(conversation: &Conversation) -> Choices {
    let mut choices = conversation.shared.choices.read().clone();
    choices.model.clone_from(&conversation.model);
    let (_, effort) = conversation.shared.integrations.extensions.choices();
    if let Some(effort) = effort {
        choices.effort = Some(effort.name().to_owned());
    }
    choices
}

/// The tools of a request that is made now.
pub(crate) fn tools(conversation: &mut Conversation) -> StepTools {
    let listed = conversation.shared.all_tools();
    let encoded = conversation.encode_tools(&listed);
    let offered = conversation.shared.offered_of(listed.clone());
    StepTools {
        listed,
        encoded,
        offered,
    }
}

/// The environment of calls of a turn, which may use these tools.
pub(crate) fn call_environment(
    conversation: &Conversation,
    turn: &RunningTurn,
    registry: ToolRegistry,
) -> CallEnvironment {
    let shared = &conversation.shared;
    CallEnvironment {
        registry,
        tools: shared.tools.clone(),
        permissions: shared.permissions.clone(),
        hooks: shared.hooks.clone(),
        questions: shared.questions.clone(),
        events: shared.events.clone(),
        turn: shared.role.place().map_or(turn.prompt, |place| place.turn),
        agent_id: conversation.records.agent_id.clone(),
        backgrounds: shared.toolbox.backgrounds.clone(),
        undo: shared.toolbox.undo.clone(),
        language_servers: shared.integrations.language.servers.clone(),
        network: shared.toolbox.network.clone(),
        editor: shared.integrations.editor.clone(),
    }
}
