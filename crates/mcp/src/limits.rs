//! Limits on what a server may send. Servers are third-party programs: their answers must not fill
//! memory, disk or the model's context window.

use std::time::Duration;

/// The maximum size of a message; a larger one ends the connection.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// The maximum length of a tool's, resource's or prompt's description; the rest is cut.
pub const DESCRIPTION_CHARS: usize = 2048;
/// The maximum length of a server's instructions; the rest is cut.
pub const INSTRUCTIONS_CHARS: usize = 2048;
/// The maximum number of entries in a list; the rest is left out with a remark.
pub const LIST_ITEMS: usize = 10_000;
/// The maximum number of pages of a list.
pub const LIST_PAGES: usize = 1_000;
/// The maximum memory size of a list; the rest is left out with a remark.
pub const LIST_BYTES: usize = 32 * 1024 * 1024;
/// The maximum size of a server's log; the older half is then dropped.
pub const LOG_BYTES: u64 = 1024 * 1024;
/// How much of a server's last output is kept for error messages.
pub const LAST_WORDS_BYTES: usize = 2048;
/// The maximum length of an error, a log line or a progress message; the rest is cut.
pub const TEXT_CHARS: usize = 4096;
/// The number of local servers that start in parallel.
pub const LOCAL_STARTS: usize = 3;
/// The number of remote servers that connect in parallel.
pub const REMOTE_STARTS: usize = 20;
/// The maximum number of input rounds of one call.
pub const INPUT_ROUNDS: usize = 10;
/// How long a local server may take to exit after its input is closed.
pub const FAREWELL: Duration = Duration::from_secs(2);
/// The maximum size of an authorisation server's answer.
pub const AUTH_BYTES: usize = 1024 * 1024;
/// The maximum size of a notification's parameters; larger ones are dropped.
pub const NOTIFICATION_BYTES: usize = 64 * 1024;
/// The maximum number of open questions of one server; further ones are declined.
pub const OPEN_QUESTIONS: usize = 8;
