//! Installs plugins from marketplaces.
//!
//! A plugin is first fetched, copied and read in a staging folder ([`PluginManager::prepare`]). The
//! caller shows its parts to the user ([`Prepared::plugin`]). Only then is it moved to its place by
//! a single rename and recorded ([`PluginManager::install`]). An interruption before that has no
//! effect.

use super::contents::{Plugin, PluginContext};
use super::copy::{self, Limits};
use super::manager::PluginManager;
use super::manifest::{MANIFEST_FOLDERS, Manifest, manifest_file, read_json};
use super::marketplace::{Marketplace, MarketplaceEntry};
use super::name::{PluginId, version_folder};
use super::policy::PolicyError;
use super::source::PluginSource;
use super::store::{InstallScope, Installed, Staging, now};
use super::{PluginError, fetch, git};
use lathe_net::Network;
use lathe_settings::write::{Edit, write};
use lathe_settings::{KeyPath, Source};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The key of the fingerprint in the record of an installation.
const FINGERPRINT: &str = "latheFingerprint";

/// A plugin that was fetched but not installed. Dropping it deletes the files.
#[derive(Debug)]
pub struct Prepared {
    pub plugin: Plugin,
    pub version: String,
    /// Where it came from, for display.
    pub origin: String,
    pub commit: Option<String>,
    fingerprint: String,
    folder: PathBuf,
    staging: Staging,
}

impl Prepared {
    #[must_use]
    pub fn id(&self) -> &PluginId {
        &self.plugin.id
    }

    /// True if the installed files are the same.
    #[must_use]
    pub fn is_same_as(&self, installed: &Installed) -> bool {
        installed.version == self.version
            && installed.install_path.is_dir()
            && installed.extra.get(FINGERPRINT).and_then(Value::as_str) == Some(&self.fingerprint)
    }
}

/// The result of an installation.
#[derive(Debug, Clone, PartialEq)]
pub struct Installation {
    pub id: PluginId,
    pub version: String,
    pub path: PathBuf,
    pub replaced: Option<String>,
    /// The settings file that enables it.
    pub settings_file: PathBuf,
    /// True if it was enabled; a plugin may be disabled by default.
    pub on: bool,
}

impl PluginManager {
    /// # Errors
    /// If there is no such plugin, it can't be fetched, or it is refused.
    pub async fn prepare(&self, wanted: &str) -> Result<Prepared, PluginError> {
        let (marketplace, entry) = self.find(wanted).await?;
        self.prepare_entry(&marketplace, &entry).await
    }

    async fn prepare_entry(
        &self,
        marketplace: &Marketplace,
        entry: &MarketplaceEntry,
    ) -> Result<Prepared, PluginError> {
        let id = PluginId::new(&entry.name, &marketplace.name).map_err(PluginError::usage)?;
        let staging = self.store().staging()?;
        let fetched = staging.path().join("fetched");
        let folder = staging.path().join("plugin");
        let limits = Limits::default();
        let mut commit = None;
        let mut given_version = None;
        let from = match &entry.source {
            PluginSource::Relative(path) => marketplace.folder_of(entry, path)?,
            PluginSource::Git {
                url,
                reference,
                commit: wanted,
                folder,
            } => {
                let wanted = git::Revision {
                    url,
                    reference: reference.as_deref(),
                    commit: wanted.as_deref(),
                };
                commit = Some(git::fetch(wanted, &fetched, self.environment()).await?);
                match folder {
                    Some(folder) => inner_folder(&fetched, folder, &id)?,
                    None => fetched.clone(),
                }
            }
            PluginSource::Npm {
                package,
                version,
                registry,
            } => {
                let version = fetch::package(
                    package,
                    version.as_deref(),
                    registry.as_deref(),
                    &fetched,
                    limits,
                    &Network::of(self.environment()),
                )
                .await?;
                given_version = Some(version);
                fetched.clone()
            }
        };
        let fingerprint = copy::copy(&from, &folder, limits)?;
        complete_manifest(&folder, entry, &id)?;
        let around = PluginContext {
            data: Some(self.store().data_folder(&id)),
            options: self.options_of(&id),
            confirmed: true,
            unpack: false,
        };
        let mut plugin = Plugin::read(&folder, &id, &around)
            .map_err(|problem| PluginError::refused(id.to_string(), problem))?;
        let wants = &mut plugin.manifest.default_enabled;
        *wants = wants.or(entry.manifest.default_enabled);
        let version = plugin
            .manifest
            .version
            .clone()
            .or(given_version)
            .or_else(|| {
                commit
                    .as_ref()
                    .map(|commit| commit.chars().take(12).collect())
            })
            .unwrap_or_else(|| fingerprint.clone());
        let origin = match &entry.source {
            PluginSource::Relative(_) => format!("{} in the marketplace", entry.source),
            other => other.to_string(),
        };
        Ok(Prepared {
            plugin,
            version: version_folder(&version),
            origin,
            commit,
            fingerprint,
            folder,
            staging,
        })
    }

