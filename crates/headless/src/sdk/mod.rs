//! The SDK protocol: a host program drives a session over standard input and output.
//!
//! The way of a prompt, from the host's line to the last frame:
//!
//! 1. [`input::lines`] reads a line on its own thread.
//! 2. `Face::line` (`face.rs`) parses it once: [`HostFrame::parse`](lathe_protocol::frame::HostFrame::parse).
//! 3. `Face::prompt` opens the session if there is none and queues the prompt (`prompts.rs`).
//! 4. `Face::release` takes what has nothing to wait for: a command goes to [`lathe_commands::run`], a
//!    prompt as [`Op::Prompt`](lathe_protocol::op::Op) to the session.
//! 5. The session runs the turn and emits events; `Face::events` takes them in batches.
//! 6. [`Sequence::lines`](crate::sequence::Sequence::lines) makes frames of an event; pieces of an answer keep the
//!    provider's bytes.
//! 7. [`host::Host`] writes the lines in order.
//!
//! A `control_request` is a [`ControlRequest`](lathe_protocol::control::ControlRequest) after step 2:
//! `Face::control` handles what concerns the connection (`initialize`, `interrupt`), [`control::Requests`]
//! everything about the session. Questions of the session go the other way: `asking.rs` sends a
//! `control_request` and waits for the host's `control_response`. MCP servers inside the host are reached
//! the same way ([`servers`]).

mod asking;
pub mod control;
mod face;
mod files;
mod helpers;
pub mod host;
pub mod initialize;
pub mod input;
mod listing;
mod mirror;
mod policies;
mod progress;
mod prompts;
pub mod servers;
mod window;

use crate::exit::Exit;
use crate::print::Signal;
use face::Face;
use host::Host;
use lathe_engine::SessionOptions;
use lathe_protocol::frame::FrameOptions;
use lathe_settings::Environment;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::sync::watch;

/// The time limit for writing the last frames after a signal.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// How the host runs us.
pub struct SdkOptions {
    /// How the session is opened.
    pub session: SessionOptions,
    /// Which frames the host wants.
    pub frames: FrameOptions,
    /// A prompt from the command line, if there is one.
    pub prompt: Option<String>,
    /// Whether `rewind_files` may be used.
    pub checkpointing: bool,
    /// Whether records are sent to the host as they are written.
    pub mirror: bool,
    /// Whether the next prompt is suggested even if the host doesn't ask for it.
    pub suggestions: bool,
    /// The MCP tool that answers permission questions, instead of the host itself.
    pub permission_tool: Option<String>,
    /// Changes when a signal arrives.
    pub signals: watch::Receiver<Signal>,
}

/// Runs until the host has closed its end and everything is done.
pub async fn run(
    environment: Environment,
    options: SdkOptions,
    input: impl Read + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
    errors: impl Write,
) -> Exit {
    let descriptor = output.as_fd().try_clone_to_owned().ok();
    let Ok((host, writer)) = Host::start_on(output, descriptor) else {
        return Exit::Failure;
    };
    let mut face = Face::new(environment, options, host.clone(), errors);
    let exit = Box::pin(face.run(input::lines(input))).await;
    drop(face);
    host.close();
    host.finish();
    // Off the runtime's threads: the host may read slowly.
    let writing = lathe_spawn::blocking(move || writer.finish());
    if matches!(exit, Exit::Interrupted | Exit::Terminated) {
        // The sender of the signal waits for us and may no longer read.
        let _ = tokio::time::timeout(LAST_WORDS, writing).await;
    } else {
        let _ = writing.await;
    }
    exit
}
