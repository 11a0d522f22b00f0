//! A conversation: its history, its transcript and what its next request is made of.
//!
//! [`Conversation`] is owned by the turn that runs. What others reach meanwhile (the session actor, tools,
//! agents that report back) is its [`ConversationShared`]; what all conversations of a session use is
//! the [`Session`]. [`Conversation::new`] is the only constructor: the main conversation, agents, forks and
//! agent hooks all come out of it, each with the parts that are its own.

mod accept;
pub(crate) mod attachments;
mod choices;
pub(crate) mod coordinator;
pub(crate) mod extraction;
pub(crate) mod goal;
mod hook_conditions;
pub(crate) mod hook_model;
pub(crate) mod hook_moment;
pub(crate) mod hook_points;
pub(crate) mod language;
pub(crate) mod magic_docs;
pub(crate) mod model_switch;
pub(crate) mod notes;
pub(crate) mod plan;
pub mod questions;
pub(crate) mod records;
mod shared;
pub(crate) mod undo;
pub(crate) mod watched_files;

pub(crate) use accept::{Arrival, not_written};
pub(crate) use choices::{ChoiceCell, Choices};
pub(crate) use shared::{
    ConversationShared, ConversationState, Inbox, Integrations, Role, RunningTurn, Spending,
    Toolbox,
};

use crate::agents::fork;
use crate::call::tool_search::Deferral;
use crate::context::ContextState;
use crate::context::lean;
use crate::context::prompt::PromptParts;
use crate::context::room;
use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::Questions;
use crate::conversation::records::RecordFactory;
use crate::session::Session;
use crate::session::events::EventSink;
use crate::session::ledger::Ledger;
use crate::turn::decide::{Limits, OutputCap};
use crate::turn::frozen::{self, StepTools};
use crate::turn::guard::RepeatGuard;
use bytes::Bytes;
use lathe_model::{CacheMarkers, FallbackModel, ModelRequest, RecoveryPolicy, Thinking};
use lathe_permissions::Permissions;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::{EncodedMessage, EncodedMessages};
use lathe_protocol::event::Event;
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::message::{Message, Role as MessageRole};
use lathe_protocol::permission::{PermissionDenial, PermissionMode};
use lathe_protocol::record::{Fact, MessageRecord, Record};
use lathe_protocol::usage::Usage;
use lathe_session::{History, SessionError, TranscriptWriter};
use lathe_settings::instructions::Instructions;
use lathe_tools::{ToolContext, ToolRegistry};
use memchr::memmem;
use std::sync::Arc;

/// The state of a conversation that its turns own.
pub(crate) struct Conversation {
    pub(crate) shared: Arc<ConversationShared>,
    pub(crate) transcript: TranscriptWriter,
    pub(crate) history: History,
    /// The newest record.
    pub(crate) tip: Option<RecordId>,
    pub(crate) records: RecordFactory,
    pub(crate) ledger: Ledger,
    pub(crate) guard: RepeatGuard,
    pub(crate) denials: Vec<PermissionDenial>,
    /// The model that answers now; differs from the choice after a fallback and for a skill.
    pub(crate) model: String,
    /// The choice that `model` was taken from.
    pub(crate) chosen: String,
    pub(crate) last_usage: Option<Usage>,
    pub(crate) parent_tool_use_id: Option<ToolUseId>,
    pub(crate) fixed: Fixed,
    pub(crate) tools_encoded: Option<(ToolRegistry, Bytes)>,
    pub(crate) context: ContextState,
}

/// The parts of a request that stay the same during a conversation.
pub(crate) struct Fixed {
    pub(crate) system: Bytes,
    /// The parts of the system prompt, for when one of them changes.
    pub(crate) prompt: PromptParts,
    pub(crate) limits: Limits,
    pub(crate) policy: RecoveryPolicy,
    pub(crate) betas: Vec<String>,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) cache: CacheMarkers,
    /// Whether how long a turn took is kept, to be shown again.
    pub(crate) keeps_durations: bool,
}

impl Fixed {
    /// For a conversation with its own system prompt and none of the session's.
    pub(crate) fn bare(system: &str, max_turns: u32) -> Self {
        Self {
            system: Bytes::from(serde_json::json!([{"type": "text", "text": system}]).to_string()),
            prompt: PromptParts::default(),
            limits: Limits {
                max_turns: Some(max_turns),
                ..Limits::default()
            },
            policy: RecoveryPolicy::default(),
            betas: Vec::new(),
            max_output_tokens: None,
            extra: serde_json::Map::new(),
            cache: CacheMarkers::None,
            keeps_durations: false,
        }
    }
}

