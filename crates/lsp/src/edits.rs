//! New problems after an edit.
//!
//! Before one of our tools changes a file, its text is kept; after it, the servers of the file are shown both,
//! one after the other, beside everything else: what they find in the old text is what was there before, and
//! what they find in the new one beyond that is news. A file that is open at a server already needs no look at
//! its old text.
//!
//! News are not pushed at anyone. Whoever makes the next request asks for them, waits a moment for edits that
//! are still being looked at, and gets what isn't known to have been there before or told already. What comes
//! later is told with a later request. Edits belong to a [`Conversation`], so that agents beside each other hear
//! of their own.

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

/// Whose edits they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conversation(u64);

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
    running: HashMap<Conversation, usize>,
    /// The newest edit of each file.
    newest: HashMap<PathBuf, u64>,
    count: u64,
    conversations: u64,
    /// Changed files whose problems are followed.
    watched: Vec<Watched>,
    /// Whether somebody waited in vain for what is being looked at now.
    late: bool,
}

/// A changed file.
struct Watched {
    conversation: Conversation,
    path: PathBuf,
    /// What was there before the change, or has been told.
    known: Vec<Problem>,
}

/// An edit that is to be looked at.
struct Edit {
    path: PathBuf,
    conversation: Conversation,
    /// What the file held before; `None` where it wasn't there or couldn't be read.
    before: Option<String>,
    number: u64,
}

impl LanguageServers {
    /// Somebody whose edits are told apart from others'.
    #[must_use]
    pub fn conversation(&self) -> Conversation {
        let mut state = self.inner.edits.state.lock();
        state.conversations += 1;
        Conversation(state.conversations)
    }

    /// A file is about to be changed by one of our tools. Reads it, so call it where waiting is allowed.
    pub fn before_edit(&self, path: &Path) {
        let inner = &self.inner;
        if inner.patience().is_none() || !inner.covers(path) {
            return;
        }
        let text = read_text_now(path).ok();
        let mut state = inner.edits.state.lock();
        if state.before.len() >= WATCHED {
            // What changes that were never made have left behind.
            state.before.clear();
        }
        state.before.insert(path.to_owned(), text);
    }

    /// A file was changed by one of our tools. Its servers are started if they aren't there yet.
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

    /// What is new in files that were changed in a conversation, each thing once. Waits a moment for edits
    /// that are still being looked at.
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
                // Whoever waited in vain doesn't wait for the same again.
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
            // What was there before the first change, or has been told, still counts.
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
