//! Hooks that are not commands: addresses, models, MCP tools, functions of the SDK host.

use crate::answer::{self, HookAnswer, RunOutcome};
use crate::host::{HookQuestion, HookVerdict, ServiceError};
use crate::http;
use crate::registry::{Hook, HookRegistry};
use crate::run::{Ended, RunContext};
use lathe_protocol::frame::HostError;
use lathe_protocol::hook::{HookEvent, HookInput};
use lathe_settings::schema::HookKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why a hook that isn't a command gave no answer.
#[derive(Debug, thiserror::Error)]
enum RemoteError {
    #[error("a command is run elsewhere")]
    IsCommand,
    #[error("no model is available to answer it")]
    NoModel,
    #[error("no MCP servers are available")]
    NoServers,
    #[error("no SDK host is connected")]
    NoHost,
    #[error("the model's answer is not {{\"ok\": …}}: {0}")]
    NoVerdict(String),
    #[error(transparent)]
    Http(#[from] http::HttpError),
    #[error(transparent)]
    Host(#[from] HostError),
    /// The error of the model or the MCP server.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl HookRegistry {
    pub(crate) async fn run_remote(
        &self,
        hook: &Hook,
        input: &HookInput,
        text: &Arc<str>,
        context: &RunContext,
    ) -> Ended {
        let cancel = context.cancel.child_token();
        let limit = hook.limit();
        let ended = tokio::select! {
            ended = tokio::time::timeout(limit, self.ask(hook, input, text, context, &cancel)) => ended,
            () = context.cancel.cancelled() => {
                return Ended::quiet(HookAnswer::default(), RunOutcome::Cancelled);
            }
        };
        match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => Ended::failed(hook, &error.to_string()),
            Err(_) => {
                cancel.cancel();
                let warning = format!("the hook {} took longer than {limit:?}", hook.name);
                Ended::quiet(answer::warned(warning), RunOutcome::TimedOut)
            }
        }
    }

    async fn ask(
        &self,
        hook: &Hook,
        input: &HookInput,
        text: &Arc<str>,
        context: &RunContext,
        cancel: &CancellationToken,
    ) -> Result<Ended, RemoteError> {
        let definition = &hook.definition;
        let hosts = self.hosts();
        let question = || HookQuestion {
            prompt: filled_in(definition.prompt.as_deref().unwrap_or_default(), text),
            model: definition.model.clone(),
            event: hook.event,
            cancel: cancel.clone(),
        };
        match definition.kind {
            HookKind::Command => Err(RemoteError::IsCommand),
            HookKind::Http => {
                let limits = self.http_limits();
                let mut environment: BTreeMap<String, String> =
                    lathe_process::inherited_environment()
                        .into_iter()
                        .filter_map(|(name, value)| {
                            Some((name.into_string().ok()?, value.into_string().ok()?))
                        })
                        .collect();
                environment.extend(self.settings_environment());
                environment.extend(context.environment.clone());
                let (answer, body) = http::post(
                    hook.event,
                    definition,
                    &limits,
                    &environment,
                    text.to_string(),
                    hook.limit(),
                )
                .await?;
                Ok(Ended {
                    stdout: body,
                    ..Ended::quiet(answer, RunOutcome::Success)
                })
            }
            HookKind::Prompt => {
                let model = hosts.model.ok_or(RemoteError::NoModel)?;
                let said = model.ask(question()).await?;
                let verdict =
                    verdict(&said).ok_or_else(|| RemoteError::NoVerdict(shortened(&said)))?;
                Ok(Ended {
                    stdout: said,
                    ..judged(hook, verdict)
                })
            }
            HookKind::Agent => {
                let model = hosts.model.ok_or(RemoteError::NoModel)?;
                let verdict = model.run_agent(question()).await;
                Ok(judged(hook, verdict?))
            }
            HookKind::McpTool => {
                let tools = hosts.tools.ok_or(RemoteError::NoServers)?;
                let server = definition.server.as_deref().unwrap_or_default();
                let tool = definition.tool.as_deref().unwrap_or_default();
                let arguments = definition
                    .input
                    .clone()
                    .unwrap_or_else(|| serde_json::to_value(input).unwrap_or_default());
                let said = tools.call(server, tool, arguments).await?;
                let answer = answer::of_text(hook.event, &said);
                Ok(Ended {
                    stdout: said,
                    ..Ended::quiet(answer, RunOutcome::Success)
                })
            }
            HookKind::Callback => {
                let host = hosts.callbacks.ok_or(RemoteError::NoHost)?;
                let id = definition.callback_id.as_deref().unwrap_or_default();
                let call = input.fields.get("tool_use_id").and_then(Value::as_str);
                let output = host.call(id, input, call).await?;
                Ok(Ended::quiet(
                    answer::of_output(hook.event, output),
                    RunOutcome::Success,
                ))
            }
        }
    }
}

fn judged(hook: &Hook, verdict: HookVerdict) -> Ended {
    if verdict.ok {
        return Ended::quiet(HookAnswer::default(), RunOutcome::Success);
    }
    let reason = verdict
        .reason
        .unwrap_or_else(|| format!("the hook {} objected", hook.name));
    let mut answer = answer::objection(hook.event, reason.clone());
    if ends_turn(hook) {
        answer.stop = Some(reason);
    }
    Ended::quiet(answer, RunOutcome::Blocked)
}

/// Whether the objection of a model ends the turn. At the end of a turn it is what makes the model continue.
fn ends_turn(hook: &Hook) -> bool {
    let at_end = matches!(hook.event, HookEvent::Stop | HookEvent::SubagentStop);
    let definition = &hook.definition;
    definition.kind == HookKind::Prompt && definition.continue_on_block != Some(true) && !at_end
}

/// Finds `{"ok": …}` in what a model wrote, which may have words or a fence around it.
fn verdict(text: &str) -> Option<HookVerdict> {
    text.match_indices('{').find_map(|(at, _)| {
        let value = serde_json::Deserializer::from_str(&text[at..])
            .into_iter::<Value>()
            .next()?
            .ok()?;
        Some(HookVerdict {
            ok: value.get("ok")?.as_bool()?,
            reason: value
                .get("reason")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    })
}

fn filled_in(prompt: &str, text: &str) -> String {
    if prompt.contains("$ARGUMENTS") {
        prompt.replace("$ARGUMENTS", text)
    } else {
        format!("{prompt}\n\n{text}")
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}
