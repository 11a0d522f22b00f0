//! Members that are processes of their own: what one starts with, who runs, and what each spent.
//!
//! Every process holds a lock for as long as it lives, however it ends: the leader `alive.lock`, a member its own. Who
//! waits for such a lock learns of the end without asking, and nobody is left behind by a process that was killed.

use super::{TeamConfig, TeamError, TeamStore, check_name, locked};
use lathe_protocol::permission::PermissionMode;
use lathe_session::paths::{create_private_folder, write_private_file};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Held by the process that leads, until it ends.
pub(super) const ALIVE: &str = "alive.lock";
/// How long a process of an earlier leader may take to end before it is killed.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

/// How a member runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// As an agent of the leader's session.
    #[default]
    InProcess,
    /// As a session in the background.
    Process,
    /// As a session in a pane of tmux.
    Tmux,
}

impl Backend {
    /// Whether it is a process of its own.
    #[must_use]
    pub fn is_process(self) -> bool {
        self != Self::InProcess
    }
}

/// The process of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberProcess {
    /// Its session.
    pub session_id: String,
    /// This start of it; the process notes it when it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// Its number, once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// The order that a member starts with which is a process. The leader writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberOrder {
    /// Names this start.
    pub start: String,
    /// Its session, new or to be continued.
    pub session_id: String,
    /// The type of the agent.
    pub agent_type: String,
    /// Its model.
    pub model: String,
    /// How hard the model tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The leader's permission mode, which it has unless its own is narrower.
    pub mode: PermissionMode,
    /// The text that tells it about the team.
    pub briefing: String,
    /// Where its output goes, for who watches it beside the leader.
    pub output_file: PathBuf,
    /// The name of the worktree that it works in; `None` is the leader's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The flags of the leader, and the rights of its session.
    pub surroundings: Surroundings,
}

/// The settings and rights of the leader that are in no file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Surroundings {
    /// The values of `--settings`, the strongest last.
    pub settings: Vec<String>,
    /// The values of `--managed-settings`.
    pub managed: Vec<String>,
    /// The sources of settings; `None` is all.
    pub sources: Option<Vec<String>>,
    /// Further working folders.
    pub folders: Vec<PathBuf>,
    /// Folders with plugins.
    pub plugins: Vec<PathBuf>,
    /// Whether bypassPermissions may be entered.
    pub bypass: bool,
    /// Whether the sandbox is off.
    pub no_sandbox: bool,
    /// Dollars that are left.
    pub dollars: Option<f64>,
    /// Tokens that are left.
    pub tokens: Option<u64>,
}

/// Whose end is waited for.
#[derive(Debug, Clone)]
pub struct Process {
    lock: PathBuf,
}

impl Process {
    /// Blocks until it has ended.
    ///
    /// # Errors
    /// When the lock can't be used.
    pub fn wait(&self) -> Result<(), TeamError> {
        let file = File::create(&self.lock).map_err(TeamError::file(&self.lock))?;
        file.lock_shared().map_err(TeamError::file(&self.lock))
    }

    /// Whether it runs.
    ///
    /// # Errors
    /// When the lock can't be used.
    pub fn runs(&self) -> Result<bool, TeamError> {
        let file = File::create(&self.lock).map_err(TeamError::file(&self.lock))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(TeamError::file(&self.lock)(error)),
        }
    }
}

impl TeamStore {
    /// Makes this process a member, with the order that it starts with.
    ///
    /// # Errors
    /// When it runs already, nobody leads the team, or its files can't be read.
    pub fn join(
        config_home: &Path,
        team: &str,
        name: &str,
    ) -> Result<(Self, MemberOrder), TeamError> {
        check_name(team, "a team")?;
        check_name(name, "a member")?;
        let folder = config_home.join("teams").join(team);
        let order = read_order(&folder, name)?;
        let path = member_file(&folder, name, "lock");
        let own = File::create(&path).map_err(TeamError::file(&path))?;
        match own.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TeamError::Runs(name.to_owned())),
            Err(TryLockError::Error(error)) => return Err(TeamError::file(&path)(error)),
        }
        let store = Self {
            name: team.to_owned(),
            tasks: config_home.join("tasks").join(team),
            folder,
            _holds: vec![own],
        };
        if !store.leader().runs()? {
            return Err(TeamError::NoLeader(team.to_owned()));
        }
        Ok((store, order))
    }

    /// The process of the leader, for members.
    #[must_use]
    pub fn leader(&self) -> Process {
        Process {
            lock: self.folder.join(ALIVE),
        }
    }

    /// The process of a member, for the leader.
    #[must_use]
    pub fn process(&self, name: &str) -> Process {
        Process {
            lock: member_file(&self.folder, name, "lock"),
        }
    }

    /// Writes the order of a member. What it spent before is forgotten: it was counted.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_order(&self, name: &str, order: &MemberOrder) -> Result<(), TeamError> {
        let path = member_file(&self.folder, name, "json");
        let bytes = serde_json::to_vec_pretty(order).unwrap_or_default();
        write_private_file(&path, &bytes).map_err(TeamError::private(&path))?;
        let path = member_file(&self.folder, name, "jsonl");
        write_private_file(&path, b"").map_err(TeamError::private(&path))
    }

    /// The order of a member.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub fn order(&self, name: &str) -> Result<MemberOrder, TeamError> {
        read_order(&self.folder, name)
    }

    /// Notes what a member spent, for the leader that pays for it.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn note_spending(&self, name: &str, spent: &Value) -> Result<(), TeamError> {
        let path = member_file(&self.folder, name, "jsonl");
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(format!("{spent}\n").as_bytes())
        };
        write().map_err(TeamError::file(&path))
    }

    /// The spending of a member since a byte of the file, and where the next line begins.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn spending(&self, name: &str, from: u64) -> Result<(Vec<Value>, u64), TeamError> {
        let path = member_file(&self.folder, name, "jsonl");
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(&mut bytes)
        });
        read.map_err(TeamError::file(&path))?;
        let mut end = from;
        let mut values = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            end += line.len() as u64;
            values.extend(serde_json::from_slice::<Value>(line).ok());
        }
        Ok((values, end))
    }

    /// Makes the folders that are watched for changes.
    ///
    /// # Errors
    /// When they can't be made.
    pub fn watched(&self) -> Result<[PathBuf; 3], TeamError> {
        let folders = [
            self.folder.clone(),
            self.folder.join("inboxes"),
            self.folder.join("members"),
        ];
        for folder in &folders {
            create_private_folder(folder).map_err(TeamError::private(folder))?;
        }
        Ok(folders)
    }
}

