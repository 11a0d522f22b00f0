//! Adding, removing, switching and importing servers.

use super::{AddArguments, Ground, TransportWord};
use crate::complain;
use lathe_mcp::auth::CredentialStore;
use lathe_mcp::config::{self, Choices, Place, Scope, Standing, edit, entry, import};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// `lathe mcp add`.
pub(super) fn add(ground: &Ground, arguments: &AddArguments) -> Result<String, String> {
    let entry = entry_of(ground, arguments)?;
    let said = keep(ground, &arguments.name, &entry, arguments.scope.into())?;
    if arguments.client_secret {
        let secret = ground.environment.variable("MCP_CLIENT_SECRET").ok_or(
            "--client-secret: set the variable MCP_CLIENT_SECRET to the secret; it is kept apart from the configuration",
        )?;
        let id = arguments.client_id.as_deref().unwrap_or_default();
        let url = entry.get("url").and_then(Value::as_str).unwrap_or_default();
        let store = CredentialStore::new(&ground.places.config_home, &ground.environment);
        let kept = store.set_client_secret(&expanded(ground, url), id, secret);
        if let Some(complaint) = store.complaint() {
            complain(&complaint);
        }
        kept.map_err(|error| format!("the client secret can't be kept: {error}"))?;
    }
    Ok(said)
}

/// An address with its variables filled in: that is what the secret is found by.
fn expanded(ground: &Ground, url: &str) -> String {
    let lookup = |name: &str| ground.environment.variables.get(name).cloned();
    config::expand::text(url, "url", &lookup, &mut Vec::new())
}

fn entry_of(ground: &Ground, arguments: &AddArguments) -> Result<Value, String> {
    let name = &arguments.name;
    if arguments.client_secret && ground.environment.variable("MCP_CLIENT_SECRET").is_none() {
        return Err("--client-secret: set the variable MCP_CLIENT_SECRET to the secret; it is kept apart from the configuration".to_owned());
    }
    let mut words = arguments.command.clone();
    let is_local = matches!(arguments.transport, Some(TransportWord::Stdio));
    let address = match &arguments.target {
        Some(target) if !is_local && target.contains("://") => Some(target.clone()),
        Some(target) => {
            words.insert(0, target.clone());
            None
        }
        None => None,
    };
    let mut fields = Map::new();
    if let Some(url) = address {
        if !words.is_empty() {
            return Err(format!(
                "a server has an address or a command, not both; write `lathe mcp add {name} {url}` or `lathe mcp add {name} -- {}`",
                words.join(" ")
            ));
        }
        let kind = arguments.transport.map_or_else(
            || if url.starts_with("ws") { "ws" } else { "http" },
            TransportWord::word,
        );
        fields.insert("type".to_owned(), kind.into());
        fields.insert("url".to_owned(), url.into());
        let mut headers = Map::new();
        for header in &arguments.header {
            let (key, value) = header
                .split_once(':')
                .ok_or_else(|| format!("--header {header:?}: write it as \"Name: value\""))?;
            headers.insert(key.trim().to_owned(), value.trim().into());
        }
        if !headers.is_empty() {
            fields.insert("headers".to_owned(), headers.into());
        }
        let mut oauth = Map::new();
        if let Some(id) = &arguments.client_id {
            oauth.insert("clientId".to_owned(), id.as_str().into());
        }
        if let Some(port) = arguments.callback_port {
            oauth.insert("callbackPort".to_owned(), port.into());
        }
        if !oauth.is_empty() {
            fields.insert("oauth".to_owned(), oauth.into());
        }
        if !arguments.env.is_empty() {
            return Err("--env is for local servers; a remote one takes --header".to_owned());
        }
    } else {
        if words.is_empty() {
            return Err(format!(
                "say where the server is: `lathe mcp add {name} https://…` or `lathe mcp add {name} -- COMMAND ARGUMENTS…`"
            ));
        }
        if matches!(
            arguments.transport,
            Some(TransportWord::Http | TransportWord::Sse | TransportWord::Ws)
        ) {
            return Err(format!(
                "{:?} is no address; write it whole, such as https://example.org/mcp",
                words.join(" ")
            ));
        }
        if !arguments.header.is_empty() || arguments.client_id.is_some() {
            return Err(
                "--header and --client-id are for remote servers; a local one takes --env"
                    .to_owned(),
            );
        }
        fields.insert("type".to_owned(), "stdio".into());
        fields.insert("command".to_owned(), words.remove(0).into());
        fields.insert("args".to_owned(), words.into());
        let mut variables = Map::new();
        for pair in &arguments.env {
            let (key, value) = pair
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| format!("--env {pair:?}: write it as NAME=VALUE"))?;
            variables.insert(key.to_owned(), value.into());
        }
        if !variables.is_empty() {
            fields.insert("env".to_owned(), variables.into());
        }
    }
    Ok(Value::Object(fields))
}

