//! Prompts and commands that were entered and have not run yet, in the order in which they were typed.

use crate::app::{App, remember, shell};
use crate::commands;
use crate::prompt::editor::{Attached, Attachment, Editor};
use lathe_protocol::command::Invocation;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::{Op, Prompt};
use std::collections::HashSet;

/// A prompt that the engine has not accepted yet.
#[derive(Debug, Clone)]
pub(crate) struct QueuedPrompt {
    pub(crate) uuid: RecordId,
    pub(crate) text: String,
    pub(crate) prompt: Prompt,
    /// Whether the engine has it.
    pub(crate) sent: bool,
    /// How many of the held commands were typed before it.
    pub(crate) after: usize,
}

/// Prompts and commands that were entered and have not run yet.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) prompts: Vec<QueuedPrompt>,
    /// Commands that wait for the session, or for the end of the turn: name and arguments.
    pub(crate) commands: Vec<(String, String)>,
    /// Whether a held command is being run: prompts that it sends go before what is still held.
    pub(crate) releasing: bool,
    /// Context that the terminal sent itself; its records are not shown.
    pub(crate) own_context: HashSet<RecordId>,
}

impl Queue {
    /// Keeps a command until it can be run: after what was said before it.
    pub(crate) fn hold(&mut self, name: &str, arguments: &str) {
        self.commands.push((name.to_owned(), arguments.to_owned()));
    }
}

/// Runs commands that waited, and sends what was said between and after them, in the order in which
/// all that was typed.
pub(crate) fn run_held_commands(app: &mut App) {
    while app.engine.handle.is_some() {
        send(app);
        let Some((name, arguments)) = app.queue.commands.first().cloned() else {
            return;
        };
        let goes_beside = commands::registry(app)
            .find(&name)
            .is_none_or(|command| command.while_busy);
        // A prompt that was sent and not accepted yet begins a turn in a moment.
        let busy = app.session.busy() || app.queue.prompts.iter().any(|queued| queued.sent);
        if busy && !goes_beside {
            return;
        }
        app.queue.commands.remove(0);
        for queued in &mut app.queue.prompts {
            queued.after = queued.after.saturating_sub(1);
        }
        app.queue.releasing = true;
        commands::run(app, &name, &arguments);
        app.queue.releasing = false;
    }
}

/// Sends what was typed: a command, a shell command, something to remember, or a prompt.
pub(crate) fn submit(app: &mut App, text: &str, attachments: &[Attachment]) {
    let trimmed = text.trim();
    app.prompt.history.add(trimmed);
    if let Some(Invocation { name, arguments }) = Invocation::parse(trimmed) {
        commands::run(app, &name, &arguments);
        return;
    }
    if let Some(command) = trimmed
        .strip_prefix('!')
        .filter(|command| !command.trim().is_empty())
    {
        shell::run(app, command.trim());
        return;
    }
    if let Some(memory) = trimmed
        .strip_prefix('#')
        .filter(|memory| !memory.trim().is_empty() && !memory.starts_with('#'))
    {
        remember::ask_where(app, memory.trim());
        return;
    }
    let expanded = Editor::expand(trimmed, attachments);
    let images: Vec<ContentBlock> = attachments
        .iter()
        .filter(|attachment| trimmed.contains(&attachment.label))
        .filter_map(|attachment| match &attachment.what {
            Attached::Image { media_type, data } => {
                Some(ContentBlock::image(media_type.clone(), data.clone()))
            }
            Attached::Text { .. } => None,
        })
        .collect();
    let content = if images.is_empty() {
        Content::from(expanded)
    } else {
        let mut blocks = vec![ContentBlock::text(expanded)];
        blocks.extend(images);
        Content::Blocks(blocks)
    };
    submit_content(app, trimmed, content);
}

/// Sends words to the model; `shown` is what stands on the screen for them.
pub(crate) fn submit_content(app: &mut App, shown: &str, content: Content) {
    app.alarms.away.drop_it();
    let mut prompt = Prompt::new(content);
    prompt.origin = Some(serde_json::json!({"kind": "human"}));
    let after = if app.queue.releasing {
        0
    } else {
        app.queue.commands.len()
    };
    app.queue.prompts.push(QueuedPrompt {
        uuid: prompt.uuid,
        text: shown.to_owned(),
        prompt,
        sent: false,
        after,
    });
    send(app);
}

/// Sends what was said and is not behind a command that still waits.
pub(crate) fn send(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    for queued in &mut app.queue.prompts {
        if !queued.sent && queued.after == 0 {
            queued.sent = true;
            session.send(Op::Prompt(queued.prompt.clone()));
        }
    }
}
