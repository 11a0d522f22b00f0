//! Editing the prompt or a plan in `$VISUAL` or `$EDITOR`.

use crate::app::App;
use crate::layers::PlanDialog;
use crate::prompt::editor::Editor;
use crate::terminal;
use lathe_process::Command;
use lathe_settings::Variable;
use std::io::{Read as _, Write as _};

/// Opens the prompt in `$VISUAL` or `$EDITOR`.
pub(crate) fn edit_prompt(app: &mut App) {
    let text = Editor::expand(app.prompt.editor.text(), app.prompt.editor.attachments());
    if let Some(text) = edit(app, &text) {
        app.prompt.editor.set_text(text.trim_end());
    }
    app.edited();
}

/// Opens the plan that is to be approved in the user's editor.
pub(crate) fn edit_plan(app: &mut App) {
    let Some(dialog) = app.layers.shown::<PlanDialog>() else {
        return;
    };
    let plan = dialog.plan().to_owned();
    if let Some(text) = edit(app, &plan)
        && let Some(dialog) = app.layers.shown_mut::<PlanDialog>()
    {
        dialog.set_plan(text);
    }
}

/// Lets the user edit a text in their editor. `None` when that failed; a warning is shown.
pub(crate) fn edit(app: &mut App, text: &str) -> Option<String> {
    let environment = &app.places.environment;
    let editor = environment.get(Variable::Editor).unwrap_or("vi").to_owned();
    let file = tempfile::Builder::new()
        .prefix("lathe-prompt-")
        .suffix(".md")
        .tempfile();
    let mut file = match file.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file)) {
        Ok(file) => file,
        Err(error) => {
            app.warn(format!("Can't create a file for the editor: {error}"));
            return None;
        }
    };
    let reader = app.screen.reader.clone()?;
    reader.pause();
    let clear = app.screen.inline.clear();
    let _ = terminal::write(&clear);
    terminal::restore();
    // The words of $EDITOR may have arguments; a shell takes them apart as the user meant.
    let status = Command::new("sh")
        .argument("-c")
        .argument(format!("{editor} \"$1\""))
        .argument("sh")
        .argument(file.path())
        .directory(&environment.cwd)
        .foreground();
    let _ = terminal::enter();
    reader.resume();
    app.screen.changed_now();
    match status {
        Ok(status) if status.success() => {
            let mut edited = String::new();
            // The editor may have put another file in its place.
            std::fs::read_to_string(file.path())
                .or_else(|_| file.read_to_string(&mut edited).map(|_| edited.clone()))
                .ok()
        }
        Ok(status) => {
            app.warn(format!(
                "{editor} exited with {status}; the text is unchanged."
            ));
            None
        }
        Err(error) => {
            app.warn(format!(
                "Can't start {editor}: {error}. Set EDITOR to your editor."
            ));
            None
        }
    }
}
