//! The remark of the first start that found `~/.claude`.

use lathe_settings::Places;
use std::path::Path;

/// The file in the config home whose presence says that the remark was made.
const MARKER: &str = "claude-home-announced";

/// A remark on the files of `~/.claude` that take effect, on the first start that finds some.
pub(super) fn first_remark(places: &Places) -> Option<String> {
    let home = places.claude_home.as_ref()?;
    let marker = places.config_home.join(MARKER);
    if marker.exists() {
        return None;
    }
    let found = found(places, home);
    if found.is_empty() {
        return None;
    }
    // If it can't be written, the remark is made again.
    let _ = std::fs::create_dir_all(&places.config_home);
    let _ = std::fs::write(&marker, "");
    Some(format!(
        "{} is read as a second configuration folder with lower precedence than {}: {}. Nothing is written there, and its sign-ins are not used. Disable it with `lathe config set readClaudeHome false` or --no-claude-home.",
        home.display(),
        places.config_home.display(),
        found.join(", "),
    ))
}

fn found(places: &Places, home: &Path) -> Vec<String> {
    let mut found: Vec<String> = [
        "settings.json",
        "CLAUDE.md",
        "AGENTS.md",
        "keybindings.json",
    ]
    .iter()
    .filter(|name| home.join(name).is_file())
    .map(|name| (*name).to_owned())
    .collect();
    for kind in ["rules", "agents", "skills", "commands", "output-styles"] {
        let count = entries(&home.join(kind));
        if count > 0 {
            found.push(format!("{kind} ({count})"));
        }
    }
    let plugins = lathe_extensions::plugins::store::Store::of_claude_home(places);
    let plugins = plugins.and_then(|store| store.installed().ok());
    let count = plugins.map_or(0, |plugins| plugins.len());
    if count > 0 {
        found.push(format!("plugins ({count})"));
    }
    let servers = lathe_mcp::config::claude_servers(places, &mut Vec::new());
    let names: Vec<&str> = servers.names().collect();
    if !names.is_empty() {
        found.push(format!(
            "MCP servers of ~/.claude.json ({})",
            names.join(", ")
        ));
    }
    found
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, |entries| {
        entries
            .flatten()
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .count()
    })
}
