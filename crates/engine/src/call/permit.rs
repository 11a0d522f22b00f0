//! The permission of a call: rules and mode, then the PreToolUse hook, then the classifier, then the user.
//!
//! A call is decided by one snapshot of the permissions, taken when it gets here. The snapshot is not that of
//! the step: a rule that the user gives while the step runs is in effect for its next calls. An input that a
//! person changed is decided again, by the rules as they are then.

use crate::call::pipeline::Pipeline;
use crate::call::{CallResult, boxed_failure, cancelled};
use crate::conversation::questions::{Answer, HookMay};
use crate::turn::decide::CallEnding;
use lathe_hooks::{HookDecision, HookPermission};
use lathe_permissions::{CallFacts, PermissionContext};
use lathe_protocol::event::Event;
use lathe_protocol::permission::{
    Decision, DecisionReason, PermissionDenial, PermissionMode, PermissionReply, PermissionRequest,
    PermissionUpdate,
};
use lathe_sandbox::ReadOnlyPolicy;
use lathe_tools::{PreparedCall, proposal};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A call that may run.
pub(super) struct Permitted {
    pub(super) prepared: Box<dyn PreparedCall>,
    /// The confinement of a call that is allowed because it only reads.
    pub(super) confinement: Option<Arc<ReadOnlyPolicy>>,
    /// Whether the user changed the input when they allowed it.
    pub(super) changed_by_person: bool,
    /// Its text for the model.
    pub(super) told: Option<String>,
}

/// A decision with the text for the model if the call does not run.
struct Ruling {
    decision: Decision,
    hint: String,
    confinement: Option<ReadOnlyPolicy>,
}

impl Pipeline {
    /// Gets the call permitted, or the result that says why it is not.
    pub(super) async fn permit(
        &self,
        prepared: Box<dyn PreparedCall>,
        hook: Option<HookPermission>,
    ) -> Result<Permitted, Box<CallResult>> {
        let context = self.calls.permissions.snapshot();
        let ruling = self.rule(prepared.as_ref(), &context);
        let confinement = ruling.confinement.map(Arc::new);
        let (decision, hint) = with_hook(ruling.decision, ruling.hint, hook, context.mode);
        let cwd = self.calls.tools.working_folder.read().clone();
        let decision = self
            .calls
            .questions
            .classify(decision, self.name(), prepared.input(), &cwd, context.mode)
            .await;
        let subject = prepared.subject(&self.calls.tools);
        let unsaved = match &decision {
            Decision::Deny { .. } => None,
            _ => self.calls.editor.unsaved(&subject).await,
        };
        let decision = ask_about_unsaved(decision, unsaved.as_deref());
        match decision {
            Decision::Allow { .. } => Ok(Permitted {
                prepared,
                confinement,
                changed_by_person: false,
                told: None,
            }),
            Decision::Deny { reason } => {
                let hint = match &reason {
                    DecisionReason::Classifier { reason } => format!(
                        "Auto mode refuses this call: {reason} Don't try to achieve the same by other means; ask the user or continue without it."
                    ),
                    _ => hint,
                };
                Err(self.refuse(prepared.input(), hint, &reason).await)
            }
            Decision::Ask {
                reason,
                suggestions,
                blocked_path,
                hard,
            } => {
                let may = HookMay::answer(&reason, hard);
                let request = PermissionRequest {
                    permission_suggestions: suggestions,
                    blocked_path,
                    description: unsaved.as_deref().map(about_unsaved).or_else(|| {
                        let description = prepared.input().get("description")?;
                        description.as_str().map(str::to_owned)
                    }),
                    ..self.question(prepared.as_ref(), &reason)
                };
                let diff = self.calls.editor.diff(
                    self.name(),
                    prepared.input(),
                    &self.id,
                    &self.calls.tools,
                );
                let answer = self
                    .calls
                    .questions
                    .ask(request, &self.calls.hooks, may, diff, &self.cancel)
                    .await;
                let permitted = self.answered(answer, prepared, reason, hint).await?;
                self.saved(permitted, unsaved).await
            }
        }
    }

    /// The decision of rules and mode.
    fn rule(&self, prepared: &dyn PreparedCall, context: &PermissionContext) -> Ruling {
        let subject = prepared.subject(&self.calls.tools);
        let aliases = self.tool.aliases();
        let facts = CallFacts {
            tool_name: self.name(),
            aliases: &aliases,
            input: prepared.input(),
            subject: &subject,
            read_only: prepared.traits().read_only,
            resolved: lathe_permissions::resolve(&subject, context),
        };
        let decision = lathe_permissions::decide(&facts, context);
        let hint = match &decision {
            Decision::Ask { reason, .. } | Decision::Deny { reason } => {
                lathe_permissions::denial_message(&facts, reason)
            }
            Decision::Allow { .. } => String::new(),
        };
        Ruling {
            confinement: lathe_permissions::confinement(&facts, &decision, context),
            decision,
            hint,
        }
    }

