//! The manifest of a plugin, `plugin.json`, which is optional.
//!
//! Parsing is lenient, since these files are written for several programs: unknown keys and wrong
//! values are reported and ignored. Only a file that isn't JSON, or an invalid name, disables the
//! plugin.

use super::name::check_plugin;
use crate::problem::Problem;
use lathe_settings::document::Document;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders of `plugin.json` and `marketplace.json`, highest precedence first.
pub const MANIFEST_FOLDERS: [&str; 2] = [".lathe-plugin", ".claude-plugin"];

/// The maximum size of a manifest, list or configuration file.
pub const LARGEST_FILE: u64 = 8 * 1024 * 1024;

/// The keys of a plugin's parts.
pub const COMPONENTS: [&str; 10] = [
    "commands",
    "agents",
    "skills",
    "outputStyles",
    "hooks",
    "mcpServers",
    "lspServers",
    "settings",
    "themes",
    "monitors",
];

/// Keys of parts that may also be in `experimental`.
const EXPERIMENTAL: [&str; 2] = ["themes", "monitors"];

/// Known keys that are not read here.
const OTHERS: &[&str] = &[
    "$schema",
    "name",
    "displayName",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "dependencies",
    "userConfig",
    "defaultEnabled",
];

/// Keys of a marketplace entry that are not part of a manifest.
const ENTRY: &[&str] = &["source", "category", "tags", "strict"];

/// Keys that other programs support and Lathe doesn't.
const UNUSED: &[&str] = &["channels", "workflows"];

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    pub name: String,
    pub version: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    pub homepage: Option<String>,
    pub repository: Option<String>,
    pub license: Option<String>,
    pub keywords: Vec<String>,
    /// Other plugins that it needs, as `name` or `name@marketplace`.
    pub dependencies: Vec<String>,
    /// The options that the user fills in.
    pub user_config: BTreeMap<String, UserOption>,
    /// The values of the keys in [`COMPONENTS`].
    pub components: Map<String, Value>,
    /// Whether it is enabled on installation; `None` is yes.
    pub default_enabled: Option<bool>,
    /// True if the named parts replace the conventional folders of every kind, as for a plugin that
    /// only its marketplace describes.
    pub named_only: bool,
    pub file: Option<PathBuf>,
}

/// The key of [`Manifest::named_only`] in an installed copy.
const NAMED_ONLY: &str = "x-named-only";

/// An option that the user fills in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserOption {
    pub description: String,
    /// True if the plugin needs it.
    pub required: bool,
    pub sensitive: bool,
    pub default: Option<Value>,
}

#[must_use]
pub fn manifest_file(root: &Path) -> Option<PathBuf> {
    MANIFEST_FOLDERS
        .iter()
        .map(|folder| root.join(folder).join("plugin.json"))
        .find(|file| file.is_file())
}

impl Manifest {
    /// Reads the manifest of a folder. Without one, the plugin has the given name.
    ///
    /// # Errors
    /// If the file can't be parsed or the name is invalid.
    pub fn read(root: &Path, found_as: &str, problems: &mut Vec<Problem>) -> Result<Self, Problem> {
        let Some(file) = manifest_file(root) else {
            return Ok(Self {
                name: found_as.to_owned(),
                ..Self::default()
            });
        };
        let document = read_json(&file)?;
        let mut manifest = Self::of_value(&document.value, &file, problems);
        if manifest.name.is_empty() {
            problems.push(
                Problem::field(&file, "name", "is missing")
                    .fix(format!("add \"name\": \"{found_as}\"")),
            );
            found_as.clone_into(&mut manifest.name);
        }
        check_plugin(&manifest.name).map_err(|error| {
            Problem {
                field: "name".to_owned(),
                ..Problem::fatal(&file, error.to_string())
            }
            .fix("use letters, digits and hyphens, such as my-plugin")
        })?;
        manifest.file = Some(file);
        Ok(manifest)
    }

