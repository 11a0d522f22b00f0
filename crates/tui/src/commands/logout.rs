//! `/logout` removes the program that prints the API key.

use super::login::{HELPER, key_lines};
use crate::app::App;
use crate::commands::login;
use crate::layers::{Item, Picker, Purpose};
use crate::render::theme::Theme;
use lathe_settings::Source;
use lathe_settings::write::Edit;

/// Takes the program away, or says how the key was given.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    if login::key_helper(app).is_none() {
        let source = session.settings().key_source().to_owned();
        app.remark(format!(
            "This session's key comes from {source}: unset it where you set it. `lathe logout <provider>` removes a stored one, /mcp signs out of servers."
        ));
        return;
    }
    let picker = logout_picker(session.settings().key_source(), &app.look.theme);
    app.layers.open(picker);
}

pub(crate) fn chosen(app: &mut App, what: &str) {
    if what != "forget" {
        return;
    }
    let Ok(key) = HELPER.parse() else {
        return;
    };
    match lathe_settings::write::write(&app.places, Source::User, &[Edit::Unset { key }], None) {
        Ok(_) => app.remark(
            "Removed the program from your settings; project or managed settings may still name one (/doctor shows it).",
        ),
        Err(error) => app.warn(error.to_string()),
    }
}

/// The question whether to forget the program that prints the key.
pub(crate) fn logout_picker(source: &str, theme: &Theme) -> Picker {
    let items = vec![
        Item::new(
            "forget",
            "Remove the program that prints the key",
            "removes apiKeyHelper from your settings",
        ),
        Item::new("keep", "Keep it", ""),
    ];
    Picker::new(Purpose::Logout, "Remove the API key program?", items)
        .explained(key_lines(source, theme))
}
