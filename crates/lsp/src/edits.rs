//! New problems after an edit.
//!
//! Before one of our tools changes a file, its text is kept; after it, the servers of the file are shown both,
//! one after the other, beside everything else: what they find in the old text is what was there before, and
//! what they find in the new one beyond that is news. A file that is open at a server already needs no look at
//! its old text.
//!
//! News are not pushed at anyone. Whoever makes the next request asks for them, waits a moment for edits that
//! are still being looked at, and gets what isn't known to have been there before or told already. What comes
//! later is told with a later request. Edits belong to the turn in which they were made, so that conversations
//! beside each other hear of their own.

use crate::diagnostics::{FileNews, Problem, Severity, new_problems};
use crate::limits::{BASELINE, INDEXING, WATCHED};
use crate::manager::{Inner, LanguageServers};
use crate::server::{Change, Server, read_text_now};
use lathe_protocol::ids::RecordId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What is known of edits.
#[derive(Default)]
pub(crate) struct Edits {
    state: Mutex<State>,
    /// Counts what changed.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// What files held before the change that is being made.
    before: HashMap<PathBuf, Option<String>>,
    /// Edits that are being looked at.
    running: HashMap<RecordId, usize>,
    /// The newest edit of each file.
    newest: HashMap<PathBuf, u64>,
    count: u64,
    /// Changed files whose problems are followed.
    watched: Vec<Watched>,
    /// Whether somebody waited in vain for what is being looked at now.
    late: bool,
}

/// A changed file.
struct Watched {
    turn: RecordId,
    path: PathBuf,
    /// What was there before the change, or has been told.
    known: Vec<Problem>,
}

/// An edit that is to be looked at.
struct Edit {
    path: PathBuf,
    turn: RecordId,
    /// What the file held before; `None` where it wasn't there or couldn't be read.
    before: Option<String>,
    number: u64,
}

impl LanguageServers {
    /// A file is about to be changed by one of our tools. Reads it, so call it where waiting is allowed.
    pub fn before_edit(&self, path: &Path) {
        let inner = &self.inner;
        if inner.surroundings.news.is_none() || !inner.covers(path) {
            return;
        }
        let text = read_text_now(path).ok();
        let mut state = inner.edits.state.lock();
        if state.before.len() < WATCHED {
            state.before.insert(path.to_owned(), text);
        }
    }

    /// A file was changed by one of our tools, in a turn. Its servers are started if they aren't there yet.
    pub fn after_edit(&self, path: &Path, turn: RecordId, runtime: &Handle) {
        let inner = self.inner.clone();
        if !inner.covers(path) {
            return;
        }
        if inner.surroundings.news.is_none() {
            let (servers, paths) = (self.clone(), vec![path.to_owned()]);
            runtime.spawn(async move { servers.changed_on_disk(&paths) });
            return;
        }
        let edit = {
            let mut state = inner.edits.state.lock();
            state.count += 1;
            let number = state.count;
            state.newest.insert(path.to_owned(), number);
            *state.running.entry(turn).or_default() += 1;
            Edit {
                path: path.to_owned(),
                turn,
                before: state.before.remove(path).flatten(),
                number,
            }
        };
        runtime.spawn(async move {
            let _running = Running {
                inner: inner.clone(),
                turn,
            };
            inner.look_at(edit).await;
        });
    }

    /// What is new in files that were changed in these turns, each thing once. Waits a moment for edits that
    /// are still being looked at.
    pub async fn news(&self, turns: &[RecordId], cancel: &CancellationToken) -> Vec<FileNews> {
        let Some(limit) = self.inner.surroundings.news else {
            return Vec::new();
        };
        let edits = &self.inner.edits;
        if !edits.concern(turns) {
            return Vec::new();
        }
        if !edits.state.lock().late {
            tokio::select! {
                () = edits.looked_at(turns) => {}
                () = cancel.cancelled() => {}
                // Whoever waited in vain doesn't wait for the same again.
                () = tokio::time::sleep(limit) => edits.state.lock().late = true,
            }
        }
        let watched: Vec<(RecordId, PathBuf)> = {
            let mut state = edits.state.lock();
            let mut paths: Vec<(RecordId, PathBuf)> = Vec::new();
            let mut stale = Vec::new();
            // Of a file that was changed in several turns, the last counts.
            for (index, entry) in state.watched.iter().enumerate().rev() {
                if !turns.contains(&entry.turn) {
                    continue;
                }
                if paths.iter().any(|(_, path)| *path == entry.path) {
                    stale.push(index);
                } else {
                    paths.push((entry.turn, entry.path.clone()));
                }
            }
            for index in stale {
                state.watched.remove(index);
            }
            paths.reverse();
            paths
        };
        let mut news = Vec::new();
        for (turn, path) in watched {
            let present = self.inner.problems_of(&path).await;
            let mut state = edits.state.lock();
            let entry = state
                .watched
                .iter_mut()
                .find(|entry| entry.turn == turn && entry.path == path);
            let Some(entry) = entry else { continue };
            let problems = new_problems(&entry.known, &present);
            entry.known = present;
            if !problems.is_empty() {
                news.push(FileNews { path, problems });
            }
        }
        news
    }
}

