//! The state of a conversation: what the turn loop owns ([`Core`]) and what it shares with the session
//! actor while it runs ([`Shared`], [`Turn`]).

use crate::context::ContextState;
use crate::decide::{Limits, OutputCap};
use crate::events::EventSink;
use crate::guard::RepeatGuard;
use crate::hook_points::HookPoints;
use crate::ledger::Ledger;
use crate::prompt::PromptParts;
use crate::questions::Questions;
use crate::records::RecordFactory;
use crate::undo::Undo;
use bytes::Bytes;
use lathe_model::{
    CacheMarkers, Catalog, FallbackModel, ModelRequest, Provider, RecoveryPolicy, Thinking,
};
use lathe_permissions::Permissions;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::{EncodedMessage, EncodedMessages};
use lathe_protocol::event::{Event, SessionInit};
use lathe_protocol::ids::{RecordId, SessionId, ToolUseId};
use lathe_protocol::message::{Message, Role};
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::PermissionDenial;
use lathe_protocol::record::{Fact, MessageRecord, Record};
use lathe_protocol::usage::Usage;
use lathe_session::{Conversation, TranscriptWriter};
use lathe_settings::instructions::Instructions;
use lathe_tools::{ToolContext, ToolRegistry};
use memchr::memmem;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What a turn and the session actor both use.
pub(crate) struct Shared {
    pub(crate) session_id: SessionId,
    pub(crate) events: EventSink,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) hooks: Arc<HookPoints>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) tools: Arc<ToolContext>,
    pub(crate) registry: RwLock<ToolRegistry>,
    pub(crate) queue: Mutex<VecDeque<Prompt>>,
    /// Prompts that were sent and are not in the queue yet. Locked after the queue.
    pub(crate) on_the_way: Mutex<Vec<RecordId>>,
    /// Rung when something that isn't a person's word came into the queue, or background work ended.
    pub(crate) wake: Notify,
    pub(crate) choices: RwLock<Choices>,
    pub(crate) backgrounds: Arc<crate::call::Backgrounds>,
    pub(crate) default_thinking: Option<Thinking>,
    /// Whether the caller named the model: then settings don't change it.
    pub(crate) model_is_pinned: bool,
    pub(crate) undo: Option<Arc<Undo>>,
    pub(crate) instructions: Mutex<Option<Instructions>>,
    /// For facts that don't wait for a turn; the same file as the conversation's own.
    pub(crate) transcript: TranscriptWriter,
    /// What conversations inside this one used, until the ledger takes it in.
    /// The model that a session without a choice uses.
    pub(crate) default_model: String,
    pub(crate) key_source: String,
    /// The settings that count.
    pub(crate) settings: RwLock<serde_json::Value>,
    /// What each source of settings says.
    pub(crate) layers: RwLock<Vec<serde_json::Value>>,
    /// Loads settings again when a face changes them.
    pub(crate) loader: crate::live::SettingsLoader,
    /// MCP servers and their state, as a face sees them.
    pub(crate) mcp_servers: RwLock<Vec<serde_json::Value>>,
    /// The MCP servers themselves; a conversation inside this one has none of its own.
    pub(crate) mcp: Arc<crate::mcp::Mcp>,
    /// The language servers, and whose edits they hear of.
    pub(crate) language: crate::language::Language,
    /// The part of what a face is told at the start of a turn that doesn't change.
    pub(crate) init: SessionInit,
    /// Names under which the model may call tools.
    pub(crate) tool_aliases: std::collections::BTreeMap<String, String>,
    /// The plugins; the same for all conversations of the session.
    pub(crate) plugins: Arc<crate::plugins::Plugins>,
    /// Agents, skills, commands and output styles.
    pub(crate) extensions: Arc<crate::skills::Extensions>,
    /// What the session used, as of the last step.
    pub(crate) totals: Mutex<crate::ledger::Totals>,
    /// How hard the model should try, if someone said so.
    pub(crate) effort: Option<String>,
    /// How full the window was at the last request.
    pub(crate) context_usage: Mutex<crate::context::usage::ContextUsage>,
    /// A running account of the conversation.
    pub(crate) notes: Arc<crate::notes::Notes>,
    /// What runs beside the turns.
    pub(crate) background: Arc<crate::background::Background>,
    /// Tools that are loaded when they are wanted.
    pub(crate) deferred: Arc<crate::tool_search::DeferredTools>,
    pub(crate) extra_usage: Mutex<Vec<(crate::ledger::Part, crate::ledger::Totals)>>,
    /// The agents of the session; the same for all its conversations.
    pub(crate) agents: Arc<crate::agents::Agents>,
    /// Which agent this conversation is; `None` is the main one.
    pub(crate) place: Option<crate::agents::Place>,
    /// What agents of this conversation start with.
    pub(crate) seed: Arc<crate::agents::Seed>,
    /// Where forks of the newest answer start.
    pub(crate) fork_point: tokio::sync::watch::Sender<Option<Arc<crate::agents::ForkPoint>>>,
    pub(crate) planning: crate::plan::Planning,
    /// Background commands whose end the model knows of.
    pub(crate) known_ends: Mutex<std::collections::HashSet<String>>,
    /// Which tools the main conversation has when it runs as an agent.
    pub(crate) main_filter: Option<crate::agents::ToolFilter>,
    /// What was chosen since the session began.
    pub(crate) chosen: RwLock<Chosen>,
}

