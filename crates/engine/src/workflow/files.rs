//! Where workflows are: in folders of the user and the project, and built in.

use lathe_extensions::plugins::load::LoadedPlugins;
use lathe_settings::Places;
use lathe_workflow::Script;
use std::path::{Path, PathBuf};

/// The built-in workflows, in our own words.
const BUILTIN: [(&str, &str); 3] = [
    ("migrate", include_str!("builtin/migrate.js")),
    ("research", include_str!("builtin/research.js")),
    ("review", include_str!("builtin/review.js")),
];

/// The largest script that is read.
const MOST_BYTES: u64 = 1_000_000;

/// A workflow that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWorkflow {
    /// The name of its file, or of the built-in one.
    pub name: String,
    /// Its file; `None` is built in.
    pub path: Option<PathBuf>,
    /// The script.
    pub text: String,
}

/// Why a workflow can't be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowFileError {
    /// No such workflow.
    #[error("there is no workflow {name}; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The file can't be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// The folders with workflows, the first one wins.
fn folders(places: &Places) -> Vec<PathBuf> {
    let mut folders = vec![
        places.project.join(".lathe/workflows"),
        places.project.join(".claude/workflows"),
        places.config_home.join("workflows"),
    ];
    folders.extend(places.claude_home.iter().map(|home| home.join("workflows")));
    folders
}

/// The workflows of a plugin. Their names begin with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFolder {
    /// The plugin.
    pub plugin: String,
    /// Its folder with workflows.
    pub folder: PathBuf,
}

/// The folders with workflows of plugins that were confirmed.
#[must_use]
pub fn of_plugins(loaded: &LoadedPlugins) -> Vec<PluginFolder> {
    let plugins = loaded.plugins.iter().map(|plugin| &plugin.contribution);
    plugins
        .filter(|plugin| plugin.trusted)
        .map(|plugin| PluginFolder {
            plugin: plugin.name.clone(),
            folder: plugin.root.join("workflows"),
        })
        .collect()
}

/// All workflows, by name.
#[must_use]
pub fn list(places: &Places, plugins: &[PluginFolder]) -> Vec<SavedWorkflow> {
    let mut found: Vec<SavedWorkflow> = Vec::new();
    let own = folders(places)
        .into_iter()
        .map(|folder| (String::new(), folder));
    let of_plugins = plugins
        .iter()
        .map(|plugin| (format!("{}:", plugin.plugin), plugin.folder.clone()));
    for (prefix, folder) in own.chain(of_plugins) {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
        files.sort();
        for path in files {
            let is_script = path.extension().is_some_and(|end| end == "js");
            let name = path
                .file_stem()
                .map(|stem| format!("{prefix}{}", stem.to_string_lossy()));
            let Some(name) = name.filter(|_| is_script) else {
                continue;
            };
            if found.iter().any(|other| other.name == name) {
                continue;
            }
            if let Ok(text) = read(&path) {
                found.push(SavedWorkflow {
                    name,
                    path: Some(path),
                    text,
                });
            }
        }
    }
    for (name, text) in BUILTIN {
        if found.iter().all(|other| other.name != name) {
            found.push(SavedWorkflow {
                name: name.to_owned(),
                path: None,
                text: text.to_owned(),
            });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Reads a script.
///
/// # Errors
/// When the file can't be read or is too large.
pub fn read(path: &Path) -> Result<String, WorkflowFileError> {
    let unreadable = |why: String| WorkflowFileError::Unreadable {
        path: path.to_owned(),
        why,
    };
    let meta = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !meta.is_file() || meta.len() > MOST_BYTES {
        return Err(unreadable(format!(
            "not a file of at most {MOST_BYTES} bytes"
        )));
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

/// The workflow of a name, or that the file of a path has. A workflow may also be found by the name in its `meta`.
///
/// # Errors
/// When there is none.
pub fn find(
    places: &Places,
    plugins: &[PluginFolder],
    reference: &str,
) -> Result<SavedWorkflow, WorkflowFileError> {
    let path = Path::new(reference);
    if path.extension().is_some_and(|end| end == "js") {
        let path = places.project.join(path);
        return Ok(SavedWorkflow {
            name: reference.to_owned(),
            text: read(&path)?,
            path: Some(path),
        });
    }
    let all = list(places, plugins);
    let by_file = all.iter().find(|saved| saved.name == reference);
    let by_meta = || {
        let named = |saved: &&SavedWorkflow| {
            Script::parse(&saved.name, &saved.text).is_ok_and(|it| it.meta.name == reference)
        };
        all.iter().find(named)
    };
    by_file.or_else(by_meta).cloned().ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|saved| saved.name.as_str()).collect();
        WorkflowFileError::Unknown {
            name: reference.to_owned(),
            known: known.join(", "),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_workflows_have_no_problems() {
        for (name, text) in BUILTIN {
            assert_eq!(lathe_workflow::check(name, text), Vec::new(), "{name}");
            assert_eq!(Script::parse(name, text).unwrap().meta.name, name);
        }
    }
}
