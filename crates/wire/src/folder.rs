//! Where sockets are, how they are named and locked, and the list of live sessions.
//!
//! A host with the id `3f2a…` (12 characters) has three files in the [`Folder`]: `3f2a….lock`, which it keeps locked as
//! long as it lives, `3f2a….sock`, and `3f2a….json`, a [`HostInfo`] that it replaces when something changes. Nobody
//! supervises: a host whose lock is free is gone, and the first process that notices removes what it left.

use lathe_protocol::ids::SessionId;
use lathe_settings::Environment;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest path of a socket: `sun_path` of macOS, the shortest there is.
pub const LONGEST_PATH: usize = 104;

/// How often a lock is tried: a list of hosts may have it for a moment.
const LOCK_TRIES: u32 = 20;

/// Names a host: the first twelve digits of the session that it began with.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostId(String);

impl HostId {
    /// How many characters it has.
    pub const LENGTH: usize = 12;

    /// The id of the host of a session.
    #[must_use]
    pub fn of(session: SessionId) -> Self {
        let mut digits = session.0.simple().to_string();
        digits.truncate(Self::LENGTH);
        Self(digits)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Text that is no id of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no id of a session: ids have 12 characters, 0 to 9 and a to f")]
pub struct NotAnId(pub String);

impl FromStr for HostId {
    type Err = NotAnId;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits && text.len() == Self::LENGTH {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAnId(text.to_owned()))
        }
    }
}

impl TryFrom<String> for HostId {
    type Error = NotAnId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<HostId> for String {
    fn from(id: HostId) -> Self {
        id.0
    }
}

/// The activity of a session.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// A question waits for an answer.
    NeedsYou,
    /// A turn runs.
    Working,
    /// Nothing to do.
    #[default]
    Idle,
}

impl HostState {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs you",
            Self::Working => "working",
            Self::Idle => "idle",
        }
    }
}

/// A live host, as its own file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostInfo {
    /// The host.
    pub id: HostId,
    /// Its session now.
    pub session_id: SessionId,
    /// The session's name.
    #[serde(default)]
    pub title: Option<String>,
    /// The session's working folder.
    pub folder: PathBuf,
    /// Its activity.
    pub state: HostState,
    /// The process.
    pub pid: i32,
    /// The config home, which other config homes' lists leave out.
    pub config_home: PathBuf,
    /// Whether it has no terminal of its own.
    #[serde(default)]
    pub background: bool,
    /// How many clients are connected.
    #[serde(default)]
    pub clients: usize,
    /// The question or the last activity, in a line.
    #[serde(default)]
    pub activity: Option<String>,
    /// Whether the last turn failed.
    #[serde(default)]
    pub failed: bool,
    /// When it began, in milliseconds since 1970.
    #[serde(default)]
    pub started_ms: u64,
    /// When the state changed last, in milliseconds since 1970.
    #[serde(default)]
    pub changed_ms: u64,
}

/// Why the folder of sockets can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It can't be made or read.
    #[error("the folder of sockets {path} can't be used: {error}")]
    Io {
        /// The folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Others could write to it.
    #[error(
        "the folder of sockets {path} is not private: {why}. Remove it, or `chmod 700` it if it is yours"
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The path of a socket would be longer than systems allow.
    #[error(
        "the path of sockets {path} is too long ({LONGEST_PATH} bytes are allowed). Set XDG_RUNTIME_DIR to a shorter one"
    )]
    TooLong {
        /// The folder.
        path: PathBuf,
    },
}

/// Why a host can't have its id.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process has it.
    #[error("another process hosts this session already (`lathe attach {0}` opens it)")]
    Taken(HostId),
    /// The files can't be made.
    #[error("the files of the session's socket can't be made: {0}")]
    Io(#[from] io::Error),
}

/// The folder with the sockets of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    config_home: PathBuf,
}

