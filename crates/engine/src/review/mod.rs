//! Code review: finders side by side look at a change, others try to refute each finding, and the rest is one report.
//!
//! Finders and verifiers are conversations inside the session that can only read; what they use is part of its cost. The
//! order of things is here, what is looked at in `target`, how it is shown in `diff`, what counts as the same in `merge`,
//! and the forms of the report in [`report`].

mod diff;
mod merge;
pub mod report;
mod target;

pub use target::{ReviewTarget, TargetError};

use crate::context::git::Git;
use crate::conversation::ConversationShared;
use crate::conversation::hook_model::{Inner, inner};
use crate::session::SessionHandle;
use crate::session::ledger::Part;
use diff::{FileDiff, portions};
use futures::{StreamExt as _, stream};
use lathe_permissions::repository::NotTrusted;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::op::Prompt;
use lathe_tools::ToolRegistry;
use lathe_tools::report_findings::{Finding, Level, Outcome, ReportFindings, Reported, Verdict};
use report::counted;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bytes of the change that one finder gets.
const PORTION: usize = 48 * 1024;
/// Finders of one review.
const MOST_FINDERS: usize = 24;
/// Agents at the same time.
const AT_ONCE: usize = 4;
/// Model calls of one agent.
const AGENT_TURNS: u32 = 40;
/// The prompt for an agent that ended without a report.
const MISSING_REPORT: &str = "You have not reported. Call ReportFindings now, with what you know.";
/// The tools of reviewers, beside the one that reports.
const READING_TOOLS: [&str; 3] = ["Glob", "Grep", "Read"];

/// The aspects of finders; a review uses the first ones, as many as its level says.
const ASPECTS: [&str; 5] = [
    "Look for every kind of defect: wrong results, crashes, security holes, lost data.",
    "Look at correctness: conditions, boundaries, off-by-one, wrong variable, missing case, wrong order, units, encodings.",
    "Look at safety: untrusted input, injection, paths, secrets, permissions, error handling, data that is lost or half written.",
    "Look at the surroundings: callers that relied on the old behaviour, contracts and documentation that no longer hold, tests that don't test.",
    "Look at time and resources: races, deadlocks, leaks, unbounded growth, needless work in hot paths.",
];

/// A review that is wanted.
#[derive(Debug, Clone)]
pub struct ReviewRequest {
    /// The change.
    pub target: ReviewTarget,
    /// Paths that it is limited to; none is all.
    pub paths: Vec<String>,
    /// How thorough it is.
    pub level: Level,
    /// The most findings that are reported.
    pub max_findings: usize,
}

/// The result of a review.
#[derive(Debug, Clone)]
pub struct ReviewReport {
    /// The change in words.
    pub name: String,
    /// How thorough the review was.
    pub level: Level,
    /// Files that were reviewed.
    pub files: usize,
    /// The findings, most severe first.
    pub findings: Vec<Finding>,
    /// Findings that were refuted.
    pub refuted: usize,
    /// Remarks on what could not be done.
    pub remarks: Vec<String>,
    change: Arc<Change>,
}

/// The reviewed change.
#[derive(Debug)]
struct Change {
    top: PathBuf,
    files: Vec<FileDiff>,
    pull_request: Option<u64>,
}

/// Why there is no review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Nobody trusted the repository.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// There is nothing to review.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// All finders failed.
    #[error("no finder finished: {0}")]
    Failed(String),
    /// The user stopped it.
    #[error("the review was stopped")]
    Cancelled,
    /// Comments need a pull request.
    #[error("comments are posted to a pull request: give its number")]
    NoPullRequest,
}

/// Why an agent of a review gave nothing.
#[derive(Debug, Clone, thiserror::Error)]
enum AgentFailure {
    #[error("it was stopped")]
    Stopped,
    #[error("{0}")]
    Budget(String),
    #[error("an agent ended without a report")]
    NoReport,
    #[error("{0}")]
    Turn(String),
}

/// How many finders look at each portion.
fn aspects(level: Level) -> &'static [&'static str] {
    match level {
        Level::Low => &ASPECTS[..1],
        Level::Medium => &ASPECTS[1..4],
        Level::High | Level::Xhigh | Level::Max => &ASPECTS[1..],
    }
}

/// Reviews a change.
///
/// # Errors
/// When there is nothing to review, or no finder came to an end.
pub async fn review(
    session: &SessionHandle,
    request: &ReviewRequest,
    cancel: &CancellationToken,
) -> Result<ReviewReport, ReviewError> {
    look(&session.shared, request, cancel).await
}

