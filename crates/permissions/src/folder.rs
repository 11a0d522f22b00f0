//! Whether a folder could make a reading command run a program.
//!
//! `git status` runs what `core.fsmonitor` names, `cargo tree` what `.cargo/config.toml` names. In a
//! folder that nobody has trusted such commands ask. But most folders bring no such configuration, and
//! then there is nothing to ask about: a folder is *plain* if none of the files is there that could
//! name a program, and git's own configuration has only keys that can't.

use std::path::{Path, PathBuf};

/// Files beside the sources that can make build tools run something or fetch another tool.
const NAMING_PROGRAMS: [&str; 11] = [
    ".cargo/config",
    ".cargo/config.toml",
    ".npmrc",
    ".pnp.cjs",
    ".pnpmfile.cjs",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "go.work",
    "rust-toolchain",
    "rust-toolchain.toml",
];

/// Sections of git's configuration whose keys never name a program or another file.
const HARMLESS_SECTIONS: [&str; 9] = [
    "branch",
    "color",
    "fetch",
    "init",
    "push",
    "pull",
    "remote",
    "submodule",
    "user",
];
/// Keys of `core` that don't either.
const HARMLESS_CORE: [&str; 14] = [
    "abbrev",
    "autocrlf",
    "bare",
    "eol",
    "filemode",
    "ignorecase",
    "logallrefupdates",
    "precomposeunicode",
    "preloadindex",
    "quotepath",
    "repositoryformatversion",
    "safecrlf",
    "symlinks",
    "untrackedcache",
];
/// Keys of the harmless sections that name a program all the same.
const NOT_HARMLESS: [&str; 5] = ["receivepack", "uploadpack", "vcs", "proxy", "update"];

/// Whether nothing in the folder or above it can make a reading command run a program. Whatever can't
/// be read or isn't understood counts against it. `home` is the person's own and not looked at.
#[must_use]
pub fn is_plain(folder: &Path, home: &Path) -> bool {
    // A folder that is itself laid out like a repository is one to git.
    if folder.join("HEAD").exists() && folder.join("objects").exists() {
        return false;
    }
    folder.ancestors().take_while(|at| *at != home).all(|at| {
        let own_files = at != Path::new("/");
        (!own_files || NAMING_PROGRAMS.iter().all(|name| !at.join(name).exists()))
            && git_is_plain(&at.join(".git"))
            && go_is_plain(&at.join("go.mod"))
    })
}

