//! Policies of a host for the tools of its MCP servers: which are always asked about, which are refused.
//!
//! A policy is a rule of the session that stands above what else allows the tool. It comes with the first
//! request, for servers inside the host, or with each setting of the servers (`mcp_set_servers`), which
//! replaces all that was said before.

use lathe_engine::SessionHandle;
use lathe_protocol::control::ServerMode;
use lathe_protocol::permission::{
    Behavior, PermissionMode, PermissionUpdate, RuleSource, RuleValue,
};
use lathe_tools::mcp_tool::tool_name;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the rules are kept: with those that a host gives at the start, where no answer of the user
/// replaces them.
const KEPT: RuleSource = RuleSource::CliArg;

/// A rule and what it does.
type Policy = (RuleValue, Behavior);

/// The servers as the host last set them, and what it says about their tools. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Policies {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rules: Vec<Policy>,
    /// The servers, if the host set them after the start.
    servers: Option<Map<String, Value>>,
    /// Servers that have a mode of their own.
    modes: BTreeMap<String, ServerMode>,
    /// The rules that ask because of those modes now.
    asked: Vec<RuleValue>,
}

impl Policies {
    /// Adds what the first request says about servers inside the host. Nothing that was said before is
    /// taken back by it.
    pub(super) fn add<'a>(&self, servers: impl Iterator<Item = (&'a str, &'a Value)>) {
        let rules = servers.flat_map(|(name, config)| policies(name, config, true));
        let mut state = self.state.lock();
        for rule in rules {
            if !state.rules.contains(&rule) {
                state.rules.push(rule);
            }
        }
    }

    /// Replaces everything by what a setting of the servers says, here and in a session.
    pub(super) fn set(&self, session: &SessionHandle, servers: &Map<String, Value>) {
        let rules = servers
            .iter()
            .flat_map(|(name, config)| policies(name, config, is_hosted(config)))
            .collect();
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.rules, rules);
        for (rule, behavior) in before {
            let gone = PermissionUpdate::RemoveRules {
                rules: vec![rule],
                behavior,
                destination: KEPT,
            };
            report(session.permissions().apply(&gone));
        }
        give(session, &state.rules);
        state.servers = Some(servers.clone());
    }

    /// Tells a session the rules.
    pub(super) fn apply(&self, session: &SessionHandle) {
        {
            let mut state = self.state.lock();
            give(session, &state.rules);
            // It may be another session than the one that was told before.
            state.asked.clear();
        }
        self.follow_mode(session);
    }

    /// Gives a server a mode of its own, or takes it back. It only narrows: it takes effect where the
    /// session's mode lets calls pass.
    pub(super) fn override_mode(
        &self,
        session: &SessionHandle,
        server: &str,
        mode: Option<ServerMode>,
    ) -> Value {
        {
            let modes = &mut self.state.lock().modes;
            match mode {
                Some(mode) => modes.insert(server.to_owned(), mode),
                None => modes.remove(server),
            };
        }
        self.follow_mode(session);
        let known = session.mcp().frames();
        if known.iter().any(|frame| frame["name"] == server) {
            return json!({});
        }
        json!({"warning": format!("no MCP server is called {server}; it takes effect once there is one")})
    }

    /// Puts the modes of servers beside that of the session.
    pub(super) fn follow_mode(&self, session: &SessionHandle) {
        let mut state = self.state.lock();
        let passes = match session.permissions().mode() {
            // Where everything passes, a classifier would be one that isn't asked: the user is.
            PermissionMode::BypassPermissions => Some(false),
            PermissionMode::Auto => Some(true),
            _ => None,
        };
        let asks =
            |mode| passes.is_some_and(|classified| mode == ServerMode::Default || !classified);
        let wanted: Vec<RuleValue> = state
            .modes
            .iter()
            .filter(|(_, mode)| asks(**mode))
            .map(|(server, _)| all_of(server))
            .collect();
        if wanted == state.asked {
            return;
        }
        let before = std::mem::replace(&mut state.asked, wanted.clone());
        for update in [
            PermissionUpdate::RemoveRules {
                rules: before,
                behavior: Behavior::Ask,
                destination: KEPT,
            },
            PermissionUpdate::AddRules {
                rules: wanted,
                behavior: Behavior::Ask,
                destination: KEPT,
            },
        ] {
            report(session.permissions().apply(&update));
        }
    }

    /// The servers, if the host set them after the start.
    pub(super) fn servers(&self) -> Option<Map<String, Value>> {
        self.state.lock().servers.clone()
    }
}

