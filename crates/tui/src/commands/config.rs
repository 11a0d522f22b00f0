//! `/config` shows and changes settings.

use crate::app::{App, settings};
use crate::commands;
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use lathe_protocol::command::BuiltinCommand;
use serde_json::Value;

/// The settings that `/config` offers: key, choices, what it is.
const CONFIG: &[(&str, &[&str], &str)] = &[
    ("model", &[], "the model"),
    (
        "theme",
        &[
            "auto",
            "dark",
            "light",
            "dark-colorblind",
            "light-colorblind",
            "ansi",
            "ansi-light",
        ],
        "colours",
    ),
    ("editorMode", &["normal", "vim"], "how the prompt is edited"),
    (
        "notifications",
        &["auto", "bell", "desktop", "off"],
        "how you are notified",
    ),
    (
        "autoCompact",
        &["true", "false"],
        "summarise before the window is full",
    ),
    (
        "prefersReducedMotion",
        &["true", "false"],
        "no moving spinner",
    ),
    (
        "spinnerTipsEnabled",
        &["true", "false"],
        "show tips while waiting",
    ),
    (
        "promptSuggestions",
        &["true", "false"],
        "suggest what to say next, in the empty prompt",
    ),
    (
        "awaySummary",
        &["true", "false"],
        "summarise what happened while you were away",
    ),
    ("language", &[], "the language of the answers"),
    ("outputStyle", &[], "the style of the answers"),
    (
        "cleanupPeriodDays",
        &[],
        "days after which unused sessions are deleted",
    ),
    (
        "respectGitignore",
        &["true", "false"],
        "leave ignored files out of @ completion",
    ),
    ("verbose", &["true", "false"], "show tool output unfolded"),
    (
        "costThresholdUsd",
        &[],
        "dollars after which Lathe asks whether to continue; 0 never asks",
    ),
];

pub(crate) fn run(app: &mut App, arguments: &str) {
    // A value after a blank is kept, one after `=` is for this session; a key alone is shown.
    if let Some((key, value)) = arguments.split_once(|c: char| c == '=' || c.is_whitespace())
        && !value.trim_start().starts_with('=')
        && arguments.as_bytes().get(key.len()) != Some(&b'=')
    {
        set(app, key, value.trim());
        return;
    }
    if !arguments.is_empty() {
        commands::answered_by_engine(app, BuiltinCommand::Config, arguments);
        return;
    }
    let settings = app
        .engine
        .handle
        .as_ref()
        .map(|session| session.settings().json())
        .unwrap_or_default();
    show(app, &settings, None);
}

fn show(app: &mut App, settings: &Value, selected: Option<&str>) {
    let items = CONFIG
        .iter()
        .map(|(key, choices, what)| {
            let value =
                value_of(settings, key).unwrap_or_else(|| format!("{} (default)", default_of(key)));
            let choices = if choices.is_empty() {
                String::new()
            } else {
                format!(" ({})", choices.join(", "))
            };
            Item::new(*key, format!("{key}: {value}"), format!("{what}{choices}"))
        })
        .collect();
    let mut picker = Picker::new(Purpose::Config, "Settings", items)
        .explained(vec![Line::styled(
            "`/config <key> <value>` saves a value in your settings, `/config <key>=<value>` sets it for this session.",
            app.look.theme.muted,
        )])
        .filterable()
        .with_key('x', "reset");
    if let Some(selected) = selected {
        picker = picker.at(selected);
    }
    app.layers.open(picker);
}

/// A setting as text.
fn value_of(settings: &Value, key: &str) -> Option<String> {
    let value = settings.get(key)?;
    Some(
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    )
}

/// The default of a setting.
fn default_of(key: &str) -> &'static str {
    match key {
        "theme" | "notifications" => "auto",
        "editorMode" => "normal",
        "autoCompact" | "spinnerTipsEnabled" | "promptSuggestions" | "awaySummary"
        | "respectGitignore" => "true",
        "prefersReducedMotion" | "verbose" => "false",
        "outputStyle" => "default",
        "cleanupPeriodDays" => "30",
        "costThresholdUsd" => "5",
        _ => "none",
    }
}

fn present(app: &App) -> Value {
    app.engine
        .handle
        .as_ref()
        .map(|session| session.settings().json())
        .unwrap_or_default()
}

/// Removes a setting from the user's own, so that its default applies again.
pub(crate) fn reset(app: &mut App, key: &str) {
    let mut settings = present(app);
    if let Some(settings) = settings.as_object_mut() {
        settings.remove(key);
    }
    if settings::unset(app, key) {
        settings::apply(app, &settings);
    }
    show(app, &settings, Some(key));
}

/// Something was chosen in the list: a switch is turned at once, the rest is asked for.
pub(crate) fn edit(app: &mut App, key: &str) {
    let Some((key, choices, what)) = CONFIG.iter().find(|(known, ..)| *known == key) else {
        return;
    };
    let mut settings = present(app);
    let now = value_of(&settings, key).unwrap_or_else(|| default_of(key).to_owned());
    if *choices == ["true", "false"] {
        let other = if now == "true" { "false" } else { "true" };
        set(app, key, other);
        settings[*key] = Value::Bool(other == "true");
        show(app, &settings, Some(key));
        return;
    }
    let purpose = Purpose::ConfigValue {
        key: (*key).to_owned(),
    };
    let title = format!("{key}: {what}");
    if choices.is_empty() {
        let text = value_of(&settings, key).unwrap_or_default();
        app.layers.open(Form::new(purpose, title, &text));
    } else {
        let items = choices
            .iter()
            .map(|choice| Item::new(*choice, *choice, ""))
            .collect();
        app.layers
            .open(Picker::new(purpose, title, items).marked(&now));
    }
}

pub(crate) fn set(app: &mut App, key: &str, text: &str) {
    let value =
        serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let path = match key.parse() {
        Ok(path) => path,
        Err(error) => {
            app.warn(format!("{error}"));
            return;
        }
    };
    if let Err(error) = lathe_settings::write::check(&path, &value) {
        app.warn(error.to_string());
        return;
    }
    let shown = format!("{key}: {value}");
    let mut settings = app
        .engine
        .handle
        .as_ref()
        .map(|session| session.settings().json())
        .unwrap_or_default();
    settings[key] = value.clone();
    settings::save(app, key, value);
    // Not only when the engine has seen the file: a user who changes something looks at once.
    settings::apply(app, &settings);
    app.remark(format!("{shown} (saved in your settings)"));
}