    /// Installs and enables a prepared plugin. Call this only after the user confirmed.
    ///
    /// # Errors
    /// If a file can't be written, or one of our files or the settings can't be parsed.
    pub fn install(&self, prepared: Prepared, scope: Source) -> Result<Installation, PluginError> {
        let on = prepared.plugin.manifest.default_enabled != Some(false);
        let mut done = self.put_in_place(prepared, scope)?;
        done.on = on;
        let mut edits = vec![switch(&done.id, on)];
        edits.extend(self.share_marketplace(&done.id, scope));
        write(self.places(), scope, &edits, None)?;
        Ok(done)
    }

    /// Replaces an installed version. The settings, which say whether it is enabled, stay
    /// unchanged, also where they are not visible in an untrusted folder.
    ///
    /// # Errors
    /// As [`Self::install`].
    pub fn update(&self, prepared: Prepared, scope: Source) -> Result<Installation, PluginError> {
        self.put_in_place(prepared, scope)
    }

    fn put_in_place(&self, prepared: Prepared, scope: Source) -> Result<Installation, PluginError> {
        let id = prepared.plugin.id.clone();
        let settings_file = self.writable(scope)?;
        let place = self.store().version_folder(&id, &prepared.version);
        let scope_word = InstallScope::from(scope);
        let project = scope
            .comes_with_the_folder()
            .then(|| self.places().project.clone());
        let replaced = self.store().change_installed(|plugins| {
            self.store()
                .put(&prepared.staging, &prepared.folder, &place)?;
            let entries = plugins.entry(id.to_string()).or_default();
            let old = entries
                .iter()
                .position(|entry| entry.scope == scope_word && entry.project_path == project)
                .map(|index| entries.remove(index));
            let mut extra = old
                .as_ref()
                .map(|old| old.extra.clone())
                .unwrap_or_default();
            extra.insert(FINGERPRINT.to_owned(), prepared.fingerprint.clone().into());
            entries.push(Installed {
                scope: scope_word,
                project_path: project.clone(),
                install_path: place.clone(),
                version: prepared.version.clone(),
                installed_at: old
                    .as_ref()
                    .map_or_else(now, |old| old.installed_at.clone()),
                last_updated: now(),
                git_commit_sha: prepared.commit.clone(),
                extra,
            });
            Ok(old.map(|old| old.version))
        })?;
        let data = self.store().data_folder(&id);
        std::fs::create_dir_all(&data).map_err(PluginError::io(&data))?;
        self.prune(&id);
        Ok(Installation {
            id,
            version: prepared.version,
            path: place,
            replaced: replaced.filter(|old| !old.is_empty()),
            settings_file,
            on: false,
        })
    }

    /// Adds the plugin's marketplace to the project's settings so that others find it, unless it is
    /// local.
    fn share_marketplace(&self, id: &PluginId, scope: Source) -> Option<Edit> {
        if scope != Source::Project {
            return None;
        }
        let known = self.store().known().ok()?;
        let marketplace = known.get(&id.marketplace)?;
        let source = marketplace
            .source()
            .ok()
            .filter(|source| !source.is_local())?;
        let declared = &self.settings().settings.extra_known_marketplaces;
        if declared.contains_key(&id.marketplace) {
            return None;
        }
        Some(Edit::Set {
            key: KeyPath(vec![
                "extraKnownMarketplaces".to_owned(),
                id.marketplace.clone(),
            ]),
            value: serde_json::json!({"source": source}),
        })
    }

    /// Fetches the current version; `None` if it is already installed.
    ///
    /// # Errors
    /// If the plugin isn't installed in this scope, or the new version can't be fetched or is
    /// refused.
    pub async fn prepare_update(
        &self,
        id: &PluginId,
        scope: Option<Source>,
    ) -> Result<Option<(Prepared, Installed)>, PluginError> {
        let installed = self.installed_entry(id, scope)?;
        let (_, marketplace) = self.marketplace(&id.marketplace)?;
        let entry = marketplace.find(&id.name).ok_or_else(|| {
            let why = marketplace.renamed(&id.name).unwrap_or_else(|| {
                format!(
                    "the marketplace {} no longer lists {}",
                    id.marketplace, id.name
                )
            });
            PluginError::usage(format!("{why}; the installed version stays"))
        })?;
        let prepared = self.prepare_entry(&marketplace, entry).await?;
        if prepared.is_same_as(&installed) {
            return Ok(None);
        }
        Ok(Some((prepared, installed)))
    }

