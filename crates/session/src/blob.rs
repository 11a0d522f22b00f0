//! Large content, stored once by its hash beside the transcript.
//!
//! A line of the transcript stays short even when a message holds a picture or a long output: the
//! content goes to `<session>/blobs/<sha256>` and the line gets a stand-in. Other programs read
//! these lines too, so the stand-in is plain, valid content of the same kind of place (a short text
//! in place of a long string, a text block in place of an image block), and what stands for what is
//! said in one extra field that they skip:
//!
//! ```json
//! "latheBlobs":[{"at":"/message/content/0","sha256":"…","kind":"json"}]
//! ```
//! `at` is a JSON pointer into the line; `kind` says whether the blob is the string itself (`text`)
//! or the JSON of the value (`json`). The user's prompt is never taken out: hosts compare it.
//!
//! File checkpoints keep their contents in the same folder.

use crate::error::SessionError;
use crate::paths::write_private_file;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The field of a line that names its stored content.
pub(crate) const BLOBS_FIELD: &str = "latheBlobs";
/// Lines shorter than this are written as they are.
pub(crate) const LINE_LIMIT: usize = 16 * 1024;
/// Base64 data of an image or a document that is longer than this is stored apart.
const SOURCE_LIMIT: usize = 8 * 1024;
/// Any other text that is longer than this is stored apart.
const TEXT_LIMIT: usize = 128 * 1024;

/// A folder of contents named by their SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobStore {
    folder: PathBuf,
}

impl BlobStore {
    /// A store in this folder, which is created with the first content.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores content (once) and gives its hash.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn put(&self, content: &[u8]) -> Result<String, SessionError> {
        let hash = content_hash(content);
        let path = self.folder.join(&hash);
        // The name vouches for the content, since files appear here by rename only; the length is
        // compared in case a disk lost the content in a crash.
        let stored = fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64);
        if !stored {
            write_private_file(&path, content)?;
        }
        Ok(hash)
    }

    /// Reads content back.
    ///
    /// # Errors
    /// When it is missing, or its hash doesn't fit any more.
    pub fn get(&self, hash: &str) -> Result<Vec<u8>, SessionError> {
        let trouble = |trouble| SessionError::Blob {
            hash: hash.to_owned(),
            session: self
                .folder
                .parent()
                .and_then(Path::file_name)
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            trouble,
        };
        // A hash comes from a file that others may write: it must not lead out of the folder.
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(trouble("damaged"));
        }
        let path = self.folder.join(hash);
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(trouble("missing"));
            }
            Err(error) => return Err(SessionError::io("read", &path)(error)),
        };
        if content_hash(&content) == hash {
            Ok(content)
        } else {
            Err(trouble("damaged"))
        }
    }
}

