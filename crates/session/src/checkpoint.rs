//! Undo: what files held before a session changed them.
//!
//! Before a tool changes a file, [`FileHistory::before_change`] keeps what it holds (content by hash,
//! mode, link, or that it isn't there), once a turn; [`FileHistory::after_change`] notes what the
//! session left there. Both are facts in the transcript, so they survive a crash, a resume and a
//! fork. [`FileHistory::rewind_files`] brings files back to what they held before a prompt:
//!
//! - it undoes everything that came *later in time* than the prompt, on whatever branch of the
//!   conversation, since files know no branches;
//! - a file that doesn't hold what the session left there was changed by somebody else: unless told
//!   to overwrite, nothing at all is changed and the file is named;
//! - each file is restored atomically; files that the session created are deleted, and folders made
//!   for them if they are empty;
//! - what is overwritten is kept first under an id of its own, so that the rewind can be undone by
//!   rewinding to that id ([`RewindReport::undo`]).
//!
//! The conversation is rewound apart from this, by a [`Fact::Rewound`]; see
//! [`crate::load::Loaded::before`].

mod first;
mod roots;
mod state;

pub use first::restore_first;

use crate::blob::BlobStore;
use crate::error::SessionError;
use crate::line::blob_store_of;
use crate::scan::{Changes, Scan};
use crate::template::timestamp_now;
use crate::writer::TranscriptWriter;
use indexmap::IndexMap;
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{Fact, Record};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use state::FileState;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Texts larger than this are restored without a line count.
const DIFF_LIMIT: usize = 1 << 20;

/// The content of a snapshot fact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Snapshot {
    /// Paths and their content before a change.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    before: IndexMap<PathBuf, FileState>,
    /// Paths and their content after the session's change.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    after: IndexMap<PathBuf, FileState>,
    #[serde(default)]
    timestamp: String,
}

/// Whether a rewind is only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindMode {
    /// Says what would change.
    Preview,
    /// Changes it, unless that would overwrite somebody else's changes.
    Apply,
    /// Changes them even if someone else changed them since.
    Overwrite,
}

/// The change that a rewind makes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileAction {
    /// It gets the content that it had.
    Restored,
    /// It was created since and is deleted.
    Deleted,
    /// It was deleted since and comes back.
    Recreated,
}

/// A file that a rewind changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// The change.
    pub action: FileAction,
    /// Lines that come in.
    pub insertions: usize,
    /// Lines that go out.
    pub deletions: usize,
    /// The change as a unified diff; empty for what isn't text, or is long.
    pub diff: String,
}

/// Whether a rewind may write a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteVerdict {
    /// As any edit in the working folders.
    Free,
    /// Only if the user says so: why.
    Ask(String),
    /// Never: why.
    Refused(String),
}

/// Judges the files that a rewind would write. The list of files comes from the transcript, which anyone may have
/// written.
pub type WriteGuard = Arc<dyn Fn(&Path) -> WriteVerdict + Send + Sync>;

/// A file that a rewind can't or mustn't change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// The changes of a rewind, made or planned.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindReport {
    /// The files.
    pub files: Vec<FileChange>,
    /// Lines that come in.
    pub insertions: usize,
    /// Lines that go out.
    pub deletions: usize,
    /// Files changed outside the session. Unless overwriting, nothing is changed while there are any.
    pub conflicts: Vec<Conflict>,
    /// Files that can't be brought back, whatever is asked.
    pub uncovered: Vec<Conflict>,
    /// Whether files were changed.
    pub applied: bool,
    /// Rewinding to this undoes the rewind.
    pub undo: Option<RecordId>,
}

/// The file checkpoints of a session.
pub struct FileHistory {
    guard: WriteGuard,
    writer: TranscriptWriter,
    store: BlobStore,
    state: Mutex<State>,
    /// Keeps the contents of a session that isn't persisted until it ends.
    _scratch: Option<tempfile::TempDir>,
}

#[derive(Debug, Default)]
struct State {
    /// Which paths are kept for which turn.
    kept: HashSet<(RecordId, PathBuf)>,
    begun: HashSet<RecordId>,
    /// The facts of a session that isn't persisted.
    facts: Vec<(RecordId, Snapshot)>,
}

impl std::fmt::Debug for FileHistory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FileHistory")
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

