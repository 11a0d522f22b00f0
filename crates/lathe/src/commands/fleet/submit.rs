//! `lathe fleet submit`.

use super::super::print;
use super::refuse_sessions;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::{Args, ValueEnum};
use lathe_fleet::Fleet;
use lathe_fleet::entry::State;
use lathe_fleet::job::{Job, Priority};
use lathe_headless::exit::Exit;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::Places;
use serde_json::Value;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

/// How often a job that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A priority on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PriorityWord {
    High,
    Normal,
    Low,
}

// `lathe fleet submit`.
#[derive(Debug, Args)]
pub(crate) struct SubmitArguments {
    /// The prompt.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    prompt: Option<String>,
    /// A file with one job per line, as JSON with the flags of a job as keys; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Wait until the jobs have ended; exit with 1 unless all succeeded.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    files: FilesArguments,
    #[command(flatten)]
    rules: RulesArguments,
    /// The id of the job. A second job with the same id is not submitted.
    #[arg(long, conflicts_with = "file")]
    id: Option<String>,
    /// A title for lists.
    #[arg(long, conflicts_with = "file")]
    title: Option<String>,
    /// The tenant; budgets and concurrency are per tenant.
    #[arg(long, conflicts_with = "file", default_value = "default")]
    tenant: String,
    /// The class of workers that may take it.
    #[arg(long, conflicts_with = "file", default_value = "default")]
    class: String,
    /// The priority in the queue.
    #[arg(long, value_enum, conflicts_with = "file", default_value = "normal")]
    priority: PriorityWord,
    /// A label that the worker must have. Repeatable.
    #[arg(long, value_name = "LABEL", conflicts_with = "file")]
    label: Vec<String>,
    /// A variable of the worker that the job gets. Repeatable.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    secret: Vec<String>,
    /// A job that must succeed first. Repeatable.
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    after: Vec<String>,
}

// Flags about the files of a job.
#[derive(Debug, Args)]
struct FilesArguments {
    /// A repository for the worker to clone. By default the job works in this folder.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    repo: Option<String>,
    /// The branch, tag or commit to start from.
    #[arg(long = "ref", value_name = "REF", conflicts_with = "file")]
    reference: Option<String>,
    /// Work in a git worktree of this folder.
    #[arg(long, conflicts_with_all = ["file", "repo"])]
    worktree: bool,
    /// Work in an empty folder.
    #[arg(long, conflicts_with_all = ["file", "repo", "worktree"])]
    no_files: bool,
}

// Flags about the model, the permissions and the limits of a job.
#[derive(Debug, Args)]
struct RulesArguments {
    /// The model.
    #[arg(long, conflicts_with = "file")]
    model: Option<String>,
    /// The reasoning effort of the model.
    #[arg(long, value_name = "LEVEL", conflicts_with = "file")]
    effort: Option<String>,
    /// The agent that the conversation runs as. The worker must know it.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    agent: Option<String>,
    /// The permission mode.
    #[arg(long, value_name = "MODE", value_parser = crate::arguments::values::permission_mode, conflicts_with = "file")]
    permission_mode: Option<PermissionMode>,
    /// A rule for calls that are allowed without asking. Repeatable.
    #[arg(long, value_name = "RULE", conflicts_with = "file")]
    allow: Vec<String>,
    /// A rule for calls that need confirmation, except commands in the sandbox. Repeatable.
    #[arg(long, value_name = "RULE", conflicts_with = "file")]
    ask: Vec<String>,
    /// A rule for calls that are denied. Repeatable.
    #[arg(long, value_name = "RULE", conflicts_with = "file")]
    deny: Vec<String>,
    /// Run commands without the sandbox. The worker must allow it.
    #[arg(long, conflicts_with = "file")]
    no_sandbox: bool,
    /// Maximum cost in dollars.
    #[arg(long, value_name = "USD", conflicts_with = "file")]
    budget: Option<f64>,
    /// Maximum number of model calls.
    #[arg(long, value_name = "N", conflicts_with = "file")]
    max_turns: Option<u32>,
    /// Time limit of one attempt, in seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "file")]
    time_limit: Option<u64>,
    /// Number of retries after a failure.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "file")]
    retries: u32,
    /// JSON schema of the result: JSON, or a file with it.
    #[arg(long, value_name = "FILE-OR-JSON", conflicts_with = "file")]
    schema: Option<String>,
}

