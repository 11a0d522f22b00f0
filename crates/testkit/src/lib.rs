//! Fixtures and drivers for tests of the real binary. Test-only: no other crate depends on this one
//! except as a dev-dependency.
//!
//! The model is the only fake. A test makes a [`TestHome`] (a home, a configuration folder and a
//! project of its own, and an environment with nothing of the user's in it), points it at a
//! [`lathe_scripted::BlockingServer`], and runs the real `lathe`:
//!
//! - [`TestHome::run`] runs it to its end and gives what it wrote ([`Output`]);
//! - [`TestHome::spawn`] gives the process while it runs ([`Running`]), to be signalled or killed;
//! - [`StreamJson`] drives a session over the NDJSON protocol, frame by frame;
//! - [`TestHome::terminal`] runs it in a real terminal with an emulator behind it ([`Terminal`]);
//! - [`processes`] finds what a run left behind, even if it changed its session or its parent;
//! - [`browser`] is a real browser, for the page;
//! - [`peer`] is a plain HTTP server, for peers that aren't model servers;
//! - [`counts`] holds counts against the committed ones, [`profile`] divides instructions by crate;
//! - [`disk`] has folders that are full, [`transcript`] reads what was written.
//!
//! Every wait has a limit that ends in a failed test with all output shown, never in a hang. The
//! tests of this crate's `tests/` folder are about the workspace as a whole: its layers, its
//! hygiene, and the binary under crashes and faults.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test-only: a helper that fails is a test that fails, and skips are reported on stderr"
)]

pub mod binary;
pub mod browser;
pub mod counts;
pub mod disk;
pub mod home;
pub mod peer;
pub mod processes;
pub mod profile;
pub mod pty;
pub mod run;
pub mod stream_json;
pub mod transcript;

pub use home::TestHome;
pub use peer::{Peer, PeerReply, PeerRequest};
pub use pty::Terminal;
pub use run::{Output, Running};
pub use stream_json::{StreamJson, success};

use lathe_scripted::{BlockingServer, Ending, Position, Reply, Scenario};
use std::path::PathBuf;
use std::time::Duration;

/// The time after which a wait is a failure. Generous: machines differ, and
/// only a test that fails waits so long.
pub const HANG_LIMIT: Duration = Duration::from_secs(300);

/// A scripted server that gives these replies, in this order.
#[must_use]
pub fn server(replies: impl IntoIterator<Item = Reply>) -> BlockingServer {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    BlockingServer::start(scenario).expect("a free port on the loopback interface")
}

/// A reply that begins and never ends.
#[must_use]
pub fn endless() -> Reply {
    Reply::text("words without end")
        .delta_characters(4)
        .cut(Position::MidBlock(0), Ending::Silence)
}

/// The root of the workspace.
#[must_use]
pub fn workspace_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders below the root")
        .to_owned()
}

/// Says that a test can't run here and why. Where everything must run (`LATHE_TESTS_MUST_RUN` is
/// set, as in continuous integration) that is a failure.
///
/// # Panics
/// If everything must run.
#[track_caller]
pub fn report_skipped(test: &str, why: &str) {
    assert!(
        std::env::var_os("LATHE_TESTS_MUST_RUN").is_none(),
        "{test} must run here but can't: {why}"
    );
    eprintln!("SKIPPED {test}: {why}");
}
