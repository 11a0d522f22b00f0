//! Gemini CLI: `~/.gemini` and `.gemini`, with settings of both generations.

use super::{copied, instructions, rest, skills};
use crate::permissions::{self, behavior, command_prefix, tool};
use crate::plan::Plan;
use crate::{hooks, read, servers};
use lathe_settings::Source;
use serde_json::{Map, Value};
use std::path::Path;

/// Where a setting lies in the nested form, and where it lay in the flat one.
const MOVED: [(&str, &str); 7] = [
    ("/model/name", "model"),
    ("/general/vimMode", "vimMode"),
    ("/context/includeDirectories", "includeDirectories"),
    ("/context/fileName", "contextFileName"),
    ("/tools/allowed", "allowedTools"),
    ("/tools/exclude", "excludeTools"),
    ("/tools/core", "coreTools"),
];

const KNOWN: [&str; 17] = [
    "$schema",
    "general",
    "model",
    "context",
    "tools",
    "mcpServers",
    "mcp",
    "hooks",
    "hooksConfig",
    "vimMode",
    "includeDirectories",
    "contextFileName",
    "allowedTools",
    "excludeTools",
    "coreTools",
    "security",
    "selectedAuthType",
];

const REASONS: [(&str, &str); 8] = [
    ("ui", "the terminal has its own settings"),
    ("theme", "choose one with /theme"),
    ("privacy", "Lathe sends no usage numbers"),
    ("usageStatisticsEnabled", "Lathe sends no usage numbers"),
    ("telemetry", "see docs/telemetry.md"),
    ("ide", "see docs/editors.md"),
    ("experimental", "they are switches of that program"),
    ("advanced", "they are switches of that program"),
];

pub(super) fn read(home: &Path, project: &Path, plan: &mut Plan) {
    folder(plan, Source::User, &home.join(".gemini"));
    instructions(plan, Source::User, &home.join(".gemini/GEMINI.md"));
    if project != home {
        folder(plan, Source::Project, &project.join(".gemini"));
        reference(plan, project, "GEMINI.md");
    }
    for name in ["oauth_creds.json", ".env", "google_accounts.json"] {
        let file = home.join(".gemini").join(name);
        if file.is_file() {
            plan.secret(
                plan.shown(&file),
                "it stays there; `lathe login gemini` stores a key",
            );
        }
    }
}

fn folder(plan: &mut Plan, source: Source, folder: &Path) {
    let file = folder.join("settings.json");
    if let Some(settings) = read::json(&file, plan) {
        settings_of(plan, source, &file, &settings);
    }
    commands(plan, source, &folder.join("commands"));
    for (file, _) in read::files(&folder.join("policies"), "toml") {
        if let Some(policy) = read::toml(&file, plan) {
            policies(plan, source, &file, &policy);
        }
    }
    copied(plan, source, &folder.join("agents"), "agents");
    skills(plan, source, &folder.join("skills"));
}

/// A file of the project is named, not copied, so that it stays one.
fn reference(plan: &mut Plan, project: &Path, name: &str) {
    if project.join(name).is_file() {
        let target = plan.folder(Source::Project).join("rules").join("gemini.md");
        plan.file(
            name.to_owned(),
            target,
            format!("@../../{name}\n"),
            "a reference",
        );
    }
}

fn settings_of(plan: &mut Plan, source: Source, file: &Path, settings: &Map<String, Value>) {
    let whole = Value::Object(settings.clone());
    let get = |flat: &str| {
        let (pointer, _) = MOVED.iter().find(|(_, name)| *name == flat)?;
        // In the nested form `model` is a table.
        let flat = whole.get(flat).filter(|value| !value.is_object());
        whole.pointer(pointer).or(flat)
    };
    if let Some(model) = get("model").and_then(Value::as_str) {
        let value = Value::from(format!("gemini/{model}"));
        plan.set(source, "model", "model", value, "with its provider");
    }
    if get("vimMode") == Some(&Value::Bool(true)) {
        plan.set(source, "vimMode", "editorMode", "vim".into(), "");
    }
    for folder in get("includeDirectories")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        plan.add(
            source,
            "includeDirectories",
            &["permissions", "additionalDirectories"],
            folder.clone(),
            format!("permissions.additionalDirectories {folder}"),
        );
    }
    if let Some(name) = get("contextFileName") {
        plan.left(
            "contextFileName",
            format!("AGENTS.md is read; import {name} from there with @"),
        );
    }
    for (key, behavior) in [("allowedTools", "allow"), ("excludeTools", "deny")] {
        if let Some(list) = get(key) {
            permissions::listed(plan, source, key, behavior, list);
        }
    }
    if get("coreTools").is_some() {
        plan.left("coreTools", "pass --tools to offer only some tools");
    }
    if let Some(table) = settings.get("mcpServers").and_then(Value::as_object) {
        servers::servers(plan, source, file, table);
    }
    if let Some(table) = settings.get("hooks").and_then(Value::as_object) {
        hooks::groups(plan, source, table);
    }
    leftovers(plan, settings);
    rest(plan, settings, &KNOWN, &REASONS);
}

