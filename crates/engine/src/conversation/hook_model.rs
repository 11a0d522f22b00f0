//! Questions of hooks and of the classifier to a model.
//!
//! Prompt hooks and the classifier ask one question ([`ask_beside`]). An agent hook looks around first, so
//! it gets a conversation of its own: no transcript, nobody to ask, no hooks (a hook must not set off
//! hooks), only tools that read, and its own memory of files. Its usage is part of the session's.

use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::{Answerer, Questions};
use crate::conversation::records::RecordFactory;
use crate::conversation::{
    Choices, Conversation, ConversationShared, Fixed, Integrations, Parts, Role, RunningTurn,
    Toolbox,
};
use crate::session::background::ask_beside;
use crate::session::events;
use crate::session::ledger::Part;
use crate::turn::models;
use futures::future::BoxFuture;
use lathe_hooks::{HookModel, HookQuestion, HookRegistry, HookVerdict, ServiceError};
use lathe_permissions::classifier::{ClassifierModel, ModelFailure};
use lathe_protocol::event::TurnResult;
use lathe_protocol::op::Prompt;
use lathe_session::TranscriptWriter;
use lathe_tools::{CallContext, Tool, ToolContext, ToolError, ToolOutput, ToolRegistry};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Weak};
use tokio_util::sync::CancellationToken;

/// How many model calls an agent hook may make.
const AGENT_TURNS: u32 = 50;
/// The prompt for an agent hook that stopped without a verdict.
const MISSING_VERDICT: &str =
    "You have not given your verdict. Call GiveVerdict now, with what you know.";
/// The tools of an agent hook.
const READING_TOOLS: [&str; 3] = ["Glob", "Grep", "Read"];

/// Answers prompt and agent hooks for a session.
pub(crate) struct SessionHookModel {
    pub(crate) shared: Weak<ConversationShared>,
}

impl SessionHookModel {
    fn model(shared: &ConversationShared, wanted: Option<&str>) -> String {
        match wanted {
            Some(name) => models::choose_model_or(shared, name, || {
                shared.session.catalog.small_fast_model().id
            }),
            None => shared.session.catalog.small_fast_model().id,
        }
    }
}

impl HookModel for SessionHookModel {
    fn ask(&self, question: HookQuestion) -> BoxFuture<'_, Result<String, ServiceError>> {
        Box::pin(async move {
            let shared = self.shared.upgrade().ok_or(ServiceError::SessionOver)?;
            let model = Self::model(&shared, question.model.as_deref());
            let system = include_str!("../../prompts/hook_prompt.md");
            ask_beside(
                &shared,
                Part::Inner,
                model,
                system,
                question.prompt,
                &question.cancel,
            )
            .await
            .map_err(ServiceError::other)
        })
    }

    fn run_agent(
        &self,
        question: HookQuestion,
    ) -> BoxFuture<'_, Result<HookVerdict, ServiceError>> {
        Box::pin(async move {
            let shared = self.shared.upgrade().ok_or(ServiceError::SessionOver)?;
            let mut registry = shared.toolbox.registry.read().clone();
            registry.retain(|tool| READING_TOOLS.contains(&tool.name()));
            let verdict = Arc::new(Mutex::new(None));
            registry.add(GiveVerdict {
                verdict: verdict.clone(),
            });
            let asked = Inner {
                model: Self::model(&shared, question.model.as_deref()),
                registry,
                system: include_str!("../../prompts/hook_agent.md"),
                max_turns: AGENT_TURNS,
                prompt: question.prompt,
                again: MISSING_VERDICT,
            };
            let given = || verdict.lock().is_some();
            // Boxed: a conversation is large.
            let result = Box::pin(inner(&shared, asked, given, &question.cancel)).await;
            shared.spending.waiting.lock().push((Part::Inner, result.1));
            let given: Option<HookVerdict> = verdict.lock().take();
            given.ok_or_else(|| no_verdict(&result.0))
        })
    }
}

/// A conversation inside a session that looks around and answers with a tool: an agent hook, or a reviewer.
pub(crate) struct Inner {
    pub(crate) model: String,
    pub(crate) registry: ToolRegistry,
    pub(crate) system: &'static str,
    pub(crate) max_turns: u32,
    pub(crate) prompt: String,
    /// The prompt if it ends without an answer.
    pub(crate) again: &'static str,
}

