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
                let mut offers: Vec<Offer> = crate::commands::matching(word)
                    .into_iter()
                    .map(|command| Offer {
                        insert: format!("/{} ", command.name),
                        label: format!("/{}", command.name),
                        detail: command.what.to_owned(),
                    })
                    .collect();
                offers.extend(self.session_offers(word));
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

    /// The session's own commands that fit a word: those that begin with it first.
    fn session_offers(&self, word: &str) -> Vec<Offer> {
        let commands = self.session_commands();
        let names = commands.iter().map(|command| command.name.as_str());
        let mut fitting: Vec<usize> = if word.is_empty() {
            (0..commands.len()).collect()
        } else {
            crate::fuzzy::rank(word, names, 20)
        };
        fitting.sort_by_key(|index| !commands[*index].name.starts_with(word));
        fitting
            .into_iter()
            .filter_map(|index| commands.get(index))
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
        let catalog = session.agent_definitions();
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
        let mut offers = self.mentions(query);
        offers.extend(matches.into_iter().map(|path| Offer {
            insert: if path.contains(' ') {
                format!("@\"{path}\" ")
            } else if path.ends_with('/') {
                format!("@{path}")
            } else {
                format!("@{path} ")
            },
            label: path,
            detail: String::new(),
        }));
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