    /// Parses a manifest or a marketplace entry.
    #[must_use]
    pub fn of_value(value: &Value, file: &Path, problems: &mut Vec<Problem>) -> Self {
        let mut manifest = Self::default();
        let Some(map) = value.as_object() else {
            return manifest;
        };
        let mut text = |name: &str| match map.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(_) => {
                problems.push(Problem::field(file, name, "must be a text"));
                None
            }
        };
        manifest.name = text("name").unwrap_or_default();
        manifest.version = text("version").filter(|version| !version.trim().is_empty());
        manifest.description = text("description");
        manifest.homepage = text("homepage");
        manifest.license = text("license");
        manifest.repository = match map.get("repository") {
            Some(Value::Object(repository)) => repository
                .get("url")
                .and_then(Value::as_str)
                .map(str::to_owned),
            _ => text("repository"),
        };
        manifest.author = match map.get("author") {
            Some(Value::Object(author)) => author
                .get("name")
                .and_then(Value::as_str)
                .map(str::to_owned),
            _ => text("author"),
        };
        manifest.named_only = map.get(NAMED_ONLY).and_then(Value::as_bool) == Some(true);
        manifest.default_enabled = map.get("defaultEnabled").and_then(Value::as_bool);
        manifest.keywords = texts(map.get("keywords"));
        manifest.dependencies = dependencies(map.get("dependencies"));
        if let Some(asked) = map.get("userConfig") {
            manifest.user_config = user_config(asked, file, problems);
        }
        for (key, value) in map {
            let key = key.as_str();
            if COMPONENTS.contains(&key) {
                if !value.is_null() {
                    manifest.components.insert(key.to_owned(), value.clone());
                }
            } else if key == "experimental" {
                manifest.take_experimental(value, file, problems);
            } else if UNUSED.contains(&key) {
                problems.push(Problem::field(file, key, "is not used by this version"));
            } else if !OTHERS.contains(&key) && !ENTRY.contains(&key) && !key.starts_with("x-") {
                let known = COMPONENTS.into_iter().chain(OTHERS.iter().copied());
                let near = lathe_settings::nearest::nearest(key, known);
                let problem = Problem::field(file, key, "is not a key of a plugin; it is ignored");
                problems.push(match near {
                    Some(near) => problem.fix(format!("did you mean {near}?")),
                    None => problem,
                });
            }
        }
        manifest
    }

    /// Parts whose format may still change are in an object of their own.
    fn take_experimental(&mut self, value: &Value, file: &Path, problems: &mut Vec<Problem>) {
        let Some(map) = value.as_object() else {
            problems.push(Problem::field(
                file,
                "experimental",
                "must be an object; it is ignored",
            ));
            return;
        };
        for (key, value) in map {
            if EXPERIMENTAL.contains(&key.as_str()) {
                self.components
                    .entry(key.clone())
                    .or_insert_with(|| value.clone());
            } else {
                let field = format!("experimental.{key}");
                problems.push(Problem::field(file, field, "is not used by this version"));
            }
        }
    }

    /// True if it names parts.
    #[must_use]
    pub fn has_components(&self) -> bool {
        !self.components.is_empty()
    }

    /// Adds the fields of a marketplace entry that the manifest lacks. Parts are combined.
    pub fn supplement(&mut self, entry: &Self) {
        let take = |mine: &mut Option<String>, theirs: &Option<String>| {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        };
        take(&mut self.version, &entry.version);
        take(&mut self.description, &entry.description);
        take(&mut self.author, &entry.author);
        take(&mut self.homepage, &entry.homepage);
        take(&mut self.repository, &entry.repository);
        take(&mut self.license, &entry.license);
        for (key, theirs) in &entry.components {
            let joined = match self.components.remove(key) {
                None => theirs.clone(),
                Some(mine) if mine == *theirs => mine,
                Some(mine) => Value::Array(
                    as_list(mine)
                        .into_iter()
                        .chain(as_list(theirs.clone()))
                        .collect(),
                ),
            };
            self.components.insert(key.clone(), joined);
        }
    }

    /// The manifest as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".to_owned(), self.name.clone().into());
        for (key, text) in [
            ("version", &self.version),
            ("description", &self.description),
            ("homepage", &self.homepage),
            ("repository", &self.repository),
            ("license", &self.license),
        ] {
            if let Some(text) = text {
                map.insert(key.to_owned(), text.clone().into());
            }
        }
        if let Some(author) = &self.author {
            map.insert("author".to_owned(), serde_json::json!({"name": author}));
        }
        if !self.keywords.is_empty() {
            map.insert("keywords".to_owned(), self.keywords.clone().into());
        }
        if !self.dependencies.is_empty() {
            map.insert("dependencies".to_owned(), self.dependencies.clone().into());
        }
        if self.named_only {
            map.insert(NAMED_ONLY.to_owned(), true.into());
        }
        map.extend(self.components.clone());
        Value::Object(map)
    }
}

