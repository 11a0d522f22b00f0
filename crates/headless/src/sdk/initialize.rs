//! The host's first request: how the session is set up, and what we can do.

use super::host::Host;
use super::servers::{Manifest, Servers};
use lathe_engine::{HOSTED_PROTOCOL, SessionHandle, SessionOptions};
use lathe_hooks::SourceHandle;
use lathe_protocol::frame::{CAPABILITIES, COMPATIBILITY_VERSION};
use lathe_protocol::hook::HookEvent;
use lathe_settings::schema::OnFailure;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A limit on calls below this is taken for a mistake and doesn't count.
const SHORTEST_CALL_MS: u64 = 1_000;

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
    /// The shape that the answer must have.
    #[serde(default)]
    json_schema: Option<Value>,
    /// MCP servers that live in the host.
    #[serde(default)]
    sdk_mcp_servers: Option<Vec<String>>,
    /// What the host says about them, by name: how long a call may take, which tools to ask about or to
    /// refuse. What isn't of that shape is passed over.
    #[serde(default)]
    sdk_mcp_server_configs: Option<Value>,
    /// What they answered to the host's own handshake, by name.
    #[serde(default)]
    sdk_mcp_server_manifests: Option<Value>,
    /// Whether the system prompt stays as it was first sent, also when the session is resumed.
    #[serde(default)]
    system_prompt_snapshot: Option<bool>,
    /// Whether the host shows what agents are doing.
    #[serde(default)]
    agent_progress_summaries: Option<bool>,
    /// Policy of the parent process, where it isn't an argument.
    #[serde(default)]
    managed_settings: Option<Map<String, Value>>,
    /// Whether sub-agents' words are shown.
    #[serde(default)]
    forward_subagent_text: Option<bool>,
    /// Whether the host stops background tasks one by one; else an interruption stops them all.
    #[serde(default)]
    per_task_stop_affordance: Option<bool>,
    /// A title for the session.
    #[serde(default)]
    title: Option<String>,
    /// Definitions of agents, by name.
    #[serde(default)]
    agents: Option<Map<String, Value>>,
    /// Whether what varies of the system prompt is told in the conversation.
    #[serde(default)]
    exclude_dynamic_sections: Option<bool>,
    /// Names under which the model may call tools.
    #[serde(default)]
    tool_aliases: Option<BTreeMap<String, String>>,
    /// Whether the host shows what the person may say next.
    #[serde(default)]
    prompt_suggestions: Option<bool>,
    /// The only skills that count.
    #[serde(default)]
    skills: Option<Vec<String>>,
    /// What planning is to look like, instead of our own words.
    #[serde(default)]
    plan_mode_instructions: Option<String>,
    /// Folders with plugins: paths, or objects with a `path`.
    #[serde(default)]
    plugins: Option<Vec<Value>>,
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

    /// Whether sub-agents' words are shown.
    #[must_use]
    pub fn forwards_subagent_text(&self) -> bool {
        self.forward_subagent_text.unwrap_or(false)
    }

    /// Whether an interruption leaves background tasks alone.
    #[must_use]
    pub fn stops_tasks_itself(&self) -> bool {
        self.per_task_stop_affordance.unwrap_or(false)
    }

    /// Whether the host shows what the person may say next.
    #[must_use]
    pub fn wants_suggestions(&self) -> bool {
        self.prompt_suggestions.unwrap_or(false)
    }

    /// Whether the host shows what agents are doing.
    #[must_use]
    pub fn wants_agent_progress(&self) -> bool {
        self.agent_progress_summaries.unwrap_or(false)
    }

    /// The MCP servers that live in the host.
    pub fn mcp_servers(&self) -> impl Iterator<Item = &str> {
        self.sdk_mcp_servers.iter().flatten().map(String::as_str)
    }

    /// Keeps the host's own handshakes for the connections that are made next. Gives what became of each, if
    /// there were any.
    pub fn park_manifests(&self, servers: &Servers, is_open: bool) -> Option<Value> {
        let manifests = self.sdk_mcp_server_manifests.as_ref()?;
        let names: Vec<&str> = self.mcp_servers().collect();
        if names.is_empty() {
            return None;
        }
        let mut report = Map::new();
        for name in names {
            let entry = manifests.get(name);
            if entry.is_none() && manifests.is_object() {
                continue;
            }
            let fate = match entry.map(Manifest::read) {
                None | Some(None) => "malformed",
                Some(Some(_)) if is_open => "already_connected",
                Some(Some(manifest)) if manifest.version() != HOSTED_PROTOCOL => {
                    "protocol_version_mismatch"
                }
                Some(Some(manifest)) => {
                    servers.park(name, manifest);
                    "parked"
                }
            };
            report.insert(name.to_owned(), fate.into());
        }
        Some(Value::Object(report))
    }

    /// What the host says about its MCP servers, by name.
    pub fn server_configs(&self) -> impl Iterator<Item = (&str, &Value)> {
        let configs = self.sdk_mcp_server_configs.as_ref();
        self.mcp_servers()
            .filter_map(move |name| Some((name, configs?.get(name)?)))
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
        if let Some(schema) = &self.json_schema {
            options.json_schema = Some(schema.clone());
        }
        for plugin in self.plugins.iter().flatten() {
            let path = plugin.as_str().or_else(|| plugin.get("path")?.as_str());
            let path = path.map(PathBuf::from);
            if plugin.get("skipMcpDiscovery") == Some(&Value::Bool(true)) {
                options.plugins_without_servers.extend(path.clone());
            }
            options.plugin_folders.extend(path);
        }
        if let Some(agents) = &self.agents {
            options.agents.push(Value::Object(agents.clone()));
        }
        if let Some(skills) = &self.skills {
            options.skills = Some(skills.clone());
        }
        if let Some(words) = &self.plan_mode_instructions {
            options.plan_mode_instructions = Some(words.clone());
        }
        if let Some(policy) = &self.managed_settings {
            let policy = Value::Object(policy.clone()).to_string();
            options.managed_settings.push(policy);
        }
        for (name, config) in self.server_configs() {
            if let Some(limit) = config.get("timeout").and_then(Value::as_u64)
                && limit >= SHORTEST_CALL_MS
            {
                let limit = Duration::from_millis(limit);
                options.mcp.hosted_timeouts.insert(name.to_owned(), limit);
            }
        }
        options.keep_system_prompt = self.system_prompt_snapshot.unwrap_or(false);
        options.varying_apart |= self.exclude_dynamic_sections.unwrap_or(false);
        if let Some(aliases) = &self.tool_aliases {
            options.tool_aliases.clone_from(aliases);
        }
    }

    /// Whether hook functions were sent.
    #[must_use]
    pub fn has_hooks(&self) -> bool {
        self.hooks.is_some()
    }

    /// Gives a session that is new the host's title.
    pub fn give_title(&self, session: &SessionHandle, is_new: bool) {
        if let Some(title) = self.title.as_ref().filter(|_| is_new) {
            session.history().rename(title);
        }
    }

    /// Registers the host's hook functions, if it names any. Gives them, and what is wrong with them.
    #[must_use]
    pub fn register(
        &self,
        session: &SessionHandle,
        host: &Host,
    ) -> Option<(Vec<SourceHandle>, Vec<String>)> {
        let hooks = self.hooks.as_ref()?;
        session.hooks().set_callbacks(Arc::new(host.clone()));
        let (mut callbacks, mut problems) = (Vec::new(), Vec::new());
        for (event, matchers) in hooks {
            let Ok(event) = event.parse::<HookEvent>() else {
                problems.push(format!(
                    "hooks: there is no event {event}; its hooks never run"
                ));
                continue;
            };
            for matcher in Vec::<HookMatcher>::deserialize(matchers).unwrap_or_default() {
                let (callback, wrong) = session.hooks().add_callbacks(
                    event,
                    matcher.matcher.as_deref(),
                    &matcher.hook_callback_ids,
                    matcher.timeout,
                    matcher.on_failure,
                );
                callbacks.push(callback);
                problems.extend(wrong);
            }
        }
        Some((callbacks, problems))
    }

    /// What we answer.
    #[must_use]
    pub fn response(&self, session: &SessionHandle) -> Value {
        let (styles, style) = session.extensions().output_styles();
        let mut response = json!({
            "commands": commands(session), "agents": agents(session), "models": models(session),
            "output_style": style, "available_output_styles": styles.names(),
            "account": {"apiKeySource": session.settings().key_source(), "tokenSource": session.settings().key_source(), "apiProvider": "anthropic"},
            "hook_on_failure_supported": true,
            "claude_code_version": COMPATIBILITY_VERSION, "capabilities": CAPABILITIES,
            "lathe_version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "current_permission_mode": session.permissions().mode(),
        });
        for (sent, answer) in [
            (self.has_hooks(), "hooks_applied"),
            (self.plugins.is_some(), "plugins_applied"),
            (self.managed_settings.is_some(), "managed_settings_applied"),
        ] {
            if let (true, Some(fields)) = (sent, response.as_object_mut()) {
                fields.insert(answer.to_owned(), true.into());
            }
        }
        response
    }
}

