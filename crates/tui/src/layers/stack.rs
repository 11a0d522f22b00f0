//! The stack of layers.

use super::{Form, Layer, Level, PendingQuestion, Purpose};
use crate::layers::help::Help;
use crate::layers::transcript::Transcript;
use crate::prompt::completion::Completion;
use lathe_protocol::ids::RequestId;
use std::any::Any;
use std::collections::VecDeque;
use std::path::Path;

/// Everything that is open above the prompt.
#[derive(Default)]
pub(crate) struct Layers {
    /// Sorted by level, the top layer last.
    stack: Vec<Box<dyn Layer>>,
    /// Questions that come after the one that is shown.
    waiting: VecDeque<PendingQuestion>,
    /// How many dialogs were opened so far.
    opened: u64,
    /// A question came up that nobody has seen yet: keys that are already there are not meant for it.
    unseen: bool,
}

impl Layers {
    /// Opens a layer above those of its level. A dialog that is open already (of the same purpose) is
    /// replaced, and what was opened from it is closed.
    pub(crate) fn open(&mut self, layer: impl Layer) {
        self.open_boxed(Box::new(layer));
    }

    fn open_boxed(&mut self, layer: Box<dyn Layer>) {
        let level = layer.level();
        let mut at = self.stack.partition_point(|open| open.level() <= level);
        let known = match layer.purpose() {
            None | Some(Purpose::Reading) => None,
            purpose => self.stack.iter().position(|open| open.purpose() == purpose),
        };
        if let Some(known) = known {
            self.stack.drain(known..at);
            at = known;
        }
        self.stack.insert(at, layer);
        self.opened += 1;
    }

    /// The dialog or question in place of the prompt.
    pub(crate) fn dialog(&self) -> Option<&(dyn Layer + 'static)> {
        let index = self.dialog_index()?;
        self.stack.get(index).map(|layer| &**layer)
    }

    pub(crate) fn dialog_mut(&mut self) -> Option<&mut (dyn Layer + 'static)> {
        let index = self.dialog_index()?;
        self.stack.get_mut(index).map(|layer| &mut **layer)
    }

    fn dialog_index(&self) -> Option<usize> {
        self.stack
            .iter()
            .rposition(|layer| matches!(layer.level(), Level::Dialog | Level::Question))
    }

    /// The dialog or question in place of the prompt, if it is of this type.
    pub(crate) fn shown<T: Layer>(&self) -> Option<&T> {
        let any: &dyn Any = self.dialog()?;
        any.downcast_ref()
    }

    pub(crate) fn shown_mut<T: Layer>(&mut self) -> Option<&mut T> {
        let any: &mut dyn Any = self.dialog_mut()?;
        any.downcast_mut()
    }

    /// The purpose of the dialog that is shown.
    pub(crate) fn purpose(&self) -> Option<&Purpose> {
        self.dialog()?.purpose()
    }

    /// The layer below the prompt that is shown.
    pub(crate) fn below_prompt(&self) -> Option<&(dyn Layer + 'static)> {
        let layers = self.stack.iter().rev();
        let mut below = layers.filter(|layer| layer.level() == Level::BelowPrompt);
        below.next().map(|layer| &**layer)
    }

    pub(crate) fn below_prompt_mut(&mut self) -> Option<&mut (dyn Layer + 'static)> {
        let layers = self.stack.iter_mut().rev();
        let mut below = layers.filter(|layer| layer.level() == Level::BelowPrompt);
        below.next().map(|layer| &mut **layer)
    }

    /// The layer of this type, wherever it is in the stack.
    fn find<T: Layer>(&self) -> Option<&T> {
        self.stack.iter().rev().find_map(|layer| {
            let any: &dyn Any = &**layer;
            any.downcast_ref()
        })
    }

    fn close<T: Layer>(&mut self) -> bool {
        let before = self.stack.len();
        self.stack.retain(|layer| {
            let any: &dyn Any = &**layer;
            !any.is::<T>()
        });
        self.stack.len() != before
    }

    pub(crate) fn completion(&self) -> Option<&Completion> {
        self.find()
    }

    pub(crate) fn set_completion(&mut self, completion: Option<Completion>) {
        self.close::<Completion>();
        if let Some(completion) = completion {
            self.open(completion);
        }
    }

    pub(crate) fn close_completion(&mut self) {
        self.close::<Completion>();
    }

    pub(crate) fn shows_help(&self) -> bool {
        self.find::<Help>().is_some()
    }

    pub(crate) fn toggle_help(&mut self) {
        if !self.close::<Help>() {
            self.open(Help);
        }
    }

    pub(crate) fn close_help(&mut self) {
        self.close::<Help>();
    }

    pub(crate) fn transcript(&mut self) -> Option<&mut Transcript> {
        self.stack.iter_mut().rev().find_map(|layer| {
            let any: &mut dyn Any = &mut **layer;
            any.downcast_mut()
        })
    }

    pub(crate) fn close_transcript(&mut self) {
        self.close::<Transcript>();
    }

    /// Whether the engine waits for the answer to what is shown.
    pub(crate) fn asks(&self) -> bool {
        self.dialog()
            .is_some_and(|dialog| dialog.request_id().is_some())
    }

    /// Whether nothing stands in place of the prompt, or is about to.
    pub(crate) fn are_quiet(&self) -> bool {
        self.dialog().is_none() && self.waiting.is_empty()
    }

