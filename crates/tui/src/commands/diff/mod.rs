//! `/diff` shows what changed in the working folder and by the session.

pub(crate) mod changes;

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::layers::ChangesDialog;
use changes::ChangesError;

/// Gathers what changed; the viewer opens when it is known.
pub(crate) fn run(app: &mut App) {
    let folder = app.engine.handle.as_ref().map_or_else(
        || app.places.environment.cwd.clone(),
        |session| session.context().working_folder(),
    );
    let session = app
        .engine
        .handle
        .as_ref()
        .map(|session| session.history().changed_files());
    let cwd = app.places.environment.cwd.clone();
    app.jobs.task(async move {
        let session = match session {
            Some(session) => session
                .await
                .map_err(|error| ChangesError::Session(error.to_string())),
            None => Err(ChangesError::NoSession),
        };
        let commit = lathe_spawn::blocking(move || changes::since_commit(&folder)).await;
        Some(JobResult::Changes {
            commit: commit.unwrap_or_else(|error| Err(ChangesError::Interrupted(error))),
            session: session.map(|files| changes::of_session(&files, &cwd)),
        })
    });
}

pub(crate) fn show(app: &mut App, commit: changes::Changes, session: changes::Changes) {
    let dialog = ChangesDialog::new(commit, session);
    app.layers.open(dialog);
}
