//! The message for a missing file: similar names, and where it may be instead.

use crate::context::ToolContext;
use crate::replacement::{letter_pairs, likeness};
use std::path::{Path, PathBuf};

/// How many names are suggested.
const MOST_SUGGESTIONS: usize = 3;
/// How many names of a folder are compared.
const MOST_COMPARED: usize = 5000;

/// The message for a file that doesn't exist.
pub(crate) fn message(path: &Path, context: &ToolContext) -> String {
    if let Ok(target) = std::fs::read_link(path) {
        return format!(
            "{} is a symlink to {}, which does not exist.",
            path.display(),
            target.display()
        );
    }
    let mut text = format!("{} does not exist.", path.display());
    let suggestions = suggestions(path, &context.working_folder.read());
    if suggestions.is_empty() {
        text.push_str(&format!(
            " The working folder is {}.",
            context.working_folder.read().display()
        ));
    } else {
        let names: Vec<String> = suggestions
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        text.push_str(&format!(" Did you mean {}?", names.join(" or ")));
    }
    text
}

fn suggestions(path: &Path, working_folder: &Path) -> Vec<PathBuf> {
    let mut found = misplaced(path, working_folder);
    let Some(folder) = path.parent() else {
        return found;
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut similar: Vec<(f64, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_COMPARED)
        .filter_map(|entry| {
            let likeness = name_likeness(&name, &entry.file_name().to_string_lossy());
            (likeness >= 0.6).then(|| (likeness, entry.path()))
        })
        .collect();
    similar.sort_by(|(one, path), (other, other_path)| {
        other.total_cmp(one).then_with(|| path.cmp(other_path))
    });
    found.extend(similar.into_iter().map(|(_, path)| path));
    found.truncate(MOST_SUGGESTIONS);
    found
}

/// Places under the working folder that the path may mean: it was taken from the root, or from the
/// folder above.
fn misplaced(path: &Path, working_folder: &Path) -> Vec<PathBuf> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let from_above = working_folder
        .parent()
        .and_then(|above| path.strip_prefix(above).ok());
    [Some(relative), from_above]
        .into_iter()
        .flatten()
        .map(|relative| working_folder.join(relative))
        .filter(|guess| guess != path && guess.is_file())
        .collect()
}

fn name_likeness(wanted: &str, name: &str) -> f64 {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    if wanted == name {
        return 2.0;
    }
    let stem = |name: &str| name.rsplit_once('.').map(|(stem, _)| stem.to_owned());
    if let (Some(one), Some(other)) = (stem(&wanted), stem(&name))
        && one == other
        && !one.is_empty()
    {
        return 1.5;
    }
    likeness(&letter_pairs(&wanted), &letter_pairs(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_like_the_missing_one_are_suggested_best_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["config.json", "Config.yaml", "configs.yml", "main.rs"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = suggestions(&folder.path().join("config.yaml"), Path::new("/nowhere"));
        let names: Vec<_> = found
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["Config.yaml", "config.json", "configs.yml"]);
    }

    #[test]
    fn a_path_from_the_root_is_found_in_the_working_folder() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir_all(project.join("src")).unwrap();
        std::fs::write(project.join("src/main.rs"), "").unwrap();
        assert_eq!(
            suggestions(Path::new("/src/main.rs"), &project),
            [project.join("src/main.rs")]
        );
        assert_eq!(
            suggestions(&folder.path().join("src/main.rs"), &project),
            [project.join("src/main.rs")]
        );
    }
}
