//! Loads the plugins of a session: enabled, confirmed and allowed ones.
//!
//! Nothing is fetched or written here. A plugin that can't be loaded is listed with the reason and
//! doesn't affect others.

use super::contents::{Plugin, PluginContext, describe};
use super::manifest::{COMPONENTS, Manifest, manifest_file};
use super::name::{BadName, INLINE, PluginId, check_plugin};
use super::policy::{Policy, PolicyError};
use super::source::MarketplaceSource;
use super::store::{InstallScope, Installed, KnownMarketplace, Store};
use super::{PluginError, plain};
use crate::plugin::PluginContribution;
use crate::problem::Problem;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::trust::BringKind;
use lathe_settings::{Places, Resolved};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The state of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PluginState {
    On,
    /// Installed but disabled.
    Off,
    /// Enabled in settings but not installed.
    NotInstalled,
    /// Enabled in the settings of an untrusted folder.
    NotTrusted,
    /// Forbidden by managed settings.
    Blocked,
    Failed,
}

impl PluginState {
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

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginListing {
    /// `name@marketplace`.
    pub id: String,
    pub state: PluginState,
    pub version: Option<String>,
    pub description: Option<String>,
    pub scope: Option<InstallScope>,
    pub path: Option<PathBuf>,
    /// Its parts, for display.
    pub brings: Vec<String>,
    /// Why it is not on, with a fix.
    pub reason: Option<String>,
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

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadedPlugins {
    pub plugins: Vec<Plugin>,
    /// All known plugins.
    pub listings: Vec<PluginListing>,
    /// Problems in the records of installed plugins.
    pub problems: Vec<Problem>,
}

impl LoadedPlugins {
    /// The parts of the loaded plugins, for the other loaders.
    #[must_use]
    pub fn contributions(&self) -> Vec<PluginContribution> {
        self.plugins
            .iter()
            .map(|plugin| plugin.contribution.clone())
            .collect()
    }

    /// MCP servers by plugin, in the format of `.mcp.json` with the plugins' variables expanded.
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

    /// Language servers, named `plugin:<plugin>:<server>`, in the order of the plugins, with
    /// variables expanded and the plugin's folders in their environment. Of equal servers (same
    /// command, arguments and files) of several plugins only the first is included. Unconfirmed
    /// plugins are skipped.
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

    /// The first plugin's default for a setting.
    #[must_use]
    pub fn preset(&self, key: &str) -> Option<&str> {
        self.plugins.iter().find_map(|plugin| {
            plugin
                .contribution
                .session
                .settings
                .as_ref()?
                .get(key)?
                .as_str()
        })
    }

    /// The first plugin's default for a setting that names one of its parts, if the part exists,
    /// with or without the plugin's prefix.
    #[must_use]
    pub fn preset_part(&self, key: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
        self.plugins.iter().find_map(|plugin| {
            let name = plugin
                .contribution
                .session
                .settings
                .as_ref()?
                .get(key)?
                .as_str()?;
            [format!("{}:{name}", plugin.id.name), name.to_owned()]
                .into_iter()
                .find(|name| is_there(name))
        })
    }

    /// The plugins in the format of the SDK protocol.
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

    /// Plugins that failed to load and parts of loaded plugins that did not, in the format of the
    /// SDK protocol.
    #[must_use]
    pub fn error_frames(&self) -> Vec<Value> {
        let mut frames = Vec::new();
        for listing in &self.listings {
            let kind = match listing.state {
                PluginState::Blocked => "blocked",
                PluginState::Failed => "load-failed",
                PluginState::On => {
                    let parts = listing.problems.iter().filter(|one| is_about_a_part(one));
                    frames.extend(parts.map(|problem| {
                        json!({
                            "plugin": listing.id,
                            "type": "component-failed",
                            "message": problem.to_string(),
                        })
                    }));
                    continue;
                }
                _ => continue,
            };
            let mut frame = json!({
                "plugin": listing.id,
                "type": kind,
                "message": listing.reason,
            });
            if let Some(path) = &listing.path {
                frame["path"] = path.to_string_lossy().into();
            }
            frames.push(frame);
        }
        frames.extend(self.problems.iter().map(|problem| {
            json!({
                "plugin": problem.file.to_string_lossy(),
                "type": "records",
                "message": problem.to_string(),
            })
        }));
        frames
    }

    /// Remarks for the start of a session: enabled plugins that are not loaded. Minor problems are
    /// left to listings and the doctor.
    #[must_use]
    pub fn remarks(&self) -> Vec<Diagnostic> {
        let mut remarks: Vec<Diagnostic> = self.problems.iter().map(Diagnostic::from).collect();
        for listing in &self.listings {
            let wanted = matches!(
                listing.state,
                PluginState::Failed | PluginState::Blocked | PluginState::NotInstalled
            );
            if let (true, Some(reason)) = (wanted, &listing.reason) {
                let about = format!("plugin {}", listing.id);
                remarks.push(Diagnostic::warning(reason.clone()).about(about));
            }
        }
        remarks
    }
}

/// True for a part that is missing or broken, as opposed to a key of the manifest that is not used.
fn is_about_a_part(problem: &Problem) -> bool {
    let of_manifest = problem
        .file
        .file_name()
        .is_some_and(|name| name == "plugin.json");
    let key = problem.field.split(['.', '[']).next().unwrap_or_default();
    !of_manifest || COMPONENTS.contains(&key)
}

/// Loads the plugins of a session: those enabled in settings, and the folders of `--plugin-dir`,
/// which are confirmed by being named.
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
        let fail = |error: InlineError| {
            let name = folder.display().to_string();
            PluginListing {
                path: Some(folder.clone()),
                ..PluginListing::new(&name, PluginState::Failed)
            }
            .because(format!("--plugin-dir: {error}"))
        };
        if !folder.is_dir() {
            self.loaded
                .listings
                .push(fail(InlineError::NotAFolder(folder.clone())));
            return;
        }
        let name = match inline_name(&folder) {
            Ok(name) => name,
            Err(error) => {
                self.loaded.listings.push(fail(error));
                return;
            }
        };
        let id = PluginId::inline(&name);
        self.take(&id, &folder, None);
    }

