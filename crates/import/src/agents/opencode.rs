//! opencode: `~/.config/opencode`, `opencode.json` and `.opencode`.

use super::{instructions, rest, skills};
use crate::plan::Plan;
use crate::{permissions, read, servers};
use lathe_settings::Source;
use serde_json::{Map, Value, json};
use std::path::Path;

const KNOWN: [&str; 12] = [
    "$schema",
    "model",
    "small_model",
    "permission",
    "mcp",
    "agent",
    "mode",
    "command",
    "instructions",
    "provider",
    "autoupdate",
    "tools",
];

const REASONS: [(&str, &str); 9] = [
    ("theme", "choose one with /theme"),
    (
        "keybinds",
        "keys are in keybindings.json; see docs/terminal.md",
    ),
    ("tui", "the terminal has its own settings"),
    ("share", "conversations are not shared"),
    ("formatter", "write a PostToolUse hook"),
    ("lsp", "see docs/lsp.md"),
    ("plugin", "its plugins are programs for another host"),
    ("disabled_providers", "a provider without a key is not used"),
    ("default_agent", "set `agent`"),
];

pub(super) fn read(home: &Path, project: &Path, plan: &mut Plan) {
    let folder = home.join(".config/opencode");
    for name in ["opencode.json", "opencode.jsonc", "config.json"] {
        config(plan, Source::User, &folder.join(name));
    }
    extensions(plan, Source::User, &folder);
    instructions(plan, Source::User, &folder.join("AGENTS.md"));
    if project != home {
        for name in ["opencode.json", "opencode.jsonc", ".opencode/opencode.json"] {
            config(plan, Source::Project, &project.join(name));
        }
        extensions(plan, Source::Project, &project.join(".opencode"));
    }
    let auth = home.join(".local/share/opencode/auth.json");
    if auth.is_file() {
        plan.secret(
            plan.shown(&auth),
            "it stays there; `lathe login PROVIDER` stores a key",
        );
    }
}

fn config(plan: &mut Plan, source: Source, file: &Path) {
    let Some(config) = read::json(file, plan) else {
        return;
    };
    for (theirs, ours) in [("model", "model"), ("small_model", "smallModel")] {
        if let Some(model) = config.get(theirs) {
            plan.set(source, theirs, ours, model.clone(), "");
        }
    }
    match config.get("permission") {
        Some(Value::Object(table)) => permissions::by_tool(plan, source, "permission", table),
        Some(_) => plan.left(
            "permission",
            "one word for every tool; choose a permission mode",
        ),
        None => {}
    }
    if let Some(table) = config.get("tools").and_then(Value::as_object) {
        for (name, on) in table {
            match (permissions::tool(name), on) {
                (Some(ours), Value::Bool(false)) => {
                    plan.rule(source, &format!("tools.{name}"), "deny", ours.to_owned());
                }
                (_, Value::Bool(true)) => {}
                _ => plan.left(format!("tools.{name}"), "there is no such tool"),
            }
        }
    }
    if let Some(table) = config.get("mcp").and_then(Value::as_object) {
        servers::servers(plan, source, file, table);
    }
    for key in ["agent", "mode"] {
        for (name, agent) in config
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            agent_of(plan, source, &format!("{key}.{name}"), name, agent);
        }
    }
    for (name, command) in config
        .get("command")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        command_of(plan, source, name, command);
    }
    list_of_instructions(plan, source, &config);
    providers(plan, source, file, &config);
    if config.contains_key("autoupdate") {
        plan.left("autoupdate", "set `autoUpdates` to off, notify or on");
    }
    rest(plan, &config, &KNOWN, &REASONS);
}

