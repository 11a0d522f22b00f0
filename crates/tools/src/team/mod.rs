//! A team on disk: its members, their inboxes and its task list.
//!
//! ```text
//! <config home>/teams/<team>/config.json            the team and its members
//!                            leader.lock            held by the process of the leader
//!                            alive.lock             the same, for members that wait for its end
//!                            members/<name>.json    what a member that is a process starts with
//!                            members/<name>.lock    held by the process of that member
//!                            members/<name>.jsonl   what it spent
//!                            inboxes/<name>.jsonl   messages, only ever appended
//!                            inboxes/<name>.read    which of them were delivered
//! <config home>/tasks/<team>/                       the task list, a file for each task
//! ```
//! Everything is written before it is acted on, so that a process which is killed loses no message and no task.

mod inbox;
mod message;
mod process;

pub use inbox::{Inbox, MOST_UNREAD};
pub use message::{MessageKind, TeamMessage};
pub use process::{Backend, MemberOrder, MemberProcess, Process, Surroundings};

use lathe_protocol::permission::PermissionMode;
use lathe_session::paths::{create_private_folder, file_stem_of, write_private_file};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The name of the leader among the members.
pub const LEADER: &str = "team-lead";
/// Members of a team.
pub const MOST_MEMBERS: usize = 32;
/// Names that mean somebody else.
const RESERVED: [&str; 6] = [LEADER, "main", "user", "system", "assistant", "lathe"];
/// Letters of a name.
const LONGEST_NAME: usize = 64;
/// Colours of members, in turn.
const COLORS: [&str; 8] = [
    "blue", "green", "yellow", "purple", "cyan", "red", "orange", "pink",
];

/// Why a team can't be used. The texts are for the model and the user.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// A file of the team.
    #[error("the team's file {} can't be used: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the team isn't what it should be.
    #[error("the team's file {} is damaged: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Another process leads it.
    #[error("the team {0} is led by another session that is running")]
    Held(String),
    /// The name of a team or a member.
    #[error("{0:?} is not a valid name for {1}: use letters, digits, `-` and `_`, at most {LONGEST_NAME}, and not {list}", list = RESERVED.join(", "))]
    Name(String, &'static str),
    /// The name is taken.
    #[error("the team already has a member {0}")]
    Taken(String),
    /// There is no such member.
    #[error("the team has no member {name}. Members: {known}")]
    NoMember {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The team is full.
    #[error("the team has {MOST_MEMBERS} members, which is the limit")]
    Full,
    /// The member runs already.
    #[error("the member {0} of the team already runs in another process")]
    Runs(String),
    /// The leader is gone.
    #[error("the team {0} has no running leader, who would start its members")]
    NoLeader(String),
    /// The inbox is full.
    #[error(
        "the inbox of {0} has {MOST_UNREAD} unread messages, which is the limit; wait until some are read"
    )]
    InboxFull(String),
}

impl TeamError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    fn private(path: &Path) -> impl FnOnce(lathe_session::SessionError) -> Self {
        let path = path.to_owned();
        move |error| Self::File {
            path,
            source: std::io::Error::other(error.to_string()),
        }
    }
}

/// A team, as its file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamConfig {
    /// Its name.
    pub name: String,
    /// Its purpose.
    #[serde(default)]
    pub description: String,
    /// When it was made, ISO 8601 with `Z`.
    pub created_at: String,
    /// The session that leads it.
    pub lead_session_id: String,
    /// Its members, without the leader.
    #[serde(default)]
    pub members: Vec<Member>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The agent that it is.
    pub agent_id: String,
    /// The type of the agent.
    pub agent_type: String,
    /// Its model.
    #[serde(default)]
    pub model: String,
    /// The colour that faces show its name in.
    pub color: String,
    /// Where it works.
    pub cwd: PathBuf,
    /// How it is doing.
    pub state: MemberState,
    /// Its permission mode, where it is not that of the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// The open question whether its plan is approved, or whether it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_request: Option<String>,
    /// How it runs.
    #[serde(default)]
    pub backend: Backend,
    /// Its process, of a member that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<MemberProcess>,
}

/// How a member is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It works.
    Working,
    /// It waits for a message.
    Idle,
    /// It was ended and gets no more messages.
    Stopped,
}

impl MemberState {
    /// One word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
        }
    }
}