/// Runs a conversation inside a session to its end. `given` says whether it has answered. Gives the result and what it
/// used.
pub(crate) async fn inner(
    parent: &ConversationShared,
    asked: Inner,
    given: impl Fn() -> bool,
    cancel: &CancellationToken,
) -> (Arc<TurnResult>, crate::session::ledger::Totals) {
    let fixed = Fixed::bare(asked.system, asked.max_turns);
    let (mut conversation, mut stream) = conversation(parent, asked.model, asked.registry, fixed);
    // Nobody watches; events are taken so that nothing waits for them.
    let drain = lathe_spawn::task(async move { while stream.next().await.is_some() {} });
    let mut result = say(&mut conversation, asked.prompt, cancel).await;
    if !given() && !result.is_error && !cancel.is_cancelled() {
        result = say(&mut conversation, asked.again.to_owned(), cancel).await;
    }
    drain.abort();
    (result, conversation.ledger.totals().clone())
}

/// A conversation of its own: no transcript, nobody to ask, no hooks.
fn conversation(
    parent: &ConversationShared,
    model: String,
    registry: ToolRegistry,
    fixed: Fixed,
) -> (Conversation, events::EventStream) {
    let (sink, stream) = events::channel();
    let folder = parent.tools.working_folder.read().clone();
    let roots = parent.tools.roots.read().clone();
    let tools = Arc::new(parent.tools.for_agent(folder.clone(), roots));
    // What was said and done is what such a hook is most often asked about.
    let transcript = parent.transcript.path().to_owned();
    let permissions = Arc::new(parent.permissions.for_agent(|context| {
        context.files.readable_paths.push(transcript);
    }));
    let (hook_registry, late) = HookRegistry::new();
    let hooks = Arc::new(HookPoints {
        registry: hook_registry,
        late: Mutex::new(late),
        session_id: parent.session.id,
        transcript: parent.transcript.path().to_owned(),
        project: parent.hooks.project.clone(),
        tools: tools.clone(),
        permissions: permissions.clone(),
        events: sink.clone(),
        environment_file: None,
        agent: None,
        watched: crate::conversation::watched_files::WatchedFiles::default(),
        moment: Mutex::new(parent.hooks.moment.lock().for_agent()),
    });
    let parts = Parts {
        events: sink.clone(),
        permissions,
        hooks,
        questions: Arc::new(Questions::new(Answerer::Nobody, sink)),
        tools,
        toolbox: Toolbox::of(registry, None),
        integrations: Integrations::inside(&parent.integrations),
        choices: Choices {
            model,
            planning: None,
            thinking: None,
            effort: None,
            fallbacks: Vec::new(),
        },
        instructions: None,
        transcript: TranscriptWriter::disabled(parent.transcript.path()),
        records: RecordFactory {
            session_id: parent.session.id,
            cwd: folder,
            git_branch: String::new(),
            agent_id: None,
        },
        parent_tool_use_id: None,
        fixed,
        seed: parent.seed.clone(),
    };
    let conversation = Conversation::new(parent.session.clone(), Role::Hook, parts);
    (conversation, stream)
}

/// One turn of such a conversation.
async fn say(
    conversation: &mut Conversation,
    prompt: String,
    cancel: &CancellationToken,
) -> Arc<TurnResult> {
    let prompt = Prompt {
        verbatim: true,
        ..Prompt::new(prompt)
    };
    let turn = RunningTurn::new(prompt.uuid);
    let run = conversation.run_turn(prompt, &turn);
    tokio::pin!(run);
    tokio::select! {
        result = &mut run => result,
        () = cancel.cancelled() => {
            turn.cancel.cancel();
            run.await
        }
    }
}

/// Why an agent hook gave no verdict.
fn no_verdict(result: &TurnResult) -> ServiceError {
    if !result.is_error {
        return ServiceError::NoVerdict(result.text.clone());
    }
    ServiceError::Agent(if result.errors.is_empty() {
        result.text.clone()
    } else {
        result.errors.join("; ")
    })
}

/// Answers the classifier of auto mode with the small model.
pub(crate) struct SessionClassifierModel {
    pub(crate) shared: Weak<ConversationShared>,
}

impl ClassifierModel for SessionClassifierModel {
    fn ask<'a>(
        &'a self,
        system: &'a str,
        user: &'a str,
    ) -> BoxFuture<'a, Result<String, ModelFailure>> {
        Box::pin(async move {
            let shared = self.shared.upgrade().ok_or("the session is over")?;
            let model = shared.session.catalog.small_fast_model().id;
            let cancel = CancellationToken::new();
            ask_beside(
                &shared,
                Part::Inner,
                model,
                system,
                user.to_owned(),
                &cancel,
            )
            .await
            .map_err(Into::into)
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
