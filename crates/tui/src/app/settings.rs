//! The settings that the terminal itself uses: applying, saving, reloading.

use crate::app::App;
use crate::app::watching::{Contents, Watching};
use crate::prompt::editor::vim::Vim;
use crate::render::theme::Theme;
use crate::render::theme_files::{self, ThemeFile};
use lathe_protocol::event::NoticeLevel;
use lathe_settings::Source;
use lathe_settings::Variable;
use lathe_settings::write::Edit;
use serde_json::Value;
use std::collections::BTreeMap;

/// How the user is notified that something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notify {
    Auto,
    Bell,
    Desktop,
    Off,
}

pub(crate) struct TerminalSettings {
    /// Whether the empty prompt suggests what to say next.
    pub(crate) suggestions: bool,
    /// Whether what happened meanwhile is summarised when the user comes back.
    pub(crate) away_summary: bool,
    /// The user is asked at each multiple of these dollars; 0 never asks.
    pub(crate) cost_threshold: f64,
    pub(crate) notifications: Notify,
    /// The values that were last applied.
    pub(crate) applied: Option<BTreeMap<String, Value>>,
    /// Keys that were saved from here and that the session has not reported yet.
    pub(crate) saved_here: Vec<String>,
    /// Watches themes and key bindings.
    pub(crate) watching: Option<Watching>,
    /// The watched files as they were last read.
    pub(crate) known_files: Contents,
}

impl Default for TerminalSettings {
    fn default() -> Self {
        Self {
            suggestions: false,
            away_summary: false,
            cost_threshold: crate::app::spending::THRESHOLD,
            notifications: Notify::Auto,
            applied: None,
            saved_here: Vec::new(),
            watching: None,
            known_files: Contents::new(),
        }
    }
}

/// The settings that the terminal itself uses.
const TERMINAL_KEYS: &[&str] = &[
    "theme",
    "editorMode",
    "prefersReducedMotion",
    "terminalProgressBarEnabled",
    "vimInsertModeRemaps",
    "spinnerTipsEnabled",
    "notifications",
    "promptSuggestions",
    "awaySummary",
    "verbose",
    "costThresholdUsd",
    "onTerminalClose",
];

impl TerminalSettings {
    /// Whether a notice only tells of a setting that was saved here a moment ago: that was said then.
    pub(crate) fn saved_here(&mut self, notice: &str) -> bool {
        let Some(change) = notice.strip_prefix("Settings changed: ") else {
            return false;
        };
        let at = self.saved_here.iter().position(|key| {
            change
                .strip_prefix(key.as_str())
                .is_some_and(|rest| rest.starts_with([' ', ':']))
        });
        let alone = !change.contains(", ");
        at.map(|at| self.saved_here.swap_remove(at)).is_some() && alone
    }
}

/// Saves a user setting. Returns whether that worked; if not, a warning is shown.
pub(crate) fn save(app: &mut App, key: &str, value: Value) -> bool {
    let name = key;
    let Ok(key) = key.parse() else {
        return false;
    };
    let edits = [Edit::Set { key, value }];
    match lathe_settings::write::write(&app.places, Source::User, &edits, None) {
        Ok(_) => {
            app.settings.saved_here.push(name.to_owned());
            true
        }
        Err(error) => {
            app.warn(error.to_string());
            false
        }
    }
}

/// Takes a setting out of the user's own. Returns whether that worked; if not, a warning is shown.
pub(crate) fn unset(app: &mut App, name: &str) -> bool {
    let Ok(key) = name.parse() else {
        return false;
    };
    match lathe_settings::write::write(&app.places, Source::User, &[Edit::Unset { key }], None) {
        Ok(_) => {
            app.settings.saved_here.push(name.to_owned());
            true
        }
        Err(error) => {
            app.warn(error.to_string());
            false
        }
    }
}

