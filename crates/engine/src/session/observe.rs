//! Observers: functions that see the events of a session besides its face, such as telemetry.

use lathe_protocol::event::Event;
use lathe_settings::{Environment, Settings};
use std::fmt;
use std::sync::Arc;

/// Sees every event. Called on the thread that sends it, so it must be quick and never wait.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// Begins to observe a session, once its settings are read; `None` if it does not want to. It may add variables for
/// child processes.
pub type BeginObserving =
    Arc<dyn Fn(&Settings, &mut Environment) -> Option<Observer> + Send + Sync>;

/// Who observes the session.
#[derive(Clone, Default)]
pub struct ObserveOptions(pub Option<BeginObserving>);

impl ObserveOptions {
    pub(crate) fn begin(
        &self,
        settings: &Settings,
        environment: &mut Environment,
    ) -> Option<Observer> {
        self.0.as_ref()?(settings, environment)
    }
}

impl fmt::Debug for ObserveOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("ObserveOptions")
            .field(&self.0.is_some())
            .finish()
    }
}
