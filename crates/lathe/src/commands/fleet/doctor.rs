//! `lathe fleet doctor`.

use super::super::{exit_if, print, print_line};
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use serde_json::json;

// `lathe fleet doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(fleet: &Fleet, arguments: &DoctorArguments) -> Outcome {
    let checks = lathe_fleet::doctor::check(fleet).await.or_failure()?;
    let healthy = checks.iter().all(|check| check.ok);
    if arguments.json {
        print_line(&json!(checks).to_string())?;
        return Ok(exit_if(healthy));
    }
    let mut text = String::new();
    for check in &checks {
        let mark = if check.ok { "✓" } else { "✗" };
        text.push_str(&format!("{mark} {}: {}\n", check.name, check.text));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("  → {fix}\n"));
        }
    }
    print(&text)?;
    Ok(exit_if(healthy))
}
