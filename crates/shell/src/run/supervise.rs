//! Watching over one command from its start until nothing of it is left.
//!
//! A task of its own owns the process, so the call that started it can turn away (a time limit, a
//! wish to continue in the background) without touching it. The task goes through [`Phase`]s:
//!
//! ```text
//! Running ──shell reports children, or ends with some left──► Lingering ──still there──┐
//!    │ stop                                                      │ gone                ▼
//!    └──────────────────────► Terminating (SIGTERM) ──ignored──► Killing (SIGKILL) ◄───┘
//!                                   │ gone                          │ gone
//!                                   ▼                               ▼
//!                                Draining: the rest of the output, then done
//! ```

use super::capture::{Capture, Spill};
use super::program::Report;
use super::{Exit, Output, Progress, ProgressCallback, Screen};
use lathe_process::session::Spawned;
use lathe_process::{Child, Family, Leader, Registration};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// How long processes may stay after their shell is done before they are ended.
const LINGER: Duration = Duration::from_millis(250);
/// Longer than any session.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How long left-over processes have between SIGTERM and SIGKILL.
const LEFTOVER_GRACE: Duration = Duration::from_millis(250);
/// After this, a process that doesn't die of SIGKILL (another user's, or stuck in the kernel) is
/// given up on.
const KILL_LIMIT: Duration = Duration::from_secs(3);
/// How long output is awaited when every process is gone but someone else holds the pipe.
const DRAIN: Duration = Duration::from_millis(100);
/// The least time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Without new output, progress is still shown this often: the time passes.
const PROGRESS_HEARTBEAT: Duration = Duration::from_secs(1);
/// How much output is read at once to begin with; most commands say little.
const FIRST_CHUNK: usize = 8 * 1024;
/// How much is read at once of a command that says a lot: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Why a command is ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopCause {
    TimedOut,
    Cancelled,
}

/// Requests to the task.
pub(super) enum Order {
    Stop(StopCause),
    /// Write all output to this file from now on, what came before included. Answers with the file
    /// that is really written, or why there is none.
    WriteTo(PathBuf, oneshot::Sender<Result<PathBuf, NoOutputFile>>),
    /// Let its processes go: they may stay when this process ends, and their output continues to the file.
    LetGo,
}

/// Why output can't be written to a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoOutputFile(String);

/// The result of a finished command.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) exit: Exit,
    pub(super) output: Output,
    /// Where the shell was when it left; `None` when it didn't say.
    pub(super) report: Option<Report>,
    pub(super) leftovers: Vec<String>,
    pub(super) duration: Duration,
}

/// The call's end of a supervised command.
#[derive(Debug, Clone)]
pub(super) struct Supervised {
    pub(super) orders: mpsc::UnboundedSender<Order>,
    pub(super) outcome: watch::Receiver<Option<Arc<Outcome>>>,
    pub(super) capture: Arc<Mutex<Capture>>,
    pub(super) started: Instant,
}

impl Supervised {
    /// Waits until it is over.
    pub(super) async fn finished(&self) -> Option<Arc<Outcome>> {
        let mut outcome = self.outcome.clone();
        // An error means that the runtime is shutting down; the command has been killed then.
        outcome
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|outcome| outcome.clone())
    }

    pub(super) fn stop(&self, cause: StopCause) {
        // An error means that it is over already.
        drop(self.orders.send(Order::Stop(cause)));
    }
}

/// How long processes may continue that should end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grace {
    /// Those of a command that was told to end.
    pub(super) kill: Duration,
    /// Those that a command left when its shell was done.
    pub(super) leftovers: Duration,
}

impl Grace {
    /// For a command that is waited for.
    pub(super) fn usual(kill: Duration) -> Self {
        Self {
            kill,
            leftovers: LINGER,
        }
    }

    /// For a command in the background: a daemon that it starts continues until it is stopped.
    pub(super) fn for_daemons(kill: Duration) -> Self {
        Self {
            kill,
            leftovers: FOR_EVER,
        }
    }
}

/// How to watch.
pub(super) struct Watch {
    pub(super) output_limit: usize,
    pub(super) spill: Spill,
    pub(super) spill_limit: u64,
    pub(super) grace: Grace,
    pub(super) progress: Option<ProgressCallback>,
    /// Files to delete when it is over.
    pub(super) keep: Vec<tempfile::TempPath>,
    /// The sandbox state to keep until then.
    pub(super) wrapping: Option<lathe_sandbox::Wrapping>,
    /// The screen that the output is shown on.
    pub(super) screen: Option<Arc<Screen>>,
}

