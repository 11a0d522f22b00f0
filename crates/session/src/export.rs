//! A session as a document: Markdown, plain text, or JSON.

use crate::load::Loaded;
use crate::store::SessionInfo;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::record::{MessageRecord, Record, RecordKind, RecordMessage};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// How to write an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Markdown.
    Markdown,
    /// Plain text.
    Text,
    /// One JSON object with the records as they are.
    Json,
    /// One page for a browser: foldable, searchable, dark or light.
    Html,
}

impl ExportFormat {
    /// The format that a file's name asks for: Markdown unless it ends in `.json`, `.txt` or `.html`.
    #[must_use]
    pub fn of_file(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("txt") => Self::Text,
            Some("html" | "htm") => Self::Html,
            _ => Self::Markdown,
        }
    }
}

/// Writes a session as a document.
#[must_use]
pub fn export(info: &SessionInfo, loaded: &Loaded, format: ExportFormat) -> String {
    match format {
        ExportFormat::Json => as_json(info, loaded),
        ExportFormat::Markdown => as_document(info, loaded, &Markdown),
        ExportFormat::Text => as_document(info, loaded, &Text),
        ExportFormat::Html => page(&as_document(info, loaded, &Html), info),
    }
}

fn as_json(info: &SessionInfo, loaded: &Loaded) -> String {
    let records: Vec<Value> = loaded
        .history()
        .iter()
        .filter_map(|record| serde_json::to_value(&**record).ok())
        .collect();
    format!("{:#}\n", json!({"session": info, "messages": records}))
}

/// How the parts of a document are written.
trait Style {
    fn title(&self, out: &mut String, title: &str);
    fn speaker(&self, out: &mut String, name: &str, time: &str);
    fn words(&self, out: &mut String, text: &str);
    fn aside(&self, out: &mut String, label: &str, text: &str, language: &str);
    fn rule(&self, out: &mut String, text: &str);
}

// Writing to a string can't fail, so the results of `write!` below are dropped.

struct Markdown;

impl Style for Markdown {
    fn title(&self, out: &mut String, title: &str) {
        let _ = writeln!(out, "# {title}\n");
    }

    fn speaker(&self, out: &mut String, name: &str, time: &str) {
        let _ = writeln!(out, "## {name}\n\n<sub>{time}</sub>\n");
    }

    fn words(&self, out: &mut String, text: &str) {
        let _ = writeln!(out, "{}\n", text.trim_end());
    }

    fn aside(&self, out: &mut String, label: &str, text: &str, language: &str) {
        // Longer than any run of backticks inside, or the block would end there.
        let longest = text
            .split(|letter| letter != '`')
            .map(str::len)
            .max()
            .unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let _ = writeln!(
            out,
            "**{label}**\n\n{fence}{language}\n{}\n{fence}\n",
            text.trim_end()
        );
    }

    fn rule(&self, out: &mut String, text: &str) {
        let _ = writeln!(out, "---\n\n*{text}*\n");
    }
}

struct Text;

impl Style for Text {
    fn title(&self, out: &mut String, title: &str) {
        let _ = writeln!(out, "{title}\n{}\n", "=".repeat(title.chars().count()));
    }

    fn speaker(&self, out: &mut String, name: &str, time: &str) {
        let _ = writeln!(out, "{name} ({time}):\n");
    }

    fn words(&self, out: &mut String, text: &str) {
        let _ = writeln!(out, "{}\n", text.trim_end());
    }

    fn aside(&self, out: &mut String, label: &str, text: &str, _language: &str) {
        let _ = writeln!(out, "  [{label}]");
        for line in text.trim_end().lines() {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }

    fn rule(&self, out: &mut String, text: &str) {
        let _ = writeln!(out, "--- {text} ---\n");
    }
}

struct Html;

impl Style for Html {
    fn title(&self, out: &mut String, title: &str) {
        let _ = writeln!(out, "<h1>{}</h1>", escaped(title));
    }

    fn speaker(&self, out: &mut String, name: &str, time: &str) {
        let _ = writeln!(
            out,
            "<h2 class=\"{}\">{} <time>{}</time></h2>",
            name.to_lowercase(),
            escaped(name),
            escaped(time)
        );
    }

    fn words(&self, out: &mut String, text: &str) {
        let _ = writeln!(
            out,
            "<div class=\"words\">{}</div>",
            escaped(text.trim_end())
        );
    }