/// The SHA-256 of content, in hexadecimal.
#[must_use]
pub fn content_hash(content: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Moves the large content of a line to the store. Gives `false` when there was none.
pub(crate) fn take_out(line: &mut Value, store: &BlobStore) -> Result<bool, SessionError> {
    let mut references = Vec::new();
    let keep_content = is_prompt_line(line);
    let Some(fields) = line.as_object_mut() else {
        return Ok(false);
    };
    for (name, value) in fields.iter_mut() {
        if !matches!(
            name.as_str(),
            "message" | "toolUseResult" | "attachment" | "content"
        ) {
            continue;
        }
        if keep_content && name == "message" {
            continue;
        }
        take_out_below(value, &mut format!("/{name}"), store, &mut references)?;
    }
    if references.is_empty() {
        return Ok(false);
    }
    fields.insert(BLOBS_FIELD.to_owned(), Value::Array(references));
    Ok(true)
}

fn is_prompt_line(line: &Value) -> bool {
    line.get("type").and_then(Value::as_str) == Some("user")
        && line
            .pointer("/message/content")
            .is_some_and(Value::is_string)
}

fn take_out_below(
    value: &mut Value,
    at: &mut String,
    store: &BlobStore,
    references: &mut Vec<Value>,
) -> Result<(), SessionError> {
    if let Some((kind, length)) = large_source(value) {
        let content = value.to_string();
        let hash = store.put(content.as_bytes())?;
        references.push(json!({"at": at, "sha256": hash, "kind": "json"}));
        let stand_in = format!("[{kind} of {length} base64 characters, stored in blobs/{hash}]");
        *value = json!({"type": "text", "text": stand_in});
        return Ok(());
    }
    match value {
        Value::String(text) if text.len() > TEXT_LIMIT => {
            let hash = store.put(text.as_bytes())?;
            references.push(json!({"at": at, "sha256": hash, "kind": "text"}));
            *text = format!("[{} bytes of text, stored in blobs/{hash}]", text.len());
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let length = at.len();
                at.push_str(&format!("/{index}"));
                take_out_below(item, at, store, references)?;
                at.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields.iter_mut() {
                let length = at.len();
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                take_out_below(item, at, store, references)?;
                at.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a value is an image or document block with much base64 data: its kind and the length.
fn large_source(value: &Value) -> Option<(&'static str, usize)> {
    let kind = match value.get("type")?.as_str()? {
        "image" => "image",
        "document" => "document",
        _ => return None,
    };
    let length = value.pointer("/source/data")?.as_str()?.len();
    (length > SOURCE_LIMIT).then_some((kind, length))
}

/// Puts stored content back into a line, looking in the given stores in turn. Missing content stays
/// a stand-in; the hashes of those are returned.
pub(crate) fn put_back(line: &mut Value, stores: &[BlobStore]) -> Vec<String> {
    let Some(references) = line
        .as_object_mut()
        .and_then(|fields| fields.shift_remove(BLOBS_FIELD))
    else {
        return Vec::new();
    };
    let mut missing = Vec::new();
    for reference in references.as_array().map(Vec::as_slice).unwrap_or_default() {
        let (Some(at), Some(hash)) = (
            reference.get("at").and_then(Value::as_str),
            reference.get("sha256").and_then(Value::as_str),
        ) else {
            continue;
        };
        let restored = stores
            .iter()
            .find_map(|store| store.get(hash).ok())
            .and_then(
                |content| match reference.get("kind").and_then(Value::as_str) {
                    Some("json") => serde_json::from_slice(&content).ok(),
                    _ => String::from_utf8(content).ok().map(Value::String),
                },
            );
        match (restored, line.pointer_mut(at)) {
            (Some(value), Some(place)) => *place = value,
            _ => missing.push(hash.to_owned()),
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_content_is_stored_once_and_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::new(folder.path().join("blobs"));
        let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A".repeat(20_000)}});
        let original = json!({
            "type": "user",
            "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [picture, {"type": "text", "text": "short"}]},
                picture
            ]},
            "toolUseResult": {"a/b~c": "x".repeat(200_000)},
            "uuid": "u"
        });
        let mut line = original.clone();
        assert!(take_out(&mut line, &store).unwrap());
        assert!(line.to_string().len() < 2_000, "{line}");
        assert_eq!(
            line["message"]["content"][1]["type"], "text",
            "harmless for other readers"
        );
        assert_eq!(
            fs::read_dir(store.folder()).unwrap().count(),
            2,
            "the same picture is stored once"
        );
        let mut again = original.clone();
        take_out(&mut again, &store).unwrap();
        assert_eq!(again, line);
        assert!(put_back(&mut line, std::slice::from_ref(&store)).is_empty());
        assert_eq!(line, original);
    }

    #[test]
    fn a_prompt_stays_in_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::new(folder.path());
        let mut line =
            json!({"type": "user", "message": {"role": "user", "content": "x".repeat(300_000)}});
        assert!(!take_out(&mut line, &store).unwrap());
    }

    #[test]
    fn lost_or_damaged_content_is_named_and_the_stand_in_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::new(folder.path().join("blobs"));
        let mut line = json!({"type": "user", "toolUseResult": "y".repeat(200_000)});
        take_out(&mut line, &store).unwrap();
        let hash = line[BLOBS_FIELD][0]["sha256"].as_str().unwrap().to_owned();
        fs::write(store.folder().join(&hash), "something else").unwrap();
        assert!(matches!(
            store.get(&hash),
            Err(SessionError::Blob {
                trouble: "damaged",
                ..
            })
        ));
        let missing = put_back(&mut line, std::slice::from_ref(&store));
        assert_eq!(missing, [hash]);
        assert!(
            line["toolUseResult"]
                .as_str()
                .unwrap()
                .contains("stored in blobs/")
        );
    }

    #[test]
    fn a_hash_cannot_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        let store = BlobStore::new(folder.path().join("blobs"));
        assert!(store.get("../secret").is_err());
    }
}
