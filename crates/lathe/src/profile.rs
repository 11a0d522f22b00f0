//! `LATHE_PROFILE_STARTUP=1`: when each step of a start was done.

use lathe_settings::{Environment, Variable};
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Remembers when the process began.
pub(crate) fn start() {
    let _ = START.set(Instant::now());
}

/// Prints how long it took up to here, where that was asked for.
pub(crate) fn checkpoint(environment: &Environment, name: &str) {
    if !environment.is_on(Variable::ProfileStartup) {
        return;
    }
    let since = START.get().map(Instant::elapsed).unwrap_or_default();
    let milliseconds = since.as_secs_f64() * 1000.0;
    let _ = writeln!(
        std::io::stderr(),
        "lathe: start {milliseconds:8.2} ms {name}"
    );
}
