//! `lathe plugin`: what is installed, from where, and a person's yes before anything new may run.

use super::{load_options, places, print};
use crate::arguments::Scope;
use crate::complain;
use clap::{Args, Subcommand};
use lathe_extensions::plugins::install::running_parts;
use lathe_extensions::plugins::load::PluginListing;
use lathe_extensions::plugins::store::InstallScope;
use lathe_extensions::plugins::validate::validate;
use lathe_extensions::plugins::{
    Done, MarketplaceSource, PluginError, PluginId, PluginManager, Prepared, cli, load, plain,
};
use lathe_headless::exit::Exit;
use lathe_settings::trust::Trust;
use lathe_settings::{Environment, Places, Resolved, Source};
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

/// What is said where a folder's own settings don't count.
const NOT_TRUSTED: &str = "this folder is not trusted yet, so what its settings switch on doesn't run: `lathe trust add` changes that\n";

/// `lathe plugin`.
#[derive(Debug, Args)]
pub(crate) struct PluginArguments {
    #[command(subcommand)]
    command: Option<PluginCommand>,
    /// As JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// What to do with plugins.
#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// List the plugins of this folder, with what they bring and what is wrong.
    List,
    /// Show what plugins bring, and install them if you agree.
    #[command(visible_alias = "add")]
    Install {
        /// The plugins: `name@marketplace`, or a name that only one marketplace has.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// For whom.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
        /// Don't ask: I know what they bring.
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove plugins, their settings and their data.
    #[command(visible_alias = "remove")]
    Uninstall {
        /// The plugins.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// For whom; where it is installed if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
        /// Keep what the plugins have stored.
        #[arg(long)]
        keep_data: bool,
    },
    /// Switch plugins on.
    Enable {
        /// The plugins.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The settings file; that of the install if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
    },
    /// Switch plugins off; they stay installed.
    Disable {
        /// The plugins.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The settings file; that of the install if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
    },
    /// Fetch newer versions; asks when one would run something new.
    Update {
        /// The plugins; all if absent.
        #[arg(value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// For whom; where it is installed if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
        /// Don't ask: I know what they bring.
        #[arg(short, long)]
        yes: bool,
    },
    /// Check a plugin or a marketplace that you write.
    Validate {
        /// Its folder.
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Add, list, remove and fetch marketplaces.
    Marketplace {
        #[command(subcommand)]
        command: Option<MarketplaceCommand>,
    },
}

/// What to do with marketplaces.
#[derive(Debug, Subcommand)]
enum MarketplaceCommand {
    /// Add a marketplace: a folder, owner/repository on GitHub, a git address, or the address of a marketplace.json.
    Add {
        /// Where it is; `#branch` at the end names a branch or tag.
        source: String,
    },
    /// List the marketplaces and their plugins.
    List,
    /// Forget a marketplace, with the plugins that came from it.
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name.
        name: String,
        /// Don't ask.
        #[arg(short, long)]
        yes: bool,
    },
    /// Fetch marketplaces again.
    Update {
        /// Their names; all if absent.
        names: Vec<String>,
    },
}

/// `lathe plugin`.
pub(crate) async fn run(environment: Environment, arguments: PluginArguments) -> Exit {
    let desk = Desk::new(environment, arguments.json);
    let work = desk.answer(arguments.command.unwrap_or(PluginCommand::List));
    // Dropping the work ends what it has started and removes what it has fetched.
    tokio::select! {
        exit = work => exit,
        _ = tokio::signal::ctrl_c() => Exit::Interrupted,
    }
}

struct Desk {
    places: Places,
    settings: Resolved,
    trusted: bool,
    json: bool,
}

impl Desk {
    fn new(environment: Environment, json: bool) -> Self {
        let places = places(environment);
        let options = load_options(&places, &[], None);
        Self {
            settings: lathe_settings::load(&places, &options),
            trusted: options.trust == Trust::Trusted,
            places,
            json,
        }
    }

    /// With the settings as they are now: a command may have changed them.
    fn manager(&self) -> PluginManager {
        let options = load_options(&self.places, &[], None);
        PluginManager::new(&self.places, &lathe_settings::load(&self.places, &options))
    }

