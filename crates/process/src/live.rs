//! Every command that runs in this process, so that nothing outlives it.

use crate::family::{Family, Leader};
use crate::guard;
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static LIVE: Mutex<BTreeMap<u64, Family>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A command's entry in the list of living ones. Dropped without [`Registration::ended`] (the
/// runtime was shut down under it), it kills what is left.
#[derive(Debug)]
pub struct Registration(Option<u64>);

impl Registration {
    pub(crate) fn new(family: Family) -> Self {
        let key = NEXT.fetch_add(1, Ordering::Relaxed);
        LIVE.lock().insert(key, family);
        Self(Some(key))
    }

    /// The command has ended and nothing of it is left.
    pub fn ended(mut self) {
        if let Some(key) = self.0.take() {
            LIVE.lock().remove(&key);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(key) = self.0.take() {
            let family = LIVE.lock().remove(&key);
            if let Some(mut family) = family {
                family.kill_now();
            }
        }
    }
}

/// Ends every command that this process runs, in the foreground or in the background: SIGTERM first,
/// SIGKILL for what is left after `grace`. For the exit of the program; blocks the calling thread.
pub fn kill_everything(grace: Duration) {
    let mut families: Vec<Family> = LIVE.lock().values().cloned().collect();
    families.retain_mut(|family| !family.signal(Signal::SIGTERM, Leader::Included).is_empty());
    let deadline = Instant::now() + grace;
    while !families.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
        families.retain_mut(|family| !family.members(Leader::Included).is_empty());
    }
    for family in &mut families {
        family.kill_now();
    }
    guard::dismiss();
}
