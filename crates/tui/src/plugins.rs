//! `/plugin`: what is installed and from where, switched, installed and removed from the terminal.
//!
//! The work is done by the same [`PluginManager`] as `lathe plugin`. A plugin is fetched first and shown
//! with everything that it brings; it is installed, and may run, only after a person's yes. What was
//! changed counts in the session at once.

use crate::app::App;
use crate::dialog::{Dialog, Form, Item, Page, Picker, Purpose};
use crate::jobs::Found;
use crate::style::{Line, Style};
use crate::text::{clean, counted, reveal};
use crate::theme::Theme;
use lathe_extensions::plugins::load::{LoadedPlugins, PluginListing, PluginState};
use lathe_extensions::plugins::manager::MarketplaceListing;
use lathe_extensions::plugins::{
    MarketplaceSource, PluginError, PluginId, PluginManager, Prepared, cli,
};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{LoadOptions, Places, Source};

/// What the rows that are no plugins stand for.
const INSTALL: &str = "+install";
const MARKETPLACES: &str = "+marketplaces";

/// The manager, with the settings as they are now.
fn manager(places: &Places, flags: &[String], sources: Option<&[Source]>) -> PluginManager {
    let options = LoadOptions {
        flags: flags.to_vec(),
        managed_flags: Vec::new(),
        sources: sources.map(<[Source]>::to_vec),
        trust: TrustStore::new(places).headless_trust(&places.project, sources),
    };
    PluginManager::new(places, &lathe_settings::load(places, &options))
}

impl App {
    fn plugin_manager(&self) -> PluginManager {
        manager(
            &self.places,
            &self.options.settings_flags,
            self.options.setting_sources.as_deref(),
        )
    }

    /// The list of plugins, or something done with one: `install`, `enable`, `disable`, `uninstall`,
    /// `update`, each with a name.
    pub(crate) fn plugins(&mut self, arguments: &str) {
        if let Some((what, name)) = arguments.split_once(char::is_whitespace) {
            let name = name.trim();
            match what {
                "install" | "add" => self.fetch_plugin(name),
                "enable" | "disable" | "uninstall" | "remove" | "update" => {
                    self.plugin_do(what, name);
                }
                "marketplace" => match name.split_once(char::is_whitespace) {
                    Some(("add", source)) => self.add_marketplace(source.trim()),
                    Some((what, name)) => self.marketplace_do(what, name.trim()),
                    None => self.marketplaces(),
                },
                _ => self.warn(format!(
                    "/plugin {what} is unknown; install, enable, disable, update and uninstall are known, each with a plugin's name, and marketplace add."
                )),
            }
            return;
        }
        match arguments {
            "marketplace" | "marketplaces" => self.marketplaces(),
            "install" => self.installable(),
            "" => self.list_plugins(),
            name => self.plugin(name),
        }
    }

