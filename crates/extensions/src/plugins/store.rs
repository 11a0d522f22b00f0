//! Records of marketplaces and installed plugins, in the format of other programs of this
//! ecosystem. Unknown fields are kept. A broken file is never overwritten.

use super::PluginError;
use super::name::{PluginId, version_folder};
use super::source::{MarketplaceSource, SourceError};
use lathe_settings::Places;
use lathe_settings::write::{lock_folder, replace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownMarketplace {
    pub source: Value,
    /// Its copy; for a local marketplace, the original.
    pub install_location: PathBuf,
    /// ISO 8601.
    #[serde(default)]
    pub last_updated: String,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl KnownMarketplace {
    /// The parsed source.
    ///
    /// # Errors
    /// If the source is invalid.
    pub fn source(&self) -> Result<MarketplaceSource, SourceError> {
        MarketplaceSource::of_value(&self.source)
    }
}

/// The scope of an installation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum InstallScope {
    /// Managed settings.
    Managed,
    /// The user, in all projects.
    #[default]
    User,
    /// Everybody in one project.
    Project,
    /// The user, in one project.
    Local,
}

impl InstallScope {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

impl From<lathe_settings::Source> for InstallScope {
    fn from(source: lathe_settings::Source) -> Self {
        match source {
            lathe_settings::Source::Project => Self::Project,
            lathe_settings::Source::Local => Self::Local,
            lathe_settings::Source::Managed => Self::Managed,
            lathe_settings::Source::User | lathe_settings::Source::Flag => Self::User,
        }
    }
}

/// An installed plugin, confirmed by the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    #[serde(default)]
    pub scope: InstallScope,
    /// For the scopes `project` and `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_path: Option<PathBuf>,
    pub install_path: PathBuf,
    #[serde(default)]
    pub version: String,
    /// ISO 8601.
    #[serde(default)]
    pub installed_at: String,
    /// ISO 8601.
    #[serde(default)]
    pub last_updated: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit_sha: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Installed {
    /// True if it applies to a project.
    #[must_use]
    pub fn counts_in(&self, project: &Path) -> bool {
        match self.scope {
            InstallScope::User | InstallScope::Managed => true,
            InstallScope::Project | InstallScope::Local => self
                .project_path
                .as_deref()
                .is_some_and(|known| known == project || real(known) == real(project)),
        }
    }
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

#[derive(Debug, Serialize, Deserialize)]
struct InstalledFile {
    version: u64,
    #[serde(default)]
    plugins: BTreeMap<String, OneOrMore>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// Version 1 of the file had a single entry per plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    More(Vec<Installed>),
    One(Box<Installed>),
}

/// The folder of all plugin files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self {
            folder: places.config_home.join("plugins"),
        }
    }

    /// The store of `~/.claude`, if that is read. It is never written to.
    #[must_use]
    pub fn of_claude_home(places: &Places) -> Option<Self> {
        let home = places.claude_home.as_ref()?;
        let folder = home.join("plugins");
        Some(Self { folder })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn known_file(&self) -> PathBuf {
        self.folder.join("known_marketplaces.json")
    }

    #[must_use]
    pub fn installed_file(&self) -> PathBuf {
        self.folder.join("installed_plugins.json")
    }

    #[must_use]
    pub fn marketplace_folder(&self, name: &str) -> PathBuf {
        self.folder.join("marketplaces").join(name)
    }

    /// The file of a marketplace of which only the list was fetched.
    #[must_use]
    pub fn marketplace_list(&self, name: &str) -> PathBuf {
        self.folder
            .join("marketplaces")
            .join(format!("{name}.json"))
    }

    #[must_use]
    pub fn version_folder(&self, id: &PluginId, version: &str) -> PathBuf {
        self.plugin_folder(id).join(version_folder(version))
    }

    #[must_use]
    pub fn plugin_folder(&self, id: &PluginId) -> PathBuf {
        self.folder
            .join("cache")
            .join(&id.marketplace)
            .join(&id.name)
    }

    #[must_use]
    pub fn data_folder(&self, id: &PluginId) -> PathBuf {
        self.folder
            .join("data")
            .join(format!("{}-{}", id.name, id.marketplace))
    }

    /// # Errors
    /// If the file can't be read or parsed.
    pub fn known(&self) -> Result<BTreeMap<String, KnownMarketplace>, PluginError> {
        read(&self.known_file()).map(Option::unwrap_or_default)
    }

    /// # Errors
    /// If the file can't be read or parsed.
    pub fn installed(&self) -> Result<BTreeMap<String, Vec<Installed>>, PluginError> {
        let file: Option<InstalledFile> = read(&self.installed_file())?;
        Ok(file
            .map(|file| file.plugins)
            .unwrap_or_default()
            .into_iter()
            .map(|(id, entries)| match entries {
                OneOrMore::More(list) => (id, list),
                OneOrMore::One(one) => (id, vec![*one]),
            })
            .collect())
    }

    /// # Errors
    /// If the file can't be parsed or written.
    pub fn change_known<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KnownMarketplace>) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        let _lock = self.lock()?;
        let mut known = self.known()?;
        let outcome = change(&mut known)?;
        write(&self.known_file(), &known)?;
        Ok(outcome)
    }

    /// Changes the records of plugins. `change` runs under the lock, so it can move files too.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn change_installed<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Vec<Installed>>) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        let _lock = self.lock()?;
        let extra = read::<InstalledFile>(&self.installed_file())?
            .map(|file| file.extra)
            .unwrap_or_default();
        let mut plugins = self.installed()?;
        let outcome = change(&mut plugins)?;
        plugins.retain(|_, entries| !entries.is_empty());
        let file = InstalledFile {
            version: 2,
            plugins: plugins
                .into_iter()
                .map(|(id, entries)| (id, OneOrMore::More(entries)))
                .collect(),
            extra,
        };
        write(&self.installed_file(), &file)?;
        Ok(outcome)
    }

    fn lock(&self) -> Result<File, PluginError> {
        fs::create_dir_all(&self.folder).map_err(PluginError::io(&self.folder))?;
        lock_folder(&self.folder).map_err(PluginError::io(&self.folder))
    }

    /// A staging folder, deleted with the returned value. If this process dies, the next one
    /// deletes it.
    ///
    /// # Errors
    /// If it can't be created.
    pub fn staging(&self) -> Result<Staging, PluginError> {
        // Under the lock, so that no other process deletes it before it is locked.
        let _lock = self.lock()?;
        self.sweep();
        let folder = tempfile::Builder::new()
            .prefix(STAGING)
            .tempdir_in(&self.folder)
            .map_err(PluginError::io(&self.folder))?;
        let lock = lock_folder(folder.path()).map_err(PluginError::io(folder.path()))?;
        Ok(Staging {
            folder,
            _lock: lock,
        })
    }

    /// Deletes staging folders of dead processes, which nobody locks.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with(STAGING) {
                continue;
            }
            let abandoned = File::open(entry.path()).is_ok_and(|handle| handle.try_lock().is_ok());
            if abandoned {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Moves a file or folder to its place atomically, replacing what is there.
    ///
    /// # Errors
    /// If a rename fails. The place is then unchanged.
    pub(crate) fn put(
        &self,
        staging: &Staging,
        from: &Path,
        place: &Path,
    ) -> Result<(), PluginError> {
        let parent = place.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(PluginError::io(parent))?;
        let aside = staging.folder.path().join("replaced");
        let had = match fs::rename(place, &aside) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(PluginError::io(place)(error)),
        };
        if let Err(error) = fs::rename(from, place) {
            if had {
                let _ = fs::rename(&aside, place);
            }
            return Err(PluginError::io(place)(error));
        }
        let _ = File::open(parent).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// The prefix of staging folders.
const STAGING: &str = ".staging-";

/// A locked staging folder.
#[derive(Debug)]
pub struct Staging {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Staging {
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> Result<Option<T>, PluginError> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PluginError::io(file)(error)),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| PluginError::Broken {
            file: file.to_path_buf(),
            source: error,
        })
}

fn write<T: Serialize>(file: &Path, value: &T) -> Result<(), PluginError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| PluginError::Broken {
        file: file.to_path_buf(),
        source: error,
    })?;
    replace(file, format!("{text}\n").as_bytes(), 0o600).map_err(PluginError::io(file))
}

/// The current time in the format of the files.
#[must_use]
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}