/// `lathe mcp add-json`.
pub(super) fn add_json(
    ground: &Ground,
    name: &str,
    text: &str,
    scope: Scope,
) -> Result<String, String> {
    let entry: Value = serde_json::from_str(text).map_err(|error| {
        format!("the entry is not JSON: {error}; put it in single quotes, such as '{{\"command\": \"npx\"}}'")
    })?;
    // A whole file with one server is meant as that server.
    let entry = match entry
        .get("mcpServers")
        .and_then(|servers| servers.get(name))
    {
        Some(inner) => inner.clone(),
        None => entry,
    };
    keep(ground, name, &entry, scope)
}

/// Checks an entry as far as that is possible without its variables, and writes it.
fn keep(ground: &Ground, name: &str, entry: &Value, scope: Scope) -> Result<String, String> {
    let lookup = |variable: &str| Some(format!("value-of-{variable}"));
    // A variable may make up a whole address; only what is wrong without one is complained about.
    if !entry.to_string().contains("${") {
        entry::parse(name, entry, &Place::flag("the new server"), &lookup)
            .map_err(|error| error.to_string())?;
    }
    let before = ground.servers(&[])?;
    let replaced = before
        .list
        .iter()
        .chain(&before.hidden)
        .any(|server| server.name == name && server.scope == scope);
    let file = edit::add(&ground.places, scope, name, entry).map_err(|error| error.to_string())?;
    let mut said = format!(
        "{} the MCP server {name} ({scope}) in {}\n",
        if replaced { "Replaced" } else { "Added" },
        file.display()
    );
    let now = Ground::new(ground.places.environment.clone());
    if let Some(server) = now.servers(&[])?.find(name) {
        if server.scope > scope {
            let _ = writeln!(
                said,
                "Another server of that name ({}) is stronger and counts instead.",
                server.scope
            );
        } else if let Some(why) = server.why_not() {
            let _ = writeln!(said, "It is not started yet: {why}.");
        }
    }
    Ok(said)
}

/// `lathe mcp remove`.
pub(super) fn remove(ground: &Ground, name: &str, scope: Option<Scope>) -> Result<String, String> {
    let servers = ground.servers(&[])?;
    let scopes: Vec<Scope> = servers
        .list
        .iter()
        .chain(&servers.hidden)
        .filter(|server| server.name == name)
        .map(|server| server.scope)
        .collect();
    let scope = match (scope, scopes.as_slice()) {
        (Some(scope), _) => scope,
        (None, []) => return Err(unknown(ground, name)),
        (None, [only]) => *only,
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|scope| scope.name()).collect();
            return Err(format!(
                "there are servers named {name} in several places; say which with --scope: {}",
                names.join(", ")
            ));
        }
    };
    if scope == Scope::Plugin {
        let plugin = name.split(':').nth(1).unwrap_or(name);
        return Err(format!(
            "{name} comes with the plugin {plugin}; `lathe plugin disable {plugin}` takes the plugin away, `lathe mcp disable {name}` switches off the server alone"
        ));
    }
    let (file, removed) =
        edit::remove(&ground.places, scope, name).map_err(|error| error.to_string())?;
    if !removed {
        return Err(format!(
            "there is no server named {name} in {} ({scope})",
            file.display()
        ));
    }
    Ok(format!(
        "Removed the MCP server {name} ({scope}) from {}",
        file.display()
    ))
}

/// What is said of a name that no server has.
pub(super) fn unknown(ground: &Ground, name: &str) -> String {
    let known: Vec<String> = ground
        .servers(&[])
        .map(|servers| servers.list.into_iter().map(|server| server.name).collect())
        .unwrap_or_default();
    if known.is_empty() {
        format!("there is no MCP server named {name}; `lathe mcp add` adds one")
    } else {
        format!(
            "there is no MCP server named {name}; there are: {}",
            known.join(", ")
        )
    }
}

