//! What an interactive face asks of a session beyond what every host asks.

use crate::session::SessionHandle;
use lathe_permissions::UpdateError;
use lathe_protocol::event::Event;
use lathe_protocol::permission::{Behavior, PermissionMode, PermissionUpdate, RuleSource};
use lathe_protocol::record::Record;
use lathe_session::RewindMode;
use lathe_session::checkpoint::FileChange;
use lathe_shell::run::{BackgroundCommand, ShellSession};
use std::sync::Arc;

impl SessionHandle {
    /// The session's shell, for commands that the person runs.
    #[must_use]
    pub fn shell(&self) -> Arc<ShellSession> {
        self.shared.tools.shell.clone()
    }

    /// The mode that comes after the present one.
    #[must_use]
    pub fn next_permission_mode(&self) -> PermissionMode {
        self.shared.permissions.next_mode()
    }

    /// The permission rules that count: what they do, as written, and where they stand.
    #[must_use]
    pub fn permission_rules(&self) -> Vec<(Behavior, String, RuleSource)> {
        self.shared
            .permissions
            .snapshot()
            .rules
            .iter()
            .map(|rule| (rule.behavior, rule.text(), rule.source))
            .collect()
    }

    /// Changes rules, mode or roots, as a person wants it.
    ///
    /// # Errors
    /// When the change is not allowed, or could not be kept.
    pub fn apply_permission_update(&self, update: &PermissionUpdate) -> Result<(), UpdateError> {
        self.shared.permissions.apply(update)?;
        match update {
            PermissionUpdate::SetMode { mode, .. } => {
                self.shared.events.send(Event::ModeChanged(*mode));
            }
            PermissionUpdate::AddDirectories { .. }
            | PermissionUpdate::RemoveDirectories { .. } => {
                let roots = self.shared.permissions.snapshot().roots.clone();
                *self.shared.tools.roots.write() = roots;
                self.shared.mcp.roots_changed();
            }
            _ => {}
        }
        Ok(())
    }

    /// What runs, or ran, in the background.
    #[must_use]
    pub fn background_tasks(&self) -> Vec<BackgroundCommand> {
        self.shared.tools.shell.background().list()
    }

    /// What this session changed in files, as what undoing all of it would change. It doesn't hold on to
    /// the session meanwhile.
    ///
    /// # Errors
    /// In words, when the session keeps no history of files or it can't be read.
    pub fn changed_files_later(
        &self,
    ) -> impl Future<Output = Result<Vec<FileChange>, String>> + Send + 'static {
        let shared = self.shared.clone();
        let transcript = self.transcript().to_owned();
        async move {
            let Some(undo) = &shared.undo else {
                return Err("this session keeps no history of files".to_owned());
            };
            let first = lathe_spawn::blocking(move || {
                let loaded = lathe_session::load(&transcript).ok()?;
                loaded.prompts().iter().find_map(|record| match &**record {
                    Record::Message(message) => Some(message.uuid),
                    _ => None,
                })
            });
            let Some(first) = first.await.map_err(|error| error.to_string())? else {
                return Ok(Vec::new());
            };
            let report = undo.history.rewind_files(first, RewindMode::Preview).await;
            report
                .map(|report| report.files)
                .map_err(|error| error.to_string())
        }
    }

    /// Stops a background task, without holding on to the session meanwhile.
    pub fn stop_task_later(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let shared = self.shared.clone();
        let id = id.to_owned();
        async move { shared.stop_task(&id).await }
    }
}
