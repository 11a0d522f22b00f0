//! The context of a session's model: its window, tools, notes, and files that it has read.

use crate::context::git::Git;
use crate::context::surgery;
use crate::context::usage::{ContextUsage, complete};
use crate::conversation::ConversationShared;
use lathe_permissions::repository::NotTrusted;
use lathe_protocol::ids::ToolUseId;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// The context of a session's model: its window, tools, notes, and files that it has read.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct ContextHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl ContextHandle<'_> {
    /// How full the model's window is.
    #[must_use]
    pub fn usage(self) -> ContextUsage {
        let mut usage = self.shared.state.usage.lock().clone();
        let model = self.shared.choices.read().model.clone();
        complete(&mut usage, self.shared, &model);
        usage
    }

    /// The tools that the model is offered.
    #[must_use]
    pub fn tool_names(self) -> Vec<String> {
        self.shared
            .offered_tools()
            .names()
            .map(str::to_owned)
            .collect()
    }

    /// The instruction files in the system prompt, as they are and as the user had them edited.
    #[must_use]
    pub fn files(self) -> Vec<surgery::FileInContext> {
        surgery::files(self.shared)
    }

    /// Puts another text in the place of a tool result, of the message whose record has this id, or of an instruction
    /// file ([`surgery::FILE_ID`] and its path), from the next request on.
    pub fn replace_result(self, id: ToolUseId, text: String) {
        surgery::replace(self.shared, id, text);
    }

    /// Keeps a tool result, or the message whose record has this id, over compactions, or no longer.
    pub fn pin_result(self, id: ToolUseId, pinned: bool) {
        surgery::pin(self.shared, id, pinned);
    }

    /// Switches session notes on or off.
    pub fn keep_notes(self, on: bool) {
        self.shared.state.notes.kept.enable(on);
    }

    /// The session's notes, if there are any. They stay when a compaction has used them.
    #[must_use]
    pub fn notes(self) -> Option<String> {
        self.shared.state.notes.kept.text()
    }

    /// Waits until no update of the notes runs.
    pub async fn notes_settled(self) {
        self.shared.state.notes.kept.settled().await;
    }

    /// Counts a file as read in the state it had at a time. Returns whether it is still that state.
    #[must_use]
    pub fn seed_read_state(self, path: &str, modified: SystemTime) -> bool {
        let path = self.shared.tools.resolve_path(path);
        self.shared.tools.file_cache.seed(&path, modified)
    }

    /// A path as the session understands it.
    #[must_use]
    pub fn resolve_path(self, path: &str) -> PathBuf {
        self.shared.tools.resolve_path(path)
    }

    /// The session's working folder.
    #[must_use]
    pub fn working_folder(self) -> PathBuf {
        self.shared.tools.working_folder.read().clone()
    }

    /// git in the session's working folder.
    ///
    /// # Errors
    /// If no person trusted the repository there.
    pub fn git(self) -> Result<Git, NotTrusted> {
        Git::new(&self.shared.permissions.snapshot(), &self.working_folder())
    }

    /// Changes the session's working folder. Hooks hear of it; nobody waits for them.
    pub fn set_working_folder(self, folder: PathBuf) {
        let before = {
            let mut now = self.shared.tools.working_folder.write();
            std::mem::replace(&mut *now, folder.clone())
        };
        if before != folder {
            let hooks = self.shared.hooks.clone();
            lathe_spawn::task(async move { hooks.cwd_changed(&before, &folder).await });
        }
    }
}
