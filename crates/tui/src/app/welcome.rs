//! The first lines: what this is, and with what it works. Three of them at the first start, one later.

use crate::app::App;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line, wrap};
use lathe_protocol::permission::PermissionMode;
use std::path::Path;

/// How much was said at this start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Welcome {
    #[default]
    Nothing,
    /// The name of the program and what it does, before the first start asks for trust.
    Heading,
    /// Everything but the model, which was not known yet.
    WithoutModel,
    Everything,
}

/// Says what this is and with what it works, as far as that was not said at this start.
pub(crate) fn say(app: &mut App) {
    let said = std::mem::replace(&mut app.commands.welcome, Welcome::Everything);
    let Some(session) = &app.engine.handle else {
        return;
    };
    let model = session.model().display_name();
    let key = match session.settings().key_source() {
        "none" => "without a key".to_owned(),
        source => format!("key from {source}"),
    };
    let sandbox = match session.permissions().sandbox_tier() {
        Some(_) => "commands run in a sandbox",
        None => "read-only commands run confined, others need confirmation",
    };
    let model_row = fact(app, "model", &format!("{model}, {key}"));
    let here = here(app, Some(sandbox));
    let rows = match said {
        Welcome::Everything => return,
        Welcome::WithoutModel => model_row,
        Welcome::Heading => [model_row, here].concat(),
        Welcome::Nothing if is_first(&app.places.config_home) => {
            [heading(app, WHAT), model_row, here].concat()
        }
        Welcome::Nothing => heading(app, &format!(" · {model} · {}", folder(app))),
    };
    app.conversation.say_above(rows);
}

/// Says what this is before the first start asks whether the folder is trusted.
pub(crate) fn before_trust(app: &mut App) {
    if app.commands.welcome == Welcome::Nothing && is_first(&app.places.config_home) {
        app.commands.welcome = Welcome::Heading;
        let rows = heading(app, WHAT);
        app.conversation.say_above(rows);
    }
}

/// Says what this is before the first start asks for a model.
pub(crate) fn without_key(app: &mut App) {
    let said = app.commands.welcome;
    if matches!(said, Welcome::WithoutModel | Welcome::Everything)
        || !is_first(&app.places.config_home)
    {
        return;
    }
    app.commands.welcome = Welcome::WithoutModel;
    let mut rows = Vec::new();
    if said == Welcome::Nothing {
        rows = heading(app, WHAT);
    }
    rows.extend(fact(app, "model", "none yet: no key was found"));
    rows.extend(here(app, None));
    app.conversation.say_above(rows);
}

/// The purpose of the program in a few words.
const WHAT: &str = " works in your project with a language model";

fn heading(app: &App, rest: &str) -> Vec<Line> {
    let theme = &app.look.theme;
    let name = format!("Lathe {}", env!("CARGO_PKG_VERSION"));
    let line = Line::styled("▚ ", theme.accent)
        .with(name, Style::PLAIN.bold())
        .with(rest.to_owned(), theme.muted);
    wrap(&line, app.screen.width(), 2)
}

fn fact(app: &App, what: &str, text: &str) -> Vec<Line> {
    let line = Line::styled(format!("  {what:<8}"), app.look.theme.muted);
    let line = line.with(clean(text), Style::PLAIN);
    wrap(&line, app.screen.width(), 10)
}

fn here(app: &App, sandbox: Option<&str>) -> Vec<Line> {
    let mut words = vec![folder(app), mode_words(app.session.mode)];
    words.extend(sandbox.map(str::to_owned));
    fact(app, "here", &words.join(" · "))
}

fn folder(app: &App) -> String {
    let environment = &app.places.environment;
    one_line(&clean(&folder_words(
        &environment.cwd,
        environment.home.as_deref(),
    )))
}

/// Whether nobody has worked with this config home yet.
fn is_first(config_home: &Path) -> bool {
    let mut sessions = std::fs::read_dir(config_home.join("projects"))
        .into_iter()
        .flatten()
        .flatten();
    !sessions.any(|project| {
        std::fs::read_dir(project.path())
            .into_iter()
            .flatten()
            .flatten()
            .any(|file| file.path().extension().is_some_and(|it| it == "jsonl"))
    })
}

fn mode_words(mode: PermissionMode) -> String {
    match mode {
        PermissionMode::Default => "asks before changes".to_owned(),
        PermissionMode::AcceptEdits => "edits files without asking".to_owned(),
        PermissionMode::Plan => "plans and changes nothing".to_owned(),
        mode => format!("mode {mode}"),
    }
}

/// The folder, with `~` for the home.
fn folder_words(folder: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| folder.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => folder.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_is_known_by_the_absence_of_sessions() {
        let home = tempfile::tempdir().unwrap();
        assert!(is_first(home.path()));
        let project = home.path().join("projects/-p");
        std::fs::create_dir_all(&project).unwrap();
        assert!(is_first(home.path()));
        std::fs::write(project.join("a.jsonl"), "").unwrap();
        assert!(!is_first(home.path()));
    }

    #[test]
    fn the_home_is_shortened() {
        let home = Some(Path::new("/home/a"));
        assert_eq!(folder_words(Path::new("/home/a/x"), home), "~/x");
        assert_eq!(folder_words(Path::new("/home/a"), home), "~");
        assert_eq!(folder_words(Path::new("/home/ab"), home), "/home/ab");
    }
}
