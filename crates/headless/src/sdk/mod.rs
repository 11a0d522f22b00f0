//! The SDK protocol: a host program drives a session over standard input and output.
//!
//! The host's frames come in ([`input`]), our frames and questions go out ([`host`]), and requests about
//! the session are answered at once, also while a turn runs ([`control`]). The session is opened when
//! the host says how (`initialize`), or with the first prompt.
//!
//! Start with [`run`].

pub mod control;
pub mod host;
pub mod initialize;
pub mod input;

use crate::exit::Exit;
use crate::print::{Signal, failed_start};
use host::Host;
use initialize::Initialize;
use input::Line;
use lathe_engine::{EventStream, OpenError, SessionHandle, SessionOptions};
use lathe_protocol::event::Event;
use lathe_protocol::frame::{
    FrameOptions, HostFrame, UserFrame, control_error, control_success, frames_of,
};
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// How the host runs us.
pub struct SdkOptions {
    /// How the session is opened.
    pub session: SessionOptions,
    /// Which frames the host wants.
    pub frames: FrameOptions,
    /// A prompt from the command line, if there is one.
    pub prompt: Option<String>,
    /// Whether `rewind_files` may be used.
    pub checkpointing: bool,
    /// Told when a signal comes.
    pub signals: watch::Receiver<Signal>,
}

/// Runs until the host has nothing more to say and everything is done.
pub async fn run(
    environment: Environment,
    options: SdkOptions,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    errors: impl Write,
) -> Exit {
    let (host, writer) = match Host::start(output) {
        Ok(started) => started,
        Err(_) => return Exit::Failure,
    };
    let mut face = Face {
        environment: Some(environment),
        options,
        host,
        errors,
        open: None,
        initialize: None,
        questions: HashMap::new(),
        last_failed: false,
        stopping: false,
    };
    let exit = face.run(input::lines(input)).await;
    let Face { host, open, .. } = face;
    drop(open);
    drop(host);
    // Off the runtime's threads: the host may read slowly.
    let _ = tokio::task::spawn_blocking(move || writer.finish()).await;
    exit
}

struct Face<E> {
    environment: Option<Environment>,
    options: SdkOptions,
    host: Host,
    errors: E,
    open: Option<Open>,
    initialize: Option<Arc<Initialize>>,
    /// Permission questions that are with the host.
    questions: HashMap<RequestId, AbortHandle>,
    last_failed: bool,
    stopping: bool,
}

struct Open {
    session: Arc<SessionHandle>,
    events: EventStream,
}

