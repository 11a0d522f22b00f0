//! A scripted model server that speaks the real wire format.
//!
//! Everything that Lathe does happens between a person and a model, and of the two only the model
//! can be scripted. This crate is that script: a server on the loopback interface that answers
//! `POST /v1/messages` (streamed and whole), `POST /v1/messages/count_tokens` and `GET /v1/models`
//! as the Messages API does, over HTTP/1.1 and HTTP/2, from a list of replies ([`Scenario`]).
//! `lathe demo` runs on it, and so do the tests and the benchmarks.
//!
//! Three things make it more than a canned answer:
//!
//! - It **checks every request** the way the API would ([`validate`]): roles, tool pairing, ids,
//!   signatures, cache markers, images. A bad request gets the API's `400` *and* is remembered, so
//!   that [`ScriptedServer::finish`] fails the test.
//! - It **misbehaves on demand** ([`Reply`]): errors, drops, stalls, malformed or oddly split
//!   streams, each at a byte or at an event of your choice, held by gates instead of sleeps.
//! - It **keeps the provider's prompt cache** ([`cache`]), so that the usage it reports tells
//!   whether the client's requests really share a prefix.
//!
//! The server builds its events from plain JSON and deliberately doesn't use the client's types:
//! a mistake in those must not be able to hide itself here.
//!
//! Start with [`Scenario`], [`Reply`] and [`ScriptedServer::start`]; a plain `#[test]` uses
//! [`BlockingServer`].
#![forbid(unsafe_code)]

pub mod blocking;
pub mod cache;
mod gate;
mod play;
pub mod reply;
pub mod request;
pub mod scenario;
pub mod server;
mod template;
pub mod validate;
mod wire;

pub use blocking::BlockingServer;
pub use gate::Gate;
pub use reply::{Ending, Framing, LineEnd, Position, Reply, Wait};
pub use request::RecordedRequest;
pub use scenario::{Scenario, ScenarioError, Validation, When};
pub use server::ScriptedServer;