    fn aside(&self, out: &mut String, label: &str, text: &str, _language: &str) {
        let first: String = text.trim().lines().next().unwrap_or_default().into();
        let first: String = first.chars().take(80).collect();
        let _ = writeln!(
            out,
            "<details><summary>{} <code>{}</code></summary><pre>{}</pre></details>",
            escaped(label),
            escaped(&first),
            escaped(text.trim_end())
        );
    }

    fn rule(&self, out: &mut String, text: &str) {
        let _ = writeln!(out, "<hr><p class=\"rule\">{}</p>", escaped(text));
    }
}

/// Text as it stands in HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Nothing in a page may reorder or hide what stands beside it.
            letter if letter.is_control() && !matches!(letter, '\n' | '\t') => {}
            letter => out.push(letter),
        }
    }
    out
}

/// The whole page: nothing is loaded from elsewhere.
fn page(body: &str, info: &SessionInfo) -> String {
    let title = escaped(info.title.as_deref().unwrap_or("Session"));
    include_str!("export.html")
        .replace("<!-- title -->", &title)
        .replace("<!-- body -->", body)
}

fn as_document(info: &SessionInfo, loaded: &Loaded, style: &dyn Style) -> String {
    let mut out = String::new();
    style.title(&mut out, info.title.as_deref().unwrap_or("Session"));
    let mut about = format!("Session {}", info.id);
    for (label, value) in [
        (
            "folder",
            info.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        ),
        ("branch", info.branch.clone()),
        ("begun", info.created.clone()),
    ] {
        if let Some(value) = value {
            let _ = write!(about, " · {label} {value}");
        }
    }
    style.words(&mut out, &about);
    let mut speaker = "";
    for record in loaded.history() {
        let Record::Message(record) = &*record else {
            continue;
        };
        if record.is_compact_boundary() {
            style.rule(&mut out, "The conversation was summarised here.");
            speaker = "";
            continue;
        }
        if !is_shown(record) {
            continue;
        }
        let name = speaker_of(record);
        if name != speaker && !name.is_empty() {
            style.speaker(&mut out, name, &record.timestamp);
            speaker = name;
        }
        if let Some(message) = &record.message {
            write_message(&mut out, message, style);
        }
    }
    out
}

fn is_shown(record: &MessageRecord) -> bool {
    matches!(record.kind, RecordKind::User | RecordKind::Assistant)
        && !record.is_meta
        && !record.is_compact_summary
}

/// Results belong to the model's turn, so they don't change who speaks.
fn speaker_of(record: &MessageRecord) -> &'static str {
    match record.kind {
        RecordKind::Assistant => "Assistant",
        RecordKind::User if record.is_prompt() => "You",
        _ => "",
    }
}

fn write_message(out: &mut String, message: &RecordMessage, style: &dyn Style) {
    for block in message.blocks() {
        match block {
            ContentBlock::Text(text) if !text.text.trim().is_empty() => {
                style.words(out, &text.text);
            }
            ContentBlock::Thinking(thinking) if !thinking.thinking.trim().is_empty() => {
                style.aside(out, "Thinking", &thinking.thinking, "");
            }
            ContentBlock::ToolUse(call) => {
                style.aside(out, &call.name, &format!("{:#}", call.input), "json");
            }
            ContentBlock::ToolResult(result) => {
                let label = if result.is_error == Some(true) {
                    "Error"
                } else {
                    "Result"
                };
                style.aside(out, label, &result_text(result.content.as_ref()), "");
            }
            ContentBlock::Image(_) => style.words(out, "[image]"),
            ContentBlock::Document(_) => style.words(out, "[document]"),
            ContentBlock::Other(value) => {
                let kind = value.get("type").and_then(Value::as_str).unwrap_or("block");
                style.aside(out, kind, &format!("{value:#}"), "json");
            }
            ContentBlock::Text(_)
            | ContentBlock::Thinking(_)
            | ContentBlock::RedactedThinking(_) => {}
        }
    }
}

fn result_text(content: Option<&Content>) -> String {
    match content {
        None => String::new(),
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Blocks(blocks)) => blocks
            .iter()
            .map(|block| match block {
                ContentBlock::Text(text) => text.text.clone(),
                other => format!("[{}]", other.kind()),
            })
            .collect::<Vec<_>>()
            .join("\n"),
    }
}
