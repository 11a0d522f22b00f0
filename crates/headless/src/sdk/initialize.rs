//! The host's first request: how the session is set up, and what we can do.

use super::host::Host;
use lathe_engine::{SessionHandle, SessionOptions};
use lathe_protocol::frame::COMPATIBILITY_VERSION;
use lathe_protocol::hook::HookEvent;
use lathe_settings::schema::OnFailure;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What the host says at the start. Fields that this version has no use for are kept out of the way.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// The host's hook functions, by event.
    #[serde(default)]
    hooks: Option<Map<String, Value>>,
    /// Replaces the system prompt; `[""]` is none.
    #[serde(default)]
    system_prompt: Option<Value>,
    /// Added to the system prompt.
    #[serde(default)]
    append_system_prompt: Option<String>,
    /// Whether sub-agents' words are shown.
    #[serde(default)]
    pub forward_subagent_text: bool,
    /// A title for the session.
    #[serde(default)]
    title: Option<String>,
}

/// One group of hook functions.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookMatcher {
    #[serde(default)]
    matcher: Option<String>,
    #[serde(default)]
    hook_callback_ids: Vec<String>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    on_failure: Option<OnFailure>,
}

impl Initialize {
    /// Reads the request.
    ///
    /// # Errors
    /// When a field has the wrong type; the text names it.
    pub fn parse(request: &Value) -> Result<Self, String> {
        let initialize =
            Self::deserialize(request).map_err(|error| format!("initialize: {error}"))?;
        for (event, matchers) in initialize.hooks.iter().flatten() {
            Vec::<HookMatcher>::deserialize(matchers)
                .map_err(|error| format!("initialize: hooks.{event}: {error}"))?;
        }
        Ok(initialize)
    }

    /// What it changes about how the session is opened.
    pub fn apply(&self, options: &mut SessionOptions) {
        if let Some(prompt) = &self.system_prompt {
            options.system_prompt = match prompt {
                Value::String(text) => Some(text.clone()),
                Value::Array(parts) => {
                    let texts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
                    Some(texts.join("\n\n"))
                }
                _ => options.system_prompt.take(),
            };
        }
        if let Some(text) = &self.append_system_prompt {
            options.append_system_prompt = Some(text.clone());
        }
    }

    /// Registers the host's hook functions. Gives what is wrong with them.
    pub fn register_hooks(&self, session: &SessionHandle, host: &Host) -> Vec<String> {
        let Some(hooks) = &self.hooks else {
            return Vec::new();
        };
        session.set_callbacks(Arc::new(host.clone()));
        let mut problems = Vec::new();
        for (event, matchers) in hooks {
            let Ok(event) = event.parse::<HookEvent>() else {
                problems.push(format!(
                    "hooks: there is no event {event}; its hooks never run"
                ));
                continue;
            };
            for matcher in Vec::<HookMatcher>::deserialize(matchers).unwrap_or_default() {
                let (_, wrong) = session.hooks().add_callbacks(
                    event,
                    matcher.matcher.as_deref(),
                    &matcher.hook_callback_ids,
                    matcher.timeout,
                    matcher.on_failure,
                );
                problems.extend(wrong);
            }
        }
        if let Some(title) = &self.title {
            session.rename(title);
        }
        problems
    }

    /// What we answer.
    #[must_use]
    pub fn response(&self, session: &SessionHandle) -> Value {
        let models: Vec<Value> = session
            .models()
            .into_iter()
            .map(|(value, name)| json!({"value": value, "displayName": name, "description": name}))
            .collect();
        let mut response = json!({
            "commands": [], "agents": [], "models": models,
            "output_style": "default", "available_output_styles": ["default"],
            "account": {"apiKeySource": session.key_source(), "tokenSource": session.key_source(), "apiProvider": "anthropic"},
            "hook_on_failure_supported": true,
            "claude_code_version": COMPATIBILITY_VERSION,
            "lathe_version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "current_permission_mode": session.permission_mode(),
        });
        if self.hooks.is_some()
            && let Some(fields) = response.as_object_mut()
        {
            fields.insert("hooks_applied".to_owned(), true.into());
        }
        response
    }
}
