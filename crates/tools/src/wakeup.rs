//! ScheduleWakeup: a loop without an interval says when it continues.

use crate::context::{CallContext, ToolContext};
use crate::cron::{ALONE, schedule_of};
use crate::schedule::{NewJob, When};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use jiff::SignedDuration;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The shortest and the longest delay in seconds.
const DELAYS: (i64, i64) = (60, 3_600);

/// Sets the next round of a loop.
pub struct ScheduleWakeup;

/// The next round.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// 60 to 3600; not needed with stop.
    #[serde(default)]
    delay_seconds: Option<f64>,
    /// Why this delay, for the user.
    #[serde(default)]
    reason: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    noop: bool,
    #[serde(default)]
    stop: bool,
}

impl Tool for ScheduleWakeup {
    type Input = Input;

    fn name(&self) -> &'static str {
        "ScheduleWakeup"
    }

    fn description(&self) -> &str {
        include_str!("schedule_wakeup.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        ALONE
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        if input.stop {
            "Ending the loop".to_owned()
        } else {
            format!("Waiting: {}", input.reason)
        }
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let (schedule, mode) = schedule_of(&context, self.name())?;
        if input.stop {
            let ended = schedule.clear_wakeups();
            let text = "The loop has ended.".to_owned();
            let display = Display::Text { text: text.clone() };
            return Ok(ToolOutput::new(text, json!({"stopped": ended}), display));
        }
        let Some(wanted) = input.delay_seconds.filter(|delay| delay.is_finite()) else {
            return Err(ToolError::invalid("delaySeconds is missing."));
        };
        let seconds = SignedDuration::try_from_secs_f64(wanted)
            .map_or(DELAYS.1, |delay| delay.as_secs())
            .clamp(DELAYS.0, DELAYS.1);
        let moment = schedule
            .clock()
            .now()
            .checked_add(SignedDuration::from_secs(seconds))
            .map_err(|error| ToolError::failed(error.to_string()))?;
        // A loop has one next round.
        schedule.clear_wakeups();
        let job = schedule
            .create(NewJob {
                when: When::At(moment),
                prompt: input.prompt,
                recurring: false,
                durable: false,
                mode,
            })
            .map_err(|error| ToolError::invalid(error.to_string()))?;
        let text = format!(
            "The loop continues in {seconds} s ({}).",
            schedule.local_time(moment)
        );
        let display = Display::Text { text: text.clone() };
        let structured = json!({
            "id": job.id, "delaySeconds": seconds, "reason": input.reason, "noop": input.noop,
            "at": moment.to_string(),
        });
        Ok(ToolOutput::new(text, structured, display))
    }
}
