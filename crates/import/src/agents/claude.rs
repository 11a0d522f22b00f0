//! Claude Code: its folders are read where they are, so only what has no effect is worth a line.

use crate::plan::Plan;
use crate::read;
use lathe_settings::Places;
use lathe_settings::schema::foreign_key;
use std::path::Path;

pub(super) fn read(places: &Places, plan: &mut Plan) {
    match &places.claude_home {
        Some(home) if home.is_dir() => folder(plan, home),
        Some(_) => {}
        None => plan.left("~/.claude", "`readClaudeHome` is off, or LATHE_CONFIG_DIR names another folder; switch it on to use it"),
    }
    if let Some(file) = places.claude_json()
        && let Some(found) = read::json(&file, plan)
    {
        if found
            .get("mcpServers")
            .is_some_and(serde_json::Value::is_object)
        {
            plan.in_place(format!("MCP servers of {}", plan.shown(&file)));
        }
        if found.contains_key("oauthAccount") || found.contains_key("primaryApiKey") {
            plan.secret(
                format!("the sign-in of {}", plan.shown(&file)),
                "it stays there; `lathe login` stores a key",
            );
        }
    }
    let project = places.project.join(".claude");
    if project.is_dir() && Some(&project) != places.claude_home.as_ref() {
        folder(plan, &project);
    }
    for name in ["CLAUDE.md", "CLAUDE.local.md", ".mcp.json"] {
        let file = places.project.join(name);
        if file.is_file() {
            plan.in_place(plan.shown(&file));
        }
    }
}

fn folder(plan: &mut Plan, home: &Path) {
    for name in ["settings.json", "settings.local.json"] {
        let file = home.join(name);
        let Some(settings) = read::json(&file, plan) else {
            continue;
        };
        plan.in_place(plan.shown(&file));
        for key in settings.keys() {
            if let Some(foreign) = foreign_key(key) {
                plan.left(format!("{key} of {}", plan.shown(&file)), foreign.why);
            }
        }
    }
    for name in [
        "CLAUDE.md",
        "agents",
        "commands",
        "skills",
        "output-styles",
        "rules",
    ] {
        let path = home.join(name);
        if path.is_file()
            || std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some())
        {
            plan.in_place(plan.shown(&path));
        }
    }
    let credentials = home.join(".credentials.json");
    if credentials.is_file() {
        plan.secret(
            plan.shown(&credentials),
            "it stays there; `lathe login` stores a key",
        );
    }
}
