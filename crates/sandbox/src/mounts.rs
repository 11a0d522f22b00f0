//! The mounts of a sandbox: a list that bubblewrap or our own helper carries out.
//!
//! The whole file system is there to read. Over it come a private `/tmp` and `/run`, then the entries of the
//! policy from the top of the tree to its bottom, so that the deepest one counts. A protected path is mounted
//! on itself, read-only; so are the folders above it up to the writable one, writable: what something is mounted
//! on can't be renamed, and nothing else can be put in its place.

use crate::links::{self, Settled};
use crate::sandbox_policy::{SandboxPolicy, depth};
use crate::state::State;
use crate::stubs::{Place, Stubs};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where the socket of the proxy is in a sandbox.
pub(crate) const PROXY_SOCKET: &str = "/run/lathe/proxy";
/// Where the certificate authorities are that commands trust, if credentials are masked.
pub const AUTHORITIES: &str = "/run/lathe/authorities.pem";
/// Where the helper is in a sandbox.
pub(crate) const HELPER: &str = "/run/lathe/helper";
/// Where the small helper is, if it starts the command.
pub(crate) const SMALL_HELPER: &str = "/run/lathe/start";

/// One thing that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    /// A file or folder at a place.
    Bind {
        from: PathBuf,
        to: PathBuf,
        writable: bool,
    },
    /// An empty folder in memory.
    Memory(PathBuf),
    /// An empty folder that can't be entered.
    Hidden(PathBuf),
    /// An empty folder whose content can't be listed, for the few things that are mounted in it.
    Searchable(PathBuf),
    /// The end of that: from here on nothing can be made in it.
    Sealed(PathBuf),
    /// A link, on itself, so that no other can take its place. bubblewrap can't: what must not be left out is `needed`.
    Link { at: PathBuf, needed: bool },
}

impl Mount {
    fn place(&self) -> &Path {
        match self {
            Self::Bind { to, .. } => to,
            Self::Memory(at)
            | Self::Hidden(at)
            | Self::Searchable(at)
            | Self::Sealed(at)
            | Self::Link { at, .. } => at,
        }
    }

    fn on_itself(path: &Path, writable: bool) -> Self {
        Self::Bind {
            from: path.to_path_buf(),
            to: path.to_path_buf(),
            writable,
        }
    }
}

/// The needs of a command beside its policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs<'a> {
    /// Files outside that it must be able to read, wherever they are.
    pub(crate) files: &'a [PathBuf],
    /// The helper, and the socket of the proxy.
    pub(crate) helper: Option<&'a Path>,
    pub(crate) proxy: Option<&'a Path>,
    /// Whether changes of caches are kept apart, so that caches can be written.
    pub(crate) caches: bool,
}

/// The mounts of a policy.
pub(crate) fn plan(
    policy: &SandboxPolicy,
    state: &State,
    needs: &Needs<'_>,
    stubs: &mut Stubs,
) -> io::Result<Vec<Mount>> {
    let mut mounts = private_places(state);
    let mut entries: Vec<Mount> = Vec::new();
    let add = |entries: &mut Vec<Mount>, mount: Mount| {
        let known = entries
            .iter_mut()
            .find(|known| known.place() == mount.place());
        match known {
            Some(known) => *known = mount,
            None => entries.push(mount),
        }
    };
    for path in policy.visible.iter().filter(|path| is_covered(path)) {
        add(&mut entries, Mount::on_itself(path, false));
    }
    for path in policy.writable.iter().filter(|path| path.exists()) {
        add(&mut entries, Mount::on_itself(path, true));
    }
    if needs.caches {
        for path in policy.caches.iter().filter(|path| path.is_dir()) {
            add(&mut entries, Mount::on_itself(path, true));
        }
    }
    for protected in &policy.protected {
        let path = &hold_links(&mut entries, policy, &protected.path, true);
        if writable_above(policy, path).is_none() {
            continue;
        }
        let stand_in = stubs.put(path, &protected.absent)?;
        if stand_in == Place::Nothing || is_link(path) {
            continue;
        }
        hold_folders_above(&mut entries, policy, path);
        let mut mount = Mount::on_itself(path, false);
        if let (Place::EmptyFile, Mount::Bind { from, .. }) = (stand_in, &mut mount) {
            // A device: git and others pass over what is no file.
            *from = "/dev/null".into();
        }
        add(&mut entries, mount);
    }
    for hidden in &policy.hidden {
        let path = &hold_links(&mut entries, policy, hidden, false);
        // A link in a project could lead to anything, a device as well: only a file is hidden there.
        if path != hidden && !path.is_file() && writable_above(policy, hidden).is_some() {
            continue;
        }
        hold_folders_above(&mut entries, policy, path);
        if path.is_dir() {
            add(&mut entries, Mount::Hidden(path.clone()));
        } else if path.exists() {
            let from = state.unreadable();
            let to = path.clone();
            add(
                &mut entries,
                Mount::Bind {
                    from,
                    to,
                    writable: false,
                },
            );
        }
    }
    for path in policy.shown.iter().filter(|path| path.exists()) {
        add(&mut entries, Mount::on_itself(path, false));
    }
    for masked in policy.masked.iter().filter(|it| it.stand_in.exists()) {
        if masked.path.exists() || masked.path == Path::new(AUTHORITIES) {
            hold_folders_above(&mut entries, policy, &masked.path);
            let mount = Mount::Bind {
                from: masked.stand_in.clone(),
                to: masked.path.clone(),
                writable: false,
            };
            add(&mut entries, mount);
        }
    }
    // The state of sandboxes is nobody's business in one.
    if let Some(base) = state.folder().parent() {
        add(&mut entries, Mount::Hidden(base.to_path_buf()));
    }
    for file in needs.files.iter().filter(|file| file.exists()) {
        entries.push(Mount::on_itself(file, false));
    }
    let sealed = make_searchable(&mut entries);
    entries.sort_by_key(|mount| depth(mount.place()));
    mounts.extend(entries);
    mounts.extend(sealed);
    mounts.extend(helpers(needs));
    Ok(mounts)
}

