//! CronCreate, CronList and CronDelete: prompts at set times.

use crate::context::{CallContext, ToolContext};
use crate::schedule::{Job, NewJob, Schedule, When};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::{PermissionMode, Subject};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The names of these tools and of [`crate::wakeup`].
pub const NAMES: [&str; 4] = ["CronCreate", "CronList", "CronDelete", "ScheduleWakeup"];

/// Schedules a prompt.
pub struct CronCreate;
/// Lists scheduled prompts.
pub struct CronList;
/// Deletes a scheduled prompt.
pub struct CronDelete;

/// A new job.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateInput {
    /// Minute, hour, day, month, weekday.
    cron: String,
    prompt: String,
    /// Default true.
    #[serde(default = "yes")]
    recurring: bool,
    /// Default false.
    #[serde(default)]
    durable: bool,
}

fn yes() -> bool {
    true
}

/// Which job.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteInput {
    id: String,
}

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListInput {}

pub(crate) const ALONE: CallTraits = CallTraits {
    concurrency_safe: false,
    ..CallTraits::READS
};

pub(crate) fn schedule_of(
    context: &CallContext,
    tool: &str,
) -> Result<(Arc<Schedule>, PermissionMode), ToolError> {
    let host = context.session.needs_host(tool)?;
    host.schedule()
        .ok_or_else(|| ToolError::failed("This conversation can't schedule prompts."))
}

/// A job for programs.
#[must_use]
pub fn structured(schedule: &Schedule, job: &Job) -> Value {
    let next = schedule.next_of(job);
    let mut value = json!({
        "id": job.id, "cron": job.cron, "prompt": job.prompt, "recurring": job.recurring,
        "durable": job.durable, "paused": job.paused, "next": next.map(|next| next.to_string()),
        "humanSchedule": in_words(schedule, job),
    });
    if let Some(next) = next {
        value["nextFireAt"] = next.as_millisecond().into();
    }
    value
}

/// The jobs in words; `None` when there are none.
#[must_use]
pub fn text_of(schedule: &Schedule, jobs: &[Job]) -> Option<String> {
    let lines: Vec<String> = jobs.iter().map(|job| line(schedule, job)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// When a job runs, as people read it.
fn in_words(schedule: &Schedule, job: &Job) -> String {
    match (job.when(), schedule.next_of(job)) {
        (When::Cron(cron), Some(next)) if job.recurring => {
            format!("{cron}, next {}", schedule.local_time(next))
        }
        (When::Cron(cron), None) => cron,
        (_, Some(next)) => format!("once, {}", schedule.local_time(next)),
        (When::At(moment), None) => format!("once, {}", schedule.local_time(moment)),
    }
}

fn line(schedule: &Schedule, job: &Job) -> String {
    let when = match job.when() {
        When::Cron(text) => text,
        When::At(_) => "wake-up".to_owned(),
    };
    let mut facts = vec![if job.recurring { "recurring" } else { "once" }];
    if job.durable {
        facts.push("durable");
    }
    let next = match schedule.next_of(job) {
        _ if job.paused => "paused".to_owned(),
        Some(next) => format!("next {}", schedule.local_time(next)),
        None => "never".to_owned(),
    };
    let prompt = job.prompt.lines().next().unwrap_or_default();
    format!("{} [{when}] {}, {next}: {prompt}", job.id, facts.join(", "))
}

impl Tool for CronCreate {
    type Input = CreateInput;

    fn name(&self) -> &'static str {
        "CronCreate"
    }

    fn description(&self) -> &str {
        include_str!("cron_create.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &CreateInput) -> CallTraits {
        ALONE
    }

    /// It grants nothing: a fire has the permission mode of now, or a narrower one.
    fn subject(&self, _input: &CreateInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &CreateInput) -> String {
        format!("Scheduling a prompt: {}", input.cron)
    }

    async fn call(
        &self,
        input: CreateInput,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (schedule, mode) = schedule_of(&context, self.name())?;
        let job = schedule
            .create(NewJob {
                when: When::Cron(input.cron),
                prompt: input.prompt,
                recurring: input.recurring,
                durable: input.durable,
                mode,
            })
            .map_err(|error| ToolError::invalid(error.to_string()))?;
        let mut text = format!("Scheduled: {}.", line(&schedule, &job));
        if job.recurring {
            text.push_str(" It expires after 7 days.");
        }
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, structured(&schedule, &job), display))
    }
}

impl Tool for CronList {
    type Input = ListInput;

    fn name(&self) -> &'static str {
        "CronList"
    }

    fn description(&self) -> &str {
        include_str!("cron_list.md")
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
        "Listing the scheduled prompts".to_owned()
    }

    async fn call(&self, _input: ListInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let (schedule, _) = schedule_of(&context, self.name())?;
        let jobs = schedule.list();
        let text =
            text_of(&schedule, &jobs).unwrap_or_else(|| "No prompts are scheduled.".to_owned());
        let all: Vec<Value> = jobs.iter().map(|job| structured(&schedule, job)).collect();
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, json!({"jobs": all}), display))
    }
}

impl Tool for CronDelete {
    type Input = DeleteInput;

    fn name(&self) -> &'static str {
        "CronDelete"
    }

    fn description(&self) -> &str {
        include_str!("cron_delete.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &DeleteInput) -> CallTraits {
        ALONE
    }

    fn subject(&self, _input: &DeleteInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &DeleteInput) -> String {
        format!("Deleting the scheduled prompt {}", input.id)
    }

    async fn call(
        &self,
        input: DeleteInput,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (schedule, _) = schedule_of(&context, self.name())?;
        let job = schedule
            .delete(&input.id)
            .map_err(|error| ToolError::invalid(error.to_string()))?;
        let text = format!("Deleted: {}.", job.id);
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, json!({"id": job.id}), display))
    }
}
