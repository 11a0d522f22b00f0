//! Converts the result of an MCP call: text and pictures as blocks, everything else as a file or as
//! words that say what it was.
//!
//! A server is not trusted with anything here. Control characters are taken out, so nothing it says can
//! steer a terminal. A link is shown and never followed. Pictures are made to fit, sounds and other bytes
//! go to files of the session, and text beyond the limit goes to a file with a preview of its beginning.

use crate::tool::ToolOutput;
use base64::Engine as _;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::display::Display;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How many tokens of an answer the model gets unless `MAX_MCP_OUTPUT_TOKENS` says otherwise.
pub const MOST_TOKENS: usize = 25_000;
/// Bytes that are taken for a token: a guess on the safe side for text and JSON.
const BYTES_PER_TOKEN: usize = 4;
/// How much of a large answer the model sees.
const PREVIEW_BYTES: usize = 2_000;
/// How many pictures of one answer are shown.
const MOST_PICTURES: usize = 20;

/// Where the parts of an answer go that are not shown.
#[derive(Debug, Clone)]
pub struct ResultStore {
    /// The folder; created on first use.
    pub folder: PathBuf,
    /// The base of file names.
    pub name: String,
    /// How many bytes of text are shown.
    pub most_bytes: usize,
}

impl ResultStore {
    /// A place for the answer to one call. `limit` is the value of `MAX_MCP_OUTPUT_TOKENS`, if it is set.
    #[must_use]
    pub fn new(folder: &Path, name: &str, limit: Option<&str>) -> Self {
        let tokens = limit
            .and_then(|limit| limit.trim().parse::<usize>().ok())
            .filter(|tokens| *tokens > 0)
            .unwrap_or(MOST_TOKENS);
        let name: String = name
            .chars()
            .map(|letter| match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => letter,
                _ => '_',
            })
            .take(100)
            .collect();
        Self {
            folder: folder.to_owned(),
            name,
            most_bytes: tokens.saturating_mul(BYTES_PER_TOKEN),
        }
    }

    /// Writes a new file, for this person only.
    fn store(&self, part: usize, ending: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(format!("{}-{part}.{ending}", self.name));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        match options.open(&path) {
            Ok(mut file) => {
                if let Err(error) = file.write_all(bytes) {
                    drop(file);
                    let _ = std::fs::remove_file(&path);
                    return Err(error);
                }
                Ok(path)
            }
            // The same call after a resume.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(path),
            Err(error) => Err(error),
        }
    }
}

/// The output of a `CallToolResult`.
#[must_use]
pub fn of_call(result: &Value, place: &ResultStore) -> ToolOutput {
    let items = result.get("content").and_then(Value::as_array);
    let mut parts = Parts::new(place);
    for item in items.into_iter().flatten() {
        parts.item(item);
    }
    if let Some(structured) = result
        .get("structuredContent")
        .filter(|structured| !structured.is_null())
        && !parts.says(structured)
    {
        parts.text(&structured.to_string());
    }
    let is_error = result
        .get("isError")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    parts.output(is_error)
}

/// The output of a `ReadResourceResult`.
#[must_use]
pub fn of_resource(result: &Value, place: &ResultStore) -> ToolOutput {
    let contents = result.get("contents").and_then(Value::as_array);
    let mut parts = Parts::new(place);
    for item in contents.into_iter().flatten() {
        parts.resource(item);
    }
    parts.output(false)
}

/// The blocks of a prompt's message or of anything else that has the shape of content.
#[must_use]
pub fn of_content(content: &Value, place: &ResultStore) -> Vec<ContentBlock> {
    let mut parts = Parts::new(place);
    match content {
        Value::Array(items) => {
            for item in items {
                parts.item(item);
            }
        }
        Value::String(text) => parts.text(text),
        item => parts.item(item),
    }
    parts.finish()
}

/// The words of a `CallToolResult`.
#[must_use]
pub fn text_of(result: &Value) -> String {
    let items = result.get("content").and_then(Value::as_array);
    let texts: Vec<&str> = items
        .into_iter()
        .flatten()
        .filter_map(|item| item.get("text")?.as_str())
        .collect();
    texts.join("\n")
}

