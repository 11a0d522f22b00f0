//! Cursor and its CLI: `~/.cursor`, `.cursor` and `.cursorrules`.

use super::{copied, rest, skills};
use crate::permissions::command_prefix;
use crate::plan::Plan;
use crate::{read, servers};
use lathe_settings::Source;
use serde_json::{Map, Value};
use std::path::Path;

pub(super) fn read(home: &Path, project: &Path, plan: &mut Plan) {
    folder(plan, Source::User, &home.join(".cursor"), "cli-config.json");
    if project != home {
        folder(plan, Source::Project, &project.join(".cursor"), "cli.json");
        rules(plan, &project.join(".cursor/rules"));
        old_rules(plan, project);
    }
    let auth = home.join(".config/cursor/auth.json");
    if auth.is_file() {
        plan.secret(
            plan.shown(&auth),
            "it stays there; it is for Cursor's own models",
        );
    }
}

fn folder(plan: &mut Plan, source: Source, folder: &Path, config: &str) {
    let file = folder.join("mcp.json");
    if let Some(found) = read::json(&file, plan) {
        match found.get("mcpServers").and_then(Value::as_object) {
            Some(table) => servers::servers(plan, source, &file, table),
            None => plan.left(plan.shown(&file), "it has no mcpServers"),
        }
    }
    if let Some(found) = read::json(&folder.join(config), plan) {
        cli(plan, source, &found);
    }
    copied(plan, source, &folder.join("commands"), "commands");
    copied(plan, source, &folder.join("agents"), "agents");
    skills(plan, source, &folder.join("skills"));
    let hooks = folder.join("hooks.json");
    if let Some(found) = read::json(&hooks, plan) {
        let place = plan.shown(&hooks);
        let events = found.get("hooks").and_then(Value::as_object);
        for event in events.into_iter().flat_map(Map::keys) {
            plan.left(
                format!("{event} of {place}"),
                "its hooks read and answer another protocol; see docs/hooks.md",
            );
        }
    }
}

fn cli(plan: &mut Plan, source: Source, config: &Map<String, Value>) {
    let permissions = config.get("permissions");
    for behavior in ["allow", "deny"] {
        let list = permissions.and_then(|table| table.get(behavior)?.as_array());
        for rule in list.into_iter().flatten().filter_map(Value::as_str) {
            let label = format!("permissions.{behavior} {rule}");
            match translated(rule) {
                Some(ours) => plan.rule(source, &label, behavior, ours),
                None => plan.left(label, "there is no such tool"),
            }
        }
    }
    if config
        .get("editor")
        .and_then(|editor| editor["vimMode"].as_bool())
        == Some(true)
    {
        plan.set(source, "editor.vimMode", "editorMode", "vim".into(), "");
    }
    rest(
        plan,
        config,
        &["version", "permissions", "editor"],
        &[
            ("model", "its models are Cursor's own"),
            ("network", "proxies come from the environment"),
        ],
    );
}

/// `Shell(git)` is a rule over the first words, `Read` and `Write` over paths.
fn translated(rule: &str) -> Option<String> {
    let (tool, inner) = rule.split_once('(')?;
    let inner = inner.strip_suffix(')')?;
    match tool {
        "Shell" if inner == "*" || inner == "**" => Some("Bash".to_owned()),
        "Shell" => Some(command_prefix(
            inner.replace(':', " ").trim_end_matches('*'),
        )),
        "Read" => Some(format!("Read({inner})")),
        "Write" => Some(format!("Edit({inner})")),
        "WebFetch" => Some(format!("WebFetch(domain:{inner})")),
        "Mcp" => {
            let (server, tool) = inner.split_once(':')?;
            Some(match tool {
                "*" => format!("mcp__{server}"),
                tool => format!("mcp__{server}__{tool}"),
            })
        }
        _ => None,
    }
}

/// Rules: `.mdc` files whose front matter has `globs`, `alwaysApply` and `description`.
fn rules(plan: &mut Plan, folder: &Path) {
    let mut files = read::files(folder, "mdc");
    files.extend(read::files(folder, "md"));
    for (file, inside) in files {
        let Some(text) = read::text(&file, plan) else {
            continue;
        };
        let was = plan.shown(&file);
        let (fields, body) = read::front_matter(&text);
        let globs = globs(fields.get("globs"));
        let always = fields.get("alwaysApply") == Some(&Value::Bool(true));
        let target = plan
            .folder(Source::Project)
            .join("rules")
            .join(inside.with_extension("md"));
        if always {
            plan.file(was, target, body.to_owned(), "it always applies");
        } else if !globs.is_empty() {
            let list: Vec<String> = globs
                .iter()
                .map(|glob| format!("  - {}\n", read::quoted(glob)))
                .collect();
            let text = format!("---\npaths:\n{}---\n{body}", list.concat());
            plan.file(was, target, text, "for its paths");
        } else if let Some(description) = fields.get("description").and_then(Value::as_str) {
            // The model decides there whether to read it, which a skill is for.
            let name = inside
                .with_extension("")
                .display()
                .to_string()
                .replace('/', "-");
            let text = format!(
                "---\nname: {}\ndescription: {}\n---\n{body}",
                read::quoted(&name),
                read::quoted(description)
            );
            let target = plan
                .folder(Source::Project)
                .join("skills")
                .join(&name)
                .join("SKILL.md");
            plan.file(
                was,
                target,
                text,
                "as a skill: the model reads it when it fits",
            );
        } else {
            plan.left(
                was,
                "it applies only when it is mentioned; mention the file with @",
            );
        }
    }
}

fn globs(field: Option<&Value>) -> Vec<String> {
    match field {
        Some(Value::String(text)) => text
            .split(',')
            .map(|glob| glob.trim().to_owned())
            .filter(|glob| !glob.is_empty())
            .collect(),
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

fn old_rules(plan: &mut Plan, project: &Path) {
    if project.join(".cursorrules").is_file() {
        let target = plan.folder(Source::Project).join("rules/cursorrules.md");
        plan.file(
            ".cursorrules".to_owned(),
            target,
            "@../../.cursorrules\n".to_owned(),
            "a reference",
        );
    }
    if project.join("AGENTS.md").is_file() {
        plan.in_place("AGENTS.md");
    }
}
