//! The address of a remote server, and the headers that go with every request: those of the
//! configuration, and those that a helper command prints.

use crate::server::Remote;
use lathe_process::{Command, Ending, Job};
use lathe_settings::Environment;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// How long a helper may take.
const HELPER: Duration = Duration::from_secs(10);

/// Reads an address.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| format!("{text:?} is no http:// or https:// address"))
}

/// The headers of a server.
pub(crate) async fn of(remote: &Remote, environment: &Environment) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        insert(&mut headers, name, value)?;
    }
    if let Some(command) = &remote.headers_helper {
        let printed = run(command, remote, environment).await?;
        let Ok(Value::Object(fields)) = serde_json::from_str(&printed) else {
            return Err("headersHelper: it didn't print a JSON object".to_owned());
        };
        for (name, value) in fields {
            let value = value
                .as_str()
                .ok_or_else(|| format!("headersHelper: {name} is no text"))?;
            insert(&mut headers, &name, value)?;
        }
    }
    Ok(headers)
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let header = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| format!("{name:?} is no name of a header"))?;
    let mut value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("the header {name} holds what a header can't"))?;
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

async fn run(command: &str, remote: &Remote, environment: &Environment) -> Result<String, String> {
    let command = Command::shell(command, Some("/bin/sh"))
        .without_inherited_environment()
        .variables(&environment.variables)
        .variable("MCP_SERVER_URL", &remote.url)
        .directory(&environment.cwd);
    let finished = lathe_process::run(Job::new(command, HELPER))
        .await
        .map_err(|error| format!("headersHelper: {error}"))?;
    match finished.ending {
        Ending::Exited(0) => Ok(finished.stdout),
        Ending::TimedOut => Err(format!(
            "headersHelper: it took longer than {} s",
            HELPER.as_secs()
        )),
        Ending::Exited(code) => Err(format!("headersHelper: it failed (exit code {code})")),
        Ending::Signalled => Err("headersHelper: it failed (ended by a signal)".to_owned()),
        Ending::Flooded | Ending::Cancelled => Err("headersHelper: it printed too much".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_helper_adds_headers_and_its_failure_is_said() {
        let environment = Environment {
            variables: [("TOKEN".to_owned(), "t".to_owned())].into(),
            home: None,
            cwd: std::env::temp_dir(),
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
                .contains("failed")
        );
        remote.headers_helper = Some("echo no".to_owned());
        assert!(
            of(&remote, &environment)
                .await
                .unwrap_err()
                .contains("JSON")
        );
        assert!(address("ftp://x").is_err() && address("http://x/y").is_ok());
    }
}
