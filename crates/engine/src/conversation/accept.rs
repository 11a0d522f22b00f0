//! The one door for words, however they arrive: as the start of a turn, typed while one runs, or added
//! without one. Hooks, the classifier, the record and the title are the same for each.

use super::{Conversation, Role, RunningTurn};
use crate::agents::mention;
use crate::context::restoration;
use crate::context::room;
use crate::conversation::attachments;
use crate::conversation::records::reminder;
use crate::mcp::prompts;
use crate::mcp::resources;
use crate::session::schedule;
use crate::skills::using;
use crate::turn::decide::Done;
use lathe_hooks::HookOutcome;
use lathe_model::estimate;
use lathe_protocol::command::Invocation;
use lathe_protocol::content::Content;
use lathe_protocol::event::{Event, NoticeLevel, TerminalReason};
use lathe_protocol::op::Prompt;
use lathe_protocol::record::Fact;
use lathe_session::SessionError;
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;

/// How words arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// They start a turn.
    First,
    /// They were typed while a turn ran, and go with the next tool results.
    Steering,
    /// They are added to the conversation without a turn, as they are: no commands, no attachments.
    ContextOnly,
}

impl Conversation {
    /// Accepts words: hooks first, then the record, on disk before the model sees a byte of it, then
    /// attachments.
    ///
    /// # Errors
    /// When the turn ends with it: the record can't be written, a hook stops the turn, or the first words
    /// are refused.
    pub(crate) async fn accept(
        &mut self,
        prompt: Prompt,
        arrival: Arrival,
        turn: &RunningTurn,
    ) -> Result<(), Done> {
        let text = prompt.content.text();
        let command = prompt.command.clone();
        let is_persons = !prompt.is_meta && matches!(self.shared.role, Role::Main { .. });
        let expands = !prompt.is_meta && !prompt.verbatim && arrival != Arrival::ContextOnly;
        let mut verdict = HookOutcome::default();
        {
            let choices = self.shared.choices.read();
            let hooks = &self.shared.hooks;
            hooks.note_choices(&choices.model, choices.effort.as_deref());
            // A notification that arrives during a turn belongs to the prompt that is worked on.
            if is_persons || arrival == Arrival::First {
                hooks.note_prompt(prompt.uuid);
            }
        }
        if is_persons {
            verdict = self
                .shared
                .hooks
                .user_prompt_submit(&text, &turn.cancel)
                .await;
            self.shared.questions.note_message(&text);
        }
        let oversize = self.oversize(&prompt.content).await;
        let refused = verdict.block.is_some() || oversize.is_some();
        let fire = schedule::job_of(&prompt).cloned();
        self.keep_prompt(prompt, refused).await?;
        if let Some(job) = fire {
            self.note_fire(job, &text);
        }
        if arrival == Arrival::First {
            self.begin_turn(turn);
        }
        if is_persons {
            self.append_fact(Fact::LastPrompt {
                last_prompt: text.chars().take(500).collect(),
                session_id: self.shared.session.id,
            });
        }
        if arrival == Arrival::First {
            self.keep_choice();
            restoration::keep_system_prompt(self);
            self.shared.events.send(Event::TurnStarted(Arc::new(
                self.shared.session_init(&self.model),
            )));
        }
        if let Some(message) = oversize {
            if arrival == Arrival::First {
                return Err(ended(TerminalReason::PromptTooLong, message));
            }
            self.shared.events.notice(NoticeLevel::Warning, message);
            return Ok(());
        }
        if let Some(reason) = verdict.block.clone() {
            let hidden = verdict.hides_prompt();
            return self.refuse(arrival, &reason, (!hidden).then_some(text.as_str()));
        }
        if let Some(reason) = verdict.stop {
            let words = format!("A hook stopped the turn: {reason}");
            self.shared.events.notice(NoticeLevel::Notice, words);
            return Err(ended(TerminalReason::HookStopped, reason));
        }
        if expands && let Err(done) = self.expand(&text, command.as_deref(), turn).await {
            if arrival == Arrival::First {
                return Err(done);
            }
            // The turn that runs continues; these words stay as they are.
            if let Done::Ended { message, .. } = done {
                self.shared.events.notice(NoticeLevel::Warning, message);
            }
            return Ok(());
        }
        if !verdict.additional_context.is_empty() {
            let words = reminder(&verdict.additional_context.join("\n\n"));
            let record = self.records.meta(self.tip, words);
            self.append(record);
        }
        if let Some(title) = verdict.session_title {
            self.context.title_wanted = false;
            self.append_fact(Fact::AiTitle {
                ai_title: title,
                session_id: self.shared.session.id,
            });
        }
        Ok(())
    }

