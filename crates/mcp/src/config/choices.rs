//! What a person said about the servers of a folder, remembered in their own configuration.
//!
//! Three kinds of words are kept here, by folder: that a server which the project brings may be started
//! (or not), that a server in the folder's local settings was put there by this person, and that a server
//! is switched off here. A yes holds for the configuration that was shown: it is kept with a fingerprint,
//! so a server whose command changes is asked about again.

use lathe_settings::Places;
use lathe_settings::write::{lock_folder, replace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why what was said can't be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// The file system refuses.
    #[error("{} can't be used: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is broken. It is not overwritten: that would forget every answer.
    #[error("{} is broken: {error}; fix or remove it (servers will be asked about again)", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
}

/// What was said about the servers of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FolderChoices {
    /// Servers of the project that may be started: name and the fingerprint of what was approved.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub approved: BTreeMap<String, String>,
    /// Servers of the project that may not.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub refused: BTreeSet<String>,
    /// Servers in the local settings that this person put there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
    /// Servers that are switched off here.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub disabled: BTreeSet<String>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl FolderChoices {
    /// Whether a server of the project was approved as it is now.
    #[must_use]
    pub fn approves(&self, name: &str, entry: &Value) -> bool {
        self.approved.get(name) == Some(&fingerprint(entry))
    }

    /// Whether a server in the local settings is this person's own.
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

/// The store of what was said.
#[derive(Debug, Clone)]
pub struct Choices {
    file: PathBuf,
    folder: String,
}

impl Choices {
    /// The file in which it is kept.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What was said about the project of these places.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        let project = fs::canonicalize(&places.project).unwrap_or_else(|_| places.project.clone());
        Self {
            file: places.config_home.join("mcp-choices.json"),
            folder: project.to_string_lossy().into_owned(),
        }
    }

    /// What was said. Where nothing can be read, nothing was said: then nothing is approved.
    ///
    /// # Errors
    /// When the file is broken or can't be read.
    pub fn get(&self) -> Result<FolderChoices, ChoiceError> {
        Ok(self
            .read()?
            .folders
            .remove(&self.folder)
            .unwrap_or_default())
    }

    /// Remembers that a server of the project may be started as it is now, or may not.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
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

    /// Remembers that a server in the local settings was put there by this person.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
    pub fn own(&self, name: &str, entry: &Value) -> Result<(), ChoiceError> {
        self.change(|choices| {
            choices.own.insert(name.to_owned(), fingerprint(entry));
        })
    }

    /// Forgets everything about a server.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
    pub fn forget(&self, name: &str) -> Result<(), ChoiceError> {
        self.change(|choices| {
            choices.approved.remove(name);
            choices.refused.remove(name);
            choices.own.remove(name);
            choices.disabled.remove(name);
        })
    }

    /// Switches a server off in this folder, or on again.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
    pub fn switch(&self, name: &str, on: bool) -> Result<(), ChoiceError> {
        self.change(|choices| {
            if on {
                choices.disabled.remove(name);
            } else {
                choices.disabled.insert(name.to_owned());
            }
        })
    }

    /// Forgets which servers of the project were approved or refused. Gives their names.
    ///
    /// # Errors
    /// When the file is broken or can't be written.
    pub fn reset(&self) -> Result<Vec<String>, ChoiceError> {
        let mut names = BTreeSet::new();
        self.change(|choices| {
            names.extend(std::mem::take(&mut choices.approved).into_keys());
            names.append(&mut choices.refused);
        })?;
        Ok(names.into_iter().collect())
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

/// The fingerprint of an entry as it is written. The order of its keys doesn't matter.
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
    fn a_yes_holds_for_what_was_shown() {
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
