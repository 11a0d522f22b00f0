//! Who may connect to a host.
//!
//! The folder and the socket keep other users out; the peer's user is checked all the same. A process that a session
//! started is refused too, whatever it asks: else the model could answer its own permission questions through a
//! command. Another session itself may connect, and is limited to messages by the host.

use crate::folder::own_uid;
use std::collections::HashSet;
use tokio::net::UnixStream;

/// The process at the other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process; `None` if it is not visible from here.
    pub pid: Option<i32>,
}

/// Who it turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A program of the user.
    User,
    /// Another session, by its process.
    Session(i32),
}

/// Why a peer is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another user.
    #[error("user {0} may not use this session")]
    ForeignUser(u32),
    /// It can't be seen which process it is.
    #[error("the process at the other end is not visible from here")]
    Invisible,
    /// A process that a session started.
    #[error(
        "a program that a session started can't control sessions (process {pid} runs below session process {host})"
    )]
    BelowSession {
        /// The peer.
        pid: i32,
        /// The session's process.
        host: i32,
    },
    /// A process that carries the mark of a session's command.
    #[error(
        "a program that a session started can't control sessions (process {pid} carries the mark of a command)"
    )]
    Marked {
        /// The peer.
        pid: i32,
    },
}

/// The peer of a connection.
///
/// # Errors
/// If the system does not tell.
pub fn of(stream: &UnixStream) -> std::io::Result<Peer> {
    let credentials = stream.peer_cred()?;
    Ok(Peer {
        uid: credentials.uid(),
        pid: credentials.pid().filter(|pid| *pid > 0),
    })
}

/// Judges a peer; `hosts` are the processes of live sessions.
///
/// # Errors
/// If it may not connect.
pub fn judge(peer: Peer, hosts: &HashSet<i32>) -> Result<Standing, Refused> {
    judge_by(peer, own_uid(), hosts, &Live)
}

/// Facts about processes.
pub trait Processes {
    /// The parent of a process.
    fn parent(&self, pid: i32) -> Option<i32>;
    /// Whether a process carries the mark of a session's command.
    fn is_marked(&self, pid: i32) -> bool;
}

/// The processes of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Live;

impl Processes for Live {
    fn parent(&self, pid: i32) -> Option<i32> {
        lathe_process::parent_of(pid)
    }

    fn is_marked(&self, pid: i32) -> bool {
        lathe_process::is_marked(pid)
    }
}

/// The decision itself.
///
/// # Errors
/// If the peer may not connect.
pub fn judge_by(
    peer: Peer,
    own: u32,
    hosts: &HashSet<i32>,
    processes: &impl Processes,
) -> Result<Standing, Refused> {
    if peer.uid != own {
        return Err(Refused::ForeignUser(peer.uid));
    }
    let pid = peer.pid.ok_or(Refused::Invisible)?;
    if hosts.contains(&pid) {
        return Ok(Standing::Session(pid));
    }
    if processes.is_marked(pid) {
        return Err(Refused::Marked { pid });
    }
    let mut seen = HashSet::from([pid]);
    let mut above = pid;
    while let Some(parent) = processes.parent(above) {
        if hosts.contains(&parent) {
            return Err(Refused::BelowSession { pid, host: parent });
        }
        // Numbers are used again: a circle is the end.
        if parent <= 1 || !seen.insert(parent) {
            break;
        }
        above = parent;
    }
    Ok(Standing::User)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Table {
        parents: HashMap<i32, i32>,
        marked: HashSet<i32>,
    }

    impl Processes for Table {
        fn parent(&self, pid: i32) -> Option<i32> {
            self.parents.get(&pid).copied()
        }
        fn is_marked(&self, pid: i32) -> bool {
            self.marked.contains(&pid)
        }
    }

    #[test]
    fn users_and_sessions_may_connect_and_their_commands_may_not() {
        // 10 is a session; 20 its shell, 30 a program there, 40 a marked one that left; 50 a terminal, 60 a client in it.
        let table = Table {
            parents: HashMap::from([
                (10, 5),
                (20, 10),
                (30, 20),
                (40, 1),
                (50, 1),
                (60, 50),
                (70, 71),
                (71, 70),
            ]),
            marked: HashSet::from([40]),
        };
        let hosts = HashSet::from([10]);
        let judge = |uid, pid| judge_by(Peer { uid, pid }, 1000, &hosts, &table);
        let rows = [
            (1000, Some(60), Ok(Standing::User)),
            (1000, Some(50), Ok(Standing::User)),
            (1000, Some(10), Ok(Standing::Session(10))),
            (1000, Some(5), Ok(Standing::User)),
            (1000, Some(99), Ok(Standing::User)),
            (1000, Some(70), Ok(Standing::User)),
            (
                1000,
                Some(20),
                Err(Refused::BelowSession { pid: 20, host: 10 }),
            ),
            (
                1000,
                Some(30),
                Err(Refused::BelowSession { pid: 30, host: 10 }),
            ),
            (1000, Some(40), Err(Refused::Marked { pid: 40 })),
            (1000, None, Err(Refused::Invisible)),
            (1001, Some(60), Err(Refused::ForeignUser(1001))),
            (0, Some(60), Err(Refused::ForeignUser(0))),
        ];
        for (uid, pid, expected) in rows {
            assert_eq!(judge(uid, pid), expected, "{uid} {pid:?}");
        }
    }

    #[test]
    fn this_machine_tells_the_parent_of_a_process() {
        let own = std::process::id().cast_signed();
        let parent = Live.parent(own);
        assert_eq!(
            parent,
            Some(std::os::unix::process::parent_id().cast_signed())
        );
        let hosts = HashSet::from([parent.unwrap_or_default()]);
        let peer = Peer {
            uid: own_uid(),
            pid: Some(own),
        };
        assert!(matches!(
            judge(peer, &hosts),
            Err(Refused::BelowSession { .. })
        ));
    }
}
