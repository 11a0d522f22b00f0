//! The words for a commit or a pull request: a small question about what git says has changed.
//!
//! Like every side query it goes to the small model, without tools and within a time limit. What it
//! writes ends as the `attribution` of settings says. Nothing is committed here.

use crate::context::git::{Git, GitError};
use crate::context::prompt::attribution_lines;
use crate::open::options::{OpenError, SessionOptions};
use crate::open::prepare;
use crate::session::background::ask_beside;
use crate::session::ledger::Part;
use lathe_permissions::repository::NotTrusted;
use lathe_settings::Environment;
use lathe_settings::schema::Settings;
use std::fmt::Write as _;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the answer may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How much of a change is shown.
const MOST_CHARACTERS: usize = 24_000;
/// The longest answer that is accepted.
const MOST_ANSWER: usize = 6_000;

const COMMIT: &str = "You write commit messages. You are shown a change and the subjects of earlier commits. Answer with the message alone: a subject of at most 72 characters in the style of the earlier ones, and, if the reason isn't obvious, a blank line and a short body that says why. Plain text, no code fence, no trailers.";
const PULL_REQUEST: &str = "You write descriptions of pull requests. You are shown the commits and the change of a branch. Answer with a title of at most 72 characters, a blank line, and a description: what changes and why, then how it was or can be tested. Short, Markdown, no code fence around it, no trailers.";

/// The kind of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A commit of what is staged, or of everything that changed where nothing is.
    Commit,
    /// A pull request of the present branch against another.
    PullRequest {
        /// The branch that it goes to; `None` is found from the remote.
        base: Option<String>,
    },
}

/// Why there are no words.
#[derive(Debug, thiserror::Error)]
pub enum ChangeTextError {
    /// The session could not be put together.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nobody trusted the folder, or it is in no repository.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Nothing has changed.
    #[error("{0}")]
    Nothing(String),
    /// The model gave none.
    #[error("the model returned no usable text: {0}")]
    Model(String),
}

/// Writes the words for a change in the working folder.
///
/// # Errors
/// When nothing has changed, there is no key, or the model gives no usable answer.
pub async fn change_text(
    environment: Environment,
    options: SessionOptions,
    change: Change,
) -> Result<String, ChangeTextError> {
    let folder = environment.cwd.clone();
    let prepared = prepare(environment, options).await?;
    let shared = prepared.conversation.shared.clone();
    let git = Git::new(&shared.permissions.snapshot(), &folder)?;
    let (system, question) = match &change {
        Change::Commit => (COMMIT, commit_question(&git).await?),
        Change::PullRequest { base } => (
            PULL_REQUEST,
            pull_request_question(&git, base.as_deref()).await?,
        ),
    };
    let cancel = CancellationToken::new();
    let model = shared.session.catalog.small_fast_model().id;
    let asked = ask_beside(&shared, Part::Side, model, system, question, &cancel);
    let answer = tokio::time::timeout(LIMIT, asked)
        .await
        .map_err(|_| ChangeTextError::Model(format!("no answer within {} s", LIMIT.as_secs())))?
        .map_err(|error| ChangeTextError::Model(error.to_string()))?;
    let text = plain(&answer).ok_or_else(|| {
        ChangeTextError::Model("it is empty or far too long; try again".to_owned())
    })?;
    let settings = Settings::from_merged(&shared.session.settings.value.read()).unwrap_or_default();
    let [commit, pull_request] = attribution_lines(&settings);
    let end = match change {
        Change::Commit => commit,
        Change::PullRequest { .. } => pull_request,
    };
    Ok(match end {
        Some(lines) => format!("{text}\n\n{lines}\n"),
        None => format!("{text}\n"),
    })
}

