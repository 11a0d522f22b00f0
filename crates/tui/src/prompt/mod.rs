//! The prompt: the editor with its keys, the history, the draft, suggestions and the search for files.

pub(crate) mod clipboard;
pub(crate) mod completion;
pub(crate) mod draft;
pub(crate) mod editor;
pub(crate) mod external_editor;
pub(crate) mod fuzzy;
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