/// What a person or host chose while the session runs; `None` is what it began with.
#[derive(Default)]
pub(crate) struct Chosen {
    /// How hard the model should try.
    pub(crate) effort: Option<Option<String>>,
    /// The model that takes over when the first is overloaded.
    pub(crate) fallback: Option<Option<String>>,
}

impl Shared {
    /// Takes a prompt off the list of those that are on the way; whether it was on it.
    pub(crate) fn arrived(&self, prompt: RecordId) -> bool {
        let mut on_the_way = self.on_the_way.lock();
        let at = on_the_way.iter().position(|known| *known == prompt);
        at.map(|at| on_the_way.swap_remove(at)).is_some()
    }

    /// The tools that the model is offered: a tool that is denied as a whole isn't.
    pub(crate) fn offered_tools(&self) -> ToolRegistry {
        let mut registry = self.all_tools();
        if !self.deferred.is_active() {
            registry.retain(|tool| tool.name() != crate::tool_search::NAME);
        }
        if self.place.as_ref().is_some_and(|place| place.is_fork) {
            // A fork is sent the same list as its parent, for the cache; it may use less of it.
            registry.retain(|tool| !crate::agents::FORBIDDEN.contains(&tool.name()));
        }
        registry
    }

    /// As [`Self::offered_tools`], with the search for tools even where nothing waits.
    pub(crate) fn all_tools(&self) -> ToolRegistry {
        let mut registry = self.registry.read().clone();
        registry.retain(|tool| !self.permissions.is_blanket_denied(tool.name()));
        if let Some(filter) = &self.main_filter {
            registry.retain(|tool| filter.keeps(tool));
        }
        registry
    }

    /// What a face is told at the start of a turn.
    pub(crate) fn session_init(&self, model: &str) -> SessionInit {
        SessionInit {
            cwd: self.tools.working_folder.read().display().to_string(),
            tools: self
                .offered_tools()
                .names()
                // Hosts know the tool by its older name.
                .map(|name| {
                    if name == lathe_tools::agent::NAME {
                        lathe_tools::agent::ALIAS
                    } else {
                        name
                    }
                })
                .map(str::to_owned)
                .collect(),
            agents: self
                .agents
                .catalog()
                .iter()
                .map(|agent| agent.name.clone())
                .collect(),
            mcp_servers: self.mcp_servers.read().clone(),
            model: model.to_owned(),
            permission_mode: self.permissions.mode(),
            slash_commands: self.command_names(),
            skills: self.skill_names(),
            output_style: self.extensions.style_name(),
            plugins: self.plugins.loaded().frames(),
            plugin_errors: self.plugins.loaded().error_frames(),
            ..self.init.clone()
        }
    }
}

