//! A real terminal for the interactive face: a PTY with an emulator behind it.
//!
//! A test types, waits until the screen shows something, and looks at the screen and at what has
//! scrolled off it. Waits have a limit and fail with the whole screen shown. The emulator doesn't
//! rewrap lines when its width changes, and `LATHE_TERMINAL_REWRAPS=0` tells the program so.
//!
//! Output that a program draws between the beginning and the end of a synchronized update (mode 2026) comes to
//! light as a whole, as on a screen: a test never sees half a frame, however slowly the pieces come.
//! Text that is on the screen only for a while (a hint that goes away, a countdown) may come and go between
//! two looks; [`Terminal::wait_for_bytes`] finds it all the same, because what was written stays written.

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

/// How long a wait sleeps at the most before it looks again, for things that come without any output.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Begins and ends a synchronized update.
const UPDATE_BEGINS: &[u8] = b"\x1b[?2026h";
const UPDATE_ENDS: &[u8] = b"\x1b[?2026l";

struct Shown {
    parser: vt100::Parser,
    /// All bytes that were drawn.
    bytes: Vec<u8>,
    /// The part of an update that is not finished yet.
    held: Vec<u8>,
    ended: bool,
}

impl Shown {
    /// Takes what the program wrote, and shows what of it is whole.
    fn take(&mut self, written: &[u8]) {
        self.held.extend_from_slice(written);
        let whole = whole_updates(&self.held);
        self.show(whole);
    }

    /// Nothing more comes: what is there is all there is.
    fn end(&mut self) {
        self.show(self.held.len());
        self.ended = true;
    }

    fn show(&mut self, length: usize) {
        let rest = self.held.split_off(length);
        let whole = std::mem::replace(&mut self.held, rest);
        self.parser.process(&whole);
        self.bytes.extend_from_slice(&whole);
    }
}

/// How much of what was written can be shown: up to an update that is still open, or to a piece that may
/// become the beginning of one.
fn whole_updates(written: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = &written[at..];
        let Some(begin) = find(rest, UPDATE_BEGINS) else {
            let partial = (1..UPDATE_BEGINS.len())
                .rev()
                .find(|length| rest.ends_with(&UPDATE_BEGINS[..*length]))
                .unwrap_or(0);
            return written.len() - partial;
        };
        let Some(end) = find(&rest[begin..], UPDATE_ENDS) else {
            return at + begin;
        };
        at += begin + end + UPDATE_ENDS.len();
    }
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
            .env("LATHE_TERMINAL_REWRAPS", "0")
            // A scripted model answers what a test asks; tests of suggestions and proposals switch them on.
            .env("LATHE_PROMPT_SUGGESTIONS", "0")
            .env("LATHE_MEMORY_EXTRACTION", "off");
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
                held: Vec::new(),
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
                    let mut state = shown
                        .0
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    state.take(&buffer[..read]);
                    if read == 0 {
                        state.end();
                    }
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

    /// The screen and the scrollback, for messages of failed waits.
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
        self.wait_until(what, |state| fine(&state.parser.screen().contents()));
    }

    /// Waits until what has scrolled off the screen and what is on it are as they should be.
    ///
    /// # Panics
    /// If they aren't in time.
    #[track_caller]
    pub fn wait_everything(&self, what: &str, mut fine: impl FnMut(&str) -> bool) {
        self.wait_until(what, |state| fine(&everything(&mut state.parser)));
    }

    /// Waits until the emulator's screen is as it should be: modes, colours, the cursor.
    ///
    /// # Panics
    /// If it isn't in time.
    #[track_caller]
    pub fn wait_screen(&self, what: &str, mut fine: impl FnMut(&vt100::Screen) -> bool) {
        self.wait_until(what, |state| fine(state.parser.screen()));
    }

    /// Waits until everything that was written contains a text, wherever it is now. The way to wait for
    /// what is on the screen for a while only.
    ///
    /// # Panics
    /// If it doesn't in time.
    #[track_caller]
    pub fn wait_for_bytes(&self, text: &str) {
        self.wait_until(&format!("the bytes {text:?}"), |state| {
            find(&state.bytes, text.as_bytes()).is_some()
        });
    }

    #[track_caller]
    fn wait_until(&self, what: &str, mut fine: impl FnMut(&mut Shown) -> bool) {
        let until = Instant::now() + HANG_LIMIT;
        let mut state = self.lock();
        loop {
            if fine(&mut state) {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !state.ended,
                "waited for {what}, but {}:\n{}",
                if state.ended {
                    "the program ended"
                } else {
                    "time is up"
                },
                everything(&mut state.parser)
            );
            // What is waited for may be a file, which changes without any output.
            let pause = left.min(LOOK_AGAIN);
            state = self.shown.1.wait_timeout(state, pause).unwrap().0;
        }
    }

    /// The text on the screen.
    #[must_use]
    pub fn screen(&self) -> String {
        self.lock().parser.screen().contents()
    }

    /// Where the cursor is: row and column, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        self.lock().parser.screen().cursor_position()
    }

    /// The scrollback and the screen, row by row, without trailing blanks.
    #[must_use]
    pub fn everything(&self) -> String {
        everything(&mut self.lock().parser)
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

    /// The process that has the session: the child of the one that the terminal started, where it has one.
    #[must_use]
    pub fn session_pid(&self) -> u32 {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let child = children.ok().and_then(|text| {
            let first = text.split_whitespace().next()?;
            first.parse().ok()
        });
        child.unwrap_or(pid)
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
        // The last output may not have been read yet.
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
        self.leave_with("\x03")
    }

    /// Presses a key that leaves when it is pressed twice. Where the machine was so slow that the first
    /// press no longer counted, the program asks once more, and it is pressed again.
    #[track_caller]
    pub fn leave_with(&mut self, key: &str) -> ExitStatus {
        const ASKED: &[u8] = b"again to exit";
        let mut asked = count(&self.lock().bytes, ASKED);
        loop {
            self.send(key);
            let before = asked;
            self.wait_until("the hint how to exit, or the end", |state| {
                asked = count(&state.bytes, ASKED);
                asked > before || state.ended
            });
            if self.lock().ended {
                return self.ended();
            }
        }
    }
}

/// The scrollback and the screen, row by row, without trailing blanks.
fn everything(parser: &mut vt100::Parser) -> String {
    let screen = parser.screen_mut();
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

/// Where a piece first is.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    haystack
        .windows(needle.len())
        .filter(|window| *window == needle)
        .count()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_shown_when_it_is_whole() {
        let mut shown = Shown {
            parser: vt100::Parser::new(4, 40, 0),
            bytes: Vec::new(),
            held: Vec::new(),
            ended: false,
        };
        for byte in b"one \x1b[?2026htwo \x1b[1mthree" {
            shown.take(&[*byte]);
        }
        assert_eq!(shown.parser.screen().contents(), "one ");
        shown.take(b"\x1b[?2026");
        assert_eq!(shown.parser.screen().contents(), "one ");
        shown.take(b"lfour\x1b[?20");
        assert_eq!(shown.parser.screen().contents(), "one two threefour");
        shown.take(b"04h five \x1b[?2026h six");
        assert_eq!(shown.parser.screen().contents(), "one two threefour five ");
        shown.end();
        assert_eq!(
            shown.parser.screen().contents(),
            "one two threefour five  six"
        );
    }
}
