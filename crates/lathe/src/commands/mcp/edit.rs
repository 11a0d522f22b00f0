//! Adds, removes, enables, disables and imports servers.

use super::{AddArguments, McpConfiguration, TransportWord};
use crate::error::{CliError, Kinded as _, notice};
use lathe_mcp::auth::CredentialStore;
use lathe_mcp::config::{self, Choices, ConfigLocation, Scope, Standing, edit, entry, import};
use lathe_settings::Variable;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// `lathe mcp add`.
pub(super) fn add(loaded: &McpConfiguration, arguments: &AddArguments) -> Result<String, CliError> {
    let entry = entry_of(loaded, arguments)?;
    let said = keep(loaded, &arguments.name, &entry, arguments.scope.into())?;
    if arguments.client_secret {
        let secret = client_secret(loaded)?;
        let id = arguments.client_id.as_deref().unwrap_or_default();
        let url = entry.get("url").and_then(Value::as_str).unwrap_or_default();
        let store = CredentialStore::new(&loaded.places.config_home, &loaded.environment);
        let kept = store.set_client_secret(&expanded(loaded, url), id, secret);
        if let Some(complaint) = store.complaint() {
            notice(&complaint);
        }
        kept.map_err(|error| {
            CliError::usage(format!("the client secret can't be stored: {error}"))
        })?;
    }
    Ok(said)
}

/// The secret of `--client-secret`. It is stored apart from the configuration.
fn client_secret(loaded: &McpConfiguration) -> Result<&str, CliError> {
    loaded
        .environment
        .get(Variable::McpClientSecret)
        .ok_or_else(|| {
            CliError::usage("--client-secret: MCP_CLIENT_SECRET is not set")
                .hint("set the variable to the secret; it is stored apart from the configuration")
        })
}

/// A URL with its variables expanded: the secret is stored under it.
fn expanded(loaded: &McpConfiguration, url: &str) -> String {
    let lookup = |name: &str| loaded.environment.variables.get(name).cloned();
    config::expand::text(url, "url", &lookup, &mut Vec::new())
}

/// The entry that `lathe mcp add` writes.
fn entry_of(loaded: &McpConfiguration, arguments: &AddArguments) -> Result<Value, CliError> {
    if arguments.client_secret {
        client_secret(loaded)?;
    }
    let is_local = matches!(arguments.transport, Some(TransportWord::Stdio));
    let mut words = arguments.command.clone();
    let fields = match &arguments.target {
        Some(url) if !is_local && url.contains("://") => remote_entry(url, &words, arguments)?,
        target => {
            words.splice(0..0, target.clone());
            local_entry(words, arguments)?
        }
    };
    Ok(Value::Object(fields))
}

fn remote_entry(
    url: &str,
    command: &[String],
    arguments: &AddArguments,
) -> Result<Map<String, Value>, CliError> {
    if !command.is_empty() {
        let name = &arguments.name;
        return Err(
            CliError::usage("a server has a URL or a command, not both").hint(format!(
                "write `lathe mcp add {name} {url}` or `lathe mcp add {name} -- {}`",
                command.join(" ")
            )),
        );
    }
    if !arguments.env.is_empty() {
        return Err(CliError::usage(
            "--env is for local servers; a remote one takes --header",
        ));
    }
    let mut fields = Map::new();
    // Without a transport, one that doesn't serve streamable HTTP is asked for server-sent events. A file for
    // everyone names it: other programs take an entry without one for a local program.
    let kind = match arguments.transport {
        Some(transport) => Some(transport.word()),
        None if url.starts_with("ws") => Some("ws"),
        None => (Scope::from(arguments.scope) == Scope::Project).then_some("http"),
    };
    if let Some(kind) = kind {
        fields.insert("type".to_owned(), kind.into());
    }
    fields.insert("url".to_owned(), url.into());
    let mut headers = Map::new();
    for header in &arguments.header {
        let (key, value) = header.split_once(':').ok_or_else(|| {
            CliError::usage(format!("--header {header:?}: write it as \"Name: value\""))
        })?;
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
    Ok(fields)
}

fn local_entry(
    mut words: Vec<String>,
    arguments: &AddArguments,
) -> Result<Map<String, Value>, CliError> {
    if words.is_empty() {
        let name = &arguments.name;
        return Err(CliError::usage(format!("no URL or command for the server {name}")).hint(format!(
            "write `lathe mcp add {name} https://…` or `lathe mcp add {name} -- COMMAND ARGUMENTS…`"
        )));
    }
    if matches!(
        arguments.transport,
        Some(TransportWord::Http | TransportWord::Sse | TransportWord::Ws)
    ) {
        return Err(
            CliError::usage(format!("{:?} is not a URL", words.join(" ")))
                .hint("write it with its scheme, such as https://example.org/mcp"),
        );
    }
    if !arguments.header.is_empty() || arguments.client_id.is_some() {
        return Err(CliError::usage(
            "--header and --client-id are for remote servers; a local one takes --env",
        ));
    }
    let mut fields = Map::new();
    fields.insert("type".to_owned(), "stdio".into());
    fields.insert("command".to_owned(), words.remove(0).into());
    fields.insert("args".to_owned(), words.into());
    let mut variables = Map::new();
    for pair in &arguments.env {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| CliError::usage(format!("--env {pair:?}: write it as NAME=VALUE")))?;
        variables.insert(key.to_owned(), value.into());
    }
    if !variables.is_empty() {
        fields.insert("env".to_owned(), variables.into());
    }
    Ok(fields)
}

