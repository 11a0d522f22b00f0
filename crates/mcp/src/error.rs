//! What can go wrong with a server, in words that name it and the way out.

use serde_json::Value;

/// Why something that was asked of a server didn't happen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum McpError {
    /// No server of this name.
    #[error("there is no MCP server named {0}; `lathe mcp list` shows them")]
    Unknown(String),
    /// The server isn't connected.
    #[error("the MCP server {server} isn't connected ({why})")]
    NotConnected {
        /// The server.
        server: String,
        /// Where it stands and what to do.
        why: String,
    },
    /// The server wants an authorisation.
    #[error("the MCP server {0} needs you to sign in: run `lathe mcp login {0}`")]
    NeedsAuth(String),
    /// The server took too long.
    #[error("the MCP server {server} didn't answer within {seconds} s")]
    Timeout {
        /// The server.
        server: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The call was given up from our side.
    #[error("stopped")]
    Cancelled,
    /// The connection broke while something was under way. It isn't repeated: it may have happened.
    #[error("the connection to the MCP server {server} broke: {reason}")]
    Broken {
        /// The server.
        server: String,
        /// How.
        reason: String,
    },
    /// The server answered with an error.
    #[error("{message} (MCP error {code})")]
    Rpc {
        /// The JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// What it sent along.
        data: Option<Value>,
    },
    /// The server's answer is no answer to what was asked.
    #[error("the MCP server {server} answered what isn't in the protocol: {reason}")]
    Protocol {
        /// The server.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A server can't be started or reached.
    #[error("{0}")]
    Start(String),
    /// Authorisation didn't work out.
    #[error("{0}")]
    Auth(String),
}
