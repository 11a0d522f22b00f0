//! A conversation inside the session: for questions that hooks and other helpers ask a model.
//!
//! It is the same engine with its own history: a [`Core`] of its own, no transcript, nobody to ask, no
//! hooks (a hook must not set off hooks), and only the tools it is given. What it uses counts to the
//! session.

use crate::context::ContextState;
use crate::core::{Choices, Core, Fixed, Shared, Turn};
use crate::decide::Limits;
use crate::events;
use crate::guard::RepeatGuard;
use crate::hook_points::HookPoints;
use crate::ledger::{Ledger, Part};
use crate::prompt::PromptParts;
use crate::questions::{Answerer, Questions};
use crate::records::RecordFactory;
use bytes::Bytes;
use futures::future::BoxFuture;
use lathe_hooks::{HookModel, HookQuestion, HookRegistry, HookVerdict};
use lathe_model::{CacheMarkers, RecoveryPolicy};
use lathe_protocol::event::{SessionInit, TurnResult};
use lathe_protocol::ids::SessionId;
use lathe_protocol::op::Prompt;
use lathe_session::{Conversation, TranscriptWriter};
use lathe_tools::{CallContext, Tool, ToolContext, ToolError, ToolOutput, ToolRegistry};
use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Weak};
use tokio_util::sync::CancellationToken;

/// How many model calls an agent hook may make.
const AGENT_TURNS: u32 = 50;
/// The tools of an agent hook: it looks, it doesn't touch.
const READING_TOOLS: [&str; 3] = ["Glob", "Grep", "Read"];

/// What a nested conversation is for.
pub(crate) struct Nested {
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) prompt: String,
    pub(crate) tools: ToolRegistry,
    pub(crate) max_turns: u32,
    pub(crate) cancel: CancellationToken,
    /// What its cost is counted as.
    pub(crate) part: Part,
}

/// What a conversation inside the session has of its own.
pub(crate) struct InnerParts {
    pub(crate) session_id: SessionId,
    pub(crate) events: events::EventSink,
    pub(crate) permissions: Arc<lathe_permissions::Permissions>,
    pub(crate) hooks: Arc<HookPoints>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) tools: Arc<ToolContext>,
    pub(crate) registry: ToolRegistry,
    pub(crate) choices: Choices,
    pub(crate) undo: Option<Arc<crate::undo::Undo>>,
    pub(crate) transcript: TranscriptWriter,
    pub(crate) seed: Arc<crate::agents::Seed>,
    pub(crate) place: Option<crate::agents::Place>,
}

/// The shared part of a conversation inside the session. What isn't named in its parts is the parent's
/// where it never changes, and empty where it does.
pub(crate) fn inner(parent: &Shared, parts: InnerParts) -> Shared {
    Shared {
        session_id: parts.session_id,
        events: parts.events,
        provider: parent.provider.clone(),
        catalog: parent.catalog.clone(),
        permissions: parts.permissions,
        hooks: parts.hooks,
        questions: parts.questions,
        tools: parts.tools,
        registry: RwLock::new(parts.registry),
        queue: Mutex::default(),
        on_the_way: Mutex::default(),
        wake: tokio::sync::Notify::new(),
        choices: RwLock::new(parts.choices),
        backgrounds: Arc::default(),
        default_thinking: None,
        model_is_pinned: true,
        undo: parts.undo,
        instructions: Mutex::new(None),
        transcript: parts.transcript,
        default_model: parent.default_model.clone(),
        key_source: parent.key_source.clone(),
        settings: RwLock::new(parent.settings.read().clone()),
        layers: RwLock::default(),
        loader: crate::live::SettingsLoader::new(
            parent.loader.places.clone(),
            lathe_settings::LoadOptions::default(),
        ),
        mcp_servers: RwLock::default(),
        mcp: Arc::default(),
        language: parent.language.beside(),
        plugins: parent.plugins.clone(),
        tool_aliases: parent.tool_aliases.clone(),
        init: parent.init.clone(),
        extensions: parent.extensions.for_inner(),
        totals: Mutex::default(),
        effort: None,
        context_usage: Mutex::default(),
        notes: Arc::default(),
        background: Arc::default(),
        deferred: Arc::default(),
        extra_usage: Mutex::default(),
        agents: parent.agents.clone(),
        place: parts.place,
        seed: parts.seed,
        fork_point: tokio::sync::watch::Sender::new(None),
        planning: crate::plan::Planning::default(),
        known_ends: Mutex::default(),
        main_filter: None,
        chosen: RwLock::default(),
    }
}

