//! Fires scheduled prompts: between turns, each time once.
//!
//! A prompt that is due waits in the inbox like any other, but is never delivered in the middle of a turn. It runs in
//! the permission mode that its job was made in, or in the present one if that is narrower.

use crate::conversation::ConversationShared;
use jiff::SignedDuration;
use lathe_permissions::Permissions;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::PermissionMode;
use lathe_tools::schedule::{Job, Schedule, When};
use serde_json::{Value, json};
use std::sync::{Arc, Weak};

/// The kind of origin that marks a turn which a job began.
const ORIGIN: &str = "scheduled-task";
/// Where a prompt names its job.
const JOB: &str = "scheduledTask";
/// The subtype of the record that tells of a fire.
pub(crate) const FIRE: &str = "scheduled_task_fire";
/// After this time the project's jobs are read again: another session may have changed them.
const POLL: SignedDuration = SignedDuration::from_secs(60);
/// The least wait, should a job be due that can't be fired.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// Fires jobs until the session ends.
pub(crate) fn start(shared: &Arc<ConversationShared>) {
    let schedule = shared.session.schedule.clone();
    if !schedule.fires() {
        return;
    }
    let weak = Arc::downgrade(shared);
    let cancel = shared.session.agents.cancel.clone();
    lathe_spawn::task(async move {
        tokio::select! {
            () = watch(&weak, &schedule) => {}
            () = cancel.cancelled() => {}
        }
    });
}

async fn watch(weak: &Weak<ConversationShared>, schedule: &Arc<Schedule>) {
    while let Some(shared) = weak.upgrade() {
        let jobs = schedule.clone();
        let fired = lathe_spawn::blocking(move || fire_due(&shared, &jobs)).await;
        if fired.is_err() {
            return;
        }
        let now = schedule.clock().now();
        let later = |wait: SignedDuration| now.checked_add(wait).unwrap_or(now);
        let next = schedule.next().unwrap_or_else(|| later(POLL));
        let next = next.clamp(later(PAUSE), later(POLL));
        tokio::select! {
            () = schedule.clock().until(next) => {}
            () = schedule.changed() => {}
        }
    }
}

fn fire_due(shared: &Arc<ConversationShared>, schedule: &Schedule) {
    let due = match schedule.take_due() {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "scheduled prompts can't be read");
            return;
        }
    };
    for job in &due.ended {
        let text = format!("The scheduled prompt {} has ended.", job.id);
        shared.events.notice(NoticeLevel::Info, text);
    }
    for job in &due.jobs {
        let prompt = prompt_of(job);
        let transcript = shared.transcript.path();
        if let Err(error) = schedule.begin(&job.id, prompt.uuid, transcript) {
            let text = format!(
                "The scheduled prompt {} could not be started: {error}",
                job.id
            );
            shared.events.notice(NoticeLevel::Warning, text);
            continue;
        }
        shared.inbox.queue.lock().push_back(prompt);
        shared.inbox.wake.notify_one();
    }
}

/// The prompt of a job.
fn prompt_of(job: &Job) -> Prompt {
    let mut prompt = Prompt::new(job.prompt.clone());
    let facts = json!({
        "id": job.id, "cron": job.cron, "recurring": job.recurring, "durable": job.durable,
        "permissionMode": job.permission_mode.unwrap_or_default(),
    });
    mark(&mut prompt, facts);
    prompt
}

/// Marks the first round of a loop, which runs at once.
pub(crate) fn mark_as_own(prompt: &mut Prompt, mode: PermissionMode) {
    mark(prompt, json!({"permissionMode": mode}));
}

/// Marks a prompt, so that it is not delivered in the middle of a turn.
fn mark(prompt: &mut Prompt, facts: Value) {
    prompt.origin = Some(json!({"kind": ORIGIN}));
    let origin = json!({"kind": ORIGIN});
    prompt.extra.insert("origin".to_owned(), origin);
    prompt.extra.insert(JOB.to_owned(), facts);
}

/// The job of a prompt, as its record has it; `None` for any other prompt.
pub(crate) fn job_of(prompt: &Prompt) -> Option<&Value> {
    prompt.extra.get(JOB).filter(|_| is_fire(prompt))
}

/// Whether a prompt comes from a job.
pub(crate) fn is_fire(prompt: &Prompt) -> bool {
    let kind = prompt.origin.as_ref().and_then(|origin| origin.get("kind"));
    kind.and_then(Value::as_str) == Some(ORIGIN)
}

/// Enters the permission mode of a prompt's job, if it is narrower than the present one. Returns the mode to go back
/// to after the turn, and the one that was entered.
pub(crate) fn narrow(
    permissions: &Permissions,
    prompt: &Prompt,
) -> Option<(PermissionMode, PermissionMode)> {
    let mode = job_of(prompt)?.get("permissionMode")?;
    let wanted: PermissionMode = serde_json::from_value(mode.clone()).unwrap_or_default();
    let present = permissions.mode();
    if width(wanted) >= width(present) {
        return None;
    }
    permissions.set_mode(wanted).ok()?;
    Some((present, wanted))
}

/// Goes back to the mode before, unless another was chosen meanwhile.
pub(crate) fn widen(permissions: &Permissions, modes: Option<(PermissionMode, PermissionMode)>) {
    if let Some((before, entered)) = modes
        && permissions.mode() == entered
        && let Err(error) = permissions.set_mode(before)
    {
        tracing::info!(%error, "the mode before the scheduled prompt is no longer available");
    }
}

/// How much a mode lets pass, in order.
fn width(mode: PermissionMode) -> u8 {
    match mode {
        PermissionMode::Plan => 0,
        PermissionMode::DontAsk => 1,
        PermissionMode::Default => 2,
        PermissionMode::AcceptEdits => 3,
        PermissionMode::Auto => 4,
        PermissionMode::BypassPermissions => 5,
    }
}

/// The jobs for Stop hooks.
pub(crate) fn for_hooks(schedule: &Schedule) -> Vec<Value> {
    let jobs = schedule.list().into_iter();
    let crons = jobs.filter(|job| matches!(job.when(), When::Cron(_)));
    crons
        .map(|job| {
            json!({
                "id": job.id, "schedule": job.cron, "recurring": job.recurring,
                "prompt": job.prompt.chars().take(1_000).collect::<String>(),
            })
        })
        .collect()
}
