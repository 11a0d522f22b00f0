//! The stages of one call: validate, PreToolUse hooks, permission, run, PostToolUse hooks, size.

use crate::call::permit::Permitted;
use crate::call::{CallEnvironment, CallResult, boxed_failure, cancelled, results};
use crate::turn::decide::CallEnding;
use lathe_hooks::{HookDecision, HookOutcome, HookPermission};
use lathe_protocol::display::Display;
use lathe_protocol::event::Event;
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::permission::Subject;
use lathe_sandbox::ReadOnlyPolicy;
use lathe_session::scan::Scan;
use lathe_shell::run::SandboxedRun;
use lathe_tools::context::ProgressSink;
use lathe_tools::{CallContext, CallTraits, DynTool, PreparedCall, ToolError, ToolOutput};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a cancelled tool may take to clean up before it is abandoned.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// One call on its way from validation to its result.
pub(super) struct Pipeline {
    pub(super) calls: Arc<CallEnvironment>,
    pub(super) id: ToolUseId,
    pub(super) tool: Arc<dyn DynTool>,
    pub(super) cancel: CancellationToken,
}

/// A call after the PreToolUse hooks.
struct Hooked {
    prepared: Box<dyn PreparedCall>,
    permission: Option<HookPermission>,
    added_context: Vec<String>,
}

/// The sandbox or confinement of a command.
#[derive(Default)]
struct Bounds {
    sandbox: Option<Arc<SandboxedRun>>,
    confinement: Option<Arc<ReadOnlyPolicy>>,
}

/// A call that ran.
struct Executed {
    outcome: Result<ToolOutput, ToolError>,
    input: Value,
    subject: Subject,
    traits: CallTraits,
    elapsed: Duration,
}

impl Pipeline {
    /// Runs the stages. A stage that ends the call gives its result.
    pub(super) async fn run(self, prepared: Box<dyn PreparedCall>) -> CallResult {
        let hooked = match self.before(prepared).await {
            Ok(hooked) => hooked,
            Err(result) => return *result,
        };
        let mut added_context = hooked.added_context;
        let permitted = match self.permit(hooked.prepared, hooked.permission).await {
            Ok(permitted) => permitted,
            Err(refusal) => {
                let mut refusal = *refusal;
                refusal.added_context.append(&mut added_context);
                return refusal;
            }
        };
        if self.cancel.is_cancelled() {
            return cancelled();
        }
        added_context.extend(permitted.told.clone());
        let executed = self.execute(permitted).await;
        let mut result = self.after(executed).await;
        added_context.append(&mut result.added_context);
        result.added_context = added_context;
        result
    }

    pub(super) fn name(&self) -> &str {
        self.tool.name()
    }

    /// An input as a call that was validated.
    pub(super) async fn prepare(
        &self,
        input: Value,
    ) -> Result<Box<dyn PreparedCall>, Box<CallResult>> {
        let prepared = self.tool.clone().prepare(input, &self.calls.tools);
        let prepared = prepared.map_err(|error| boxed_failure(error.to_string()))?;
        self.validate(prepared).await
    }

    async fn validate(
        &self,
        prepared: Box<dyn PreparedCall>,
    ) -> Result<Box<dyn PreparedCall>, Box<CallResult>> {
        match prepared.validate(&self.calls.tools).await {
            Ok(()) if self.tool.plans() => {
                let input = prepared.input().clone();
                let planned = self.tool.clone().prepare(input, &self.calls.tools);
                planned.map_err(|error| boxed_failure(error.to_string()))
            }
            Ok(()) => Ok(prepared),
            Err(error) => Err(boxed_failure(error.to_string())),
        }
    }

    /// Validates the input and asks the PreToolUse hooks, which may change it, defer the call or end the turn.
    async fn before(&self, prepared: Box<dyn PreparedCall>) -> Result<Hooked, Box<CallResult>> {
        if self.cancel.is_cancelled() {
            return Err(Box::new(cancelled()));
        }
        let mut prepared = self.validate(prepared).await?;
        let HookOutcome {
            additional_context,
            stop,
            updated_input,
            permission,
            ..
        } = self
            .calls
            .hooks
            .pre_tool_use(self.name(), prepared.input(), &self.id, &self.cancel)
            .await;
        if let Some(reason) = stop {
            let mut result = CallResult::failure(format!("A hook stopped the turn: {reason}"));
            result.ending = Some(CallEnding::HookStopped { reason });
            return Err(Box::new(result));
        }
        if let Some(input) = updated_input {
            let changed = self.tool.clone().prepare(input, &self.calls.tools);
            let changed = changed.map_err(|error| {
                boxed_failure(format!(
                    "A hook changed the input of {} into an invalid one: {error}",
                    self.name()
                ))
            })?;
            prepared = self.validate(changed).await?;
        }
        if permission
            .as_ref()
            .is_some_and(|hook| hook.decision == HookDecision::Defer)
        {
            let call = json!({"id": self.id, "name": self.name(), "input": prepared.input()});
            let mut result = CallResult::failure("The call was deferred; the host will run it.");
            result.is_error = false;
            result.ending = Some(CallEnding::Deferred { call });
            return Err(Box::new(result));
        }
        Ok(Hooked {
            prepared,
            permission,
            added_context: additional_context,
        })
    }

