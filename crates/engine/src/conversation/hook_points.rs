//! Where hooks are asked: one method for each point of the engine. An event that no hook listens to
//! costs a look at a list.

pub(crate) use crate::conversation::hook_moment::Moment;
use crate::conversation::{ConversationShared, hook_conditions};
use crate::mcp::McpControl;
use crate::session::events::EventSink;
use crate::session::schedule;
use lathe_hooks::{
    HookDecision, HookOutcome, HookPermission, HookRegistry, LateAnswer, RunContext,
};
use lathe_permissions::Permissions;
use lathe_protocol::Extra;
use lathe_protocol::event::{Event, NoticeLevel, TerminalReason};
use lathe_protocol::hook::{HookEvent, HookInput};
use lathe_protocol::ids::{AgentId, RecordId, SessionId, ToolUseId};
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_settings::instructions::{InstructionFile, Reason, Scope};
use lathe_tools::ToolContext;
use lathe_tools::host::TaskChange;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long hooks may hold up the end of a session.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The hooks of a conversation, with their input.
pub(crate) struct HookPoints {
    pub(crate) registry: Arc<HookRegistry>,
    pub(crate) late: Mutex<mpsc::UnboundedReceiver<LateAnswer>>,
    pub(crate) session_id: SessionId,
    pub(crate) transcript: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) tools: Arc<ToolContext>,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) events: EventSink,
    pub(crate) environment_file: Option<PathBuf>,
    pub(crate) agent: Option<(AgentId, String)>,
    /// Files that hooks want to hear of.
    pub(crate) watched: crate::conversation::watched_files::WatchedFiles,
    /// Shared by all conversations of a session.
    pub(crate) moment: Mutex<Moment>,
}

/// Why an agent gets no worktree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorktreeRefused {
    #[error("a WorktreeCreate hook refused: {0}")]
    Objection(String),
    #[error("a WorktreeCreate hook names {0}, which is not a folder")]
    NoFolder(String),
}

/// Whether the input of an event says how hard the model tries.
fn tells_effort(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PostToolBatch
            | HookEvent::PermissionRequest
            | HookEvent::PermissionDenied
            | HookEvent::Stop
            | HookEvent::SubagentStop
    )
}

/// Whether the input of an event names the MCP server of its tool.
fn names_server(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PermissionRequest
            | HookEvent::PermissionDenied
    )
}

impl HookPoints {
    /// How hard the model tries.
    pub(crate) fn effort(&self) -> String {
        self.moment.lock().effort().to_owned()
    }

    /// Runs the hooks of an event. `None` when there are none, which costs next to nothing.
    pub(crate) async fn fire(
        &self,
        event: HookEvent,
        matched: Option<&str>,
        fields: impl FnOnce() -> Value,
        cancel: &CancellationToken,
    ) -> Option<HookOutcome> {
        if !self.registry.matches(event, matched) {
            return None;
        }
        let mut fields = match fields() {
            Value::Object(fields) => fields,
            _ => Extra::new(),
        };
        if let Some(server) = self.server_of(event, &fields) {
            fields.insert("mcp_server".to_owned(), server);
        }
        let environment = {
            let moment = self.moment.lock();
            if let Some(prompt) = moment.prompt {
                fields.insert("prompt_id".to_owned(), json!(prompt));
            }
            // Files that are loaded before the first prompt come from no step, so nobody tries yet.
            let loaded_in_turn = event == HookEvent::InstructionsLoaded && moment.prompt.is_some();
            if tells_effort(event) || loaded_in_turn {
                fields.insert("effort".to_owned(), json!({"level": moment.effort()}));
            }
            moment.environment(self.session_id)
        };
        let cwd = self.tools.working_folder.read().clone();
        let input = HookInput {
            session_id: self.session_id.to_string(),
            transcript_path: self.transcript.display().to_string(),
            cwd: cwd.display().to_string(),
            permission_mode: Some(self.permissions.mode().name().to_owned()),
            agent_id: self.agent.as_ref().map(|(id, _)| id.0.clone()),
            agent_type: self.agent.as_ref().map(|(_, kind)| kind.clone()),
            hook_event_name: event,
            fields,
        };
        if let Some(folder) = self
            .environment_file
            .as_ref()
            .and_then(|file| file.parent())
            && lathe_hooks::run::exports(event)
            && let Err(error) = lathe_session::paths::create_private_folder(folder)
        {
            tracing::warn!(%error, "hooks can't export variables");
        }
        let events = self.events.clone();
        let context = RunContext {
            condition: hook_conditions::condition(&input, &self.tools, self.permissions.snapshot()),
            cancel: cancel.clone(),
            environment,
            environment_file: self.environment_file.clone(),
            observer: Some(Arc::new(move |notice| {
                events.send(Event::Hook(notice));
            })),
            confine: self.confine(),
            ..RunContext::new(cwd, self.project.clone())
        };
        let outcome = self.registry.run(&input, &context).await;
        for message in &outcome.system_messages {
            self.events.notice(NoticeLevel::Notice, message.clone());
        }
        for sequence in outcome.terminal_sequences() {
            self.events
                .send(Event::TerminalSequence(sequence.to_owned()));
        }
        for warning in &outcome.warnings {
            self.events.notice(NoticeLevel::Warning, warning.clone());
        }
        Some(outcome)
    }

