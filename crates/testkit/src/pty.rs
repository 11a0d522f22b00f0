//! A real terminal for the interactive face: a PTY with an emulator behind it.
//!
//! A test types, waits until the screen shows something, and looks at the screen and at what has
//! scrolled off it. Waits have a limit and fail with the whole screen shown. The emulator doesn't
//! rewrap lines when its width changes, and the program is told so (`LATHE_TERMINAL_REWRAPS=0`).

use crate::{HANG_LIMIT, TestHome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty_process::blocking::Pty;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Lines that the emulator keeps.
const SCROLLBACK: usize = 50_000;

struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
}

/// A program in a terminal. Dropping it kills the program.
pub struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    shown: Arc<(Mutex<Shown>, Condvar)>,
    status: Option<ExitStatus>,
}

impl TestHome {
    /// Starts `lathe` in a terminal of this many columns and rows.
    ///
    /// # Panics
    /// If no terminal can be made.
    #[must_use]
    pub fn terminal<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        columns: u16,
        rows: u16,
    ) -> Terminal {
        Terminal::start(&self.command(arguments), columns, rows)
    }
}

impl Terminal {
    /// Starts a command in a terminal. Its environment is exactly what the command sets.
    ///
    /// # Panics
    /// If no terminal can be made.
    #[must_use]
    pub fn start(command: &std::process::Command, columns: u16, rows: u16) -> Self {
        let (pty, pts) = pty_process::blocking::open().expect("a PTY can be opened");
        pty.resize(pty_process::Size::new(rows, columns))
            .expect("a PTY has a size");
        let mut inside = pty_process::blocking::Command::new(command.get_program())
            .args(command.get_args())
            .env_clear()
            .env("TERM", "xterm-256color")
            .env("LATHE_TERMINAL_REWRAPS", "0");
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                inside = inside.env(name, value);
            }
        }
        if let Some(folder) = command.get_current_dir() {
            inside = inside.current_dir(folder);
        }
        let child = inside
            .spawn(pts)
            .unwrap_or_else(|error| panic!("can't start {command:?}: {error}"));
        let pty = Arc::new(pty);
        let shown = Arc::new((
            Mutex::new(Shown {
                parser: vt100::Parser::new(rows, columns, SCROLLBACK),
                bytes: Vec::new(),
                ended: false,
            }),
            Condvar::new(),
        ));
        std::thread::spawn({
            let (pty, shown) = (pty.clone(), shown.clone());
            move || {
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    // A PTY whose other side is closed answers with an error, not with an end.
                    let read = (&*pty).read(&mut buffer).unwrap_or(0);
                    let mut state = shown.0.lock().unwrap();
                    state.parser.process(&buffer[..read]);
                    state.bytes.extend_from_slice(&buffer[..read]);
                    state.ended = read == 0;
                    shown.1.notify_all();
                    if read == 0 {
                        return;
                    }
                }
            }
        });
        Self {
            pty,
            child,
            shown,
            status: None,
        }
    }

    /// What is shown, also after a failed wait.
    fn lock(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.shown
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Types text, exactly these bytes.
    pub fn send(&self, text: impl AsRef<[u8]>) {
        // A program that has ended reads no more; the test sees that on the screen.
        let _ = (&*self.pty).write_all(text.as_ref());
    }

    /// Types text and presses Enter once the text is on the screen.
    pub fn say(&self, text: &str) {
        self.send(text);
        let end: String = text
            .chars()
            .rev()
            .take(12)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        self.wait_for(&end);
        self.send("\r");
    }

    /// Pastes text as a terminal does.
    pub fn paste(&self, text: &str) {
        self.send(format!("\x1b[200~{text}\x1b[201~"));
    }

    /// Waits until the screen shows a text.
    ///
    /// # Panics
    /// If it doesn't in time.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait(&format!("{text:?} on the screen"), |screen| {
            screen.contains(text)
        });
    }

    /// Waits until a text is gone from the screen.
    ///
    /// # Panics
    /// If it isn't in time.
    #[track_caller]
    pub fn wait_gone(&self, text: &str) {
        self.wait(&format!("{text:?} to go"), |screen| !screen.contains(text));
    }

    /// Waits until the screen is as it should be.
    ///
    /// # Panics
    /// If it isn't in time.
    #[track_caller]
    pub fn wait(&self, what: &str, mut fine: impl FnMut(&str) -> bool) {
        let until = Instant::now() + HANG_LIMIT;
        let mut state = self.lock();
        loop {
            let screen = state.parser.screen().contents();
            if fine(&screen) {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !state.ended,
                "waited for {what}, but {}:\n{screen}",
                if state.ended {
                    "the program ended"
                } else {
                    "time is up"
                }
            );
            state = self.shown.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits until everything that was written contains a text, wherever it is now.
    ///
    /// # Panics
    /// If it doesn't in time.
    #[track_caller]
    pub fn wait_for_bytes(&self, text: &str) {
        let until = Instant::now() + HANG_LIMIT;
        let mut state = self.lock();
        while !contains(&state.bytes, text.as_bytes()) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !state.ended,
                "waited for the bytes {text:?}:\n{}",
                state.parser.screen().contents()
            );
            state = self.shown.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// What is on the screen.
    #[must_use]
    pub fn screen(&self) -> String {
        self.lock().parser.screen().contents()
    }

    /// Where the cursor is: row and column, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        self.lock().parser.screen().cursor_position()
    }

    /// What has scrolled off the screen and what is on it, row by row, without blanks at the ends.
    #[must_use]
    pub fn everything(&self) -> String {
        let mut state = self.lock();
        let screen = state.parser.screen_mut();
        let (rows, columns) = screen.size();
        screen.set_scrollback(usize::MAX);
        let mut above = screen.scrollback();
        let mut lines = Vec::new();
        while above > 0 {
            screen.set_scrollback(above);
            let take = above.min(usize::from(rows));
            lines.extend(screen.rows(0, columns).take(take));
            above -= take;
        }
        screen.set_scrollback(0);
        lines.extend(screen.rows(0, columns));
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// How many bytes were written so far.
    #[must_use]
    pub fn bytes_written(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Everything that was written, escape sequences and all.
    #[must_use]
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// Asks the emulator something about its screen.
    pub fn with_screen<T>(&self, ask: impl FnOnce(&vt100::Screen) -> T) -> T {
        ask(self.lock().parser.screen())
    }

    /// Changes the terminal's size.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.lock().parser.screen_mut().set_size(rows, columns);
        self.pty
            .resize(pty_process::Size::new(rows, columns))
            .expect("the terminal is there");
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If the process id is out of range.
    pub fn signal(&self, signal: Signal) {
        let _ = kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            signal,
        );
    }

    /// Waits until the program has ended.
    ///
    /// # Panics
    /// If it doesn't in time.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + HANG_LIMIT;
        while self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
            assert!(Instant::now() < until, "it hangs:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
        // What it wrote last may still be on its way.
        let mut state = self.lock();
        while !state.ended && Instant::now() < until {
            state = self
                .shown
                .1
                .wait_timeout(state, Duration::from_millis(50))
                .unwrap()
                .0;
        }
        self.status.expect("it has ended")
    }

    /// Leaves by the usual way and gives how it ended.
    #[track_caller]
    pub fn leave(&mut self) -> ExitStatus {
        // While a turn runs, the key interrupts it.
        self.wait_gone("esc to interrupt");
        self.send("\x03");
        self.wait_for("again to leave");
        self.send("\x03");
        self.ended()
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
