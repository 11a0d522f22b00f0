//! What a face may ask a session directly, also while a turn runs: these answers don't wait for it.

use crate::session::SessionHandle;
use lathe_hooks::{CallbackHost, HookRegistry};
use lathe_model::Thinking;
use lathe_permissions::ModeRefused;
use lathe_protocol::event::{Event, SessionInit};
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use lathe_protocol::record::{Fact, Record};
use lathe_session::SessionError;
use lathe_session::checkpoint::{RewindMode, RewindReport};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// How hard a model can be told to try.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// How full the model's window is, by part. Sizes are estimates but for what the provider counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ContextUsage {
    /// Tokens of the system prompt, without what is counted as memory.
    pub system: u64,
    /// Tokens of the built-in tools' definitions.
    pub tools: u64,
    /// Tokens of the definitions of MCP servers' tools.
    pub mcp_tools: u64,
    /// Tokens of instruction files and kept memory.
    pub memory: u64,
    /// Tokens of the list of skills.
    pub skills: u64,
    /// Tokens of the list of agents that work can be given to.
    pub agents: u64,
    /// Tokens of the conversation, without the list of skills.
    pub messages: u64,
    /// Whether the provider has counted what was sent; otherwise everything is a guess.
    pub counted: bool,
    /// The model's window.
    pub window: u64,
    /// The model's output limit.
    pub max_output: u64,
    /// Where the conversation is compacted.
    pub compact_at: u64,
    /// Where the person is warned.
    pub warn_at: u64,
    /// The model.
    pub model: String,
    /// Whether the conversation is compacted by itself when it gets too long.
    pub auto_compact: bool,
    /// The instruction files: path, whose they are, tokens.
    pub instruction_files: Vec<(PathBuf, String, u64)>,
    /// What the provider counted for the last answer.
    pub api_usage: Option<lathe_protocol::usage::Usage>,
}

/// A part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContextPart {
    /// What it is.
    pub name: &'static str,
    /// Its tokens.
    pub tokens: u64,
    /// `used`, `free` or `reserve`.
    pub kind: &'static str,
}

impl ContextUsage {
    /// Tokens that the next request has.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.system
            + self.tools
            + self.mcp_tools
            + self.memory
            + self.agents
            + self.skills
            + self.messages
    }

    /// Tokens that compaction keeps free; none where it is off.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        if self.auto_compact {
            self.window.saturating_sub(self.compact_at)
        } else {
            0
        }
    }

    /// Tokens that are left before compaction.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.window.saturating_sub(self.used() + self.reserve())
    }

    /// The window by part, in the order in which it is sent; empty parts are left out.
    #[must_use]
    pub fn parts(&self) -> Vec<ContextPart> {
        let part = |name, tokens, kind| ContextPart { name, tokens, kind };
        let mut parts = vec![
            part("System prompt", self.system, "used"),
            part("System tools", self.tools, "used"),
            part("MCP tools", self.mcp_tools, "used"),
            part("Memory files", self.memory, "used"),
            part("Custom agents", self.agents, "used"),
            part("Skills", self.skills, "used"),
            part("Messages", self.messages, "used"),
            part("Free space", self.free(), "free"),
            part("Autocompact buffer", self.reserve(), "reserve"),
        ];
        parts.retain(|part| part.tokens > 0);
        parts
    }
}

