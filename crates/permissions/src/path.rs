//! Paths: what is refused by its text alone, what a path really means, and what lies where.
//!
//! A decision is made on *forms*: the path as written, every symbolic link that it ends in, and the
//! file that is really meant. Denials, safety checks and secrets look at all forms; a grant must hold
//! for the link and for its target. [`resolve_path`] asks the file system; everything else here is
//! pure.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links one path may go through, as in the kernel.
const MOST_LINKS: usize = 40;

/// A path in all its forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// As written, absolute, with `.` and `..` folded by text.
    pub written: PathBuf,
    /// The symbolic links that its last part goes through, each in its real folder, and where it leads by links that
    /// the same command makes before.
    pub links: Vec<PathBuf>,
    /// The real path; for a path that doesn't exist, where it would be created. `None` when
    /// links go in a circle or the file system refuses to say.
    pub real: Option<PathBuf>,
    /// Whether names that differ by case are the same there.
    pub case_insensitive: bool,
    /// Whether it is a folder now.
    pub is_folder: bool,
    /// Whether a link to somewhere that can't be known is made on its way before it is used.
    pub leads_anywhere: bool,
}

impl ResolvedPath {
    /// All forms, each once.
    pub fn forms(&self) -> impl Iterator<Item = &Path> {
        let real = self.real.as_deref().filter(|real| *real != self.written);
        std::iter::once(self.written.as_path())
            .chain(
                self.links
                    .iter()
                    .map(PathBuf::as_path)
                    .filter(|link| *link != self.written),
            )
            .chain(real)
    }

    /// The forms that a grant must hold for: the links and what is really meant. (A folder on the
    /// way that is itself a link changes nothing about which file is touched.)
    pub fn touched(&self) -> impl Iterator<Item = &Path> {
        let unknown = self.real.is_none().then_some(self.written.as_path());
        self.links
            .iter()
            .map(PathBuf::as_path)
            .chain(self.real.as_deref())
            .chain(unknown)
    }

    /// Whether everything that is touched lies in one of the folders.
    #[must_use]
    pub fn inside(&self, folders: &[PathBuf]) -> bool {
        self.outside(folders).is_none()
    }

    /// The first form that lies in none of the folders.
    #[must_use]
    pub fn outside(&self, folders: &[PathBuf]) -> Option<&Path> {
        self.touched().find(|form| {
            self.real.is_none()
                || !folders
                    .iter()
                    .any(|folder| starts_with(form, folder, self.case_insensitive))
        })
    }
}

/// Whether a path is a folder or lies in it.
#[must_use]
pub fn starts_with(path: &Path, folder: &Path, case_insensitive: bool) -> bool {
    if !case_insensitive {
        return path.starts_with(folder);
    }
    let mut components = path.components();
    folder.components().all(|wanted| {
        components.next().is_some_and(|component| {
            component == wanted || same_name(component.as_os_str(), wanted.as_os_str())
        })
    })
}

/// Whether two names differ by case only.
fn same_name(one: &OsStr, other: &OsStr) -> bool {
    if one.eq_ignore_ascii_case(other) {
        return true;
    }
    let ascii = one.is_ascii() && other.is_ascii();
    !ascii && one.to_string_lossy().to_lowercase() == other.to_string_lossy().to_lowercase()
}

/// A path with `.` and `..` folded by text; above the root there is only the root.
#[must_use]
pub fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !folded.pop() && !folded.has_root() {
                    folded.push("..");
                }
            }
            other => folded.push(other),
        }
    }
    folded
}

/// Asks the file system what a path means. Links are followed one by one; where the path ends to
/// exist, the rest is taken by its text.
#[must_use]
pub fn resolve_path(path: &Path) -> ResolvedPath {
    let mut links = Vec::new();
    let real = follow(path, &mut links);
    let case_insensitive = real.as_deref().is_some_and(is_case_insensitive);
    let is_folder = real.as_deref().is_some_and(Path::is_dir);
    ResolvedPath {
        written: fold(path),
        links,
        real,
        case_insensitive,
        is_folder,
        leads_anywhere: false,
    }
}

/// The real path of a folder: for roots, which are compared with real paths.
#[must_use]
pub fn real_folder(path: &Path) -> PathBuf {
    follow(path, &mut Vec::new()).unwrap_or_else(|| fold(path))
}

