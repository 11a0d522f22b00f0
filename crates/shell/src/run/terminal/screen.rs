//! The screen of a terminal, as text.

use lathe_process::{LineMode, Reader, Terminal, TerminalSize};
use parking_lot::Mutex;
use std::sync::OnceLock;
use tokio::sync::watch;
use tokio::time::Instant;

/// How many lines are kept that went over the upper edge since the last look.
const LINES_KEPT: usize = 2_000;

/// The words that stand in for what the user typed where it was not shown.
const HIDDEN: &str = "[hidden]";

/// Shorter ones would be found in ordinary words.
const SHORTEST_SECRET: usize = 4;

/// The screen of a terminal.
pub struct Screen {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    terminal: OnceLock<Terminal>,
}

struct State {
    parser: vt100::Parser,
    size: TerminalSize,
    last_output: Instant,
    /// Texts that the user typed where they were not shown.
    secrets: Vec<String>,
}

/// The text of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenText {
    /// The lines, without empty ones at the end.
    pub text: String,
    /// Whether a program has the whole screen to itself.
    pub is_full: bool,
    /// Line and column of the cursor, from 1.
    pub cursor: (u16, u16),
    /// Whether lines before these are gone.
    pub is_cut: bool,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Screen").finish_non_exhaustive()
    }
}

impl Screen {
    pub(in crate::run) fn new(size: TerminalSize) -> Self {
        Self {
            state: Mutex::new(State {
                parser: vt100::Parser::new(size.rows, size.columns, LINES_KEPT),
                size,
                last_output: Instant::now(),
                secrets: Vec::new(),
            }),
            changes: watch::Sender::new(0),
            terminal: OnceLock::new(),
        }
    }

    /// The terminal whose screen this is.
    pub(in crate::run) fn attach(&self, terminal: Terminal) {
        // There is one terminal for each screen.
        let _ = self.terminal.set(terminal);
    }

