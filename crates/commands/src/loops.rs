//! `/loop` and `/loops`: prompts that repeat.

use crate::CommandError;
use lathe_engine::SessionHandle;
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::op::Prompt;
use lathe_tools::cron;
use lathe_tools::schedule::{NewJob, When};

/// The instructions of a loop without an interval, beside its prompt.
const SELF_PACED: &str = "This is a loop without a fixed interval. Do one round of it now. Then call ScheduleWakeup with this same prompt and a delay that fits what you wait for, or with stop when the loop has reached its aim.";

/// When a loop repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pace {
    /// At the times of a cron expression; with what was rounded.
    Every { cron: String, note: Option<String> },
    /// The model says when.
    Own,
}

/// Starts a loop and runs its first round.
pub(crate) fn start(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let (pace, prompt) = parse(arguments);
    if prompt.is_empty() {
        return Err(CommandError::MissingArgument {
            command: BuiltinCommand::Loop,
            what: "prompt",
        });
    }
    let schedule = session.tasks().schedule();
    if !schedule.fires() {
        return Err(CommandError::SessionEnds);
    }
    let answer = match pace {
        Pace::Own => {
            session
                .tasks()
                .run_between_turns(Prompt::new(format!("{prompt}\n\n{SELF_PACED}")));
            "The loop has begun. The model says when it continues; /loops ends it.".to_owned()
        }
        Pace::Every { cron, note } => {
            let job = schedule.create(NewJob {
                when: When::Cron(cron),
                prompt: prompt.to_owned(),
                recurring: true,
                durable: false,
                mode: session.permissions().mode(),
            })?;
            session
                .tasks()
                .run_between_turns(Prompt::new(prompt.to_owned()));
            let line = cron::text_of(&schedule, &[job]).unwrap_or_default();
            let note = note.map(|note| format!(" {note}")).unwrap_or_default();
            format!(
                "The loop has begun: {line}.{note} It ends by itself after 7 days; /loops ends it sooner."
            )
        }
    };
    Ok(answer)
}

/// Lists the scheduled prompts, or pauses, continues or deletes one.
pub(crate) fn list(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let schedule = session.tasks().schedule();
    let words: Vec<&str> = arguments.split_whitespace().collect();
    match words.as_slice() {
        [] => {
            let jobs = cron::text_of(&schedule, &schedule.list());
            Ok(jobs.unwrap_or_else(|| "No prompts are scheduled.".to_owned()))
        }
        ["pause", id] => {
            schedule.pause(id, true)?;
            Ok(format!("{id} is paused."))
        }
        ["resume", id] => {
            schedule.pause(id, false)?;
            Ok(format!("{id} continues."))
        }
        ["delete", id] => {
            schedule.delete(id)?;
            Ok(format!("{id} is deleted."))
        }
        _ => Err(CommandError::LoopsUsage),
    }
}

/// Takes the interval off a loop's words.
fn parse(arguments: &str) -> (Pace, &str) {
    let arguments = arguments.trim();
    if let Some((first, rest)) = arguments.split_once(char::is_whitespace)
        && let Some(pace) = interval(first, "")
    {
        return (pace, rest.trim());
    }
    if let Some((before, after)) = arguments.rsplit_once("every ")
        && (before.is_empty() || before.ends_with(char::is_whitespace))
    {
        let words: Vec<&str> = after.split_whitespace().collect();
        let pace = match words.as_slice() {
            [both] => interval(both, "").or_else(|| interval("1", both)),
            [number, unit] => interval(number, unit),
            _ => None,
        };
        if let Some(pace) = pace {
            return (pace, before.trim());
        }
    }
    (Pace::Own, arguments)
}

/// An interval as a cron expression: `5m`, or `5` and `minutes`.
fn interval(number: &str, unit: &str) -> Option<Pace> {
    let digits = number.find(|letter: char| !letter.is_ascii_digit());
    let (digits, unit) = match digits {
        Some(at) if unit.is_empty() => number.split_at(at),
        Some(_) => return None,
        None => (number, unit),
    };
    let count: u64 = digits.parse().ok().filter(|count| *count > 0)?;
    let (minutes, note) = match unit.to_lowercase().trim_end_matches('s') {
        "" if unit.eq_ignore_ascii_case("s") => seconds(count),
        "sec" | "second" => seconds(count),
        "m" | "min" | "minute" => (count, None),
        "h" | "hr" | "hour" => (count.checked_mul(60)?, None),
        "d" | "day" => (count.checked_mul(1_440)?, None),
        _ => return None,
    };
    let hours = (minutes + 30) / 60;
    let days = (hours + 12) / 24;
    let (cron, exact) = if minutes <= 59 {
        (format!("*/{minutes} * * * *"), true)
    } else if hours <= 23 {
        (format!("0 */{hours} * * *"), hours * 60 == minutes)
    } else {
        (
            format!("0 0 */{} * *", days.min(31)),
            days * 1_440 == minutes && days <= 31,
        )
    };
    let rounded = (!exact).then(|| "The interval was rounded.".to_owned());
    Some(Pace::Every {
        cron,
        note: note.or(rounded),
    })
}

fn seconds(count: u64) -> (u64, Option<String>) {
    let minutes = count.div_ceil(60);
    let note = "Seconds were rounded up to whole minutes.".to_owned();
    (minutes, Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_come_first_or_last_or_not_at_all() {
        for (words, cron, prompt) in [
            ("5m check the build", "*/5 * * * *", "check the build"),
            (
                "check the build every 2 hours",
                "0 */2 * * *",
                "check the build",
            ),
            ("look every 10 minutes", "*/10 * * * *", "look"),
            ("look every hour", "0 */1 * * *", "look"),
            ("look every 30s", "*/1 * * * *", "look"),
            ("90s look", "*/2 * * * *", "look"),
            ("90m look", "0 */2 * * *", "look"),
            ("1d look", "0 0 */1 * *", "look"),
            ("36h look", "0 0 */2 * *", "look"),
        ] {
            let (pace, rest) = parse(words);
            let Pace::Every { cron: found, .. } = pace else {
                panic!("{words}: {pace:?}");
            };
            assert_eq!((found.as_str(), rest), (cron, prompt), "{words}");
        }
        for words in [
            "look at every file",
            "everything 5",
            "0m look",
            "5x look",
            "check the build",
        ] {
            assert_eq!(parse(words), (Pace::Own, words));
        }
        let (pace, _) = parse("90m look");
        assert!(matches!(pace, Pace::Every { note: Some(note), .. } if note.contains("rounded")));
        let (pace, _) = parse("20s look");
        assert!(matches!(pace, Pace::Every { note: Some(note), .. } if note.contains("Seconds")));
    }
}
