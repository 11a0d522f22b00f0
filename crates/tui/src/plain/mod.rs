//! The plain line mode: prompts come in as lines, answers go out as text. No colours, no cursor
//! movement, nothing redrawn; for terminals that can't, for pipes, and for screen readers.

mod asking;

use crate::Ended;
use crate::app::conversation::Picture;
use crate::render::cell::{self, Call, CallState};
use crate::render::text::clean;
use asking::Asking;
use lathe_commands::CommandOutcome;
use lathe_engine::{
    Answerer, EndReason, EventStream, OpenError, Restart, SessionHandle, SessionOptions,
};
use lathe_extensions::CommandAction;
use lathe_protocol::command::{BuiltinCommand, Invocation};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::Display;
use lathe_protocol::event::{Event, TerminalReason, TurnResult};
use lathe_protocol::ids::RequestId;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::record::{MessageRecord, RecordKind, RecordMessage};
use lathe_settings::Environment;
use std::collections::{HashMap, VecDeque};
use std::io::{IsTerminal as _, Write as _};
use tokio::io::AsyncBufReadExt as _;
use tokio::signal::unix::{SignalKind, signal};

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", clean(text));
    let _ = out.flush();
}

fn ask(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{}", clean(text));
    let _ = out.flush();
}

/// Names the pictures of results.
fn name_pictures(record: &MessageRecord) {
    let blocks = record.message.iter().flat_map(RecordMessage::blocks);
    let blocks: Vec<_> = blocks.collect();
    for result in blocks.iter().filter_map(|block| block.as_tool_result()) {
        for picture in Picture::of_result(result, "", false) {
            say(&format!("  {}", picture.caption(None)));
        }
    }
}

/// Runs the plain mode until the input ends.
pub(crate) async fn run(
    environment: Environment,
    mut options: SessionOptions,
    prompt: Option<String>,
) -> Ended {
    let cwd = environment.cwd.clone();
    let interactive = std::io::stdin().is_terminal();
    // What comes by a pipe was written before anything was asked: it never answers a question.
    if !interactive {
        options.permissions.answerer = Answerer::Nobody;
    }
    let again = (environment.clone(), options.clone());
    let opened = match Box::pin(lathe_engine::open(environment, options)).await {
        Ok(opened) => opened,
        Err(error) => {
            let text = error.to_string();
            return match error {
                OpenError::NoCredentials => Ended::NoCredentials(text),
                OpenError::Usage(_) | OpenError::Mode(_) | OpenError::NoSandbox { .. } => {
                    Ended::Usage(text)
                }
                OpenError::Session(_) | OpenError::Model(_) => Ended::Failed(text),
            };
        }
    };
    for remark in &opened.remarks {
        say(&format!("{}: {remark}", remark.severity.name()));
    }
    let (Ok(mut interrupted), Ok(mut terminated), Ok(mut hung_up)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return Ended::Failed("can't install signal handlers".to_owned());
    };
    let mut plain = Plain {
        session: opened.session,
        cwd,
        interactive,
        busy: false,
        ended: false,
        questions: VecDeque::new(),
        inputs: HashMap::new(),
        interrupts: 0,
    };
    let mut events = opened.events;
    events.for_people();
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    if let Some(prompt) = prompt {
        plain.prompt(Prompt::new(prompt));
    } else {
        plain.ready();
    }
    let ended = loop {
        if plain.ended && !plain.busy {
            break Ended::Left;
        }
        tokio::select! {
            event = events.next() => match event {
                Some(event) => plain.event(&event),
                None => break Ended::Left,
            },
            line = lines.next_line(), if !plain.ended && (interactive || !plain.busy || !plain.questions.is_empty()) => match line {
                Ok(Some(line)) => {
                    if plain.line(&line).await == Next::Anew
                        && let Some(fresh) = plain.reopen(&again).await
                    {
                        events = fresh;
                    }
                }
                Ok(None) | Err(_) => {
                    plain.ended = true;
                    plain.session.withdraw_questions();
                }
            },
            _ = interrupted.recv() => {
                plain.interrupts += 1;
                if plain.busy {
                    plain.session.send(Op::Interrupt { drop_queued: true });
                } else if plain.interrupts > 1 {
                    break Ended::Left;
                } else {
                    say("(interrupt again to exit)");
                }
            }
            _ = terminated.recv() => break Ended::Terminated,
            _ = hung_up.recv() => break Ended::Terminated,
        }
    };
    let id = plain.session.session_id();
    if matches!(ended, Ended::Left) {
        plain.session.ends_by(EndReason::PromptInputExit);
    }
    plain.session.send(Op::Interrupt { drop_queued: true });
    plain.session.finish().await;
    if interactive {
        say(&format!("Resume with: lathe --resume {id}"));
    }
    ended
}