    /// The parts of the installed version that run by themselves; `None` if it can't be read.
    #[must_use]
    pub fn runs_now(&self, id: &PluginId, installed: &Installed) -> Option<String> {
        let around = PluginContext {
            data: Some(self.store().data_folder(id)),
            options: self.options_of(id),
            confirmed: true,
            unpack: false,
        };
        let plugin = Plugin::read(&installed.install_path, id, &around).ok()?;
        Some(running_parts(&plugin))
    }

    /// Uninstalls a plugin from a scope. Its files are deleted if no other scope has it, and its
    /// data unless `keep_data`.
    ///
    /// # Errors
    /// If it isn't installed in this scope, or a file can't be written.
    pub fn uninstall(
        &self,
        id: &PluginId,
        scope: Option<Source>,
        keep_data: bool,
    ) -> Result<InstallScope, PluginError> {
        let entry = self.installed_entry(id, scope)?;
        let last = self.store().change_installed(|plugins| {
            let entries = plugins.entry(id.to_string()).or_default();
            entries.retain(|known| *known != entry);
            let path = &entry.install_path;
            let ours = path.starts_with(self.store().folder().join("cache"));
            if ours && entries.iter().all(|known| known.install_path != *path) {
                std::fs::remove_dir_all(path).or_else(|error| {
                    if error.kind() == std::io::ErrorKind::NotFound {
                        Ok(())
                    } else {
                        Err(PluginError::io(path)(error))
                    }
                })?;
            }
            Ok(entries.is_empty())
        })?;
        if last {
            let _ = std::fs::remove_dir_all(self.store().plugin_folder(id));
            if !keep_data {
                let _ = std::fs::remove_dir_all(self.store().data_folder(id));
            }
        }
        let source = match entry.scope {
            InstallScope::Project => Source::Project,
            InstallScope::Local => Source::Local,
            InstallScope::User | InstallScope::Managed => Source::User,
        };
        let forget = [Edit::Unset {
            key: enabled_key(id),
        }];
        write(self.places(), source, &forget, None)?;
        // The user's other settings would refer to a missing plugin. The project's settings, which
        // are for everybody, stay.
        let still_here = self.installed_entry(id, None).is_ok();
        for other in [Source::User, Source::Local] {
            if !still_here && other != source && self.writable(other)?.exists() {
                write(self.places(), other, &forget, None)?;
            }
        }
        Ok(entry.scope)
    }

    /// Enables or disables a plugin. Returns the changed settings file.
    ///
    /// # Errors
    /// If it isn't installed, managed settings decide about it, or the settings can't be written.
    pub fn set_enabled(
        &self,
        id: &PluginId,
        scope: Option<Source>,
        on: bool,
    ) -> Result<PathBuf, PluginError> {
        let forced = self.settings().layers.iter().any(|layer| {
            layer.source == Source::Managed && enabled_key(id).find(&layer.value).is_some()
        });
        if forced {
            return Err(PolicyError::ManagedPlugin(id.clone()).into());
        }
        let scope = match (scope, self.installed_entry(id, None)) {
            (Some(scope), _) => scope,
            (None, Ok(entry)) => match entry.scope {
                InstallScope::Project => Source::Project,
                InstallScope::Local => Source::Local,
                InstallScope::User | InstallScope::Managed => Source::User,
            },
            (None, Err(error)) if on => return Err(error),
            // Disabling a missing plugin is harmless, and overrides a project's request for it.
            (None, Err(_)) => Source::Local,
        };
        let written = write(self.places(), scope, &[switch(id, on)], None)?;
        Ok(written.file)
    }

    /// The record of a plugin in a scope; without a scope, the effective one.
    pub(crate) fn installed_entry(
        &self,
        id: &PluginId,
        scope: Option<Source>,
    ) -> Result<Installed, PluginError> {
        let plugins = self.store().installed()?;
        let entries = plugins.get(&id.to_string()).cloned().unwrap_or_default();
        let wanted = scope.map(InstallScope::from);
        let found = entries
            .into_iter()
            .filter(|entry| entry.counts_in(&self.places().project))
            .filter(|entry| wanted.is_none_or(|wanted| entry.scope == wanted))
            .max_by_key(|entry| entry.scope);
        found.ok_or_else(|| {
            let place = wanted.map_or_else(String::new, |scope| {
                format!(" for the scope {}", scope.name())
            });
            let near = lathe_settings::nearest::nearest(
                &id.to_string(),
                plugins.keys().map(String::as_str),
            );
            PluginError::usage(match near {
                Some(near) if near != id.to_string() => {
                    format!("{id} is not installed{place}; did you mean {near}?")
                }
                _ => format!("{id} is not installed{place}; `lathe plugin list` shows what is"),
            })
        })
    }

