//! `lathe fleet board`: all jobs on one screen.

use super::super::attach::{self as terminal};
use super::super::board::{ALTERNATE_OFF, ALTERNATE_ON};
use super::{answer, clean, ls};
use crate::error::{CliError, Kinded as _, Outcome};
use lathe_fleet::Fleet;
use lathe_fleet::backend::{Ask, WorkerInfo};
use lathe_fleet::entry::{Entry, State};
use lathe_fleet::job::JobKey;
use lathe_headless::exit::Exit;
use std::io::IsTerminal as _;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// How often the board is read again.
const REFRESH: Duration = Duration::from_secs(1);
/// The order of the groups: first what needs the user.
const GROUPS: [(&str, &[State]); 5] = [
    ("Needs you", &[State::Asking, State::Parked]),
    ("Running", &[State::Running]),
    ("Queued", &[State::Queued]),
    ("Failed", &[State::Failed, State::Cancelled]),
    ("Done", &[State::Done]),
];

/// The place of a job's group.
pub(super) fn group(entry: &Entry) -> Option<usize> {
    GROUPS
        .iter()
        .position(|(_, states)| states.contains(&entry.state))
}

/// The board as data.
#[derive(Debug, Default)]
struct Board {
    entries: Vec<Entry>,
    workers: Vec<WorkerInfo>,
    selected: Option<JobKey>,
    question: Option<Ask>,
    message: Option<String>,
    now: i64,
}

/// The request of a key.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    Quit,
    Answer(bool),
    Cancel,
    Retry,
}

impl Board {
    fn list(&mut self, mut entries: Vec<Entry>) {
        entries.sort_by_key(|entry| (group(entry), std::cmp::Reverse(entry.changed)));
        self.entries = entries;
        let there = |key: &JobKey| self.entries.iter().any(|entry| entry.job.key() == *key);
        if !self.selected.as_ref().is_some_and(there) {
            self.selected = self.entries.first().map(|entry| entry.job.key());
        }
    }

    fn keys(&mut self, bytes: &[u8]) -> Wish {
        self.message = None;
        match bytes {
            b"q" | b"\x03" | b"\x1b" => Wish::Quit,
            b"j" | b"\x1b[B" => self.step(1),
            b"k" | b"\x1b[A" => self.step(-1),
            b"y" if self.question.is_some() => Wish::Answer(true),
            b"n" if self.question.is_some() => Wish::Answer(false),
            b"c" => Wish::Cancel,
            b"r" => Wish::Retry,
            _ => Wish::Nothing,
        }
    }

    fn step(&mut self, by: isize) -> Wish {
        let is_selected = |entry: &Entry| Some(entry.job.key()) == self.selected;
        let at = self
            .entries
            .iter()
            .position(is_selected)
            .unwrap_or_default();
        let next = at
            .saturating_add_signed(by)
            .min(self.entries.len().saturating_sub(1));
        self.selected = self.entries.get(next).map(|entry| entry.job.key());
        Wish::Nothing
    }

    fn view(&self, columns: usize, rows: usize) -> Vec<String> {
        let cut = |line: &str| -> String { line.chars().take(columns).collect() };
        let slots: usize = self.workers.iter().map(|worker| worker.slots).sum();
        let busy: usize = self.workers.iter().map(|worker| worker.busy).sum();
        let mut lines = vec![cut(&format!(
            "{} jobs · {} workers · {busy} of {slots} slots busy",
            self.entries.len(),
            self.workers.len()
        ))];
        let mut list = Vec::new();
        let mut at = 0;
        for (title, states) in GROUPS {
            let count = self
                .entries
                .iter()
                .filter(|it| states.contains(&it.state))
                .count();
            if count == 0 {
                continue;
            }
            list.push(format!("{title} ({count})"));
            for entry in self.entries.iter().filter(|it| states.contains(&it.state)) {
                let selected = Some(entry.job.key()) == self.selected;
                if selected {
                    at = list.len();
                }
                let mark = if selected { "❯" } else { " " };
                list.push(format!("{mark} {}", ls::row(entry, self.now).trim_end()));
            }
        }
        let room = rows.saturating_sub(3).max(1);
        let skip = (at + 1).saturating_sub(room);
        lines.extend(list.iter().skip(skip).take(room).map(|line| cut(line)));
        lines.resize(rows.saturating_sub(2), String::new());
        lines.push(cut(&match (&self.message, &self.question) {
            (Some(message), _) => message.clone(),
            (None, Some(ask)) => format!("? {}   y allow · n deny", clean(&ask.title, 200)),
            (None, None) => String::new(),
        }));
        lines.push(cut("↑↓ select · c cancel · r retry · q quit"));
        lines
    }
}

