//! The prompt: the editor with its keys, the history, the draft, suggestions and the search for files.

mod actions;
pub(crate) mod clipboard;
pub(crate) mod completion;
pub(crate) mod dialog_keys;
pub(crate) mod draft;
pub(crate) mod editor;
pub(crate) mod external_editor;
mod foreign_keys;
pub(crate) mod fuzzy;
mod hints;
pub(crate) mod history;
pub(crate) mod keymap;
pub(crate) mod suggestion;

use crate::prompt::draft::Draft;
use crate::terminal::key::Key;
use completion::FileSearch;
use draft::DraftFile;
use editor::Editor;
use editor::vim::Vim;
use history::History;
use keymap::Keymap;
use lathe_settings::Places;
use std::time::{Duration, Instant};
use suggestion::Suggestion;

/// How long after the last key the draft is written.
const DRAFT_DELAY: Duration = Duration::from_millis(250);

pub(crate) struct Prompt {
    pub(crate) editor: Editor,
    pub(crate) vim: Option<Vim>,
    pub(crate) keymap: Keymap,
    /// The keys of a chord so far.
    pub(crate) chord: Vec<Key>,
    pub(crate) history: History,
    /// Open the history search as soon as the history is read.
    pub(crate) search_when_read: bool,
    pub(crate) stash: Option<String>,
    pub(crate) draft: DraftFile,
    pub(crate) suggestion: Suggestion,
    /// Whether the user closed the completion; the next edit opens it again.
    pub(crate) completion_closed: bool,
    pub(crate) files: FileSearch,
}

impl Prompt {
    /// Puts the text aside and restores what was put aside before.
    pub(crate) fn swap_stash(&mut self) {
        let stashed = if self.editor.is_empty() {
            self.stash.take()
        } else {
            let (text, attachments) = self.editor.take();
            self.stash.replace(Editor::expand(&text, &attachments))
        };
        if let Some(text) = stashed {
            self.editor.set_text(&text);
        }
    }

    /// Claims a draft file, and restores the draft that a crashed or closed terminal left in it. If there
    /// is something else to say first, the draft is stashed.
    pub(crate) fn restore_draft(&mut self, places: &Places, has_first_prompt: bool) {
        (self.draft.file, self.draft.lock) =
            Draft::claim(&places.config_home, &places.environment.cwd);
        let Some(draft) = Draft::load(&self.draft.file) else {
            return;
        };
        self.stash.clone_from(&draft.stash);
        if self.editor.is_empty() && !has_first_prompt {
            self.editor.restore(&draft.text, draft.attachments.clone());
        } else if self.stash.is_none() && !draft.text.is_empty() {
            self.stash = Some(Editor::expand(&draft.text, &draft.attachments));
        }
        self.draft.saved = draft;
    }

    pub(crate) fn new(places: &Places) -> Self {
        Self {
            editor: Editor::default(),
            vim: None,
            keymap: Keymap::default(),
            chord: Vec::new(),
            history: History::new(&places.config_home, &places.environment.cwd),
            search_when_read: false,
            stash: None,
            draft: DraftFile::default(),
            suggestion: Suggestion::default(),
            completion_closed: false,
            files: FileSearch::default(),
        }
    }
}

impl Prompt {
    /// The text changed: the draft is written a moment later.
    pub(crate) fn text_changed(&mut self) {
        self.draft.due = Some(Instant::now() + DRAFT_DELAY);
    }

    /// Writes the draft if it changed.
    pub(crate) fn save_draft(&mut self) {
        self.draft.due = None;
        let draft = Draft {
            text: self.editor.text().to_owned(),
            attachments: self.editor.attachments().to_vec(),
            stash: self.stash.clone(),
        };
        if draft == self.draft.saved {
            return;
        }
        if self.draft.file.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = draft.save(&self.draft.file) {
            tracing::warn!(%error, "the draft can't be written");
        }
        self.draft.saved = draft;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_settings::Environment;
    use std::path::Path;

    fn places(home: &Path) -> Places {
        Places::new(Environment {
            variables: [("LATHE_CONFIG_DIR".to_owned(), home.display().to_string())].into(),
            home: Some(home.to_owned()),
            cwd: home.to_owned(),
            ..Environment::default()
        })
    }

    #[test]
    fn stashing_swaps_what_is_typed_with_what_was_stashed() {
        let folder = tempfile::tempdir().unwrap();
        let mut prompt = Prompt::new(&places(folder.path()));
        prompt.editor.set_text("one");
        prompt.swap_stash();
        assert!(prompt.editor.is_empty());
        prompt.editor.set_text("two");
        prompt.swap_stash();
        assert_eq!(prompt.editor.text(), "one");
        assert_eq!(prompt.stash.as_deref(), Some("two"));
    }

    #[test]
    fn a_draft_is_restored_or_stashed_if_there_is_a_first_prompt() {
        for (has_first_prompt, text, stash) in [(false, "half", None), (true, "", Some("half"))] {
            let folder = tempfile::tempdir().unwrap();
            let places = places(folder.path());
            let mut before = Prompt::new(&places);
            before.restore_draft(&places, false);
            before.editor.set_text("half");
            before.save_draft();
            drop(before);
            let mut prompt = Prompt::new(&places);
            prompt.restore_draft(&places, has_first_prompt);
            assert_eq!(prompt.editor.text(), text);
            assert_eq!(prompt.stash.as_deref(), stash);
        }
    }
}
