//! Mentions in a prompt: `@file`, `@file#L1-20`, `@folder/` and images become attachments.
//!
//! A mention is an `@` at the start of a word, followed by a path that is there; with quotes the path
//! may hold blanks (`@"my file.txt"`). Anything else (a mail address, a decorator, a name) is left
//! alone. What is mentioned is put after the prompt as a record of its own, bounded in size; it doesn't
//! count as read, so the model still reads a file before it changes it. Files outside the session's
//! folders and files that hold secrets are not attached, and a notice says so.

use crate::conversation::Conversation;
use base64::Engine as _;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::event::NoticeLevel;
use lathe_tools::files::Stamp;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Mentions of one prompt that are followed.
const MOST_MENTIONS: usize = 20;
/// Bytes of a file that are shown.
const MOST_BYTES: usize = 60_000;
/// Lines of a file that are shown.
const MOST_LINES: usize = 2_000;
/// Entries of a folder that are listed.
const MOST_ENTRIES: usize = 200;
/// The largest image that the API takes.
const LARGEST_IMAGE: u64 = 3_750_000;

/// A mention in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The path as it was written.
    path: String,
    /// First and last line, from 1.
    lines: Option<(usize, usize)>,
}

/// The mentions of a text, in order, each once.
fn mentions(text: &str) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        let starts = letter == '@' && (before.is_whitespace() || "([{\"'`".contains(before));
        before = letter;
        if !starts {
            continue;
        }
        let rest = &text[at + 1..];
        let written = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => rest.split(char::is_whitespace).next().unwrap_or_default(),
        };
        if let Some(mention) = mention(written)
            && !found.contains(&mention)
            && found.len() < MOST_MENTIONS
        {
            found.push(mention);
        }
    }
    found
}

fn mention(written: &str) -> Option<Mention> {
    let (path, lines) = match written.rsplit_once("#L") {
        Some((path, range)) => (path, Some(line_range(range)?)),
        None => (written, None),
    };
    (!path.is_empty()).then(|| Mention {
        path: path.to_owned(),
        lines,
    })
}

fn line_range(text: &str) -> Option<(usize, usize)> {
    let text = text.trim_end_matches(['.', ',', ';', ':', ')', '!', '?']);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim_start_matches('L').parse::<usize>().ok();
    let (first, last) = (number(first)?, number(last)?);
    (first >= 1 && first <= last).then_some((first, last))
}

/// Attaches what a prompt mentions.
pub(crate) fn attach_mentions(conversation: &mut Conversation, text: &str) {
    if !text.contains('@') {
        return;
    }
    for mention in mentions(text) {
        let Some(path) = mentioned_path(conversation, &mention.path) else {
            continue;
        };
        let shown = conversation.shared.tools.shown(&path);
        if let Some(why) = conversation.shared.permissions.why_hidden(&path) {
            conversation.shared.events.notice(
                NoticeLevel::Warning,
                format!("@{shown} was not attached: {why}."),
            );
            continue;
        }
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let inside = conversation
            .shared
            .tools
            .roots
            .read()
            .iter()
            .any(|root| real.starts_with(root));
        if !inside {
            conversation.shared.events.notice(
                NoticeLevel::Warning,
                format!(
                    "@{shown} was not attached: it is outside the session's folders (--add-dir adds one)."
                ),
            );
            continue;
        }
        if let Some(attachment) = attachment(&path, &shown, mention.lines) {
            if let Ok(metadata) = std::fs::metadata(&path)
                && metadata.is_file()
            {
                let stamp = Stamp::of(&metadata);
                conversation
                    .shared
                    .tools
                    .file_cache
                    .record_injected(&path, stamp);
            }
            let record = conversation
                .records
                .attachment(conversation.tip, attachment);
            conversation.append(record);
        }
    }
}

/// The path that a mention means, if it is there. A sentence's full stop is no part of it.
fn mentioned_path(conversation: &Conversation, written: &str) -> Option<PathBuf> {
    let plain = written.trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '!', '?', '`', '\'']);
    [written, plain]
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| conversation.shared.tools.resolve_path(text))
        .find(|path| path.exists())
}

/// The attachment of a path.
fn attachment(path: &Path, shown: &str, lines: Option<(usize, usize)>) -> Option<Value> {
    let metadata = std::fs::metadata(path).ok()?;
    if metadata.is_dir() {
        return Some(json!({
            "type": "directory", "path": path.display().to_string(),
            "content": crate::conversation::records::reminder(&listing(path, shown)?),
        }));
    }
    if !metadata.is_file() {
        return None;
    }
    if let Some(kind) = image_kind(path) {
        return image(path, shown, kind, metadata.len());
    }
    let text = excerpt(path, shown, lines)?;
    Some(json!({
        "type": "file", "path": path.display().to_string(),
        "content": crate::conversation::records::reminder(&text),
    }))
}

