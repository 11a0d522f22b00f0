//! What a session gets: the plugins that are switched on, were confirmed and may be used.
//!
//! Nothing is fetched here and nothing is written. A plugin that can't be loaded is listed with the
//! reason; the others don't notice.

use super::contents::{Plugin, Surroundings, words};
use super::manifest::{Manifest, manifest_file};
use super::name::{INLINE, PluginId, check_plugin};
use super::policy::Policy;
use super::source::MarketplaceSource;
use super::store::{InstallScope, Installed, KnownMarketplace, Store};
use super::{PluginError, plain};
use crate::plugin::PluginContribution;
use crate::problem::Problem;
use lathe_settings::trust::BringKind;
use lathe_settings::{Places, Resolved};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How a plugin stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PluginState {
    /// It is loaded.
    On,
    /// It is installed and switched off.
    Off,
    /// Settings ask for it, but nobody has installed it.
    NotInstalled,
    /// The folder's settings ask for it, but the folder isn't trusted.
    NotTrusted,
    /// Policy forbids it.
    Blocked,
    /// It can't be loaded.
    Failed,
}

impl PluginState {
    /// The state in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::NotInstalled => "not installed",
            Self::NotTrusted => "folder not trusted",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
        }
    }
}

/// A plugin in a listing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginListing {
    /// `name@marketplace`.
    pub id: String,
    /// How it stands.
    pub state: PluginState,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// For whom it was installed.
    pub scope: Option<InstallScope>,
    /// Where it lies.
    pub path: Option<PathBuf>,
    /// What it brings, in words.
    pub brings: Vec<String>,
    /// Why it is not on, and what to do.
    pub reason: Option<String>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

impl PluginListing {
    fn new(id: &str, state: PluginState) -> Self {
        Self {
            id: plain(id, 140),
            state,
            version: None,
            description: None,
            scope: None,
            path: None,
            brings: Vec::new(),
            reason: None,
            problems: Vec::new(),
        }
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// The plugins of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadedPlugins {
    /// Those that are on.
    pub plugins: Vec<Plugin>,
    /// All that are known here.
    pub listings: Vec<PluginListing>,
    /// What is wrong with the records of them.
    pub problems: Vec<Problem>,
}

impl LoadedPlugins {
    /// What those that are on bring, for the other loaders.
    #[must_use]
    pub fn contributions(&self) -> Vec<PluginContribution> {
        self.plugins
            .iter()
            .map(|plugin| plugin.contribution.clone())
            .collect()
    }

    /// MCP servers by plugin, in the format of `.mcp.json` (with the plugins' variables filled in).
    #[must_use]
    pub fn mcp_servers(&self) -> Vec<(String, BTreeMap<String, Value>)> {
        self.plugins
            .iter()
            .filter(|plugin| plugin.contribution.trusted)
            .filter(|plugin| !plugin.contribution.mcp_servers.is_empty())
            .map(|plugin| {
                let servers = plugin.contribution.mcp_servers.clone();
                (plugin.id.name.clone(), servers)
            })
            .collect()
    }

    /// Language servers, named `plugin:<plugin>:<server>`, in the order of the plugins and ready to
    /// start: the plugins' variables are filled in, and the process is told where its plugin lies.
    /// A server that two plugins bring alike (the same command with the same arguments for the same
    /// files) is there once, as the first one's. A plugin that nobody has confirmed brings none.
    #[must_use]
    pub fn lsp_servers(&self) -> Vec<(String, Value)> {
        let mut servers: Vec<(String, Value)> = Vec::new();
        for plugin in &self.plugins {
            if !plugin.contribution.trusted {
                continue;
            }
            for (name, server) in &plugin.contribution.lsp_servers {
                if !servers.iter().any(|(_, other)| same_server(other, server)) {
                    servers.push((format!("plugin:{}:{name}", plugin.id.name), server.clone()));
                }
            }
        }
        servers
    }

    /// What a plugin presets for a setting that nobody has set; the first plugin's word counts.
    #[must_use]
    pub fn preset(&self, key: &str) -> Option<&str> {
        self.plugins
            .iter()
            .find_map(|plugin| plugin.contribution.settings.as_ref()?.get(key)?.as_str())
    }

