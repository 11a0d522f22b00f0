//! `lathe hooks`.

use super::{load_options, places, print};
use crate::arguments::{HooksArguments, HooksCommand};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use crate::in_runtime;
use lathe_hooks::{HookRegistry, HookSource, RunContext, cli};
use lathe_settings::cli::Format;
use lathe_settings::trust::BringKind;
use lathe_settings::{Environment, load};
use std::io::Read as _;
use std::path::Path;

/// `lathe hooks`.
pub(crate) fn run(environment: Environment, arguments: HooksArguments) -> Outcome {
    let format = if arguments.json {
        Format::Json
    } else {
        Format::Text
    };
    let places = places(environment);
    let settings = load(&places, &load_options(&places, &arguments.settings, None));
    let (registry, _late) = HookRegistry::new();
    registry.set_settings(&settings);
    for problem in registry.problems() {
        notice(&problem.to_string());
    }
    for problem in &settings.problems {
        if problem.key.is_empty() || problem.key.starts_with("hooks") {
            notice(&problem.to_string());
        }
    }
    let withheld: Vec<String> = settings
        .withheld()
        .iter()
        .filter(|bring| bring.kind == BringKind::Hook)
        .map(ToString::to_string)
        .collect();
    if !withheld.is_empty() {
        notice(&format!(
            "this folder is not trusted, so its hooks don't run: {}. Trust it with `lathe trust add`.",
            withheld.join(", ")
        ));
    }
    for plugin in lathe_extensions::plugins::load(&places, &settings, &[]).plugins {
        let contribution = &plugin.contribution;
        let source = HookSource::Plugin(contribution.name.clone());
        let (_, problems) = registry.add(&source, Some(&contribution.root), &contribution.hooks);
        for problem in problems {
            notice(&problem.to_string());
        }
    }
    match arguments.command {
        HooksCommand::List { events: true } => print(&cli::events()),
        HooksCommand::List { events: false } => print(&cli::list(&registry, format)),
        HooksCommand::Test { event, input } => {
            let text = read_input(input.as_deref())?;
            let event = cli::event(&event).or_usage()?;
            let cwd = places.environment.cwd.clone();
            let input = cli::trial_input(event, &text, &cwd).or_usage()?;
            in_runtime(async {
                let context = RunContext::new(cwd, places.project.clone());
                let text = cli::test(&registry, &input, &context, format).await;
                registry.shut_down().await;
                print(&text)
            })
        }
    }
}

fn read_input(path: Option<&Path>) -> Result<String, CliError> {
    match path {
        None => Ok(String::new()),
        Some(path) if path == Path::new("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .or_usage()
                .map_err(|error| error.about("standard input can't be read"))?;
            Ok(text)
        }
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            CliError::usage(format!(
                "--input: {} can't be read: {error}",
                path.display()
            ))
        }),
    }
}