impl Folder {
    /// The folder for an environment: `$XDG_RUNTIME_DIR/lathe`, else `run` in the config home. Nothing is made yet.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        Self {
            path: lathe_settings::paths::socket_folder(environment),
            config_home: lathe_settings::paths::config_home(environment),
        }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The config home that hosts are listed for.
    #[must_use]
    pub fn config_home(&self) -> &Path {
        &self.config_home
    }

    /// The socket of a host.
    #[must_use]
    pub fn socket(&self, id: &HostId) -> PathBuf {
        self.path.join(format!("{id}.sock"))
    }

    fn lock(&self, id: &HostId) -> PathBuf {
        self.path.join(format!("{id}.lock"))
    }

    fn description(&self, id: &HostId) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }

    /// Makes the folder if it is not there, and checks that nobody else can use it.
    ///
    /// # Errors
    /// If it can't be made, is not private, or its path is too long for a socket.
    pub fn prepare(&self) -> Result<(), FolderError> {
        let failed = |error| FolderError::Io {
            path: self.path.clone(),
            error,
        };
        let longest = self.path.as_os_str().len() + 1 + HostId::LENGTH + ".sock".len();
        if longest >= LONGEST_PATH {
            return Err(FolderError::TooLong {
                path: self.path.clone(),
            });
        }
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .map_err(failed)?;
        self.check()
    }

    fn check(&self) -> Result<(), FolderError> {
        let not_private = |why| FolderError::NotPrivate {
            path: self.path.clone(),
            why,
        };
        let found = fs::symlink_metadata(&self.path).map_err(|error| FolderError::Io {
            path: self.path.clone(),
            error,
        })?;
        if !found.is_dir() {
            return Err(not_private("it is no folder"));
        }
        if found.uid() != own_uid() {
            return Err(not_private("it belongs to another user"));
        }
        if found.permissions().mode() & 0o077 != 0 {
            return Err(not_private("others may enter it"));
        }
        Ok(())
    }

    /// Takes an id for this process, as long as the registration lives. What a dead host left is removed.
    ///
    /// # Errors
    /// If another process has it, or the files can't be made.
    pub fn claim(&self, id: &HostId) -> Result<Registration, ClaimError> {
        let path = self.lock(id);
        for _ in 0..LOCK_TRIES {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            if file.try_lock().is_err() {
                std::thread::sleep(std::time::Duration::from_millis(2));
                continue;
            }
            // A process that removed a dead host's files may have removed this one between the two steps.
            if is_same(&file, &path) {
                let _ = fs::remove_file(self.socket(id));
                return Ok(Registration {
                    folder: self.clone(),
                    id: id.clone(),
                    _lock: file,
                });
            }
        }
        Err(ClaimError::Taken(id.clone()))
    }

    /// The live hosts of this user and config home: those that need the user first, then the newest. A folder that
    /// is not there has none.
    ///
    /// # Errors
    /// If the folder is not private.
    pub fn hosts(&self) -> Result<Vec<HostInfo>, FolderError> {
        let mut hosts: Vec<HostInfo> = self
            .all_hosts()?
            .into_iter()
            .filter(|host| host.config_home == self.config_home)
            .collect();
        hosts.sort_by(|a, b| (a.state, b.changed_ms).cmp(&(b.state, a.changed_ms)));
        Ok(hosts)
    }

    /// The live hosts of this user, of every config home.
    ///
    /// # Errors
    /// If the folder is not private.
    pub fn all_hosts(&self) -> Result<Vec<HostInfo>, FolderError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(FolderError::Io {
                    path: self.path.clone(),
                    error,
                });
            }
        };
        self.check()?;
        let mut hosts = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".lock"));
            let Some(id) = id.and_then(|id| id.parse::<HostId>().ok()) else {
                continue;
            };
            if self.is_live(&id) {
                hosts.extend(self.read(&id));
            }
        }
        Ok(hosts)
    }

    /// Whether a host lives. What a dead one left is removed.
    #[must_use]
    pub fn is_live(&self, id: &HostId) -> bool {
        let path = self.lock(id);
        let Ok(file) = File::open(&path) else {
            return false;
        };
        if file.try_lock().is_err() {
            return true;
        }
        if is_same(&file, &path) {
            let _ = fs::remove_file(self.socket(id));
            let _ = fs::remove_file(self.description(id));
            let _ = fs::remove_file(&path);
        }
        false
    }

    /// The description of a host. `None` while it starts.
    #[must_use]
    pub fn read(&self, id: &HostId) -> Option<HostInfo> {
        let text = fs::read(self.description(id)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The live host that a text names: its id, the beginning of it, its session's id, or its name.
    ///
    /// # Errors
    /// If the folder can't be read, or several hosts match.
    pub fn find(&self, wanted: &str) -> Result<Option<HostInfo>, FindError> {
        let hosts = self.hosts()?;
        let simple = wanted.replace('-', "").to_ascii_lowercase();
        let by_id = |host: &&HostInfo| {
            simple.len() >= 4
                && (host.id.as_str().starts_with(&simple)
                    || host.session_id.0.simple().to_string().starts_with(&simple))
        };
        let by_name = |host: &&HostInfo| {
            host.title
                .as_deref()
                .is_some_and(|title| title.eq_ignore_ascii_case(wanted.trim()))
        };
        let mut found: Vec<&HostInfo> = hosts.iter().filter(by_id).collect();
        if found.is_empty() {
            found = hosts.iter().filter(by_name).collect();
        }
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((*one).clone())),
            several => Err(FindError::Several {
                wanted: wanted.to_owned(),
                ids: several.iter().map(|host| host.id.to_string()).collect(),
            }),
        }
    }
}