    /// What a plugin presets for a setting that names one of its own parts: the first that is there,
    /// by its plain name or by its name with the plugin's in front.
    #[must_use]
    pub fn preset_part(&self, key: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
        self.plugins.iter().find_map(|plugin| {
            let name = plugin.contribution.settings.as_ref()?.get(key)?.as_str()?;
            [format!("{}:{name}", plugin.id.name), name.to_owned()]
                .into_iter()
                .find(|name| is_there(name))
        })
    }

    /// The plugins as SDK hosts are told of them.
    #[must_use]
    pub fn frames(&self) -> Vec<Value> {
        self.plugins
            .iter()
            .map(|plugin| {
                let mut frame = json!({
                    "name": plugin.id.name,
                    "path": plugin.contribution.root,
                    "source": plugin.id.to_string(),
                });
                if let Some(version) = &plugin.contribution.version {
                    frame["version"] = version.as_str().into();
                }
                frame
            })
            .collect()
    }

    /// What SDK hosts are told is wrong: plugins that should be on and aren't.
    #[must_use]
    pub fn error_frames(&self) -> Vec<Value> {
        let failed = self
            .listings
            .iter()
            .filter(|listing| matches!(listing.state, PluginState::Failed | PluginState::Blocked));
        failed
            .map(|listing| {
                json!({
                    "plugin": listing.id,
                    "type": match listing.state {
                        PluginState::Blocked => "blocked",
                        _ => "load-failed",
                    },
                    "message": listing.reason,
                })
            })
            .chain(self.problems.iter().map(|problem| {
                json!({"plugin": null, "type": "records", "message": problem.to_string()})
            }))
            .collect()
    }

    /// What the person should know when a session starts: what was asked for and isn't there. What
    /// is merely untidy is left to listings and the doctor.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        for listing in &self.listings {
            let wanted = matches!(
                listing.state,
                PluginState::Failed | PluginState::Blocked | PluginState::NotInstalled
            );
            if let (true, Some(reason)) = (wanted, &listing.reason) {
                remarks.push(format!("plugin {}: {reason}", listing.id));
            }
        }
        remarks
    }
}

/// Loads the plugins of a session: those that settings switch on, and the folders that were named for
/// this session only (`--plugin-dir`), which naming them confirms.
#[must_use]
pub fn load(places: &Places, settings: &Resolved, folders: &[PathBuf]) -> LoadedPlugins {
    let mut loading = Loading {
        places,
        settings,
        store: Store::new(places),
        policy: Policy::of(settings),
        loaded: LoadedPlugins::default(),
    };
    for folder in folders {
        loading.inline(folder);
    }
    loading.switched_on();
    loading.check_dependencies();
    loading.loaded
}

struct Loading<'a> {
    places: &'a Places,
    settings: &'a Resolved,
    store: Store,
    policy: Policy,
    loaded: LoadedPlugins,
}

