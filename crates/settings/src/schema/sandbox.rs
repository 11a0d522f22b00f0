//! The keys of the sandbox.

use lathe_protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How commands are isolated.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxSettings {
    /// Whether shell commands run in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether it is an error if no sandbox is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if_unavailable: Option<bool>,
    /// Whether a sandboxed command runs without a question (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_allow_bash_if_sandboxed: Option<bool>,
    /// Commands that always run outside the sandbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_commands: Vec<String>,
    /// Whether the model may ask to run a command outside the sandbox (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unsandboxed_commands: Option<bool>,
    /// The part of the file system that is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<SandboxFilesystem>,
    /// The part of the network that is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<SandboxNetwork>,
    /// Credentials that commands can use and not see: the proxy puts them into requests to the hosts that they are for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SandboxCredentials>,
    /// Whether hooks that are commands run in the sandbox too (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<bool>,
    /// Patterns of environment variables that commands don't see, beside the built-in ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scrub_environment: Vec<String>,
    /// Whether a weaker sandbox is fine inside a container that has no namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_weaker_nested_sandbox: Option<bool>,
    /// Violations that are not reported, by command.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ignore_violations: BTreeMap<String, Vec<String>>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Credentials that a sandboxed command can use and not see.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxCredentials {
    /// Variables of the environment: commands get a stand-in of the same length.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Files: a path whose whole content is one token, or a path with a pattern.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<CredentialFile>,
    /// For which hosts credentials are: a host, and the variables and paths of files whose values it gets in headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Vec<String>>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A file with a credential.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CredentialFile {
    /// The whole file is one token.
    Whole(String),
    /// A part of the file is.
    Part {
        /// The file.
        path: String,
        /// A regular expression whose only group is the token.
        pattern: String,
    },
}

impl CredentialFile {
    /// The path, as it is written.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Whole(path) | Self::Part { path, .. } => path,
        }
    }
}

/// The part of the file system that a sandboxed command reaches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxFilesystem {
    /// Further paths that may be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_write: Vec<String>,
    /// Paths that may not be written, even inside writable ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_write: Vec<String>,
    /// Paths that may not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_read: Vec<String>,
    /// Paths that may be read inside unreadable ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_read: Vec<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The part of the network that a sandboxed command reaches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxNetwork {
    /// Hosts that may be reached; `*.example.com` covers sub-domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// Hosts that may not be reached; beats `allowedDomains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_domains: Vec<String>,
    /// Unix sockets that may be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_unix_sockets: Vec<String>,
    /// Whether every unix socket may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_all_unix_sockets: Option<bool>,
    /// Whether commands may listen on local ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_local_binding: Option<bool>,
    /// Whether hosts that no list names are refused without a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_allowlist: Option<bool>,
    /// Only hosts from managed settings apply. Only effective in managed settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_domains_only: Option<bool>,
    /// The port of an HTTP proxy of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_proxy_port: Option<u16>,
    /// The port of a SOCKS proxy of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socks_proxy_port: Option<u16>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
