//! One call, from the model's block to the result that goes back: check the input, ask the hooks,
//! ask for permission, run, ask the hooks again, bound the size.
//!
//! Whatever goes wrong on the way is a result that tells the model what to do next. A tool that
//! panics is a failed tool, not a dead session.

pub(crate) mod executor;
pub(crate) mod results;
pub(crate) mod tool_search;

use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::{Answer, Questions};
use crate::conversation::undo::Undo;
use crate::session::events::EventSink;
use crate::turn::decide::CallEnding;
use futures::FutureExt as _;
use lathe_hooks::{HookDecision, HookPermission};
use lathe_model::ToolInput;
use lathe_permissions::{CallFacts, Permissions};
use lathe_protocol::content::{Content, ToolUseBlock};
use lathe_protocol::display::Display;
use lathe_protocol::event::Event;
use lathe_protocol::ids::{AgentId, RecordId, RequestId, ToolUseId};
use lathe_protocol::permission::{
    Decision, DecisionReason, PermissionDenial, PermissionReply, PermissionRequest, Subject,
};
use lathe_sandbox::ReadOnlyPolicy;
use lathe_tools::context::ProgressSink;
use lathe_tools::{
    CallContext, CallTraits, DynTool, PreparedCall, ToolContext, ToolError, ToolOutput,
    ToolRegistry,
};
use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a cancelled tool may take to clean up before it is abandoned.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// What calls need of their conversation. One per step: late calls run against the tools that the
/// step offered.
pub(crate) struct CallEnvironment {
    pub(crate) registry: ToolRegistry,
    pub(crate) tools: Arc<ToolContext>,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) hooks: Arc<HookPoints>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) events: EventSink,
    pub(crate) turn: RecordId,
    pub(crate) agent_id: Option<AgentId>,
    pub(crate) backgrounds: Arc<Backgrounds>,
    pub(crate) undo: Option<Arc<Undo>>,
    pub(crate) language_servers: lathe_lsp::LanguageServers,
}

/// How running calls are sent to the background.
#[derive(Default)]
pub(crate) struct Backgrounds(
    parking_lot::Mutex<std::collections::HashMap<ToolUseId, CancellationToken>>,
);

impl Backgrounds {
    /// Sends one call, or all of them. Returns whether there was one.
    pub(crate) fn send(&self, call: Option<&ToolUseId>) -> bool {
        let mut found = false;
        for (id, token) in self.0.lock().iter() {
            if call.is_none_or(|wanted| wanted == id) {
                token.cancel();
                found = true;
            }
        }
        found
    }

    pub(crate) fn forget(&self, call: &ToolUseId) {
        self.0.lock().remove(call);
    }
}

/// A call as far as it is known when its block is complete.
pub(crate) struct IncomingCall {
    pub(crate) id: ToolUseId,
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) stage: Stage,
}

/// Whether a call can run at all.
pub(crate) enum Stage {
    /// It can.
    Ready(ReadyCall),
    /// It can't; this goes back instead.
    Refused(Box<CallResult>),
}

/// A call with its tool.
pub(crate) struct ReadyCall {
    tool: Arc<dyn DynTool>,
    prepared: Box<dyn PreparedCall>,
    pub(crate) traits: CallTraits,
}

/// What goes back.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) content: Content,
    pub(crate) structured: Value,
    pub(crate) display: Display,
    pub(crate) is_error: bool,
    pub(crate) denial: Option<PermissionDenial>,
    pub(crate) ending: Option<CallEnding>,
    /// Text of hooks for the model.
    pub(crate) added_context: Vec<String>,
    /// How long the tool itself took: waiting for a person's answer is not its time.
    pub(crate) elapsed: Duration,
    /// Whether the tool was started and may have changed something.
    pub(crate) had_effects: bool,
    pub(crate) cancels_siblings: bool,
    /// The files that it read or changed.
    pub(crate) touched: Vec<PathBuf>,
}

