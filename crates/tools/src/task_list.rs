//! TaskCreate, TaskGet, TaskUpdate and TaskList: the task list with ids, owners and dependencies.
//!
//! It is the newer of two lists; the older is [`crate::todo_write`]. A session offers one of them.

use crate::context::{CallContext, ToolContext};
use crate::host::{TaskChange, TaskUpdated};
use crate::task_store::{Seat, Task, TaskList as List, TaskListError, TaskStoreError};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::{Display, TodoStatus};
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The names of these tools.
pub const NAMES: [&str; 4] = ["TaskCreate", "TaskGet", "TaskUpdate", "TaskList"];

/// Adds a task.
pub struct TaskCreate;
/// Shows a task.
pub struct TaskGet;
/// Changes a task.
pub struct TaskUpdate;
/// Shows all tasks.
pub struct TaskList;

/// A new task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateInput {
    subject: String,
    /// The details.
    #[serde(default)]
    description: String,
    #[serde(default)]
    active_form: Option<String>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// Which task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetInput {
    /// The task's id.
    task_id: String,
}

/// A change to a task.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateInput {
    /// The task's id.
    task_id: String,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    active_form: Option<String>,
    #[serde(default)]
    status: Option<NewStatus>,
    /// Empty removes the owner.
    #[serde(default)]
    owner: Option<String>,
    /// Tasks that wait for this one.
    #[serde(default)]
    add_blocks: Option<Vec<String>>,
    /// Tasks that must be done first.
    #[serde(default)]
    add_blocked_by: Option<Vec<String>>,
    /// null removes a key.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NewStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
    Cancelled,
    Deleted,
}

impl NewStatus {
    /// The status of the task afterwards; `None` when the task is removed.
    fn kept(self) -> Option<TodoStatus> {
        match self {
            Self::Pending => Some(TodoStatus::Pending),
            Self::InProgress => Some(TodoStatus::InProgress),
            Self::Completed => Some(TodoStatus::Completed),
            Self::Failed => Some(TodoStatus::Failed),
            Self::Cancelled => Some(TodoStatus::Cancelled),
            Self::Deleted => None,
        }
    }

    fn word(self) -> &'static str {
        self.kept().map_or("deleted", TodoStatus::word)
    }
}

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListInput {}

const ALONE: CallTraits = CallTraits {
    concurrency_safe: false,
    ..CallTraits::READS
};

fn failed(error: TaskStoreError) -> ToolError {
    match error {
        TaskStoreError::Refused(error) if error.is_refusal() => {
            ToolError::failed(error.to_string())
        }
        TaskStoreError::Refused(error) => ToolError::invalid(error.to_string()),
        error @ TaskStoreError::File { .. } => ToolError::failed(format!("{error}.")),
    }
}

fn shown(list: &List) -> Display {
    Display::Todos {
        items: list.shown(),
    }
}

impl Tool for TaskCreate {
    type Input = CreateInput;

    fn name(&self) -> &'static str {
        "TaskCreate"
    }

    fn description(&self) -> &str {
        include_str!("task_create.md")
    }

    fn traits(&self, _input: &CreateInput) -> CallTraits {
        ALONE
    }

    fn subject(&self, _input: &CreateInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &CreateInput) -> String {
        format!("Adding a task: {}", input.subject)
    }

    async fn call(
        &self,
        input: CreateInput,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        if input.subject.trim().is_empty() {
            return Err(ToolError::invalid("subject is empty."));
        }
        let tasks = &context.session.tasks;
        let new = Task {
            description: input.description,
            active_form: input.active_form,
            metadata: input.metadata.unwrap_or_default(),
            ..Task::new(input.subject)
        };
        let task = tasks.change(|list| list.add(new)).map_err(failed)?;
        if let Some(host) = context.session.host()
            && let Some(objection) = host.task_changed(task.clone(), TaskChange::Created).await
        {
            tasks
                .change(|list| {
                    list.remove(&task.id);
                    Ok(())
                })
                .map_err(failed)?;
            return Err(ToolError::failed(format!(
                "A hook rejected the task, so it was not added: {objection}"
            )));
        }
        let list = tasks.read().map_err(failed)?;
        Ok(ToolOutput::new(
            format!("Task #{} added: {}", task.id, task.subject),
            json!({"task": {"id": task.id, "subject": task.subject}}),
            shown(&list),
        ))
    }
}