impl crate::core::Shared {
    /// Stops a background task: an agent or a command.
    pub(crate) async fn stop_task(&self, id: &str) -> Result<(), String> {
        if let Some(agent) = self.agents.find(id) {
            if !agent.is_running() {
                return Err(format!("agent {id} isn't running any more"));
            }
            agent.cancel.cancel();
            agent.over().await;
            return Ok(());
        }
        let background = self.tools.shell.background();
        let stopped = background.stop(id).await;
        stopped.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Fills in what depends on the model and the instruction files.
pub(crate) fn complete(usage: &mut ContextUsage, shared: &crate::core::Shared, model: &str) {
    let info = shared.catalog.resolve(model).info;
    let windows = crate::context::Windows::of(&info);
    usage.window = windows.window;
    usage.max_output = windows.max_output;
    usage.compact_at = windows.compact_at();
    usage.warn_at = windows.warn_at();
    model.clone_into(&mut usage.model);
    if let Some(instructions) = shared.instructions.lock().as_ref() {
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

    /// Changes the thinking budget: `None` resets, `Some(0)` switches thinking off. What of it is shown
    /// stays as it is.
    pub fn set_max_thinking_tokens(&self, tokens: Option<u32>) {
        let mut choices = self.shared.choices.write();
        let display = choices.thinking.and_then(|thinking| thinking.display);
        choices.thinking = match tokens {
            None => self.shared.default_thinking,
            Some(0) => Some(Thinking::disabled()),
            Some(tokens) => {
                let display = display.unwrap_or_else(|| self.first_thinking_display());
                Some(Thinking::budget(tokens).showing(display))
            }
        };
    }

    /// Changes what of the thinking is shown; `None` is as the session began.
    pub fn set_thinking_display(&self, display: Option<lathe_model::ThinkingDisplay>) {
        let display = display.unwrap_or_else(|| self.first_thinking_display());
        let mut choices = self.shared.choices.write();
        choices.thinking = choices.thinking.map(|thinking| thinking.showing(display));
    }

    fn first_thinking_display(&self) -> lathe_model::ThinkingDisplay {
        let said = self.shared.default_thinking.and_then(|it| it.display);
        said.unwrap_or(lathe_model::ThinkingDisplay::Summarized)
    }

    /// What a face is told at the start of a turn.
    #[must_use]
    pub fn init(&self) -> SessionInit {
        self.shared.session_init(&self.model())
    }

    /// Puts changes on top of the flag settings; `null` takes a key back.
    ///
    /// # Errors
    /// When they are wrong; then nothing changes.
    pub fn change_flag_settings(&self, changes: &Map<String, Value>) -> Result<(), String> {
        crate::live::change_flags(&self.shared, changes)
    }

    /// What each source of settings says, weakest first.
    #[must_use]
    pub fn settings_layers(&self) -> Vec<Value> {
        self.shared.layers.read().clone()
    }

    /// Where settings are.
    #[must_use]
    pub fn places(&self) -> &lathe_settings::Places {
        &self.shared.loader.places
    }

    /// How hard the model should try, if someone said so.
    #[must_use]
    pub fn effort(&self) -> Option<String> {
        let chosen = self.shared.chosen.read().effort.clone();
        chosen.unwrap_or_else(|| self.shared.effort.clone())
    }

    /// Says how hard the model should try, from the next request on; `None` is as the session began.
    ///
    /// # Errors
    /// In words, when there is no such level.
    pub fn set_effort(&self, level: Option<&str>) -> Result<(), String> {
        if let Some(level) = level
            && !EFFORTS.contains(&level)
        {
            return Err(format!(
                "there is no effort {level:?}; there are {}",
                EFFORTS.join(", ")
            ));
        }
        self.shared.chosen.write().effort = level.map(|level| Some(level.to_owned()));
        Ok(())
    }

    /// The model that takes over when the first is overloaded.
    #[must_use]
    pub fn fallback_model(&self) -> Option<String> {
        let chosen = self.shared.chosen.read().fallback.clone();
        chosen.unwrap_or_else(|| self.shared.seed.fallback_model.clone())
    }

    /// Chooses the model that takes over when the first is overloaded; `None` is nobody. Gives its id.
    pub fn set_fallback_model(&self, name: Option<&str>) -> Option<String> {
        let model = name.map(|name| self.shared.catalog.resolve(name).id);
        self.shared.chosen.write().fallback = Some(model.clone());
        model
    }

    /// What the session used, as of the last step and of what was asked beside it.
    #[must_use]
    pub fn totals(&self) -> crate::ledger::Totals {
        // Held while the totals are read, so that nothing is counted twice.
        let waiting = self.shared.extra_usage.lock();
        let mut totals = self.shared.totals.lock().clone();
        for (part, extra) in waiting.iter() {
            totals.absorb(*part, extra);
        }
        totals
    }

    /// The dollars that count for the budget of this run: not those that a resumed session spent before.
    #[must_use]
    pub fn spent_in_run_usd(&self) -> f64 {
        let spent = self.shared.totals.lock().cost_usd();
        self.shared.seed.limits.spent_in_run(spent)
    }

    /// The rules that count: text, what they do, and where they come from.
    #[must_use]
    pub fn rules(&self) -> Vec<(String, Behavior, RuleSource)> {
        let context = self.shared.permissions.snapshot();
        context
            .rules
            .iter()
            .map(|rule| (rule.text(), rule.behavior, rule.source))
            .collect()
    }

    /// The folders that may be worked in.
    #[must_use]
    pub fn roots(&self) -> Vec<PathBuf> {
        self.shared.permissions.snapshot().roots.clone()
    }

    /// Adds a folder that may be worked in; `source` is who wished it, as hooks are told.
    pub fn add_root(&self, folder: &std::path::Path, source: &'static str) {
        self.shared.permissions.add_root(folder);
        let mut roots = self.shared.tools.roots.write();
        if !roots.iter().any(|root| root == folder) {
            roots.push(folder.to_owned());
            drop(roots);
            self.shared.mcp.roots_changed();
            let (hooks, folder) = (self.shared.hooks.clone(), folder.to_owned());
            // Hooks hear of it; nobody waits for them.
            lathe_spawn::task(async move { hooks.directory_added(&folder, source).await });
        }
    }

    /// The last bytes that a background command printed, how much it printed in all, and whether
    /// that is more.
    ///
    /// # Errors
    /// When there is no such task, or its output can't be read.
    pub fn task_output(&self, id: &str, limit: u64) -> Result<(String, u64, bool), String> {
        let output_file = match self.shared.agents.find(id) {
            Some(agent) => agent.output_file.clone(),
            None => {
                let background = self.shared.tools.shell.background();
                let command = background.get(id).map_err(|error| error.to_string())?;
                command.output_file
            }
        };
        let failed =
            |error: std::io::Error| format!("{} can't be read: {error}", output_file.display());
        let mut file = std::fs::File::open(&output_file).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(limit)))
            .map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((text, size, size > limit))
    }

    /// Stops every agent and every background command that still runs.
    pub async fn stop_all_tasks(&self) {
        self.kill_agents();
        let background = self.shared.tools.shell.background();
        for command in background.list() {
            if command.status == lathe_shell::run::BackgroundStatus::Running {
                let _ = background.stop(command.id.as_str()).await;
            }
        }
    }

    /// Drops a prompt that still waits, or that was sent and has not arrived yet. Returns whether there
    /// was one.
    #[must_use]
    pub fn cancel_queued(&self, uuid: RecordId) -> bool {
        let mut queue = self.shared.queue.lock();
        let before = queue.len();
        queue.retain(|prompt| prompt.uuid != uuid);
        queue.len() < before || self.shared.arrived(uuid)
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
        self.shared.stop_task(id).await
    }

    /// Stops every agent that works, at once. Returns how many. Each is told of as killed.
    #[allow(
        clippy::must_use_candidate,
        reason = "the number is for whoever shows it"
    )]
    pub fn kill_agents(&self) -> usize {
        self.shared.agents.kill_all()
    }

    /// The session's agents, oldest first, those of an earlier run of it too.
    #[must_use]
    pub fn agents(&self) -> Vec<lathe_tools::host::AgentTask> {
        self.shared
            .agents
            .all()
            .iter()
            .map(|entry| entry.view())
            .collect()
    }

    /// The definitions of agents that the session has.
    #[must_use]
    pub fn agent_catalog(&self) -> Arc<lathe_extensions::AgentCatalog> {
        self.shared.agents.catalog()
    }

    /// Replaces the definitions of agents: files changed, a plugin came or went. The model is told of
    /// the new ones from the next step on.
    pub fn set_agent_catalog(&self, catalog: Arc<lathe_extensions::AgentCatalog>) {
        self.shared.agents.set_catalog(catalog);
    }

    /// How planning stands: whether plan mode is on, the plan's file and text.
    #[must_use]
    pub fn plan(&self) -> lathe_tools::host::PlanState {
        self.shared.plan_state()
    }

    /// Sends running calls to the background. Returns whether there was one.
    pub fn send_to_background(&self, call: Option<&lathe_protocol::ids::ToolUseId>) -> bool {
        self.shared.backgrounds.send(call)
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
        complete(&mut usage, &self.shared, &self.model());
        usage
    }

    /// The tools that the model is offered.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.shared
            .offered_tools()
            .names()
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
    pub fn settings(&self) -> Value {
        self.shared.settings.read().clone()
    }

    /// The session's working folder.
    #[must_use]
    pub fn working_folder(&self) -> PathBuf {
        self.shared.tools.working_folder.read().clone()
    }
}
