//! Finds and ends every process that a command started.
//!
//! A process belongs to a command when it is the leader itself, is in its group or session, is
//! below one that belongs in the process tree, was seen to belong before, or carries the command's
//! marker in its environment. The tree is the strongest of these: a shell is a child subreaper,
//! so a daemon that left the group and the session is still below it. The marker is for when the
//! leader is gone already (`exec`, `kill -9 $$`) and the tree with it.
//!
//! Some processes can still escape, by intent only: a process whose leader was replaced or killed, *and*
//! that made its own session, *and* cleared its environment.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::sync::OnceLock;

/// The environment variable that marks a command's processes.
pub const MARKER_VARIABLE: &str = "LATHE_COMMAND_ID";

/// The part of a marker that all commands of this process have in common.
pub(crate) fn process_marker() -> &'static str {
    static MARKER: OnceLock<String> = OnceLock::new();
    MARKER.get_or_init(|| lathe_protocol::ids::RequestId::random().0)
}

/// A fresh marker.
pub(crate) fn new_marker() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!(
        "{}.{}",
        process_marker(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    session: i32,
    pub(crate) dead: bool,
    /// Clock ticks since boot; with the pid it identifies a process for good.
    started: u64,
}

/// The processes of one command.
#[derive(Debug, Clone)]
pub struct Family {
    leader: i32,
    leader_started: Option<u64>,
    marker: String,
    seen: HashSet<(i32, u64)>,
    /// Members that were dead already when they were last looked at.
    dead: HashSet<(i32, u64)>,
    searched: bool,
    /// How many generations below the leader only wrap the command (a sandbox): they count as the leader.
    wrappers: usize,
}

impl Family {
    /// The family of a process that was just started and leads its own group. Without a marker, processes
    /// are not recognised by their environment.
    pub(crate) fn new(leader: i32, marker: String) -> Self {
        Self {
            leader,
            leader_started: read_stat(leader).map(|process| process.started),
            marker,
            seen: HashSet::new(),
            dead: HashSet::new(),
            searched: false,
            wrappers: 0,
        }
    }

    /// Says that this many generations of processes below the leader only wrap the command. They end with it.
    pub fn set_wrappers(&mut self, generations: usize) {
        self.wrappers = generations;
    }

    /// The number of the process that leads it.
    pub(crate) fn leader(&self) -> i32 {
        self.leader
    }

    /// Whether the process table was searched for members before, so that those who left the group since
    /// are known.
    pub(crate) fn was_searched(&self) -> bool {
        self.searched
    }

    /// All living members.
    #[must_use]
    pub fn members(&mut self, leader: Leader) -> Vec<Process> {
        self.searched = true;
        // A process that ended while the table was read (it is gone, or newly dead) may have left a
        // child that the table doesn't have, and one in the middle of an exec shows no environment.
        // "None" is only believed of a look without such holes.
        for _ in 0..10 {
            let (table, whole) = all_processes();
            let (members, sure) = self.members_in(table, leader);
            if (whole && sure) || !members.is_empty() {
                return members;
            }
        }
        Vec::new()
    }

    fn members_in(&mut self, table: Vec<Process>, leader: Leader) -> (Vec<Process>, bool) {
        let mut sure = true;
        let mut belongs: HashSet<i32> = HashSet::new();
        // A new process may have been given the dead leader's number; then its session means nothing.
        let reused = table.iter().any(|process| {
            process.pid == self.leader && Some(process.started) != self.leader_started
        });
        let marker = format!("{MARKER_VARIABLE}={}", self.marker);
        for process in &table {
            let by_number = !reused
                && [process.pid, process.group, process.session].contains(&self.leader)
                && self.leader != 0;
            let younger = self
                .leader_started
                .is_none_or(|started| process.started >= started);
            if by_number || self.seen.contains(&(process.pid, process.started)) {
                belongs.insert(process.pid);
            } else if !self.marker.is_empty()
                && younger
                && !process.dead
                && process.parent != KERNEL_THREADS
            {
                match marking(process.pid, &marker) {
                    Marking::Ours => {
                        belongs.insert(process.pid);
                    }
                    Marking::Unknown => sure = false,
                    Marking::Foreign => {}
                }
            }
        }
        add_descendants(&mut belongs, &table);
        for process in &table {
            if process.dead && belongs.contains(&process.pid) {
                sure &= !self.dead.insert((process.pid, process.started));
            }
        }
        let own = std::process::id().cast_signed();
        let leaders = self.leaders_in(&table);
        let members: Vec<Process> = table
            .into_iter()
            .filter(|process| belongs.contains(&process.pid))
            .filter(|process| !process.dead && process.pid != own && process.pid > 1)
            .filter(|process| leader == Leader::Included || !leaders.contains(&process.pid))
            .collect();
        self.seen
            .extend(members.iter().map(|process| (process.pid, process.started)));
        (members, sure)
    }

    /// The leader, and what stands between it and the command.
    fn leaders_in(&self, table: &[Process]) -> Vec<i32> {
        let mut leaders = vec![self.leader];
        let mut above = self.leader;
        for _ in 0..self.wrappers {
            // Each wrapper starts one process; what a command leaves behind hangs below the last of them, later.
            let children = table
                .iter()
                .filter(|process| process.parent == above && !process.dead);
            let Some(child) = children.min_by_key(|process| (process.started, process.pid)) else {
                break;
            };
            leaders.push(child.pid);
            above = child.pid;
        }
        leaders
    }

    /// Signals every member once, and returns them.
    pub fn signal(&mut self, signal: Signal, leader: Leader) -> Vec<Process> {
        let members = self.members(leader);
        // The group in one call first: a shell that is signalled after its child might start the
        // next command of a list in between. Without /proc this is also all there is.
        if leader == Leader::Included && self.leader > 1 {
            let alive = members.iter().any(|process| process.group == self.leader);
            if alive || !cfg!(target_os = "linux") {
                let _ = nix::sys::signal::killpg(Pid::from_raw(self.leader), signal);
            }
        }
        for process in &members {
            if leader == Leader::Included && process.group == self.leader {
                continue;
            }
            // It may have ended meanwhile, or belong to root: neither is ours to mend.
            let _ = kill(Pid::from_raw(process.pid), signal);
        }
        members
    }

    /// Kills everything at once and returns when nothing is left (or can't be killed). Keeps the thread.
    pub fn kill_now(&mut self) {
        for _ in 0..200 {
            if self.signal(Signal::SIGKILL, Leader::Included).is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// Whether the leader itself is meant too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leader {
    /// All processes of the family.
    Included,
    /// Only those that the leader started.
    Excluded,
}

/// A short line that names a process for the user.
#[must_use]
pub fn describe(process: &Process) -> String {
    let pid = process.pid;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let mut line = words.join(" ");
    if let Some((end, _)) = line.char_indices().nth(80) {
        line.truncate(end);
        line.push('…');
    }
    if line.is_empty() {
        format!("process {pid}")
    } else {
        format!("{line} (pid {pid})")
    }
}

/// The parent of a process; `None` if there is no such process, or the system does not tell.
#[must_use]
pub fn parent_of(pid: i32) -> Option<i32> {
    if cfg!(target_os = "linux") {
        return read_stat(pid).map(|process| process.parent);
    }
    let command = crate::Command::new("ps").arguments(["-o", "ppid=", "-p", &pid.to_string()]);
    let limit = std::time::Duration::from_secs(2);
    let output = crate::run_blocking(command, Vec::new(), limit).ok()?;
    output.stdout.trim().parse().ok()
}

/// Whether a process carries the mark of a command that a session started, whichever session that was.
#[must_use]
pub fn is_marked(pid: i32) -> bool {
    let beginning = format!("{MARKER_VARIABLE}=");
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment
            .split(|&byte| byte == 0)
            .any(|entry| entry.starts_with(beginning.as_bytes()))
    })
}

fn add_descendants(belongs: &mut HashSet<i32>, table: &[Process]) {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in table {
        children
            .entry(process.parent)
            .or_default()
            .push(process.pid);
    }
    let mut todo: Vec<i32> = belongs.iter().copied().collect();
    while let Some(pid) = todo.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if belongs.insert(child) {
                todo.push(child);
            }
        }
    }
}

