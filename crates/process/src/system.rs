//! Starting a process and waiting for its end: the system calls behind `session`, and the only unsafe code of this crate.
//!
//! `fork` copies the page tables of the caller, which in a session of a hundred megabytes takes
//! longer than the command itself. So on Linux the child borrows our memory until it has become the
//! shell (`CLONE_VM | CLONE_VFORK`, what `posix_spawn` does inside), and says itself what it has to
//! say in between: a session of its own, the parent-death signal, being a subreaper. The standard
//! library's `Command` can do one or the other, not both.
#![expect(
    unsafe_code,
    reason = "what a child does before it runs the shell can only be said to the kernel directly"
)]

use lathe_sandbox::Confinement;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// Takes ownership of a descriptor that a system call has just given.
pub(crate) fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: callers pass what fcntl returned a moment ago; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Lets a child enter a confinement before it becomes its program.
pub(crate) fn enter_before(command: &mut std::process::Command, confinement: Arc<Confinement>) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: entering makes plain system calls only, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || confinement.enter());
    }
}

/// The inputs of a child, with every allocation made beforehand.
pub(crate) struct Plan {
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    /// `NAME=value`.
    pub(crate) environment: Vec<CString>,
    pub(crate) directory: CString,
    /// Where standard output and standard error go. Above 2.
    pub(crate) output: OwnedFd,
    /// Where standard input comes from. Above 2.
    pub(crate) input: OwnedFd,
    /// Whether that is a terminal which the child is to control.
    pub(crate) terminal: bool,
    /// A descriptor that the child keeps, and under which number.
    pub(crate) kept: OwnedFd,
    pub(crate) kept_as: RawFd,
    /// Entered last before the program runs.
    pub(crate) confinement: Option<Arc<Confinement>>,
}

/// Text for a system call.
pub(crate) fn c_text(text: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(text.as_ref().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "it contains a NUL character"))
}

/// The environment for a system call. Of a name that is there twice, the last value applies.
pub(crate) fn c_environment(variables: &[(OsString, OsString)]) -> io::Result<Vec<CString>> {
    let mut entries = Vec::with_capacity(variables.len());
    for (index, (name, value)) in variables.iter().enumerate() {
        if variables[index + 1..]
            .iter()
            .any(|(later, _)| later == name)
        {
            continue;
        }
        let mut entry = name.clone();
        entry.push("=");
        entry.push(value);
        entries.push(c_text(entry)?);
    }
    Ok(entries)
}

/// Where a program is: as given, or by its name on the search path.
pub(crate) fn c_program(
    program: &Path,
    environment: &[(OsString, OsString)],
) -> io::Result<CString> {
    if program.components().count() > 1 {
        return c_text(program);
    }
    let search = environment
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.clone());
    which::which_in(program, search, "/")
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
        .and_then(c_text)
}

/// A process that was started from here and has not been waited for. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Unreaped {
    pid: i32,
    descriptor: Option<OwnedFd>,
    reaped: bool,
}

impl Unreaped {
    fn new(pid: i32, descriptor: Option<OwnedFd>) -> Self {
        Self {
            pid,
            descriptor,
            reaped: false,
        }
    }

    /// The process's number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Its end, if that has come.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = wait(self.pid, libc::WNOHANG)?;
        self.reaped |= status.is_some();
        Ok(status)
    }
}

