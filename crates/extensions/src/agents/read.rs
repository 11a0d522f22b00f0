//! Parses agent definitions from files and JSON.

use super::{AgentDefinition, AgentMcpServer, AgentMemory, Isolation};
use crate::fields::Fields;
use crate::files::{self, Reach};
use crate::front_matter;
use crate::problem::Problem;
use crate::source::ExtensionSource;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::schema::Effort;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const EFFORTS: [(&str, Effort); 5] = [
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
    ("xhigh", Effort::Xhigh),
    ("max", Effort::Max),
];

const MODES: [(&str, PermissionMode); 6] = [
    ("default", PermissionMode::Default),
    ("acceptEdits", PermissionMode::AcceptEdits),
    ("plan", PermissionMode::Plan),
    ("dontAsk", PermissionMode::DontAsk),
    ("bypassPermissions", PermissionMode::BypassPermissions),
    ("auto", PermissionMode::Auto),
];

/// The known keys.
pub(super) const KEYS: [&str; 23] = [
    "name",
    "description",
    "tools",
    "allowedTools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "isolation",
    "background",
    "color",
    "effort",
    "omitInstructions",
    "omitClaudeMd",
    "readOnly",
    "initialPrompt",
    "criticalSystemReminder",
    REMINDER_OF_SDK,
    "prompt",
];

/// The name that SDK hosts use for `criticalSystemReminder`.
const REMINDER_OF_SDK: &str = "criticalSystemReminder_EXPERIMENTAL";

/// The known colours.
const COLORS: [&str; 9] = [
    "red",
    "blue",
    "green",
    "yellow",
    "purple",
    "orange",
    "pink",
    "cyan",
    "automatic",
];

const LONGEST_NAME: usize = 64;

/// The source of a definition, which limits its keys.
#[derive(Debug, Clone)]
pub(crate) struct FileContext {
    pub(crate) source: ExtensionSource,
    /// True if it may have hooks, servers and wider permissions.
    pub(crate) trusted: bool,
}

/// Reads a file. `None` if it is not an agent (it has no name) or is invalid (reported).
pub(crate) fn of_file(
    file: &Path,
    reach: &Reach,
    context: &FileContext,
    problems: &mut Vec<Problem>,
) -> Option<AgentDefinition> {
    let text = files::read(file, reach, problems)?;
    let mut definition = of_text(file, &text, context, problems)?;
    definition.path = Some(file.to_path_buf());
    Some(definition)
}

pub(crate) fn of_text(
    file: &Path,
    text: &str,
    context: &FileContext,
    problems: &mut Vec<Problem>,
) -> Option<AgentDefinition> {
    let mut found = Vec::new();
    let mut document = front_matter::parse(file, text, &mut found);
    let body = std::mem::take(&mut document.body);
    let mut fields = Fields::new(file, std::mem::take(&mut document.fields), &mut found);
    // A plugin's agent has the name of its file unless it names itself. Elsewhere, a file without a
    // name may be a note beside the agents; it is skipped silently.
    if let ExtensionSource::Plugin(plugin) = &context.source {
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem.filter(|_| !fields.has("name")) {
            fields.set("name", stem);
        }
        if !fields.has("description") {
            let why = "is missing, so the model can't know when to use the agent";
            fields.report(
                "description",
                why,
                Some("say when the agent should be used"),
            );
            fields.set("description", &format!("An agent of the plugin {plugin}"));
        }
    }
    if !fields.has("name") {
        return None;
    }
    let definition = definition(&mut fields, &body, context);
    problems.append(&mut found);
    definition
}

