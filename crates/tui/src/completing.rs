//! Completion in the prompt: what is offered for the word at the cursor, and what accepting it does.

use crate::app::App;
use crate::completion::{self, Completion, Offer, Wanted};

impl App {
    pub(crate) fn update_completion(&mut self) {
        if self.completion_closed {
            return;
        }
        let selected = self
            .completion
            .take()
            .map_or(0, |completion| completion.selected);
        let Some(place) = completion::place(self.editor.text(), self.editor.cursor()) else {
            return;
        };
        match &place.wanted {
            Wanted::Command(word) => {
                let offers: Vec<Offer> = crate::commands::matching(word)
                    .into_iter()
                    .map(|command| Offer {
                        insert: format!("/{} ", command.name),
                        label: format!("/{}", command.name),
                        detail: command.what.to_owned(),
                    })
                    .collect();
                if !offers.is_empty() {
                    let selected = selected.min(offers.len() - 1);
                    let selected = if word.is_empty() { selected } else { 0 };
                    self.completion = Some(Completion {
                        place,
                        offers,
                        selected,
                    });
                }
            }
            Wanted::File(query) => {
                if let Some(files) = &self.files {
                    self.jobs.find_files(files.clone(), query.clone());
                } else if !self.indexing {
                    self.indexing = true;
                    let respect = self
                        .session
                        .as_ref()
                        .and_then(|session| {
                            session
                                .settings()
                                .get("respectGitignore")
                                .and_then(serde_json::Value::as_bool)
                        })
                        .unwrap_or(true);
                    self.jobs.index(&self.places.environment.cwd, respect);
                }
            }
        }
    }

    pub(crate) fn file_matches(&mut self, query: &str, matches: Vec<String>) {
        let Some(place) = completion::place(self.editor.text(), self.editor.cursor()) else {
            return;
        };
        // What was found for an earlier word is no longer wanted.
        if place.wanted != Wanted::File(query.to_owned()) || self.completion_closed {
            return;
        }
        let offers: Vec<Offer> = matches
            .into_iter()
            .map(|path| Offer {
                insert: if path.contains(' ') {
                    format!("@\"{path}\" ")
                } else if path.ends_with('/') {
                    format!("@{path}")
                } else {
                    format!("@{path} ")
                },
                label: path,
                detail: String::new(),
            })
            .collect();
        self.completion = (!offers.is_empty()).then_some(Completion {
            place,
            offers,
            selected: 0,
        });
    }

    pub(crate) fn accept_completion(&mut self) {
        let Some(completion) = self.completion.take() else {
            return;
        };
        if let Some(offer) = completion.chosen() {
            let range = completion.place.start..completion.place.end;
            let insert = offer.insert.clone();
            self.editor.replace_range(range, &insert);
            self.edited();
        }
    }
}