impl CallResult {
    /// A failure in words for the model.
    pub(crate) fn failure(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            structured: Value::String(format!("Error: {text}")),
            display: Display::Text { text: text.clone() },
            content: Content::Text(text),
            is_error: true,
            denial: None,
            ending: None,
            added_context: Vec::new(),
            elapsed: Duration::ZERO,
            had_effects: false,
            cancels_siblings: false,
            touched: Vec::new(),
        }
    }
}

impl CallEnvironment {
    /// Finds the tool and checks the input.
    pub(crate) fn prepare(&self, block: &ToolUseBlock, input: Option<&ToolInput>) -> IncomingCall {
        let stage = match input {
            Some(ToolInput::Broken { error, .. }) => Stage::Refused(boxed_failure(format!(
                "The arguments of {} are not valid JSON ({error}), so it was not run. Send the call again with complete JSON; if the content is long, split it into several calls.",
                block.name
            ))),
            _ => self.find(&block.name, &block.input),
        };
        IncomingCall {
            id: block.id.clone(),
            name: block.name.clone(),
            input: block.input.clone(),
            stage,
        }
    }

    fn find(&self, name: &str, input: &Value) -> Stage {
        let Some(tool) = self.registry.find_or_late(name) else {
            let why = self.tools.host().and_then(|host| host.why_missing(name));
            let known: Vec<&str> = self.registry.names().collect();
            return Stage::Refused(boxed_failure(why.unwrap_or_else(|| {
                format!("There is no tool {name}. Tools: {}.", known.join(", "))
            })));
        };
        match tool.clone().prepare(input.clone(), &self.tools) {
            Ok(prepared) => {
                let traits = prepared.traits();
                Stage::Ready(ReadyCall {
                    tool: tool.clone(),
                    prepared,
                    traits,
                })
            }
            Err(error) => Stage::Refused(boxed_failure(error.to_string())),
        }
    }

    /// Runs a call to its end. Never panics.
    pub(crate) async fn run(
        self: Arc<Self>,
        id: ToolUseId,
        call: ReadyCall,
        cancel: CancellationToken,
    ) -> CallResult {
        let name = call.tool.name().to_owned();
        let outcome = AssertUnwindSafe(self.pipeline(id, call, cancel))
            .catch_unwind()
            .await;
        outcome.unwrap_or_else(|panic| {
            let message = panic_message(panic.as_ref());
            tracing::error!(tool = name, message, "a tool panicked");
            let mut result = CallResult::failure(format!(
                "{name} failed by a fault of its own ({message}). Its effects are unknown: check before you go on. Another way to the same end may work."
            ));
            result.had_effects = true;
            result
        })
    }

