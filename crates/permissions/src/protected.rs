//! Which paths need confirmation whatever the rules say, and which are secrets.
//!
//! Two lists, both compared without regard to case (a file system may not care either):
//! - *protected*: a write there changes what Lathe itself may do, or what runs when a shell,
//!   git or a login starts. No rule and no mode lets such a write pass by itself.
//! - *secret*: a read there reveals keys and passwords. A rule can reopen a path.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Entries of `.lathe` and `.claude` that change the behaviour of Lathe.
const OWN_FOLDERS: &[&str] = &[".lathe", ".claude"];

/// Files that belong to the agent's own configuration wherever they are.
pub(crate) const OWN_FILES: &[&str] = &[
    ".mcp.json",
    ".latheignore",
    ".claudeignore",
    ".cursorignore",
    ".aiignore",
    ".claude.json",
    ".lathe.json",
];

/// Start-up files of shells and logins.
const STARTUP_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsessionrc",
    ".pam_environment",
];

/// Start-up files and folders by where they are: a path ends in it, or goes through it.
const STARTUP_PLACES: &[&[&str]] = &[
    &[".config", "fish"],
    &[".config", "nushell"],
    &[".config", "environment.d"],
    &[".config", "autostart"],
    &[".config", "systemd"],
    &["Library", "LaunchAgents"],
    &["etc", "profile"],
    &["etc", "profile.d"],
    &["etc", "bash.bashrc"],
    &["etc", "bashrc"],
    &["etc", "zsh"],
    &["etc", "environment"],
    &["etc", "sudoers"],
    &["etc", "sudoers.d"],
    &["etc", "ld.so.preload"],
    &["etc", "cron.d"],
    &["etc", "crontab"],
    &["etc", "cron.daily"],
    &["etc", "cron.hourly"],
    &["etc", "cron.weekly"],
    &["etc", "cron.monthly"],
    &["etc", "init.d"],
    &["etc", "pam.d"],
    &["etc", "passwd"],
    &["etc", "group"],
    &["etc", "rc.local"],
    &["etc", "ssh"],
    &["etc", "systemd"],
    &["var", "spool", "cron"],
];

/// Credentials by where they are, from some folder on (usually home).
const CREDENTIAL_PLACES: &[&[&str]] = &[
    &[".ssh"],
    &[".gnupg"],
    &[".aws"],
    &[".azure"],
    &[".oci"],
    &[".kube"],
    &[".config", "gcloud"],
    &[".config", "gh", "hosts.yml"],
    &[".config", "glab-cli"],
    &[".config", "doctl"],
    &[".config", "op"],
    &[".config", "rclone"],
    &[".config", "git", "credentials"],
    &[".docker", "config.json"],
    &[".terraform.d", "credentials.tfrc.json"],
    &[".cargo", "credentials"],
    &[".cargo", "credentials.toml"],
    &[".gem", "credentials"],
    &[".m2", "settings-security.xml"],
    &[".password-store"],
    &[".netrc"],
    &["_netrc"],
    &[".git-credentials"],
    &[".pypirc"],
    &[".pgpass"],
    &[".my.cnf"],
    &[".vault-token"],
    &[".boto"],
    &[".s3cfg"],
    &["etc", "shadow"],
    &["etc", "gshadow"],
    &["etc", "ssl", "private"],
];

/// Further secrets by where they are: keyrings and browser profiles.
const SECRET_PLACES: &[&[&str]] = &[
    &[".local", "share", "keyrings"],
    &[".local", "share", "kwalletd"],
    &[".local", "share", "password-store"],
    &["Library", "Keychains"],
    &["Library", "Cookies"],
    &[".mozilla"],
    &[".thunderbird"],
    &[".config", "google-chrome"],
    &[".config", "google-chrome-beta"],
    &[".config", "chromium"],
    &[".config", "BraveSoftware"],
    &[".config", "microsoft-edge"],
    &[".config", "vivaldi"],
    &[".config", "opera"],
    &["snap", "firefox"],
    &["snap", "chromium"],
    &[".var", "app", "org.mozilla.firefox"],
    &[".var", "app", "com.google.Chrome"],
    &["Library", "Application Support", "Google", "Chrome"],
    &["Library", "Application Support", "Firefox"],
    &["Library", "Application Support", "BraveSoftware"],
    &["Library", "Application Support", "Microsoft Edge"],
];