/// What may change between steps.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    /// The model to use from the next step on.
    pub(crate) model: String,
    /// How the model may reason.
    pub(crate) thinking: Option<Thinking>,
}

/// The conversation's own state.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) transcript: TranscriptWriter,
    pub(crate) conversation: Conversation,
    /// The newest record.
    pub(crate) tip: Option<RecordId>,
    pub(crate) records: RecordFactory,
    pub(crate) ledger: Ledger,
    pub(crate) guard: RepeatGuard,
    pub(crate) denials: Vec<PermissionDenial>,
    /// The model that answers now; differs from the choice after a fallback.
    pub(crate) model: String,
    pub(crate) last_usage: Option<Usage>,
    pub(crate) parent_tool_use_id: Option<ToolUseId>,
    pub(crate) fixed: Fixed,
    pub(crate) tools_encoded: Option<(ToolRegistry, Bytes)>,
    pub(crate) context: ContextState,
}

/// What doesn't change during a session.
pub(crate) struct Fixed {
    pub(crate) system: Bytes,
    /// What the system prompt is made of, for when a part of it changes.
    pub(crate) prompt: PromptParts,
    pub(crate) limits: Limits,
    pub(crate) policy: RecoveryPolicy,
    pub(crate) fallback_model: Option<String>,
    pub(crate) betas: Vec<String>,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) init: SessionInit,
    pub(crate) cache: CacheMarkers,
}

/// A running turn, as the session actor sees it.
pub(crate) struct Turn {
    /// The record of the prompt.
    pub(crate) prompt: RecordId,
    pub(crate) cancel: CancellationToken,
    /// Rung when the person typed something meanwhile.
    pub(crate) steered: Notify,
}

impl Turn {
    pub(crate) fn new(prompt: RecordId) -> Self {
        Self {
            prompt,
            cancel: CancellationToken::new(),
            steered: Notify::new(),
        }
    }
}

/// How much room an answer gets beside the thinking.
const ROOM_BESIDE_THINKING: u32 = 8_192;

impl Core {
    /// Adds a record to the conversation: to the transcript, to what the model sees, and to what the
    /// faces show. Gives its id.
    pub(crate) fn append(&mut self, record: MessageRecord) -> RecordId {
        let uuid = record.uuid;
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
        self.conversation.push(&record);
        if let Record::Message(message) = &record {
            self.context.meter.note(message);
        }
        self.transcript.append(record.clone());
        record
    }

    /// As [`Self::append`], and on disk when it returns.
    pub(crate) async fn append_synced(
        &mut self,
        record: MessageRecord,
    ) -> Result<Arc<MessageRecord>, lathe_session::SessionError> {
        let shown = Arc::new(record.clone());
        let record = Record::Message(Box::new(record));
        self.transcript.append_synced(record.clone()).await?;
        self.conversation.push(&record);
        self.context.meter.note(&shown);
        self.tip = Some(shown.uuid);
        Ok(shown)
    }

    /// Keeps a fact with the session.
    pub(crate) fn append_fact(&mut self, fact: Fact) {
        let record = Record::Fact(fact);
        self.conversation.push(&record);
        self.transcript.append(record);
    }

    /// Goes back to an earlier record; what came after it is off the chain from now on.
    pub(crate) fn rewind_to(&mut self, base: Option<RecordId>) {
        if self.tip == base {
            return;
        }
        self.append_fact(Fact::Rewound {
            to: base,
            session_id: self.shared.session_id,
        });
        self.context.meter.rewind_to(base);
        self.tip = base;
    }

    /// The tools that the model is offered.
    pub(crate) fn offered_tools(&self) -> ToolRegistry {
        self.shared.offered_tools()
    }

