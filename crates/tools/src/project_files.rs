//! The files of a project as the user mentions them: what `@` completes to.

use crate::walk::{Ignored, walk};
use std::path::Path;

/// The most files that are listed.
const MOST: usize = 500_000;

/// Lists the files and folders below a folder, by their paths from there; a folder ends in a slash.
/// Files named in ignore files are left out if they are respected.
#[must_use]
pub fn project_files(folder: &Path, respect_gitignore: bool) -> Vec<String> {
    let ignored = if respect_gitignore {
        Ignored::LeftOut
    } else {
        Ignored::Included
    };
    walk(folder, ignored)
        .build()
        .flatten()
        .filter_map(|entry| {
            let text = entry.path().strip_prefix(folder).ok()?.to_str()?;
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            (!text.is_empty()).then(|| format!("{text}{}", if is_folder { "/" } else { "" }))
        })
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_ignores_is_left_out_unless_it_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["src/main.rs", "target/x", ".github/ci.yml", ".git/HEAD"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(folder.path().join(".gitignore"), "target\n").unwrap();
        let files = |respect| {
            let mut files = project_files(folder.path(), respect);
            files.sort();
            files
        };
        let without = [
            ".github/",
            ".github/ci.yml",
            ".gitignore",
            "src/",
            "src/main.rs",
        ];
        assert_eq!(files(true), without);
        assert!(files(false).contains(&"target/x".to_owned()));
        assert!(!files(false).iter().any(|file| file.starts_with(".git/")));
    }
}
