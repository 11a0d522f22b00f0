//! `lathe permissions`.

use super::{exit_if, load_options, places, print, print_line};
use crate::arguments::{BehaviorWord, JudgeArguments, PermissionsCommand, Scope};
use crate::error::{CliError, Kinded as _, Outcome};
use lathe_permissions::PermissionContext;
use lathe_permissions::cli::{self, Format};
use lathe_permissions::settings::{context_of, rules_of};
use lathe_protocol::permission::{Behavior, RuleSource};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, Places, Resolved, Variable, load};
use std::io::IsTerminal as _;

/// `lathe permissions`.
pub(crate) fn run(environment: Environment, command: PermissionsCommand) -> Outcome {
    match command {
        PermissionsCommand::List { json } => {
            let format = format(json, &environment);
            let places = places(environment);
            let settings = load(&places, &load_options(&places, &[], None));
            let (rules, problems) = rules_of(&settings, &context(&places, &settings));
            print(&cli::list(&settings, &rules, &problems, format))
        }
        PermissionsCommand::Add {
            behavior,
            rule,
            scope,
        } => {
            let added = cli::add(&places(environment), behavior.into(), &rule, scope.into());
            print_line(&added.or_usage()?)
        }
        PermissionsCommand::Remove {
            behavior,
            rule,
            scope,
        } => {
            let removed = cli::remove(&places(environment), behavior.into(), &rule, scope.into());
            print_line(&removed.or_usage()?)
        }
        PermissionsCommand::Explain(arguments) => {
            let coloured = format(false, &environment) == Format::Colour;
            let (context, set_aside) = judge(environment, &arguments.options)?;
            let explanation = cli::explain(&arguments.command.join(" "), &context);
            let explanation = explanation.with_set_aside(set_aside);
            if arguments.json {
                print(&format!("{}\n", explanation.to_json()))
            } else {
                print(&explanation.to_text(coloured))
            }
        }
        PermissionsCommand::Test { file, options } => {
            let (context, _) = judge(environment, &options)?;
            let text = std::fs::read_to_string(&file).map_err(|error| {
                CliError::usage(format!("{} can't be read: {error}", file.display()))
            })?;
            let report = cli::test(&text, &context)
                .map_err(|error| CliError::usage(error).about(file.display()))?;
            print(&report.to_text())?;
            Ok(exit_if(report.differences.is_empty()))
        }
    }
}

fn format(json: bool, environment: &Environment) -> Format {
    if json {
        Format::Json
    } else if std::io::stdout().is_terminal() && environment.get(Variable::NoColor).is_none() {
        Format::Colour
    } else {
        Format::Plain
    }
}

/// The problems of the rules in the settings.
pub(crate) fn problems(places: &Places, settings: &Resolved) -> Vec<String> {
    let (_, problems) = rules_of(settings, &context(places, settings));
    problems.iter().map(ToString::to_string).collect()
}

/// The context that a session here would start with.
fn context(places: &Places, settings: &Resolved) -> PermissionContext {
    let trusted = TrustStore::new(places).is_trusted(&places.project);
    context_of(places, settings, trusted).0
}

/// The context of a session in the working folder.
pub(crate) fn context_here(environment: Environment) -> PermissionContext {
    let places = places(environment);
    let settings = load(&places, &load_options(&places, &[], None));
    context(&places, &settings)
}

fn judge(
    mut environment: Environment,
    options: &JudgeArguments,
) -> Result<(PermissionContext, Vec<String>), CliError> {
    if let Some(folder) = &options.cwd {
        let folder = environment.resolve(&folder.to_string_lossy());
        if !folder.is_dir() {
            return Err(CliError::usage(format!(
                "--cwd: {} is not a folder",
                folder.display()
            )));
        }
        environment.cwd = folder;
    }
    let places = places(environment);
    let settings = load(&places, &load_options(&places, &[], None));
    let mut context = context(&places, &settings);
    for rule in &options.rule {
        cli::add_rule(&mut context, rule)
            .map_err(|error| CliError::usage(error).about("--rule"))?;
    }
    let mode = options.mode.unwrap_or(context.mode);
    Ok(cli::in_mode(context, mode))
}

impl From<BehaviorWord> for Behavior {
    fn from(word: BehaviorWord) -> Self {
        match word {
            BehaviorWord::Allow => Self::Allow,
            BehaviorWord::Ask => Self::Ask,
            BehaviorWord::Deny => Self::Deny,
        }
    }
}

impl From<Scope> for RuleSource {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::UserSettings,
            Scope::Project => Self::ProjectSettings,
            Scope::Local => Self::LocalSettings,
        }
    }
}