/// The parts that a new conversation has of its own.
pub(crate) struct Parts {
    pub(crate) events: EventSink,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) hooks: Arc<HookPoints>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) tools: Arc<ToolContext>,
    pub(crate) toolbox: Toolbox,
    pub(crate) integrations: Integrations,
    pub(crate) choices: Choices,
    pub(crate) instructions: Option<Instructions>,
    pub(crate) transcript: TranscriptWriter,
    pub(crate) records: RecordFactory,
    pub(crate) parent_tool_use_id: Option<ToolUseId>,
    pub(crate) fixed: Fixed,
    /// The configuration that agents of this conversation start with.
    pub(crate) seed: Arc<crate::agents::Seed>,
}

impl Conversation {
    /// A conversation without history.
    pub(crate) fn new(session: Arc<Session>, role: Role, parts: Parts) -> Self {
        let model = parts.choices.model.clone();
        let shared = Arc::new(ConversationShared {
            session,
            role,
            events: parts.events,
            permissions: parts.permissions,
            hooks: parts.hooks,
            questions: parts.questions,
            tools: parts.tools,
            toolbox: parts.toolbox,
            inbox: Inbox::default(),
            choices: ChoiceCell::new(parts.choices),
            transcript: parts.transcript.clone(),
            state: ConversationState::new(parts.instructions),
            spending: Spending::default(),
            integrations: parts.integrations,
            seed: parts.seed,
        });
        crate::skills::tool::bind(&shared);
        Self {
            shared,
            transcript: parts.transcript,
            history: History::new(&model),
            tip: None,
            records: parts.records,
            ledger: Ledger::default(),
            guard: RepeatGuard::default(),
            denials: Vec::new(),
            model,
            chosen: String::new(),
            last_usage: None,
            parent_tool_use_id: parts.parent_tool_use_id,
            fixed: parts.fixed,
            tools_encoded: None,
            context: ContextState::default(),
        }
    }
}

/// How much room an answer gets beside the thinking.
const ROOM_BESIDE_THINKING: u32 = 8_192;

/// The least limit of an answer whose thinking has a budget.
fn room_for(thinking: Option<Thinking>) -> Option<u32> {
    match thinking?.mode {
        lathe_model::ThinkingMode::Budget(budget) => {
            Some(budget.saturating_add(ROOM_BESIDE_THINKING))
        }
        _ => None,
    }
}

impl Conversation {
    /// Adds a record to the conversation: to the transcript, to what the model sees, and to what the
    /// faces show. Gives its id.
    pub(crate) fn append(&mut self, mut record: MessageRecord) -> RecordId {
        let uuid = record.uuid;
        self.shared.note_folder(&mut record);
        let record = self.take_in(Record::Message(Box::new(record)));
        self.tip = Some(uuid);
        if let Record::Message(record) = record {
            self.shared.events.send(Event::Record {
                record: Arc::new(*record),
                parent_tool_use_id: self.parent_tool_use_id.clone(),
            });
        }
        uuid
    }

    /// Adds a record to what the model sees, to the measure of it and to the transcript.
    pub(crate) fn take_in(&mut self, record: Record) -> Record {
        self.history.push(&record);
        if let Record::Message(message) = &record {
            self.context.meter.note(message);
        }
        self.transcript.append(record.clone());
        record
    }

    /// As [`Self::append`], and on disk when it returns.
    pub(crate) async fn append_synced(
        &mut self,
        mut record: MessageRecord,
    ) -> Result<Arc<MessageRecord>, SessionError> {
        self.shared.note_folder(&mut record);
        let shown = Arc::new(record.clone());
        self.append_all_synced(vec![record]).await?;
        Ok(shown)
    }

    /// As [`Self::append_synced`], for records that belong together: the transcript gets all or none.
    pub(crate) async fn append_all_synced(
        &mut self,
        records: Vec<MessageRecord>,
    ) -> Result<(), SessionError> {
        let records: Vec<Arc<Record>> = records
            .into_iter()
            .map(|record| Arc::new(Record::Message(Box::new(record))))
            .collect();
        self.transcript.append_all_synced(records.clone()).await?;
        for record in &records {
            self.history.push(record);
            if let Record::Message(message) = &**record {
                self.context.meter.note(message);
                self.tip = Some(message.uuid);
            }
        }
        Ok(())
    }

