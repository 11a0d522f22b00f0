//! TodoWrite: the task list that the user sees.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::{Display, TodoItem, TodoStatus};
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const NAME: &str = "TodoWrite";

/// Replaces the task list.
pub struct TodoWrite;

/// The new list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The whole list, in order.
    todos: Vec<Item>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Item {
    /// The task ("Run the tests").
    content: String,
    status: ItemStatus,
    /// The same as something being done ("Running the tests").
    #[serde(default)]
    active_form: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ItemStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

impl From<ItemStatus> for TodoStatus {
    fn from(status: ItemStatus) -> Self {
        match status {
            ItemStatus::Pending => Self::Pending,
            ItemStatus::InProgress => Self::InProgress,
            ItemStatus::Completed => Self::Completed,
        }
    }
}

impl Tool for TodoWrite {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        include_str!("todo_write.md")
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            ..CallTraits::READS
        }
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        input
            .todos
            .iter()
            .find(|item| item.status == ItemStatus::InProgress)
            .and_then(|item| item.active_form.clone())
            .unwrap_or_else(|| "Updating the task list".to_owned())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let mut items = Vec::with_capacity(input.todos.len());
        for (index, item) in input.todos.into_iter().enumerate() {
            if item.content.trim().is_empty() {
                return Err(ToolError::invalid(format!(
                    "todos[{index}].content is empty."
                )));
            }
            items.push(TodoItem {
                active_form: item.active_form.unwrap_or_else(|| item.content.clone()),
                content: item.content,
                status: item.status.into(),
                ..TodoItem::default()
            });
        }
        let in_progress = items
            .iter()
            .filter(|item| item.status == TodoStatus::InProgress)
            .count();
        let all_done = !items.is_empty()
            && items
                .iter()
                .all(|item| item.status == TodoStatus::Completed);

        let kept = if all_done { Vec::new() } else { items.clone() };
        let old = std::mem::replace(&mut *context.session.todos.lock(), kept);

        let mut text = "The task list is updated.".to_owned();
        if all_done {
            text.push_str(" All items are completed, so it was cleared.");
        }
        if in_progress > 1 {
            text.push_str(&format!(
                " {in_progress} items are in_progress; keep it to one at a time."
            ));
        }
        Ok(ToolOutput::new(
            text,
            json!({"oldTodos": old, "newTodos": items}),
            Display::Todos { items },
        ))
    }
}
