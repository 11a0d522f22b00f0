//! The terminal's modes: entered once, left on every way out.
//!
//! Changed modes are recorded in one place ([`STATE`]), so that the end of the program, a panic, a
//! signal and a suspension all restore the same way. Keys are read by a thread of their own that
//! sleeps in `poll` until there is something to read.

pub(crate) mod full_screen;
pub(crate) mod graphics;
pub(crate) mod inline_screen;
pub(crate) mod input;
pub(crate) mod key;
pub(crate) mod panic_guard;
mod sixel;

use crate::terminal::input::{Input, Parser};
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

/// Bracketed paste, focus events, and a question whether the Kitty keyboard is there.
const ENTER: &str = "\x1b[?2004h\x1b[?1004h\x1b[?u";
/// Asks for the background colour. Answered by nearly every terminal; silence means dark.
const ASK_BACKGROUND: &str = "\x1b]11;?\x1b\\";
/// Kitty keyboard: tell modified keys apart.
const KITTY_ON: &str = "\x1b[>1u";
const KITTY_OFF: &str = "\x1b[<u";
/// `modifyOtherKeys`: tell modified keys apart where there is no Kitty keyboard.
const OTHER_KEYS_ON: &str = "\x1b[>4;1m";
const OTHER_KEYS_OFF: &str = "\x1b[>4m";
/// A turn runs, shown in the tab or task bar, and that it ended.
const PROGRESS_ON: &str = "\x1b]9;4;3\x07";
const PROGRESS_OFF: &str = "\x1b]9;4;0\x07";
/// Everything back: colours, cursor, paste, focus, synchronized output.
const LEAVE: &str = "\x1b[?2026l\x1b[m\x1b[?2004l\x1b[?1004l\x1b[?25h";
const ALTERNATE_ON: &str = "\x1b[?1049h\x1b[H\x1b[2J";
const ALTERNATE_OFF: &str = "\x1b[?1049l";

/// Modes that were changed and must be restored.
struct Changed {
    modes: Termios,
    kitty: bool,
    other_keys: bool,
    alternate: bool,
    progress: bool,
}

static STATE: Mutex<Option<Changed>> = Mutex::new(None);

/// Enters raw mode and switches on what we use.
///
/// # Errors
/// When standard input is no terminal.
pub(crate) fn enter() -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    let saved = tcgetattr(stdin)?;
    let mut raw = saved.clone();
    raw.make_raw();
    tcsetattr(stdin, OptionalActions::Now, &raw)?;
    *STATE.lock() = Some(Changed {
        modes: saved,
        kitty: false,
        other_keys: false,
        alternate: false,
        progress: false,
    });
    write(ENTER)?;
    if OTHER_KEYS.load(Ordering::Relaxed) {
        switch_other_keys_on();
    }
    Ok(())
}

/// Whether the terminal is known to have `modifyOtherKeys`. Others may take the sequence for colours.
static OTHER_KEYS: AtomicBool = AtomicBool::new(false);

/// The terminal has `modifyOtherKeys`: it is used from now on.
pub(crate) fn use_other_keys() {
    OTHER_KEYS.store(true, Ordering::Relaxed);
    switch_other_keys_on();
}

fn switch_other_keys_on() {
    if let Some(changed) = &mut *STATE.lock()
        && !changed.other_keys
    {
        changed.other_keys = true;
        let _ = write(OTHER_KEYS_ON);
    }
}

/// Shows in the tab or task bar whether a turn runs.
pub(crate) fn progress(on: bool) {
    if let Some(changed) = &mut *STATE.lock()
        && changed.progress != on
    {
        changed.progress = on;
        let _ = write(if on { PROGRESS_ON } else { PROGRESS_OFF });
    }
}

/// Asks the terminal for its background colour.
///
/// # Errors
/// When the terminal is gone.
pub(crate) fn ask_background() -> io::Result<()> {
    write(ASK_BACKGROUND)
}