/// An edit that is being looked at, until it isn't.
struct Running {
    inner: Arc<Inner>,
    turn: RecordId,
}

impl Drop for Running {
    fn drop(&mut self) {
        let edits = &self.inner.edits;
        let mut state = edits.state.lock();
        if let Some(count) = state.running.get_mut(&self.turn) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(&self.turn);
            }
        }
        if state.running.is_empty() {
            state.late = false;
        }
        drop(state);
        edits.changes.send_modify(|count| *count += 1);
    }
}

impl Edits {
    /// Whether anything was changed in these turns.
    fn concern(&self, turns: &[RecordId]) -> bool {
        let state = self.state.lock();
        turns.iter().any(|turn| state.running.contains_key(turn))
            || state
                .watched
                .iter()
                .any(|entry| turns.contains(&entry.turn))
    }

    /// Waits until no edit of these turns is being looked at.
    async fn looked_at(&self, turns: &[RecordId]) {
        let mut changes = self.changes.subscribe();
        loop {
            let busy = {
                let state = self.state.lock();
                turns.iter().any(|turn| state.running.contains_key(turn))
            };
            if !busy || changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_newest(&self, edit: &Edit) -> bool {
        self.state.lock().newest.get(&edit.path) == Some(&edit.number)
    }

    fn watch(&self, edit: &Edit, known: Vec<Problem>) {
        let mut state = self.state.lock();
        let there = state
            .watched
            .iter()
            .any(|entry| entry.turn == edit.turn && entry.path == edit.path);
        if there {
            // What was there before the first change of the turn still counts.
            return;
        }
        if state.watched.len() >= WATCHED {
            state.watched.remove(0);
        }
        state.watched.push(Watched {
            turn: edit.turn,
            path: edit.path.clone(),
            known,
        });
    }
}

impl Inner {
    /// Shows a changed file to its servers, and waits for what they find.
    async fn look_at(&self, edit: Edit) {
        let mut servers: Vec<Arc<Server>> = Vec::new();
        let slots = self.slots_of(&edit.path);
        let mut order = Vec::new();
        for slot in slots.iter().filter(|slot| slot.config.diagnostics) {
            // Edits are looked at in their order, so that the old text of one is never taken for the
            // new text of another.
            order.push(slot.editing.lock().await);
            // Why it isn't there was told when it was started.
            if let Ok(server) = slot.server().await {
                servers.push(server);
            }
        }
        let nobody = CancellationToken::new();
        for server in &servers {
            if let (Some(before), false) = (&edit.before, server.is_open(&edit.path).await) {
                let shown = server.show_text(&edit.path, before.clone()).await;
                server.idle(INDEXING, &nobody).await;
                server.judged(&edit.path, &shown, BASELINE, &nobody).await;
            }
        }
        let known = problems(&servers, &edit.path).await;
        self.edits.watch(&edit, known);
        if !self.edits.is_newest(&edit) {
            // The newer one shows the same text, and looks.
            return;
        }
        let change = if edit.before.is_some() {
            Change::Changed
        } else {
            Change::Created
        };
        for server in &servers {
            let Ok(shown) = server.show(&edit.path).await else {
                continue;
            };
            server.files_changed(&[(edit.path.clone(), change)]).await;
            server.judged_again(&edit.path, &shown).await;
        }
    }

    /// What running servers find in a file that is worth telling.
    async fn problems_of(&self, path: &Path) -> Vec<Problem> {
        let servers: Vec<Arc<Server>> = self
            .slots_of(path)
            .iter()
            .filter(|slot| slot.config.diagnostics)
            .filter_map(|slot| slot.running())
            .collect();
        problems(&servers, path).await
    }
}

async fn problems(servers: &[Arc<Server>], path: &Path) -> Vec<Problem> {
    let mut all = Vec::new();
    for server in servers {
        all.extend(server.problems(path).await);
    }
    all.retain(|problem| problem.severity <= Severity::Warning);
    all
}