impl Loading<'_> {
    fn record<T: Default>(&mut self, outcome: Result<T, PluginError>) -> T {
        outcome.unwrap_or_else(|error| {
            let file = match &error {
                PluginError::Broken { file, .. } => file.clone(),
                PluginError::Io { path, .. } => path.clone(),
                _ => self.store.folder().to_path_buf(),
            };
            self.loaded
                .problems
                .push(Problem::fatal(file, error.to_string()));
            T::default()
        })
    }

    fn inline(&mut self, folder: &Path) {
        let folder = self.places.environment.resolve(&folder.to_string_lossy());
        let fail = |why: String| {
            let name = folder.display().to_string();
            PluginListing {
                path: Some(folder.clone()),
                ..PluginListing::new(&name, PluginState::Failed)
            }
            .because(format!("--plugin-dir: {why}"))
        };
        if !folder.is_dir() {
            self.loaded
                .listings
                .push(fail(format!("{} is not a folder", folder.display())));
            return;
        }
        let name = match inline_name(&folder) {
            Ok(name) => name,
            Err(why) => {
                self.loaded.listings.push(fail(why));
                return;
            }
        };
        let id = PluginId::inline(&name);
        self.take(&id, &folder, None);
    }

    fn switched_on(&mut self) {
        let installed = self.store.installed();
        let installed = self.record(installed);
        let enabled = self.settings.settings.enabled_plugins.clone();
        if installed.is_empty() && enabled.is_empty() && self.settings.layers.is_empty() {
            return;
        }
        let known = if enabled.is_empty() {
            BTreeMap::new()
        } else {
            let known = self.store.known();
            self.record(known)
        };
        let mut withheld: Vec<String> = self
            .settings
            .withheld()
            .into_iter()
            .filter(|bring| bring.kind == BringKind::Plugin)
            .filter_map(|bring| Some(bring.key.strip_prefix("enabledPlugins.")?.to_owned()))
            .filter(|id| enabled.get(id) != Some(&Value::Bool(true)))
            .collect();
        withheld.sort();
        withheld.dedup();
        for (text, on) in &enabled {
            let id = match text.parse::<PluginId>() {
                Ok(id) => id,
                Err(error) => {
                    let listing = PluginListing::new(text, PluginState::Failed)
                        .because(format!("enabledPlugins: {error}"));
                    self.loaded.listings.push(listing);
                    continue;
                }
            };
            let entry = installed
                .get(text)
                .and_then(|entries| self.counting(entries));
            match (on, entry) {
                // Listed below, with what it waits for.
                (Value::Bool(false), Some(_)) if withheld.contains(text) => {}
                (Value::Bool(false), Some(entry)) => self.off(&id, &entry),
                (Value::Bool(false), None) => {}
                (Value::Bool(true), entry) => self.on(&id, entry, &known),
                _ => self.loaded.listings.push(
                    PluginListing::new(text, PluginState::Failed)
                        .because("enabledPlugins: the value must be true or false"),
                ),
            }
        }
        for id in &withheld {
            self.loaded.listings.push(
                PluginListing::new(id, PluginState::NotTrusted).because(
                    "this folder's settings ask for it, and the folder isn't trusted; `lathe trust add` changes that",
                ),
            );
        }
        for (text, entries) in &installed {
            if enabled.contains_key(text) || withheld.contains(text) {
                continue;
            }
            if let (Ok(id), Some(entry)) = (text.parse::<PluginId>(), self.counting(entries)) {
                self.off(&id, &entry);
            }
        }
    }

    /// The entry that counts here: the nearest one.
    fn counting(&self, entries: &[Installed]) -> Option<Installed> {
        entries
            .iter()
            .filter(|entry| entry.counts_in(&self.places.project))
            .max_by_key(|entry| entry.scope)
            .cloned()
    }

    fn off(&mut self, id: &PluginId, entry: &Installed) {
        self.loaded.listings.push(PluginListing {
            version: Some(entry.version.clone()),
            scope: Some(entry.scope),
            path: Some(entry.install_path.clone()),
            ..PluginListing::new(&id.to_string(), PluginState::Off)
        });
    }

    fn on(
        &mut self,
        id: &PluginId,
        entry: Option<Installed>,
        known: &BTreeMap<String, KnownMarketplace>,
    ) {
        let text = id.to_string();
        let Some(entry) = entry else {
            self.loaded.listings.push(
                PluginListing::new(&text, PluginState::NotInstalled).because(format!(
                    "settings ask for it, and nothing of it runs until you install it: `lathe plugin install {id}`"
                )),
            );
            return;
        };
        if let Err(why) = self.allowed(id, known) {
            self.loaded.listings.push(PluginListing {
                version: Some(entry.version.clone()),
                scope: Some(entry.scope),
                path: Some(entry.install_path.clone()),
                ..PluginListing::new(&text, PluginState::Blocked).because(why)
            });
            return;
        }
        let path = entry.install_path.clone();
        self.take(id, &path, Some(&entry));
    }

    fn allowed(
        &self,
        id: &PluginId,
        known: &BTreeMap<String, KnownMarketplace>,
    ) -> Result<(), String> {
        let source: Option<MarketplaceSource> = known
            .get(&id.marketplace)
            .and_then(|known| known.source().ok());
        match source {
            Some(source) => self.policy.check(&id.marketplace, &source),
            // Nobody can say where it came from.
            None if self.policy.is_strict() => Err(format!(
                "the marketplace {} isn't known any more, and your organisation allows only some",
                id.marketplace
            )),
            None => Ok(()),
        }
    }

    fn take(&mut self, id: &PluginId, folder: &Path, entry: Option<&Installed>) {
        let listing = PluginListing {
            version: entry.map(|entry| entry.version.clone()),
            scope: entry.map(|entry| entry.scope),
            path: Some(folder.to_path_buf()),
            ..PluginListing::new(&id.to_string(), PluginState::Failed)
        };
        if let Some(first) = self
            .loaded
            .plugins
            .iter()
            .find(|known| known.id.name == id.name)
        {
            let listing = listing.because(format!(
                "{} is on already, and names of its parts would be the same; switch one of them off",
                first.id
            ));
            self.loaded.listings.push(listing);
            return;
        }
        let around = Surroundings {
            data: Some(self.store.data_folder(id)),
            options: self.settings.settings.plugin_configs.get(&id.to_string()),
            confirmed: true,
            unpack: true,
        };
        match Plugin::read(folder, id, &around) {
            Ok(mut plugin) => {
                if plugin.contribution.version.is_none() {
                    plugin.contribution.version = entry
                        .map(|entry| entry.version.clone())
                        .filter(|text| !text.is_empty());
                }
                self.loaded.listings.push(PluginListing {
                    state: PluginState::On,
                    version: plugin.contribution.version.clone(),
                    description: plugin
                        .manifest
                        .description
                        .as_deref()
                        .map(|text| plain(text, 300)),
                    brings: plugin.brings().iter().map(words).collect(),
                    problems: plugin.problems.clone(),
                    ..listing
                });
                self.loaded.plugins.push(plugin);
            }
            Err(problem) => {
                let fix = match entry {
                    Some(entry) if !entry.install_path.is_dir() => {
                        format!(
                            "its files are gone: install it again with `lathe plugin install {id}`"
                        )
                    }
                    _ => problem.to_string(),
                };
                self.loaded.listings.push(PluginListing {
                    problems: vec![problem],
                    ..listing.because(fix)
                });
            }
        }
    }

    fn check_dependencies(&mut self) {
        let on: Vec<PluginId> = self
            .loaded
            .plugins
            .iter()
            .map(|plugin| plugin.id.clone())
            .collect();
        for plugin in &mut self.loaded.plugins {
            for needed in &plugin.manifest.dependencies {
                let there = on
                    .iter()
                    .any(|id| id.name == *needed || id.to_string() == *needed);
                if there {
                    continue;
                }
                let file = plugin
                    .manifest
                    .file
                    .clone()
                    .unwrap_or_else(|| plugin.contribution.root.clone());
                let problem = Problem::field(
                    file,
                    "dependencies",
                    format!(
                        "it needs the plugin {}, which is not on",
                        plain(needed, 100)
                    ),
                )
                .fix(format!("`lathe plugin install {}`", plain(needed, 100)));
                let id = plugin.id.to_string();
                if let Some(listing) = self
                    .loaded
                    .listings
                    .iter_mut()
                    .find(|listing| listing.id == id)
                {
                    listing.problems.push(problem.clone());
                }
                plugin.problems.push(problem);
            }
        }
    }
}