/// Reads one entry of the JSON from `--agents` or an SDK host.
pub(crate) fn of_json(
    file: &Path,
    name: &str,
    entry: &Value,
    problems: &mut Vec<Problem>,
) -> Option<AgentDefinition> {
    let Value::Object(object) = entry else {
        problems.push(
            Problem {
                fatal: true,
                ..Problem::field(file, name, "is not an object")
            }
            .fix("write {\"description\": …, \"prompt\": …}"),
        );
        return None;
    };
    let mut object = object.clone();
    object.insert("name".to_owned(), name.into());
    let context = FileContext {
        source: ExtensionSource::Flag,
        trusted: true,
    };
    let prompt = object.remove("prompt");
    let mut fields = Fields::of_json(file, name, &object, problems);
    let prompt = match prompt {
        Some(Value::String(prompt)) => prompt,
        Some(_) => {
            fields.report_fatal("prompt", "must be a string", "write \"prompt\": \"…\"");
            return None;
        }
        None => {
            fields.report_fatal(
                "prompt",
                format!("the agent {name} has none, so it is ignored"),
                "write \"prompt\": \"…\"",
            );
            return None;
        }
    };
    definition(&mut fields, &prompt, &context)
}

fn definition(
    fields: &mut Fields<'_>,
    prompt: &str,
    context: &FileContext,
) -> Option<AgentDefinition> {
    let name = fields.text("name")?;
    if !is_name(&name) {
        fields.report_fatal(
            "name",
            format!("'{name}' is not a valid name, so the agent is ignored"),
            "no control characters, slashes, quotes, brackets, commas and stars, at most 64",
        );
        return None;
    }
    // Generated files have `\n` for line breaks in a description without quotes.
    let description = fields.text("description");
    let Some(description) = description.map(|text| text.replace("\\n", "\n")) else {
        fields.report_fatal(
            "description",
            format!("the agent {name} has none, so it is ignored"),
            "say when the agent should be used",
        );
        return None;
    };
    if prompt.trim().is_empty() {
        fields.report(
            "prompt",
            format!("the agent {name} has a description but no instructions"),
            Some("write them below the front matter"),
        );
    }
    let mut definition =
        AgentDefinition::new(name, description, prompt.trim(), context.source.clone());
    definition.tools = fields
        .own_tools("tools")
        .or_else(|| fields.own_tools("allowedTools"))
        .filter(|tools| !tools.iter().any(|tool| tool == "*"));
    definition.disallowed_tools = fields.tools("disallowedTools").unwrap_or_default();
    definition.model = fields
        .text("model")
        .filter(|model| !model.eq_ignore_ascii_case("inherit"));
    definition.run.max_turns = fields.count("maxTurns");
    definition.skills = fields.names("skills").unwrap_or_default();
    definition.run.memory = fields.choice(
        "memory",
        &[
            ("user", AgentMemory::User),
            ("project", AgentMemory::Project),
            ("local", AgentMemory::Local),
        ],
    );
    definition.run.isolation = fields.choice("isolation", &[("worktree", Isolation::Worktree)]);
    definition.run.background = fields.flag("background");
    definition.color = color(fields);
    definition.run.effort = fields.choice("effort", &EFFORTS);
    let omits = fields.flag("omitInstructions");
    let omits = fields.flag("omitClaudeMd").or(omits);
    definition.run.omit_instructions = omits.unwrap_or(false);
    definition.read_only = fields.restriction("readOnly");
    definition.run.initial_prompt = fields.text("initialPrompt");
    let reminder = fields.text("criticalSystemReminder");
    definition.run.critical_reminder = reminder.or_else(|| fields.text(REMINDER_OF_SDK));
    definition.permission_mode = fields.choice("permissionMode", &MODES);
    definition.mcp_servers = servers(fields);
    definition.hooks = fields.hooks();
    fields.report_misspelt(&KEYS);
    hold_back(&mut definition, fields, context);
    Some(definition)
}

