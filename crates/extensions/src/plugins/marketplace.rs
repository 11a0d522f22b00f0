//! The list of a marketplace: `marketplace.json`.

use super::manifest::{MANIFEST_FOLDERS, Manifest, read_json};
use super::name::{check_marketplace, check_plugin};
use super::source::{PluginSource, inside};
use super::{PluginError, plain};
use crate::problem::Problem;
use lathe_settings::document::Document;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most plugins that a marketplace may list.
const MOST_PLUGINS: usize = 10_000;

/// A marketplace as its list describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Marketplace {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Who keeps it.
    pub owner: Option<String>,
    /// The folder that relative paths start from; `None` where only the list was fetched.
    pub root: Option<PathBuf>,
    /// The list's file.
    pub file: PathBuf,
    /// Its plugins.
    pub plugins: Vec<Entry>,
    /// What plugins that it had are called now; `None` for those that it took off.
    pub renames: BTreeMap<String, Option<String>>,
    /// What is wrong with the list.
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

/// One plugin of a marketplace.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The plugin's name.
    pub name: String,
    /// Where it comes from.
    pub source: PluginSource,
    /// Whether the plugin's own manifest counts: with `true` it does and the entry adds to it; with
    /// `false` the entry is all that counts.
    pub strict: bool,
    /// What the entry says about the plugin.
    pub manifest: Manifest,
    /// What kind of thing it is.
    pub category: Option<String>,
}

/// Where a marketplace's list lies in its folder.
///
/// # Errors
/// When there is none, or the given path leads out.
pub fn list_file(root: &Path, path: Option<&str>) -> Result<PathBuf, PluginError> {
    let refuse = |why: String| PluginError::refused(root.display().to_string(), why);
    let found = match path {
        Some(path) => Some(root.join(inside(path).map_err(refuse)?)).filter(|file| file.is_file()),
        None => MANIFEST_FOLDERS
            .iter()
            .map(|folder| root.join(folder).join("marketplace.json"))
            .find(|file| file.is_file()),
    };
    let file = found.ok_or_else(|| {
        refuse(
            "there is no .claude-plugin/marketplace.json (or .lathe-plugin/marketplace.json) in it"
                .to_owned(),
        )
    })?;
    let real = std::fs::canonicalize(&file).map_err(PluginError::io(&file))?;
    let real_root = std::fs::canonicalize(root).map_err(PluginError::io(root))?;
    if !real.starts_with(&real_root) {
        return Err(refuse(
            "its marketplace.json is a link out of its folder".to_owned(),
        ));
    }
    Ok(file)
}

impl Marketplace {
    /// Reads a list. `root` is the folder that relative paths start from, `local` whether the
    /// marketplace is on this machine.
    ///
    /// # Errors
    /// When the list is broken or has no name: then there is no marketplace.
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
                problems.push(Problem::field(file, "metadata.pluginRoot", why));
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
                Err(why) => marketplace
                    .problems
                    .push(Problem::field(file, format!("plugins[{index}]"), why).at(line)),
            }
        }
        Ok(marketplace)
    }

    /// What became of a plugin that is not listed any more, where the list says it.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Option<String> {
        let market = &self.name;
        // A name may have been changed more than once; a circle leads nowhere.
        let mut now = self.renames.get(name)?;
        for _ in 0..self.renames.len() {
            match now.as_ref().and_then(|now| self.renames.get(now)) {
                Some(later) => now = later,
                None => break,
            }
        }
        Some(match now {
            Some(now) if self.find(now).is_some() => format!(
                "{name} is called {now} now in the marketplace {market}; install it with `lathe plugin install {now}@{market}`"
            ),
            _ => format!("the marketplace {market} has taken {name} off"),
        })
    }

    fn entry(&mut self, value: &Value, base: Option<&Path>, local: bool) -> Result<Entry, String> {
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .ok_or("has no \"name\"")?;
        check_plugin(name).map_err(|error| error.to_string())?;
        if self.plugins.iter().any(|known| known.name == name) {
            return Err(format!(
                "{name} is listed before already; the first one counts"
            ));
        }
        let mut source = PluginSource::of_value(value.get("source").unwrap_or(&Value::Null), local)
            .map_err(|why| format!("{name}: {why}"))?;
        if let (PluginSource::Relative(path), Some(base)) = (&mut source, base) {
            *path = base.join(&*path);
        }
        let mut problems = Vec::new();
        let manifest = Manifest::of_value(value, &self.file, &mut problems);
        for mut problem in problems {
            problem.field = format!("plugins.{name}.{}", problem.field);
            self.problems.push(problem);
        }
        Ok(Entry {
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

    /// The entry of a plugin.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.plugins.iter().find(|entry| entry.name == name)
    }

    /// The folder of a plugin that lies in the marketplace itself.
    ///
    /// # Errors
    /// When there is no such folder, or it is a link out of the marketplace.
    pub fn folder_of(&self, entry: &Entry, path: &Path) -> Result<PathBuf, PluginError> {
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