pub(super) async fn run(places: &Places, fleet: &Fleet, arguments: SubmitArguments) -> Outcome {
    refuse_sessions(places, fleet).await?;
    let wait = arguments.wait;
    let jobs = jobs(places, arguments)?;
    let mut keys = Vec::new();
    for job in jobs {
        let key = job.key();
        if !fleet.enqueue(job).await.or_failure()? {
            crate::error::notice(&format!("{} already exists", key.id));
        }
        print(&format!("{}\n", key.id))?;
        keys.push(key);
    }
    let mut healthy = true;
    while wait && !keys.is_empty() {
        let mut left = Vec::new();
        for key in keys {
            let state = fleet.entry(&key).await.or_failure()?.state;
            if state.is_final() {
                healthy &= state == State::Done;
            } else {
                left.push(key);
            }
        }
        keys = left;
        tokio::time::sleep(LOOK).await;
    }
    Ok(if healthy {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn jobs(places: &Places, arguments: SubmitArguments) -> Result<Vec<Job>, CliError> {
    if let Some(file) = &arguments.file {
        let text = if file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).or_failure()?;
            text
        } else {
            let path = places.environment.cwd.join(file);
            std::fs::read_to_string(&path).map_err(|error| {
                CliError::usage(format!("{} can't be read: {error}", path.display()))
            })?
        };
        return Job::parse_lines(&text)
            .map_err(|error| CliError::usage(error).about(file.display()));
    }
    let job = job(places, arguments)?;
    job.check().or_usage()?;
    Ok(vec![job])
}

fn job(places: &Places, arguments: SubmitArguments) -> Result<Job, CliError> {
    let mut job = Job::new(arguments.prompt.unwrap_or_default());
    if let Some(id) = arguments.id {
        job.id = id;
    }
    job.title = arguments.title;
    job.tenant = arguments.tenant;
    job.class = arguments.class;
    job.priority = match arguments.priority {
        PriorityWord::High => Priority::High,
        PriorityWord::Normal => Priority::Normal,
        PriorityWord::Low => Priority::Low,
    };
    job.needs.labels = arguments.label;
    job.needs.secrets = arguments.secret;
    job.needs.after = arguments.after;
    let files = arguments.files;
    if files.repo.is_none() && !files.no_files {
        job.place.folder = Some(places.environment.cwd.clone());
    }
    job.place.repo = files.repo;
    job.place.reference = files.reference;
    job.place.worktree = files.worktree;
    let rules = arguments.rules;
    job.model = rules.model;
    job.effort = rules.effort;
    job.agent = rules.agent;
    job.rules.permission_mode = rules.permission_mode;
    job.rules.allow = rules.allow;
    job.rules.ask = rules.ask;
    job.rules.deny = rules.deny;
    job.rules.sandbox = !rules.no_sandbox;
    job.limits.budget_usd = rules.budget;
    job.limits.max_turns = rules.max_turns;
    job.limits.time_limit = rules.time_limit;
    job.limits.retries = rules.retries;
    job.schema = match rules.schema {
        Some(text) => Some(schema(places, &text)?),
        None => None,
    };
    Ok(job)
}

fn schema(places: &Places, text: &str) -> Result<Value, CliError> {
    let text = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else {
        let path = places.environment.cwd.join(text);
        std::fs::read_to_string(&path).map_err(|error| {
            CliError::usage(format!("{} can't be read: {error}", path.display()))
        })?
    };
    serde_json::from_str(&text).map_err(|error| CliError::usage(error).about("--schema"))
}
