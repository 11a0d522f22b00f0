//! Commands on terminals: the user takes the keyboard of one, or is asked to.

use crate::app::jobs::JobResult;
use crate::app::{App, alarms};
use crate::layers::keyboard::KeyboardLayer;
use crate::layers::{Layer as _, Outcome};
use crate::terminal::key::Key;
use lathe_engine::SessionHandle;
use lathe_protocol::ids::TaskId;
use lathe_shell::run::InteractiveCommand;
use std::sync::Arc;
use std::time::Duration;

/// The shortest time between two redraws for a program's output.
const REDRAW: Duration = Duration::from_millis(16);

/// From now on commands of the session can ask for the user.
pub(crate) fn serve(app: &App, session: &SessionHandle) {
    let mut wishes = session.tasks().shell().terminals().serve_user();
    let sender = app.jobs.sender();
    lathe_spawn::task(async move {
        while let Some(id) = wishes.recv().await {
            let _ = sender.send(JobResult::KeyboardWanted(id));
        }
    });
}

/// Gives the user the keyboard of the command that was started last. Returns whether one runs.
pub(crate) fn take(app: &mut App) -> bool {
    let Some(command) = newest(app) else {
        return false;
    };
    let layer = KeyboardLayer::new(&command, false, true);
    follow(app, &command);
    app.layers.open(layer);
    true
}

/// The command that ctrl+f would be for.
pub(crate) fn newest(app: &App) -> Option<Arc<InteractiveCommand>> {
    let session = app.engine.handle.as_ref()?;
    session.tasks().shell().terminals().newest()
}

/// A command asks for what only the user may type.
pub(crate) fn wanted(app: &mut App, id: &TaskId) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let Ok(command) = session.tasks().shell().terminals().get(id.as_str()) else {
        return;
    };
    let armed = app.prompt.editor.is_empty() && app.layers.dialog().is_none();
    let layer = KeyboardLayer::new(&command, true, armed);
    follow(app, &command);
    app.layers.open_unasked(layer);
    alarms::notify(app, "a command asks for a secret");
}

/// Redraws when the program prints, and when it is over.
fn follow(app: &App, command: &Arc<InteractiveCommand>) {
    let sender = app.jobs.sender();
    let command = Arc::clone(command);
    let mut changes = command.changes();
    lathe_spawn::task(async move {
        loop {
            let over = tokio::select! {
                () = command.ended() => true,
                changed = changes.changed() => changed.is_err(),
            };
            if sender.send(JobResult::KeyboardChanged).is_err() || over {
                return;
            }
            tokio::time::sleep(REDRAW).await;
        }
    });
}

/// The program printed something, or is over: then its keyboard is gone.
pub(crate) fn changed(app: &mut App) {
    let over = app
        .layers
        .shown::<KeyboardLayer>()
        .is_some_and(|layer| layer.command().exit().is_some());
    if over {
        app.layers.close_dialog();
        app.next_question();
    }
}

/// Offers a key to the command. Returns whether it was for it.
pub(crate) fn key(app: &mut App, key: Key) -> bool {
    if app.layers.is_unseen() || app.screen.full.is_some() {
        return false;
    }
    let Some(layer) = app.layers.shown_mut::<KeyboardLayer>() else {
        return false;
    };
    if !layer.armed() {
        return false;
    }
    if layer.key(key) == Outcome::Cancelled {
        app.layers.close_dialog();
        app.next_question();
    }
    true
}