fn member_file(folder: &Path, name: &str, kind: &str) -> PathBuf {
    folder.join("members").join(format!("{name}.{kind}"))
}

fn read_order(folder: &Path, name: &str) -> Result<MemberOrder, TeamError> {
    let path = member_file(folder, name, "json");
    let bytes = std::fs::read(&path).map_err(TeamError::file(&path))?;
    serde_json::from_slice(&bytes).map_err(|source| TeamError::Damaged { path, source })
}

/// Waits for the end of the members that an earlier leader left behind: each ends by itself when it learns that the leader
/// is gone, and is killed when it does not.
pub(super) fn outlive(folder: &Path, config: &TeamConfig) -> Result<(), TeamError> {
    for member in &config.members {
        let path = member_file(folder, &member.name, "lock");
        if !path.exists() {
            continue;
        }
        let (sender, ended) = mpsc::channel();
        let lock = path.clone();
        std::thread::spawn(move || sender.send(locked(&lock).map(drop)));
        let over = match ended.recv_timeout(ORPHAN_LIMIT) {
            Ok(over) => over,
            Err(_) => {
                if let Some(pid) = member.process.as_ref().and_then(|process| process.pid) {
                    // It holds the lock, so the number is still its own.
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                ended.recv().unwrap_or(Ok(()))
            }
        };
        over?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::{Member, MemberState};
    use serde_json::json;

    fn order() -> MemberOrder {
        MemberOrder {
            start: "n1".to_owned(),
            session_id: "s-ana".to_owned(),
            agent_type: "general-purpose".to_owned(),
            model: "house".to_owned(),
            effort: None,
            mode: PermissionMode::Default,
            briefing: "You are ana.".to_owned(),
            output_file: PathBuf::from("/tmp/out"),
            worktree: None,
            surroundings: Surroundings::default(),
        }
    }

    #[test]
    fn a_member_runs_once_and_only_under_a_leader() {
        let home = tempfile::tempdir().unwrap();
        let leader = TeamStore::create(home.path(), "crew", "", "s").unwrap();
        leader.write_order("ana", &order()).unwrap();
        let (ana, read) = TeamStore::join(home.path(), "crew", "ana").unwrap();
        assert_eq!(read, order());
        assert!(leader.process("ana").runs().unwrap());
        let again = TeamStore::join(home.path(), "crew", "ana").unwrap_err();
        assert!(again.to_string().contains("already runs"), "{again}");
        assert!(TeamStore::join(home.path(), "crew", "../ana").is_err());
        assert!(
            TeamStore::join(home.path(), "crew", "ben").is_err(),
            "no order"
        );
        drop(ana);
        assert!(!leader.process("ana").runs().unwrap());
        drop(leader);
        let alone = TeamStore::join(home.path(), "crew", "ana").unwrap_err();
        assert!(
            alone.to_string().contains("has no running leader"),
            "{alone}"
        );
    }

    #[test]
    fn a_new_leader_waits_until_the_members_of_the_old_one_have_ended() {
        let home = tempfile::tempdir().unwrap();
        let leader = TeamStore::create(home.path(), "crew", "", "s").unwrap();
        leader.write_order("ana", &order()).unwrap();
        let member = Member {
            name: "ana".to_owned(),
            agent_id: "a1".to_owned(),
            agent_type: "general-purpose".to_owned(),
            model: String::new(),
            color: String::new(),
            cwd: PathBuf::from("/p"),
            state: MemberState::Working,
            mode: None,
            open_request: None,
            backend: Backend::Process,
            process: None,
        };
        leader.change(|config| config.add(member)).unwrap();
        let (ana, _) = TeamStore::join(home.path(), "crew", "ana").unwrap();
        // The member ends when it learns that its leader is gone, and not before.
        let orphan = ana.leader();
        let ending = std::thread::spawn(move || {
            orphan.wait().unwrap();
            drop(ana);
        });
        drop(leader);
        let next = TeamStore::attach(home.path(), "s").unwrap().unwrap();
        ending.join().unwrap();
        assert!(!next.process("ana").runs().unwrap());
    }

    #[test]
    fn spending_is_read_line_by_line_and_a_torn_line_waits() {
        let home = tempfile::tempdir().unwrap();
        let leader = TeamStore::create(home.path(), "crew", "", "s").unwrap();
        leader.write_order("ana", &order()).unwrap();
        leader.note_spending("ana", &json!({"a": 1})).unwrap();
        let (lines, at) = leader.spending("ana", 0).unwrap();
        assert_eq!(lines, [json!({"a": 1})]);
        let path = member_file(leader.folder(), "ana", "jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"a\":").unwrap();
        assert_eq!(leader.spending("ana", at).unwrap(), (Vec::new(), at));
        file.write_all(b" 2}\n").unwrap();
        assert_eq!(leader.spending("ana", at).unwrap().0, [json!({"a": 2})]);
    }
}
