//! `/code-review`: a review that runs beside the conversation and reports to it.

use crate::CommandError;
use lathe_engine::SessionHandle;
use lathe_engine::review::{self, ReviewRequest, ReviewTarget};
use lathe_tools::report_findings::Level;

/// Findings of a report that nobody limited.
const USUAL_FINDINGS: usize = 16;

/// Starts a review.
pub(crate) fn start(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let (request, fix) = parse(arguments)?;
    if !session.tasks().schedule().fires() {
        return Err(CommandError::ReviewInPrint);
    }
    review::start(session, request, fix);
    Ok("The review has begun. Its findings come as soon as they are checked.".to_owned())
}

fn parse(arguments: &str) -> Result<(ReviewRequest, bool), CommandError> {
    let mut request = ReviewRequest {
        target: ReviewTarget::Changes,
        paths: Vec::new(),
        level: Level::Medium,
        max_findings: USUAL_FINDINGS,
    };
    let mut fix = false;
    let mut words = arguments.split_whitespace();
    let wrong = |word: &str| CommandError::ReviewUsage(word.to_owned());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| wrong(word));
        match word {
            "--base" => request.target = ReviewTarget::Base(value()?.to_owned()),
            "--commit" => request.target = ReviewTarget::Commit(value()?.to_owned()),
            "--uncommitted" => request.target = ReviewTarget::Uncommitted,
            "--fix" => fix = true,
            "--effort" => {
                request.level = match value()? {
                    "low" => Level::Low,
                    "medium" => Level::Medium,
                    "high" => Level::High,
                    other => return Err(wrong(other)),
                }
            }
            "low" => request.level = Level::Low,
            "medium" => request.level = Level::Medium,
            "high" => request.level = Level::High,
            flag if flag.starts_with("--") => return Err(wrong(flag)),
            other => match other.trim_start_matches('#').parse() {
                Ok(number) => request.target = ReviewTarget::PullRequest(number),
                Err(_) => request.paths.push(other.to_owned()),
            },
        }
    }
    Ok((request, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_after_the_command_name_the_change() {
        let (request, fix) = parse("--base main high --fix src/a.rs").unwrap();
        assert_eq!(request.target, ReviewTarget::Base("main".to_owned()));
        assert_eq!((request.level, fix), (Level::High, true));
        assert_eq!(request.paths, ["src/a.rs"]);
        assert_eq!(
            parse("#12").unwrap().0.target,
            ReviewTarget::PullRequest(12)
        );
        for wrong in ["--base", "--effort most", "--comment"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
