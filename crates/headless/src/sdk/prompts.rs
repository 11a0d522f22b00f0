//! The prompts of a host that the session doesn't have yet, in the order in which they go to it.

use lathe_protocol::command::Invocation;
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::Prompt;
use std::collections::{HashSet, VecDeque};

/// The prompts that wait, and whether a turn runs.
#[derive(Default)]
pub(super) struct Prompts {
    /// Prompts that wait for something before them, oldest first.
    pub(super) held: VecDeque<Held>,
    /// Prompts that wait until there is nothing else to do.
    pub(super) later: VecDeque<Prompt>,
    /// Prompts that the session has and did not begin with yet.
    pub(super) passed_on: HashSet<RecordId>,
    pub(super) running: bool,
    /// Ids that the host can't use again: of the session's records, and of the prompts that it named itself.
    /// `None` until it names one.
    pub(super) known: Option<HashSet<RecordId>>,
}

impl Prompts {
    pub(super) fn is_idle(&self) -> bool {
        !self.running && self.passed_on.is_empty()
    }

    pub(super) fn wait(&self) -> bool {
        !self.held.is_empty() || !self.later.is_empty()
    }

    /// How many prompts no turn has begun with.
    pub(super) fn queued(&self) -> usize {
        self.passed_on.len() + self.held.len() + self.later.len()
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.later.clear();
    }

    /// The ids of the prompts that wait here.
    pub(super) fn waiting(&self) -> impl Iterator<Item = RecordId> {
        let held = self.held.iter().map(Held::uuid);
        held.chain(self.later.iter().map(|prompt| prompt.uuid))
    }

    /// Drops a prompt that waits here. Returns whether there was one.
    pub(super) fn cancel(&mut self, uuid: RecordId) -> bool {
        let before = self.held.len() + self.later.len();
        self.held.retain(|held| held.uuid() != uuid);
        self.later.retain(|prompt| prompt.uuid != uuid);
        self.held.len() + self.later.len() < before
    }

    /// The next that has nothing to wait for.
    pub(super) fn next(&mut self) -> Option<Held> {
        match self.held.front() {
            Some(Held::Command(..)) if !self.is_idle() => None,
            Some(_) => self.held.pop_front(),
            None if self.is_idle() => {
                let prompt = self.later.pop_front()?;
                Some(Held::Prompt(Box::new(prompt)))
            }
            None => None,
        }
    }
}

/// Something that waits.
pub(super) enum Held {
    Prompt(Box<Prompt>),
    /// A prompt that is a command.
    Command(Box<Prompt>, Invocation),
}

impl Held {
    pub(super) fn uuid(&self) -> RecordId {
        match self {
            Self::Prompt(prompt) | Self::Command(prompt, _) => prompt.uuid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> Box<Prompt> {
        Box::new(Prompt::new(text))
    }

    #[test]
    fn a_command_waits_for_the_turns_before_it_and_holds_up_what_comes_after() {
        let mut prompts = Prompts::default();
        let first = prompt("hello");
        prompts.passed_on.insert(first.uuid);
        let command = prompt("/compact");
        let invocation = command.typed_command().cloned().unwrap();
        prompts.held.push_back(Held::Command(command, invocation));
        prompts.held.push_back(Held::Prompt(prompt("and then")));
        assert!(prompts.next().is_none());
        prompts.passed_on.clear();
        assert!(matches!(prompts.next(), Some(Held::Command(..))));
        assert!(matches!(prompts.next(), Some(Held::Prompt(_))));
        assert!(!prompts.wait());
    }

    #[test]
    fn a_later_prompt_waits_until_nothing_else_is_to_be_done_and_can_be_cancelled() {
        let mut prompts = Prompts::default();
        let (one, other) = (Prompt::new("one"), Prompt::new("other"));
        let cancelled = other.uuid;
        prompts.later.extend([one, other]);
        prompts.held.push_back(Held::Prompt(prompt("now")));
        assert_eq!(prompts.waiting().count(), 3);
        assert!(prompts.cancel(cancelled) && !prompts.cancel(cancelled));
        prompts.running = true;
        assert!(prompts.next().is_some() && prompts.next().is_none());
        prompts.running = false;
        assert!(prompts.next().is_some());
    }
}