fn follow(path: &Path, links: &mut Vec<PathBuf>) -> Option<PathBuf> {
    let mut waiting: Vec<OsString> = components_reversed(path);
    let mut real = PathBuf::from("/");
    let mut followed = 0;
    let mut exists = true;
    while let Some(component) = waiting.pop() {
        if component == ".." {
            real.pop();
            exists = true;
            continue;
        }
        let here = real.join(&component);
        if !exists {
            real = here;
            continue;
        }
        match std::fs::symlink_metadata(&here) {
            Ok(metadata) if metadata.file_type().is_symlink() => {
                followed += 1;
                if followed > MOST_LINKS {
                    return None;
                }
                let target = std::fs::read_link(&here).ok()?;
                if waiting.is_empty() {
                    links.push(here);
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                waiting.extend(components_reversed(&target));
            }
            Ok(_) => real = here,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                exists = false;
                real = here;
            }
            // A folder that we may not look into could hold a link to anywhere.
            Err(_) => return None,
        }
    }
    Some(real)
}

fn components_reversed(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// Whether the nearest existing folder takes names in any case: the same file under its name in the
/// other case says so.
fn is_case_insensitive(path: &Path) -> bool {
    for candidate in path.ancestors() {
        let Some(name) = candidate.file_name().and_then(|name| name.to_str()) else {
            return cfg!(any(target_os = "macos", windows));
        };
        let flipped: String = name
            .chars()
            .map(|letter| {
                if letter.is_ascii_lowercase() {
                    letter.to_ascii_uppercase()
                } else {
                    letter.to_ascii_lowercase()
                }
            })
            .collect();
        if flipped == name {
            continue;
        }
        let Ok(here) = std::fs::symlink_metadata(candidate) else {
            continue;
        };
        return std::fs::symlink_metadata(candidate.with_file_name(flipped))
            .is_ok_and(|there| same_file(&here, &there));
    }
    false
}

#[cfg(unix)]
fn same_file(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same_file(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    one.len() == other.len() && one.modified().ok() == other.modified().ok()
}

/// An objection to the text of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspicion {
    /// Never: nobody can say what the path would turn into.
    Refused(String),
    /// A name that is legal but reads like something a shell expands; only the user or a rule that
    /// names it can say that it is meant literally.
    Literal(String),
}

/// Problems of a path by its text alone, without the file system. `writes` also
/// refuses patterns, because a write to "all of them" is never meant.
#[must_use]
pub fn suspicion(path: &Path, cwd: &Path, roots: &[PathBuf], writes: bool) -> Option<Suspicion> {
    let text = path.to_string_lossy();
    let shown = || text.replace('\0', "␀");
    let refused = |why: &str| Some(Suspicion::Refused(format!("`{}` {why}", shown())));
    if text.contains('\0') {
        return refused("contains a NUL character");
    }
    if text.starts_with(r"\\") || text.starts_with("//") {
        return refused("is a network path; mount it and name the mounted folder");
    }
    // A relative path was joined to the session's folder before it came here; what a shell would have
    // expanded stands at the start of what was written.
    let written = path.strip_prefix(cwd).unwrap_or(path);
    let written = written.strip_prefix("/").unwrap_or(written);
    let first = written
        .components()
        .next()
        .map(|component| component.as_os_str().to_string_lossy());
    let first = first.as_deref().unwrap_or("");
    if first.starts_with(r"\\") {
        return refused("is a network path; mount it and name the mounted folder");
    }
    let tilde = |name: &str| name == "~" || name.starts_with("~+") || name.starts_with("~-");
    if first.starts_with('~') || path.iter().any(|name| tilde(&name.to_string_lossy())) {
        return refused("starts with `~`; only `~/` is understood, write the folder in full");
    }
    if first.starts_with('=') {
        return refused(
            "starts with `=`, which some shells expand; write `./=…` if the name starts so",
        );
    }
    if writes && text.contains(['*', '?']) {
        return refused("is a pattern; name the one file that is to be written");
    }
    if text.contains(['$', '%']) {
        let inside = roots.iter().any(|root| path.starts_with(root));
        if !inside || first.contains(['$', '%']) {
            return refused(
                "contains `$` or `%`, which a shell would expand; write the value in its place",
            );
        }
        return Some(Suspicion::Literal(format!(
            "`{}` contains `$` or `%`, taken literally here",
            shown()
        )));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, writes: bool) -> Option<Suspicion> {
        suspicion(
            Path::new(path),
            Path::new("/work/p"),
            &[PathBuf::from("/work/p")],
            writes,
        )
    }

    fn refused(path: &str, writes: bool) -> bool {
        matches!(check(path, writes), Some(Suspicion::Refused(_)))
    }

    #[test]
    fn texts_that_could_turn_into_anything_are_refused() {
        for path in [
            r"\\server\share\x",
            "//server/share",
            "/work/p/~bob/x",
            "/work/p/~+/x",
            "/work/p/~-",
            "/work/p/$HOME/.ssh/id_rsa",
            "/work/p/%USERPROFILE%/x",
            "/etc/$X",
            "/work/p/=ls",
            "/work/p/a\0b",
        ] {
            assert!(refused(path, false), "{path}");
        }
        assert!(refused("/work/p/*.rs", true));
        assert!(!refused("/work/p/*.rs", false));
    }

    #[test]
    fn ordinary_names_are_not() {
        for path in [
            "/work/p/src/main.rs",
            "/work/p/app/[id]/page.tsx",
            "/work/p/a~",
            "/work/p/a=b",
            "/work/p/{x}",
        ] {
            assert_eq!(check(path, true), None, "{path}");
        }
        assert!(matches!(
            check("/work/p/app/routes/$id.tsx", true),
            Some(Suspicion::Literal(_))
        ));
    }

    #[test]
    fn folding_never_leaves_the_root() {
        assert_eq!(fold(Path::new("/a/../../b/./c")), Path::new("/b/c"));
        assert_eq!(fold(Path::new("/..")), Path::new("/"));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("in")).unwrap();
        std::fs::create_dir(base.join("out")).unwrap();
        std::fs::write(base.join("out/secret"), "x").unwrap();
        std::os::unix::fs::symlink("../out/secret", base.join("in/link")).unwrap();
        std::os::unix::fs::symlink(base.join("out"), base.join("in/folder")).unwrap();
        std::os::unix::fs::symlink("circle", base.join("in/circle")).unwrap();
        std::os::unix::fs::symlink("../out/new", base.join("in/dangling")).unwrap();

        let link = resolve_path(&base.join("in/link"));
        assert_eq!(link.real, Some(base.join("out/secret")));
        assert_eq!(link.links, [base.join("in/link")]);
        assert!(!link.inside(&[base.join("in")]));
        assert!(link.inside(std::slice::from_ref(&base)));

        let through = resolve_path(&base.join("in/folder/secret"));
        assert_eq!(through.real, Some(base.join("out/secret")));
        assert!(!through.inside(&[base.join("in")]));

        // The kernel goes up from where the link leads, not from where it stands.
        let up = resolve_path(&base.join("in/folder/../x"));
        assert_eq!(up.real, Some(base.join("x")));
        assert_eq!(up.written, base.join("in/x"));
        assert!(!up.inside(&[base.join("in")]));

        assert_eq!(resolve_path(&base.join("in/circle")).real, None);
        assert!(!resolve_path(&base.join("in/circle")).inside(&[base.join("in")]));

        let dangling = resolve_path(&base.join("in/dangling"));
        assert_eq!(dangling.real, Some(base.join("out/new")));
        assert!(!dangling.inside(&[base.join("in")]));

        let new = resolve_path(&base.join("in/a/b/c"));
        assert_eq!(new.real, Some(base.join("in/a/b/c")));
        assert!(new.inside(&[base.join("in")]));
    }

    #[test]
    fn folders_are_compared_by_whole_names_and_case_where_it_counts() {
        assert!(!starts_with(
            Path::new("/work/project"),
            Path::new("/work/p"),
            false
        ));
        assert!(starts_with(
            Path::new("/Work/P/x"),
            Path::new("/work/p"),
            true
        ));
        assert!(!starts_with(
            Path::new("/Work/P/x"),
            Path::new("/work/p"),
            false
        ));
    }
}
