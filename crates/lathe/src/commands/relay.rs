//! `lathe relay`, and the admission of devices that come through one.

use super::serve::ListenArguments;
use super::{print, print_line, stopped_by_signals};
use crate::error::{CliError, Kinded as _, Outcome};
use lathe_headless::exit::Exit;
use lathe_protocol::printable;
use lathe_server::DeviceScope;
use lathe_server::relay::pairing::{LIFE, Pairings, Verdict};
use lathe_server::relay::switchboard::Relay;
use lathe_settings::Environment;
use std::io::BufRead as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a device is looked for.
const LOOK: Duration = Duration::from_millis(200);

// `lathe relay`.
#[derive(Debug, clap::Args)]
pub(crate) struct RelayArguments {
    #[command(flatten)]
    listen: ListenArguments,
}

/// `lathe relay`.
pub(crate) async fn relay(environment: Environment, arguments: RelayArguments) -> Outcome {
    let listen = arguments.listen.listen(&environment);
    let relay = Relay::start(&listen).await.or_failure()?;
    let socket = relay.url().replacen("http", "ws", 1);
    print_line(&format!(
        "passing frames at {}\nuse it with `lathe serve --relay {socket}`",
        relay.url()
    ))?;
    stopped_by_signals()?.cancelled().await;
    drop(relay);
    Ok(Exit::Success)
}

/// `lathe devices pair`.
pub(crate) fn pair(server_folder: &Path, scope: DeviceScope) -> Outcome {
    let pairings = Pairings::new(server_folder);
    let (pairing, link) = pairings.begin(scope).or_failure()?;
    print_line(&format!(
        "{link}\nopen the link on the device within ten minutes; it is for one device; keep it to yourself until then"
    ))?;
    let began = Instant::now();
    let seen = loop {
        if let Some(seen) = pairings.seen(&pairing.id) {
            break seen;
        }
        if began.elapsed() > LIFE {
            pairings.end(&pairing.id);
            return Err(CliError::failure("no device came"));
        }
        std::thread::sleep(LOOK);
    };
    let (first, last) = seen.digits.split_at(seen.digits.len() / 2);
    print(&format!(
        "a device named {:?} shows: {first} {last}\ndoes yours show the same? [y/N] ",
        printable::clean(&seen.name)
    ))?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .or_failure()?;
    let verdict = match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Verdict::Admit,
        _ => Verdict::Refuse,
    };
    pairings.decide(&pairing.id, verdict).or_failure()?;
    match verdict {
        Verdict::Admit => print_line("admitted; `lathe devices` lists it"),
        Verdict::Refuse => print_line("not admitted"),
    }
}
