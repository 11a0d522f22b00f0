//! Hooks that are addresses: the input goes out by POST, the answer comes back as the body.

use crate::answer::{self, HookAnswer};
use futures::StreamExt as _;
use lathe_net::{ClientOptions, NetError, Network, Reach};
use lathe_protocol::hook::HookEvent;
use lathe_protocol::wildcard;
use lathe_settings::Environment;
use lathe_settings::schema::{HookDefinition, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How much of an answer is read.
const LARGEST_BODY: usize = 1024 * 1024;

/// The client for an address. It follows no redirects: a hook's address is the one that was written
/// down, and not where that one points today. This machine is reached without a proxy.
fn client(
    address: &reqwest::Url,
    environment: &BTreeMap<String, String>,
) -> Result<reqwest::Client, NetError> {
    let options = ClientOptions {
        reach: Reach::by_host(address),
        user_agent: Some(concat!("lathe/", env!("CARGO_PKG_VERSION"))),
        ..ClientOptions::default()
    };
    Network::of(&Environment::of_variables(environment.clone())).shared_client(&options)
}

/// The limits of http hooks in the settings; `None` is no limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpLimits {
    urls: Option<Arc<[String]>>,
    /// Variables whose values may go into headers.
    variables: Option<Arc<[String]>>,
}

impl HttpLimits {
    pub(crate) fn of(settings: &Settings) -> Self {
        let list = |list: &Option<Vec<String>>| list.clone().map(Arc::from);
        Self {
            urls: list(&settings.allowed_http_hook_urls),
            variables: list(&settings.http_hook_allowed_env_vars),
        }
    }

    /// The variables that a hook lists and that settings allow.
    fn variables_of(&self, hook: &HookDefinition) -> Vec<String> {
        let mut listed = hook.allowed_env_vars.clone().unwrap_or_default();
        if let Some(allowed) = &self.variables {
            listed.retain(|name| allowed.contains(name));
        }
        listed
    }
}

/// Why an address gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{address} is not among allowedHttpHookUrls")]
    NotAllowed { address: String },
    #[error("{0}")]
    NoClient(String),
    #[error("{address}: {reason}")]
    Failed { address: String, reason: String },
    #[error("{address} answers with more than {} MB", LARGEST_BODY / 1024 / 1024)]
    TooLong { address: String },
    #[error("{address} answers {status}")]
    Status {
        address: String,
        status: reqwest::StatusCode,
    },
}

/// Sends the input and reads the answer.
///
/// # Errors
/// When the address isn't allowed, can't be reached, or answers with an error.
pub(crate) async fn post(
    event: HookEvent,
    hook: &HookDefinition,
    limits: &HttpLimits,
    environment: &BTreeMap<String, String>,
    body: String,
    limit: Duration,
) -> Result<(HookAnswer, String), HttpError> {
    let address = hook.url.as_deref().unwrap_or_default();
    let failed = |reason: String| HttpError::Failed {
        address: address.to_owned(),
        reason,
    };
    if let Some(allowed) = &limits.urls
        && !allowed.iter().any(|pattern| allows(pattern, address))
    {
        return Err(HttpError::NotAllowed {
            address: address.to_owned(),
        });
    }
    let target = reqwest::Url::parse(address).map_err(|error| failed(error.to_string()))?;
    let mut request = client(&target, environment)
        .map_err(|error| HttpError::NoClient(error.to_string()))?
        .post(target)
        .header("content-type", "application/json")
        .timeout(limit)
        .body(body);
    let allowed = limits.variables_of(hook);
    for (name, value) in hook.headers.iter().flatten() {
        request = request.header(name, filled_in(value, &allowed, environment));
    }
    let response = request
        .send()
        .await
        .map_err(|error| failed(plain(&error)))?;
    let status = response.status();
    let mut stream = response.bytes_stream();
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| failed(plain(&error)))?;
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LARGEST_BODY {
            return Err(HttpError::TooLong {
                address: address.to_owned(),
            });
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !status.is_success() {
        return Err(HttpError::Status {
            address: address.to_owned(),
            status,
        });
    }
    Ok((answer::of_text(event, &text), text))
}

fn plain(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "took too long".to_owned();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}

