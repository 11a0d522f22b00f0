//! New problems after an edit.
//!
//! Before one of our tools changes a file, its text is kept. Afterwards the servers check both versions in the
//! background: problems of the new text that the old one didn't have are new. A file that is already open at a
//! server is checked in its new version only.
//!
//! New problems are pulled, not pushed: the next request asks for them, waits briefly for edits that are still
//! being checked, and gets those that are neither old nor reported already. Later ones go with a later request.
//! Edits belong to a [`Conversation`], so that parallel agents get their own.

use crate::diagnostics::{FileNews, Problem, Severity, new_problems};
use crate::limits::{AROUND, BASELINE, INDEXING_BESIDE, WATCHED};
use crate::manager::{Inner, LanguageServers};
use crate::server::{Change, Server, read_text_now};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The conversation that an edit belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conversation(u64);

/// Edits and the problems that followed them.
#[derive(Default)]
pub(crate) struct Edits {
    state: Mutex<State>,
    /// Incremented with every change.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// The text of files before the change that is being made.
    before: HashMap<PathBuf, Option<String>>,
    /// The number of edits being checked.
    running: HashMap<Conversation, usize>,
    /// The newest edit of each file.
    newest: HashMap<PathBuf, u64>,
    count: u64,
    conversations: u64,
    /// Changed files whose problems are followed.
    watched: Vec<Watched>,
    /// True if a request timed out waiting for the edits being checked now.
    late: bool,
}

/// A changed file.
struct Watched {
    conversation: Conversation,
    path: PathBuf,
    /// Problems that existed before the change or were reported.
    known: Vec<Problem>,
}

/// An edit to check.
struct Edit {
    path: PathBuf,
    conversation: Conversation,
    /// The text before; `None` if the file didn't exist or couldn't be read.
    before: Option<String>,
    number: u64,
}

impl LanguageServers {
    /// A new conversation, whose edits are reported separately.
    #[must_use]
    pub fn conversation(&self) -> Conversation {
        let mut state = self.inner.edits.state.lock();
        state.conversations += 1;
        Conversation(state.conversations)
    }

    /// Call before one of our tools changes a file. Reads it, so the thread must be allowed to block.
    pub fn before_edit(&self, path: &Path) {
        let inner = &self.inner;
        if inner.patience().is_none() || !inner.covers(path) {
            return;
        }
        let text = read_text_now(path).ok();
        let mut state = inner.edits.state.lock();
        if state.before.len() >= WATCHED {
            // Left behind by changes that were never made.
            state.before.clear();
        }
        state.before.insert(path.to_owned(), text);
    }

    /// Call after one of our tools changed a file. Starts its servers if necessary.
    pub fn after_edit(&self, path: &Path, conversation: Conversation, runtime: &Handle) {
        let inner = self.inner.clone();
        if !inner.covers(path) {
            return;
        }
        if inner.patience().is_none() {
            let (servers, paths) = (self.clone(), vec![path.to_owned()]);
            runtime.spawn(async move { servers.changed_on_disk(&paths) });
            return;
        }
        let edit = {
            let mut state = inner.edits.state.lock();
            state.count += 1;
            let number = state.count;
            state.newest.insert(path.to_owned(), number);
            *state.running.entry(conversation).or_default() += 1;
            Edit {
                path: path.to_owned(),
                conversation,
                before: state.before.remove(path).flatten(),
                number,
            }
        };
        runtime.spawn(async move {
            let running = Running {
                inner: inner.clone(),
                conversation,
            };
            let asked = inner.look_at(&edit).await;
            drop(running);
            inner.look_around(&edit, &asked).await;
        });
    }

    /// New problems in the files that a conversation changed, each reported once. Waits briefly for edits
    /// that are still being checked.
    pub async fn news(
        &self,
        conversation: Conversation,
        cancel: &CancellationToken,
    ) -> Vec<FileNews> {
        let edits = &self.inner.edits;
        let Some(limit) = self.inner.patience() else {
            return Vec::new();
        };
        if !edits.state.lock().late {
            tokio::select! {
                () = edits.looked_at(conversation) => {}
                () = cancel.cancelled() => {}
                // Don't wait for the same edits twice.
                () = tokio::time::sleep(limit) => edits.state.lock().late = true,
            }
        }
        let mut news = Vec::new();
        for path in edits.watched_by(conversation) {
            let present = self.inner.problems_of(&path).await;
            let mut state = edits.state.lock();
            let Some(entry) = state.entry(conversation, &path) else {
                continue;
            };
            let problems = new_problems(&entry.known, &present);
            entry.known = present;
            if !problems.is_empty() {
                news.push(FileNews { path, problems });
            }
        }
        news
    }
}

impl State {
    fn entry(&mut self, conversation: Conversation, path: &Path) -> Option<&mut Watched> {
        self.watched
            .iter_mut()
            .find(|entry| entry.conversation == conversation && entry.path == path)
    }
}

/// An edit that is being looked at, until it isn't.
struct Running {
    inner: Arc<Inner>,
    conversation: Conversation,
}

impl Drop for Running {
    fn drop(&mut self) {
        let edits = &self.inner.edits;
        let mut state = edits.state.lock();
        if let Some(count) = state.running.get_mut(&self.conversation) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(&self.conversation);
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
    /// The changed files of a conversation.
    fn watched_by(&self, conversation: Conversation) -> Vec<PathBuf> {
        let state = self.state.lock();
        let own = state
            .watched
            .iter()
            .filter(|entry| entry.conversation == conversation);
        own.map(|entry| entry.path.clone()).collect()
    }

    /// Waits until no edit of a conversation is being looked at.
    async fn looked_at(&self, conversation: Conversation) {
        let mut changes = self.changes.subscribe();
        while self.state.lock().running.contains_key(&conversation) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_newest(&self, edit: &Edit) -> bool {
        self.state.lock().newest.get(&edit.path) == Some(&edit.number)
    }

    fn watch(&self, edit: &Edit, known: Vec<Problem>) {
        let mut state = self.state.lock();
        if state.entry(edit.conversation, &edit.path).is_some() {
            // Problems from before the first change, or already reported, are kept.
            return;
        }
        if state.watched.len() >= WATCHED {
            state.watched.remove(0);
        }
        state.watched.push(Watched {
            conversation: edit.conversation,
            path: edit.path.clone(),
            known,
        });
    }
}

impl Inner {
    /// Shows a changed file to its servers, and waits for what they find. Gives the servers.
    async fn look_at(&self, edit: &Edit) -> Vec<Arc<Server>> {
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
                server.idle(INDEXING_BESIDE, &nobody).await;
                server.judged(&edit.path, &shown, BASELINE, &nobody).await;
            }
        }
        let known = problems(&servers, &edit.path).await;
        self.edits.watch(edit, known);
        if !self.edits.is_newest(edit) {
            // The newer one shows the same text, and looks.
            return Vec::new();
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
        servers
    }

    /// Looks at other files of the conversation again: an edit here may have broken something there.
    /// Servers that report by themselves do that anyway.
    async fn look_around(&self, edit: &Edit, servers: &[Arc<Server>]) {
        let nobody = CancellationToken::new();
        let mut others = self.edits.watched_by(edit.conversation);
        others.retain(|path| *path != edit.path);
        for server in servers.iter().filter(|server| server.is_asked()) {
            for path in others.iter().rev().take(AROUND) {
                if server.is_open(path).await
                    && let Ok(shown) = server.show(path).await
                {
                    server.judged(path, &shown, BASELINE, &nobody).await;
                }
            }
        }
    }

    /// The problems worth reporting that running servers find in a file.
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
