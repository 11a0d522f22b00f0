//! The app: its parts, and the loop that drives them.
//!
//! Everything arrives as a message: keys, events of the engine, signals, and results of background jobs.
//! A message changes one of the parts below; the screen is then drawn from them, at most every sixteen
//! milliseconds, and at once after a key. When nothing happens, nothing runs.

pub(crate) mod agents;
pub(crate) mod alarms;
pub(crate) mod answers;
pub(crate) mod away;
pub(crate) mod browser;
pub(crate) mod conversation;
pub(crate) mod engine;
pub(crate) mod events;
pub(crate) mod hosting;
pub(crate) mod input;
pub(crate) mod jobs;
pub(crate) mod keyboard;
pub(crate) mod look;
pub(crate) mod no_key;
pub(crate) mod notices;
pub(crate) mod opening;
pub(crate) mod pictures;
pub(crate) mod providers;
pub(crate) mod pull_request;
pub(crate) mod queue;
pub(crate) mod remember;
pub(crate) mod screen;
pub(crate) mod session_status;
pub(crate) mod settings;
pub(crate) mod shell;
pub(crate) mod spending;
pub(crate) mod status_line;
pub(crate) mod trust;
pub(crate) mod waiting;
pub(crate) mod watching;
pub(crate) mod welcome;

use crate::app::alarms::Alarms;
use crate::app::conversation::Conversation;
use crate::app::engine::Engine;
use crate::app::jobs::{JobResult, Jobs, Report};
use crate::app::look::Appearance;
use crate::app::queue::Queue;
use crate::app::screen::Screen;
use crate::app::session_status::SessionStatus;
use crate::app::settings::TerminalSettings;
use crate::app::status_line::StatusLine;
use crate::app::watching::Watching;
use crate::commands::{CommandState, tasks};
use crate::layers::{Layer as _, Layers};
use crate::prompt::Prompt;
use crate::render::cell::Cell;
use crate::render::live;
use crate::render::markdown::Look;
use crate::render::style::Line;
use crate::render::theme::Theme;
use crate::terminal;
use crate::terminal::input::Input;
use crate::terminal::key::Key;
use lathe_engine::{EventStream, SessionOptions};
use lathe_protocol::event::NoticeLevel;
use lathe_settings::{Environment, Places};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The user left.
    Asked,
    /// SIGTERM.
    Terminated,
    /// SIGHUP, or the terminal is gone.
    HungUp,
    /// The session could not be opened: there is no API key.
    NoCredentials,
    /// The session could not be opened.
    Failed,
    /// The command line is wrong.
    Usage,
    /// Another command of the program continues.
    Run(&'static str),
}

/// How and why the app ends.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    pub(crate) leave: Option<Leave>,
    /// The error to print after the terminal is restored.
    pub(crate) failure: Option<String>,
}

/// The app.
pub(crate) struct App {
    pub(crate) places: Places,
    /// The connection to the engine: the open session and how the next one is opened.
    pub(crate) engine: Engine,
    /// The session as it is shown.
    pub(crate) session: SessionStatus,
    pub(crate) conversation: Conversation,
    pub(crate) prompt: Prompt,
    /// Prompts and commands that were entered and have not run yet.
    pub(crate) queue: Queue,
    /// Everything that is open above the prompt.
    pub(crate) layers: Layers,
    pub(crate) screen: Screen,
    pub(crate) look: Appearance,
    pub(crate) settings: TerminalSettings,
    pub(crate) status_line: StatusLine,
    pub(crate) jobs: Jobs,
    pub(crate) alarms: Alarms,
    /// State that commands keep between two dialogs.
    pub(crate) commands: CommandState,
    pub(crate) exit: Exit,
}

impl App {
    pub(crate) fn new(
        environment: Environment,
        options: SessionOptions,
        first_prompt: Option<String>,
    ) -> Self {
        let places = Places::new(environment).with_flags(&options.settings.flags);
        let look = Appearance::new(&places.environment);
        Self {
            session: SessionStatus::new(&options),
            conversation: Conversation::new(&places.environment.cwd),
            prompt: Prompt::new(&places),
            queue: Queue::default(),
            layers: Layers::default(),
            screen: Screen::new(&places.environment, look.depth),
            look,
            settings: TerminalSettings::default(),
            status_line: StatusLine::default(),
            jobs: Jobs::new(),
            alarms: Alarms::default(),
            commands: CommandState::default(),
            exit: Exit::default(),
            engine: Engine::new(options, first_prompt),
            places,
        }
    }
}

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(16);

/// How often the spinner moves.
const SPINNER: Duration = Duration::from_millis(120);

impl App {
    /// How things look now. Borrowed from a copy so that the state can change meanwhile.
    pub(crate) fn theme(&self) -> Theme {
        self.look.theme.clone()
    }

