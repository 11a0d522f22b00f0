//! `/ide`: editors that run beside the terminal, and the one that the session uses.
//!
//! Extensions of editors leave a file for each editor in `~/.claude/ide` or `<config home>/ide`. A session connects to
//! the obvious one by itself; here any of them can be chosen, and files opened in it.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::layers::{Item, Picker, Purpose};
use crate::prompt::keymap::{Action, Context};
use crate::render::style::Line;
use crate::render::text::clean;
use crate::render::theme::Theme;
use lathe_engine::RunningEditor;
use std::path::Path;

/// The editors that can be connected to.
pub(crate) fn run(app: &mut App, wanted: &str) {
    if let Some(file) = wanted.strip_prefix("open ") {
        open(app, file.trim());
        return;
    }
    if !wanted.is_empty() {
        connect(app, wanted);
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    let control = session.editor();
    let editors = control.running();
    if editors.is_empty() {
        let keys = &app.prompt.keymap;
        let own = keys.hint(
            Context::Prompt,
            Action::ExternalEditor,
            "opens the prompt in $EDITOR.",
        );
        app.remark(format!(
            "No editor found: start one with an extension that offers an MCP connection (it writes a file to ~/.claude/ide), then run /ide again. {}",
            own.unwrap_or_default()
        ));
        return;
    }
    let connected = control.connected().map(|editor| editor.port);
    let picker = editors_picker(
        &editors,
        connected,
        &app.places.environment.cwd,
        &app.look.theme,
    );
    app.layers.open(picker);
}

/// Connects to the editor of a port or name.
pub(crate) fn connect(app: &mut App, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let control = session.editor();
    let wanted = wanted.to_owned();
    let editors = control.running();
    let named = editors
        .iter()
        .find(|editor| editor.port.to_string() == wanted);
    let name = clean(named.map_or(&wanted, |editor| &editor.name));
    app.remark(format!("Connecting to {name} …"));
    app.jobs.task(async move {
        let done = control.connect(&wanted).await;
        Some(JobResult::report(
            done.map(|name| format!("connected to {}", clean(&name)))
                .map_err(|error| format!("can't connect to {name}: {error}")),
        ))
    });
}

/// Opens a file in the editor, at the line after a colon.
fn open(app: &mut App, file: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let control = session.editor();
    let (name, line) = match file.rsplit_once(':') {
        Some((name, line)) if line.parse::<usize>().is_ok_and(|line| line > 0) => {
            (name, line.parse().ok())
        }
        _ => (file, None),
    };
    let path = app.places.environment.cwd.join(name);
    if !path.is_file() {
        app.warn(format!("There is no file {}", clean(name)));
        return;
    }
    let shown = clean(name);
    app.jobs.task(async move {
        let done = control.open(&path, line).await;
        Some(JobResult::report(
            done.map(|editor| format!("opened {shown} in {}", clean(&editor)))
                .map_err(|error| error.to_string()),
        ))
    });
}

/// The editors that wait.
pub(crate) fn editors_picker(
    editors: &[RunningEditor],
    connected: Option<u16>,
    cwd: &Path,
    theme: &Theme,
) -> Picker {
    let items = editors
        .iter()
        .map(|editor| {
            let mut folders: Vec<String> = editor
                .folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect();
            if editor.has_open(cwd) {
                folders.insert(0, "has this folder open".to_owned());
            }
            if connected == Some(editor.port) {
                folders.insert(0, "connected".to_owned());
            }
            Item::new(
                editor.port.to_string(),
                clean(&editor.name),
                clean(&folders.join(" · ")),
            )
        })
        .collect();
    let words = "What you select there goes with your prompt, and changes are shown there too.";
    Picker::new(Purpose::Editors, "Connect to which editor?", items)
        .explained(vec![Line::styled(words, theme.muted)])
}
