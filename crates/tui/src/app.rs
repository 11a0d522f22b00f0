//! The app: its state, and the loop that keeps it going.
//!
//! Everything that happens comes in as a message: keys, events of the engine, signals, and what jobs in
//! the background found out. The state changes, and at most every sixteenth of a second the screen is
//! drawn from it; a key is drawn at once. When nothing happens, nothing runs.

use crate::away::Away;
use crate::completion::{Completion, FileIndex};
use crate::conversation::Conversation;
use crate::dialog::{Dialog, Waiting};
use crate::editor::Editor;
use crate::editor::vim::Vim;
use crate::history::{Draft, History};
use crate::input::Input;
use crate::jobs::{Found, Jobs};
use crate::key::Key;
use crate::keymap::Keymap;
use crate::markdown::Look;
use crate::screen::Screen;
use crate::sessions::Sessions;
use crate::spending::Spending;
use crate::style::{ColorDepth, Encoder};
use crate::suggestion::Suggestion;
use crate::terminal::{self, ReaderControl};
use crate::theme::Theme;
use crate::transcript::TranscriptView;
use crate::watching::{Contents, Watching};
use lathe_engine::{EventStream, SessionHandle, SessionOptions};
use lathe_extensions::plugins::Prepared;
use lathe_protocol::event::{SessionState, TurnResult};
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::PermissionMode;
use lathe_settings::{Environment, Places};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// How often the spinner moves.
const SPINNER: Duration = Duration::from_millis(120);
/// How long after the last key the draft is written.
const DRAFT_DELAY: Duration = Duration::from_millis(250);

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The person wanted to.
    Asked,
    /// SIGTERM or SIGHUP, or the terminal is gone.
    Terminated,
    /// The session could not be opened: there is no key.
    NoCredentials,
    /// The session could not be opened.
    Failed,
    /// The command line is wrong.
    Usage,
}

/// A prompt that the engine has not taken yet.
#[derive(Debug, Clone)]
pub(crate) struct Queued {
    pub(crate) uuid: RecordId,
    pub(crate) text: String,
    pub(crate) prompt: Prompt,
    /// Whether the engine has it.
    pub(crate) sent: bool,
    /// How many of the commands that wait were typed before it.
    pub(crate) after: usize,
}

/// What the terminal can do and what its owner wishes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    pub(crate) reduced_motion: bool,
    /// Hints while waiting.
    pub(crate) tips: bool,
    /// What may be said next, in the empty prompt.
    pub(crate) suggestions: bool,
    /// What happened while the person was away.
    pub(crate) away_summary: bool,
    /// The dollars after which, and after each more of which, the person is asked; 0 never asks.
    pub(crate) cost_threshold: f64,
    pub(crate) notifications: Notify,
    pub(crate) light_background: bool,
    pub(crate) depth: ColorDepth,
}

/// How the person is told that something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notify {
    Auto,
    Bell,
    Desktop,
    Off,
}

/// How much of the model's window is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextLeft {
    pub(crate) percent: u64,
    /// Whether the person should know.
    pub(crate) is_little: bool,
}

/// What a retry waits for.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    pub(crate) until: Instant,
    pub(crate) attempt: u32,
    pub(crate) max: u32,
    pub(crate) error: String,
}

/// A task that works beside the turn, as far as it has told.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) last_tool: Option<String>,
    pub(crate) tokens: u64,
    pub(crate) calls: u64,
}

/// A shell command that the person runs.
pub(crate) struct ShellRun {
    pub(crate) command: String,
    pub(crate) tail: String,
    pub(crate) cancel: tokio_util::sync::CancellationToken,
}