    /// How hooks get into the sandbox, where settings want that.
    fn confine(&self) -> Option<lathe_process::Confine> {
        let wanted = self.permissions.snapshot().sandbox.settings.hooks == Some(true);
        self.tools.programs.confine.clone().filter(|_| wanted)
    }

    /// Notes which model answers from now on and how hard it tries.
    pub(crate) fn note_choices(&self, model: &str, effort: Option<&str>) {
        let mut moment = self.moment.lock();
        moment.model = Some(model.to_owned());
        moment.effort = effort.map(str::to_owned);
    }

    /// Notes that the model is asked now.
    pub(crate) fn note_request(&self) {
        self.moment.lock().asked = Some(Instant::now());
    }

    /// Notes which conversation knows the MCP servers.
    pub(crate) fn note_servers(&self, shared: &Arc<ConversationShared>) {
        self.moment.lock().servers = Arc::downgrade(shared);
    }

    /// The MCP server that the tool of an event belongs to, with its name and where it is declared.
    fn server_of(&self, event: HookEvent, fields: &Extra) -> Option<Value> {
        let tool = fields.get("tool_name")?.as_str()?;
        if !names_server(event) || !tool.starts_with("mcp__") {
            return None;
        }
        let shared = self.moment.lock().servers.upgrade()?;
        McpControl { shared }.provenance(tool)
    }

    /// Notes the prompt that is worked on from now on. An agent works on the prompt that it was started for.
    pub(crate) fn note_prompt(&self, prompt: RecordId) {
        if self.agent.is_none() {
            self.moment.lock().prompt = Some(prompt);
        }
    }

    pub(crate) async fn pre_tool_use(
        &self,
        name: &str,
        input: &Value,
        id: &ToolUseId,
        cancel: &CancellationToken,
    ) -> HookOutcome {
        let fields = || json!({"tool_name": name, "tool_input": input, "tool_use_id": id});
        let fired = self.fire(HookEvent::PreToolUse, Some(name), fields, cancel);
        let mut outcome = fired.await.unwrap_or_default();
        if let Some(reason) = outcome.block.take() {
            outcome.permission = Some(HookPermission {
                decision: HookDecision::Deny,
                reason: Some(reason),
                hook: "PreToolUse".to_owned(),
            });
        }
        outcome
    }

    /// The texts for the model after a call: `additional_context` includes the objections.
    pub(crate) async fn post_tool_use(
        &self,
        name: &str,
        input: &Value,
        id: &ToolUseId,
        response: &Value,
        elapsed: Duration,
    ) -> HookOutcome {
        let fields = || {
            json!({
                "tool_name": name, "tool_input": input, "tool_use_id": id,
                "tool_response": response, "duration_ms": millis(elapsed),
            })
        };
        let outcome = self
            .fire(
                HookEvent::PostToolUse,
                Some(name),
                fields,
                &CancellationToken::new(),
            )
            .await;
        after_call(outcome, name)
    }

    pub(crate) async fn post_tool_failure(
        &self,
        name: &str,
        input: &Value,
        id: &ToolUseId,
        error: &str,
        is_interrupt: bool,
        elapsed: Duration,
    ) -> HookOutcome {
        let fields = || {
            json!({
                "tool_name": name, "tool_input": input, "tool_use_id": id, "error": error,
                "is_interrupt": is_interrupt, "duration_ms": millis(elapsed),
            })
        };
        let outcome = self
            .fire(
                HookEvent::PostToolUseFailure,
                Some(name),
                fields,
                &CancellationToken::new(),
            )
            .await;
        after_call(outcome, name)
    }

