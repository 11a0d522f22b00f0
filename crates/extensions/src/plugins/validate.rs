//! What the author of a plugin or a marketplace wants to know before others find out.

use super::contents::{Plugin, Surroundings, words};
use super::copy::{self, Limits};
use super::manifest::{MANIFEST_FOLDERS, Manifest, manifest_file};
use super::marketplace::{Marketplace, list_file};
use super::name::PluginId;
use super::source::PluginSource;
use crate::problem::Problem;
use crate::{AgentCatalog, OutputStyles, SkillCatalog, Sources};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What looking at a folder brought to light.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// What was looked at: a plugin or a marketplace.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// What a plugin brings.
    pub brings: Vec<String>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Validation {
    /// Whether it could be used as it is.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.problems.iter().any(|problem| problem.fatal)
    }
}

/// Looks at a plugin's folder, a marketplace's folder, or a manifest's file.
///
/// # Errors
/// In words, when there is neither.
pub fn validate(path: &Path) -> Result<Vec<Validation>, String> {
    let path = std::fs::canonicalize(path)
        .map_err(|error| format!("{} can't be read: {error}", path.display()))?;
    let root = if path.is_file() {
        root_of(&path)?
    } else {
        path
    };
    let mut found = Vec::new();
    if let Ok(list) = list_file(&root, None) {
        found.extend(marketplace(&root, &list));
    }
    let listed_here = found
        .iter()
        .any(|validation: &Validation| validation.kind == "plugin" && validation.path == root);
    if !listed_here && (manifest_file(&root).is_some() || found.is_empty()) {
        found.push(plugin(&root)?);
    }
    Ok(found)
}

fn root_of(file: &Path) -> Result<PathBuf, String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let conventional = folder
        .file_name()
        .is_some_and(|name| MANIFEST_FOLDERS.iter().any(|known| name == *known));
    match folder.parent() {
        Some(root) if conventional => Ok(root.to_path_buf()),
        _ => Err(format!(
            "{} is neither a plugin's folder nor a file in .claude-plugin or .lathe-plugin",
            file.display()
        )),
    }
}

fn plugin(root: &Path) -> Result<Validation, String> {
    let own_name = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut problems = Vec::new();
    let name = match Manifest::read(root, &own_name, &mut problems) {
        Ok(manifest) => manifest.name,
        Err(problem) => {
            return Ok(Validation {
                kind: "plugin",
                name: own_name,
                path: root.to_path_buf(),
                brings: Vec::new(),
                problems: vec![problem],
            });
        }
    };
    let mut validation = Validation {
        kind: "plugin",
        name: name.clone(),
        path: root.to_path_buf(),
        brings: Vec::new(),
        problems: Vec::new(),
    };
    match Plugin::read(root, &PluginId::inline(&name), &Surroundings::default()) {
        Ok(plugin) => {
            if manifest_file(root).is_none() && plugin.brings().is_empty() {
                return Err(format!(
                    "there is neither a plugin nor a marketplace in {}",
                    root.display()
                ));
            }
            validation.brings = plugin.brings().iter().map(words).collect();
            // Not yet filled in is for whoever installs it.
            validation.problems = plugin
                .problems
                .iter()
                .filter(|problem| !problem.message.starts_with("is not filled in"))
                .cloned()
                .collect();
            validation.problems.extend(of_files(&plugin));
            validation.problems.extend(advice(&plugin));
        }
        Err(problem) => validation.problems.push(problem),
    }
    // Whoever installs it copies it; what is refused then is better known now.
    match tempfile::tempdir() {
        Ok(scratch) => {
            if let Err(error) = copy::copy(root, &scratch.path().join("copy"), Limits::default()) {
                validation.problems.push(Problem::fatal(
                    root,
                    format!("it can't be installed: {error}"),
                ));
            }
        }
        Err(error) => validation.problems.push(Problem::field(
            root,
            "",
            format!("its size wasn't checked: {error}"),
        )),
    }
    Ok(validation)
}

/// What is wrong with the files that it brings, as a session would find out.
fn of_files(plugin: &Plugin) -> Vec<Problem> {
    let mut contribution = plugin.contribution.clone();
    // Whoever installs it says yes to what it brings.
    contribution.trusted = true;
    let sources = Sources::default().with_plugins(vec![contribution]);
    let mut problems = AgentCatalog::load(&sources, &[]).problems;
    problems.extend(SkillCatalog::load(&sources).problems);
    problems.extend(OutputStyles::load(&sources).problems);
    problems
}

fn advice(plugin: &Plugin) -> Vec<Problem> {
    let Some(file) = &plugin.manifest.file else {
        return Vec::new();
    };
    let mut advice = Vec::new();
    let name = &plugin.manifest.name;
    if name
        .chars()
        .any(|character| character.is_ascii_uppercase() || character == '_')
    {
        advice.push(
            Problem::field(
                file,
                "name",
                "other programs take only small letters, digits and hyphens",
            )
            .fix(format!(
                "call it {}",
                name.to_ascii_lowercase().replace('_', "-")
            )),
        );
    }
    if plugin.manifest.version.is_none() {
        advice.push(
            Problem::field(
                file,
                "version",
                "is missing; people can't see what they have",
            )
            .fix("add \"version\": \"1.0.0\""),
        );
    }
    if plugin.manifest.description.is_none() {
        advice.push(Problem::field(
            file,
            "description",
            "is missing; it is what people see first",
        ));
    }
    let inside_folder = file.parent();
    for part in ["commands", "agents", "skills", "hooks"] {
        if inside_folder.is_some_and(|folder| folder.join(part).exists()) {
            advice.push(
                Problem::field(file, part, "lies beside plugin.json, where it is not found")
                    .fix(format!("move {part}/ to the plugin's own folder")),
            );
        }
    }
    advice
}

fn marketplace(root: &Path, list: &Path) -> Vec<Validation> {
    let read = Marketplace::read(list, Some(root), true);
    let marketplace = match read {
        Ok(marketplace) => marketplace,
        Err(problem) => {
            return vec![Validation {
                kind: "marketplace",
                name: String::new(),
                path: root.to_path_buf(),
                brings: Vec::new(),
                problems: vec![problem],
            }];
        }
    };
    let mut problems = marketplace.problems.clone();
    for problem in &mut problems {
        // The others can still be installed, so a session goes on; its author wants to know.
        problem.fatal |= problem.field.starts_with("plugins[");
    }
    let mut plugins = Vec::new();
    for entry in &marketplace.plugins {
        let PluginSource::Relative(path) = &entry.source else {
            continue;
        };
        match marketplace.folder_of(entry, path) {
            Ok(folder) => match plugin(&folder) {
                Ok(validation) => plugins.push(validation),
                // With what the entry says it may be one.
                Err(_) if entry.manifest.has_components() => {}
                Err(why) => problems.push(Problem::fatal(list, format!("{}: {why}", entry.name))),
            },
            Err(error) => problems.push(Problem::fatal(list, error.to_string())),
        }
    }
    let mut all = vec![Validation {
        kind: "marketplace",
        name: marketplace.name,
        path: root.to_path_buf(),
        brings: marketplace
            .plugins
            .iter()
            .map(|entry| format!("{}: {}", entry.name, entry.source))
            .collect(),
        problems,
    }];
    all.extend(plugins);
    all
}