/// The app.
pub(crate) struct App {
    pub(crate) places: Places,
    pub(crate) options: SessionOptions,
    pub(crate) session: Option<SessionHandle>,
    pub(crate) events: Option<EventStream>,
    pub(crate) opening: bool,
    pub(crate) jobs: Jobs,
    pub(crate) conversation: Conversation,
    pub(crate) editor: Editor,
    pub(crate) vim: Option<Vim>,
    pub(crate) keymap: Keymap,
    pub(crate) chord: Vec<Key>,
    pub(crate) history: History,
    /// Search in the history as soon as it is read.
    pub(crate) history_wanted: bool,
    pub(crate) stash: Option<String>,
    pub(crate) queued: Vec<Queued>,
    /// Commands that wait: for the session, or for the end of the turn.
    pub(crate) waiting_commands: Vec<(String, String)>,
    /// Whether a command that waited is being run: what it says comes before what still waits.
    pub(crate) from_waiting: bool,
    pub(crate) own_context: HashSet<RecordId>,
    pub(crate) suggestion: Suggestion,
    pub(crate) completion: Option<Completion>,
    pub(crate) completion_closed: bool,
    pub(crate) files: Option<FileIndex>,
    pub(crate) indexing: bool,
    /// The search by the person's own command that runs; the next key ends it.
    pub(crate) suggesting: tokio_util::sync::CancellationToken,
    /// That command failed, which was said: files are found without it.
    pub(crate) suggestions_broken: bool,
    pub(crate) dialog: Option<Dialog>,
    /// The dialogs from which the present one was opened; Esc goes back to the last of them.
    pub(crate) parents: Vec<Dialog>,
    /// What the person was looking at when a question came up.
    pub(crate) dialog_below: Option<Dialog>,
    pub(crate) questions: VecDeque<Waiting>,
    pub(crate) transcript: Option<TranscriptView>,
    /// The sessions to go on with, as they were last listed.
    pub(crate) sessions: Sessions,
    /// A plugin that was fetched and waits for a person's yes.
    pub(crate) prepared: Option<Box<Prepared>>,
    /// What was said about money already.
    pub(crate) spending: Spending,
    pub(crate) theme: Theme,
    pub(crate) theme_name: String,
    pub(crate) wishes: Wishes,
    pub(crate) screen: Screen,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) state: SessionState,
    pub(crate) mode: PermissionMode,
    pub(crate) model: String,
    pub(crate) branch: Option<String>,
    pub(crate) turn_began: Option<Instant>,
    pub(crate) retry: Option<Retry>,
    pub(crate) compacting: bool,
    pub(crate) interrupting: bool,
    pub(crate) last_result: Option<Arc<TurnResult>>,
    /// How much of the window is left; `None` while it is nearly all.
    pub(crate) context_left: Option<ContextLeft>,
    /// What runs for the model beside the turn: its name, what it does, what it used.
    pub(crate) agents: Vec<Agent>,
    /// The commands that run in the background, by id.
    pub(crate) commands_behind: BTreeSet<String>,
    pub(crate) show_todos: bool,
    pub(crate) show_help: bool,
    pub(crate) focused: bool,
    pub(crate) away: Away,
    pub(crate) leaving: Option<Leave>,
    pub(crate) leave_hint: Option<(&'static str, Instant)>,
    pub(crate) last_escape: Option<Instant>,
    pub(crate) shell_run: Option<ShellRun>,
    pub(crate) status_line: Option<String>,
    pub(crate) status_line_due: Option<Instant>,
    /// Blank columns at both ends of the user's own status line.
    pub(crate) status_padding: usize,
    pub(crate) tip: usize,
    pub(crate) watching: Option<Watching>,
    /// What the watched files held when they were last read.
    pub(crate) known_files: Contents,
    /// The settings that were last applied, as far as they concern the terminal.
    pub(crate) applied_settings: Option<BTreeMap<String, Value>>,
    /// Settings that were saved from here and that the session has not told of yet.
    pub(crate) saved_settings: Vec<String>,
    pub(crate) draft_file: PathBuf,
    /// Keeps the draft from being taken by another terminal.
    pub(crate) draft_lock: Option<std::fs::File>,
    pub(crate) draft_due: Option<Instant>,
    pub(crate) saved_draft: Draft,
    pub(crate) failure: Option<String>,
    pub(crate) first_prompt: Option<String>,
    pub(crate) reader: Option<ReaderControl>,
    pub(crate) pending_output: String,
    /// Choose a session before one is opened.
    pub(crate) pick_session: bool,
    dirty: bool,
    urgent: bool,
}