/// Starts watching over a process.
pub(super) fn supervise(spawned: Spawned, control: UnixStream, watch: Watch) -> Supervised {
    let (orders, order_receiver) = mpsc::unbounded_channel();
    let (outcome_sender, outcome) = watch::channel(None);
    let capture = Arc::new(Mutex::new(Capture::new(watch.output_limit)));
    let started = Instant::now();
    let registration = spawned.registration;
    let task = Supervisor {
        child: spawned.child,
        output: Some(spawned.output),
        control: Some(control),
        family: spawned.family,
        orders: order_receiver,
        orders_open: true,
        capture: Arc::clone(&capture),
        output_file: OutputFile {
            spill: watch.spill,
            limit: watch.spill_limit,
            screen: watch.screen,
        },
        grace: watch.grace,
        phase: Phase::Running,
        scope: Leader::Excluded,
        status: None,
        cause: None,
        left: Left::default(),
        looks: Looks {
            started,
            next: started,
            interval: FIRST_LOOK,
        },
    };
    let held = (watch.keep, watch.wrapping);
    lathe_spawn::task(task.run(watch.progress, held, registration, outcome_sender));
    Supervised {
        orders,
        outcome,
        capture,
        started,
    }
}

const FIRST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(50);
const DAEMON_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Processes are left; they have until then to end by themselves.
    Lingering(Instant),
    /// Asked to end; killed then.
    Terminating(Instant),
    /// Being killed; given up on then.
    Killing(Instant),
    /// Nothing is left but output; at the latest until then.
    Draining(Instant),
    /// Nobody watches over it any more.
    LetGo,
}

struct Supervisor {
    child: Child,
    output: Option<pipe::Receiver>,
    control: Option<UnixStream>,
    family: Family,
    orders: mpsc::UnboundedReceiver<Order>,
    orders_open: bool,
    capture: Arc<Mutex<Capture>>,
    output_file: OutputFile,
    grace: Grace,
    phase: Phase,
    /// Whether ending means the shell too.
    scope: Leader,
    status: Option<io::Result<ExitStatus>>,
    cause: Option<StopCause>,
    left: Left,
    looks: Looks,
}

/// Where output goes beside memory, and how much of it.
struct OutputFile {
    spill: Spill,
    limit: u64,
    screen: Option<Arc<Screen>>,
}

/// The rest when the shell has ended: its report and processes.
#[derive(Default)]
struct Left {
    report_bytes: Vec<u8>,
    report: Option<Report>,
    processes: Vec<String>,
}

/// When the command started, and when its processes are looked at.
struct Looks {
    started: Instant,
    next: Instant,
    interval: Duration,
}

