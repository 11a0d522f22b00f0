//! The content of a response: a page, text, an image or a file.

use crate::charset;
use crate::html;
use url::Url;

/// The content of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text, and Markdown made of HTML.
    Text {
        /// The text.
        text: String,
        /// The title of the page.
        title: String,
        /// The original format.
        kind: Kind,
    },
    /// A picture.
    Image(Vec<u8>),
    /// Something for a program.
    File {
        /// The bytes.
        bytes: Vec<u8>,
        /// The content type that the server sent.
        media_type: String,
        /// How the names of such files end.
        extension: &'static str,
    },
}

/// The original format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A page that was made Markdown.
    Html,
    /// Text as it was sent.
    Plain,
}

impl Content {
    /// Reads an answer.
    #[must_use]
    pub fn of(bytes: Vec<u8>, content_type: &str, address: &Url) -> Self {
        let media_type = content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let kind = match media_type.as_str() {
            "" | "application/octet-stream" | "unknown/unknown" => sniff(&bytes),
            "text/html" | "application/xhtml+xml" => Guess::Html,
            "image/svg+xml" => Guess::Plain,
            kind if kind.starts_with("image/") => Guess::Image,
            kind if is_text(kind) => Guess::Plain,
            _ => Guess::File,
        };
        // Bytes that aren't text are a file, whatever they are called.
        let kind = match kind {
            Guess::Html | Guess::Plain if is_binary(&bytes, content_type) => {
                sniff(&bytes).unless_text()
            }
            kind => kind,
        };
        match kind {
            Guess::Html => {
                let source = charset::decode(&bytes, content_type, true);
                let article = html::to_markdown(&source, address);
                let mut text = article.markdown;
                if let Some(refresh) = article.refresh {
                    text.push_str(&format!("\n\n(The page sends its reader to <{refresh}>.)"));
                }
                Self::Text {
                    text,
                    title: article.title,
                    kind: Kind::Html,
                }
            }
            Guess::Plain => Self::Text {
                text: charset::decode(&bytes, content_type, false),
                title: String::new(),
                kind: Kind::Plain,
            },
            Guess::Image => Self::Image(bytes),
            Guess::File => Self::File {
                extension: extension(&media_type, &bytes),
                bytes,
                media_type,
            },
        }
    }

    /// How much memory it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Text { text, title, .. } => text.len() + title.len(),
            Self::Image(bytes) | Self::File { bytes, .. } => bytes.len(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    Html,
    Plain,
    Image,
    File,
}

impl Guess {
    fn unless_text(self) -> Self {
        match self {
            Self::Image => Self::Image,
            Self::Html | Self::Plain | Self::File => Self::File,
        }
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || media_type.ends_with("+yaml")
        || matches!(
            media_type,
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/ecmascript"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/graphql"
                | "application/sql"
                | "application/x-sh"
                | "application/x-ndjson"
                | "application/jsonl"
                | "application/rtf"
        )
}

fn is_binary(bytes: &[u8], content_type: &str) -> bool {
    let wide = encoding_rs::Encoding::for_bom(bytes).is_some()
        || charset::parameter(content_type, "charset")
            .is_some_and(|label| label.to_ascii_lowercase().starts_with("utf-16"));
    !wide && bytes.iter().take(4_096).any(|byte| *byte == 0)
}

fn sniff(bytes: &[u8]) -> Guess {
    let start = bytes.get(..512).unwrap_or(bytes);
    let pictures: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM"];
    let is_webp = start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP");
    if is_webp || pictures.iter().any(|picture| start.starts_with(picture)) {
        return Guess::Image;
    }
    if is_binary(bytes, "") || start.starts_with(b"%PDF-") {
        return Guess::File;
    }
    let text = String::from_utf8_lossy(start).to_ascii_lowercase();
    let text = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    let pages = [
        "<!doctype html",
        "<html",
        "<head",
        "<body",
        "<title",
        "<script",
        "<!--",
        "<div",
        "<p>",
    ];
    if pages.iter().any(|page| text.starts_with(page)) {
        return Guess::Html;
    }
    Guess::Plain
}

fn extension(media_type: &str, bytes: &[u8]) -> &'static str {
    match media_type {
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/gzip" | "application/x-gzip" => "gz",
        "application/x-tar" => "tar",
        "application/wasm" => "wasm",
        "application/msword" => "doc",
        "application/epub+zip" => "epub",
        kind if kind.contains("wordprocessingml") => "docx",
        kind if kind.contains("spreadsheetml") => "xlsx",
        kind if kind.contains("presentationml") => "pptx",
        "audio/mpeg" => "mp3",
        "video/mp4" => "mp4",
        _ if bytes.starts_with(b"%PDF-") => "pdf",
        _ => "bin",
    }
}