/// The arguments for opening another session.
type OpenArguments = (Environment, SessionOptions);

/// The next step after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    /// A new conversation.
    Anew,
}

struct Plain {
    session: SessionHandle,
    cwd: std::path::PathBuf,
    interactive: bool,
    busy: bool,
    ended: bool,
    questions: VecDeque<Asking>,
    inputs: HashMap<String, serde_json::Value>,
    interrupts: u32,
}

impl Plain {
    fn ready(&self) {
        if self.interactive {
            ask("> ");
        }
    }

    fn prompt(&mut self, prompt: Prompt) {
        self.busy = true;
        self.interrupts = 0;
        self.session.send(Op::Prompt(prompt));
    }

    async fn line(&mut self, line: &str) -> Next {
        if let Some(asking) = self.questions.front_mut() {
            match asking.answer(line) {
                Some(op) => {
                    self.questions.pop_front();
                    self.session.send(op);
                    if let Some(next) = self.questions.front() {
                        next.ask(&self.cwd);
                    }
                }
                None => asking.ask(&self.cwd),
            }
            return Next::Continue;
        }
        if line.trim().is_empty() {
            self.ready();
            return Next::Continue;
        }
        let prompt = Prompt::new(line.trim().to_owned());
        match prompt.command.clone() {
            Some(command) if self.is_exit(&command) => self.ended = true,
            Some(command) => return self.command(prompt, &command).await,
            None => self.prompt(prompt),
        }
        Next::Continue
    }

    fn is_exit(&self, command: &Invocation) -> bool {
        let registry = self.session.extensions().commands();
        let command = registry.find(&command.name);
        command.is_some_and(|it| it.action == CommandAction::Builtin(BuiltinCommand::Exit))
    }

    /// A command: answered by the engine, as for every face without views.
    async fn command(&mut self, prompt: Prompt, command: &Invocation) -> Next {
        match lathe_commands::run(&self.session, command).await {
            CommandOutcome::Prompt => {
                self.prompt(prompt);
                return Next::Continue;
            }
            CommandOutcome::Answer(answer) => say(&clean(&answer)),
            CommandOutcome::Refused(why) => say(&clean(&why)),
            CommandOutcome::Clear => return Next::Anew,
            CommandOutcome::Compact(instructions) => {
                self.session.send(Op::Compact { instructions });
                return Next::Continue;
            }
        }
        self.ready();
        Next::Continue
    }

    /// Begins a new conversation in place of this one.
    async fn reopen(&mut self, (environment, options): &OpenArguments) -> Option<EventStream> {
        let options = self.session.restart(&Restart::Clear, options);
        let events = match Box::pin(lathe_engine::open(environment.clone(), options)).await {
            Ok(opened) => {
                let old = std::mem::replace(&mut self.session, opened.session);
                old.send(Op::Interrupt { drop_queued: true });
                old.finish().await;
                say("── a new conversation ──");
                opened.events.for_people();
                Some(opened.events)
            }
            Err(error) => {
                say(&format!("error: {error}"));
                None
            }
        };
        self.ready();
        events
    }

    /// A question came up.
    fn ask_user(&mut self, asking: Asking) {
        self.questions.push_back(asking);
        if self.ended {
            self.session.withdraw_questions();
        } else if self.questions.len() == 1
            && let Some(asking) = self.questions.front()
        {
            asking.ask(&self.cwd);
        }
    }

