//! `/btw` asks something beside the conversation.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::results::CommandResult;
use crate::render::markdown;
use crate::render::style::Line;
use crate::render::text::clean;
use lathe_engine::BesideError;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long it is said that the answer is awaited.
const PATIENCE: Duration = Duration::from_secs(120);
const ASKING: &str = "asking beside the conversation…";

pub(crate) fn run(app: &mut App, question: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    if question.is_empty() {
        app.warn("Write the question behind it: /btw <question>");
        return;
    }
    let question = question.to_owned();
    let asked = session
        .side_questions()
        .beside_later(question.clone(), CancellationToken::new());
    app.jobs.task(async move {
        let answer = asked.await;
        Some(JobResult::Command(CommandResult::Beside {
            question,
            answer,
        }))
    });
    app.alarms.show_for(ASKING, PATIENCE);
}

pub(crate) fn answered(app: &mut App, question: &str, answer: Result<String, BesideError>) {
    app.alarms.hint.take_if(|(words, _)| *words == ASKING);
    let theme = app.theme();
    let text = match answer {
        Ok(text) => text,
        Err(error) => {
            app.warn(format!("/btw: {error}"));
            return;
        }
    };
    let look = markdown::Look {
        theme: &theme,
        columns: app.screen.width(),
        keys: &app.prompt.keymap,
    };
    let mut lines = vec![Line::styled(
        format!("btw: {}", clean(question)),
        theme.muted,
    )];
    lines.extend(markdown::render(&text, look));
    app.answer(lines);
}