fn as_list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        other => vec![other],
    }
}

/// A string or a list of strings.
#[must_use]
pub fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

fn dependencies(value: Option<&Value>) -> Vec<String> {
    let of_item = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => {
            let name = map.get("name")?.as_str()?;
            Some(match map.get("marketplace").and_then(Value::as_str) {
                Some(marketplace) => format!("{name}@{marketplace}"),
                None => name.to_owned(),
            })
        }
        _ => None,
    };
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(of_item)
        .collect()
}

fn user_config(
    value: &Value,
    file: &Path,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, UserOption> {
    const KEYS: &[&str] = &[
        "type",
        "title",
        "description",
        "required",
        "default",
        "multiple",
        "sensitive",
        "min",
        "max",
        "enum",
    ];
    let mut options = BTreeMap::new();
    let Some(map) = value.as_object() else {
        problems.push(Problem::field(file, "userConfig", "must be an object"));
        return options;
    };
    for (key, value) in map {
        let field = format!("userConfig.{key}");
        let Some(option) = value.as_object() else {
            problems.push(Problem::field(file, field, "must be an object"));
            continue;
        };
        if let Some(unknown) = option.keys().find(|key| !KEYS.contains(&key.as_str())) {
            problems.push(Problem::field(
                file,
                format!("{field}.{unknown}"),
                "is unknown; the option is ignored",
            ));
            continue;
        }
        let flag = |name: &str| option.get(name).and_then(Value::as_bool) == Some(true);
        let text = |name: &str| option.get(name).and_then(Value::as_str);
        options.insert(
            key.clone(),
            UserOption {
                description: text("description")
                    .or_else(|| text("title"))
                    .unwrap_or_default()
                    .to_owned(),
                required: flag("required"),
                sensitive: flag("sensitive"),
                default: option
                    .get("default")
                    .filter(|value| !value.is_null())
                    .cloned(),
            },
        );
    }
    options
}

/// Reads a JSON object from a file of limited size. Comments are allowed.
///
/// # Errors
/// If it can't be read or parsed.
pub fn read_json(file: &Path) -> Result<Document, Problem> {
    let text = read_text(file)?;
    Document::parse(&text)
        .map_err(|error| Problem::fatal(file, error.message.clone()).at(Some(error.position.line)))
}

/// Reads a text file of limited size.
///
/// # Errors
/// If it can't be read, is not a file or is too large.
pub fn read_text(file: &Path) -> Result<String, Problem> {
    let unreadable =
        |error: std::io::Error| Problem::fatal(file, format!("can't be read: {error}"));
    let metadata = std::fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Problem::fatal(file, "is not a file"));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(Problem::fatal(
            file,
            format!("is larger than {} MB", LARGEST_FILE / 1024 / 1024),
        ));
    }
    std::fs::read_to_string(file).map_err(unreadable)
}