impl Nested {
    /// Runs it to its end.
    pub(crate) async fn run(self, parent: &Shared) -> Arc<TurnResult> {
        let (sink, mut stream) = events::channel();
        // Nobody watches; events are taken so that nothing waits for them.
        let drain = lathe_spawn::task(async move { while stream.next().await.is_some() {} });
        let session_id = SessionId::random();
        let writer = TranscriptWriter::disabled(parent.transcript.path());
        let (registry, late) = HookRegistry::new();
        let hooks = Arc::new(HookPoints {
            registry,
            late: Mutex::new(late),
            session_id,
            transcript: parent.transcript.path().to_owned(),
            project: parent.hooks.project.clone(),
            tools: parent.tools.clone(),
            permissions: parent.permissions.clone(),
            events: sink.clone(),
            environment_file: None,
            agent: None,
            watched: crate::watched_files::WatchedFiles::default(),
        });
        let system = json!([{"type": "text", "text": self.system}]).to_string();
        let shared = Arc::new(inner(
            parent,
            InnerParts {
                session_id,
                events: sink.clone(),
                permissions: parent.permissions.clone(),
                hooks,
                questions: Arc::new(Questions::new(Answerer::Nobody, sink)),
                tools: parent.tools.clone(),
                registry: self.tools,
                choices: Choices {
                    model: self.model.clone(),
                    thinking: None,
                },
                undo: None,
                transcript: writer.clone(),
                seed: parent.seed.clone(),
                place: None,
            },
        ));
        let mut core = Core {
            shared: shared.clone(),
            transcript: writer,
            conversation: Conversation::new(&self.model),
            tip: None,
            records: RecordFactory {
                session_id,
                cwd: parent.tools.working_folder.read().clone(),
                git_branch: String::new(),
                agent_id: None,
            },
            ledger: Ledger::default(),
            guard: RepeatGuard::default(),
            denials: Vec::new(),
            model: self.model,
            last_usage: None,
            parent_tool_use_id: None,
            fixed: Fixed {
                system: Bytes::from(system),
                prompt: PromptParts::default(),
                limits: Limits {
                    max_turns: Some(self.max_turns),
                    ..Limits::default()
                },
                policy: RecoveryPolicy::default(),
                fallback_model: None,
                betas: Vec::new(),
                max_output_tokens: None,
                extra: serde_json::Map::new(),
                init: SessionInit::default(),
                cache: CacheMarkers::None,
            },
            tools_encoded: None,
            context: ContextState::default(),
        };
        let prompt = Prompt::new(self.prompt);
        let turn = Turn::new(prompt.uuid);
        let result = {
            let run = core.run_turn(prompt, &turn);
            tokio::pin!(run);
            tokio::select! {
                result = &mut run => result,
                () = self.cancel.cancelled() => {
                    turn.cancel.cancel();
                    run.await
                }
            }
        };
        parent
            .extra_usage
            .lock()
            .push((self.part, core.ledger.totals().clone()));
        drop(core);
        drop(shared);
        drain.abort();
        result
    }
}

/// Answers prompt and agent hooks for a session.
pub(crate) struct SessionHookModel {
    pub(crate) shared: Weak<Shared>,
}

impl SessionHookModel {
    fn model(shared: &Shared, wanted: Option<&str>) -> String {
        match wanted {
            Some(name) => shared.catalog.resolve(name).id,
            None => shared.catalog.small_fast_model().id,
        }
    }
}

