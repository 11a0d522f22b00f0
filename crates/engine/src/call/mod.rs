//! Tool calls, from the model's block to the result: `pipeline` has the stages of a call, `permit` its
//! permission, `executor` the order in which calls run.
//!
//! A failure at any stage is a result that tells the model what to do next. A panic in a tool is a failed
//! call, not the end of the session.

pub(crate) mod executor;
mod network;
mod permit;
mod pipeline;
pub(crate) mod results;
mod sandbox;
pub(crate) mod tool_search;

pub(crate) use crate::call::network::SandboxNetwork;
use crate::call::pipeline::Pipeline;
use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::Questions;
use crate::conversation::undo::Undo;
use crate::editor::EditorLink;
use crate::session::events::EventSink;
use crate::turn::decide::CallEnding;
use futures::FutureExt as _;
use lathe_model::ToolInput;
use lathe_permissions::Permissions;
use lathe_protocol::content::{Content, ToolUseBlock};
use lathe_protocol::display::Display;
use lathe_protocol::ids::{AgentId, RecordId, ToolUseId};
use lathe_protocol::permission::PermissionDenial;
use lathe_tools::{CallTraits, DynTool, PreparedCall, ToolContext, ToolRegistry};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The services and tools of calls, one for each step: late calls use the tools that the step offered.
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
    pub(crate) network: Arc<SandboxNetwork>,
    pub(crate) editor: Arc<EditorLink>,
}

/// Running calls that can be sent to the background.
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

    /// The token of a call that begins: cancelled, it sends the call to the background.
    fn register(&self, call: &ToolUseId) -> CancellationToken {
        let token = CancellationToken::new();
        self.0.lock().insert(call.clone(), token.clone());
        token
    }

    fn forget(&self, call: &ToolUseId) {
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

/// The result of a call.
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
    /// The run time of the tool itself, without waiting for the user's answer.
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
            is_error: true,
            ..Self::of(Content::Text(text))
        }
    }

    /// A result of which only the content is known.
    fn of(content: Content) -> Self {
        Self {
            content,
            structured: Value::Null,
            display: Display::Text {
                text: String::new(),
            },
            is_error: false,
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
            Err(error) => {
                let mut text = error.to_string();
                if self.tools.host().is_some_and(|host| host.is_unloaded(name)) {
                    text.push_str(&format!(
                        " The definition of {name} was not loaded: load it first with {}, query \"select:{name}\".",
                        tool_search::NAME
                    ));
                }
                Stage::Refused(boxed_failure(text))
            }
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
        let pipeline = Pipeline {
            calls: self,
            id,
            tool: call.tool,
            cancel,
        };
        let outcome = AssertUnwindSafe(pipeline.run(call.prepared))
            .catch_unwind()
            .await;
        outcome.unwrap_or_else(|panic| {
            let message = panic_message(panic.as_ref());
            tracing::error!(tool = name, message, "a tool panicked");
            let mut result = CallResult::failure(format!(
                "{name} crashed ({message}): this is a bug in it. Its effects are unknown; check them before you continue, or use another tool."
            ));
            result.had_effects = true;
            result
        })
    }
}

/// A failure as a stage holds it.
fn boxed_failure(text: impl Into<String>) -> Box<CallResult> {
    Box::new(CallResult::failure(text))
}

/// The result of a call that was stopped.
pub(crate) fn cancelled() -> CallResult {
    CallResult::failure("The call was stopped before it finished: the user interrupted.")
}

/// The words of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
