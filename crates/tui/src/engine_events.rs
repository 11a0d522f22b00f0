//! What the engine says, and what that changes.

use crate::app::{Agent, App, ContextLeft, Retry};
use crate::cell::Cell;
use crate::dialog::Waiting;
use lathe_protocol::event::{
    Event, NoticeLevel, TaskNotice, TaskStatus, TerminalReason, TurnResult,
};
use lathe_protocol::record::MessageRecord;
use std::time::{Duration, Instant};

/// A turn that took this long is worth a notification.
const LONG_TURN: Duration = Duration::from_secs(10);

impl App {
    pub(crate) fn engine_event(&mut self, event: Event) {
        match event {
            Event::StateChanged(state) => self.state = state,
            Event::TurnStarted(init) => {
                self.model.clone_from(&init.model);
                self.mode = init.permission_mode;
                self.turn_began.get_or_insert_with(Instant::now);
                self.suggestion.drop_it();
                self.tip += 1;
            }
            Event::PromptAccepted { record } => self.prompt_accepted(&record),
            Event::Requesting => {
                self.turn_began.get_or_insert_with(Instant::now);
            }
            Event::Stream {
                event,
                parent_tool_use_id: None,
            } => {
                self.retry = None;
                self.with_look(|conversation, look| conversation.stream(&event.event, look));
            }
            Event::Record {
                record,
                parent_tool_use_id: None,
            } => {
                self.with_look(|conversation, look| conversation.record(&record, look));
            }
            // What sub-agents say is theirs; their progress comes with their task.
            Event::Stream { .. } | Event::Record { .. } => {}
            Event::Retracted { reason, .. } => {
                self.with_look(|conversation, look| conversation.retract(&reason, look));
            }
            Event::CallStarted {
                tool_use_id,
                tool_name,
                activity,
            } => {
                self.with_look(|conversation, look| {
                    conversation.call_started(&tool_use_id, &tool_name, &activity, look);
                });
            }
            Event::CallProgress {
                tool_use_id,
                display,
                elapsed,
                ..
            } => {
                self.conversation
                    .call_progress(&tool_use_id, display, elapsed);
            }
            Event::CallFinished {
                tool_use_id,
                tool_name,
                display,
                is_error,
                elapsed,
            } => {
                self.with_look(|conversation, look| {
                    conversation.call_finished(
                        &tool_use_id,
                        &tool_name,
                        display,
                        is_error,
                        elapsed,
                        look,
                    );
                });
            }
            Event::PermissionRequested(request) => {
                let title = request
                    .title
                    .clone()
                    .unwrap_or_else(|| request.tool_name.clone());
                self.questions.push_back(Waiting::Permission(request));
                self.next_question();
                self.notify(&format!("Lathe asks: {title}"));
            }
            Event::ElicitationRequested(request) => {
                let server = request.mcp_server_name.clone();
                self.questions.push_back(Waiting::Elicitation(request));
                self.next_question();
                self.notify(&format!("{server} asks something"));
            }
            Event::PermissionResolved { request_id, .. }
            | Event::ElicitationResolved { request_id, .. } => {
                self.questions.retain(|waiting| *waiting.id() != request_id);
                if self
                    .dialog
                    .as_ref()
                    .is_some_and(|dialog| dialog.request_id() == Some(&request_id))
                {
                    self.dialog = None;
                }
                self.next_question();
            }
            Event::PermissionDenied { denial, reason, .. } => {
                self.with_look(|conversation, look| {
                    conversation.refused(
                        &denial.tool_use_id,
                        &denial.tool_name,
                        &denial.tool_input,
                        &reason,
                        look,
                    );
                });
            }
            Event::ModeChanged(mode) => self.mode = mode,
            Event::Retrying {
                attempt,
                max_retries,
                delay,
                error,
                ..
            } => {
                self.retry = Some(Retry {
                    until: Instant::now() + delay,
                    attempt,
                    max: max_retries,
                    error,
                });
            }
            Event::ModelFellBack { from, to, reason } => {
                self.model.clone_from(&to);
                self.warn(format!("{to} takes over from {from}: {reason}"));
            }
            Event::Compacting => {
                self.compacting = true;
                self.turn_began.get_or_insert_with(Instant::now);
            }
            Event::Compacted {
                pre_tokens,
                post_tokens,
                ..
            } => {
                self.compacting = false;
                let after = post_tokens.map_or_else(String::new, |tokens| {
                    format!(" → {}", crate::text::tokens(tokens))
                });
                self.remark(format!(
                    "── the conversation was summarised ({}{after} tokens) ──",
                    crate::text::tokens(pre_tokens)
                ));
                if self.state == lathe_protocol::event::SessionState::Idle {
                    self.turn_began = None;
                }
            }
            Event::Hook(_) => {}
            Event::Task(notice) => self.task_notice(notice),
            Event::Notice { level, text } => {
                self.compacting = false;
                if !self.saved_here(&text) {
                    self.with_look(|conversation, look| conversation.notice(level, text, look));
                }
                self.settings_touched();
            }
            Event::TurnFinished(result) => self.turn_finished(&result),
            Event::SessionEnded => {}
        }
        if self.state == lathe_protocol::event::SessionState::Idle
            && self.turn_began.is_some()
            && !self.compacting
            && self.last_state_idle()
        {
            self.turn_began = None;
        }
        if self.state == lathe_protocol::event::SessionState::Idle {
            self.run_waiting_commands();
        }
    }