    /// How hard to try, with the fallback model's request.
    pub(crate) fn recovery_policy(&self) -> RecoveryPolicy {
        let mut policy = self.fixed.policy.clone();
        let fallback = self.shared.chosen.read().fallback.clone();
        policy.fallback = fallback
            .unwrap_or_else(|| self.fixed.fallback_model.clone())
            .filter(|fallback| *fallback != self.model)
            .map(|model| {
                let large = self.output_limit(&model, OutputCap::Large);
                FallbackModel {
                    model: model.clone(),
                    rewrite: Arc::new(move |request| {
                        let mut request = request.clone();
                        request.model.clone_from(&model);
                        request.max_tokens = request.max_tokens.min(large);
                        let mut messages = request.messages.to_vec();
                        messages.iter_mut().for_each(strip_thinking);
                        request.messages = messages.into();
                        request
                    }),
                }
            });
        policy
    }

    pub(crate) fn output_limit(&self, model: &str, cap: OutputCap) -> u32 {
        let info = self.shared.catalog.resolve(model).info;
        match (self.fixed.max_output_tokens, cap) {
            (Some(fixed), _) => fixed.min(info.max_output),
            (None, OutputCap::Small) => info.small_output(),
            (None, OutputCap::Large) => info.large_output(),
        }
    }

    /// The next request. Costs what was added since the last one.
    pub(crate) fn request(&mut self, cap: OutputCap) -> ModelRequest {
        let wanted = self.shared.choices.read().thinking;
        let thinking = wanted.and_then(|wanted| {
            self.shared
                .catalog
                .resolve(&self.model)
                .info
                .fit_thinking(wanted)
        });
        let mut max_tokens = self.output_limit(&self.model, cap);
        if let Some(Thinking {
            mode: lathe_model::ThinkingMode::Budget(budget),
            ..
        }) = thinking
        {
            max_tokens = max_tokens.max(budget.saturating_add(ROOM_BESIDE_THINKING));
        }
        let messages = self.request_messages();
        let shared_results = self.begins_as_fork(&messages);
        let tools = self.encoded_tools();
        self.note_context(&tools);
        ModelRequest {
            model: self.model.clone(),
            max_tokens,
            system: self.fixed.system.clone(),
            tools,
            messages,
            cache_markers: self.fixed.cache,
            shared_results,
            thinking,
            betas: self.fixed.betas.clone(),
            stop_sequences: Vec::new(),
            extra: self.request_extra(),
        }
    }

    /// The conversation as it is sent.
    pub(crate) fn request_messages(&mut self) -> EncodedMessages {
        self.conversation.request_messages()
    }

    /// Measures how full the window would be now, for whoever asks before the next request.
    pub(crate) fn measure_context(&mut self) {
        let tools = self.encoded_tools();
        self.note_context(&tools);
    }

    /// Notes how full the window is, for whoever asks.
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
        let message_tokens = self.message_tokens();
        let guessed = (fixed + message_tokens).max(1);
        let share = |tokens: u64| tokens * total / guessed;
        let mut usage = self.shared.context_usage.lock();
        usage.memory = share(memory);
        usage.system = share(sizes.system - memory);
        usage.mcp_tools = share(mcp_tools);
        usage.agents = share(agents);
        usage.tools = share(sizes.tools - mcp_tools - agents);
        usage.messages = total
            - (usage.memory + usage.system + usage.mcp_tools + usage.agents + usage.tools)
                .min(total);
        // The list of skills stands in the conversation: its share of it, by the guesses for both.
        let told = self.shared.extensions.told_tokens();
        let spoken = message_tokens.saturating_sub(told).max(1);
        usage.skills = usage.messages * told / (told + spoken);
        usage.messages -= usage.skills;
        usage.counted = self.context.meter.is_counted();
        usage.auto_compact = self.fixed.limits.auto_compact;
    }

    /// A guess for the list of agents, which stands in the description of their tool.
    fn agent_tokens(&self) -> u64 {
        let registry = self.shared.registry.read();
        if registry.find(lathe_tools::agent::NAME).is_none() {
            return 0;
        }
        let catalog = self.shared.agents.catalog();
        let lines = catalog.iter().map(|agent| {
            lathe_model::estimate::text(&agent.name)
                + lathe_model::estimate::text(&agent.description)
        });
        lines.sum()
    }

    /// The tools as bytes, encoded again only when the list has changed.
    pub(crate) fn encoded_tools(&mut self) -> Bytes {
        let registry = self.shared.all_tools();
        if let Some((known, bytes)) = &self.tools_encoded
            && known.is_same(&registry)
            && self.context.tools_generation == self.shared.deferred.generation()
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
        let window = self.windows().window;
        let defer = self.context.mcp_tokens > window / 10;
        let mut definitions = self.shared.deferred.choose(definitions, defer);
        // What comes with MCP servers stands behind the rest, so that a server never moves other tools.
        definitions.sort_by_key(|tool| crate::mcp::rank(&tool.name));
        let generation = self.shared.deferred.generation();
        if generation != self.context.tools_generation {
            self.context.tools_generation = generation;
            self.context.prefix.expect("tools were loaded");
        }
        let bytes =
            Bytes::from(serde_json::to_vec(&definitions).unwrap_or_else(|_| b"[]".to_vec()));
        self.tools_encoded = Some((registry, bytes.clone()));
        bytes
    }

    /// Takes images and documents out of the message that the API refused (or of the last one that has
    /// any), now and after a resume. Returns whether there was one.
    pub(crate) fn drop_media(&mut self, at: Option<lathe_model::BlockPosition>) -> bool {
        let messages = self.conversation.request_messages();
        let named = at.and_then(|at| messages.get(at.message));
        let media = named
            .map(media_of)
            .filter(|media| !media.is_empty())
            .or_else(|| {
                messages
                    .iter()
                    .rev()
                    .map(media_of)
                    .find(|media| !media.is_empty())
            });
        let Some(media) = media else { return false };
        self.append_fact(Fact::MediaDropped {
            media,
            session_id: self.shared.session_id,
        });
        true
    }
}

