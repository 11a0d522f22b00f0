//! The small compaction: old results of tools that can be asked again give way to a marker.
//!
//! It breaks the provider's cache once, so it is done rarely and for much: only when the window is
//! nearly full, and only when it frees [`LEAST_GAIN`] tokens, all in one step.

use crate::conversation::Conversation;
use lathe_protocol::record::Fact;

/// Tools whose results can be had again by the same call.
const CLEARED_TOOLS: [&str; 10] = [
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "WebFetch",
    "WebSearch",
    "Write",
];
/// How many of the newest results stay.
const KEPT: usize = 5;
/// How many tokens it must free.
pub(crate) const LEAST_GAIN: u64 = 20_000;
/// The text in place of a removed result.
pub(crate) const MARKER: &str =
    "[This older result was cleared to make room. Make the call again if it is needed.]";

/// Clears old results if that frees enough. Returns how many tokens it freed.
pub(crate) fn clear_old_results(conversation: &mut Conversation, least: u64) -> u64 {
    let mut old: Vec<_> = conversation
        .history
        .results()
        .into_iter()
        .filter(|result| CLEARED_TOOLS.contains(&result.tool_name.as_str()))
        .collect();
    old.truncate(old.len().saturating_sub(KEPT));
    old.retain(|result| !result.replaced && result.bytes > MARKER.len() * 4);
    let gain = |bytes: usize| bytes.saturating_sub(MARKER.len() + 80) as u64 / 4;
    let freed: u64 = old.iter().map(|result| gain(result.bytes)).sum();
    if old.is_empty() || freed < least {
        return 0;
    }
    for result in old {
        conversation.append_fact(Fact::Replacement {
            tool_use_id: result.tool_use_id,
            replacement: MARKER.to_owned(),
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