impl TeamConfig {
    /// The member of a name or an agent's id.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.name == name || member.agent_id == name)
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// When there is none; names those that there are.
    pub fn member_mut(&mut self, name: &str) -> Result<&mut Member, TeamError> {
        let known = self.names();
        let mut members = self.members.iter_mut();
        members
            .find(|member| member.name == name || member.agent_id == name)
            .ok_or_else(|| TeamError::NoMember {
                name: name.to_owned(),
                known,
            })
    }

    /// The names of the members and the leader.
    #[must_use]
    pub fn names(&self) -> String {
        let members = self.members.iter().map(|member| member.name.as_str());
        let names: Vec<&str> = std::iter::once(LEADER).chain(members).collect();
        names.join(", ")
    }

    /// Adds a member; gives the colour of its name.
    ///
    /// # Errors
    /// When its name can't be used, or there is no room.
    pub fn add(&mut self, mut member: Member) -> Result<(), TeamError> {
        check_name(&member.name, "a member")?;
        if self.members.iter().any(|known| {
            known.name.eq_ignore_ascii_case(&member.name) && known.state != MemberState::Stopped
        }) {
            return Err(TeamError::Taken(member.name));
        }
        if self.members.len() >= MOST_MEMBERS {
            return Err(TeamError::Full);
        }
        COLORS[self.members.len() % COLORS.len()].clone_into(&mut member.color);
        // The newest of a name is the one that messages reach.
        self.members
            .retain(|known| !known.name.eq_ignore_ascii_case(&member.name));
        self.members.push(member);
        Ok(())
    }
}

fn check_name(name: &str, of: &'static str) -> Result<(), TeamError> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let reserved = RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name));
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) || reserved {
        return Err(TeamError::Name(name.to_owned(), of));
    }
    Ok(())
}

/// A team that this process leads, or that it is a member of.
#[derive(Debug)]
pub struct TeamStore {
    name: String,
    folder: PathBuf,
    tasks: PathBuf,
    /// Held as long as this lives, so that nobody else leads the team, or is the same member.
    _holds: Vec<File>,
}

impl TeamStore {
    /// Makes a team. A name that is taken gets a number.
    ///
    /// # Errors
    /// When the name can't be used, or the files can't be written.
    pub fn create(
        config_home: &Path,
        wanted: &str,
        description: &str,
        session: &str,
    ) -> Result<Self, TeamError> {
        let wanted = file_stem_of(wanted.trim(), LONGEST_NAME - 4);
        check_name(&wanted, "a team")?;
        let teams = config_home.join("teams");
        create_private_folder(&teams).map_err(TeamError::private(&teams))?;
        let mut number = 1;
        let (name, folder) = loop {
            let name = match number {
                1 => wanted.clone(),
                number => format!("{wanted}-{number}"),
            };
            let folder = teams.join(&name);
            match std::fs::create_dir(&folder) {
                Ok(()) => break (name, folder),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(TeamError::file(&folder)(error)),
            }
        };
        let leads = lead(&folder, &name)?;
        let alive = locked(&folder.join(process::ALIVE))?;
        let store = Self {
            tasks: config_home.join("tasks").join(&name),
            name: name.clone(),
            folder,
            _holds: vec![leads, alive],
        };
        store.write(&TeamConfig {
            name,
            description: description.to_owned(),
            created_at: jiff::Timestamp::now().to_string(),
            lead_session_id: session.to_owned(),
            members: Vec::new(),
        })?;
        Ok(store)
    }

    /// Takes up the team that a session led; `None` when it led none. Waits until the members of the earlier leader
    /// that are processes have ended.
    ///
    /// # Errors
    /// When another process leads it now, or its files can't be read.
    pub fn attach(config_home: &Path, session: &str) -> Result<Option<Self>, TeamError> {
        let Ok(entries) = std::fs::read_dir(config_home.join("teams")) else {
            return Ok(None);
        };
        for entry in entries.filter_map(Result::ok) {
            let folder = entry.path();
            // A folder without a readable file is no team of ours.
            let Ok(config) = read_config(&folder) else {
                continue;
            };
            if config.lead_session_id == session {
                let leads = lead(&folder, &config.name)?;
                process::outlive(&folder, &config)?;
                let alive = locked(&folder.join(process::ALIVE))?;
                return Ok(Some(Self {
                    tasks: config_home.join("tasks").join(&config.name),
                    name: config.name,
                    folder,
                    _holds: vec![leads, alive],
                }));
            }
        }
        Ok(None)
    }

