//! The Model Context Protocol: connections to servers, authorisation, and the protocol side of
//! serving.
//!
//! A [`ServerConfig`] describes a server; the [`Manager`] connects to many of them in parallel,
//! keeps their lists of tools, resources and prompts, calls them, and reports changes ([`Change`]).
//! Requests from servers go to [`Handlers`]. The wire protocol is the official SDK's (rmcp);
//! additional transports, reconnection, limits on what a server may send, and the authorisation
//! flow are ours.
#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "not published; only what names don't say is documented"
)]

pub mod auth;
mod client;
pub mod config;
mod connect;
mod connection;
mod eras;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod handlers;
mod headers;
pub mod limits;
mod lists;
pub mod log;
pub mod manager;
mod net;
pub mod probe;
pub mod serve;
pub mod server;
pub mod status;
pub mod text;
mod transport;

pub use error::McpError;
pub use handlers::{
    Elicitation, ElicitationAnswer, ElicitationKind, Handlers, Nobody, Offers, Root,
    SamplingRefused,
};
pub use manager::{
    Backoff, CallOptions, InProcess, Manager, MessageChannel, Options, Progress, ServerItem,
    ServersSet, UnknownServer,
};
pub use server::{
    OAuthConfig, Program, ProtocolChoice, Remote, ServerConfig, Timeouts, TransportConfig,
};
pub use status::{Change, ServerDescription, ServerStatus, State};
