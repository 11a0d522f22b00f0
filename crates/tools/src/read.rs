//! Read: text by lines, pictures, PDF documents and notebooks.
//!
//! The format of a file is detected from its bytes (a notebook from its name). Text is shown in numbered lines;
//! how that is done without loading a large file is in `text_window`.

use crate::change::blocking;
use crate::context::{CallContext, ToolContext};
use crate::editor;
use crate::file_cache::{ReadFact, ReadQuestion};
use crate::files::{self, Stamp, hash_of};
use crate::text_file::{self, Encoding};
use crate::text_window::{self, LineCount, Window, WindowError};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use crate::{missing_file, notebook_view, pdf};
use base64::Engine as _;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much of a file is looked at to tell what it is.
const START: usize = 8192;
/// Lines shown unless asked otherwise.
const DEFAULT_LINES: usize = 2000;
/// The largest file that is read without saying which part.
const LARGEST_WITHOUT_LIMIT: u64 = 256 * 1024;
/// Files up to this size are loaded whole even when a part is asked for: their hash is then known.
const LOADED_UP_TO: u64 = 1024 * 1024;
/// The largest UTF-16 file: its lines can't be found without decoding all of it.
const LARGEST_UTF16: u64 = 64 * 1024 * 1024;
/// The largest file whose outline is given.
const LARGEST_OUTLINED: u64 = 8 * 1024 * 1024;
/// The largest picture, PDF or notebook file.
const LARGEST_LOADED: u64 = 64 * 1024 * 1024;
/// The most that one answer may hold, in tokens.
pub(crate) const MOST_TOKENS: usize = 25_000;

/// Reads a file.
pub struct Read;

/// Which part of which file.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The file to read.
    file_path: String,
    /// First line to read, from 1.
    #[serde(default)]
    offset: Option<usize>,
    /// How many lines to read.
    #[serde(default)]
    limit: Option<usize>,
    /// Pages of a PDF: "3" or "1-5", at most 20.
    #[serde(default)]
    pages: Option<String>,
}

impl Tool for Read {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Read"
    }

    fn description(&self) -> &'static str {
        include_str!("read.md")
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["file_path"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("path", "file_path")]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        Subject::Read {
            paths: vec![context.resolve_path(&input.file_path)],
        }
    }

    fn activity(&self, input: &Input) -> String {
        format!("Reading {}", input.file_path)
    }

    /// The limits are in here, with an error that says how to stay within them.
    fn result_limit(&self) -> Option<usize> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let request = Arc::new(Request {
            path: context.session.resolve_path(&input.file_path),
            question: ReadQuestion {
                offset: input.offset,
                limit: input.limit,
                pages: input.pages,
            },
            context,
        });
        let reading = Arc::clone(&request);
        match blocking(move || reading.read()).await? {
            Outcome::Done(output) => Ok(output),
            Outcome::Pdf(document, stamp) => {
                let output = pdf::read(&document, &request.context).await?;
                request.remember_whole(stamp, &document.bytes);
                Ok(output)
            }
        }
    }
}

enum Outcome {
    Done(ToolOutput),
    Pdf(pdf::Document, Stamp),
}

struct Request {
    path: PathBuf,
    question: ReadQuestion,
    context: CallContext,
}

/// A file that was opened and found to be a regular one, or an editor's buffer that was not saved.
struct Opened {
    content: Source,
    stamp: Stamp,
    /// The first bytes.
    start: Vec<u8>,
}

enum Source {
    File(File),
    Unsaved(Vec<u8>),
}

impl Opened {
    fn unsaved(text: String) -> Self {
        Self {
            stamp: Stamp::unsaved(&text),
            start: text.bytes().take(START).collect(),
            content: Source::Unsaved(text.into_bytes()),
        }
    }
}

