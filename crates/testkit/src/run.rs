//! Running a program: its output as it comes, signals, and an end that can't hang.

use crate::HANG_LIMIT;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The output and the end of a program.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The highest resident memory that was seen, in bytes.
    pub peak_memory: u64,
}

impl Output {
    /// The exit code; `None` after a signal.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The lines of stdout as JSON.
    ///
    /// # Panics
    /// If a line isn't JSON: nothing but frames may be there.
    #[must_use]
    pub fn frames(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("not a frame ({error}): {line}"))
            })
            .collect()
    }

    /// The last `result` frame, or the whole output of `--output-format json`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn result(&self) -> Value {
        let result = self
            .frames()
            .into_iter()
            .rev()
            .find(|frame| frame["type"] == "result");
        result.unwrap_or_else(|| panic!("no result frame in {self:#?}"))
    }
}

/// The text read from a pipe so far.
#[derive(Debug, Default)]
struct Captured {
    bytes: Vec<u8>,
    ended: bool,
}

/// A pipe that is read by a thread of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capture(Arc<(Mutex<Captured>, Condvar)>);

impl Capture {
    fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let capture = Self::default();
        let shared = capture.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let read = pipe.read(&mut buffer).unwrap_or(0);
                let mut captured = shared.0.0.lock().unwrap();
                captured.bytes.extend_from_slice(&buffer[..read]);
                captured.ended = read == 0;
                shared.0.1.notify_all();
                if captured.ended {
                    return;
                }
            }
        });
        capture
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().unwrap().bytes).into_owned()
    }

    /// Waits until the bytes (and whether that is all) give an answer.
    pub(crate) fn wait<T>(
        &self,
        limit: Duration,
        mut answer: impl FnMut(&[u8], bool) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + limit;
        let mut captured = self.0.0.lock().unwrap();
        loop {
            if let Some(found) = answer(&captured.bytes, captured.ended) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if captured.ended || left.is_zero() {
                return None;
            }
            captured = self.0.1.wait_timeout(captured, left).unwrap().0;
        }
    }
}

/// A program that runs, in a process group of its own. Dropping it kills the group and waits for the program's end.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    stdin: Option<ChildStdin>,
    pub(crate) stdout: Capture,
    stderr: Capture,
    ended: Receiver<(ExitStatus, u64)>,
    status: Option<(ExitStatus, u64)>,
}

impl Running {
    /// Starts a command.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("can't start {command:?}: {error}"));
        let pid = child.id();
        let stdin = child.stdin.take();
        let stdout = Capture::start(child.stdout.take().unwrap());
        let stderr = Capture::start(child.stderr.take().unwrap());
        let (sender, ended) = channel();
        thread::spawn(move || {
            let peak = crate::processes::PeakMemory::watch(pid);
            let status = child.wait().unwrap();
            // The test may have gone.
            let _ = sender.send((status, peak.stop()));
        });
        Self {
            pid,
            stdin,
            stdout,
            stderr,
            ended,
            status: None,
        }
    }

    /// The process id, which is also the id of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Writes to stdin. A program that has stopped reading is no failure of the test.
    pub fn write(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    /// Closes stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) {
        // It may have ended already.
        let _ = kill(self.raw_pid(), signal);
    }

    /// Kills the program alone, as a crash would: its children get no word from us.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid).unwrap())
    }

    /// Standard output so far.
    #[must_use]
    pub fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    /// Standard error so far.
    #[must_use]
    pub fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Waits until stdout contains a text.
    ///
    /// # Panics
    /// If it doesn't in time.
    #[track_caller]
    pub fn wait_for_stdout(&self, text: &str) {
        let found = self.stdout.wait(HANG_LIMIT, |bytes, _| {
            String::from_utf8_lossy(bytes).contains(text).then_some(())
        });
        assert!(
            found.is_some(),
            "stdout never had {text:?}: {}",
            self.describe()
        );
    }

    /// Whether it has ended; `false` if it still runs after the limit.
    pub fn ended_within(&mut self, limit: Duration) -> bool {
        if self.status.is_none() {
            match self.ended.recv_timeout(limit) {
                Ok(status) => self.status = Some(status),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => panic!("the waiting thread died"),
            }
        }
        true
    }

    /// Closes stdin and waits for the end.
    ///
    /// # Panics
    /// If it doesn't end in time, or something it started keeps its output open.
    #[track_caller]
    #[must_use]
    pub fn finish(self) -> Output {
        self.finish_within(HANG_LIMIT)
    }

    /// As [`Running::finish`] with another limit.
    ///
    /// # Panics
    /// If it doesn't end in time, or something it started keeps its output open.
    #[track_caller]
    #[must_use]
    pub fn finish_within(mut self, limit: Duration) -> Output {
        self.close_stdin();
        assert!(self.ended_within(limit), "it hangs: {}", self.describe());
        for pipe in [&self.stdout, &self.stderr] {
            let ended = pipe.wait(limit, |_, ended| ended.then_some(()));
            assert!(
                ended.is_some(),
                "a descendant holds its output: {}",
                self.describe()
            );
        }
        let (status, peak_memory) = self.status.unwrap();
        Output {
            status,
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            peak_memory,
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "process {}\n--- stdout\n{}\n--- stderr\n{}",
            self.pid,
            self.stdout.text(),
            self.stderr.text()
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After the leader has been waited for, its group id could belong to someone else.
        if !self.ended_within(Duration::ZERO) {
            let _ = killpg(self.raw_pid(), Signal::SIGKILL);
            // Until it is gone it holds its locks: the next program would find its session open elsewhere.
            self.ended_within(HANG_LIMIT);
        }
    }
}