impl<E: Write> Face<E> {
    async fn run(&mut self, mut lines: mpsc::UnboundedReceiver<Line>) -> Exit {
        let mut signals = self.options.signals.clone();
        let mut signal = Signal::None;
        if let Some(prompt) = self.options.prompt.take()
            && let Err(exit) = self.prompt(Prompt::new(prompt)).await
        {
            return exit;
        }
        let mut input_open = true;
        loop {
            if !input_open && self.open.is_none() {
                return Exit::Success;
            }
            let next_event = async {
                match &mut self.open {
                    Some(open) => open.events.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = signals.changed(), if signal == Signal::None => {
                    signal = if changed.is_ok() { *signals.borrow() } else { Signal::Terminate };
                    input_open = false;
                    self.host.close();
                    match &self.open {
                        Some(open) => {
                            open.session.send(Op::Interrupt { drop_queued: true });
                            self.end();
                        }
                        None => break,
                    }
                }
                line = lines.recv(), if input_open => match line {
                    Some(line) => {
                        if let Err(exit) = self.line(line).await {
                            return exit;
                        }
                    }
                    None => {
                        input_open = false;
                        self.host.close();
                        self.end();
                    }
                },
                event = next_event => match event {
                    Some(event) => {
                        self.event(&event);
                        if matches!(event, Event::SessionEnded) {
                            break;
                        }
                    }
                    None => break,
                },
            }
        }
        if let Some(open) = self.open.take()
            && let Ok(session) = Arc::try_unwrap(open.session)
        {
            session.finish().await;
        }
        match signal {
            Signal::Interrupt => Exit::Interrupted,
            Signal::Terminate => Exit::Terminated,
            Signal::None if self.last_failed => Exit::Failure,
            Signal::None => Exit::Success,
        }
    }

    /// The host has said everything: what was accepted is finished.
    fn end(&mut self) {
        if let Some(open) = &self.open
            && !self.stopping
        {
            self.stopping = true;
            open.session.send(Op::Shutdown);
        }
    }

    async fn line(&mut self, line: Line) -> Result<(), Exit> {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong(bytes) => {
                self.complain(&format!(
                    "a frame of {bytes} bytes was left out; the limit is {}",
                    input::MAX_LINE
                ));
                return Ok(());
            }
            Line::NotText => {
                self.complain("a frame that isn't UTF-8 was left out");
                return Ok(());
            }
        };
        if !text.starts_with('{') {
            return Ok(());
        }
        match HostFrame::parse(&text) {
            Ok(HostFrame::ControlRequest {
                request_id,
                request,
            }) => self.control(request_id, request).await,
            Ok(HostFrame::ControlResponse {
                request_id,
                response,
            }) => {
                self.host.answered(&request_id, response);
                Ok(())
            }
            Ok(HostFrame::User(frame)) => self.prompt(prompt_of(*frame)).await,
            Ok(
                HostFrame::ControlCancel { .. } | HostFrame::KeepAlive | HostFrame::Unknown { .. },
            ) => Ok(()),
            Err(error) => {
                self.complain(&format!("a frame was left out: {error}"));
                Ok(())
            }
        }
    }

    async fn prompt(&mut self, prompt: Prompt) -> Result<(), Exit> {
        let session = self.session().await?;
        session.send(Op::Prompt(prompt));
        Ok(())
    }

    /// The session; opened now if it isn't yet.
    async fn session(&mut self) -> Result<Arc<SessionHandle>, Exit> {
        if let Some(open) = &self.open {
            return Ok(open.session.clone());
        }
        let Some(environment) = self.environment.take() else {
            return Err(Exit::Failure);
        };
        let mut options = self.options.session.clone();
        if let Some(initialize) = &self.initialize {
            initialize.apply(&mut options);
        }
        match lathe_engine::open(environment, options).await {
            Ok(opened) => {
                for remark in &opened.remarks {
                    self.complain(remark);
                }
                let session = Arc::new(opened.session);
                if let Some(initialize) = self.initialize.clone() {
                    for problem in initialize.register_hooks(&session, &self.host) {
                        self.complain(&problem);
                    }
                }
                self.open = Some(Open {
                    session: session.clone(),
                    events: opened.events,
                });
                Ok(session)
            }
            Err(error) => Err(self.cannot_open(&error)),
        }
    }

    /// A host that waits for an answer gets one: a result that says why there is none.
    fn cannot_open(&mut self, error: &OpenError) -> Exit {
        self.complain(&error.to_string());
        self.host.send(failed_start(&error.to_string()));
        Exit::Failure
    }

    async fn control(&mut self, id: RequestId, request: Value) -> Result<(), Exit> {
        let subtype = request
            .get("subtype")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if subtype == "initialize" {
            return self.initialize(&id, &request).await;
        }
        if !control::is_known(&subtype) {
            self.host.send(control_error(
                &id,
                &format!("Unknown control request: {subtype}"),
            ));
            return Ok(());
        }
        let session = self.session().await?;
        let host = self.host.clone();
        let checkpointing = self.options.checkpointing;
        if control::is_quick(&subtype) {
            let answer = control::answer(&session, &subtype, &request, checkpointing).await;
            respond(&host, &id, answer);
            if subtype == "interrupt" {
                session.send(Op::Interrupt {
                    drop_queued: request
                        .get("cancel_queued")
                        .and_then(Value::as_bool)
                        .unwrap_or(false),
                });
            }
        } else {
            // What takes time must not hold up the frames behind it.
            tokio::spawn(async move {
                let answer = control::answer(&session, &subtype, &request, checkpointing).await;
                respond(&host, &id, answer);
            });
        }
        Ok(())
    }

