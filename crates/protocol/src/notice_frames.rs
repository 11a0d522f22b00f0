//! Frames of notices: hooks that run, and background tasks.

use crate::event::{HookNotice, TaskNotice, TaskStatus};
use crate::frame::{FrameOptions, merge};
use serde_json::{Value, json};

/// The frames of a hook that began, continues or ended.
pub(crate) fn hook_frames(
    notice: &HookNotice,
    options: FrameOptions,
    system: &impl Fn(&str, Value) -> Value,
) -> Vec<Value> {
    let always = |event: &str| matches!(event, "SessionStart" | "Setup");
    match notice {
        HookNotice::Started {
            hook_id,
            hook_name,
            hook_event,
            ..
        } => {
            if !options.hook_events && !always(hook_event) {
                return Vec::new();
            }
            vec![system(
                "hook_started",
                json!({"hook_id": hook_id, "hook_name": hook_name, "hook_event": hook_event}),
            )]
        }
        HookNotice::Progress {
            hook_id,
            hook_name,
            hook_event,
            stdout,
            stderr,
        } => {
            if !options.hook_events && !always(hook_event) {
                return Vec::new();
            }
            vec![system(
                "hook_progress",
                json!({
                    "hook_id": hook_id, "hook_name": hook_name, "hook_event": hook_event,
                    "stdout": stdout, "stderr": stderr, "output": format!("{stdout}{stderr}"),
                }),
            )]
        }
        HookNotice::Finished {
            hook_id,
            hook_name,
            hook_event,
            stdout,
            stderr,
            exit_code,
            outcome,
        } => {
            if !options.hook_events && !always(hook_event) {
                return Vec::new();
            }
            vec![system(
                "hook_response",
                json!({
                    "hook_id": hook_id, "hook_name": hook_name, "hook_event": hook_event,
                    "output": format!("{stdout}{stderr}"), "stdout": stdout, "stderr": stderr,
                    "exit_code": exit_code, "outcome": outcome,
                }),
            )]
        }
    }
}

/// The frames of a task that began, continues or ended.
pub(crate) fn task_frames(
    notice: &TaskNotice,
    system: &impl Fn(&str, Value) -> Value,
) -> Vec<Value> {
    match notice {
        TaskNotice::Started {
            task_id,
            description,
            tool_use_id,
            task_type,
            is_backgrounded,
            extra,
        } => {
            let mut fields = json!({
                "task_id": task_id, "tool_use_id": tool_use_id, "description": description,
                "task_type": task_type, "is_backgrounded": is_backgrounded,
            });
            merge(&mut fields, Value::Object(extra.clone()));
            vec![system("task_started", fields)]
        }
        TaskNotice::Progress {
            task_id,
            description,
            tool_use_id,
            usage,
            last_tool_name,
        } => {
            vec![system(
                "task_progress",
                json!({
                    "task_id": task_id, "tool_use_id": tool_use_id, "description": description,
                    "usage": usage, "last_tool_name": last_tool_name,
                }),
            )]
        }
        TaskNotice::Finished {
            task_id,
            tool_use_id,
            status,
            output_file,
            summary,
            usage,
        } => {
            let patch_status = match status {
                TaskStatus::Completed => "completed",
                TaskStatus::Failed => "failed",
                TaskStatus::Stopped => "killed",
            };
            vec![
                system(
                    "task_updated",
                    json!({"task_id": task_id, "patch": {"status": patch_status}}),
                ),
                system(
                    "task_notification",
                    json!({
                        "task_id": task_id, "tool_use_id": tool_use_id, "status": status,
                        "output_file": output_file, "summary": summary, "usage": usage,
                    }),
                ),
            ]
        }
    }
}
