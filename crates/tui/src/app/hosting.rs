//! The session beyond this terminal: leaving the terminal, attached terminals, and requests of other clients.

use crate::app::{App, Leave, waiting};
use crate::commands;
use crate::terminal;
use lathe_engine::SessionMessage;
use lathe_extensions::CommandAction;
use lathe_host::{Done, Facts, Hub, HubError, Request};
use lathe_process::stub::Link;
use lathe_process::{Console, TerminalSize};
use lathe_protocol::event::SessionState;
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::record::MessageRecord;
use lathe_settings::Variable;
use lathe_wire::{ClaimError, NakCode, OpId, QueuedPrompt, WireOp};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// After how many seconds a background session that has nothing to do and no clients ends.
const IDLE_SECONDS: u64 = 30 * 60;

/// How the end of a start in the background is told to who started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Announce {
    /// The id alone, for scripts.
    #[default]
    Id,
    /// The id, and how to continue.
    Words,
    /// As JSON.
    Json,
    /// The stub attaches itself.
    Attach,
}

/// How a session is reached from elsewhere.
#[derive(Debug)]
pub struct Hosting {
    /// Its hub.
    pub hub: Hub,
    /// The requests of its clients.
    pub requests: mpsc::UnboundedReceiver<Request>,
    /// The stub that has the terminal; `None` where the terminal can't be left.
    pub link: Option<Link>,
    /// The console of a session that begins in the background.
    pub console: Option<Arc<Console>>,
    /// How it is announced.
    pub announce: Announce,
    /// Whether it has no terminal of its own.
    pub(crate) background: bool,
    /// Since when a background session has had nothing to do.
    pub(crate) idle_since: Option<Instant>,
    /// Whether a closed terminal ends the session even during a turn (`onTerminalClose: end`).
    pub(crate) ends_with_terminal: bool,
}

impl Hosting {
    /// The hosting of a session. With a console, the session begins in the background, and the stub is told when it is
    /// open.
    #[must_use]
    pub fn new(
        hub: Hub,
        requests: mpsc::UnboundedReceiver<Request>,
        link: Option<Link>,
        console: Option<Arc<Console>>,
    ) -> Self {
        Self {
            hub,
            requests,
            link,
            background: console.is_some(),
            console,
            announce: Announce::default(),
            idle_since: None,
            ends_with_terminal: false,
        }
    }
}

/// Why a session stays on its terminal.
#[derive(Debug, thiserror::Error)]
enum StaysHere {
    #[error("it was not started on a terminal")]
    NoTerminal,
    #[error("its terminal can't be left")]
    NoStub,
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("no other terminal can be made: {0}")]
    Console(#[from] std::io::Error),
}

