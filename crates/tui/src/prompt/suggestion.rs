//! A suggestion for the next prompt, in grey where it would be typed.
//!
//! After a turn that ended well a small model is asked once. Its answer is shown only in an empty prompt;
//! Tab or → takes it, any other key types over it. It is asked for in the background, given up as soon
//! as the user types or a turn begins, and never asked for when `promptSuggestions` is `false` (or
//! `LATHE_PROMPT_SUGGESTIONS=0` says so).

use crate::app::App;
use crate::app::jobs::JobResult;
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
    /// The suggested text.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Forgets the suggestion and gives up asking for one.
    pub(crate) fn cancel(&mut self) {
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
        self.cancel();
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

/// Asks for a suggestion, if the user wants them and has not gone on already.
pub(crate) fn ask(app: &mut App) {
    if !app.settings.suggestions || !app.prompt.editor.is_empty() || !app.queue.prompts.is_empty() {
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    let (question, cancel) = app.prompt.suggestion.begin();
    let asked = session.side_questions().next_prompt_later(cancel);
    app.jobs.task(async move {
        let text = asked.await?;
        Some(JobResult::Suggestion { question, text })
    });
}

/// The suggestion, where it can be seen and taken.
pub(crate) fn shown(app: &App) -> Option<&str> {
    app.prompt.suggestion.text().filter(|_| {
        app.prompt.editor.is_empty()
            && app.layers.dialog().is_none()
            && !app.session.busy()
            && !app.layers.shows_help()
    })
}

/// Puts the suggestion into the prompt. `false` when there is none.
pub(crate) fn accept(app: &mut App) -> bool {
    let Some(text) = shown(app).map(str::to_owned) else {
        return false;
    };
    app.prompt.editor.set_text(&text);
    app.edited();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_too_late_is_not_shown() {
        let mut suggestion = Suggestion::default();
        let (first, cancelled) = suggestion.begin();
        suggestion.cancel();
        assert!(cancelled.is_cancelled());
        suggestion.answered(first, "too late".to_owned());
        assert_eq!(suggestion.text(), None);
        let (second, _) = suggestion.begin();
        suggestion.answered(first, "still too late".to_owned());
        suggestion.answered(second, "run the tests".to_owned());
        assert_eq!(suggestion.text(), Some("run the tests"));
    }
}
