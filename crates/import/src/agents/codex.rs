//! Codex CLI: `~/.codex`.

use super::{instructions, rest, skills};
use crate::permissions::{behavior, command_prefix};
use crate::plan::Plan;
use crate::{read, servers};
use lathe_settings::Source;
use serde_json::{Map, Value, json};
use std::path::Path;

const KNOWN: [&str; 12] = [
    "model",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_context_window",
    "approval_policy",
    "sandbox_mode",
    "sandbox_workspace_write",
    "mcp_servers",
    "projects",
    "profile",
    "profiles",
];

const REASONS: [(&str, &str); 9] = [
    (
        "notify",
        "it runs with another input; write a Notification hook",
    ),
    ("history", "prompts are kept per project"),
    ("tui", "the terminal has its own settings"),
    (
        "shell_environment_policy",
        "commands get the environment without keys",
    ),
    ("otel", "see docs/telemetry.md"),
    ("features", "they are switches of that program"),
    ("file_opener", "the terminal decides how links are opened"),
    ("instructions", "put it into ~/.lathe/AGENTS.md"),
    ("tools", "web tools are governed by permission rules"),
];

pub(super) fn read(home: &Path, plan: &mut Plan) {
    let folder = home.join(".codex");
    let file = folder.join("config.toml");
    if let Some(config) = read::toml(&file, plan) {
        config_of(plan, &file, &config);
    }
    instructions(plan, Source::User, &folder.join("AGENTS.md"));
    prompts(plan, &folder.join("prompts"));
    skills(plan, Source::User, &folder.join("skills"));
    for (file, _) in read::files(&folder.join("rules"), "rules") {
        if let Some(text) = read::text(&file, plan) {
            exec_policy(plan, &file, &text);
        }
    }
    let auth = folder.join("auth.json");
    if auth.is_file() {
        plan.secret(
            plan.shown(&auth),
            "it stays there; `lathe login openai` stores a key",
        );
    }
}

fn config_of(plan: &mut Plan, file: &Path, config: &Map<String, Value>) {
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let provider = text("model_provider").unwrap_or("openai");
    if let Some(model) = text("model") {
        let value = Value::from(format!("{provider}/{model}"));
        plan.set(Source::User, "model", "model", value, "with its provider");
    }
    providers(plan, config);
    match text("model_reasoning_effort") {
        Some(word @ ("low" | "medium" | "high" | "xhigh")) => {
            plan.set(
                Source::User,
                "model_reasoning_effort",
                "effort",
                word.into(),
                "",
            );
        }
        Some("minimal") => plan.set(
            Source::User,
            "model_reasoning_effort",
            "effort",
            "low".into(),
            "there is no minimal",
        ),
        Some(word) => plan.left(
            "model_reasoning_effort",
            format!("'{word}' is not an effort here"),
        ),
        None => {}
    }
    if let Some(window) = config.get("model_context_window") {
        plan.left(
            "model_context_window",
            format!("set models.\"NAME\".contextWindow to {window}"),
        );
    }
    approvals(plan, text("approval_policy"), text("sandbox_mode"));
    if let Some(write) = config.get("sandbox_workspace_write") {
        workspace(plan, write);
    }
    if let Some(table) = config.get("mcp_servers").and_then(Value::as_object) {
        servers::servers(plan, Source::User, file, table);
    }
    if config.contains_key("projects") {
        plan.left(
            "projects",
            "trust is yours to give again: lathe trust add FOLDER",
        );
    }
    if config.contains_key("profiles") || config.contains_key("profile") {
        plan.left(
            "profiles",
            "put each into a file and pass it with --settings FILE",
        );
    }
    rest(plan, config, &KNOWN, &REASONS);
}

