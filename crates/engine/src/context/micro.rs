//! The small compaction: old results of tools that can be asked again give way to a marker.
//!
//! It breaks the provider's cache once, so it is done rarely and for much: only when the window is
//! nearly full, and only when it frees [`LEAST_GAIN`] tokens, all in one step.

use crate::conversation::Conversation;
use lathe_protocol::record::Fact;

/// Tools whose old results give way, and the text in the place of a result: what the model can do to know it
/// again, which is the same call only where that changes nothing.
const CLEARED_TOOLS: [(&str, &str); 10] = [
    ("Bash", RAN),
    ("Edit", CHANGED),
    ("Glob", AGAIN),
    ("Grep", AGAIN),
    ("MultiEdit", CHANGED),
    ("NotebookEdit", CHANGED),
    ("Read", AGAIN),
    ("WebFetch", AGAIN),
    ("WebSearch", AGAIN),
    ("Write", CHANGED),
];
const AGAIN: &str =
    "[This older result was cleared to make room. Make the call again if it is needed.]";
const RAN: &str = "[This older output was cleared to make room. The command ran: run it again only if that does no harm.]";
const CHANGED: &str = "[This older result was cleared to make room. The change was made: read the file to see it, and don't make it again.]";
/// How many of the newest results stay.
const KEPT: usize = 5;
/// How many tokens it must free.
pub(crate) const LEAST_GAIN: u64 = 20_000;
/// About the size of what stays of a result.
const REST: usize = 200;

/// The text in the place of a tool's result; `None` for results that stay.
fn marker(tool: &str) -> Option<&'static str> {
    let found = CLEARED_TOOLS.iter().find(|(name, _)| *name == tool);
    found.map(|(_, text)| *text)
}

/// Clears old results if that frees enough. Returns how many tokens it freed.
pub(crate) fn clear_old_results(conversation: &mut Conversation, least: u64) -> u64 {
    let mut old: Vec<_> = conversation
        .history
        .results()
        .into_iter()
        .filter(|result| marker(&result.tool_name).is_some())
        .collect();
    old.truncate(old.len().saturating_sub(KEPT));
    old.retain(|result| {
        !result.replaced
            && result.bytes > REST * 2
            && !conversation.history.is_pinned(&result.tool_use_id)
    });
    let gain = |bytes: usize| bytes.saturating_sub(REST) as u64 / 4;
    let freed: u64 = old.iter().map(|result| gain(result.bytes)).sum();
    if old.is_empty() || freed < least {
        return 0;
    }
    for result in old {
        let text = marker(&result.tool_name).unwrap_or(AGAIN);
        conversation.append_fact(Fact::Replacement {
            tool_use_id: result.tool_use_id,
            replacement: text.to_owned(),
            session_id: conversation.shared.session.id,
        });
    }
    conversation.context.meter.take_out(freed);
    conversation
        .context
        .prefix
        .expect("old results were cleared");
    // A file that is read again must be shown again.
    conversation.shared.tools.file_cache.forget_answers();
    freed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_result_asks_for_the_call_again_only_where_that_changes_nothing() {
        let again = |tool: &str| marker(tool).is_some_and(|text| text.contains("call again"));
        for tool in ["Read", "Grep", "Glob", "WebFetch"] {
            assert!(again(tool), "{tool}");
        }
        for tool in ["Bash", "Edit", "Write", "MultiEdit", "NotebookEdit"] {
            assert!(marker(tool).is_some() && !again(tool), "{tool}");
        }
        assert_eq!(marker("mcp__mail__send"), None);
    }
}