impl App {
    pub(crate) fn new(
        environment: Environment,
        options: SessionOptions,
        prompt: Option<String>,
    ) -> Self {
        let places = Places::new(environment);
        let (columns, rows) = terminal::size();
        let variable = |name: &str| places.environment.foreign(name).map(str::to_owned);
        let depth = ColorDepth::detect(variable);
        let encoder = Encoder {
            depth,
            links: depth != ColorDepth::None && variable("TERM").as_deref() != Some("linux"),
        };
        let screen = Screen::new(encoder, columns, crate::screen::rewraps(variable));
        let light_background = light_by_environment(variable("COLORFGBG").as_deref());
        let history = History::new(&places.config_home, &places.environment.cwd);
        let conversation = Conversation::new(&places.environment.cwd);
        Self {
            conversation,
            history,
            history_wanted: false,
            saved_settings: Vec::new(),
            draft_file: PathBuf::new(),
            draft_lock: None,
            screen,
            theme: Theme::built_in("auto", light_background),
            theme_name: "auto".to_owned(),
            wishes: Wishes {
                reduced_motion: false,
                tips: true,
                suggestions: false,
                away_summary: false,
                cost_threshold: crate::spending::THRESHOLD,
                notifications: Notify::Auto,
                light_background,
                depth,
            },
            mode: options.permission_mode.unwrap_or_default(),
            model: options.model.clone().unwrap_or_default(),
            places,
            options,
            session: None,
            events: None,
            opening: false,
            jobs: Jobs::new(),
            editor: Editor::default(),
            vim: None,
            keymap: Keymap::default(),
            chord: Vec::new(),
            stash: None,
            queued: Vec::new(),
            waiting_commands: Vec::new(),
            from_waiting: false,
            own_context: HashSet::new(),
            suggestion: Suggestion::default(),
            completion: None,
            completion_closed: false,
            files: None,
            indexing: false,
            suggesting: tokio_util::sync::CancellationToken::new(),
            suggestions_broken: false,
            dialog: None,
            parents: Vec::new(),
            dialog_below: None,
            questions: VecDeque::new(),
            transcript: None,
            sessions: Sessions::default(),
            prepared: None,
            spending: Spending::default(),
            columns,
            rows,
            state: SessionState::Idle,
            branch: None,
            turn_began: None,
            retry: None,
            compacting: false,
            interrupting: false,
            last_result: None,
            context_left: None,
            agents: Vec::new(),
            commands_behind: BTreeSet::new(),
            show_todos: true,
            show_help: false,
            focused: true,
            away: Away::default(),
            leaving: None,
            leave_hint: None,
            last_escape: None,
            shell_run: None,
            status_line: None,
            status_line_due: None,
            status_padding: 0,
            tip: fastrand_tip(),
            watching: None,
            known_files: Contents::new(),
            applied_settings: None,
            draft_due: None,
            saved_draft: Draft::default(),
            failure: None,
            first_prompt: prompt,
            reader: None,
            pending_output: String::new(),
            pick_session: false,
            dirty: true,
            urgent: true,
        }
    }

    /// How things look now. Borrowed from a copy so that the state can change meanwhile.
    pub(crate) fn theme(&self) -> Theme {
        self.theme.clone()
    }

