//! `lathe fleet fetch`: the results of jobs as files.

use super::super::print;
use super::find;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_fleet::job::JobKey;
use lathe_headless::exit::Exit;
use lathe_settings::Places;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest that `git apply` may take.
const LIMIT: Duration = Duration::from_secs(300);

// `lathe fleet fetch`.
#[derive(Debug, Args)]
pub(crate) struct FetchArguments {
    /// The jobs: ids or prefixes of them.
    #[arg(required = true)]
    ids: Vec<String>,
    /// The folder for the results; each job gets a subfolder.
    #[arg(long, value_name = "FOLDER", default_value = "fleet-results")]
    to: PathBuf,
    /// Also apply the changes to the repository of this folder.
    #[arg(long)]
    apply: bool,
}

pub(super) async fn run(places: &Places, fleet: &Fleet, arguments: &FetchArguments) -> Outcome {
    let cwd = &places.environment.cwd;
    for wanted in &arguments.ids {
        let key = find(fleet, wanted).await?;
        let folder = cwd.join(&arguments.to).join(&key.id);
        let files = write(fleet, &key, &folder).await?;
        print(&format!("{}: {}\n", folder.display(), files.join(" ")))?;
        if arguments.apply && files.contains(&"changes.diff") {
            apply(cwd, &folder.join("changes.diff"))?;
            print(&format!("{} applied\n", key.id))?;
        }
    }
    Ok(Exit::Success)
}

/// Writes the files of a result, and gives their names.
async fn write(fleet: &Fleet, key: &JobKey, folder: &Path) -> Result<Vec<&'static str>, CliError> {
    let entry = fleet.entry(key).await.or_failure()?;
    let Some(result) = &entry.result else {
        return Err(CliError::failure(format!(
            "{} is {} and has no result",
            key.id,
            entry.state.name()
        )));
    };
    std::fs::create_dir_all(folder).or_failure()?;
    let summary = json!({"id": key.id, "state": entry.state, "text": result.text, "structured": result.structured,
        "base": result.base, "costUsd": entry.cost_usd, "turns": result.turns, "durationMs": result.duration_ms,
        "attempts": entry.attempt, "session": entry.session});
    std::fs::write(folder.join("result.json"), format!("{summary:#}\n")).or_failure()?;
    let mut files = vec!["result.json"];
    for (name, blob) in [
        ("changes.diff", &result.diff),
        ("changes.bundle", &result.bundle),
        ("transcript.jsonl", &result.transcript),
    ] {
        if let Some(blob) = blob {
            let bytes = fleet.blob(blob).await.or_failure()?;
            std::fs::write(folder.join(name), bytes).or_failure()?;
            files.push(name);
        }
    }
    let beside = folder.join("subagents");
    for (name, blob) in &result.beside {
        // Names of files, whatever the queue says.
        if Path::new(name)
            .file_name()
            .is_none_or(|it| it != name.as_str())
        {
            continue;
        }
        std::fs::create_dir_all(&beside).or_failure()?;
        let bytes = fleet.blob(blob).await.or_failure()?;
        std::fs::write(beside.join(name), bytes).or_failure()?;
    }
    if !result.beside.is_empty() {
        files.push("subagents/");
    }
    Ok(files)
}

fn apply(folder: &Path, diff: &Path) -> Result<(), CliError> {
    let command = lathe_process::Command::git(folder)
        .arguments(["apply", "--3way", "--whitespace=nowarn", "--"])
        .argument(diff);
    let finished = lathe_process::run_blocking(command, Vec::new(), LIMIT).or_failure()?;
    if finished.ending == lathe_process::Ending::Exited(0) {
        return Ok(());
    }
    Err(
        CliError::failure(format!("git apply: {}", finished.stderr.trim()))
            .hint(format!("the changes are in {}", diff.display())),
    )
}
