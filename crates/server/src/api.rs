//! The types of the API, and the document that describes it.

use crate::problem::Problem;
use lathe_wire::{HostInfo, HostState};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A session in the list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEntry {
    /// The session.
    pub id: String,
    /// Its name.
    pub title: Option<String>,
    /// Its working folder.
    pub folder: Option<PathBuf>,
    /// `needs-you`, `working`, `idle`, or `ended` if no process has it.
    pub state: String,
    /// The question or the last activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// When it changed last, in milliseconds since 1970.
    pub changed: u64,
    /// Where it was moved to, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

impl SessionEntry {
    pub(crate) fn of_host(host: &HostInfo) -> Self {
        Self {
            id: host.session_id.to_string(),
            title: host.title.clone(),
            folder: Some(host.folder.clone()),
            state: state_name(host.state).to_owned(),
            activity: host.activity.clone(),
            changed: host.changed_ms,
            moved: None,
        }
    }

    pub(crate) fn of_info(info: &lathe_session::SessionInfo) -> Self {
        Self {
            id: info.id.to_string(),
            title: info.title.clone(),
            folder: info.cwd.clone(),
            state: "ended".to_owned(),
            activity: None,
            changed: u64::try_from(info.modified.as_millisecond()).unwrap_or_default(),
            moved: info.moved.clone(),
        }
    }

    /// Sessions that need someone come first, then those that work, then the newest.
    pub(crate) fn order(&self) -> (u8, std::cmp::Reverse<u64>) {
        let rank = match self.state.as_str() {
            "needs-you" => 0,
            "working" => 1,
            "idle" => 2,
            _ => 3,
        };
        (rank, std::cmp::Reverse(self.changed))
    }
}

fn state_name(state: HostState) -> &'static str {
    match state {
        HostState::NeedsYou => "needs-you",
        HostState::Working => "working",
        HostState::Idle => "idle",
    }
}

/// The list of sessions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionList {
    /// Those that need someone first.
    pub sessions: Vec<SessionEntry>,
    /// Folders in which a session can be started.
    pub folders: Vec<PathBuf>,
}

/// A session to start.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// A folder that had a session before.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// An ended session to continue.
    #[serde(default)]
    pub resume: Option<String>,
    /// The first prompt.
    pub prompt: String,
    /// Start in a git worktree of its own.
    #[serde(default)]
    pub worktree: bool,
}

/// A session that was started.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Started {
    /// The session.
    pub session: String,
}

/// An operation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpRequest {
    /// Names it; the same id again is done once.
    #[serde(default)]
    pub id: Option<String>,
    /// `{"type": "prompt", "content": …}` and so on, as on the wire.
    pub op: Value,
}

/// An operation that was done.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OpDone {
    /// The operation.
    pub id: String,
}

/// An answer to a permission question.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// `{"behavior": "allow"}` or `{"behavior": "deny", "message": …}`.
    pub reply: Value,
}

/// A stored upload.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Uploaded {
    /// The file, for `@path` in a prompt.
    pub path: PathBuf,
    /// Its id, for `file_attachments` of a message.
    pub file_uuid: String,
}

/// A code that becomes a device.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pairing {
    /// The code.
    pub code: String,
    /// The name of the device.
    #[serde(default)]
    pub name: String,
}

/// A device that was admitted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Paired {
    /// The token, shown once.
    pub token: String,
    /// Its rights.
    pub scope: crate::devices::DeviceScope,
    /// The name that others see.
    pub name: String,
}

/// Records of a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Records {
    /// Oldest first, as in the transcript.
    pub records: Vec<Value>,
    /// True if there are older ones.
    pub more: bool,
}

/// The changes in the folder of a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Diff {
    /// A unified diff against the last commit; empty outside of a repository.
    pub diff: String,
}

/// A link of a push message.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkUse {
    /// The secret of the link.
    pub code: String,
}

/// The question of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LinkView {
    /// The question in a line.
    pub question: String,
    /// All of the call that it is about.
    pub whole: String,
    /// Whether the link says yes.
    pub allow: bool,
}

/// A file or a folder of a session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileView {
    /// Its path.
    pub path: PathBuf,
    /// The text of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content of a file that is no text, as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The entries of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<FolderEntry>>,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FolderEntry {
    /// Its name.
    pub name: String,
    /// Whether it is a folder.
    pub folder: bool,
}

/// A route: method, path, scope, summary, and the types of its body and answer.
type Route = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
);

