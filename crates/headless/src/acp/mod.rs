//! The Agent Client Protocol: an editor drives sessions over standard input and output.
//!
//! The way of a prompt, from the editor's line to the last update:
//!
//! 1. [`lines`](crate::sdk::input::lines) reads a line on its own thread.
//! 2. `Connection::line` (`connection.rs`) parses it once: [`wire::parse`].
//! 3. `Shared::prompt` makes the prompt's content ([`params::content`]); a command goes to
//!    [`lathe_commands::run`], anything else as [`Op::Prompt`](lathe_protocol::op::Op) to the session.
//! 4. `OpenSession::follow` (`session.rs`) takes the session's events and shows them: [`updates::Updates`] is
//!    the one adapter between events and `session/update`, pure and the same for a loaded conversation.
//! 5. Questions go the other way (`questions.rs`); when the turn is over, the request is answered.
//!
//! Several sessions may be open at once, each with a task of its own. One that runs in another process (a background
//! session, or one of `lathe serve`) is not opened a second time: `attached.rs` follows it over its socket, and
//! [`frames`] reads its frames back as the events that they were made of.

mod attached;
pub mod capabilities;
mod choices;
mod client;
mod connection;
pub mod frames;
mod lent;
pub mod params;
mod questions;
mod replayed;
mod servers;
pub mod session;
pub mod tool_calls;
pub mod updates;
pub mod wire;

use crate::exit::Exit;
use crate::print::Signal;
use crate::sdk::host::Host;
use crate::sdk::input;
use client::Client;
use connection::Connection;
use lathe_engine::SessionOptions;
use lathe_settings::Environment;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use tokio::sync::watch;

/// How the editor runs us.
pub struct AcpOptions {
    /// How sessions are opened.
    pub session: SessionOptions,
    /// Changes when a signal arrives.
    pub signals: watch::Receiver<Signal>,
}

/// Runs until the editor has closed its end.
pub async fn run(
    environment: Environment,
    options: AcpOptions,
    input: impl Read + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
) -> Exit {
    let descriptor = output.as_fd().try_clone_to_owned().ok();
    let Ok((host, writer)) = Host::start_on(output, descriptor) else {
        return Exit::Failure;
    };
    let client = Client::new(host.clone());
    let mut connection = Connection::new(environment, options, client);
    let exit = Box::pin(connection.run(input::lines(input))).await;
    drop(connection);
    host.finish();
    // Off the runtime's threads: an editor that is gone or reads slowly must not hold up the end.
    let writing = lathe_spawn::blocking(move || writer.finish());
    let _ = tokio::time::timeout(crate::sdk::LAST_WORDS, writing).await;
    exit
}
