//! After a panic: a working terminal, a short message, and how to resume.
//!
//! A panic in a tool or a turn is caught by the engine and is no reason to leave. So the hook only
//! remembers what happened; whether the terminal itself crashed is known where it is awaited.

use parking_lot::Mutex;

static LAST: Mutex<Option<String>> = Mutex::new(None);
static SESSION: Mutex<Option<String>> = Mutex::new(None);

/// Remembers panics instead of printing them over the screen.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |location| {
            format!(" ({}:{})", location.file(), location.line())
        });
        let words = info
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown reason".to_owned());
        tracing::error!(%words, place, "a panic");
        *LAST.lock() = Some(format!("{words}{place}"));
    }));
}

/// Names the session that could be resumed.
pub(crate) fn session(id: String) {
    *SESSION.lock() = Some(id);
}

/// The session's id.
pub(crate) fn session_id() -> Option<String> {
    SESSION.lock().clone()
}

/// The message after a crash.
pub(crate) fn message() -> String {
    let what = LAST
        .lock()
        .take()
        .unwrap_or_else(|| "unknown reason".to_owned());
    let resume = session_id().map_or_else(String::new, |id| {
        format!("\nThe conversation is saved. Resume it with: lathe --resume {id}")
    });
    format!("Lathe crashed (this is a bug): {what}{resume}")
}