/// `lathe mcp add-json`.
pub(super) fn add_json(
    loaded: &McpConfiguration,
    name: &str,
    text: &str,
    scope: Scope,
) -> Result<String, CliError> {
    let entry: Value = serde_json::from_str(text).map_err(|error| {
        CliError::usage(format!("the entry is not JSON: {error}"))
            .hint("put it in single quotes, such as '{\"command\": \"npx\"}'")
    })?;
    // The text may be a whole file that holds the server.
    let entry = match entry
        .get("mcpServers")
        .and_then(|servers| servers.get(name))
    {
        Some(inner) => inner.clone(),
        None => entry,
    };
    keep(loaded, name, &entry, scope)
}

/// Checks an entry, as far as that is possible without its variables, and writes it.
fn keep(
    loaded: &McpConfiguration,
    name: &str,
    entry: &Value,
    scope: Scope,
) -> Result<String, CliError> {
    let lookup = |variable: &str| Some(format!("value-of-{variable}"));
    // A variable may stand for a whole URL, so only entries without variables are checked.
    if !entry.to_string().contains("${") {
        entry::parse(
            name,
            entry,
            &ConfigLocation::flag("the new server"),
            &lookup,
        )
        .or_usage()?;
    }
    let before = loaded.servers(&[])?;
    let replaced = before
        .list
        .iter()
        .chain(&before.hidden)
        .any(|server| server.name == name && server.scope == scope);
    let file = edit::add(&loaded.places, scope, name, entry).or_failure()?;
    let mut said = format!(
        "{} the MCP server {name} ({scope}) in {}\n",
        if replaced { "Replaced" } else { "Added" },
        file.display()
    );
    let now = McpConfiguration::new(loaded.places.environment.clone());
    if let Some(server) = now.servers(&[])?.find(name) {
        if server.scope > scope {
            let _ = writeln!(
                said,
                "Another server of that name ({}) takes precedence.",
                server.scope
            );
        } else if let Some(why) = server.why_not() {
            let _ = writeln!(said, "It is not started yet: {why}.");
        }
    }
    Ok(said)
}

/// `lathe mcp remove`.
pub(super) fn remove(
    loaded: &McpConfiguration,
    name: &str,
    scope: Option<Scope>,
) -> Result<String, CliError> {
    let servers = loaded.servers(&[])?;
    let scopes: Vec<Scope> = servers
        .list
        .iter()
        .chain(&servers.hidden)
        .filter(|server| server.name == name)
        .map(|server| server.scope)
        .collect();
    let scope = match (scope, scopes.as_slice()) {
        (Some(scope), _) => scope,
        (None, []) => return Err(unknown(loaded, name)),
        (None, [only]) => *only,
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|scope| scope.name()).collect();
            return Err(CliError::usage(format!("several servers are named {name}"))
                .hint(format!("choose one with --scope: {}", names.join(", "))));
        }
    };
    if scope == Scope::Plugin {
        let plugin = name.split(':').nth(1).unwrap_or(name);
        return Err(
            CliError::usage(format!("{name} is part of the plugin {plugin}")).hint(format!(
                "`lathe plugin disable {plugin}` disables the plugin, `lathe mcp disable {name}` the server alone"
            )),
        );
    }
    let (file, removed) = edit::remove(&loaded.places, scope, name).or_failure()?;
    if !removed {
        let error = CliError::usage(format!(
            "there is no server named {name} in {} ({scope})",
            file.display()
        ));
        let elsewhere = servers.list.iter().chain(&servers.hidden);
        let foreign = elsewhere
            .filter(|server| server.name == name && server.scope == scope)
            .find_map(|server| server.file.as_ref().filter(|other| **other != file));
        return Err(match foreign {
            Some(foreign) => error.hint(format!(
                "it is in {}, which Lathe doesn't write; `lathe mcp disable {name}` switches it off here",
                foreign.display()
            )),
            None => error,
        });
    }
    Ok(format!(
        "Removed the MCP server {name} ({scope}) from {}",
        file.display()
    ))
}

