//! Determines the status of a declared server: names, trust, variables, policies and approval.

use super::choices::FolderChoices;
use super::entry::{self, ConfigError};
use super::load::{Declared, FoundEntry, Request, Scope, Servers, Standing};
use super::policy;
use crate::server::{ServerConfig, TransportConfig};
use lathe_settings::{Source, Trust};
use std::collections::BTreeMap;

/// Refuses servers whose tools would have the names of another server's (`a b` and `a_b`); the one with
/// the higher precedence is used.
pub(super) fn refuse_same_tool_names(list: &mut [Declared]) {
    let mut first: BTreeMap<String, (Scope, String)> = BTreeMap::new();
    for server in list.iter() {
        let known = first
            .entry(entry::in_tool_names(&server.name))
            .or_insert_with(|| (server.scope, server.name.clone()));
        if server.scope > known.0 {
            *known = (server.scope, server.name.clone());
        }
    }
    for server in list {
        let Some((_, used)) = first.get(&entry::in_tool_names(&server.name)) else {
            continue;
        };
        if *used != server.name {
            server.standing = Standing::Broken(ConfigError::Field {
                place: server.file.as_deref().map_or_else(
                    || server.scope.to_string(),
                    |file| file.display().to_string(),
                ),
                field: format!("mcpServers.{}", server.name),
                reason: format!("its tools would have the names of those of {used}; rename it"),
            });
        }
    }
}

/// Drops a plugin's server that has the command or address of a configured one.
pub(super) fn drop_copies(servers: &mut Servers) {
    let known: Vec<TransportConfig> = servers
        .list
        .iter()
        .filter(|server| server.scope != Scope::Plugin)
        .filter_map(|server| Some(server.config()?.transport))
        .collect();
    let mut first_of: Vec<TransportConfig> = Vec::new();
    servers.list.retain(|server| {
        if server.scope != Scope::Plugin {
            return true;
        }
        let Some(config) = server.config() else {
            return true;
        };
        let copy = known
            .iter()
            .chain(&first_of)
            .any(|other| same_server(other, &config.transport));
        if copy {
            tracing::info!(
                name = server.name,
                "a plugin's MCP server is configured already"
            );
        } else {
            first_of.push(config.transport);
        }
        !copy
    });
}

fn same_server(one: &TransportConfig, other: &TransportConfig) -> bool {
    match (one, other) {
        (TransportConfig::Stdio(one), TransportConfig::Stdio(other)) => {
            one.command == other.command && one.args == other.args
        }
        _ => match (one.remote(), other.remote()) {
            (Some(one), Some(other)) => {
                one.url.trim_end_matches('/') == other.url.trim_end_matches('/')
            }
            _ => false,
        },
    }
}

pub(super) fn judge(one: FoundEntry, request: Request<'_>, choices: &FolderChoices) -> Declared {
    let lookup = |name: &str| lookup(&one, request, name);
    let standing = standing(&one, request, choices);
    let unset = matches!(standing, Standing::Ready(_))
        .then(|| entry::unset_variables(&one.name, &one.entry, &one.place, &lookup))
        .flatten();
    Declared {
        unset,
        name: one.name,
        scope: one.scope,
        file: one.place.file,
        entry: one.entry,
        standing,
    }
}

/// The variables under which servers find the project's folder.
const PROJECT_VARIABLES: [&str; 2] = ["CLAUDE_PROJECT_DIR", "LATHE_PROJECT_DIR"];

/// The value of a variable in an entry.
fn lookup(one: &FoundEntry, request: Request<'_>, name: &str) -> Option<String> {
    if PROJECT_VARIABLES.contains(&name) {
        return Some(request.places.project.display().to_string());
    }
    one.variables
        .get(name)
        .or_else(|| request.environment.variables.get(name))
        .cloned()
}

fn standing(one: &FoundEntry, request: Request<'_>, choices: &FolderChoices) -> Standing {
    let reason = match one.scope {
        _ if !entry::is_unambiguous(&one.name) => Some(
            "a server's name can't contain `__` or end with `_`, which separates server and tool; rename it",
        ),
        Scope::Plugin | Scope::Dynamic => None,
        _ if !entry::is_name(&one.name) => Some(
            "a server's name has at most 64 characters, without `:`, `\\` and control characters; rename it",
        ),
        _ => None,
    };
    if let Some(reason) = reason {
        return Standing::Broken(ConfigError::Field {
            place: one.place.to_string(),
            field: format!("mcpServers.{}", one.name),
            reason: reason.to_owned(),
        });
    }
    if one.untrusted {
        return Standing::Untrusted;
    }
    let lookup = |name: &str| lookup(one, request, name);
    let mut config = match entry::parse(&one.name, &one.entry, &one.place, &lookup) {
        Ok(config) => config,
        Err(error) => return Standing::Broken(error),
    };
    if let TransportConfig::Stdio(program) = &mut config.transport {
        for name in PROJECT_VARIABLES {
            let project = || request.places.project.display().to_string();
            program.env.entry(name.to_owned()).or_insert_with(project);
        }
    }
    let settings = &request.settings.settings;
    let subject = policy_subject(&one.name, &config);
    let allowed = settings
        .allowed_mcp_servers
        .as_deref()
        .filter(|_| one.scope != Scope::Managed);
    let denied = settings.denied_mcp_servers.as_deref().unwrap_or_default();
    if let Some(reason) = policy::refusal(&subject, allowed, denied) {
        return Standing::Denied(reason);
    }
    if one.scope == Scope::Project
        && let Some(standing) = approval(one, request, choices)
    {
        return standing;
    }
    let switched_off = choices.disabled.contains(&one.name) && one.scope != Scope::Managed;
    if config.disabled || switched_off {
        return Standing::Disabled(config);
    }
    Standing::Ready(config)
}

/// Why managed settings deny a server that is not declared in a file; `None` if they don't.
#[must_use]
pub fn refusal(
    name: &str,
    config: &ServerConfig,
    settings: &lathe_settings::Settings,
) -> Option<String> {
    policy::refusal(
        &policy_subject(name, config),
        settings.allowed_mcp_servers.as_deref(),
        settings.denied_mcp_servers.as_deref().unwrap_or_default(),
    )
}

/// The properties of a server that a policy checks.
fn policy_subject<'a>(name: &'a str, config: &'a ServerConfig) -> policy::Subject<'a> {
    let command = match &config.transport {
        TransportConfig::Stdio(program) => Some(
            std::iter::once(program.command.as_str())
                .chain(program.args.iter().map(String::as_str))
                .collect(),
        ),
        _ => None,
    };
    policy::Subject {
        name,
        command,
        url: config.transport.remote().map(|remote| remote.url.as_str()),
    }
}

/// The status of a project's server that is not approved; `None` if it is.
fn approval(one: &FoundEntry, request: Request<'_>, choices: &FolderChoices) -> Option<Standing> {
    let settings = &request.settings.settings;
    let named = |list: &Option<Vec<String>>| list.iter().flatten().any(|name| *name == one.name);
    if named(&settings.disabled_mcpjson_servers) || choices.refused.contains(&one.name) {
        return Some(Standing::Refused);
    }
    // Selecting the project's settings explicitly approves their servers.
    let named_by_caller = matches!(&request.options.trust, Trust::Headless { named } if named.contains(&Source::Project));
    let approved = settings.enable_all_project_mcp_servers == Some(true)
        || named(&settings.enabled_mcpjson_servers)
        || choices.approves(&one.name, &one.entry)
        || named_by_caller;
    (!approved).then_some(Standing::NeedsApproval)
}
