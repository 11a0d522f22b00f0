//! Configuration that changes while the session runs: `.mcp.json`, the files of `--mcp-config`, a company's
//! servers, settings, and what the user said about servers in another terminal.
//!
//! Files are looked at when the system says that something happened beside them. What is new is connected,
//! what is gone is ended, a server with another configuration is connected anew, and a new server of the
//! project waits for the user's word. Each change is reported once. A file that is broken, because someone is
//! in the middle of editing it, changes nothing but is reported.

use super::Running;
use crate::conversation::ConversationShared;
use lathe_mcp::config::{self, Declared, Servers, Standing};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_settings::Resolved;
use lathe_settings::folder_watcher::FolderWatcher;
use notify::RecursiveMode;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a burst of events may continue before the files are looked at.
const BURST: Duration = Duration::from_millis(200);

/// Watches until the session ends. Where the system can't, changes take effect after a restart.
pub(super) fn watch(shared: &Arc<ConversationShared>) {
    let Some(files) = shared.integrations.mcp.running().map(Running::files) else {
        return;
    };
    let shared = Arc::downgrade(shared);
    lathe_spawn::task(async move {
        let (sender, mut events) = mpsc::unbounded_channel();
        let starting = lathe_spawn::blocking(move || start(&files, sender));
        let Ok(Some(watcher)) = starting.await else {
            return;
        };
        // Something may have changed before anybody watched.
        let mut alive = look(&shared).await;
        while alive && events.recv().await.is_some() {
            tokio::time::sleep(BURST).await;
            while events.try_recv().is_ok() {}
            alive = look(&shared).await;
        }
        drop(watcher);
    });
}

/// Looks at the files; `false` when the session is over.
async fn look(shared: &Weak<ConversationShared>) -> bool {
    let Some(shared) = shared.upgrade() else {
        return false;
    };
    let looking = lathe_spawn::blocking({
        let shared = shared.clone();
        move || {
            let running = shared.integrations.mcp.running()?;
            Some((running.read_again(), running.problems()))
        }
    });
    let Ok(Some((fresh, problems))) = looking.await else {
        return false;
    };
    if let Some(running) = shared.integrations.mcp.running() {
        running.take_over(&shared, fresh, &problems);
    }
    true
}

/// Watches the folders of files, for what happens to the files.
fn start(files: &[PathBuf], events: mpsc::UnboundedSender<()>) -> Option<FolderWatcher> {
    let names: BTreeSet<OsString> = files
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_owned()))
        .collect();
    let watcher = FolderWatcher::new(move |event| {
        // In these folders there is other traffic, such as transcripts.
        let concerns = event
            .paths
            .iter()
            .any(|path| path.file_name().is_some_and(|name| names.contains(name)));
        if concerns || event.paths.is_empty() {
            let _ = events.send(());
        }
    });
    let mut watcher = watcher
        .map_err(|error| tracing::warn!(%error, "MCP configuration is not watched"))
        .ok()?;
    let real = files.iter().filter_map(|file| file.canonicalize().ok());
    let folders: BTreeSet<PathBuf> = files
        .iter()
        .cloned()
        .chain(real)
        .filter_map(|file| file.parent().map(Path::to_path_buf))
        .filter(|folder| folder.is_dir())
        .collect();
    for folder in folders {
        if let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive) {
            tracing::debug!(%error, folder = %folder.display(), "not watched");
        }
    }
    Some(watcher)
}

impl super::Mcp {
    /// Settings changed: servers, approvals and policies may differ.
    pub(crate) fn settings_changed(&self, shared: &ConversationShared, settings: &Resolved) {
        let Some(running) = self.running() else {
            return;
        };
        let problems = running.problems();
        running.state.lock().settings = settings.clone();
        running.take_over(shared, running.read_again(), &problems);
    }
}

impl Running {
    fn files(&self) -> Vec<PathBuf> {
        let known = self.state.lock();
        config::files(known.request(&self.places, &self.environment))
    }

    /// The servers as they are declared now.
    pub(super) fn read_again(&self) -> Servers {
        let known = self.state.lock();
        config::load(known.request(&self.places, &self.environment))
    }

    fn problems(&self) -> Vec<Diagnostic> {
        self.state.lock().declared.problems.clone()
    }

    /// Applies a changed set of servers and reports the changes. `problems` are known already.
    fn take_over(&self, shared: &ConversationShared, fresh: Servers, problems: &[Diagnostic]) {
        let news: Vec<&Diagnostic> = fresh
            .problems
            .iter()
            .filter(|problem| !problems.contains(problem))
            .collect();
        let tell = |(level, text): (NoticeLevel, String)| {
            shared.events.news(News::new(Priority::Medium), level, text);
        };
        if !news.is_empty() {
            for problem in news {
                tell((
                    NoticeLevel::Warning,
                    format!("{problem}; the MCP servers stay as they were"),
                ));
            }
            self.state.lock().declared.problems = fresh.problems;
            return;
        }
        let told = {
            let mut known = self.state.lock();
            if known.declared == fresh {
                return;
            }
            let told = differences(&known.declared, &fresh, |server| known.hides(server));
            known.declared = fresh;
            told
        };
        self.connect();
        self.changed.store(true, Ordering::Relaxed);
        self.show(shared);
        told.into_iter().for_each(tell);
    }
}

/// The changes from one list to another, as notices.
fn differences(
    before: &Servers,
    now: &Servers,
    hides: impl Fn(&Declared) -> bool,
) -> Vec<(NoticeLevel, String)> {
    let mut told = Vec::new();
    for server in now.list.iter().filter(|server| !hides(server)) {
        let known = before.find(&server.name);
        if known.is_some_and(|known| known.standing == server.standing) {
            continue;
        }
        let name = &server.name;
        let was_ready = known.is_some_and(|known| matches!(known.standing, Standing::Ready(_)));
        let what = match &server.standing {
            Standing::Ready(_) if was_ready => {
                "has a new configuration and is being reconnected".to_owned()
            }
            Standing::Ready(_) if known.is_some() => {
                "is enabled now and is being connected".to_owned()
            }
            Standing::Ready(_) => {
                format!("was added ({}) and is being connected", server.scope)
            }
            // Who was off before, or has just been refused, is no news.
            Standing::Disabled(_) | Standing::Refused if !was_ready => continue,
            Standing::Disabled(_) | Standing::Refused => "is disabled now".to_owned(),
            _ => {
                let why = server.why_not().unwrap_or_default();
                let what = if was_ready {
                    "was ended"
                } else {
                    "is not started"
                };
                told.push((
                    NoticeLevel::Warning,
                    format!("The MCP server {name} {what}: {why}"),
                ));
                continue;
            }
        };
        told.push((NoticeLevel::Info, format!("The MCP server {name} {what}.")));
    }
    for server in before.list.iter().filter(|server| !hides(server)) {
        if matches!(server.standing, Standing::Ready(_)) && now.find(&server.name).is_none() {
            let text = format!(
                "The MCP server {} is no longer configured and was stopped.",
                server.name
            );
            told.push((NoticeLevel::Info, text));
        }
    }
    told
}
