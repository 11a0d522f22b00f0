//! Which of the two task lists a session offers: the tools with ids (`TaskCreate` and its siblings) for models that
//! know them, `TodoWrite` for the others.

use lathe_permissions::Permissions;
use lathe_protocol::display::TodoItem;
use lathe_settings::{Environment, Variable};
use lathe_tools::task_store::{Task, TaskStore};
use lathe_tools::{ToolRegistry, task_list, todo_write};

/// The first Claude model that knows the tools with ids.
const FIRST: (u32, u32) = (4, 5);

/// Offers one of the two lists. The environment decides, else the model that the session starts with. The other one
/// still works: a conversation that began with it has calls of it.
pub(super) fn offer_one(registry: &mut ToolRegistry, environment: &Environment, model: &str) {
    let newer = environment.switch(Variable::EnableTasks);
    if newer.unwrap_or_else(|| is_known_to(model)) {
        registry.unlist(|tool| tool.name() == todo_write::NAME);
    } else {
        registry.unlist(|tool| task_list::NAMES.contains(&tool.name()));
    }
}

/// Whether a model knows the tools with ids.
fn is_known_to(model: &str) -> bool {
    let Some(at) = model.find("claude-") else {
        return false;
    };
    // `claude-opus-4-5-20251101`: the family, the version, a date. Older ones have the version before the family.
    let mut numbers = model[at..].split(['-', '@', ':', '.', '[']).skip(1);
    let family = numbers.next().unwrap_or_default();
    if family.starts_with(|first: char| first.is_ascii_digit()) {
        return false;
    }
    let mut number = || {
        let word = numbers.next()?;
        word.parse::<u32>().ok().filter(|_| word.len() <= 2)
    };
    number().is_some_and(|major| (major, number().unwrap_or(0)) >= FIRST)
}

/// The tool that the prompt names for the task list; `None` when there is none.
pub(super) fn named(registry: &ToolRegistry, permissions: &Permissions) -> Option<&'static str> {
    let has = |name: &str| registry.find(name).is_some() && !permissions.is_blanket_denied(name);
    if has("TaskCreate") && has("TaskUpdate") {
        Some("TaskCreate and TaskUpdate")
    } else {
        has(todo_write::NAME).then_some(todo_write::NAME)
    }
}

/// Moves the list of an earlier run with `TodoWrite` into an empty list with ids. Returns false if it can't be
/// written.
pub(super) fn take_over(todos: &[TodoItem], tasks: &TaskStore) -> bool {
    let moved = tasks.change(|list| {
        if list.tasks().is_empty() {
            for item in todos {
                list.add(Task {
                    active_form: Some(item.active_form.clone()),
                    status: item.status,
                    ..Task::new(item.content.clone())
                })?;
            }
        }
        Ok(())
    });
    moved.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_from_4_5_on_know_the_tools_with_ids() {
        for model in [
            "claude-opus-4-5",
            "claude-opus-4-5-20251101",
            "claude-fable-5",
            "claude-opus-5-5[1m]",
            "openrouter/anthropic/claude-sonnet-4.6",
            "us.anthropic.claude-haiku-4-5-20251001-v1:0",
            "claude-sonnet-10-1",
        ] {
            assert!(is_known_to(model), "{model}");
        }
        for model in [
            "claude-opus-4-1",
            "claude-sonnet-4-20250514",
            "claude-3-7-sonnet-20250219",
            "claude-next",
            "gpt-5",
            "ollama/qwen3:8b",
            "house",
        ] {
            assert!(!is_known_to(model), "{model}");
        }
    }
}