impl FileHistory {
    /// The checkpoints of the session that this writer writes. `guard` judges what a rewind would write.
    ///
    /// # Errors
    /// When a session without persistence gets no folder for the contents.
    pub fn new(writer: TranscriptWriter, guard: WriteGuard) -> Result<Self, SessionError> {
        let scratch = if writer.is_persistent() {
            None
        } else {
            let folder = tempfile::Builder::new().prefix("lathe-undo-").tempdir();
            Some(folder.map_err(SessionError::io(
                "create a folder in",
                &std::env::temp_dir(),
            ))?)
        };
        let store = scratch.as_ref().map_or_else(
            || blob_store_of(writer.path()),
            |scratch| BlobStore::new(scratch.path()),
        );
        Ok(Self {
            guard,
            writer,
            store,
            state: Mutex::default(),
            _scratch: scratch,
        })
    }

    /// Marks where a prompt's turn begins.
    pub fn begin_turn(&self, turn: RecordId) {
        if self.state.lock().begun.insert(turn) {
            self.note(turn, Snapshot::default(), false);
        }
    }

    /// Keeps what a path holds, before the session changes it in this turn. When this returns, the
    /// path can be brought back even if the process dies the next moment.
    ///
    /// # Errors
    /// When the content can't be kept; the change had better not be made then.
    pub async fn before_change(
        self: &Arc<Self>,
        path: &Path,
        turn: RecordId,
    ) -> Result<(), SessionError> {
        let path = absolute(path);
        if self.state.lock().kept.contains(&(turn, path.clone())) {
            return Ok(());
        }
        let history = Arc::clone(self);
        off_thread(move || history.keep(&path, turn)).await??;
        self.writer.flush().await
    }

    fn keep(&self, path: &Path, turn: RecordId) -> Result<(), SessionError> {
        let mut before = IndexMap::new();
        for path in with_link_target(path) {
            let new = !self.state.lock().kept.contains(&(turn, path.clone()));
            if new {
                before.insert(path.clone(), FileState::of(&path, Some(&self.store))?);
            }
        }
        let paths: Vec<PathBuf> = before.keys().cloned().collect();
        self.note(
            turn,
            Snapshot {
                before,
                ..Snapshot::default()
            },
            true,
        );
        self.state
            .lock()
            .kept
            .extend(paths.into_iter().map(|path| (turn, path)));
        Ok(())
    }

    /// Notes what the session left at a path, so that later changes by others are recognised.
    ///
    /// # Errors
    /// When the path can't be read.
    pub async fn after_change(
        self: &Arc<Self>,
        path: &Path,
        turn: RecordId,
    ) -> Result<(), SessionError> {
        let (history, path) = (Arc::clone(self), absolute(path));
        off_thread(move || history.note_left(&with_link_target(&path), turn)).await?
    }

    fn note_left(&self, paths: &[PathBuf], turn: RecordId) -> Result<(), SessionError> {
        let mut after = IndexMap::new();
        for path in paths {
            after.insert(path.clone(), FileState::of(path, None)?);
        }
        self.note(
            turn,
            Snapshot {
                after,
                ..Snapshot::default()
            },
            true,
        );
        Ok(())
    }

    /// Keeps what a shell command changed, by the looks before and after it. Gives the files whose
    /// earlier content is not known, which a rewind won't bring back.
    ///
    /// # Errors
    /// When contents can't be kept.
    pub async fn after_shell(
        self: &Arc<Self>,
        before: Scan,
        changes: Changes,
        turn: RecordId,
    ) -> Result<Vec<PathBuf>, SessionError> {
        let history = Arc::clone(self);
        let unknown = off_thread(move || history.keep_shell(&before, &changes, turn)).await??;
        self.writer.flush().await?;
        Ok(unknown)
    }

    fn keep_shell(
        &self,
        scan: &Scan,
        changes: &Changes,
        turn: RecordId,
    ) -> Result<Vec<PathBuf>, SessionError> {
        let mut before = IndexMap::new();
        let mut unknown = Vec::new();
        for path in &changes.created {
            before.insert(
                path.clone(),
                FileState::Absent {
                    missing_folder: None,
                },
            );
        }
        for path in changes.modified.iter().chain(&changes.deleted) {
            let state = match scan.content(path) {
                Some((content, mode)) => FileState::File {
                    sha256: self.store.put(content)?,
                    mode,
                },
                None => {
                    unknown.push(path.clone());
                    let reason = "a shell command changed it, and its content before was not kept";
                    FileState::Uncovered {
                        reason: reason.to_owned(),
                    }
                }
            };
            before.insert(path.clone(), state);
        }
        let paths: Vec<PathBuf> = before.keys().cloned().collect();
        if paths.is_empty() {
            return Ok(unknown);
        }
        {
            let mut state = self.state.lock();
            before.retain(|path, _| state.kept.insert((turn, path.clone())));
        }
        self.note(
            turn,
            Snapshot {
                before,
                ..Snapshot::default()
            },
            true,
        );
        self.note_left(&paths, turn)?;
        Ok(unknown)
    }