    /// A question was answered, here or elsewhere.
    fn answered(&mut self, request_id: &RequestId) {
        let first = self.questions.front().map(|asking| asking.id().clone());
        self.questions.retain(|asking| asking.id() != request_id);
        if first.as_ref() == Some(request_id)
            && let Some(next) = self.questions.front()
        {
            next.ask(&self.cwd);
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Record {
                record,
                parent_tool_use_id: None,
            } if record.kind == RecordKind::Assistant => self.answer(record),
            Event::Record {
                record,
                parent_tool_use_id: None,
            } => name_pictures(record),
            Event::CallStarted {
                tool_use_id,
                tool_name,
                ..
            } => {
                let input = self
                    .inputs
                    .get(&tool_use_id.to_string())
                    .cloned()
                    .unwrap_or_default();
                say(&format!(
                    "[{tool_name}] {}",
                    cell::subject(tool_name, &input, &self.cwd)
                ));
            }
            Event::CallFinished {
                tool_use_id,
                tool_name,
                display,
                is_error,
                elapsed,
            } => self.call_finished(Call {
                id: tool_use_id.clone(),
                tool: tool_name.clone(),
                input: serde_json::Value::Null,
                activity: String::new(),
                state: if *is_error {
                    CallState::Failed
                } else {
                    CallState::Done
                },
                display: display.clone(),
                elapsed: *elapsed,
            }),
            Event::PermissionRequested(request) => {
                self.ask_user(Asking::of_call(request.clone()));
            }
            Event::ElicitationRequested(request) => {
                self.ask_user(Asking::of_server(request.clone()));
            }
            Event::PermissionResolved { request_id, .. }
            | Event::ElicitationResolved { request_id, .. } => self.answered(request_id),
            Event::PermissionDenied { denial, reason, .. } => {
                say(&format!("refused: {}: {reason}", denial.tool_name));
            }
            Event::CompactionFailed { reason } => say(&format!(
                "note: The conversation was not compacted: {}",
                clean(reason)
            )),
            Event::Notice { text, .. } => say(&format!("note: {}", clean(text))),
            Event::Refused(refusal) => say(&format!("note: {}", clean(&refusal.text()))),
            Event::Retrying { error, delay, .. } => say(&format!(
                "note: {error}; retrying in {:.0} s",
                delay.as_secs_f64()
            )),
            Event::ModelFellBack { from, to, reason } => {
                say(&format!("note: switched from {from} to {to}: {reason}"));
            }
            Event::Compacted { .. } => {
                say("note: the conversation was summarised");
                self.ready();
            }
            Event::TurnFinished(result) => self.turn_finished(result),
            _ => {}
        }
    }

    /// Prints the text of an answer, and keeps the inputs of its calls.
    fn answer(&mut self, record: &MessageRecord) {
        let Some(RecordMessage::Assistant(message)) = &record.message else {
            return;
        };
        for block in &message.content {
            match block {
                ContentBlock::Text(text) if !text.text.trim().is_empty() => {
                    say(&format!("\n{}\n", clean(text.text.trim())));
                }
                ContentBlock::ToolUse(call) => {
                    self.inputs.insert(call.id.to_string(), call.input.clone());
                }
                _ => {}
            }
        }
    }

    /// Prints the output of a call, without its first line: that was printed at its start.
    fn call_finished(&self, call: Call) {
        if matches!(call.display, Display::None | Display::File { .. }) {
            return;
        }
        let theme = crate::render::theme::Theme::built_in("ansi", false);
        let look = crate::render::markdown::Look {
            theme: &theme,
            columns: 100,
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let cell = cell::Cell::Call(call);
        for line in cell::lines(&cell, look, cell::Fold::Folded, &self.cwd)
            .iter()
            .skip(1)
        {
            say(line.text().trim_end());
        }
    }

    fn turn_finished(&mut self, result: &TurnResult) {
        self.busy = false;
        match result.terminal_reason {
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => {
                say("(interrupted)");
            }
            _ => {
                for error in &result.errors {
                    say(&format!("error: {}", clean(error)));
                }
            }
        }
        if !self.ended {
            self.ready();
        }
    }
}
