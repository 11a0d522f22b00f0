//! The host's first request: how the session is set up, and what we can do.

use super::host::Host;
use super::servers::{Manifest, Servers};
use lathe_engine::{EFFORTS, HOSTED_PROTOCOL, SessionHandle, SessionOptions};
use lathe_hooks::SourceHandle;
use lathe_protocol::control::{Initialize, PluginFolder, SystemPrompt};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::frame::{CAPABILITIES, COMPATIBILITY_VERSION};
use lathe_protocol::hook::HookEvent;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A time limit for calls below this is taken for a mistake and ignored.
const SHORTEST_CALL_MS: u64 = 1_000;

/// How the host sets the session up.
#[derive(Debug, Clone, Default)]
pub struct Setup(Initialize);

impl From<Initialize> for Setup {
    fn from(request: Initialize) -> Self {
        Self(request)
    }
}

impl Setup {
    /// Whether the text of sub-agents is shown.
    #[must_use]
    pub fn forwards_subagent_text(&self) -> bool {
        self.0.forward_subagent_text.unwrap_or(false)
    }

    /// Whether an interruption leaves background tasks alone.
    #[must_use]
    pub fn stops_tasks_itself(&self) -> bool {
        self.0.per_task_stop_affordance.unwrap_or(false)
    }

    /// Whether the host shows suggestions for the next prompt.
    #[must_use]
    pub fn wants_suggestions(&self) -> bool {
        self.0.prompt_suggestions.unwrap_or(false)
    }

    /// Whether the host shows what agents are doing.
    #[must_use]
    pub fn wants_agent_progress(&self) -> bool {
        self.0.agent_progress_summaries.unwrap_or(false)
    }

    /// The MCP servers that live in the host.
    pub fn mcp_servers(&self) -> impl Iterator<Item = &str> {
        self.0.sdk_mcp_servers.iter().flatten().map(String::as_str)
    }

