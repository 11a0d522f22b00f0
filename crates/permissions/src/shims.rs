//! Programs that version managers put in front of the real ones.
//!
//! A shim of asdf, mise, pyenv and their kind reads a file of the folder (`.tool-versions`, `mise.toml`,
//! `.python-version`) to choose what it runs, and some of these files can name a program in the folder itself. So where
//! nobody trusted the folder, a program that is a shim asks, whatever it is called.

use lathe_shell::analysis::{Analysis, Argument};
use std::path::{Path, PathBuf};

/// Programs that stand for others.
const MANAGERS: &[&str] = &[
    "mise",
    "rtx",
    "asdf",
    "volta-shim",
    "proto-shim",
    "aqua-proxy",
    "rustup",
    "pyenv",
    "rbenv",
    "nodenv",
    "jenv",
    "goenv",
    "tfenv",
    "tenv",
    "sdk",
];

/// The programs of a command that are shims.
pub(crate) fn find(analysis: &Analysis, search_path: &[PathBuf]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let programs = analysis
        .parts
        .iter()
        .flat_map(|part| &part.all_effective)
        .filter_map(|argv| argv.first().and_then(Argument::fixed))
        .filter(|name| !name.is_empty() && !name.contains('/'));
    for name in programs {
        let known = found.iter().any(|known| known == name);
        if !known
            && search_path.iter().any(|folder| folder.is_absolute())
            && is_shim(name, search_path)
        {
            found.push(name.to_owned());
        }
    }
    found
}

/// Whether the first program of this name in the search path is a shim.
fn is_shim(name: &str, search_path: &[PathBuf]) -> bool {
    let Some(path) = search_path
        .iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
    else {
        return false;
    };
    let in_shims = |path: &Path| {
        path.parent()
            .and_then(Path::file_name)
            .is_some_and(|folder| folder == "shims")
    };
    let target = path.canonicalize().unwrap_or_else(|_| path.clone());
    let stands_for_another = target
        .file_name()
        .is_some_and(|file| file != name && MANAGERS.iter().any(|manager| file == *manager));
    in_shims(&path) || in_shims(&target) || stands_for_another
}
