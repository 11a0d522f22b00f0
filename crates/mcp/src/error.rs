//! Errors of requests to servers.

use serde_json::Value;

/// Why a request to a server failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum McpError {
    #[error("there is no MCP server named {0}; `lathe mcp list` shows them")]
    Unknown(String),
    #[error("the MCP server {server} is not connected ({why})")]
    NotConnected {
        server: String,
        /// The state, with a fix.
        why: String,
    },
    #[error("the MCP server {0} requires a sign-in: run `lathe mcp login {0}`")]
    NeedsAuth(String),
    #[error("the MCP server {server} did not answer within {} s", limit.as_secs_f64())]
    Timeout {
        server: String,
        limit: std::time::Duration,
    },
    /// Cancelled by the caller.
    #[error("stopped")]
    Cancelled,
    /// The connection broke during a request. It is not repeated, since it may have taken effect.
    #[error("the connection to the MCP server {server} broke: {reason}")]
    Broken { server: String, reason: String },
    /// The server answered with an error.
    #[error("{message} (MCP error {code})")]
    Rpc {
        code: i64,
        message: String,
        data: Option<Value>,
    },
    /// The server's answer violates the protocol.
    #[error("the MCP server {server} violated the protocol: {reason}")]
    Protocol { server: String, reason: String },
    #[error("{0}")]
    Start(String),
    #[error("{0}")]
    Auth(String),
}
