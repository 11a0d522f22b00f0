//! Starting shells, each as the leader of a session of its own, from the one thread from which that is safe.
//!
//! `PR_SET_PDEATHSIG` fires when the *thread* that started the child ends, not the process. Worker
//! threads of an async runtime come and go, so every child is started from one thread that lives as
//! long as the process does. It is also the one thread that stands still while a child starts.
//!
//! The child leads a session of its own: it has no controlling terminal to grab, and one signal
//! reaches its whole group. It is also made a *child subreaper*: whatever it starts and lets go of
//! (double forks, `setsid`) stays below it in the process tree for as long as it lives, which is how
//! [`Family`] finds processes that try to escape.

use crate::command::{Command, Parts};
use crate::family::{Family, MARKER_VARIABLE, new_marker};
use crate::guard;
use crate::live::Registration;
use crate::system::{self, Child, Plan, Unreaped};
use crate::terminal::{Opened, Terminal, TerminalSize};
use lathe_sandbox::Confinement;
use nix::fcntl::{FcntlArg, fcntl};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// Descriptors from here on are hardly ever used by name in scripts.
const QUIET_DESCRIPTOR: RawFd = 198;

/// A running child with our end of its output.
#[derive(Debug)]
pub struct Spawned {
    /// The child itself.
    pub child: Child,
    /// Its standard output and standard error, in one.
    pub output: pipe::Receiver,
    /// The processes that it starts.
    pub family: Family,
    /// Kills everything when it is dropped before the command has ended.
    pub registration: Registration,
}

/// The child's end of the control socket, and its number in the child.
#[derive(Debug)]
pub struct ControlEnd {
    held: OwnedFd,
    descriptor: RawFd,
}

impl ControlEnd {
    /// The number of the descriptor in the child.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor
    }
}

/// Makes a control socket: our end, and the child's. `fixed` forces the child's number, for shells
/// that can only name descriptors of one digit.
///
/// # Errors
/// If there are no descriptors left.
pub fn control_socket(fixed: Option<RawFd>) -> io::Result<(UnixStream, ControlEnd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    let wanted = fixed.unwrap_or(QUIET_DESCRIPTOR);
    // The limit of open files may be below that number.
    let held = copy_above(&theirs, wanted).or_else(|_| copy_above(&theirs, 10))?;
    let descriptor = fixed.unwrap_or(std::os::fd::AsRawFd::as_raw_fd(&held));
    Ok((ours, ControlEnd { held, descriptor }))
}

/// A copy of a descriptor whose number is at least this.
fn copy_above(descriptor: impl AsFd, least: RawFd) -> io::Result<OwnedFd> {
    Ok(fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(least)).map(system::owned)?)
}

struct Job {
    command: Command,
    control: ControlEnd,
    confinement: Option<Arc<Confinement>>,
    streams: Streams,
    reply: oneshot::Sender<io::Result<Started>>,
}

/// The standard streams of a child.
enum Streams {
    /// No input; the output goes here.
    Output(OwnedFd),
    /// All three are this terminal.
    Terminal(OwnedFd),
}

/// Dropping this without taking it apart ends the command, also before its reply has arrived.
struct Started {
    registration: Registration,
    process: Unreaped,
    family: Family,
}

static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();

fn submit(job: Job) -> io::Result<()> {
    let sender = match SPAWNER.get() {
        Some(sender) => sender,
        None => {
            let (sender, jobs) = mpsc::channel();
            std::thread::Builder::new()
                .name("lathe-spawn".to_owned())
                .stack_size(256 * 1024)
                .spawn(move || serve(&jobs))?;
            // A second thread that lost this race ends at once: its channel is dropped unused.
            SPAWNER.get_or_init(|| Mutex::new(sender))
        }
    };
    let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
    sender.send(job).map_err(|_| thread_ended())
}

fn thread_ended() -> io::Error {
    io::Error::other("the thread that starts processes has ended")
}