    async fn pipeline(
        self: Arc<Self>,
        id: ToolUseId,
        call: ReadyCall,
        cancel: CancellationToken,
    ) -> CallResult {
        let ReadyCall {
            tool,
            mut prepared,
            mut traits,
        } = call;
        let name = tool.name().to_owned();
        if cancel.is_cancelled() {
            return cancelled();
        }
        if let Err(error) = prepared.validate(&self.tools).await {
            return CallResult::failure(error.to_string());
        }

        let before = self
            .hooks
            .pre_tool_use(&name, prepared.input(), &id, &cancel)
            .await;
        let mut added_context = before.additional_context;
        if let Some(reason) = before.stop {
            let mut result = CallResult::failure(format!("A hook stopped the turn: {reason}"));
            result.ending = Some(CallEnding::HookStopped { reason });
            return result;
        }
        if let Some(input) = before.updated_input {
            match tool.clone().prepare(input, &self.tools) {
                Ok(again) => prepared = again,
                Err(error) => {
                    return CallResult::failure(format!(
                        "A hook changed the input of {name} into one that doesn't fit: {error}"
                    ));
                }
            }
            if let Err(error) = prepared.validate(&self.tools).await {
                return CallResult::failure(error.to_string());
            }
            traits = prepared.traits();
        }
        let defers = |said: &HookPermission| said.decision == HookDecision::Defer;
        if before.permission.as_ref().is_some_and(defers) {
            let call = json!({"id": id, "name": name, "input": prepared.input()});
            let mut result = CallResult::failure("The call was put off; the host will run it.");
            result.is_error = false;
            result.ending = Some(CallEnding::Deferred { call });
            return result;
        }

        let Permitted {
            prepared,
            confinement,
        } = match self
            .permit(&id, &tool, prepared, traits, before.permission, &cancel)
            .await
        {
            Ok(permitted) => permitted,
            Err(refusal) => {
                let mut refusal = *refusal;
                refusal.added_context.append(&mut added_context);
                return refusal;
            }
        };
        if cancel.is_cancelled() {
            return cancelled();
        }

        let input = prepared.input().clone();
        self.events.send(Event::CallStarted {
            tool_use_id: id.clone(),
            tool_name: name.clone(),
            activity: prepared.activity(),
        });
        let started = Instant::now();
        traits = prepared.traits();
        let subject = prepared.subject(&self.tools);
        let watched = self.watch_shell(&subject, traits).await;
        let folder = self.tools.working_folder.read().clone();
        let mut outcome = self
            .call(&id, &name, prepared, confinement, &cancel, started)
            .await;
        if let Err(ToolError::Blocked { what, .. }) = &outcome {
            let what = what.clone();
            if let Some(prepared) = self.release(&id, &tool, &input, what, &cancel).await {
                outcome = self
                    .call(&id, &name, prepared, None, &cancel, started)
                    .await;
            }
        }
        let folder_now = self.tools.working_folder.read().clone();
        if folder_now != folder {
            self.hooks.cwd_changed(&folder, &folder_now).await;
        }
        if let (Some(undo), Some((before, roots))) = (&self.undo, watched) {
            let changed = undo.after_shell(before, roots, self.turn).await;
            self.language_servers.changed_on_disk(&changed);
        }
        self.backgrounds.forget(&id);
        let mut result = self
            .finish(&id, &name, &input, outcome, tool.result_limit(), started)
            .await;
        result.cancels_siblings = result.is_error && traits.failure_cancels_siblings;
        added_context.append(&mut result.added_context);
        result.added_context = added_context;
        result.had_effects = !traits.read_only;
        if let Subject::Read { paths } | Subject::Write { paths } = subject
            && !result.is_error
        {
            result.touched = paths;
        }
        result
    }

    /// Looks over the roots before a shell command that may write, so that it can be undone.
    async fn watch_shell(
        &self,
        subject: &Subject,
        traits: CallTraits,
    ) -> Option<(lathe_session::scan::Scan, Vec<PathBuf>)> {
        let undo = self.undo.as_ref()?;
        if traits.read_only || !matches!(subject, Subject::Shell { .. }) {
            return None;
        }
        let roots = self.tools.roots.read().clone();
        Some((undo.before_shell(roots.clone()).await?, roots))
    }

    fn background_token(&self, id: &ToolUseId) -> CancellationToken {
        let token = CancellationToken::new();
        self.backgrounds.0.lock().insert(id.clone(), token.clone());
        token
    }

    async fn call(
        &self,
        id: &ToolUseId,
        name: &str,
        prepared: Box<dyn PreparedCall>,
        confinement: Option<Arc<ReadOnlyPolicy>>,
        cancel: &CancellationToken,
        started: Instant,
    ) -> Result<ToolOutput, ToolError> {
        let progress = {
            let events = self.events.clone();
            let (id, name) = (id.clone(), name.to_owned());
            ProgressSink::new(move |display| {
                events.send(Event::CallProgress {
                    tool_use_id: id.clone(),
                    tool_name: name.clone(),
                    display,
                    elapsed: started.elapsed(),
                });
            })
        };
        let context = CallContext {
            session: self.tools.clone(),
            tool_use_id: id.clone(),
            turn: self.turn,
            cancel: cancel.clone(),
            to_background: self.background_token(id),
            progress,
            confinement,
        };
        let work = prepared.call(context);
        let abandoned = async {
            cancel.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = abandoned => Err(ToolError::Cancelled(format!("{name} was stopped."))),
        }
    }

