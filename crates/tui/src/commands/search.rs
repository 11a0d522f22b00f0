//! Searching the text of all sessions, from `/resume`.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::{results::CommandResult, resume};
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::{ago, counted, truncate};
use lathe_session::search::{self, FoundSession, Query, QueryError};
use lathe_session::{Scope, SessionStore};

/// Sessions that are listed.
const MOST: usize = 100;
/// Columns of a title.
const TITLE: usize = 32;
/// Characters of a message by which it is found again.
const FRAGMENT: usize = 24;

/// Asks what to search for, unless words are there already.
pub(crate) fn ask(app: &mut App, words: &str) {
    if !words.trim().is_empty() {
        run(app, words);
        return;
    }
    let title =
        "Search the text of all sessions (also folder: branch: tag: after: before: tool: file:)";
    app.layers.open(Form::new(Purpose::SearchText, title, ""));
}

pub(crate) fn run(app: &mut App, words: &str) {
    let store = SessionStore::new(&app.places.config_home);
    let words = words.to_owned();
    app.jobs.blocking(move || {
        let query = Query::parse(&words);
        let found = search::search(&store, Scope::Everywhere, &query, MOST);
        Some(JobResult::Command(CommandResult::Found { words, found }))
    });
}

pub(crate) fn found(app: &mut App, words: &str, found: Result<Vec<FoundSession>, QueryError>) {
    match found {
        Ok(found) if found.is_empty() => app.warn(format!("No session has '{words}'.")),
        Ok(found) => {
            let picker = picker(&found, words, &app.look.theme);
            app.commands.found = found;
            words.clone_into(&mut app.commands.searched);
            app.layers.open(picker);
        }
        Err(error) => app.warn(error.to_string()),
    }
}

/// The list of messages that were found.
pub(crate) fn picker(
    found: &[FoundSession],
    words: &str,
    theme: &crate::render::theme::Theme,
) -> Picker {
    let items = found.iter().flat_map(items).collect();
    let facts = format!("'{words}' in {}", counted(found.len(), "session"));
    Picker::new(Purpose::Found, "Found in sessions", items)
        .explained(vec![Line::styled(facts, theme.muted)])
        .with_key('s', "search again")
}

fn items(session: &FoundSession) -> Vec<Item> {
    let info = &session.info;
    let title = info.title.as_deref().unwrap_or("(no title)");
    let title = truncate(title, TITLE);
    let mut facts = vec![ago(info.modified)];
    facts.extend(info.branch.clone());
    facts.extend(info.tag.as_ref().map(|tag| format!("#{tag}")));
    facts.extend(info.cwd.as_ref().map(|cwd| cwd.display().to_string()));
    let row = |(index, hit): (usize, &search::Hit)| {
        let label = if index == 0 { title.as_str() } else { "" };
        let value = format!("{} {}", info.id, hit.record);
        let mut item = Item::new(value, label, format!("{}: {}", hit.who, hit.snippet));
        item.preview = vec![facts.join(" · "), format!("{}: {}", hit.who, hit.snippet)];
        item
    };
    session.hits.iter().enumerate().map(row).collect()
}

/// Opens the session of a message, and shows the message in it.
pub(crate) fn chosen(app: &mut App, value: &str) {
    let Some((id, record)) = value.split_once(' ') else {
        return;
    };
    let hits = app.commands.found.iter().flat_map(|found| &found.hits);
    let snippet = hits
        .filter(|hit| hit.record.to_string() == record)
        .map(|hit| hit.snippet.clone())
        .next()
        .unwrap_or_default();
    app.commands.jump = fragments(&snippet, &Query::parse(&app.commands.searched).words);
    let present = app.engine.handle.as_ref();
    let is_present = present.is_some_and(|session| session.session_id().to_string() == id);
    if is_present {
        app.layers.close_dialogs();
        jump(app);
    } else {
        resume::open(app, id);
    }
}

/// Texts by which a message is found on the screen, the most exact first.
fn fragments(snippet: &str, words: &[String]) -> Vec<String> {
    let lower = snippet.to_lowercase();
    let mut texts = Vec::new();
    let first = words
        .iter()
        .filter_map(|word| lower.find(&word.to_lowercase()))
        .min();
    if let Some(at) = first {
        let at = snippet.floor_char_boundary(at.min(snippet.len()));
        // Marks of Markdown are not on the screen.
        let plain = snippet[at..]
            .split(['*', '`', '_', '[', '|', '#', '…'])
            .next();
        let text: String = plain.unwrap_or_default().chars().take(FRAGMENT).collect();
        texts.push(text.trim().to_owned());
    }
    texts.extend(words.iter().cloned());
    texts.retain(|text| !text.is_empty());
    texts
}

/// Shows the message that a search led to, once its session is open.
pub(crate) fn jump(app: &mut App) {
    let texts = std::mem::take(&mut app.commands.jump);
    if texts.is_empty() {
        return;
    }
    app.open_transcript();
    if let Some(transcript) = app.layers.transcript() {
        transcript.look_for(texts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_looked_for_by_the_text_after_the_first_word() {
        let words = ["parser".to_owned(), "bug".to_owned()];
        let texts = fragments("…the Parser has a bug in line 7 of the file…", &words);
        assert_eq!(texts, ["Parser has a bug in line", "parser", "bug"]);
    }
}
