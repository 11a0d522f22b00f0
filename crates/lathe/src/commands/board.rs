//! `lathe board`: all sessions on one screen, those that need the user first.
//!
//! The screen is a pure function of [`Board`]; what is typed changes it, or asks a session for something.

use super::{attach, hosts};
use crate::error::{CliError, Outcome};
use lathe_headless::exit::Exit;
use lathe_host::past;
use lathe_protocol::permission::PermissionReply;
use lathe_protocol::printable;
use lathe_settings::Environment;
use lathe_wire::{
    Client, ClientKind, Folder, Hello, HostFrame, HostId, HostInfo, HostState, Question, Snapshot,
    WireOp,
};
use std::io::IsTerminal as _;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// How often the list is read again.
const REFRESH: Duration = Duration::from_millis(500);
/// How long a session may take to show itself.
const PEEK: Duration = Duration::from_secs(2);
pub(crate) const ALTERNATE_ON: &str = "\x1b[?1049h\x1b[?25l";
pub(crate) const ALTERNATE_OFF: &str = "\x1b[?1049l\x1b[?25h";

/// The groups, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    NeedsYou,
    Working,
    Done,
    Failed,
}

impl Group {
    fn of(host: &HostInfo) -> Self {
        match host.state {
            HostState::NeedsYou => Self::NeedsYou,
            HostState::Working => Self::Working,
            HostState::Idle if host.failed => Self::Failed,
            HostState::Idle => Self::Done,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::NeedsYou => "Needs you",
            Self::Working => "Working",
            Self::Done => "Done",
            Self::Failed => "Failed",
        }
    }
}

/// A line of the board.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    host: HostInfo,
    group: Group,
    live: bool,
}

/// How typed bytes are understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Typing {
    #[default]
    Keys,
    /// A reply to the selected session.
    Reply(String),
    /// `s` was pressed once.
    Stop,
}

#[derive(Debug, Default)]
struct Board {
    entries: Vec<Entry>,
    selected: Option<HostId>,
    /// The end of the selected session, and its first open question.
    peek: Vec<String>,
    question: Option<Question>,
    /// Whether all of the question is on the screen: what was not shown is not agreed to.
    shows_all: bool,
    typing: Typing,
    message: Option<String>,
}

/// The request of a key.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    Quit,
    Attach,
    Stop,
    Send(String),
    Answer(bool),
}

impl Board {
    fn place(&self) -> Option<usize> {
        let wanted = self.selected.as_ref()?;
        self.entries.iter().position(|it| it.host.id == *wanted)
    }

    fn current(&self) -> Option<&Entry> {
        self.entries.get(self.place()?)
    }

    /// Takes a new list over; the selected session stays selected.
    fn list(&mut self, live: Vec<HostInfo>, over: Vec<past::Past>) {
        let before = self.place().unwrap_or(0);
        let live = live.into_iter().map(|host| Entry {
            group: Group::of(&host),
            host,
            live: true,
        });
        let over = over.into_iter().map(|past| Entry {
            group: if past.failed() {
                Group::Failed
            } else {
                Group::Done
            },
            host: past.info,
            live: false,
        });
        self.entries = live.chain(over).collect();
        self.entries.sort_by_key(|entry| entry.group);
        if self.place().is_none() {
            let place = before.min(self.entries.len().saturating_sub(1));
            self.selected = self.entries.get(place).map(|entry| entry.host.id.clone());
        }
    }

    fn step(&mut self, down: bool) {
        let Some(place) = self.place() else { return };
        let next = if down {
            (place + 1).min(self.entries.len() - 1)
        } else {
            place.saturating_sub(1)
        };
        self.selected = Some(self.entries[next].host.id.clone());
        self.peek.clear();
        self.question = None;
    }