/// Endings of files that hold private keys or key stores.
const KEY_ENDINGS: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".ppk",
    ".jks",
    ".keystore",
    ".kdbx",
    ".p8",
    ".asc.key",
];

/// Names of private keys.
const KEY_NAMES: &[&str] = &[
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_ecdsa_sk",
    "id_ed25519_sk",
];

/// Endings of `.env` files that are there to be read.
const TEMPLATE_ENDINGS: &[&str] = &[
    ".example",
    ".sample",
    ".template",
    ".dist",
    ".defaults",
    ".tmpl",
    ".schema",
];

/// Where Lathe's own things lie for a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnPlaces<'a> {
    /// As written, and with links followed.
    pub(crate) config_homes: [&'a Path; 2],
    /// Inside protected folders, and still the session's own to write: the plan, its notes.
    pub(crate) session_paths: &'a [PathBuf],
    /// The folder with the sockets of sessions.
    pub(crate) sockets: Option<&'a Path>,
}

/// Folders of the config home through which sessions are controlled: sockets, and the server's devices and keys.
pub(crate) const CONTROL_FOLDERS: &[&str] = &["run", "server"];

impl OwnPlaces<'_> {
    /// Whether who can use a path could answer the questions of a session.
    fn controls_sessions(&self, path: &Path) -> bool {
        let below = |folder: &Path| crate::path::starts_with(path, folder, true);
        self.sockets.is_some_and(below)
            || self.config_homes.iter().any(|home| {
                CONTROL_FOLDERS
                    .iter()
                    .any(|folder| below(&home.join(folder)))
            })
    }
}

/// The start-up files and places in a home folder, and what git reads there.
pub(crate) fn startup_names() -> impl Iterator<Item = PathBuf> {
    let places = STARTUP_PLACES
        .iter()
        .filter(|place| place[0] != "etc" && place[0] != "var");
    let places = places.map(|place| place.iter().collect());
    let own = OWN_FOLDERS.iter().chain(&[".gitconfig", ".config/git"]);
    let files = STARTUP_FILES.iter().chain(own);
    files.map(PathBuf::from).chain(places)
}

/// The places of credentials, keyrings and browser profiles that exist in a home folder, and those of the system.
pub(crate) fn secret_places(home: &Path) -> Vec<PathBuf> {
    let all = CREDENTIAL_PLACES.iter().chain(SECRET_PLACES);
    all.map(|place| {
        let path: PathBuf = place.iter().collect();
        let base = if place[0] == "etc" {
            Path::new("/")
        } else {
            home
        };
        base.join(path)
    })
    .filter(|path| path.exists())
    .collect()
}

/// Why a write to this path needs confirmation, if it does.
pub(crate) fn protected(path: &Path, own: OwnPlaces<'_>) -> Option<String> {
    if own
        .session_paths
        .iter()
        .any(|session| path.starts_with(session))
    {
        return None;
    }
    let shown = path.display();
    if own.controls_sessions(path) {
        return Some(format!("`{shown}` controls sessions"));
    }
    if own
        .config_homes
        .iter()
        .any(|home| crate::path::starts_with(path, home, true))
    {
        return Some(format!("`{shown}` belongs to Lathe's own configuration"));
    }
    if is_device(path) {
        return Some(format!("`{shown}` is a device"));
    }
    if is_kernel_control(path) {
        return Some(format!("`{shown}` controls the kernel"));
    }
    let names = names_of(path);
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let names = inside_worktree(&names);
    let last = names.last().copied()?;
    if names.iter().any(|name| is_one_of(name, OWN_FOLDERS)) || is_one_of(last, OWN_FILES) {
        return Some(format!(
            "`{shown}` contains settings, hooks, skills or commands that Lathe uses"
        ));
    }
    if let Some(why) = git_control(names) {
        return Some(format!("`{shown}` {why}"));
    }
    if is_one_of(last, STARTUP_FILES) || goes_through(names, STARTUP_PLACES) {
        return Some(format!("`{shown}` runs when a shell or a session starts"));
    }
    if goes_through(names, CREDENTIAL_PLACES) {
        return Some(format!("`{shown}` holds keys or credentials"));
    }
    windows_trick(path).map(|why| format!("`{shown}` {why}"))
}