    /// Hands every record so far to the system, as must be before a request goes out: what the model was
    /// told survives the end of this process. A fork's request carries its parent's records too.
    ///
    /// # Errors
    /// If something can't be written. The writer keeps it and tries again; the request must not go out.
    pub(crate) async fn hand_over(&self) -> Result<(), SessionError> {
        self.transcript.flush().await?;
        if self.shared.role.is_fork()
            && let Some(root) = self
                .shared
                .role
                .place()
                .and_then(|place| place.root.upgrade())
        {
            root.transcript.flush().await?;
        }
        Ok(())
    }

    /// Keeps a fact with the session.
    pub(crate) fn append_fact(&mut self, fact: Fact) {
        let record = Record::Fact(fact);
        self.history.push(&record);
        self.transcript.append(record);
    }

    /// Goes back to an earlier record; what came after it is off the chain from now on.
    pub(crate) fn rewind_to(&mut self, base: Option<RecordId>) {
        if self.tip == base {
            return;
        }
        self.append_fact(Fact::Rewound {
            to: base,
            session_id: self.shared.session.id,
        });
        self.context.meter.rewind_to(base);
        self.tip = base;
    }

    /// How requests are repeated, with the fallback models' requests: those that come after the model that
    /// answers now.
    pub(crate) fn recovery_policy(&self, choices: &Choices) -> RecoveryPolicy {
        let mut policy = self.fixed.policy.clone();
        let all = &choices.fallbacks;
        let used = all.iter().position(|model| *model == choices.model);
        let left = all.iter().skip(used.map_or(0, |used| used + 1));
        policy.fallbacks = left.map(|model| self.fallback(model, choices)).collect();
        policy
    }

    fn fallback(&self, model: &str, choices: &Choices) -> FallbackModel {
        let model = model.to_owned();
        let large = self.output_limit(&model, OutputCap::Large);
        let info = self.shared.session.catalog.resolve(&model).info;
        let thinking = choices
            .thinking
            .and_then(|wanted| info.fit_thinking(wanted));
        FallbackModel {
            model: model.clone(),
            rewrite: Arc::new(move |request| {
                let mut request = request.clone();
                request.model.clone_from(&model);
                request.max_tokens = request.max_tokens.min(large);
                request.thinking = thinking;
                if let Some(room) = room_for(thinking) {
                    request.max_tokens = request.max_tokens.max(room);
                }
                let mut messages = request.messages.to_vec();
                messages.iter_mut().for_each(strip_thinking);
                request.messages = messages.into();
                request
            }),
        }
    }

    pub(crate) fn output_limit(&self, model: &str, cap: OutputCap) -> u32 {
        let info = self.shared.session.catalog.resolve(model).info;
        match (self.fixed.max_output_tokens, cap) {
            (Some(fixed), _) => fixed.min(info.max_output),
            (None, OutputCap::Small) => info.small_output(),
            (None, OutputCap::Large) => info.large_output(),
        }
    }

    /// A request that isn't a step of a turn: a summary, notes, a count.
    pub(crate) fn request(&mut self, cap: OutputCap) -> ModelRequest {
        let choices = frozen::choices(self);
        let tools = frozen::tools(self);
        self.request_with(&choices, &tools, cap)
    }

    /// The next request. Costs what was added since the last one.
    pub(crate) fn request_with(
        &mut self,
        choices: &Choices,
        tools: &StepTools,
        cap: OutputCap,
    ) -> ModelRequest {
        let model = &choices.model;
        let thinking = choices.thinking.and_then(|wanted| {
            let info = self.shared.session.catalog.resolve(model).info;
            info.fit_thinking(wanted)
        });
        let mut max_tokens = self.output_limit(model, cap);
        if let Some(room) = room_for(thinking) {
            max_tokens = max_tokens.max(room);
        }
        let messages = self.request_messages();
        let shared_results = fork::begins_as_fork(self, &messages);
        self.note_context(&tools.encoded);
        let mut extra = self.fixed.extra.clone();
        put_effort(&mut extra, choices.effort.as_deref());
        ModelRequest {
            model: model.clone(),
            max_tokens,
            system: self.fixed.system.clone(),
            tools: tools.encoded.clone(),
            messages,
            cache_markers: self.fixed.cache,
            shared_results,
            thinking,
            betas: self.fixed.betas.clone(),
            stop_sequences: Vec::new(),
            extra,
        }
    }

