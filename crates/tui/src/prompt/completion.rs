//! Completion: slash commands at the start of the prompt, files after `@`.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands;
use crate::layers::{Layer, Level, Outcome};
use crate::prompt::keymap::Action;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{truncate, truncate_line, width};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::Key;
use lathe_extensions::CommandRegistry;
use lathe_hooks::HelperError;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The kind of word that is being completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A command; the word after the slash.
    Command(String),
    /// A file; the word after the at-sign.
    File(String),
}

/// A place where something can be completed: what, and the bytes that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletionPlace {
    pub(crate) wanted: Wanted,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Looks whether the cursor stands where something can be completed.
pub(crate) fn place_at(text: &str, cursor: usize) -> Option<CompletionPlace> {
    let before = &text[..cursor];
    if let Some(word) = before.strip_prefix('/')
        && !word.contains(char::is_whitespace)
        && !word.contains('/')
    {
        return Some(CompletionPlace {
            wanted: Wanted::Command(word.to_owned()),
            start: 0,
            end: cursor,
        });
    }
    let at = before.rfind('@')?;
    let word = &before[at + 1..];
    let fresh = before[..at]
        .chars()
        .next_back()
        .is_none_or(|c| c.is_whitespace() || c == '(');
    (fresh && !word.contains(char::is_whitespace)).then(|| CompletionPlace {
        wanted: Wanted::File(word.to_owned()),
        start: at,
        end: cursor,
    })
}

/// One offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) insert: String,
    pub(crate) label: String,
    pub(crate) detail: String,
}

/// The offers for a word, one of them selected.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    pub(crate) place: CompletionPlace,
    pub(crate) offers: Vec<Offer>,
    pub(crate) selected: usize,
}

/// Rows of offers that are shown.
const ROWS: usize = 8;

impl Completion {
    pub(crate) fn next(&mut self, back: bool) {
        let count = self.offers.len().max(1);
        self.selected = (self.selected + if back { count - 1 } else { 1 }) % count;
    }

    pub(crate) fn chosen(&self) -> Option<&Offer> {
        self.offers.get(self.selected)
    }

    fn lines(&self, look: Look<'_>, rows: usize) -> Vec<Line> {
        let rows = rows.clamp(1, ROWS);
        let first = self
            .selected
            .saturating_sub(rows / 2)
            .min(self.offers.len().saturating_sub(rows));
        let shown = self.offers.iter().enumerate().skip(first).take(rows);
        let label_width = shown
            .clone()
            .map(|(_, offer)| width(&offer.label))
            .max()
            .unwrap_or(0);
        shown
            .map(|(index, offer)| {
                let chosen = index == self.selected;
                let style = if chosen {
                    look.theme.selected
                } else {
                    Style::PLAIN
                };
                let mut line = Line::styled(if chosen { "❯ " } else { "  " }, look.theme.selected);
                line.push(
                    truncate(&offer.label, look.columns.saturating_sub(4)),
                    style,
                );
                if !offer.detail.is_empty() {
                    line.push(
                        " ".repeat(label_width.saturating_sub(width(&offer.label)) + 2),
                        Style::PLAIN,
                    );
                    line.push(offer.detail.clone(), look.theme.muted);
                }
                truncate_line(&line, look.columns)
            })
            .collect()
    }
}

impl Layer for Completion {
    fn level(&self) -> Level {
        Level::BelowPrompt
    }

    fn key(&mut self, _key: Key) -> Outcome {
        Outcome::Ignored
    }

    fn action(&mut self, action: Action) -> Outcome {
        match action {
            Action::Up | Action::Down => {
                self.next(action == Action::Up);
                Outcome::Stay
            }
            Action::Complete => self
                .chosen()
                .map_or(Outcome::Stay, |offer| Outcome::Chosen(offer.insert.clone())),
            Action::Cancel => Outcome::Cancelled,
            _ => Outcome::Ignored,
        }
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        (self.lines(look, rows), Cursor::default())
    }
}

/// The search for files after `@`.
#[derive(Debug, Default)]
pub(crate) struct FileSearch {
    pub(crate) index: Option<FileIndex>,
    pub(crate) indexing: bool,
    /// Cancels the running search by the command that settings name.
    pub(crate) search: CancellationToken,
    /// That command failed and the user was told; files are found without it.
    pub(crate) command_failed: bool,
}

/// The files of a project.
pub(crate) type FileIndex = Arc<Vec<String>>;

