//! `lathe fleet attach`: follow a job, answer its questions and talk to it, line by line.

use super::super::print;
use super::{answer, find, logs, refuse_sessions};
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_fleet::backend::Ask;
use lathe_fleet::fleet::Control;
use lathe_headless::exit::Exit;
use lathe_settings::Places;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(200);

// `lathe fleet attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArguments {
    /// The job: its id or a prefix of it.
    id: String,
}

pub(super) async fn run(places: &Places, fleet: &Fleet, arguments: &AttachArguments) -> Outcome {
    refuse_sessions(places, fleet).await?;
    let key = find(fleet, &arguments.id).await?;
    let mut position = 0;
    let mut shown = None;
    let mut live = fleet.watch(&key).await.or_failure()?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut reading = true;
    loop {
        let over = fleet.entry(&key).await.or_failure()?.state.is_final();
        logs::print_new(fleet, &key, &mut position).await?;
        if over {
            return Ok(Exit::Success);
        }
        let open = open_question(fleet, &key).await?;
        if let Some(ask) = &open
            && shown.as_ref() != Some(&ask.id)
        {
            shown = Some(ask.id.clone());
            print("? y: allow, n: deny, n TEXT: deny and tell the model why\n")?;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            // Something happened: its record comes at once.
            Some(_) = live.recv() => {}
            line = lines.next_line(), if reading => match line.or_failure()? {
                None => reading = false,
                Some(line) => match (open, answer::of_line(&line)) {
                    (Some(ask), Some(answer)) => {
                        fleet.answer(&key, &ask.id, &answer).await.or_failure()?;
                    }
                    _ if !line.trim().is_empty() => {
                        fleet.control(&key, &Control::Prompt { text: line }).await.or_failure()?;
                        // The log has it once the model gets it.
                        print("(sent)\n")?;
                    }
                    _ => {}
                },
            },
        }
    }
}

async fn open_question(
    fleet: &Fleet,
    key: &lathe_fleet::job::JobKey,
) -> Result<Option<Ask>, crate::error::CliError> {
    let asks = fleet.asks(key).await.or_failure()?;
    Ok(asks.into_iter().find(|ask| ask.answer.is_none()))
}