pub(super) async fn run(fleet: &Fleet) -> Outcome {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(
            CliError::usage("the board needs a terminal").hint("`lathe fleet ls` prints the list")
        );
    }
    let mut screen = terminal::RawTerminal::enter()?;
    let failed = |error| CliError::failure(format!("the terminal was closed: {error}"));
    screen.show(ALTERNATE_ON.as_bytes()).map_err(failed)?;
    let mut board = Board::default();
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 64];
    let mut tick = tokio::time::interval(REFRESH);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            read = stdin.read(&mut buffer) => {
                let count = read.map_err(failed)?;
                match board.keys(&buffer[..count]) {
                    _ if count == 0 => break,
                    Wish::Quit => break,
                    Wish::Nothing => {}
                    wish => board.message = carry_out(fleet, &board, &wish).await,
                }
            }
        }
        refresh(fleet, &mut board).await?;
        let size = terminal::size();
        let lines = board.view(size.columns.into(), size.rows.into());
        let text = format!("\x1b[H{}\x1b[J", lines.join("\x1b[K\r\n"));
        screen.show(text.as_bytes()).map_err(failed)?;
    }
    screen.show(ALTERNATE_OFF.as_bytes()).map_err(failed)?;
    Ok(Exit::Success)
}

async fn refresh(fleet: &Fleet, board: &mut Board) -> Result<(), CliError> {
    board.now = fleet.backend().now();
    board.list(fleet.entries().await.or_failure()?);
    board.workers = fleet.backend().workers().await.or_failure()?;
    board.question = match &board.selected {
        Some(key) => {
            let asks = fleet.asks(key).await.or_failure()?;
            asks.into_iter().find(|ask| ask.answer.is_none())
        }
        None => None,
    };
    Ok(())
}

/// Does what a key asks for. Gives the message to show.
async fn carry_out(fleet: &Fleet, board: &Board, wish: &Wish) -> Option<String> {
    let key = board.selected.as_ref()?;
    let failed = match wish {
        Wish::Nothing | Wish::Quit => None,
        Wish::Cancel => fleet.cancel(key).await.err(),
        Wish::Retry => fleet.retry(key).await.err(),
        Wish::Answer(allow) => {
            let ask = board.question.as_ref()?;
            let answer = answer::of_line(if *allow { "y" } else { "n" })?;
            fleet.answer(key, &ask.id, &answer).await.err()
        }
    };
    failed.map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_fleet::job::Job;

    fn entry(id: &str, state: State) -> Entry {
        let mut job = Job::new(format!("\x1b[31mprompt of {id}"));
        job.id = id.to_owned();
        let mut entry = Entry::new(job, 0);
        entry.state = state;
        entry
    }

    #[test]
    fn jobs_that_need_the_user_come_first_and_keys_choose() {
        let mut board = Board::default();
        board.list(vec![
            entry("a", State::Done),
            entry("b", State::Parked),
            entry("c", State::Running),
        ]);
        let view = board.view(80, 20).join("\n");
        let at = |text: &str| view.find(text).unwrap_or_else(|| panic!("{text}: {view}"));
        assert!(at("Needs you (1)") < at("Running (1)") && at("Running (1)") < at("Done (1)"));
        assert!(!view.contains('\x1b'), "{view:?}");
        assert_eq!(board.selected.as_ref().unwrap().id, "b");
        assert_eq!(board.keys(b"y"), Wish::Nothing, "there is no question");
        board.keys(b"j");
        assert_eq!(board.selected.as_ref().unwrap().id, "c");
        assert_eq!(board.keys(b"c"), Wish::Cancel);
        assert_eq!(board.keys(b"q"), Wish::Quit);
        assert!(
            board
                .view(20, 5)
                .iter()
                .all(|line| line.chars().count() <= 20)
        );
    }
}
