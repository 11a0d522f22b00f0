//! The settings of a session, and the commands that settings name.

use crate::conversation::ConversationShared;
use crate::session::live::FlagError;
use lathe_hooks::helper::{HelperContext, HelperError, run_helper};
use lathe_settings::{LoadOptions, Places};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the user who typed `@` may have to wait for the project's own command.
const SUGGESTION_LIMIT: Duration = Duration::from_secs(5);
/// The most paths of one answer.
const MOST_SUGGESTIONS: usize = 15;

/// The settings of a session, and the commands that settings name.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct SettingsHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl<'a> SettingsHandle<'a> {
    /// The effective settings, as JSON.
    #[must_use]
    pub fn json(self) -> Value {
        self.shared.session.settings.value.read().clone()
    }

    /// The settings by source, weakest first.
    #[must_use]
    pub fn layers(self) -> Vec<Value> {
        self.shared.session.settings.layers.read().clone()
    }

    /// Where settings are.
    #[must_use]
    pub fn places(self) -> &'a Places {
        &self.shared.session.settings.loader.places
    }

    /// Where settings come from, and how this session loads them.
    #[must_use]
    pub fn origin(self) -> (Places, LoadOptions) {
        self.shared.session.settings.loader.parts()
    }

    /// Puts changes on top of the flag settings; `null` takes a key back.
    ///
    /// # Errors
    /// When they are wrong; then nothing changes.
    pub fn change_flags(self, changes: &Map<String, Value>) -> Result<(), FlagError> {
        crate::session::live::change_flags(self.shared, changes)
    }

    /// Where the key comes from.
    #[must_use]
    pub fn key_source(self) -> &'a str {
        &self.shared.session.settings.key_source
    }

    /// The command that a setting names.
    #[must_use]
    pub fn helper_command(self, setting: &str) -> Option<String> {
        let settings = self.shared.session.settings.value.read();
        let command = settings.get(setting)?.get("command")?.as_str()?;
        Some(command.to_owned())
    }

    /// Runs a command that settings name, and gives what it printed; fails when it can't be started,
    /// fails, takes too long or is cancelled.
    pub fn run_helper(
        self,
        command: String,
        stdin: &Value,
        limit: Duration,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<String, HelperError>> + Send + use<> {
        let folder = self.shared.tools.working_folder.read().clone();
        let project = self.shared.hooks.project.clone();
        let environment = self.shared.hooks.registry.settings_environment();
        let withheld = self.shared.hooks.registry.withheld();
        let stdin = stdin.to_string();
        async move {
            let context = HelperContext {
                cwd: &folder,
                environment,
                withheld,
                project: Some(&project),
                limit,
                cancel,
            };
            run_helper(&command, &stdin, context).await
        }
    }

    /// The paths that the `fileSuggestion` command finds for a word after `@`: it gets `{"query": …}` and prints
    /// a path a line. `None` if settings name no such command.
    pub fn suggested_files(
        self,
        query: &str,
        cancel: CancellationToken,
    ) -> Option<impl Future<Output = Result<Vec<String>, HelperError>> + Send + use<>> {
        let command = self.helper_command("fileSuggestion")?;
        let input = json!({
            "query": query,
            "session_id": self.shared.session.id.to_string(),
            "cwd": self.shared.tools.working_folder.read().clone(),
        });
        let answer = self.run_helper(command, &input, SUGGESTION_LIMIT, cancel);
        Some(async move { answer.await.map(|text| paths(&text)) })
    }
}

fn paths(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(MOST_SUGGESTIONS)
        .map(str::to_owned)
        .collect()
}
