//! The question whether the folder is trusted.

use crate::app::{App, Leave, welcome};
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::{Line, Style};
use crate::render::text::reveal;
use lathe_settings::trust::Bring;
use serde_json::Value;
use std::path::Path;

pub(crate) fn ask(app: &mut App, brings: &[Bring]) {
    welcome::before_trust(app);
    // They may have changed, and the trust with them, when this is answered.
    app.engine.loaded_settings = None;
    let theme = app.theme();
    let mut lines = vec![
        Line::styled(app.places.project.display().to_string(), theme.code),
        Line::styled(
            "This folder contains files that can run programs or change prompts:",
            theme.muted,
        ),
    ];
    app.commands.project_servers = project_servers(&app.places.project.join(".mcp.json"));
    for (name, entry) in &app.commands.project_servers {
        lines.push(
            Line::styled(format!("  MCP server {}: ", reveal(name)), theme.muted)
                .with(reveal(&server_words(entry)), Style::PLAIN),
        );
    }
    let listed: Vec<&Bring> = brings
        .iter()
        .filter(|bring| {
            let server = bring.key.strip_prefix(".mcp.json ");
            !server.is_some_and(|name| {
                app.commands
                    .project_servers
                    .iter()
                    .any(|(it, _)| it == name)
            })
        })
        .collect();
    for bring in listed.iter().take(12) {
        lines.push(
            Line::styled(format!("  {}: ", bring.kind.heading()), theme.muted)
                .with(reveal(&bring.to_string()), Style::PLAIN),
        );
    }
    if listed.len() > 12 {
        lines.push(Line::styled(
            format!("  … and {} more", listed.len() - 12),
            theme.muted,
        ));
    }
    let picker = Picker::new(
        Purpose::Trust,
        "Do you trust this folder?",
        vec![
            Item::new("yes", "Yes, use them", "remembered"),
            Item::new("no", "No, continue without them", "remembered"),
            Item::new("leave", "Exit", ""),
        ],
    )
    .explained(lines)
    .at("no")
    .unasked(!app.prompt.editor.is_empty());
    app.layers.open_unasked(picker);
}

pub(crate) fn answered(app: &mut App, answer: &str) {
    match answer {
        "yes" => {
            remember(app, true);
            approve_servers(app);
            app.jobs.settings(&app.places, &app.engine.options);
            app.open_or_pick();
        }
        "no" => {
            remember(app, false);
            app.remark("This folder's settings are ignored; trust it with `lathe trust add`.");
            app.open_or_pick();
        }
        _ => app.exit.leave = Some(Leave::Asked),
    }
}

/// The MCP servers that the folder brings, with their configuration.
fn project_servers(file: &Path) -> Vec<(String, Value)> {
    let document: Option<Value> = std::fs::read_to_string(file)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    let servers = document
        .as_ref()
        .and_then(|document| document.get("mcpServers"))
        .and_then(Value::as_object);
    servers
        .into_iter()
        .flatten()
        .map(|(name, entry)| (name.clone(), entry.clone()))
        .collect()
}

/// The command of a server, or its address.
fn server_words(entry: &Value) -> String {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let mut words: Vec<String> = text("command")
        .or(text("url"))
        .map(str::to_owned)
        .into_iter()
        .collect();
    let arguments = entry.get("args").and_then(Value::as_array);
    words.extend(arguments.into_iter().flatten().map(|argument| {
        argument
            .as_str()
            .map_or_else(|| argument.to_string(), str::to_owned)
    }));
    words.join(" ")
}

/// The servers that were shown are used, exactly as they were shown.
fn approve_servers(app: &mut App) {
    let choices = lathe_mcp::config::Choices::new(&app.places);
    for (name, entry) in std::mem::take(&mut app.commands.project_servers) {
        if let Err(error) = choices.decide(&name, &entry, true) {
            app.warn(error.to_string());
        }
    }
}

fn remember(app: &mut App, trusted: bool) {
    let store = lathe_settings::TrustStore::new(&app.places);
    let now = jiff::Timestamp::now().to_string();
    if let Err(error) = store.remember(&app.places.project, trusted, &now) {
        app.warn(error.to_string());
    }
}
