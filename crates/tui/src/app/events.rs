//! Events of the engine, and what they change on the screen.

use crate::app::notices::{Notice, Priority};
use crate::app::session_status::{ContextLeft, Retry, RunningHook};
use crate::app::{App, alarms, queue, settings, spending, status_line};
use crate::layers::PendingQuestion;
use crate::prompt::suggestion;
use crate::render::cell::Cell;
use lathe_protocol::event::{
    EditorNotice, Event, HookNotice, NoticeLevel, SessionState, TaskNotice, TaskStatus,
    TerminalReason, TurnResult,
};
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::MessageRecord;
use lathe_tools::host::AgentTask;
use std::time::{Duration, Instant};

/// A hook that took this long is named.
const SLOW_HOOK: Duration = Duration::from_millis(500);

/// A turn that took this long is worth a notification.
pub(crate) const LONG_TURN: Duration = Duration::from_secs(10);

/// The line about a long turn.
pub(crate) fn turn_took(took: Duration, tokens: u64) -> String {
    format!(
        "✻ {} · {} tokens",
        crate::render::text::duration(took),
        crate::render::text::tokens(tokens)
    )
}

impl App {
    pub(crate) fn engine_event(&mut self, event: Event) {
        match event {
            Event::Stream { .. }
            | Event::Record { .. }
            | Event::Retracted { .. }
            | Event::CallStarted { .. }
            | Event::CallProgress { .. }
            | Event::CallFinished { .. }
            | Event::PermissionDenied { .. } => self.conversation_event(event),
            Event::PermissionRequested(_)
            | Event::PermissionResolved { .. }
            | Event::ElicitationRequested(_)
            | Event::ElicitationResolved { .. } => self.question_event(event),
            Event::StateChanged(state) => self.state_changed(state),
            Event::TurnStarted(init) => {
                self.session.model.clone_from(&init.model);
                self.session.mode = init.permission_mode;
                self.session.turn.begin();
                self.prompt.suggestion.cancel();
                self.look.tip += 1;
            }
            Event::PromptAccepted { record } => self.prompt_accepted(&record),
            Event::Requesting => self.session.turn.begin(),
            Event::ModeChanged(mode) => self.mode_changed(mode),
            Event::Retrying {
                attempt,
                max_retries,
                delay,
                error,
                ..
            } => {
                self.session.turn.retry = Some(Retry {
                    until: Instant::now() + delay,
                    attempt,
                    max: max_retries,
                    error,
                });
            }
            Event::ModelFellBack { from, to, reason } => {
                self.session.model.clone_from(&to);
                self.warn(format!("switched from {from} to {to}: {reason}"));
            }
            Event::Compacting => {
                self.session.turn.compacting = true;
                self.session.turn.begin();
            }
            Event::Compacted {
                pre_tokens,
                post_tokens,
                ..
            } => self.compacted(pre_tokens, post_tokens),
            Event::Task(notice) => self.task_notice(notice),
            Event::Editor(EditorNotice::Shows(view)) => self.session.editor = view,
            Event::Editor(EditorNotice::Mentioned(mention)) => {
                self.prompt.editor.insert(&mention);
                self.prompt.text_changed();
            }
            Event::CompactionFailed { reason } => {
                self.session.turn.compacting = false;
                self.warn(format!("The conversation was not compacted: {reason}"));
            }
            Event::Notice { level, text, news } => {
                if !self.settings.saved_here(&text) {
                    match news {
                        Some(news) => self.alarms.notices.add(Notice::of_news(news, text)),
                        None => self.with_look(|conversation, look| {
                            conversation.notice(level, text, look);
                        }),
                    }
                }
                settings::reload(self);
            }
            Event::TurnFinished(result) => self.turn_finished(&result),
            // The terminal itself replaced the conversation (`reopen`) and shows the new one.
            Event::Hook(notice) => self.hook_notice(notice),
            Event::Refused(refusal) => self.warn(refusal.text()),
            Event::TerminalSequence(sequence) => self.screen.pending.push_str(&sequence),
            Event::ConversationReset { .. }
            | Event::ElicitationCompleted { .. }
            | Event::CommandsChanged
            | Event::Thinking { .. }
            | Event::SessionEnded => {}
        }
        self.run_held_when_idle();
    }

    /// The permission mode changed, and with it maybe the model: plan mode can have its own.
    pub(crate) fn mode_changed(&mut self, mode: PermissionMode) {
        self.session.mode = mode;
        if let Some(session) = &self.engine.handle {
            self.session.model = session.model().current();
        }
    }

    /// An event that only changes the conversation.
    fn conversation_event(&mut self, event: Event) {
        if matches!(
            &event,
            Event::Stream {
                parent_tool_use_id: None,
                ..
            }
        ) {
            self.session.turn.retry = None;
            self.session.turn.unanswered = None;
        }
        self.with_look(|conversation, look| conversation.event(event, look));
    }