/// Whether an address fits a pattern. A `*` stands for anything within the port or the path, and in front of the end of a
/// host's name; it never reaches from one into another. A `*` alone is every address.
fn allows(pattern: &str, address: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let Ok(url) = reqwest::Url::parse(address) else {
        return false;
    };
    let Some((scheme, rest)) = pattern.split_once("://") else {
        return false;
    };
    if !scheme.eq_ignore_ascii_case(url.scheme())
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return false;
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let actual = url.port().map(|port| port.to_string()).unwrap_or_default();
    let usual = url.port_or_known_default().map(|port| port.to_string());
    let port_fits = match port {
        None => actual.is_empty(),
        Some(port) => wildcard::matches(port, usual.as_deref().unwrap_or_default()),
    };
    let mut target = url.path().to_owned();
    if let Some(query) = url.query() {
        target.push('?');
        target.push_str(query);
    }
    port_fits
        && host_fits(
            &host.to_ascii_lowercase(),
            url.host_str().unwrap_or_default(),
        )
        && wildcard::matches(path, &target)
}

/// Whether a host is the one of a pattern: by name, `*`, or `*.` and the end of its name.
fn host_fits(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(end) => end.starts_with('.') && !end.contains('*') && host.ends_with(end),
        None => pattern == host,
    }
}

/// Fills `$NAME` and `${NAME}` in, for names that the hook lists; others become empty.
fn filled_in(text: &str, allowed: &[String], environment: &BTreeMap<String, String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, tail) = match after
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
        {
            Some((name, tail)) => (name, tail),
            None => {
                let end = after
                    .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
                    .unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            result.push('$');
        } else if allowed.iter().any(|allowed| allowed == name) {
            result.push_str(environment.get(name).map_or("", String::as_str));
        }
        rest = tail;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_what_they_say() {
        for (pattern, address, fits) in [
            (
                "https://hooks.example.com/*",
                "https://hooks.example.com/a/b",
                true,
            ),
            (
                "https://hooks.example.com/*",
                "https://hooks.example.com.evil.org/a",
                false,
            ),
            ("*", "https://anything.example", true),
            (
                "http://localhost:*/hook",
                "http://localhost:8080/hook",
                true,
            ),
            (
                "http://localhost:*/hook",
                "http://localhost:8080/other",
                false,
            ),
            (
                "https://*.example.com/hook",
                "https://a.example.com/hook",
                true,
            ),
            (
                "https://*.example.com/hook",
                "https://evil.org/x.example.com/hook",
                false,
            ),
            (
                "https://*.example.com/hook",
                "https://evil.org/?.example.com/hook",
                false,
            ),
            (
                "https://*.example.com/*",
                "https://user@evil.org#.example.com/",
                false,
            ),
            (
                "https://hooks.example.com*",
                "https://hooks.example.com.evil.org/",
                false,
            ),
            (
                "https://hooks.example.com",
                "https://hooks.example.com/",
                true,
            ),
            (
                "https://hooks.example.com/*",
                "https://hooks.example.com:8443/a",
                false,
            ),
            (
                "https://hooks.example.com/*",
                "http://hooks.example.com/a",
                false,
            ),
            (
                "https://hooks.example.com/*",
                "https://a:b@hooks.example.com/a",
                false,
            ),
            (
                "https://HOOKS.example.com/*",
                "https://hooks.EXAMPLE.com/a",
                true,
            ),
        ] {
            assert_eq!(allows(pattern, address), fits, "{pattern} {address}");
        }
    }

    #[test]
    fn headers_get_only_the_variables_that_the_hook_lists() {
        let environment = BTreeMap::from([
            ("TOKEN".to_owned(), "t".to_owned()),
            ("SECRET".to_owned(), "s".to_owned()),
        ]);
        let fill = |text| filled_in(text, &["TOKEN".to_owned()], &environment);
        assert_eq!(fill("Bearer $TOKEN"), "Bearer t");
        assert_eq!(fill("Bearer ${TOKEN}!"), "Bearer t!");
        assert_eq!(fill("x $SECRET ${SECRET} y"), "x   y");
        assert_eq!(fill("costs 5$"), "costs 5$");
    }
}
