//! Notifications: how the end of background work enters the conversation.
//!
//! A notification is a prompt that the model sees and the user doesn't. It waits in the queue of the
//! conversation that started the work, and wakes it when it is idle. Several that wait together become
//! one turn.

use lathe_protocol::content::Content;
use lathe_protocol::event::TaskUsage;
use lathe_protocol::op::Prompt;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The kind of origin that marks a turn which a notification began.
pub(crate) const ORIGIN: &str = "task-notification";
/// Where a prompt's task is named.
const TASK: &str = "taskId";
/// How much of a result a notification carries; the file has the rest.
const MOST_RESULT: usize = 24_000;

/// The end of a task, as text for the model.
pub(crate) struct Notice<'a> {
    pub(crate) task_id: &'a str,
    pub(crate) tool_use_id: Option<&'a str>,
    pub(crate) status: &'a str,
    pub(crate) summary: &'a str,
    pub(crate) result: Option<&'a str>,
    pub(crate) output_file: &'a str,
    pub(crate) usage: Option<TaskUsage>,
}

impl Notice<'_> {
    pub(crate) fn text(&self) -> String {
        let mut text = format!("<task-notification>\n<task-id>{}</task-id>\n", self.task_id);
        if let Some(id) = self.tool_use_id {
            let _ = writeln!(text, "<tool-use-id>{id}</tool-use-id>");
        }
        let _ = writeln!(
            text,
            "<output-file>{}</output-file>\n<status>{}</status>\n<summary>{}</summary>",
            self.output_file, self.status, self.summary
        );
        if let Some(result) = self.result.filter(|result| !result.trim().is_empty()) {
            let _ = writeln!(text, "<result>{}</result>", cut(result.trim()));
        }
        if let Some(usage) = self.usage {
            let _ = writeln!(
                text,
                "<usage>total_tokens: {}, tool_uses: {}, duration_ms: {}</usage>",
                usage.total_tokens, usage.tool_uses, usage.duration_ms
            );
        }
        text.push_str("</task-notification>");
        text
    }
}

pub(crate) fn cut(text: &str) -> String {
    if text.len() <= MOST_RESULT {
        return text.to_owned();
    }
    let mut end = MOST_RESULT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "{}\n[… {} bytes more, in the output file]",
        &text[..end],
        text.len() - end
    )
}

/// A notification as a prompt.
pub(crate) fn prompt(task: &str, text: String) -> Prompt {
    let mut prompt = Prompt::new(text);
    prompt.is_meta = true;
    prompt.verbatim = true;
    prompt.origin = Some(json!({"kind": ORIGIN}));
    prompt.extra.insert(TASK.to_owned(), task.into());
    prompt
        .extra
        .insert("origin".to_owned(), json!({"kind": ORIGIN}));
    prompt
}

/// Whether a prompt is a notification.
pub(crate) fn is_notification(prompt: &Prompt) -> bool {
    prompt
        .origin
        .as_ref()
        .and_then(|origin| origin.get("kind"))
        .and_then(Value::as_str)
        == Some(ORIGIN)
}

/// The tasks that a prompt tells of.
pub(crate) fn tasks_of(prompt: &Prompt) -> Vec<String> {
    match prompt.extra.get(TASK) {
        Some(Value::String(task)) => vec![task.clone()],
        Some(Value::Array(tasks)) => tasks
            .iter()
            .filter_map(|task| task.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

/// Puts further notifications into one.
pub(crate) fn join(first: &mut Prompt, more: &Prompt) {
    let text = format!("{}\n\n{}", first.content.text(), more.content.text());
    first.content = Content::Text(text);
    crate::agents::team::join_prompts(first, more);
    let mut tasks = tasks_of(first);
    tasks.extend(tasks_of(more));
    first.extra.insert(TASK.to_owned(), tasks.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_that_wait_together_become_one() {
        let text = Notice {
            task_id: "a1",
            tool_use_id: Some("t1"),
            status: "completed",
            summary: "done",
            result: Some("the result"),
            output_file: "/o",
            usage: None,
        }
        .text();
        assert!(text.contains("<result>the result</result>"), "{text}");
        let mut first = prompt("a1", text);
        join(&mut first, &prompt("a2", "other".into()));
        assert!(is_notification(&first));
        assert_eq!(tasks_of(&first), ["a1", "a2"]);
        assert!(first.content.text().ends_with("\n\nother"));
        assert!(!is_notification(&Prompt::new("words")));
    }

    #[test]
    fn a_long_result_is_cut() {
        let long = "ä".repeat(MOST_RESULT);
        assert!(cut(&long).len() < MOST_RESULT + 100);
    }
}
