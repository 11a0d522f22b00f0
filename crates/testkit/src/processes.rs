//! Looking at processes through `/proc`: what a run left behind, and how much memory it took.
//!
//! A process that changes its session, its group or its parent is hard to find by descent. But it
//! keeps its environment, and mostly its folder, so those are what is searched for.

use crate::TestHome;
use crate::home::TOKEN_VARIABLE;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// The processes that belong to a home: started with its token, or working in its folder.
#[must_use]
pub fn of_home(home: &TestHome) -> Vec<Process> {
    let token = format!("{TOKEN_VARIABLE}={}", home.token()).into_bytes();
    let root = home.root();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == token);
        let inside =
            fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder.starts_with(&root));
        if marked || inside {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(Process {
                pid,
                command: command.trim_end().to_owned(),
            });
        }
    }
    found
}

/// Asserts that no process of a home is running. A process that is ending gets a moment.
///
/// # Panics
/// If something stays.
#[track_caller]
pub fn assert_none_left(home: &TestHome) {
    let until = Instant::now() + crate::HANG_LIMIT;
    loop {
        let left = of_home(home);
        if left.is_empty() {
            return;
        }
        assert!(
            Instant::now() < until,
            "processes are left behind: {left:#?}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// The highest resident memory of a process so far, in bytes; `None` if it is gone.
#[must_use]
pub fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Follows the high-water mark of a process until it ends. The kernel keeps the mark, so only
/// growth in the last few milliseconds can be missed.
#[derive(Debug)]
pub(crate) struct PeakMemory {
    highest: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl PeakMemory {
    pub(crate) fn watch(pid: u32) -> Self {
        let highest = Arc::new(AtomicU64::new(0));
        let done = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (highest, done) = (Arc::clone(&highest), Arc::clone(&done));
            move || {
                while !done.load(Ordering::Relaxed) {
                    if let Some(bytes) = peak_memory(pid) {
                        highest.fetch_max(bytes, Ordering::Relaxed);
                    }
                    thread::park_timeout(Duration::from_millis(10));
                }
            }
        });
        Self {
            highest,
            done,
            thread,
        }
    }

    pub(crate) fn stop(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.highest.load(Ordering::Relaxed)
    }
}
