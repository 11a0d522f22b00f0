//! Print mode: one prompt, one answer, and leave.

use crate::command;
use crate::exit::Exit;
use crate::output::Lines;
use crate::permission_tool;
use crate::sequence::Sequence;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lathe_engine::{EventStream, SessionHandle};
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::event::{
    Event, ModelUsage, NoticeLevel, TerminalReason, TurnResult, TurnTimes,
};
use lathe_protocol::frame::{FrameOptions, result_frame};
use lathe_protocol::ids::SessionId;
use lathe_protocol::op::{Op, Prompt};
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// How the answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text of the answer.
    Text,
    /// One JSON object.
    Json,
    /// One JSON line per event.
    StreamJson(FrameOptions),
}

/// The signal that this process received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signal {
    /// Nothing.
    #[default]
    None,
    /// SIGINT.
    Interrupt,
    /// SIGTERM or SIGHUP.
    Terminate,
}

/// How to print.
pub struct PrintOptions {
    /// Commands in the background stay when the session ends.
    pub keep_background: bool,
    /// The prompt.
    pub prompt: Prompt,
    /// The output format.
    pub format: Format,
    /// Whether every call is printed on standard error.
    pub verbose: bool,
    /// A file that the answer is written to.
    pub last_message: Option<PathBuf>,
    /// The MCP tool that answers permission questions; without one they are refused.
    pub permission_tool: Option<String>,
    /// Changes when a signal arrives.
    pub signals: watch::Receiver<Signal>,
}

/// Runs one turn and prints it, and the turns that background agents cause: the session is asked to end
/// after the first result and waits for them. The last result decides the exit code. The session is
/// finished when this returns.
pub async fn run(
    session: SessionHandle,
    mut events: EventStream,
    options: PrintOptions,
    output: impl Write,
    errors: impl Write,
) -> Exit {
    let mut printer = Printer {
        format: options.format,
        verbose: options.verbose,
        session_id: session.session_id(),
        lines: Lines::new(output),
        sequence: Sequence::default(),
        errors,
    };
    if !matches!(options.format, Format::StreamJson(frames) if frames.partial_messages) {
        events.only_wholes();
    }
    if let Some(tool) = &options.permission_tool
        && let Err(error) = permission_tool::find(&session.mcp(), tool).await
    {
        printer.complain(&error);
        if let Format::StreamJson(_) = options.format {
            printer.lines.json(&failed_start(&error.to_string()));
        }
        session.finish().await;
        return Exit::Usage;
    }
    let answered = command::in_print_mode(
        &session,
        &mut events,
        &options.prompt,
        options.format,
        &mut printer.lines,
        &mut printer.errors,
    );
    if let Some(exit) = answered.await {
        session.finish().await;
        return exit;
    }
    let file = options.last_message.clone();
    let (result, signal) = turn(&session, &mut events, options, &mut printer).await;
    let goal = session.goal().current();
    session.finish().await;
    let mut exit = printer.conclude(result.as_deref(), signal);
    if let Some(goal) = goal.filter(|_| exit == Exit::Success) {
        printer.complain(format!("the goal is not reached: {}", goal.condition));
        exit = Exit::Failure;
    }
    if let (Some(file), Some(result)) = (file, result)
        && let Err(error) = std::fs::write(&file, &result.text)
    {
        printer.complain(format!("{} can't be written: {error}", file.display()));
        return Exit::Failure;
    }
    exit
}

/// Sends the prompt and follows the session to its end. Gives the last result and the signal that came.
async fn turn(
    session: &SessionHandle,
    events: &mut EventStream,
    options: PrintOptions,
    printer: &mut Printer<impl Write, impl Write>,
) -> (Option<Arc<TurnResult>>, Signal) {
    let PrintOptions {
        prompt,
        permission_tool,
        mut signals,
        keep_background,
        ..
    } = options;
    let mcp = session.mcp();
    session.send(Op::Prompt(prompt));
    let mut result: Option<Arc<TurnResult>> = None;
    let mut signal = Signal::None;
    let mut asked = FuturesUnordered::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            Some((request_id, reply)) = asked.next() => {
                session.send(Op::PermissionReply { request_id, reply });
                continue;
            }
            changed = signals.changed(), if signal == Signal::None => {
                signal = if changed.is_ok() { *signals.borrow() } else { Signal::Terminate };
                interrupt(session);
                continue;
            }
        };
        let Some(event) = event else { break };
        match &event {
            Event::TurnFinished(finished) => {
                if keep_background && signal == Signal::None {
                    session.tasks().keep_all();
                }
                if result.is_none() {
                    session.send(Op::Shutdown);
                }
                result = Some(finished.clone());
            }
            Event::SessionEnded => break,
            Event::PermissionRequested(request) => {
                if let Some(tool) = &permission_tool {
                    let (mcp, tool, request) = (mcp.clone(), tool.clone(), request.clone());
                    asked.push(async move {
                        let reply = permission_tool::ask(&mcp, &tool, &request).await;
                        (request.request_id.clone(), reply)
                    });
                }
            }
            // The tool answers questions about permissions and no others.
            Event::ElicitationRequested(request) => {
                session.send(Op::ElicitationReply {
                    request_id: request.request_id.clone(),
                    reply: ElicitationReply::Decline,
                });
            }
            _ => {}
        }
        printer.show(&event);
        if printer.lines.is_closed() {
            interrupt(session);
        }
    }
    (result, signal)
}

