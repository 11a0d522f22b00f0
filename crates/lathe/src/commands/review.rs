//! `lathe review`: a code review of a change, for people and for CI.

use super::print_line;
use crate::arguments::SessionArguments;
use crate::error::{CliError, Outcome, notice};
use crate::{options, run};
use clap::{Args, ValueEnum};
use lathe_engine::review::{
    ReviewError, ReviewReport, ReviewRequest, ReviewTarget, TargetError, check_fixes, report,
    review,
};
use lathe_engine::{EventStream, HistoryOptions, Opened, SessionHandle};
use lathe_headless::exit::Exit;
use lathe_headless::print::Signal;
use lathe_protocol::event::Event;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::PermissionMode;
use lathe_settings::Environment;
use lathe_tools::report_findings::{Level, Outcome as Fate, Verdict};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

// `lathe review`.
#[derive(Debug, Args)]
pub(crate) struct ReviewArguments {
    /// The number of a pull request, or paths to limit the review to.
    #[arg(value_name = "PR-OR-PATH")]
    targets: Vec<String>,
    /// Everything since the branch left this one, uncommitted changes included.
    #[arg(long, value_name = "REF", conflicts_with_all = ["commit", "uncommitted"])]
    base: Option<String>,
    /// One commit.
    #[arg(long, value_name = "SHA", conflicts_with = "uncommitted")]
    commit: Option<String>,
    /// Changes that are not committed, new files included.
    #[arg(long)]
    uncommitted: bool,
    /// How many finders look at the change.
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "medium")]
    effort: Effort,
    /// Fix the findings, and check each again.
    #[arg(long)]
    fix: bool,
    /// Post the findings to the pull request with gh, after confirmation.
    #[arg(long)]
    comment: bool,
    /// Maximum number of findings to report.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=32))]
    max_findings: u32,
    /// The format of the report.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
    /// The findings that make the exit code 1.
    #[arg(long, value_enum, value_name = "WHICH", default_value = "any")]
    fail_on: FailOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Effort {
    Low,
    Medium,
    High,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
    Sarif,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Any,
    Confirmed,
    Never,
}

impl ReviewArguments {
    /// The review that the flags ask for.
    fn request(&self, folder: &Path) -> Result<ReviewRequest, CliError> {
        let number = match self.targets.as_slice() {
            [one] if !folder.join(one).exists() => one.trim_start_matches('#').parse().ok(),
            _ => None,
        };
        let named = self.base.is_some() || self.commit.is_some() || self.uncommitted;
        if number.is_some() && named {
            return Err(CliError::usage(
                "a pull request is reviewed as it is: leave out --base, --commit and --uncommitted",
            ));
        }
        let target = match (&self.base, &self.commit, self.uncommitted, number) {
            (Some(base), ..) => ReviewTarget::Base(base.clone()),
            (_, Some(commit), ..) => ReviewTarget::Commit(commit.clone()),
            (_, _, true, _) => ReviewTarget::Uncommitted,
            (_, _, _, Some(number)) => ReviewTarget::PullRequest(number),
            _ => ReviewTarget::Changes,
        };
        if self.comment && number.is_none() {
            return Err(CliError::usage(
                "--comment needs the number of a pull request",
            ));
        }
        Ok(ReviewRequest {
            target,
            paths: if number.is_some() {
                Vec::new()
            } else {
                self.targets.clone()
            },
            level: match self.effort {
                Effort::Low => Level::Low,
                Effort::Medium => Level::Medium,
                Effort::High => Level::High,
            },
            max_findings: self.max_findings as usize,
        })
    }

    /// Whether a report makes the command fail.
    fn fails(&self, report: &ReviewReport) -> bool {
        let mut open = report
            .findings
            .iter()
            .filter(|finding| !matches!(finding.outcome, Some(Fate::Fixed | Fate::NoChangeNeeded)));
        match self.fail_on {
            FailOn::Any => open.next().is_some(),
            FailOn::Confirmed => open.any(|finding| finding.verdict == Some(Verdict::Confirmed)),
            FailOn::Never => false,
        }
    }
}

