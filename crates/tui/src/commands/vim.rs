//! `/vim` switches vim keys on or off.

use crate::app::{App, settings};
use crate::prompt::editor::vim::Vim;

pub(crate) fn run(app: &mut App) {
    app.prompt.vim = match app.prompt.vim {
        Some(_) => None,
        None => Some(Vim::default()),
    };
    let (word, mode) = match app.prompt.vim {
        Some(_) => ("on", "vim"),
        None => ("off", "normal"),
    };
    settings::save(app, "editorMode", mode.into());
    app.remark(format!("Vim keys are {word}."));
}