    /// Bytes that were typed, which may be several keys. Those after one that asks for something are dropped: they were
    /// meant for the screen before it.
    fn keys(&mut self, bytes: &[u8]) -> Wish {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (key, after) = rest.split_at(key_length(rest));
            rest = after;
            let wish = self.key(key);
            if wish != Wish::Nothing {
                return wish;
            }
        }
        Wish::Nothing
    }

    fn key(&mut self, bytes: &[u8]) -> Wish {
        if let Typing::Reply(text) = &mut self.typing {
            match bytes {
                b"\r" | b"\n" => {
                    let text = std::mem::take(text);
                    self.typing = Typing::Keys;
                    return if text.trim().is_empty() {
                        Wish::Nothing
                    } else {
                        Wish::Send(text)
                    };
                }
                b"\x1b" | b"\x03" => self.typing = Typing::Keys,
                b"\x7f" | b"\x08" => drop(text.pop()),
                b"\t" => text.push(' '),
                typed => text.push_str(&printable::clean(&String::from_utf8_lossy(typed))),
            }
            return Wish::Nothing;
        }
        let confirmed = std::mem::take(&mut self.typing) == Typing::Stop;
        self.message = None;
        match bytes {
            b"q" | b"\x03" | b"\x1b" => return Wish::Quit,
            b"\x1b[A" | b"\x1bOA" | b"k" => self.step(false),
            b"\x1b[B" | b"\x1bOB" | b"j" => self.step(true),
            b"\r" | b"a" if self.selected.is_some() => return Wish::Attach,
            b"y" if self.may_agree() => return Wish::Answer(true),
            b"n" if self.question.as_ref().is_some_and(|it| it.is_plain) => {
                return Wish::Answer(false);
            }
            b"r" if self.current().is_some_and(|it| it.live) => {
                self.typing = Typing::Reply(String::new());
            }
            b"s" if confirmed => return Wish::Stop,
            b"s" if self.current().is_some_and(|it| it.live) => self.typing = Typing::Stop,
            _ => {}
        }
        Wish::Nothing
    }

    /// The end of a session, as text.
    fn show(&mut self, snapshot: &Snapshot) {
        let text: String = snapshot.records.iter().map(hosts::words).collect();
        self.peek = text.lines().map(str::to_owned).collect();
        self.question = snapshot.questions.first().and_then(Question::of);
    }

    fn may_agree(&self) -> bool {
        self.shows_all && self.question.as_ref().is_some_and(|it| it.is_plain)
    }

    /// The lines of the screen.
    fn view(&mut self, columns: usize, rows: usize) -> Vec<String> {
        let columns = columns.max(1);
        let cut = |text: String| -> String { text.chars().take(columns).collect() };
        let mut list = Vec::new();
        let mut selected_line = 0;
        let mut group = None;
        for entry in &self.entries {
            if group != Some(entry.group) {
                group = Some(entry.group);
                list.push(entry.group.title().to_owned());
            }
            let is_selected = self.selected.as_ref() == Some(&entry.host.id);
            if is_selected {
                selected_line = list.len();
            }
            let mark = if is_selected { "❯" } else { " " };
            let [id, _, place, name, activity] = hosts::row(&entry.host, "");
            let place = if entry.live {
                place
            } else {
                "ended".to_owned()
            };
            list.push(format!("{mark} {id}  {place:<10}  {name:<20}  {activity}"));
        }
        if list.is_empty() {
            list.push("No session runs. `lathe --bg \"…\"` starts one.".to_owned());
        }
        let half = (rows.saturating_sub(3) / 2).max(1);
        let skip = (selected_line + 1).saturating_sub(half);
        let mut lines: Vec<String> = list.into_iter().skip(skip).take(half).map(cut).collect();
        lines.push("─".repeat(columns));
        let room = rows.saturating_sub(lines.len() + 2);
        // All of an open question, below as much of what went before it as there is room for.
        let asked = self.question.as_ref().filter(|question| question.is_plain);
        let asked = asked.map_or_else(Vec::new, |question| wrapped(&question.whole, columns));
        self.shows_all = asked.len() <= room;
        let from = (self.peek.len() + asked.len()).saturating_sub(room);
        let shown = self.peek.iter().cloned().map(cut).chain(asked);
        lines.extend(shown.skip(from));
        lines.resize(rows.saturating_sub(2), String::new());
        lines.push(cut(match (&self.message, &self.question) {
            (Some(message), _) => message.clone(),
            (None, Some(question)) => match (question.is_plain, self.shows_all) {
                (true, true) => "? y allow · n deny".to_owned(),
                (true, false) => "? too long for this screen: enter attaches · n deny".to_owned(),
                (false, _) => format!("? enter attaches, to answer: {}", question.line),
            },
            (None, None) => String::new(),
        }));
        lines.push(cut(match &self.typing {
            Typing::Keys => "↑↓ select · enter attach · r reply · s stop · q quit".to_owned(),
            Typing::Reply(text) => format!("reply: {text}▏"),
            Typing::Stop => "s again ends the session".to_owned(),
        }));
        lines
    }
}

