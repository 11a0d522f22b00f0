//! Parses the entry of one server in a configuration file.
//!
//! The format is the common one of MCP clients: a local program has `command`, `args` and `env`, a
//! remote server has `type`, `url` and `headers`. Unknown keys are ignored. Every error names the
//! file, the field and a fix.

use super::expand::{self, Lookup};
use crate::server::{OAuthConfig, Program, ProtocolChoice, Remote, ServerConfig, TransportConfig};
use indexmap::IndexMap;
use lathe_protocol::diagnostic::Diagnostic;
pub use lathe_protocol::tool_name::in_tool_names;
use serde_json::{Map, Value};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a configuration can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{place} can't be read: {reason}")]
    Unreadable { place: String, reason: String },
    #[error("{place}: {reason}; fix it there; its servers are ignored until then")]
    NotJson {
        /// The file or flag, with line and column.
        place: String,
        reason: String,
    },
    #[error("{place}: {field}: {reason}")]
    Field {
        place: String,
        field: String,
        reason: String,
    },
    #[error("{place}: {}", missing_words(missing))]
    MissingVariables {
        place: String,
        missing: Vec<(String, String)>,
    },
}

impl From<ConfigError> for Diagnostic {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Unreadable { place, reason } => {
                Self::error(format!("can't be read: {reason}")).about(place)
            }
            ConfigError::NotJson { place, reason } => Self::error(reason)
                .about(place)
                .hint("fix it there; its servers are ignored until then"),
            ConfigError::Field {
                place,
                field,
                reason,
            } => Self::error(format!("{field}: {reason}")).about(place),
            ConfigError::MissingVariables { place, missing } => {
                Self::warning(missing_words(&missing)).about(place)
            }
        }
    }
}

fn missing_words(missing: &[(String, String)]) -> String {
    let fields: Vec<String> = missing
        .iter()
        .map(|(field, variable)| format!("{field} needs the variable {variable}, which is not set"))
        .collect();
    let example = missing.first().map_or("NAME", |(_, variable)| variable);
    format!(
        "{} (set it, or give a default: ${{{example}:-default}})",
        fields.join("; ")
    )
}

/// The location of an entry, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLocation {
    /// `None` for JSON on the command line.
    pub file: Option<PathBuf>,
    /// The name if there is no file.
    pub flag: &'static str,
}

impl ConfigLocation {
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self {
            file: Some(path.to_owned()),
            flag: "",
        }
    }

    #[must_use]
    pub fn flag(flag: &'static str) -> Self {
        Self { file: None, flag }
    }
}

impl fmt::Display for ConfigLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display()),
            None => f.write_str(self.flag),
        }
    }
}

/// True if a name is valid: at most 64 characters without control characters, `\\` and `:`, and
/// unambiguous in the names of tools.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= 64
        && name.trim() == name
        && !name.contains(|letter: char| letter.is_control() || matches!(letter, '\\' | ':'))
        && is_unambiguous(name)
}

/// False for a name whose tools could be taken for those of another server: `__` separates server and
/// tool.
#[must_use]
pub fn is_unambiguous(name: &str) -> bool {
    let part = in_tool_names(name);
    !part.contains("__") && !part.ends_with('_')
}

/// Parses an entry.
///
/// # Errors
/// If a field is invalid. A variable that is not set stays unexpanded; [`unset_variables`] reports it.
pub fn parse(
    name: &str,
    entry: &Value,
    place: &ConfigLocation,
    lookup: Lookup<'_>,
) -> Result<ServerConfig, ConfigError> {
    let reader = Reader { name, place };
    let Some(written) = entry.as_object() else {
        return Err(reader.wrong(
            "",
            "must be an object, such as {\"command\": \"npx\", \"args\": […]}",
        ));
    };
    let (fields, _) = expand::entry(written, lookup);
    let transport = reader.transport(&fields)?;
    let mut config = ServerConfig::new(transport);
    config.start_timeout = reader.milliseconds(&fields, &["startupTimeout", "startTimeout"])?;
    config.tool_timeout = reader.milliseconds(&fields, &["toolTimeout", "timeout"])?;
    config.disabled = reader.flag(&fields, "disabled")?.unwrap_or(false);
    if let Some(version) = reader.text(&fields, "protocolVersion")? {
        config.protocol = ProtocolChoice::Only(version);
    }
    Ok(config)
}

