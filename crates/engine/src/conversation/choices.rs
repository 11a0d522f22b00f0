//! Model, thinking, effort and fallback: chosen at the start, changed while the session runs.

use lathe_model::Thinking;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The choices that may change between steps.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    /// The model to use from the next step on.
    pub(crate) model: String,
    /// The model of plan mode, if the name of the model says so.
    pub(crate) planning: Option<String>,
    /// How the model may reason.
    pub(crate) thinking: Option<Thinking>,
    /// How hard the model should try (`low` … `max`); `None` leaves it to the API.
    pub(crate) effort: Option<String>,
    /// The models that take over, in this order, when the one before does not answer.
    pub(crate) fallbacks: Vec<String>,
}

/// The choices in effect, and those that the conversation began with.
pub(crate) struct ChoiceCell {
    now: RwLock<Choices>,
    /// The choices of a reset.
    pub(crate) first: Choices,
}

impl ChoiceCell {
    pub(crate) fn new(first: Choices) -> Self {
        Self {
            now: RwLock::new(first.clone()),
            first,
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Choices> {
        self.now.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Choices> {
        self.now.write()
    }

    /// Sets the effort; `None` is what the conversation began with.
    pub(crate) fn set_effort(&self, level: Option<&str>) {
        let level = level.map(str::to_owned);
        self.write().effort = level.or_else(|| self.first.effort.clone());
    }
}