    /// Calls a function of the conversation with how things look.
    pub(crate) fn with_look<T>(
        &mut self,
        work: impl FnOnce(&mut Conversation, Look<'_>) -> T,
    ) -> T {
        let look = Look {
            theme: &self.look.theme,
            columns: self.screen.width(),
            keys: &self.prompt.keymap,
        };
        work(&mut self.conversation, look)
    }

    /// Runs until the user leaves.
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
            self.exit.failure = Some("can't install signal handlers".to_owned());
            return Leave::Failed;
        };
        self.begin();
        let mut last_frame: Option<Instant> = None;
        loop {
            if self.screen.dirty {
                let due = last_frame.is_none_or(|last| last.elapsed() >= FRAME);
                if due || self.screen.urgent {
                    self.screen.dirty = false;
                    self.screen.urgent = false;
                    last_frame = Some(Instant::now());
                    if self.layers.is_unseen() {
                        // What was typed before the question appeared doesn't answer it.
                        while let Ok(input) = inputs.try_recv() {
                            self.input(input);
                        }
                    }
                    self.draw();
                }
            }
            if self.exit.leave == Some(Leave::HungUp) && hosting::hung_up(self) {
                self.exit.leave = None;
                match self.read_again() {
                    Ok(Some(again)) => inputs = again,
                    Ok(None) => {}
                    Err(_) => return Leave::HungUp,
                }
                continue;
            }
            if let Some(leave) = self.exit.leave {
                return leave;
            }
            waiting::follow(self);
            hosting::follow(self);
            let wake = self.next_wake(last_frame);
            tokio::select! {
                biased;
                input = inputs.recv() => match input {
                    Some(input) => {
                        self.input(input);
                        while let Ok(input) = inputs.try_recv() {
                            self.input(input);
                        }
                        self.screen.changed_now();
                    }
                    None => self.exit.leave = Some(Leave::HungUp),
                },
                _ = terminated.recv() => self.exit.leave = Some(Leave::Terminated),
                _ = hung_up.recv() => self.exit.leave = Some(Leave::HungUp),
                _ = interrupted.recv() => self.input(Input::Key(Key::ctrl('c'))),
                _ = resized.recv() => self.resize(),
                _ = continued.recv() => self.continued(),
                _ = stopped.recv() => self.suspend(),
                request = hosting::next_request(self.engine.hosting.as_mut()) => {
                    hosting::request(self, request);
                }
                found = self.jobs.next() => self.found(found),
                event = next_event(&mut self.engine.events) => match event {
                    Some(event) => {
                        self.engine_event(event);
                        self.screen.dirty = true;
                    }
                    None => self.engine.events = None,
                },
                () = sleep_until(wake) => self.time_passed(),
            }
        }
    }

    /// When something is to be done even if nothing happens; never, if there is nothing.
    fn next_wake(&self, last_frame: Option<Instant>) -> Option<Instant> {
        let mut wake: Option<Instant> = None;
        let mut at = |time: Instant| wake = Some(wake.map_or(time, |wake| wake.min(time)));
        if self.screen.dirty
            && let Some(last) = last_frame
        {
            at(last + FRAME);
        }
        let hooks_run = !self.session.hooks.is_empty();
        if self.session.busy() || self.session.shell_run.is_some() || hooks_run {
            let step = if self.look.reduced_motion {
                Duration::from_secs(1)
            } else {
                SPINNER
            };
            at(last_frame.unwrap_or_else(Instant::now) + step);
        }
        if !self.session.agents.is_empty() || tasks::follows(self) {
            // The time that each has worked is shown, and output that is followed.
            at(last_frame.unwrap_or_else(Instant::now) + Duration::from_secs(1));
        }
        if let Some(due) = self.prompt.draft.due {
            at(due);
        }
        if let Some(due) = self.status_line.due {
            at(due);
        }
        if let Some((_, until)) = self.alarms.hint {
            at(until);
        }
        if let Some(due) = self.alarms.idle {
            at(due);
        }
        if let Some(due) = self.alarms.notices.due() {
            at(due);
        }
        if let Some(due) = self.screen.graphics.due() {
            at(due);
        }
        if let Some(due) = self.settings.watching.as_ref().and_then(Watching::due) {
            at(due);
        }
        if let Some(due) = hosting::due(self) {
            at(due);
        }
        wake
    }

    fn time_passed(&mut self) {
        let now = Instant::now();
        if self.prompt.draft.due.is_some_and(|due| due <= now) {
            self.prompt.save_draft();
        }
        if self.status_line.due.is_some_and(|due| due <= now) {
            self.status_line.due = None;
            status_line::start(self);
        }
        self.alarms.expire(now);
        self.alarms.notices.expire(now);
        self.screen.graphics.expire(now);
        if self.alarms.idle.is_some_and(|due| due <= now) {
            alarms::idle(self);
        }
        watching::read_when_due(self, now);
        tasks::follow(self, now);
        if hosting::due(self).is_some_and(|due| due <= now) {
            self.exit.leave = Some(Leave::Asked);
        }
        self.screen.dirty = true;
    }

    fn resize(&mut self) {
        let (columns, rows) = terminal::size();
        if (columns, rows) == (self.screen.columns, self.screen.rows) {
            return;
        }
        self.screen.columns = columns;
        self.screen.rows = rows;
        let clearing = self.screen.inline.resized(columns);
        match &mut self.screen.full {
            Some(full) => full.after.push_str(&clearing),
            None => self.screen.pending.push_str(&clearing),
        }
        self.transcript_stale();
        self.screen.changed_now();
    }

    /// Reads keys again after the terminal was replaced; `None` if that was never interrupted.
    fn read_again(&mut self) -> std::io::Result<Option<mpsc::UnboundedReceiver<Input>>> {
        if self
            .screen
            .reader
            .as_ref()
            .is_some_and(|it| !it.has_ended())
        {
            return Ok(None);
        }
        let (inputs, control) = terminal::start_reader()?;
        self.screen.reader = Some(control);
        Ok(Some(inputs))
    }

    /// Draws the whole alternate screen again, for a terminal that is not there yet.
    pub(crate) fn reenter_full_screen(&mut self) {
        self.transcript_stale();
        terminal::alternate(true);
    }

    /// Stops as Ctrl+Z does.
    pub(crate) fn suspend(&mut self) {
        if self.engine.hosting.as_ref().is_some_and(|it| it.background) {
            self.alarms.show("/bg leaves this session to itself");
            return;
        }
        if let Some(reader) = self.screen.reader.clone() {
            reader.pause();
            let clear = self.screen.inline.clear();
            let _ = terminal::write(&clear);
            terminal::suspend();
            reader.resume();
        }
        self.continued();
    }

    /// The process was stopped and continues: the terminal may be anything but ours.
    fn continued(&mut self) {
        let _ = terminal::enter_again();
        let (columns, rows) = terminal::size();
        self.screen.columns = columns;
        self.screen.rows = rows;
        let _ = self.screen.inline.resized(columns);
        if self.screen.full.is_some() {
            self.transcript_stale();
            terminal::alternate(true);
        }
        self.screen.changed_now();
    }

    /// Something came from a job.
    fn found(&mut self, found: JobResult) {
        self.job_finished(found);
        self.screen.dirty = true;
    }

    /// Says something muted.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.with_look(|conversation, look| conversation.push(Cell::Remark(text), look));
    }

    /// Shows what a command answered.
    pub(crate) fn answer(&mut self, lines: Vec<Line>) {
        self.with_look(|conversation, look| conversation.push(Cell::Answer(lines), look));
    }

    /// Shows what a job reported.
    pub(crate) fn report(&mut self, report: Report) {
        match report {
            Report::Done(text) => self.remark(text),
            Report::Failed(text) => self.warn(text),
        }
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.with_look(|conversation, look| conversation.notice(NoticeLevel::Warning, text, look));
    }

    fn transcript_stale(&mut self) {
        if let Some(transcript) = self.layers.transcript() {
            transcript.invalidate();
        }
    }

    fn draw_transcript(&mut self) {
        let theme = self.theme();
        let look = Look {
            theme: &theme,
            columns: self.screen.columns,
            keys: &self.prompt.keymap,
        };
        let question = self.layers.dialog().and_then(|dialog| dialog.in_full(look));
        let (Some(transcript), Some(full)) = (self.layers.transcript(), &mut self.screen.full)
        else {
            return;
        };
        if transcript.is_stale() {
            full.invalidate();
        }
        transcript.refresh(&self.conversation, question, look);
        let (lines, cursor) = transcript.view(look, self.screen.rows);
        let out = full.draw(self.screen.inline.encoder(), &lines, cursor);
        if !out.is_empty() {
            let _ = terminal::write(&out);
        }
    }

    /// Draws what changed.
    pub(crate) fn draw(&mut self) {
        self.layers.seen();
        agents::refresh(self);
        status_line::follow(self);
        look::follow_progress(self);
        if self.screen.full.is_some() {
            self.draw_transcript();
            return;
        }
        if self.layers.dialog().is_none() {
            self.alarms.notices.seen(Instant::now());
        }
        pictures::follow(self);
        let before = std::mem::take(&mut self.screen.pending);
        let finished = self.conversation.take_finished();
        let frame = live::frame(self);
        let out = self.screen.inline.draw(&before, &finished, &frame);
        if !out.is_empty() && terminal::write(&out).is_err() {
            self.exit.leave = Some(Leave::HungUp);
        }
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