/// Puts everything back. Harmless when nothing was changed, so every way out may call it.
pub(crate) fn restore() {
    let Some(changed) = STATE.lock().take() else {
        return;
    };
    let mut out = String::new();
    if changed.alternate {
        out.push_str(ALTERNATE_OFF);
    }
    if changed.kitty {
        out.push_str(KITTY_OFF);
    }
    if changed.other_keys {
        out.push_str(OTHER_KEYS_OFF);
    }
    if changed.progress {
        out.push_str(PROGRESS_OFF);
    }
    out.push_str(LEAVE);
    // A terminal that is gone needs no restoring.
    let _ = write(&out);
    let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &changed.modes);
}

/// The terminal answered that it has the Kitty keyboard.
pub(crate) fn switch_kitty_on() {
    if let Some(changed) = &mut *STATE.lock()
        && !changed.kitty
    {
        changed.kitty = true;
        let _ = write(KITTY_ON);
    }
}

/// Enters or leaves the alternate screen.
pub(crate) fn alternate(on: bool) {
    if let Some(changed) = &mut *STATE.lock()
        && changed.alternate != on
    {
        changed.alternate = on;
        let _ = write(if on { ALTERNATE_ON } else { ALTERNATE_OFF });
    }
}

/// Writes to the terminal at once.
///
/// # Errors
/// When it is gone.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Columns and rows.
pub(crate) fn size() -> (usize, usize) {
    match tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

/// Width and height of a character in pixels, where the system knows it.
fn cell_size() -> Option<(u32, u32)> {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    let part = |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|size| *size > 0);
    let width = part(size.ws_xpixel, size.ws_col)?;
    Some((
        u32::from(width),
        u32::from(part(size.ws_ypixel, size.ws_row)?),
    ))
}

/// Stops this process as Ctrl+Z does, and returns when it continues. The modes are put back meanwhile.
pub(crate) fn suspend() {
    restore();
    // The whole group, as the terminal itself would: the process that the shell waits for is another one of it.
    let stopped = rustix::process::kill_current_process_group(rustix::process::Signal::STOP);
    if stopped.is_err() {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
    }
    // Here the process stood still; it was continued in the foreground.
    let _ = enter();
}

/// Holds the reading of keys, for the time that another program has the terminal.
#[derive(Clone)]
pub(crate) struct ReaderControl {
    shared: Arc<ReaderState>,
}

struct ReaderState {
    paused: Mutex<Pausing>,
    changed: Condvar,
    wake: OwnedFd,
    ended: AtomicBool,
}

#[derive(Default)]
struct Pausing {
    wanted: bool,
    reached: bool,
}

impl ReaderControl {
    /// Returns when the thread no longer reads.
    pub(crate) fn pause(&self) {
        let mut pausing = self.shared.paused.lock();
        pausing.wanted = true;
        let _ = rustix::io::write(&self.shared.wake, b"p");
        while !pausing.reached && !self.shared.ended.load(Ordering::Acquire) {
            if self
                .shared
                .changed
                .wait_for(&mut pausing, std::time::Duration::from_secs(5))
                .timed_out()
            {
                return;
            }
        }
    }

    /// Whether the terminal it read from is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// Reads again.
    pub(crate) fn resume(&self) {
        let mut pausing = self.shared.paused.lock();
        pausing.wanted = false;
        pausing.reached = false;
        self.shared.changed.notify_all();
    }
}

/// Starts the thread that reads keys. The channel ends when the terminal is gone.
///
/// # Errors
/// When no thread or pipe can be made.
pub(crate) fn start_reader() -> io::Result<(mpsc::UnboundedReceiver<Input>, ReaderControl)> {
    let (wake_read, wake_write) = rustix::pipe::pipe()?;
    let shared = Arc::new(ReaderState {
        paused: Mutex::default(),
        changed: Condvar::new(),
        wake: wake_write,
        ended: AtomicBool::new(false),
    });
    let (sender, receiver) = mpsc::unbounded_channel();
    let control = ReaderControl {
        shared: shared.clone(),
    };
    let ahead = rustix::io::ioctl_fionread(rustix::stdio::stdin()).unwrap_or(0);
    let ahead = usize::try_from(ahead).unwrap_or(0);
    std::thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || {
            read_keys(&shared, &wake_read, &sender, ahead);
            shared.ended.store(true, Ordering::Release);
            shared.changed.notify_all();
        })?;
    Ok((receiver, control))
}

