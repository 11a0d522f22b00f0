//! The past of a session: queued prompts, its title, changed files and what it cost.

use crate::agents::notice;
use crate::conversation::ConversationShared;
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{Fact, Record, WaitingPrompt};
use lathe_session::SessionError;
use lathe_session::checkpoint::{FileChange, RewindMode, RewindReport, WriteGuard};
use std::collections::HashSet;
use std::sync::Arc;

/// Why the changed files can't be listed.
#[derive(Debug, thiserror::Error)]
pub enum ChangedFilesError {
    /// The session keeps no history of files.
    #[error("this session keeps no history of files")]
    NoHistory,
    /// The history can't be read.
    #[error(transparent)]
    History(#[from] SessionError),
    /// The work was interrupted.
    #[error("listing the changes failed: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// The past of a session: queued prompts, its title, changed files and what it cost.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct HistoryHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl HistoryHandle<'_> {
    /// The prompts that wait for the present turn, oldest first.
    #[must_use]
    pub fn queued(self) -> Vec<RecordId> {
        self.shared
            .inbox
            .queue
            .lock()
            .iter()
            .filter(|prompt| !notice::is_notification(prompt))
            .map(|prompt| prompt.uuid)
            .collect()
    }

    /// Drops a prompt that still waits, or that was sent and has not arrived yet. Returns whether there
    /// was one.
    #[must_use]
    pub fn cancel_queued(self, uuid: RecordId) -> bool {
        let dropped = {
            let mut queue = self.shared.inbox.queue.lock();
            let at = queue.iter().position(|prompt| prompt.uuid == uuid);
            at.and_then(|at| queue.remove(at))
        };
        if let Some(prompt) = &dropped {
            // A scheduled prompt that the user dropped has had its turn.
            self.shared.noted(prompt);
        }
        dropped.is_some() || self.shared.arrived(uuid)
    }

    /// The ids of all records of the session so far; none where nothing is kept.
    pub async fn record_ids(self) -> HashSet<RecordId> {
        let transcript = self.shared.transcript.clone();
        if !transcript.is_persistent() || transcript.flush().await.is_err() {
            return HashSet::new();
        }
        let ids = lathe_spawn::blocking(move || lathe_session::record_ids(transcript.path()));
        // A session without a word has no file yet.
        ids.await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Gives the session a title.
    pub fn rename(self, title: &str) {
        self.shared
            .transcript
            .append(Record::Fact(Fact::CustomTitle {
                custom_title: title.to_owned(),
                session_id: self.shared.session.id,
            }));
    }

    /// Gives the session a tag.
    pub fn tag(self, tag: &str) {
        self.shared.transcript.append(Record::Fact(Fact::Tag {
            tag: tag.to_owned(),
            session_id: self.shared.session.id,
        }));
    }

    /// Names a place in the tree of the conversation; an empty name takes it away.
    pub fn label(self, record: RecordId, label: &str) {
        self.shared.transcript.append(Record::Fact(Fact::Label {
            record,
            label: label.to_owned(),
            session_id: self.shared.session.id,
        }));
    }

    /// Keeps the prompts that wait with the session, so that a resume has them. What is given is on disk when the
    /// future ends; it doesn't hold on to the session's handle.
    pub fn keep_waiting(
        self,
        prompts: Vec<WaitingPrompt>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + 'static {
        let transcript = self.shared.transcript.clone();
        let fact = Fact::WaitingPrompts {
            prompts,
            session_id: self.shared.session.id,
        };
        async move { transcript.append_synced(Record::Fact(fact)).await }
    }

    /// Waits until the transcript is on disk.
    ///
    /// # Errors
    /// When it can't be written.
    pub async fn flush(self) -> Result<(), SessionError> {
        self.shared.transcript.flush().await
    }

    /// As [`Self::flush`], without holding on to the session's handle. A failure is reported by the writer.
    pub fn flush_later(self) -> impl Future<Output = ()> + Send + 'static {
        let transcript = self.shared.transcript.clone();
        async move {
            let _ = transcript.flush().await;
        }
    }

    /// Judges the files that a rewind would write, as this session would.
    #[must_use]
    pub fn write_guard(self) -> WriteGuard {
        let permissions = self.shared.permissions.clone();
        crate::conversation::undo::write_guard(move || permissions.snapshot())
    }

    /// Brings files back to what they were before a prompt.
    ///
    /// # Errors
    /// When the session keeps no history of files, the prompt is unknown, or a file can't be restored.
    pub async fn rewind_files(
        self,
        to: RecordId,
        mode: RewindMode,
    ) -> Result<RewindReport, SessionError> {
        match &self.shared.toolbox.undo {
            Some(undo) => undo.history.rewind_files(to, mode).await,
            None => Err(SessionError::Closed {
                path: self.shared.transcript.path().to_owned(),
            }),
        }
    }

    /// The files that this session changed, as the changes that undoing all of it would make. It doesn't
    /// hold on to the session meanwhile.
    ///
    /// # Errors
    /// When the session keeps no history of files or it can't be read.
    pub fn changed_files(
        self,
    ) -> impl Future<Output = Result<Vec<FileChange>, ChangedFilesError>> + Send + 'static {
        let shared = self.shared.clone();
        let transcript = self.shared.transcript.path().to_owned();
        async move {
            let Some(undo) = &shared.toolbox.undo else {
                return Err(ChangedFilesError::NoHistory);
            };
            let first = lathe_spawn::blocking(move || {
                let loaded = lathe_session::load(&transcript).ok()?;
                loaded.prompts().iter().find_map(|record| match &**record {
                    Record::Message(message) => Some(message.uuid),
                    _ => None,
                })
            });
            let Some(first) = first.await? else {
                return Ok(Vec::new());
            };
            let report = undo.history.rewind_files(first, RewindMode::Preview);
            Ok(report.await?.files)
        }
    }

    /// The usage of the session, as of the last step, with the questions beside it.
    #[must_use]
    pub fn totals(self) -> crate::session::ledger::Totals {
        // Held while the totals are read, so that nothing is counted twice.
        let waiting = self.shared.spending.waiting.lock();
        let mut totals = self.shared.spending.totals.lock().clone();
        for (part, extra) in waiting.iter() {
            totals.absorb(*part, extra);
        }
        totals
    }

    /// The dollars that this run spent of its budget, without those that a resumed session spent before.
    #[must_use]
    pub fn spent_in_run_usd(self) -> f64 {
        let spent = self.shared.spending.totals.lock().cost_usd();
        self.shared.seed.limits.spent_in_run(spent)
    }
}
