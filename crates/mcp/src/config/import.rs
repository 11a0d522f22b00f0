//! Imports servers from the configuration files of other clients.
//!
//! The files differ in the name of the table (`mcpServers`, `servers`, `mcp.servers`,
//! `mcp_servers`, `context_servers`), in the key of a remote server's address, and in whether a
//! command is one list or a program with arguments. All are converted to the format of `.mcp.json`.

use super::entry::{ConfigError, ConfigLocation, is_name};
use lathe_settings::Environment;
use lathe_settings::document::Document;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A server of another client.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its name, converted to a valid one.
    pub name: String,
    /// Its entry in the format of `.mcp.json`.
    pub entry: Value,
}

/// The existing configuration files of other clients, the user's own first.
#[must_use]
pub fn known_files(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.home.as_deref();
    let in_home = [
        ".claude.json",
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        ".cursor/mcp.json",
        ".codeium/windsurf/mcp_config.json",
        ".gemini/settings.json",
        ".config/opencode/opencode.json",
        ".config/zed/settings.json",
    ];
    let in_project = [
        ".cursor/mcp.json",
        ".vscode/mcp.json",
        ".gemini/settings.json",
        "opencode.json",
    ];
    let mut files: Vec<PathBuf> = Vec::new();
    files.extend(in_home.iter().filter_map(|name| Some(home?.join(name))));
    files.extend(in_project.iter().map(|name| environment.cwd.join(name)));
    files.retain(|file| file.is_file());
    files.dedup();
    files
}

/// # Errors
/// If it can't be read or parsed, or has no servers.
pub fn read(file: &Path, folder: &Path) -> Result<Vec<Imported>, ConfigError> {
    let place = ConfigLocation::file(file);
    let text = std::fs::read_to_string(file).map_err(|error| ConfigError::Unreadable {
        place: place.to_string(),
        reason: error.to_string(),
    })?;
    servers(&text, &place, folder)
}

/// # Errors
/// If it can't be parsed or has no servers.
pub fn servers(
    text: &str,
    place: &ConfigLocation,
    folder: &Path,
) -> Result<Vec<Imported>, ConfigError> {
    let document = Document::parse(text).map_err(|error| ConfigError::NotJson {
        place: format!("{place}:{}:{}", error.position.line, error.position.column),
        reason: error.message,
    })?;
    let root = &document.value;
    let mut tables: Vec<&Map<String, Value>> = Vec::new();
    for pointer in [
        "/mcpServers",
        "/servers",
        "/mcp/servers",
        "/mcp_servers",
        "/context_servers",
        "/mcp",
    ] {
        tables.extend(root.pointer(pointer).and_then(Value::as_object));
    }
    // A client may have servers for this folder in addition to global ones.
    let of_folder = root
        .get("projects")
        .and_then(|projects| projects.get(folder.to_string_lossy().as_ref()))
        .and_then(|project| project.get("mcpServers"))
        .and_then(Value::as_object);
    tables.extend(of_folder);
    let mut found: Vec<Imported> = Vec::new();
    for (name, entry) in tables.into_iter().flatten() {
        let name = fitting(name);
        let Some(entry) = entry_of(entry) else {
            continue;
        };
        if !found.iter().any(|known| known.name == name) {
            found.push(Imported { name, entry });
        }
    }
    if found.is_empty() {
        return Err(ConfigError::Field {
            place: place.to_string(),
            field: "mcpServers".to_owned(),
            reason: "no MCP servers are in this file".to_owned(),
        });
    }
    Ok(found)
}

/// An entry in the format of `.mcp.json`; `None` if it is not a server.
fn entry_of(entry: &Value) -> Option<Value> {
    let written = entry.as_object()?;
    let mut fields = Map::new();
    let address = ["url", "httpUrl", "serverUrl"]
        .into_iter()
        .find_map(|key| written.get(key)?.as_str());
    if let Some(url) = address {
        let kind = match written.get("type").and_then(Value::as_str) {
            Some("sse") => "sse",
            Some("ws" | "websocket") => "ws",
            // One client uses `url` for server-sent events and `httpUrl` for streamable HTTP.
            None if written.get("url").is_some() && url.trim_end_matches('/').ends_with("/sse") => {
                "sse"
            }
            _ => "http",
        };
        fields.insert("type".to_owned(), kind.into());
        fields.insert("url".to_owned(), url.into());
    } else {
        let (command, mut args) = match written.get("command")? {
            Value::String(command) => (command.clone(), Vec::new()),
            Value::Array(words) => {
                let mut words = words.iter().filter_map(Value::as_str).map(str::to_owned);
                (words.next()?, words.map(Value::from).collect())
            }
            // One client writes {"path": …, "args": …}.
            Value::Object(inner) => (
                inner.get("path")?.as_str()?.to_owned(),
                inner
                    .get("args")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default(),
            ),
            _ => return None,
        };
        if let Some(more) = written.get("args").and_then(Value::as_array) {
            args.extend(more.iter().cloned());
        }
        fields.insert("command".to_owned(), command.into());
        if !args.is_empty() {
            fields.insert("args".to_owned(), args.into());
        }
    }
    for (theirs, ours) in [
        ("env", "env"),
        ("environment", "env"),
        ("headers", "headers"),
        ("headersHelper", "headersHelper"),
        ("oauth", "oauth"),
        ("cwd", "cwd"),
    ] {
        if let Some(value) = written.get(theirs).filter(|value| !is_empty(value)) {
            fields.insert(ours.to_owned(), value.clone());
        }
    }
    let off = written.get("disabled") == Some(&json!(true))
        || written.get("enabled") == Some(&json!(false));
    if off {
        fields.insert("disabled".to_owned(), true.into());
    }
    Some(Value::Object(fields))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Converts a name to a valid one.
fn fitting(name: &str) -> String {
    let mut fitted: String = name
        .chars()
        .map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => letter,
            _ => '_',
        })
        .take(64)
        .collect();
    if !is_name(&fitted) {
        "server".clone_into(&mut fitted);
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Vec<(String, Value)> {
        servers(
            &value.to_string(),
            &ConfigLocation::flag("f"),
            Path::new("/p"),
        )
        .unwrap()
        .into_iter()
        .map(|one| (one.name, one.entry))
        .collect()
    }

    #[test]
    fn files_of_several_clients_become_the_same_entries() {
        let local = json!({"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}});
        for file in [
            json!({"mcpServers": {"s": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}}}),
            json!({"servers": {"s": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}}}),
            json!({"mcp": {"s": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"A": "b"}, "enabled": true}}}),
            json!({"context_servers": {"s": {"command": {"path": "npx", "args": ["-y", "x"]}, "env": {"A": "b"}}}}),
            json!({"projects": {"/p": {"mcpServers": {"s": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}}}}}),
        ] {
            assert_eq!(read(&file), [("s".to_owned(), local.clone())], "{file}");
        }
        let far = read(
            &json!({"mcpServers": {"my server": {"httpUrl": "https://h/mcp"},
            "old": {"url": "https://h/sse", "disabled": true}}}),
        );
        assert_eq!(
            far[0],
            (
                "my_server".to_owned(),
                json!({"type": "http", "url": "https://h/mcp"})
            )
        );
        assert_eq!(
            far[1].1,
            json!({"type": "sse", "url": "https://h/sse", "disabled": true})
        );
    }

    #[test]
    fn a_file_without_servers_is_named() {
        let error = servers(
            "{}",
            &ConfigLocation::file(Path::new("/x.json")),
            Path::new("/p"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("/x.json"), "{error}");
    }
}
