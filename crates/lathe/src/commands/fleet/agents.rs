//! Agents of a workflow as jobs of the fleet: `lathe workflow run --fleet`, and `Workflow` with `fleet`.

use super::{configured, open_configured};
use lathe_engine::workflow::{Elsewhere, RemoteAgents, RemoteEnd, RemoteOrder};
use lathe_fleet::Fleet;
use lathe_fleet::entry::{Entry, JobResult, State};
use lathe_fleet::job::{Job, JobKey};
use lathe_process::{Command, Ending};
use lathe_settings::Places;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// The longest that git may take.
const LIMIT: Duration = Duration::from_secs(300);
/// How often a job is looked at, at first and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How long a queue that can't be reached is waited for.
const PATIENCE: u32 = 60;

/// The fleet of the user, opened when the first agent needs it.
#[derive(Default)]
struct Agents {
    fleet: OnceCell<Fleet>,
}

/// Why an agent has no answer.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    /// The fleet.
    #[error("{0}")]
    Fleet(String),
    /// The queue.
    #[error(transparent)]
    Queue(#[from] lathe_fleet::QueueError),
    /// git.
    #[error("git {what}: {message}")]
    Git {
        /// The subcommand.
        what: String,
        /// Its message.
        message: String,
    },
    /// Files that no other machine has.
    #[error(
        "agents on other machines start from a commit that the remote has, and this folder has {0}: commit and push first"
    )]
    Files(&'static str),
    /// The run was stopped.
    #[error("it was cancelled")]
    Cancelled,
}

/// Runs agents of workflows on the fleet.
pub(crate) fn elsewhere() -> Elsewhere {
    Elsewhere(Arc::new(Agents::default()))
}

impl RemoteAgents for Agents {
    fn run<'a>(
        &'a self,
        places: &'a Places,
        order: RemoteOrder,
        say: &'a (dyn Fn(&str) + Send + Sync),
        cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = RemoteEnd> + Send + 'a>> {
        Box::pin(async move {
            let ended = self.carry_out(places, &order, say, cancel).await;
            ended.unwrap_or_else(|error| RemoteEnd {
                text: error.to_string(),
                ..RemoteEnd::default()
            })
        })
    }
}

