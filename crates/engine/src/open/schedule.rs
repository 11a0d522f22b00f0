//! The scheduled prompts of a session that is being opened.

use super::loaded::Loaded;
use lathe_settings::Source;
use lathe_tools::schedule::{Clock, JobsFile, Schedule, SystemClock, zone};
use std::sync::Arc;

/// Scheduled prompts.
#[derive(Debug, Clone, Default)]
pub struct ScheduleOptions {
    /// Whether the session stays open between turns, so that prompts can come by themselves. The terminal's always does.
    pub fires: bool,
    /// Another clock than the computer's, for tests.
    pub clock: Option<SessionClock>,
}

/// A clock for a session.
#[derive(Clone)]
pub struct SessionClock(pub Arc<dyn Clock>);

impl std::fmt::Debug for SessionClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionClock").field(&self.0.now()).finish()
    }
}

/// The schedule of a session. The jobs of a folder that nobody trusts are left alone.
pub(super) fn schedule(loaded: &Loaded) -> Arc<Schedule> {
    let places = &loaded.places;
    let options = &loaded.options.schedule;
    let file = loaded
        .trust
        .covers(Source::Project)
        .then(|| JobsFile::of_project(&places.project, &places.config_home));
    let clock: Arc<dyn Clock> = match &options.clock {
        Some(SessionClock(clock)) => clock.clone(),
        None => Arc::new(SystemClock),
    };
    let variables = &places.environment.variables;
    let variable = |name: &str| variables.get(name).map(String::as_str);
    let zone = zone(variable("TZ"), variable("TZDIR"));
    let fires = options.fires || loaded.options.interactive;
    Arc::new(Schedule::new(file, clock, zone, fires))
}