const ROUTES: &[Route] = &[
    ("get", "/openapi.json", "view", "This document", None, None),
    (
        "post",
        "/v1/pair",
        "none",
        "Exchange a code for a token, once",
        Some("Pairing"),
        Some("Paired"),
    ),
    (
        "post",
        "/v1/links",
        "none",
        "The question of a push message's link",
        Some("LinkUse"),
        Some("LinkView"),
    ),
    (
        "post",
        "/v1/links/use",
        "none",
        "Answer the question of a link, once",
        Some("LinkUse"),
        Some("LinkView"),
    ),
    (
        "get",
        "/v1/sessions",
        "view",
        "List sessions and folders",
        None,
        Some("SessionList"),
    ),
    (
        "post",
        "/v1/sessions",
        "prompt",
        "Start or continue a session",
        Some("NewSession"),
        Some("Started"),
    ),
    (
        "get",
        "/v1/sessions/{id}",
        "view",
        "One session",
        None,
        Some("SessionEntry"),
    ),
    (
        "get",
        "/v1/sessions/{id}/records",
        "view",
        "Records before one (`before`, `limit`)",
        None,
        Some("Records"),
    ),
    (
        "get",
        "/v1/sessions/{id}/diff",
        "view",
        "Uncommitted changes",
        None,
        Some("Diff"),
    ),
    (
        "get",
        "/v1/sessions/{id}/files",
        "view",
        "A file or folder (`path`) that the session may read without a question",
        None,
        Some("FileView"),
    ),
    (
        "get",
        "/v1/sessions/{id}/events",
        "view",
        "Events as server-sent events; `Last-Event-ID` continues",
        None,
        None,
    ),
    (
        "post",
        "/v1/sessions/{id}/ops",
        "prompt",
        "Do an operation",
        Some("OpRequest"),
        Some("OpDone"),
    ),
    (
        "post",
        "/v1/sessions/{id}/uploads",
        "prompt",
        "Store a file (`name`, `id`) for a prompt",
        None,
        Some("Uploaded"),
    ),
    (
        "post",
        "/v1/sessions/{id}/questions/{request}",
        "approve",
        "Answer a question: 200 won, 409 someone else did, 410 withdrawn",
        Some("Answer"),
        Some("OpDone"),
    ),
    (
        "get",
        "/v1/fleet",
        "view",
        "The jobs and workers of the fleet",
        None,
        Some("JobBoard"),
    ),
    (
        "post",
        "/v1/fleet/{id}",
        "approve",
        "Answer the question of a job, cancel it, or queue it again",
        Some("JobAct"),
        None,
    ),
    (
        "get",
        "/v1/search",
        "view",
        "Search sessions (`q`)",
        None,
        None,
    ),
    (
        "get",
        "/v1/messages",
        "view",
        "Messages as a WebSocket (`session`, `after`), for programs that speak the frames of SDKs",
        None,
        None,
    ),
    (
        "get",
        "/v1/wire",
        "view",
        "The wire as a WebSocket (`session`); the token is the subprotocol `lathe.token.…`",
        None,
        None,
    ),
];

/// The OpenAPI document.
#[must_use]
pub fn openapi() -> Value {
    let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
    generator.subschema_for::<Problem>();
    generator.subschema_for::<SessionList>();
    generator.subschema_for::<SessionEntry>();
    generator.subschema_for::<NewSession>();
    generator.subschema_for::<Started>();
    generator.subschema_for::<OpRequest>();
    generator.subschema_for::<OpDone>();
    generator.subschema_for::<Answer>();
    generator.subschema_for::<Uploaded>();
    generator.subschema_for::<Pairing>();
    generator.subschema_for::<Paired>();
    generator.subschema_for::<Records>();
    generator.subschema_for::<Diff>();
    generator.subschema_for::<FileView>();
    generator.subschema_for::<LinkUse>();
    generator.subschema_for::<LinkView>();
    generator.subschema_for::<crate::jobs::JobBoard>();
    generator.subschema_for::<crate::jobs::JobAct>();
    let schemas = generator.take_definitions(true);
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let content = |name: &str| json!({"application/json": {"schema": reference(name)}});
    let mut paths = serde_json::Map::new();
    for (method, path, scope, summary, body, answer) in ROUTES {
        let mut operation = json!({
            "summary": summary,
            "x-scope": scope,
            "responses": {
                "200": {"description": "done"},
                "default": {"description": "an error", "content": {"application/problem+json": {"schema": reference("Problem")}}},
            },
        });
        if let Some(body) = body {
            operation["requestBody"] = json!({"required": true, "content": content(body)});
        }
        if let Some(answer) = answer {
            operation["responses"]["200"]["content"] = content(answer);
        }
        let parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
            .collect();
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if *scope == "none" {
            operation["security"] = json!([]);
        }
        let entry = paths.entry(*path).or_insert_with(|| json!({}));
        entry[*method] = operation;
    }
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Lathe", "version": env!("CARGO_PKG_VERSION"), "description": "Sessions of one machine."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_document_is_there() {
        let document = openapi();
        let text = document.to_string();
        let mut count = 0;
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(
                document["components"]["schemas"][name].is_object(),
                "{name}"
            );
            count += 1;
        }
        assert!(count > 20, "{count}");
        assert!(document["paths"]["/v1/sessions/{id}/ops"]["post"].is_object());
    }
}