/// What a folder that was named for a session calls itself; without a manifest, its own name.
fn inline_name(folder: &Path) -> Result<String, String> {
    let real = std::fs::canonicalize(folder).map_err(|error| error.to_string())?;
    let own = real
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    if manifest_file(&real).is_none() {
        let conventional = [
            "commands",
            "agents",
            "skills",
            "output-styles",
            "hooks/hooks.json",
            ".mcp.json",
            ".lsp.json",
        ];
        if !conventional.iter().any(|name| real.join(name).exists()) {
            return Err(format!(
                "there is no plugin in {}: neither .claude-plugin/plugin.json nor commands/, agents/, skills/, hooks/hooks.json, .mcp.json",
                folder.display()
            ));
        }
    }
    let mut problems = Vec::new();
    let manifest =
        Manifest::read(&real, &own, &mut problems).map_err(|problem| problem.to_string())?;
    check_plugin(&manifest.name).map_err(|error| {
        format!("{error}; give the plugin a name in .claude-plugin/plugin.json")
    })?;
    if manifest.name == INLINE {
        return Err(format!(
            "{INLINE} is reserved; the plugin needs another name"
        ));
    }
    Ok(manifest.name)
}

/// Whether two language servers would do the same work.
fn same_server(one: &Value, other: &Value) -> bool {
    ["command", "args", "extensionToLanguage", "settings"]
        .into_iter()
        .all(|key| one.get(key) == other.get(key))
}