impl Supervisor {
    async fn run(
        mut self,
        progress: Option<ProgressCallback>,
        held: (Vec<tempfile::TempPath>, Option<lathe_sandbox::Wrapping>),
        registration: Registration,
        outcome: watch::Sender<Option<Arc<Outcome>>>,
    ) {
        let mut buffer = vec![0; FIRST_CHUNK];
        let mut report_buffer = [0; 512];
        let mut pace = Pace::new(self.looks.started, progress);
        while !self.is_over() {
            let look_at = self.next_event();
            tokio::select! {
                biased;
                order = self.orders.recv(), if self.orders_open => match order {
                    Some(order) => self.obey(order).await,
                    // Everyone who could ask for something is gone: nobody wants it any more.
                    None => {
                        self.orders_open = false;
                        self.begin_stop(StopCause::Cancelled).await;
                    }
                },
                read = read_from(self.control.as_mut(), &mut report_buffer),
                    if self.control.is_some() => self.hear(read, &report_buffer),
                status = self.child.wait(), if self.status.is_none() => {
                    self.status = Some(status);
                    self.shell_ended();
                }
                () = sleep_until(look_at), if self.phase != Phase::Running => {
                    self.look().await;
                }
                () = sleep_until(pace.next), if pace.callback.is_some() => {
                    pace.show(&self.capture, self.looks.started);
                }
                read = read_from(self.output.as_mut(), &mut buffer),
                    if self.output.is_some() => match read {
                    Ok(count) if count > 0 => {
                        self.take(&buffer[..count]).await;
                        if count == buffer.len() {
                            buffer.resize(CHUNK, 0);
                        }
                    }
                    // The end, or a pipe that can no longer be read, which is the same to us.
                    _ => self.output = None,
                },
            }
        }
        drop(held);
        registration.ended();
        let result = Arc::new(self.result());
        outcome.send_replace(Some(result));
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::LetGo => true,
            Phase::Draining(until) => {
                let late = Instant::now() >= until;
                // A shell that can't even be killed is given up on, never waited for.
                (self.status.is_some() && (self.output.is_none() || late))
                    || (self.cause.is_some() && late)
            }
            _ => false,
        }
    }

    async fn take(&mut self, bytes: &[u8]) {
        if let Some(screen) = &self.output_file.screen {
            screen.take(bytes);
        }
        if let Spill::Later(path) = &self.output_file.spill {
            let (fits, so_far) = {
                let capture = self.capture.lock();
                let fits = capture.fits(bytes.len());
                (fits, if fits { Vec::new() } else { capture.kept() })
            };
            if !fits {
                let path = path.clone();
                self.output_file
                    .spill
                    .open(path, &so_far, self.output_file.limit)
                    .await;
            }
        }
        self.output_file.spill.write(bytes).await;
        self.capture.lock().push(bytes);
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Stop(cause) => self.begin_stop(cause).await,
            Order::WriteTo(path, reply) => {
                if matches!(self.output_file.spill, Spill::Off | Spill::Later(_)) {
                    let so_far = self.capture.lock().kept();
                    self.output_file
                        .spill
                        .open(path, &so_far, self.output_file.limit)
                        .await;
                }
                let answer = match &self.output_file.spill {
                    Spill::Open(open) => Ok(open.path.clone()),
                    Spill::Failed(reason) => Err(NoOutputFile(reason.clone())),
                    Spill::Off | Spill::Later(_) => Err(NoOutputFile("no output file".to_owned())),
                };
                drop(reply.send(answer));
            }
            Order::LetGo => self.let_go().await,
        }
    }

    /// Lets all processes go but the shell, which ends with this process at the latest.
    async fn let_go(&mut self) {
        if self.cause.is_some() {
            return;
        }
        if let (Some(output), Some(path)) = (self.output.take(), self.output_file.spill.path()) {
            let handed_over = output.into_blocking_fd().and_then(|pipe| {
                let file = std::fs::File::options().append(true).open(path)?;
                lathe_process::write_on(pipe, file).map_err(io::Error::other)
            });
            if let Err(error) = handed_over {
                tracing::warn!(%error, "the output of a command that is kept is no longer written");
            }
        }
        self.release_shell().await;
        self.enter(Phase::LetGo);
    }

    async fn begin_stop(&mut self, cause: StopCause) {
        if self.cause.is_some() || matches!(self.phase, Phase::Draining(_)) {
            return;
        }
        self.cause = Some(cause);
        self.scope = Leader::Included;
        // The tree is complete now, while the shell lives: what is found here is remembered.
        self.family.signal(Signal::SIGTERM, Leader::Included);
        self.release_shell().await;
        self.enter(Phase::Terminating(Instant::now() + self.grace.kill));
    }

    /// Lets a shell go that waits for a word before it leaves.
    async fn release_shell(&mut self) {
        if let Some(control) = &mut self.control {
            // An error means that the shell is gone.
            drop(control.shutdown().await);
        }
    }

    fn hear(&mut self, read: io::Result<usize>, buffer: &[u8]) {
        let count = read.unwrap_or(0);
        if count == 0 {
            self.control = None;
            return;
        }
        self.left.report_bytes.extend_from_slice(&buffer[..count]);
        if self.left.report.is_some() {
            return;
        }
        // Nothing but the report is ever written here; a command that finds the descriptor and
        // writes to it anyway can't make us keep it all.
        if self.left.report_bytes.len() > 256 * 1024 {
            self.control = None;
            return;
        }
        self.left.report = Report::parse(&self.left.report_bytes);
        if self
            .left
            .report
            .as_ref()
            .is_some_and(|report| !report.childless)
            && self.phase == Phase::Running
        {
            self.enter(Phase::Lingering(Instant::now() + self.grace.leftovers));
        }
    }

    fn shell_ended(&mut self) {
        // The report may have come in the same moment; it decides whether to search.
        if let Some(control) = &self.control {
            let mut buffer = [0; 4096];
            while let Ok(count) = control.try_read(&mut buffer) {
                if count == 0 {
                    break;
                }
                self.left.report_bytes.extend_from_slice(&buffer[..count]);
            }
            let report = self.left.report.take();
            self.left.report = report.or_else(|| Report::parse(&self.left.report_bytes));
        }
        self.control = None;
        let childless = self
            .left
            .report
            .as_ref()
            .is_some_and(|report| report.childless);
        if self.phase != Phase::Running {
            self.looks.next = Instant::now();
        } else if childless || self.family.members(Leader::Excluded).is_empty() {
            self.enter(Phase::Draining(Instant::now() + DRAIN));
        } else {
            self.enter(Phase::Lingering(Instant::now() + self.grace.leftovers));
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.looks.interval = FIRST_LOOK;
        self.looks.next = Instant::now();
    }

    fn next_event(&self) -> Instant {
        match self.phase {
            Phase::Running | Phase::LetGo => self.looks.next,
            Phase::Draining(until) => until,
            Phase::Lingering(until) | Phase::Terminating(until) | Phase::Killing(until) => {
                self.looks.next.min(until)
            }
        }
    }

    /// Looks whether anything is left, and continues to the next phase when it is time.
    async fn look(&mut self) {
        let now = Instant::now();
        self.looks.next = now + self.looks.interval;
        let longest = match self.phase {
            // Nobody waits for a daemon.
            Phase::Lingering(until) if until > now + LINGER => DAEMON_LOOK,
            _ => LONGEST_LOOK,
        };
        self.looks.interval = (self.looks.interval * 2).min(longest);
        match self.phase {
            Phase::Running | Phase::Draining(_) | Phase::LetGo => {}
            Phase::Lingering(until) => {
                let members = self.family.members(Leader::Excluded);
                if members.is_empty() {
                    self.nothing_left().await;
                } else if now >= until {
                    self.left.processes = members.iter().map(lathe_process::describe).collect();
                    self.family.signal(Signal::SIGTERM, Leader::Excluded);
                    self.enter(Phase::Terminating(now + LEFTOVER_GRACE));
                }
            }
            Phase::Terminating(until) => {
                if self.family.members(self.scope).is_empty() {
                    self.nothing_left().await;
                } else if now >= until {
                    self.family.signal(Signal::SIGKILL, self.scope);
                    self.enter(Phase::Killing(now + KILL_LIMIT));
                }
            }
            Phase::Killing(until) => {
                // Again each time: what forked between the look and the kill is found now.
                let left = self.family.signal(Signal::SIGKILL, self.scope);
                if left.is_empty() || now >= until {
                    self.nothing_left().await;
                }
            }
        }
    }

    async fn nothing_left(&mut self) {
        self.release_shell().await;
        if self.status.is_some() || self.scope == Leader::Included {
            self.enter(Phase::Draining(Instant::now() + DRAIN));
        } else {
            // Only the shell is left, and it is on its way out.
            self.enter(Phase::Running);
            if let Some(report) = &mut self.left.report {
                report.childless = true;
            }
        }
    }

    fn result(&mut self) -> Outcome {
        let exit = match (self.cause, self.status.take()) {
            (Some(StopCause::TimedOut), _) => Exit::TimedOut,
            (Some(StopCause::Cancelled), _) => Exit::Cancelled,
            (None, Some(Ok(status))) => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Exited(code),
                (None, Some(signal)) => Exit::Signalled(signal),
                (None, None) => Exit::Exited(1),
            },
            // Its end can't be learnt; it is treated as failed.
            (None, _) => Exit::Exited(1),
        };
        Outcome {
            exit,
            output: output_of(&self.capture.lock(), &self.output_file.spill),
            report: self.left.report.take(),
            leftovers: std::mem::take(&mut self.left.processes),
            duration: self.looks.started.elapsed(),
        }
    }
}

