//! `lathe fleet retry`.

use super::super::print;
use super::{find, refuse_sessions};
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_headless::exit::Exit;
use lathe_settings::Places;

// `lathe fleet retry`.
#[derive(Debug, Args)]
pub(crate) struct RetryArguments {
    /// The jobs: ids or prefixes of them.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(super) async fn run(places: &Places, fleet: &Fleet, arguments: &RetryArguments) -> Outcome {
    refuse_sessions(places, fleet).await?;
    for wanted in &arguments.ids {
        let key = find(fleet, wanted).await?;
        fleet.retry(&key).await.or_failure()?;
        print(&format!("{} queued\n", key.id))?;
    }
    Ok(Exit::Success)
}
