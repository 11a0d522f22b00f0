//! The permission rules and hooks in effect, and the policy above them, in the shape of the protocol.

use lathe_engine::SessionHandle;
use lathe_hooks::HookSource;
use lathe_protocol::hook::HookEvent;
use lathe_protocol::permission::{Behavior, RuleSource};
use serde_json::{Map, Value, json};

/// Whether a policy switches something on.
fn policy_says(session: &SessionHandle, key: &str) -> bool {
    session.settings().layers().iter().any(|layer| {
        layer.get("source").and_then(Value::as_str) == Some("policySettings")
            && layer.pointer(&format!("/settings/{key}")) == Some(&Value::Bool(true))
    })
}

/// The permission rules, also those that a policy keeps from counting.
pub(super) fn permission_rules(session: &SessionHandle) -> Value {
    let managed_only = policy_says(session, "allowManagedPermissionRulesOnly");
    let mut rules: Vec<Value> = session
        .permissions()
        .rules()
        .into_iter()
        .map(|(behavior, rule, source)| {
            json!({
                "rule": rule, "behavior": behavior, "source": source,
                "editability": editability(source),
            })
        })
        .collect();
    if managed_only {
        rules.extend(ignored_rules(&session.settings().layers()));
    }
    let cwd = session.context().working_folder();
    let folders: Vec<Value> = session
        .permissions()
        .roots()
        .iter()
        .map(|path| json!({"path": path, "source": "session"}))
        .collect();
    json!({"state": {
        "rules": rules, "workspaceDirectories": folders, "originalCwd": cwd,
        "managedOnly": managed_only,
    }})
}

fn editability(source: RuleSource) -> &'static str {
    match source {
        RuleSource::UserSettings | RuleSource::ProjectSettings | RuleSource::LocalSettings => {
            "persistent"
        }
        RuleSource::CliArg | RuleSource::Session => "session",
        RuleSource::PolicySettings | RuleSource::FlagSettings | RuleSource::Command => "readonly",
    }
}

/// The rules of settings files that a policy switches off.
fn ignored_rules(layers: &[Value]) -> Vec<Value> {
    let mut ignored = Vec::new();
    for layer in layers {
        let source = layer.get("source").cloned().unwrap_or_default();
        if source == "policySettings" {
            continue;
        }
        for behavior in [Behavior::Allow, Behavior::Deny, Behavior::Ask] {
            let list = serde_json::to_value(behavior).unwrap_or_default();
            let path = format!(
                "/settings/permissions/{}",
                list.as_str().unwrap_or_default()
            );
            let texts = layer.pointer(&path).and_then(Value::as_array);
            for rule in texts.into_iter().flatten() {
                ignored.push(json!({
                    "rule": rule, "behavior": behavior, "source": source,
                    "editability": "readonly", "notInEffect": true,
                }));
            }
        }
    }
    ignored
}

/// The hooks, the events that they may stand at, and the policy above them.
pub(super) fn hooks(session: &SessionHandle) -> Value {
    let managed_only = policy_says(session, "allowManagedHooksOnly");
    let listed = session.hooks().list();
    let is_policy = |source: &HookSource| {
        matches!(
            source,
            HookSource::Settings(lathe_settings::Source::Managed)
        )
    };
    let mut rows: Vec<Value> = Vec::new();
    for hook in &listed {
        let mut row = json!({
            "event": hook.event.name(), "matcher": hook.matcher.as_deref().unwrap_or_default(),
            "source": source_name(&hook.source), "sourceLabel": hook.source.to_string(),
            "type": serde_json::to_value(hook.kind).unwrap_or_default(),
            "displayText": hook.hook, "commandText": hook.hook,
            "contentLabel": content_label(&serde_json::to_value(hook.kind).unwrap_or_default()),
            "timeout": hook.timeout,
        });
        if let Some(fields) = row.as_object_mut() {
            add_facts(fields, hook);
        }
        rows.push(row);
    }
    let events: Vec<Value> = HookEvent::ALL
        .iter()
        .map(|event| {
            (
                event,
                listed.iter().filter(|hook| hook.event == *event).count(),
            )
        })
        .filter(|(_, count)| *count > 0)
        .map(|(event, count)| {
            let mut row = catalog_row(*event);
            if let Some(fields) = row.as_object_mut() {
                fields.insert("hookCount".to_owned(), count.into());
            }
            row
        })
        .collect();
    let catalog: Vec<Value> = HookEvent::ALL
        .iter()
        .map(|event| catalog_row(*event))
        .collect();
    let all_disabled = session.settings().json().get("disableAllHooks") == Some(&Value::Bool(true));
    json!({
        "events": events, "hooks": rows, "eventCatalog": catalog,
        "policy": {
            "disabledByPolicy": policy_says(session, "disableAllHooks"),
            "managedOnly": managed_only, "pluginOnly": false, "allDisabled": all_disabled,
            "policyHookCount": listed.iter().filter(|hook| is_policy(&hook.source)).count(),
        },
    })
}

fn add_facts(fields: &mut Map<String, Value>, hook: &lathe_hooks::HookListing) {
    if let Some(condition) = &hook.condition {
        fields.insert("condition".to_owned(), condition.as_str().into());
    }
    if let HookSource::Plugin(name) = &hook.source {
        fields.insert("pluginName".to_owned(), name.as_str().into());
    }
    if hook.off.is_some() {
        fields.insert("disabled".to_owned(), true.into());
    }
}

fn catalog_row(event: HookEvent) -> Value {
    json!({
        "name": event.name(), "summary": event.description(),
        "supportsMatcher": event.matched_field().is_some(),
    })
}

fn source_name(source: &HookSource) -> Value {
    match source {
        HookSource::Settings(source) => {
            serde_json::to_value(RuleSource::from(*source)).unwrap_or_default()
        }
        HookSource::Plugin(_) => "pluginHook".into(),
        HookSource::Skill(_) => "skillHook".into(),
        HookSource::Agent(_) => "agentHook".into(),
        HookSource::Session => "sessionHook".into(),
        HookSource::Host => "hostHook".into(),
    }
}

fn content_label(kind: &Value) -> &'static str {
    match kind.as_str() {
        Some("prompt" | "agent") => "Prompt",
        Some("http") => "URL",
        Some("mcp_tool") => "Tool",
        Some("callback") => "Function",
        _ => "Command",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_a_policy_switches_off_are_listed_as_such() {
        let layers = [
            json!({"source": "userSettings", "settings": {"permissions": {"allow": ["Read"], "deny": ["Bash"]}}}),
            json!({"source": "policySettings", "settings": {"permissions": {"allow": ["Edit"]}}}),
        ];
        let ignored = ignored_rules(&layers);
        assert_eq!(ignored.len(), 2);
        assert_eq!(ignored[1]["rule"], "Bash");
        assert_eq!(ignored[1]["behavior"], "deny");
        assert_eq!(ignored[1]["notInEffect"], true);
    }
}
