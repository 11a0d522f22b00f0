//! Finding what was said: a search over the text of all sessions.
//!
//! Transcripts are read in large pieces and searched as bytes; only lines in which the rarest-looking word occurs are
//! parsed. A message fits if all words occur in it, in any order, without regard to case. Filters narrow down the
//! sessions first.

use crate::line::{Line, LineReader};
use crate::store::{Scope, SessionInfo, SessionStore, info};
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{MessageRecord, Record, RecordKind};
use regex::bytes::{Regex, RegexBuilder};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of a file is read at once.
const PIECE: usize = 1 << 20;
/// Characters of a snippet on each side of the first word.
const AROUND: usize = 60;
/// Messages of one session that are listed.
const MOST_PER_SESSION: usize = 5;
/// The most threads that search.
const MOST_THREADS: usize = 8;

/// A search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Words that must all occur in a message.
    pub words: Vec<String>,
    /// Only sessions of a folder whose path contains this.
    pub folder: Option<String>,
    /// Only sessions that ended on this branch.
    pub branch: Option<String>,
    /// Only sessions with this tag.
    pub tag: Option<String>,
    /// Only messages from this day on (`2026-11-01`).
    pub after: Option<String>,
    /// Only messages before this day.
    pub before: Option<String>,
    /// Only sessions in which this tool was called.
    pub tool: Option<String>,
    /// Only sessions in which a call named a file whose path contains this.
    pub file: Option<String>,
}

/// Why a search can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// There are no words.
    #[error("nothing to search for: give one or more words")]
    NoWords,
    /// A day can't be read.
    #[error("{0:?} is not a day; write it as 2026-11-01")]
    NotADay(String),
    /// A word is too long to be searched for.
    #[error("{0:?} can't be searched for")]
    Word(String),
}

impl Query {
    /// Reads a search as it is typed: words, and filters such as `branch:main` or `after:2026-11-01`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for word in text.split_whitespace() {
            let filter = word.split_once(':').filter(|(_, value)| !value.is_empty());
            let value = filter.map(|(_, value)| value.to_owned());
            match filter.map(|(name, _)| name) {
                Some("folder") => query.folder = value,
                Some("branch") => query.branch = value,
                Some("tag") => query.tag = value,
                Some("after") => query.after = value,
                Some("before") => query.before = value,
                Some("tool") => query.tool = value,
                Some("file") => query.file = value,
                _ => query.words.push(word.to_owned()),
            }
        }
        query
    }

    fn checked(&self) -> Result<Matcher, QueryError> {
        for day in [&self.after, &self.before].into_iter().flatten() {
            if day.parse::<jiff::civil::Date>().is_err() {
                return Err(QueryError::NotADay(day.clone()));
            }
        }
        let longest = self.words.iter().max_by_key(|word| word.len());
        let longest = longest.ok_or(QueryError::NoWords)?;
        Ok(Matcher {
            raw: literal(longest, true)?,
            words: self.words.iter().map(|word| word.to_lowercase()).collect(),
            tool: self.tool.as_deref().map(tool_pattern).transpose()?,
            file: self.file.as_deref().map(file_pattern).transpose()?,
        })
    }

    fn wants(&self, info: &SessionInfo) -> bool {
        let folder = info.cwd.as_deref().map(Path::to_string_lossy);
        let contains = |wanted: &String| folder.as_ref().is_some_and(|it| it.contains(wanted));
        self.folder.as_ref().is_none_or(contains)
            && (self.branch.is_none() || self.branch == info.branch)
            && (self.tag.is_none() || self.tag == info.tag)
    }

    fn wants_time(&self, timestamp: &str) -> bool {
        // Both are written largest unit first, so text compares as time does.
        self.after.as_deref().is_none_or(|day| timestamp >= day)
            && self.before.as_deref().is_none_or(|day| timestamp < day)
    }
}

struct Matcher {
    /// The longest word as it stands in a line.
    raw: Regex,
    words: Vec<String>,
    tool: Option<Regex>,
    file: Option<Regex>,
}

/// A text as it stands in JSON, without its quotation marks.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn literal(word: &str, ignore_case: bool) -> Result<Regex, QueryError> {
    pattern(&regex::escape(&in_json(word)), ignore_case, word)
}

