//! The `if` of hooks, judged as a permission rule.

use lathe_hooks::run::{Condition, ConditionMatch};
use lathe_permissions::condition::{RuleMatch, rule_match};
use lathe_permissions::{CallFacts, PermissionContext};
use lathe_protocol::hook::HookInput;
use lathe_protocol::permission::Subject;
use lathe_tools::ToolContext;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Tools that write the file that their input names.
const WRITERS: &[&str] = &["Edit", "MultiEdit", "Write", "NotebookEdit"];

/// Judges conditions about the call of an event; `None` for events without a call.
pub(super) fn condition(
    input: &HookInput,
    tools: &Arc<ToolContext>,
    permissions: Arc<PermissionContext>,
) -> Option<Condition> {
    let name = input.fields.get("tool_name")?.as_str()?.to_owned();
    let call = input.fields.get("tool_input")?.clone();
    let subject = subject(&name, &call, tools);
    let resolved = lathe_permissions::resolve(&subject, &permissions);
    Some(Arc::new(move |rule: &str| {
        let facts = CallFacts {
            tool_name: &name,
            aliases: &[],
            input: &call,
            subject: &subject,
            read_only: false,
            resolved: resolved.clone(),
        };
        match rule_match(rule, &facts, &permissions) {
            RuleMatch::None => ConditionMatch::None,
            RuleMatch::Part => ConditionMatch::Part,
            RuleMatch::Whole => ConditionMatch::Whole,
        }
    }))
}

/// The subject of a call, by its name and input.
fn subject(name: &str, input: &Value, tools: &ToolContext) -> Subject {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let folder = || tools.working_folder.read().clone();
    if let Some(command) = text("command") {
        return Subject::Shell {
            command: command.to_owned(),
            cwd: folder(),
            unsandboxed: false,
        };
    }
    if let Some((server, tool)) = name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
    {
        return Subject::Mcp {
            server: server.to_owned(),
            tool: tool.to_owned(),
            read_only: false,
        };
    }
    if let Some(url) = text("url") {
        return Subject::Fetch {
            url: url.to_owned(),
        };
    }
    let path = text("file_path").or_else(|| text("notebook_path"));
    let paths = |path: &str| -> Vec<PathBuf> { vec![tools.resolve_path(path)] };
    match (path, name) {
        (Some(path), _) if WRITERS.contains(&name) => Subject::Write { paths: paths(path) },
        (Some(path), _) => Subject::Read { paths: paths(path) },
        (None, "Grep" | "Glob" | "LS") => Subject::Read {
            paths: text("path").map_or_else(|| vec![folder()], paths),
        },
        (None, "Skill" | "SlashCommand" | "Agent" | "Task") => {
            let named = ["skill", "command", "subagent_type", "name"];
            match named.into_iter().find_map(text) {
                Some(named) => Subject::Named {
                    name: named.trim_start_matches('/').to_owned(),
                    harmless: false,
                },
                None => Subject::Unknown,
            }
        }
        _ => Subject::Unknown,
    }
}