    async fn answer(&self, command: PluginCommand) -> Exit {
        match command {
            PluginCommand::List => self.list(),
            PluginCommand::Install {
                plugins,
                scope,
                yes,
            } => self.install(&plugins, scope.into(), yes).await,
            PluginCommand::Uninstall {
                plugins,
                scope,
                keep_data,
            } => self.each(&plugins, |manager, id| {
                let scope = manager.uninstall(id, scope.map(Source::from), keep_data)?;
                Ok((
                    format!("{id} is removed ({})", scope.name()),
                    json!({"id": id.to_string(), "removed": true, "scope": scope}),
                ))
            }),
            PluginCommand::Enable { plugins, scope } => self.switch(&plugins, scope, true),
            PluginCommand::Disable { plugins, scope } => self.switch(&plugins, scope, false),
            PluginCommand::Update {
                plugins,
                scope,
                yes,
            } => self.update(&plugins, scope.map(Source::from), yes).await,
            PluginCommand::Validate { path } => self.validate(&path),
            PluginCommand::Marketplace { command } => {
                self.marketplace(command.unwrap_or(MarketplaceCommand::List))
                    .await
            }
        }
    }

    fn list(&self) -> Exit {
        let loaded = load(&self.places, &self.settings, &[]);
        if self.json {
            return print_json(&json!({
                "plugins": loaded.listings, "problems": loaded.problems,
            }));
        }
        print(&cli::list(&loaded))
    }

    async fn install(&self, wanted: &[String], scope: Source, yes: bool) -> Exit {
        let mut done = Vec::new();
        for wanted in wanted {
            let manager = self.manager();
            let prepared = match manager.prepare(wanted).await {
                Ok(prepared) => prepared,
                Err(error) => return fail(&error),
            };
            if let Err(exit) = self.confirm(&prepared, yes, "Install it?") {
                return exit;
            }
            let needs = prepared.plugin.manifest.dependencies.clone();
            match manager.install(prepared, scope) {
                Ok(installed) => {
                    self.report(&installed, &needs, scope);
                    done.push(json_of(&installed));
                }
                Err(error) => return fail(&error),
            }
        }
        if self.json {
            return print_json(&json!({"installed": done}));
        }
        Exit::Success
    }

    fn report(&self, installed: &Done, needs: &[String], scope: Source) {
        if self.json {
            return;
        }
        let what = match &installed.replaced {
            Some(old) if *old != installed.version => {
                format!(
                    "{} is updated from {old} to {}",
                    installed.id, installed.version
                )
            }
            Some(_) => format!("{} {} is fetched again", installed.id, installed.version),
            None if installed.on => {
                format!("{} {} is installed and on", installed.id, installed.version)
            }
            None => format!(
                "{0} {1} is installed and off, as it asks for; `lathe plugin enable {0}` switches it on",
                installed.id, installed.version
            ),
        };
        print(&format!("{what} ({})\n", installed.settings_file.display()));
        let loaded = load(&self.places, &self.manager_settings(), &[]);
        let is_on = |name: &str| {
            loaded
                .plugins
                .iter()
                .any(|plugin| plugin.id.name == name || plugin.id.to_string() == name)
        };
        for needed in needs.iter().filter(|needed| !is_on(needed)) {
            let needed = plain(needed, 100);
            print(&format!(
                "it needs the plugin {needed}: `lathe plugin install {needed}`\n"
            ));
        }
        if scope.comes_with_the_folder() && !self.trusted {
            print(
                "this folder is not trusted yet, so its plugins don't run: `lathe trust add` changes that\n",
            );
        }
    }

    fn manager_settings(&self) -> Resolved {
        lathe_settings::load(&self.places, &load_options(&self.places, &[], None))
    }

    /// Shows what comes and asks. Where nobody can be asked, only `--yes` will do.
    fn confirm(&self, prepared: &Prepared, yes: bool, question: &str) -> Result<(), Exit> {
        let shown = cli::confirmation(prepared);
        if yes {
            if !self.json {
                print(&shown);
            }
            return Ok(());
        }
        ask(&shown, question)
    }

    fn switch(&self, plugins: &[String], scope: Option<Scope>, on: bool) -> Exit {
        self.each(plugins, |manager, id| {
            let file = manager.set_enabled(id, scope.map(Source::from), on)?;
            let word = if on { "on" } else { "off" };
            let in_folder = file.starts_with(&self.places.project)
                && !file.starts_with(&self.places.config_home);
            if on && in_folder && !self.trusted && !self.json {
                print(NOT_TRUSTED);
            }
            Ok((
                format!("{id} is {word} ({})", file.display()),
                json!({"id": id.to_string(), "enabled": on, "file": file}),
            ))
        })
    }