    async fn finish(
        &self,
        id: &ToolUseId,
        name: &str,
        input: &Value,
        outcome: Result<ToolOutput, ToolError>,
        limit: Option<usize>,
        started: Instant,
    ) -> CallResult {
        let elapsed = started.elapsed();
        match outcome {
            Ok(output) => {
                let after = if output.is_error {
                    self.hooks
                        .post_tool_failure(name, input, id, &output.content.text(), false, elapsed)
                        .await
                } else {
                    self.hooks
                        .post_tool_use(name, input, id, &output.structured, elapsed)
                        .await
                };
                let mut content = output.content;
                if let Some(replaced) = after.updated_tool_output {
                    content = match replaced {
                        Value::String(text) => Content::Text(text),
                        other => serde_json::from_value(other.clone())
                            .unwrap_or_else(|_| Content::Text(other.to_string())),
                    };
                }
                let content = results::fit(content, limit, &self.tools.results_folder, id);
                CallResult {
                    content,
                    structured: output.structured,
                    display: output.display,
                    is_error: output.is_error,
                    denial: None,
                    ending: after.stop.map(|reason| CallEnding::HookStopped { reason }),
                    added_context: after.additional_context,
                    elapsed,
                    had_effects: true,
                    cancels_siblings: false,
                    touched: Vec::new(),
                }
            }
            Err(error) => {
                let interrupted = matches!(error, ToolError::Cancelled(_));
                let text = error.to_string();
                let after = self
                    .hooks
                    .post_tool_failure(name, input, id, &text, interrupted, elapsed)
                    .await;
                let mut result = CallResult::failure(text);
                result.elapsed = elapsed;
                result.content =
                    results::fit(result.content, limit, &self.tools.results_folder, id);
                result.added_context = after.additional_context;
                result.ending = after.stop.map(|reason| CallEnding::HookStopped { reason });
                result
            }
        }
    }

