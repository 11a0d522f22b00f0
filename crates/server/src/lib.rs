//! The door to the sessions of this machine: an HTTP API for scripts, the wire as a WebSocket, and the page.
//!
//! `lathe serve` owns no session. It connects to the sockets of sessions (`lathe-wire`) for devices that it knows
//! ([`devices`]); killing or updating it touches nobody's work. [`guard`] decides by the head of a request whether it is
//! looked at at all, [`serve`] is the listener with its limits.
//!
//! [`rules`] are the rules of a remote conversation as pure functions, [`conversation`] puts them together.
#![forbid(unsafe_code)]

pub mod api;
pub mod conversation;
pub mod devices;
pub mod events;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod guard;
pub mod install;
pub mod jobs;
pub mod listen;
mod messages;
pub mod notify;
mod problem;
pub mod relay;
pub mod remote;
mod routes;
pub mod rules;
mod schedules;
pub mod serve;
mod socket;
mod start;

pub use devices::{Device, DeviceScope, Devices};
pub use listen::{Listen, TlsFiles};
pub use problem::Problem;
pub use serve::{Options, RelayState, ServeError, Server, running};
