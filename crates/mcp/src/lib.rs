//! The Model Context Protocol: connections to servers, authorisation, and the protocol side of being
//! a server.
//!
//! A [`ServerConfig`] says where a server is; the [`Manager`] starts many of them side by side, keeps
//! their lists of tools, resources and prompts, calls them, and tells what changes ([`Change`]). What
//! servers ask of us goes to [`Handlers`]. The wire is the official SDK's (rmcp); transports that it
//! lacks, the way back after a broken connection, the limits on what a server may send, and the
//! authorisation loop are ours.
#![forbid(unsafe_code)]

pub mod auth;
mod client;
pub mod config;
mod connect;
mod connection;
mod eras;
mod error;
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
};
pub use manager::{
    Backoff, CallOptions, InProcess, Manager, MessageChannel, Options, Progress, ServerItem,
    ServersSet,
};
pub use server::{
    OAuthConfig, Program, ProtocolChoice, Remote, ServerConfig, Timeouts, TransportConfig,
};
pub use status::{Change, ServerDescription, ServerStatus, State};
