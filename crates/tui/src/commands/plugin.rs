//! `/plugin`: what is installed and from where, switched, installed and removed from the terminal.
//!
//! The work is done by the same [`PluginManager`] as `lathe plugin`. A plugin is fetched first and shown
//! with everything that it contains; it is installed, and may run, only after the user confirms. Changes
//! take effect in the session at once.

use crate::app::App;
use crate::app::jobs::{JobResult, Report};
use crate::layers::{Form, Item, Page, Picker, Purpose};
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, reveal};
use crate::render::theme::Theme;
use lathe_extensions::plugins::load::{LoadedPlugins, PluginListing, PluginState};
use lathe_extensions::plugins::manager::MarketplaceListing;
use lathe_extensions::plugins::{
    MarketplaceSource, PluginError, PluginId, PluginManager, Prepared, cli,
};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{LoadOptions, Places, Source};

/// Values of the rows that are not plugins.
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

pub(crate) fn manager_now(app: &App) -> PluginManager {
    manager(
        &app.places,
        &app.engine.options.settings.flags,
        app.engine.options.settings.sources.as_deref(),
    )
}

/// The list of plugins, or something done with one: `install`, `enable`, `disable`, `uninstall`,
/// `update`, each with a name.
pub(crate) fn run(app: &mut App, arguments: &str) {
    if let Some((what, name)) = arguments.split_once(char::is_whitespace) {
        let name = name.trim();
        match what {
            "install" | "add" => fetch(app, name),
            "enable" | "disable" | "uninstall" | "remove" | "update" => {
                act(app, what, name);
            }
            "marketplace" => match name.split_once(char::is_whitespace) {
                Some(("add", source)) => add_marketplace(app, source.trim()),
                Some((what, name)) => marketplace_act(app, what, name.trim()),
                None => marketplaces(app),
            },
            _ => app.warn(format!(
                "Unknown: /plugin {what}. Use install, enable, disable, update or uninstall with a plugin's name, or marketplace add."
            )),
        }
        return;
    }
    match arguments {
        "marketplace" | "marketplaces" => marketplaces(app),
        "install" => list_installable(app),
        "" => list(app),
        name => show(app, name),
    }
}

pub(crate) fn list(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let picker = plugins_picker(&session.plugins().loaded(), &app.look.theme);
    app.layers.open(picker);
}

pub(crate) fn chosen(app: &mut App, value: &str) {
    match value {
        INSTALL => list_installable(app),
        MARKETPLACES => marketplaces(app),
        id => show(app, id),
    }
}

/// One plugin: its contents, and the actions on it.
pub(crate) fn show(app: &mut App, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let loaded = session.plugins().loaded();
    let Some(listing) = find(&loaded.listings, wanted) else {
        app.warn(format!(
            "The plugin '{wanted}' is not installed; /plugin lists installed plugins."
        ));
        return;
    };
    let picker = plugin_picker(listing, &app.look.theme);
    app.layers.open(picker);
}

/// Does something with a plugin.
pub(crate) fn act(app: &mut App, what: &str, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let loaded = session.plugins().loaded();
    let id = find(&loaded.listings, wanted)
        .map_or_else(|| wanted.to_owned(), |listing| listing.id.clone());
    let manager = manager_now(app);
    let parsed = id.parse::<PluginId>().map_err(|error| error.to_string());
    match (what, parsed) {
        ("back", _) => list(app),
        ("install", _) => fetch(app, &id),
        (_, Err(error)) => app.warn(error),
        ("enable" | "disable", Ok(id)) => {
            let on = what == "enable";
            let word = if on { "enabled" } else { "disabled" };
            let said = manager
                .set_enabled(&id, None, on)
                .map(|file| format!("{id} is {word} ({})", file.display()));
            changed(app, said.into());
            list(app);
        }
        ("update", Ok(id)) => {
            fetching(app, &format!("Checking for updates of {id} …"));
            app.jobs
                .task(async move { Some(update(&manager, &id).await) });
        }
        (_, Ok(id)) => {
            let said = manager
                .uninstall(&id, None, false)
                .map(|scope| format!("removed {id} ({})", scope.name()));
            changed(app, said.into());
            list(app);
        }
    }
}

