//! Adding, refreshing and removing marketplaces, and finding plugins in them.

use super::install::Updatable;
use super::marketplace::{Entry, Marketplace, list_file};
use super::name::PluginId;
use super::policy::Policy;
use super::source::{MarketplaceSource, github_address};
use super::store::{InstallScope, KnownMarketplace, Staging, Store, now};
use super::{PluginError, fetch, git};
use crate::problem::Problem;
use lathe_settings::{Environment, Places, Resolved, Source};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Works on a person's marketplaces and plugins.
#[derive(Debug)]
pub struct PluginManager {
    places: Places,
    settings: Resolved,
    policy: Policy,
    store: Store,
}

/// A marketplace in a listing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceListing {
    /// Its name.
    pub name: String,
    /// Where it comes from, in words.
    pub source: String,
    /// Where its copy lies; `None` for one that settings name and that wasn't added.
    pub install_location: Option<PathBuf>,
    /// When it was fetched.
    pub last_updated: String,
    /// The names of its plugins.
    pub plugins: Vec<String>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// Why it can't be used.
    pub refused: Option<String>,
}

impl PluginManager {
    /// The manager for these places and settings.
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

    /// What the person filled in for a plugin.
    pub(crate) fn options_of(&self, id: &PluginId) -> Option<&Value> {
        self.settings.settings.plugin_configs.get(&id.to_string())
    }

    /// The settings file of a scope, if it is one that is written.
    pub(crate) fn writable(&self, scope: Source) -> Result<PathBuf, PluginError> {
        self.places.written_file(scope).ok_or_else(|| {
            PluginError::Usage("plugins are installed for user, project or local".to_owned())
        })
    }

    /// Adds a marketplace, or fetches it again if it is known already.
    ///
    /// # Errors
    /// When policy forbids it, it can't be fetched, it is broken, or its name is another one's.
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
            .check(expected.unwrap_or("to be added"), source)
            .map_err(PluginError::Policy)?;
        let staging = self.store.staging()?;
        let fetched = self.fetch_marketplace(source, &staging).await?;
        let marketplace = fetched
            .read(source)
            .map_err(|problem| PluginError::refused(source.to_string(), problem.to_string()))?;
        let name = marketplace.name.clone();
        if let Some(expected) = expected
            && expected != name
        {
            return Err(PluginError::refused(
                source.to_string(),
                format!("it was expected to be the marketplace {expected} and calls itself {name}"),
            ));
        }
        self.policy
            .check(&name, source)
            .map_err(PluginError::Policy)?;
        let location = self.store.change_known(|known| {
            if let Some(other) = known.get(&name)
                && other.source().as_ref() != Ok(source)
            {
                let other = other.source().map_or_else(|why| why, |other| other.to_string());
                return Err(PluginError::Usage(format!(
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
        read_marketplace(source, &location)
            .map_err(|problem| PluginError::refused(name, problem.to_string()))
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
                let bytes = fetch::list(url, headers).await?;
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
        let wanted = git::Wanted {
            url,
            reference,
            commit: None,
        };
        git::fetch(wanted, &folder, self.environment()).await?;
        let list = list_file(&folder, path)?;
        Ok(Fetched::Folder { folder, list })
    }

    /// A marketplace that was added.
    ///
    /// # Errors
    /// When it wasn't, policy forbids it, or its list is broken.
    pub fn marketplace(&self, name: &str) -> Result<(KnownMarketplace, Marketplace), PluginError> {
        let known = self.store.known()?;
        let entry = known
            .get(name)
            .ok_or_else(|| self.unknown(name, known.keys()))?;
        let source = entry
            .source()
            .map_err(|why| PluginError::refused(format!("the marketplace {name}"), why))?;
        self.policy
            .check(name, &source)
            .map_err(PluginError::Policy)?;
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
                    "it calls itself {} now; remove it and add it again",
                    marketplace.name
                ),
            ));
        }
        Ok((entry.clone(), marketplace))
    }

    fn unknown<'a>(&self, name: &str, known: impl Iterator<Item = &'a String>) -> PluginError {
        let near = lathe_settings::nearest::nearest(name, known.map(String::as_str));
        PluginError::Usage(match near {
            Some(near) => format!("there is no marketplace {name}; did you mean {near}?"),
            None => format!(
                "there is no marketplace {name}; add it with `lathe plugin marketplace add <source>`"
            ),
        })
    }