    /// Whether the engine has nothing to do, though a turn seemed to run (a compaction that failed).
    fn last_state_idle(&self) -> bool {
        self.conversation.activity().is_none() && self.queued.is_empty()
    }

    fn prompt_accepted(&mut self, record: &MessageRecord) {
        self.turn_began.get_or_insert_with(Instant::now);
        if self.own_context.remove(&record.uuid) {
            self.turn_began = self
                .turn_began
                .filter(|_| self.state != lathe_protocol::event::SessionState::Idle);
            return;
        }
        let shown = self
            .queued
            .iter()
            .position(|queued| queued.uuid == record.uuid)
            .map(|index| self.queued.remove(index).text);
        if record.is_meta {
            return;
        }
        let text = shown.or_else(|| {
            record
                .message
                .as_ref()
                .map(lathe_protocol::record::RecordMessage::text)
        });
        if let Some(text) = text {
            self.with_look(|conversation, look| conversation.push(Cell::User(text), look));
        }
    }

    /// Shows the next question, if none is shown; after the last one, what it had pushed aside.
    pub(crate) fn next_question(&mut self) {
        if self
            .dialog
            .as_ref()
            .is_some_and(|dialog| dialog.request_id().is_some())
        {
            return;
        }
        let Some(waiting) = self.questions.pop_front() else {
            if self.dialog.is_none() {
                self.dialog = self.dialog_below.take();
            }
            return;
        };
        // A question goes before whatever the person was looking at.
        let mut dialog = waiting.dialog(self.conversation.cwd());
        dialog.arm(self.editor.is_empty() && self.dialog.is_none());
        if let Some(below) = self.dialog.replace(dialog) {
            self.dialog_below = Some(below);
        }
    }