fn interrupt(session: &SessionHandle) {
    session.tasks().kill_agents();
    session.send(Op::Interrupt { drop_queued: true });
}

/// Prints what happens in a turn.
struct Printer<W, E> {
    format: Format,
    verbose: bool,
    session_id: SessionId,
    lines: Lines<W>,
    sequence: Sequence,
    errors: E,
}

impl<W: Write, E: Write> Printer<W, E> {
    fn complain(&mut self, text: impl Display) {
        let _ = writeln!(self.errors, "lathe: {text}");
    }

    /// Prints an event: as frames on standard output, for the user on standard error.
    fn show(&mut self, event: &Event) {
        self.report(event);
        if let Format::StreamJson(options) = self.format {
            let lines = &mut self.lines;
            self.sequence
                .lines(event, self.session_id, options, 0, |line| {
                    lines.ready(&line);
                });
        }
    }

    fn report(&mut self, event: &Event) {
        let as_text = self.format == Format::Text;
        match event {
            Event::ElicitationRequested(request) => self.complain(format_args!(
                "The MCP server {} asked: {:?}. There is no user to answer, so it was declined; an Elicitation hook can answer such questions.",
                request.mcp_server_name, request.message
            )),
            Event::CompactionFailed { reason } => self.complain(format_args!(
                "The conversation was not compacted: {reason}"
            )),
            Event::Notice {
                level: NoticeLevel::Error | NoticeLevel::Warning,
                text,
                ..
            } => self.complain(text),
            Event::Retrying {
                attempt,
                max_retries,
                delay,
                error,
                ..
            } if self.verbose || as_text => self.complain(format_args!(
                "{error}; retrying in {:.1} s ({attempt}/{max_retries})",
                delay.as_secs_f64()
            )),
            Event::ModelFellBack { from, to, reason } => {
                self.complain(format_args!("switched from {from} to {to}: {reason}"));
            }
            Event::CallStarted { activity, .. } if self.verbose && as_text => {
                let _ = writeln!(self.errors, "· {activity}");
            }
            Event::PermissionDenied { denial, reason, .. } if self.verbose && as_text => {
                let _ = writeln!(self.errors, "· {} refused: {reason}", denial.tool_name);
            }
            _ => {}
        }
    }

    /// Prints the result, and says how the process exits.
    fn conclude(&mut self, result: Option<&TurnResult>, signal: Signal) -> Exit {
        let Some(result) = result else {
            self.complain("the session ended without a result");
            return Exit::Failure;
        };
        match self.format {
            Format::Text => print_text(result, &mut self.lines, &mut self.errors),
            Format::Json => self.lines.json(&self.sequence.result(result, 0)),
            Format::StreamJson(_) => {}
        }
        if let Some(error) = self.lines.failure() {
            let text = format!(
                "standard output can't be written: {error}; `lathe sessions show {}` shows the conversation",
                self.session_id
            );
            self.complain(text);
            return Exit::Failure;
        }
        match signal {
            Signal::Interrupt => Exit::Interrupted,
            Signal::Terminate => Exit::Terminated,
            Signal::None if result.is_error => Exit::Failure,
            Signal::None => Exit::Success,
        }
    }
}

/// Ends a session that was not asked anything; what it had to say is printed.
pub async fn end(session: SessionHandle, mut events: EventStream, mut errors: impl Write) {
    session.send(Op::Shutdown);
    while let Some(event) = events.next().await {
        match event {
            Event::SessionEnded => break,
            Event::Notice {
                level: NoticeLevel::Error | NoticeLevel::Warning,
                text,
                ..
            } => {
                let _ = writeln!(errors, "lathe: {text}");
            }
            _ => {}
        }
    }
    session.finish().await;
}

fn print_text(result: &TurnResult, lines: &mut Lines<impl Write>, errors: &mut impl Write) {
    let api_error = result.is_error && result.errors.is_empty();
    if api_error {
        let _ = writeln!(errors, "lathe: {}", result.text);
    } else if !result.text.is_empty() {
        let end = if result.text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        lines.text(&format!("{}{end}", result.text));
    }
    for error in &result.errors {
        let _ = writeln!(errors, "lathe: {error}");
    }
    for denial in &result.permission_denials {
        tracing::debug!(tool = denial.tool_name, "denied");
    }
}

/// The result of a session that could not be opened, for hosts that read frames.
#[must_use]
pub fn failed_start(message: &str) -> serde_json::Value {
    result_frame(&TurnResult {
        terminal_reason: TerminalReason::InternalError,
        is_error: true,
        errors: vec![message.to_owned()],
        ..local_result(SessionId::random(), "", indexmap::IndexMap::new())
    })
}

/// The result of something that was done without asking the model.
#[must_use]
pub fn local_result(
    session_id: SessionId,
    text: &str,
    model_usage: indexmap::IndexMap<String, ModelUsage>,
) -> TurnResult {
    TurnResult {
        session_id,
        terminal_reason: TerminalReason::Completed,
        is_error: false,
        text: text.to_owned(),
        errors: Vec::new(),
        stop_reason: None,
        num_turns: 0,
        duration: std::time::Duration::ZERO,
        duration_api: std::time::Duration::ZERO,
        usage: lathe_protocol::usage::Usage::default(),
        total_cost_usd: model_usage
            .values()
            .fold(0.0, |sum, usage| sum + usage.cost_usd),
        model_usage,
        permission_denials: Vec::new(),
        api_error_status: None,
        structured_output: None,
        deferred_tool_use: None,
        origin: None,
        times: TurnTimes::default(),
    }
}