    fn each(
        &self,
        wanted: &[String],
        work: impl Fn(&PluginManager, &PluginId) -> Result<(String, Value), PluginError>,
    ) -> Exit {
        let mut done = Vec::new();
        for wanted in wanted {
            let outcome = self.id_of(wanted).and_then(|id| work(&self.manager(), &id));
            match outcome {
                Ok((text, value)) => {
                    if !self.json {
                        print(&format!("{text}\n"));
                    }
                    done.push(value);
                }
                Err(error) => return fail(&error),
            }
        }
        if self.json {
            return print_json(&Value::Array(done));
        }
        Exit::Success
    }

    /// An id, also by the name alone where only one plugin has it.
    fn id_of(&self, wanted: &str) -> Result<PluginId, PluginError> {
        if wanted.contains('@') {
            return wanted
                .parse()
                .map_err(|error| PluginError::Usage(format!("{error}")));
        }
        let loaded = load(&self.places, &self.settings, &[]);
        let ids: Vec<&PluginListing> = loaded
            .listings
            .iter()
            .filter(|listing| listing.id.split('@').next() == Some(wanted))
            .collect();
        match ids[..] {
            [one] => one
                .id
                .parse()
                .map_err(|error| PluginError::Usage(format!("{error}"))),
            [] => Err(PluginError::Usage(format!(
                "{} is not installed; `lathe plugin list` shows what is",
                plain(wanted, 100)
            ))),
            _ => {
                let ids: Vec<&str> = ids.iter().map(|listing| listing.id.as_str()).collect();
                Err(PluginError::Usage(format!(
                    "there are several; say which: {}",
                    ids.join(", ")
                )))
            }
        }
    }

    async fn update(&self, wanted: &[String], scope: Option<Source>, yes: bool) -> Exit {
        let manager = self.manager();
        let chosen = if wanted.is_empty() {
            match manager.updatable() {
                Ok(all) => all.into_keys().collect(),
                Err(error) => return fail(&error),
            }
        } else {
            let ids: Result<Vec<PluginId>, PluginError> =
                wanted.iter().map(|wanted| self.id_of(wanted)).collect();
            match ids {
                Ok(ids) => ids,
                Err(error) => return fail(&error),
            }
        };
        let mut markets: Vec<&str> = chosen.iter().map(|id| id.marketplace.as_str()).collect();
        markets.sort_unstable();
        markets.dedup();
        let mut worst = Exit::Success;
        let known = manager.marketplace_names().unwrap_or_default();
        for market in markets {
            if !known.iter().any(|name| name == market) {
                continue;
            }
            if let Err(error) = manager.update_marketplace(market).await {
                complain(&error.to_string());
                worst = Exit::Failure;
            }
        }
        let mut done = Vec::new();
        for id in &chosen {
            match self.update_one(id, scope, yes).await {
                Ok(Some(installed)) => done.push(json_of(&installed)),
                Ok(None) => {}
                Err(exit) => worst = exit,
            }
        }
        if self.json {
            print_json(&json!({"updated": done}));
        } else if chosen.is_empty() {
            print("no plugins are installed here\n");
        }
        worst
    }

    async fn update_one(
        &self,
        id: &PluginId,
        scope: Option<Source>,
        yes: bool,
    ) -> Result<Option<Done>, Exit> {
        let manager = self.manager();
        let newer = manager
            .prepare_update(id, scope)
            .await
            .map_err(|error| fail(&error))?;
        let Some((prepared, installed)) = newer else {
            if !self.json {
                print(&format!("{id} is up to date\n"));
            }
            return Ok(None);
        };
        // Words may change without a question; what runs by itself may not.
        let before = manager.runs_now(id, &installed);
        if before != Some(running_parts(&prepared.plugin)) {
            self.confirm(&prepared, yes, "Update to it?")?;
        }
        let scope = match installed.scope {
            InstallScope::Project => Source::Project,
            InstallScope::Local => Source::Local,
            InstallScope::User | InstallScope::Managed => Source::User,
        };
        let done = manager
            .update(prepared, scope)
            .map_err(|error| fail(&error))?;
        self.report(&done, &[], Source::User);
        Ok(Some(done))
    }