    /// Whether a hook may answer permission questions about a tool.
    pub(crate) fn wants_permission_requests(&self, tool: &str) -> bool {
        self.registry
            .matches(HookEvent::PermissionRequest, Some(tool))
    }

    /// A hook's answer to a permission question; `None` when none has one.
    pub(crate) async fn permission_request(
        &self,
        request: &PermissionRequest,
        cancel: &CancellationToken,
    ) -> Option<PermissionReply> {
        let fields = || {
            json!({
                "tool_name": request.tool_name, "tool_input": request.input,
                "tool_use_id": request.tool_use_id,
                "permission_suggestions": request.permission_suggestions,
            })
        };
        self.fire(
            HookEvent::PermissionRequest,
            Some(&request.tool_name),
            fields,
            cancel,
        )
        .await?
        .permission_reply
    }

    /// A call was refused. Gives whether a hook says that the model may try it again.
    pub(crate) async fn permission_denied(
        &self,
        name: &str,
        input: &Value,
        id: &ToolUseId,
        reason: &str,
    ) -> bool {
        let fields =
            || json!({"tool_name": name, "tool_input": input, "tool_use_id": id, "reason": reason});
        let outcome = self
            .fire(
                HookEvent::PermissionDenied,
                Some(name),
                fields,
                &CancellationToken::new(),
            )
            .await;
        outcome.is_some_and(|outcome| outcome.extra.get("retry") == Some(&Value::Bool(true)))
    }

    pub(crate) async fn user_prompt_submit(
        &self,
        prompt: &str,
        cancel: &CancellationToken,
    ) -> HookOutcome {
        let fields = || json!({"prompt": prompt});
        let fired = self.fire(HookEvent::UserPromptSubmit, None, fields, cancel);
        fired.await.unwrap_or_default()
    }

    /// The user's command became words. Hooks may add to them, or refuse them.
    pub(crate) async fn user_prompt_expansion(
        &self,
        command: &str,
        arguments: &str,
        source: &str,
        expanded: &str,
        cancel: &CancellationToken,
    ) -> HookOutcome {
        let fields = || {
            json!({
                "prompt": format!("/{command} {arguments}").trim_end(), "command_name": command,
                "command_args": arguments, "command_source": source,
                "expansion_type": "slash_command", "expanded_prompt": expanded,
            })
        };
        let event = HookEvent::UserPromptExpansion;
        let fired = self.fire(event, Some(command), fields, cancel);
        fired.await.unwrap_or_default()
    }

    /// The model wants to stop. `block` says why it must continue, if it must.
    pub(crate) async fn stop(
        &self,
        last_text: &str,
        active: bool,
        cancel: &CancellationToken,
    ) -> HookOutcome {
        let outcome = if let Some((id, kind)) = &self.agent {
            let transcript = lathe_session::SessionPaths::of_transcript(&self.transcript);
            let fields = || {
                json!({
                    "stop_hook_active": active, "last_assistant_message": last_text,
                    "agent_transcript_path": transcript.agent_transcript(id),
                    "background_tasks": self.background_tasks(Some(id.as_str())),
                    "session_crons": self.session_crons(),
                })
            };
            self.fire(HookEvent::SubagentStop, Some(kind), fields, cancel)
                .await
        } else {
            let fields = || {
                json!({
                    "stop_hook_active": active, "last_assistant_message": last_text,
                    "background_tasks": self.background_tasks(None),
                    "session_crons": self.session_crons(),
                })
            };
            self.fire(HookEvent::Stop, None, fields, cancel).await
        };
        let mut outcome = outcome.unwrap_or_default();
        if outcome.block.is_none() && !outcome.additional_context.is_empty() {
            outcome.block = Some(outcome.additional_context.join("\n\n"));
        }
        outcome
    }

    /// Prompts that come by themselves at set times.
    fn session_crons(&self) -> Vec<Value> {
        let schedule = self.tools.host().and_then(|host| host.schedule());
        schedule.map_or_else(Vec::new, |(schedule, _)| schedule::for_hooks(&schedule))
    }

