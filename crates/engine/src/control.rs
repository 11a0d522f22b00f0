//! What a face may ask a session directly, also while a turn runs: these answers don't wait for it.

use crate::session::SessionHandle;
use lathe_hooks::{CallbackHost, HookRegistry};
use lathe_model::Thinking;
use lathe_permissions::ModeRefused;
use lathe_protocol::event::Event;
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::{Fact, Record};
use lathe_session::SessionError;
use lathe_session::checkpoint::{RewindMode, RewindReport};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// How full the model's window is, by part. Sizes are estimates but for what the provider counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ContextUsage {
    /// Tokens of the system prompt.
    pub system: u64,
    /// Tokens of the tools' definitions.
    pub tools: u64,
    /// Tokens of the conversation.
    pub messages: u64,
    /// The model's window.
    pub window: u64,
    /// The model's output limit.
    pub max_output: u64,
    /// The model.
    pub model: String,
    /// Whether the conversation is compacted by itself when it gets too long.
    pub auto_compact: bool,
    /// The instruction files: path, whose they are, tokens.
    pub instruction_files: Vec<(PathBuf, String, u64)>,
}

impl SessionHandle {
    /// Changes the permission mode.
    ///
    /// # Errors
    /// When the mode may not be entered.
    pub fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), ModeRefused> {
        self.shared.permissions.set_mode(mode)?;
        self.shared.events.send(Event::ModeChanged(mode));
        self.shared.transcript.append(Record::Fact(Fact::Mode {
            mode: mode.name().to_owned(),
            session_id: self.shared.session_id,
        }));
        Ok(())
    }

    /// The permission mode.
    #[must_use]
    pub fn permission_mode(&self) -> PermissionMode {
        self.shared.permissions.mode()
    }

    /// Chooses the model from the next step on; `None` is the default. Gives its id.
    pub fn set_model(&self, model: Option<&str>) -> String {
        let resolved = match model {
            Some(name) => self.shared.catalog.resolve(name),
            None => self.shared.catalog.resolve(&self.shared.default_model),
        };
        self.shared.choices.write().model.clone_from(&resolved.id);
        resolved.id
    }

    /// The model that the next step uses.
    #[must_use]
    pub fn model(&self) -> String {
        self.shared.choices.read().model.clone()
    }

    /// The models that are known: short name or id, and a name for people.
    #[must_use]
    pub fn models(&self) -> Vec<(String, String)> {
        let catalog = &self.shared.catalog;
        catalog
            .aliases()
            .map(|(alias, id)| {
                let info = catalog.resolve(id).info;
                (alias.to_owned(), info.name.unwrap_or_else(|| id.to_owned()))
            })
            .collect()
    }

    /// Changes the thinking budget: `None` resets, `Some(0)` switches thinking off.
    pub fn set_max_thinking_tokens(&self, tokens: Option<u32>) {
        self.shared.choices.write().thinking = match tokens {
            None => self.shared.default_thinking,
            Some(0) => Some(Thinking::disabled()),
            Some(tokens) => {
                Some(Thinking::budget(tokens).showing(lathe_model::ThinkingDisplay::Summarized))
            }
        };
    }

    /// Drops a prompt that still waits. Returns whether there was one.
    #[must_use]
    pub fn cancel_queued(&self, uuid: RecordId) -> bool {
        let mut queue = self.shared.queue.lock();
        let before = queue.len();
        queue.retain(|prompt| prompt.uuid != uuid);
        queue.len() < before
    }

    /// Gives the session a title.
    pub fn rename(&self, title: &str) {
        self.shared
            .transcript
            .append(Record::Fact(Fact::CustomTitle {
                custom_title: title.to_owned(),
                session_id: self.shared.session_id,
            }));
    }

    /// Counts a file as read in the state it had at a time. Returns whether it is still that state.
    #[must_use]
    pub fn seed_read_state(&self, path: &str, modified: SystemTime) -> bool {
        let path = self.shared.tools.resolve_path(path);
        self.shared.tools.file_cache.seed(&path, modified)
    }

    /// A path as the session understands it.
    #[must_use]
    pub fn resolve_path(&self, path: &str) -> PathBuf {
        self.shared.tools.resolve_path(path)
    }

    /// Whether a file's content may be shown without a person's word.
    #[must_use]
    pub fn may_read(&self, path: &std::path::Path) -> bool {
        !self.shared.permissions.is_secret(path)
    }

    /// Brings files back to what they were before a prompt.
    ///
    /// # Errors
    /// When the session keeps no history of files, the prompt is unknown, or a file can't be restored.
    pub async fn rewind_files(
        &self,
        to: RecordId,
        mode: RewindMode,
    ) -> Result<RewindReport, SessionError> {
        match &self.shared.undo {
            Some(undo) => undo.history.rewind_files(to, mode).await,
            None => Err(SessionError::Closed {
                path: self.transcript().to_owned(),
            }),
        }
    }

    /// Stops a background task. Returns an error text when there is none of that id.
    ///
    /// # Errors
    /// When there is no such task.
    pub async fn stop_task(&self, id: &str) -> Result<(), String> {
        self.shared
            .tools
            .shell
            .background()
            .stop(id)
            .await
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    /// Sends running calls to the background.
    pub fn send_to_background(&self, call: Option<&lathe_protocol::ids::ToolUseId>) {
        self.shared.backgrounds.send(call);
    }

    /// The session's hooks, for a host that adds its own.
    #[must_use]
    pub fn hooks(&self) -> &Arc<HookRegistry> {
        &self.shared.hooks.registry
    }

    /// Sets whoever calls the host's hook functions.
    pub fn set_callbacks(&self, host: Arc<dyn CallbackHost>) {
        self.shared.hooks.registry.set_callbacks(host);
    }

    /// How full the model's window is.
    #[must_use]
    pub fn context_usage(&self) -> ContextUsage {
        let mut usage = self.shared.context_usage.lock().clone();
        let model = self.model();
        let info = self.shared.catalog.resolve(&model).info;
        usage.window = info.context_window;
        usage.max_output = u64::from(info.max_output);
        usage.model = model;
        if let Some(instructions) = self.shared.instructions.lock().as_ref() {
            usage.instruction_files = instructions
                .files()
                .iter()
                .map(|file| {
                    let scope = serde_json::to_value(file.scope)
                        .ok()
                        .and_then(|scope| scope.as_str().map(str::to_owned))
                        .unwrap_or_default();
                    (
                        file.path.clone(),
                        scope,
                        lathe_model::estimate::text(&file.text),
                    )
                })
                .collect();
        }
        usage
    }

    /// The tools that the model is offered.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.shared
            .registry
            .read()
            .names()
            .filter(|name| !self.shared.permissions.is_blanket_denied(name))
            .map(str::to_owned)
            .collect()
    }

    /// Where the key comes from.
    #[must_use]
    pub fn key_source(&self) -> &str {
        &self.shared.key_source
    }

    /// The settings that count, as JSON.
    #[must_use]
    pub fn settings(&self) -> serde_json::Value {
        self.shared.settings.read().clone()
    }

    /// The session's working folder.
    #[must_use]
    pub fn working_folder(&self) -> PathBuf {
        self.shared.tools.working_folder.read().clone()
    }
}
