//! Permission rules of other agents in our form.

use crate::plan::Plan;
use lathe_settings::Source;
use serde_json::{Map, Value};

/// The tools of other agents under our names.
const TOOLS: [(&str, &str); 28] = [
    ("run_shell_command", "Bash"),
    ("shelltool", "Bash"),
    ("shell", "Bash"),
    ("bash", "Bash"),
    ("read_file", "Read"),
    ("read_many_files", "Read"),
    ("readfiletool", "Read"),
    ("read", "Read"),
    ("write_file", "Write"),
    ("writefiletool", "Write"),
    ("write", "Write"),
    ("replace", "Edit"),
    ("edittool", "Edit"),
    ("edit", "Edit"),
    ("patch", "Edit"),
    ("glob", "Glob"),
    ("globtool", "Glob"),
    ("grep", "Grep"),
    ("search_file_content", "Grep"),
    ("grep_search", "Grep"),
    ("list_directory", "Glob"),
    ("list", "Glob"),
    ("web_fetch", "WebFetch"),
    ("webfetch", "WebFetch"),
    ("google_web_search", "WebSearch"),
    ("websearch", "WebSearch"),
    ("task", "Agent"),
    ("todowrite", "TodoWrite"),
];

/// Our name for a tool.
pub(crate) fn tool(theirs: &str) -> Option<&'static str> {
    let lower = theirs.to_ascii_lowercase();
    let found = TOOLS.iter().find(|(name, _)| *name == lower);
    found.map(|(_, ours)| *ours)
}

/// The word for a decision.
pub(crate) fn behavior(theirs: &str) -> Option<&'static str> {
    match theirs {
        "allow" => Some("allow"),
        "ask" | "ask_user" | "prompt" => Some("ask"),
        "deny" | "forbidden" => Some("deny"),
        _ => None,
    }
}

/// A rule for commands that begin with some words.
pub(crate) fn command_prefix(words: &str) -> String {
    format!("Bash({}:*)", words.trim())
}

/// A rule of a pattern over commands, in which `*` stands for anything.
pub(crate) fn command_pattern(pattern: &str) -> String {
    let pattern = pattern.trim();
    match pattern.strip_suffix('*').map(str::trim_end) {
        _ if pattern == "*" => "Bash".to_owned(),
        Some(prefix) if !prefix.contains('*') => command_prefix(prefix),
        _ => format!("Bash({pattern})"),
    }
}

/// Rules of a list such as `["ShellTool(git status)", "read_file"]`.
pub(crate) fn listed(plan: &mut Plan, source: Source, key: &str, behavior: &str, list: &Value) {
    for written in list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let label = format!("{key} {written}");
        let (name, inner) = match written.split_once('(') {
            Some((name, inner)) => (name, inner.strip_suffix(')')),
            None => (written, None),
        };
        match (tool(name), inner) {
            (Some("Bash"), Some(words)) => {
                plan.rule(source, &label, behavior, command_prefix(words));
            }
            (Some(ours), None) => plan.rule(source, &label, behavior, ours.to_owned()),
            (Some(ours), Some(inner)) => {
                plan.rule(source, &label, behavior, format!("{ours}({inner})"));
            }
            (None, _) => plan.left(label, "there is no such tool"),
        }
    }
}

/// Rules by tool: `{"edit": "ask", "bash": {"*": "ask", "git status": "allow"}}`. There, the last rule that matches
/// decides; here, a denial comes before a question and a question before a permission.
pub(crate) fn by_tool(plan: &mut Plan, source: Source, key: &str, table: &Map<String, Value>) {
    for (name, decision) in table {
        let label = format!("{key}.{name}");
        let Some(ours) = tool(name) else {
            plan.left(label, "there is no such tool");
            continue;
        };
        match decision {
            Value::String(word) => match behavior(word) {
                Some("ask") if ["Bash", "Edit", "Write"].contains(&ours) => {
                    plan.left(label, "it asks here anyway");
                }
                Some(behavior) => plan.rule(source, &label, behavior, ours.to_owned()),
                None => plan.left(label, format!("'{word}' is not a decision")),
            },
            Value::Object(patterns) => by_pattern(plan, source, &label, ours, patterns),
            _ => plan.left(label, "it is neither a decision nor a table"),
        }
    }
}

fn by_pattern(
    plan: &mut Plan,
    source: Source,
    key: &str,
    ours: &str,
    patterns: &Map<String, Value>,
) {
    for (pattern, word) in patterns {
        let label = format!("{key} \"{pattern}\"");
        let Some(behavior) = word.as_str().and_then(behavior) else {
            plan.left(label, "it is not a decision");
            continue;
        };
        match (pattern.as_str(), behavior) {
            ("*", "ask") => plan.left(label, "what no rule allows asks here anyway"),
            ("*", "deny") if patterns.len() > 1 => {
                plan.left(
                    label,
                    "a denial of everything would also deny what others allow; the rest asks",
                );
            }
            _ if ours == "Bash" => {
                plan.rule(source, &label, behavior, command_pattern(pattern));
            }
            ("*", _) => plan.rule(source, &label, behavior, ours.to_owned()),
            _ => plan.rule(source, &label, behavior, format!("{ours}({pattern})")),
        }
    }
}