    /// The agents and commands that run in the background, without the agent that stops.
    fn background_tasks(&self, stops: Option<&str>) -> Vec<Value> {
        let agents = self.tools.host().map(|host| host.agents());
        let running = agents.unwrap_or_default().into_iter();
        let commands = self.tools.shell.background().list().into_iter();
        let commands = commands.filter(lathe_shell::run::BackgroundCommand::ends_with_session);
        let commands = commands.map(|command| {
            json!({
                "id": command.id, "type": "shell", "status": "running",
                "description": command.description, "command": command.command,
            })
        });
        running
            .filter(|agent| agent.status == lathe_tools::host::AgentStatus::Running)
            .filter(|agent| Some(agent.id.as_str()) != stops)
            .map(|agent| {
                json!({
                    "id": agent.id, "type": "subagent", "status": "running",
                    "description": agent.description, "agent_type": agent.agent_type,
                })
            })
            .chain(commands)
            .collect()
    }

    /// Whether a hook listens to what is shown.
    pub(crate) fn wants_display(&self) -> bool {
        self.registry.matches(HookEvent::MessageDisplay, None)
    }

    /// A text of the model is about to be shown. Gives what the user sees instead, if a hook says so.
    pub(crate) async fn message_display(
        &self,
        turn: RecordId,
        message: RecordId,
        text: &str,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let fields = || {
            json!({
                "turn_id": turn, "message_id": message, "index": 0, "final": true, "delta": text,
            })
        };
        let fired = self.fire(HookEvent::MessageDisplay, None, fields, cancel);
        let outcome = fired.await?;
        let shown = outcome.extra.get("displayContent")?.as_str()?;
        Some(shown.to_owned())
    }

    /// A turn ended in an error; `kind` is the word that SDK hosts know it by.
    pub(crate) async fn stop_failure(
        &self,
        kind: &str,
        reason: TerminalReason,
        text: &str,
        errors: &[String],
    ) {
        let fields = || {
            json!({
                "error": kind, "error_details": errors.join("\n"),
                "last_assistant_message": text, "terminal_reason": reason,
            })
        };
        self.fire(
            HookEvent::StopFailure,
            Some(kind),
            fields,
            &CancellationToken::new(),
        )
        .await;
    }

    /// Whether a hook prevents a compaction, and why.
    pub(crate) async fn pre_compact(
        &self,
        trigger: &str,
        instructions: Option<&str>,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let fields = || json!({"trigger": trigger, "custom_instructions": instructions});
        let outcome = self
            .fire(HookEvent::PreCompact, Some(trigger), fields, cancel)
            .await?;
        outcome.block.or(outcome.stop)
    }

    pub(crate) async fn post_compact(&self, trigger: &str, summary: &str) {
        let fields = || json!({"trigger": trigger, "compact_summary": summary});
        self.fire(
            HookEvent::PostCompact,
            Some(trigger),
            fields,
            &CancellationToken::new(),
        )
        .await;
    }

    /// The working folder changed by a shell command.
    pub(crate) async fn cwd_changed(&self, from: &std::path::Path, to: &std::path::Path) {
        let fields = || json!({"old_cwd": from, "new_cwd": to});
        self.fire_change(HookEvent::CwdChanged, fields).await;
    }

    /// Runs hooks that may set variables and watch files.
    pub(crate) async fn fire_change(&self, event: HookEvent, fields: impl FnOnce() -> Value) {
        let cancel = CancellationToken::new();
        if let Some(outcome) = self.fire(event, None, fields, &cancel).await {
            self.take_exports().await;
            self.take_watch_list(&outcome.extra);
        }
    }

    /// Gives later shell commands the variables that hooks wrote to the environment file.
    pub(crate) async fn take_exports(&self) {
        let Some(file) = &self.environment_file else {
            return;
        };
        let cwd = self.tools.working_folder.read().clone();
        let base = BTreeMap::new();
        match lathe_hooks::environment_file::evaluate(file, &cwd, &base).await {
            Ok(variables) => self.tools.shell.add_environment(
                variables
                    .into_iter()
                    .map(|(name, value)| (name.into(), value.into())),
            ),
            Err(error) => self.events.notice(
                NoticeLevel::Warning,
                format!("The variables of SessionStart hooks were not set: {error}"),
            ),
        }
    }

