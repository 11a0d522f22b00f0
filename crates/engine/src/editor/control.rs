//! The editor for faces: which there are, and which one the session uses.

use super::locks::{self, RunningEditor};
use super::{SERVER, entry};
use crate::conversation::ConversationShared;
use crate::mcp::{McpControl, McpControlError};
use lathe_settings::{Environment, Resolved, Variable};
use std::path::PathBuf;
use std::sync::Arc;

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
}

impl EditorControl {
    pub(crate) fn new(shared: Arc<ConversationShared>) -> Self {
        let folders = shared.integrations.editor.folders();
        Self { shared, folders }
    }

    /// The editors that wait for a session.
    #[must_use]
    pub fn running(&self) -> Vec<RunningEditor> {
        locks::running(&self.folders)
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
    link.choose(Some(editor));
    let control = McpControl {
        shared: shared.clone(),
    };
    let added = control.add_server(SERVER, &written).await;
    match &added {
        Ok(()) => link.server_is(shared, &lathe_mcp::State::Connected),
        Err(_) => link.choose(None),
    }
    added
}

/// Connects to the editor that started the terminal, or to the only one that has the folder open, if settings agree.
pub(crate) fn connect_by_itself(
    shared: &Arc<ConversationShared>,
    environment: &Environment,
    settings: &Resolved,
) {
    let link = &shared.integrations.editor;
    link.set_folders(locks::folders(environment, settings));
    let of_settings = settings.settings.ide.as_ref();
    let wanted = environment
        .switch(Variable::IdeIntegration)
        .or_else(|| of_settings.and_then(|ide| ide.auto_connect))
        .unwrap_or(true);
    if !wanted {
        return;
    }
    let port = environment.number(Variable::IdePort);
    let port = port.and_then(|port| u16::try_from(port).ok());
    let (shared, folder) = (shared.clone(), environment.cwd.clone());
    lathe_spawn::task(async move {
        let folders = shared.integrations.editor.folders();
        let found = lathe_spawn::blocking(move || {
            let editors = locks::running(&folders);
            let real = std::fs::canonicalize(&folder).unwrap_or(folder);
            locks::choose(&editors, &real, port).cloned()
        });
        if let Ok(Some(editor)) = found.await {
            let name = editor.name.clone();
            if let Err(error) = connect(&shared, editor).await {
                let name = lathe_tools::mcp_result::clean(&name);
                tracing::warn!(%error, name, "the editor beside the terminal can't be connected");
            }
        }
    });
}