/// Applies the settings that the terminal itself uses.
pub(crate) fn apply(app: &mut App, value: &Value) {
    app.settings.applied = Some(terminal_values(value));
    app.prompt.files.command_failed = false;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let switch = |key: &str| value.get(key).and_then(Value::as_bool);
    let name = text("theme").unwrap_or("auto");
    if name != app.look.theme_name {
        set_theme(app, name);
    }
    match text("editorMode") {
        Some("vim") if app.prompt.vim.is_none() => app.prompt.vim = Some(Vim::default()),
        Some("vim") => {}
        _ => app.prompt.vim = None,
    }
    if let Some(vim) = &mut app.prompt.vim {
        let remaps = value.get("vimInsertModeRemaps").and_then(Value::as_object);
        let letters = remaps.into_iter().flat_map(|remaps| remaps.keys().cloned());
        vim.set_remaps(letters.collect());
    }
    if let Some(hosting) = &mut app.engine.hosting {
        hosting.ends_with_terminal = text("onTerminalClose") == Some("end");
    }
    app.look.shows_progress = switch("terminalProgressBarEnabled") != Some(false);
    app.look.reduced_motion = switch("prefersReducedMotion") == Some(true);
    app.look.tips = switch("spinnerTipsEnabled") != Some(false);
    let suggestions = app.places.environment.switch(Variable::PromptSuggestions);
    app.settings.suggestions = suggestions.unwrap_or(switch("promptSuggestions") != Some(false));
    app.settings.away_summary = switch("awaySummary") != Some(false);
    app.settings.cost_threshold = value
        .get("costThresholdUsd")
        .and_then(Value::as_f64)
        .unwrap_or(crate::app::spending::THRESHOLD);
    app.conversation
        .set_verbose(switch("verbose") == Some(true));
    app.settings.notifications = match text("notifications") {
        Some("bell") => Notify::Bell,
        Some("desktop") => Notify::Desktop,
        Some("off") => Notify::Off,
        _ => Notify::Auto,
    };
}

/// Says what the company wants to be said at the start.
fn announce(app: &mut App, value: &Value) {
    for line in value
        .get("companyAnnouncements")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Some(line) = line.as_str() {
            let line = line.to_owned();
            app.with_look(|conversation, look| {
                conversation.notice(NoticeLevel::Info, line, look);
            });
        }
    }
}

pub(crate) fn set_theme(app: &mut App, name: &str) {
    let (theme, problems) = Theme::load(name, app.look.light_background, &theme_files(app));
    app.look.theme = theme;
    name.clone_into(&mut app.look.theme_name);
    if theme_files::is_of_plugin(name) && app.engine.handle.is_none() {
        // Its plugin is known when the session is open.
        return;
    }
    for problem in problems {
        app.warn(problem);
    }
}

/// The themes that are in files.
pub(crate) fn theme_files(app: &App) -> Vec<ThemeFile> {
    let homes = [&app.places.config_home];
    let mut files = theme_files::own(homes.into_iter().chain(&app.places.claude_home));
    files.extend(app.look.plugin_themes.iter().cloned());
    files
}

/// Plugins were loaded: their themes can be chosen, and the one that settings name takes effect.
pub(crate) fn plugins_loaded(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let plugins = session.plugins().loaded();
    let contributions = plugins.plugins.iter().map(|plugin| &plugin.contribution);
    app.look.plugin_themes = contributions
        .flat_map(|plugin| theme_files::of_plugin(&plugin.name, &plugin.session.themes))
        .collect();
    let name = app.look.theme_name.clone();
    if theme_files::is_of_plugin(&name) {
        set_theme(app, &name);
    }
}

/// Settings may have changed: applies what concerns the terminal.
pub(crate) fn reload(app: &mut App) {
    let Some(settings) = app
        .engine
        .handle
        .as_ref()
        .map(|session| session.settings().json())
    else {
        return;
    };
    let terminal_values = terminal_values(&settings);
    if app.settings.applied.as_ref() != Some(&terminal_values) {
        apply(app, &settings);
    }
}

/// Of all settings, those that the terminal itself uses.
pub(crate) fn terminal_values(settings: &Value) -> BTreeMap<String, Value> {
    TERMINAL_KEYS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), settings.get(key)?.clone())))
        .collect()
}