fn serve(jobs: &mpsc::Receiver<Job>) {
    // A child borrows our memory while it starts; no handler may run in it meanwhile. Signals to the
    // process go to other threads.
    if let Err(error) = nix::sys::signal::SigSet::all().thread_block() {
        tracing::warn!(%error, "signals can't be blocked; no process is started");
        return;
    }
    while let Ok(job) = jobs.recv() {
        let Job {
            command,
            control,
            confinement,
            streams,
            reply,
        } = job;
        // When nobody waits any more, dropping the answer ends the command.
        drop(reply.send(start(command, control, confinement, streams)));
        guard::ensure_running();
    }
}

/// Takes the writing end of the output with it: ours must be gone before anyone waits for the end.
fn start(
    command: Command,
    control: ControlEnd,
    confinement: Option<Arc<Confinement>>,
    streams: Streams,
) -> io::Result<Started> {
    let Parts {
        program,
        arguments,
        directory,
        mut environment,
    } = command.into_parts();
    let marker = new_marker();
    let executable = system::c_program(&program, &environment)?;
    environment.push((MARKER_VARIABLE.into(), marker.clone().into()));
    let mut words = vec![system::c_text(&program)?];
    for argument in arguments {
        words.push(system::c_text(argument)?);
    }
    let plan = Plan {
        program: executable,
        arguments: words,
        environment: system::c_environment(&environment)?,
        directory: system::c_text(directory)?,
        output: match &streams {
            Streams::Output(output) | Streams::Terminal(output) => copy_above(output, 3)?,
        },
        input: match &streams {
            Streams::Output(_) => copy_above(File::open("/dev/null")?, 3)?,
            Streams::Terminal(terminal) => copy_above(terminal, 3)?,
        },
        terminal: matches!(streams, Streams::Terminal(_)),
        kept: control.held,
        kept_as: control.descriptor,
        confinement,
    };
    drop(streams);
    let process = system::start(&plan)?;
    let family = Family::new(process.pid(), marker);
    Ok(Started {
        registration: Registration::new(family.clone()),
        process,
        family,
    })
}

/// Starts a shell with its standard input closed, inside a confinement if one is given. Its arguments may name [`ControlEnd::descriptor`]. Dropping
/// the future before it is ready ends the shell, with all that it started.
///
/// # Errors
/// If it can't be started.
pub async fn spawn(
    command: Command,
    control: ControlEnd,
    confinement: Option<Arc<Confinement>>,
) -> io::Result<Spawned> {
    let (reader, output) = io::pipe()?;
    let output_reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let streams = Streams::Output(OwnedFd::from(output));
    spawn_with(command, control, confinement, streams, output_reader).await
}

/// Starts a shell as [`spawn`] does, with a terminal as its standard streams, which it controls.
///
/// # Errors
/// If it can't be started, or there are no terminals left.
pub async fn spawn_on_terminal(
    command: Command,
    control: ControlEnd,
    confinement: Option<Arc<Confinement>>,
    size: TerminalSize,
) -> io::Result<(Spawned, Terminal)> {
    let Opened {
        terminal,
        output,
        program_side,
    } = Terminal::open(size)?;
    let streams = Streams::Terminal(program_side);
    let spawned = spawn_with(command, control, confinement, streams, output).await?;
    Ok((spawned, terminal))
}

async fn spawn_with(
    command: Command,
    control: ControlEnd,
    confinement: Option<Arc<Confinement>>,
    streams: Streams,
    output: pipe::Receiver,
) -> io::Result<Spawned> {
    let (reply, started) = oneshot::channel();
    submit(Job {
        command,
        control,
        confinement,
        streams,
        reply,
    })?;
    let started = started.await.map_err(|_| thread_ended())??;
    Ok(Spawned {
        child: Child::new(started.process)?,
        output,
        family: started.family,
        registration: started.registration,
    })
}
