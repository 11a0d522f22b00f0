//! `lathe import`: the setup of other agents, and the offer of it at the first start.

use super::{places, print, print_line};
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_import::{Agent, Fate};
use lathe_settings::{Environment, Places};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// Says that the offer was made.
const MARK: &str = ".import-offered";

// `lathe import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// claude, codex, gemini, opencode, cursor or aider. Default: every one that is found.
    agent: Option<Agent>,
    /// Show what would be imported, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also import conversations, which can then be resumed.
    #[arg(long)]
    sessions: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `lathe import`.
pub(crate) fn run(environment: Environment, arguments: &ImportArguments) -> Outcome {
    let places = places(environment);
    let agents = match arguments.agent {
        Some(agent) => vec![agent],
        None => lathe_import::found(&places),
    };
    if agents.is_empty() && !arguments.json {
        return print_line("no setup of another agent was found here; ~/.claude is read in place");
    }
    let mut reports = Vec::new();
    for agent in agents {
        let plan = lathe_import::plan(&places, agent, arguments.sessions);
        reports.push(lathe_import::apply(&plan, &places, arguments.dry_run).or_failure()?);
    }
    if arguments.json {
        let all: Vec<_> = reports.iter().map(lathe_import::Report::to_json).collect();
        return print(&format!("{:#}\n", serde_json::Value::from(all)));
    }
    let mut text: String = reports.iter().map(lathe_import::Report::to_text).collect();
    let count =
        |fates: &[Fate]| -> usize { reports.iter().map(|report| report.count(fates)).sum() };
    text.push_str(&format!(
        "\n{}: {} items, {} already present, {} skipped, {} secrets\n",
        if arguments.dry_run {
            "would import"
        } else {
            "imported"
        },
        count(&[Fate::Taken, Fate::Changed]),
        count(&[Fate::There]),
        count(&[Fate::Left]),
        count(&[Fate::Secret]),
    ));
    print(&text)
}

/// At the first start in a terminal, offers to import what other agents left on this machine. Asked once.
pub(crate) fn offer(environment: &Environment) {
    let places = places(environment.clone());
    let home = &places.config_home;
    let is_used = ["settings.json", "projects", MARK]
        .iter()
        .any(|name| home.join(name).exists());
    if is_used || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return;
    }
    let agents = lathe_import::found(&places);
    if agents.is_empty() {
        return;
    }
    let _ = std::fs::create_dir_all(home).and_then(|()| std::fs::File::create(home.join(MARK)));
    ask(&places, &agents);
}

fn ask(places: &Places, agents: &[Agent]) {
    let names: Vec<&str> = agents.iter().map(|agent| agent.name()).collect();
    let mut stderr = lathe_headless::output::Terminal::stderr();
    loop {
        let _ = write!(
            stderr,
            "Found a setup of {}. Import it? (y: yes, s: show what would be imported, enter: no) ",
            names.join(", ")
        );
        let _ = stderr.flush();
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        let answer = answer.trim().to_lowercase();
        let dry_run = match answer.as_str() {
            "y" | "yes" => false,
            "s" | "show" => true,
            _ => {
                let _ = writeln!(stderr, "Later: lathe import");
                return;
            }
        };
        if read.is_err() {
            return;
        }
        for agent in agents {
            let plan = lathe_import::plan(places, *agent, false);
            let text = match lathe_import::apply(&plan, places, dry_run) {
                Ok(report) => report.to_text(),
                Err(error) => format!("{error}\n"),
            };
            let _ = stderr.write_all(text.as_bytes());
        }
        if !dry_run {
            return;
        }
    }
}