impl Agents {
    async fn carry_out(
        &self,
        places: &Places,
        order: &RemoteOrder,
        say: &(dyn Fn(&str) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<RemoteEnd, AgentError> {
        let opened = self.fleet.get_or_try_init(|| open_configured(places)).await;
        let fleet = opened.map_err(|error| AgentError::Fleet(error.to_string()))?;
        let has_servers = configured(places).is_some_and(|settings| settings.url.is_some());
        let job = job(order, has_servers)?;
        let key = job.key();
        submit(fleet, job, say).await?;
        let entry = follow(fleet, &key, say, cancel).await?;
        let Some(result) = &entry.result else {
            let reason = entry.reason.as_deref().unwrap_or("without a reason");
            return Ok(RemoteEnd {
                text: format!("the job {} {}: {reason}", key.id, entry.state.name()),
                cost_usd: entry.cost_usd,
                ..RemoteEnd::default()
            });
        };
        let changes = match order.isolated {
            true => Some(take_changes(fleet, order, &key, result).await),
            false => None,
        };
        Ok(RemoteEnd {
            text: result.text.clone(),
            done: true,
            structured: result.structured.clone(),
            cost_usd: entry.cost_usd,
            usage: result.usage.clone(),
            changes: changes.flatten(),
        })
    }
}

/// The job of an order: in the folder itself where the queue is this machine's, else from the commit that the remote has.
fn job(order: &RemoteOrder, has_servers: bool) -> Result<Job, AgentError> {
    let mut job = Job::new(&order.prompt);
    job.id.clone_from(&order.id);
    job.title = Some(order.title.clone());
    job.model.clone_from(&order.model);
    job.effort.clone_from(&order.effort);
    job.agent.clone_from(&order.agent_type);
    job.schema.clone_from(&order.schema);
    job.rules.permission_mode = Some(order.rules.mode);
    job.rules.allow.clone_from(&order.rules.allow);
    job.rules.ask.clone_from(&order.rules.ask);
    job.rules.deny.clone_from(&order.rules.deny);
    job.limits.budget_usd = order.budget_usd;
    let folder = &order.folder;
    if !has_servers {
        job.place.folder = Some(folder.clone());
        job.place.worktree = order.isolated;
    } else if let Ok(commit) = git(folder, &["rev-parse", "-q", "--verify", "HEAD"]) {
        if !git(folder, &["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            return Err(AgentError::Files("changes that are not committed"));
        }
        if git(folder, &["branch", "-r", "--contains", &commit])?.is_empty() {
            return Err(AgentError::Files("a commit that is not pushed"));
        }
        job.place.repo = Some(git(folder, &["remote", "get-url", "origin"])?);
        job.place.reference = Some(commit);
    }
    Ok(job)
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, AgentError> {
    git_with(Command::git(folder), arguments)
}

fn git_with(command: Command, arguments: &[&str]) -> Result<String, AgentError> {
    let failed = |message: String| AgentError::Git {
        what: arguments.first().copied().unwrap_or_default().to_owned(),
        message,
    };
    let command = command.arguments(arguments);
    let finished = lathe_process::run_blocking(command, Vec::new(), LIMIT)
        .map_err(|error| failed(error.to_string()))?;
    if finished.ending == Ending::Exited(0) {
        return Ok(finished.stdout.trim().to_owned());
    }
    Err(failed(finished.stderr.trim().to_owned()))
}

/// Submits a job. One that an earlier process submitted for the same call continues, or begins again if it ended without a
/// result.
async fn submit(
    fleet: &Fleet,
    job: Job,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), AgentError> {
    let key = job.key();
    say(&format!("job {}", key.id));
    if !fleet.enqueue(job).await? {
        let state = fleet.entry(&key).await?.state;
        if matches!(state, State::Failed | State::Cancelled) {
            fleet.retry(&key).await?;
        }
    }
    if fleet.backend().workers().await?.is_empty() {
        say("no worker is running: `lathe fleet worker` starts one");
    }
    Ok(())
}

/// Waits for the end of a job.
async fn follow(
    fleet: &Fleet,
    key: &JobKey,
    say: &(dyn Fn(&str) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<Entry, AgentError> {
    let mut pause = LOOK.0;
    let mut state = State::Queued;
    let mut failures = 0;
    loop {
        match fleet.entry(key).await {
            Ok(entry) => {
                failures = 0;
                if entry.state != state {
                    state = entry.state;
                    let hint = match state {
                        State::Asking | State::Parked => {
                            format!(": `lathe fleet answer {}` answers", key.id)
                        }
                        _ => String::new(),
                    };
                    say(&format!("{}{hint}", state.name()));
                }
                if state.is_final() {
                    return Ok(entry);
                }
            }
            Err(lathe_fleet::QueueError::Server(_)) if failures < PATIENCE => failures += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LOOK.1),
            () = cancel.cancelled() => {
                // One that ended meanwhile needs no cancelling.
                let _ = fleet.cancel(key).await;
                return Err(AgentError::Cancelled);
            }
        }
    }
}

/// Brings the changes of a job here as a branch, and says where they are.
async fn take_changes(
    fleet: &Fleet,
    order: &RemoteOrder,
    key: &JobKey,
    result: &JobResult,
) -> Option<String> {
    let (diff, base) = (result.diff.as_ref()?, result.base.clone()?);
    let branch = format!("fleet/{}", key.id);
    let brought = async {
        let diff = fleet.blob(diff).await?;
        let bundle = match &result.bundle {
            Some(bundle) => Some(fleet.blob(bundle).await?),
            None => None,
        };
        let (folder, branch, title) = (order.folder.clone(), branch.clone(), order.title.clone());
        let work = move || bring(&folder, &branch, &title, &base, &diff, bundle.as_deref());
        let done = lathe_spawn::blocking(work).await;
        done.map_err(|error| AgentError::Fleet(error.to_string()))?
    };
    Some(match brought.await {
        Ok(()) => format!("Its changes are on the branch {branch}."),
        Err(error) => format!(
            "Its changes could not be brought here ({error}); `lathe fleet fetch {}` has them.",
            key.id
        ),
    })
}

/// Makes a branch with the commits of a job, and a commit of what it left uncommitted. No file of the folder is touched.
fn bring(
    folder: &Path,
    branch: &str,
    title: &str,
    base: &str,
    diff: &[u8],
    bundle: Option<&[u8]>,
) -> Result<(), AgentError> {
    let failed = |error: std::io::Error| AgentError::Fleet(error.to_string());
    let scratch = tempfile::tempdir().map_err(failed)?;
    let path = |name: &str| scratch.path().join(name);
    let text = |name: &str| path(name).to_string_lossy().into_owned();
    let mut head = base.to_owned();
    if let Some(bundle) = bundle {
        std::fs::write(path("bundle"), bundle).map_err(failed)?;
        git(folder, &["fetch", "-q", &text("bundle"), "HEAD"])?;
        head = git(folder, &["rev-parse", "FETCH_HEAD"])?;
    }
    std::fs::write(path("diff"), diff).map_err(failed)?;
    let apart = || Command::git(folder).variable("GIT_INDEX_FILE", text("index"));
    git_with(apart(), &["read-tree", base])?;
    git_with(
        apart(),
        &[
            "apply",
            "--cached",
            "--whitespace=nowarn",
            "--",
            &text("diff"),
        ],
    )?;
    let tree = git_with(apart(), &["write-tree"])?;
    if git(folder, &["rev-parse", &format!("{head}^{{tree}}")])? != tree {
        head = git(folder, &["commit-tree", &tree, "-p", &head, "-m", title])?;
    }
    git(
        folder,
        &["update-ref", &format!("refs/heads/{branch}"), &head],
    )?;
    Ok(())
}