    /// Deletes unused versions of a plugin, except those of the last week, which a running session
    /// may use.
    fn prune(&self, id: &PluginId) {
        let Ok(plugins) = self.store().installed() else {
            return;
        };
        let used: Vec<&PathBuf> = plugins
            .values()
            .flatten()
            .map(|entry| &entry.install_path)
            .collect();
        let folder = self.store().plugin_folder(id);
        for version in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = version.path();
            let old = version
                .metadata()
                .and_then(|metadata| metadata.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 7 * 24 * 3600));
            if old && !used.contains(&&path) {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }
}

/// The parts that run by themselves, with the plugin's folder (which changes with every version) as
/// a variable: equal for two versions that run the same commands.
#[must_use]
pub fn running_parts(plugin: &Plugin) -> String {
    let contribution = &plugin.contribution;
    let parts = serde_json::json!([
        contribution.hooks,
        contribution.mcp_servers,
        contribution.lsp_servers,
    ]);
    let root = contribution.root.to_string_lossy();
    parts.to_string().replace(&*root, "${PLUGIN_ROOT}")
}

/// The settings key that enables a plugin.
#[must_use]
pub fn enabled_key(id: &PluginId) -> KeyPath {
    KeyPath(vec!["enabledPlugins".to_owned(), id.to_string()])
}

fn switch(id: &PluginId, on: bool) -> Edit {
    Edit::Set {
        key: enabled_key(id),
        value: on.into(),
    }
}

fn inner_folder(root: &Path, folder: &Path, id: &PluginId) -> Result<PathBuf, PluginError> {
    let refuse = |why: String| PluginError::refused(id.to_string(), why);
    let real_root = std::fs::canonicalize(root).map_err(PluginError::io(root))?;
    let real = std::fs::canonicalize(root.join(folder)).map_err(|_| {
        refuse(format!(
            "there is no folder {} in its repository",
            folder.display()
        ))
    })?;
    if !real.starts_with(&real_root) || !real.is_dir() {
        return Err(refuse(format!(
            "{} is not a folder of its repository",
            folder.display()
        )));
    }
    Ok(real)
}

/// Writes the marketplace's entry into the copy, so that a session needs only the copy.
fn complete_manifest(
    folder: &Path,
    entry: &MarketplaceEntry,
    id: &PluginId,
) -> Result<(), PluginError> {
    let own_file = manifest_file(folder);
    let mut problems = Vec::new();
    let mut own = Manifest::read(folder, &id.name, &mut problems)
        .map_err(|problem| PluginError::refused(id.to_string(), problem))?;
    // An entry that names no parts leaves them to the plugin, whether it is strict or not.
    let merged = if entry.strict || (own.has_components() && !entry.manifest.has_components()) {
        if own_file.is_some() && !entry.manifest.has_components() {
            return Ok(());
        }
        own.supplement(&entry.manifest);
        own
    } else {
        if own.has_components() {
            return Err(PluginError::refused(
                id.to_string(),
                "the marketplace sets \"strict\": false, but the plugin's plugin.json also lists components; remove one of the two",
            ));
        }
        let mut merged = entry.manifest.clone();
        merged.supplement(&own);
        merged.named_only = merged.has_components();
        merged
    };
    // Unknown keys are kept: the original's keys first, then ours.
    let mut value = match &own_file {
        Some(file) => {
            read_json(file)
                .map_err(|problem| PluginError::refused(id.to_string(), problem))?
                .value
        }
        None => Value::Object(serde_json::Map::new()),
    };
    if let (Value::Object(value), Value::Object(ours)) = (&mut value, merged.to_value()) {
        value.extend(ours);
        value.insert("name".to_owned(), id.name.clone().into());
    }
    let place = folder.join(MANIFEST_FOLDERS[0]);
    // Don't write through a link.
    if place
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_symlink())
    {
        return Err(PluginError::refused(
            id.to_string(),
            format!("{} is a link", MANIFEST_FOLDERS[0]),
        ));
    }
    std::fs::create_dir_all(&place).map_err(PluginError::io(&place))?;
    let file = place.join("plugin.json");
    let _ = std::fs::remove_file(&file);
    std::fs::write(&file, format!("{value:#}\n")).map_err(PluginError::io(&file))
}

/// The plugins that `plugin update` without a name updates, with their scope.
pub type Updatable = BTreeMap<PluginId, InstallScope>;