/// The settings were read for the first time, or again after the folder was trusted.
pub(crate) fn loaded(app: &mut App, value: &Value, problems: Vec<String>) {
    apply(app, value);
    // A session that is open already uses the settings that it read itself.
    reload(app);
    announce(app, value);
    for problem in problems {
        app.warn(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::{Vim, apply};
    use crate::app::App;
    use crate::render::live;
    use crate::render::markdown::Look;
    use crate::render::style::Line;
    use lathe_settings::Environment;
    use serde_json::{Value, json};
    use std::time::{Duration, Instant};

    #[test]
    fn letters_leave_insert_mode_as_settings_say() {
        let mut app = crate::render::view_tests::app(80, 24);
        let settings = json!({"editorMode": "vim", "vimInsertModeRemaps": {"jj": "<Esc>"}});
        apply(&mut app, &settings);
        let press = |app: &mut App, text: &str| {
            for key in crate::terminal::key::keys(text) {
                app.input(crate::terminal::input::Input::Key(key));
            }
        };
        press(&mut app, "aj");
        let inserting = |app: &App| app.prompt.vim.as_ref().is_some_and(Vim::inserting);
        assert!(inserting(&app));
        press(&mut app, "j");
        assert!(!inserting(&app));
        assert_eq!(app.prompt.editor.text(), "a");
        // A key between them makes them two letters.
        press(&mut app, "Aj<left><right>j");
        assert!(inserting(&app));
        assert_eq!(app.prompt.editor.text(), "ajj");
    }

    #[test]
    fn progress_is_shown_where_the_terminal_can_and_settings_allow_it() {
        let mut app = crate::render::view_tests::app(80, 24);
        let knows = |variables: &[(&str, &str)]| {
            let variables = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            crate::app::look::knows_progress(&Environment::of_variables(variables))
        };
        assert!(knows(&[
            ("TERM_PROGRAM", "ghostty"),
            ("TERM", "xterm-ghostty")
        ]));
        assert!(knows(&[("WT_SESSION", "x")]));
        assert!(!knows(&[
            ("TERM_PROGRAM", "ghostty"),
            ("TERM", "tmux-256color")
        ]));
        assert!(!knows(&[("TERM_PROGRAM", "Apple_Terminal")]));
        apply(&mut app, &json!({"terminalProgressBarEnabled": false}));
        assert!(!app.look.shows_progress);
        apply(&mut app, &json!({}));
        assert!(app.look.shows_progress);
    }

    #[test]
    fn hints_and_motion_are_as_settings_say() {
        let mut app = crate::render::view_tests::app(80, 24);
        app.session.turn.began = Instant::now().checked_sub(Duration::from_secs(13));
        let shown = |app: &mut App, settings: Value| {
            apply(app, &settings);
            let look = Look {
                theme: &app.look.theme,
                columns: 80,
                keys: &app.prompt.keymap,
            };
            let lines = live::status(app, look);
            let lines: Vec<String> = lines.iter().map(Line::text).collect();
            lines.join("\n")
        };
        let usual = shown(&mut app, json!({}));
        assert!(usual.contains("tip: ") && !usual.contains('●'), "{usual}");
        let quiet = shown(&mut app, json!({"spinnerTipsEnabled": false}));
        assert!(!quiet.contains("tip: "), "{quiet}");
        let still = shown(&mut app, json!({"prefersReducedMotion": true}));
        assert!(still.contains('●'), "{still}");
    }

    #[test]
    fn a_setting_saved_here_is_not_reported_again() {
        let mut app = crate::render::view_tests::app(80, 24);
        app.settings.saved_here = vec!["verbose".to_owned(), "theme".to_owned()];
        let table = [
            ("Settings changed: verboseness is now true", false),
            ("Settings changed: verbose is now true", true),
            ("Settings changed: verbose is now false", false),
            (
                "Settings changed: theme is now \"dark\", model is now \"opus\"",
                false,
            ),
            ("something else", false),
        ];
        for (notice, expected) in table {
            assert_eq!(app.settings.saved_here(notice), expected, "{notice}");
        }
    }
}