    /// Brings files back to what they held before a prompt (or, given [`RewindReport::undo`], before a
    /// rewind).
    ///
    /// # Errors
    /// [`SessionError::NoSuchRecord`] when the session has no such prompt; when a file can't be
    /// restored, which leaves it as it was and those after it untouched.
    pub async fn rewind_files(
        self: &Arc<Self>,
        to: RecordId,
        mode: RewindMode,
    ) -> Result<RewindReport, SessionError> {
        self.writer.flush().await?;
        let history = Arc::clone(self);
        let report = off_thread(move || history.rewind(to, mode)).await??;
        self.writer.sync().await?;
        Ok(report)
    }

    fn rewind(&self, to: RecordId, mode: RewindMode) -> Result<RewindReport, SessionError> {
        let plan = self.plan(to)?;
        let mut report = RewindReport::default();
        let mut wanted: Vec<(PathBuf, FileState)> = Vec::new();
        for (path, target) in plan.targets {
            let verdict = (self.guard)(&path);
            if let WriteVerdict::Refused(reason) = verdict {
                report.uncovered.push(Conflict { path, reason });
                continue;
            }
            // A file that needs confirmation is neither kept nor shown before the user gave it.
            let kept = verdict == WriteVerdict::Free || mode == RewindMode::Overwrite;
            let now = FileState::of(&path, kept.then_some(&self.store))?;
            if now.same_as(&target) {
                continue;
            }
            if let FileState::Uncovered { reason } = &target {
                report.uncovered.push(Conflict {
                    path,
                    reason: reason.clone(),
                });
                continue;
            }
            if let FileState::Uncovered { reason } = &now {
                report.uncovered.push(Conflict {
                    path,
                    reason: format!("{reason} now"),
                });
                continue;
            }
            if let WriteVerdict::Ask(reason) = verdict {
                report.conflicts.push(Conflict {
                    path: path.clone(),
                    reason,
                });
            } else if !plan.left.get(&path).is_some_and(|left| left.same_as(&now)) {
                let reason = "it was changed outside this session".to_owned();
                report.conflicts.push(Conflict {
                    path: path.clone(),
                    reason,
                });
            }
            let change = self.describe(&path, &now, &target);
            report.insertions += change.insertions;
            report.deletions += change.deletions;
            report.files.push(change);
            wanted.push((path, target));
        }
        let go = match mode {
            RewindMode::Preview => false,
            RewindMode::Apply => report.conflicts.is_empty(),
            RewindMode::Overwrite => true,
        };
        if go && !wanted.is_empty() {
            report.undo = Some(self.apply(&wanted)?);
            report.applied = true;
        }
        Ok(report)
    }

