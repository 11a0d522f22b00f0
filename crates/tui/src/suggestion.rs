//! What the person may want to say next, in grey where they would type it.
//!
//! After a turn that ended well a small model is asked once. Its answer is shown only in an empty prompt;
//! Tab or → takes it, any other key types over it. It is asked for in the background, given up as soon
//! as the person types or a turn begins, and never asked for when `promptSuggestions` is `false` (or
//! `LATHE_PROMPT_SUGGESTIONS=0` says so).

use crate::app::App;
use crate::jobs::Found;
use tokio_util::sync::CancellationToken;

/// A suggestion: asked for, or there.
#[derive(Debug, Default)]
pub(crate) struct Suggestion {
    text: Option<String>,
    asking: Option<CancellationToken>,
    /// Which question is the last one: an answer to an earlier one comes too late.
    question: u64,
}

impl Suggestion {
    /// What is suggested.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Forgets the suggestion and gives up asking for one.
    pub(crate) fn drop_it(&mut self) {
        self.text = None;
        self.question += 1;
        if let Some(asking) = self.asking.take() {
            asking.cancel();
        }
    }

    /// Suggests something at once.
    #[cfg(test)]
    pub(crate) fn suggest(&mut self, text: &str) {
        self.text = Some(text.to_owned());
    }

    fn begin(&mut self) -> (u64, CancellationToken) {
        self.drop_it();
        let cancel = CancellationToken::new();
        self.asking = Some(cancel.clone());
        (self.question, cancel)
    }

    /// An answer came.
    pub(crate) fn answered(&mut self, question: u64, text: String) {
        if question == self.question {
            self.asking = None;
            self.text = Some(text);
        }
    }
}

impl App {
    /// Asks for a suggestion, if the person wants them and has not gone on already.
    pub(crate) fn ask_suggestion(&mut self) {
        if !self.wishes.suggestions || !self.editor.is_empty() || !self.queued.is_empty() {
            return;
        }
        let Some(session) = &self.session else {
            return;
        };
        let (question, cancel) = self.suggestion.begin();
        let asked = session.side_questions().next_prompt_later(cancel);
        self.jobs.task(async move {
            let text = asked.await?;
            Some(Found::Suggestion { question, text })
        });
    }

    /// The suggestion, where it can be seen and taken.
    pub(crate) fn shown_suggestion(&self) -> Option<&str> {
        self.suggestion.text().filter(|_| {
            self.editor.is_empty() && self.dialog.is_none() && !self.busy() && !self.show_help
        })
    }

    /// Puts the suggestion into the prompt. `false` when there is none.
    pub(crate) fn accept_suggestion(&mut self) -> bool {
        let Some(text) = self.shown_suggestion().map(str::to_owned) else {
            return false;
        };
        self.editor.set_text(&text);
        self.edited();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_too_late_is_not_shown() {
        let mut suggestion = Suggestion::default();
        let (first, cancelled) = suggestion.begin();
        suggestion.drop_it();
        assert!(cancelled.is_cancelled());
        suggestion.answered(first, "too late".to_owned());
        assert_eq!(suggestion.text(), None);
        let (second, _) = suggestion.begin();
        suggestion.answered(first, "still too late".to_owned());
        suggestion.answered(second, "run the tests".to_owned());
        assert_eq!(suggestion.text(), Some("run the tests"));
    }
}