/// Plugins were changed: reloads them in the session and reports the result.
pub(crate) fn changed(app: &mut App, report: Report) {
    fetched(app);
    if let Some(session) = &app.engine.handle {
        session.plugins().reload();
    }
    crate::app::settings::plugins_loaded(app);
    app.report(report);
    // Refreshes a list that is shown.
    match app.layers.purpose() {
        Some(Purpose::Plugins) => list(app),
        Some(Purpose::Marketplaces) => marketplaces(app),
        _ => {}
    }
}

/// A page that stands there while something is fetched; leaving it forgets what is fetched.
pub(crate) fn fetching(app: &mut App, words: &str) {
    let lines = vec![Line::styled(words.to_owned(), app.look.theme.muted)];
    app.layers
        .open(Page::of_lines(Purpose::Fetching, "Plugins", lines));
}

/// The download is finished. Returns whether it is still wanted.
pub(crate) fn fetched(app: &mut App) -> bool {
    let waits = app.layers.purpose() == Some(&Purpose::Fetching);
    if waits {
        app.layers.close_dialog();
    }
    waits
}

/// The plugins of all marketplaces that can be installed.
pub(crate) fn list_installable(app: &mut App) {
    let known = match manager_now(app).marketplaces() {
        Ok(known) => known,
        Err(error) => {
            app.warn(error.to_string());
            return;
        }
    };
    if known.is_empty() {
        add_marketplace_form(app);
        return;
    }
    let installed: Vec<String> = app
        .engine
        .handle
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
    app.layers.open(
        Picker::new(Purpose::PluginInstall, "Which plugin?", items)
            .explained(vec![Line::styled(
                "Enter downloads a plugin and shows what it contains; nothing runs before you confirm.",
                app.look.theme.muted,
            )])
            .filterable(),
    );
}

/// Downloads a plugin, to show what it contains.
pub(crate) fn fetch(app: &mut App, wanted: &str) {
    fetching(app, &format!("Fetching {wanted} …"));
    let manager = manager_now(app);
    let wanted = wanted.to_owned();
    app.jobs.task(async move {
        let prepared = manager.prepare(&wanted).await;
        Some(JobResult::PluginReady(prepared.map(Box::new)))
    });
}

/// A plugin was downloaded: shows what it contains and asks whether to install it.
pub(crate) fn confirm(app: &mut App, prepared: Result<Box<Prepared>, PluginError>) {
    if !fetched(app) {
        // The user has left; what was fetched is forgotten.
        return;
    }
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            app.warn(error.to_string());
            return;
        }
    };
    let picker = confirm_picker(&cli::confirmation(&prepared));
    app.commands.prepared_plugin = Some(prepared);
    app.layers.open(picker);
}

/// The user's answer.
pub(crate) fn install(app: &mut App, answer: &str) {
    let Some(prepared) = app.commands.prepared_plugin.take() else {
        return;
    };
    let scope = match answer {
        "user" => Source::User,
        "project" => Source::Project,
        "local" => Source::Local,
        _ => {
            list(app);
            return;
        }
    };
    let said = manager_now(app)
        .install(*prepared, scope)
        .map(|done| format!("installed and enabled {} {}", done.id, done.version));
    changed(app, said.into());
    list(app);
}

/// The marketplaces.
pub(crate) fn marketplaces(app: &mut App) {
    let known = match manager_now(app).marketplaces() {
        Ok(known) => known,
        Err(error) => {
            app.warn(error.to_string());
            return;
        }
    };
    let picker = marketplaces_picker(&known);
    app.layers.open(picker);
}

pub(crate) fn marketplace_chosen(app: &mut App, name: &str) {
    if name.is_empty() {
        add_marketplace_form(app);
        return;
    }
    let items = vec![
        Item::new("update", "Update", ""),
        Item::new("remove", "Remove", "also removes its plugins"),
        Item::new("back", "Back to the list", ""),
    ];
    app.layers.open(Picker::new(
        Purpose::Marketplace {
            name: name.to_owned(),
        },
        format!("Marketplace {}", clean(name)),
        items,
    ));
}

pub(crate) fn add_marketplace_form(app: &mut App) {
    app.layers.open(Form::new(
        Purpose::AddMarketplace,
        "A marketplace: a folder, owner/repository on GitHub, a git URL, or the URL of a marketplace.json",
        "",
    ));
}