    /// A workspace is prepared, before the session starts. Gives what hooks add to the conversation.
    pub(crate) async fn setup(&self, trigger: &str) -> Vec<String> {
        let outcome = self
            .fire(
                HookEvent::Setup,
                Some(trigger),
                || json!({"trigger": trigger}),
                &CancellationToken::new(),
            )
            .await;
        let Some(outcome) = outcome else {
            return Vec::new();
        };
        self.take_exports().await;
        outcome.additional_context
    }

    /// A folder may be worked in from now on.
    pub(crate) async fn directory_added(&self, folder: &std::path::Path, source: &str) {
        let fields = || json!({"directory": folder, "source": source});
        let cancel = CancellationToken::new();
        self.fire(HookEvent::DirectoryAdded, None, fields, &cancel)
            .await;
    }

    /// The conversation starts, or starts again; `resumed` are facts about one that is resumed.
    pub(crate) async fn session_start(&self, source: &str, resumed: Option<Value>) -> HookOutcome {
        let model = self.moment.lock().model.clone();
        let fields = || {
            let mut fields = json!({"source": source, "model": model});
            if let (Some(fields), Some(Value::Object(resumed))) = (fields.as_object_mut(), resumed)
            {
                fields.extend(resumed);
            }
            fields
        };
        let outcome = self
            .fire(
                HookEvent::SessionStart,
                Some(source),
                fields,
                &CancellationToken::new(),
            )
            .await;
        let Some(outcome) = outcome else {
            return HookOutcome::default();
        };
        self.take_exports().await;
        self.take_watch_list(&outcome.extra);
        outcome
    }

    /// A sub-agent starts. Gives what hooks add to its context.
    pub(crate) async fn subagent_start(&self, cancel: &CancellationToken) -> Vec<String> {
        let Some((_, kind)) = &self.agent else {
            return Vec::new();
        };
        let outcome = self
            .fire(HookEvent::SubagentStart, Some(kind), || json!({}), cancel)
            .await;
        outcome.map_or_else(Vec::new, |outcome| outcome.additional_context)
    }

    /// A task of the task list was added, changes or is done. Gives the reason of a hook that objects.
    pub(crate) async fn task_changed(
        &self,
        task: &lathe_tools::task_store::Task,
        change: TaskChange,
    ) -> Option<String> {
        let event = match &change {
            TaskChange::Created => HookEvent::TaskCreated,
            TaskChange::Completed => HookEvent::TaskCompleted,
            TaskChange::Updated(_) => HookEvent::TaskUpdated,
        };
        let fields = || {
            let mut fields = json!({
                "task_id": task.id, "task_subject": task.subject,
                "task_description": task.description, "owner": task.owner,
            });
            if let TaskChange::Updated(update) = &change {
                fields["status"] = update.to.into();
                fields["previous_status"] = update.from.into();
                fields["updated_fields"] = json!(update.fields);
                fields["blocked_by"] = json!(task.blocked_by);
            }
            fields
        };
        let outcome = self
            .fire(event, None, fields, &CancellationToken::new())
            .await?;
        outcome.block.or(outcome.stop)
    }

    /// An agent is to work in a worktree of its own. A hook may make it: then it gives the folder, in
    /// `worktreePath` or as all that it prints.
    ///
    /// # Errors
    /// The reason of a hook that objects.
    pub(crate) async fn worktree_create(
        &self,
        name: &str,
    ) -> Result<Option<PathBuf>, WorktreeRefused> {
        let fields = || json!({"name": name});
        let cancel = CancellationToken::new();
        let fired = self.fire(HookEvent::WorktreeCreate, None, fields, &cancel);
        let Some(outcome) = fired.await else {
            return Ok(None);
        };
        if let Some(reason) = outcome.block.or(outcome.stop) {
            return Err(WorktreeRefused::Objection(reason));
        }
        let said = outcome.extra.get("worktreePath").and_then(Value::as_str);
        let printed = outcome.runs.iter().map(|run| run.stdout.trim());
        let folder = said
            .into_iter()
            .chain(printed)
            .map(PathBuf::from)
            .find(|path| path.is_absolute() && path.is_dir());
        match (said, folder) {
            (Some(said), None) => Err(WorktreeRefused::NoFolder(said.to_owned())),
            (_, folder) => Ok(folder),
        }
    }