/// Holds the folders between a path and the writable one above it: a folder that is renamed would take what is mounted
/// in it along, and the next command would find it at another place.
fn hold_folders_above(entries: &mut Vec<Mount>, policy: &SandboxPolicy, path: &Path) {
    let Some(root) = writable_above(policy, path).filter(|root| *root != path) else {
        return;
    };
    let between = path.ancestors().skip(1);
    for folder in between.take_while(|folder| *folder != root) {
        let is_free = policy.check_write(folder).is_ok() && policy.check_read(folder).is_ok();
        if is_free && !entries.iter().any(|known| known.place() == folder) {
            entries.push(Mount::on_itself(folder, true));
        }
    }
}

/// Holds the links that lead from a path to another, where a command could replace them. Gives the other.
fn hold_links(
    entries: &mut Vec<Mount>,
    policy: &SandboxPolicy,
    path: &Path,
    needed: bool,
) -> PathBuf {
    let Some(root) = writable_above(policy, path) else {
        return path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    };
    let Settled { path, links } = links::settle(root, path);
    for link in links {
        // In a folder that is protected itself, nothing can take its place.
        if link
            .parent()
            .is_none_or(|folder| policy.check_write(folder).is_err())
        {
            continue;
        }
        hold_folders_above(entries, policy, &link);
        let known = entries.iter_mut().find(|known| *known.place() == link);
        match known {
            Some(Mount::Link { needed: known, .. }) => *known |= needed,
            Some(_) => {}
            None => entries.push(Mount::Link { at: link, needed }),
        }
    }
    path
}

/// The small helper, in a sandbox whose mounts bubblewrap makes.
pub(crate) fn small_helper(path: &Path) -> Mount {
    Mount::Bind {
        from: path.to_path_buf(),
        to: SMALL_HELPER.into(),
        writable: false,
    }
}

/// The programs and the socket that every command finds in its `/run`.
fn helpers(needs: &Needs<'_>) -> impl Iterator<Item = Mount> {
    let places = [(needs.helper, HELPER), (needs.proxy, PROXY_SOCKET)];
    places.into_iter().filter_map(|(from, to)| {
        Some(Mount::Bind {
            from: from?.to_path_buf(),
            to: to.into(),
            writable: false,
        })
    })
}

/// Lets what is mounted in hidden folders be reached. Gives the ends of that.
fn make_searchable(entries: &mut [Mount]) -> Vec<Mount> {
    let binds: Vec<PathBuf> = entries
        .iter()
        .filter(|mount| matches!(mount, Mount::Bind { .. }))
        .map(|mount| mount.place().to_path_buf())
        .collect();
    let mut sealed = Vec::new();
    for mount in entries {
        let Mount::Hidden(folder) = mount else {
            continue;
        };
        let inside = |place: &PathBuf| place.starts_with(&*folder) && place != folder;
        if binds.iter().any(inside) {
            sealed.push(Mount::Sealed(folder.clone()));
            *mount = Mount::Searchable(std::mem::take(folder));
        }
    }
    sealed
}

