//! PDF documents: a short one goes to the model as it is; of a long one the text of some pages,
//! taken out by `pdftotext` where that is installed.
//!
//! Nothing here parses a PDF: the model can read them, and `pdftotext` runs in a process of its own
//! with a limit on time and output, since such files are often broken.

use crate::context::CallContext;
use crate::read::{MOST_TOKENS, estimated_tokens, size_words};
use crate::tool::{ToolError, ToolOutput};
use base64::Engine as _;
use lathe_process::{Command, Ending, Job};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::Display;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// The most pages of a document that is sent whole.
const WHOLE_PAGES: usize = 10;
/// The most bytes of a document that is sent whole.
const WHOLE_BYTES: usize = 10 * 1024 * 1024;
/// The most bytes when it can't be told how many pages there are.
const WHOLE_BYTES_UNCOUNTED: usize = 1024 * 1024;
/// The most pages in one call.
const MOST_PAGES: usize = 20;
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A document to be shown.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) pages: Option<String>,
}

/// The pages asked for, first and last from 1.
fn parse_pages(text: &str) -> Result<(usize, usize), ToolError> {
    let wrong = || {
        ToolError::invalid(format!(
            "pages must be a page or a range like \"3\" or \"1-5\", not \"{text}\"."
        ))
    };
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let (first, last) = match text.split_once('-') {
        None => (number(text)?, number(text)?),
        Some((first, last)) if last.trim().is_empty() => {
            let first = number(first)?;
            (first, first.saturating_add(MOST_PAGES - 1))
        }
        Some((first, last)) => (number(first)?, number(last)?),
    };
    if first == 0 || last < first {
        return Err(wrong());
    }
    if last - first >= MOST_PAGES {
        return Err(ToolError::invalid(format!(
            "pages {text} are more than {MOST_PAGES}; ask for fewer at a time."
        )));
    }
    Ok((first, last))
}

/// How many pages there are, as far as that shows without decompressing anything.
fn count_pages(bytes: &[u8]) -> Option<usize> {
    let count = memchr::memmem::find_iter(bytes, b"/Type")
        .filter(|place| {
            let rest = bytes.get(place + 5..).unwrap_or_default();
            let rest = rest.trim_ascii_start();
            rest.strip_prefix(b"/Page")
                .is_some_and(|after| !after.first().is_some_and(u8::is_ascii_alphanumeric))
        })
        .count();
    (count > 0).then_some(count)
}

/// Shows a document or some pages of it.
pub(crate) async fn read(
    document: &Document,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let shown = document.path.display().to_string();
    let count = count_pages(&document.bytes);
    let size = document.bytes.len();
    let fits_whole = match count {
        Some(count) => count <= WHOLE_PAGES && size <= WHOLE_BYTES,
        None => size <= WHOLE_BYTES_UNCOUNTED,
    };
    let Some(pages) = &document.pages else {
        if fits_whole {
            return Ok(whole(document, None));
        }
        let length = count.map_or(String::new(), |count| format!("{count} pages, "));
        return Err(ToolError::failed(format!(
            "{shown} is too long to read at once ({length}{}). Give pages, for example \"1-5\".",
            size_words(size as u64)
        )));
    };
    let (first, last) = parse_pages(pages)?;
    if let Some(count) = count
        && first > count
    {
        return Err(ToolError::failed(format!(
            "{shown} has only {count} pages."
        )));
    }
    match extract(document, first, last, context).await? {
        Some(text) => text_of_pages(document, first, last, &text),
        None if fits_whole => Ok(whole(
            document,
            Some(
                "[All pages are shown, because pdftotext, which extracts pages, is not installed.]",
            ),
        )),
        None => Err(ToolError::failed(format!(
            "Reading single pages of {shown} requires pdftotext, which is not installed (package poppler-utils, or poppler on macOS). Install it or ask the user to."
        ))),
    }
}