/// Reviews a change beside the conversation, and gives the conversation the findings as a prompt of its own. With `fix`
/// that prompt asks for fixes.
pub fn start(session: &SessionHandle, request: ReviewRequest, fix: bool) {
    let shared = session.shared.clone();
    let cancel = shared.session.agents.cancel.child_token();
    lathe_spawn::task(async move {
        let outcome = Box::pin(look(&shared, &request, &cancel)).await;
        let words = match outcome {
            Ok(report) if fix && !report.findings.is_empty() => report.fix_prompt(),
            Ok(report) => format!(
                "The code review that the user asked for has ended. Report the findings briefly, with their locations; change nothing yet.\n\n{}",
                report::text(&report)
            ),
            Err(error) => {
                let text = format!("The review failed: {error}");
                shared.events.notice(NoticeLevel::Warning, text);
                return;
            }
        };
        let mut prompt = Prompt::new(words);
        crate::session::schedule::mark_as_own(&mut prompt, shared.permissions.mode());
        shared.enqueue(prompt);
    });
}

async fn look(
    shared: &Arc<ConversationShared>,
    request: &ReviewRequest,
    cancel: &CancellationToken,
) -> Result<ReviewReport, ReviewError> {
    let folder = shared.tools.working_folder.read().clone();
    let git = Git::new(&shared.permissions.snapshot(), &folder)?;
    let found = target::change(&git, &request.target, &request.paths).await?;
    let pull_request = match request.target {
        ReviewTarget::PullRequest(number) => Some(number),
        _ => None,
    };
    let change = Arc::new(Change {
        top: found.top,
        files: found.files,
        pull_request,
    });
    let mut remarks = Vec::new();
    let candidates = find(shared, &change, request, &mut remarks, cancel).await?;
    let mut findings = merge::merge(candidates);
    anchor(&mut findings, &change, &mut remarks);
    let most = request.max_findings.saturating_mul(3);
    if findings.len() > most {
        remarks.push(format!(
            "{} findings were left out before they were checked.",
            findings.len() - most
        ));
        findings.truncate(most);
    }
    let checked = findings.len();
    say(
        shared,
        format!("Review: {} to check.", counted(checked, "finding")),
    );
    let mut findings = verify(shared, &change, findings, &mut remarks, cancel).await?;
    let refuted = checked - findings.len();
    findings = merge::merge(findings);
    merge::order(&mut findings);
    findings.truncate(request.max_findings);
    Ok(ReviewReport {
        name: found.name,
        level: request.level,
        files: change.files.len(),
        findings,
        refuted,
        remarks,
        change,
    })
}

fn say(shared: &ConversationShared, text: String) {
    shared.events.notice(NoticeLevel::Info, text);
}

/// Runs the finders side by side.
async fn find(
    shared: &Arc<ConversationShared>,
    change: &Change,
    request: &ReviewRequest,
    remarks: &mut Vec<String>,
    cancel: &CancellationToken,
) -> Result<Vec<Finding>, ReviewError> {
    let portions = portions(&change.files, PORTION);
    let aspects = aspects(request.level);
    let mut prompts: Vec<String> = Vec::new();
    for portion in &portions {
        for aspect in aspects {
            prompts.push(format!("{aspect}\n\nThe change:\n\n{portion}"));
        }
    }
    if prompts.len() > MOST_FINDERS {
        remarks.push(format!(
            "The change is large: {} of {} parts were reviewed. Review it in parts, with paths.",
            MOST_FINDERS,
            prompts.len()
        ));
        prompts.truncate(MOST_FINDERS);
    }
    say(
        shared,
        format!(
            "Review: {} over {}.",
            counted(prompts.len(), "finder"),
            counted(change.files.len(), "file")
        ),
    );
    let system = include_str!("../../prompts/review_find.md");
    let results: Vec<Result<Vec<Finding>, AgentFailure>> = stream::iter(prompts)
        .map(|prompt| ask(shared, system, prompt, cancel))
        .buffered(AT_ONCE)
        .collect()
        .await;
    if cancel.is_cancelled() {
        return Err(ReviewError::Cancelled);
    }
    let (mut findings, mut failures) = (Vec::new(), Vec::new());
    let all = results.len();
    for result in results {
        match result {
            Ok(found) => findings.extend(found),
            Err(why) => failures.push(why),
        }
    }
    if failures.len() == all {
        return Err(ReviewError::Failed(failures.swap_remove(0).to_string()));
    }
    if let Some(why) = failures.first() {
        remarks.push(format!("{} of {all} finders failed: {why}", failures.len()));
    }
    // A finder does not judge its own findings.
    for finding in &mut findings {
        finding.verdict = None;
        finding.outcome = None;
    }
    Ok(findings)
}