struct Parts<'a> {
    place: &'a ResultStore,
    blocks: Vec<ContentBlock>,
    pictures: usize,
    /// How many files were written.
    files: usize,
}

impl<'a> Parts<'a> {
    fn new(place: &'a ResultStore) -> Self {
        Self {
            place,
            blocks: Vec::new(),
            pictures: 0,
            files: 0,
        }
    }

    fn text(&mut self, text: &str) {
        self.blocks.push(ContentBlock::text(clean(text)));
    }

    /// Whether a text says the same as a structured value already.
    fn says(&self, structured: &Value) -> bool {
        self.blocks.iter().any(|block| match block {
            ContentBlock::Text(text) => {
                serde_json::from_str::<Value>(&text.text).is_ok_and(|said| said == *structured)
            }
            _ => false,
        })
    }

    fn item(&mut self, item: &Value) {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let mime = text("mimeType").unwrap_or_default();
        match text("type").unwrap_or_default() {
            "text" => self.text(text("text").unwrap_or_default()),
            "image" => self.bytes("image", mime, text("data").unwrap_or_default(), None),
            "audio" => self.bytes("audio", mime, text("data").unwrap_or_default(), None),
            "resource" => {
                if let Some(resource) = item.get("resource") {
                    self.resource(resource);
                }
            }
            "resource_link" => {
                let mut words = format!(
                    "[A link to the resource {}: {}",
                    text("uri").unwrap_or("?"),
                    text("title").or(text("name")).unwrap_or("without a name"),
                );
                if let Some(description) = text("description") {
                    let _ = write!(words, " — {description}");
                }
                if !mime.is_empty() {
                    let _ = write!(words, " ({mime})");
                }
                words.push(']');
                self.text(&words);
            }
            other => self.text(&format!(
                "[Content of type {other:?}, which can't be shown.]"
            )),
        }
    }

    fn resource(&mut self, resource: &Value) {
        let text = |name: &str| resource.get(name).and_then(Value::as_str);
        let uri = text("uri").unwrap_or("?");
        if let Some(words) = text("text") {
            self.text(&format!("[The resource {uri}]\n{words}"));
        } else if let Some(blob) = text("blob") {
            let mime = text("mimeType").unwrap_or_default();
            let kind = if mime.starts_with("image/") {
                "image"
            } else {
                "resource"
            };
            self.bytes(kind, mime, blob, Some(uri));
        } else {
            self.text(&format!("[The resource {uri}, without content]"));
        }
    }

    /// Bytes: a picture that the model can see, or a file.
    fn bytes(&mut self, kind: &str, mime: &str, data: &str, uri: Option<&str>) {
        let what = match uri {
            Some(uri) => format!("the resource {uri}"),
            None => format!("an {kind}"),
        };
        let compact: String = data.split_ascii_whitespace().collect();
        let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(compact) else {
            self.text(&format!("[{what} omitted: its data is not base64.]"));
            return;
        };
        if kind == "image" && self.pictures < MOST_PICTURES {
            match lathe_images::fit(&bytes) {
                Ok(picture) => {
                    self.pictures += 1;
                    let data = base64::engine::general_purpose::STANDARD.encode(&picture.bytes);
                    self.blocks
                        .push(ContentBlock::image(picture.media_type, data));
                    return;
                }
                Err(error) => {
                    self.text(&format!("[The image can't be shown: {error}.]"));
                }
            }
        }
        self.files += 1;
        let size = bytes.len();
        let mime = if mime.is_empty() {
            "unknown type"
        } else {
            mime
        };
        let words = match self.place.store(self.files, ending(mime), &bytes) {
            Ok(path) => format!(
                "[Saved {what} ({mime}, {size} bytes) to {}]",
                path.display()
            ),
            Err(error) => format!(
                "[{what} ({mime}, {size} bytes) could not be saved in {}: {error}]",
                self.place.folder.display()
            ),
        };
        self.text(&words);
    }