/// The digests of a message's images and documents.
fn media_of(message: &EncodedMessage) -> Vec<String> {
    if message.role != Role::User || memmem::find(&message.bytes, b"\"source\"").is_none() {
        return Vec::new();
    }
    let Ok(decoded) = serde_json::from_slice::<Message>(&message.bytes) else {
        return Vec::new();
    };
    let blocks = decoded.content.into_blocks();
    blocks
        .iter()
        .flat_map(lathe_session::conversation::media_keys)
        .collect()
}

/// Takes reasoning out of a message: another model can't read its signature.
fn strip_thinking(message: &mut EncodedMessage) {
    let has_thinking =
        message.role == Role::Assistant && memmem::find(&message.bytes, b"thinking\"").is_some();
    if !has_thinking {
        return;
    }
    let Ok(decoded) = serde_json::from_slice::<Message>(&message.bytes) else {
        return;
    };
    let mut blocks = decoded.content.into_blocks();
    blocks.retain(|block| !block.is_thinking());
    if blocks.is_empty() {
        blocks.push(ContentBlock::text("[reasoning left out]"));
    }
    if let Ok(stripped) = EncodedMessage::new(message.role, &blocks) {
        *message = stripped;
    }
}

/// Says in what a request has beside the conversation how hard to try; `None` is the model's own way.
pub(crate) fn put_effort(
    extra: &mut serde_json::Map<String, serde_json::Value>,
    effort: Option<&str>,
) {
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
            Role::Assistant,
            &[thinking.clone(), ContentBlock::text("a")],
        )
        .unwrap();
        strip_thinking(&mut message);
        assert_eq!(
            &message.bytes[..],
            br#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#
        );
        let mut only = EncodedMessage::new(Role::Assistant, &[thinking]).unwrap();
        strip_thinking(&mut only);
        assert!(
            std::str::from_utf8(&only.bytes)
                .unwrap()
                .contains("left out")
        );
    }

    #[test]
    fn media_is_found_in_results_too() {
        let image = ContentBlock::image("image/png", "AA==");
        let result = ContentBlock::tool_result("t".into(), vec![image.clone()], false);
        let message = EncodedMessage::new(Role::User, &[result, image]).unwrap();
        let media = media_of(&message);
        assert_eq!((media.len(), &media[0]), (2, &media[1]));
        let words = EncodedMessage::new(Role::User, &[ContentBlock::text("a")]).unwrap();
        assert_eq!(media_of(&words), Vec::<String>::new());
    }
}