    /// Gets the call permitted, or the result that says why not.
    async fn permit(
        &self,
        id: &ToolUseId,
        tool: &Arc<dyn DynTool>,
        mut prepared: Box<dyn PreparedCall>,
        traits: CallTraits,
        said: Option<HookPermission>,
        cancel: &CancellationToken,
    ) -> Result<Permitted, Box<CallResult>> {
        let aliases = tool.aliases();
        let decide = |prepared: &dyn PreparedCall| {
            let context = self.permissions.snapshot();
            let subject = prepared.subject(&self.tools);
            let resolved = lathe_permissions::resolve(&subject, &context);
            let facts = CallFacts {
                tool_name: tool.name(),
                aliases: &aliases,
                input: prepared.input(),
                subject: &subject,
                read_only: traits.read_only,
                resolved,
            };
            let decision = lathe_permissions::decide(&facts, &context);
            let hint = match &decision {
                Decision::Ask { reason, .. } | Decision::Deny { reason } => {
                    lathe_permissions::denial_message(&facts, reason)
                }
                Decision::Allow { .. } => String::new(),
            };
            let confinement = lathe_permissions::confinement(&facts, &decision, &context);
            (decision, hint, confinement)
        };
        let (decision, hint, confinement) = decide(prepared.as_ref());
        let (decision, hint) = with_hook(decision, hint, said, &self.permissions);
        let cwd = self.tools.working_folder.read().clone();
        let decision = self
            .questions
            .classify(
                decision,
                tool.name(),
                prepared.input(),
                &cwd,
                self.permissions.mode(),
            )
            .await;
        let hint = match &decision {
            Decision::Deny {
                reason: DecisionReason::Classifier { reason },
            } => format!(
                "Auto mode refuses this call: {reason} Don't reach the same end another way; ask the person or go on without it."
            ),
            _ => hint,
        };
        match decision {
            Decision::Allow { .. } => Ok(Permitted {
                prepared,
                confinement: confinement.map(Arc::new),
            }),
            Decision::Deny { reason } => Err(self
                .refuse(id, tool.name(), prepared.input(), hint, &reason)
                .await),
            Decision::Ask {
                reason,
                suggestions,
                blocked_path,
                ..
            } => {
                let request = PermissionRequest {
                    request_id: RequestId::random(),
                    tool_name: tool.name().to_owned(),
                    input: prepared.input().clone(),
                    tool_use_id: id.clone(),
                    permission_suggestions: suggestions,
                    blocked_path,
                    decision_reason: Some(reason.text()),
                    decision_reason_type: Some(reason.kind().to_owned()),
                    display_name: Some(tool.name().to_owned()),
                    title: Some(prepared.activity()),
                    description: prepared
                        .input()
                        .get("description")
                        .and_then(Value::as_str)
                        .map(str::to_owned),
                    agent_id: self.agent_id.clone(),
                };
                match self.questions.ask(request, &self.hooks, cancel).await {
                    Answer::NobodyToAsk => {
                        let reason = if self.questions.is_detached() {
                            DecisionReason::AsyncAgent {
                                reason: reason.text(),
                            }
                        } else {
                            reason
                        };
                        let hint = person_hint(tool.name()).unwrap_or(hint);
                        Err(self
                            .refuse(id, tool.name(), prepared.input(), hint, &reason)
                            .await)
                    }
                    Answer::Withdrawn => Err(Box::new(cancelled())),
                    Answer::Reply(PermissionReply::Allow {
                        updated_input,
                        updated_permissions,
                        ..
                    }) => {
                        self.questions
                            .apply(&updated_permissions, &self.permissions);
                        if let Some(input) = updated_input
                            && input != *prepared.input()
                        {
                            prepared =
                                tool.clone().prepare(input, &self.tools).map_err(|error| {
                                    Box::new(CallResult::failure(error.to_string()))
                                })?;
                            if let Err(error) = prepared.validate(&self.tools).await {
                                return Err(Box::new(CallResult::failure(error.to_string())));
                            }
                            // A person may change what runs, but not past a deny rule.
                            if let (Decision::Deny { reason }, hint, _) = decide(prepared.as_ref())
                            {
                                return Err(self
                                    .refuse(id, tool.name(), prepared.input(), hint, &reason)
                                    .await);
                            }
                        }
                        Ok(Permitted {
                            prepared,
                            confinement: None,
                        })
                    }
                    Answer::Reply(PermissionReply::Deny {
                        message, interrupt, ..
                    }) => {
                        let text = if message.trim().is_empty() {
                            "The person doesn't want this call to run. Don't try to reach the same end in another way; ask what to do instead.".to_owned()
                        } else {
                            message
                        };
                        let mut result = CallResult::failure(text);
                        result.denial = Some(self.denial(id, tool.name(), prepared.input()));
                        if interrupt {
                            result.ending = Some(CallEnding::Interrupted);
                        }
                        Err(Box::new(result))
                    }
                }
            }
        }
    }

    /// Asks whether a command that the kernel stopped may run without its confinement. Gives the call to
    /// run again.
    async fn release(
        &self,
        id: &ToolUseId,
        tool: &Arc<dyn DynTool>,
        input: &Value,
        what: String,
        cancel: &CancellationToken,
    ) -> Option<Box<dyn PreparedCall>> {
        let prepared = tool.clone().prepare(input.clone(), &self.tools).ok()?;
        let reason = DecisionReason::SandboxOverride {
            reason: format!(
                "it ran confined to reading, and {what}; yes runs it again without that"
            ),
        };
        let request = PermissionRequest {
            request_id: RequestId::random(),
            tool_name: tool.name().to_owned(),
            input: input.clone(),
            tool_use_id: id.clone(),
            permission_suggestions: Vec::new(),
            blocked_path: None,
            decision_reason: Some(reason.text()),
            decision_reason_type: Some(reason.kind().to_owned()),
            display_name: Some(tool.name().to_owned()),
            title: Some(prepared.activity()),
            description: None,
            agent_id: self.agent_id.clone(),
        };
        match self.questions.ask(request, &self.hooks, cancel).await {
            Answer::Reply(PermissionReply::Allow { .. }) => Some(prepared),
            Answer::Reply(PermissionReply::Deny { .. })
            | Answer::NobodyToAsk
            | Answer::Withdrawn => None,
        }
    }