    /// The blocks, with the text bounded.
    fn finish(mut self) -> Vec<ContentBlock> {
        if self.blocks.is_empty() {
            self.text("(The server gave no content.)");
        }
        let length: usize = self
            .blocks
            .iter()
            .map(|block| match block {
                ContentBlock::Text(text) => text.text.len(),
                _ => 0,
            })
            .sum();
        if length <= self.place.most_bytes {
            return self.blocks;
        }
        let mut all = String::with_capacity(length + self.blocks.len());
        let mut others = Vec::new();
        for block in self.blocks {
            match block {
                ContentBlock::Text(text) => {
                    if !all.is_empty() {
                        all.push('\n');
                    }
                    all.push_str(&text.text);
                }
                other => others.push(other),
            }
        }
        let lines = all.lines().count();
        let preview = beginning(&all, PREVIEW_BYTES);
        let size = all.len();
        let words = match self.place.store(0, "txt", all.as_bytes()) {
            Ok(path) => format!(
                "The answer is too large to show ({size} bytes, {lines} lines). All of it is in {}; read parts of it with Read (offset, limit) or search it with Grep. A narrower question may give a shorter answer.\nIt begins:\n{preview}\n[…]",
                path.display()
            ),
            Err(error) => format!(
                "The answer is too large to show ({size} bytes, {lines} lines) and could not be saved in {} ({error}). Ask for less.\nIt begins:\n{preview}\n[…]",
                self.place.folder.display()
            ),
        };
        let mut blocks = vec![ContentBlock::text(words)];
        blocks.append(&mut others);
        blocks
    }

    fn output(self, is_error: bool) -> ToolOutput {
        let content = Content::Blocks(self.finish());
        let text = content.text();
        let structured = if is_error {
            Value::from(format!("Error: {text}"))
        } else {
            serde_json::to_value(&content).unwrap_or_default()
        };
        ToolOutput {
            display: Display::Text { text },
            content,
            structured,
            is_error,
        }
    }
}

/// The first bytes of a text, cut between characters.
fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The ending of a file's name for a media type.
fn ending(mime: &str) -> &'static str {
    match mime.split(';').next().unwrap_or_default().trim() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" => "flac",
        "audio/mp4" | "audio/m4a" => "m4a",
        "image/svg+xml" => "svg",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "application/gzip" => "gz",
        "text/plain" => "txt",
        "text/csv" => "csv",
        "text/html" => "html",
        "video/mp4" => "mp4",
        _ => "bin",
    }
}

/// A text without anything that could steer a terminal: escape sequences go as a whole, other control
/// characters one by one; line ends and tabs stay.
#[must_use]
pub fn clean(text: &str) -> String {
    let is_plain = |letter: char| !letter.is_control() || letter == '\n' || letter == '\t';
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.peek() {
                // A control sequence ends with a letter of this range; so does what began with 0x9b.
                Some('[') => {
                    letters.next();
                    skip_sequence(&mut letters);
                }
                // An operating system command ends with BEL or ESC \.
                Some(']' | 'P' | '^' | '_' | 'X') => {
                    letters.next();
                    skip_string(&mut letters);
                }
                Some(_) => {
                    letters.next();
                }
                None => {}
            },
            '\u{9b}' => skip_sequence(&mut letters),
            '\u{9d}' | '\u{90}' | '\u{9e}' | '\u{9f}' | '\u{98}' => skip_string(&mut letters),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\r' => cleaned.push('\n'),
            letter if is_plain(letter) => cleaned.push(letter),
            _ => {}
        }
    }
    cleaned
}

/// No real sequence is longer; a text that only looks like one must not vanish.
const LONGEST_SEQUENCE: usize = 64;
const LONGEST_STRING: usize = 4_096;

fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    for _ in 0..LONGEST_SEQUENCE {
        match letters.peek() {
            Some('\u{20}'..='\u{3f}') => {
                letters.next();
            }
            Some('\u{40}'..='\u{7e}') => {
                letters.next();
                return;
            }
            _ => return,
        }
    }
}