impl Request {
    fn read(&self) -> Result<Outcome, ToolError> {
        let mut opened = self.open_or_buffer()?;
        let cache = &self.context.session.file_cache;
        let present_hash = || match &opened.content {
            Source::File(_) => std::fs::read(&self.path).ok().map(|bytes| hash_of(&bytes)),
            Source::Unsaved(bytes) => Some(hash_of(bytes)),
        };
        if cache.is_answered(&self.path, opened.stamp, &self.question, present_hash) {
            return Ok(Outcome::Done(self.unchanged()));
        }
        let start = opened.start.as_slice();
        if start.starts_with(b"%PDF-") {
            let bytes = self.load(&mut opened, LARGEST_LOADED)?;
            let document = pdf::Document {
                path: self.path.clone(),
                bytes,
                pages: self.question.pages.clone(),
            };
            return Ok(Outcome::Pdf(document, opened.stamp));
        }
        if self.question.pages.is_some() {
            return Err(ToolError::invalid(format!(
                "{} is not a PDF, so it has no pages. Use offset and limit for lines.",
                self.shown()
            )));
        }
        // Two letters of text can look like the start of a BMP, so that kind must be binary too.
        let picture = lathe_images::media_type(start)
            .is_some_and(|kind| kind != "image/bmp" || text_file::looks_binary(start));
        if picture {
            return self.picture(opened).map(Outcome::Done);
        }
        if self.path.extension().is_some_and(|kind| kind == "ipynb") {
            return self.notebook(opened).map(Outcome::Done);
        }
        if text_file::looks_binary(start) {
            return Err(ToolError::failed(format!(
                "{} is a binary file ({} bytes) and can't be shown as text. Inspect it with a shell command (file, xxd, strings).",
                self.shown(),
                opened.stamp.size
            )));
        }
        self.text(opened).map(Outcome::Done)
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// The file, or the text that an editor has for it and did not save.
    fn open_or_buffer(&self) -> Result<Opened, ToolError> {
        if self.context.session.editor.is_none() {
            return self.open();
        }
        let missing = !self.path.exists();
        let mut opened = match self.open() {
            Err(error) if missing => {
                return editor::unsaved(&self.context, &self.path, None)
                    .map(Opened::unsaved)
                    .ok_or(error);
            }
            opened => opened?,
        };
        if text_file::looks_binary(&opened.start) || opened.stamp.size > LARGEST_LOADED {
            return Ok(opened);
        }
        let bytes = self.load(&mut opened, LARGEST_LOADED)?;
        if let Source::File(file) = &mut opened.content {
            file.rewind().map_err(|error| {
                ToolError::failed(format!("{} could not be read: {error}.", self.shown()))
            })?;
        }
        let unsaved = editor::unsaved(&self.context, &self.path, Some(&bytes));
        Ok(unsaved.map_or(opened, Opened::unsaved))
    }

    fn open(&self) -> Result<Opened, ToolError> {
        for hop in files::link_hops(&self.path)? {
            if is_stream_or_device(&hop) {
                return Err(ToolError::failed(format!(
                    "{} is a device or a stream, not a file, so it is not read.",
                    self.shown()
                )));
            }
        }
        // Looked at before it is opened (opening a device can have effects), and without waiting
        // should it have become a named pipe in between.
        let look = |metadata: &std::fs::Metadata| {
            if metadata.is_dir() {
                return Err(ToolError::failed(format!(
                    "{} is a directory. List it with Glob (pattern \"{}/*\") or `ls`.",
                    self.shown(),
                    self.path.display()
                )));
            }
            if let Some(kind) = files::special_kind(metadata) {
                return Err(ToolError::failed(format!(
                    "{} is {kind}, not a file, so it is not read.",
                    self.shown()
                )));
            }
            Ok(())
        };
        let refused = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                ToolError::failed(missing_file::message(&self.path, &self.context.session))
            } else {
                ToolError::failed(format!("{} could not be read: {error}.", self.shown()))
            }
        };
        look(&std::fs::metadata(&self.path).map_err(refused)?)?;
        let mut file = File::options()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(&self.path)
            .map_err(refused)?;
        let metadata = file.metadata().map_err(refused)?;
        look(&metadata)?;
        let mut start = Vec::with_capacity(START);
        (&mut file)
            .take(START as u64)
            .read_to_end(&mut start)
            .map_err(refused)?;
        file.rewind().map_err(refused)?;
        Ok(Opened {
            content: Source::File(file),
            stamp: Stamp::of(&metadata),
            start,
        })
    }

    /// All bytes of a file that may have at most so many.
    fn load(&self, opened: &mut Opened, most: u64) -> Result<Vec<u8>, ToolError> {
        let mut bytes =
            Vec::with_capacity(usize::try_from(opened.stamp.size.min(most)).unwrap_or(0));
        match &mut opened.content {
            // The size is not trusted: files under /proc say 0, and a log may grow meanwhile.
            Source::File(file) => {
                file.take(most + 1)
                    .read_to_end(&mut bytes)
                    .map_err(|error| {
                        ToolError::failed(format!("{} could not be read: {error}.", self.shown()))
                    })?;
            }
            Source::Unsaved(text) => bytes.extend_from_slice(text),
        }
        if bytes.len() as u64 > most {
            return Err(ToolError::failed(format!(
                "{} is {}, more than the {} that can be read at once. {}",
                self.shown(),
                size_words(opened.stamp.size.max(bytes.len() as u64)),
                size_words(most),
                ADVICE
            )));
        }
        Ok(bytes)
    }

    fn unchanged(&self) -> ToolOutput {
        ToolOutput::new(
            format!(
                "{} is unchanged since you read it; the earlier content is still current.",
                self.shown()
            ),
            json!({"type": "file_unchanged", "file": {"filePath": self.path}}),
            Display::Text {
                text: "Unchanged since last read".to_owned(),
            },
        )
    }

    fn remember_whole(&self, stamp: Stamp, bytes: &[u8]) {
        self.context.session.file_cache.record_read(
            &self.path,
            ReadFact {
                stamp,
                bytes: Some(bytes),
                text: None,
                lines: None,
                total_lines: None,
                question: self.question.clone(),
            },
        );
    }

    fn text(&self, mut opened: Opened) -> Result<ToolOutput, ToolError> {
        let size = opened.stamp.size;
        let first = self.question.offset.unwrap_or(1).max(1);
        let most = self.question.limit.unwrap_or(DEFAULT_LINES);
        if most == 0 {
            return Err(ToolError::invalid("limit must be at least 1."));
        }
        let asked_for_part = self.question.limit.is_some();
        if size > LARGEST_WITHOUT_LIMIT && !asked_for_part {
            return Err(ToolError::failed(format!(
                "{} is {}, too large to read at once (the limit is {}). {ADVICE}{}",
                self.shown(),
                size_words(size),
                size_words(LARGEST_WITHOUT_LIMIT),
                self.outline_of(&mut opened, size),
            )));
        }
        let is_utf16 =
            Encoding::of_start(&opened.start).is_some_and(|(encoding, _)| encoding.is_utf16());
        let is_unsaved = opened.stamp.is_unsaved();
        if size <= LOADED_UP_TO || is_utf16 || is_unsaved {
            let largest = match (is_unsaved, is_utf16) {
                (true, _) => LARGEST_LOADED,
                (false, true) => LARGEST_UTF16,
                (false, false) => LOADED_UP_TO,
            };
            let bytes = self.load(&mut opened, largest)?;
            let (text, encoding) = text_file::decode(&bytes).map_err(|error| {
                ToolError::failed(format!("{} can't be read as text: {error}.", self.shown()))
            })?;
            if text.is_empty() {
                self.remember_whole(opened.stamp, &bytes);
                return Ok(self.empty());
            }
            let window = text_window::of_text(&text, encoding, first, most)
                .map_err(|error| self.no_window(error))?;
            let mut output = self.shown_window(&window)?;
            let last = window.first + window.count - 1;
            if last < window.total.number() && self.question.is_whole() {
                output.add_text(&outlined(&text, &self.path, last));
            }
            self.remember(opened.stamp, &window, Some((&bytes, &text)));
            return Ok(output);
        }
        let cache = &self.context.session.file_cache;
        let from = cache.bookmark(&self.path, opened.stamp, first);
        let Source::File(file) = &mut opened.content else {
            return Err(ToolError::failed(format!(
                "{} does not exist on disk.",
                self.shown()
            )));
        };
        file.seek(SeekFrom::Start(from.byte))
            .map_err(|error| self.no_window(error.into()))?;
        let cancel = &self.context.cancel;
        let window =
            text_window::of_stream(&*file, from, size, first, most, || cancel.is_cancelled())
                .map_err(|error| self.no_window(error))?;
        let output = self.shown_window(&window)?;
        self.remember(opened.stamp, &window, None);
        if let Some(next) = window.next {
            cache.add_bookmark(&self.path, opened.stamp, next);
        }
        Ok(output)
    }

    /// The outline of a file that is too large to be shown, as far as it is read for that.
    fn outline_of(&self, opened: &mut Opened, size: u64) -> String {
        if size > LARGEST_OUTLINED {
            return String::new();
        }
        let bytes = self.load(opened, LARGEST_OUTLINED).unwrap_or_default();
        let text = text_file::decode(&bytes).map(|(text, _)| text);
        text.map_or_else(|_| String::new(), |text| outlined(&text, &self.path, 0))
    }

    fn remember(&self, stamp: Stamp, window: &Window, whole: Option<(&[u8], &str)>) {
        let last = window.first + window.count - 1;
        self.context.session.file_cache.record_read(
            &self.path,
            ReadFact {
                stamp,
                bytes: whole.map(|(bytes, _)| bytes),
                text: whole.map(|(_, text)| text),
                lines: Some((window.first, last)),
                total_lines: window.total.exact(),
                question: self.question.clone(),
            },
        );
    }

    fn no_window(&self, error: WindowError) -> ToolError {
        match error {
            WindowError::BeyondEnd(lines) => ToolError::failed(format!(
                "{} has only {lines} lines, so there is nothing at line {}.",
                self.shown(),
                self.question.offset.unwrap_or(1)
            )),
            WindowError::TooLarge(fitting) => ToolError::failed(format!(
                "These lines of {} are too long to show at once. Ask for fewer (limit: {}), or search with Grep.",
                self.shown(),
                (fitting / 12).max(1)
            )),
            WindowError::Stopped => ToolError::Cancelled("Reading was stopped.".to_owned()),
            WindowError::Io(error) => {
                ToolError::failed(format!("{} could not be read: {error}.", self.shown()))
            }
        }
    }

    fn empty(&self) -> ToolOutput {
        ToolOutput::new(
            format!("{} exists but is empty.", self.shown()),
            text_result(&self.path, "", 0, 1, 0),
            Display::File {
                path: self.path.clone(),
                start_line: 1,
                line_count: 0,
                total_lines: 0,
            },
        )
    }

    fn shown_window(&self, window: &Window) -> Result<ToolOutput, ToolError> {
        let tokens = estimated_tokens(&window.numbered);
        if tokens > MOST_TOKENS {
            return Err(ToolError::failed(format!(
                "These {} lines of {} are about {tokens} tokens, more than the {MOST_TOKENS} that fit in one answer. Ask for fewer with offset and limit (limit: {}), or search with Grep.",
                window.count,
                self.shown(),
                (window.count * MOST_TOKENS / tokens * 9 / 10).max(1)
            )));
        }
        let last = window.first + window.count - 1;
        let mut text = window.numbered.clone();
        let mut notes = Vec::new();
        if last < window.total.number() {
            let total = match window.total {
                LineCount::Exactly(total) => total.to_string(),
                LineCount::About(total) => format!("about {total}"),
            };
            notes.push(format!(
                "Lines {}-{last} of {total} are shown; continue at offset {}.",
                window.first,
                last + 1
            ));
        }
        if !window.cut.is_empty() {
            let lines: Vec<String> = window.cut.iter().take(10).map(usize::to_string).collect();
            let more = if window.cut.len() > 10 { ", …" } else { "" };
            notes.push(format!(
                "Cut at {} characters: line {}{more}.",
                text_window::LONGEST_LINE,
                lines.join(", ")
            ));
        }
        if !matches!(window.encoding, Encoding::Utf8 | Encoding::Utf8WithMark) {
            notes.push(format!("The file is stored as {}.", window.encoding.name()));
        }
        if !notes.is_empty() {
            text.push_str(&format!("\n\n[{}]", notes.join(" ")));
        }
        Ok(ToolOutput::new(
            text,
            text_result(
                &self.path,
                &window.content,
                window.count,
                window.first,
                window.total.number(),
            ),
            Display::File {
                path: self.path.clone(),
                start_line: window.first,
                line_count: window.count,
                total_lines: window.total.number(),
            },
        ))
    }

    fn picture(&self, mut opened: Opened) -> Result<ToolOutput, ToolError> {
        let bytes = self.load(&mut opened, LARGEST_LOADED)?;
        let fitted = lathe_images::fit(&bytes).map_err(|error| {
            ToolError::failed(format!(
                "The image {} can't be shown: {error}.",
                self.shown()
            ))
        })?;
        self.remember_whole(opened.stamp, &bytes);
        let mut blocks = vec![ContentBlock::image(
            fitted.media_type,
            base64::engine::general_purpose::STANDARD.encode(&fitted.bytes),
        )];
        if let Some((width, height)) = fitted.scaled_from {
            blocks.push(ContentBlock::text(format!(
                "[Scaled down from {width}x{height} to {}x{}.]",
                fitted.width, fitted.height
            )));
        }
        Ok(ToolOutput::blocks(
            blocks,
            json!({"type": "image", "file": {
                "filePath": self.path,
                "type": fitted.media_type,
                "originalSize": bytes.len(),
                "dimensions": {"width": fitted.width, "height": fitted.height},
            }}),
            Display::Image {
                path: self.path.clone(),
                bytes: fitted.bytes.len(),
            },
        ))
    }

    fn notebook(&self, mut opened: Opened) -> Result<ToolOutput, ToolError> {
        let bytes = self.load(&mut opened, LARGEST_LOADED)?;
        let (blocks, cells) = notebook_view::show(&bytes).map_err(|error| {
            ToolError::failed(format!(
                "{} is not a valid notebook: {error}. Inspect it as text with a shell command.",
                self.shown()
            ))
        })?;
        let tokens: usize = blocks
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text(text) => Some(estimated_tokens(&text.text)),
                _ => None,
            })
            .sum();
        if tokens > MOST_TOKENS {
            return Err(ToolError::failed(format!(
                "The notebook {} is about {tokens} tokens, more than the {MOST_TOKENS} that fit in one answer. Extract single cells with a shell command, for example `jq '.cells[0:10]'`.",
                self.shown()
            )));
        }
        self.remember_whole(opened.stamp, &bytes);
        Ok(ToolOutput::blocks(
            blocks,
            json!({"type": "notebook", "file": {
                "filePath": self.path, "numCells": cells.len(), "cells": cells,
            }}),
            Display::Text {
                text: format!("{} cells", cells.len()),
            },
        ))
    }
}

