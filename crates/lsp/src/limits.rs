//! How long a server may take and how much it may send. A server is somebody else's program: it may hang,
//! flood or lie, and a session must not notice more of that than a missing answer.

use std::time::Duration;

/// The longest header of a message, and the most noise between two messages.
pub(crate) const HEADER_BYTES: usize = 64 * 1024;
/// The longest message that is kept; a longer one is read and thrown away.
pub(crate) const MESSAGE_BYTES: u64 = 32 * 1024 * 1024;
/// How many messages may wait for a server that doesn't read; then it counts as hung.
pub(crate) const WAITING_MESSAGES: usize = 512;
/// How long one question may take.
pub(crate) const REQUEST: Duration = Duration::from_secs(30);
/// How long a start may take unless settings say otherwise.
pub(crate) const STARTUP: Duration = Duration::from_secs(30);
/// How long a server may take to end unless settings say otherwise.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(2);
/// How often a server is started again, at most.
pub(crate) const RESTARTS: u32 = 3;
/// How long a question waits for a server that is still reading the project.
pub(crate) const INDEXING: Duration = Duration::from_secs(20);
/// The same for what nobody waits for.
pub(crate) const INDEXING_BESIDE: Duration = Duration::from_secs(180);
/// How long after its start an empty answer is doubted: a server may not have begun to read the project.
pub(crate) const YOUNG: Duration = Duration::from_secs(4);
/// How soon a doubted question is asked again, where nothing says that something changed.
pub(crate) const AGAIN: Duration = Duration::from_millis(400);
/// How long the problems of a file are waited for before it is changed.
pub(crate) const BASELINE: Duration = Duration::from_secs(10);
/// How long the problems of a file are waited for after it was changed. Nothing waits for this but the
/// news themselves.
pub(crate) const CHECK: Duration = Duration::from_secs(30);
/// The same for a server that last said nothing.
pub(crate) const CHECK_OF_QUIET: Duration = Duration::from_millis(1500);
/// How long a server that reports by itself must be still before its word is taken as the last.
pub(crate) const SETTLED: Duration = Duration::from_millis(150);
/// How soon after a file was saved a server begins the checks that it does then.
pub(crate) const AFTER_SAVE: Duration = Duration::from_millis(500);
/// How long the next request waits for news unless settings say otherwise.
pub(crate) const NEWS: Duration = Duration::from_secs(3);
/// The largest file that is shown to a server.
pub(crate) const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// The most problems that are kept of one file.
pub(crate) const PROBLEMS_OF_FILE: usize = 1000;
/// The most files whose problems are kept.
pub(crate) const FILES_WITH_PROBLEMS: usize = 2000;
/// The most files that are open at a server; the one that was used longest ago is closed.
pub(crate) const OPEN_FILES: usize = 100;
/// The most folders that one configured server runs in.
pub(crate) const INSTANCES: usize = 8;
/// The maximum number of changed files whose new problems are tracked.
pub(crate) const WATCHED: usize = 200;
/// How many other files are looked at again after an edit.
pub(crate) const AROUND: usize = 10;
/// How much of a server's last words is kept for the reason of a failure.
pub(crate) const LAST_WORDS: usize = 2048;