/// The files that fit a query, best first.
pub(crate) fn find_files(index: &[String], query: &str, limit: usize) -> Vec<String> {
    if query.is_empty() {
        let mut shallow: Vec<&String> = index
            .iter()
            .filter(|path| path.trim_end_matches('/').matches('/').count() == 0)
            .collect();
        shallow.sort();
        return shallow.into_iter().take(limit).cloned().collect();
    }
    crate::prompt::fuzzy::rank(query, index.iter().map(String::as_str), limit)
        .into_iter()
        .filter_map(|at| index.get(at).cloned())
        .collect()
}

pub(crate) fn update(app: &mut App) {
    if app.prompt.completion_closed {
        return;
    }
    let selected = app
        .layers
        .completion()
        .map_or(0, |completion| completion.selected);
    app.layers.close_completion();
    let Some(place) = place_at(app.prompt.editor.text(), app.prompt.editor.cursor()) else {
        return;
    };
    match &place.wanted {
        Wanted::Command(word) => {
            let offers = command_offers(&commands::registry(app), word);
            if !offers.is_empty() {
                let selected = selected.min(offers.len() - 1);
                let selected = if word.is_empty() { selected } else { 0 };
                app.layers.set_completion(Some(Completion {
                    place,
                    offers,
                    selected,
                }));
            }
        }
        Wanted::File(query) if is_path(query) => {
            app.prompt.files.search.cancel();
            let environment = &app.places.environment;
            let (query, home) = (query.clone(), environment.home.clone());
            let cwd = environment.cwd.clone();
            app.jobs.blocking(move || {
                let matches = paths(&query, &cwd, home.as_deref(), 50);
                Some(JobResult::FileMatches { query, matches })
            });
        }
        Wanted::File(query) => {
            app.prompt.files.search.cancel();
            if !search_by_command(app, query) {
                search_index(app, query.clone());
            }
        }
    }
}

/// Whether a word names a place outside the index: an absolute path, one in the home, one above.
fn is_path(word: &str) -> bool {
    ["/", "~/", "../", "./"]
        .iter()
        .any(|start| word.starts_with(start))
        || matches!(word, "~" | "..")
}

/// The files whose path begins as it was typed, sorted; folders end in a slash.
fn paths(word: &str, cwd: &Path, home: Option<&Path>, limit: usize) -> Vec<String> {
    let (folder, start) = match word.rsplit_once('/') {
        Some((folder, start)) => (format!("{folder}/"), start),
        None => return vec![format!("{word}/")],
    };
    let real = match (folder.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => cwd.join(&folder),
    };
    let mut found: Vec<String> = std::fs::read_dir(real)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let hidden = name.starts_with('.') && !start.starts_with('.');
            let fits = name.to_lowercase().starts_with(&start.to_lowercase());
            if hidden || !fits || name.contains(char::is_whitespace) {
                return None;
            }
            let slash = if entry.path().is_dir() { "/" } else { "" };
            Some(format!("{folder}{name}{slash}"))
        })
        .collect();
    found.sort();
    found.truncate(limit);
    found
}

/// Finds files by the project's index, which is made when it is first wanted.
pub(crate) fn search_index(app: &mut App, query: String) {
    if let Some(files) = &app.prompt.files.index {
        app.jobs.find_files(files.clone(), query);
    } else if !app.prompt.files.indexing {
        app.prompt.files.indexing = true;
        let respect = app
            .engine
            .handle
            .as_ref()
            .and_then(|session| {
                session
                    .settings()
                    .json()
                    .get("respectGitignore")
                    .and_then(serde_json::Value::as_bool)
            })
            .unwrap_or(true);
        app.jobs.index(&app.places.environment.cwd, respect);
    }
}

/// Lets the command that settings name find files. Returns whether there is one that works.
pub(crate) fn search_by_command(app: &mut App, query: &str) -> bool {
    if app.prompt.files.command_failed {
        return false;
    }
    let cancel = CancellationToken::new();
    let Some(session) = &app.engine.handle else {
        return false;
    };
    let Some(answer) = session.settings().suggested_files(query, cancel.clone()) else {
        return false;
    };
    app.prompt.files.search = cancel;
    let query = query.to_owned();
    app.jobs.task(async move {
        match answer.await {
            Ok(matches) => Some(JobResult::FileMatches { query, matches }),
            // The user typed on.
            Err(HelperError::Cancelled { .. }) => None,
            Err(error) => Some(JobResult::FileCommandFailed(error.to_string())),
        }
    });
    true
}

