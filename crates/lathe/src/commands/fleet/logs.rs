//! `lathe fleet logs`.

use super::super::{hosts, print};
use super::find;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_fleet::job::JobKey;
use lathe_fleet::log::LogRecord;
use lathe_headless::exit::Exit;
use lathe_protocol::printable;
use serde_json::Value;
use std::time::Duration;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(300);

// `lathe fleet logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// The job: its id or a prefix of it.
    id: String,
    /// Keep printing until the job ends.
    #[arg(short, long)]
    follow: bool,
}

pub(super) async fn run(fleet: &Fleet, arguments: &LogsArguments) -> Outcome {
    let key = find(fleet, &arguments.id).await?;
    let mut position = 0;
    loop {
        let over = fleet.entry(&key).await.or_failure()?.state.is_final();
        print_new(fleet, &key, &mut position).await?;
        if over || !arguments.follow {
            return Ok(Exit::Success);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Prints the records after a position, which moves on.
pub(super) async fn print_new(
    fleet: &Fleet,
    key: &JobKey,
    position: &mut u64,
) -> Result<(), CliError> {
    for (at, record) in fleet.log(key, *position).await.or_failure()? {
        *position = at;
        print(&words(&record))?;
    }
    Ok(())
}

/// A record in words; empty if it is not worth a line.
fn words(record: &LogRecord) -> String {
    match record {
        LogRecord::Begin { epoch, worker, .. } => {
            format!(
                "— claimed by {} (claim {epoch})\n",
                printable::clean(worker)
            )
        }
        LogRecord::Note { text } => format!("— {}\n", printable::clean(text)),
        LogRecord::Line { line } => {
            let value: Value = serde_json::from_str(line).unwrap_or_default();
            hosts::words(&value)
        }
        // The line of the transcript has the call too.
        LogRecord::Call { .. }
        | LogRecord::Blob { .. }
        | LogRecord::Beside { .. }
        | LogRecord::Whole { .. } => String::new(),
    }
}
