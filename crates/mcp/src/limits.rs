//! How much a server may send before it is cut off. A server is somebody else's program: none of its
//! answers may fill our memory, our disk or the model's window.

use std::time::Duration;

/// The longest message that is read; a longer one ends the connection.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// The longest description of a tool, resource or prompt; the rest is cut.
pub const DESCRIPTION_CHARS: usize = 2048;
/// The longest text that a server tells the model about itself; the rest is cut.
pub const INSTRUCTIONS_CHARS: usize = 2048;
/// The most entries of one list; the rest is left out, and said.
pub const LIST_ITEMS: usize = 10_000;
/// The most pages of one list.
pub const LIST_PAGES: usize = 1_000;
/// The most that a list may take in memory; the rest is left out, and said.
pub const LIST_BYTES: usize = 32 * 1024 * 1024;
/// How big a server's log may grow; the older half is thrown away then.
pub const LOG_BYTES: u64 = 1024 * 1024;
/// How much of a server's last words is kept for the reason of a failure.
pub const LAST_WORDS_BYTES: usize = 2048;
/// The longest text of an error, a log line or a progress message; the rest is cut.
pub const TEXT_CHARS: usize = 4096;
/// How many local servers start at a time.
pub const LOCAL_STARTS: usize = 3;
/// How many remote servers start at a time.
pub const REMOTE_STARTS: usize = 20;
/// How often one call may ask for more input before it is given up.
pub const INPUT_ROUNDS: usize = 10;
/// How long a local server may take to end after its input was closed.
pub const FAREWELL: Duration = Duration::from_secs(2);
/// The biggest answer of an authorisation server.
pub const AUTH_BYTES: usize = 1024 * 1024;
/// The biggest parameters of a notification that are passed on; bigger ones are left out.
pub const NOTIFICATION_BYTES: usize = 64 * 1024;
/// How many questions of one server may be open at a time; further ones are declined.
pub const OPEN_QUESTIONS: usize = 8;
