//! Lines of background commands that reach the conversation as they come.
//!
//! Lines are gathered for a moment and told together; how many lines, how long, and how often is bounded.
//! A command that continues printing beyond that is watched no longer, and the model gets a note.

use crate::agents::notice::{self, Notice};
use crate::conversation::ConversationShared;
use lathe_protocol::ids::TaskId;
use lathe_shell::run::BackgroundStatus;
use lathe_tools::host::MonitorOrder;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long lines are gathered.
const GATHER: Duration = Duration::from_millis(500);
/// The least time between two notifications.
const PAUSE: Duration = Duration::from_secs(2);
/// Lines of one notification.
const MOST_LINES: usize = 40;
/// Characters of one line.
const MOST_OF_LINE: usize = 400;
/// Notifications of one command; then it isn't watched any more.
const MOST_NOTICES: usize = 100;
/// Bytes that are looked at in one go.
const MOST_BYTES: usize = 64 * 1024;

/// Watches a command until it ends, the session ends, or it says too much.
pub(crate) fn start(shared: &Arc<ConversationShared>, order: MonitorOrder) {
    let weak = Arc::downgrade(shared);
    let cancel = shared.session.agents.cancel.clone();
    let watching = async move {
        let mut told = 0;
        loop {
            let Some(over) = look(&weak, &order, &mut told).await else {
                break;
            };
            if over {
                break;
            }
        }
    };
    lathe_spawn::task(async move {
        tokio::select! {
            () = watching => {}
            () = cancel.cancelled() => {}
        }
    });
}

/// Waits a moment and tells what is new. `None` when nobody is there any more, `true` when it is over.
async fn look(
    weak: &Weak<ConversationShared>,
    order: &MonitorOrder,
    told: &mut usize,
) -> Option<bool> {
    let id = order.task.as_str().to_owned();
    let background = weak.upgrade()?.tools.shell.background().clone();
    // The end of the command ends the wait early.
    let command = background.wait(&id, GATHER).await.ok()?;
    let over = command.status != BackgroundStatus::Running;
    let (reader, pattern, of) = (background, order.pattern.clone(), id.clone());
    let new = lathe_spawn::blocking(move || {
        let accepts = move |line: &str| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(line))
        };
        reader.read_new(&of, Some(&accepts), MOST_BYTES)
    })
    .await
    .ok()?
    .ok()?;
    let shared = weak.upgrade()?;
    let lines: Vec<&str> = new
        .text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    if !lines.is_empty() {
        *told += 1;
        let last = *told >= MOST_NOTICES;
        let mut text = text_of(&order.task, &order.description, &lines);
        if last {
            text.push_str("\n[Too much output: no longer watched. The command keeps running; TaskStop ends it.]");
        }
        shared.enqueue(notice::prompt(&id, text));
        if last {
            return Some(true);
        }
        if !over {
            drop(shared);
            tokio::time::sleep(PAUSE).await;
        }
    }
    Some(over)
}

fn text_of(task: &TaskId, description: &str, lines: &[&str]) -> String {
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let mut shown: Vec<String> = lines
        .iter()
        .skip(left_out)
        .map(|line| line.chars().take(MOST_OF_LINE).collect())
        .collect();
    if left_out > 0 {
        shown.insert(0, format!("[{left_out} lines before these]"));
    }
    Notice {
        task_id: task.as_str(),
        tool_use_id: None,
        status: "running",
        summary: &format!("Lines of the watched command ({description})"),
        result: Some(&shown.join("\n")),
        output_file: "",
        usage: None,
    }
    .text()
    .replace("<output-file></output-file>\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_told_and_long_ones_are_cut() {
        let long = "x".repeat(1_000);
        let mut lines = vec!["first"; 50];
        lines.push(&long);
        let text = text_of(&TaskId::from("bash_1"), "log", &lines);
        assert!(text.contains("[11 lines before these]"), "{text}");
        assert!(!text.contains(&"x".repeat(MOST_OF_LINE + 1)));
        assert!(text.contains("bash_1") && !text.contains("output-file"));
    }
}
