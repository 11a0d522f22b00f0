//! Prompts and commands that were entered and have not run yet, in the order in which they were typed.

use crate::app::{App, remember, shell};
use crate::commands;
use crate::prompt::editor::{Attached, Attachment, Editor};
use lathe_protocol::command::Invocation;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::record::WaitingPrompt;
use std::collections::HashSet;

/// A prompt that the engine has not accepted yet.
#[derive(Debug, Clone)]
pub(crate) struct QueuedPrompt {
    pub(crate) uuid: RecordId,
    pub(crate) text: String,
    pub(crate) prompt: Prompt,
    /// The content of the placeholders in the text.
    pub(crate) attachments: Vec<Attachment>,
    /// Whether it waits for the end of the turn; otherwise the model gets it with the next tool result.
    pub(crate) after_turn: bool,
    /// Whether it was entered while a turn ran: it is kept until it is accepted.
    pub(crate) waits: bool,
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
    /// The prompts that are kept with the session because they wait.
    pub(crate) kept: Vec<RecordId>,
    /// Context that the terminal sent itself; its records are not shown.
    pub(crate) own_context: HashSet<RecordId>,
}

impl Queue {
    /// Keeps a command until it can run, after the prompts that were entered before it.
    pub(crate) fn hold(&mut self, name: &str, arguments: &str) {
        self.commands.push((name.to_owned(), arguments.to_owned()));
    }

    /// Adds a prompt behind the held commands; `shown` is what the screen shows for it.
    fn push(
        &mut self,
        shown: &str,
        prompt: Prompt,
        attachments: &[Attachment],
        after_turn: bool,
        waits: bool,
    ) {
        let after = if self.releasing {
            0
        } else {
            self.commands.len()
        };
        self.prompts.push(QueuedPrompt {
            uuid: prompt.uuid,
            text: shown.to_owned(),
            prompt,
            attachments: attachments.to_vec(),
            after_turn,
            waits,
            sent: false,
            after,
        });
    }

    /// Adds a prompt of another client, which waits for nothing that was typed here.
    pub(crate) fn add(&mut self, shown: &str, prompt: Prompt, waits: bool) {
        self.push(shown, prompt, &[], false, waits);
        if let Some(last) = self.prompts.last_mut() {
            last.after = 0;
        }
    }

    /// The prompts to send now: those that are not behind a held command, and of those that wait for the end
    /// of the turn the first, if nothing runs. They count as sent.
    fn ready_prompts(&mut self, busy: bool) -> Vec<Prompt> {
        let mut ready = Vec::new();
        let mut busy = busy || self.has_sent();
        for queued in &mut self.prompts {
            if queued.sent || queued.after > 0 || (queued.after_turn && busy) {
                continue;
            }
            queued.sent = true;
            busy = true;
            ready.push(queued.prompt.clone());
        }
        ready
    }