/// Why a live session was not found by a text.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The folder can't be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Several match.
    #[error("'{wanted}' names several sessions: {}", ids.join(", "))]
    Several {
        /// The text.
        wanted: String,
        /// The ids.
        ids: Vec<String>,
    },
}

/// An id that this process has. Dropping it removes the files.
#[derive(Debug)]
pub struct Registration {
    folder: Folder,
    id: HostId,
    _lock: File,
}

impl Registration {
    /// The id.
    #[must_use]
    pub fn id(&self) -> &HostId {
        &self.id
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Listens on the socket, which only this user can reach.
    ///
    /// # Errors
    /// If the socket can't be made.
    pub fn listen(&self) -> io::Result<tokio::net::UnixListener> {
        let path = self.folder.socket(&self.id);
        let _ = fs::remove_file(&path);
        let listener = tokio::net::UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Replaces the description.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn publish(&self, info: &HostInfo) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder.path)?;
        serde_json::to_writer(&mut file, info)?;
        file.flush()?;
        file.persist(self.folder.description(&self.id))?;
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.socket(&self.id));
        let _ = fs::remove_file(self.folder.description(&self.id));
        let _ = fs::remove_file(self.folder.lock(&self.id));
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => open.ino() == there.ino() && open.dev() == there.dev(),
        _ => false,
    }
}

