//! Errors of requests to language servers.

use std::time::Duration;

/// Why a request failed. The texts are for the model and for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LspError {
    /// No server is configured for this kind of file.
    #[error("no language server is configured for {0}")]
    NoServer(String),
    /// The server can't be started.
    #[error("the language server {name} can't be started: {reason}")]
    Start {
        /// The server.
        name: String,
        /// Why.
        reason: String,
    },
    /// The server ended.
    #[error("the language server {name} ended: {reason}")]
    Ended {
        /// The server.
        name: String,
        /// How.
        reason: String,
    },
    /// The server failed too often.
    #[error("the language server {name} is off for this session: {reason}")]
    GivenUp {
        /// The server.
        name: String,
        /// Why.
        reason: String,
    },
    /// The answer took too long.
    #[error("the language server {name} has not answered {method} within {} s", limit.as_secs())]
    TimedOut {
        /// The server.
        name: String,
        /// The request.
        method: String,
        /// How long it had.
        limit: Duration,
    },
    /// The server answered with an error.
    #[error("the language server {name} refused {method}: {message}")]
    Refused {
        /// The server.
        name: String,
        /// The request.
        method: String,
        /// The error's number.
        code: i64,
        /// The error's text.
        message: String,
    },
    /// The server can't do this.
    #[error("the language server {name} can't answer {operation}")]
    Unsupported {
        /// The server.
        name: String,
        /// The operation.
        operation: String,
    },
    /// The request is invalid for the file.
    #[error("{0}")]
    Question(String),
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
}