    /// The prompts that wait, if they are others than those that are kept. They count as kept.
    pub(crate) fn take_unkept(&mut self) -> Option<Vec<WaitingPrompt>> {
        let waiting = || self.prompts.iter().filter(|queued| queued.waits);
        if waiting()
            .map(|queued| queued.uuid)
            .eq(self.kept.iter().copied())
        {
            return None;
        }
        let prompts: Vec<WaitingPrompt> = waiting()
            .map(|queued| WaitingPrompt {
                uuid: queued.uuid,
                content: queued.prompt.content.clone(),
            })
            .collect();
        self.kept = prompts.iter().map(|prompt| prompt.uuid).collect();
        Some(prompts)
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

    /// The engine accepted a prompt. Returns what was typed, if it was sent from here.
    pub(crate) fn accepted(&mut self, uuid: RecordId) -> Option<Typed> {
        let index = self.prompts.iter().position(|queued| queued.uuid == uuid)?;
        Some(self.prompts.remove(index).into())
    }

    /// Takes the last entry back as it was typed. `cancel` asks the engine for a prompt that it has.
    pub(crate) fn take_back(&mut self, cancel: impl Fn(RecordId) -> bool) -> Option<Typed> {
        let last = self.prompts.last();
        if last.is_none_or(|queued| queued.after < self.commands.len())
            && let Some((name, arguments)) = self.commands.pop()
        {
            return Some(Typed {
                text: commands::as_typed(&name, &arguments),
                attachments: Vec::new(),
            });
        }
        let queued = self.prompts.last()?;
        if queued.sent && !cancel(queued.uuid) {
            return None;
        }
        self.prompts.pop().map(Typed::from)
    }

    /// Takes everything back that has not begun, as one text.
    pub(crate) fn take_all_back(&mut self, cancel: impl Fn(RecordId) -> bool) -> Option<Typed> {
        let mut all: Option<Typed> = None;
        while let Some(mut typed) = self.take_back(&cancel) {
            if let Some(later) = all {
                typed.text = format!("{}\n{}", typed.text, later.text);
                typed.attachments.extend(later.attachments);
            }
            all = Some(typed);
        }
        all
    }

    /// Takes an entry out, by its place in [`Self::entries`].
    pub(crate) fn remove(
        &mut self,
        place: usize,
        cancel: impl Fn(RecordId) -> bool,
    ) -> Option<Typed> {
        match self.at(place)? {
            Place::Command(index) => {
                let (name, arguments) = self.commands.remove(index);
                for queued in &mut self.prompts {
                    if queued.after > index {
                        queued.after -= 1;
                    }
                }
                Some(Typed {
                    text: commands::as_typed(&name, &arguments),
                    attachments: Vec::new(),
                })
            }
            Place::Prompt(index) => {
                let queued = self.prompts.get(index)?;
                if queued.sent && !cancel(queued.uuid) {
                    return None;
                }
                Some(self.prompts.remove(index).into())
            }
        }
    }

    /// Moves an entry one place up or down. Only prompts that are still here can change places.
    pub(crate) fn swap(&mut self, place: usize, other: usize) -> bool {
        let (Some(Place::Prompt(a)), Some(Place::Prompt(b))) = (self.at(place), self.at(other))
        else {
            return false;
        };
        if self.prompts[a].sent
            || self.prompts[b].sent
            || self.prompts[a].after != self.prompts[b].after
        {
            return false;
        }
        self.prompts.swap(a, b);
        true
    }

    /// An entry no longer waits for the end of the turn, or for what stands before it.
    pub(crate) fn hurry(&mut self, place: usize) -> bool {
        let Some(Place::Prompt(index)) = self.at(place) else {
            return false;
        };
        let mut queued = self.prompts.remove(index);
        queued.after_turn = false;
        queued.after = 0;
        self.prompts.insert(0, queued);
        true
    }

    fn at(&self, place: usize) -> Option<Place> {
        let mut count = 0;
        for index in 0..=self.commands.len() {
            for (number, _) in self
                .prompts
                .iter()
                .enumerate()
                .filter(|(_, queued)| queued.after == index)
            {
                if count == place {
                    return Some(Place::Prompt(number));
                }
                count += 1;
            }
            if index < self.commands.len() {
                if count == place {
                    return Some(Place::Command(index));
                }
                count += 1;
            }
        }
        None
    }

    /// Forgets the prompts that a session has which is being closed.
    pub(crate) fn forget_sent(&mut self) {
        self.prompts.retain(|queued| !queued.sent);
    }

    /// The entries as they were typed, in their order, each with whether it waits for the end of the turn.
    pub(crate) fn entries(&self) -> Vec<(String, bool)> {
        let mut out = Vec::new();
        for index in 0..=self.commands.len() {
            let prompts = self.prompts.iter().filter(|queued| queued.after == index);
            out.extend(prompts.map(|queued| {
                let waits = queued.after_turn || queued.after > 0;
                (queued.text.clone(), waits)
            }));
            if let Some((name, arguments)) = self.commands.get(index) {
                out.push((commands::as_typed(name, arguments), true));
            }
        }
        out
    }
}

/// Something that was typed, with what its placeholders stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attachment>,
}

impl From<QueuedPrompt> for Typed {
    fn from(queued: QueuedPrompt) -> Self {
        Self {
            text: queued.text,
            attachments: queued.attachments,
        }
    }
}

enum Place {
    Prompt(usize),
    Command(usize),
}

/// When a prompt goes to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// At once; during a turn with the next tool result.
    Now,
    /// After the turn that runs.
    AfterTurn,
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

/// Sends what was typed: a command, a shell command, something to remember, or a prompt. `!` and `#` mean
/// something only if they were typed (`typed`), not in the beginning of a paste.
pub(crate) fn submit(
    app: &mut App,
    text: &str,
    attachments: &[Attachment],
    typed: bool,
    when: When,
) {
    let trimmed = text.trim();
    app.prompt.history.add(trimmed);
    if let Some(Invocation { name, arguments }) = Invocation::parse(trimmed) {
        commands::echo(app, &name, trimmed);
        commands::run(app, &name, &arguments);
        return;
    }
    if let Some(command) = trimmed
        .strip_prefix('!')
        .filter(|command| typed && !command.trim().is_empty())
    {
        shell::run(app, command.trim());
        return;
    }
    if let Some(memory) = trimmed
        .strip_prefix('#')
        .filter(|memory| typed && !memory.trim().is_empty() && !memory.starts_with('#'))
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
    submit_prompt(app, trimmed, content, attachments, when);
}

/// Sends words to the model; `shown` is what stands on the screen for them.
pub(crate) fn submit_content(app: &mut App, shown: &str, content: Content) {
    submit_prompt(app, shown, content, &[], When::Now);
}