const ADVICE: &str = "Read part of it with offset and limit, or find the place with Grep.";

/// Paths that lead to a stream of this process or to a device, whatever they look like.
fn is_stream_or_device(path: &Path) -> bool {
    if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
        return true;
    }
    let Ok(inside) = path.strip_prefix("/proc") else {
        return false;
    };
    let parts: Vec<_> = inside
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.iter().any(|part| part == "fd")
        || parts
            .last()
            .is_some_and(|last| matches!(last.as_str(), "kmsg" | "kcore" | "mem" | "pagemap"))
}

fn text_result(path: &Path, content: &str, lines: usize, start: usize, total: usize) -> Value {
    json!({"type": "text", "file": {
        "filePath": path,
        "content": content,
        "numLines": lines,
        "startLine": start,
        "totalLines": total,
    }})
}

/// Roughly how many tokens a text is: four bytes each.
pub(crate) fn estimated_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

pub(crate) fn size_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return format!("{:.1} {name}", bytes as f64 / unit as f64);
        }
    }
    format!("{bytes} bytes")
}
/// The outline of what follows a line, to be put behind a text.
fn outlined(text: &str, path: &Path, after: usize) -> String {
    crate::outline::outline(text, path, after).map_or_else(String::new, |outline| {
        format!("\n\nDeclarations in the rest, by line:\n{outline}")
    })
}
