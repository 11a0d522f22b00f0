//! Whether a folder's own settings take effect.
//!
//! A folder that was cloned a minute ago must not be able to run anything. Until the user trusts it,
//! only keys that can't do harm are taken from its settings ([`withhold`]); the list of those is
//! short and closed, so a key that is added later is withheld until someone says otherwise. The
//! answer is remembered per folder in [`crate::trust_store`].

use crate::environment;
use crate::source::Source;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;

/// How far the folder's own settings take effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// The user trusts the folder: everything takes effect.
    Trusted,
    /// Nobody has decided yet: only harmless keys take effect.
    #[default]
    Untrusted,
    /// There is no user to ask: what the caller's flags name takes effect, the rest only where harmless.
    Headless {
        /// The sources that `--setting-sources` names.
        named: Vec<Source>,
    },
}

impl Trust {
    /// Whether everything in this source takes effect.
    #[must_use]
    pub fn covers(&self, source: Source) -> bool {
        !source.comes_with_the_folder()
            || match self {
                Self::Trusted => true,
                Self::Untrusted => false,
                Self::Headless { named } => named.contains(&source),
            }
    }

    /// Whether things in the folder beside its settings take effect: `.mcp.json`, skills, agents, plugins.
    #[must_use]
    pub fn covers_folder(&self) -> bool {
        self.covers(Source::Project)
    }
}

/// The kind of a [`Bring`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BringKind {
    /// A hook.
    Hook,
    /// An MCP server, or its approval.
    McpServer,
    /// A language server.
    LanguageServer,
    /// A command that watches something beside the session.
    Monitor,
    /// An environment variable.
    Environment,
    /// A rule, folder or mode that lets more pass.
    Permission,
    /// A command that Lathe itself runs.
    Helper,
    /// A plugin or a marketplace.
    Plugin,
    /// A hole in the sandbox.
    Sandbox,
    /// A place to which data would be sent.
    Service,
    /// Skills, commands, agents, output styles.
    Extension,
    /// Anything else that is not harmless.
    Other,
}

impl BringKind {
    /// The kind in words, for a heading.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Hook => "hooks",
            Self::McpServer => "MCP servers",
            Self::LanguageServer => "language servers",
            Self::Monitor => "monitors",
            Self::Environment => "environment variables",
            Self::Permission => "permissions",
            Self::Helper => "helper commands",
            Self::Plugin => "plugins",
            Self::Sandbox => "sandbox exceptions",
            Self::Service => "services",
            Self::Extension => "extensions",
            Self::Other => "other settings",
        }
    }
}

/// Something in a folder that takes effect only when the folder is trusted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bring {
    /// Its kind.
    pub kind: BringKind,
    /// The key, such as `hooks.PreToolUse`, or the file.
    pub key: String,
    /// Its text, shortened: the command, the rule, the name.
    pub what: String,
}

impl fmt::Display for Bring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.what.is_empty() {
            f.write_str(&self.key)
        } else {
            write!(f, "{}: {}", self.key, self.what)
        }
    }
}

/// Top-level keys that can do no harm: they restrict, or they choose how things look and sound. A
/// list that restricts by naming what is allowed is not among them, since it would replace a
/// narrower one of the user's. Neither is the choice of a model, which is also one of the provider that gets the
/// conversation.
const HARMLESS: &[&str] = &[
    "$schema",
    "effort",
    "thinking",
    "maxThinkingTokens",
    "respectGitignore",
    "outputStyle",
    "includeCoAuthoredBy",
    "attribution",
    "disabledMcpjsonServers",
    "deniedMcpServers",
    "language",
    "theme",
    "editorMode",
    "autoCompact",
    "notifications",
    "verbose",
    "spinnerTipsEnabled",
    "promptSuggestions",
    "awaySummary",
    "promptCache",
    "autoCompactWindow",
    "includeGitInstructions",
    "showThinkingSummaries",
    "prefersReducedMotion",
    "terminalProgressBarEnabled",
    "vimInsertModeRemaps",
];

/// The part of an untrusted folder's settings that takes effect, and the rest.
#[must_use]
pub fn withhold(value: &Value) -> (Value, Vec<Bring>) {
    let mut kept = Map::new();
    let mut held = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        // `null` takes away what the user's own settings say.
        let Some(value) = &without_nulls(value) else {
            continue;
        };
        if HARMLESS.contains(&key.as_str()) {
            kept.insert(key.clone(), value.clone());
            continue;
        }
        let rest = match key.as_str() {
            "permissions" => split(value, key, &mut held, harmless_permission),
            "sandbox" => split(value, key, &mut held, harmless_sandbox),
            "env" => split(value, key, &mut held, |name, value| {
                value
                    .as_str()
                    .is_none_or(|value| environment::is_harmless(name, value))
                    && environment::is_harmless(name, "")
            }),
            "enabledPlugins" => split(value, key, &mut held, |_, on| on == &Value::Bool(false)),
            _ => {
                hold(key, value, &mut held);
                None
            }
        };
        if let Some(rest) = rest {
            kept.insert(key.clone(), rest);
        }
    }
    (Value::Object(kept), held)
}

fn without_nulls(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(map) => Some(Value::Object(
            map.iter()
                .filter_map(|(name, value)| Some((name.clone(), without_nulls(value)?)))
                .collect(),
        )),
        other => Some(other.clone()),
    }
}