/// Further files of instructions are imported by one rule.
fn list_of_instructions(plan: &mut Plan, source: Source, config: &Map<String, Value>) {
    let files: Vec<&str> = config
        .get("instructions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut text = String::new();
    for file in files {
        if file.contains(['*', '?']) || file.contains("://") {
            plan.left(
                format!("instructions {file}"),
                "only single files are imported",
            );
        } else if source == Source::Project && !file.starts_with(['/', '~']) {
            text.push_str(&format!("@../../{file}\n"));
        } else {
            text.push_str(&format!("@{file}\n"));
        }
    }
    if !text.is_empty() {
        let target = plan.folder(source).join("rules/opencode-instructions.md");
        plan.file("instructions".to_owned(), target, text, "references");
    }
}

fn providers(plan: &mut Plan, source: Source, file: &Path, config: &Map<String, Value>) {
    let table = config.get("provider").and_then(Value::as_object);
    for (name, provider) in table.into_iter().flatten() {
        let label = format!("provider.{name}");
        let options = &provider["options"];
        if options["apiKey"]
            .as_str()
            .is_some_and(|key| !key.starts_with('{'))
        {
            plan.secret(
                format!("{label}.options.apiKey"),
                format!(
                    "it stays in {}; name its variable in apiKeyEnv",
                    plan.shown(file)
                ),
            );
        }
        let Some(address) = options["baseURL"].as_str() else {
            plan.left(label, "it is built in, or has no baseURL");
            continue;
        };
        let kind = match provider["npm"].as_str() {
            Some("@ai-sdk/anthropic") => "anthropic",
            Some("@ai-sdk/openai") => "openai",
            Some("@ai-sdk/google") => "gemini",
            _ => "openai-chat",
        };
        let mut value = json!({"kind": kind, "baseUrl": address});
        if let Some(variable) = options["apiKey"]
            .as_str()
            .and_then(|key| key.strip_prefix("{env:")?.strip_suffix('}'))
        {
            value["apiKeyEnv"] = Value::from(variable);
        }
        if let Some(models) = provider["models"].as_object() {
            value["models"] = models.keys().map(String::as_str).collect();
        }
        plan.set(source, &label, &format!("providers.{name}"), value, "");
    }
}

/// The front matter of an agent in our form, from the fields of theirs.
fn agent_text(name: &str, fields: &Map<String, Value>, prompt: &str) -> (String, Vec<String>) {
    let mut text = format!("---\nname: {}\n", read::quoted(name));
    let mut left = Vec::new();
    let description = fields.get("description").and_then(Value::as_str);
    let description = description.unwrap_or("An agent that was imported.");
    text.push_str(&format!("description: {}\n", read::quoted(description)));
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("model", Value::String(model)) => {
                text.push_str(&format!("model: {}\n", read::quoted(model)));
            }
            ("steps" | "maxSteps", Value::Number(steps)) => {
                text.push_str(&format!("maxTurns: {steps}\n"));
            }
            ("tools", Value::Object(tools)) => {
                let denied: Vec<&str> = tools
                    .iter()
                    .filter(|(_, on)| **on == Value::Bool(false))
                    .filter_map(|(name, _)| permissions::tool(name))
                    .collect();
                if !denied.is_empty() {
                    text.push_str(&format!("disallowedTools: {}\n", denied.join(", ")));
                }
            }
            ("description" | "prompt" | "mode" | "name" | "disable", _) => {}
            (other, _) => left.push(other.to_owned()),
        }
    }
    text.push_str("---\n");
    text.push_str(prompt.trim_start());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    (text, left)
}

fn agent_of(plan: &mut Plan, source: Source, label: &str, name: &str, agent: &Value) {
    let Some(fields) = agent.as_object() else {
        return plan.left(label, "it is not a table");
    };
    let prompt = fields.get("prompt").and_then(Value::as_str);
    match prompt {
        _ if fields.get("disable") == Some(&Value::Bool(true)) => {
            plan.left(label, "it is switched off there");
        }
        Some(prompt) if !prompt.starts_with("{file:") => {
            write_agent(plan, source, label, name, fields, prompt);
        }
        Some(_) => plan.left(label, "its prompt is in another file; import that by hand"),
        None => plan.left(label, "it has no prompt of its own"),
    }
}

fn write_agent(
    plan: &mut Plan,
    source: Source,
    label: &str,
    name: &str,
    fields: &Map<String, Value>,
    prompt: &str,
) {
    let name = plain(name);
    let (text, left) = agent_text(&name, fields, prompt);
    let target = plan
        .folder(source)
        .join("agents")
        .join(format!("{name}.md"));
    plan.file(label.to_owned(), target, text, "with our keys");
    for key in left {
        plan.left(format!("{label}.{key}"), "agents have no such key here");
    }
}

/// A name that is a file name too.
fn plain(name: &str) -> String {
    let kept = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '-' || letter == '_' {
            letter
        } else {
            '-'
        }
    };
    name.chars().map(kept).take(64).collect()
}

fn command_of(plan: &mut Plan, source: Source, name: &str, command: &Value) {
    let label = format!("command.{name}");
    let Some(template) = command["template"].as_str() else {
        return plan.left(label, "it has no template");
    };
    let mut text = String::from("---\n");
    for key in ["description", "model", "agent"] {
        if let Some(value) = command[key].as_str() {
            text.push_str(&format!("{key}: {}\n", read::quoted(value)));
        }
    }
    text.push_str("---\n");
    text.push_str(template);
    text.push('\n');
    let target = plan
        .folder(source)
        .join("commands")
        .join(format!("{}.md", plain(name)));
    plan.file(label, target, text, "as Markdown");
}

/// Agents and commands in files. Commands have our form; agents name their tools otherwise.
fn extensions(plan: &mut Plan, source: Source, folder: &Path) {
    for kind in ["agent", "agents", "mode", "modes"] {
        for (file, inside) in read::files(&folder.join(kind), "md") {
            let Some(text) = read::text(&file, plan) else {
                continue;
            };
            let (fields, prompt) = read::front_matter(&text);
            let name = inside.with_extension("").display().to_string();
            let label = plan.shown(&file);
            write_agent(plan, source, &label, &name, &fields, prompt);
        }
    }
    for kind in ["command", "commands"] {
        for (file, inside) in read::files(&folder.join(kind), "md") {
            if let Some(text) = read::text(&file, plan) {
                let target = plan.folder(source).join("commands").join(inside);
                let was = plan.shown(&file);
                plan.file(was, target, text, "");
            }
        }
    }
    for kind in ["skill", "skills"] {
        skills(plan, source, &folder.join(kind));
    }
    for kind in ["plugin", "plugins"] {
        if folder.join(kind).is_dir() {
            plan.left(
                plan.shown(&folder.join(kind)),
                "its plugins are programs for another host",
            );
        }
    }
}
