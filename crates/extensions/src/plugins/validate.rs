//! Validation of plugins and marketplaces for their authors.

use super::contents::{Plugin, PluginContext, describe};
use super::copy::{self, Limits};
use super::manifest::{MANIFEST_FOLDERS, Manifest, manifest_file};
use super::marketplace::{Marketplace, list_file};
use super::name::PluginId;
use super::source::PluginSource;
use crate::problem::Problem;
use crate::{AgentCatalog, OutputStyles, SkillCatalog, Sources};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The result of validating one plugin or marketplace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// `plugin` or `marketplace`.
    pub kind: &'static str,
    pub name: String,
    pub path: PathBuf,
    /// The parts of a plugin, or the plugins of a marketplace.
    pub brings: Vec<String>,
    pub problems: Vec<Problem>,
}

impl Validation {
    /// True if it can be used as it is.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.problems.iter().any(|problem| problem.fatal)
    }
}

/// Why there is nothing to validate.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    #[error("{} can't be read: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{} is neither a plugin's folder nor a file in .claude-plugin or .lathe-plugin", .0.display()
    )]
    NotAManifest(PathBuf),
    #[error("there is neither a plugin nor a marketplace in {}", .0.display())]
    Nothing(PathBuf),
}

/// Validates a plugin's folder, a marketplace's folder or a manifest file.
///
/// # Errors
/// If there is neither a plugin nor a marketplace.
pub fn validate(path: &Path) -> Result<Vec<Validation>, ValidateError> {
    let path = std::fs::canonicalize(path).map_err(|source| ValidateError::Unreadable {
        path: path.to_path_buf(),
        source,
    })?;
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

fn root_of(file: &Path) -> Result<PathBuf, ValidateError> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let conventional = folder
        .file_name()
        .is_some_and(|name| MANIFEST_FOLDERS.iter().any(|known| name == *known));
    match folder.parent() {
        Some(root) if conventional => Ok(root.to_path_buf()),
        _ => Err(ValidateError::NotAManifest(file.to_path_buf())),
    }
}

fn plugin(root: &Path) -> Result<Validation, ValidateError> {
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
    match Plugin::read(root, &PluginId::inline(&name), &PluginContext::default()) {
        Ok(plugin) => {
            if manifest_file(root).is_none() && plugin.parts().is_empty() {
                return Err(ValidateError::Nothing(root.to_path_buf()));
            }
            validation.brings = plugin.parts().iter().map(describe).collect();
            // Options are filled in by the user who installs it.
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
    // Installing copies it; find out now what would be refused then.
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
            format!("its size was not checked: {error}"),
        )),
    }
    Ok(validation)
}

/// The problems in its files, as a session would report them.
fn of_files(plugin: &Plugin) -> Vec<Problem> {
    let mut contribution = plugin.contribution.clone();
    // As after an install, which confirms its parts.
    contribution.trusted = true;
    let sources = Sources::default().with_plugins(vec![contribution]);
    let agents = AgentCatalog::load(&sources, &[]);
    let skills = SkillCatalog::load(&sources);
    let mut problems: Vec<Problem> = agents.problems.clone();
    for agent in agents.iter() {
        let tools = agent.tools.iter().flatten();
        problems.extend(unknown_tools(agent.path.as_deref(), "tools", tools));
    }
    problems.extend(skills.problems.iter().cloned());
    for skill in skills.iter() {
        let tools = skill.run.allowed_tools.iter();
        problems.extend(unknown_tools(skill.path.as_deref(), "allowed-tools", tools));
    }
    problems.extend(OutputStyles::load(&sources).problems);
    problems
}

/// Tools of other programs that no session here offers, with their replacement.
const REPLACED_TOOLS: [(&str, &str); 3] = [
    ("LS", "use Glob, or Bash(ls:*)"),
    ("SlashCommand", "use Skill"),
    ("NotebookRead", "use Read"),
];

/// The replacement for a tool of other programs that Lathe doesn't have.
#[must_use]
pub fn replacement_of_tool(name: &str) -> Option<&'static str> {
    let found = REPLACED_TOOLS.iter().find(|(known, _)| *known == name);
    found.map(|(_, fix)| *fix)
}

fn unknown_tools<'a>(
    file: Option<&Path>,
    key: &str,
    tools: impl Iterator<Item = &'a String>,
) -> Vec<Problem> {
    let Some(file) = file else {
        return Vec::new();
    };
    tools
        .filter_map(|rule| {
            let name = rule.split('(').next().unwrap_or(rule);
            let fix = replacement_of_tool(name)?;
            let message = format!("no session has the tool {name}");
            Some(Problem::field(file, key, message).fix(fix))
        })
        .collect()
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
                "other programs accept only lower-case letters, digits and hyphens",
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
                "is missing; users can't tell which version they have",
            )
            .fix("add \"version\": \"1.0.0\""),
        );
    }
    if plugin.manifest.description.is_none() {
        advice.push(Problem::field(
            file,
            "description",
            "is missing; listings show it",
        ));
    }
    let inside_folder = file.parent();
    for part in ["commands", "agents", "skills", "hooks"] {
        if inside_folder.is_some_and(|folder| folder.join(part).exists()) {
            advice.push(
                Problem::field(file, part, "is beside plugin.json, where it is not found")
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
        // A session uses the other entries, but the author should fix this one.
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
                // The entry itself may define it.
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