    /// Restores files, keeping what they hold under a new id first.
    fn apply(&self, wanted: &[(PathBuf, FileState)]) -> Result<RecordId, SessionError> {
        let undo = RecordId::random();
        let mut before = IndexMap::new();
        for (path, _) in wanted {
            before.insert(path.clone(), FileState::of(path, Some(&self.store))?);
        }
        self.note(
            undo,
            Snapshot {
                before,
                ..Snapshot::default()
            },
            false,
        );
        let mut failure = None;
        let mut done = Vec::new();
        for (path, target) in wanted {
            match target.restore(path, &self.store) {
                Ok(()) => done.push(path.clone()),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        // Also after a failure: what was restored is the session's own doing.
        self.note_left(&done, undo)?;
        // The paths may change again in the same turn, and must be kept again then.
        self.state.lock().kept.clear();
        failure.map_or(Ok(undo), Err)
    }

    fn describe(&self, path: &Path, now: &FileState, target: &FileState) -> FileChange {
        let action = match (now, target) {
            (_, FileState::Absent { .. }) => FileAction::Deleted,
            (FileState::Absent { .. }, _) => FileAction::Recreated,
            _ => FileAction::Restored,
        };
        let mut change = FileChange {
            path: path.to_owned(),
            action,
            insertions: 0,
            deletions: 0,
            diff: String::new(),
        };
        let (Some(old), Some(new)) = (now.text(&self.store), target.text(&self.store)) else {
            return change;
        };
        if old.len() > DIFF_LIMIT || new.len() > DIFF_LIMIT {
            return change;
        }
        let hunks = lathe_diff::hunks(&old, &new);
        (change.insertions, change.deletions) = lathe_diff::counts(&hunks);
        change.diff = lathe_diff::unified_of(path, &hunks);
        change
    }

    /// The target content of each path, and the content that the session left there.
    fn plan(&self, to: RecordId) -> Result<Plan, SessionError> {
        let mut plan = Plan::default();
        let mut reached = false;
        let mut take = |event: Event| match event {
            Event::Prompt => reached = true,
            Event::Snapshot(id, snapshot) => {
                reached |= id == to;
                for (path, state) in snapshot.before {
                    // Until the change is noted as done, only the old state is known to be ours.
                    plan.left.insert(path.clone(), state.clone());
                    if reached {
                        plan.targets.entry(path).or_insert(state);
                    }
                }
                plan.left.extend(snapshot.after);
            }
        };
        if self.writer.is_persistent() {
            read_events(self.writer.path(), to, &mut take)?;
        } else {
            for (id, snapshot) in &self.state.lock().facts {
                take(Event::Snapshot(*id, snapshot.clone()));
            }
        }
        if reached {
            return Ok(plan);
        }
        let session = self
            .writer
            .path()
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Err(SessionError::NoSuchRecord {
            session,
            record: to,
        })
    }

    fn note(&self, turn: RecordId, mut snapshot: Snapshot, update: bool) {
        snapshot.timestamp = timestamp_now();
        if !self.writer.is_persistent() {
            self.state.lock().facts.push((turn, snapshot));
            return;
        }
        match serde_json::to_value(&snapshot) {
            Ok(snapshot) => self.writer.append(Record::Fact(Fact::FileHistorySnapshot {
                message_id: turn,
                snapshot,
                is_snapshot_update: update,
            })),
            // A path that isn't Unicode can't be written down.
            Err(error) => tracing::warn!(%error, "a checkpoint can't be written down"),
        }
    }
}

#[derive(Default)]
struct Plan {
    targets: IndexMap<PathBuf, FileState>,
    left: IndexMap<PathBuf, FileState>,
}

enum Event {
    /// The record that was asked for.
    Prompt,
    Snapshot(RecordId, Snapshot),
}

/// Reads the checkpoints of a transcript in the order of time. Only lines that matter are parsed.
fn read_events(
    transcript: &Path,
    prompt: RecordId,
    take: &mut dyn FnMut(Event),
) -> Result<(), SessionError> {
    let failed = |error| SessionError::io("read", transcript)(error);
    let file = match File::open(transcript) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let roots = roots::read(transcript)?;
    let mut input = BufReader::with_capacity(1 << 18, file);
    let wanted = format!(r#""uuid":"{prompt}""#);
    let mut line = Vec::new();
    let mut offset = 0;
    loop {
        line.clear();
        let length = input.read_until(b'\n', &mut line).map_err(failed)?;
        if length == 0 {
            return Ok(());
        }
        offset += length as u64;
        if line.starts_with(br#"{"type":"file-history-snapshot""#) {
            if let Ok(Record::Fact(Fact::FileHistorySnapshot {
                message_id,
                snapshot,
                ..
            })) = serde_json::from_slice(&line)
                && let Ok(mut snapshot) = Snapshot::deserialize(&snapshot)
            {
                snapshot.before = roots::mapped(&roots, offset, snapshot.before);
                snapshot.after = roots::mapped(&roots, offset, snapshot.after);
                take(Event::Snapshot(message_id, snapshot));
            }
        } else if line
            .windows(wanted.len())
            .any(|part| part == wanted.as_bytes())
        {
            take(Event::Prompt);
        }
    }
}

/// The path itself, and where it leads when it is a link: tools write through links.
fn with_link_target(path: &Path) -> Vec<PathBuf> {
    let mut paths = vec![path.to_owned()];
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if is_link && let Ok(target) = std::fs::canonicalize(path) {
        paths.push(target);
    }
    paths
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SessionError> {
    lathe_spawn::blocking(work)
        .await
        .map_err(|error| SessionError::Io {
            action: "keep a checkpoint in",
            path: PathBuf::new(),
            source: std::io::Error::other(error),
        })
}