    fn validate(&self, path: &std::path::Path) -> Exit {
        let path = self.places.environment.cwd.join(path);
        let found = match validate(&path) {
            Ok(found) => found,
            Err(why) => {
                complain(&why);
                return Exit::Failure;
            }
        };
        let valid = found
            .iter()
            .all(lathe_extensions::plugins::validate::Validation::is_valid);
        if self.json {
            print_json(&json!({"valid": valid, "found": found}));
        } else {
            print(&cli::validations(&found));
        }
        if valid { Exit::Success } else { Exit::Failure }
    }

    async fn marketplace(&self, command: MarketplaceCommand) -> Exit {
        let manager = self.manager();
        match command {
            MarketplaceCommand::List => match manager.marketplaces() {
                Ok(all) if self.json => print_json(&json!({"marketplaces": all})),
                Ok(all) => print(&cli::marketplaces(&all)),
                Err(error) => fail(&error),
            },
            MarketplaceCommand::Add { source } => {
                let source = match MarketplaceSource::parse(&source, &self.places.environment) {
                    Ok(source) => source,
                    Err(why) => {
                        complain(&why);
                        return Exit::Usage;
                    }
                };
                match manager.add_marketplace(&source).await {
                    Ok(marketplace) => self.added(&marketplace, "is added"),
                    Err(error) => fail(&error),
                }
            }
            MarketplaceCommand::Remove { name, yes } => {
                let plugins = match manager.installed_from(&name) {
                    Ok(plugins) => plugins,
                    Err(error) => return fail(&error),
                };
                if !plugins.is_empty() && !yes {
                    let names: Vec<String> = plugins.iter().map(ToString::to_string).collect();
                    let shown = format!("These plugins go with it: {}\n", names.join(", "));
                    if let Err(exit) = ask(&shown, "Remove them?") {
                        return exit;
                    }
                }
                match manager.remove_marketplace(&name) {
                    Ok(gone) if self.json => print_json(&json!({
                        "removed": name,
                        "plugins": gone.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    })),
                    Ok(_) => print(&format!("the marketplace {name} is removed\n")),
                    Err(error) => fail(&error),
                }
            }
            MarketplaceCommand::Update { names } => {
                let names = if names.is_empty() {
                    match manager.marketplace_names() {
                        Ok(names) => names,
                        Err(error) => return fail(&error),
                    }
                } else {
                    names
                };
                let mut worst = Exit::Success;
                for name in names {
                    match manager.update_marketplace(&name).await {
                        Ok(marketplace) => {
                            self.added(&marketplace, "is up to date");
                        }
                        Err(error) => worst = fail(&error),
                    }
                }
                worst
            }
        }
    }

    fn added(&self, marketplace: &lathe_extensions::plugins::Marketplace, what: &str) -> Exit {
        for problem in &marketplace.problems {
            complain(&problem.to_string());
        }
        let names: Vec<&str> = marketplace
            .plugins
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        if self.json {
            return print_json(&json!({"name": marketplace.name, "plugins": names}));
        }
        let list = if names.is_empty() {
            "it lists no plugins".to_owned()
        } else {
            format!(
                "install with `lathe plugin install <name>@{}`: {}",
                marketplace.name,
                plain(&names.join(", "), 600)
            )
        };
        print(&format!(
            "the marketplace {} {what}; {list}\n",
            marketplace.name
        ))
    }
}

/// Shows something and asks yes or no, on the terminal. Whatever is not a yes is a no.
fn ask(shown: &str, question: &str) -> Result<(), Exit> {
    if !std::io::stdin().is_terminal() {
        let _ = std::io::stderr().write_all(shown.as_bytes());
        complain("nobody is here to agree, so nothing was changed; --yes agrees beforehand");
        return Err(Exit::Usage);
    }
    let mut out = std::io::stderr();
    let _ = write!(out, "{shown}{question} [y/N] ");
    let _ = out.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let agreed = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if read.is_ok() && agreed {
        Ok(())
    } else {
        complain("nothing was changed");
        Err(Exit::Failure)
    }
}

fn json_of(done: &Done) -> Value {
    json!({
        "id": done.id.to_string(), "version": done.version, "path": done.path,
        "replaced": done.replaced, "settingsFile": done.settings_file,
    })
}

fn fail(error: &PluginError) -> Exit {
    complain(&error.to_string());
    match error {
        PluginError::Usage(_) => Exit::Usage,
        _ => Exit::Failure,
    }
}

fn print_json(value: &Value) -> Exit {
    print(&format!("{value:#}\n"))
}