fn tool_pattern(tool: &str) -> Result<Regex, QueryError> {
    let name = regex::escape(&in_json(tool));
    pattern(&format!(r#""name":"{name}""#), true, tool)
}

fn file_pattern(file: &str) -> Result<Regex, QueryError> {
    let path = regex::escape(&in_json(file));
    pattern(
        &format!(r#""(file_path|notebook_path)":"[^"]*{path}"#),
        false,
        file,
    )
}

fn pattern(text: &str, ignore_case: bool, word: &str) -> Result<Regex, QueryError> {
    RegexBuilder::new(text)
        .case_insensitive(ignore_case)
        .build()
        .map_err(|_| QueryError::Word(word.to_owned()))
}

/// A message that fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The record.
    pub record: RecordId,
    /// Who said it: `you`, `model`, or the tool that was called or answered.
    pub who: String,
    /// When.
    pub timestamp: String,
    /// The words with what stands around them, on one line.
    pub snippet: String,
}

/// The messages of one session that fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundSession {
    /// The session.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// The first messages that fit, oldest first.
    pub hits: Vec<Hit>,
    /// Whether there are more of them.
    pub more: bool,
}

/// Searches sessions; those that were written last come first.
///
/// # Errors
/// If there are no words or a filter can't be read.
pub fn search(
    store: &SessionStore,
    scope: Scope<'_>,
    query: &Query,
    limit: usize,
) -> Result<Vec<FoundSession>, QueryError> {
    let matcher = query.checked()?;
    let files = store.transcripts(scope);
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, FoundSession)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(index) else { return };
            if let Some(session) = search_file(path, query, &matcher)
                && let Ok(mut found) = found.lock()
            {
                found.push((index, session));
                if found.len() >= limit {
                    // What is begun is finished; what is older isn't begun.
                    next.fetch_max(files.len(), Ordering::Relaxed);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads.min(MOST_THREADS).min(files.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(index, _)| *index);
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, session)| session).collect())
}

/// The matches, for a terminal `width` columns wide.
#[must_use]
pub fn text(found: &[FoundSession], width: usize) -> String {
    if found.is_empty() {
        return "No matches.\n".to_owned();
    }
    let mut text = String::new();
    for session in found {
        let info = &session.info;
        let day = info.modified.strftime("%Y-%m-%d").to_string();
        let mut facts = vec![info.id.to_string(), day];
        facts.extend(info.branch.clone());
        facts.extend(info.tag.as_ref().map(|tag| format!("#{tag}")));
        facts.extend(info.cwd.as_ref().map(|cwd| cwd.display().to_string()));
        text.push_str(info.title.as_deref().unwrap_or("(no title)"));
        text.push('\n');
        text.push_str(&format!("  {}\n", facts.join(" · ")));
        for hit in &session.hits {
            let line = format!("  {}: {}", hit.who, hit.snippet);
            text.push_str(&crate::cli::cut(&line, width));
            text.push('\n');
        }
        if session.more {
            text.push_str("  …\n");
        }
        text.push('\n');
    }
    text.pop();
    text
}

/// The messages of one transcript that fit. A file that can't be read has none.
fn search_file(path: &Path, query: &Query, matcher: &Matcher) -> Option<FoundSession> {
    let narrowed = query.folder.is_some() || query.branch.is_some() || query.tag.is_some();
    let known = if narrowed {
        Some(info(path).filter(|info| query.wants(info))?)
    } else {
        None
    };
    let mut hits = Vec::new();
    let mut more = false;
    let mut lines = LineReader::new(path);
    let (mut has_tool, mut has_file) = (matcher.tool.is_none(), matcher.file.is_none());
    in_pieces(path, |piece| {
        let seen = |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|it| it.is_match(piece));
        has_tool = has_tool || seen(&matcher.tool);
        has_file = has_file || seen(&matcher.file);
        let mut at = 0;
        while let Some(found) = matcher.raw.find_at(piece, at) {
            let start = memchr::memrchr(b'\n', &piece[..found.start()]).map_or(0, |it| it + 1);
            let end = memchr::memchr(b'\n', &piece[found.end()..])
                .map_or(piece.len(), |it| found.end() + it);
            at = end;
            let hit = match lines.read(&piece[start..end]) {
                Line::Record(Record::Message(message)) => fits(&message, query, matcher),
                _ => None,
            };
            match hit {
                Some(_) if hits.len() == MOST_PER_SESSION => more = true,
                Some(hit) => hits.push(hit),
                None => {}
            }
            if more && has_tool && has_file {
                return false;
            }
        }
        true
    })
    .ok()?;
    if hits.is_empty() || !has_tool || !has_file {
        return None;
    }
    let info = known.or_else(|| info(path))?;
    Some(FoundSession { info, hits, more })
}

