//! User-defined checks at lifecycle events.
//!
//! A hook is a command, an address, a question to a model or a function of the SDK host. It receives
//! what is about to happen as JSON and may object, add context or change it. The [`registry`] knows which
//! hooks there are and which match ([`matcher`]); [`run`] runs all that match at once and folds what
//! they answer into one [`HookOutcome`]; [`answer`] holds the two pure halves of that: reading one
//! hook's output and merging many.
//!
//! A hook can narrow what is allowed and never widen it: after an `allow`, the caller must still apply
//! deny rules and the hard safety checks. A hook that hangs, floods its output, dies or leaves a daemon
//! behind is handled by [`lathe_process`] and never affects the turn.
//!
//! Start with [`HookRegistry::run`].
#![forbid(unsafe_code)]

pub mod answer;
pub mod cli;
pub mod environment_file;
pub mod helper;
pub mod host;
pub mod http;
pub mod matcher;
pub mod registry;
mod remote;
pub mod run;
mod sequence;

pub use answer::{HookAnswer, HookDecision, HookOutcome, HookPermission, HookRun, RunOutcome};
pub use helper::{HelperError, run_helper};
pub use host::{CallbackHost, HookModel, HookQuestion, HookTools, HookVerdict, ServiceError};
pub use matcher::Matcher;
pub use registry::{HookListing, HookRegistry, HookSource, SourceHandle};
pub use run::{LateAnswer, RunContext};

/// How often in a row stop hooks may send the model back to work.
pub const STOP_HOOK_LIMIT: u32 = 8;

/// Counts how often in a row stop hooks objected, so that a hook that always objects can't keep a
/// turn going for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StopLoop {
    objections: u32,
}

impl StopLoop {
    /// Whether the turn continues only because a stop hook objected: the `stop_hook_active` of the
    /// next `Stop` event.
    #[must_use]
    pub fn is_active(self) -> bool {
        self.objections > 0
    }

    /// A stop hook objects. Returns whether it may: after [`STOP_HOOK_LIMIT`] in a row it may not.
    pub fn object(&mut self) -> bool {
        if self.objections >= STOP_HOOK_LIMIT {
            return false;
        }
        self.objections += 1;
        true
    }

    /// The user spoke, or the turn ended: counting starts anew.
    pub fn reset(&mut self) {
        self.objections = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_hook_that_always_objects_is_heard_eight_times() {
        let mut stops = StopLoop::default();
        assert!(!stops.is_active());
        let heard = std::iter::repeat_with(|| stops.object())
            .take(20)
            .filter(|heard| *heard)
            .count();
        assert_eq!(heard, 8);
        assert!(stops.is_active());
        stops.reset();
        assert!(!stops.is_active() && stops.object());
    }
}