/// The parent of all threads of the kernel, which have no environment.
const KERNEL_THREADS: i32 = 2;

enum Marking {
    Ours,
    Foreign,
    /// It shows no environment: none was given to it, or it is just being replaced.
    Unknown,
}

fn marking(pid: i32, marker: &str) -> Marking {
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) if environment.is_empty() => Marking::Unknown,
        Ok(environment) => {
            let mut entries = environment.split(|&byte| byte == 0);
            if entries.any(|entry| entry == marker.as_bytes()) {
                Marking::Ours
            } else {
                Marking::Foreign
            }
        }
        Err(_) => Marking::Foreign,
    }
}

/// The process table, and whether every process in it could be looked at before it ended.
pub(crate) fn all_processes() -> (Vec<Process>, bool) {
    let Ok(entries) = fs::read_dir("/proc") else {
        return (Vec::new(), true);
    };
    let mut table = Vec::new();
    let mut whole = true;
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        match read_stat(pid) {
            Some(process) => table.push(process),
            None => whole = false,
        }
    }
    (table, whole)
}

fn read_stat(pid: i32) -> Option<Process> {
    // In one go, and no more than is used: it is read for every process there is.
    let mut stat = [0; 512];
    let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let count = file.read(&mut stat).ok()?;
    parse_stat(stat.get(..count)?)
}

