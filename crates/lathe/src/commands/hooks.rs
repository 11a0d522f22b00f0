//! `lathe hooks`.

use super::{finish, load_options, places, print};
use crate::arguments::{HooksArguments, HooksCommand};
use crate::{complain, in_runtime};
use lathe_headless::exit::Exit;
use lathe_hooks::{HookRegistry, HookSource, RunContext, cli};
use lathe_settings::cli::Format;
use lathe_settings::trust::BringKind;
use lathe_settings::{Environment, load};
use std::io::Read as _;
use std::path::Path;

/// `lathe hooks`.
pub(crate) fn run(environment: Environment, arguments: HooksArguments) -> Exit {
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
        complain(&problem);
    }
    for problem in &settings.problems {
        if problem.key.is_empty() || problem.key.starts_with("hooks") {
            complain(&problem.to_string());
        }
    }
    let withheld: Vec<String> = settings
        .withheld()
        .iter()
        .filter(|bring| bring.kind == BringKind::Hook)
        .map(ToString::to_string)
        .collect();
    if !withheld.is_empty() {
        complain(&format!(
            "this folder is not trusted, so its hooks don't run: {}. Trust it with `lathe trust add`.",
            withheld.join(", ")
        ));
    }
    for plugin in lathe_extensions::plugins::load(&places, &settings, &[]).plugins {
        let contribution = &plugin.contribution;
        let source = HookSource::Plugin(contribution.name.clone());
        let (_, problems) = registry.add(&source, Some(&contribution.root), &contribution.hooks);
        for problem in problems {
            complain(&problem);
        }
    }
    match arguments.command {
        HooksCommand::List { events: true } => print(&cli::events()),
        HooksCommand::List { events: false } => print(&cli::list(&registry, format)),
        HooksCommand::Test { event, input } => {
            let prepared = read(input.as_deref()).and_then(|text| {
                let event = cli::event(&event).map_err(|error| error.to_string())?;
                cli::trial_input(event, &text, &places.environment.cwd)
                    .map_err(|error| error.to_string())
            });
            match prepared {
                Ok(input) => in_runtime(async {
                    let context =
                        RunContext::new(places.environment.cwd.clone(), places.project.clone());
                    let text = cli::test(&registry, &input, &context, format).await;
                    registry.shut_down().await;
                    print(&text)
                }),
                Err(error) => finish(Err(error), Exit::Usage),
            }
        }
    }
}

fn read(path: Option<&Path>) -> Result<String, String> {
    match path {
        None => Ok(String::new()),
        Some(path) if path == Path::new("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| format!("standard input can't be read: {error}"))?;
            Ok(text)
        }
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("--input: {} can't be read: {error}", path.display())),
    }
}
