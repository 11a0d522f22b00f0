//! Links in folders that commands write to: a command can put another one in their place.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// More links than this lead nowhere.
const MOST_LINKS: usize = 40;

/// A path in a folder, with the links in that folder that lead away from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The path without links.
    pub(crate) path: PathBuf,
    /// The links, in the order in which they are followed.
    pub(crate) links: Vec<PathBuf>,
}

/// Follows the links of a path below a folder, which itself has none.
pub(crate) fn settle(folder: &Path, path: &Path) -> Settled {
    let mut links = Vec::new();
    let Ok(rest) = path.strip_prefix(folder) else {
        let path = path.to_path_buf();
        return Settled { path, links };
    };
    let mut waiting: VecDeque<OsString> = components(rest);
    let mut real = folder.to_path_buf();
    while let Some(name) = waiting.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let here = real.join(&name);
        let target = match here.read_link() {
            Ok(target) if links.len() < MOST_LINKS => target,
            _ => {
                real = here;
                continue;
            }
        };
        links.push(here);
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        let mut further = components(&target);
        further.append(&mut waiting);
        waiting = further;
    }
    Settled { path: real, links }
}

/// The links that a path leads through, each with its folder's real path.
#[must_use]
pub fn links_of(path: &Path) -> Vec<PathBuf> {
    settle(Path::new("/"), path).links
}

fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_links_of_a_path_are_followed_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::create_dir(base.join("elsewhere")).unwrap();
        symlink("a/b", base.join("one")).unwrap();
        symlink("../../elsewhere", base.join("a/b/two")).unwrap();
        symlink(base.join("one"), base.join("three")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let settled = |path: &str| {
            let Settled { path, links } = settle(&base, &base.join(path));
            let name = |path: &PathBuf| path.strip_prefix(&base).unwrap().display().to_string();
            (name(&path), links.iter().map(name).collect::<Vec<_>>())
        };
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        for (path, real, links) in [
            ("a/b/c/d", "a/b/c/d", &[][..]),
            ("one/c", "a/b/c", &["one"]),
            ("one/two/x", "elsewhere/x", &["one", "a/b/two"]),
            ("three/two", "elsewhere", &["three", "one", "a/b/two"]),
            ("absent/../one", "a/b", &["one"]),
        ] {
            assert_eq!(settled(path), (real.to_owned(), names(links)), "{path}");
        }
        assert_eq!(settled("loop").1.len(), MOST_LINKS);
        let outside = settle(&base, Path::new("/usr/x"));
        assert_eq!((outside.path, outside.links), ("/usr/x".into(), Vec::new()));
    }
}
