//! Hooks of other agents.

use crate::permissions;
use crate::plan::Plan;
use lathe_settings::Source;
use serde_json::{Map, Value, json};

/// Events that have one of ours, and get the same input.
const EVENTS: [(&str, &str); 8] = [
    ("BeforeTool", "PreToolUse"),
    ("AfterTool", "PostToolUse"),
    ("BeforeAgent", "UserPromptSubmit"),
    ("AfterAgent", "Stop"),
    ("SessionStart", "SessionStart"),
    ("SessionEnd", "SessionEnd"),
    ("Notification", "Notification"),
    ("PreCompress", "PreCompact"),
];

/// Hooks by event, each a list of groups with a matcher.
pub(crate) fn groups(plan: &mut Plan, source: Source, table: &Map<String, Value>) {
    for (event, groups) in table {
        // Switches of that table.
        if ["enabled", "disabled", "notifications"].contains(&event.as_str()) {
            continue;
        }
        let Some((_, ours)) = EVENTS.iter().find(|(theirs, _)| theirs == event) else {
            plan.left(format!("hooks.{event}"), "there is no such event");
            continue;
        };
        for group in groups.as_array().into_iter().flatten() {
            let commands: Vec<Value> = group["hooks"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(hook)
                .collect();
            if commands.is_empty() {
                plan.left(format!("hooks.{event}"), "it has no command");
                continue;
            }
            let mut entry = json!({"hooks": commands});
            if let Some(matcher) = group["matcher"].as_str().filter(|text| !text.is_empty()) {
                entry["matcher"] = Value::from(matcher_of(matcher));
            }
            let change = format!("hooks.{ours}; check that its command reads our input");
            plan.add(
                source,
                &format!("hooks.{event}"),
                &["hooks", ours],
                entry,
                change,
            );
        }
    }
}

fn hook(theirs: &Value) -> Option<Value> {
    let command = theirs["command"].as_str()?;
    let mut hook = json!({"type": "command", "command": command});
    // In milliseconds there.
    if let Some(limit) = theirs["timeout"].as_f64() {
        hook["timeout"] = json!((limit / 1000.0).max(1.0));
    }
    Some(hook)
}

/// A matcher over the names of tools: the names become ours, a pattern stays.
fn matcher_of(theirs: &str) -> String {
    let names: Vec<&str> = theirs
        .split('|')
        .map(|name| permissions::tool(name).unwrap_or(name))
        .collect();
    names.join("|")
}