/// The user of this process.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(root: &Path) -> Folder {
        let mut environment = Environment::of_variables([
            ("XDG_RUNTIME_DIR", root.to_string_lossy().into_owned()),
            (
                "LATHE_CONFIG_DIR",
                root.join("config").to_string_lossy().into_owned(),
            ),
        ]);
        environment.cwd = root.to_owned();
        Folder::of(&environment)
    }

    fn info(folder: &Folder, session: SessionId, title: &str) -> HostInfo {
        HostInfo {
            id: HostId::of(session),
            session_id: session,
            title: Some(title.to_owned()),
            folder: "/work".into(),
            state: HostState::Idle,
            pid: std::process::id().cast_signed(),
            config_home: folder.config_home.clone(),
            background: true,
            clients: 0,
            activity: None,
            failed: false,
            started_ms: 1,
            changed_ms: 1,
        }
    }

    #[test]
    fn the_folder_is_private_and_short_or_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        assert_eq!(folder.path(), root.path().join("lathe"));
        folder.prepare().unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);

        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(
            folder.prepare(),
            Err(FolderError::NotPrivate { .. })
        ));
        assert!(matches!(
            folder.hosts(),
            Err(FolderError::NotPrivate { .. })
        ));
        fs::remove_dir(folder.path()).unwrap();

        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.path()).unwrap();
        assert!(matches!(
            folder.prepare(),
            Err(FolderError::NotPrivate { .. })
        ));

        let deep = root.path().join("d".repeat(90));
        fs::create_dir(&deep).unwrap();
        assert!(matches!(
            self::folder(&deep).prepare(),
            Err(FolderError::TooLong { .. })
        ));
    }

    #[test]
    fn without_a_runtime_folder_it_is_in_the_config_home() {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().join("config").to_string_lossy().into_owned();
        for runtime in ["", "relative", "/there/is/no/such/folder"] {
            let environment = Environment::of_variables([
                ("XDG_RUNTIME_DIR", runtime),
                ("LATHE_CONFIG_DIR", config.as_str()),
            ]);
            assert_eq!(
                Folder::of(&environment).path(),
                root.path().join("config/run")
            );
        }
    }

    #[test]
    fn an_id_is_taken_once_and_free_again_afterwards() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        folder.prepare().unwrap();
        let session = SessionId::random();
        let id = HostId::of(session);
        let first = folder.claim(&id).unwrap();
        assert!(matches!(folder.claim(&id), Err(ClaimError::Taken(_))));
        assert!(folder.hosts().unwrap().is_empty(), "not described yet");
        first.publish(&info(&folder, session, "release")).unwrap();
        assert_eq!(folder.hosts().unwrap().len(), 1);
        drop(first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        folder.claim(&id).unwrap();
    }

    #[tokio::test]
    async fn what_a_dead_host_left_is_recognised_by_its_lock_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        folder.prepare().unwrap();
        let session = SessionId::random();
        let id = HostId::of(session);
        // As after SIGKILL: the files are there, and nobody has the lock.
        let dead = folder.claim(&id).unwrap();
        let listener = dead.listen().unwrap();
        dead.publish(&info(&folder, session, "release")).unwrap();
        let lock = fs::read(folder.lock(&id)).unwrap();
        let description = fs::read(folder.description(&id)).unwrap();
        drop(dead);
        drop(listener);
        fs::write(folder.lock(&id), lock).unwrap();
        fs::write(folder.description(&id), description).unwrap();
        fs::write(folder.socket(&id), "").unwrap();
        assert!(folder.hosts().unwrap().is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A folder with a socket that another user made is neither used nor listed nor cleaned.
    #[test]
    fn sockets_of_another_user_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = folder(root.path());
        folder.prepare().unwrap();
        let id = HostId::of(SessionId::random());
        fs::write(folder.lock(&id), "").unwrap();
        fs::write(folder.socket(&id), "").unwrap();
        if own_uid() == 0 {
            std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
        } else {
            folder.path = "/".into();
        }
        for refused in [folder.prepare(), folder.hosts().map(drop)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("belongs to another user"), "{error}");
        }
        if own_uid() == 0 {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_host_is_found_by_id_session_or_name() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        folder.prepare().unwrap();
        let one: SessionId = "aaaaaaaa-0d6e-4c1c-9a3f-1a2b3c4d5e6f".parse().unwrap();
        let two: SessionId = "aaaabbbb-0d6e-4c1c-9a3f-1a2b3c4d5e6f".parse().unwrap();
        let (first, second) = (
            folder.claim(&HostId::of(one)).unwrap(),
            folder.claim(&HostId::of(two)).unwrap(),
        );
        first.publish(&info(&folder, one, "release")).unwrap();
        second.publish(&info(&folder, two, "docs")).unwrap();
        let found = |text: &str| folder.find(text).unwrap().map(|host| host.session_id);
        assert_eq!(found("aaaaaaaa0d6e"), Some(one));
        assert_eq!(found("aaaaaaaa-0d6e-4c1c-9a3f-1a2b3c4d5e6f"), Some(one));
        assert_eq!(found("aaaab"), Some(two));
        assert_eq!(found("Docs"), Some(two));
        assert_eq!(found("aa"), None);
        assert_eq!(found("nothing"), None);
        assert!(matches!(
            folder.find("aaaa"),
            Err(FindError::Several { .. })
        ));
    }

    #[test]
    fn hosts_of_another_config_home_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(root.path());
        folder.prepare().unwrap();
        let session = SessionId::random();
        let registration = folder.claim(&HostId::of(session)).unwrap();
        let mut other = info(&folder, session, "x");
        other.config_home = "/elsewhere".into();
        registration.publish(&other).unwrap();
        assert!(folder.hosts().unwrap().is_empty());
        assert_eq!(folder.all_hosts().unwrap().len(), 1);
    }
}