/// The variables of an entry that are neither set nor have a default, as a warning.
#[must_use]
pub fn unset_variables(
    name: &str,
    entry: &Value,
    place: &ConfigLocation,
    lookup: Lookup<'_>,
) -> Option<ConfigError> {
    let (_, missing) = expand::entry(entry.as_object()?, lookup);
    (!missing.is_empty()).then(|| ConfigError::MissingVariables {
        place: place.to_string(),
        missing: missing
            .into_iter()
            .map(|one| (format!("mcpServers.{name}.{}", one.field), one.variable))
            .collect(),
    })
}

struct Reader<'a> {
    name: &'a str,
    place: &'a ConfigLocation,
}

impl Reader<'_> {
    fn wrong(&self, field: &str, reason: impl Into<String>) -> ConfigError {
        let field = if field.is_empty() {
            format!("mcpServers.{}", self.name)
        } else {
            format!("mcpServers.{}.{field}", self.name)
        };
        ConfigError::Field {
            place: self.place.to_string(),
            field,
            reason: reason.into(),
        }
    }

    fn transport(&self, fields: &Map<String, Value>) -> Result<TransportConfig, ConfigError> {
        let written = self.text(fields, "type")?;
        let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        let kind = match written.as_deref() {
            Some(kind) => kind.to_owned(),
            None if has("command") => "stdio".to_owned(),
            None if has("url") => match fields["url"].as_str() {
                Some(url) if url.starts_with("ws:") || url.starts_with("wss:") => "ws".to_owned(),
                _ => "http".to_owned(),
            },
            None if has("httpUrl") => "http".to_owned(),
            None => {
                return Err(self.wrong(
                    "",
                    "it has neither \"command\" (a local program) nor \"url\" (a remote server)",
                ));
            }
        };
        match kind.as_str() {
            "stdio" | "local" => self.program(fields).map(TransportConfig::Stdio),
            "http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote" => {
                let mut remote = self.remote(fields)?;
                // Many entries call an older server's address `http`; the longer names mean just that.
                let named = written.as_deref().is_some_and(|kind| kind != "http");
                remote.sse_fallback = !named && !has("httpUrl");
                Ok(TransportConfig::Http(remote))
            }
            "sse" => self.remote(fields).map(TransportConfig::Sse),
            "ws" | "websocket" => self.remote(fields).map(TransportConfig::WebSocket),
            "sdk" => Ok(TransportConfig::Sdk {
                name: self
                    .text(fields, "name")?
                    .unwrap_or_else(|| self.name.to_owned()),
            }),
            other => Err(self.wrong(
                "type",
                format!("{other:?} is not a transport; write stdio, http, sse or ws"),
            )),
        }
    }

    fn program(&self, fields: &Map<String, Value>) -> Result<Program, ConfigError> {
        let command = self.text(fields, "command")?.unwrap_or_default();
        if command.trim().is_empty() {
            return Err(self.wrong(
                "command",
                "a local server needs the program to start, such as \"npx\"",
            ));
        }
        let mut args = Vec::new();
        match fields.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    args.push(scalar(item).ok_or_else(|| {
                        self.wrong(&format!("args[{index}]"), "must be a string")
                    })?);
                }
            }
            Some(_) => {
                return Err(self.wrong(
                    "args",
                    "must be a list of strings, such as [\"-y\", \"package\"]",
                ));
            }
        }
        Ok(Program {
            command,
            args,
            env: self.texts(fields, "env")?,
            cwd: self.text(fields, "cwd")?.map(PathBuf::from),
            sandbox: self.flag(fields, "sandbox")? == Some(true),
        })
    }

    fn remote(&self, fields: &Map<String, Value>) -> Result<Remote, ConfigError> {
        let written = match self.text(fields, "url")? {
            Some(url) => url,
            None => self.text(fields, "httpUrl")?.unwrap_or_default(),
        };
        let url = url::Url::parse(written.trim()).map_err(|error| {
            self.wrong(
                "url",
                format!("{written:?} is not an address ({error}); write it in full, such as https://example.org/mcp"),
            )
        })?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(self.wrong(
                "url",
                format!(
                    "{} addresses are not supported; use http, https, ws or wss",
                    url.scheme()
                ),
            ));
        }
        let headers = self.texts(fields, "headers")?;
        for (name, value) in &headers {
            if value.contains(['\r', '\n', '\0']) {
                return Err(self.wrong(
                    &format!("headers.{name}"),
                    "a header can't contain a line break",
                ));
            }
        }
        Ok(Remote {
            url: written.trim().to_owned(),
            headers: headers.into_iter().collect(),
            headers_helper: self.text(fields, "headersHelper")?,
            oauth: self.oauth(fields)?,
            sse_fallback: false,
        })
    }

    fn oauth(&self, fields: &Map<String, Value>) -> Result<OAuthConfig, ConfigError> {
        let oauth = match fields.get("oauth") {
            None | Some(Value::Null | Value::Bool(_)) => return Ok(OAuthConfig::default()),
            Some(Value::Object(oauth)) => oauth,
            Some(_) => {
                return Err(self.wrong("oauth", "must be an object, such as {\"clientId\": \"…\"}"));
            }
        };
        let text = |key: &str| match oauth.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(&format!("oauth.{key}"), "must be a string")),
        };
        let callback_port = match oauth.get("callbackPort") {
            None | Some(Value::Null) => None,
            Some(port) => Some(
                port.as_u64()
                    .and_then(|port| u16::try_from(port).ok())
                    .filter(|port| *port > 0)
                    .ok_or_else(|| {
                        self.wrong("oauth.callbackPort", "must be a port from 1 to 65535")
                    })?,
            ),
        };
        let metadata_url = text("authServerMetadataUrl")?;
        if let Some(address) = &metadata_url {
            let secure = url::Url::parse(address).is_ok_and(|url| {
                url.scheme() == "https"
                    || matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
            });
            if !secure {
                return Err(self.wrong("oauth.authServerMetadataUrl", "must be an https address"));
            }
        }
        Ok(OAuthConfig {
            client_id: text("clientId")?,
            client_secret: text("clientSecret")?,
            callback_port,
            metadata_url,
            scopes: text("scopes")?,
            ..OAuthConfig::default()
        })
    }

    fn text(&self, fields: &Map<String, Value>, key: &str) -> Result<Option<String>, ConfigError> {
        match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(key, format!("must be a string, not {other}"))),
        }
    }

    fn flag(&self, fields: &Map<String, Value>, key: &str) -> Result<Option<bool>, ConfigError> {
        match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(key, format!("must be true or false, not {other}"))),
        }
    }

    fn texts(
        &self,
        fields: &Map<String, Value>,
        key: &str,
    ) -> Result<IndexMap<String, String>, ConfigError> {
        match fields.get(key) {
            None | Some(Value::Null) => Ok(IndexMap::new()),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(name, value)| {
                    let value = scalar(value)
                        .ok_or_else(|| self.wrong(&format!("{key}.{name}"), "must be a string"))?;
                    Ok((name.clone(), value))
                })
                .collect(),
            Some(_) => Err(self.wrong(
                key,
                "must be an object of strings, such as {\"NAME\": \"value\"}",
            )),
        }
    }

    fn milliseconds(
        &self,
        fields: &Map<String, Value>,
        keys: &[&str],
    ) -> Result<Option<Duration>, ConfigError> {
        for key in keys {
            match fields.get(*key) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    let millis = value.as_u64().filter(|millis| *millis > 0).ok_or_else(|| {
                        self.wrong(key, "must be a positive number of milliseconds")
                    })?;
                    return Ok(Some(Duration::from_millis(millis)));
                }
            }
        }
        Ok(None)
    }
}

