//! The first lines: what this is, and with what it works. Three of them at the first start, one later.

use crate::app::App;
use crate::render::style::{Line, Style};
use crate::render::text::truncate;
use lathe_protocol::permission::PermissionMode;
use std::path::Path;

/// Says what this is, once for each start.
pub(crate) fn say(app: &mut App) {
    if std::mem::replace(&mut app.commands.welcomed, true) {
        return;
    }
    let lines = lines(app);
    app.conversation.say_above(lines);
}

fn lines(app: &App) -> Vec<Line> {
    let theme = &app.look.theme;
    let Some(session) = &app.engine.handle else {
        return Vec::new();
    };
    let columns = app.screen.width();
    let name = format!("Lathe {}", env!("CARGO_PKG_VERSION"));
    let folder = folder_words(
        &app.places.environment.cwd,
        app.places.environment.home.as_deref(),
    );
    let heading = |rest: String| {
        Line::styled("▚ ", theme.accent)
            .with(name.clone(), Style::PLAIN.bold())
            .with(truncate(&rest, columns.saturating_sub(20)), theme.muted)
    };
    let model = session.model().display_name();
    if !is_first(&app.places.config_home) {
        return vec![heading(format!(" · {model} · {folder}"))];
    }
    let sandbox = match session.permissions().sandbox_tier() {
        Some(_) => "commands run in a sandbox",
        None => "read-only commands run confined, others need confirmation",
    };
    let fact = |what: &str, text: String| {
        let room = columns.saturating_sub(12).max(8);
        Line::styled(format!("  {what:<8}"), theme.muted).with(truncate(&text, room), Style::PLAIN)
    };
    vec![
        heading(" works in your project with a language model".to_owned()),
        fact(
            "model",
            format!("{model}, key from {}", session.settings().key_source()),
        ),
        fact(
            "here",
            format!("{folder} · {} · {sandbox}", mode_words(app.session.mode)),
        ),
    ]
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
