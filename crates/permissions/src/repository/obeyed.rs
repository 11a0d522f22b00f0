//! The files that git reads its configuration from, and the places that they make git obey.

use super::config::{ConfigEntry, parse};
use super::{Found, common_folder, find};
use std::path::{Path, PathBuf};

/// How deep files that include others are followed.
const DEEPEST: usize = 5;

/// One file of git's configuration.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// `None` if it can't be read, or git might read something else in it.
    pub(super) entries: Option<Vec<ConfigEntry>>,
}

/// A place outside git's own folder that git obeys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Obeyed {
    /// A folder of hooks (`core.hooksPath`).
    Hooks(PathBuf),
    /// A file of configuration that another one includes.
    Included(PathBuf),
}

/// The files of the configuration that git uses in a folder, the user's own among them, and all that they include.
pub(super) fn config_files(folder: &Path, home: &Path) -> Vec<ConfigFile> {
    let mut files = vec![
        home.join(".gitconfig"),
        home.join(".config/git/config"),
        PathBuf::from("/etc/gitconfig"),
    ];
    if let Found::At { folder, .. } = find(folder) {
        let common = common_folder(&folder).unwrap_or_else(|_| folder.clone());
        files.push(common.join("config"));
        files.push(folder.join("config.worktree"));
    }
    let mut found = Vec::new();
    for file in files {
        add(file, home, DEEPEST, &mut found);
    }
    found
}

fn add(path: PathBuf, home: &Path, deeper: usize, found: &mut Vec<ConfigFile>) {
    if found.iter().any(|known| known.path == path) {
        return;
    }
    let bytes = match lathe_settings::regular_file::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(_) => None,
    };
    let entries = bytes
        .filter(|_| deeper > 0)
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| parse(text.strip_prefix('\u{feff}').unwrap_or(&text)));
    let included: Vec<PathBuf> = entries
        .iter()
        .flatten()
        .filter_map(|entry| included_by(&path, entry, home))
        .collect();
    found.push(ConfigFile { path, entries });
    for path in included {
        add(path, home, deeper - 1, found);
    }
}

/// The file that an entry includes.
fn included_by(file: &Path, entry: &ConfigEntry, home: &Path) -> Option<PathBuf> {
    let includes = matches!(entry.section.as_str(), "include" | "includeif") && entry.key == "path";
    let folder = file.parent().unwrap_or(file);
    includes.then(|| expanded(&entry.value, folder, home))
}

/// A path in a configuration: from the home folder, or from another one.
fn expanded(value: &str, folder: &Path, home: &Path) -> PathBuf {
    match value.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => folder.join(value),
    }
}

/// The places that the configuration of a work tree's repository makes git obey.
pub(crate) fn obeyed_places(work_tree: &Path, home: &Path) -> Vec<Obeyed> {
    let mut places = Vec::new();
    for file in config_files(work_tree, home) {
        for entry in file.entries.iter().flatten() {
            if let Some(path) = included_by(&file.path, entry, home) {
                places.push(Obeyed::Included(path));
            }
            if (entry.section.as_str(), entry.key.as_str()) == ("core", "hookspath") {
                let folder = expanded(&entry.value, work_tree, home);
                // Husky's own folder only calls the hooks in the folder above.
                let hooks = match folder.parent() {
                    Some(above) if folder.ends_with(".husky/_") => above.to_path_buf(),
                    _ => folder,
                };
                places.push(Obeyed::Hooks(hooks));
            }
        }
    }
    places
}