    fn switched_on(&mut self) {
        let other = Store::of_claude_home(self.places);
        let installed = self.store.installed();
        let mut installed = self.record(installed);
        if let Some(other) = &other {
            // Installed with another program, and so confirmed there.
            let further = other.installed();
            for (id, entries) in self.record(further) {
                installed.entry(id).or_insert(entries);
            }
        }
        let enabled = self.settings.settings.enabled_plugins.clone();
        if installed.is_empty() && enabled.is_empty() && self.settings.layers.is_empty() {
            return;
        }
        let known = if enabled.is_empty() {
            BTreeMap::new()
        } else {
            let known = self.store.known();
            let mut known = self.record(known);
            if let Some(other) = &other {
                let further = other.known();
                for (name, marketplace) in self.record(further) {
                    known.entry(name).or_insert(marketplace);
                }
            }
            known
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
                // Listed below with the reason.
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
                    "this folder's settings enable it, but the folder isn't trusted; trust it with `lathe trust add`",
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

    /// The effective entry: the one with the narrowest scope.
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
                    "settings enable it, but it is not installed: `lathe plugin install {id}`"
                )),
            );
            return;
        };
        if let Err(why) = self.allowed(id, known) {
            self.loaded.listings.push(PluginListing {
                version: Some(entry.version.clone()),
                scope: Some(entry.scope),
                path: Some(entry.install_path.clone()),
                ..PluginListing::new(&text, PluginState::Blocked).because(why.to_string())
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
    ) -> Result<(), PolicyError> {
        let source: Option<MarketplaceSource> = known
            .get(&id.marketplace)
            .and_then(|known| known.source().ok());
        match source {
            Some(source) => self.policy.check(&id.marketplace, &source),
            // Its origin is unknown.
            None if self.policy.is_strict() => {
                Err(PolicyError::UnknownMarketplace(id.marketplace.clone()))
            }
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
                "{} is already enabled and has components of the same names; disable one of them",
                first.id
            ));
            self.loaded.listings.push(listing);
            return;
        }
        let around = PluginContext {
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
                    brings: plugin.parts().iter().map(describe).collect(),
                    problems: plugin.problems.clone(),
                    ..listing
                });
                self.loaded.plugins.push(plugin);
            }
            Err(problem) => {
                let fix = match entry {
                    Some(entry) if !entry.install_path.is_dir() => {
                        format!(
                            "its files are missing: reinstall it with `lathe plugin install {id}`"
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
                        "it needs the plugin {}, which is not enabled",
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

/// Why a folder of `--plugin-dir` is not a plugin.
#[derive(Debug, thiserror::Error)]
enum InlineError {
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    #[error(transparent)]
    Unreadable(#[from] std::io::Error),
    #[error(
        "there is no plugin in {}: neither .claude-plugin/plugin.json nor commands/, agents/, skills/, hooks/hooks.json, .mcp.json", .0.display()
    )]
    NoPlugin(PathBuf),
    #[error(transparent)]
    Manifest(#[from] Problem),
    #[error("{0}; give the plugin a name in .claude-plugin/plugin.json")]
    Name(#[from] BadName),
    #[error("{INLINE} is reserved; the plugin needs another name")]
    Reserved,
}

/// The name in a folder's manifest; without a manifest, the name of the folder.
fn inline_name(folder: &Path) -> Result<String, InlineError> {
    let real = std::fs::canonicalize(folder)?;
    let own = real
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    if manifest_file(&real).is_none() {
        let conventional = [
            "commands",
            "agents",
            "skills",
            "SKILL.md",
            "output-styles",
            "hooks/hooks.json",
            ".mcp.json",
            ".lsp.json",
        ];
        if !conventional.iter().any(|name| real.join(name).exists()) {
            return Err(InlineError::NoPlugin(folder.to_path_buf()));
        }
    }
    let mut problems = Vec::new();
    let manifest = Manifest::read(&real, &own, &mut problems)?;
    check_plugin(&manifest.name)?;
    if manifest.name == INLINE {
        return Err(InlineError::Reserved);
    }
    Ok(manifest.name)
}

/// True if two language servers are the same.
fn same_server(one: &Value, other: &Value) -> bool {
    ["command", "args", "extensionToLanguage", "settings"]
        .into_iter()
        .all(|key| one.get(key) == other.get(key))
}