/// The rest of the tables of which some keys were taken.
fn leftovers(plan: &mut Plan, settings: &Map<String, Value>) {
    let taken = [
        ("general", &["vimMode"][..]),
        ("model", &["name"]),
        ("context", &["includeDirectories", "fileName"]),
        ("tools", &["allowed", "exclude", "core"]),
    ];
    for (table, known) in taken {
        let inner = settings.get(table).and_then(Value::as_object);
        for key in inner.into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) {
                plan.left(format!("{table}.{key}"), "there is no such setting here");
            }
        }
    }
    if settings.contains_key("security") || settings.contains_key("selectedAuthType") {
        plan.left("security", "sign in with `lathe login gemini`");
    }
}

/// Commands are TOML there: `prompt` with `{{args}}`, `!{command}` and `@{file}`.
fn commands(plan: &mut Plan, source: Source, folder: &Path) {
    for (file, inside) in read::files(folder, "toml") {
        let Some(command) = read::toml(&file, plan) else {
            continue;
        };
        let was = plan.shown(&file);
        let Some(prompt) = command.get("prompt").and_then(Value::as_str) else {
            plan.left(was, "it has no prompt");
            continue;
        };
        let mut text = String::new();
        if let Some(description) = command.get("description").and_then(Value::as_str) {
            text = format!("---\ndescription: {}\n---\n", read::quoted(description));
        }
        let body = replaced(&prompt.replace("{{args}}", "$ARGUMENTS"), "!{", "!`", "`");
        text.push_str(&replaced(&body, "@{", "@", ""));
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let target = plan
            .folder(source)
            .join("commands")
            .join(inside.with_extension("md"));
        plan.file(was, target, text, "as Markdown");
    }
}

/// Replaces the brackets of `!{…}`.
fn replaced(text: &str, open: &str, before: &str, after: &str) -> String {
    let mut parts = text.split(open);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((inner, rest)) => {
                result.push_str(before);
                result.push_str(inner);
                result.push_str(after);
                result.push_str(rest);
            }
            None => {
                result.push_str(open);
                result.push_str(part);
            }
        }
    }
    result
}

/// Policies: `[[rule]]` with `toolName`, `commandPrefix`, `decision`.
fn policies(plan: &mut Plan, source: Source, file: &Path, policy: &Map<String, Value>) {
    let place = plan.shown(file);
    let rules = policy.get("rule").and_then(Value::as_array);
    for (number, rule) in rules.into_iter().flatten().enumerate() {
        let label = format!("rule {} of {place}", number + 1);
        let Some(behavior) = rule["decision"].as_str().and_then(behavior) else {
            plan.left(label, "it has no decision");
            continue;
        };
        if rule["commandRegex"].is_string() || rule["argsPattern"].is_string() {
            plan.left(
                label,
                "a pattern over arguments has no rule here; write a PreToolUse hook",
            );
            continue;
        }
        let names = one_or_many(&rule["toolName"]);
        if let Some(server) = rule["mcpName"].as_str() {
            let tool = names
                .first()
                .map_or_else(String::new, |name| format!("__{name}"));
            plan.rule(source, &label, behavior, format!("mcp__{server}{tool}"));
            continue;
        }
        for name in names {
            match tool(&name) {
                Some("Bash") if !rule["commandPrefix"].is_null() => {
                    for prefix in one_or_many(&rule["commandPrefix"]) {
                        plan.rule(source, &label, behavior, command_prefix(&prefix));
                    }
                }
                Some(ours) => plan.rule(source, &label, behavior, ours.to_owned()),
                None => plan.left(label.clone(), format!("there is no tool {name}")),
            }
        }
    }
}

fn one_or_many(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}