fn skip_string(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    for _ in 0..LONGEST_STRING {
        match letters.next() {
            None | Some('\u{7}' | '\u{9c}') => return,
            Some('\u{1b}') => {
                letters.next_if_eq(&'\\');
                return;
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(folder: &Path) -> ResultStore {
        ResultStore::new(folder, "toolu/1", None)
    }

    fn blocks(output: &ToolOutput) -> &[ContentBlock] {
        let Content::Blocks(blocks) = &output.content else {
            panic!("not blocks");
        };
        blocks
    }

    /// A picture of one red point.
    const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

    #[test]
    fn every_kind_of_content_becomes_something_that_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let result = of_call(
            &json!({"content": [
                {"type": "text", "text": "hello"},
                {"type": "image", "mimeType": "image/png", "data": PICTURE},
                {"type": "resource", "resource": {"uri": "x://y", "text": "inner"}},
                {"type": "resource", "resource": {"uri": "x://z", "blob": "AAEC", "mimeType": "application/pdf"}},
                {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///etc/passwd", "name": "p", "description": "d"},
                {"type": "hologram"},
                {"type": "image", "mimeType": "image/png", "data": "!!"},
                {"type": "image", "mimeType": "image/png", "data": "AAEC"},
            ]}),
            &place(folder.path()),
        );
        let kinds: Vec<&str> = blocks(&result).iter().map(ContentBlock::kind).collect();
        assert_eq!(kinds[..3], ["text", "image", "text"]);
        let text = result.content.text();
        for words in [
            "hello",
            "x://y",
            "inner",
            "toolu_1-1.pdf",
            "toolu_1-2.wav",
            "file:///etc/passwd",
            "hologram",
            "not base64",
            "can't be shown",
        ] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
        assert!(!text.contains("root:"), "a link was followed");
        let pdf = std::fs::read(folder.path().join("toolu_1-1.pdf")).unwrap();
        assert_eq!(pdf, [0, 1, 2]);
        assert!(result.structured.is_array() && !result.is_error);
    }

    #[test]
    fn failures_say_so_and_nothing_is_said_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let failed = of_call(
            &json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
            &place,
        );
        assert!(failed.is_error);
        assert_eq!(failed.structured, "Error: no");
        assert!(
            of_call(&json!({}), &place)
                .content
                .text()
                .contains("no content")
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn structured_content_is_shown_unless_a_text_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let both = of_call(
            &json!({"content": [{"type": "text", "text": "{\"b\": 2, \"a\": 1}"}],
                "structuredContent": {"a": 1, "b": 2}}),
            &place,
        );
        assert_eq!(blocks(&both).len(), 1);
        let more = of_call(
            &json!({"content": [{"type": "text", "text": "two rows"}], "structuredContent": {"rows": [1, 2]}}),
            &place,
        );
        assert_eq!(more.content.text(), "two rows\n{\"rows\":[1,2]}");
    }

    #[test]
    fn a_large_answer_goes_to_a_file_with_a_preview_and_pictures_stay() {
        let folder = tempfile::tempdir().unwrap();
        let place = ResultStore::new(folder.path(), "c", Some("1000"));
        let long = "é234567\n".repeat(1_000);
        let result = of_call(
            &json!({"content": [{"type": "text", "text": long}, {"type": "image", "data": PICTURE},
                {"type": "text", "text": "the end"}]}),
            &place,
        );
        assert_eq!(blocks(&result).len(), 2);
        let text = result.content.text();
        assert!(text.len() < 3_000 && text.contains("c-0.txt"), "{text}");
        let stored = std::fs::read_to_string(folder.path().join("c-0.txt")).unwrap();
        assert!(stored.starts_with(&long) && stored.ends_with("the end"));
        assert_eq!(
            ResultStore::new(folder.path(), "c", Some("nonsense")).most_bytes,
            100_000
        );
    }

    #[test]
    fn nothing_that_a_server_says_can_steer_a_terminal() {
        for (said, shown) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            (
                "\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\",
                "link",
            ),
            ("a\u{9b}2Jb", "ab"),
            ("a\u{0}\u{8}b\u{7f}", "ab"),
            ("one\r\ntwo\rthree", "one\ntwo\nthree"),
            ("\u{1b}", ""),
            ("\u{1b}cx", "x"),
        ] {
            assert_eq!(clean(said), shown, "{said:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let result = of_call(
            &json!({"content": [{"type": "text", "text": "\u{1b}[2Jgone"},
                {"type": "resource_link", "uri": "a\u{1b}[1mb", "name": "n\u{7}"}]}),
            &place(folder.path()),
        );
        assert!(
            !result
                .content
                .text()
                .chars()
                .any(|letter| letter.is_control() && letter != '\n')
        );
        let Display::Text { text } = &result.display else {
            panic!()
        };
        assert!(!text.contains('\u{1b}'));
    }
}
