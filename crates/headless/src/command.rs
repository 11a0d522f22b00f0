//! Prompts that are commands: what answers itself is answered without asking the model.
//!
//! Which commands there are and what they say is [`lathe_commands`]'; here it is
//! printed. A command that becomes words for the model is a prompt like any other.

use crate::exit::Exit;
use crate::output::Lines;
use crate::print::{Format, local_result};
use crate::sequence::spoken_frame;
use lathe_commands::CommandOutcome;
use lathe_engine::{EventStream, SessionHandle};
use lathe_protocol::event::{Event, SessionState, TerminalReason, TurnResult};
use lathe_protocol::frame::{frames_of, result_frame};
use lathe_protocol::op::{Op, Prompt};
use std::io::Write;
use std::sync::Arc;

/// Carries a command out in print mode. `None`: the prompt is for the model.
pub(crate) async fn in_print_mode(
    session: &SessionHandle,
    events: &mut EventStream,
    prompt: &Prompt,
    format: Format,
    lines: &mut Lines<impl Write>,
    errors: &mut impl Write,
) -> Option<Exit> {
    let command = prompt.typed_command()?;
    let outcome = match lathe_commands::run(session, command).await {
        CommandOutcome::Prompt => return None,
        CommandOutcome::Answer(answer) => Said::Answer(answer),
        CommandOutcome::Refused(why) => Said::Refusal(why),
        // There is one prompt, and nothing was said before it that could be cleared.
        CommandOutcome::Clear => Said::Answer(String::new()),
        CommandOutcome::Compact(instructions) => {
            compact(session, events, instructions, format, lines).await
        }
    };
    let session_id = session.session_id();
    let mut result = local_result(session_id, "", session.history().totals().models);
    match outcome {
        Said::Answer(answer) => result.text = answer,
        Said::Refusal(why) => {
            result.is_error = true;
            result.terminal_reason = TerminalReason::InternalError;
            result.errors = vec![why];
        }
    }
    show(session, &result, format, lines, errors);
    Some(if result.is_error {
        Exit::Failure
    } else {
        Exit::Success
    })
}

/// The words in which a command answers.
enum Said {
    Answer(String),
    Refusal(String),
}

fn show(
    session: &SessionHandle,
    result: &TurnResult,
    format: Format,
    lines: &mut Lines<impl Write>,
    errors: &mut impl Write,
) {
    match format {
        Format::Text => {
            if !result.text.is_empty() {
                lines.text(&format!("{}\n", result.text.trim_end()));
            }
            for error in &result.errors {
                let _ = writeln!(errors, "lathe: {error}");
            }
        }
        Format::Json => lines.json(&result_frame(result)),
        Format::StreamJson(options) => {
            let started = Event::TurnStarted(Arc::new(session.init()));
            for frame in frames_of(&started, session.session_id(), options) {
                lines.json(&frame);
            }
            if !result.text.is_empty() {
                lines.json(&spoken_frame(&result.text, session.session_id()));
            }
            lines.json(&result_frame(result));
        }
    }
}

/// Has the conversation compacted and says what came of it.
async fn compact(
    session: &SessionHandle,
    events: &mut EventStream,
    instructions: Option<String>,
    format: Format,
    lines: &mut Lines<impl Write>,
) -> Said {
    session.send(Op::Compact { instructions });
    let mut outcome = Said::Refusal("The conversation was not compacted.".to_owned());
    while let Some(event) = events.next().await {
        match &event {
            Event::Compacted {
                pre_tokens,
                post_tokens,
                ..
            } => {
                let after = post_tokens.map_or_else(|| "fewer".to_owned(), |it| it.to_string());
                outcome = Said::Answer(format!(
                    "The conversation had {pre_tokens} tokens and has {after} now."
                ));
            }
            Event::CompactionFailed { reason } => {
                outcome = Said::Refusal(format!("The conversation was not compacted: {reason}"));
            }
            Event::StateChanged(SessionState::Idle) => break,
            _ => {}
        }
        if let Format::StreamJson(options) = format {
            for frame in frames_of(&event, session.session_id(), options) {
                lines.json(&frame);
            }
        }
    }
    outcome
}
