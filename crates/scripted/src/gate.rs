//! Gates: places where the server waits until a test says go, so that no test needs a sleep.

use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// The handle of a gate. It starts closed; clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    permits: Arc<Semaphore>,
    reached: Arc<watch::Sender<usize>>,
}

impl Gate {
    fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(0)),
            reached: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Opens the gate for everything that waits at it now or comes to it later.
    pub fn release(&self) {
        self.permits.close();
    }

    /// Lets one reply through.
    pub fn pass_one(&self) {
        self.permits.add_permits(1);
    }

    /// How many replies have come to the gate.
    #[must_use]
    pub fn reached(&self) -> usize {
        *self.reached.borrow()
    }

    /// Waits until this many replies have come to the gate. Everything before it has then been
    /// handed to the connection.
    pub async fn wait_reached(&self, count: usize) {
        let mut reached = self.reached.subscribe();
        // The sender lives in `self`, so the wait can't fail.
        let _ = reached.wait_for(|reached| *reached >= count).await;
    }

    pub(crate) async fn pass(&self) {
        self.reached.send_modify(|reached| *reached += 1);
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }
}

/// All gates of a server, by name.
#[derive(Debug, Default)]
pub(crate) struct Gates(parking_lot::Mutex<HashMap<String, Gate>>);

impl Gates {
    pub(crate) fn get(&self, name: &str) -> Gate {
        self.0
            .lock()
            .entry(name.to_owned())
            .or_insert_with(Gate::new)
            .clone()
    }
}