fn give(session: &SessionHandle, rules: &[Policy]) {
    for (rule, behavior) in rules {
        let added = PermissionUpdate::AddRules {
            rules: vec![rule.clone()],
            behavior: *behavior,
            destination: KEPT,
        };
        report(session.permissions().apply(&added));
    }
}

/// A rule that names a tool of a server is always one.
fn report(outcome: Result<(), impl std::fmt::Display>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "a policy of the host has no effect");
    }
}

/// A rule for all tools of a server.
fn all_of(server: &str) -> RuleValue {
    RuleValue {
        tool_name: format!("{}*", tool_name(server, "")),
        rule_content: None,
    }
}

fn is_hosted(config: &Value) -> bool {
    config.get("type").and_then(Value::as_str) == Some("sdk")
}

/// The rules of one server. Malformed entries are ignored; an unknown policy asks.
fn policies(server: &str, config: &Value, hosted: bool) -> Vec<Policy> {
    let entries = config.get("tools").and_then(Value::as_array);
    let policy = |entry: &Value| {
        let tool = entry.get("name")?.as_str()?;
        let word = |name: &str| entry.get(name).filter(|it| !it.is_null());
        let wanted = word("permission_policy").map(|word| match word.as_str() {
            Some("always_allow") => Behavior::Allow,
            Some("always_deny") => Behavior::Deny,
            _ => Behavior::Ask,
        });
        // The most that an organisation lets a tool have; it isn't said of servers inside the host.
        let limit = word("org_max_permission").filter(|_| !hosted);
        let limit = limit.map(|word| match word.as_str() {
            Some("allow") => Behavior::Allow,
            Some("blocked") => Behavior::Deny,
            _ => Behavior::Ask,
        });
        let behavior = match (wanted, limit) {
            (Some(Behavior::Deny), _) | (_, Some(Behavior::Deny)) => Behavior::Deny,
            (Some(Behavior::Ask), _) | (_, Some(Behavior::Ask)) => Behavior::Ask,
            // A server inside the host is allowed by rules and answers, not by itself.
            (Some(Behavior::Allow), _) if !hosted => Behavior::Allow,
            (None, None) if hosted => Behavior::Ask,
            _ => return None,
        };
        let rule = RuleValue {
            tool_name: tool_name(server, tool),
            rule_content: None,
        };
        Some((rule, behavior))
    };
    entries.into_iter().flatten().filter_map(policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &Value) -> Vec<(String, Behavior)> {
        let rules = policies("tower", config, is_hosted(config));
        rules
            .into_iter()
            .map(|(rule, behavior)| (rule.tool_name, behavior))
            .collect()
    }

    #[test]
    fn a_policy_is_a_rule_and_what_is_no_policy_is_none() {
        let tools = json!([
            {"name": "allow", "permission_policy": "always_allow"},
            {"name": "ask", "permission_policy": "always_ask"},
            {"name": "deny", "permission_policy": "always_deny"},
            {"name": "odd", "permission_policy": "sometimes"},
            {"name": "capped", "permission_policy": "always_allow", "org_max_permission": "ask"},
            {"name": "blocked", "org_max_permission": "blocked"},
            {"permission_policy": "always_deny"},
            "deny",
        ]);
        let named = |name: &str, behavior| (format!("mcp__tower__{name}"), behavior);
        let remote = read(&json!({"type": "http", "url": "https://h", "tools": tools}));
        assert_eq!(
            remote,
            [
                named("allow", Behavior::Allow),
                named("ask", Behavior::Ask),
                named("deny", Behavior::Deny),
                named("odd", Behavior::Ask),
                named("capped", Behavior::Ask),
                named("blocked", Behavior::Deny),
            ]
        );
        let hosted = read(&json!({"type": "sdk", "name": "tower", "tools": tools}));
        assert_eq!(
            hosted,
            [
                named("ask", Behavior::Ask),
                named("deny", Behavior::Deny),
                named("odd", Behavior::Ask),
                named("blocked", Behavior::Ask),
            ]
        );
        assert!(read(&json!({"type": "sdk", "tools": "all"})).is_empty());
        assert!(read(&json!({"type": "sdk"})).is_empty());
    }
}
