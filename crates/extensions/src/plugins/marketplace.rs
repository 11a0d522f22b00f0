//! The list of plugins of a marketplace, `marketplace.json`.

use super::manifest::{MANIFEST_FOLDERS, Manifest, read_json};
use super::name::{BadName, check_marketplace, check_plugin};
use super::source::{PluginSource, SourceError, inside};
use super::{Cause, PluginError, plain};
use crate::problem::Problem;
use lathe_settings::document::Document;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The maximum number of plugins in a list.
const MOST_PLUGINS: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Marketplace {
    pub name: String,
    pub description: Option<String>,
    pub owner: Option<String>,
    /// The folder that paths are relative to; `None` if only the list was fetched.
    pub root: Option<PathBuf>,
    pub file: PathBuf,
    pub plugins: Vec<MarketplaceEntry>,
    /// New names of renamed plugins; `None` for removed ones.
    pub renames: BTreeMap<String, Option<String>>,
    pub problems: Vec<Problem>,
}

fn renames(value: &Value) -> BTreeMap<String, Option<String>> {
    let map = value.get("renames").and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(old, new)| match new {
            Value::Null => Some((old.clone(), None)),
            Value::String(new) => Some((old.clone(), Some(new.clone()))),
            _ => None,
        })
        .collect()
}

/// Why an entry of a marketplace is left out.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("has no \"name\"")]
    NoName,
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("{0} is listed twice; the first entry is used")]
    Duplicate(String),
    #[error("{name}: {source}")]
    Source { name: String, source: SourceError },
}

/// A plugin as a marketplace lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct MarketplaceEntry {
    pub name: String,
    pub source: PluginSource,
    /// If true, the plugin's own manifest is used and the entry adds to it; if false, only the
    /// entry is used.
    pub strict: bool,
    pub manifest: Manifest,
    pub category: Option<String>,
}

/// The file of a marketplace's list.
///
/// # Errors
/// If there is none, or the given path leads out of the folder.
pub fn list_file(root: &Path, path: Option<&str>) -> Result<PathBuf, PluginError> {
    let refuse = |cause: Cause| PluginError::refused(root.display().to_string(), cause);
    let found = match path {
        Some(path) => {
            let path = inside(path).map_err(|error| refuse(error.into()))?;
            Some(root.join(path)).filter(|file| file.is_file())
        }
        None => MANIFEST_FOLDERS
            .iter()
            .map(|folder| root.join(folder).join("marketplace.json"))
            .find(|file| file.is_file()),
    };
    let file = found.ok_or_else(|| {
        refuse(
            "there is no .claude-plugin/marketplace.json (or .lathe-plugin/marketplace.json) in it"
                .into(),
        )
    })?;
    let real = std::fs::canonicalize(&file).map_err(PluginError::io(&file))?;
    let real_root = std::fs::canonicalize(root).map_err(PluginError::io(root))?;
    if !real.starts_with(&real_root) {
        return Err(refuse(
            "its marketplace.json is a link out of its folder".into(),
        ));
    }
    Ok(file)
}

impl Marketplace {
    /// Reads a list. Paths are relative to `root`; `local` is true if the marketplace is on this
    /// machine.
    ///
    /// # Errors
    /// If the list can't be parsed or has no valid name.
    pub fn read(file: &Path, root: Option<&Path>, local: bool) -> Result<Self, Problem> {
        Self::of_document(&read_json(file)?, file, root, local)
    }

