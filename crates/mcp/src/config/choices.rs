//! The user's choices about the servers of a folder, stored in the user's config home.
//!
//! Three kinds of choices are stored by folder: that a server of the project is approved or
//! refused, that a server in the folder's local settings was added by this user, and that a server
//! is disabled. An approval holds for the approved configuration only: it is stored with a
//! fingerprint, so a server whose command changes must be approved again.

use lathe_settings::Places;
use lathe_settings::write::{lock_folder, replace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why choices can't be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error("{} can't be used: {error}", file.display())]
    Io {
        file: PathBuf,
        error: std::io::Error,
    },
    /// The file can't be parsed. It is not overwritten, which would lose all choices.
    #[error("{} is broken: {error}; fix or remove it (servers must be approved again)", file.display())]
    Broken {
        file: PathBuf,
        error: serde_json::Error,
    },
}

/// The choices about the servers of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FolderChoices {
    /// Approved servers of the project, with the fingerprint of the approved configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub approved: BTreeMap<String, String>,
    /// Refused servers of the project.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub refused: BTreeSet<String>,
    /// Servers in the local settings that this user added.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
    /// Servers that are disabled in this folder.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub disabled: BTreeSet<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl FolderChoices {
    /// True if a server of the project is approved in its current form.
    #[must_use]
    pub fn approves(&self, name: &str, entry: &Value) -> bool {
        self.approved.get(name) == Some(&fingerprint(entry))
    }

    /// True if this user added a server in the local settings.
    #[must_use]
    pub fn owns(&self, name: &str, entry: &Value) -> bool {
        self.own.get(name) == Some(&fingerprint(entry))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StoreFile {
    #[serde(default)]
    folders: BTreeMap<String, FolderChoices>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// The store of choices.
#[derive(Debug, Clone)]
pub struct Choices {
    file: PathBuf,
    folder: String,
}

impl Choices {
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    #[must_use]
    pub fn new(places: &Places) -> Self {
        let project = fs::canonicalize(&places.project).unwrap_or_else(|_| places.project.clone());
        Self {
            file: places.config_home.join("mcp-choices.json"),
            folder: project.to_string_lossy().into_owned(),
        }
    }

    /// The choices about this folder.
    ///
    /// # Errors
    /// If the file can't be read or parsed.
    pub fn get(&self) -> Result<FolderChoices, ChoiceError> {
        Ok(self
            .read()?
            .folders
            .remove(&self.folder)
            .unwrap_or_default())
    }

    /// Approves a server of the project in its current form, or refuses it.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn decide(&self, name: &str, entry: &Value, approve: bool) -> Result<(), ChoiceError> {
        self.change(|choices| {
            choices.approved.remove(name);
            choices.refused.remove(name);
            if approve {
                choices.approved.insert(name.to_owned(), fingerprint(entry));
            } else {
                choices.refused.insert(name.to_owned());
            }
        })
    }

    /// Records that this user added a server in the local settings.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn own(&self, name: &str, entry: &Value) -> Result<(), ChoiceError> {
        self.change(|choices| {
            choices.own.insert(name.to_owned(), fingerprint(entry));
        })
    }

    /// Removes all choices about a server.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn forget(&self, name: &str) -> Result<(), ChoiceError> {
        self.change(|choices| {
            choices.approved.remove(name);
            choices.refused.remove(name);
            choices.own.remove(name);
            choices.disabled.remove(name);
        })
    }

    /// Disables or enables a server in this folder.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn switch(&self, name: &str, on: bool) -> Result<(), ChoiceError> {
        self.change(|choices| {
            if on {
                choices.disabled.remove(name);
            } else {
                choices.disabled.insert(name.to_owned());
            }
        })
    }

    /// Removes all approvals and refusals. Returns the names of the servers.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn reset(&self) -> Result<Vec<String>, ChoiceError> {
        let mut names = BTreeSet::new();
        self.change(|choices| {
            names.extend(std::mem::take(&mut choices.approved).into_keys());
            names.append(&mut choices.refused);
        })?;
        Ok(names.into_iter().collect())
    }

    /// Forgets everything about this folder. Returns whether there was something.
    ///
    /// # Errors
    /// If the file can't be parsed or written.
    pub fn forget_folder(&self) -> Result<bool, ChoiceError> {
        if self.get()? == FolderChoices::default() {
            return Ok(false);
        }
        self.change(|choices| *choices = FolderChoices::default())?;
        Ok(true)
    }

    fn read(&self) -> Result<StoreFile, ChoiceError> {
        match fs::read(&self.file) {
            Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => Ok(StoreFile::default()),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| ChoiceError::Broken {
                file: self.file.clone(),
                error,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(StoreFile::default()),
            Err(error) => Err(self.io(error)),
        }
    }

    fn io(&self, error: std::io::Error) -> ChoiceError {
        ChoiceError::Io {
            file: self.file.clone(),
            error,
        }
    }

    fn change(&self, change: impl FnOnce(&mut FolderChoices)) -> Result<(), ChoiceError> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| self.io(error))?;
        let _lock = lock_folder(folder).map_err(|error| self.io(error))?;
        let mut store = self.read()?;
        let mut choices = store.folders.remove(&self.folder).unwrap_or_default();
        change(&mut choices);
        if choices != FolderChoices::default() {
            store.folders.insert(self.folder.clone(), choices);
        }
        let text = serde_json::to_string_pretty(&store).map_err(|error| ChoiceError::Broken {
            file: self.file.clone(),
            error,
        })?;
        replace(&self.file, format!("{text}\n").as_bytes(), 0o600).map_err(|error| self.io(error))
    }
}

/// The fingerprint of an entry, independent of the order of keys.
#[must_use]
pub fn fingerprint(entry: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(sorted(entry).to_string().as_bytes());
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            Value::Object(
                entries
                    .into_iter()
                    .map(|(name, value)| (name.clone(), sorted(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_settings::Environment;
    use serde_json::json;

    fn choices(folder: &Path) -> Choices {
        let environment = Environment {
            home: Some(folder.join("home")),
            cwd: folder.to_owned(),
            ..Environment::default()
        };
        Choices::new(&Places::with_managed(environment, folder.join("managed")))
    }

    #[test]
    fn an_approval_holds_for_the_approved_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let choices = choices(folder.path());
        let entry = json!({"command": "a", "args": ["b"]});
        assert!(!choices.get().unwrap().approves("s", &entry));
        choices.decide("s", &entry, true).unwrap();
        assert!(
            choices
                .get()
                .unwrap()
                .approves("s", &json!({"args": ["b"], "command": "a"}))
        );
        assert!(
            !choices
                .get()
                .unwrap()
                .approves("s", &json!({"command": "a", "args": ["c"]}))
        );
        choices.decide("s", &entry, false).unwrap();
        let said = choices.get().unwrap();
        assert!(!said.approves("s", &entry) && said.refused.contains("s"));
        assert_eq!(choices.reset().unwrap(), ["s"]);
        assert_eq!(choices.get().unwrap(), FolderChoices::default());
    }

    #[test]
    fn a_broken_store_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let choices = choices(folder.path());
        choices.switch("s", false).unwrap();
        assert!(choices.get().unwrap().disabled.contains("s"));
        fs::write(&choices.file, "{").unwrap();
        let error = choices.switch("s", true).unwrap_err().to_string();
        assert!(
            error.contains("mcp-choices.json") && error.contains("fix"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&choices.file).unwrap(), "{");
    }
}