/// The commands, as hosts are told of them.
#[must_use]
pub fn commands(session: &SessionHandle) -> Value {
    session
        .extensions()
        .commands()
        .listed()
        .filter(|command| command.headless)
        .map(|command| {
            let hint = command.argument_hint.as_deref().unwrap_or_default();
            let mut shown = json!({
                "name": command.name, "description": command.description, "argumentHint": hint,
            });
            if !command.aliases.is_empty()
                && let Some(fields) = shown.as_object_mut()
            {
                fields.insert("aliases".to_owned(), json!(command.aliases));
            }
            shown
        })
        .collect()
}

/// The skills, as hosts are told of them.
#[must_use]
pub fn skills(session: &SessionHandle) -> Vec<Value> {
    let names = session.init().skills;
    let catalog = session.extensions().skills();
    names
        .iter()
        .filter_map(|name| catalog.get(name))
        .map(|skill| {
            let hint = skill.argument_hint.as_deref().unwrap_or_default();
            json!({"name": skill.name, "description": skill.description, "argumentHint": hint})
        })
        .collect()
}

/// The agents, as hosts are told of them.
#[must_use]
pub fn agents(session: &SessionHandle) -> Value {
    session
        .extensions()
        .agents()
        .iter()
        .map(|agent| {
            let mut shown = json!({"name": agent.name, "description": agent.description});
            if let (Some(model), Some(fields)) = (&agent.model, shown.as_object_mut()) {
                fields.insert("model".to_owned(), model.as_str().into());
            }
            shown
        })
        .collect()
}

/// The models, as hosts are told of them.
#[must_use]
pub fn models(session: &SessionHandle) -> Value {
    session
        .model()
        .known()
        .into_iter()
        .map(|(value, name)| json!({"value": value, "displayName": name, "description": name}))
        .collect()
}