/// How many bytes the first key of some has: an escape sequence, a character.
fn key_length(bytes: &[u8]) -> usize {
    let length = match bytes {
        [0x1b, b'[' | b'O', rest @ ..] => {
            let end = rest.iter().position(|byte| (b'@'..=b'~').contains(byte));
            end.map_or(bytes.len(), |end| end + 3)
        }
        // With the Alt key.
        [0x1b, _, ..] => 2,
        [0xc0..=0xdf, ..] => 2,
        [0xe0..=0xef, ..] => 3,
        [0xf0..=0xff, ..] => 4,
        _ => 1,
    };
    length.min(bytes.len())
}

/// Text in lines of some columns. Characters that may be wide count as two: no part of it is off the screen.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut part = String::new();
        let mut width = 0;
        for character in line.replace('\t', "    ").chars() {
            let own = if character.is_ascii() { 1 } else { 2 };
            if width + own > columns {
                lines.push(std::mem::take(&mut part));
                width = 0;
            }
            part.push(character);
            width += own;
        }
        lines.push(part);
    }
    lines
}

/// `lathe board`.
pub(crate) async fn run(environment: Environment) -> Outcome {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(
            CliError::usage("the board needs a terminal").hint("`lathe ps` prints the list")
        );
    }
    let folder = Folder::of(&environment);
    let chosen = watch(&folder).await?;
    let Some(id) = chosen else {
        return Ok(Exit::Success);
    };
    // Another process, which may have to be two.
    let program = std::env::current_exe().map_err(CliError::failure)?;
    let status = lathe_process::Command::new(program)
        .arguments(["attach", id.as_str()])
        .foreground()
        .map_err(CliError::failure)?;
    Ok(super::exit_if(status.success()))
}

/// Shows the board until the user leaves it. Gives the session to attach to.
async fn watch(folder: &Folder) -> Result<Option<HostId>, CliError> {
    let mut terminal = attach::RawTerminal::enter()?;
    let failed = |error| CliError::failure(format!("the terminal was closed: {error}"));
    terminal.show(ALTERNATE_ON.as_bytes()).map_err(failed)?;
    let mut board = Board::default();
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 4_096];
    let mut tick = tokio::time::interval(REFRESH);
    let chosen = loop {
        tokio::select! {
            _ = tick.tick() => refresh(folder, &mut board).await?,
            read = stdin.read(&mut buffer) => {
                let count = read.map_err(failed)?;
                if count == 0 {
                    break None;
                }
                match board.keys(&buffer[..count]) {
                    Wish::Nothing => {}
                    Wish::Quit => break None,
                    Wish::Attach => break board.selected.clone(),
                    wish => board.message = carry_out(folder, &board, wish).await,
                }
                refresh(folder, &mut board).await?;
            }
        }
        let size = attach::size();
        let lines = board.view(size.columns.into(), size.rows.into());
        let screen = format!("\x1b[H{}\x1b[J", lines.join("\x1b[K\r\n"));
        terminal.show(screen.as_bytes()).map_err(failed)?;
    };
    terminal.show(ALTERNATE_OFF.as_bytes()).map_err(failed)?;
    Ok(chosen)
}