    /// A question of the engine came up or was answered.
    fn question_event(&mut self, event: Event) {
        let notification = match event {
            Event::PermissionRequested(request) => {
                let title = request
                    .title
                    .clone()
                    .unwrap_or_else(|| request.tool_name.clone());
                self.layers.ask(PendingQuestion::Permission(request));
                Some(format!("Lathe asks: {title}"))
            }
            Event::ElicitationRequested(request) => {
                let words = format!("{} asks a question", request.mcp_server_name);
                self.layers.ask(PendingQuestion::Elicitation(request));
                Some(words)
            }
            Event::PermissionResolved { request_id, by, .. }
            | Event::ElicitationResolved { request_id, by, .. } => {
                self.layers.resolved(&request_id);
                if let Some(by) =
                    by.filter(|by| !["terminal", "hook", "editor"].contains(&by.as_str()))
                {
                    self.remark(format!("answered by {}", crate::render::text::clean(&by)));
                }
                None
            }
            _ => None,
        };
        self.next_question();
        if let Some(words) = notification {
            alarms::notify(self, &words);
        }
    }

    /// A hook began or ended. What takes long is said.
    fn hook_notice(&mut self, notice: HookNotice) {
        match notice {
            HookNotice::Started {
                hook_id,
                hook_name,
                hook_event,
                display,
            } => self.session.hooks.push(RunningHook {
                id: hook_id,
                name: hook_name,
                display,
                event: hook_event,
                began: Instant::now(),
            }),
            HookNotice::Progress { .. } => {}
            HookNotice::Finished { hook_id, .. } => {
                let Some(index) = self
                    .session
                    .hooks
                    .iter()
                    .position(|hook| hook.id == hook_id)
                else {
                    return;
                };
                let hook = self.session.hooks.remove(index);
                let took = hook.began.elapsed();
                if took >= SLOW_HOOK {
                    let text = format!(
                        "⚙ hook {} ({}) took {}",
                        hook.name,
                        hook.event,
                        crate::render::text::duration(took)
                    );
                    let notice = Notice::new("hook", Priority::Low, text);
                    self.alarms.notices.add(notice);
                }
            }
        }
    }

    fn compacted(&mut self, before: u64, after: Option<u64>) {
        self.session.turn.compacting = false;
        let after = after.map_or_else(String::new, |tokens| {
            format!(" → {}", crate::render::text::tokens(tokens))
        });
        self.alarms.notices.add(Notice {
            invalidates: &["context"],
            ..Notice::new("compacted", Priority::Low, "the window is free again")
        });
        self.remark(format!(
            "── the conversation was summarised ({}{after} tokens) ──",
            crate::render::text::tokens(before)
        ));
    }

    /// The engine says when it has nothing left to do: a turn, a compaction, whether it worked or not.
    fn state_changed(&mut self, state: SessionState) {
        self.session.state = state;
        // A prompt that was sent and not accepted yet starts the next turn.
        if state == SessionState::Idle && self.queue.prompts.is_empty() {
            self.session.turn.began = None;
        }
    }

    /// Runs commands that waited, if nothing else runs.
    fn run_held_when_idle(&mut self) {
        if self.session.state != SessionState::Idle {
            return;
        }
        queue::run_held_commands(self);
    }

    fn prompt_accepted(&mut self, record: &MessageRecord) {
        if self.queue.own_context.remove(&record.uuid) {
            return;
        }
        let begins = !self.session.busy() || self.session.turn.unanswered.is_some();
        self.session.turn.begin();
        let typed = self.queue.accepted(record.uuid);
        if record.is_meta {
            return;
        }
        if begins {
            self.session.turn.unanswered.clone_from(&typed);
        }
        let text = typed.map(|typed| typed.text).or_else(|| {
            record
                .message
                .as_ref()
                .map(lathe_protocol::record::RecordMessage::text)
        });
        if let Some(text) = text {
            self.with_look(|conversation, look| conversation.push(Cell::User(text), look));
        }
    }

    /// Shows the next question, if none is shown.
    pub(crate) fn next_question(&mut self) {
        let typing = !self.prompt.editor.is_empty();
        let cwd = self.conversation.cwd();
        self.layers.show_next_question(typing, cwd);
    }

    /// Looks how much of the model's window is left. Not while drawing: it takes counting.
    pub(crate) fn measure_context(&mut self) {
        self.session.context_left = self.engine.handle.as_ref().and_then(|session| {
            let usage = session.context().usage();
            let used = usage.used();
            let notable = usage.window > 0 && used * 20 >= usage.window;
            notable.then(|| ContextLeft {
                percent: 100 - (used * 100 / usage.window).min(100),
                // Where the engine itself would warn: little is left before it compacts.
                is_little: used >= usage.thresholds.warn_at,
            })
        });
    }

