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
    /// Keeps a command until it can run, after the prompts that were entered before it.
    pub(crate) fn hold(&mut self, name: &str, arguments: &str) {
        self.commands.push((name.to_owned(), arguments.to_owned()));
    }

    /// Adds a prompt behind the held commands; `shown` is what the screen shows for it.
    fn push(&mut self, shown: &str, prompt: Prompt) {
        let after = if self.releasing {
            0
        } else {
            self.commands.len()
        };
        self.prompts.push(QueuedPrompt {
            uuid: prompt.uuid,
            text: shown.to_owned(),
            prompt,
            sent: false,
            after,
        });
    }

    /// The prompts to send now: those that are not behind a held command. They count as sent.
    fn ready_prompts(&mut self) -> impl Iterator<Item = Prompt> {
        let ready = |queued: &&mut QueuedPrompt| !queued.sent && queued.after == 0;
        self.prompts.iter_mut().filter(ready).map(|queued| {
            queued.sent = true;
            queued.prompt.clone()
        })
    }

    /// Takes the first held command out.
    fn release(&mut self) {
        if !self.commands.is_empty() {
            self.commands.remove(0);
        }
        for queued in &mut self.prompts {
            queued.after = queued.after.saturating_sub(1);
        }
    }

    /// Whether a prompt is with the engine, which has not accepted it yet.
    fn has_sent(&self) -> bool {
        self.prompts.iter().any(|queued| queued.sent)
    }

    /// The engine accepted a prompt. Returns its text, if it was sent from here.
    pub(crate) fn accepted(&mut self, uuid: RecordId) -> Option<String> {
        let index = self.prompts.iter().position(|queued| queued.uuid == uuid)?;
        Some(self.prompts.remove(index).text)
    }

    /// Takes the last entry back as it was typed. `cancel` asks the engine for a prompt that it has.
    pub(crate) fn take_back(&mut self, cancel: impl Fn(RecordId) -> bool) -> Option<String> {
        let last = self.prompts.last();
        if last.is_none_or(|queued| queued.after < self.commands.len())
            && let Some((name, arguments)) = self.commands.pop()
        {
            return Some(commands::as_typed(&name, &arguments));
        }
        let queued = self.prompts.last()?;
        if queued.sent && !cancel(queued.uuid) {
            return None;
        }
        self.prompts.pop().map(|queued| queued.text)
    }

    /// Forgets the prompts that a session has which is being closed.
    pub(crate) fn forget_sent(&mut self) {
        self.prompts.retain(|queued| !queued.sent);
    }

    /// The entries as they were typed, in their order.
    pub(crate) fn entries(&self) -> Vec<String> {
        let mut out = Vec::new();
        for index in 0..=self.commands.len() {
            let prompts = self.prompts.iter().filter(|queued| queued.after == index);
            out.extend(prompts.map(|queued| queued.text.clone()));
            if let Some((name, arguments)) = self.commands.get(index) {
                out.push(commands::as_typed(name, arguments));
            }
        }
        out
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
        let busy = app.session.busy() || app.queue.has_sent();
        if busy && !goes_beside {
            return;
        }
        app.queue.release();
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
    app.alarms.away.cancel();
    let mut prompt = Prompt::new(content);
    prompt.origin = Some(serde_json::json!({"kind": "human"}));
    app.queue.push(shown, prompt);
    send(app);
}

/// Sends the prompts that are not behind a held command.
pub(crate) fn send(app: &mut App) {
    if let Some(session) = &app.engine.handle {
        for prompt in app.queue.ready_prompts() {
            session.send(Op::Prompt(prompt));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        let mut queue = Queue::default();
        queue.push("first", Prompt::new("first"));
        queue.hold("clear", "");
        queue.push("second", Prompt::new("second"));
        queue
    }

    #[test]
    fn a_prompt_waits_for_the_command_before_it() {
        let mut queue = queue();
        assert_eq!(queue.entries(), ["first", "/clear", "second"]);
        assert_eq!(queue.ready_prompts().count(), 1);
        assert_eq!(queue.ready_prompts().count(), 0, "each is sent once");
        assert!(queue.has_sent());
        let first = queue.prompts[0].uuid;
        assert_eq!(queue.accepted(first).as_deref(), Some("first"));
        assert_eq!(queue.accepted(first), None);
        queue.release();
        assert_eq!(queue.ready_prompts().count(), 1);
        assert_eq!(queue.entries(), ["second"]);
    }

    #[test]
    fn entries_are_taken_back_from_the_last_one_on_unless_the_engine_has_begun() {
        let mut queue = queue();
        let _ = queue.ready_prompts().count();
        let refuses = |_: RecordId| false;
        assert_eq!(queue.take_back(refuses).as_deref(), Some("second"));
        assert_eq!(queue.take_back(refuses).as_deref(), Some("/clear"));
        assert_eq!(queue.take_back(refuses), None, "it is being answered");
        assert_eq!(queue.take_back(|_| true).as_deref(), Some("first"));
    }

    #[test]
    fn a_prompt_of_a_released_command_goes_before_held_ones() {
        let mut queue = queue();
        queue.releasing = true;
        queue.push("from the command", Prompt::new("from the command"));
        assert_eq!(
            queue.entries(),
            ["first", "from the command", "/clear", "second"]
        );
    }
}