/// Fetches a marketplace that a user named.
pub(crate) fn add_marketplace(app: &mut App, source: &str) {
    let source = match MarketplaceSource::parse(source, &app.places.environment) {
        Ok(source) => source,
        Err(error) => {
            app.warn(error.to_string());
            return;
        }
    };
    fetching(app, "Fetching the marketplace …");
    let manager = manager_now(app);
    app.jobs.task(async move {
        let added = manager.add_marketplace(&source).await;
        let added = added.map(|marketplace| {
            format!(
                "added marketplace {}: {}; /plugin install lists them",
                marketplace.name,
                counted(marketplace.plugins.len(), "plugin")
            )
        });
        Some(JobResult::PluginsChanged(added.into()))
    });
}

/// Does something with a marketplace.
pub(crate) fn marketplace_act(app: &mut App, what: &str, name: &str) {
    let manager = manager_now(app);
    let name = name.to_owned();
    match what {
        "back" => marketplaces(app),
        "update" => {
            fetching(app, &format!("Fetching {name} …"));
            app.jobs.task(async move {
                let updated = manager.update_marketplace(&name).await;
                let updated = updated.map(|_| format!("Marketplace {name} is up to date."));
                Some(JobResult::PluginsChanged(updated.into()))
            });
        }
        "remove" | "rm" => {
            let said = manager
                .remove_marketplace(&name)
                .map(|_| format!("removed marketplace {name}"));
            changed(app, said.into());
            marketplaces(app);
        }
        _ => app.warn(format!(
            "Unknown: /plugin marketplace {what}. Use add, update or remove."
        )),
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
        lines.push(Line::styled("No plugins are installed.", theme.muted));
    }
    for problem in loaded.problems.iter().take(4) {
        lines.push(Line::styled(
            clean(&problem.to_string()).replace('\n', " "),
            theme.warning,
        ));
    }
    Picker::new(Purpose::Plugins, "Plugins", items).explained(lines)
}

/// One plugin: its contents, and the actions on it.
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
        ("about", listing.description.clone()),
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
        lines.push(fact("contains", reveal(brings)));
    }
    for problem in &listing.problems {
        lines.push(Line::styled(
            clean(&problem.to_string()).replace('\n', " "),
            theme.warning,
        ));
    }
    let mut items = Vec::new();
    match listing.state {
        PluginState::On => items.push(Item::new("disable", "Disable", "stays installed")),
        PluginState::NotInstalled => items.push(Item::new(
            "install",
            "Install …",
            "shows what it contains first",
        )),
        PluginState::Off | PluginState::NotTrusted | PluginState::Blocked | PluginState::Failed => {
            items.push(Item::new("enable", "Enable", ""));
        }
    }
    if listing.state != PluginState::NotInstalled && listing.scope.is_some() {
        items.push(Item::new("update", "Check for updates …", ""));
        items.push(Item::new(
            "uninstall",
            "Uninstall",
            "also removes its settings and data",
        ));
    }
    items.push(Item::new("back", "Back to the list", ""));
    let purpose = Purpose::Plugin {
        id: listing.id.clone(),
    };
    Picker::new(purpose, format!("Plugin {}", clean(&listing.id)), items).explained(lines)
}

/// The contents of a plugin, and the question whether to install it.
pub(crate) fn confirm_picker(brings: &str) -> Picker {
    let lines = brings
        .lines()
        .map(|line| Line::plain(reveal(line)))
        .collect();
    let items = vec![
        Item::new("user", "Install for yourself", "in all your projects"),
        Item::new(
            "project",
            "Install for this project",
            "shared with everyone",
        ),
        Item::new("local", "Install for yourself, in this project", ""),
        Item::new("no", "Don't install", ""),
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
async fn update(manager: &PluginManager, id: &PluginId) -> JobResult {
    let newer = async {
        if manager.marketplace_names()?.contains(&id.marketplace) {
            manager.update_marketplace(&id.marketplace).await?;
        }
        manager.prepare_update(id, None).await
    };
    let newer: Result<_, PluginError> = newer.await;
    match newer {
        Ok(Some((prepared, _))) => JobResult::PluginReady(Ok(Box::new(prepared))),
        Ok(None) => JobResult::PluginsChanged(Report::Done(format!("{id} is up to date."))),
        Err(error) => JobResult::PluginsChanged(Report::Failed(error.to_string())),
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
        lines.push(format!("contains {}", listing.brings.join(", ")));
    }
    lines.extend(listing.problems.iter().map(ToString::to_string));
    lines.truncate(4);
    lines
}