    fn of_document(
        document: &Document,
        file: &Path,
        root: Option<&Path>,
        local: bool,
    ) -> Result<Self, Problem> {
        let value = &document.value;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").ok_or_else(|| Problem {
            field: "name".to_owned(),
            ..Problem::fatal(file, "is missing")
        })?;
        check_marketplace(&name).map_err(|error| Problem {
            field: "name".to_owned(),
            ..Problem::fatal(file, error.to_string())
        })?;
        let list = value
            .get("plugins")
            .and_then(Value::as_array)
            .ok_or_else(|| Problem {
                field: "plugins".to_owned(),
                ..Problem::fatal(file, "is missing or not a list")
            })?;
        let mut problems = Vec::new();
        let owner = value
            .pointer("/owner/name")
            .or_else(|| value.get("owner"))
            .and_then(Value::as_str);
        if owner.is_none() {
            problems.push(Problem::field(file, "owner.name", "is missing"));
        }
        if list.len() > MOST_PLUGINS {
            return Err(Problem::fatal(
                file,
                format!("lists more than {MOST_PLUGINS} plugins"),
            ));
        }
        let base = value
            .pointer("/metadata/pluginRoot")
            .and_then(Value::as_str)
            .map(inside)
            .transpose()
            .unwrap_or_else(|why| {
                problems.push(Problem::field(file, "metadata.pluginRoot", why.to_string()));
                None
            });
        let mut marketplace = Self {
            name,
            description: text("description").or_else(|| {
                value
                    .pointer("/metadata/description")
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            }),
            owner: owner.map(str::to_owned),
            root: root.map(Path::to_path_buf),
            file: file.to_path_buf(),
            plugins: Vec::new(),
            renames: renames(value),
            problems,
        };
        for (index, entry) in list.iter().enumerate() {
            let line = document
                .position(&format!("/plugins/{index}"))
                .map(|position| position.line);
            match marketplace.entry(entry, base.as_deref(), local) {
                Ok(entry) => marketplace.plugins.push(entry),
                Err(error) => marketplace.problems.push(
                    Problem::field(file, format!("plugins[{index}]"), error.to_string()).at(line),
                ),
            }
        }
        Ok(marketplace)
    }

    /// A message about a plugin that was renamed or removed, if the list says so.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Option<String> {
        let market = &self.name;
        // A plugin may have been renamed more than once; the loop is bounded in case of a cycle.
        let mut now = self.renames.get(name)?;
        for _ in 0..self.renames.len() {
            match now.as_ref().and_then(|now| self.renames.get(now)) {
                Some(later) => now = later,
                None => break,
            }
        }
        Some(match now {
            Some(now) if self.find(now).is_some() => format!(
                "{name} was renamed to {now} in the marketplace {market}; install it with `lathe plugin install {now}@{market}`"
            ),
            _ => format!("the marketplace {market} has removed {name}"),
        })
    }

    fn entry(
        &mut self,
        value: &Value,
        base: Option<&Path>,
        local: bool,
    ) -> Result<MarketplaceEntry, EntryError> {
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .ok_or(EntryError::NoName)?;
        check_plugin(name)?;
        if self.plugins.iter().any(|known| known.name == name) {
            return Err(EntryError::Duplicate(name.to_owned()));
        }
        let mut source = PluginSource::of_value(value.get("source").unwrap_or(&Value::Null), local)
            .map_err(|source| EntryError::Source {
                name: name.to_owned(),
                source,
            })?;
        if let (PluginSource::Relative(path), Some(base)) = (&mut source, base) {
            *path = base.join(&*path);
        }
        let mut problems = Vec::new();
        let manifest = Manifest::of_value(value, &self.file, &mut problems);
        for mut problem in problems {
            problem.field = format!("plugins.{name}.{}", problem.field);
            self.problems.push(problem);
        }
        Ok(MarketplaceEntry {
            name: name.to_owned(),
            source,
            strict: value.get("strict").and_then(Value::as_bool).unwrap_or(true),
            manifest,
            category: value
                .get("category")
                .and_then(Value::as_str)
                .map(|category| plain(category, 60)),
        })
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<&MarketplaceEntry> {
        self.plugins.iter().find(|entry| entry.name == name)
    }

    /// The folder of a plugin inside the marketplace.
    ///
    /// # Errors
    /// If there is no such folder, or it is a link out of the marketplace.
    pub fn folder_of(&self, entry: &MarketplaceEntry, path: &Path) -> Result<PathBuf, PluginError> {
        let refuse = |why: String| PluginError::refused(format!("the plugin {}", entry.name), why);
        let Some(root) = &self.root else {
            return Err(refuse(format!(
                "its folder ./{} is not there: only the list of {} was fetched. The marketplace must be added by its git address or folder",
                path.display(),
                self.name
            )));
        };
        let real_root = std::fs::canonicalize(root).map_err(PluginError::io(root))?;
        let real = std::fs::canonicalize(root.join(path)).map_err(|error| {
            refuse(format!(
                "its folder ./{} can't be read: {error}",
                path.display()
            ))
        })?;
        if !real.starts_with(&real_root) {
            return Err(refuse(format!(
                "its folder ./{} is a link out of the marketplace",
                path.display()
            )));
        }
        if !real.is_dir() {
            return Err(refuse(format!("./{} is not a folder", path.display())));
        }
        Ok(real)
    }
}
