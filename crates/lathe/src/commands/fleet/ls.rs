//! `lathe fleet ls`.

use super::super::{print, print_line};
use super::{age, clean};
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_fleet::entry::Entry;
use serde_json::json;

// `lathe fleet ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArguments {
    /// Only jobs in this state.
    #[arg(long, value_parser = ["queued", "running", "asking", "parked", "done", "failed", "cancelled"])]
    state: Option<String>,
    /// Only jobs of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(fleet: &Fleet, arguments: &LsArguments) -> Outcome {
    let entries = fleet.entries().await.or_failure()?;
    let entries: Vec<&Entry> = entries
        .iter()
        .filter(|entry| {
            let state = arguments.state.as_deref();
            let tenant = arguments.tenant.as_deref();
            state.is_none_or(|state| entry.state.name() == state)
                && tenant.is_none_or(|tenant| entry.job.tenant == tenant)
        })
        .collect();
    if arguments.json {
        return print_line(&json!(entries).to_string());
    }
    if entries.is_empty() {
        return print("No jobs. `lathe fleet submit \"…\"` submits one.\n");
    }
    let now = fleet.backend().now();
    let lines: String = entries.iter().map(|entry| row(entry, now)).collect();
    print(&lines)
}

/// A line about a job.
pub(super) fn row(entry: &Entry, now: i64) -> String {
    let about = match (&entry.reason, &entry.worker) {
        (Some(reason), _) => format!(" ({})", clean(reason, 60)),
        (None, Some(worker)) => format!(" ({})", clean(worker, 60)),
        (None, None) => String::new(),
    };
    format!(
        "{:<14}  {:<9}  {:>6}  ${:<7.2}  {}{about}\n",
        entry.job.id,
        entry.state.name(),
        age(now, entry.changed),
        entry.cost_usd,
        clean(entry.job.headline(), 60),
    )
}