    /// Says why words can't be sent that are more than the model's window holds: nothing could be left out
    /// of them, so they are not sent at all.
    async fn oversize(&mut self, content: &Content) -> Option<String> {
        let window = room::windows(self).window;
        let mut tokens = estimate::content(content);
        if tokens <= window + window / 10 {
            return None;
        }
        // A guess may be wrong, but not by that much.
        let counted = room::count_alone(self, content).await;
        if let Some(counted) = counted.filter(|counted| *counted > tokens / 4) {
            if counted <= window {
                return None;
            }
            tokens = counted;
        }
        let bytes = content.text().len();
        Some(format!(
            "The prompt is too long: {bytes} bytes, about {tokens} tokens, and the window of the model {} is {window} tokens. The model was not asked. Give it in parts, or put it into a file and name the file in the prompt.",
            self.model
        ))
    }

    /// Writes the record of accepted words. Refused words are kept for the user, not for the model.
    async fn keep_prompt(&mut self, prompt: Prompt, refused: bool) -> Result<(), Done> {
        let noted = prompt.clone();
        let mut record = self.records.user(self.tip, prompt.content);
        // Words are never taken for those that came before under the same id.
        if !self.history.knows_record(prompt.uuid) {
            record.uuid = prompt.uuid;
        }
        record.is_meta = prompt.is_meta;
        record.permission_mode = Some(self.shared.permissions.mode().name().to_owned());
        record.extra.extend(prompt.extra);
        record.is_virtual = refused;
        match self.append_synced(record).await {
            Ok(record) => {
                self.shared.noted(&noted);
                self.shared.events.send(Event::PromptAccepted { record });
                Ok(())
            }
            Err(error) => Err(not_written("The prompt", &error)),
        }
    }

    /// Notes that a scheduled prompt has come, for the transcript and the user.
    fn note_fire(&mut self, job: Value, text: &str) {
        let first = text.lines().next().unwrap_or_default();
        let mut record = self.records.system(self.tip, schedule::FIRE, first);
        record.extra.insert("scheduledTask".to_owned(), job);
        self.append(record);
        let words = format!("Scheduled prompt: {first}");
        self.shared.events.notice(NoticeLevel::Info, words);
    }

    /// Notes the model and the effort, where they differ from those that the transcript has.
    fn keep_choice(&mut self) {
        if !matches!(self.shared.role, Role::Main { .. }) {
            return;
        }
        let choice = {
            let choices = self.shared.choices.read();
            (choices.model.clone(), choices.effort.clone())
        };
        if self.context.kept_choice.as_ref() == Some(&choice) {
            return;
        }
        self.append_fact(Fact::ModelChoice {
            model: choice.0.clone(),
            effort: choice.1.clone(),
            session_id: self.shared.session.id,
        });
        self.context.kept_choice = Some(choice);
    }

    fn begin_turn(&self, turn: &RunningTurn) {
        let is_agent = self.shared.role.place().is_some();
        if let Some(undo) = self.shared.toolbox.undo.as_ref().filter(|_| !is_agent) {
            undo.history.begin_turn(turn.prompt);
        }
    }

    /// A hook refused the words: a turn doesn't start with them; one that runs continues without them.
    /// `prompt` is told back, so that it is not lost.
    fn refuse(&self, arrival: Arrival, reason: &str, prompt: Option<&str>) -> Result<(), Done> {
        self.shared.events.notice(
            NoticeLevel::Warning,
            format!("A hook refused the prompt: {reason}"),
        );
        if arrival == Arrival::First {
            let mut message = format!("The prompt was refused by a hook: {reason}");
            if let Some(prompt) = prompt {
                let _ = write!(message, "\n\nOriginal prompt: {prompt}");
            }
            return Err(ended(TerminalReason::HookStopped, message));
        }
        Ok(())
    }

    /// Expands commands, and attaches what the words mention: files, agents, resources.
    async fn expand(
        &mut self,
        text: &str,
        command: Option<&Invocation>,
        turn: &RunningTurn,
    ) -> Result<(), Done> {
        let expanded = using::expand_command(self, command, turn)
            .await
            .map_err(|refused| ended(TerminalReason::HookStopped, refused.to_string()))?;
        let words = expanded.as_deref().unwrap_or(text);
        crate::editor::attach(self);
        attachments::attach_mentions(self, words);
        mention::attach_agents(self, words);
        resources::attach_resources(self, text, &turn.cancel).await;
        prompts::expand_mcp_prompt(self, command)
            .await
            .map_err(|error| ended(TerminalReason::InternalError, error.to_string()))
    }
}

fn ended(reason: TerminalReason, message: String) -> Done {
    Done::Ended { reason, message }
}

/// The end of a turn because something that a request carries is not on disk.
pub(crate) fn not_written(subject: &str, error: &SessionError) -> Done {
    let advice = error.hint().unwrap_or_else(|| {
        "make that folder writable, choose another with LATHE_CONFIG_DIR, or run without a transcript (--no-session-persistence)".to_owned()
    });
    let message = format!(
        "{subject} could not be written to the transcript, so it was not sent: {error}\nhint: {advice}"
    );
    ended(TerminalReason::InternalError, message)
}