/// Calls `look` with pieces of whole lines until it returns `false` or the file ends.
fn in_pieces(path: &Path, mut look: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        let begun = buffer.len();
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut buffer)?;
        if read == 0 {
            look(&buffer);
            return Ok(());
        }
        // A line may be longer than a piece; then more is read.
        let Some(end) = memchr::memrchr(b'\n', &buffer[begun..]).map(|at| begun + at + 1) else {
            continue;
        };
        if !look(&buffer[..end]) {
            return Ok(());
        }
        buffer.drain(..end);
    }
}

fn fits(message: &MessageRecord, query: &Query, matcher: &Matcher) -> Option<Hit> {
    if message.is_meta || message.is_sidechain || !query.wants_time(&message.timestamp) {
        return None;
    }
    let (who, text) = words_of(message)?;
    let lower = text.to_lowercase();
    let all = matcher.words.iter().all(|word| lower.contains(word));
    all.then(|| Hit {
        record: message.uuid,
        who,
        timestamp: message.timestamp.clone(),
        snippet: snippet(&text, &lower, &matcher.words),
    })
}

/// Who said it and the words that the user sees of it.
fn words_of(message: &MessageRecord) -> Option<(String, String)> {
    let mut who = match message.kind {
        RecordKind::User => "you",
        RecordKind::Assistant => "model",
        RecordKind::System | RecordKind::Attachment | RecordKind::Progress => return None,
    }
    .to_owned();
    let mut text = String::new();
    for block in message.message.as_ref()?.blocks() {
        if !text.is_empty() {
            text.push('\n');
        }
        match block {
            ContentBlock::Text(block) => text.push_str(&block.text),
            ContentBlock::ToolUse(call) => {
                call.name.clone_into(&mut who);
                strings(&call.input, &mut text);
            }
            ContentBlock::ToolResult(result) => {
                "result".clone_into(&mut who);
                text.push_str(
                    &result
                        .content
                        .as_ref()
                        .map(Content::text)
                        .unwrap_or_default(),
                );
            }
            _ => {}
        }
    }
    (!text.trim().is_empty()).then_some((who, text))
}

/// The texts in a value, a line each.
fn strings(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| strings(item, out)),
        _ => {}
    }
}

/// The text around the first word that was found, on one line.
fn snippet(text: &str, lower: &str, words: &[String]) -> String {
    let at = words
        .iter()
        .filter_map(|word| lower.find(word.as_str()))
        .min();
    // Lower case may have another length; the place is then a little off, never inside a character.
    let at = text.floor_char_boundary(at.unwrap_or(0).min(text.len()));
    let before: Vec<char> = text[..at].chars().rev().take(AROUND).collect();
    let cut_before = text[..at].chars().nth(AROUND).is_some();
    let after: String = text[at..].chars().take(AROUND * 2).collect();
    let cut_after = text[at..].chars().nth(AROUND * 2).is_some();
    let around: String = before.into_iter().rev().chain(after.chars()).collect();
    let around = around.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "{}{around}{}",
        if cut_before { "…" } else { "" },
        if cut_after { "…" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_told_from_words() {
        let query = Query::parse("parser branch:main error: http://x after:2026-01-02");
        assert_eq!(query.words, ["parser", "error:", "http://x"]);
        assert_eq!(query.branch.as_deref(), Some("main"));
        assert_eq!(query.after.as_deref(), Some("2026-01-02"));
    }

    #[test]
    fn a_search_without_words_or_with_a_wrong_day_is_refused() {
        let refused = |text: &str| Query::parse(text).checked().err();
        assert_eq!(refused("branch:main"), Some(QueryError::NoWords));
        assert_eq!(
            refused("x after:yesterday"),
            Some(QueryError::NotADay("yesterday".to_owned()))
        );
        assert!(refused("x after:2026-11-01").is_none());
    }

    #[test]
    fn a_snippet_shows_what_stands_around_the_words() {
        let text = format!(
            "{}\nthe Needle is\nhere {}",
            "a".repeat(200),
            "b".repeat(300)
        );
        let lower = text.to_lowercase();
        let shown = snippet(&text, &lower, &["needle".to_owned()]);
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert!(shown.contains("the Needle is here bbb"), "{shown}");
    }
}
