//! The network and the credentials of commands in the sandbox, from settings and rules.

use super::{path_of, real};
use crate::context::PermissionContext;
use lathe_protocol::permission::Behavior;
use lathe_sandbox::{CredentialPlace, CredentialSource, HostRule, NetworkPolicy, UnixSockets};
use lathe_settings::schema::{CredentialFile, SandboxSettings};

pub(super) fn network(
    settings: &SandboxSettings,
    context: &PermissionContext,
    problems: &mut Vec<String>,
) -> NetworkPolicy {
    let configured = settings.network.clone().unwrap_or_default();
    let mut rules = |texts: &[String]| -> Vec<HostRule> {
        let parsed = texts.iter().map(|text| HostRule::parse(text));
        parsed
            .filter_map(|rule| rule.map_err(|error| problems.push(error.to_string())).ok())
            .collect()
    };
    let mut allowed = rules(&configured.allowed_domains);
    let mut denied = rules(&configured.denied_domains);
    for (behavior, list) in [
        (Behavior::Allow, &mut allowed),
        (Behavior::Deny, &mut denied),
    ] {
        for rule in context.rules.with(behavior) {
            if rule.value.tool_name != "WebFetch" {
                continue;
            }
            let content = rule.value.rule_content.as_deref().unwrap_or_default();
            let host = content.strip_prefix("domain:").map(HostRule::parse);
            list.extend(host.and_then(Result::ok));
        }
    }
    let sockets = configured.allow_unix_sockets.iter();
    NetworkPolicy {
        allowed,
        denied,
        strict: configured.strict_allowlist == Some(true),
        unix_sockets: match (configured.allow_all_unix_sockets, sockets.len()) {
            (Some(true), _) => UnixSockets::All,
            (_, 0) => UnixSockets::None,
            _ => UnixSockets::Listed(sockets.map(|text| path_of(text, context)).collect()),
        },
        no_listening: configured.allow_local_binding == Some(false),
        own_http_proxy: configured.http_proxy_port,
        own_socks_proxy: configured.socks_proxy_port,
    }
}

/// The credentials that commands use without seeing them.
pub(super) fn credentials(
    settings: &SandboxSettings,
    context: &PermissionContext,
    problems: &mut Vec<String>,
) -> Vec<CredentialSource> {
    let Some(configured) = &settings.credentials else {
        return Vec::new();
    };
    let mut sources: Vec<(&str, CredentialSource)> = Vec::new();
    let mut add = |name, place| {
        let hosts = Vec::new();
        sources.push((name, CredentialSource { place, hosts }));
    };
    for name in &configured.env {
        add(name.as_str(), CredentialPlace::Variable(name.clone()));
    }
    for file in &configured.files {
        let pattern = match file {
            CredentialFile::Whole(_) => None,
            CredentialFile::Part { pattern, .. } => Some(pattern.clone()),
        };
        let path = real(&path_of(file.path(), context));
        add(file.path(), CredentialPlace::File { path, pattern });
    }
    for (host, names) in &configured.hosts {
        let rule = match HostRule::parse(host) {
            Ok(rule) if host.trim() != "*" => rule,
            Ok(_) => {
                problems.push("sandbox.credentials.hosts: `*` would give credentials to everybody; name the hosts".to_owned());
                continue;
            }
            Err(error) => {
                problems.push(format!("sandbox.credentials.hosts: {error}"));
                continue;
            }
        };
        for name in names {
            let mut known = sources
                .iter_mut()
                .filter(|(known, _)| known == name)
                .peekable();
            if known.peek().is_none() {
                problems.push(format!(
                    "sandbox.credentials.hosts: `{name}` of {host} is neither in `env` nor in `files`"
                ));
            }
            known.for_each(|(_, source)| source.hosts.push(rule.clone()));
        }
    }
    sources.into_iter().map(|(_, source)| source).collect()
}