fn whole(document: &Document, note: Option<&str>) -> ToolOutput {
    let data = base64::engine::general_purpose::STANDARD.encode(&document.bytes);
    let mut blocks = vec![ContentBlock::document("application/pdf", data)];
    blocks.extend(note.map(ContentBlock::text));
    ToolOutput::blocks(
        blocks,
        json!({"type": "pdf", "file": {
            "filePath": document.path,
            "originalSize": document.bytes.len(),
        }}),
        Display::Text {
            text: format!("PDF, {}", size_words(document.bytes.len() as u64)),
        },
    )
}

fn text_of_pages(
    document: &Document,
    first: usize,
    last: usize,
    text: &str,
) -> Result<ToolOutput, ToolError> {
    let shown = document.path.display();
    let tokens = estimated_tokens(text);
    if tokens > MOST_TOKENS {
        return Err(ToolError::failed(format!(
            "Pages {first}-{last} of {shown} are about {tokens} tokens, more than the {MOST_TOKENS} that fit in one answer. Ask for fewer pages."
        )));
    }
    // Pages are divided by form feeds, one after each.
    let pages: Vec<&str> = text
        .strip_suffix('\u{c}')
        .unwrap_or(text)
        .split('\u{c}')
        .collect();
    if pages.iter().all(|page| page.trim().is_empty()) {
        return Err(ToolError::failed(format!(
            "Pages {first}-{last} of {shown} contain no text; they may be scanned images, or there are fewer pages."
        )));
    }
    let count = pages.len();
    let text: Vec<String> = pages
        .iter()
        .enumerate()
        .map(|(index, page)| format!("[page {}]\n{}", first + index, page.trim_end()))
        .collect();
    Ok(ToolOutput::new(
        text.join("\n\n"),
        json!({"type": "parts", "file": {
            "filePath": document.path,
            "originalSize": document.bytes.len(),
            "firstPage": first,
            "count": count,
        }}),
        Display::Text {
            text: format!("{count} pages"),
        },
    ))
}

/// The text of some pages; `None` when `pdftotext` is not installed.
async fn extract(
    document: &Document,
    first: usize,
    last: usize,
    context: &CallContext,
) -> Result<Option<String>, ToolError> {
    let mut command = Command::new("pdftotext")
        .arguments(["-layout", "-enc", "UTF-8"])
        .arguments(["-f", &first.to_string(), "-l", &last.to_string(), "--"])
        .argument(&document.path)
        .argument("-");
    if let Some(path) = context.session.environment.foreign("PATH") {
        command = command.variable("PATH", path);
    }
    let job = Job {
        cancel: context.cancel.clone(),
        ..Job::new(command, TIME_LIMIT)
    };
    let finished = match lathe_process::run(job).await {
        Ok(finished) => finished,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ToolError::failed(format!("{error}."))),
    };
    let shown = document.path.display();
    match finished.ending {
        Ending::Exited(0) | Ending::Flooded => Ok(Some(finished.stdout)),
        Ending::Cancelled => Err(ToolError::Cancelled("Reading was stopped.".to_owned())),
        Ending::TimedOut => Err(ToolError::failed(format!(
            "pdftotext took more than a minute on {shown} and was ended."
        ))),
        Ending::Exited(_) | Ending::Signalled => Err(ToolError::failed(format!(
            "pdftotext could not read {shown}; the file may be damaged or encrypted."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ranges_are_understood_or_refused() {
        assert_eq!(parse_pages("3").unwrap(), (3, 3));
        assert_eq!(parse_pages(" 1 - 5 ").unwrap(), (1, 5));
        assert_eq!(parse_pages("7-").unwrap(), (7, 26));
        for wrong in ["", "0", "5-1", "a", "1-100", "1,2"] {
            assert!(parse_pages(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pages_are_counted_apart_from_the_page_tree() {
        let bytes = b"<</Type /Pages>> <</Type/Page /X 1>> <</Type /Page>> <</Type /PageLabel>>";
        assert_eq!(count_pages(bytes), Some(2));
        assert_eq!(count_pages(b"%PDF-1.7"), None);
    }
}