async fn commit_question(git: &Git) -> Result<String, ChangeTextError> {
    let ask = |arguments: &'static [&'static str]| git.run(arguments);
    let staged = ask(&["diff", "--cached", "--no-ext-diff", "--no-textconv"]).await?;
    let change = if staged.trim().is_empty() {
        let all = ask(&["diff", "HEAD", "--no-ext-diff", "--no-textconv"]).await;
        let new = ask(&["status", "--short", "--untracked-files=all"]).await;
        match (all.unwrap_or_default(), new.unwrap_or_default()) {
            (all, new) if all.trim().is_empty() && new.trim().is_empty() => {
                return Err(ChangeTextError::Nothing(
                    "nothing has changed since the last commit".to_owned(),
                ));
            }
            (all, new) => format!("{new}\n{all}"),
        }
    } else {
        staged
    };
    let earlier = ask(&["log", "-n", "10", "--format=%s"]).await;
    Ok(question(
        &earlier.unwrap_or_default(),
        "The change",
        &change,
    ))
}

async fn pull_request_question(git: &Git, base: Option<&str>) -> Result<String, ChangeTextError> {
    let base = match base {
        Some(base) => base.to_owned(),
        None => default_branch(git).await.ok_or_else(|| {
            ChangeTextError::Nothing(
                "the base branch of the pull request is unknown; set it with --base".to_owned(),
            )
        })?,
    };
    // A name that begins with a dash would be read as an option.
    if base.starts_with('-') {
        return Err(ChangeTextError::Nothing(format!(
            "{base} is not the name of a branch"
        )));
    }
    let range = format!("{base}..HEAD");
    let commits = git
        .run(&["log", "-n", "50", "--format=- %s%n%b", &range])
        .await;
    let Some(commits) = commits.ok().filter(|commits| !commits.trim().is_empty()) else {
        return Err(ChangeTextError::Nothing(format!(
            "there are no commits on this branch that {base} doesn't have"
        )));
    };
    let range = format!("{base}...HEAD");
    let diff = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--stat",
        "--patch",
        &range,
    ];
    let change = git.run(&diff).await.unwrap_or_default();
    Ok(question(&commits, "The change", &change))
}

/// The branch that pull requests go to: what the remote calls its head, or a usual name.
async fn default_branch(git: &Git) -> Option<String> {
    let head = ["symbolic-ref", "--short", "refs/remotes/origin/HEAD"];
    if let Ok(name) = git.run(&head).await {
        return Some(name.trim().to_owned());
    }
    for name in ["main", "master", "trunk"] {
        let known = git
            .run(&["rev-parse", "--verify", "--quiet", name])
            .await
            .is_ok();
        if known {
            return Some(name.to_owned());
        }
    }
    None
}

fn question(commits: &str, title: &str, change: &str) -> String {
    let mut text = String::new();
    if !commits.trim().is_empty() {
        let _ = writeln!(text, "Commits:\n{}\n", commits.trim_end());
    }
    let _ = writeln!(text, "{title}:");
    let shown: String = change.trim().chars().take(MOST_CHARACTERS).collect();
    text.push_str(&shown);
    if shown.len() < change.trim().len() {
        text.push_str("\n[cut; the rest is not shown]");
    }
    text
}

/// The words without a fence around them; `None` when there are none, or far too many.
fn plain(answer: &str) -> Option<String> {
    let answer = answer.trim();
    let inner = answer
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'))
        .map_or(answer, |(_, inner)| inner)
        .trim();
    (!inner.is_empty() && inner.len() <= MOST_ANSWER).then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_the_words_is_taken_off() {
        assert_eq!(plain("```text\nMend it\n```").as_deref(), Some("Mend it"));
        assert_eq!(
            plain(" Mend `it`\n\nWhy. ").as_deref(),
            Some("Mend `it`\n\nWhy.")
        );
        assert_eq!(plain("  "), None);
        assert_eq!(plain(&"x".repeat(MOST_ANSWER + 1)), None);
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let text = question("- one\n", "The change", &"line\n".repeat(10_000));
        assert!(text.len() < MOST_CHARACTERS + 200);
        assert!(text.starts_with("Commits:\n- one\n") && text.ends_with("not shown]"));
    }
}
