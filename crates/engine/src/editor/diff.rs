//! A change that needs permission, as a diff in the editor: the first answer wins, the terminal or the editor.
//! Changes that the user makes in the diff are written, and the model learns of them.

use super::{EditorLink, LONG, SHORT};
use futures::future::BoxFuture;
use lathe_protocol::Extra;
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::permission::PermissionReply;
use lathe_tools::{ToolContext, proposal};
use serde_json::{Value, json};
use std::sync::Arc;

/// Someone beside the face who may answer a question.
pub(crate) type Answering = BoxFuture<'static, Option<PermissionReply>>;

/// How a diff was left.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// Saved, with this text.
    Saved(String),
    Rejected,
    /// The tab was closed: no answer.
    Closed,
}

fn left(texts: &[String]) -> Left {
    match texts.first().map(String::as_str) {
        Some("FILE_SAVED") => texts.get(1).cloned().map_or(Left::Closed, Left::Saved),
        Some("DIFF_REJECTED") => Left::Rejected,
        _ => Left::Closed,
    }
}

/// The reply for a diff that was left like this; `None` leaves the question to others.
fn reply(
    left: Left,
    tool: &str,
    input: &Value,
    change: &proposal::Proposal,
) -> Option<PermissionReply> {
    let deny = |message: &str| PermissionReply::Deny {
        message: message.to_owned(),
        interrupt: false,
        extra: Extra::new(),
    };
    match left {
        Left::Closed => None,
        Left::Rejected => Some(deny(
            "The user rejected this change in the editor. Don't try to achieve the same by other means; ask what to do instead.",
        )),
        Left::Saved(text)
            if proposal::is_same(&text, &change.before) && !change.before.is_empty() =>
        {
            Some(deny("The user undid this change in the editor."))
        }
        Left::Saved(text) => Some(PermissionReply::Allow {
            updated_input: (!proposal::is_same(&text, &change.after))
                .then(|| proposal::with_text(tool, input, change, &text)),
            updated_permissions: Vec::new(),
            extra: Extra::new(),
        }),
    }
}

impl EditorLink {
    /// Opens the change of a call in the editor, if there is one and the call changes a file.
    pub(crate) fn diff(
        self: &Arc<Self>,
        tool: &str,
        input: &Value,
        call: &ToolUseId,
        tools: &Arc<ToolContext>,
    ) -> Option<Answering> {
        if !self.offers("openDiff") || !proposal::changes_text(tool) {
            return None;
        }
        let (link, tools) = (self.clone(), tools.clone());
        let (tool, input) = (tool.to_owned(), input.clone());
        let call: String = call.as_str().chars().rev().take(6).collect();
        Some(Box::pin(async move {
            let reading = {
                let (tool, input) = (tool.clone(), input.clone());
                lathe_spawn::blocking(move || proposal::of(&tool, &input, &tools))
            };
            let change = reading.await.ok().flatten()?;
            let name = change.path.file_name().unwrap_or_default();
            let tab = Tab {
                name: format!("[Lathe] {} ({call})", name.to_string_lossy()),
                link: link.clone(),
            };
            let arguments = json!({
                "old_file_path": change.path, "new_file_path": change.path,
                "new_file_contents": change.after, "tab_name": tab.name,
            });
            let texts = link.call("openDiff", arguments, LONG).await.ok()?;
            reply(left(&texts), &tool, &input, &change)
        }))
    }
}

/// A tab that is closed when nobody waits for it any more.
struct Tab {
    name: String,
    link: Arc<EditorLink>,
}

impl Drop for Tab {
    fn drop(&mut self) {
        let (link, name) = (self.link.clone(), std::mem::take(&mut self.name));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let _ = link
                .call("close_tab", json!({"tab_name": name}), SHORT)
                .await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_what_is_written() {
        let input = json!({"file_path": "/w/a", "old_string": "x", "new_string": "y"});
        let change = proposal::Proposal {
            path: "/w/a".into(),
            before: "x\n".to_owned(),
            after: "y\n".to_owned(),
        };
        let answer = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            reply(left(&texts), "Edit", &input, &change)
        };
        let updated = |reply: Option<PermissionReply>| match reply {
            Some(PermissionReply::Allow { updated_input, .. }) => updated_input,
            other => panic!("{other:?}"),
        };
        assert_eq!(updated(answer(&["FILE_SAVED", "y\n"])), None);
        // Line ends alone are no change.
        assert_eq!(updated(answer(&["FILE_SAVED", "y\r\n"])), None);
        assert_eq!(
            updated(answer(&["FILE_SAVED", "z\n"])),
            Some(json!({"file_path": "/w/a", "old_string": "x\n", "new_string": "z\n"}))
        );
        for texts in [&["DIFF_REJECTED", "tab"][..], &["FILE_SAVED", "x\n"]] {
            assert!(matches!(answer(texts), Some(PermissionReply::Deny { .. })));
        }
        for texts in [&["TAB_CLOSED"][..], &["FILE_SAVED"], &[], &["?"]] {
            assert_eq!(answer(texts), None, "{texts:?}");
        }
    }
}