    /// Keeps the host's own handshakes for the connections that are made next. Gives what became of each, if
    /// there were any.
    pub fn park_manifests(&self, servers: &Servers, is_open: bool) -> Option<Value> {
        let manifests = self.0.sdk_mcp_server_manifests.as_ref()?;
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

    /// The configuration of the host's MCP servers, by name.
    pub fn server_configs(&self) -> impl Iterator<Item = (&str, &Value)> {
        let configs = self.0.sdk_mcp_server_configs.as_ref();
        self.mcp_servers()
            .filter_map(move |name| Some((name, configs?.get(name)?)))
    }

    /// Applies the request to the options that the session is opened with.
    pub fn apply(&self, options: &mut SessionOptions) {
        if let Some(prompt) = &self.0.system_prompt {
            options.prompt.system = match prompt {
                SystemPrompt::Text(text) => Some(text.clone()),
                SystemPrompt::Parts(parts) => Some(parts.join("\n\n")),
                SystemPrompt::Other(_) => options.prompt.system.take(),
            };
        }
        if let Some(text) = &self.0.append_system_prompt {
            options.prompt.append = Some(text.clone());
        }
        if let Some(schema) = &self.0.json_schema {
            options.tools.output_schema = Some(schema.clone());
        }
        for plugin in self.0.plugins.iter().flatten() {
            let (path, skips_servers) = match plugin {
                PluginFolder::Path(path) => (path, false),
                PluginFolder::Entry(entry) => (&entry.path, entry.skip_mcp_discovery),
            };
            if skips_servers {
                options
                    .extensions
                    .plugins_without_servers
                    .push(path.clone());
            }
            options.extensions.plugin_folders.push(path.clone());
        }
        if let Some(agents) = &self.0.agents {
            options
                .extensions
                .agents
                .push(Value::Object(agents.clone()));
        }
        if let Some(skills) = &self.0.skills {
            options.extensions.skills = Some(skills.clone());
        }
        if let Some(words) = &self.0.plan_mode_instructions {
            options.prompt.plan_mode_instructions = Some(words.clone());
        }
        if let Some(policy) = &self.0.managed_settings {
            let policy = Value::Object(policy.clone()).to_string();
            options.settings.managed.push(policy);
        }
        self.apply_fields_of_flags(options);
        for (name, config) in self.server_configs() {
            if let Some(limit) = config.get("timeout").and_then(Value::as_u64)
                && limit >= SHORTEST_CALL_MS
            {
                let limit = Duration::from_millis(limit);
                options.mcp.hosted_timeouts.insert(name.to_owned(), limit);
            }
        }
        options.prompt.keep = self.0.system_prompt_snapshot.unwrap_or(false);
        options.prompt.varying_apart |= self.0.exclude_dynamic_sections.unwrap_or(false);
        if let Some(aliases) = &self.0.tool_aliases {
            options.tools.aliases.clone_from(aliases);
        }
    }

    /// Applies what may stand in flags as well, and is sent here to stay off the command line.
    fn apply_fields_of_flags(&self, options: &mut SessionOptions) {
        if let Some(servers) = &self.0.mcp_servers {
            let entries = servers.iter().map(|(name, entry)| {
                // An entry that is no object is reported like one without a command.
                let entry = Some(entry).filter(|entry| entry.is_object()).cloned();
                (name.clone(), entry.unwrap_or_else(|| json!({})))
            });
            let servers: Map<String, Value> = entries.collect();
            let config = json!({"mcpServers": servers}).to_string();
            options.mcp.configs.push(config);
        }
        if let Some(settings) = &self.0.settings {
            let settings = Value::Object(settings.clone()).to_string();
            options.settings.flags.push(settings);
        }
        let denied = self.0.disallowed_tools.iter().flatten().cloned();
        options.permissions.deny.extend(denied);
    }

    /// Tells in the answer whether the session started with the fields that this request has.
    pub fn answer_applied(&self, started: &Self, response: &mut Value) {
        let Some(fields) = response.as_object_mut() else {
            return;
        };
        let (sent, first) = (&self.0, &started.0);
        let mut answer = |field: &str, applied: Option<bool>| {
            if let Some(applied) = applied {
                fields.insert(field.to_owned(), applied.into());
            }
        };
        answer(
            "mcp_servers_applied",
            equal(&sent.mcp_servers, &first.mcp_servers),
        );
        answer("settings_applied", equal(&sent.settings, &first.settings));
        answer(
            "disallowed_tools_applied",
            equal(&sent.disallowed_tools, &first.disallowed_tools),
        );
    }

    /// Whether hook functions were sent.
    #[must_use]
    pub fn has_hooks(&self) -> bool {
        self.0.hooks.is_some()
    }

    /// Gives a session that is new the host's title.
    pub fn give_title(&self, session: &SessionHandle, is_new: bool) {
        if let Some(title) = self.0.title.as_ref().filter(|_| is_new) {
            session.history().rename(title);
        }
    }

    /// Registers the host's hook functions, if it names any. Gives them, and what is wrong with them.
    #[must_use]
    pub fn register(
        &self,
        session: &SessionHandle,
        host: &Host,
    ) -> Option<(Vec<SourceHandle>, Vec<Diagnostic>)> {
        let hooks = self.0.hooks.as_ref()?;
        session.hooks().set_callbacks(Arc::new(host.clone()));
        let (mut callbacks, mut problems) = (Vec::new(), Vec::new());
        for (event, matchers) in hooks {
            let Ok(event) = event.parse::<HookEvent>() else {
                let text = format!("unknown event {event}; its hooks never run");
                problems.push(Diagnostic::error(text).about("hooks"));
                continue;
            };
            for matcher in matchers {
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

    /// The answer to the request.
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
            (self.0.plugins.is_some(), "plugins_applied"),
            (
                self.0.managed_settings.is_some(),
                "managed_settings_applied",
            ),
        ] {
            if let (true, Some(fields)) = (sent, response.as_object_mut()) {
                fields.insert(answer.to_owned(), true.into());
            }
        }
        response
    }
}

/// Whether a field that was sent is as it was at the start.
fn equal<T: PartialEq>(sent: &Option<T>, started: &Option<T>) -> Option<bool> {
    sent.is_some().then(|| sent == started)
}

/// The commands, in the shape of the protocol.
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

/// The skills, in the shape of the protocol.
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

/// The agents, in the shape of the protocol.
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

/// The models, in the shape of the protocol.
#[must_use]
pub fn models(session: &SessionHandle) -> Value {
    let known = session.model().known().into_iter();
    known
        .map(|(value, name)| {
            let (id, adaptive) = session.model().id_and_thinking(&value);
            let mut shown = json!({
                "value": value, "displayName": name, "description": name,
                "resolvedModel": id, "supportsAutoMode": true,
            });
            if let Some(adaptive) = adaptive {
                shown["supportsAdaptiveThinking"] = adaptive.into();
                shown["supportsEffort"] = adaptive.into();
            }
            if adaptive == Some(true) {
                shown["supportedEffortLevels"] = json!(EFFORTS);
            }
            shown
        })
        .collect()
}