/// The name in the second field may hold anything, also spaces and parentheses: count from the last.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let mut pid = stat;
    let mut fields = stat.get(close + 2..)?;
    let state = *fields.first()?;
    fields = fields.get(2..)?;
    let [parent, group, session] = [(); 3].map(|()| number(&mut fields));
    // Fifteen fields that nobody here needs.
    let mut blanks = 0;
    let behind = fields.iter().position(|&byte| {
        blanks += u8::from(byte == b' ');
        blanks == 15
    });
    fields = fields.get(behind? + 1..)?;
    let small = |number: Option<i64>| i32::try_from(number?).ok();
    Some(Process {
        pid: small(number(&mut pid))?,
        dead: matches!(state, b'Z' | b'X' | b'x'),
        parent: small(parent)?,
        group: small(group)?,
        session: small(session)?,
        started: u64::try_from(number(&mut fields)?).ok()?,
    })
}

/// Takes a number and the blank behind it. Every process of the machine has six of them, so this reads no more than it
/// must.
fn number(rest: &mut &[u8]) -> Option<i64> {
    let (is_negative, digits) = match rest.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, *rest),
    };
    let length = digits
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(digits.len());
    let (number, behind) = digits.split_at_checked(length)?;
    if number.is_empty() {
        return None;
    }
    *rest = behind.get(1..).unwrap_or_default();
    let mut value: i64 = 0;
    for digit in number {
        value = value
            .checked_mul(10)?
            .checked_add(i64::from(digit - b'0'))?;
    }
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_is_no_trap() {
        let stat = b"42 (a) Z (b c) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 1 2";
        assert_eq!(
            parse_stat(stat),
            Some(Process {
                pid: 42,
                parent: 7,
                group: 8,
                session: 9,
                dead: false,
                started: 12345
            })
        );
    }

    #[test]
    fn descendants_of_descendants_belong() {
        let process = |pid, parent| Process {
            pid,
            parent,
            group: pid,
            session: pid,
            dead: false,
            started: 0,
        };
        let table = [process(5, 4), process(4, 3), process(9, 1), process(3, 1)];
        let mut belongs = HashSet::from([3]);
        add_descendants(&mut belongs, &table);
        assert_eq!(belongs, HashSet::from([3, 4, 5]));
    }
}