    /// Runs the tool, again without confinement if the kernel stopped it and the user allows that.
    async fn execute(&self, permitted: Permitted) -> Executed {
        let Permitted {
            prepared,
            confinement,
            changed_by_person,
            ..
        } = permitted;
        let calls = &self.calls;
        let input = prepared.input().clone();
        let traits = prepared.traits();
        let subject = prepared.subject(&calls.tools);
        calls.events.send(Event::CallStarted {
            tool_use_id: self.id.clone(),
            tool_name: self.name().to_owned(),
            activity: prepared.activity(),
        });
        let started = Instant::now();
        calls.editor.before_edit(&subject).await;
        let watched = self.watch_shell(&subject, traits).await;
        let folder = calls.tools.working_folder.read().clone();
        let bounds = Bounds {
            sandbox: self.sandbox_of(&subject),
            confinement,
        };
        let mut outcome = self.call(prepared, bounds, started).await;
        let again = match &outcome {
            Err(ToolError::Blocked { what, .. }) => self.release(&input, what).await,
            Err(ToolError::Violated { what, .. }) if self.may_leave_sandbox() => {
                self.leave_sandbox(&input, what).await
            }
            _ => None,
        };
        if let Some(prepared) = again {
            outcome = self.call(prepared, Bounds::default(), started).await;
        }
        if let (true, Ok(output)) = (changed_by_person, &mut outcome)
            && let Some(modified) = output.structured.get_mut("userModified")
        {
            *modified = Value::Bool(true);
        }
        let folder_now = calls.tools.working_folder.read().clone();
        let by_shell = matches!(subject, Subject::Shell { .. } | Subject::Typing { .. });
        if by_shell && folder_now != folder {
            calls.hooks.cwd_changed(&folder, &folder_now).await;
        }
        if let (Some(undo), Some((before, roots))) = (&calls.undo, watched) {
            let changed = undo.after_shell(before, roots, calls.turn).await;
            calls.language_servers.changed_on_disk(&changed);
        }
        calls.backgrounds.forget(&self.id);
        Executed {
            outcome,
            input,
            subject,
            traits,
            elapsed: started.elapsed(),
        }
    }

    /// Scans the roots before a shell command that may write, so that it can be undone.
    async fn watch_shell(
        &self,
        subject: &Subject,
        traits: CallTraits,
    ) -> Option<(Scan, Vec<PathBuf>)> {
        let undo = self.calls.undo.as_ref()?;
        let runs = matches!(subject, Subject::Shell { .. } | Subject::Typing { .. });
        if traits.read_only || !runs {
            return None;
        }
        let roots = self.calls.tools.roots.read().clone();
        Some((undo.before_shell(roots.clone()).await?, roots))
    }

    async fn call(
        &self,
        prepared: Box<dyn PreparedCall>,
        bounds: Bounds,
        started: Instant,
    ) -> Result<ToolOutput, ToolError> {
        let context = CallContext {
            session: self.calls.tools.clone(),
            tool_use_id: self.id.clone(),
            turn: self.calls.turn,
            cancel: self.cancel.clone(),
            to_background: self.calls.backgrounds.register(&self.id),
            progress: self.progress(started),
            sandbox: bounds.sandbox,
            confinement: bounds.confinement,
        };
        let work = prepared.call(context);
        let abandoned = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = abandoned => Err(ToolError::Cancelled(format!("{} was stopped.", self.name()))),
        }
    }

    fn progress(&self, started: Instant) -> ProgressSink {
        let events = self.calls.events.clone();
        let (id, name) = (self.id.clone(), self.name().to_owned());
        ProgressSink::new(move |display: Display| {
            events.send(Event::CallProgress {
                tool_use_id: id.clone(),
                tool_name: name.clone(),
                display,
                elapsed: started.elapsed(),
            });
        })
    }

    /// The result after the PostToolUse hooks, within the size limit of the tool.
    async fn after(&self, executed: Executed) -> CallResult {
        let Executed {
            outcome,
            input,
            subject,
            traits,
            elapsed,
        } = executed;
        let mut result = match outcome {
            Ok(output) => self.succeeded(output, &input, elapsed).await,
            Err(error) => self.failed(&error, &input, elapsed).await,
        };
        result.content = results::fit(
            result.content,
            self.tool.result_limit(),
            &self.calls.tools.results_folder,
            &self.id,
        );
        result.elapsed = elapsed;
        result.cancels_siblings = result.is_error && traits.failure_cancels_siblings;
        result.had_effects = !traits.read_only;
        if let Subject::Read { paths } | Subject::Write { paths } = subject
            && !result.is_error
        {
            result.touched = paths;
        }
        result
    }

    async fn succeeded(&self, output: ToolOutput, input: &Value, elapsed: Duration) -> CallResult {
        let hooks = &self.calls.hooks;
        let name = self.name();
        let after = if output.is_error {
            let text = output.content.text();
            hooks
                .post_tool_failure(name, input, &self.id, &text, false, elapsed)
                .await
        } else {
            hooks
                .post_tool_use(name, input, &self.id, &output.structured, elapsed)
                .await
        };
        let (content, structured, display) = match after.updated_tool_output {
            None => (output.content, output.structured, output.display),
            // The original may be what the hook removes, so nothing of it is left.
            Some(replacement) => {
                let content = results::replaced(&replacement);
                let text = content.text();
                (content, replacement, Display::Text { text })
            }
        };
        CallResult {
            structured,
            display,
            is_error: output.is_error,
            ending: after.stop.map(|reason| CallEnding::HookStopped { reason }),
            added_context: after.additional_context,
            ..CallResult::of(content)
        }
    }

    async fn failed(&self, error: &ToolError, input: &Value, elapsed: Duration) -> CallResult {
        let interrupted = matches!(error, ToolError::Cancelled(_));
        let text = error.to_string();
        let hooks = &self.calls.hooks;
        let after = hooks
            .post_tool_failure(self.name(), input, &self.id, &text, interrupted, elapsed)
            .await;
        CallResult {
            added_context: after.additional_context,
            ending: after.stop.map(|reason| CallEnding::HookStopped { reason }),
            ..CallResult::failure(text)
        }
    }
}
