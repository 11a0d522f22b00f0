//! Completion in the prompt: what is offered for the word at the cursor, and what accepting it does.

use crate::app::App;
use crate::completion::{self, Completion, Offer, Wanted};
use crate::jobs::Found;
use lathe_extensions::CommandRegistry;
use lathe_hooks::HelperError;
use tokio_util::sync::CancellationToken;

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
                let offers = command_offers(&self.registry(), word);
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
                self.suggesting.cancel();
                if !self.ask_for_files(query) {
                    self.look_for_files(query.clone());
                }
            }
        }
    }

    /// Finds files by the project's index, which is made when it is first wanted.
    fn look_for_files(&mut self, query: String) {
        if let Some(files) = &self.files {
            self.jobs.find_files(files.clone(), query);
        } else if !self.indexing {
            self.indexing = true;
            let respect = self
                .session
                .as_ref()
                .and_then(|session| {
                    session
                        .settings()
                        .json()
                        .get("respectGitignore")
                        .and_then(serde_json::Value::as_bool)
                })
                .unwrap_or(true);
            self.jobs.index(&self.places.environment.cwd, respect);
        }
    }

    /// Lets the command that settings name find files. Returns whether there is one that works.
    fn ask_for_files(&mut self, query: &str) -> bool {
        if self.suggestions_broken {
            return false;
        }
        let cancel = CancellationToken::new();
        let Some(session) = &self.session else {
            return false;
        };
        let Some(answer) = session.settings().suggested_files(query, cancel.clone()) else {
            return false;
        };
        self.suggesting = cancel;
        let query = query.to_owned();
        self.jobs.task(async move {
            match answer.await {
                Ok(matches) => Some(Found::FileMatches { query, matches }),
                // The person typed on.
                Err(HelperError::Cancelled { .. }) => None,
                Err(error) => Some(Found::NoSuggestion(error.to_string())),
            }
        });
        true
    }

    /// The person's own command gave no answer: it is said once, and files are found without it.
    pub(crate) fn suggestions_failed(&mut self, error: &str) {
        if !self.suggestions_broken {
            self.suggestions_broken = true;
            self.warn(format!(
                "fileSuggestion: {error}. Until the settings change, @ completes without it."
            ));
        }
        self.update_completion();
    }

    /// What can be mentioned besides files: agents, and resources of MCP servers.
    fn mentions(&self, query: &str) -> Vec<Offer> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let known: Vec<_> = session
            .mcp()
            .resources()
            .into_iter()
            .filter(|resource| !resource.uri.contains(char::is_whitespace))
            .collect();
        let names: Vec<String> = known
            .iter()
            .map(|resource| format!("{}:{}", resource.server, resource.uri))
            .collect();
        if query.is_empty() {
            return Vec::new();
        }
        let catalog = session.extensions().agents();
        let agents: Vec<(String, String)> = catalog
            .iter()
            .map(|agent| (format!("agent-{}", agent.name), agent.description.clone()))
            .collect();
        let ranked = crate::fuzzy::rank(query, agents.iter().map(|(name, _)| name.as_str()), 3);
        let mut offers: Vec<Offer> = ranked
            .into_iter()
            .filter_map(|index| agents.get(index))
            .map(|(name, description)| Offer {
                insert: format!("@{name} "),
                label: name.clone(),
                detail: crate::text::clean(description).replace('\n', " "),
            })
            .collect();
        let resources = crate::fuzzy::rank(query, names.iter().map(String::as_str), 5)
            .into_iter()
            .filter_map(|index| Some((names.get(index)?, known.get(index)?)))
            .map(|(name, resource)| Offer {
                // A template has parts that the person fills in.
                insert: if resource.is_template {
                    format!("@{name}")
                } else {
                    format!("@{name} ")
                },
                label: name.clone(),
                detail: crate::text::clean(&resource.name).replace('\n', " "),
            });
        offers.extend(resources);
        offers
    }

    pub(crate) fn file_matches(&mut self, query: &str, matches: Vec<String>) {
        let Some(place) = completion::place(self.editor.text(), self.editor.cursor()) else {
            return;
        };
        // What was found for an earlier word is no longer wanted.
        if place.wanted != Wanted::File(query.to_owned()) || self.completion_closed {
            return;
        }
        let mentions = self.mentions(query);
        let files = matches.into_iter().map(|path| Offer {
            insert: if path.contains(' ') {
                format!("@\"{path}\" ")
            } else if path.ends_with('/') {
                format!("@{path}")
            } else {
                format!("@{path} ")
            },
            label: path,
            detail: String::new(),
        });
        // A name that merely has the letters in it doesn't stand before a file.
        let named =
            query.contains(':') || "agent-".starts_with(query) || query.starts_with("agent");
        let offers: Vec<Offer> = if named {
            mentions.into_iter().chain(files).collect()
        } else {
            files.chain(mentions).collect()
        };
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

/// The commands that fit a word, as they are offered.
pub(crate) fn command_offers(registry: &CommandRegistry, word: &str) -> Vec<Offer> {
    crate::commands::matching(registry, word)
        .into_iter()
        .map(|command| Offer {
            insert: format!("/{} ", command.name),
            label: format!("/{}", command.name),
            detail: crate::text::clean(&format!(
                "{} {}",
                command.argument_hint.as_deref().unwrap_or_default(),
                command.description
            ))
            .trim()
            .replace('\n', " "),
        })
        .collect()
}
