//! Adds, updates and removes marketplaces, and finds plugins in them.

use super::install::Updatable;
use super::marketplace::{Marketplace, MarketplaceEntry, list_file};
use super::name::PluginId;
use super::policy::Policy;
use super::source::{MarketplaceSource, SourceError, github_address};
use super::store::{InstallScope, KnownMarketplace, Staging, Store, now};
use super::{PluginError, fetch, git};
use crate::problem::Problem;
use lathe_net::Network;
use lathe_settings::{Environment, Places, Resolved, Source};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Manages a user's marketplaces and plugins.
#[derive(Debug)]
pub struct PluginManager {
    places: Places,
    settings: Resolved,
    policy: Policy,
    store: Store,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceListing {
    pub name: String,
    /// Its source, for display.
    pub source: String,
    /// Its local copy; `None` for a marketplace in settings that was not added.
    pub install_location: Option<PathBuf>,
    pub last_updated: String,
    pub plugins: Vec<String>,
    pub problems: Vec<Problem>,
    pub refused: Option<String>,
}

impl PluginManager {
    #[must_use]
    pub fn new(places: &Places, settings: &Resolved) -> Self {
        Self {
            places: places.clone(),
            policy: Policy::of(settings),
            settings: settings.clone(),
            store: Store::new(places),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    pub(crate) fn settings(&self) -> &Resolved {
        &self.settings
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.places.environment
    }

    /// The user's options for a plugin.
    pub(crate) fn options_of(&self, id: &PluginId) -> Option<&Value> {
        self.settings.settings.plugin_configs.get(&id.to_string())
    }

    /// The settings file of a writable scope.
    pub(crate) fn writable(&self, scope: Source) -> Result<PathBuf, PluginError> {
        self.places.written_file(scope).ok_or_else(|| {
            PluginError::usage("plugins are installed in scope user, project or local")
        })
    }

    /// Adds a marketplace, or updates a known one.
    ///
    /// # Errors
    /// If managed settings forbid it, it can't be fetched or parsed, or its name is taken.
    pub async fn add_marketplace(
        &self,
        source: &MarketplaceSource,
    ) -> Result<Marketplace, PluginError> {
        self.take_marketplace(source, None).await
    }

    async fn take_marketplace(
        &self,
        source: &MarketplaceSource,
        expected: Option<&str>,
    ) -> Result<Marketplace, PluginError> {
        source
            .check()
            .map_err(|why| PluginError::refused(source.to_string(), why))?;
        self.policy
            .check(expected.unwrap_or("to be added"), source)?;
        let staging = self.store.staging()?;
        let fetched = self.fetch_marketplace(source, &staging).await?;
        let marketplace = fetched
            .read(source)
            .map_err(|problem| PluginError::refused(source.to_string(), problem))?;
        let name = marketplace.name.clone();
        if let Some(expected) = expected
            && expected != name
        {
            return Err(PluginError::refused(
                source.to_string(),
                format!("expected the marketplace {expected}, found {name}"),
            ));
        }
        self.policy.check(&name, source)?;
        let location = self.store.change_known(|known| {
            if let Some(other) = known.get(&name)
                && !matches!(other.source(), Ok(other) if other == *source)
            {
                let other = other
                    .source()
                    .map_or_else(|error| error.to_string(), |other| other.to_string());
                return Err(PluginError::usage(format!(
                    "there is a marketplace {name} already, from {other}; remove it first (`lathe plugin marketplace remove {name}`)"
                )));
            }
            let location = match &fetched {
                Fetched::There { place, .. } => place.clone(),
                Fetched::Folder { folder, .. } => {
                    let place = self.store.marketplace_folder(&name);
                    self.store.put(&staging, folder, &place)?;
                    place
                }
                Fetched::File { file } => {
                    let place = self.store.marketplace_list(&name);
                    self.store.put(&staging, file, &place)?;
                    place
                }
            };
            let extra = known.remove(&name).map(|old| old.extra).unwrap_or_default();
            known.insert(
                name.clone(),
                KnownMarketplace {
                    source: serde_json::to_value(source).unwrap_or_default(),
                    install_location: location.clone(),
                    last_updated: now(),
                    extra,
                },
            );
            Ok(location)
        })?;
        read_marketplace(source, &location).map_err(|problem| PluginError::refused(name, problem))
    }

    async fn fetch_marketplace(
        &self,
        source: &MarketplaceSource,
        staging: &Staging,
    ) -> Result<Fetched, PluginError> {
        match source {
            MarketplaceSource::Directory { path } => Ok(Fetched::There {
                place: path.clone(),
                list: list_file(path, None)?,
            }),
            MarketplaceSource::File { path } => Ok(Fetched::There {
                place: path.clone(),
                list: path.clone(),
            }),
            MarketplaceSource::Url { url, headers } => {
                let bytes = fetch::list(url, headers, &Network::of(self.environment())).await?;
                let file = staging.path().join("marketplace.json");
                std::fs::write(&file, bytes).map_err(PluginError::io(&file))?;
                Ok(Fetched::File { file })
            }
            MarketplaceSource::Github {
                repo,
                reference,
                path,
            } => {
                let url = github_address(repo);
                self.clone_marketplace(&url, reference.as_deref(), path.as_deref(), staging)
                    .await
            }
            MarketplaceSource::Git {
                url,
                reference,
                path,
            } => {
                self.clone_marketplace(url, reference.as_deref(), path.as_deref(), staging)
                    .await
            }
        }
    }

    async fn clone_marketplace(
        &self,
        url: &str,
        reference: Option<&str>,
        path: Option<&str>,
        staging: &Staging,
    ) -> Result<Fetched, PluginError> {
        let folder = staging.path().join("marketplace");
        let wanted = git::Revision {
            url,
            reference,
            commit: None,
        };
        git::fetch(wanted, &folder, self.environment()).await?;
        let list = list_file(&folder, path)?;
        Ok(Fetched::Folder { folder, list })
    }

    /// # Errors
    /// If it was not added, managed settings forbid it, or its list is broken.
    pub fn marketplace(&self, name: &str) -> Result<(KnownMarketplace, Marketplace), PluginError> {
        let known = self.store.known()?;
        let entry = known
            .get(name)
            .ok_or_else(|| self.unknown(name, known.keys()))?;
        let source = entry
            .source()
            .map_err(|why| PluginError::refused(format!("the marketplace {name}"), why))?;
        self.policy.check(name, &source)?;
        let marketplace =
            read_marketplace(&source, &entry.install_location).map_err(|problem| {
                PluginError::refused(
                    format!("the marketplace {name}"),
                    format!(
                        "{problem}. Fetch it again with `lathe plugin marketplace update {name}`"
                    ),
                )
            })?;
        if marketplace.name != name {
            return Err(PluginError::refused(
                format!("the marketplace {name}"),
                format!(
                    "its name is now {}; remove it and add it again",
                    marketplace.name
                ),
            ));
        }
        Ok((entry.clone(), marketplace))
    }

    fn unknown<'a>(&self, name: &str, known: impl Iterator<Item = &'a String>) -> PluginError {
        let near = lathe_settings::nearest::nearest(name, known.map(String::as_str));
        PluginError::usage(match near {
            Some(near) => format!("there is no marketplace {name}; did you mean {near}?"),
            None => format!(
                "there is no marketplace {name}; add it with `lathe plugin marketplace add <source>`"
            ),
        })
    }

    /// The source of a marketplace in settings. Loading has dropped those of untrusted folders.
    #[must_use]
    pub fn declared(&self, name: &str) -> Option<Result<MarketplaceSource, SourceError>> {
        let declared = self.settings.settings.extra_known_marketplaces.get(name)?;
        let source = declared.get("source").unwrap_or(declared);
        let mut source = MarketplaceSource::of_value(source);
        if let Ok(MarketplaceSource::Directory { path } | MarketplaceSource::File { path }) =
            &mut source
        {
            let folder = self.places.project.clone();
            *path = self
                .environment()
                .resolve_from(&path.to_string_lossy(), &folder);
        }
        Some(source)
    }

    /// Finds a plugin by `name@marketplace` or by a unique name. A marketplace of the settings is
    /// added if needed.
    ///
    /// # Errors
    /// If there is no such plugin, or more than one.
    pub async fn find(&self, wanted: &str) -> Result<(Marketplace, MarketplaceEntry), PluginError> {
        if wanted.contains('@') {
            let id: PluginId = wanted
                .parse()
                .map_err(|error: super::name::BadName| PluginError::usage(error))?;
            let added = self.store.known()?.contains_key(&id.marketplace);
            let marketplace = match self.declared(&id.marketplace) {
                Some(source) if !added => {
                    let source = source.map_err(|why| {
                        PluginError::refused(format!("the marketplace {}", id.marketplace), why)
                    })?;
                    self.take_marketplace(&source, Some(&id.marketplace))
                        .await?
                }
                _ => self.marketplace(&id.marketplace)?.1,
            };
            return match marketplace.find(&id.name).cloned() {
                Some(entry) => Ok((marketplace, entry)),
                None => Err(not_listed(&marketplace, &id.name)),
            };
        }
        let mut found = Vec::new();
        let mut names = Vec::new();
        for name in self.store.known()?.keys() {
            let Ok((_, marketplace)) = self.marketplace(name) else {
                continue;
            };
            if let Some(entry) = marketplace.find(wanted).cloned() {
                found.push((marketplace, entry));
            } else {
                names.extend(marketplace.plugins.into_iter().map(|entry| entry.name));
            }
        }
        match found.len() {
            1 => found
                .pop()
                .ok_or_else(|| PluginError::usage("no plugin found")),
            0 => {
                let near =
                    lathe_settings::nearest::nearest(wanted, names.iter().map(String::as_str));
                Err(PluginError::usage(match near {
                    Some(near) => format!("no marketplace lists {wanted}; did you mean {near}?"),
                    None => format!(
                        "no marketplace that was added lists {wanted}; `lathe plugin marketplace list` shows them"
                    ),
                }))
            }
            _ => {
                let ids: Vec<String> = found
                    .iter()
                    .map(|(marketplace, entry)| format!("{}@{}", entry.name, marketplace.name))
                    .collect();
                Err(PluginError::usage(format!(
                    "several marketplaces list {wanted}; say which: {}",
                    ids.join(", ")
                )))
            }
        }
    }

    /// All marketplaces, including those in settings that were not added.
    ///
    /// # Errors
    /// If our own list of them is broken.
    pub fn marketplaces(&self) -> Result<Vec<MarketplaceListing>, PluginError> {
        let known = self.store.known()?;
        let mut all: Vec<MarketplaceListing> = known
            .iter()
            .map(|(name, entry)| {
                let source = entry.source();
                let mut listing = MarketplaceListing {
                    name: name.clone(),
                    source: source
                        .as_ref()
                        .map_or_else(ToString::to_string, ToString::to_string),
                    install_location: Some(entry.install_location.clone()),
                    last_updated: entry.last_updated.clone(),
                    plugins: Vec::new(),
                    problems: Vec::new(),
                    refused: None,
                };
                match self.marketplace(name) {
                    Ok((_, marketplace)) => {
                        listing.plugins = marketplace
                            .plugins
                            .into_iter()
                            .map(|entry| entry.name)
                            .collect();
                        listing.problems = marketplace.problems;
                    }
                    Err(error) => listing.refused = Some(error.to_string()),
                }
                listing
            })
            .collect();
        for name in self.settings.settings.extra_known_marketplaces.keys() {
            if known.contains_key(name) {
                continue;
            }
            let source = self.declared(name);
            let (source, refused) = match source {
                Some(Ok(source)) => {
                    let refused = self.policy.check(name, &source).err();
                    (source.to_string(), refused.map(|error| error.to_string()))
                }
                Some(Err(error)) => (String::new(), Some(error.to_string())),
                None => continue,
            };
            all.push(MarketplaceListing {
                name: name.clone(),
                source,
                install_location: None,
                last_updated: String::new(),
                plugins: Vec::new(),
                problems: Vec::new(),
                refused,
            });
        }
        Ok(all)
    }

    /// # Errors
    /// If it is unknown, or as for adding. The existing copy then stays.
    pub async fn update_marketplace(&self, name: &str) -> Result<Marketplace, PluginError> {
        let known = self.store.known()?;
        let entry = known
            .get(name)
            .ok_or_else(|| self.unknown(name, known.keys()))?;
        let source = entry
            .source()
            .map_err(|why| PluginError::refused(format!("the marketplace {name}"), why))?;
        self.take_marketplace(&source, Some(name)).await
    }

    /// # Errors
    /// If our own list of them is broken.
    pub fn marketplace_names(&self) -> Result<Vec<String>, PluginError> {
        Ok(self.store.known()?.into_keys().collect())
    }

    /// # Errors
    /// If our own list of them is broken.
    pub fn installed_from(&self, name: &str) -> Result<Vec<PluginId>, PluginError> {
        let plugins = self.store.installed()?;
        Ok(plugins
            .keys()
            .filter_map(|id| id.parse().ok())
            .filter(|id: &PluginId| id.marketplace == name)
            .collect())
    }

    /// Removes a marketplace and its plugins. Returns the plugins.
    ///
    /// # Errors
    /// If it is unknown, or a file can't be written.
    pub fn remove_marketplace(&self, name: &str) -> Result<Vec<PluginId>, PluginError> {
        let known = self.store.known()?;
        if !known.contains_key(name) {
            return Err(self.unknown(name, known.keys()));
        }
        let gone = self.installed_from(name)?;
        for id in &gone {
            while self.uninstall(id, None, false).is_ok() {}
        }
        self.store.change_installed(|plugins| {
            // In other projects too.
            plugins.retain(|id, _| !gone.iter().any(|gone| gone.to_string() == *id));
            Ok(())
        })?;
        self.store.change_known(|known| {
            known.remove(name);
            Ok(())
        })?;
        let cache = self.store.folder().join("cache").join(name);
        let _ = std::fs::remove_dir_all(cache);
        let _ = std::fs::remove_file(self.store.marketplace_list(name));
        let _ = std::fs::remove_dir_all(self.store.marketplace_folder(name));
        Ok(gone)
    }

    /// The effective plugins that can be updated.
    ///
    /// # Errors
    /// If our own list of them is broken.
    pub fn updatable(&self) -> Result<Updatable, PluginError> {
        let mut all = Updatable::new();
        for (id, entries) in self.store.installed()? {
            let Ok(id) = id.parse::<PluginId>() else {
                continue;
            };
            let best = entries
                .iter()
                .filter(|entry| entry.counts_in(&self.places.project))
                .map(|entry| entry.scope)
                .max();
            if let Some(scope) = best.filter(|scope| *scope != InstallScope::Managed) {
                all.insert(id, scope);
            }
        }
        Ok(all)
    }
}

fn not_listed(marketplace: &Marketplace, name: &str) -> PluginError {
    if let Some(why) = marketplace.renamed(name) {
        return PluginError::usage(why);
    }
    let names = marketplace.plugins.iter().map(|entry| entry.name.as_str());
    let broken = marketplace
        .problems
        .iter()
        .find(|problem| problem.message.contains(name));
    PluginError::usage(
        match (lathe_settings::nearest::nearest(name, names), broken) {
            (_, Some(problem)) => format!(
                "the marketplace {} lists {name} with an invalid entry: {problem}",
                marketplace.name
            ),
            (Some(near), None) => format!(
                "the marketplace {} doesn't list {name}; did you mean {near}?",
                marketplace.name
            ),
            (None, None) => format!(
                "the marketplace {0} doesn't list {name}; `lathe plugin marketplace update {0}` fetches its list again",
                marketplace.name
            ),
        },
    )
}

enum Fetched {
    /// A local marketplace, which is not copied.
    There { place: PathBuf, list: PathBuf },
    /// A folder to be moved to its place.
    Folder { folder: PathBuf, list: PathBuf },
    /// A list to be moved to its place.
    File { file: PathBuf },
}

impl Fetched {
    fn read(&self, source: &MarketplaceSource) -> Result<Marketplace, Problem> {
        let local = source.is_local();
        match self {
            Self::There { place, list } if place == list => {
                Marketplace::read(list, folder_of_list(list), local)
            }
            Self::There { place, list } => Marketplace::read(list, Some(place), local),
            Self::Folder { folder, list } => Marketplace::read(list, Some(folder), local),
            Self::File { file } => Marketplace::read(file, None, local),
        }
    }
}

fn read_marketplace(source: &MarketplaceSource, location: &Path) -> Result<Marketplace, Problem> {
    let local = source.is_local();
    let (path, is_file) = match source {
        MarketplaceSource::Github { path, .. } | MarketplaceSource::Git { path, .. } => {
            (path.as_deref(), false)
        }
        MarketplaceSource::Directory { .. } => (None, false),
        MarketplaceSource::File { .. } => {
            return Marketplace::read(location, folder_of_list(location), local);
        }
        MarketplaceSource::Url { .. } => (None, true),
    };
    if is_file {
        return Marketplace::read(location, None, local);
    }
    let list =
        list_file(location, path).map_err(|error| Problem::fatal(location, error.to_string()))?;
    Marketplace::read(&list, Some(location), local)
}

/// The folder that the paths of a list are relative to.
fn folder_of_list(list: &Path) -> Option<&Path> {
    let folder = list.parent()?;
    let conventional = folder.file_name().is_some_and(|name| {
        super::manifest::MANIFEST_FOLDERS
            .iter()
            .any(|known| name == *known)
    });
    if conventional {
        folder.parent()
    } else {
        Some(folder)
    }
}