/// One agent that reads and reports.
async fn ask(
    shared: &Arc<ConversationShared>,
    system: &'static str,
    prompt: String,
    cancel: &CancellationToken,
) -> Result<Vec<Finding>, AgentFailure> {
    if cancel.is_cancelled() {
        return Err(AgentFailure::Stopped);
    }
    if let Some(why) = used_up(shared) {
        return Err(AgentFailure::Budget(why));
    }
    let reported: Reported = Arc::default();
    let mut registry: ToolRegistry = shared.toolbox.registry.read().clone();
    registry.retain(|tool| READING_TOOLS.contains(&tool.name()));
    registry.add(ReportFindings {
        reported: Some(reported.clone()),
    });
    let asked = Inner {
        model: shared.choices.read().model.clone(),
        registry,
        system,
        max_turns: AGENT_TURNS,
        prompt,
        again: MISSING_REPORT,
    };
    let given = || reported.lock().is_some();
    // Boxed: a conversation is large.
    let (result, totals) = Box::pin(inner(shared, asked, given, cancel)).await;
    shared.spending.waiting.lock().push((Part::Agents, totals));
    let found = reported.lock().take();
    found.ok_or_else(|| {
        if result.errors.is_empty() {
            AgentFailure::NoReport
        } else {
            AgentFailure::Turn(result.errors.join("; "))
        }
    })
}

/// Why no more may be spent, if so.
fn used_up(shared: &ConversationShared) -> Option<String> {
    let spent = {
        let waiting = shared.spending.waiting.lock();
        let totals = shared.spending.totals.lock();
        let waiting: f64 = waiting.iter().map(|(_, used)| used.cost_usd()).sum();
        totals.cost_usd() + waiting
    };
    let limits = &shared.seed.limits;
    let done = crate::turn::decide::gate(&crate::turn::decide::LoopState::default(), limits, spent)
        .or_else(|| crate::session::purse::check(shared, spent))?;
    match done {
        crate::turn::decide::Done::Ended { message, .. } => Some(message),
        crate::turn::decide::Done::Completed => None,
    }
}

/// Puts findings on lines of the change, and drops those about files that are not there.
fn anchor(findings: &mut Vec<Finding>, change: &Change, remarks: &mut Vec<String>) {
    let before = findings.len();
    findings.retain_mut(|finding| {
        let path = Path::new(&finding.file);
        if let Ok(inside) = path.strip_prefix(&change.top) {
            finding.file = inside.to_string_lossy().into_owned();
        }
        let name = finding.file.trim_start_matches("./").to_owned();
        finding.file = name;
        match change.files.iter().find(|file| file.path == finding.file) {
            Some(file) => {
                finding.line = finding.line.map(|line| file.anchor(line));
                true
            }
            None => {
                let path = Path::new(&finding.file);
                let inside = path
                    .components()
                    .all(|part| matches!(part, std::path::Component::Normal(_)));
                inside && change.top.join(path).is_file()
            }
        }
    });
    if findings.len() < before {
        remarks.push(format!(
            "{} findings named files that don't exist.",
            before - findings.len()
        ));
    }
}