fn providers(plan: &mut Plan, config: &Map<String, Value>) {
    let table = config.get("model_providers").and_then(Value::as_object);
    for (name, provider) in table.into_iter().flatten() {
        let label = format!("model_providers.{name}");
        let Some(address) = provider["base_url"].as_str() else {
            plan.left(label, "it has no base_url");
            continue;
        };
        let kind = match provider["wire_api"].as_str() {
            Some("responses") => "openai",
            _ => "openai-chat",
        };
        let mut value = json!({"kind": kind, "baseUrl": address});
        if let Some(variable) = provider["env_key"].as_str() {
            value["apiKeyEnv"] = Value::from(variable);
        }
        if provider["experimental_bearer_token"].is_string() {
            plan.secret(
                format!("{label}.experimental_bearer_token"),
                "it stays in ~/.codex/config.toml; name its variable in apiKeyEnv",
            );
        }
        plan.set(
            Source::User,
            &label,
            &format!("providers.{}", key(name)),
            value,
            "",
        );
    }
}

fn key(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.chars().all(plain) {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

fn approvals(plan: &mut Plan, policy: Option<&str>, sandbox: Option<&str>) {
    match policy {
        Some("never") => plan.set(
            Source::User,
            "approval_policy",
            "permissions.defaultMode",
            "dontAsk".into(),
            "what no rule allows is refused",
        ),
        Some(word @ ("untrusted" | "on-request" | "on-failure")) => {
            plan.left(
                "approval_policy",
                format!("'{word}' is close to the default here, which asks"),
            );
        }
        Some(word) => plan.left("approval_policy", format!("'{word}' is not known")),
        None => {}
    }
    match sandbox {
        Some("workspace-write") => {
            plan.set(
                Source::User,
                "sandbox_mode",
                "sandbox.enabled",
                true.into(),
                "",
            );
        }
        Some("read-only") => plan.set(
            Source::User,
            "sandbox_mode",
            "permissions.defaultMode",
            "plan".into(),
            "reads and plans, and changes nothing",
        ),
        Some("danger-full-access") => plan.left(
            "sandbox_mode",
            "checks are not switched off by an import; see --dangerously-skip-permissions",
        ),
        Some(word) => plan.left("sandbox_mode", format!("'{word}' is not known")),
        None => {}
    }
}

fn workspace(plan: &mut Plan, write: &Value) {
    for root in write["writable_roots"].as_array().into_iter().flatten() {
        plan.add(
            Source::User,
            "sandbox_workspace_write.writable_roots",
            &["permissions", "additionalDirectories"],
            root.clone(),
            format!("permissions.additionalDirectories {root}"),
        );
    }
    if write["network_access"] == Value::Bool(true) {
        plan.left(
            "sandbox_workspace_write.network_access",
            "name the hosts in sandbox.network.allowedDomains",
        );
    }
}

/// Prompts become commands: `$1` and `$ARGUMENTS` mean the same.
fn prompts(plan: &mut Plan, folder: &Path) {
    for (file, inside) in read::files(folder, "md") {
        if let Some(text) = read::text(&file, plan) {
            let target = plan.folder(Source::User).join("commands").join(inside);
            let was = plan.shown(&file);
            plan.file(was, target, text, "");
        }
    }
}

/// Rules such as `prefix_rule(pattern = ["git", "status"], decision = "allow")`.
fn exec_policy(plan: &mut Plan, file: &Path, text: &str) {
    let place = plan.shown(file);
    for part in text.split("prefix_rule(").skip(1) {
        let Some(call) = part.split_once(')').map(|(call, _)| call) else {
            continue;
        };
        let list = call
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        let words: Option<Vec<String>> = list.and_then(|(list, _)| {
            let list = format!("[{}]", list.trim().trim_end_matches(','));
            serde_json::from_str(&list).ok()
        });
        let decision = call
            .split_once("decision")
            .and_then(|(_, rest)| rest.split('"').nth(1))
            .unwrap_or("allow");
        match (words, behavior(decision)) {
            (Some(words), Some(behavior)) if !words.is_empty() => {
                let words = words.join(" ");
                plan.rule(
                    Source::User,
                    &format!("{place} {words}"),
                    behavior,
                    command_prefix(&words),
                );
            }
            _ => plan.left(
                format!("a rule of {place}"),
                "its pattern is not a list of words",
            ),
        }
    }
}