/// The output so far.
pub(super) fn output_of(capture: &Capture, spill: &Spill) -> Output {
    let file = spill.path().map(PathBuf::from);
    let text = capture.text(|cut| match (&file, spill) {
        (Some(path), _) => format!(
            "\n\n[{cut} bytes omitted; the full output is in {}]\n\n",
            path.display()
        ),
        (None, Spill::Failed(reason)) => {
            format!("\n\n[{cut} bytes omitted and lost, they could not be saved: {reason}]\n\n")
        }
        (None, _) => format!("\n\n[{cut} bytes omitted]\n\n"),
    });
    Output {
        text,
        total_bytes: capture.total(),
        omitted_bytes: capture.omitted(),
        file_truncated: matches!(spill, Spill::Open(open) if open.full),
        file,
    }
}

async fn read_from<R: tokio::io::AsyncRead + Unpin>(
    source: Option<&mut R>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match source {
        Some(source) => source.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// When to show progress next.
struct Pace {
    callback: Option<ProgressCallback>,
    next: Instant,
    shown_bytes: u64,
    shown_at: Instant,
}

impl Pace {
    fn new(started: Instant, callback: Option<ProgressCallback>) -> Self {
        Self {
            callback,
            next: started + PROGRESS_INTERVAL,
            shown_bytes: 0,
            shown_at: started,
        }
    }

    fn show(&mut self, capture: &Mutex<Capture>, started: Instant) {
        let now = Instant::now();
        self.next = now + PROGRESS_INTERVAL;
        let progress = {
            let capture = capture.lock();
            if capture.total() == self.shown_bytes && now - self.shown_at < PROGRESS_HEARTBEAT {
                return;
            }
            Progress {
                last_lines: capture.last_lines(5, 2_000),
                total_bytes: capture.total(),
                elapsed: now - started,
            }
        };
        self.shown_bytes = progress.total_bytes;
        self.shown_at = now;
        if let Some(callback) = &self.callback {
            callback(progress);
        }
    }
}