    /// The source that settings name for a marketplace. Those of a folder that isn't trusted don't
    /// count: loading has dropped them.
    #[must_use]
    pub fn declared(&self, name: &str) -> Option<Result<MarketplaceSource, String>> {
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

    /// Finds a plugin by `name@marketplace` or, where that is enough, by name. A marketplace that
    /// settings name is added on the way.
    ///
    /// # Errors
    /// When there is no such plugin, or more than one.
    pub async fn find(&self, wanted: &str) -> Result<(Marketplace, Entry), PluginError> {
        if wanted.contains('@') {
            let id: PluginId = wanted
                .parse()
                .map_err(|error: super::name::BadName| PluginError::Usage(error.to_string()))?;
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
            1 => found.pop().ok_or_else(|| PluginError::Usage(String::new())),
            0 => {
                let near =
                    lathe_settings::nearest::nearest(wanted, names.iter().map(String::as_str));
                Err(PluginError::Usage(match near {
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
                Err(PluginError::Usage(format!(
                    "several marketplaces list {wanted}; say which: {}",
                    ids.join(", ")
                )))
            }
        }
    }

    /// All marketplaces, also those that settings name and that weren't added.
    ///
    /// # Errors
    /// When our own list of them is broken.
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
                        .map_or_else(Clone::clone, ToString::to_string),
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
                Some(Ok(source)) => (source.to_string(), self.policy.check(name, &source).err()),
                Some(Err(why)) => (String::new(), Some(why)),
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

    /// Fetches a marketplace again.
    ///
    /// # Errors
    /// When it isn't known, or as for adding. What was there then stays.
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

    /// The names of all marketplaces that were added.
    ///
    /// # Errors
    /// When our own list of them is broken.
    pub fn marketplace_names(&self) -> Result<Vec<String>, PluginError> {
        Ok(self.store.known()?.into_keys().collect())
    }

    /// The plugins that were installed from a marketplace.
    ///
    /// # Errors
    /// When our own list of them is broken.
    pub fn installed_from(&self, name: &str) -> Result<Vec<PluginId>, PluginError> {
        let plugins = self.store.installed()?;
        Ok(plugins
            .keys()
            .filter_map(|id| id.parse().ok())
            .filter(|id: &PluginId| id.marketplace == name)
            .collect())
    }

    /// Forgets a marketplace and the plugins that came from it. Returns those.
    ///
    /// # Errors
    /// When it isn't known, or a file can't be written.
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
            // Also where it was installed for other projects.
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

    /// The plugins that count here and can be updated.
    ///
    /// # Errors
    /// When our own list of them is broken.
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
        return PluginError::Usage(why);
    }
    let names = marketplace.plugins.iter().map(|entry| entry.name.as_str());
    let broken = marketplace
        .problems
        .iter()
        .find(|problem| problem.message.contains(name));
    PluginError::Usage(
        match (lathe_settings::nearest::nearest(name, names), broken) {
            (_, Some(problem)) => format!(
                "the marketplace {} lists {name} in a way that can't be used: {problem}",
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

/// A marketplace that was fetched.
enum Fetched {
    /// It is on this machine and stays where it is.
    There { place: PathBuf, list: PathBuf },
    /// A folder that has to be put in its place.
    Folder { folder: PathBuf, list: PathBuf },
    /// A list that has to be put in its place.
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

/// Reads a marketplace from where it lies.
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

/// The folder that the relative paths of a list start from.
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
