//! The permissions of a session: mode, rules and the folders that may be worked in.

use crate::conversation::ConversationShared;
use lathe_permissions::{ModeRefused, UpdateError};
use lathe_protocol::event::Event;
use lathe_protocol::permission::{Behavior, PermissionMode, PermissionUpdate, RuleSource};
use lathe_protocol::record::{Fact, Record};
use lathe_sandbox::Tier;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The permissions of a session: mode, rules and the folders that may be worked in.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct PermissionsHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl PermissionsHandle<'_> {
    /// Changes the permission mode.
    ///
    /// # Errors
    /// When the mode may not be entered.
    pub fn set_mode(self, mode: PermissionMode) -> Result<(), ModeRefused> {
        self.shared.permissions.set_mode(mode)?;
        self.shared.events.send(Event::ModeChanged(mode));
        self.shared.transcript.append(Record::Fact(Fact::Mode {
            mode: mode.name().to_owned(),
            session_id: self.shared.session.id,
        }));
        Ok(())
    }

    /// The permission mode.
    #[must_use]
    pub fn mode(self) -> PermissionMode {
        self.shared.permissions.mode()
    }

    /// The mode that comes after the present one.
    #[must_use]
    pub fn next_mode(self) -> PermissionMode {
        self.shared.permissions.next_mode()
    }

    /// A description of the sandbox for users.
    #[must_use]
    pub fn sandbox_text(self) -> String {
        let status = self
            .shared
            .tools
            .programs
            .sandbox
            .as_ref()
            .map(|sandbox| sandbox.status());
        lathe_permissions::sandbox::describe(&self.shared.permissions.snapshot(), status)
    }

    /// The tier of the sandbox that commands run in; `None` if they run without one.
    #[must_use]
    pub fn sandbox_tier(self) -> Option<&'static str> {
        self.shared.sandbox_tier()
    }

    /// Switches the sandbox on or off for this session. It can only be on where there is one.
    pub fn switch_sandbox(self, on: bool) {
        let sandbox = self.shared.tools.programs.sandbox.as_ref();
        let tier = sandbox.map_or(Tier::None, |sandbox| sandbox.tier());
        self.shared.permissions.update_context(|context| {
            let mut facts = context.sandbox.clone();
            facts.switch(on, tier);
            context.set_sandbox(facts);
        });
    }

    /// The rules in effect: what they do, as written, and where they come from.
    #[must_use]
    pub fn rules(self) -> Vec<(Behavior, String, RuleSource)> {
        let context = self.shared.permissions.snapshot();
        context
            .rules
            .iter()
            .map(|rule| (rule.behavior, rule.text(), rule.source))
            .collect()
    }

    /// Changes rules, mode or roots, as the user wants it.
    ///
    /// # Errors
    /// When the change is not allowed, or could not be kept.
    pub fn apply(self, update: &PermissionUpdate) -> Result<(), UpdateError> {
        let before = self.roots();
        self.shared.permissions.apply(update)?;
        match update {
            PermissionUpdate::SetMode { mode, .. } => {
                self.shared.events.send(Event::ModeChanged(*mode));
            }
            PermissionUpdate::AddDirectories { .. }
            | PermissionUpdate::RemoveDirectories { .. } => {
                let roots = self.roots();
                (*self.shared.tools.roots.write()).clone_from(&roots);
                self.shared.integrations.mcp.roots_changed();
                for folder in roots.iter().filter(|folder| !before.contains(folder)) {
                    self.tell_hooks(folder, "slash_command");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The folders that may be worked in.
    #[must_use]
    pub fn roots(self) -> Vec<PathBuf> {
        self.shared.permissions.snapshot().roots.clone()
    }

    /// Adds a folder that may be worked in; `source` is who asked for it, for hooks.
    pub fn add_root(self, folder: &Path, source: &'static str) {
        self.shared.permissions.add_root(folder);
        let mut roots = self.shared.tools.roots.write();
        if !roots.iter().any(|root| root == folder) {
            roots.push(folder.to_owned());
            drop(roots);
            self.shared.integrations.mcp.roots_changed();
            self.tell_hooks(folder, source);
        }
    }

    /// Tells hooks of a folder that may be worked in; nobody waits for them.
    fn tell_hooks(self, folder: &Path, source: &'static str) {
        let (hooks, folder) = (self.shared.hooks.clone(), folder.to_owned());
        lathe_spawn::task(async move { hooks.directory_added(&folder, source).await });
    }

    /// Whether a file's content may be shown without the user's word.
    #[must_use]
    pub fn may_read(self, path: &Path) -> bool {
        !self.shared.permissions.is_secret(path)
    }
}
