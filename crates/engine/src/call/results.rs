//! Result sizes: what a tool gives is bounded before the model sees it.
//!
//! Over a tool's limit the whole text goes to a file of the session, once, and the model gets the
//! size, the path and the beginning.

use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::ToolUseId;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How much of a large result the model sees.
const PREVIEW_BYTES: usize = 2_000;

/// Bounds a result's text. Images and documents are left alone: the tools bound those themselves.
#[must_use]
pub(crate) fn fit(
    content: Content,
    limit: Option<usize>,
    folder: &Path,
    call: &ToolUseId,
) -> Content {
    let Some(limit) = limit else { return content };
    match content {
        Content::Text(text) => Content::Text(fit_text(text, limit, folder, call, 0)),
        Content::Blocks(blocks) => {
            let mut fitted = Vec::with_capacity(blocks.len());
            for (index, block) in blocks.into_iter().enumerate() {
                fitted.push(match block {
                    ContentBlock::Text(text) => {
                        ContentBlock::text(fit_text(text.text, limit, folder, call, index))
                    }
                    other => other,
                });
            }
            Content::Blocks(fitted)
        }
    }
}

fn fit_text(text: String, limit: usize, folder: &Path, call: &ToolUseId, index: usize) -> String {
    // A byte is at least as common as a character, so most results are decided by this.
    if text.len() <= limit || text.chars().count() <= limit {
        return text;
    }
    shorten(&text, folder, call, index)
}

/// The output of a tool in a hook's words: text, blocks, or the shape that the hook got it in.
pub(crate) fn replaced(replacement: &Value) -> Content {
    if let Ok(content) = serde_json::from_value::<Content>(replacement.clone()) {
        return content;
    }
    let text = |pointer: &str| replacement.pointer(pointer).and_then(Value::as_str);
    if let Some(printed) = text("/stdout") {
        let errors = text("/stderr").unwrap_or_default();
        let gap = if printed.is_empty() || errors.is_empty() {
            ""
        } else {
            "\n"
        };
        return Content::Text(format!("{printed}{gap}{errors}"));
    }
    if let Some(content) = replacement.get("content") {
        return replaced(content);
    }
    match text("/file/content") {
        Some(file) => Content::Text(file.to_owned()),
        None => Content::Text(replacement.to_string()),
    }
}

/// Keeps a text in a file and gives the text for the model instead.
pub(crate) fn shorten(text: &str, folder: &Path, call: &ToolUseId, index: usize) -> String {
    let preview = beginning(text, PREVIEW_BYTES);
    let lines = text.lines().count();
    let mut shortened = String::with_capacity(PREVIEW_BYTES + 400);
    match store(text, folder, call, index) {
        Ok(path) => {
            let _ = write!(
                shortened,
                "The output is too large to show ({} bytes, {lines} lines). All of it is in {}; read parts of it with Read (offset, limit) or search it with Grep.\nIt begins:\n{preview}",
                text.len(),
                path.display()
            );
        }
        Err(error) => {
            let _ = write!(
                shortened,
                "The output is too large to show ({} bytes, {lines} lines) and could not be saved in {} ({error}). Run it again in a way that prints less.\nIt begins:\n{preview}",
                text.len(),
                folder.display()
            );
        }
    }
    if preview.len() < text.len() {
        shortened.push_str("\n[…]");
    }
    shortened
}

/// The first bytes of a text, cut between characters.
fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Writes the text to a new file named after the call. A file that is there already (the same call
/// after a resume) is left alone.
fn store(text: &str, folder: &Path, call: &ToolUseId, index: usize) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let safe: String = call
        .as_str()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .take(100)
        .collect();
    let name = if index == 0 {
        format!("{safe}.txt")
    } else {
        format!("{safe}-{index}.txt")
    };
    let path = folder.join(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.open(&path) {
        Ok(mut file) => {
            if let Err(error) = file.write_all(text.as_bytes()) {
                drop(file);
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
            Ok(path)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_result_is_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let content = Content::from("ä".repeat(30));
        let fitted = fit(content.clone(), Some(30), folder.path(), &"t".into());
        assert_eq!(fitted, content);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_large_result_goes_to_a_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("tool-results");
        let text = "é1234\n".repeat(5_000);
        for _ in 0..2 {
            let fitted = fit(
                text.clone().into(),
                Some(1_000),
                &results,
                &"toolu_1/../x".into(),
            );
            let Content::Text(fitted) = fitted else {
                panic!("text stays text")
            };
            assert!(fitted.len() < 3_000);
            assert!(fitted.contains("5000 lines"), "{fitted}");
        }
        let stored = std::fs::read_to_string(results.join("toolu_1____x.txt")).unwrap();
        assert_eq!(stored, text);
    }

    #[test]
    fn an_output_is_replaced_in_the_shape_that_hooks_get_it() {
        for (replacement, text) in [
            (serde_json::json!("words"), "words"),
            (
                serde_json::json!({"stdout": "out", "stderr": "err"}),
                "out\nerr",
            ),
            (serde_json::json!({"stdout": "", "stderr": "err"}), "err"),
            (
                serde_json::json!([{"type": "text", "text": "block"}]),
                "block",
            ),
            (
                serde_json::json!({"content": [{"type": "text", "text": "inner"}]}),
                "inner",
            ),
            (
                serde_json::json!({"type": "text", "file": {"content": "line"}}),
                "line",
            ),
            (serde_json::json!({"count": 1}), r#"{"count":1}"#),
        ] {
            assert_eq!(replaced(&replacement).text(), text);
        }
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fitted = fit("x".repeat(100).into(), Some(10), file.path(), &"t".into());
        assert!(fitted.text().contains("could not be saved"));
    }
}
