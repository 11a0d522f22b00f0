//! Colours and motion.

use crate::app::App;
use crate::render::style::ColorDepth;
use crate::render::theme::Theme;
use crate::render::theme_files::ThemeFile;
use lathe_settings::Environment;

pub(crate) struct Appearance {
    pub(crate) theme: Theme,
    pub(crate) theme_name: String,
    /// The themes of plugins; known when the session is open.
    pub(crate) plugin_themes: Vec<ThemeFile>,
    pub(crate) light_background: bool,
    pub(crate) depth: ColorDepth,
    pub(crate) reduced_motion: bool,
    /// Whether tips are shown while waiting.
    pub(crate) tips: bool,
    /// Which tip is shown next.
    pub(crate) tip: usize,
    pub(crate) show_todos: bool,
    /// Whether settings let the tab or task bar show that a turn runs.
    pub(crate) shows_progress: bool,
    /// Whether the terminal is known to show it.
    pub(crate) knows_progress: bool,
}

impl Appearance {
    pub(crate) fn new(environment: &Environment) -> Self {
        let variable = |name: &str| environment.foreign(name).map(str::to_owned);
        let light_background = light_by_environment(variable("COLORFGBG").as_deref());
        Self {
            theme: Theme::built_in("auto", light_background),
            theme_name: "auto".to_owned(),
            plugin_themes: Vec::new(),
            light_background,
            depth: ColorDepth::detect(variable),
            reduced_motion: false,
            tips: true,
            tip: first_tip(),
            show_todos: true,
            shows_progress: true,
            knows_progress: knows_progress(environment),
        }
    }
}

/// Whether the terminal shows progress in its tab or task bar (OSC 9;4). Others may take it for a notification.
pub(crate) fn knows_progress(environment: &Environment) -> bool {
    let variable = |name: &str| environment.foreign(name).unwrap_or_default();
    let inside = ["tmux", "screen"];
    if inside.iter().any(|name| variable("TERM").starts_with(name)) {
        return false;
    }
    matches!(variable("TERM_PROGRAM"), "ghostty" | "WezTerm")
        || !variable("WT_SESSION").is_empty()
        || variable("ConEmuANSI") == "ON"
}

/// Whether the terminal tells modified keys apart by `modifyOtherKeys`. Others may take the sequence for colours.
pub(crate) fn knows_other_keys(environment: &Environment) -> bool {
    let is_set = |name: &str| environment.foreign(name).is_some();
    is_set("TMUX") || is_set("XTERM_VERSION")
}

/// Shows in the tab or task bar whether the model works.
pub(crate) fn follow_progress(app: &App) {
    if app.look.knows_progress {
        crate::terminal::progress(app.look.shows_progress && app.session.busy());
    }
}

/// `COLORFGBG` ends in the background's colour; 7 and 15 are light.
fn light_by_environment(value: Option<&str>) -> bool {
    value
        .and_then(|value| value.rsplit(';').next())
        .and_then(|last| last.parse::<u8>().ok())
        .is_some_and(|color| color == 7 || color == 15)
}

/// Another tip every minute.
fn first_tip() -> usize {
    usize::try_from(jiff::Timestamp::now().as_second().unsigned_abs() / 60).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_is_light_where_the_environment_says_so() {
        let table = [
            (Some("0;15"), true),
            (Some("0;default;7"), true),
            (Some("15;0"), false),
            (Some("nonsense"), false),
            (None, false),
        ];
        for (value, expected) in table {
            assert_eq!(light_by_environment(value), expected, "{value:?}");
        }
    }
}
