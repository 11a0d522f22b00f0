//! The address of a remote server and the headers of its requests: those of the configuration, and
//! those printed by a helper command.

use crate::server::Remote;
use lathe_process::{Command, Ending, Job};
use lathe_settings::Environment;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// The time limit of a helper.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a remote server's address or headers can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("{0:?} is not an http:// or https:// address")]
    Address(String),
    #[error("{0:?} is not a valid header name")]
    Name(String),
    #[error("the value of the header {0} contains characters that are not allowed")]
    Value(String),
    #[error("headersHelper: {0}")]
    HelperStart(#[source] lathe_process::StartError),
    #[error("headersHelper took longer than {} s", HELPER_TIMEOUT.as_secs())]
    HelperTimeout,
    #[error("headersHelper failed (exit code {0})")]
    HelperFailed(i32),
    #[error("headersHelper failed (ended by a signal)")]
    HelperSignalled,
    #[error("headersHelper printed too much output")]
    HelperFlooded,
    #[error("headersHelper did not print a JSON object")]
    HelperOutput,
    #[error("headersHelper: {0} is not a string")]
    HelperValue(String),
}

/// Parses an HTTP address.
pub(crate) fn address(text: &str) -> Result<Url, HeaderError> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| HeaderError::Address(text.to_owned()))
}

/// The headers of a server's requests.
pub(crate) async fn of(
    remote: &Remote,
    environment: &Environment,
) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        insert(&mut headers, name, value)?;
    }
    if let Some(command) = &remote.headers_helper {
        let printed = run(command, remote, environment).await?;
        let Ok(Value::Object(fields)) = serde_json::from_str(&printed) else {
            return Err(HeaderError::HelperOutput);
        };
        for (name, value) in fields {
            let value = value
                .as_str()
                .ok_or_else(|| HeaderError::HelperValue(name.clone()))?;
            insert(&mut headers, &name, value)?;
        }
    }
    Ok(headers)
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), HeaderError> {
    let header = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| HeaderError::Name(name.to_owned()))?;
    let mut value =
        HeaderValue::from_str(value.trim()).map_err(|_| HeaderError::Value(name.to_owned()))?;
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

async fn run(
    command: &str,
    remote: &Remote,
    environment: &Environment,
) -> Result<String, HeaderError> {
    let command = Command::shell(command, Some("/bin/sh"))
        .without_inherited_environment()
        .variables(&environment.variables)
        .variable("MCP_SERVER_URL", &remote.url)
        .directory(&environment.cwd);
    let finished = lathe_process::run(Job::new(command, HELPER_TIMEOUT))
        .await
        .map_err(HeaderError::HelperStart)?;
    match finished.ending {
        Ending::Exited(0) => Ok(finished.stdout),
        Ending::TimedOut => Err(HeaderError::HelperTimeout),
        Ending::Exited(code) => Err(HeaderError::HelperFailed(code)),
        Ending::Signalled => Err(HeaderError::HelperSignalled),
        Ending::Flooded | Ending::Cancelled => Err(HeaderError::HelperFlooded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_helper_adds_headers_and_its_failure_is_reported() {
        let environment = Environment {
            variables: [("TOKEN".to_owned(), "t".to_owned())].into(),
            home: None,
            cwd: std::env::temp_dir(),
            ..Environment::default()
        };
        let mut remote = Remote::new("http://127.0.0.1/");
        remote.headers = vec![("X-One".to_owned(), "1".to_owned())];
        remote.headers_helper =
            Some(r#"printf '{"Authorization":"Bearer %s"}' "$TOKEN""#.to_owned());
        let headers = of(&remote, &environment).await.unwrap();
        assert_eq!(headers["x-one"], "1");
        assert_eq!(headers["authorization"], "Bearer t");
        assert!(headers["authorization"].is_sensitive());
        remote.headers_helper = Some("exit 3".to_owned());
        assert!(
            of(&remote, &environment)
                .await
                .unwrap_err()
                .to_string()
                .contains("failed")
        );
        remote.headers_helper = Some("echo no".to_owned());
        assert!(
            of(&remote, &environment)
                .await
                .unwrap_err()
                .to_string()
                .contains("JSON")
        );
        assert!(address("ftp://x").is_err() && address("http://x/y").is_ok());
    }
}
