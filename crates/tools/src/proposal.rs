//! The whole text that a call would give to a file, before it runs: for an editor that shows the change, and lets the
//! person change it.

use crate::change::Present;
use crate::context::ToolContext;
use crate::edit;
use crate::replacement::Replacement;
use crate::text_file::{self, Encoding};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The largest file that is shown.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A change that a call would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The file.
    pub path: PathBuf,
    /// Its text; empty if there is no such file.
    pub before: String,
    /// The text after the call.
    pub after: String,
}

/// Whether a tool gives a file a new text.
#[must_use]
pub fn changes_text(tool: &str) -> bool {
    matches!(tool, "Edit" | "MultiEdit" | "Write")
}

/// Whether two texts differ in nothing but their line ends.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    text_file::with_lf(one) == text_file::with_lf(other)
}

/// The change of a call; `None` if there is none, it can't be made, or the file isn't text. Reads the file.
#[must_use]
pub fn of(tool: &str, input: &Value, context: &ToolContext) -> Option<Proposal> {
    let path = context.resolve_path(input["file_path"].as_str()?);
    let present = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() && metadata.len() <= LARGEST => {
            let bytes = std::fs::read(&path).ok()?;
            let (text, encoding) = text_file::decode(&bytes).ok()?;
            Present {
                text: text.into_owned(),
                encoding,
                exists: true,
            }
        }
        Ok(_) => return None,
        Err(_) => Present {
            text: String::new(),
            encoding: Encoding::Utf8,
            exists: false,
        },
    };
    let after = match tool {
        "Write" => input["content"].as_str()?.to_owned(),
        "Edit" => replaced(&present, input)?,
        "MultiEdit" => {
            let mut now = Present {
                text: present.text.clone(),
                ..present
            };
            for edit in input["edits"].as_array()? {
                now.text = replaced(&now, edit)?;
                now.exists = true;
            }
            return Some(Proposal {
                path,
                before: present.text,
                after: now.text,
            });
        }
        _ => return None,
    };
    Some(Proposal {
        path,
        before: present.text,
        after,
    })
}

fn replaced(present: &Present, edit: &Value) -> Option<String> {
    let replacement = Replacement {
        old: edit["old_string"].as_str()?,
        new: edit["new_string"].as_str()?,
        all: edit["replace_all"] == true,
    };
    let replaced = edit::apply(present, "", replacement).ok()?;
    Some(replaced.text)
}

/// The input of a call that gives the file another text than it wanted to.
#[must_use]
pub fn with_text(tool: &str, input: &Value, change: &Proposal, text: &str) -> Value {
    let path = &input["file_path"];
    match tool {
        "Write" => json!({"file_path": path, "content": text}),
        "MultiEdit" => json!({
            "file_path": path, "edits": [{"old_string": change.before, "new_string": text}],
        }),
        _ => json!({"file_path": path, "old_string": change.before, "new_string": text}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::ids::SessionId;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn a_proposal_is_what_the_call_would_write() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let context = ToolContext::new(
            SessionId::random(),
            root.clone(),
            root.clone(),
            vec![root.clone()],
            root.join("results"),
            Arc::new(|_| false),
            BTreeMap::new(),
        );
        std::fs::write(root.join("a"), "x y x\n").unwrap();
        let after = |tool: &str, input: Value| of(tool, &input, &context).map(|it| it.after);
        let edit = json!({"file_path": "a", "old_string": "y", "new_string": "z"});
        assert_eq!(after("Edit", edit.clone()), Some("x z x\n".to_owned()));
        let all =
            json!({"file_path": "a", "old_string": "x", "new_string": "z", "replace_all": true});
        assert_eq!(after("Edit", all), Some("z y z\n".to_owned()));
        let two = json!({"file_path": "a", "edits": [
            {"old_string": "y", "new_string": "q"}, {"old_string": "q x", "new_string": "w"}]});
        assert_eq!(after("MultiEdit", two), Some("x w\n".to_owned()));
        let new = json!({"file_path": "new", "content": "n"});
        assert_eq!(after("Write", new), Some("n".to_owned()));
        // What can't be made is not shown.
        let missing = json!({"file_path": "a", "old_string": "nowhere", "new_string": "z"});
        assert_eq!(after("Edit", missing), None);
        let change = of("Edit", &edit, &context).unwrap();
        assert_eq!(
            with_text("Edit", &edit, &change, "mine\n"),
            json!({"file_path": "a", "old_string": "x y x\n", "new_string": "mine\n"})
        );
    }
}