fn harmless_permission(key: &str, value: &Value) -> bool {
    match key {
        "ask"
        | "deny"
        | "disableBypassPermissionsMode"
        | "disableAutoMode"
        | "blockReadsOutsideWorkingDirectories"
        | "blockWritesOutsideWorkingDirectories" => true,
        "defaultMode" => matches!(value.as_str(), Some("default" | "plan" | "dontAsk")),
        _ => false,
    }
}

fn harmless_sandbox(key: &str, value: &Value) -> bool {
    match key {
        "enabled" | "failIfUnavailable" | "hooks" => value == &Value::Bool(true),
        "autoAllowBashIfSandboxed" | "allowUnsandboxedCommands" => value == &Value::Bool(false),
        "scrubEnvironment" => true,
        "filesystem" => only(value, &["denyWrite", "denyRead"]),
        "network" => only(value, &["deniedDomains"]),
        "credentials" => only(value, &["env", "files"]),
        _ => false,
    }
}

fn only(value: &Value, keys: &[&str]) -> bool {
    value
        .as_object()
        .is_some_and(|map| map.keys().all(|key| keys.contains(&key.as_str())))
}

fn split(
    value: &Value,
    key: &str,
    held: &mut Vec<Bring>,
    harmless: impl Fn(&str, &Value) -> bool,
) -> Option<Value> {
    let mut kept = Map::new();
    for (name, value) in value.as_object()? {
        if harmless(name, value) {
            kept.insert(name.clone(), value.clone());
            continue;
        }
        hold(&format!("{key}.{name}"), value, held);
        // A mixed object keeps its denials: losing those would widen what the folder can reach.
        if let Some(map) = value.as_object().filter(|_| key == "sandbox") {
            let denials: Map<String, Value> = map
                .iter()
                .filter(|(name, _)| name.starts_with("den"))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if !denials.is_empty() {
                kept.insert(name.clone(), Value::Object(denials));
            }
        }
    }
    Some(Value::Object(kept))
}

fn hold(key: &str, value: &Value, held: &mut Vec<Bring>) {
    let top = key.split('.').next().unwrap_or(key);
    let mut add = |kind, key: String, what: String| {
        held.push(Bring {
            kind,
            key,
            what: short(&what),
        });
    };
    match (top, value) {
        ("hooks", Value::Object(events)) => {
            for (event, groups) in events {
                let before_event = format!("hooks.{event}");
                for hook in groups
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|group| group.get("hooks")?.as_array())
                    .flatten()
                {
                    let what = ["command", "url", "prompt", "tool"]
                        .iter()
                        .find_map(|key| hook.get(*key)?.as_str())
                        .unwrap_or_default();
                    add(BringKind::Hook, before_event.clone(), what.to_owned());
                }
            }
        }
        ("mcpServers" | "lspServers", Value::Object(servers)) => {
            let kind = if top == "mcpServers" {
                BringKind::McpServer
            } else {
                BringKind::LanguageServer
            };
            for (name, server) in servers {
                let what = server
                    .get("command")
                    .or_else(|| server.get("url"))
                    .and_then(Value::as_str);
                add(
                    kind,
                    format!("{top}.{name}"),
                    what.unwrap_or_default().to_owned(),
                );
            }
        }
        ("enableAllProjectMcpServers" | "enabledMcpjsonServers", _) => {
            add(BringKind::McpServer, key.to_owned(), plain(value));
        }
        ("permissions" | "autoMode", Value::Array(rules)) => {
            for rule in rules {
                add(BringKind::Permission, key.to_owned(), plain(rule));
            }
        }
        ("permissions" | "autoMode", _) => add(BringKind::Permission, key.to_owned(), plain(value)),
        ("sandbox", _) => add(BringKind::Sandbox, key.to_owned(), plain(value)),
        // The value may be a secret, so only the name is shown.
        ("env", _) => add(BringKind::Environment, key.to_owned(), String::new()),
        (
            "apiKeyHelper"
            | "awsAuthRefresh"
            | "awsCredentialExport"
            | "statusLine"
            | "fileSuggestion",
            _,
        ) => {
            let command = value.get("command").unwrap_or(value);
            add(BringKind::Helper, key.to_owned(), plain(command));
        }
        ("enabledPlugins", _) => add(BringKind::Plugin, key.to_owned(), String::new()),
        ("extraKnownMarketplaces", Value::Object(markets)) => {
            for name in markets.keys() {
                add(BringKind::Plugin, format!("{key}.{name}"), String::new());
            }
        }
        ("providers", Value::Object(providers)) => {
            for (name, provider) in providers {
                let what = provider
                    .get("baseUrl")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                add(
                    BringKind::Service,
                    format!("providers.{name}"),
                    what.to_owned(),
                );
            }
        }
        ("webSearch", _) => add(BringKind::Service, key.to_owned(), String::new()),
        ("model" | "fallbackModel" | "planModel" | "smallModel", _) => {
            add(BringKind::Service, key.to_owned(), plain(value));
        }
        _ => add(BringKind::Other, key.to_owned(), plain(value)),
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// One line of at most 100 characters: what is shown comes from the folder and may be anything.
fn short(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .take(101)
        .collect();
    if line.chars().count() > 100 {
        line.chars().take(99).chain(['…']).collect()
    } else {
        line
    }
}