async fn refresh(folder: &Folder, board: &mut Board) -> Result<(), CliError> {
    let hosts = folder.hosts().map_err(CliError::failure)?;
    board.list(hosts, past::list(folder));
    let current = board.current().filter(|entry| entry.live);
    let Some(id) = current.map(|entry| entry.host.id.clone()) else {
        board.peek.clear();
        board.question = None;
        return Ok(());
    };
    if let Ok(Some((_, snapshot))) = tokio::time::timeout(PEEK, connect(folder, &id)).await {
        board.show(&snapshot);
    }
    Ok(())
}

/// Connects to a session, and gives its snapshot.
async fn connect(folder: &Folder, id: &HostId) -> Option<(Client, Box<Snapshot>)> {
    let hello = Hello::new("board", ClientKind::Cli);
    let mut client = Client::connect(folder, id, hello).await.ok()?;
    match client.next().await {
        Ok(Some(HostFrame::Snapshot(snapshot))) => Some((client, snapshot)),
        _ => None,
    }
}

/// Asks the selected session for something. Gives the message to show.
async fn carry_out(folder: &Folder, board: &Board, wish: Wish) -> Option<String> {
    let op = match wish {
        Wish::Stop => WireOp::Stop,
        Wish::Send(text) => WireOp::Prompt {
            content: text.into(),
            uuid: None,
        },
        Wish::Answer(allow) => WireOp::PermissionReply {
            request_id: board.question.as_ref()?.id.clone(),
            reply: if allow {
                PermissionReply::allow()
            } else {
                PermissionReply::deny("The user denied it on the board.")
            },
        },
        Wish::Nothing | Wish::Quit | Wish::Attach => return None,
    };
    let id = board.selected.as_ref()?;
    let Some((client, _)) = connect(folder, id).await else {
        return Some("the session can't be reached".to_owned());
    };
    client
        .request(op)
        .await
        .err()
        .map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::ids::SessionId;

    fn host(number: u32, state: HostState, failed: bool) -> HostInfo {
        let session: SessionId = format!("{number:08x}-0000-4000-8000-000000000000")
            .parse()
            .unwrap();
        HostInfo {
            id: HostId::of(session),
            session_id: session,
            title: Some(format!("name-{number}")),
            folder: "/work".into(),
            state,
            pid: 1,
            config_home: "/home".into(),
            background: true,
            clients: 0,
            activity: Some(format!("\x1b[31mdoes {number}")),
            failed,
            started_ms: 0,
            changed_ms: 0,
        }
    }

    fn board() -> Board {
        let mut board = Board::default();
        board.list(
            vec![
                host(1, HostState::Idle, true),
                host(2, HostState::Idle, false),
                host(3, HostState::Working, false),
                host(4, HostState::NeedsYou, false),
            ],
            vec![past::Past {
                info: host(5, HostState::Working, false),
                ended_ms: None,
            }],
        );
        board
    }

    #[test]
    fn sessions_are_grouped_and_those_that_need_the_user_come_first() {
        let view = board().view(80, 30).join("\n");
        let at = |text: &str| view.find(text).unwrap_or_else(|| panic!("{text}: {view}"));
        assert!(at("Needs you") < at("name-4") && at("name-4") < at("Working"));
        assert!(at("name-3") < at("Done") && at("name-2") < at("Failed"));
        assert!(at("Failed") < at("name-1") && at("Failed") < at("name-5"));
        assert!(!view.contains('\x1b'), "{view:?}");
        let lines = board().view(40, 10);
        assert_eq!(lines.len(), 10);
        assert!(lines.iter().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn keys_select_reply_answer_and_stop() {
        let mut board = board();
        let first = board.selected.clone();
        board.keys(b"j");
        assert_ne!(board.selected, first);
        board.keys(b"\x1b[A");
        assert_eq!(board.selected, first);
        assert_eq!(board.keys(b"\r"), Wish::Attach);
        assert_eq!(board.keys(b"y"), Wish::Nothing, "there is no question");
        board.question = asked("make");
        assert_eq!(board.keys(b"y"), Wish::Nothing, "it was not shown");
        board.view(80, 30);
        assert_eq!(board.keys(b"y"), Wish::Answer(true));
        assert_eq!(board.keys(b"n"), Wish::Answer(false));
        board.keys(b"r");
        board.keys(b"gq");
        board.keys(b"\x7f");
        board.keys(b"o\x1b[31m");
        assert_eq!(board.keys(b"\r"), Wish::Send("go".to_owned()));
        // Several keys in one read.
        let said = "rtwo wörds\rq".as_bytes();
        assert_eq!(board.keys(said), Wish::Send("two wörds".to_owned()));
        board.keys(b"jj\x1b[Ajk");
        assert_eq!(board.place(), Some(1));
        board.keys(b"kk");
        assert_eq!(board.keys(b"s"), Wish::Nothing);
        assert_eq!(board.keys(b"s"), Wish::Stop);
        assert_eq!(board.keys(b"s"), Wish::Nothing);
        board.keys(b"j");
        assert_eq!(board.keys(b"s"), Wish::Nothing, "another key takes it back");
        assert_eq!(board.keys(b"q"), Wish::Quit);
    }

    fn asked(command: &str) -> Option<Question> {
        let request = serde_json::json!({"tool_name": "Bash", "title": "Harmless", "input": {"command": command}});
        Question::of(&serde_json::json!({"request_id": "q", "request": request}))
    }

    /// The call itself is agreed to, not what the model says about it.
    #[test]
    fn a_question_is_agreed_to_only_where_all_of_it_is_shown() {
        let mut board = board();
        let command = format!("make {} && rm -rf x", "quiet ".repeat(30));
        board.question = asked(&command);
        let view = board.view(40, 30).join("");
        assert!(
            view.contains("rm -rf x") && view.contains("y allow"),
            "{view}"
        );
        assert!(!view.contains("Harmless"), "{view}");
        assert_eq!(board.keys(b"y"), Wish::Answer(true));
        // On a screen that is too small it can only be denied.
        let view = board.view(40, 8).join("\n");
        assert!(
            view.contains("too long") && !view.contains("y allow"),
            "{view}"
        );
        assert_eq!(board.keys(b"y"), Wish::Nothing);
        assert_eq!(board.keys(b"n"), Wish::Answer(false));
        // A question with choices has no yes.
        let request =
            serde_json::json!({"tool_name": "AskUserQuestion", "title": "Which one?", "input": {}});
        board.question = Question::of(&serde_json::json!({"request_id": "q", "request": request}));
        let view = board.view(80, 30).join("\n");
        assert!(
            view.contains("Which one?") && view.contains("enter attaches"),
            "{view}"
        );
        assert_eq!(board.keys(b"y"), Wish::Nothing);
        assert_eq!(board.keys(b"n"), Wish::Nothing);
    }

    #[test]
    fn the_selected_session_stays_selected_while_others_come_and_go() {
        let mut board = board();
        board.keys(b"j");
        let selected = board.selected.clone();
        board.list(
            vec![
                host(3, HostState::NeedsYou, false),
                host(9, HostState::NeedsYou, false),
            ],
            Vec::new(),
        );
        assert_eq!(board.selected, selected);
        board.list(vec![host(9, HostState::Idle, false)], Vec::new());
        assert_eq!(board.selected, Some(host(9, HostState::Idle, false).id));
        board.list(Vec::new(), Vec::new());
        assert_eq!(board.selected, None);
        assert_eq!(board.keys(b"\r"), Wish::Nothing);
    }
}