/// Whether a path is protected for its spelling only.
pub(crate) fn is_odd(path: &Path) -> bool {
    windows_trick(path).is_some()
}

/// Whether a path is a settings file of ours or of the ecosystem.
pub(crate) fn is_settings_file(path: &Path) -> bool {
    let names = names_of(path);
    let folder = names.len().checked_sub(2).and_then(|at| names.get(at));
    folder.is_some_and(|folder| is_one_of(folder, &[".lathe", ".claude"]))
        && names
            .last()
            .is_some_and(|last| is_one_of(last, &["settings.json", "settings.local.json"]))
}

/// Whether a path names a device other than terminals, pipes and memory.
fn is_device(path: &Path) -> bool {
    const FREE: [&str; 12] = [
        "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd",
        "shm", "pts",
    ];
    path.strip_prefix("/dev")
        .ok()
        .and_then(|inside| inside.iter().next())
        .is_some_and(|name| !FREE.iter().any(|free| name == *free))
}

/// Whether a write to a path changes the running system or another process.
fn is_kernel_control(path: &Path) -> bool {
    let of_process = path.strip_prefix("/proc").is_ok_and(|inside| {
        inside
            .components()
            .nth(1)
            .is_some_and(|name| name.as_os_str() == "fd")
    });
    path.starts_with("/sys") || (path.starts_with("/proc") && !of_process)
}

/// Files that name programs for tools to run, or other versions of tools, by name.
const PROGRAM_FILES: &[&str] = &[
    ".npmrc",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    "pnpmfile.js",
    "pnpm-workspace.yaml",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "go.work",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".envrc",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".python-version",
    ".ruby-version",
    ".node-version",
    ".nvmrc",
    ".java-version",
    ".gitattributes",
    ".gitmodules",
    ".gitconfig",
    ".lfsconfig",
    "global.json",
    "nuget.config",
    "uv.toml",
    "poetry.toml",
    ".sbtopts",
    ".jvmopts",
    ".bazelrc",
    ".pre-commit-config.yaml",
    ".rspec",
    ".irbrc",
    ".pryrc",
    ".erlang",
    "pip.conf",
];

/// Such files and folders by where they are.
const PROGRAM_PLACES: &[&[&str]] = &[
    &[".cargo", "config"],
    &[".cargo", "config.toml"],
    &[".mvn"],
    &["gradle", "wrapper"],
    &[".bundle", "config"],
    &[".husky"],
    &[".yarn", "releases"],
    &[".yarn", "plugins"],
    &[".vscode", "tasks.json"],
    &[".vscode", "settings.json"],
    &[".devcontainer"],
    &[".mise", "config.toml"],
    &[".config", "mise"],
    &[".venv"],
    &["venv", "bin"],
    &["venv", "lib"],
    &["venv", "pyvenv.cfg"],
];

/// A file that tools take programs from and that could come to be below a folder, by the folder's name.
pub(crate) fn program_file_below(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    PROGRAM_PLACES
        .iter()
        .find(|place| {
            place.len() > 1
                && place
                    .first()
                    .is_some_and(|first| first.eq_ignore_ascii_case(name))
        })
        .map(|place| {
            place
                .iter()
                .skip(1)
                .fold(folder.to_path_buf(), |path, name| path.join(name))
        })
}

/// Why a file names programs that a tool would run, if it does: its writes need confirmation even where edits pass.
pub(crate) fn names_programs(path: &Path) -> Option<String> {
    let names = names_of(path);
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let names = inside_worktree(&names);
    let last = *names.last()?;
    let shown = path.display();
    if is_one_of(last, PROGRAM_FILES) || goes_through(names, PROGRAM_PLACES) {
        return Some(format!("`{shown}` can name programs that tools run"));
    }
    // What git needs to take a folder for a repository.
    let folder = path.parent()?;
    let bare = match last {
        "HEAD" | "commondir" => true,
        "config" | "hooks" => {
            folder.join("HEAD").exists()
                || folder.join("objects").exists()
                || folder.join("refs").exists()
        }
        _ => false,
    };
    bare.then(|| {
        format!("`{shown}` can turn its folder into a git repository with its own settings")
    })
}

