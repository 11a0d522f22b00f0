//! The editor for faces: which there are, and which one the session uses.

use super::locks::{self, RunningEditor};
use super::{EditorLink, SERVER, SHORT, entry};
use crate::conversation::ConversationShared;
use crate::mcp::{McpControl, McpControlError};
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_settings::{Environment, Resolved, Variable};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Controls the editor beside a session. Cheap to clone.
#[derive(Clone)]
pub struct EditorControl {
    pub(crate) shared: Arc<ConversationShared>,
    pub(crate) folders: Vec<PathBuf>,
}

/// Why an editor can't be used.
#[derive(Debug, thiserror::Error)]
pub enum EditorUnknown {
    /// None has this name or port.
    #[error("no editor '{0}' found; /ide lists them")]
    NotFound(String),
    /// It can't be connected.
    #[error(transparent)]
    Server(#[from] McpControlError),
    /// None is connected that opens files.
    #[error("no connected editor can open files; /ide connects one")]
    CannotOpen,
    /// It refused to open a file.
    #[error("the editor did not open the file: {0}")]
    Refused(#[from] lathe_mcp::McpError),
}

impl EditorControl {
    pub(crate) fn new(shared: Arc<ConversationShared>) -> Self {
        let folders = shared.integrations.editor.folders();
        Self { shared, folders }
    }

    /// The editors that wait for a session.
    #[must_use]
    pub fn running(&self) -> Vec<RunningEditor> {
        let mut editors = locks::running(&self.folders);
        let connected = self.connected();
        for editor in &mut editors {
            if let Some(connected) = connected.as_ref().filter(|it| it.port == editor.port) {
                editor.folders.clone_from(&connected.folders);
            }
        }
        editors
    }

    /// The editor that is connected.
    #[must_use]
    pub fn connected(&self) -> Option<RunningEditor> {
        let state = self.shared.integrations.editor.state.lock();
        state.editor.clone().filter(|_| state.live)
    }

    /// Connects to the editor of a port or a name. Gives its name.
    ///
    /// # Errors
    /// When there is none, or it doesn't answer.
    pub async fn connect(&self, wanted: &str) -> Result<String, EditorUnknown> {
        let mut editors = self.running().into_iter();
        let editor = editors
            .find(|editor| editor.port.to_string() == wanted || editor.name == wanted)
            .ok_or_else(|| EditorUnknown::NotFound(wanted.to_owned()))?;
        let name = editor.name.clone();
        connect(&self.shared, editor).await?;
        Ok(name)
    }

    /// Opens a file in the editor, at a line if one is given. Gives the editor's name.
    ///
    /// # Errors
    /// When none is connected, or it refuses.
    pub async fn open(&self, path: &Path, line: Option<usize>) -> Result<String, EditorUnknown> {
        let link = &self.shared.integrations.editor;
        let name = link.name().filter(|_| link.offers("openFile"));
        let name = name.ok_or(EditorUnknown::CannotOpen)?;
        let file = path.to_owned();
        let place = lathe_spawn::blocking(move || place_of(&file, line?)).await;
        let mut arguments = json!({
            "filePath": path, "preview": false, "selectToEndOfLine": false, "makeFrontmost": true,
        });
        if let (Ok(Some(place)), Some(arguments)) = (place, arguments.as_object_mut()) {
            arguments.extend(place);
        }
        link.call("openFile", arguments, SHORT).await?;
        Ok(name)
    }
}

/// A line for `openFile`: its number, and its text where that names it alone, since some editors search for it.
fn place_of(path: &Path, line: usize) -> Option<serde_json::Map<String, Value>> {
    let mut place = serde_json::Map::new();
    place.insert("startLine".to_owned(), line.into());
    place.insert("endLine".to_owned(), line.into());
    let text = std::fs::read_to_string(path).ok()?;
    let wanted = text.lines().nth(line.checked_sub(1)?)?.trim();
    if !wanted.is_empty() && text.matches(wanted).count() == 1 {
        place.insert("startText".to_owned(), wanted.into());
        place.insert("endText".to_owned(), wanted.into());
    }
    Some(place)
}

/// Connects a session to an editor.
async fn connect(
    shared: &Arc<ConversationShared>,
    editor: RunningEditor,
) -> Result<(), McpControlError> {
    let link = &shared.integrations.editor;
    if let Some(manager) = shared.integrations.mcp.manager() {
        let _ = link.manager.set(manager);
    }
    let written = entry(&editor);
    link.choose(Some(editor.clone()));
    let control = McpControl {
        shared: shared.clone(),
    };
    let added = control.add_server(SERVER, &written).await;
    match &added {
        Ok(()) => {
            let reachable = (editor.port, editor.token);
            link.unreachable.lock().remove(&reachable);
            link.server_is(shared, &lathe_mcp::State::Connected);
        }
        Err(_) => link.give_up(editor),
    }
    added
}

/// How a session finds its editor by itself.
#[derive(Debug, Clone)]
pub(super) struct Search {
    /// The folder that the editor has open.
    folder: PathBuf,
    /// The port of the editor that started the terminal, or that the session before this one used.
    port: Option<u16>,
    /// Only the editor of the port will do.
    only_port: bool,
}

/// Connects to the editor that started the terminal, or to the only one that has the folder open, if settings agree.
/// An editor that the session before this one used is kept whatever they say.
pub(crate) fn connect_by_itself(
    shared: &Arc<ConversationShared>,
    environment: &Environment,
    settings: &Resolved,
    before: Option<u16>,
) {
    let link = &shared.integrations.editor;
    link.set_folders(locks::folders(environment, settings));
    let of_settings = settings.settings.ide.as_ref();
    let wanted = environment
        .switch(Variable::IdeIntegration)
        .or_else(|| of_settings.and_then(|ide| ide.auto_connect))
        .unwrap_or(true);
    let port = environment.number(Variable::IdePort);
    let port = port.and_then(|port| u16::try_from(port).ok());
    let search = Search {
        folder: environment.cwd.clone(),
        port: before.or(port),
        only_port: !wanted,
    };
    if wanted {
        let _ = link.search.set(search.clone());
    }
    if wanted || before.is_some() {
        begin(shared, search);
    }
}

/// Looks for an editor again, if the session has none and settings agree.
pub(super) fn search_again(shared: &Arc<ConversationShared>) {
    let link = &shared.integrations.editor;
    let live = link.state.lock().live;
    if let Some(search) = link.search.get().filter(|_| !live) {
        begin(shared, search.clone());
    }
}

/// Looks for an editor and connects to it, beside the session.
fn begin(shared: &Arc<ConversationShared>, search: Search) {
    let link = shared.integrations.editor.clone();
    if link.searching.swap(true, Ordering::AcqRel) {
        return;
    }
    let shared = shared.clone();
    lathe_spawn::task(async move {
        let folders = link.folders();
        let found = lathe_spawn::blocking({
            let link = link.clone();
            move || find(&link, &folders, &search)
        });
        if let Ok(Some(editor)) = found.await {
            let name = lathe_tools::mcp_result::clean(&editor.name);
            if let Err(error) = connect(&shared, editor).await {
                let text = format!("Can't connect to {name}: {error}. /ide tries again.");
                shared.events.news(
                    News::of("editor", Priority::Medium),
                    NoticeLevel::Warning,
                    text,
                );
            }
        }
        link.searching.store(false, Ordering::Release);
    });
}

/// The editor to connect to: one that can be reached, and not the one that is being connected to already.
fn find(link: &EditorLink, folders: &[PathBuf], search: &Search) -> Option<RunningEditor> {
    let mut editors = locks::running(folders);
    {
        let unreachable = link.unreachable.lock();
        editors.retain(|editor| {
            let key = (editor.port, editor.token.clone());
            !unreachable.contains(&key) && (!search.only_port || Some(editor.port) == search.port)
        });
    }
    let folder = &search.folder;
    let real = std::fs::canonicalize(folder);
    let folder = real.as_deref().unwrap_or(folder);
    let found = locks::choose(&editors, folder, search.port)?;
    let state = link.state.lock();
    let current = state.editor.as_ref();
    let is_current = current.is_some_and(|it| it.port == found.port && it.token == found.token);
    (!is_current).then(|| found.clone())
}