    fn list_plugins(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let picker = plugins_picker(&session.plugins().loaded(), &self.theme);
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn plugin_chosen(&mut self, value: &str) {
        match value {
            INSTALL => self.installable(),
            MARKETPLACES => self.marketplaces(),
            id => self.plugin(id),
        }
    }

    /// One plugin: what it brings, and what can be done with it.
    fn plugin(&mut self, wanted: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let loaded = session.plugins().loaded();
        let Some(listing) = find(&loaded.listings, wanted) else {
            self.warn(format!(
                "The plugin '{wanted}' is not installed; /plugin lists what is."
            ));
            return;
        };
        let picker = plugin_picker(listing, &self.theme);
        self.dialog = Some(Dialog::Picker(picker));
    }

    /// Does something with a plugin.
    pub(crate) fn plugin_do(&mut self, what: &str, wanted: &str) {
        let Some(session) = &self.session else {
            return;
        };
        let loaded = session.plugins().loaded();
        let id = find(&loaded.listings, wanted)
            .map_or_else(|| wanted.to_owned(), |listing| listing.id.clone());
        let manager = self.plugin_manager();
        let parsed = id.parse::<PluginId>().map_err(|error| error.to_string());
        match (what, parsed) {
            ("back", _) => self.list_plugins(),
            ("install", _) => self.fetch_plugin(&id),
            (_, Err(error)) => self.warn(error),
            ("enable" | "disable", Ok(id)) => {
                let on = what == "enable";
                let word = if on { "on" } else { "off" };
                let said = manager
                    .set_enabled(&id, None, on)
                    .map(|file| format!("{id} is {word} ({})", file.display()));
                self.plugins_changed(said.map_err(|error| error.to_string()));
                self.list_plugins();
            }
            ("update", Ok(id)) => {
                self.fetching(&format!("Looking for a newer {id} …"));
                self.jobs
                    .task(async move { Some(update(&manager, &id).await) });
            }
            (_, Ok(id)) => {
                let said = manager
                    .uninstall(&id, None, false)
                    .map(|scope| format!("{id} is removed ({})", scope.name()));
                self.plugins_changed(said.map_err(|error| error.to_string()));
                self.list_plugins();
            }
        }
    }

    /// Something was done with plugins: the session goes by it, and the person hears of it.
    pub(crate) fn plugins_changed(&mut self, said: Result<String, String>) {
        self.fetched();
        if let Some(session) = &self.session {
            session.plugins().reload();
        }
        match said {
            Ok(text) => self.remark(text),
            Err(error) => self.warn(error),
        }
        // A list that is looked at is made anew.
        match self.dialog.as_ref().and_then(Dialog::purpose).cloned() {
            Some(Purpose::Plugins) => self.list_plugins(),
            Some(Purpose::Marketplaces) => self.marketplaces(),
            _ => {}
        }
    }

    /// A page that stands there while something is fetched; leaving it forgets what is fetched.
    fn fetching(&mut self, words: &str) {
        let lines = vec![Line::styled(words.to_owned(), self.theme.muted)];
        self.dialog = Some(Dialog::Page(Page::of_lines(
            Purpose::Fetching,
            "Plugins",
            lines,
        )));
    }

    /// What was fetched is there. Gives whether it is still wanted.
    fn fetched(&mut self) -> bool {
        let waits = self
            .dialog
            .as_ref()
            .is_some_and(|dialog| dialog.purpose() == Some(&Purpose::Fetching));
        if waits {
            self.dialog = self.parents.pop();
        }
        waits
    }

    /// The plugins of all marketplaces that can be installed.
    fn installable(&mut self) {
        let known = match self.plugin_manager().marketplaces() {
            Ok(known) => known,
            Err(error) => {
                self.warn(error.to_string());
                return;
            }
        };
        if known.is_empty() {
            self.add_marketplace_form();
            return;
        }
        let installed: Vec<String> = self
            .session
            .as_ref()
            .map(|session| {
                let loaded = session.plugins().loaded();
                let there = loaded
                    .listings
                    .iter()
                    .filter(|listing| listing.state != PluginState::NotInstalled);
                there.map(|listing| listing.id.clone()).collect()
            })
            .unwrap_or_default();
        let items: Vec<Item> = known
            .iter()
            .flat_map(|marketplace| {
                let name = &marketplace.name;
                marketplace
                    .plugins
                    .iter()
                    .map(move |plugin| format!("{plugin}@{name}"))
            })
            .map(|id| {
                let detail = if installed.contains(&id) {
                    "installed"
                } else {
                    ""
                };
                Item::new(id.clone(), clean(&id), detail)
            })
            .collect();
        self.dialog = Some(Dialog::Picker(
            Picker::new(Purpose::PluginInstall, "Which plugin?", items)
                .explained(vec![Line::styled(
                    "Enter fetches one and shows what it brings; nothing runs before you agree.",
                    self.theme.muted,
                )])
                .filterable(),
        ));
    }

    /// Fetches a plugin, to show what it brings.
    pub(crate) fn fetch_plugin(&mut self, wanted: &str) {
        self.fetching(&format!("Fetching {wanted} …"));
        let manager = self.plugin_manager();
        let wanted = wanted.to_owned();
        self.jobs.task(async move {
            let prepared = manager.prepare(&wanted).await;
            Some(Found::PluginReady(
                prepared.map(Box::new).map_err(|error| error.to_string()),
            ))
        });
    }

    /// A plugin was fetched: the person sees what it brings, and decides.
    pub(crate) fn plugin_ready(&mut self, prepared: Result<Box<Prepared>, String>) {
        if !self.fetched() {
            // The person has left; what was fetched is forgotten.
            return;
        }
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.warn(error);
                return;
            }
        };
        let picker = confirm_picker(&cli::confirmation(&prepared));
        self.prepared = Some(prepared);
        self.bring(Dialog::Picker(picker));
    }

    /// The person's answer.
    pub(crate) fn install_plugin(&mut self, answer: &str) {
        let Some(prepared) = self.prepared.take() else {
            return;
        };
        let scope = match answer {
            "user" => Source::User,
            "project" => Source::Project,
            "local" => Source::Local,
            _ => {
                self.list_plugins();
                return;
            }
        };
        let said = self
            .plugin_manager()
            .install(*prepared, scope)
            .map(|done| format!("{} {} is installed and on", done.id, done.version));
        self.plugins_changed(said.map_err(|error| error.to_string()));
        self.list_plugins();
    }

    /// The marketplaces.
    fn marketplaces(&mut self) {
        let known = match self.plugin_manager().marketplaces() {
            Ok(known) => known,
            Err(error) => {
                self.warn(error.to_string());
                return;
            }
        };
        let picker = marketplaces_picker(&known);
        self.dialog = Some(Dialog::Picker(picker));
    }

    pub(crate) fn marketplace_chosen(&mut self, name: &str) {
        if name.is_empty() {
            self.add_marketplace_form();
            return;
        }
        let items = vec![
            Item::new("update", "Fetch it again", ""),
            Item::new(
                "remove",
                "Forget it",
                "the plugins that came from it go too",
            ),
            Item::new("back", "Back to the list", ""),
        ];
        self.dialog = Some(Dialog::Picker(Picker::new(
            Purpose::Marketplace {
                name: name.to_owned(),
            },
            format!("Marketplace {}", clean(name)),
            items,
        )));
    }

    fn add_marketplace_form(&mut self) {
        self.dialog = Some(Dialog::Form(Form::new(
            Purpose::AddMarketplace,
            "A marketplace: a folder, owner/repository on GitHub, a git address, or the address of a marketplace.json",
            "",
        )));
    }

    /// Fetches a marketplace that a person named.
    pub(crate) fn add_marketplace(&mut self, source: &str) {
        let source = match MarketplaceSource::parse(source, &self.places.environment) {
            Ok(source) => source,
            Err(error) => {
                self.warn(error.to_string());
                return;
            }
        };
        self.fetching("Fetching the marketplace …");
        let manager = self.plugin_manager();
        self.jobs.task(async move {
            let added = manager.add_marketplace(&source).await;
            Some(Found::PluginsChanged(
                added
                    .map(|marketplace| {
                        format!(
                            "the marketplace {} is added: {}; /plugin install lists them",
                            marketplace.name,
                            counted(marketplace.plugins.len(), "plugin")
                        )
                    })
                    .map_err(|error| error.to_string()),
            ))
        });
    }

    /// Does something with a marketplace.
    pub(crate) fn marketplace_do(&mut self, what: &str, name: &str) {
        let manager = self.plugin_manager();
        let name = name.to_owned();
        match what {
            "back" => self.marketplaces(),
            "update" => {
                self.fetching(&format!("Fetching {name} …"));
                self.jobs.task(async move {
                    let updated = manager.update_marketplace(&name).await;
                    Some(Found::PluginsChanged(
                        updated
                            .map(|_| format!("the marketplace {name} is up to date"))
                            .map_err(|error| error.to_string()),
                    ))
                });
            }
            "remove" | "rm" => {
                let said = manager
                    .remove_marketplace(&name)
                    .map(|_| format!("the marketplace {name} is removed"));
                self.plugins_changed(said.map_err(|error| error.to_string()));
                self.marketplaces();
            }
            _ => self.warn(format!(
                "/plugin marketplace {what} is unknown; add, update and remove are known."
            )),
        }
    }
}