/// The names below an agent's worktree (`.lathe/worktrees/<name>/…`): a project like any other, whose
/// own settings are protected as they are elsewhere. Any other path as it is.
fn inside_worktree<'a>(names: &'a [&'a str]) -> &'a [&'a str] {
    let at = names.windows(2).position(|pair| {
        pair[0].eq_ignore_ascii_case(".lathe") && pair[1].eq_ignore_ascii_case("worktrees")
    });
    match at {
        Some(at) if names.len() > at + 3 => &names[at + 3..],
        _ => names,
    }
}

/// Whether git would run or obey what is written there.
fn git_control(names: &[&str]) -> Option<&'static str> {
    let last = *names.last()?;
    if is_one_of(last, &[".gitconfig", ".gitmodules"])
        || goes_through(names, &[&[".config", "git"]])
    {
        return Some("tells git what to run");
    }
    let inside = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(".git"))
        .map(|at| &names[at + 1..])?;
    if inside.is_empty() {
        return Some("is a repository's own folder");
    }
    if inside.iter().any(|name| name.eq_ignore_ascii_case("hooks")) {
        return Some("holds hooks that git runs");
    }
    let is_config = is_one_of(
        last,
        &[
            "config",
            "config.worktree",
            "attributes",
            "gitdir",
            "commondir",
            "alternates",
        ],
    );
    is_config.then_some("tells git what to run")
}

/// Whether the names contain one of the places, name after name.
fn goes_through(names: &[&str], places: &[&[&str]]) -> bool {
    places.iter().any(|place| {
        names.windows(place.len()).any(|window| {
            window
                .iter()
                .zip(*place)
                .all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
        })
    })
}

/// Names that Windows file systems read as other names.
fn windows_trick(path: &Path) -> Option<&'static str> {
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let name = name.to_string_lossy();
        if name.contains("::$") {
            return Some("names an alternate data stream");
        }
        if name.ends_with('.') || name.ends_with(' ') {
            return Some("ends in a dot or blank, which Windows drops");
        }
        let stem = name.split('.').next().unwrap_or("");
        if is_short_name(stem) {
            return Some("looks like a short Windows name of another file");
        }
        let device = stem.to_ascii_uppercase();
        let numbered = |prefix: &str| {
            device.strip_prefix(prefix).is_some_and(|rest| {
                rest.len() == 1 && rest.starts_with(|digit: char| ('1'..='9').contains(&digit))
            })
        };
        if matches!(device.as_str(), "CON" | "PRN" | "AUX" | "NUL")
            || numbered("COM")
            || numbered("LPT")
        {
            return Some("is a device's name on Windows");
        }
    }
    None
}