impl Tool for TaskGet {
    type Input = GetInput;

    fn name(&self) -> &'static str {
        "TaskGet"
    }

    fn description(&self) -> &str {
        include_str!("task_get.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &GetInput) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _input: &GetInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &GetInput) -> String {
        format!("Reading task {}", input.task_id)
    }

    async fn call(&self, input: GetInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let mut list = context.session.tasks.read().map_err(failed)?;
        let task = list
            .get_mut(&input.task_id)
            .map_err(|error| ToolError::failed(error.to_string()))?
            .clone();
        let mut text = format!(
            "Task #{}: {}\nStatus: {}",
            task.id,
            task.subject,
            task.status.word()
        );
        if let Some(owner) = &task.owner {
            let _ = write!(text, "\nOwner: {owner}");
        }
        if !task.description.is_empty() {
            let _ = write!(text, "\n\n{}", task.description);
        }
        for (what, ids) in [
            ("Waits for", &list.open_blockers(&task)),
            ("Blocks", &task.blocks),
        ] {
            if !ids.is_empty() {
                let _ = write!(text, "\n{what}: #{}", ids.join(", #"));
            }
        }
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, json!({"task": task}), display))
    }
}

impl Tool for TaskUpdate {
    type Input = UpdateInput;

    fn name(&self) -> &'static str {
        "TaskUpdate"
    }

    fn description(&self) -> &str {
        include_str!("task_update.md")
    }

    fn traits(&self, _input: &UpdateInput) -> CallTraits {
        ALONE
    }

    fn subject(&self, _input: &UpdateInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &UpdateInput) -> String {
        let id = &input.task_id;
        match input.status {
            Some(NewStatus::Completed) => format!("Task {id} is done"),
            Some(NewStatus::InProgress) => format!("Starting task {id}"),
            Some(NewStatus::Failed) => format!("Task {id} failed"),
            Some(NewStatus::Cancelled) => format!("Task {id} is cancelled"),
            Some(NewStatus::Deleted) => format!("Removing task {id}"),
            Some(NewStatus::Pending) | None => format!("Updating task {id}"),
        }
    }

    async fn call(
        &self,
        input: UpdateInput,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let tasks = &context.session.tasks;
        let mut list = tasks.read().map_err(failed)?;
        let before = list
            .get_mut(&input.task_id)
            .map_err(|error| ToolError::failed(error.to_string()))?
            .clone();
        let status = input.status;
        // On a copy first: hooks hear only of updates that are possible.
        let seat = context.session.host().and_then(|host| host.team_seat());
        let changed = apply(&mut list, &before.id, input.clone(), seat.as_ref())
            .map_err(|error| failed(error.into()))?;
        let completes =
            status == Some(NewStatus::Completed) && before.status != TodoStatus::Completed;
        let after = list.get(&before.id).unwrap_or(&before).clone();
        let update = TaskUpdated {
            from: before.status.word(),
            to: status.map_or(before.status.word(), NewStatus::word),
            fields: changed.clone(),
        };
        if let Some(refusal) = refusal(&context, &before, after, completes, update).await {
            return Err(ToolError::failed(refusal));
        }
        tasks
            .change(|list| apply(list, &before.id, input, seat.as_ref()))
            .map_err(failed)?;
        let list = tasks.read().map_err(failed)?;
        if let Some(host) = context.session.host()
            && let Some(task) = list.get(&before.id)
            && task.owner != before.owner
        {
            host.task_given(task);
        }
        let mut text = match status {
            Some(NewStatus::Deleted) => format!("Task #{} was removed.", before.id),
            _ => format!("Task #{} updated: {}.", before.id, changed.join(", ")),
        };
        if completes {
            text.push_str(" TaskList shows what comes next.");
        }
        Ok(ToolOutput::new(
            text,
            json!({
                "success": true, "taskId": before.id, "updatedFields": changed,
                "statusChange": status.map(|status| json!({
                    "from": before.status.word(), "to": status.word(),
                })),
            }),
            shown(&list),
        ))
    }
}