    /// The conversation as it is sent.
    pub(crate) fn request_messages(&mut self) -> EncodedMessages {
        self.history.request_messages()
    }

    /// Measures how full the window would be now, for faces that ask before the next request.
    pub(crate) fn measure_context(&mut self) {
        let tools = self.encoded_tools();
        self.note_context(&tools);
    }

    /// Notes how full the window is, for faces.
    fn note_context(&mut self, tools: &Bytes) {
        let sizes = self.context.sizes(&self.fixed.system, tools).clone();
        let prompt = &self.fixed.prompt;
        let memory = (lathe_model::estimate::text(&prompt.instructions)
            + lathe_model::estimate::text(&prompt.memory))
        .min(sizes.system);
        let mcp_tools = self.context.mcp_tokens.min(sizes.tools);
        let agents = self.agent_tokens().min(sizes.tools - mcp_tools);
        let fixed = sizes.system + sizes.tools;
        let total = self.context.meter.tokens(fixed);
        // The provider counts the whole; the guesses say how it is made up.
        let message_tokens = room::message_tokens(self);
        let guessed = (fixed + message_tokens).max(1);
        let share = |tokens: u64| tokens * total / guessed;
        let mut usage = self.shared.state.usage.lock();
        usage.memory = share(memory);
        usage.system = share(sizes.system - memory);
        usage.mcp_tools = share(mcp_tools);
        usage.agents = share(agents);
        usage.tools = share(sizes.tools - mcp_tools - agents);
        usage.messages = total
            - (usage.memory + usage.system + usage.mcp_tools + usage.agents + usage.tools)
                .min(total);
        // The list of skills stands in the conversation: its share of it, by the guesses for both.
        let told = self.shared.integrations.extensions.told_tokens();
        let spoken = message_tokens.saturating_sub(told).max(1);
        usage.skills = usage.messages * told / (told + spoken);
        usage.messages -= usage.skills;
        usage.counted = self.context.meter.is_counted();
        usage.thresholds.auto_compact = self.fixed.limits.auto_compact;
    }

    /// A guess for the list of agents, which stands in the description of their tool.
    fn agent_tokens(&self) -> u64 {
        let registry = self.shared.toolbox.registry.read();
        if registry.find(lathe_tools::agent::NAME).is_none()
            || self.shared.toolbox.deferred.waits(lathe_tools::agent::NAME)
        {
            return 0;
        }
        let catalog = self.shared.session.agents.catalog();
        let lines = catalog.iter().map(|agent| {
            lathe_model::estimate::text(&agent.name)
                + lathe_model::estimate::text(&agent.description)
        });
        lines.sum()
    }

    /// The tools as bytes, as the next request has them.
    pub(crate) fn encoded_tools(&mut self) -> Bytes {
        let registry = self.shared.all_tools();
        self.encode_tools(&registry)
    }

    /// A list of tools as bytes, encoded again only when the list has changed.
    pub(crate) fn encode_tools(&mut self, registry: &ToolRegistry) -> Bytes {
        coordinator::follow_mode(self);
        lean::follow_window(self);
        let lean = self.fixed.prompt.lean;
        if lean && self.shared.permissions.mode() == PermissionMode::Plan {
            // Plans are finished with it.
            self.shared.toolbox.deferred.load("ExitPlanMode");
        }
        if let Some((known, bytes)) = &self.tools_encoded
            && known.is_same(registry)
            && self.context.tools_lean == lean
            && self.context.tools_generation == self.shared.toolbox.deferred.generation()
        {
            return bytes.clone();
        }
        let definitions = registry.definitions();
        self.context.mcp_tokens = definitions
            .iter()
            .filter(|tool| tool.name.starts_with("mcp__"))
            .filter_map(|tool| serde_json::to_string(tool).ok())
            .map(|text| lathe_model::estimate::text(&text))
            .sum();
        let window = room::windows(self).window;
        let deferral = if lean && !lean::are_few(&definitions) {
            Deferral::Lean
        } else if self.context.mcp_tokens > window / 10 {
            Deferral::Servers
        } else {
            Deferral::None
        };
        let mut definitions = self.shared.toolbox.deferred.choose(definitions, deferral);
        if lean {
            definitions = definitions.into_iter().map(lean::shortened).collect();
        }
        self.context.tools_lean = lean;
        // What comes with MCP servers stands behind the rest, so that a server never moves other tools.
        definitions.sort_by_key(|tool| crate::mcp::rank(&tool.name));
        let generation = self.shared.toolbox.deferred.generation();
        if generation != self.context.tools_generation {
            self.context.tools_generation = generation;
            self.context.prefix.expect("tools were loaded");
        }
        let bytes =
            Bytes::from(serde_json::to_vec(&definitions).unwrap_or_else(|_| b"[]".to_vec()));
        self.tools_encoded = Some((registry.clone(), bytes.clone()));
        bytes
    }

