//! Which files below `commands/` are commands, and their names.

use super::FILE;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A file below `commands/`.
pub(super) struct CommandFile {
    /// Relative to `commands/`.
    pub(super) file: PathBuf,
    pub(super) name: String,
    /// The folder of a `SKILL.md`, relative to `commands/`.
    pub(super) folder: Option<PathBuf>,
}

/// The commands among the files below `commands/`. A folder with a `SKILL.md` is a skill of the
/// folder's name, and the other files beside it belong to it.
pub(super) fn command_files(files: Vec<PathBuf>) -> Vec<CommandFile> {
    let skills: HashSet<PathBuf> = files.iter().filter_map(|file| skill_folder(file)).collect();
    files
        .into_iter()
        .filter_map(|file| {
            if let Some(folder) = skill_folder(&file) {
                return Some(CommandFile {
                    name: name_of(&folder),
                    folder: Some(folder),
                    file,
                });
            }
            let belongs = file.parent().is_some_and(|folder| skills.contains(folder));
            (!belongs).then(|| CommandFile {
                name: name_of(&file.with_extension("")),
                folder: None,
                file,
            })
        })
        .collect()
}

/// The folder of a `SKILL.md` that is not directly in `commands/`.
fn skill_folder(file: &Path) -> Option<PathBuf> {
    let is_skill = file.file_name().is_some_and(|name| name == FILE);
    let folder = file.parent().filter(|_| is_skill)?;
    (folder != Path::new("")).then(|| folder.to_path_buf())
}

/// `frontend/fix` is `frontend:fix`.
fn name_of(path: &Path) -> String {
    let parts: Vec<String> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Vec<String> {
        let files = files.iter().map(PathBuf::from).collect();
        let found = command_files(files).into_iter();
        found.map(|command| command.name).collect()
    }

    #[test]
    fn folders_are_part_of_a_commands_name() {
        assert_eq!(
            names(&["speckit.plan.md", "git/commit.md", "a/b/c.md"]),
            ["speckit.plan", "git:commit", "a:b:c"]
        );
    }

    #[test]
    fn a_folder_with_a_skill_below_commands_is_one_command() {
        assert_eq!(
            names(&[
                "x/README.md",
                "x/SKILL.md",
                "x/y/z.md",
                "v1.2/SKILL.md",
                "SKILL.md"
            ]),
            ["x", "x:y:z", "v1.2", "SKILL"]
        );
    }
}