    /// Takes output of the program.
    pub(in crate::run) fn take(&self, bytes: &[u8]) {
        {
            let mut state = self.state.lock();
            state.parser.process(bytes);
            state.last_output = Instant::now();
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Its size.
    pub(in crate::run) fn size(&self) -> TerminalSize {
        self.state.lock().size
    }

    /// Changes with every output.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// When the program printed last.
    pub(super) fn last_output(&self) -> Instant {
        self.state.lock().last_output
    }

    /// Whether cursor keys have the bytes that programs with the whole screen ask for.
    pub(super) fn application_cursor(&self) -> bool {
        self.state.lock().parser.screen().application_cursor()
    }

    pub(super) fn line_mode(&self) -> Option<LineMode> {
        self.terminal.get()?.line_mode()
    }

    /// Whether the program printed something that is not on the screen yet.
    pub(super) fn is_behind(&self) -> bool {
        self.terminal.get().is_some_and(Terminal::has_output)
    }

    pub(super) fn reader(&self) -> Option<Reader> {
        self.terminal.get()?.reader()
    }

    pub(super) async fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        match self.terminal.get() {
            Some(terminal) => terminal.write(bytes).await,
            None => Err(std::io::ErrorKind::NotConnected.into()),
        }
    }

    /// Changes the size.
    pub(super) fn resize(&self, size: TerminalSize) {
        let size = TerminalSize {
            rows: size.rows.clamp(2, 200),
            columns: size.columns.clamp(10, 500),
        };
        {
            let mut state = self.state.lock();
            if state.size == size {
                return;
            }
            state.size = size;
            let screen = state.parser.screen_mut();
            screen.set_size(size.rows, size.columns);
        }
        if let Some(Err(error)) = self.terminal.get().map(|terminal| terminal.resize(size)) {
            tracing::debug!(%error, "a terminal was not resized");
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Never shows this text again.
    pub(super) fn hide(&self, secret: &str) {
        if secret.chars().count() >= SHORTEST_SECRET {
            self.state.lock().secrets.push(secret.to_owned());
        }
    }

    /// The line that the cursor is in, up to it.
    pub(super) fn cursor_line(&self) -> String {
        let state = self.state.lock();
        let screen = state.parser.screen();
        let (row, column) = screen.cursor_position();
        let line = screen.contents_between(row, 0, row, column);
        hidden(line, &state.secrets)
    }

    /// Whether a program has the whole screen to itself.
    pub(super) fn is_full(&self) -> bool {
        self.state.lock().parser.screen().alternate_screen()
    }

    /// The rows with their colours, as a terminal takes them, and the cursor's row and column from 0.
    pub(super) fn rows(&self) -> (Vec<String>, (u16, u16)) {
        let state = self.state.lock();
        let screen = state.parser.screen();
        let rows = (0..state.size.rows)
            .map(|row| hidden(coloured(screen, row, state.size.columns), &state.secrets))
            .collect();
        (rows, screen.cursor_position())
    }

    /// The screen, and before it the lines that left it since the last look.
    pub(super) fn look(&self) -> ScreenText {
        let mut state = self.state.lock();
        let is_full = state.parser.screen().alternate_screen();
        let mut lines = Vec::new();
        let mut is_cut = false;
        if !is_full {
            (lines, is_cut) = state.take_left_lines();
        }
        lines.extend(state.visible_lines());
        let (row, column) = state.parser.screen().cursor_position();
        let mut text = joined(&lines);
        text.truncate(text.trim_end().len());
        ScreenText {
            text: hidden(text, &state.secrets),
            is_full,
            cursor: (row + 1, column + 1),
            is_cut,
        }
    }
}

impl State {
    /// The lines that went over the upper edge, which are forgotten then, and whether there were more.
    fn take_left_lines(&mut self) -> (Vec<(String, bool)>, bool) {
        let rows = usize::from(self.size.rows);
        let screen = self.parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let count = screen.scrollback();
        let mut lines = Vec::with_capacity(count);
        while lines.len() < count {
            let left = count - lines.len();
            self.parser.screen_mut().set_scrollback(left);
            lines.extend(self.visible_lines().into_iter().take(left.min(rows)));
        }
        self.parser.screen_mut().set_scrollback(0);
        if count > 0 {
            // The same screen without them.
            let state = self.parser.screen().state_formatted();
            self.parser = vt100::Parser::new(self.size.rows, self.size.columns, LINES_KEPT);
            self.parser.process(&state);
        }
        (lines, count >= LINES_KEPT)
    }

    /// The rows that can be seen, each with whether it continues in the next.
    fn visible_lines(&self) -> Vec<(String, bool)> {
        let screen = self.parser.screen();
        let rows = screen.rows(0, self.size.columns).zip(0..);
        rows.map(|(row, number)| (row, screen.row_wrapped(number)))
            .collect()
    }
}

/// A row with the sequences of its colours.
fn coloured(screen: &vt100::Screen, row: u16, columns: u16) -> String {
    let mut line = String::new();
    let mut looks = String::new();
    let cells = (0..columns).filter_map(|column| screen.cell(row, column));
    for cell in cells.filter(|cell| !cell.is_wide_continuation()) {
        let look = look_of(cell);
        if look != looks {
            line.push_str(&format!("\x1b[0{look}m"));
            looks = look;
        }
        line.push_str(if cell.has_contents() {
            cell.contents()
        } else {
            " "
        });
    }
    if !looks.is_empty() {
        line.push_str("\x1b[0m");
    }
    line.truncate(line.trim_end().len());
    line
}

/// The colours of a cell as parameters of a sequence.
fn look_of(cell: &vt100::Cell) -> String {
    let mut look = String::new();
    for (on, number) in [
        (cell.bold(), 1),
        (cell.dim(), 2),
        (cell.italic(), 3),
        (cell.underline(), 4),
        (cell.inverse(), 7),
    ] {
        if on {
            look.push_str(&format!(";{number}"));
        }
    }
    for (color, number) in [(cell.fgcolor(), 38), (cell.bgcolor(), 48)] {
        match color {
            vt100::Color::Default => {}
            vt100::Color::Idx(index) => look.push_str(&format!(";{number};5;{index}")),
            vt100::Color::Rgb(red, green, blue) => {
                look.push_str(&format!(";{number};2;{red};{green};{blue}"));
            }
        }
    }
    look
}

fn joined(lines: &[(String, bool)]) -> String {
    let mut text = String::new();
    for (line, continues) in lines {
        text.push_str(line);
        if !continues {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    }
    text
}

/// The text without secrets.
fn hidden(mut text: String, secrets: &[String]) -> String {
    for secret in secrets {
        if text.contains(secret) {
            text = text.replace(secret, HIDDEN);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize {
        rows: 4,
        columns: 20,
    };

    #[test]
    fn lines_that_left_the_screen_are_given_once() {
        let screen = Screen::new(SIZE);
        for number in 0..10 {
            screen.take(format!("line {number}\r\n").as_bytes());
        }
        screen.take(b"> ");
        let first = screen.look();
        let all: Vec<String> = (0..10).map(|number| format!("line {number}")).collect();
        assert_eq!(first.text, format!("{}\n>", all.join("\n")));
        assert!(!first.is_full && !first.is_cut);
        assert_eq!(first.cursor, (4, 3));
        let second = screen.look();
        assert_eq!(second.text, "line 7\nline 8\nline 9\n>");
        screen.take(b"more\r\n> ");
        assert_eq!(screen.look().text, "line 7\nline 8\nline 9\n> more\n>");
    }

    #[test]
    fn long_lines_are_whole_and_floods_are_bounded() {
        let screen = Screen::new(SIZE);
        screen.take("x".repeat(50).as_bytes());
        assert_eq!(screen.look().text, "x".repeat(50));
        let flood = "line\r\n".repeat(5_000);
        screen.take(flood.as_bytes());
        let shown = screen.look();
        assert!(shown.is_cut && shown.text.len() < 20_000);
    }

    #[test]
    fn what_a_person_typed_unseen_is_never_shown() {
        let screen = Screen::new(SIZE);
        screen.hide("hunter2");
        screen.hide("abc");
        screen.take(b"abc: your password is hunter2, hunter2\r\nhunter2");
        assert!(!screen.look().text.contains("hunter2"));
        assert!(screen.look().text.contains("abc"));
        assert_eq!(screen.cursor_line(), HIDDEN);
        assert!(!screen.rows().0.concat().contains("hunter2"));
    }

    #[test]
    fn any_bytes_give_a_screen() {
        let screen = Screen::new(SIZE);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..random.usize(1..40))
                .map(|_| match random.u8(0..4) {
                    0 => 0x1b,
                    1 => *random.choice(b"[]?;0123456789HJKhlmrABCD".iter()).unwrap(),
                    _ => random.u8(..),
                })
                .collect();
            screen.take(&bytes);
            if random.u8(0..10) == 0 {
                screen.resize(TerminalSize {
                    rows: random.u16(..),
                    columns: random.u16(..),
                });
                let _ = (screen.look(), screen.rows(), screen.cursor_line());
            }
        }
    }
}
