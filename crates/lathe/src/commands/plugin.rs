//! `lathe plugin`: lists, installs, updates and removes plugins. Nothing new runs without confirmation.

use super::{exit_if, load_options, places, print};
use crate::arguments::Scope;
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::{Args, Subcommand};
use lathe_extensions::plugins::install::running_parts;
use lathe_extensions::plugins::load::PluginListing;
use lathe_extensions::plugins::store::InstallScope;
use lathe_extensions::plugins::validate::validate;
use lathe_extensions::plugins::{
    Installation, MarketplaceSource, PluginError, PluginId, PluginManager, Prepared, cli, load,
    plain,
};
use lathe_headless::exit::Exit;
use lathe_settings::trust::Trust;
use lathe_settings::{Environment, Places, Resolved, Source};
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Printed when the folder's own settings are not applied.
const NOT_TRUSTED: &str = "this folder is not trusted yet, so plugins that its settings enable don't run: trust it with `lathe trust add`\n";

// `lathe plugin`.
#[derive(Debug, Args)]
pub(crate) struct PluginArguments {
    #[command(subcommand)]
    command: Option<PluginCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum PluginCommand {
    /// List the plugins of this folder with their contents and problems.
    List,
    /// Show the contents of plugins, and install them after confirmation.
    #[command(visible_alias = "add", alias = "i")]
    Install {
        /// The plugins: `name@marketplace`, or a name that only one marketplace has.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The scope.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove plugins, their settings and their data.
    #[command(visible_alias = "remove")]
    Uninstall {
        /// The plugins.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The scope; that of the installation if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
        /// Keep the data of the plugins.
        #[arg(long)]
        keep_data: bool,
    },
    /// Enable plugins.
    Enable {
        /// The plugins.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The settings file; that of the installation if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
    },
    /// Disable plugins; they stay installed.
    Disable {
        /// The plugins.
        #[arg(required = true, value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The settings file; that of the installation if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
    },
    /// Update plugins; asks if a new version would run something new.
    Update {
        /// The plugins; all if absent.
        #[arg(value_name = "PLUGIN")]
        plugins: Vec<String>,
        /// The scope; that of the installation if absent.
        #[arg(long, value_enum)]
        scope: Option<Scope>,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
    },
    /// Check a plugin or marketplace under development.
    Validate {
        /// The folder.
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Add, list, remove and update marketplaces.
    Marketplace {
        #[command(subcommand)]
        command: Option<MarketplaceCommand>,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum MarketplaceCommand {
    /// Add a marketplace: a folder, owner/repository on GitHub, a git URL, or the URL of a marketplace.json.
    Add {
        /// The location; `#branch` at the end names a branch or tag.
        source: String,
    },
    /// List the marketplaces and their plugins.
    List,
    /// Remove a marketplace and its plugins.
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name.
        name: String,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
    },
    /// Update marketplaces.
    Update {
        /// Their names; all if absent.
        names: Vec<String>,
    },
}

/// `lathe plugin`.
pub(crate) async fn run(environment: Environment, arguments: PluginArguments) -> Outcome {
    let plugins = PluginCommands::new(environment, arguments.json);
    let work = plugins.run(arguments.command.unwrap_or(PluginCommand::List));
    // Dropping the work ends its processes and removes its downloads.
    tokio::select! {
        outcome = work => outcome,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

/// The folder, its settings and the output format that every subcommand uses.
struct PluginCommands {
    places: Places,
    settings: Resolved,
    trusted: bool,
    json: bool,
}

impl PluginCommands {
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

    /// A manager with the present settings: a command may have changed them.
    fn manager(&self) -> PluginManager {
        let options = load_options(&self.places, &[], None);
        PluginManager::new(&self.places, &lathe_settings::load(&self.places, &options))
    }

    async fn run(&self, command: PluginCommand) -> Outcome {
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
                    format!("removed {id} ({})", scope.name()),
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

    fn list(&self) -> Outcome {
        let loaded = load(&self.places, &self.settings, &[]);
        if self.json {
            return print_json(&json!({
                "plugins": loaded.listings, "problems": loaded.problems,
            }));
        }
        print(&cli::list(&loaded))
    }

    async fn install(&self, wanted: &[String], scope: Source, yes: bool) -> Outcome {
        let mut done = Vec::new();
        for wanted in wanted {
            let manager = self.manager();
            let prepared = manager.prepare(wanted).await?;
            self.confirm(&prepared, yes, "Install it?")?;
            let needs = prepared.plugin.manifest.dependencies.clone();
            let installed = manager.install(prepared, scope)?;
            self.report(&installed, &needs, scope)?;
            done.push(json_of(&installed));
        }
        if self.json {
            return print_json(&json!({"installed": done}));
        }
        Ok(Exit::Success)
    }

    fn report(&self, installed: &Installation, needs: &[String], scope: Source) -> Outcome {
        if self.json {
            return Ok(Exit::Success);
        }
        let what = match &installed.replaced {
            Some(old) if *old != installed.version => {
                format!(
                    "updated {} from {old} to {}",
                    installed.id, installed.version
                )
            }
            Some(_) => format!("fetched {} {} again", installed.id, installed.version),
            None if installed.on => {
                format!(
                    "{} {} is installed and enabled",
                    installed.id, installed.version
                )
            }
            None => format!(
                "{0} {1} is installed but disabled by default; enable it with `lathe plugin enable {0}`",
                installed.id, installed.version
            ),
        };
        print(&format!("{what} ({})\n", installed.settings_file.display()))?;
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
            ))?;
        }
        if scope.comes_with_the_folder() && !self.trusted {
            print(
                "this folder is not trusted yet, so its plugins don't run: trust it with `lathe trust add`\n",
            )?;
        }
        Ok(Exit::Success)
    }

    fn manager_settings(&self) -> Resolved {
        lathe_settings::load(&self.places, &load_options(&self.places, &[], None))
    }

    /// Shows the contents of the plugin and asks. Without a terminal, `--yes` is required.
    fn confirm(&self, prepared: &Prepared, yes: bool, question: &str) -> Result<(), CliError> {
        let shown = cli::confirmation(prepared);
        if yes {
            if !self.json {
                print(&shown)?;
            }
            return Ok(());
        }
        ask(&shown, question)
    }

    fn switch(&self, plugins: &[String], scope: Option<Scope>, on: bool) -> Outcome {
        self.each(plugins, |manager, id| {
            let file = manager.set_enabled(id, scope.map(Source::from), on)?;
            let word = if on { "on" } else { "off" };
            let in_folder = file.starts_with(&self.places.project)
                && !file.starts_with(&self.places.config_home);
            if on && in_folder && !self.trusted && !self.json {
                print(NOT_TRUSTED)?;
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
        work: impl Fn(&PluginManager, &PluginId) -> Result<(String, Value), CliError>,
    ) -> Outcome {
        let mut done = Vec::new();
        for wanted in wanted {
            let id = self.id_of(wanted)?;
            let (text, value) = work(&self.manager(), &id)?;
            if !self.json {
                print(&format!("{text}\n"))?;
            }
            done.push(value);
        }
        if self.json {
            return print_json(&Value::Array(done));
        }
        Ok(Exit::Success)
    }

    /// The id of a plugin; a name is enough where only one plugin has it.
    fn id_of(&self, wanted: &str) -> Result<PluginId, CliError> {
        if wanted.contains('@') {
            return wanted.parse().map_err(CliError::usage);
        }
        let loaded = load(&self.places, &self.settings, &[]);
        let ids: Vec<&PluginListing> = loaded
            .listings
            .iter()
            .filter(|listing| listing.id.split('@').next() == Some(wanted))
            .collect();
        match ids[..] {
            [one] => one.id.parse().map_err(CliError::usage),
            [] => Err(
                CliError::usage(format!("{} is not installed", plain(wanted, 100)))
                    .hint("`lathe plugin list` shows the installed plugins"),
            ),
            _ => {
                let ids: Vec<&str> = ids.iter().map(|listing| listing.id.as_str()).collect();
                Err(
                    CliError::usage(format!("several plugins have the name {wanted}"))
                        .hint(format!("name one of {}", ids.join(", "))),
                )
            }
        }
    }

    async fn update(&self, wanted: &[String], scope: Option<Source>, yes: bool) -> Outcome {
        let manager = self.manager();
        let chosen = if wanted.is_empty() {
            manager.updatable()?.into_keys().collect()
        } else {
            let ids: Result<Vec<PluginId>, CliError> =
                wanted.iter().map(|wanted| self.id_of(wanted)).collect();
            ids?
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
                CliError::failure(error).print();
                worst = Exit::Failure;
            }
        }
        let mut done = Vec::new();
        for id in &chosen {
            match self.update_one(id, scope, yes).await {
                Ok(Some(installed)) => done.push(json_of(&installed)),
                Ok(None) => {}
                Err(error) => {
                    error.print();
                    worst = error.exit();
                }
            }
        }
        if self.json {
            print_json(&json!({"updated": done}))?;
        } else if chosen.is_empty() {
            print("no plugins are installed here\n")?;
        }
        Ok(worst)
    }

    async fn update_one(
        &self,
        id: &PluginId,
        scope: Option<Source>,
        yes: bool,
    ) -> Result<Option<Installation>, CliError> {
        let manager = self.manager();
        let newer = manager.prepare_update(id, scope).await?;
        let Some((prepared, installed)) = newer else {
            if !self.json {
                print(&format!("{id} is up to date\n"))?;
            }
            return Ok(None);
        };
        // Text may change without a question; hooks, servers and other code may not.
        let before = manager.runs_now(id, &installed);
        if before != Some(running_parts(&prepared.plugin)) {
            self.confirm(&prepared, yes, "Update to it?")?;
        }
        let scope = match installed.scope {
            InstallScope::Project => Source::Project,
            InstallScope::Local => Source::Local,
            InstallScope::User | InstallScope::Managed => Source::User,
        };
        let done = manager.update(prepared, scope)?;
        self.report(&done, &[], Source::User)?;
        Ok(Some(done))
    }

    fn validate(&self, path: &std::path::Path) -> Outcome {
        let path = self.places.environment.cwd.join(path);
        let found = validate(&path).or_failure()?;
        let valid = found
            .iter()
            .all(lathe_extensions::plugins::validate::Validation::is_valid);
        if self.json {
            print_json(&json!({"valid": valid, "found": found}))?;
        } else {
            print(&cli::validations(&found))?;
        }
        Ok(exit_if(valid))
    }

    async fn marketplace(&self, command: MarketplaceCommand) -> Outcome {
        let manager = self.manager();
        match command {
            MarketplaceCommand::List => {
                let all = manager.marketplaces()?;
                if self.json {
                    print_json(&json!({"marketplaces": all}))
                } else {
                    print(&cli::marketplaces(&all))
                }
            }
            MarketplaceCommand::Add { source } => {
                let source =
                    MarketplaceSource::parse(&source, &self.places.environment).or_usage()?;
                let marketplace = manager.add_marketplace(&source).await?;
                self.added(&marketplace, "is added")
            }
            MarketplaceCommand::Remove { name, yes } => self.remove_marketplace(&name, yes),
            MarketplaceCommand::Update { names } => {
                let names = if names.is_empty() {
                    manager.marketplace_names()?
                } else {
                    names
                };
                let mut worst = Exit::Success;
                for name in names {
                    match manager.update_marketplace(&name).await {
                        Ok(marketplace) => {
                            self.added(&marketplace, "is up to date")?;
                        }
                        Err(error) => {
                            let error = CliError::from(error);
                            error.print();
                            worst = error.exit();
                        }
                    }
                }
                Ok(worst)
            }
        }
    }

    fn remove_marketplace(&self, name: &str, yes: bool) -> Outcome {
        let manager = self.manager();
        let plugins = manager.installed_from(name)?;
        if !plugins.is_empty() && !yes {
            let names: Vec<String> = plugins.iter().map(ToString::to_string).collect();
            let shown = format!("This also removes these plugins: {}\n", names.join(", "));
            ask(&shown, "Remove them?")?;
        }
        let gone = manager.remove_marketplace(name)?;
        if self.json {
            return print_json(&json!({
                "removed": name,
                "plugins": gone.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }));
        }
        print(&format!("removed the marketplace {name}\n"))
    }

    fn added(&self, marketplace: &lathe_extensions::plugins::Marketplace, what: &str) -> Outcome {
        for problem in &marketplace.problems {
            notice(&problem.to_string());
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

/// Shows a text and asks yes or no on the terminal. Every answer but yes is a no.
fn ask(shown: &str, question: &str) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        let _ = lathe_headless::output::Terminal::stderr().write_all(shown.as_bytes());
        return Err(CliError::usage(
            "nothing was changed: there is no terminal to ask for confirmation",
        )
        .hint("--yes confirms in advance"));
    }
    let mut out = lathe_headless::output::Terminal::stderr();
    let _ = write!(out, "{shown}{question} [y/N] ");
    let _ = out.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let agreed = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if read.is_ok() && agreed {
        Ok(())
    } else {
        Err(CliError::failure("nothing was changed"))
    }
}

fn json_of(done: &Installation) -> Value {
    json!({
        "id": done.id.to_string(), "version": done.version, "path": done.path,
        "replaced": done.replaced, "settingsFile": done.settings_file,
    })
}

impl From<PluginError> for CliError {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Usage(_) => Self::usage(error),
            _ => Self::failure(error),
        }
    }
}

fn print_json(value: &Value) -> Outcome {
    print(&format!("{value:#}\n"))
}