/// How long an escape waits for the rest of a sequence.
const ESCAPE_WAIT: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 25_000_000,
};

/// `ahead` is how many bytes were typed before we had the terminal.
fn read_keys(
    shared: &ReaderState,
    wake: &OwnedFd,
    sender: &mpsc::UnboundedSender<Input>,
    mut ahead: usize,
) {
    let stdin = rustix::stdio::stdin();
    let mut parser = Parser::default();
    let mut buffer = vec![0_u8; 16 * 1024];
    let mut inputs = Vec::new();
    loop {
        let mut waiting = [
            PollFd::from_borrowed_fd(stdin, PollFlags::IN),
            PollFd::new(wake, PollFlags::IN),
        ];
        let timeout = parser.waits().then_some(&ESCAPE_WAIT);
        let count = match poll(&mut waiting, timeout) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        if count == 0 {
            parser.flush(&mut inputs);
        }
        if waiting[1].revents().contains(PollFlags::IN) {
            let mut byte = [0_u8; 16];
            let _ = rustix::io::read(wake, &mut byte);
            let mut pausing = shared.paused.lock();
            while pausing.wanted {
                pausing.reached = true;
                shared.changed.notify_all();
                shared.changed.wait(&mut pausing);
            }
            continue;
        }
        let ready = waiting[0].revents();
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match rustix::io::read(stdin, &mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    let typed = ahead.min(read);
                    ahead -= typed;
                    enter_as_typed(&mut buffer[..typed]);
                    let mut bytes = buffer[..read].to_vec();
                    if !parser.is_inside() && is_burst(&bytes) {
                        read_burst(stdin, &mut buffer, &mut bytes);
                        inputs.push(Input::Paste(input::pasted(&bytes)));
                    } else {
                        parser.feed(&bytes, &mut inputs);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
        for input in inputs.drain(..) {
            if sender.send(input).is_err() {
                return;
            }
        }
    }
}

/// How many lines make a burst that nobody types.
const BURST_LINES: usize = 3;

/// How long a burst may pause.
const BURST_PAUSE: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 30_000_000,
};

/// Whether these bytes, read at once, are text that was pasted without the marks around it: several lines, and
/// no key but enter and tab between them.
fn is_burst(bytes: &[u8]) -> bool {
    let is_text =
        |byte: &u8| *byte >= 0x20 && *byte != 0x7f || matches!(byte, b'\r' | b'\n' | b'\t');
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut lines = bytes.split(ends).filter(|line| !line.is_empty());
    bytes.iter().all(is_text) && lines.nth(BURST_LINES - 1).is_some()
}

/// Reads on as long as more comes at once.
fn read_burst(stdin: rustix::fd::BorrowedFd<'_>, buffer: &mut [u8], bytes: &mut Vec<u8>) {
    loop {
        let mut waiting = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
        match poll(&mut waiting, Some(&BURST_PAUSE)) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match rustix::io::read(stdin, &mut *buffer) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
}

/// While nobody has asked for single keys, the system turns enter into a line feed, which is another key.
fn enter_as_typed(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte == b'\n' {
            *byte = b'\r';
        }
    }
}

/// Switches everything on again for a terminal that has seen nothing of it yet.
pub(crate) fn enter_anew() {
    let mut out = String::from(ENTER);
    if let Some(changed) = &mut *STATE.lock() {
        // Each terminal is asked for the Kitty keyboard anew.
        changed.kitty = false;
        if changed.other_keys {
            out.push_str(OTHER_KEYS_ON);
        }
        if changed.progress {
            out.push_str(PROGRESS_ON);
        }
        if std::mem::take(&mut changed.alternate) {
            out.push_str(ALTERNATE_OFF);
        }
    }
    let _ = write(&out);
}

/// Sets the modes again after the process was stopped: another program may have changed them.
///
/// # Errors
/// When the terminal is gone.
pub(crate) fn enter_again() -> io::Result<()> {
    let Some(modes) = STATE.lock().as_ref().map(|changed| changed.modes.clone()) else {
        return enter();
    };
    let mut raw = modes;
    raw.make_raw();
    tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
    write(ENTER)
}