/// `GIT~1` and the like: up to six characters, a tilde, digits.
fn is_short_name(stem: &str) -> bool {
    stem.split_once('~').is_some_and(|(front, digits)| {
        !front.is_empty()
            && front.len() <= 6
            && !digits.is_empty()
            && digits.len() <= 2
            && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// Why this path is a secret, if it is one.
pub(crate) fn secret(path: &Path, own: OwnPlaces<'_>) -> Option<String> {
    let names = names_of(path);
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let last = *names.last()?;
    let shown = path.display();
    let is_environment =
        starts_so(last, ".env") && !TEMPLATE_ENDINGS.iter().any(|ending| ends_so(last, ending));
    if is_environment {
        return Some(format!("`{shown}` usually holds passwords and keys"));
    }
    let private_key = is_one_of(last, KEY_NAMES)
        || KEY_ENDINGS
            .iter()
            .any(|ending| ends_so(last, ending) && last.len() > ending.len());
    if private_key {
        return Some(format!("`{shown}` looks like a private key"));
    }
    if goes_through(&names, CREDENTIAL_PLACES) {
        return Some(format!("`{shown}` holds keys or credentials"));
    }
    if goes_through(&names, SECRET_PLACES) {
        return Some(format!(
            "`{shown}` belongs to a keyring or a browser profile"
        ));
    }
    if names.first() == Some(&"proc") && matches!(last, "environ" | "mem") {
        return Some(format!("`{shown}` shows what a process keeps in memory"));
    }
    if own.controls_sessions(path) {
        return Some(format!("`{shown}` controls sessions"));
    }
    let in_own_folder = own
        .config_homes
        .iter()
        .any(|home| crate::path::starts_with(path, home, true));
    let own_credentials = in_own_folder
        && ["credential", "token", "auth.json"]
            .iter()
            .any(|word| last.to_lowercase().contains(word));
    own_credentials.then(|| format!("`{shown}` holds Lathe's own credentials"))
}

fn names_of(path: &Path) -> Vec<Cow<'_, str>> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        })
        .collect()
}

/// Whether a name is one of these, in whatever case.
fn is_one_of(name: &str, known: &[&str]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn starts_so(name: &str, start: &str) -> bool {
    name.get(..start.len())
        .is_some_and(|front| front.eq_ignore_ascii_case(start))
}

fn ends_so(name: &str, end: &str) -> bool {
    let at = name.len().checked_sub(end.len());
    at.and_then(|at| name.get(at..))
        .is_some_and(|back| back.eq_ignore_ascii_case(end))
}

/// The file of a project that names its secrets.
const IGNORE_FILE: &str = ".latheignore";
/// Files of other programs that name what a model may not see.
const FOREIGN_IGNORE_FILES: &[&str] = &[".claudeignore", ".cursorignore", ".aiignore"];
/// Files of other programs that name what is not searched.
const UNREAD_IGNORE_FILES: &[&str] = &[".geminiignore", ".crushignore"];

fn add_lines(builder: &mut GitignoreBuilder, file: &Path, text: &str, problems: &mut Vec<String>) {
    for (index, line) in text.lines().enumerate() {
        if let Err(error) = builder.add_line(None, line) {
            problems.push(format!("{}:{}: {error}", file.display(), index + 1));
        }
    }
}

/// A project's `.latheignore`: further paths that are secrets there, in the format of `.gitignore`.
#[derive(Debug, Clone)]
pub struct IgnoreFile {
    root: PathBuf,
    patterns: Arc<Gitignore>,
}

impl IgnoreFile {
    /// Reads `.latheignore` and its kin in a folder. Without such a file there is nothing; lines that are not
    /// patterns are returned as problems.
    #[must_use]
    pub fn load(folder: &Path) -> (Option<Self>, Vec<String>) {
        // Paths are compared with their links followed.
        let folder = &crate::path::real_folder(folder);
        let mut builder = GitignoreBuilder::new(folder);
        let mut problems = Vec::new();
        let mut any = false;
        // Ours last, so that it has the last word.
        for name in FOREIGN_IGNORE_FILES.iter().chain(&[IGNORE_FILE]) {
            let file = folder.join(name);
            match lathe_settings::regular_file::read_text(&file) {
                Ok(text) => {
                    any = true;
                    add_lines(&mut builder, &file, &text, &mut problems);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => problems.push(format!(
                    "{}: can't be read: {error}; its secrets are not known",
                    file.display()
                )),
            }
        }
        for name in UNREAD_IGNORE_FILES {
            if folder.join(name).is_file() {
                problems.push(format!(
                    "{}: not read, because it names what is not searched rather than what is secret; name secrets in {IGNORE_FILE}",
                    folder.join(name).display()
                ));
            }
        }
        if !any {
            return (None, problems);
        }
        (Some(Self::built(folder, &builder, &mut problems)), problems)
    }

    /// The same from a text.
    #[must_use]
    pub fn of_text(folder: &Path, text: &str) -> (Self, Vec<String>) {
        let mut builder = GitignoreBuilder::new(folder);
        let mut problems = Vec::new();
        add_lines(&mut builder, &folder.join(IGNORE_FILE), text, &mut problems);
        let ignore = Self::built(folder, &builder, &mut problems);
        (ignore, problems)
    }

    fn built(folder: &Path, builder: &GitignoreBuilder, problems: &mut Vec<String>) -> Self {
        let patterns = builder.build().unwrap_or_else(|error| {
            problems.push(format!("{}: {error}", folder.join(IGNORE_FILE).display()));
            Gitignore::empty()
        });
        Self {
            root: folder.to_path_buf(),
            patterns: Arc::new(patterns),
        }
    }

    /// Whether the file names this path or a folder that it lies in.
    #[must_use]
    pub fn names(&self, path: &Path) -> bool {
        let Ok(inside) = path.strip_prefix(&self.root) else {
            return false;
        };
        if inside.as_os_str().is_empty() {
            return false;
        }
        // Whether it is a folder is not asked of the file system: a pattern for folders (`x/`)
        // then also names a file of that name, which errs on the careful side.
        self.patterns
            .matched_path_or_any_parents(inside, true)
            .is_ignore()
    }
}

#[cfg(test)]
mod tests;
