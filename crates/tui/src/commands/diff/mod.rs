//! `/diff` shows what changed in the working folder and by the session.

pub(crate) mod changes;

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::layers::ChangesDialog;
use changes::ChangesError;
use lathe_engine::context::git::GitError;

/// Gathers what changed; the viewer opens when it is known.
pub(crate) fn run(app: &mut App) {
    let git = app
        .engine
        .handle
        .as_ref()
        .map(|session| session.context().git());
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
        let commit = match git {
            Some(Ok(git)) => changes::since_commit(&git).await,
            Some(Err(error)) => Err(GitError::from(error).into()),
            None => Err(ChangesError::NoSession),
        };
        Some(JobResult::Changes {
            commit,
            session: session.map(|files| changes::of_session(&files, &cwd)),
        })
    });
}

pub(crate) fn show(app: &mut App, commit: changes::Changes, session: changes::Changes) {
    let dialog = ChangesDialog::new(commit, session);
    app.layers.open(dialog);
}