    /// The name of the team.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join("config.json")
    }

    /// The folder with its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of its task list.
    #[must_use]
    pub fn tasks(&self) -> &Path {
        &self.tasks
    }

    /// The team as it stands.
    ///
    /// # Errors
    /// When its file can't be read.
    pub fn config(&self) -> Result<TeamConfig, TeamError> {
        read_config(&self.folder)
    }

    /// Changes the team, as a whole or not at all.
    ///
    /// # Errors
    /// When the change fails or its file can't be written.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut TeamConfig) -> Result<T, TeamError>,
    ) -> Result<T, TeamError> {
        let _lock = locked(&self.folder.join("config.lock"))?;
        let mut config = self.config()?;
        let value = change(&mut config)?;
        self.write(&config)?;
        Ok(value)
    }

    fn write(&self, config: &TeamConfig) -> Result<(), TeamError> {
        let path = self.file();
        let bytes = serde_json::to_vec_pretty(config).unwrap_or_default();
        write_private_file(&path, &bytes).map_err(TeamError::private(&path))
    }

    /// The inbox of a member or the leader.
    #[must_use]
    pub fn inbox(&self, name: &str) -> Inbox {
        Inbox::new(&self.folder.join("inboxes"), name)
    }

    /// Removes the team with its messages and its tasks.
    ///
    /// # Errors
    /// When its files can't be removed.
    pub fn remove(&self) -> Result<(), TeamError> {
        for folder in [&self.tasks, &self.folder] {
            match std::fs::remove_dir_all(folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(TeamError::file(folder)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn read_config(folder: &Path) -> Result<TeamConfig, TeamError> {
    let path = folder.join("config.json");
    let bytes = std::fs::read(&path).map_err(TeamError::file(&path))?;
    serde_json::from_slice(&bytes).map_err(|source| TeamError::Damaged { path, source })
}

/// Makes this process the leader.
fn lead(folder: &Path, name: &str) -> Result<File, TeamError> {
    let path = folder.join("leader.lock");
    let file = File::create(&path).map_err(TeamError::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(TeamError::Held(name.to_owned())),
        Err(std::fs::TryLockError::Error(error)) => Err(TeamError::file(&path)(error)),
    }
}

/// Waits for a lock.
fn locked(path: &Path) -> Result<File, TeamError> {
    let file = File::create(path).map_err(TeamError::file(path))?;
    file.lock().map_err(TeamError::file(path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Member {
        Member {
            name: name.to_owned(),
            agent_id: format!("a-{name}"),
            agent_type: "general-purpose".to_owned(),
            model: "house".to_owned(),
            color: String::new(),
            cwd: PathBuf::from("/p"),
            state: MemberState::Working,
            mode: None,
            open_request: None,
            backend: Backend::InProcess,
            process: None,
        }
    }

    #[test]
    fn two_leaders_can_not_hold_one_team() {
        let home = tempfile::tempdir().unwrap();
        let first = TeamStore::create(home.path(), "fix it", "", "s1").unwrap();
        assert_eq!(first.name(), "fix-it");
        let held = TeamStore::attach(home.path(), "s1").unwrap_err();
        assert!(held.to_string().contains("another session"), "{held}");
        // Another session that wants the name gets another team.
        let second = TeamStore::create(home.path(), "fix it", "", "s2").unwrap();
        assert_eq!(second.name(), "fix-it-2");
        drop(first);
        let again = TeamStore::attach(home.path(), "s1").unwrap().unwrap();
        assert_eq!(again.name(), "fix-it");
        assert!(TeamStore::attach(home.path(), "s3").unwrap().is_none());
        again.remove().unwrap();
        assert!(TeamStore::attach(home.path(), "s1").unwrap().is_none());
    }

    #[test]
    fn names_that_mean_somebody_else_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let team = TeamStore::create(home.path(), "t", "", "s").unwrap();
        for name in ["user", "Main", "team-lead", "", "a/b", "../x", "*", "a b"] {
            let refused = team.change(|config| config.add(member(name)));
            assert!(refused.is_err(), "{name}");
        }
        team.change(|config| config.add(member("ana"))).unwrap();
        assert!(team.change(|config| config.add(member("Ana"))).is_err());
        team.change(|config| {
            config.member_mut("ana")?.state = MemberState::Stopped;
            Ok(())
        })
        .unwrap();
        team.change(|config| config.add(member("ana"))).unwrap();
        let config = team.config().unwrap();
        assert_eq!(config.members.len(), 1);
        assert_eq!(config.member("a-ana").unwrap().color, "green");
    }
}
