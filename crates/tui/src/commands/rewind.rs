//! `/rewind` goes back to before a prompt.

use crate::app::jobs::{JobResult, Report};
use crate::app::{App, shell};
use crate::layers::{Item, Picker, Purpose};
use crate::render::cell::Cell;
use crate::render::text::ago;
use lathe_engine::Restart;
use lathe_protocol::op::Op;
use lathe_protocol::record::{INTERRUPTED_BY_USER, Record};
use lathe_session::cli::RewindWhat;
use lathe_session::{RewindMode, SessionStore};

/// The choice that compacts instead of rewinding.
const SUMMARY: &str = "summary";

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let path = session.transcript().to_owned();
    app.jobs.blocking(move || {
        if !path.exists() {
            // A session without a word has no file yet.
            return Some(JobResult::Prompts(Vec::new()));
        }
        let loaded = match lathe_session::load(&path) {
            Ok(loaded) => loaded,
            Err(error) => return Some(JobResult::Reported(Report::Failed(error.to_string()))),
        };
        let prompts = loaded
            .prompts()
            .into_iter()
            .rev()
            .filter_map(|record| match &*record {
                Record::Message(message) => Some((
                    message.uuid.to_string(),
                    message.message.as_ref()?.text(),
                    message.timestamp.clone(),
                )),
                _ => None,
            })
            .filter(|(_, text, _): &(String, String, String)| {
                !text.starts_with(INTERRUPTED_BY_USER)
            })
            .collect();
        Some(JobResult::Prompts(prompts))
    });
}

pub(crate) fn show_prompts(app: &mut App, prompts: &[(String, String, String)]) {
    if prompts.is_empty() {
        app.remark("There is nothing to rewind to yet.");
        return;
    }
    app.commands.prompts = prompts
        .iter()
        .filter(|(_, text, _)| shell::parse_note(text).is_none())
        .map(|(id, text, _)| (id.clone(), text.clone()))
        .collect();
    let items = prompts
        .iter()
        .map(|(id, text, time)| {
            let when = time
                .parse::<jiff::Timestamp>()
                .map_or_else(|_| String::new(), ago);
            let text = match shell::parse_note(text) {
                Some(Cell::Shell { command, .. }) => format!("! {command}"),
                _ => text.clone(),
            };
            Item::new(id.clone(), text, when)
        })
        .collect();
    app.layers
        .open(Picker::new(Purpose::RewindTo, "Rewind to before which prompt?", items).filterable());
}

pub(crate) fn ask_what(app: &mut App, to: &str) {
    let items = vec![
        Item::new("both", "Conversation and files", ""),
        Item::new(
            "conversation",
            "Only the conversation",
            "files stay as they are",
        ),
        Item::new("files", "Only the files", "the conversation stays"),
        Item::new(
            SUMMARY,
            "Nothing; summarize up to this prompt",
            "a summary replaces it and everything before it",
        ),
    ];
    app.layers.open(Picker::new(
        Purpose::RewindWhat { to: to.to_owned() },
        "What should be rewound?",
        items,
    ));
}

pub(crate) fn apply(app: &mut App, to: &str, what: &str) {
    if what == SUMMARY {
        if let Ok(record) = to.parse() {
            app.engine.send(Op::CompactUpTo {
                record,
                instructions: None,
            });
        }
        return;
    }
    let Some(session) = app.engine.handle.take() else {
        return;
    };
    app.engine.events = None;
    let id = session.session_id().to_string();
    let what = match what {
        "both" => RewindWhat::Both,
        "files" => RewindWhat::Files,
        _ => RewindWhat::Conversation,
    };
    if what != RewindWhat::Files && app.prompt.editor.is_empty() {
        // What was said there can be said differently.
        if let Some(text) = app.commands.prompts.get(to) {
            app.prompt.editor.set_text(text);
            app.prompt.text_changed();
        }
    }
    let store = SessionStore::new(&app.places.config_home);
    let cwd = app.places.environment.cwd.clone();
    let to = to.to_owned();
    app.engine.options = session.restart(&Restart::Rewind, &app.engine.options);
    let guard = session.history().write_guard();
    app.engine.opening = true;
    // The transcript is free for the rewind only after the session has let go of it.
    app.jobs.task(async move {
        session.finish().await;
        let mode = RewindMode::Apply;
        let outcome = lathe_session::cli::rewind(&store, &id, &cwd, &to, what, mode, guard).await;
        let text =
            outcome.map(|outcome| lathe_session::cli::rewind_text(&outcome, RewindMode::Apply));
        Some(JobResult::Rewound(text.into()))
    });
}

pub(crate) fn done(app: &mut App, report: Report) {
    app.conversation.cells.clear();
    match report {
        Report::Done(text) => {
            app.remark(text.trim_end().to_owned());
            app.remark("── the conversation after the rewind ──");
        }
        Report::Failed(error) => app.warn(error),
    }
    app.conversation.cells.clear();
    app.reopen();
}
