//! Undo: what a tool is about to change is kept first.
//!
//! File tools tell of each file before they change it. Around a shell command that may write, the
//! roots are looked over before and after, within limits; what was not covered is said.

use lathe_permissions::PermissionContext;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::Decision;
use lathe_session::SessionError;
use lathe_session::checkpoint::FileHistory;
use lathe_session::checkpoint::{WriteGuard, WriteVerdict};
use lathe_session::scan::{Scan, ScanLimits, scan};
use lathe_tools::context::ChangeObserver;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;

use crate::session::events::EventSink;

/// A conversation's undo.
pub(crate) struct Undo {
    pub(crate) history: Arc<FileHistory>,
    pub(crate) runtime: Handle,
    pub(crate) events: EventSink,
    /// The session's own files, which are not the project's.
    pub(crate) excluded: Vec<PathBuf>,
}

impl ChangeObserver for Undo {
    /// Called on a blocking thread: tools change files there.
    fn before_change(&self, path: &Path, turn: RecordId) -> Result<(), SessionError> {
        self.runtime
            .block_on(self.history.before_change(path, turn))
    }

    fn after_change(&self, path: &Path, turn: RecordId) {
        if let Err(error) = self.runtime.block_on(self.history.after_change(path, turn)) {
            tracing::warn!(%error, path = %path.display(), "a change could not be recorded for undo");
        }
    }
}

impl Undo {
    /// Looks over the roots before a shell command that may write.
    pub(crate) async fn before_shell(&self, roots: Vec<PathBuf>) -> Option<Scan> {
        let excluded = self.excluded.clone();
        let look = move || scan(&roots, &excluded, ScanLimits::default());
        lathe_spawn::blocking(look).await.ok()
    }

    /// Looks again after it and keeps what it changed. Gives the files.
    pub(crate) async fn after_shell(
        &self,
        before: Scan,
        roots: Vec<PathBuf>,
        turn: RecordId,
    ) -> Vec<PathBuf> {
        let excluded = self.excluded.clone();
        let look = move || scan(&roots, &excluded, ScanLimits::default().without_contents());
        let Ok(after) = lathe_spawn::blocking(look).await else {
            return Vec::new();
        };
        let changes = before.changes(&after);
        if changes.is_empty() && changes.uncovered.is_empty() {
            return Vec::new();
        }
        let changed = [&changes.created, &changes.modified, &changes.deleted];
        let changed = changed.into_iter().flatten().cloned().collect();
        match self.history.after_shell(before, changes, turn).await {
            Ok(unknown) if unknown.is_empty() => {}
            Ok(unknown) => {
                let shown: Vec<String> = unknown
                    .iter()
                    .take(3)
                    .map(|path| path.display().to_string())
                    .collect();
                self.events.notice(
                    NoticeLevel::Info,
                    format!(
                        "{} file(s) changed by a shell command can't be restored by a rewind: {}{}",
                        unknown.len(),
                        shown.join(", "),
                        if unknown.len() > shown.len() {
                            ", …"
                        } else {
                            ""
                        }
                    ),
                );
            }
            Err(error) => self.events.notice(
                NoticeLevel::Warning,
                format!("Changes could not be saved for undo: {error}"),
            ),
        }
        changed
    }
}

/// Judges the files that a rewind would write by the permissions of a session.
pub fn write_guard(
    permissions: impl Fn() -> Arc<PermissionContext> + Send + Sync + 'static,
) -> WriteGuard {
    Arc::new(
        move |path| match lathe_permissions::decide_edit(path, &permissions()) {
            Decision::Allow { .. } => WriteVerdict::Free,
            Decision::Ask { reason, .. } => WriteVerdict::Ask(reason.text()),
            Decision::Deny { reason } => WriteVerdict::Refused(reason.text()),
        },
    )
}