/// `lathe review`.
pub(crate) async fn run(
    mut environment: Environment,
    session: SessionArguments,
    arguments: ReviewArguments,
) -> Outcome {
    run::enter_folder(&mut environment, &session)?;
    let request = arguments.request(&environment.cwd)?;
    let mut options = options::of(&session)?;
    if arguments.fix {
        // The flag is the consent to edits.
        if options.permissions.mode.is_none() {
            options.permissions.mode = Some(PermissionMode::AcceptEdits);
        }
    } else {
        options.history = HistoryOptions::ephemeral();
    }
    let signals = run::listen();
    let Opened {
        session,
        mut events,
        remarks,
        ..
    } = lathe_engine::open(environment, options).await?;
    for remark in &remarks {
        notice(&remark.to_string());
    }
    let reviewed = carry_out(&session, &mut events, &arguments, &request, signals.clone()).await;
    session.finish().await;
    let report = match reviewed {
        Ok(report) => report,
        Err(ReviewError::Cancelled) => return Ok(of_signal(*signals.borrow())),
        Err(error @ ReviewError::Target(TargetError::Nothing(_))) => {
            return Err(
                CliError::usage(error).hint("--base, --commit and paths choose other changes")
            );
        }
        Err(error @ ReviewError::NotTrusted(_)) => return Err(CliError::usage(error)),
        Err(error) => return Err(CliError::failure(error)),
    };
    let text = match arguments.format {
        ReportFormat::Text => report::text(&report),
        ReportFormat::Json => pretty(&report::json(&report)),
        ReportFormat::Sarif => pretty(&report::sarif(&report)),
    };
    print_line(&text)?;
    if arguments.comment && !report.findings.is_empty() {
        post(&report).await?;
    }
    Ok(super::exit_if(!arguments.fails(&report)))
}

fn of_signal(signal: Signal) -> Exit {
    match signal {
        Signal::Terminate => Exit::Terminated,
        Signal::Interrupt | Signal::None => Exit::Interrupted,
    }
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Reviews, and has the findings fixed if that is wanted.
async fn carry_out(
    session: &SessionHandle,
    events: &mut EventStream,
    arguments: &ReviewArguments,
    request: &ReviewRequest,
    mut signals: watch::Receiver<Signal>,
) -> Result<ReviewReport, ReviewError> {
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let listening = lathe_spawn::task(async move {
        if signals
            .wait_for(|signal| *signal != Signal::None)
            .await
            .is_ok()
        {
            stop.cancel();
        }
    });
    let mut report = watched(events, review(session, request, &cancel)).await?;
    if arguments.fix && !report.findings.is_empty() {
        let before = report.files_now();
        session.send(Op::Prompt(Prompt::new(report.fix_prompt())));
        fixed(session, events, &cancel).await;
        watched(events, check_fixes(session, &mut report, &before, &cancel)).await?;
    }
    listening.abort();
    Ok(report)
}

/// Waits for something, and says meanwhile what the session says.
async fn watched<T>(events: &mut EventStream, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(event) = events.next() => say(&event),
        }
    }
}

/// Waits for the end of the turn that fixes.
async fn fixed(session: &SessionHandle, events: &mut EventStream, cancel: &CancellationToken) {
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Event::TurnFinished(result)) => {
                    for error in &result.errors {
                        notice(error);
                    }
                    return;
                }
                Some(event) => say(&event),
                None => return,
            },
            () = cancel.cancelled() => {
                session.send(Op::Interrupt { drop_queued: true });
                return;
            }
        }
    }
}

fn say(event: &Event) {
    if let Event::Notice { text, .. } = event {
        notice(text);
    }
}

/// Posts the findings if the user agrees.
async fn post(report: &ReviewReport) -> Result<(), CliError> {
    let (number, _) = report.comments().map_err(CliError::usage)?;
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "--comment asks before it posts, so it needs a terminal",
        ));
    }
    let mut out = lathe_headless::output::Terminal::stderr();
    let question = format!(
        "Post {} findings to pull request {number}? [y/N] ",
        report.findings.len()
    );
    let _ = out
        .write_all(question.as_bytes())
        .and_then(|()| out.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_err() || !matches!(answer.trim(), "y" | "Y" | "yes") {
        notice("nothing was posted");
        return Ok(());
    }
    report.post().await.map_err(CliError::failure)?;
    notice(&format!("the findings are posted to pull request {number}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        review: ReviewArguments,
    }

    fn request(arguments: &[&str], folder: &Path) -> Result<ReviewRequest, CliError> {
        Line::parse_from([&["review"], arguments].concat())
            .review
            .request(folder)
    }

    #[test]
    fn the_flags_name_the_change() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("7"), "").unwrap();
        let target = |arguments: &[&str]| request(arguments, folder.path()).unwrap();
        assert_eq!(target(&[]).target, ReviewTarget::Changes);
        assert_eq!(
            target(&["--base", "main"]).target,
            ReviewTarget::Base("main".to_owned())
        );
        assert_eq!(
            target(&["--commit", "abc"]).target,
            ReviewTarget::Commit("abc".to_owned())
        );
        assert_eq!(target(&["--uncommitted", "src"]).paths, ["src"]);
        assert_eq!(target(&["12"]).target, ReviewTarget::PullRequest(12));
        assert_eq!(target(&["7"]).paths, ["7"], "a file of that name is a file");
        assert!(request(&["12", "--base", "main"], folder.path()).is_err());
        assert!(request(&["--comment"], folder.path()).is_err());
        assert!(Line::try_parse_from(["review", "--base", "a", "--uncommitted"]).is_err());
        assert!(Line::try_parse_from(["review", "--max-findings", "0"]).is_err());
    }
}
