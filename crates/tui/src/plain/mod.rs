//! The plain line mode: prompts come in as lines, answers go out as text. No colours, no cursor
//! movement, nothing redrawn; for terminals that can't, for pipes, and for screen readers.

use crate::Ended;
use crate::cell::{self, Call, CallState};
use crate::text::clean;
use lathe_engine::{OpenError, SessionHandle, SessionOptions};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::Display;
use lathe_protocol::event::{Event, TerminalReason};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_protocol::record::{RecordKind, RecordMessage};
use lathe_settings::Environment;
use std::collections::{HashMap, VecDeque};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncBufReadExt as _;
use tokio::signal::unix::{SignalKind, signal};

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

fn ask(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{text}");
    let _ = out.flush();
}

/// Runs the plain mode until the input ends.
pub(crate) async fn run(
    environment: Environment,
    options: SessionOptions,
    prompt: Option<String>,
) -> Ended {
    let cwd = environment.cwd.clone();
    let interactive = std::io::stdin().is_terminal();
    let opened = match Box::pin(lathe_engine::open(environment, options)).await {
        Ok(opened) => opened,
        Err(error) => {
            let text = error.to_string();
            return match error {
                OpenError::NoCredentials => Ended::NoCredentials(text),
                OpenError::Usage(_) | OpenError::Mode(_) => Ended::Usage(text),
                OpenError::Session(_) | OpenError::Model(_) => Ended::Failed(text),
            };
        }
    };
    for remark in &opened.remarks {
        say(&format!("note: {remark}"));
    }
    let (Ok(mut interrupted), Ok(mut terminated), Ok(mut hung_up)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return Ended::Failed("signals can't be listened for".to_owned());
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
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    if let Some(prompt) = prompt {
        plain.prompt(&prompt);
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
                Ok(Some(line)) => plain.line(&line),
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
                    say("(interrupt again to leave)");
                }
            }
            _ = terminated.recv() => break Ended::Terminated,
            _ = hung_up.recv() => break Ended::Terminated,
        }
    };
    let id = plain.session.session_id();
    plain.session.send(Op::Interrupt { drop_queued: true });
    plain.session.finish().await;
    if interactive {
        say(&format!("Go on with: lathe --resume {id}"));
    }
    ended
}

struct Plain {
    session: SessionHandle,
    cwd: std::path::PathBuf,
    interactive: bool,
    busy: bool,
    ended: bool,
    questions: VecDeque<Arc<PermissionRequest>>,
    inputs: HashMap<String, serde_json::Value>,
    interrupts: u32,
}

impl Plain {
    fn ready(&self) {
        if self.interactive {
            ask("> ");
        }
    }

    fn prompt(&mut self, text: &str) {
        self.busy = true;
        self.interrupts = 0;
        self.session.send(Op::Prompt(Prompt::new(text.to_owned())));
    }

    fn line(&mut self, line: &str) {
        if let Some(request) = self.questions.pop_front() {
            self.answer(&request, line);
            return;
        }
        match line.trim() {
            "" => self.ready(),
            "/exit" | "/quit" => self.ended = true,
            "/help" => {
                say(
                    "Type a prompt and press enter. /compact summarises the conversation, /exit leaves.",
                );
                self.ready();
            }
            text if text == "/compact" || text.starts_with("/compact ") => {
                let instructions = text.strip_prefix("/compact ").map(str::to_owned);
                self.session.send(Op::Compact { instructions });
            }
            text if text.starts_with('/')
                && crate::commands::parse(&text[1..])
                    .is_some_and(|(name, _)| crate::commands::is_known(name)) =>
            {
                say("This command needs a terminal that can be drawn on.");
                self.ready();
            }
            text => self.prompt(text),
        }
    }

    fn answer(&mut self, request: &PermissionRequest, line: &str) {
        let reply = match line.trim() {
            "y" | "yes" => PermissionReply::allow(),
            "a" | "always" => {
                let mut reply = PermissionReply::allow();
                if let PermissionReply::Allow {
                    updated_permissions,
                    ..
                } = &mut reply
                {
                    updated_permissions.clone_from(&request.permission_suggestions);
                }
                reply
            }
            "" | "n" | "no" => PermissionReply::deny(
                "The user doesn't want this. Stop and wait for what they say next.",
            ),
            words => PermissionReply::deny(format!("The user refused this and said: {words}")),
        };
        self.session.send(Op::PermissionReply {
            request_id: request.request_id.clone(),
            reply,
        });
        if let Some(next) = self.questions.front() {
            question(next, &self.cwd);
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Record {
                record,
                parent_tool_use_id: None,
            } if record.kind == RecordKind::Assistant => {
                if let Some(RecordMessage::Assistant(message)) = &record.message {
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
            }
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
            } => {
                let call = Call {
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
                };
                if !matches!(call.display, Display::None | Display::File { .. }) {
                    let theme = crate::theme::Theme::built_in("ansi", false);
                    let look = crate::markdown::Look {
                        theme: &theme,
                        columns: 100,
                    };
                    for line in
                        cell::lines(&cell::Cell::Call(call), look, cell::Fold::Folded, &self.cwd)
                            .iter()
                            .skip(1)
                    {
                        say(line.text().trim_end());
                    }
                }
            }
            Event::PermissionRequested(request) => {
                self.questions.push_back(request.clone());
                if self.ended {
                    self.session.withdraw_questions();
                } else if self.questions.len() == 1 {
                    question(request, &self.cwd);
                }
            }
            Event::PermissionResolved { request_id, .. } => self
                .questions
                .retain(|request| request.request_id != *request_id),
            Event::PermissionDenied { denial, reason, .. } => {
                say(&format!("refused: {}: {reason}", denial.tool_name));
            }
            Event::Notice { text, .. } => say(&format!("note: {}", clean(text))),
            Event::Retrying { error, delay, .. } => say(&format!(
                "note: {error}; asking again in {:.0} s",
                delay.as_secs_f64()
            )),
            Event::ModelFellBack { from, to, reason } => {
                say(&format!("note: {to} takes over from {from}: {reason}"));
            }
            Event::Compacted { .. } => {
                say("note: the conversation was summarised");
                self.ready();
            }
            Event::TurnFinished(result) => {
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
            _ => {}
        }
    }
}

fn question(request: &PermissionRequest, cwd: &Path) {
    say(&format!(
        "\nAllow {}: {}",
        request.tool_name,
        crate::text::reveal(&cell::subject(&request.tool_name, &request.input, cwd))
    ));
    if let Some(reason) = &request.decision_reason {
        say(&format!("  why it asks: {}", clean(reason)));
    }
    ask("  y yes, a always, n no, or say why not: ");
}
