//! A scripted model server that speaks the real wire format.
//!
//! Everything that Lathe does happens between the user and a model, and of the two only the model
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
//! [`BlockingServer`]:
//!
//! ```
//! use lathe_scripted::{BlockingServer, Ending, Position, Reply, Scenario, When};
//! use serde_json::json;
//!
//! # fn main() -> std::io::Result<()> {
//! let server = BlockingServer::start(
//!     Scenario::new()
//!         .reply(Reply::error(529).header("retry-after", "1"))
//!         .reply(Reply::text("Let me look.").with_tool_use("Bash", json!({"command": "ls"})))
//!         .reply(Reply::text("It has {{last_tool_result}}.").when(When::tool_result_for("Bash")))
//!         .reply(Reply::text("cut off").cut(Position::MidBlock(0), Ending::Drop).optional()),
//! )?;
//! // Point the client at it, let it work …
//! let address = server.base_url();
//! # assert!(address.starts_with("http://127.0.0.1:"));
//! // … and assert on what the model was sent.
//! assert_eq!(server.requests().len(), 0);
//! assert_eq!(server.problems(), Vec::<String>::new());
//! assert_eq!(server.unused_replies().len(), 3, "`finish` would fail here");
//! # Ok(())
//! # }
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "a stand-in for the model, which uses nothing of the program"
)]
#![forbid(unsafe_code)]

pub mod blocking;
pub mod cache;
mod dialect;
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
pub use server::{ScriptProblems, ScriptedServer};
