//! The rules that hold between messages: alternation, pairing of calls and results, reasoning.

use super::facts::{Kind, Lifetime, MessageFacts, Role};
use super::issued::Issued;
use std::collections::HashSet;
use std::sync::Arc;

/// The context of the rules about reasoning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reasoning<'a> {
    pub(crate) model: &'a str,
    /// Whether the request turns reasoning on.
    pub(crate) on: bool,
    /// Whether reasoning may come between calls.
    pub(crate) interleaved: bool,
}

/// Checks a conversation.
pub(crate) fn check(
    messages: &[Arc<MessageFacts>],
    reasoning: Reasoning<'_>,
    issued: &Issued,
    problems: &mut Vec<String>,
) {
    if let Some(first) = messages.first()
        && first.role != Role::User
    {
        problems.push("messages.0.role: the first message must be from the user".into());
    }
    for (index, message) in messages.iter().enumerate() {
        problems.extend(
            message
                .problems
                .iter()
                .map(|text| format!("messages.{index}.{text}")),
        );
        if index > 0 && messages.get(index - 1).map(|previous| previous.role) == Some(message.role)
        {
            let role = message.role.name();
            problems.push(format!(
                "messages.{index}.role: two {role} messages in a row"
            ));
        }
    }
    check_pairs(messages, problems);
    check_reasoning(messages, reasoning, issued, problems);
    if let Some(last) = messages.last()
        && last.role == Role::Assistant
    {
        if last.ends_in_white_space {
            problems.push(
                "messages: final assistant content cannot end with trailing whitespace".into(),
            );
        }
        // A paused answer that ends in a call of a server tool is sent back to be continued.
        let words = last
            .blocks
            .last()
            .is_some_and(|block| block.kind == Kind::Text);
        if reasoning.on && words {
            problems.push("messages: a prefill is not possible while thinking is on".into());
        }
    }
}

fn check_pairs(messages: &[Arc<MessageFacts>], problems: &mut Vec<String>) {
    let mut seen: HashSet<&str> = HashSet::new();
    // The calls of the message before.
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let mut answered: HashSet<&str> = HashSet::new();
        let mut other_before = false;
        let mut calls = Vec::new();
        for (place, block) in message.blocks.iter().enumerate() {
            let path = format!("messages.{index}.content.{place}");
            match &block.kind {
                Kind::ToolResult { id } => {
                    if !open.contains(&id.as_str()) {
                        problems.push(format!(
                            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}; each `tool_result` must have a `tool_use` in the previous message"
                        ));
                    } else if !answered.insert(id) {
                        problems.push(format!("{path}: a second `tool_result` for {id}"));
                    }
                    if other_before {
                        problems.push(format!(
                            "{path}: `tool_result` blocks must come before other content"
                        ));
                    }
                }
                Kind::ToolUse { id } => {
                    if !seen.insert(id) {
                        problems.push(format!("{path}.id: `tool_use` ids must be unique: {id}"));
                    }
                    calls.push(id.as_str());
                }
                _ => other_before = true,
            }
        }
        let missing: Vec<&str> = open
            .iter()
            .filter(|id| !answered.contains(*id))
            .copied()
            .collect();
        if !missing.is_empty() {
            problems.push(format!(
                "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}",
                missing.join(", ")
            ));
        }
        open = calls;
    }
    if !open.is_empty() {
        problems.push(format!(
            "messages: the last message has `tool_use` ids without `tool_result` blocks: {}",
            open.join(", ")
        ));
    }
}

fn check_reasoning(
    messages: &[Arc<MessageFacts>],
    reasoning: Reasoning<'_>,
    issued: &Issued,
    problems: &mut Vec<String>,
) {
    for (index, message) in messages.iter().enumerate() {
        let mut other_before = false;
        for (place, block) in message.blocks.iter().enumerate() {
            let path = format!("messages.{index}.content.{place}");
            match &block.kind {
                Kind::Thinking { signature, digest } => {
                    if !signature.is_empty() && !issued.signed(reasoning.model, digest, signature) {
                        problems.push(format!(
                            "{path}: invalid `signature` in `thinking` block: not written by {} or changed since",
                            reasoning.model
                        ));
                    }
                }
                Kind::RedactedThinking { data } => {
                    if !data.is_empty() && !issued.redacted(reasoning.model, data) {
                        problems.push(format!(
                            "{path}: invalid `data` in `redacted_thinking` block: not written by {}",
                            reasoning.model
                        ));
                    }
                }
                _ => {
                    other_before = true;
                    continue;
                }
            }
            if other_before && !reasoning.interleaved {
                problems.push(format!("{path}: thinking must come before other blocks"));
            }
        }
        if message.role == Role::Assistant
            && message
                .blocks
                .last()
                .is_some_and(|block| block.kind.is_thinking())
        {
            problems.push(format!(
                "messages.{index}: the final block in an assistant message cannot be `thinking`"
            ));
        }
    }
    let last_assistant = messages
        .iter()
        .enumerate()
        .rev()
        .find(|(_, message)| message.role == Role::Assistant);
    if let Some((index, message)) = last_assistant
        && reasoning.on
        && !message
            .blocks
            .first()
            .is_some_and(|block| block.kind.is_thinking())
        && message.blocks.iter().any(|block| {
            matches!(&block.kind, Kind::ToolUse { id }
                if issued.call_began_with_thinking(id, reasoning.model))
        })
    {
        problems.push(format!(
            "messages.{index}.content.0: expected `thinking` or `redacted_thinking`: the last assistant message with calls must keep its reasoning while thinking is on"
        ));
    }
}

/// Checks the cache markers of the whole request, in the order of the prefix.
pub(crate) fn check_markers(markers: &[Lifetime], problems: &mut Vec<String>) {
    if markers.len() > 4 {
        problems.push(format!(
            "a maximum of 4 blocks with cache_control may be provided, found {}",
            markers.len()
        ));
    }
    let first_short = markers
        .iter()
        .position(|marker| *marker == Lifetime::FiveMinutes);
    let last_long = markers
        .iter()
        .rposition(|marker| *marker == Lifetime::OneHour);
    if let (Some(short), Some(long)) = (first_short, last_long)
        && long > short
    {
        problems.push("a ttl='1h' cache_control block must not come after a ttl='5m' one".into());
    }
}