    /// An agent's worktree is gone.
    pub(crate) async fn worktree_removed(&self, path: &std::path::Path) {
        let fields = || json!({"worktree_path": path});
        self.fire(
            HookEvent::WorktreeRemove,
            None,
            fields,
            &CancellationToken::new(),
        )
        .await;
    }

    /// Settings changed while the session runs.
    pub(crate) async fn config_change(&self, source: &str, files: &[String]) {
        let fields = || json!({"source": source, "files": files, "file_path": files.first()});
        self.fire(
            HookEvent::ConfigChange,
            Some(source),
            fields,
            &CancellationToken::new(),
        )
        .await;
    }

    /// Whether a hook wants to hear of the calls of an answer together.
    pub(crate) fn wants_batches(&self) -> bool {
        self.registry.matches(HookEvent::PostToolBatch, None)
    }

    /// All calls of one answer are done.
    pub(crate) async fn post_tool_batch(&self, calls: Vec<Value>) -> HookOutcome {
        let fields = || json!({"tool_calls": calls});
        let cancel = CancellationToken::new();
        let fired = self.fire(HookEvent::PostToolBatch, None, fields, &cancel);
        fired.await.unwrap_or_default()
    }

    /// The user is notified of something.
    pub(crate) async fn notification(&self, kind: &str, message: &str) {
        let fields = || json!({"notification_type": kind, "message": message, "title": "Lathe"});
        self.fire(
            HookEvent::Notification,
            Some(kind),
            fields,
            &CancellationToken::new(),
        )
        .await;
    }

    /// Tells which instruction files were loaded, and why: each for itself.
    pub(crate) async fn instructions_loaded(&self, files: &[InstructionFile]) {
        for file in files {
            let reason = load_reason(&file.reason);
            let cancel = CancellationToken::new();
            let fields = || instruction_fields(file, reason);
            self.fire(HookEvent::InstructionsLoaded, Some(reason), fields, &cancel)
                .await;
        }
    }

    /// The session ends; hooks may not hold that up for long.
    pub(crate) async fn session_end(&self, reason: &str) {
        let fields = || json!({"reason": reason});
        let cancel = CancellationToken::new();
        let all = async {
            self.fire(HookEvent::SessionEnd, Some(reason), fields, &cancel)
                .await;
            self.registry.shut_down().await;
        };
        if tokio::time::timeout(END_LIMIT, all).await.is_err() {
            cancel.cancel();
        }
    }

    /// The answers of background hooks since the last call.
    pub(crate) fn take_late_context(&self) -> Vec<String> {
        let mut late = self.late.lock();
        let mut texts = std::mem::take(&mut self.moment.lock().pending);
        while let Ok(answer) = late.try_recv() {
            texts.extend(answer.answer.additional_context.clone());
            texts.extend(answer.answer.block.clone());
        }
        texts
    }
}

/// Why an instruction file was loaded, in the words of the ecosystem.
fn load_reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Start => "session_start",
        Reason::Import { .. } => "include",
        Reason::Folder { .. } => "nested_traversal",
        Reason::Rule { .. } => "path_glob_match",
    }
}

fn instruction_fields(file: &InstructionFile, reason: &str) -> Value {
    let kind = match file.scope {
        Scope::Managed => "Managed",
        Scope::User => "User",
        Scope::Project => "Project",
        Scope::Local => "Local",
    };
    let mut fields = json!({"file_path": file.path, "memory_type": kind, "load_reason": reason});
    match &file.reason {
        Reason::Start => {}
        Reason::Import { by } => fields["parent_file_path"] = json!(by),
        Reason::Folder { touched } => fields["trigger_file_path"] = json!(touched),
        Reason::Rule { patterns, touched } => {
            fields["globs"] = json!(patterns);
            fields["trigger_file_path"] = json!(touched);
        }
    }
    fields
}

/// Folds an objection into the context for the model, and what replaces an MCP tool's output into what
/// replaces any tool's.
fn after_call(outcome: Option<HookOutcome>, name: &str) -> HookOutcome {
    let mut outcome = outcome.unwrap_or_default();
    if let Some(reason) = outcome.block.take() {
        let objection = format!("A hook rejects this result of {name}: {reason}");
        outcome.additional_context.push(objection);
    }
    if let Some(of_server) = outcome.updated_mcp_tool_output.take()
        && name.starts_with("mcp__")
    {
        outcome.updated_tool_output = Some(of_server);
    }
    outcome
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
