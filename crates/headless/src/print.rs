//! Print mode: one prompt, one answer, and leave.

use crate::command;
use crate::exit::Exit;
use crate::output::{Lines, lines_of};
use crate::permission_tool;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lathe_engine::{EventStream, SessionHandle};
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::event::{Event, ModelUsage, NoticeLevel, TerminalReason, TurnResult};
use lathe_protocol::frame::{FrameOptions, result_frame};
use lathe_protocol::ids::SessionId;
use lathe_protocol::op::{Op, Prompt};
use std::io::Write;
use std::sync::Arc;
use tokio::sync::watch;

/// How the answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The answer's words.
    Text,
    /// One object.
    Json,
    /// A line for everything that happens.
    StreamJson(FrameOptions),
}

/// What was asked of this process from outside.
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
    /// The prompt.
    pub prompt: Prompt,
    /// The form.
    pub format: Format,
    /// Every call on standard error.
    pub verbose: bool,
    /// The MCP tool that answers permission questions; without one nobody does.
    pub permission_tool: Option<String>,
    /// Told when a signal comes.
    pub signals: watch::Receiver<Signal>,
}

/// Runs one turn and prints it, with the turns that background agents owe: the session is asked to end
/// after the first result and waits for them. The last result counts. The session is finished when this
/// returns.
pub async fn run(
    session: SessionHandle,
    mut events: EventStream,
    options: PrintOptions,
    output: impl Write,
    mut errors: impl Write,
) -> Exit {
    let PrintOptions {
        prompt,
        format,
        verbose,
        permission_tool,
        mut signals,
    } = options;
    let mut lines = Lines::new(output);
    if !matches!(format, Format::StreamJson(options) if options.partial_messages) {
        events.only_wholes();
    }
    let session_id = session.session_id();
    let mcp = session.mcp();
    if let Some(tool) = &permission_tool
        && let Err(error) = permission_tool::find(&mcp, tool).await
    {
        let _ = writeln!(errors, "lathe: {error}");
        if let Format::StreamJson(_) = format {
            lines.json(&failed_start(&error));
        }
        session.finish().await;
        return Exit::Usage;
    }
    let answered = command::in_print_mode(
        &session,
        &mut events,
        &prompt,
        format,
        &mut lines,
        &mut errors,
    );
    if let Some(exit) = answered.await {
        session.finish().await;
        return exit;
    }
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
                session.tasks().kill_agents();
                session.send(Op::Interrupt { drop_queued: true });
                continue;
            }
        };
        let Some(event) = event else { break };
        match &event {
            Event::TurnFinished(finished) => {
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
                let _ = writeln!(
                    errors,
                    "lathe: The MCP server {} asked: {:?}. Nobody is here to answer, so it was declined; an Elicitation hook can answer such questions.",
                    request.mcp_server_name, request.message
                );
                session.send(Op::ElicitationReply {
                    request_id: request.request_id.clone(),
                    reply: ElicitationReply::Decline,
                });
            }
            Event::Notice {
                level: NoticeLevel::Error | NoticeLevel::Warning,
                text,
            } => {
                let _ = writeln!(errors, "lathe: {text}");
            }
            Event::Retrying {
                attempt,
                max_retries,
                delay,
                error,
                ..
            } if verbose || format == Format::Text => {
                let _ = writeln!(
                    errors,
                    "lathe: {error}; asking again in {:.1} s ({attempt}/{max_retries})",
                    delay.as_secs_f64()
                );
            }
            Event::ModelFellBack { from, to, reason } => {
                let _ = writeln!(errors, "lathe: {to} takes over from {from}: {reason}");
            }
            Event::CallStarted { activity, .. } if verbose && format == Format::Text => {
                let _ = writeln!(errors, "· {activity}");
            }
            Event::PermissionDenied { denial, reason, .. } if verbose && format == Format::Text => {
                let _ = writeln!(errors, "· {} refused: {reason}", denial.tool_name);
            }
            _ => {}
        }
        if let Format::StreamJson(options) = format {
            lines_of(&event, session_id, options, |line| lines.ready(&line));
        }
        if lines.is_closed() {
            session.tasks().kill_agents();
            session.send(Op::Interrupt { drop_queued: true });
        }
    }
    session.finish().await;
    let Some(result) = result else {
        let _ = writeln!(errors, "lathe: the session ended without a result");
        return Exit::Failure;
    };
    match format {
        Format::Text => print_text(&result, &mut lines, &mut errors),
        Format::Json => lines.json(&result_frame(&result)),
        Format::StreamJson(_) => {}
    }
    if let Some(error) = lines.failure() {
        let _ = writeln!(
            errors,
            "lathe: standard output can't be written: {error}; `lathe sessions show {session_id}` shows what was said"
        );
        return Exit::Failure;
    }
    match signal {
        Signal::Interrupt => Exit::Interrupted,
        Signal::Terminate => Exit::Terminated,
        Signal::None if result.is_error => Exit::Failure,
        Signal::None => Exit::Success,
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
    }
}
