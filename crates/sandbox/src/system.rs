//! The folders that programs need whatever they do: libraries, interpreters, the system's settings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folders that belong to the system: programs and their files.
const PROGRAMS: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
];

/// Files and folders of the system that hold no programs.
const FILES: [&str; 8] = [
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/current-system",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/pacman",
    "/dev/fd",
];

/// Files of common tools in the home folder besides secrets. Credentials (`.cargo/credentials.toml`,
/// `.npmrc`, `.netrc`, `.ssh`, …) are not among them.
const HOME_PROGRAMS: [&str; 20] = [
    ".cargo/bin",
    ".rustup",
    ".local/bin",
    ".local/lib",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/fnm",
    ".nvm",
    ".fnm",
    ".volta",
    ".bun/bin",
    ".deno/bin",
    ".pyenv",
    ".rbenv",
    ".asdf",
    ".sdkman/candidates",
    ".nix-profile",
    ".local/state/nix",
    "go/bin",
];

/// Settings and caches of common tools in the home folder.
const HOME_FILES: [&str; 12] = [
    ".gitconfig",
    ".config/git",
    ".gitignore",
    ".gitignore_global",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/config.toml",
    ".cargo/config",
    ".cargo/.package-cache",
    ".terminfo",
    ".inputrc",
    "go/pkg/mod",
];

/// Which paths of the system a confined process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemPaths {
    /// Readable paths.
    pub readable: Vec<PathBuf>,
    /// Readable and executable paths.
    pub executable: Vec<PathBuf>,
    /// The folders of the search path.
    pub searched: Vec<PathBuf>,
    /// The home folder.
    pub home: Option<PathBuf>,
}

impl SystemPaths {
    /// The system's paths for a process with this search path and home folder.
    #[must_use]
    pub fn find(search_path: Option<&OsStr>, home: Option<&Path>) -> Self {
        let home = home.filter(|home| home.is_absolute() && *home != Path::new("/"));
        let mut found = Self {
            home: home.map(Path::to_path_buf),
            ..Self::default()
        };
        let add = |list: &mut Vec<PathBuf>, path: PathBuf| {
            if path.is_absolute() && !list.contains(&path) && path.exists() {
                list.push(path);
            }
        };
        for path in PROGRAMS {
            add(&mut found.executable, path.into());
        }
        for path in FILES {
            add(&mut found.readable, path.into());
        }
        for path in settings_of_the_system() {
            add(&mut found.readable, path);
        }
        if let Some(home) = home {
            for path in HOME_PROGRAMS {
                add(&mut found.executable, home.join(path));
            }
            for path in HOME_FILES {
                add(&mut found.readable, home.join(path));
            }
        }
        for path in search_path.into_iter().flat_map(std::env::split_paths) {
            let is_whole_home = home.is_some_and(|home| home.starts_with(&path));
            let known = found.executable.iter().any(|known| path.starts_with(known));
            if !is_whole_home && !known && path != Path::new("/") {
                add(&mut found.searched, path);
            }
        }
        found
    }
}

/// The system's settings. Root could read everybody's secrets there, so only these are named then.
fn settings_of_the_system() -> Vec<PathBuf> {
    const HARMLESS: [&str; 30] = [
        "alternatives",
        "bash.bashrc",
        "ca-certificates",
        "ca-certificates.conf",
        "debian_version",
        "default",
        "environment",
        "gitconfig",
        "group",
        "host.conf",
        "hostname",
        "hosts",
        "inputrc",
        "java-17-openjdk",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "locale.alias",
        "locale.conf",
        "localtime",
        "mime.types",
        "nsswitch.conf",
        "os-release",
        "passwd",
        "profile",
        "protocols",
        "resolv.conf",
        "services",
        "ssl/certs",
        "timezone",
    ];
    // SAFETY: asks for a number and can't fail.
    if unsafe { libc::geteuid() } != 0 {
        return vec!["/etc".into()];
    }
    let etc = Path::new("/etc");
    HARMLESS.iter().map(|name| etc.join(name)).collect()
}

/// The folders outside a work tree that hold its repository: for a linked worktree or a submodule,
/// `.git` is a file that names them.
#[must_use]
pub fn repository_folders(work_tree: &Path) -> Vec<PathBuf> {
    let Some(git) = work_tree
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.exists())
    else {
        return Vec::new();
    };
    if git.is_dir() {
        return vec![git];
    }
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let Some(named) = read(&git)
        .as_deref()
        .and_then(|text| text.strip_prefix("gitdir:"))
        .map(|path| PathBuf::from(path.trim()))
    else {
        return Vec::new();
    };
    let folder = git.parent().unwrap_or(Path::new("/")).join(named);
    let common = read(&folder.join("commondir"))
        .map(|path| folder.join(path.trim()))
        .and_then(|path| path.canonicalize().ok());
    [Some(folder), common].into_iter().flatten().collect()
}
