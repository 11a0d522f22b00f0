//! Properties of a remote conversation that hold for any lines of a device.

use crate::conversation::{Act, Authority, Conversation};
use crate::problem::Problem;
use lathe_wire::WireOp;
use serde_json::json;
use std::path::PathBuf;

/// A device that may do everything, and whose uploads are all there.
struct Anyone;

impl Authority for Anyone {
    fn is_view_only(&self) -> bool {
        false
    }

    fn permit(&self, _: &WireOp) -> Result<(), Problem> {
        Ok(())
    }

    fn fetch(&self, id: &str, name: &str) -> Option<PathBuf> {
        let path = crate::rules::upload_path("/c".as_ref(), "s", id, name);
        assert_eq!(path.parent(), Some("/c/uploads/s".as_ref()));
        Some(path)
    }
}

/// Any bytes as the lines of a device: every frame is answered by frames with a type or by operations, and none keeps the next
/// prompt from being taken.
#[expect(clippy::missing_panics_doc, reason = "panicking is how a target fails")]
pub fn fuzz_messages(bytes: &[u8]) {
    const NEXT: &str = "0b9f6c1a-6d7e-4a55-9a7e-2f0f9d1f7c11";
    let text = String::from_utf8_lossy(bytes);
    let mut conversation = Conversation::default();
    conversation.attached(None);
    for line in text.lines() {
        for act in conversation.line(line, &Anyone) {
            match act {
                Act::Ask { id, .. } => {
                    let answers = conversation.done(id);
                    assert!(answers.len() < 2, "one answer at most");
                }
                Act::Send(frame) => assert!(frame["type"].is_string(), "{frame}"),
            }
        }
    }
    if !text.contains(NEXT) {
        let prompt = json!({"type": "user", "uuid": NEXT, "message": {"content": "x"}});
        let acts = conversation.line(&prompt.to_string(), &Anyone);
        assert!(matches!(acts.as_slice(), [Act::Ask { .. }]), "{acts:?}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_lines_of_a_device_are_borne() {
        let words = [
            "{\"type\":\"user\",\"message\":{\"content\":",
            "{\"type\":\"control_request\",\"request_id\":",
            "\"request\":{\"subtype\":\"set_model\",\"model\":",
            "{\"type\":\"control_response\",\"response\":{\"request_id\":\"q\",\"response\":",
            "{\"behavior\":\"allow\"}",
            "\"file_attachments\":[{\"file_uuid\":\"../..\",\"file_name\":\"../../x\"}]",
            "\"uuid\":",
            "null",
            "}}",
            "\n",
        ];
        lathe_fuzzing::run("messages", 5_000, &words, super::fuzz_messages);
    }
}
