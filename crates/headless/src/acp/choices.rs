//! The choices of a session that an editor shows: permission mode, model, effort, thinking.

use super::capabilities::ClientCapabilities;
use super::wire::RpcError;
use lathe_engine::{EFFORTS, SessionHandle, SwitchSource};
use lathe_protocol::permission::PermissionMode;
use serde_json::{Value, json};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// The value of an option that leaves the choice to the session.
const DEFAULT: &str = "default";

/// The choices of one session.
pub(super) struct Choices {
    client: ClientCapabilities,
    allow_bypass: bool,
    /// Whether the model may think. The engine keeps a budget; the editor shows a switch.
    thinking: AtomicBool,
}

impl Choices {
    pub(super) fn new(client: ClientCapabilities, allow_bypass: bool) -> Self {
        Self {
            client,
            allow_bypass,
            thinking: AtomicBool::new(true),
        }
    }

    /// The modes that can be chosen.
    fn offered_modes(&self, current: PermissionMode) -> impl Iterator<Item = PermissionMode> {
        let bypass = self.allow_bypass;
        PermissionMode::ALL.into_iter().filter(move |mode| {
            *mode == current
                || match mode {
                    PermissionMode::BypassPermissions => bypass,
                    // Every question would be refused, and an editor is there to answer.
                    PermissionMode::DontAsk => false,
                    _ => true,
                }
        })
    }

    /// The modes, for clients that know no options.
    pub(super) fn modes(&self, session: &SessionHandle) -> Value {
        let current = session.permissions().mode();
        let modes: Vec<Value> = self
            .offered_modes(current)
            .map(|mode| {
                let (name, description) = mode_words(mode);
                json!({"id": mode.name(), "name": name, "description": description})
            })
            .collect();
        json!({"currentModeId": current.name(), "availableModes": modes})
    }

    /// All options, most important first.
    pub(super) fn options(&self, session: &SessionHandle) -> Value {
        let mode = session.permissions().mode();
        let modes: Vec<Value> = self
            .offered_modes(mode)
            .map(|mode| {
                let (name, description) = mode_words(mode);
                json!({"value": mode.name(), "name": name, "description": description})
            })
            .collect();
        let mut options = vec![
            select("mode", "Permission mode", "mode", mode.name(), &modes),
            self.model(session),
        ];
        let effort = session.model().effort();
        let efforts = std::iter::once(DEFAULT).chain(EFFORTS);
        let efforts = efforts.map(|level| json!({"value": level, "name": level}));
        options.push(select(
            "effort",
            "Effort",
            "thought_level",
            effort.as_deref().unwrap_or(DEFAULT),
            &efforts.collect::<Vec<_>>(),
        ));
        let thinking = self.thinking.load(Ordering::Relaxed);
        options.push(if self.client.switches {
            json!({
                "id": "thinking", "name": "Thinking", "category": "model_config",
                "type": "boolean", "currentValue": thinking,
            })
        } else {
            let values = ["on", "off"].map(|value| json!({"value": value, "name": value}));
            let current = if thinking { "on" } else { "off" };
            select("thinking", "Thinking", "model_config", current, &values)
        });
        options.into()
    }

    fn model(&self, session: &SessionHandle) -> Value {
        let current = session.model().current();
        let mut models: Vec<Value> = Vec::new();
        let mut is_listed = false;
        for (name, title) in session.model().known() {
            is_listed |= name == current;
            models.push(json!({"value": name, "name": title, "description": name}));
        }
        if !is_listed {
            models.insert(0, json!({"value": current, "name": current}));
        }
        select("model", "Model", "model", &current, &models)
    }

    /// Changes an option.
    pub(super) async fn set(
        &self,
        session: &SessionHandle,
        option: &str,
        value: &Value,
    ) -> Result<(), RpcError> {
        let text = value.as_str().unwrap_or_default();
        match option {
            "mode" => set_mode(session, text),
            "model" if !text.is_empty() => {
                let set = session.model().switch(Some(text), SwitchSource::Sdk);
                set.await
                    .map(drop)
                    .map_err(|refused| RpcError::params(refused.to_string()))
            }
            "effort" => {
                let level = (text != DEFAULT).then_some(text);
                session
                    .model()
                    .set_effort(level)
                    .map_err(|error| RpcError::params(error.to_string()))
            }
            "thinking" => {
                let on = match (value, text) {
                    (Value::Bool(on), _) => *on,
                    (_, "on") => true,
                    (_, "off") => false,
                    _ => return Err(RpcError::params("thinking is on or off")),
                };
                self.thinking.store(on, Ordering::Relaxed);
                session.model().set_max_thinking_tokens((!on).then_some(0));
                Ok(())
            }
            other => Err(RpcError::params(format!(
                "there is no option {other:?} with the value {value}; options: mode, model, effort, thinking"
            ))),
        }
    }
}

/// Changes the permission mode.
pub(super) fn set_mode(session: &SessionHandle, mode: &str) -> Result<(), RpcError> {
    let mode =
        PermissionMode::from_str(mode).map_err(|error| RpcError::params(error.to_string()))?;
    session
        .permissions()
        .set_mode(mode)
        .map_err(|error| RpcError::params(error.to_string()))
}

fn select(id: &str, name: &str, category: &str, current: &str, options: &[Value]) -> Value {
    json!({
        "id": id, "name": name, "category": category, "type": "select",
        "currentValue": current, "options": options,
    })
}

fn mode_words(mode: PermissionMode) -> (&'static str, &'static str) {
    match mode {
        PermissionMode::Default => ("Ask", "Ask before edits and commands"),
        PermissionMode::AcceptEdits => {
            ("Accept edits", "Edit files in the workspace without asking")
        }
        PermissionMode::Plan => ("Plan", "Read and plan; change nothing"),
        PermissionMode::DontAsk => ("Don't ask", "Refuse calls that would need confirmation"),
        PermissionMode::BypassPermissions => {
            ("Bypass", "Ask only if a rule or a safety check requires it")
        }
        PermissionMode::Auto => ("Auto", "A classifier answers the questions"),
    }
}