impl Drop for Unreaped {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // Nobody else waits for this number, so it still means our child.
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.pid),
            nix::sys::signal::Signal::SIGKILL,
        );
        // A killed process is gone within a moment, or stuck in the kernel and not worth waiting for.
        for _ in 0..50 {
            if !matches!(self.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn wait(pid: i32, flags: i32) -> io::Result<Option<ExitStatus>> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for writing for the length of the call.
        let result = unsafe { libc::waitpid(pid, &raw mut status, flags) };
        match result {
            0 => return Ok(None),
            found if found == pid => return Ok(Some(ExitStatus::from_raw(status))),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// A running child that can be awaited.
#[derive(Debug)]
pub struct Child {
    process: Unreaped,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    /// Readable when the process has ended.
    Descriptor(AsyncFd<OwnedFd>),
    /// For kernels without such descriptors: a thread that waits.
    Thread(JoinHandle<io::Result<Option<ExitStatus>>>),
}

impl Child {
    /// Makes a process awaitable, on the current runtime.
    pub(crate) fn new(mut process: Unreaped) -> io::Result<Self> {
        let waiter = match process.descriptor.take() {
            Some(descriptor) => {
                // SAFETY: an `OwnedFd` keeps its descriptor open and the same until it is dropped,
                // and nothing takes it out of the `AsyncFd`.
                let registered =
                    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
                Waiter::Descriptor(registered?)
            }
            None => {
                let pid = process.pid;
                Waiter::Thread(lathe_spawn::blocking(move || wait(pid, 0)))
            }
        };
        Ok(Self { process, waiter })
    }

    /// Waits for its end. Not to be called again after that.
    ///
    /// # Errors
    /// If the system can't say how it ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.waiter {
            Waiter::Descriptor(descriptor) => loop {
                let mut ready = descriptor.readable().await?;
                match self.process.try_wait()? {
                    Some(status) => return Ok(status),
                    None => ready.clear_ready(),
                }
            },
            Waiter::Thread(thread) => {
                let status = thread.await.map_err(io::Error::other)??;
                self.process.reaped = true;
                status.ok_or_else(|| io::Error::other("waiting gave no status"))
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::start;

#[cfg(target_os = "linux")]
mod linux {
    use super::{AsRawFd, CString, Confinement, Plan, RawFd, Unreaped, io, owned};
    use std::ptr;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// Enough for the few calls that the child makes on it; what is larger than this makes the allocator
    /// tidy up each time it is given back.
    const STACK: usize = 32 * 1024;

    /// The memory that the child reads, and the one word that it writes.
    struct Shared<'a> {
        program: *const libc::c_char,
        arguments: *const *const libc::c_char,
        environment: *const *const libc::c_char,
        directory: *const libc::c_char,
        input: RawFd,
        output: RawFd,
        terminal: bool,
        kept: RawFd,
        kept_as: RawFd,
        confinement: Option<&'a Confinement>,
        parent: libc::pid_t,
        /// Why the program could not be run; 0 when it could.
        error: AtomicI32,
    }

    fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
        let texts = texts.iter().map(|text| text.as_ptr());
        texts.chain([ptr::null()]).collect()
    }

    /// Starts a process. All signals must be blocked on this thread.
    pub(crate) fn start(plan: &Plan) -> io::Result<Unreaped> {
        let arguments = pointers(&plan.arguments);
        let environment = pointers(&plan.environment);
        let shared = Shared {
            program: plan.program.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            directory: plan.directory.as_ptr(),
            input: plan.input.as_raw_fd(),
            output: plan.output.as_raw_fd(),
            terminal: plan.terminal,
            kept: plan.kept.as_raw_fd(),
            kept_as: plan.kept_as,
            confinement: plan.confinement.as_deref(),
            parent: std::process::id().cast_signed(),
            error: AtomicI32::new(0),
        };
        // Of 16-byte units, since that is how a stack must be aligned.
        let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
        let stack_end = stack.spare_capacity_mut().as_mut_ptr_range().end;
        let mut descriptor: libc::c_int = -1;
        // SAFETY: this thread stands still until the child has run the program or ended
        // (CLONE_VFORK), so everything that the child's function reads through `shared` outlives it,
        // and it has a stack of its own. The function allocates nothing, takes no lock and can't
        // panic. Signals are blocked here and so in the child until it has removed our handlers.
        let pid = unsafe {
            libc::clone(
                run_program,
                stack_end.cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
                (&raw const shared).cast_mut().cast(),
                &raw mut descriptor,
                ptr::null_mut::<libc::c_void>(),
                ptr::null_mut::<libc::pid_t>(),
            )
        };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // Kernels before 5.2 leave it as it was.
        let descriptor = (descriptor >= 0).then(|| owned(descriptor));
        let process = Unreaped::new(pid, descriptor);
        match shared.error.load(Ordering::SeqCst) {
            0 => Ok(process),
            // The child has ended; dropping it waits for it.
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The child's own part, in our memory.
    extern "C" fn run_program(shared: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `start` passes its own `Shared`, which outlives this. Only system calls follow,
        // on values in it, all valid: C strings, null-terminated lists of them, open descriptors.
        unsafe {
            let shared = &*shared.cast_const().cast::<Shared<'_>>();
            become_program(shared);
            shared
                .error
                .store(*libc::__errno_location(), Ordering::SeqCst);
            libc::_exit(127)
        }
    }

    /// Returns only when something failed, with the reason in `errno`.
    ///
    /// # Safety
    /// Only in the child that `start` makes.
    unsafe fn become_program(shared: &Shared<'_>) {
        // SAFETY: see `run_program`; `action` and `none` are valid for the calls that use them.
        unsafe {
            // Our handlers must not run in the child, which is about to let signals in again.
            let mut action: libc::sigaction = std::mem::zeroed();
            for signal in 1..=libc::SIGRTMAX() {
                if libc::sigaction(signal, ptr::null(), &raw mut action) != 0 {
                    continue;
                }
                let handled =
                    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
                // Rust programs ignore SIGPIPE; others count on dying of it. On a terminal keys must work, also where
                // this process was started with their signals ignored.
                let by_keys = shared.terminal && action.sa_sigaction == libc::SIG_IGN;
                if handled || by_keys || signal == libc::SIGPIPE {
                    action.sa_sigaction = libc::SIG_DFL;
                    action.sa_flags = 0;
                    libc::sigaction(signal, &raw const action, ptr::null_mut());
                }
            }
            if libc::setsid() < 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                || libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) < 0
            {
                return;
            }
            if shared.terminal && libc::ioctl(shared.input, libc::TIOCSCTTY, 0) < 0 {
                return;
            }
            // The parent may have died before the signal was asked for.
            if libc::getppid() != shared.parent {
                *libc::__errno_location() = libc::ESRCH;
                return;
            }
            if libc::chdir(shared.directory) < 0
                || libc::dup2(shared.input, 0) < 0
                || libc::dup2(shared.output, 1) < 0
                || libc::dup2(shared.output, 2) < 0
            {
                return;
            }
            let kept = if shared.kept == shared.kept_as {
                libc::fcntl(shared.kept, libc::F_SETFD, 0)
            } else {
                libc::dup2(shared.kept, shared.kept_as)
            };
            if kept < 0 {
                return;
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            if let Some(confinement) = shared.confinement
                && confinement.enter().is_err()
            {
                return;
            }
            libc::execve(shared.program, shared.arguments, shared.environment);
        }
    }
}

/// Elsewhere an ordinary fork: slower, and without the parent-death signal and the subreaper.
#[cfg(not(target_os = "linux"))]
pub(crate) fn start(plan: &Plan) -> io::Result<Unreaped> {
    use std::os::unix::process::CommandExt;
    let text = |text: &CString| OsStr::from_bytes(text.as_bytes()).to_owned();
    let mut command = std::process::Command::new(text(&plan.program));
    command
        .args(plan.arguments.iter().skip(1).map(text))
        .env_clear()
        .current_dir(text(&plan.directory))
        .stdin(plan.input.try_clone()?)
        .stdout(plan.output.try_clone()?)
        .stderr(plan.output.try_clone()?);
    for entry in &plan.environment {
        let mut parts = entry.as_bytes().splitn(2, |&byte| byte == b'=');
        if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
    }
    let confinement = plan.confinement.clone();
    let (kept, kept_as) = (plan.kept.as_raw_fd(), plan.kept_as);
    let terminal = plan.terminal;
    // SAFETY: the hook makes plain system calls only, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            // Standard input is the terminal already.
            if terminal && libc::ioctl(0, libc::TIOCSCTTY.into(), 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            // Keys must work, also where this process was started with their signals ignored.
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGHUP] {
                if terminal {
                    libc::signal(signal, libc::SIG_DFL);
                }
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            let done = if kept == kept_as {
                libc::fcntl(kept, libc::F_SETFD, 0)
            } else {
                libc::dup2(kept, kept_as)
            };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
            confinement.as_deref().map_or(Ok(()), Confinement::enter)
        });
    }
    let child = command.spawn()?;
    Ok(Unreaped::new(child.id().cast_signed(), None))
}