/// The next request of a client.
pub(crate) async fn next_request(hosting: Option<&mut Hosting>) -> Request {
    match hosting {
        Some(hosting) => match hosting.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// The session is open: it can be reached from now on. One that begins in the background says so to who started it.
pub(crate) fn opened(app: &mut App, records: &[MessageRecord]) {
    let facts = app.engine.handle.as_ref().map(|session| Facts {
        session_id: session.session_id(),
        title: app.session.title.clone(),
        folder: app.places.environment.cwd.clone(),
        waiting: app.queue.kept.clone(),
    });
    let (Some(hosting), Some(facts)) = (&mut app.engine.hosting, facts) else {
        return;
    };
    hosting.hub.opened(&facts, records);
    let listening = hosting.hub.listen();
    let id = match listening {
        Ok(id) => id,
        Err(error) => {
            let is_taken = matches!(error, HubError::Claim(ClaimError::Taken(_)));
            if hosting.background || is_taken {
                app.exit.failure = Some(error.to_string());
                app.exit.leave = Some(Leave::Failed);
            } else {
                tracing::warn!(%error, "the session can't be reached from elsewhere");
            }
            return;
        }
    };
    if let Some(console) = hosting.console.take() {
        let _ = console.take_errors();
        hosting.hub.use_console(console);
        let json = serde_json::json!({"id": id, "session_id": facts.session_id});
        match (hosting.link.take(), hosting.announce) {
            (None, _) => {}
            (Some(link), Announce::Id) => link.leave(&format!("{id}\n")),
            (Some(link), Announce::Words) => link.leave(&format!(
                "{id}\nThe session works in the background. `lathe attach {id}` opens it, `lathe board` shows all.\n"
            )),
            (Some(link), Announce::Json) => link.leave(&format!("{json}\n")),
            (Some(link), Announce::Attach) => link.hand_over(&["attach", id.as_str()]),
        }
    }
}

/// `/bg`: leaves the terminal; the session continues.
pub(crate) fn background(app: &mut App) {
    let Some(hosting) = &app.engine.hosting else {
        app.warn(
            "This session can't continue in the background: it was not started on a terminal.",
        );
        return;
    };
    if hosting.background {
        let id = hosting.hub.id().map(|id| id.to_string());
        hosting
            .hub
            .detach(&detached(&id.unwrap_or_default()), false);
        return;
    }
    if let Err(why) = leave_terminal(app, |link, id| link.leave(&format!("{}\n", detached(id)))) {
        app.warn(format!("The session stays here: {why}"));
    }
}

fn detached(id: &str) -> String {
    format!("The session continues in the background. Return with: lathe attach {id}")
}

/// The terminal was closed. Returns whether the session continues.
pub(crate) fn hung_up(app: &mut App) -> bool {
    let keeps = app.engine.hosting.as_ref().is_some_and(|hosting| {
        hosting.background || (hosting.link.is_some() && !hosting.ends_with_terminal)
    });
    if !keeps || !app.session.busy() || app.engine.handle.is_none() {
        return false;
    }
    if app.engine.hosting.as_ref().is_some_and(|it| it.background) {
        return true;
    }
    let left = leave_terminal(app, |link, id| link.leave(&format!("{}\n", detached(id))));
    if let (Ok(()), Some(hosting)) = (&left, &app.engine.hosting) {
        hosting.hub.terminal_closed();
    }
    left.is_ok()
}

/// Moves from the terminal to a console; `tell` tells the stub.
fn leave_terminal(app: &mut App, tell: impl FnOnce(Link, &str)) -> Result<(), StaysHere> {
    let Some(hosting) = &mut app.engine.hosting else {
        return Err(StaysHere::NoTerminal);
    };
    let Some(link) = hosting.link.take() else {
        return Err(StaysHere::NoStub);
    };
    let id = match hosting.hub.listen() {
        Ok(id) => id,
        Err(error) => {
            hosting.link = Some(link);
            return Err(error.into());
        }
    };
    if let Some(reader) = &app.screen.reader {
        reader.pause();
    }
    let clear = app.screen.inline.clear();
    let _ = terminal::write(&clear);
    terminal::restore();
    let size = TerminalSize {
        columns: u16::try_from(app.screen.columns).unwrap_or(80),
        rows: u16::try_from(app.screen.rows).unwrap_or(24),
    };
    let console = Console::take_over(size);
    let entered = terminal::enter();
    if let Some(reader) = &app.screen.reader {
        reader.resume();
    }
    let taken = match (console, entered) {
        (Ok(console), Ok(())) => {
            let _ = console.take_errors();
            hosting.hub.use_console(Arc::new(console));
            hosting.background = true;
            tell(link, id.as_str());
            Ok(())
        }
        (Err(error), _) | (_, Err(error)) => {
            hosting.link = Some(link);
            Err(error.into())
        }
    };
    app.screen.changed_now();
    taken
}

/// Draws everything again: a terminal was attached, or lost some of what was drawn.
fn repaint(app: &mut App) {
    terminal::enter_anew();
    app.screen.graphics.forget();
    let (columns, rows) = terminal::size();
    app.screen.columns = columns;
    app.screen.rows = rows;
    let _ = app.screen.inline.resized(columns);
    app.screen.pending.clear();
    if app.screen.full.is_some() {
        app.reenter_full_screen();
    } else {
        app.screen.pending.push_str("\x1b[H\x1b[2J");
        app.with_look(crate::app::conversation::Conversation::show_again);
        app.set_title();
    }
    app.screen.changed_now();
}

/// A client asks for something.
pub(crate) fn request(app: &mut App, request: Request) {
    match request {
        Request::Repaint => repaint(app),
        Request::Clients => {}
        Request::ShareTerminal => {
            let shared = leave_terminal(app, |link, id| link.hand_over(&["attach", id]));
            match (shared, &app.engine.hosting) {
                (Err(why), Some(hosting)) => hosting.hub.detach(&why.to_string(), true),
                _ => repaint(app),
            }
        }
        Request::Op { op, id, by, done } => operation(app, *op, id, &by, done),
    }
    app.screen.dirty = true;
}

/// An operation of a client.
fn operation(app: &mut App, op: WireOp, id: OpId, by: &str, done: Done) {
    let Some(session) = &app.engine.handle else {
        done.refuse(NakCode::Refused, "the session is being opened");
        return;
    };
    match op {
        WireOp::Prompt { content, uuid } => {
            let mut prompt = Prompt::new(content);
            prompt.uuid = uuid.unwrap_or(RecordId(id));
            self::prompt(app, prompt, done);
        }
        WireOp::CancelPrompt { uuid } => {
            if session.history().cancel_queued(uuid) {
                app.queue.prompts.retain(|queued| queued.uuid != uuid);
                done.ok();
            } else {
                done.refuse(NakCode::Unknown, "no such prompt waits");
            }
        }
        WireOp::Interrupt { drop_queued } => {
            session.send(Op::Interrupt { drop_queued });
            done.ok();
        }
        WireOp::PermissionReply { request_id, reply } => {
            if session.answer_permission(&request_id, reply, by) {
                done.ok();
            } else {
                done.too_late(&request_id);
            }
        }
        WireOp::ElicitationReply { request_id, reply } => {
            if session.answer_elicitation(&request_id, reply, by) {
                done.ok();
            } else {
                done.too_late(&request_id);
            }
        }
        WireOp::SetMode { mode } => match session.permissions().set_mode(mode) {
            Ok(()) => {
                app.remark(format!("{by} changed the mode to {mode}"));
                done.ok();
            }
            Err(error) => done.refuse(NakCode::Refused, error.to_string()),
        },
        WireOp::SetModel { model } => {
            commands::model::asked(app, &model, done);
        }
        WireOp::SetThinking {
            max_thinking_tokens,
        } => {
            session.model().set_max_thinking_tokens(max_thinking_tokens);
            app.remark(format!("{by} changed how much the model may think"));
            done.ok();
        }
        WireOp::Rename { title } => {
            commands::rename::set_title(app, title.trim());
            done.ok();
        }
        WireOp::Message { from, name, text } => {
            let message = SessionMessage { from, name, text };
            match session.receive_message(message) {
                Ok(()) => done.ok(),
                Err(why) => done.refuse(NakCode::Refused, why.to_string()),
            }
        }
        WireOp::Stop => {
            app.remark(format!("{by} ended the session"));
            app.exit.leave = Some(Leave::Asked);
            done.ok();
        }
    }
}

/// A prompt of a client: as if it was typed here, but commands of the terminal itself stay here.
fn prompt(app: &mut App, mut prompt: Prompt, done: Done) {
    let registry = commands::registry(app);
    let is_builtin = prompt.typed_command().is_some_and(|command| {
        let found = registry.find(&command.name);
        found.is_some_and(|found| matches!(found.action, CommandAction::Builtin(_)))
    });
    if is_builtin {
        let why = "commands of the terminal itself can't be used from elsewhere";
        done.refuse(NakCode::Refused, why);
        return;
    }
    app.alarms.user_is_active();
    prompt.origin = Some(serde_json::json!({"kind": "human"}));
    let uuid = prompt.uuid;
    let busy = app.session.busy();
    let shown = prompt.content.text();
    app.queue.add(&shown, prompt, busy);
    if busy && let Some(keeping) = waiting::keep(app) {
        // It may take a while until it is accepted; the session has it when it is kept.
        app.jobs.task(async move {
            match keeping.await {
                Ok(()) => done.ok(),
                Err(error) => done.refuse(NakCode::Refused, error.to_string()),
            }
            None
        });
    } else {
        done.when_accepted(uuid);
    }
    crate::app::queue::send(app);
}

/// Tells clients which prompts wait, and notices when a background session has nothing to do. Called before drawing.
pub(crate) fn follow(app: &mut App) {
    let idle = app.engine.handle.is_some()
        && app.session.state == SessionState::Idle
        && !app.session.busy()
        && !app.session.works_in_background()
        && app.queue.prompts.is_empty();
    let Some(hosting) = &mut app.engine.hosting else {
        return;
    };
    let waiting = app.queue.prompts.iter().map(|queued| QueuedPrompt {
        uuid: queued.uuid,
        text: queued.text.clone(),
    });
    hosting.hub.set_queue(waiting.collect());
    if hosting.background && idle && hosting.hub.clients() == 0 {
        hosting.idle_since.get_or_insert_with(Instant::now);
    } else {
        hosting.idle_since = None;
    }
}

/// When a background session that has nothing to do ends.
pub(crate) fn due(app: &App) -> Option<Instant> {
    let since = app.engine.hosting.as_ref()?.idle_since?;
    let seconds = app
        .places
        .environment
        .number(Variable::BackgroundIdleSeconds);
    Some(since + Duration::from_secs(seconds.unwrap_or(IDLE_SECONDS)))
}