/// `lathe mcp enable`.
pub(super) fn enable(ground: &Ground, name: &str) -> Result<String, String> {
    let servers = ground.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(ground, name))?;
    let choices = Choices::new(&ground.places);
    let failed = |error: config::choices::ChoiceError| error.to_string();
    match &server.standing {
        Standing::Denied(reason) => return Err(format!("{name} can't be switched on: {reason}")),
        Standing::Broken(error) => return Err(error.to_string()),
        _ => {}
    }
    if server.scope == Scope::Project {
        let refused = ground.settings.settings.disabled_mcpjson_servers.iter();
        if refused.flatten().any(|refused| refused == name) {
            return Err(format!(
                "disabledMcpjsonServers in the settings refuses {name}; take it out there (`lathe config list` shows where)"
            ));
        }
        choices.decide(name, &server.entry, true).map_err(failed)?;
    }
    choices.switch(name, true).map_err(failed)?;
    if server.entry.get("disabled") == Some(&Value::Bool(true)) && server.scope != Scope::Plugin {
        let mut entry = server.entry.clone();
        if let Some(fields) = entry.as_object_mut() {
            fields.shift_remove("disabled");
        }
        edit::add(&ground.places, server.scope, name, &entry).map_err(|error| error.to_string())?;
    }
    let mut said = format!("The MCP server {name} is on in this folder.");
    if server.standing == Standing::Untrusted {
        said.push_str(
            " The folder itself is not trusted yet, so it is not started: `lathe trust add` trusts it.",
        );
    }
    Ok(said)
}

/// `lathe mcp disable`.
pub(super) fn disable(ground: &Ground, name: &str) -> Result<String, String> {
    let servers = ground.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(ground, name))?;
    if server.scope == Scope::Managed {
        return Err(format!(
            "{name} is part of the managed settings and can't be switched off"
        ));
    }
    Choices::new(&ground.places)
        .switch(name, false)
        .map_err(|error| error.to_string())?;
    Ok(format!("The MCP server {name} is off in this folder."))
}

/// `lathe mcp reset-project-choices`.
pub(super) fn reset(ground: &Ground) -> Result<String, String> {
    let names = Choices::new(&ground.places)
        .reset()
        .map_err(|error| error.to_string())?;
    Ok(if names.is_empty() {
        "Nothing was approved or refused in this project.".to_owned()
    } else {
        format!("Forgot what was said about: {}", names.join(", "))
    })
}

/// `lathe mcp import`.
pub(super) fn import(
    ground: &Ground,
    from: Option<&Path>,
    scope: Scope,
    preview: bool,
) -> Result<String, String> {
    let files = match from {
        Some(file) => vec![ground.environment.resolve(&file.to_string_lossy())],
        None => import::known_files(&ground.environment),
    };
    if files.is_empty() {
        return Err(
            "no configuration of another client was found; name its file with --from".to_owned(),
        );
    }
    let mut said = String::new();
    let known = ground.servers(&[])?;
    for file in &files {
        let found = match import::read(file, &ground.places.environment.cwd) {
            Ok(found) => found,
            Err(error) if from.is_some() => return Err(error.to_string()),
            Err(_) => continue,
        };
        for server in found {
            let what = server
                .entry
                .get("url")
                .or_else(|| server.entry.get("command"))
                .and_then(Value::as_str)
                .unwrap_or_default();
            if known.find(&server.name).is_some() {
                let _ = writeln!(
                    said,
                    "{}: left alone, there is one of that name already",
                    server.name
                );
                continue;
            }
            if !preview {
                edit::add(&ground.places, scope, &server.name, &server.entry)
                    .map_err(|error| error.to_string())?;
            }
            let _ = writeln!(
                said,
                "{}: {what} ({}{})",
                server.name,
                if preview {
                    "would be taken over from "
                } else {
                    "taken over from "
                },
                file.display()
            );
        }
    }
    if said.is_empty() {
        said.push_str("No servers were found.\n");
    }
    Ok(said)
}

/// The entry as people are shown it: without secrets.
pub(super) fn shown(entry: &Value) -> Value {
    let mut shown = entry.clone();
    for field in ["env", "headers"] {
        if let Some(values) = shown.get_mut(field).and_then(Value::as_object_mut) {
            for (_, value) in values.iter_mut() {
                // A reference to a variable is no secret.
                let is_reference = value.as_str().is_some_and(|text| text.contains("${"));
                if !is_reference {
                    *value = json!("…");
                }
            }
        }
    }
    if let Some(secret) = shown.pointer_mut("/oauth/clientSecret") {
        *secret = json!("…");
    }
    shown
}