fn submit_prompt(
    app: &mut App,
    shown: &str,
    content: Content,
    attachments: &[Attachment],
    when: When,
) {
    app.alarms.away.cancel();
    app.alarms.idle = None;
    let mut prompt = Prompt::new(content);
    prompt.origin = Some(serde_json::json!({"kind": "human"}));
    let waits = app.session.busy();
    let after_turn = when == When::AfterTurn && waits;
    app.queue
        .push(shown, prompt, attachments, after_turn, waits);
    send(app);
}

/// Sends the prompts that are not behind a held command.
pub(crate) fn send(app: &mut App) {
    if let Some(session) = &app.engine.handle {
        for prompt in app.queue.ready_prompts(app.session.busy()) {
            session.send(Op::Prompt(prompt));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut Queue, text: &str, after_turn: bool) {
        queue.push(text, Prompt::new(text), &[], after_turn, after_turn);
    }

    fn queue() -> Queue {
        let mut queue = Queue::default();
        push(&mut queue, "first", false);
        queue.hold("clear", "");
        push(&mut queue, "second", false);
        queue
    }

    #[test]
    fn prompts_that_wait_are_kept_once_for_every_change() {
        let mut queue = Queue::default();
        push(&mut queue, "at once", false);
        assert_eq!(queue.take_unkept(), None, "it begins a turn");
        push(&mut queue, "later", true);
        let kept = queue.take_unkept().unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(queue.take_unkept(), None);
        queue.accepted(kept[0].uuid);
        assert_eq!(queue.take_unkept(), Some(Vec::new()));
        assert_eq!(queue.take_unkept(), None);
    }

    fn texts(queue: &Queue) -> Vec<String> {
        queue.entries().into_iter().map(|(text, _)| text).collect()
    }

    fn text(typed: Option<Typed>) -> Option<String> {
        typed.map(|typed| typed.text)
    }

    #[test]
    fn a_prompt_waits_for_the_command_before_it() {
        let mut queue = queue();
        assert_eq!(texts(&queue), ["first", "/clear", "second"]);
        assert_eq!(queue.ready_prompts(true).len(), 1);
        assert_eq!(queue.ready_prompts(true).len(), 0, "each is sent once");
        assert!(queue.has_sent());
        let first = queue.prompts[0].uuid;
        assert_eq!(text(queue.accepted(first)).as_deref(), Some("first"));
        assert_eq!(queue.accepted(first), None);
        queue.release();
        assert_eq!(queue.ready_prompts(false).len(), 1);
        assert_eq!(texts(&queue), ["second"]);
    }

    #[test]
    fn what_waits_for_the_end_of_the_turn_is_sent_one_by_one() {
        let mut queue = Queue::default();
        push(&mut queue, "later", true);
        push(&mut queue, "latest", true);
        push(&mut queue, "now", false);
        assert_eq!(queue.ready_prompts(true).len(), 1);
        assert!(queue.ready_prompts(false).is_empty(), "one is on its way");
        queue.prompts.retain(|queued| !queued.sent);
        assert_eq!(queue.ready_prompts(false).len(), 1);
        assert!(queue.prompts[0].sent && !queue.prompts[1].sent);
    }

    #[test]
    fn entries_are_taken_back_from_the_last_one_on_unless_the_engine_has_begun() {
        let mut queue = queue();
        let _ = queue.ready_prompts(false);
        let refuses = |_: RecordId| false;
        assert_eq!(text(queue.take_back(refuses)).as_deref(), Some("second"));
        assert_eq!(text(queue.take_back(refuses)).as_deref(), Some("/clear"));
        assert_eq!(queue.take_back(refuses), None, "it is being answered");
        assert_eq!(text(queue.take_back(|_| true)).as_deref(), Some("first"));
    }

    #[test]
    fn everything_is_taken_back_in_its_order() {
        let mut queue = queue();
        let all = queue.take_all_back(|_| true);
        assert_eq!(text(all).as_deref(), Some("first\n/clear\nsecond"));
        assert!(queue.entries().is_empty());
        assert_eq!(queue.take_all_back(|_| true), None);
    }

    #[test]
    fn entries_change_places_hurry_and_go() {
        let mut queue = Queue::default();
        for name in ["a", "b", "c"] {
            push(&mut queue, name, true);
        }
        assert!(queue.swap(0, 1));
        assert!(!queue.swap(2, 3));
        assert!(queue.hurry(2));
        assert_eq!(texts(&queue), ["c", "b", "a"]);
        assert!(!queue.prompts[0].after_turn);
        assert_eq!(text(queue.remove(1, |_| true)).as_deref(), Some("b"));
        let mut queue = self::queue();
        assert_eq!(text(queue.remove(1, |_| true)).as_deref(), Some("/clear"));
        assert_eq!(queue.prompts[1].after, 0);
        assert!(!queue.swap(0, 9));
    }

    #[test]
    fn a_prompt_of_a_released_command_goes_before_held_ones() {
        let mut queue = queue();
        queue.releasing = true;
        push(&mut queue, "from the command", false);
        assert_eq!(
            texts(&queue),
            ["first", "from the command", "/clear", "second"]
        );
    }
}
