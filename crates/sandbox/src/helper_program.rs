//! The program that is the helper inside a sandbox: our own binary, once it said so.
//!
//! A program that embeds the engine runs something else when it is started with the helper's word, perhaps itself
//! again and again. So nothing is wrapped until the running program has declared that it knows the word.

use std::path::PathBuf;
use std::sync::OnceLock;

static OFFERED: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Declares that the running program is the helper if it is started with [`HELPER_WORD`](crate::HELPER_WORD).
pub fn offer_helper() {
    OFFERED.get_or_init(|| std::env::current_exe().ok());
}

/// Hides the environment and the memory of this process from others of the same user, its own children among them:
/// the keys that children don't get stand there. Programs that it starts are not hidden.
#[cfg(target_os = "linux")]
pub fn hide_process() {
    // SAFETY: the call takes numbers. Where the kernel refuses it, everything works as before.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// The helper; `None` if the running program isn't one.
#[must_use]
pub fn helper_program() -> Option<PathBuf> {
    OFFERED.get().cloned().flatten()
}