    fn task_notice(&mut self, notice: TaskNotice) {
        match notice {
            TaskNotice::Started {
                task_id,
                description,
                task_type,
                is_backgrounded: true,
                extra,
                ..
            } => {
                let words = crate::render::text::one_line(&description);
                self.remark(format!("⇢ in the background: {words} ({task_id})"));
                if task_type == "local_bash" {
                    self.session.background_commands.insert(task_id.to_string());
                } else {
                    self.agent_started(task_id.as_str(), description, &extra);
                }
            }
            TaskNotice::Finished {
                task_id,
                status,
                summary,
                ..
            } => {
                let id = task_id.to_string();
                self.session.agents.retain(|agent| agent.id != id);
                self.session.background_commands.remove(&id);
                let mark = match status {
                    TaskStatus::Completed => "✓",
                    TaskStatus::Failed => "✗",
                    TaskStatus::Stopped => "■",
                };
                let words = crate::render::text::one_line(&summary);
                self.remark(format!("{mark} {words}"));
            }
            TaskNotice::Progress {
                task_id,
                description,
                usage,
                last_tool_name,
                ..
            } => {
                let id = task_id.to_string();
                self.session.agent_started(id.clone(), description);
                let cost = self.agent_task(&id).map_or(0.0, |task| task.cost_usd);
                if let Some(agent) = self.session.agent_mut(&id) {
                    agent.last_tool = last_tool_name.or(agent.last_tool.take());
                    agent.tokens = usage.total_tokens;
                    agent.calls = usage.tool_uses;
                    agent.cost = cost;
                }
            }
            TaskNotice::Started {
                task_id,
                description,
                task_type,
                extra,
                ..
            } if task_type != "local_bash" => {
                self.agent_started(task_id.as_str(), description, &extra);
            }
            TaskNotice::Started { .. } => {}
        }
    }

    /// An agent as the session knows it.
    fn agent_task(&self, id: &str) -> Option<AgentTask> {
        let agents = self.engine.handle.as_ref()?.tasks().agents();
        agents.into_iter().find(|agent| agent.id.as_str() == id)
    }

    /// An agent is at work, in the color of its definition.
    fn agent_started(&mut self, id: &str, description: String, facts: &lathe_protocol::Extra) {
        self.session.agent_started(id.to_owned(), description);
        let kind = facts.get("subagent_type").and_then(|kind| kind.as_str());
        let kind = kind.unwrap_or_default();
        let color = self.engine.handle.as_ref().and_then(|session| {
            let agents = session.extensions().agents();
            agents.get(kind).and_then(|agent| agent.color.clone())
        });
        let parent = self.agent_task(id).and_then(|task| task.parent);
        if let Some(agent) = self.session.agent_mut(id) {
            kind.clone_into(&mut agent.kind);
            agent.color = color;
            agent.parent = parent.map(|parent| parent.to_string());
        }
    }

    fn turn_finished(&mut self, result: &std::sync::Arc<TurnResult>) {
        let took = self
            .session
            .turn
            .began
            .take()
            .map_or(Duration::ZERO, |began| began.elapsed());
        self.session.turn.retry = None;
        self.session.turn.compacting = false;
        self.session.turn.interrupting = false;
        let aborted = matches!(
            result.terminal_reason,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools
        );
        if let Some(typed) = self.session.turn.unanswered.take().filter(|_| aborted)
            && self.prompt.editor.is_empty()
        {
            // Nothing was answered: the words can be changed and sent again.
            self.prompt.editor.restore(&typed.text, typed.attachments);
            self.prompt.text_changed();
        }
        self.alarms.wait_for_user(&self.places.environment);
        self.with_look(crate::app::conversation::Conversation::end_turn);
        let words = match result.terminal_reason {
            TerminalReason::Completed | TerminalReason::ApiError | TerminalReason::StopHookPrevented | TerminalReason::ToolDeferred => None,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => Some((NoticeLevel::Info, "Interrupted. What should I do instead?".to_owned())),
            TerminalReason::MaxTurns => Some((NoticeLevel::Warning, "This turn reached its limit of model calls; send 'continue' to resume.".to_owned())),
            TerminalReason::BudgetExhausted => Some((NoticeLevel::Warning, "This session's budget is spent.".to_owned())),
            TerminalReason::PromptTooLong | TerminalReason::BlockingLimit => Some((NoticeLevel::Error, "The conversation no longer fits the context window. /compact summarises it, /clear starts a new one.".to_owned())),
            _ if result.errors.is_empty() => None,
            _ => Some((NoticeLevel::Error, result.errors.join("\n"))),
        };
        if let Some((level, text)) = words {
            self.with_look(|conversation, look| conversation.notice(level, text, look));
        } else if took >= LONG_TURN {
            self.remark(turn_took(took, result.usage.output_tokens));
        }
        self.session.last_result = Some(result.clone());
        self.alarms.away.turn_ended();
        self.measure_context();
        if let Some(left) = self.session.context_left.filter(|left| left.is_little) {
            let text = format!(
                "{}% of the context window is left; /compact frees space.",
                left.percent
            );
            self.alarms
                .notices
                .add(Notice::new("context", Priority::High, text));
        }
        spending::check(self);
        if took >= LONG_TURN {
            alarms::notify(self, "Lathe is done");
        }
        self.jobs.branch(&self.places.environment.cwd);
        self.prompt.files.index = None;
        status_line::soon(self);
        if result.terminal_reason == TerminalReason::Completed {
            suggestion::ask(self);
        }
    }

    /// Nothing more comes: what is open is finished as it stands.
    pub(crate) fn end_conversation(&mut self) {
        self.with_look(crate::app::conversation::Conversation::end_turn);
    }
}