/// Removes the fields that a definition of this source may not have: plugins and untrusted folders
/// can't run anything or widen permissions.
fn hold_back(definition: &mut AgentDefinition, fields: &mut Fields<'_>, context: &FileContext) {
    let of_plugin = matches!(context.source, ExtensionSource::Plugin(_));
    if definition.permission_mode == Some(PermissionMode::BypassPermissions)
        && context.source == ExtensionSource::Project
    {
        // To trust a folder is to let its files take effect, not to give every check away.
        definition.permission_mode = None;
        let why = "can't be bypassPermissions in an agent of a project";
        fields.report("permissionMode", why, None);
    }
    if context.trusted && !of_plugin {
        return;
    }
    let (why, fix) = if of_plugin {
        ("is ignored in an agent of a plugin", None)
    } else {
        let fix = "`lathe trust add` trusts it";
        ("is ignored until the folder is trusted", Some(fix))
    };
    if !definition.hooks.is_empty() {
        definition.hooks.clear();
        fields.report("hooks", why, fix);
    }
    if definition
        .mcp_servers
        .iter()
        .any(|server| matches!(server, AgentMcpServer::Inline(_)))
    {
        definition
            .mcp_servers
            .retain(|server| matches!(server, AgentMcpServer::Named(_)));
        fields.report("mcpServers", why, fix);
    }
    if definition.permission_mode.is_some_and(|mode| {
        matches!(
            mode,
            PermissionMode::AcceptEdits | PermissionMode::BypassPermissions | PermissionMode::Auto
        )
    }) {
        definition.permission_mode = None;
        fields.report("permissionMode", why, fix);
    }
}

/// True if a text can be an agent's name, which appears in rules, file names and lists.
#[must_use]
pub(crate) fn is_name(name: &str) -> bool {
    name.chars().count() <= LONGEST_NAME
        && name.chars().all(is_name_letter)
        && name
            .starts_with(|first: char| first.is_alphanumeric() || first == '_' || !first.is_ascii())
}

/// Letters, digits, a few signs, and pictures; no character that is invisible or turns the direction.
fn is_name_letter(letter: char) -> bool {
    let is_invisible = letter.is_control()
        || letter.is_whitespace()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    letter.is_alphanumeric()
        || "-_:. +#&@=".contains(letter)
        || (!letter.is_ascii() && !is_invisible)
}

fn color(fields: &mut Fields<'_>) -> Option<String> {
    let color = fields.text("color")?;
    let is_hex = color.strip_prefix('#').is_some_and(|digits| {
        matches!(digits.len(), 3 | 6) && digits.chars().all(|digit| digit.is_ascii_hexdigit())
    });
    if is_hex || COLORS.contains(&color.to_lowercase().as_str()) {
        return Some(color.to_lowercase());
    }
    fields.report(
        "color",
        format!("unknown colour '{color}'"),
        Some(&format!("one of {}, or #rrggbb", COLORS.join(", "))),
    );
    None
}

/// Reads `mcpServers`: names of the session's servers, and servers of its own.
fn servers(fields: &mut Fields<'_>) -> Vec<AgentMcpServer> {
    let mut servers = Vec::new();
    let mut wrong = false;
    let mut broken: Vec<String> = Vec::new();
    let mut inline = |map: &serde_json::Map<String, Value>| {
        let mut servers = BTreeMap::new();
        for (name, config) in map {
            let says_how = ["command", "url", "type"]
                .iter()
                .any(|key| config.get(key).is_some_and(Value::is_string));
            if says_how {
                servers.insert(name.clone(), config.clone());
            } else {
                broken.push(name.clone());
            }
        }
        AgentMcpServer::Inline(servers)
    };
    match fields.value("mcpServers").cloned() {
        None => {}
        Some(Value::String(names)) => servers.extend(
            names
                .split([',', ' '])
                .filter(|name| !name.is_empty())
                .map(|name| AgentMcpServer::Named(name.to_owned())),
        ),
        Some(Value::Object(map)) => servers.push(inline(&map)),
        Some(Value::Array(items)) => {
            for item in items {
                match item {
                    Value::String(name) => servers.push(AgentMcpServer::Named(name)),
                    Value::Object(map) => servers.push(inline(&map)),
                    _ => wrong = true,
                }
            }
        }
        Some(_) => wrong = true,
    }
    servers
        .retain(|server| !matches!(server, AgentMcpServer::Inline(servers) if servers.is_empty()));
    for name in broken {
        fields.report(
            "mcpServers",
            format!("{name} has neither \"command\" nor \"url\", so it is ignored"),
            Some("write it as in .mcp.json"),
        );
    }
    if wrong {
        fields.report(
            "mcpServers",
            "must be names of servers, or servers as in .mcp.json; other entries are ignored",
            None,
        );
    }
    servers
}