/// The command that settings name failed: that is reported once, and files are found without it.
pub(crate) fn command_failed(app: &mut App, error: &str) {
    if !app.prompt.files.command_failed {
        app.prompt.files.command_failed = true;
        app.warn(format!(
            "fileSuggestion failed: {error}. @ completes without it until the settings change."
        ));
    }
    update(app);
}

/// Mentions besides files: agents, and resources of MCP servers.
pub(crate) fn mentions(app: &App, query: &str) -> Vec<Offer> {
    let Some(session) = &app.engine.handle else {
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
    let ranked = crate::prompt::fuzzy::rank(query, agents.iter().map(|(name, _)| name.as_str()), 3);
    let mut offers: Vec<Offer> = ranked
        .into_iter()
        .filter_map(|index| agents.get(index))
        .map(|(name, description)| Offer {
            insert: format!("@{name} "),
            label: name.clone(),
            detail: crate::render::text::clean(description).replace('\n', " "),
        })
        .collect();
    let resources = crate::prompt::fuzzy::rank(query, names.iter().map(String::as_str), 5)
        .into_iter()
        .filter_map(|index| Some((names.get(index)?, known.get(index)?)))
        .map(|(name, resource)| Offer {
            // A template has parts that the user fills in.
            insert: if resource.is_template {
                format!("@{name}")
            } else {
                format!("@{name} ")
            },
            label: name.clone(),
            detail: crate::render::text::clean(&resource.name).replace('\n', " "),
        });
    offers.extend(resources);
    offers
}

pub(crate) fn files_found(app: &mut App, query: &str, matches: Vec<String>) {
    let Some(place) = place_at(app.prompt.editor.text(), app.prompt.editor.cursor()) else {
        return;
    };
    // Results for an earlier word are dropped.
    if place.wanted != Wanted::File(query.to_owned()) || app.prompt.completion_closed {
        return;
    }
    let mentions = mentions(app, query);
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
    let named = query.contains(':') || "agent-".starts_with(query) || query.starts_with("agent");
    let offers: Vec<Offer> = if named {
        mentions.into_iter().chain(files).collect()
    } else {
        files.chain(mentions).collect()
    };
    let completion = (!offers.is_empty()).then_some(Completion {
        place,
        offers,
        selected: 0,
    });
    app.layers.set_completion(completion);
}

pub(crate) fn accept(app: &mut App) {
    let Some(completion) = app.layers.completion() else {
        return;
    };
    let range = completion.place.start..completion.place.end;
    let insert = completion.chosen().map(|offer| offer.insert.clone());
    app.layers.close_completion();
    if let Some(insert) = insert {
        app.prompt.editor.replace_range(range, &insert);
        app.edited();
    }
}

/// The commands that fit a word, as they are offered.
pub(crate) fn command_offers(registry: &CommandRegistry, word: &str) -> Vec<Offer> {
    commands::matching(registry, word)
        .into_iter()
        .map(|command| Offer {
            insert: format!("/{} ", command.name),
            label: format!("/{}", command.name),
            detail: crate::render::text::clean(&format!(
                "{} {}",
                command.argument_hint.as_deref().unwrap_or_default(),
                command.description
            ))
            .trim()
            .replace('\n', " "),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_complete_at_the_start_and_files_after_an_at_sign() {
        let wanted =
            |text: &str| place_at(text, text.len()).map(|place| (place.wanted, place.start));
        assert_eq!(wanted("/he"), Some((Wanted::Command("he".into()), 0)));
        assert_eq!(wanted("/help x"), None);
        assert_eq!(wanted("/tmp/x"), None);
        assert_eq!(
            wanted("see @src/m"),
            Some((Wanted::File("src/m".into()), 4))
        );
        assert_eq!(wanted("@"), Some((Wanted::File(String::new()), 0)));
        assert_eq!(wanted("a@b"), None);
        assert_eq!(wanted("@a b"), None);
    }

    #[test]
    fn an_empty_word_offers_top_level_files() {
        let files: Vec<String> = ["src/", "src/main.rs", "README.md"]
            .map(str::to_owned)
            .into();
        assert_eq!(find_files(&files, "", 5), ["README.md", "src/"]);
        assert_eq!(find_files(&files, "mai", 5), ["src/main.rs"]);
    }
}