    /// Looks how much of the model's window is left. Not while drawing: it takes counting.
    pub(crate) fn measure_context(&mut self) {
        self.context_left = self.session.as_ref().and_then(|session| {
            let usage = session.context().usage();
            let used = usage.used();
            let notable = usage.window > 0 && used * 20 >= usage.window;
            notable.then(|| ContextLeft {
                percent: 100 - (used * 100 / usage.window).min(100),
                // Where the engine itself would warn: little is left before it compacts.
                is_little: used >= usage.warn_at,
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
                ..
            } => {
                self.remark(format!("⇢ in the background: {description} ({task_id})"));
                if task_type == "local_bash" {
                    self.commands_behind.insert(task_id.to_string());
                } else {
                    self.agent_began(task_id.to_string(), description);
                }
            }
            TaskNotice::Finished {
                task_id,
                status,
                summary,
                ..
            } => {
                let id = task_id.to_string();
                self.agents.retain(|agent| agent.id != id);
                self.commands_behind.remove(&id);
                let mark = match status {
                    TaskStatus::Completed => "✓",
                    TaskStatus::Failed => "✗",
                    TaskStatus::Stopped => "■",
                };
                self.remark(format!("{mark} {summary}"));
            }
            TaskNotice::Progress {
                task_id,
                description,
                usage,
                last_tool_name,
                ..
            } => {
                let id = task_id.to_string();
                self.agent_began(id.clone(), description);
                if let Some(agent) = self.agents.iter_mut().find(|agent| agent.id == id) {
                    agent.last_tool = last_tool_name.or(agent.last_tool.take());
                    agent.tokens = usage.total_tokens;
                    agent.calls = usage.tool_uses;
                }
            }
            TaskNotice::Started {
                task_id,
                description,
                task_type,
                ..
            } if task_type != "local_bash" => {
                self.agent_began(task_id.to_string(), description);
            }
            TaskNotice::Started { .. } => {}
        }
    }

    /// An agent is at work; in the tree it keeps its place.
    fn agent_began(&mut self, id: String, description: String) {
        if !self.agents.iter().any(|agent| agent.id == id) {
            self.agents.push(Agent {
                id,
                description,
                last_tool: None,
                tokens: 0,
                calls: 0,
            });
        }
    }

    fn turn_finished(&mut self, result: &std::sync::Arc<TurnResult>) {
        let took = self
            .turn_began
            .take()
            .map_or(Duration::ZERO, |began| began.elapsed());
        self.retry = None;
        self.compacting = false;
        self.interrupting = false;
        self.with_look(super::conversation::Conversation::end_turn);
        let words = match result.terminal_reason {
            TerminalReason::Completed | TerminalReason::ApiError | TerminalReason::StopHookPrevented | TerminalReason::ToolDeferred => None,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => Some((NoticeLevel::Info, "Interrupted. Say how to go on.".to_owned())),
            TerminalReason::MaxTurns => Some((NoticeLevel::Warning, "The limit of model calls for one turn is reached; say 'go on' to continue.".to_owned())),
            TerminalReason::BudgetExhausted => Some((NoticeLevel::Warning, "The budget of this session is spent.".to_owned())),
            TerminalReason::PromptTooLong | TerminalReason::BlockingLimit => Some((NoticeLevel::Error, "The conversation no longer fits the model's window. /compact summarises it, /clear starts anew.".to_owned())),
            _ if result.errors.is_empty() => None,
            _ => Some((NoticeLevel::Error, result.errors.join("\n"))),
        };
        if let Some((level, text)) = words {
            self.with_look(|conversation, look| conversation.notice(level, text, look));
        } else if took >= LONG_TURN {
            self.remark(format!(
                "✻ {} · {} tokens",
                crate::text::duration(took),
                crate::text::tokens(result.usage.output_tokens)
            ));
        }
        self.last_result = Some(result.clone());
        self.away.turn_ended();
        self.measure_context();
        if let Some(left) = self.context_left.filter(|left| left.is_little) {
            self.warn(format!(
                "{}% of the model's window is left; /compact makes room.",
                left.percent
            ));
        }
        self.look_at_spending();
        if took >= LONG_TURN {
            self.notify("Lathe is done");
        }
        self.jobs.branch(&self.places.environment.cwd);
        self.files = None;
        self.status_line_soon();
        if result.terminal_reason == TerminalReason::Completed {
            self.ask_suggestion();
        }
    }
}

impl App {
    /// Nothing more comes: what is open is finished as it stands.
    pub(crate) fn conversation_done(&mut self) {
        self.with_look(super::conversation::Conversation::end_turn);
    }
}
