//! `lathe fleet cancel`.

use super::super::print;
use super::find;
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_headless::exit::Exit;

// `lathe fleet cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArguments {
    /// The jobs: ids or prefixes of them.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(super) async fn run(fleet: &Fleet, arguments: &CancelArguments) -> Outcome {
    for wanted in &arguments.ids {
        let key = find(fleet, wanted).await?;
        let state = fleet.cancel(&key).await.or_failure()?;
        if state.is_final() {
            print(&format!("{} cancelled\n", key.id))?;
        } else {
            print(&format!("{} will be stopped\n", key.id))?;
        }
    }
    Ok(Exit::Success)
}