/// The error for a name that no server has.
pub(super) fn unknown(loaded: &McpConfiguration, name: &str) -> CliError {
    let known: Vec<String> = loaded
        .servers(&[])
        .map(|servers| servers.list.into_iter().map(|server| server.name).collect())
        .unwrap_or_default();
    let error = CliError::failure(format!("there is no MCP server named {name}"));
    if known.is_empty() {
        error.hint("`lathe mcp add` adds one")
    } else {
        error.hint(format!("configured servers: {}", known.join(", ")))
    }
}

/// `lathe mcp enable`.
pub(super) fn enable(loaded: &McpConfiguration, name: &str) -> Result<String, CliError> {
    let servers = loaded.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(loaded, name))?;
    let choices = Choices::new(&loaded.places);
    match &server.standing {
        Standing::Denied(reason) => {
            return Err(CliError::usage(format!(
                "{name} can't be enabled: {reason}"
            )));
        }
        Standing::Broken(error) => return Err(CliError::usage(error.to_string())),
        _ => {}
    }
    if server.scope == Scope::Project {
        let refused = loaded.settings.settings.disabled_mcpjson_servers.iter();
        if refused.flatten().any(|refused| refused == name) {
            return Err(CliError::usage(format!(
                "disabledMcpjsonServers in the settings refuses {name}"
            ))
            .hint("remove it there; `lathe config list` shows the file"));
        }
        choices.decide(name, &server.entry, true).or_failure()?;
    }
    choices.switch(name, true).or_failure()?;
    if server.entry.get("disabled") == Some(&Value::Bool(true)) && server.scope != Scope::Plugin {
        let mut entry = server.entry.clone();
        if let Some(fields) = entry.as_object_mut() {
            fields.shift_remove("disabled");
        }
        edit::add(&loaded.places, server.scope, name, &entry).or_failure()?;
    }
    let mut said = format!("The MCP server {name} is enabled in this folder.");
    if server.standing == Standing::Untrusted {
        said.push_str(
            " The folder is not trusted yet, so it is not started: trust it with `lathe trust add`.",
        );
    }
    Ok(said)
}

/// `lathe mcp disable`.
pub(super) fn disable(loaded: &McpConfiguration, name: &str) -> Result<String, CliError> {
    let servers = loaded.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(loaded, name))?;
    if server.scope == Scope::Managed {
        return Err(CliError::usage(format!(
            "{name} is part of the managed settings and can't be disabled"
        )));
    }
    Choices::new(&loaded.places)
        .switch(name, false)
        .or_failure()?;
    Ok(format!("The MCP server {name} is disabled in this folder."))
}

/// `lathe mcp reset-project-choices`.
pub(super) fn reset(loaded: &McpConfiguration) -> Result<String, CliError> {
    let names = Choices::new(&loaded.places).reset().or_failure()?;
    Ok(if names.is_empty() {
        "Nothing was approved or refused in this project.".to_owned()
    } else {
        format!("Cleared the decisions about: {}", names.join(", "))
    })
}

/// `lathe mcp import`.
pub(super) fn import(
    loaded: &McpConfiguration,
    from: Option<&Path>,
    scope: Scope,
    preview: bool,
) -> Result<String, CliError> {
    let files = match from {
        Some(file) => vec![loaded.environment.resolve(&file.to_string_lossy())],
        None => import::known_files(&loaded.environment),
    };
    if files.is_empty() {
        return Err(
            CliError::usage("no configuration of another client was found")
                .hint("name its file with --from"),
        );
    }
    let mut said = String::new();
    let known = loaded.servers(&[])?;
    for file in &files {
        let found = match import::read(file, &loaded.places.environment.cwd) {
            Ok(found) => found,
            Err(error) if from.is_some() => return Err(CliError::usage(error)),
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
                    "{}: skipped, a server of that name exists",
                    server.name
                );
                continue;
            }
            if !preview {
                edit::add(&loaded.places, scope, &server.name, &server.entry).or_failure()?;
            }
            let _ = writeln!(
                said,
                "{}: {what} ({}{})",
                server.name,
                if preview {
                    "would be imported from "
                } else {
                    "imported from "
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

/// An entry for display, without secrets.
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