    fn denial(&self, id: &ToolUseId, name: &str, input: &Value) -> PermissionDenial {
        PermissionDenial {
            tool_name: name.to_owned(),
            tool_use_id: id.clone(),
            tool_input: input.clone(),
        }
    }

    async fn refuse(
        &self,
        id: &ToolUseId,
        name: &str,
        input: &Value,
        message: String,
        reason: &DecisionReason,
    ) -> Box<CallResult> {
        let denial = self.denial(id, name, input);
        self.events.send(Event::PermissionDenied {
            denial: denial.clone(),
            message: message.clone(),
            reason: reason.text(),
        });
        self.hooks
            .permission_denied(name, input, id, &reason.text())
            .await;
        let mut result = CallResult::failure(message);
        result.denial = Some(denial);
        Box::new(result)
    }
}

/// A call that may run.
struct Permitted {
    prepared: Box<dyn PreparedCall>,
    /// What it is confined to, when it passes because it only reads.
    confinement: Option<Arc<ReadOnlyPolicy>>,
}

/// Brings a hook's word and the decision together: the stricter of both wins, and a hook's yes never
/// beats a deny rule, an ask rule or a hard safety check.
fn with_hook(
    decision: Decision,
    hint: String,
    said: Option<HookPermission>,
    permissions: &Permissions,
) -> (Decision, String) {
    let Some(HookPermission {
        decision: said,
        reason,
        hook: name,
    }) = said
    else {
        return (decision, hint);
    };
    match (said, decision) {
        (HookDecision::Deny, _) => {
            let hint = reason
                .clone()
                .unwrap_or_else(|| format!("The hook {name} refuses this call."));
            (
                Decision::Deny {
                    reason: DecisionReason::Hook { name, reason },
                },
                hint,
            )
        }
        (HookDecision::Ask, Decision::Allow { .. }) => {
            let hint = format!(
                "A hook wants a person's word for this call ({}), and nobody is there to give it.",
                reason.as_deref().unwrap_or(&name)
            );
            let reason = DecisionReason::Hook { name, reason };
            if permissions.mode() == lathe_protocol::permission::PermissionMode::DontAsk {
                return (Decision::Deny { reason }, hint);
            }
            let ask = Decision::Ask {
                reason,
                suggestions: Vec::new(),
                blocked_path: None,
                hard: false,
            };
            (ask, hint)
        }
        (
            HookDecision::Allow,
            Decision::Ask {
                reason: asked_by,
                hard: false,
                ..
            },
        ) if !matches!(asked_by, DecisionReason::Rule { .. }) => (
            Decision::Allow {
                reason: DecisionReason::Hook { name, reason },
            },
            hint,
        ),
        (_, decision) => (decision, hint),
    }
}

/// What the model is told when a question to the person can't be asked.
fn person_hint(tool: &str) -> Option<String> {
    match tool {
        lathe_tools::ask_user_question::NAME => Some(
            "Nobody can answer questions here. Decide yourself: take the answer that you would recommend, say that you took it, and go on.".to_owned(),
        ),
        lathe_tools::plan_mode::EXIT => Some(
            "Nobody can agree to the plan here. Give it as your answer and end your turn.".to_owned(),
        ),
        _ => None,
    }
}

/// A failure as a stage holds it.
fn boxed_failure(text: impl Into<String>) -> Box<CallResult> {
    Box::new(CallResult::failure(text))
}

/// What goes back for a call that was stopped.
pub(crate) fn cancelled() -> CallResult {
    CallResult::failure("The call was stopped before it finished: the person interrupted.")
}

/// The words of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