fn image_kind(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

fn image(path: &Path, shown: &str, kind: &str, size: u64) -> Option<Value> {
    let content = if size > LARGEST_IMAGE {
        json!(crate::conversation::records::reminder(&format!(
            "The user mentioned the image {shown}. It is too large to show ({size} bytes)."
        )))
    } else {
        let data = base64::engine::general_purpose::STANDARD.encode(std::fs::read(path).ok()?);
        let words = crate::conversation::records::reminder(&format!(
            "The user mentioned the image {shown}:"
        ));
        serde_json::to_value([ContentBlock::text(words), ContentBlock::image(kind, data)]).ok()?
    };
    Some(json!({"type": "image", "path": path.display().to_string(), "content": content}))
}

fn listing(path: &Path, shown: &str) -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .ok()?
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if folder { format!("{name}/") } else { name }
        })
        .collect();
    names.sort();
    let more = names.len().saturating_sub(MOST_ENTRIES);
    names.truncate(MOST_ENTRIES);
    let mut text = format!("The user mentioned the folder {shown}. It contains:\n");
    text.push_str(&names.join("\n"));
    if more > 0 {
        let _ = write!(text, "\n[{more} more entries]");
    }
    Some(text)
}

fn excerpt(path: &Path, shown: &str, lines: Option<(usize, usize)>) -> Option<String> {
    // Lines far into a file are found, but a huge file is not read for them.
    const MOST_READ: u64 = 8 * 1024 * 1024;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST_READ).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return Some(format!(
            "The user mentioned {shown}, which is not a text file. Read it if a tool can."
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    let total = text.lines().count();
    let (first, last) = lines.unwrap_or((1, total.max(1)));
    let mut body = String::new();
    let mut shown_lines = 0;
    for line in text
        .split_inclusive('\n')
        .skip(first - 1)
        .take((last - first + 1).min(MOST_LINES))
    {
        if body.len() + line.len() > MOST_BYTES {
            break;
        }
        body.push_str(line);
        shown_lines += 1;
    }
    let wanted = last.min(total).saturating_sub(first - 1);
    let range = match lines {
        Some((first, last)) if first == last => format!(", line {first}"),
        Some((first, last)) => format!(", lines {first} to {last}"),
        None => String::new(),
    };
    let mut text = format!(
        "The user mentioned {shown}{range}. Its content:\n{}",
        body.trim_end_matches('\n')
    );
    if shown_lines < wanted {
        let _ = write!(
            text,
            "\n[Cut after {shown_lines} of {wanted} lines. Read the file for the rest.]"
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        mentions(text)
            .into_iter()
            .map(|mention| match mention.lines {
                Some((first, last)) => format!("{}:{first}-{last}", mention.path),
                None => mention.path,
            })
            .collect()
    }

    #[test]
    fn mentions_are_words_that_begin_with_an_at_sign() {
        assert_eq!(
            paths("see @src/main.rs and (@b.txt#L3-9) or @\"my file.md\" @src/main.rs"),
            ["src/main.rs", "b.txt:3-9", "my file.md"]
        );
        assert_eq!(paths("@a#L7"), ["a:7-7"]);
        assert!(paths("mail me@example.org @ #L3 @#L4 @x#L9-2").is_empty());
        let many: String = (0..100).map(|number| format!("@f{number} ")).collect();
        assert_eq!(paths(&many).len(), MOST_MENTIONS);
    }

    #[test]
    fn an_excerpt_is_what_was_asked_for_and_says_what_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let text: String = (1..=3_000).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let some = excerpt(&path, "a.txt", Some((10, 12))).unwrap();
        assert!(some.ends_with("line 10\nline 11\nline 12"), "{some}");
        let all = excerpt(&path, "a.txt", None).unwrap();
        assert!(all.contains("Cut after 2000 of 3000 lines"));
        let beyond = excerpt(&path, "a.txt", Some((2_999, 9_000))).unwrap();
        assert!(beyond.ends_with("line 2999\nline 3000"), "{beyond}");
        std::fs::write(&path, b"\0\x01").unwrap();
        assert!(
            excerpt(&path, "a.txt", None)
                .unwrap()
                .contains("not a text")
        );
    }

    #[test]
    fn a_folder_is_listed_and_an_image_shown() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("x.png"), b"png").unwrap();
        let listed = attachment(folder.path(), "f", None).unwrap();
        assert!(
            listed["content"]
                .as_str()
                .unwrap()
                .contains("inner/\nx.png")
        );
        let image = attachment(&folder.path().join("x.png"), "x.png", None).unwrap();
        assert_eq!(image["content"][1]["source"]["data"], "cG5n");
        assert!(attachment(&folder.path().join("gone"), "gone", None).is_none());
    }
}