/// A string, or a number or boolean as a string, since files contain both.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(entry: &Value) -> Result<ServerConfig, ConfigError> {
        let place = ConfigLocation::file(Path::new("/p/.mcp.json"));
        parse("s", entry, &place, &|name| {
            (name == "TOKEN").then(|| "t0".to_owned())
        })
    }

    #[test]
    fn every_kind_of_server_is_read() {
        let local = read(
            &json!({"command": "npx", "args": ["-y", 1], "env": {"A": "${TOKEN}", "B": true}}),
        )
        .unwrap();
        let TransportConfig::Stdio(program) = &local.transport else {
            panic!("{local:?}");
        };
        assert_eq!((program.command.as_str(), program.args.len()), ("npx", 2));
        assert_eq!(
            (program.env["A"].as_str(), program.env["B"].as_str()),
            ("t0", "true")
        );
        for (entry, kind) in [
            (json!({"url": "https://h/mcp"}), "http"),
            (
                json!({"type": "streamable-http", "url": "https://h"}),
                "http",
            ),
            (json!({"type": "sse", "url": "http://h"}), "sse"),
            (json!({"url": "wss://h"}), "ws"),
            (json!({"type": "sdk", "name": "n"}), "sdk"),
        ] {
            assert_eq!(read(&entry).unwrap().transport.kind(), kind, "{entry}");
        }
        let falls_back = |entry| match read(&entry).unwrap().transport {
            TransportConfig::Http(remote) => remote.sse_fallback,
            other => panic!("{other:?}"),
        };
        assert!(falls_back(json!({"url": "https://h/mcp"})));
        assert!(falls_back(json!({"type": "http", "url": "https://h/mcp"})));
        assert!(!falls_back(
            json!({"type": "streamable-http", "url": "https://h/mcp"})
        ));
        let remote = read(&json!({"type": "http", "url": "https://h", "timeout": 500,
            "headers": {"Authorization": "Bearer ${TOKEN}"},
            "oauth": {"clientId": "c", "callbackPort": 8080, "scopes": "a b"}}))
        .unwrap();
        let config = remote.transport.remote().unwrap();
        assert_eq!(config.headers[0].1, "Bearer t0");
        assert_eq!(config.oauth.callback_port, Some(8080));
        assert_eq!(remote.tool_timeout, Some(Duration::from_millis(500)));
    }

    #[test]
    fn errors_name_file_field_and_fix() {
        for (entry, words) in [
            (json!(3), vec!["mcpServers.s", "object"]),
            (json!({}), vec!["command", "url"]),
            (json!({"command": ""}), vec!["s.command", "npx"]),
            (json!({"command": "x", "args": "y"}), vec!["s.args", "list"]),
            (json!({"command": "x", "args": [{}]}), vec!["s.args[0]"]),
            (json!({"command": "x", "env": []}), vec!["s.env"]),
            (
                json!({"type": "http", "url": "nowhere"}),
                vec!["s.url", "https://example.org/mcp"],
            ),
            (json!({"url": "ftp://h"}), vec!["s.url", "ftp"]),
            (
                json!({"type": "carrier-pigeon", "url": "https://h"}),
                vec!["s.type", "stdio, http, sse or ws"],
            ),
            (
                json!({"url": "https://h", "headers": {"A": "x\r\nB: y"}}),
                vec!["s.headers.A", "line break"],
            ),
            (
                json!({"url": "https://h", "oauth": {"callbackPort": 0}}),
                vec!["oauth.callbackPort"],
            ),
            (
                json!({"url": "https://h", "oauth": {"authServerMetadataUrl": "http://x"}}),
                vec!["https"],
            ),
            (json!({"command": "x", "timeout": 0}), vec!["s.timeout"]),
        ] {
            let error = read(&entry).unwrap_err().to_string();
            assert!(error.starts_with("/p/.mcp.json: "), "{error}");
            for word in words {
                assert!(error.contains(word), "{word} is not in: {error}");
            }
        }
    }

    #[test]
    fn names_may_have_blanks_but_not_what_separates_server_and_tool() {
        for name in [
            "my-server_2",
            "google calendar",
            "v1.2",
            "_x",
            "github.com/me/my-server",
            "@scope/server",
        ] {
            assert!(is_name(name), "{name}");
        }
        assert_eq!(in_tool_names("google calendar"), "google_calendar");
        assert_eq!(in_tool_names("@scope/server"), "_scope_server");
        for wrong in [
            "",
            " a",
            "a\\b",
            "a:b",
            "a\nb",
            "github__evil",
            "a  b",
            "a_",
            &"x".repeat(65),
        ] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_variable_that_is_not_set_stays_unexpanded_and_is_reported() {
        let entry =
            json!({"command": "x", "args": ["${GONE}"], "env": {"K": "${ALSO}", "T": "${TOKEN}"}});
        let TransportConfig::Stdio(program) = read(&entry).unwrap().transport else {
            panic!("not a program");
        };
        assert_eq!(program.args, ["${GONE}"]);
        assert_eq!(program.env["T"], "t0");
        let place = ConfigLocation::file(Path::new("/p/.mcp.json"));
        let warning = unset_variables("s", &entry, &place, &|name| {
            (name == "TOKEN").then(|| "t0".to_owned())
        });
        let warning = warning.unwrap().to_string();
        for words in ["s.args[0]", "GONE", "s.env.K", "ALSO", "${GONE:-default}"] {
            assert!(warning.contains(words), "{words} is not in: {warning}");
        }
    }
}
