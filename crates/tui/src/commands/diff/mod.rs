//! `/diff` shows what changed in the working folder and by the session.

pub(crate) mod changes;

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::app::notices::{Notice, Priority};
use crate::layers::ChangesDialog;
use crate::layers::changes::ReviewedFile;
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

/// A file was reviewed: hunks that were put back or edited are written, and the words for the model go into the prompt.
pub(crate) fn reviewed(app: &mut App) {
    let dialog = app.layers.shown_mut::<ChangesDialog>();
    let Some(reviewed) = dialog.and_then(ChangesDialog::take_reviewed) else {
        return;
    };
    if reviewed.text != reviewed.read {
        match write(&reviewed) {
            Ok(()) => {
                let text = format!("{} is written as you reviewed it", reviewed.path);
                let notice = Notice::new("reviewed", Priority::Medium, text);
                app.alarms.notices.add(notice);
            }
            Err(error) => {
                app.warn(error.to_string());
                return;
            }
        }
    }
    let text = app.prompt.editor.text();
    let gap = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let words = format!("{gap}{}\n", reviewed.report);
    app.prompt.editor.insert(&words);
    app.edited();
}

/// Why a reviewed file is not written.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("{0} changed while it was reviewed, so it is left as it is")]
    Changed(String),
    #[error("{path} can't be written: {source}")]
    Write {
        path: String,
        source: std::io::Error,
    },
}

fn write(reviewed: &ReviewedFile) -> Result<(), ReviewError> {
    let failed = |source| ReviewError::Write {
        path: reviewed.path.clone(),
        source,
    };
    if std::fs::read_to_string(&reviewed.file).map_err(failed)? != reviewed.read {
        return Err(ReviewError::Changed(reviewed.path.clone()));
    }
    if reviewed.is_new && reviewed.text.is_empty() {
        return std::fs::remove_file(&reviewed.file).map_err(failed);
    }
    std::fs::write(&reviewed.file, &reviewed.text).map_err(failed)
}