    /// Takes images and documents out of the message that the API refused (or of the last one that has
    /// any), now and after a resume. Returns whether there was one.
    pub(crate) fn drop_media(&mut self, at: Option<lathe_model::BlockPosition>) -> bool {
        let messages = self.history.request_messages();
        let named = at.and_then(|at| messages.get(at.message));
        let media = named
            .map(|message| media_of(&message))
            .filter(|media| !media.is_empty())
            .or_else(|| {
                messages
                    .iter()
                    .rev()
                    .map(|message| media_of(&message))
                    .find(|media| !media.is_empty())
            });
        let Some(media) = media else { return false };
        self.append_fact(Fact::MediaDropped {
            media,
            session_id: self.shared.session.id,
        });
        true
    }
}

/// The digests of a message's images and documents.
fn media_of(message: &EncodedMessage) -> Vec<String> {
    if message.role != MessageRole::User || memmem::find(&message.bytes, b"\"source\"").is_none() {
        return Vec::new();
    }
    let Ok(decoded) = serde_json::from_slice::<Message>(&message.bytes) else {
        return Vec::new();
    };
    let blocks = decoded.content.into_blocks();
    blocks
        .iter()
        .flat_map(lathe_session::history::media_keys)
        .collect()
}

/// Takes reasoning out of a message: another model can't read its signature.
fn strip_thinking(message: &mut EncodedMessage) {
    let has_thinking = message.role == MessageRole::Assistant
        && memmem::find(&message.bytes, b"thinking\"").is_some();
    if !has_thinking {
        return;
    }
    let Ok(decoded) = serde_json::from_slice::<Message>(&message.bytes) else {
        return;
    };
    let mut blocks = decoded.content.into_blocks();
    blocks.retain(|block| !block.is_thinking());
    if blocks.is_empty() {
        blocks.push(ContentBlock::text("[reasoning omitted]"));
    }
    if let Ok(stripped) = EncodedMessage::new(message.role, &blocks) {
        *message = stripped;
    }
}

/// Says in what a request has beside the conversation how hard to try; `None` is the model's own way.
fn put_effort(extra: &mut serde_json::Map<String, serde_json::Value>, effort: Option<&str>) {
    let config = extra
        .entry("output_config")
        .or_insert_with(|| serde_json::json!({}));
    if let Some(config) = config.as_object_mut() {
        match effort {
            Some(effort) => {
                config.insert("effort".to_owned(), effort.into());
            }
            None => {
                config.shift_remove("effort");
            }
        }
        if config.is_empty() {
            extra.shift_remove("output_config");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::content::ThinkingBlock;

    #[test]
    fn reasoning_is_taken_out_for_another_model() {
        let thinking = ContentBlock::Thinking(ThinkingBlock {
            thinking: "hm".into(),
            signature: "s".into(),
            ..ThinkingBlock::default()
        });
        let mut message = EncodedMessage::new(
            MessageRole::Assistant,
            &[thinking.clone(), ContentBlock::text("a")],
        )
        .unwrap();
        strip_thinking(&mut message);
        assert_eq!(
            &message.bytes[..],
            br#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#
        );
        let mut only = EncodedMessage::new(MessageRole::Assistant, &[thinking]).unwrap();
        strip_thinking(&mut only);
        assert!(
            std::str::from_utf8(&only.bytes)
                .unwrap()
                .contains("omitted")
        );
    }

    #[test]
    fn media_is_found_in_results_too() {
        let image = ContentBlock::image("image/png", "AA==");
        let result = ContentBlock::tool_result("t".into(), vec![image.clone()], false);
        let message = EncodedMessage::new(MessageRole::User, &[result, image]).unwrap();
        let media = media_of(&message);
        assert_eq!((media.len(), &media[0]), (2, &media[1]));
        let words = EncodedMessage::new(MessageRole::User, &[ContentBlock::text("a")]).unwrap();
        assert_eq!(media_of(&words), Vec::<String>::new());
    }
}
