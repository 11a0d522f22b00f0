//! Starting a process, on the one thread from which that is safe.
//!
//! `PR_SET_PDEATHSIG` fires when the *thread* that forked ends, not the process. Worker threads of
//! an async runtime come and go, so every child is started from one thread that lives as long as
//! the process does.
//!
//! The child leads a session of its own: it has no controlling terminal to grab, and one signal
//! reaches its whole group. It is also made a *child subreaper*: whatever it starts and lets go of
//! (double forks, `setsid`) stays below it in the process tree for as long as it lives, which is how
//! [`super::family`] finds processes that try to escape.
#![allow(
    unsafe_code,
    reason = "what a child does between fork and exec can only be said in an unsafe hook"
)]

use super::family::Family;
use super::guard;
use super::live::Registration;
use nix::fcntl::{FcntlArg, fcntl};
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Descriptors from here on are hardly ever used by name in scripts.
const QUIET_DESCRIPTOR: RawFd = 198;

/// What to start. The program's arguments may depend on [`ControlEnd::descriptor`].
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    /// The whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The value of the marker variable, one per command.
    pub(super) marker: String,
    /// Our way to talk with the shell itself.
    pub(super) control: ControlEnd,
}

/// A running child with our ends of its pipes.
pub(super) struct Spawned {
    pub(super) child: Child,
    pub(super) output: pipe::Receiver,
    pub(super) family: Family,
    /// Kills everything when the command is let go of before it ended.
    pub(super) registration: Registration,
}

/// The child's end of the control socket, held under the number that the child will know it by.
pub(super) struct ControlEnd {
    held: OwnedFd,
    descriptor: RawFd,
}

impl ControlEnd {
    /// The number that the child knows it by.
    pub(super) fn descriptor(&self) -> RawFd {
        self.descriptor
    }
}

/// Makes a control socket: our end, and the child's. `fixed` forces the child's number, for shells
/// that can only name descriptors of one digit.
pub(super) fn control_socket(fixed: Option<RawFd>) -> io::Result<(UnixStream, ControlEnd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    // Holding the wanted number in this process too keeps it from being handed out for the pipe
    // through which a failing exec is reported.
    let raw = match fcntl(
        &theirs,
        FcntlArg::F_DUPFD_CLOEXEC(fixed.unwrap_or(QUIET_DESCRIPTOR)),
    ) {
        Ok(raw) => raw,
        // The limit of open files is below that number.
        Err(_) => fcntl(&theirs, FcntlArg::F_DUPFD_CLOEXEC(10))?,
    };
    // SAFETY: fcntl just made this descriptor and nothing else owns it.
    let held = unsafe { OwnedFd::from_raw_fd(raw) };
    let descriptor = fixed.unwrap_or(raw);
    Ok((ours, ControlEnd { held, descriptor }))
}

struct Job {
    launch: Launch,
    output: PipeWriter,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Started>>,
}

/// Whoever drops this without taking it apart ends the command, also while it is on its way back.
struct Started {
    registration: Registration,
    child: Child,
    family: Family,
}

static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();

fn submit(job: Job) -> io::Result<()> {
    let gone = || io::Error::other("the thread that starts processes has ended");
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
    sender.send(job).map_err(|_| gone())
}

fn serve(jobs: &mpsc::Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let Job {
            launch,
            output,
            runtime,
            reply,
        } = job;
        let result = {
            let _runtime = runtime.enter();
            start(launch, &output)
        };
        // Our copy of the writing end must be gone before anyone waits for the end of the output.
        drop(output);
        // When nobody waits any more, dropping the answer ends the command.
        drop(reply.send(result));
        guard::ensure_running();
    }
}

fn start(launch: Launch, output: &PipeWriter) -> io::Result<Started> {
    let Launch {
        program,
        arguments,
        directory,
        environment,
        marker,
        control,
    } = launch;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment)
        .env(super::family::MARKER_VARIABLE, &marker)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output.try_clone()?))
        .kill_on_drop(true);
    let held = control.held.as_raw_fd();
    let wanted = control.descriptor;
    let parent = std::process::id();
    // SAFETY: the hook runs between fork and exec in a process that may have had other threads; it
    // makes plain system calls only, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            #[cfg(target_os = "linux")]
            {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
                nix::sys::prctl::set_child_subreaper(true)?;
            }
            // The parent may have died before the signal was asked for.
            if nix::unistd::getppid().as_raw().cast_unsigned() != parent {
                return Err(io::Error::from(nix::errno::Errno::ESRCH));
            }
            let done = if held == wanted {
                libc::fcntl(held, libc::F_SETFD, 0)
            } else {
                libc::dup2(held, wanted)
            };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    let family = Family::new(child.id().unwrap_or_default().cast_signed(), marker);
    Ok(Started {
        registration: Registration::new(family.clone()),
        child,
        family,
    })
}

/// Starts a child. Dropping the future before it is ready ends it, with all that it started.
pub(super) async fn spawn(launch: Launch) -> io::Result<Spawned> {
    let (reader, output) = io::pipe()?;
    let output_reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let (reply, started) = oneshot::channel();
    submit(Job {
        launch,
        output,
        runtime: Handle::current(),
        reply,
    })?;
    let started = started
        .await
        .map_err(|_| io::Error::other("the thread that starts processes has ended"))??;
    Ok(Spawned {
        child: started.child,
        output: output_reader,
        family: started.family,
        registration: started.registration,
    })
}
