use crate::app::{App, no_key, providers, settings};
use crate::commands::{doctor, logout};
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::theme::Theme;

/// The setting that names the program.
pub(super) const HELPER: &str = "apiKeyHelper";

pub(crate) fn key_helper(app: &App) -> Option<String> {
    let settings = app.engine.handle.as_ref()?.settings().json();
    settings.get(HELPER)?.as_str().map(str::to_owned)
}

/// Says where the key comes from, and lets a program be named that prints one.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let picker = login_picker(
        session.settings().key_source(),
        key_helper(app).is_some(),
        &app.look.theme,
    );
    app.layers.open(picker);
}

pub(crate) fn chosen(app: &mut App, what: &str) {
    match what {
        "helper" => {
            let present = key_helper(app).unwrap_or_default();
            app.layers
                .open(Form::new(Purpose::KeyHelper, HELPER_WORDS, &present));
        }
        "provider" => providers::look(app),
        "logout" => logout::run(app),
        _ => doctor::run(app),
    }
}

/// Asks for a program that prints the key.
pub(crate) const HELPER_WORDS: &str =
    "A command that prints the key, such as `pass show anthropic`";

/// Names the program that prints the key, for this user, if there is such a program.
pub(crate) fn set_helper(app: &mut App, command: &str) {
    let program = command.split_whitespace().next().unwrap_or_default();
    if !program.is_empty() && !is_program(program, app) {
        app.warn(format!(
            "There is no program `{program}`; nothing was saved."
        ));
        app.layers
            .open(Form::new(Purpose::KeyHelper, HELPER_WORDS, command));
        return;
    }
    if settings::save(app, HELPER, command.into()) {
        app.remark("Saved in your settings; new sessions get the key from this program.");
        if app.engine.handle.is_none() && !app.engine.opening {
            no_key::again(app);
        }
    }
}

/// Whether a word names a program. What a shell would work out first is left to the shell.
fn is_program(word: &str, app: &App) -> bool {
    if word.contains(['$', '`', '"', '\'', '(', '~', '=']) {
        return true;
    }
    let environment = &app.places.environment;
    if word.contains('/') {
        return environment.resolve(word).is_file();
    }
    let path = environment.foreign("PATH").unwrap_or_default();
    std::env::split_paths(path).any(|folder| folder.join(word).is_file())
}

pub(super) fn key_lines(source: &str, theme: &Theme) -> Vec<Line> {
    vec![
        Line::styled(
            format!("This session's API key comes from {source}."),
            theme.muted,
        ),
        Line::styled(
            "A key comes from ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN), from a program that prints one, or from what `lathe login` stored.",
            theme.muted,
        ),
    ]
}

/// Where the key comes from, and what can be done about it.
pub(crate) fn login_picker(source: &str, has_helper: bool, theme: &Theme) -> Picker {
    let mut items = vec![
        Item::new(
            "provider",
            "Store the key of a provider …",
            "as `lathe login` does",
        ),
        Item::new(
            "helper",
            "Set a program that prints the key …",
            "apiKeyHelper in your settings",
        ),
    ];
    if has_helper {
        items.push(Item::new("logout", "Remove the program", "same as /logout"));
    }
    items.push(Item::new(
        "doctor",
        "Check the installation",
        "same as /doctor",
    ));
    Picker::new(Purpose::Login, "API key", items).explained(key_lines(source, theme))
}
