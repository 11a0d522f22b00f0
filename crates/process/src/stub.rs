//! A process that can leave its terminal.
//!
//! An interactive program forks once at its very start ([`split`]). The parent, the *stub*, is the process that the
//! shell knows: it only waits, ends as the child ends, and passes signals on. The child does everything, directly on the
//! terminal, so nothing is slower than without a stub. When the child leaves the terminal ([`Link::leave`]), the stub
//! ends and the shell is back, while the child lives on in a session of its own on a [`Console`](crate::Console).
#![expect(
    unsafe_code,
    reason = "fork, signal handlers and the end of a process can only be said to the kernel directly"
)]

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// The child of the stub, for the signal handler.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Signals that somebody sent to the stub are meant for the child.
const PASSED_ON: [i32; 7] = [
    libc::SIGCONT,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The child's connection to its stub.
#[derive(Debug)]
pub struct Link {
    pipe: OwnedFd,
}

/// Becomes two processes. Returns in the child; the parent is the stub, and ends when the child does or leaves.
///
/// Must be called before there are threads: only the calling one exists in the child.
///
/// # Errors
/// If there is no second process; then nothing has changed.
pub fn split() -> io::Result<Link> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: there is one thread, so no lock can be held by another.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(read);
            end_with_parent(libc::SIGKILL);
            Ok(Link { pipe: write })
        }
        child => {
            drop(write);
            let code = serve(child, read);
            // SAFETY: ends the stub; the child flushes what was written before the fork.
            unsafe { libc::_exit(code) }
        }
    }
}

impl Link {
    /// Lets the stub print a text and end, so that the shell is back. This process no longer ends with it.
    pub fn leave(self, text: &str) {
        end_with_parent(0);
        self.say('L', text);
    }

    /// Lets the stub become another run of this program with these arguments, on the terminal that this process left.
    pub fn hand_over(self, arguments: &[&str]) {
        end_with_parent(0);
        self.say('E', &arguments.join("\0"));
    }

    fn say(self, kind: char, text: &str) {
        let message = format!("{kind}{text}");
        // A stub that is gone needs no message.
        let _ = std::fs::File::from(self.pipe).write_all(message.as_bytes());
    }
}

/// Sets the signal that this process gets when its parent ends; 0 is none.
fn end_with_parent(signal: i32) {
    #[cfg(target_os = "linux")]
    {
        let signal = libc::c_ulong::from(signal.cast_unsigned());
        // SAFETY: a plain setting of this process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = signal;
}

/// The life of the stub. Gives its exit code.
fn serve(child: i32, pipe: OwnedFd) -> i32 {
    CHILD.store(child, Ordering::Relaxed);
    pass_signals_on();
    let mut message = Vec::new();
    let mut pipe = std::fs::File::from(pipe);
    // Ends when the child closes its end: it said something and left, or it is over.
    let _ = pipe.read_to_end(&mut message);
    let text = String::from_utf8_lossy(message.get(1..).unwrap_or_default()).into_owned();
    match message.first() {
        Some(b'L') => {
            let mut out = io::stdout();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            0
        }
        Some(b'E') => become_program(&text),
        _ => end_like(child),
    }
}

fn become_program(arguments: &str) -> i32 {
    use std::os::unix::process::CommandExt as _;
    default_signals();
    let Ok(program) = std::env::current_exe() else {
        return 1;
    };
    let error = std::process::Command::new(program)
        .args(arguments.split('\0'))
        .exec();
    let _ = writeln!(io::stderr(), "lathe: {error}");
    1
}

/// Waits for the child and ends as it did, by a signal too.
fn end_like(child: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: a valid pointer to an integer of this function.
        let result = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if result == child {
            break;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 1;
        }
    }
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        default_signals();
        // SAFETY: this process has one thread and the signal's default action.
        unsafe { libc::raise(signal) };
        return 128 + signal;
    }
    libc::WEXITSTATUS(status)
}

fn pass_signals_on() {
    for signal in PASSED_ON {
        // SAFETY: an all-zero sigaction is valid; the handler makes one system call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = forward as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

fn default_signals() {
    for signal in PASSED_ON {
        // SAFETY: sets the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Passes a signal on that somebody sent. Those of the terminal reach the child anyway, which is in the same group.
extern "C" fn forward(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid pointer; kill may be called in a handler.
    unsafe {
        if (*info).si_code <= 0 {
            libc::kill(CHILD.load(Ordering::Relaxed), signal);
        }
    }
}
