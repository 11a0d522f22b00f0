//! What is remembered about marketplaces and plugins, in the format that other programs of this
//! ecosystem use. Fields that aren't known are kept. A broken file is never overwritten.

use super::PluginError;
use super::name::{PluginId, version_folder};
use super::source::MarketplaceSource;
use lathe_settings::Places;
use lathe_settings::write::{lock_folder, replace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A marketplace that was added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownMarketplace {
    /// Where it comes from.
    pub source: Value,
    /// Where its copy lies; for one on this machine, it itself.
    pub install_location: PathBuf,
    /// When it was fetched, ISO 8601.
    #[serde(default)]
    pub last_updated: String,
    /// Fields of other programs.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl KnownMarketplace {
    /// Where it comes from.
    ///
    /// # Errors
    /// In words, when that can't be used.
    pub fn source(&self) -> Result<MarketplaceSource, String> {
        MarketplaceSource::of_value(&self.source)
    }
}

/// For whom a plugin was installed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum InstallScope {
    /// By policy.
    Managed,
    /// The person, everywhere.
    #[default]
    User,
    /// Everybody in a project.
    Project,
    /// The person, in a project.
    Local,
}

impl InstallScope {
    /// The scope's name.
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

/// A plugin that was installed: a person saw what it brings and said yes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    /// For whom.
    #[serde(default)]
    pub scope: InstallScope,
    /// The project, for the scopes of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_path: Option<PathBuf>,
    /// Where it lies.
    pub install_path: PathBuf,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// When it was first installed, ISO 8601.
    #[serde(default)]
    pub installed_at: String,
    /// When it was last changed, ISO 8601.
    #[serde(default)]
    pub last_updated: String,
    /// The commit that it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit_sha: Option<String>,
    /// Fields of other programs.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Installed {
    /// Whether it counts in a project.
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

/// Version 1 of the file had one entry for each plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    More(Vec<Installed>),
    One(Box<Installed>),
}

/// The folder in which all of it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store of these places.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self {
            folder: places.config_home.join("plugins"),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the marketplaces.
    #[must_use]
    pub fn known_file(&self) -> PathBuf {
        self.folder.join("known_marketplaces.json")
    }

    /// The file of the plugins.
    #[must_use]
    pub fn installed_file(&self) -> PathBuf {
        self.folder.join("installed_plugins.json")
    }

    /// Where a marketplace's copy lies.
    #[must_use]
    pub fn marketplace_folder(&self, name: &str) -> PathBuf {
        self.folder.join("marketplaces").join(name)
    }

    /// Where the list of a marketplace lies of which there is nothing else.
    #[must_use]
    pub fn marketplace_list(&self, name: &str) -> PathBuf {
        self.folder
            .join("marketplaces")
            .join(format!("{name}.json"))
    }

    /// Where a version of a plugin lies.
    #[must_use]
    pub fn version_folder(&self, id: &PluginId, version: &str) -> PathBuf {
        self.plugin_folder(id).join(version_folder(version))
    }

    /// Where the versions of a plugin lie.
    #[must_use]
    pub fn plugin_folder(&self, id: &PluginId) -> PathBuf {
        self.folder
            .join("cache")
            .join(&id.marketplace)
            .join(&id.name)
    }

    /// Where a plugin may keep data.
    #[must_use]
    pub fn data_folder(&self, id: &PluginId) -> PathBuf {
        self.folder
            .join("data")
            .join(format!("{}-{}", id.name, id.marketplace))
    }

    /// The marketplaces that were added.
    ///
    /// # Errors
    /// When the file is broken or can't be read.
    pub fn known(&self) -> Result<BTreeMap<String, KnownMarketplace>, PluginError> {
        read(&self.known_file()).map(Option::unwrap_or_default)
    }

    /// The plugins that were installed.
    ///
    /// # Errors
    /// When the file is broken or can't be read.
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

    /// Changes the marketplaces.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
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

    /// Changes the plugins. `change` runs under the lock, so that files can be moved in it too.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
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

    /// A folder of its own for something that is being fetched. It goes with the returned value; if
    /// this process dies, the next one sweeps it away.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn staging(&self) -> Result<Staging, PluginError> {
        // Under the lock, so that nobody sweeps it away between being made and being locked.
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

    /// Removes what processes left that are gone: nobody holds its lock.
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

    /// Puts a folder in a place at once; what was there goes.
    ///
    /// # Errors
    /// When the file system refuses. Then the place is as it was.
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

/// How folders begin in which something is being fetched.
const STAGING: &str = ".staging-";

/// A folder for something that is being fetched.
#[derive(Debug)]
pub struct Staging {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Staging {
    /// The folder.
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
            why: error.to_string(),
        })
}

fn write<T: Serialize>(file: &Path, value: &T) -> Result<(), PluginError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| PluginError::Broken {
        file: file.to_path_buf(),
        why: error.to_string(),
    })?;
    replace(file, format!("{text}\n").as_bytes(), 0o600).map_err(PluginError::io(file))
}

/// The time, as the files have it.
#[must_use]
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}