    /// Calls a function of the conversation with how things look.
    pub(crate) fn with_look<T>(
        &mut self,
        work: impl FnOnce(&mut Conversation, Look<'_>) -> T,
    ) -> T {
        let look = Look {
            theme: &self.theme,
            columns: self.width(),
        };
        work(&mut self.conversation, look)
    }

    /// Columns that are written to: a row is never filled.
    pub(crate) fn width(&self) -> usize {
        self.columns.saturating_sub(1).max(1)
    }

    /// Draw without waiting for the next frame.
    pub(crate) fn changed_now(&mut self) {
        self.dirty = true;
        self.urgent = true;
    }

    /// Whether a turn runs.
    pub(crate) fn busy(&self) -> bool {
        self.turn_began.is_some()
    }

    pub(crate) fn send(&self, op: Op) {
        if let Some(session) = &self.session {
            session.send(op);
        }
    }

    /// Runs until the person leaves.
    pub(crate) async fn run(&mut self, mut inputs: mpsc::UnboundedReceiver<Input>) -> Leave {
        let (
            Ok(mut resized),
            Ok(mut terminated),
            Ok(mut hung_up),
            Ok(mut continued),
            Ok(mut stopped),
            Ok(mut interrupted),
        ) = (
            signal(SignalKind::window_change()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
            signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())),
            signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw())),
            signal(SignalKind::interrupt()),
        )
        else {
            self.failure = Some("signals can't be listened for".to_owned());
            return Leave::Failed;
        };
        self.begin();
        let mut last_frame: Option<Instant> = None;
        loop {
            if self.dirty {
                let due = last_frame.is_none_or(|last| last.elapsed() >= FRAME);
                if due || self.urgent {
                    self.dirty = false;
                    self.urgent = false;
                    last_frame = Some(Instant::now());
                    self.draw();
                }
            }
            if let Some(leave) = self.leaving {
                return leave;
            }
            let wake = self.next_wake(last_frame);
            tokio::select! {
                biased;
                input = inputs.recv() => match input {
                    Some(input) => {
                        self.input(input);
                        while let Ok(input) = inputs.try_recv() {
                            self.input(input);
                        }
                        self.changed_now();
                    }
                    None => self.leaving = Some(Leave::Terminated),
                },
                _ = terminated.recv() => self.leaving = Some(Leave::Terminated),
                _ = hung_up.recv() => self.leaving = Some(Leave::Terminated),
                _ = interrupted.recv() => self.input(Input::Key(Key::ctrl('c'))),
                _ = resized.recv() => self.resize(),
                _ = continued.recv() => self.back_again(),
                _ = stopped.recv() => self.suspend(),
                found = self.jobs.next() => self.found(found),
                event = next_event(&mut self.events) => match event {
                    Some(event) => {
                        self.engine_event(event);
                        self.dirty = true;
                    }
                    None => self.events = None,
                },
                () = sleep_until(wake) => self.time_passed(),
            }
        }
    }

    /// When something is to be done even if nothing happens; never, if there is nothing.
    fn next_wake(&self, last_frame: Option<Instant>) -> Option<Instant> {
        let mut wake: Option<Instant> = None;
        let mut at = |time: Instant| wake = Some(wake.map_or(time, |wake| wake.min(time)));
        if self.dirty
            && let Some(last) = last_frame
        {
            at(last + FRAME);
        }
        if self.busy() || self.shell_run.is_some() {
            let step = if self.wishes.reduced_motion {
                Duration::from_secs(1)
            } else {
                SPINNER
            };
            at(last_frame.unwrap_or_else(Instant::now) + step);
        }
        if let Some(due) = self.draft_due {
            at(due);
        }
        if let Some(due) = self.status_line_due {
            at(due);
        }
        if let Some((_, until)) = self.leave_hint {
            at(until);
        }
        if let Some(due) = self.watching.as_ref().and_then(Watching::due) {
            at(due);
        }
        wake
    }

    fn time_passed(&mut self) {
        let now = Instant::now();
        if self.draft_due.is_some_and(|due| due <= now) {
            self.save_draft();
        }
        if self.status_line_due.is_some_and(|due| due <= now) {
            self.status_line_due = None;
            self.start_status_line();
        }
        if self.leave_hint.is_some_and(|(_, until)| until <= now) {
            self.leave_hint = None;
        }
        self.read_touched(now);
        self.dirty = true;
    }

    /// The text changed: the draft is written a moment later.
    pub(crate) fn text_changed(&mut self) {
        self.draft_due = Some(Instant::now() + DRAFT_DELAY);
    }

    /// Writes the draft if it changed.
    pub(crate) fn save_draft(&mut self) {
        self.draft_due = None;
        let draft = Draft {
            text: self.editor.text().to_owned(),
            attachments: self.editor.attachments().to_vec(),
            stash: self.stash.clone(),
        };
        if draft == self.saved_draft {
            return;
        }
        if self.draft_file.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = draft.save(&self.draft_file) {
            tracing::warn!(%error, "the draft can't be written");
        }
        self.saved_draft = draft;
    }

    fn resize(&mut self) {
        let (columns, rows) = terminal::size();
        if (columns, rows) == (self.columns, self.rows) {
            return;
        }
        self.columns = columns;
        self.rows = rows;
        if self.transcript.is_none() {
            self.pending_output.push_str(&self.screen.resized(columns));
        } else {
            let clearing = self.screen.resized(columns);
            if let Some(view) = &mut self.transcript {
                view.after.push_str(&clearing);
                view.stale = true;
            }
        }
        self.changed_now();
    }

    /// Stops as Ctrl+Z does.
    pub(crate) fn suspend(&mut self) {
        if let Some(reader) = self.reader.clone() {
            reader.pause();
            let clear = self.screen.clear();
            let _ = terminal::write(&clear);
            terminal::suspend();
            reader.go_on();
        }
        self.back_again();
    }

    /// The process was stopped and goes on: the terminal may be anything but ours.
    fn back_again(&mut self) {
        let _ = terminal::enter_again();
        let (columns, rows) = terminal::size();
        self.columns = columns;
        self.rows = rows;
        let _ = self.screen.resized(columns);
        if let Some(view) = &mut self.transcript {
            view.stale = true;
            terminal::alternate(true);
        }
        self.changed_now();
    }

    /// Something came from a job.
    fn found(&mut self, found: Found) {
        self.job_found(found);
        self.dirty = true;
    }
}

async fn next_event(events: &mut Option<EventStream>) -> Option<lathe_protocol::event::Event> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}

/// `COLORFGBG` ends in the background's colour; 7 and 15 are light.
fn light_by_environment(value: Option<&str>) -> bool {
    value
        .and_then(|value| value.rsplit(';').next())
        .and_then(|last| last.parse::<u8>().ok())
        .is_some_and(|color| color == 7 || color == 15)
}

fn fastrand_tip() -> usize {
    usize::try_from(jiff::Timestamp::now().as_second().unsigned_abs() / 60).unwrap_or(0)
}