/// Has each finding checked by an agent of its own. Gives those that were not refuted.
async fn verify(
    shared: &Arc<ConversationShared>,
    change: &Change,
    findings: Vec<Finding>,
    remarks: &mut Vec<String>,
    cancel: &CancellationToken,
) -> Result<Vec<Finding>, ReviewError> {
    let system = include_str!("../../prompts/review_verify.md");
    let answers: Vec<(Finding, Result<Vec<Finding>, AgentFailure>)> = stream::iter(findings)
        .map(|finding| async move {
            let prompt = question(&finding, change);
            let answer = ask(shared, system, prompt, cancel).await;
            (finding, answer)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    if cancel.is_cancelled() {
        return Err(ReviewError::Cancelled);
    }
    let (mut kept, mut unchecked) = (Vec::new(), Vec::new());
    for (mut finding, answer) in answers {
        match answer {
            Ok(answer) => {
                let Some(judged) = answer.into_iter().next() else {
                    continue;
                };
                finding.verdict = Some(judged.verdict.unwrap_or(Verdict::Plausible));
                if judged.file == finding.file && judged.line.is_some() {
                    finding.line = judged.line;
                }
                kept.push(finding);
            }
            Err(why) => {
                unchecked.push(why);
                kept.push(finding);
            }
        }
    }
    if let Some(why) = unchecked.first() {
        remarks.push(format!(
            "{} findings could not be checked: {why}",
            unchecked.len()
        ));
    }
    anchor(&mut kept, change, remarks);
    Ok(kept)
}

/// The prompt of a verifier: the finding, and the change around it.
fn question(finding: &Finding, change: &Change) -> String {
    let told = serde_json::to_string_pretty(finding).unwrap_or_default();
    let file = change.files.iter().find(|file| file.path == finding.file);
    let shown = file.map(|file| {
        let parts = portions(std::slice::from_ref(file), PORTION);
        let mark = finding.line.map(|line| format!("\n{line:>5} "));
        let with_line =
            mark.and_then(|mark| parts.iter().find(|part| part.contains(&mark)).cloned());
        with_line
            .or_else(|| parts.into_iter().next())
            .unwrap_or_default()
    });
    match shown {
        Some(shown) => format!("The finding:\n{told}\n\nThe change to its file:\n\n{shown}"),
        None => format!("The finding:\n{told}\n\nIts file is not part of the change; read it."),
    }
}

impl ReviewReport {
    /// The prompt that has the findings fixed.
    #[must_use]
    pub fn fix_prompt(&self) -> String {
        format!(
            "A code review of {} has these findings. Fix each of them with the smallest change that does it, with a test where the project has tests. Leave a finding that you find wrong as it is and say why.\n\n{}",
            self.name,
            lathe_tools::report_findings::text_of(&self.findings)
        )
    }

    /// The state of the files that the findings are about, to tell later which were changed.
    #[must_use]
    pub fn files_now(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let files = self.findings.iter().map(|finding| finding.file.clone());
        files
            .map(|file| {
                let content = std::fs::read(self.change.top.join(&file)).ok();
                (file, content)
            })
            .collect()
    }

    /// The review as GitHub takes it, and the pull request that it is for.
    ///
    /// # Errors
    /// When no pull request was reviewed.
    pub fn comments(&self) -> Result<(u64, serde_json::Value), ReviewError> {
        let number = self.change.pull_request.ok_or(ReviewError::NoPullRequest)?;
        let shown = |path: &str, line| {
            let mut files = self.change.files.iter();
            files.any(|file| file.path == path && file.shows(line))
        };
        Ok((number, report::comments(self, shown)))
    }

    /// Posts the findings to the pull request, through `gh`. Ask the user before.
    ///
    /// # Errors
    /// When no pull request was reviewed, or `gh` fails.
    pub async fn post(&self) -> Result<(), ReviewError> {
        let (number, review) = self.comments()?;
        let address = format!("repos/{{owner}}/{{repo}}/pulls/{number}/reviews");
        let arguments = ["api", "--method", "POST", &address, "--input", "-"];
        target::gh_send(
            &self.change.top,
            &arguments,
            review.to_string().into_bytes(),
        )
        .await?;
        Ok(())
    }
}

/// Checks after fixes which findings are gone. `before` is [`ReviewReport::files_now`] from before them.
///
/// # Errors
/// When the user stops it.
pub async fn check_fixes(
    session: &SessionHandle,
    report: &mut ReviewReport,
    before: &BTreeMap<String, Option<Vec<u8>>>,
    cancel: &CancellationToken,
) -> Result<(), ReviewError> {
    let shared = &session.shared;
    let now = report.files_now();
    let whole: Vec<FileDiff> = now
        .iter()
        .filter_map(|(path, content)| {
            let text = String::from_utf8_lossy(content.as_ref()?).into_owned();
            Some(FileDiff::whole(path, &text))
        })
        .collect();
    let after = Change {
        top: report.change.top.clone(),
        files: whole,
        pull_request: None,
    };
    let mut remarks = Vec::new();
    let asked = report.findings.clone();
    let left = verify(shared, &after, asked, &mut remarks, cancel).await?;
    report.remarks.extend(remarks);
    for finding in &mut report.findings {
        let is_left = left
            .iter()
            .any(|other| other.file == finding.file && other.summary == finding.summary);
        let is_changed = before.get(&finding.file) != now.get(&finding.file);
        finding.outcome = Some(match (is_left, is_changed) {
            (true, _) => Outcome::Skipped,
            (false, true) => Outcome::Fixed,
            (false, false) => Outcome::NoChangeNeeded,
        });
    }
    Ok(())
}