/// Places that every sandbox has to itself.
fn private_places(state: &State) -> Vec<Mount> {
    let temporary = |to: &str| Mount::Bind {
        from: state.temporary(),
        to: to.into(),
        writable: true,
    };
    let mut mounts = vec![temporary("/tmp")];
    if Path::new("/var/tmp").is_dir() && !is_link(Path::new("/var/tmp")) {
        mounts.push(temporary("/var/tmp"));
    }
    mounts.push(Mount::Memory("/run".into()));
    if Path::new("/var/run").is_dir() && !is_link(Path::new("/var/run")) {
        mounts.push(Mount::Hidden("/var/run".into()));
    }
    // Programs and drivers that some systems keep there.
    for path in ["/run/current-system", "/run/opengl-driver", "/run/wrappers"] {
        if let Ok(real) = Path::new(path).canonicalize() {
            mounts.push(Mount::Bind {
                from: real,
                to: path.into(),
                writable: false,
            });
        }
    }
    mounts
}

/// Whether a path exists and lies where a sandbox has something of its own.
fn is_covered(path: &Path) -> bool {
    let covered = ["/tmp", "/var/tmp", "/run", "/var/run"];
    path.exists() && covered.iter().any(|place| path.starts_with(place))
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.file_type().is_symlink())
}

/// The deepest writable folder that holds a path.
fn writable_above<'a>(policy: &'a SandboxPolicy, path: &Path) -> Option<&'a Path> {
    policy
        .writable
        .iter()
        .filter(|folder| path.starts_with(folder))
        .max_by_key(|folder| depth(folder))
        .map(PathBuf::as_path)
}

/// The first link that must be held.
pub(crate) fn needed_link(mounts: &[Mount]) -> Option<&Path> {
    mounts.iter().find_map(|mount| match mount {
        Mount::Link { at, needed: true } => Some(at.as_path()),
        _ => None,
    })
}

/// The arguments for bubblewrap, which can't hold links.
pub(crate) fn bubblewrap_arguments(mounts: &[Mount]) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut push = |parts: &[&OsStr]| words.extend(parts.iter().map(OsString::from));
    for mount in mounts {
        match mount {
            Mount::Bind { from, to, writable } => {
                let option = if *writable { "--bind" } else { "--ro-bind" };
                push(&[option.as_ref(), from.as_os_str(), to.as_os_str()]);
            }
            Mount::Memory(at) => push(&["--tmpfs".as_ref(), at.as_os_str()]),
            Mount::Hidden(at) => push(&[
                "--perms".as_ref(),
                "0000".as_ref(),
                "--tmpfs".as_ref(),
                at.as_os_str(),
                "--remount-ro".as_ref(),
                at.as_os_str(),
            ]),
            Mount::Searchable(at) => push(&[
                "--perms".as_ref(),
                "0711".as_ref(),
                "--tmpfs".as_ref(),
                at.as_os_str(),
            ]),
            Mount::Sealed(at) => push(&["--remount-ro".as_ref(), at.as_os_str()]),
            Mount::Link { .. } => {}
        }
    }
    words
}

/// The arguments for the small helper.
pub(crate) fn helper_arguments(mounts: &[Mount]) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for mount in mounts {
        let (option, paths): (&str, &[&PathBuf]) = match mount {
            Mount::Bind { from, to, writable } => {
                (if *writable { "--bind" } else { "--ro-bind" }, &[from, to])
            }
            Mount::Memory(at) => ("--tmpfs", &[at]),
            Mount::Hidden(at) => ("--hide", &[at]),
            Mount::Searchable(at) => ("--searchable", &[at]),
            Mount::Sealed(at) => ("--seal", &[at]),
            Mount::Link { at, .. } => ("--link", &[at]),
        };
        words.push(option.into());
        words.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
    }
    words
}

/// The mounts as one argument of our own helper, and back.
pub(crate) fn encode(mounts: &[Mount]) -> OsString {
    let mut bytes = Vec::new();
    for mount in mounts {
        let (kind, from, to) = match mount {
            Mount::Bind {
                from,
                to,
                writable: true,
            } => (b'w', from.as_path(), to),
            Mount::Bind {
                from,
                to,
                writable: false,
            } => (b'r', from.as_path(), to),
            Mount::Memory(at) => (b'm', Path::new(""), at),
            Mount::Hidden(at) => (b'h', Path::new(""), at),
            Mount::Searchable(at) => (b's', Path::new(""), at),
            Mount::Sealed(at) => (b'e', Path::new(""), at),
            Mount::Link { at, .. } => (b'l', Path::new(""), at),
        };
        bytes.push(kind);
        for path in [from, to] {
            for byte in path.as_os_str().as_bytes() {
                // The two bytes that separate, and the one that escapes.
                if matches!(byte, b'\n' | b'\t' | b'\\') {
                    bytes.extend_from_slice(&[b'\\', byte.wrapping_add(64)]);
                } else {
                    bytes.push(*byte);
                }
            }
            bytes.push(b'\t');
        }
        bytes.push(b'\n');
    }
    OsString::from_vec(bytes)
}

