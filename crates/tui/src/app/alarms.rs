//! Getting the user's attention: hints in the footer, notifications, the focus of the terminal.

use crate::app::App;
use crate::app::away::Away;
use crate::app::notices::Notices;
use crate::app::settings::Notify;
use lathe_settings::{Environment, Variable};
use std::time::{Duration, Instant};

/// The notification for an idle user.
const IDLE: &str = "Lathe is waiting for your input";

pub(crate) struct Alarms {
    /// Whether the terminal has the focus.
    pub(crate) focused: bool,
    pub(crate) away: Away,
    /// A hint in the footer, and until when it is shown.
    pub(crate) hint: Option<(&'static str, Instant)>,
    pub(crate) last_escape: Option<Instant>,
    /// When the user counts as idle, if nothing happens until then.
    pub(crate) idle: Option<Instant>,
    /// News about the program itself.
    pub(crate) notices: Notices,
}

/// After how many seconds without a key the user is told that Lathe waits.
const IDLE_SECONDS: u64 = 60;
/// How long a hint is shown, and 'press again' is valid.
const HINT: Duration = Duration::from_secs(2);
/// How long after a first Esc a second one is a double press.
const DOUBLE_ESCAPE: Duration = Duration::from_millis(900);

impl Alarms {
    /// The model is done: the user is told if nothing comes for a while.
    pub(crate) fn wait_for_user(&mut self, environment: &Environment) {
        let seconds = environment.number(Variable::IdlePromptSeconds);
        let limit = Duration::from_secs(seconds.unwrap_or(IDLE_SECONDS));
        self.idle = Some(Instant::now() + limit);
    }

    /// The user did something.
    pub(crate) fn user_is_active(&mut self) {
        self.idle = None;
        self.away.user_is_active();
    }

    /// Shows a hint for a moment.
    pub(crate) fn show(&mut self, words: &'static str) {
        self.show_for(words, HINT);
    }

    pub(crate) fn show_for(&mut self, words: &'static str, time: Duration) {
        self.hint = Some((words, Instant::now() + time));
    }

    /// Whether this hint is being shown; if not, it is from now on.
    pub(crate) fn confirmed(&mut self, words: &'static str) -> bool {
        let now = Instant::now();
        let shown = self
            .hint
            .is_some_and(|(hint, until)| hint == words && until > now);
        if !shown {
            self.show(words);
        }
        shown
    }

    /// Takes an outdated hint away.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.hint.take_if(|(_, until)| *until <= now);
    }

    /// Esc was pressed. Returns whether it is the second of a double press.
    pub(crate) fn escape(&mut self) -> bool {
        let again = self
            .last_escape
            .take()
            .is_some_and(|last| last.elapsed() < DOUBLE_ESCAPE);
        if !again {
            self.last_escape = Some(Instant::now());
        }
        again
    }
}

impl Default for Alarms {
    fn default() -> Self {
        Self {
            focused: true,
            away: Away::default(),
            hint: None,
            last_escape: None,
            idle: None,
            notices: Notices::default(),
        }
    }
}

/// Tells the user, and hooks, that Lathe waits for input.
pub(crate) fn idle(app: &mut App) {
    app.alarms.idle = None;
    if app.session.busy() {
        return;
    }
    if let Some(session) = &app.engine.handle {
        session.notify("idle_prompt", IDLE);
    }
    notify(app, IDLE);
}

/// Tells a user who looks elsewhere.
pub(crate) fn notify(app: &mut App, text: &str) {
    if app.alarms.focused {
        return;
    }
    let text = crate::render::text::clean(text).replace(['\n', ';'], " ");
    let sequence = match app.settings.notifications {
        Notify::Off => return,
        Notify::Bell => "\x07".to_owned(),
        Notify::Desktop => format!("\x1b]9;{text}\x07\x1b]777;notify;Lathe;{text}\x07"),
        Notify::Auto => {
            let program = app
                .places
                .environment
                .foreign("TERM_PROGRAM")
                .unwrap_or_default();
            let term = app.places.environment.foreign("TERM").unwrap_or_default();
            if matches!(program, "iTerm.app" | "WezTerm" | "ghostty") || term == "xterm-kitty" {
                format!("\x1b]9;{text}\x07")
            } else {
                "\x07".to_owned()
            }
        }
    };
    app.screen.pending.push_str(&sequence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_confirmed_while_it_is_shown() {
        let mut alarms = Alarms::default();
        assert!(!alarms.confirmed("again to exit"));
        assert!(alarms.confirmed("again to exit"));
        assert!(!alarms.confirmed("something else"));
        alarms.expire(Instant::now() + HINT);
        assert!(alarms.hint.is_none());
    }

    #[test]
    fn two_escapes_make_a_double_press_and_a_third_begins_another() {
        let mut alarms = Alarms::default();
        assert_eq!(
            [(); 4].map(|()| alarms.escape()),
            [false, true, false, true]
        );
    }

    #[test]
    fn how_long_a_person_may_be_idle_is_a_variable() {
        let within = |variables: &[(&str, &str)]| {
            let mut alarms = Alarms::default();
            alarms.wait_for_user(&Environment::of_variables(variables.iter().copied()));
            let hour = Duration::from_secs(3_600);
            alarms.idle.is_some_and(|idle| idle < Instant::now() + hour)
        };
        assert!(within(&[]));
        assert!(!within(&[("LATHE_IDLE_PROMPT_SECONDS", "7200")]));
    }
}
