//! `/goal`: a condition that turns go on for.

use crate::CommandError;
use lathe_engine::SessionHandle;
use lathe_protocol::op::Prompt;

/// Shows, sets or ends the goal. A new one is worked on at once, unless a turn runs that is judged by it anyway.
pub(crate) fn answer(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let arguments = arguments.trim();
    let goals = session.goal();
    match arguments {
        "" => Ok(match goals.current() {
            None => "There is no goal. /goal <condition> sets one, /goal !<command> has a command judge.".to_owned(),
            Some(goal) => match goal.missing {
                None => format!("The goal: {}", goal.condition),
                Some(missing) => format!("The goal: {}\nMissing when it was judged last: {missing}", goal.condition),
            },
        }),
        "clear" | "off" => Ok(if goals.clear() {
            "The goal is ended.".to_owned()
        } else {
            "There is no goal.".to_owned()
        }),
        condition => {
            if !session.tasks().schedule().fires() {
                return Err(CommandError::GoalInPrint);
            }
            let goal = goals.set(condition).map_err(CommandError::session)?;
            if !session.tasks().is_busy() {
                let words = match goal.command() {
                    Some(command) => format!("Work until the command `{command}` succeeds."),
                    None => format!("Work until this is reached: {}", goal.condition),
                };
                session.tasks().run_between_turns(Prompt::new(words));
            }
            Ok(format!(
                "The goal is set: {}. Turns go on until it is reached; /goal shows it, /goal clear ends it.",
                goal.condition
            ))
        }
    }
}
