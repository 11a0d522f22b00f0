//! MCP servers of other agents, without their secrets.

use crate::plan::Plan;
use lathe_mcp::config::ConfigLocation;
use lathe_mcp::config::import;
use lathe_settings::Source;
use lathe_settings::environment::looks_secret;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Plans the servers of a table.
pub(crate) fn servers(plan: &mut Plan, source: Source, file: &Path, table: &Map<String, Value>) {
    let place = plan.shown(file);
    for (name, entry) in table {
        let label = format!("MCP server {name}");
        if entry.get("enabled") == Some(&Value::Bool(false))
            || entry.get("disabled") == Some(&Value::Bool(true))
        {
            plan.left(label, "it is switched off there");
            continue;
        }
        let text = json!({"mcpServers": {name: prepared(entry)}}).to_string();
        let location = ConfigLocation::file(file);
        match import::servers(&text, &location, Path::new("/")) {
            Ok(found) => {
                for server in found {
                    let mut entry = server.entry;
                    let secrets = withhold(&server.name, &mut entry);
                    let mut change = String::new();
                    if server.name != *name {
                        change = format!("under the name {}", server.name);
                    }
                    plan.server(source, &server.name, entry, change);
                    for (field, variable) in secrets {
                        plan.secret(
                            format!("{field} of {name}"),
                            format!("it stays in {place}; set the variable {variable}"),
                        );
                    }
                }
            }
            Err(_) => plan.left(label, "it has neither a command nor an address"),
        }
    }
}

/// An entry with the names that our reader knows.
fn prepared(entry: &Value) -> Value {
    let mut entry = entry.clone();
    let Some(fields) = entry.as_object_mut() else {
        return entry;
    };
    for (theirs, ours) in [("environment", "env"), ("http_headers", "headers")] {
        if let Some(value) = fields.remove(theirs) {
            fields.entry(ours.to_owned()).or_insert(value);
        }
    }
    if let Some(variable) = fields.remove("bearer_token_env_var")
        && let Some(variable) = variable.as_str()
    {
        let headers = fields.entry("headers".to_owned()).or_insert(json!({}));
        headers["Authorization"] = Value::from(format!("Bearer ${{{variable}}}"));
    }
    if let Some(Value::Object(from)) = fields.remove("env_http_headers") {
        let headers = fields.entry("headers".to_owned()).or_insert(json!({}));
        for (header, variable) in from {
            let variable = variable.as_str().unwrap_or_default();
            headers[&header] = Value::from(format!("${{{variable}}}"));
        }
    }
    entry
}

/// Replaces secret values by references to variables: the field and the variable of each.
fn withhold(server: &str, entry: &mut Value) -> Vec<(String, String)> {
    let mut withheld = Vec::new();
    for table in ["env", "headers"] {
        let Some(fields) = entry.get_mut(table).and_then(Value::as_object_mut) else {
            continue;
        };
        for (name, value) in fields {
            let Some(text) = value.as_str() else { continue };
            if !is_secret(name, text, table == "headers") || text.contains("${") {
                continue;
            }
            // opencode writes references as {env:NAME}.
            if let Some((before, variable)) = text.split_once("{env:")
                && let Some(variable) = variable.strip_suffix('}')
            {
                *value = Value::from(format!("{before}${{{variable}}}"));
                continue;
            }
            let variable = if table == "headers" {
                variable_for(&format!("{server}_{name}"))
            } else {
                variable_for(name)
            };
            let kept = text.split_once(' ').filter(|(scheme, _)| {
                table == "headers"
                    && ["bearer", "basic", "token"].contains(&scheme.to_lowercase().as_str())
            });
            *value = Value::from(match kept {
                Some((scheme, _)) => format!("{scheme} ${{{variable}}}"),
                None => format!("${{{variable}}}"),
            });
            withheld.push((format!("{table}.{name}"), variable));
        }
    }
    withheld
}

fn is_secret(name: &str, value: &str, header: bool) -> bool {
    let name = name.replace('-', "_");
    let lower = name.to_lowercase();
    looks_secret(&name)
        || (header && ["authorization", "cookie"].contains(&lower.as_str()))
        || ["token", "secret", "apikey", "api_key"]
            .iter()
            .any(|word| lower.contains(word))
        || ["sk-", "ghp_", "github_pat_", "xoxb-", "AKIA", "AIza"]
            .iter()
            .any(|beginning| value.starts_with(beginning))
}

fn variable_for(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}