    /// How many dialogs were opened so far, to tell later whether another one was.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Closes the dialog or question that is shown; what it was opened from is shown again.
    pub(crate) fn close_dialog(&mut self) -> Option<Box<dyn Layer>> {
        let index = self.dialog_index()?;
        Some(self.stack.remove(index))
    }

    /// Closes all dialogs, not the question that is shown.
    pub(crate) fn close_dialogs(&mut self) {
        self.stack.retain(|layer| layer.level() != Level::Dialog);
    }

    /// A dialog was answered. If the answer opened another one, Esc goes back from there to this one, unless
    /// it was a form: what was filled in is done with. If not, the user is done with all of them.
    pub(crate) fn answered(&mut self, opened_before: u64) {
        if self.opened == opened_before {
            self.close_dialogs();
            return;
        }
        let top = self
            .stack
            .iter()
            .rposition(|layer| layer.level() == Level::Dialog);
        if let Some(top) = top {
            let mut index = 0;
            self.stack.retain(|layer| {
                let any: &dyn Any = &**layer;
                let done = any.is::<Form>() && index < top;
                index += 1;
                !done
            });
        }
    }

    /// Adds a question of the engine.
    pub(crate) fn ask(&mut self, question: PendingQuestion) {
        self.waiting.push_back(question);
    }

    /// Takes a question back that was answered elsewhere.
    pub(crate) fn resolved(&mut self, id: &RequestId) {
        self.waiting.retain(|waiting| waiting.id() != id);
        self.stack.retain(|layer| layer.request_id() != Some(id));
    }

    /// How many questions come after the one that is shown.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn forget_questions(&mut self) {
        self.waiting.clear();
    }

    /// Shows the next question if none is shown. Keys go to it at once unless the user is busy typing or
    /// with a dialog.
    pub(crate) fn show_next_question(&mut self, typing: bool, cwd: &Path) {
        if self.asks() {
            return;
        }
        let Some(waiting) = self.waiting.pop_front() else {
            return;
        };
        let mut question = waiting.layer(cwd);
        question.arm(!typing && self.dialog().is_none());
        self.open_boxed(question);
        self.unseen = true;
    }

    /// Opens a question of Lathe itself that comes up without a key.
    pub(crate) fn open_unasked(&mut self, layer: impl Layer) {
        self.open(layer);
        self.unseen = true;
    }

    /// Whether a question is open that was not drawn yet.
    pub(crate) fn is_unseen(&self) -> bool {
        self.unseen && self.dialog().is_some()
    }

    /// The dialog was drawn.
    pub(crate) fn seen(&mut self) {
        self.unseen = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{Page, Picker};

    fn picker(purpose: Purpose) -> Picker {
        Picker::new(purpose, "title", Vec::new())
    }

    fn purposes(layers: &mut Layers) -> Vec<Purpose> {
        let mut found = Vec::new();
        while let Some(layer) = layers.close_dialog() {
            found.extend(layer.purpose().cloned());
        }
        found
    }

    #[test]
    fn closing_a_dialog_shows_what_it_was_opened_from() {
        let mut layers = Layers::default();
        layers.open(picker(Purpose::Plugins));
        layers.open(picker(Purpose::PluginInstall));
        layers.open(Page::of_lines(Purpose::Reading, "one", Vec::new()));
        layers.open(Page::of_lines(Purpose::Reading, "two", Vec::new()));
        assert_eq!(
            purposes(&mut layers),
            [
                Purpose::Reading,
                Purpose::Reading,
                Purpose::PluginInstall,
                Purpose::Plugins
            ]
        );
    }

    #[test]
    fn a_list_that_is_opened_again_replaces_itself_and_what_was_opened_from_it() {
        let mut layers = Layers::default();
        layers.open(picker(Purpose::Config));
        layers.open(picker(Purpose::Plugins));
        layers.open(picker(Purpose::PluginInstall));
        layers.open(picker(Purpose::Plugins));
        assert_eq!(purposes(&mut layers), [Purpose::Plugins, Purpose::Config]);
    }

    #[test]
    fn an_answer_that_opens_nothing_closes_all_dialogs_and_a_filled_form_is_gone() {
        let mut layers = Layers::default();
        layers.open(picker(Purpose::Resume));
        let before = layers.opened();
        layers.open(Form::new(Purpose::AddRule, "title", ""));
        layers.answered(before);
        let before = layers.opened();
        layers.open(picker(Purpose::Config));
        layers.answered(before);
        assert_eq!(purposes(&mut layers), [Purpose::Config, Purpose::Resume]);
        layers.open(picker(Purpose::Resume));
        layers.answered(layers.opened());
        assert!(layers.dialog().is_none());
    }

    #[test]
    fn a_question_is_on_top_and_dialogs_opened_meanwhile_are_below_it() {
        let mut layers = Layers::default();
        layers.open(picker(Purpose::Config));
        layers.ask(PendingQuestion::Permission(
            crate::render::view_tests::question(),
        ));
        layers.show_next_question(false, Path::new("/p"));
        assert!(layers.asks());
        assert!(
            !layers.dialog().unwrap().armed(),
            "the user looks at a list"
        );
        layers.open(picker(Purpose::Plugins));
        assert!(layers.asks());
        layers.resolved(&"r1".into());
        assert_eq!(purposes(&mut layers), [Purpose::Plugins, Purpose::Config]);
    }
}
