//! The tools through which the model sees what MCP servers offer to read. They are there only while a
//! connected server has resources.

use crate::context::{CallContext, SecretCheck, ToolContext};
use crate::mcp_result::{self, clean};
use crate::mcp_tool::{McpCaller, answered};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many resources are listed at most.
const MOST_LISTED: usize = 500;

/// Lists what servers offer to read.
pub struct ListMcpResources {
    /// Knows the servers.
    pub caller: Arc<dyn McpCaller>,
}

/// Whose resources.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListInput {
    /// The server; all of them if absent.
    #[serde(default)]
    server: Option<String>,
}

impl Tool for ListMcpResources {
    type Input = ListInput;

    fn name(&self) -> &'static str {
        "ListMcpResources"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["ListMcpResourcesTool"]
    }

    fn description(&self) -> &str {
        include_str!("list_mcp_resources.md")
    }

    fn traits(&self, _: &ListInput) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _: &ListInput, _: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &ListInput) -> String {
        match &input.server {
            Some(server) => format!("Listing resources of {server}"),
            None => "Listing MCP resources".to_owned(),
        }
    }

    async fn call(&self, input: ListInput, _: CallContext) -> Result<ToolOutput, ToolError> {
        let all = self.caller.resources();
        let entry = |(server, item): &(String, Value)| {
            let text = |name: &str| item.get(name).and_then(Value::as_str).map(clean);
            let mut entry = json!({"server": server});
            for (name, field) in [
                ("uri", "uri"),
                ("uriTemplate", "uriTemplate"),
                ("name", "name"),
                ("description", "description"),
                ("mimeType", "mimeType"),
            ] {
                if let Some(text) = text(name) {
                    entry[field] = Value::from(text);
                }
            }
            entry
        };
        let wanted: Vec<Value> = all
            .iter()
            .filter(|(server, _)| input.server.as_ref().is_none_or(|wanted| wanted == server))
            .map(entry)
            .collect();
        if wanted.is_empty()
            && let Some(server) = &input.server
        {
            let mut known: Vec<&str> = all.iter().map(|(server, _)| server.as_str()).collect();
            known.dedup();
            return Err(ToolError::failed(format!(
                "{server} has no resources. Servers with resources: {}.",
                if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                }
            )));
        }
        let count = wanted.len();
        let mut lines: Vec<String> = wanted
            .iter()
            .take(MOST_LISTED)
            .map(Value::to_string)
            .collect();
        if count > MOST_LISTED {
            lines.push(format!(
                "[{} more; name a server to narrow the list]",
                count - MOST_LISTED
            ));
        }
        Ok(ToolOutput::new(
            lines.join("\n"),
            Value::Array(wanted),
            Display::Text {
                text: format!("{count} resources"),
            },
        ))
    }
}

/// Whether an address names a file that is not read without the user's word, by whatever links lead to it. A server that
/// gives out files must not be a way around the rules for reading.
#[must_use]
pub fn names_closed_file(uri: &str, folder: &Path, secrets: &SecretCheck) -> bool {
    file_of(uri).is_some_and(|path| {
        let path = folder.join(path);
        let real = std::fs::canonicalize(&path);
        secrets(&path) || real.is_ok_and(|real| secrets(&real))
    })
}

/// The file that an address may name: what stands after the scheme and the host, or a path. Pages of the web are none.
fn file_of(uri: &str) -> Option<PathBuf> {
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    let path = match uri.split_once(':') {
        Some((scheme, _))
            if ["http", "https"]
                .iter()
                .any(|web| scheme.eq_ignore_ascii_case(web)) =>
        {
            return None;
        }
        Some((scheme, rest)) if is_scheme(scheme) => match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').and_then(|at| rest.get(at..))?,
            None => rest,
        },
        _ => uri,
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = (*byte == b'%')
            .then(|| path.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    Some(PathBuf::from(
        String::from_utf8_lossy(&decoded).into_owned(),
    ))
}

/// Reads a resource of a server.
pub struct ReadMcpResource {
    /// Knows the servers.
    pub caller: Arc<dyn McpCaller>,
}

/// Which resource.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadInput {
    /// The server.
    server: String,
    /// The resource's address, as the server gives it.
    uri: String,
}

impl Tool for ReadMcpResource {
    type Input = ReadInput;

    fn name(&self) -> &'static str {
        "ReadMcpResource"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["ReadMcpResourceTool"]
    }

    fn description(&self) -> &str {
        include_str!("read_mcp_resource.md")
    }

    fn traits(&self, _: &ReadInput) -> CallTraits {
        CallTraits::READS
    }

    /// Reading sends the address to the server, so it needs permission like its tools.
    fn subject(&self, input: &ReadInput, _: &ToolContext) -> Subject {
        Subject::Mcp {
            server: input.server.clone(),
            tool: "resources/read".to_owned(),
            read_only: true,
        }
    }

    fn activity(&self, input: &ReadInput) -> String {
        clean(&format!("Reading {} ({})", input.uri, input.server))
    }

    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: ReadInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let folder = context.session.working_folder.read().clone();
        if names_closed_file(&input.uri, &folder, &context.session.secrets) {
            return Err(ToolError::failed(format!(
                "{} is not read: it may contain secrets, or a rule denies it.",
                clean(&input.uri)
            )));
        }
        let reading = self
            .caller
            .read_resource(&input.server, &input.uri, context.cancel.clone());
        let result = tokio::select! {
            biased;
            result = reading => result,
            () = context.cancel.cancelled() => {
                return Err(ToolError::Cancelled("Reading was stopped.".to_owned()));
            }
        };
        match result {
            Ok(result) => answered(result, &context, mcp_result::of_resource).await,
            Err(error) => Err(ToolError::failed(format!(
                "{} of {} can't be read: {}",
                clean(&input.uri),
                input.server,
                clean(&error.to_string())
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_an_address_brings_a_closed_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("closed")).unwrap();
        std::fs::write(root.join("closed/key"), "").unwrap();
        std::os::unix::fs::symlink("closed", root.join("linked")).unwrap();
        let closed = root.join("closed");
        let secrets: SecretCheck = Arc::new(move |path: &Path| {
            path.starts_with(&closed) || path.file_name().is_some_and(|name| name == ".env")
        });
        let at = root.display();
        for uri in [
            format!("file://{at}/closed/key"),
            format!("FILE://{at}/closed/key"),
            format!("file://localhost{at}/closed/key"),
            format!("file:{at}/closed/key"),
            format!("file://{at}/linked/key"),
            format!("file://{at}/linked/%6bey?x#y"),
            format!("{at}/closed/key"),
            format!("repo://{at}/closed/key"),
            "closed/key".to_owned(),
            "repo:.env".to_owned(),
            "notes://mine/%2eenv".to_owned(),
        ] {
            assert!(names_closed_file(&uri, &root, &secrets), "{uri}");
        }
        for uri in [
            format!("file://{at}/open"),
            "memo:insights".to_owned(),
            "https://example.com/.env".to_owned(),
            "note://1".to_owned(),
        ] {
            assert!(!names_closed_file(&uri, &root, &secrets), "{uri}");
        }
    }
}
