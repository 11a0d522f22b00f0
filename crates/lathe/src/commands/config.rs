//! `lathe config` and `lathe trust`.

use super::{finish, load_options, places, print};
use crate::arguments::{ConfigArguments, ConfigCommand, TrustArguments, TrustCommand};
use crate::complain;
use lathe_headless::exit::Exit;
use lathe_settings::cli::{self, Format};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, Source, load};

/// `lathe config`.
pub(crate) fn run(environment: Environment, arguments: ConfigArguments) -> Exit {
    let format = if arguments.json {
        Format::Json
    } else {
        Format::Text
    };
    if matches!(arguments.command, ConfigCommand::Env) {
        return finish(
            Ok::<_, String>(cli::environment(&environment, format)),
            Exit::Failure,
        );
    }
    if matches!(arguments.command, ConfigCommand::Schema) {
        return print(&cli::schema());
    }
    let places = places(environment);
    let sources = match arguments
        .setting_sources
        .as_deref()
        .map(Source::parse_list)
        .transpose()
    {
        Ok(sources) => sources,
        Err(error) => {
            complain(&format!("--setting-sources: {error}"));
            return Exit::Usage;
        }
    };
    let options = load_options(&places, &arguments.settings, sources);
    let resolved = load(&places, &options);
    match arguments.command {
        ConfigCommand::Get { key } => finish(cli::get(&resolved, &key, format), Exit::Failure),
        ConfigCommand::Set { key, value, scope } => finish(
            cli::set(&places, scope.into(), &key, &value, None),
            Exit::Usage,
        ),
        ConfigCommand::Unset { key, scope } => {
            finish(cli::unset(&places, scope.into(), &key, None), Exit::Usage)
        }
        ConfigCommand::List => print(&cli::list(&resolved, format)),
        ConfigCommand::Path => print(&cli::paths(&places, &options, format)),
        ConfigCommand::Edit { scope } => edit(cli::edit(&places, scope.into())),
        ConfigCommand::Doctor => {
            let further = super::permissions::problems(&places, &resolved);
            let diagnosis = cli::doctor(&places, &options, &resolved, &further, format);
            print(&diagnosis.text);
            if diagnosis.healthy {
                Exit::Success
            } else {
                Exit::Failure
            }
        }
        ConfigCommand::Schema | ConfigCommand::Env => Exit::Success,
    }
}

fn edit(prepared: Result<(String, std::path::PathBuf), cli::CliError>) -> Exit {
    let (editor, file) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            complain(&error.to_string());
            return Exit::Failure;
        }
    };
    // Through a shell: EDITOR may hold flags ("code --wait").
    let status = std::process::Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(&file)
        .status();
    match status {
        Ok(status) if status.success() => Exit::Success,
        Ok(_) => Exit::Failure,
        Err(error) => {
            complain(&format!(
                "the editor `{editor}` can't be started: {error}; set EDITOR"
            ));
            Exit::Failure
        }
    }
}

/// `lathe trust`.
pub(crate) fn trust(environment: Environment, arguments: TrustArguments) -> Exit {
    let format = if arguments.json {
        Format::Json
    } else {
        Format::Text
    };
    let places = places(environment);
    let store = TrustStore::new(&places);
    let outcome = match arguments.command.unwrap_or(TrustCommand::List) {
        TrustCommand::List => cli::trust_list(&store, format),
        TrustCommand::Add { folder } => cli::trust_add(
            &places,
            &store,
            &folder,
            &jiff::Timestamp::now().to_string(),
        ),
        TrustCommand::Remove { folder } => cli::trust_remove(&places, &store, &folder),
    };
    finish(outcome, Exit::Failure)
}