/// A `toolchain` line makes `go` fetch and run another version of itself.
fn go_is_plain(file: &Path) -> bool {
    match std::fs::read_to_string(file) {
        Ok(text) => !text
            .lines()
            .any(|line| line.trim_start().starts_with("toolchain")),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn git_is_plain(dot_git: &Path) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(dot_git) else {
        return true;
    };
    if !metadata.is_dir() {
        // A worktree or submodule: its configuration lies elsewhere. A person should have a look.
        return worktree_is_plain(dot_git);
    }
    config_is_plain(&dot_git.join("config"))
        && !dot_git.join("config.worktree").exists()
        && !dot_git.join("commondir").exists()
        && attributes_are_plain(&dot_git.join("info/attributes"))
}

/// A linked worktree is as plain as the repository that it belongs to.
fn worktree_is_plain(dot_git: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(dot_git) else {
        return false;
    };
    let Some(target) = text.strip_prefix("gitdir:").map(str::trim) else {
        return false;
    };
    let Some(parent) = dot_git.parent() else {
        return false;
    };
    let git_folder: PathBuf = parent.join(target);
    let Ok(common) = std::fs::read_to_string(git_folder.join("commondir")) else {
        return false;
    };
    let common = git_folder.join(common.trim());
    config_is_plain(&common.join("config"))
        && !common.join("config.worktree").exists()
        && !git_folder.join("config.worktree").exists()
}

/// Filters are named in attributes and defined in the configuration, which is checked; attributes of
/// the repository's own are allowed as long as they are readable text.
fn attributes_are_plain(file: &Path) -> bool {
    match std::fs::read_to_string(file) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn config_is_plain(file: &Path) -> bool {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return error.kind() == std::io::ErrorKind::NotFound,
    };
    let mut section = String::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let rest = if let Some(header) = line.strip_prefix('[') {
            let Some((header, rest)) = header.rsplit_once(']') else {
                return false;
            };
            let name = header
                .split([' ', '\t', '"', '.'])
                .next()
                .unwrap_or_default();
            section = name.to_lowercase();
            rest.trim()
        } else {
            line
        };
        if rest.is_empty() {
            continue;
        }
        // A value that goes on in the next line could hide a key.
        if rest.ends_with('\\') {
            return false;
        }
        let key = rest
            .split(['=', ' ', '\t'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let harmless = if section == "core" {
            HARMLESS_CORE.contains(&key.as_str())
        } else {
            HARMLESS_SECTIONS.contains(&section.as_str()) && !NOT_HARMLESS.contains(&key.as_str())
        };
        if !harmless {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn plain(files: &[(&str, &str)]) -> bool {
        let folder = with(files);
        is_plain(folder.path(), Path::new("/no-home"))
    }

    #[test]
    fn a_folder_without_configuration_is_plain() {
        assert!(plain(&[("src/main.rs", "")]));
        assert!(plain(&[
            ("package.json", "{}"),
            ("Cargo.toml", ""),
            ("go.mod", "module x\ngo 1.22\n")
        ]));
    }

    #[test]
    fn a_fresh_clone_is_plain() {
        let config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n";
        assert!(plain(&[
            (".git/config", config),
            (".git/HEAD", "ref: refs/heads/main")
        ]));
    }

    #[test]
    fn whatever_could_name_a_program_is_not_plain() {
        for config in [
            "[core]\n\tfsmonitor = ./evil\n",
            "[core]\nfsmonitor=./evil",
            "[CORE] pager = ./evil",
            "[diff \"x\"]\n\ttextconv = ./evil\n",
            "[filter \"x\"]\n\tclean = ./evil\n",
            "[include]\n\tpath = ../evil\n",
            "[includeIf \"gitdir:/\"]\n\tpath = ../evil\n",
            "[alias]\n\tst = !./evil\n",
            "[remote \"origin\"]\n\tuploadpack = ./evil\n",
            "[user]\n\tname = a\\\nfoo",
            "[core\n\tfsmonitor = ./evil",
            "[gpg]\n\tprogram = ./evil\n",
            "[extensions]\n\tworktreeConfig = true\n",
        ] {
            assert!(!plain(&[(".git/config", config)]), "{config}");
        }
        assert!(!plain(&[(".cargo/config.toml", "")]));
        assert!(!plain(&[("rust-toolchain", "nightly")]));
        assert!(!plain(&[(".npmrc", "script-shell=./evil")]));
        assert!(!plain(&[("go.mod", "module x\ntoolchain go1.99\n")]));
        assert!(
            !plain(&[("HEAD", "ref: x"), ("objects/x", ""), ("config", "")]),
            "a bare repository"
        );
        assert!(!plain(&[(".git", "gitdir: /elsewhere")]));
        assert!(!plain(&[
            (".git/config", ""),
            (".git/commondir", "../evil")
        ]));
    }

    #[test]
    fn folders_above_count_up_to_the_home() {
        let folder = with(&[
            (".npmrc", ""),
            ("home/project/a.txt", ""),
            ("home/.npmrc", ""),
        ]);
        let (home, project) = (
            folder.path().join("home"),
            folder.path().join("home/project"),
        );
        assert!(
            is_plain(&project, &home),
            "the home folder is the person's own"
        );
        assert!(!is_plain(&project, Path::new("/no-home")));
    }
}
