//! A limit for the results of one round together.
//!
//! Each result is bounded by its tool, but ten of them at once may still be more than the window can
//! bear. Before they are sent for the first time, the largest go to files until the rest fits. The
//! decision is a record and is replayed byte for byte; what was sent whole stays whole, since changing
//! it would break the provider's cache.

use crate::call::results;
use crate::conversation::Conversation;
use lathe_protocol::record::Fact;

/// Bytes that the results of one round may have together.
const MOST_BYTES: usize = 200_000;
/// A result below this is not worth a file.
const LEAST_BYTES: usize = 4_000;

/// Sends the largest of the newest results to files until the rest fits.
pub(crate) fn bound_newest_results(conversation: &mut Conversation) {
    let window = conversation
        .shared
        .session
        .catalog
        .resolve(&conversation.model)
        .info
        .context_window;
    // At most a quarter of the window, at four bytes a token.
    let limit = usize::try_from(window).map_or(MOST_BYTES, |window| window.min(MOST_BYTES));
    let mut newest = conversation.history.newest_results();
    let mut total: usize = newest.iter().map(|result| result.bytes).sum();
    if total > limit {
        newest.sort_by_key(|result| std::cmp::Reverse(result.bytes));
        for result in &newest {
            if total <= limit || result.bytes < LEAST_BYTES {
                break;
            }
            if result.replaced
                || conversation
                    .context
                    .sent_results
                    .contains(&result.tool_use_id)
            {
                continue;
            }
            let Some(text) = conversation.history.result_text(&result.tool_use_id) else {
                continue;
            };
            let replacement = results::shorten(
                &text,
                &conversation.shared.tools.results_folder,
                &result.tool_use_id,
                0,
            );
            let freed = result.bytes.saturating_sub(replacement.len());
            if freed == 0 {
                continue;
            }
            total -= freed;
            conversation.context.meter.take_out(freed as u64 / 4);
            conversation.append_fact(Fact::Replacement {
                tool_use_id: result.tool_use_id.clone(),
                replacement,
                session_id: conversation.shared.session.id,
            });
        }
    }
    conversation.context.sent_results.clear();
    conversation
        .context
        .sent_results
        .extend(newest.into_iter().map(|result| result.tool_use_id));
}
