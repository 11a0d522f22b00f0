//! Getting the user's attention: hints in the footer, notifications, the focus of the terminal.

use crate::app::App;
use crate::app::away::Away;
use crate::app::settings::Notify;
use std::time::Instant;

pub(crate) struct Alarms {
    /// Whether the terminal has the focus.
    pub(crate) focused: bool,
    pub(crate) away: Away,
    /// A hint in the footer, and until when it is shown.
    pub(crate) hint: Option<(&'static str, Instant)>,
    pub(crate) last_escape: Option<Instant>,
}

impl Default for Alarms {
    fn default() -> Self {
        Self {
            focused: true,
            away: Away::default(),
            hint: None,
            last_escape: None,
        }
    }
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