/// The plugins that are known here, and what else can be done.
pub(crate) fn plugins_picker(loaded: &LoadedPlugins, theme: &Theme) -> Picker {
    let mut items: Vec<Item> = loaded
        .listings
        .iter()
        .map(|listing| {
            let mut facts = vec![listing.state.words().to_owned()];
            facts.extend(listing.version.clone());
            facts.extend(listing.scope.map(|scope| scope.name().to_owned()));
            let mut item = Item::new(
                listing.id.clone(),
                clean(&listing.id),
                clean(&facts.join(" · ")),
            );
            item.preview = preview(listing);
            item
        })
        .collect();
    items.push(Item::new(INSTALL, "Install a plugin …", ""));
    items.push(Item::new(
        MARKETPLACES,
        "Marketplaces …",
        "where plugins come from",
    ));
    let mut lines = Vec::new();
    if loaded.listings.is_empty() {
        lines.push(Line::styled("none is installed", theme.muted));
    }
    for problem in loaded.problems.iter().take(4) {
        lines.push(Line::styled(
            clean(&problem.to_string()).replace('\n', " "),
            theme.warning,
        ));
    }
    Picker::new(Purpose::Plugins, "Plugins", items).explained(lines)
}

/// One plugin: what it brings, and what can be done with it.
pub(crate) fn plugin_picker(listing: &PluginListing, theme: &Theme) -> Picker {
    let fact = |name: &str, value: String| {
        Line::styled(format!("{name:<10}"), theme.muted).with(value, Style::PLAIN)
    };
    let mut lines = vec![fact("state", listing.state.words().to_owned())];
    if let Some(reason) = &listing.reason {
        lines.push(Line::styled(
            clean(reason).replace('\n', " "),
            theme.warning,
        ));
    }
    for (name, value) in [
        ("version", listing.version.clone()),
        ("is for", listing.description.clone()),
        ("scope", listing.scope.map(|scope| scope.name().to_owned())),
        (
            "folder",
            listing.path.as_ref().map(|path| path.display().to_string()),
        ),
    ] {
        if let Some(value) = value {
            lines.push(fact(name, clean(&value).replace('\n', " ")));
        }
    }
    for brings in &listing.brings {
        lines.push(fact("brings", reveal(brings)));
    }
    for problem in &listing.problems {
        lines.push(Line::styled(
            clean(&problem.to_string()).replace('\n', " "),
            theme.warning,
        ));
    }
    let mut items = Vec::new();
    match listing.state {
        PluginState::On => items.push(Item::new("disable", "Switch it off", "it stays installed")),
        PluginState::NotInstalled => items.push(Item::new(
            "install",
            "Install it …",
            "you see what it brings first",
        )),
        PluginState::Off | PluginState::NotTrusted | PluginState::Blocked | PluginState::Failed => {
            items.push(Item::new("enable", "Switch it on", ""));
        }
    }
    if listing.state != PluginState::NotInstalled && listing.scope.is_some() {
        items.push(Item::new("update", "Look for a newer version …", ""));
        items.push(Item::new(
            "uninstall",
            "Uninstall it",
            "its settings and data go too",
        ));
    }
    items.push(Item::new("back", "Back to the list", ""));
    let purpose = Purpose::Plugin {
        id: listing.id.clone(),
    };
    Picker::new(purpose, format!("Plugin {}", clean(&listing.id)), items).explained(lines)
}