    fn question(&self, prepared: &dyn PreparedCall, reason: &DecisionReason) -> PermissionRequest {
        PermissionRequest {
            decision_reason: Some(reason.text()),
            decision_reason_type: Some(reason.kind().to_owned()),
            display_name: Some(self.name().to_owned()),
            title: Some(prepared.activity()),
            agent_id: self.calls.agent_id.clone(),
            ..PermissionRequest::new(self.name(), prepared.input().clone(), self.id.clone())
        }
    }

    async fn answered(
        &self,
        answer: Answer,
        prepared: Box<dyn PreparedCall>,
        reason: DecisionReason,
        hint: String,
    ) -> Result<Permitted, Box<CallResult>> {
        let questions = &self.calls.questions;
        let by_hook = matches!(answer, Answer::HookReply(_));
        match answer {
            Answer::NobodyToAsk => {
                let reason = if questions.is_in_background() {
                    DecisionReason::AsyncAgent {
                        reason: reason.text(),
                    }
                } else {
                    reason
                };
                let hint = person_hint(self.name()).unwrap_or(hint);
                Err(self.refuse(prepared.input(), hint, &reason).await)
            }
            Answer::Withdrawn => Err(Box::new(cancelled())),
            Answer::Reply(PermissionReply::Allow {
                updated_input,
                updated_permissions,
                ..
            })
            | Answer::HookReply(PermissionReply::Allow {
                updated_input,
                updated_permissions,
                ..
            }) => {
                self.allowed(prepared, updated_input, &updated_permissions, by_hook)
                    .await
            }
            Answer::Reply(PermissionReply::Deny {
                message, interrupt, ..
            })
            | Answer::HookReply(PermissionReply::Deny {
                message, interrupt, ..
            }) => {
                let text = if message.trim().is_empty() {
                    "The user rejected this call. Don't try to achieve the same by other means; ask what to do instead.".to_owned()
                } else {
                    message
                };
                let mut result = CallResult::failure(text);
                result.denial = Some(self.denial(prepared.input()));
                if interrupt {
                    result.ending = Some(CallEnding::Interrupted);
                }
                Err(Box::new(result))
            }
        }
    }

    /// The user or a hook allowed the call, perhaps with another input and with rules for later calls.
    async fn allowed(
        &self,
        mut prepared: Box<dyn PreparedCall>,
        updated_input: Option<Value>,
        updates: &[PermissionUpdate],
        by_hook: bool,
    ) -> Result<Permitted, Box<CallResult>> {
        let permissions = &self.calls.permissions;
        self.calls.questions.apply(updates, permissions);
        let mut changed = false;
        let mut told = None;
        if let Some(input) = updated_input
            && input != *prepared.input()
        {
            if !by_hook {
                told = self.change_by_person(prepared.input(), &input).await;
            }
            prepared = self.prepare(input).await?;
            changed = true;
            // The user may change what runs, but not past a deny rule; a hook only into a call that a hook may
            // approve.
            let ruling = self.rule(prepared.as_ref(), &permissions.snapshot());
            let refused = match ruling.decision {
                Decision::Deny { reason } => Some(reason),
                Decision::Ask { reason, hard, .. }
                    if by_hook && HookMay::answer(&reason, hard) == HookMay::Refuse =>
                {
                    Some(reason)
                }
                Decision::Allow { .. } | Decision::Ask { .. } => None,
            };
            if let Some(reason) = refused {
                return Err(self.refuse(prepared.input(), ruling.hint, &reason).await);
            }
        }
        Ok(Permitted {
            prepared,
            confinement: None,
            changed_by_person: changed && !by_hook,
            told,
        })
    }

    /// The user's changes to a call that writes a file, for the model.
    async fn change_by_person(&self, wanted: &Value, input: &Value) -> Option<String> {
        let tool = self.name().to_owned();
        let (wanted, input, tools) = (wanted.clone(), input.clone(), self.calls.tools.clone());
        let comparing = lathe_spawn::blocking(move || {
            let wanted = proposal::of(&tool, &wanted, &tools)?;
            let changed = proposal::of(&tool, &input, &tools)?;
            let path = tools.shown(&changed.path);
            let diff = lathe_diff::unified(&changed.path, &wanted.after, &changed.after);
            Some(format!(
                "The user changed your edit of {path} before it was made. The file has their version; its difference from your text:\n{diff}"
            ))
        });
        comparing.await.ok().flatten()
    }

    /// Has the editor save what it did not save yet, before the file is changed.
    async fn saved(
        &self,
        permitted: Permitted,
        unsaved: Option<PathBuf>,
    ) -> Result<Permitted, Box<CallResult>> {
        if let Some(path) = unsaved
            && !self.calls.editor.save(&path).await
        {
            return Err(boxed_failure(format!(
                "{} was not changed: it has changes in the editor that could not be saved. Ask the user to save it.",
                path.display()
            )));
        }
        Ok(permitted)
    }

