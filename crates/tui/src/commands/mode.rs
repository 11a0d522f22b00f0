//! `/mode` chooses the permission mode.

use crate::app::App;
use crate::layers::{Item, Picker, Purpose};
use lathe_protocol::permission::PermissionMode;

pub(crate) fn run(app: &mut App, wanted: &str) {
    if !wanted.is_empty() {
        match wanted.parse() {
            Ok(mode) => set(app, mode),
            Err(error) => app.warn(error.to_string()),
        }
        return;
    }
    let items = PermissionMode::ALL
        .into_iter()
        .map(|mode| {
            let what = match mode {
                PermissionMode::Default => "asks before changing anything",
                PermissionMode::AcceptEdits => "edits files in the project without asking",
                PermissionMode::Plan => "only reads, and makes a plan",
                PermissionMode::DontAsk => "denies calls that need confirmation",
                PermissionMode::BypassPermissions => "never asks; use only in a sandbox",
                PermissionMode::Auto => "a classifier answers the questions",
            };
            Item::new(mode.name(), mode.name(), what)
        })
        .collect();
    let picker =
        Picker::new(Purpose::Mode, "Permission mode", items).marked(app.session.mode.name());
    app.layers.open(picker);
}

pub(crate) fn set(app: &mut App, mode: PermissionMode) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    match session.permissions().set_mode(mode) {
        Ok(()) => app.mode_changed(mode),
        Err(error) => app.warn(error.to_string()),
    }
}

pub(crate) fn cycle(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let mode = session.permissions().next_mode();
    match session.permissions().set_mode(mode) {
        Ok(()) => app.mode_changed(mode),
        Err(error) => app.warn(error.to_string()),
    }
}