/// What a plugin brings, and the question whether to install it.
pub(crate) fn confirm_picker(brings: &str) -> Picker {
    let lines = brings
        .lines()
        .map(|line| Line::plain(reveal(line)))
        .collect();
    let items = vec![
        Item::new("user", "Install it for you", "in all your projects"),
        Item::new(
            "project",
            "Install it for this project",
            "shared with everybody",
        ),
        Item::new("local", "Install it for you, in this project", ""),
        Item::new("no", "Don't install it", ""),
    ];
    Picker::new(Purpose::PluginConfirm, "Install this plugin?", items).explained(lines)
}

/// The marketplaces, and the way to one more.
pub(crate) fn marketplaces_picker(known: &[MarketplaceListing]) -> Picker {
    let mut items: Vec<Item> = known
        .iter()
        .map(|marketplace| {
            let mut item = Item::new(
                marketplace.name.clone(),
                clean(&marketplace.name),
                format!(
                    "{} · {}",
                    counted(marketplace.plugins.len(), "plugin"),
                    clean(&marketplace.source)
                ),
            );
            item.preview = marketplace
                .refused
                .iter()
                .cloned()
                .chain(marketplace.problems.iter().map(ToString::to_string))
                .take(4)
                .collect();
            item
        })
        .collect();
    items.push(Item::new("", "Add a marketplace …", ""));
    Picker::new(Purpose::Marketplaces, "Marketplaces", items)
}

/// A newer version of a plugin, if its marketplace has one.
async fn update(manager: &PluginManager, id: &PluginId) -> Found {
    let newer = async {
        if manager.marketplace_names()?.contains(&id.marketplace) {
            manager.update_marketplace(&id.marketplace).await?;
        }
        manager.prepare_update(id, None).await
    };
    let newer: Result<_, PluginError> = newer.await;
    match newer {
        Ok(Some((prepared, _))) => Found::PluginReady(Ok(Box::new(prepared))),
        Ok(None) => Found::PluginsChanged(Ok(format!("{id} is up to date"))),
        Err(error) => Found::PluginsChanged(Err(error.to_string())),
    }
}

/// The plugin of an id, or of a name that only one has.
fn find<'a>(listings: &'a [PluginListing], wanted: &str) -> Option<&'a PluginListing> {
    let exact = listings.iter().find(|listing| listing.id == wanted);
    exact.or_else(|| {
        let mut named = listings
            .iter()
            .filter(|listing| listing.id.split('@').next() == Some(wanted));
        let first = named.next();
        first.filter(|_| named.next().is_none())
    })
}

fn preview(listing: &PluginListing) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(listing.description.clone());
    lines.extend(listing.reason.clone());
    if !listing.brings.is_empty() {
        lines.push(format!("brings {}", listing.brings.join(", ")));
    }
    lines.extend(listing.problems.iter().map(ToString::to_string));
    lines.truncate(4);
    lines
}