    /// Asks whether a command that the kernel stopped may run without its confinement. Gives the call to
    /// run again.
    pub(super) async fn release(&self, input: &Value, what: &str) -> Option<Box<dyn PreparedCall>> {
        let prepared = self.tool.clone().prepare(input.clone(), &self.calls.tools);
        let prepared = prepared.ok()?;
        let reason =
            format!("it ran confined to reading, and {what}; yes runs it again unconfined");
        self.ask_for_release(prepared, reason, HookMay::Decide)
            .await
    }

    /// Asks the user whether a command that the sandbox stopped may run outside. No hook may say yes.
    pub(super) async fn leave_sandbox(
        &self,
        input: &Value,
        what: &str,
    ) -> Option<Box<dyn PreparedCall>> {
        let prepared = self.tool.clone().prepare(input.clone(), &self.calls.tools);
        let reason =
            format!("the sandbox refused to {what}; yes runs it again outside the sandbox");
        self.ask_for_release(prepared.ok()?, reason, HookMay::Refuse)
            .await
    }

    async fn ask_for_release(
        &self,
        prepared: Box<dyn PreparedCall>,
        reason: String,
        may: HookMay,
    ) -> Option<Box<dyn PreparedCall>> {
        let reason = DecisionReason::SandboxOverride { reason };
        let request = self.question(prepared.as_ref(), &reason);
        let questions = &self.calls.questions;
        match questions
            .ask(request, &self.calls.hooks, may, None, &self.cancel)
            .await
        {
            Answer::Reply(PermissionReply::Allow { .. })
            | Answer::HookReply(PermissionReply::Allow { .. }) => Some(prepared),
            Answer::Reply(PermissionReply::Deny { .. })
            | Answer::HookReply(PermissionReply::Deny { .. })
            | Answer::NobodyToAsk
            | Answer::Withdrawn => None,
        }
    }

    fn denial(&self, input: &Value) -> PermissionDenial {
        PermissionDenial {
            tool_name: self.name().to_owned(),
            tool_use_id: self.id.clone(),
            tool_input: input.clone(),
        }
    }

    async fn refuse(
        &self,
        input: &Value,
        message: String,
        reason: &DecisionReason,
    ) -> Box<CallResult> {
        let denial = self.denial(input);
        self.calls.events.send(Event::PermissionDenied {
            denial: denial.clone(),
            message: message.clone(),
            reason: reason.text(),
            kind: reason.kind(),
            agent: self.calls.hooks.agent.as_ref().map(|(id, _)| id.clone()),
        });
        let again = self
            .calls
            .hooks
            .permission_denied(self.name(), input, &self.id, &reason.text())
            .await;
        let message = if again {
            format!("{message}\n\nA hook allows you to retry this call.")
        } else {
            message
        };
        let mut result = CallResult::failure(message);
        result.denial = Some(denial);
        Box::new(result)
    }
}

fn about_unsaved(path: &Path) -> String {
    format!(
        "{} has changes in the editor that were not saved; yes saves them first",
        path.display()
    )
}

/// A file with changes in the editor that were not saved is asked about, no matter what allows the call.
fn ask_about_unsaved(decision: Decision, unsaved: Option<&Path>) -> Decision {
    let Some(path) = unsaved else {
        return decision;
    };
    match decision {
        Decision::Allow { .. } => Decision::Ask {
            reason: DecisionReason::Other {
                reason: about_unsaved(path),
            },
            suggestions: Vec::new(),
            blocked_path: None,
            hard: false,
        },
        other => other,
    }
}

/// Combines a hook's decision with that of the rules: the stricter one wins, and a hook's `allow` never
/// overrides a deny rule, an ask rule or a hard safety check.
fn with_hook(
    decision: Decision,
    hint: String,
    hook: Option<HookPermission>,
    mode: PermissionMode,
) -> (Decision, String) {
    let Some(HookPermission {
        decision: wanted,
        reason,
        hook: name,
    }) = hook
    else {
        return (decision, hint);
    };
    match (wanted, decision) {
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
                "A hook requires confirmation for this call ({}), and there is no user to confirm it.",
                reason.as_deref().unwrap_or(&name)
            );
            let reason = DecisionReason::Hook { name, reason };
            if mode == PermissionMode::DontAsk {
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
        ) if HookMay::answer(&asked_by, false) == HookMay::Decide => (
            Decision::Allow {
                reason: DecisionReason::Hook { name, reason },
            },
            hint,
        ),
        (_, decision) => (decision, hint),
    }
}

/// The text for the model when a question to the user can't be asked.
fn person_hint(tool: &str) -> Option<String> {
    match tool {
        lathe_tools::ask_user_question::NAME => Some(
            "There is no user to answer questions. Choose the answer that you would recommend, say so, and continue.".to_owned(),
        ),
        lathe_tools::config::NAME => Some(
            "There is no user to agree to a change of settings. Continue with the present ones, and name the change in your answer.".to_owned(),
        ),
        lathe_tools::plan_mode::EXIT => Some(
            "There is no user to approve the plan. Give it as your answer and end your turn.".to_owned(),
        ),
        _ => None,
    }
}