impl HookModel for SessionHookModel {
    fn ask(&self, question: HookQuestion) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let shared = self.shared.upgrade().ok_or("the session is over")?;
            let nested = Nested {
                model: Self::model(&shared, question.model.as_deref()),
                system: include_str!("../prompts/hook_prompt.md").to_owned(),
                prompt: question.prompt,
                tools: ToolRegistry::new(),
                max_turns: 1,
                cancel: question.cancel,
                part: Part::Inner,
            };
            // Boxed: a nested conversation is as large as a conversation.
            let result = Box::pin(nested.run(&shared)).await;
            answer_of(&result)
        })
    }

    fn run_agent(&self, question: HookQuestion) -> BoxFuture<'_, Result<HookVerdict, String>> {
        Box::pin(async move {
            let shared = self.shared.upgrade().ok_or("the session is over")?;
            let mut tools = shared.registry.read().clone();
            tools.retain(|tool| READING_TOOLS.contains(&tool.name()));
            let verdict = Arc::new(Mutex::new(None));
            tools.add(GiveVerdict {
                verdict: verdict.clone(),
            });
            let nested = Nested {
                model: Self::model(&shared, question.model.as_deref()),
                system: include_str!("../prompts/hook_agent.md").to_owned(),
                prompt: question.prompt,
                tools,
                max_turns: AGENT_TURNS,
                cancel: question.cancel,
                part: Part::Inner,
            };
            let result = Box::pin(nested.run(&shared)).await;
            let given: Option<HookVerdict> = verdict.lock().take();
            match given {
                Some(verdict) => Ok(verdict),
                None => Err(match answer_of(&result) {
                    Ok(text) => format!("the agent gave no verdict; it said: {text}"),
                    Err(error) => error,
                }),
            }
        })
    }
}

pub(crate) fn answer_of(result: &TurnResult) -> Result<String, String> {
    if result.is_error {
        let mut words = result.errors.join("; ");
        if words.is_empty() {
            words.clone_from(&result.text);
        }
        Err(words)
    } else {
        Ok(result.text.clone())
    }
}

/// Answers the classifier of auto mode with the small model.
pub(crate) struct SessionClassifierModel {
    pub(crate) shared: Weak<Shared>,
}

impl lathe_permissions::classifier::ClassifierModel for SessionClassifierModel {
    fn ask<'a>(&'a self, system: &'a str, user: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let shared = self.shared.upgrade().ok_or("the session is over")?;
            let nested = Nested {
                model: shared.catalog.small_fast_model().id,
                system: system.to_owned(),
                prompt: user.to_owned(),
                tools: ToolRegistry::new(),
                max_turns: 1,
                cancel: CancellationToken::new(),
                part: Part::Inner,
            };
            let result = Box::pin(nested.run(&shared)).await;
            answer_of(&result)
        })
    }
}

/// The tool through which an agent hook answers.
struct GiveVerdict {
    verdict: Arc<Mutex<Option<HookVerdict>>>,
}

/// The verdict.
#[derive(Debug, Deserialize, JsonSchema)]
struct Verdict {
    /// Whether there is no objection.
    ok: bool,
    /// Why not.
    reason: Option<String>,
}

impl Tool for GiveVerdict {
    type Input = Verdict;

    fn name(&self) -> &'static str {
        "GiveVerdict"
    }

    fn description(&self) -> &'static str {
        "Give your verdict. Call it exactly once, at the end."
    }

    fn subject(&self, _: &Verdict, _: &ToolContext) -> lathe_protocol::permission::Subject {
        lathe_protocol::permission::Subject::Nothing
    }

    async fn call(&self, input: Verdict, _: CallContext) -> Result<ToolOutput, ToolError> {
        let verdict = HookVerdict {
            ok: input.ok,
            reason: input.reason,
        };
        *self.verdict.lock() = Some(verdict);
        Ok(ToolOutput::new(
            "Noted. You are done.",
            json!({"ok": input.ok}),
            lathe_protocol::display::Display::None,
        ))
    }
}