pub(crate) fn decode(text: &OsStr) -> Vec<Mount> {
    let path = |bytes: &[u8]| {
        let mut plain = Vec::with_capacity(bytes.len());
        let mut rest = bytes.iter();
        while let Some(&byte) = rest.next() {
            match byte {
                b'\\' => plain.extend(rest.next().map(|byte| byte.wrapping_sub(64))),
                _ => plain.push(byte),
            }
        }
        PathBuf::from(OsString::from_vec(plain))
    };
    let lines = text.as_bytes().split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| {
            let (kind, rest) = line.split_first()?;
            let mut paths = rest.split(|&byte| byte == b'\t').map(path);
            let (from, to) = (paths.next()?, paths.next()?);
            Some(match kind {
                b'w' | b'r' => Mount::Bind {
                    from,
                    to,
                    writable: *kind == b'w',
                },
                b'm' => Mount::Memory(to),
                b's' => Mount::Searchable(to),
                b'e' => Mount::Sealed(to),
                b'l' => Mount::Link {
                    at: to,
                    needed: true,
                },
                _ => Mount::Hidden(to),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox_policy::{Absent, Protected};
    use std::fs;

    #[test]
    fn what_is_mounted_comes_from_the_top_to_the_bottom() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in [
            "w/.git/modules/sub/hooks",
            "w/.lathe/worktrees/a",
            "home/.ssh",
        ] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let state = State::new(&base.join("state")).unwrap();
        let mut stubs = Stubs::new(state.folder());
        let protected = |name: &str| Protected {
            path: base.join(name),
            absent: Absent::Ignored,
        };
        let policy = SandboxPolicy {
            writable: vec![base.join("w"), base.join("w/.lathe/worktrees/a")],
            protected: vec![
                protected("w/.lathe"),
                protected("w/.git/modules/sub/hooks"),
                protected("w/absent"),
            ],
            hidden: vec![base.join("home/.ssh")],
            ..SandboxPolicy::default()
        };
        let mounts = plan(&policy, &state, &Needs::default(), &mut stubs).unwrap();
        let words: Vec<String> = bubblewrap_arguments(&mounts)
            .iter()
            .map(|word| {
                word.to_string_lossy()
                    .replace(&base.display().to_string(), "")
            })
            .collect();
        let text = words.join(" ");
        let position = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part} in {text}"))
        };
        assert!(position("--bind /w /w") < position("--ro-bind /w/.lathe /w/.lathe"));
        assert!(
            position("--ro-bind /w/.lathe /w/.lathe") < position("--bind /w/.lathe/worktrees/a")
        );
        assert!(
            position("--bind /w/.git /w/.git") < position("--bind /w/.git/modules /w/.git/modules")
        );
        assert!(
            position("--bind /w/.git/modules/sub /w")
                < position("--ro-bind /w/.git/modules/sub/hooks")
        );
        assert!(position("--perms 0000 --tmpfs /home/.ssh --remount-ro /home/.ssh") > 0);
        assert!(!text.contains("absent"));
        assert_eq!(decode(&encode(&mounts)), mounts);
    }

    #[test]
    fn what_is_shown_in_a_hidden_folder_can_be_reached() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["home/.ssh/known_hosts", "home/.aws/credentials", "masked"] {
            let path = base.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir(base.join("home/.gnupg")).unwrap();
        let state = State::new(&base.join("state")).unwrap();
        let mut stubs = Stubs::new(state.folder());
        let policy = SandboxPolicy {
            hidden: [".ssh", ".aws", ".gnupg"]
                .map(|name| base.join("home").join(name))
                .to_vec(),
            shown: vec![base.join("home/.ssh/known_hosts")],
            masked: vec![crate::Masked {
                path: base.join("home/.aws/credentials"),
                stand_in: base.join("masked"),
            }],
            ..SandboxPolicy::default()
        };
        let mounts = plan(&policy, &state, &Needs::default(), &mut stubs).unwrap();
        assert_eq!(decode(&encode(&mounts)), mounts);
        let at = |wanted: Mount| mounts.iter().position(|mount| *mount == wanted);
        for name in [".ssh", ".aws"] {
            let folder = base.join("home").join(name);
            let inside = mounts.iter().position(
                |mount| matches!(mount, Mount::Bind { to, .. } if to.starts_with(&folder)),
            );
            assert!(at(Mount::Searchable(folder.clone())) < inside, "{mounts:?}");
            assert!(inside < at(Mount::Sealed(folder)), "{mounts:?}");
        }
        assert!(at(Mount::Hidden(base.join("home/.gnupg"))).is_some());
    }

    #[test]
    fn any_path_can_be_encoded() {
        let mounts = vec![Mount::Bind {
            from: "/a\tb\n\\c\\".into(),
            to: "/\u{e4} \n".into(),
            writable: true,
        }];
        assert_eq!(decode(&encode(&mounts)), mounts);
    }
}