    async fn initialize(&mut self, id: &RequestId, request: &Value) -> Result<(), Exit> {
        match Initialize::parse(request) {
            Ok(initialize) => {
                if self.open.is_none() {
                    self.options.frames.forward_subagent_text = initialize.forward_subagent_text;
                    self.initialize = Some(Arc::new(initialize));
                }
                let session = self.session().await?;
                let initialize = self.initialize.clone().unwrap_or_default();
                self.host
                    .send(control_success(id, initialize.response(&session)));
            }
            Err(error) => self.host.send(control_error(id, &error)),
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) {
        let Some(open) = &self.open else { return };
        let session_id = open.session.session_id();
        match event {
            Event::PermissionRequested(request) => {
                let asking = ask_host(self.host.clone(), open.session.clone(), request.clone());
                let task = tokio::spawn(asking);
                self.questions
                    .insert(request.request_id.clone(), task.abort_handle());
            }
            Event::PermissionResolved { request_id, .. } => {
                // Dropping the question withdraws it, if the host has not answered.
                if let Some(task) = self.questions.remove(request_id) {
                    task.abort();
                }
            }
            Event::TurnFinished(result) => self.last_failed = result.is_error,
            _ => {}
        }
        for frame in frames_of(event, session_id, self.options.frames) {
            self.host.send(frame);
        }
    }

    fn complain(&mut self, message: &str) {
        let _ = writeln!(self.errors, "lathe: {message}");
    }
}

fn respond(host: &Host, id: &RequestId, answer: Result<Value, String>) {
    host.send(match answer {
        Ok(response) => control_success(id, response),
        Err(error) => control_error(id, &error),
    });
}

/// Takes a permission question to the host and its answer to the session.
async fn ask_host(host: Host, session: Arc<SessionHandle>, request: Arc<PermissionRequest>) {
    let mut question = serde_json::to_value(&*request).unwrap_or_default();
    if let Some(fields) = question.as_object_mut() {
        fields.shift_remove("request_id");
        fields.insert("subtype".to_owned(), "can_use_tool".into());
    }
    let reply = match host.ask(request.request_id.clone(), question).await {
        Ok(answer) => serde_json::from_value::<PermissionReply>(answer).unwrap_or_else(|error| {
            PermissionReply::deny(format!(
                "The host's answer to the permission question doesn't fit: {error}"
            ))
        }),
        Err(error) => PermissionReply::deny(format!("The permission question failed: {error}")),
    };
    session.send(Op::PermissionReply {
        request_id: request.request_id.clone(),
        reply,
    });
}

fn prompt_of(frame: UserFrame) -> Prompt {
    let mut prompt = Prompt::new(simplified(frame.message.content));
    prompt.uuid = frame.uuid.unwrap_or_else(RecordId::random);
    prompt.verbatim = frame.client_composed;
    prompt.context_only = frame.should_query == Some(false);
    prompt.is_meta = frame.is_synthetic;
    let human = json!({"kind": "human"});
    prompt.origin = frame.origin.filter(|origin| *origin == human);
    prompt
}

/// A prompt of one text block is stored as plain text: hosts compare it.
fn simplified(content: lathe_protocol::content::Content) -> lathe_protocol::content::Content {
    use lathe_protocol::content::{Content, ContentBlock};
    match content {
        Content::Blocks(mut blocks) if blocks.len() == 1 => match blocks.pop() {
            Some(ContentBlock::Text(text)) if text.extra.is_empty() => Content::Text(text.text),
            Some(block) => Content::Blocks(vec![block]),
            None => Content::Blocks(Vec::new()),
        },
        other => other,
    }
}
