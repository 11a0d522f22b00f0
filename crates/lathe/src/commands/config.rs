//! `lathe config` and `lathe trust`.

use super::{exit_if, load_options, open_editor, places, print, print_line, setting_sources};
use crate::arguments::{ConfigArguments, ConfigCommand, TrustArguments, TrustCommand};
use crate::error::{CliError, Kinded as _, Outcome};
use lathe_settings::cli::{self, Format};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::write::WriteError;
use lathe_settings::{Environment, load};

/// `lathe config`.
pub(crate) fn run(environment: Environment, arguments: ConfigArguments) -> Outcome {
    let format = format(arguments.json);
    match arguments.command {
        ConfigCommand::Env => return print_line(&cli::environment(&environment, format)),
        ConfigCommand::Schema => return print(&cli::schema()),
        _ => {}
    }
    let places = places(environment);
    let sources = setting_sources(arguments.setting_sources.as_deref())?;
    let options = load_options(&places, &arguments.settings, sources);
    let resolved = load(&places, &options);
    match arguments.command {
        ConfigCommand::Get { key } => {
            print_line(&cli::get(&resolved, &key, format).map_err(kinded)?)
        }
        ConfigCommand::Set { key, value, scope } => {
            print_line(&cli::set(&places, scope.into(), &key, &value, None).map_err(kinded)?)
        }
        ConfigCommand::Unset { key, scope } => {
            print_line(&cli::unset(&places, scope.into(), &key, None).map_err(kinded)?)
        }
        ConfigCommand::Path => print(&cli::paths(&places, &options, format)),
        ConfigCommand::Edit { scope } => {
            let (editor, file) = cli::edit(&places, scope.into()).or_failure()?;
            open_editor(&editor, &file)
        }
        ConfigCommand::Doctor => {
            let further = super::permissions::problems(&places, &resolved);
            let diagnosis = cli::doctor(&places, &options, &resolved, &further, format);
            print(&diagnosis.text)?;
            Ok(exit_if(diagnosis.healthy))
        }
        // The environment and the schema are printed above: they need no settings.
        ConfigCommand::List | ConfigCommand::Env | ConfigCommand::Schema => {
            print(&cli::list(&resolved, format))
        }
    }
}

/// A wrong key, value or folder is wrong usage; a file that can't be read or written is a failure.
fn kinded(error: cli::CliError) -> CliError {
    match error {
        cli::CliError::NotSet(_)
        | cli::CliError::Trust(_)
        | cli::CliError::Write(WriteError::Io { .. }) => CliError::failure(error),
        error => CliError::usage(error),
    }
}

fn format(json: bool) -> Format {
    if json { Format::Json } else { Format::Text }
}

/// `lathe trust`.
pub(crate) fn trust(environment: Environment, arguments: TrustArguments) -> Outcome {
    let format = format(arguments.json);
    let places = places(environment);
    let store = TrustStore::new(&places);
    let text = match arguments.command.unwrap_or(TrustCommand::List) {
        TrustCommand::List => cli::trust_list(&store, format),
        TrustCommand::Add { folder, imports } => {
            let now = jiff::Timestamp::now().to_string();
            let added = cli::trust_add(&places, &store, &folder, &now);
            added.and_then(|text| {
                if !imports {
                    return Ok(text);
                }
                let folder = places.environment.cwd.join(&folder);
                store.remember_outside_imports(&folder, true)?;
                Ok(format!(
                    "{text}its instruction files may import files from outside the folder\n"
                ))
            })
        }
        TrustCommand::Remove { folder } => cli::trust_remove(&places, &store, &folder),
    };
    print_line(&text.map_err(kinded)?)
}