/// Tells the hooks of an update. Returns the words for the model when one objects.
async fn refusal(
    context: &CallContext,
    before: &Task,
    after: Task,
    completes: bool,
    update: TaskUpdated,
) -> Option<String> {
    let host = context.session.host()?;
    if completes {
        let objection = host.task_changed(before.clone(), TaskChange::Completed);
        if let Some(objection) = objection.await {
            return Some(format!(
                "A hook rejected the completion of task #{}: {objection}",
                before.id
            ));
        }
    }
    let objection = host
        .task_changed(after, TaskChange::Updated(update))
        .await?;
    Some(format!(
        "A hook rejected the change of task #{}: {objection}",
        before.id
    ))
}

/// Carries an update out; names the fields that changed.
fn apply(
    list: &mut List,
    id: &str,
    mut input: UpdateInput,
    seat: Option<&Seat>,
) -> Result<Vec<&'static str>, TaskListError> {
    if let Some(seat) = seat {
        let begins = input.status == Some(NewStatus::InProgress);
        list.check_claim(id, seat, input.owner.as_deref(), begins)?;
        // Who begins a free task owns it.
        let is_free = list.get(id).is_some_and(|task| task.owner.is_none());
        if begins && !seat.leads && is_free {
            input.owner = Some(seat.name.clone());
        }
    }
    if input.status == Some(NewStatus::Deleted) {
        list.remove(id);
        return Ok(vec!["deleted"]);
    }
    let mut changed = Vec::new();
    let task = list.get_mut(id)?;
    if let Some(subject) = input.subject {
        task.subject = subject;
        changed.push("subject");
    }
    if let Some(description) = input.description {
        task.description = description;
        changed.push("description");
    }
    if let Some(active_form) = input.active_form {
        task.active_form = Some(active_form);
        changed.push("activeForm");
    }
    if let Some(owner) = input.owner {
        task.owner = (!owner.is_empty()).then_some(owner);
        changed.push("owner");
    }
    if let Some(status) = input.status.and_then(NewStatus::kept) {
        task.status = status;
        changed.push("status");
    }
    if let Some(metadata) = input.metadata {
        for (key, value) in metadata {
            if value.is_null() {
                task.metadata.shift_remove(&key);
            } else {
                task.metadata.insert(key, value);
            }
        }
        changed.push("metadata");
    }
    for other in input.add_blocks.into_iter().flatten() {
        list.make_wait(&other, id)?;
        changed.push("blocks");
    }
    for other in input.add_blocked_by.into_iter().flatten() {
        list.make_wait(id, &other)?;
        changed.push("blockedBy");
    }
    changed.dedup();
    if changed.is_empty() {
        return Err(TaskListError::NothingToChange);
    }
    Ok(changed)
}

impl Tool for TaskList {
    type Input = ListInput;

    fn name(&self) -> &'static str {
        "TaskList"
    }

    fn description(&self) -> &str {
        include_str!("task_list.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &ListInput) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _input: &ListInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, _input: &ListInput) -> String {
        "Reading the task list".to_owned()
    }

    async fn call(&self, _input: ListInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let list = context.session.tasks.read().map_err(failed)?;
        Ok(ToolOutput::new(
            text_of(&list).unwrap_or_else(|| "The task list is empty.".to_owned()),
            json!({"tasks": list.tasks()}),
            shown(&list),
        ))
    }
}

/// The list in words; `None` when it is empty.
#[must_use]
pub fn text_of(list: &List) -> Option<String> {
    let mut lines = Vec::new();
    for task in list.tasks() {
        let mut line = format!("#{} [{}] {}", task.id, task.status.word(), task.subject);
        if let Some(owner) = &task.owner {
            let _ = write!(line, " ({owner})");
        }
        let blockers = list.open_blockers(task);
        if !blockers.is_empty() {
            let _ = write!(line, " [waits for #{}]", blockers.join(", #"));
        }
        lines.push(line);
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
