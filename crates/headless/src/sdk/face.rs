//! The face that a host sees: one loop over the host's lines, the session's events and what finishes
//! in the background.
//!
//! Prompts are passed on as they come, with three exceptions: before the host's MCP servers are
//! connected, a prompt waits for them; a prompt that is a command waits until the turns before it are
//! over, and whatever came after it waits behind it; and a prompt of the priority `later` waits until
//! there is nothing else to do.

use super::SdkOptions;
use super::asking::{ask, elicit};
use super::control::{RequestError, Requests};
use super::helpers::Helpers;
use super::host::Host;
use super::initialize::{Setup, commands};
use super::input::{self, Line};
use super::mirror;
use super::policies::Policies;
use super::prompts::{Held, Prompts};
use super::servers::Servers;
use crate::exit::Exit;
use crate::print::{Signal, failed_start, local_result};
use crate::sequence::{Sequence, spoken_frame};
use lathe_commands::CommandOutcome;
use lathe_engine::{EventStream, OpenError, Restart, SessionChoice, SessionHandle};
use lathe_hooks::SourceHandle;
use lathe_protocol::command::Invocation;
use lathe_protocol::control::{ControlRequest, ControlRequestError, Initialize};
use lathe_protocol::event::{Event, SessionState};
use lathe_protocol::frame::{HostFrame, UserFrame, control_error, control_success};
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_protocol::op::{Op, Prompt};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The most events that are shown before input and signals are looked at again.
const EVENTS_AT_ONCE: usize = 32;

/// The state behind the loop.
pub(super) struct Face<E> {
    environment: Environment,
    options: SdkOptions,
    host: Host,
    errors: E,
    open: Option<Open>,
    connection: Connection,
    /// Questions that are with the host: for permission, and of MCP servers.
    questions: HashMap<RequestId, AbortHandle>,
    prompts: Prompts,
    /// A compaction that a prompt asked for runs; what it could not do.
    compacting: Option<Option<String>>,
    /// The frames so far.
    sequence: Sequence,
    /// Small questions that the host wants answered.
    helpers: Helpers,
    last_failed: bool,
    input_open: bool,
    stopping: bool,
}

struct Open {
    session: Arc<SessionHandle>,
    events: EventStream,
}

/// The parts of a session that the host set up.
struct Connection {
    setup: Option<Arc<Setup>>,
    /// The MCP servers inside the host.
    servers: Servers,
    /// Policies of the host for the tools of its servers.
    policies: Policies,
    /// The host's hook functions.
    callbacks: Vec<SourceHandle>,
}

impl<E: Write> Face<E> {
    pub(super) fn new(
        environment: Environment,
        mut options: SdkOptions,
        host: Host,
        errors: E,
    ) -> Self {
        let servers = Servers::new(host.clone());
        options.session.mcp.in_process = Some(Arc::new(servers.clone()));
        options.session.mcp.face_answers = true;
        if options.mirror {
            options.session.history.observer = Some(mirror::observer(host.clone()));
        }
        let helpers = Helpers::new(&environment);
        Self {
            helpers,
            environment,
            options,
            host,
            errors,
            open: None,
            connection: Connection {
                setup: None,
                servers,
                policies: Policies::default(),
                callbacks: Vec::new(),
            },
            questions: HashMap::new(),
            prompts: Prompts::default(),
            compacting: None,
            sequence: Sequence::default(),
            last_failed: false,
            input_open: true,
            stopping: false,
        }
    }

    pub(super) async fn run(&mut self, mut lines: mpsc::UnboundedReceiver<Line>) -> Exit {
        let mut signals = self.options.signals.clone();
        let mut signal = Signal::None;
        let mut abandoned = false;
        if let Some(prompt) = self.options.prompt.take()
            && let Err(exit) = self.prompt(Prompt::new(prompt), false).await
        {
            return exit;
        }
        loop {
            if let Err(exit) = self.release().await {
                return exit;
            }
            if !self.input_open {
                if self.open.is_none() {
                    break;
                }
                self.end();
            }
            let host = self.host.clone();
            let next_event = async {
                match &mut self.open {
                    Some(open) => {
                        // After a signal, a host that doesn't read is not waited for.
                        if signal == Signal::None {
                            host.room().await;
                        }
                        open.events.next().await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = signals.changed(), if signal == Signal::None => {
                    signal = if changed.is_ok() { *signals.borrow() } else { Signal::Terminate };
                    self.abandon();
                }
                line = lines.recv(), if self.input_open => match line {
                    Some(line) => {
                        if let Err(exit) = self.line(line).await {
                            return exit;
                        }
                    }
                    None => {
                        self.input_open = false;
                        self.host.close();
                    }
                },
                event = next_event => {
                    let Some(event) = event else { break };
                    if !self.events(event) {
                        break;
                    }
                    // Nobody would see what a session without a host does.
                    if !abandoned && self.host.is_gone() {
                        abandoned = true;
                        self.abandon();
                    }
                }
            }
        }
        match signal {
            Signal::Interrupt => Exit::Interrupted,
            Signal::Terminate => Exit::Terminated,
            Signal::None if self.last_failed => Exit::Failure,
            Signal::None => Exit::Success,
        }
    }

    /// Stops what runs, and takes nothing more in.
    fn abandon(&mut self) {
        self.input_open = false;
        self.prompts.clear();
        self.host.close();
        if let Some(open) = &self.open {
            open.session.tasks().kill_agents();
            open.session.send(Op::Interrupt { drop_queued: true });
        }
    }

    /// The host has said everything: what was accepted is finished, then the session ends.
    fn end(&mut self) {
        if let Some(open) = &self.open
            && !self.stopping
            && !self.prompts.wait()
        {
            self.stopping = true;
            open.session.send(Op::Shutdown);
        }
    }

    /// Whether something runs or waits. A command in the background alone is none.
    fn is_busy(&self) -> bool {
        let mut tasks = self.sequence.tasks();
        !self.prompts.is_idle()
            || self.prompts.wait()
            || tasks.any(|task| task["task_type"] != "local_bash")
    }

    /// Passes on what has nothing to wait for any more.
    async fn release(&mut self) -> Result<(), Exit> {
        while let Some(next) = self.prompts.next() {
            match next {
                Held::Prompt(prompt) => self.pass_on(*prompt),
                Held::Command(prompt, command) => self.carry_out(*prompt, &command).await?,
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, prompt: Prompt) {
        if let Some(open) = &self.open {
            self.prompts.passed_on.insert(prompt.uuid);
            open.session.send(Op::Prompt(prompt));
        }
    }

    async fn line(&mut self, line: Line) -> Result<(), Exit> {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong(bytes) => {
                self.complain(&format!(
                    "a frame of {bytes} bytes was ignored; the limit is {}",
                    input::MAX_LINE
                ));
                return Ok(());
            }
            Line::NotText => {
                self.complain("a frame that isn't UTF-8 was ignored");
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
            Ok(HostFrame::User(frame)) => {
                let later = frame.priority.as_deref() == Some("later");
                if let Some(id) = frame.uuid {
                    if self.was_received(id).await? {
                        self.echo(&frame, id);
                        return Ok(());
                    }
                    if !frame.is_synthetic {
                        self.sequence.given(id);
                    }
                }
                self.prompt(prompt_of(*frame), later).await
            }
            Ok(
                HostFrame::ControlCancel { .. } | HostFrame::KeepAlive | HostFrame::Unknown { .. },
            ) => Ok(()),
            Err(error) => {
                self.complain(&format!("a frame was ignored: {error}"));
                Ok(())
            }
        }
    }

    async fn prompt(&mut self, prompt: Prompt, later: bool) -> Result<(), Exit> {
        self.session().await?;
        // A host that begins with a prompt gets no first answer.
        self.connection.servers.host_listens();
        if later {
            self.prompts.later.push_back(prompt);
        } else {
            let command = prompt.typed_command().cloned();
            let prompt = Box::new(prompt);
            self.prompts.held.push_back(match command {
                Some(command) => Held::Command(prompt, command),
                None => Held::Prompt(prompt),
            });
        }
        Ok(())
    }

    /// Whether a prompt with an id that the host chose was received before, by this process or by an earlier
    /// one of the session. From now on it was.
    async fn was_received(&mut self, id: RecordId) -> Result<bool, Exit> {
        if self.prompts.known.is_none() {
            let session = self.session().await?;
            self.prompts.known = Some(session.history().record_ids().await);
        }
        let known = self.prompts.known.get_or_insert_default();
        Ok(!known.insert(id))
    }

    /// Confirms a prompt that was received before, to a host that wants its prompts confirmed.
    fn echo(&mut self, frame: &UserFrame, id: RecordId) {
        tracing::info!(%id, "an earlier prompt was dropped");
        if self.options.frames.replay_user_messages {
            let session_id = self.open.as_ref().map(|open| open.session.session_id());
            self.host.send(json!({
                "type": "user", "message": {"role": "user", "content": frame.message.content},
                "parent_tool_use_id": null, "uuid": id,
                "session_id": session_id, "isReplay": true,
            }));
        }
    }

    /// The session; opened now if it isn't yet.
    async fn session(&mut self) -> Result<Arc<SessionHandle>, Exit> {
        if let Some(open) = &self.open {
            return Ok(open.session.clone());
        }
        let mut options = self.options.session.clone();
        options.schedule.fires = true;
        if let Some(setup) = &self.connection.setup {
            setup.apply(&mut options);
        }
        match lathe_engine::open(self.environment.clone(), options).await {
            Ok(opened) => {
                for remark in &opened.remarks {
                    self.complain(&remark.to_string());
                }
                let session = Arc::new(opened.session);
                self.connection.policies.apply(&session);
                if let Some(setup) = self.connection.setup.clone() {
                    let is_new = self.options.session.history.session == SessionChoice::New;
                    setup.give_title(&session, is_new);
                    self.connection.callbacks.clear();
                    self.register(&setup, &session);
                }
                if !self.options.frames.partial_messages {
                    opened.events.only_wholes();
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

    /// Registers the host's hook functions in place of those that it had.
    fn register(&mut self, setup: &Setup, session: &SessionHandle) {
        let Some((callbacks, problems)) = setup.register(session, &self.host) else {
            return;
        };
        for before in std::mem::replace(&mut self.connection.callbacks, callbacks) {
            session.hooks().remove(before);
        }
        for problem in problems {
            self.complain(&problem.to_string());
        }
    }

    /// A host that waits for an answer gets one: a result that says why there is none.
    fn cannot_open(&mut self, error: &OpenError) -> Exit {
        self.complain(&error.to_string());
        self.host.send(failed_start(&error.to_string()));
        Exit::Failure
    }

    /// Carries a request out: here if it concerns the connection, otherwise by [`Requests`].
    async fn control(
        &mut self,
        id: RequestId,
        request: Result<ControlRequest, ControlRequestError>,
    ) -> Result<(), Exit> {
        match request {
            Err(error) => {
                self.host.send(control_error(&id, &error.to_string()));
                Ok(())
            }
            Ok(ControlRequest::Initialize(setup)) => self.initialize(&id, *setup).await,
            Ok(ControlRequest::ReloadPlugins(plugins))
                if plugins.refuse_if_busy && self.is_busy() =>
            {
                let mut refusal = control_error(&id, "the session is busy; retry when it is idle");
                refusal["response"]["error_code"] = "reload_plugins_busy".into();
                self.host.send(refusal);
                Ok(())
            }
            Ok(ControlRequest::Interrupt { cancel_queued }) => {
                let session = self.session().await?;
                session.processed().await;
                self.interrupt(&id, &session, cancel_queued);
                Ok(())
            }
            Ok(ControlRequest::CancelAsyncMessage { message_uuid }) => {
                let session = self.session().await?;
                let cancelled = self.prompts.cancel(message_uuid) || {
                    session.processed().await;
                    session.history().cancel_queued(message_uuid)
                };
                if cancelled {
                    self.prompts.passed_on.remove(&message_uuid);
                }
                let answer = json!({"cancelled": cancelled});
                self.host.send(control_success(&id, answer));
                Ok(())
            }
            Ok(request) => self.answer(id, request).await,
        }
    }

    /// Answers a request about the session.
    async fn answer(&mut self, id: RequestId, request: ControlRequest) -> Result<(), Exit> {
        let requests = Requests {
            session: self.session().await?,
            checkpointing: self.options.checkpointing,
            policies: self.connection.policies.clone(),
        };
        let host = self.host.clone();
        if request.may_wait() {
            // A slow request must not hold up the frames behind it.
            lathe_spawn::task(async move {
                let answer = requests.answer(request).await;
                respond(&host, &id, answer);
            });
        } else {
            let answer = requests.answer(request).await;
            respond(&host, &id, answer);
        }
        Ok(())
    }

    /// Answers first, then stops what runs: the host reads the receipt before the result.
    fn interrupt(&mut self, id: &RequestId, session: &Arc<SessionHandle>, cancel_queued: bool) {
        let mut queued = session.history().queued();
        queued.extend(self.prompts.waiting());
        let receipt = if cancel_queued {
            self.prompts.clear();
            for uuid in &queued {
                self.prompts.passed_on.remove(uuid);
            }
            json!({"still_queued": [], "cancelled": queued})
        } else {
            json!({"still_queued": queued})
        };
        self.host.send(control_success(id, receipt));
        session.send(Op::Interrupt {
            drop_queued: cancel_queued,
        });
        let keeps_tasks = self
            .connection
            .setup
            .as_ref()
            .is_some_and(|setup| setup.stops_tasks_itself());
        if !keeps_tasks && self.sequence.tasks().next().is_some() {
            let session = session.clone();
            lathe_spawn::task(async move { session.tasks().stop_all().await });
        }
    }

    async fn initialize(&mut self, id: &RequestId, request: Initialize) -> Result<(), Exit> {
        let setup = Setup::from(request);
        let first = self.open.is_none();
        self.connection.policies.add(setup.server_configs());
        if let Some(session) = self.open.as_ref().map(|open| open.session.clone()) {
            self.connection.policies.apply(&session);
            self.register(&setup, &session);
        }
        let setup = Arc::new(setup);
        let parked = setup.park_manifests(&self.connection.servers, !first);
        if first {
            self.options.frames.forward_subagent_text |= setup.forwards_subagent_text();
            if setup.wants_suggestions() || self.options.suggestions {
                self.helpers.suggest(&self.environment);
            }
            if setup.wants_agent_progress() {
                self.helpers.follow_agents(&self.environment);
            }
            let hosted = setup.mcp_servers().map(str::to_owned);
            self.options.session.mcp.hosted.extend(hosted);
            self.connection.setup = Some(setup.clone());
        }
        let session = self.session().await?;
        let started = self.connection.setup.clone().unwrap_or_default();
        let mut response = started.response(&session);
        setup.answer_applied(&started, &mut response);
        if setup.has_hooks() {
            response["hooks_applied"] = true.into();
        }
        if let (Some(parked), Some(fields)) = (parked, response.as_object_mut()) {
            fields.insert("sdk_mcp_manifests_parked".to_owned(), parked);
        }
        self.sequence.knows_commands(&response["commands"]);
        self.host.send(control_success(id, response));
        if !first {
            let tasks = self.sequence.tasks_frame(session.session_id());
            self.host.send(tasks);
        }
        self.connection.servers.host_listens();
        Ok(())
    }

    /// Takes an event and those that are there already; their frames are written together. Returns
    /// whether the session continues.
    fn events(&mut self, first: Event) -> bool {
        let _together = self.host.together();
        let mut next = Some(first);
        let mut left = EVENTS_AT_ONCE;
        while let Some(event) = next {
            if matches!(event, Event::SessionEnded) {
                return false;
            }
            self.event(&event);
            left -= 1;
            let open = self.open.as_mut().filter(|_| left > 0);
            next = open.and_then(|open| open.events.next_ready());
        }
        true
    }

    fn event(&mut self, event: &Event) {
        let Some(open) = &self.open else { return };
        match event {
            Event::PermissionRequested(request) => {
                let asking = ask(
                    self.host.clone(),
                    self.options.permission_tool.clone(),
                    open.session.clone(),
                    request.clone(),
                );
                let task = lathe_spawn::task(asking);
                self.questions
                    .insert(request.request_id.clone(), task.abort_handle());
            }
            Event::ElicitationRequested(request) => {
                let (host, session) = (self.host.clone(), open.session.clone());
                let task = lathe_spawn::task(elicit(host, session, request.clone()));
                self.questions
                    .insert(request.request_id.clone(), task.abort_handle());
            }
            Event::PermissionResolved { request_id, .. }
            | Event::ElicitationResolved { request_id, .. } => {
                // Withdrawn now and not when the task is dropped: the host should hear it before the result.
                if let Some(task) = self.questions.remove(request_id) {
                    self.host.withdraw(request_id);
                    task.abort();
                }
            }
            Event::TurnFinished(result) => self.last_failed = result.is_error,
            Event::ModeChanged(_) => self.connection.policies.follow_mode(&open.session),
            Event::PromptAccepted { record } => {
                self.prompts.passed_on.remove(&record.uuid);
            }
            Event::StateChanged(state) => {
                self.prompts.running = *state != SessionState::Idle;
                if *state == SessionState::Idle
                    && let Some(problem) = self.compacting.take()
                {
                    self.finish_command(problem.as_deref().unwrap_or_default());
                }
            }
            Event::CompactionFailed { reason } => {
                if let Some(problem) = &mut self.compacting {
                    *problem = Some(format!("The conversation was not compacted: {reason}"));
                }
            }
            _ => {}
        }
        self.show(event);
        if let Some(open) = &self.open {
            self.helpers.look(event, &open.session, &self.host);
        }
        if matches!(event, Event::StateChanged(SessionState::Running)) && self.compacting.is_some()
        {
            let init = self.open.as_ref().map(|open| open.session.init());
            self.show(&Event::TurnStarted(Arc::new(init.unwrap_or_default())));
        }
        if matches!(event, Event::CommandsChanged) {
            self.tell_commands();
        }
    }

    async fn carry_out(&mut self, prompt: Prompt, command: &Invocation) -> Result<(), Exit> {
        let session = self.session().await?;
        match lathe_commands::run(&session, command).await {
            CommandOutcome::Prompt => {
                self.pass_on(prompt);
                Ok(())
            }
            CommandOutcome::Clear => {
                // The session must have no other holder when it ends.
                drop(session);
                self.sequence.begin_command(&command.name, prompt.uuid);
                self.clear(&prompt).await
            }
            CommandOutcome::Compact(instructions) => {
                self.sequence.begin_command(&command.name, prompt.uuid);
                self.confirm(&prompt);
                self.prompts.running = true;
                self.compacting = Some(None);
                session.send(Op::Compact { instructions });
                Ok(())
            }
            CommandOutcome::Answer(text) | CommandOutcome::Refused(text) => {
                self.sequence.begin_command(&command.name, prompt.uuid);
                self.show(&Event::StateChanged(SessionState::Running));
                self.show(&Event::TurnStarted(Arc::new(session.init())));
                self.confirm(&prompt);
                self.finish_command(&text);
                self.show(&Event::StateChanged(SessionState::Idle));
                Ok(())
            }
        }
    }

    /// Ends the session and begins a new one in the same process.
    async fn clear(&mut self, prompt: &Prompt) -> Result<(), Exit> {
        let Some(mut old) = self.open.take() else {
            return Ok(());
        };
        let old_id = old.session.session_id();
        self.options.session = old.session.restart(&Restart::Clear, &self.options.session);
        old.session.send(Op::Shutdown);
        while let Some(event) = old.events.next().await {
            if matches!(event, Event::SessionEnded) {
                break;
            }
            let (host, frames) = (&self.host, self.options.frames);
            self.sequence
                .lines(&event, old_id, frames, 0, |line| host.send_line(line));
        }
        drop(old);
        self.sequence.forget_tasks();
        let session = self.session().await?;
        if let Some(servers) = self.connection.policies.servers() {
            let session = session.clone();
            // Beside this: those inside the host are reached by frames that are read here.
            lathe_spawn::task(async move { session.mcp().set_servers(&servers).await });
        }
        self.show(&Event::StateChanged(SessionState::Running));
        // The first event of a session that follows another says so.
        if let Some(open) = &mut self.open
            && let Some(reset) = open.events.next().await
        {
            self.show(&reset);
        }
        self.show(&Event::TurnStarted(Arc::new(session.init())));
        self.confirm(prompt);
        self.finish_command("");
        self.show(&Event::StateChanged(SessionState::Idle));
        Ok(())
    }

    /// Sends the frames of an event.
    fn show(&mut self, event: &Event) {
        let Some(open) = &self.open else { return };
        let (session_id, frames) = (open.session.session_id(), self.options.frames);
        let (host, queued) = (&self.host, self.prompts.queued());
        self.sequence
            .lines(event, session_id, frames, queued, |line| {
                host.send_line(line);
            });
    }

    /// Sends the list of commands, if it is another than the one that the host has.
    fn tell_commands(&mut self) {
        let Some(open) = &self.open else { return };
        let commands = commands(&open.session);
        if self.sequence.knows_commands(&commands) {
            self.host.send(json!({
                "type": "system", "subtype": "commands_changed", "commands": commands,
                "uuid": RecordId::random(), "session_id": open.session.session_id(),
            }));
        }
    }

    /// Sends a prompt that is no part of a turn back to a host that wants its prompts confirmed.
    fn confirm(&mut self, prompt: &Prompt) {
        if self.options.frames.replay_user_messages {
            let session_id = self.open.as_ref().map(|open| open.session.session_id());
            self.host.send(json!({
                "type": "user", "message": {"role": "user", "content": prompt.content},
                "parent_tool_use_id": null, "uuid": prompt.uuid,
                "session_id": session_id, "isReplay": true,
            }));
        }
    }

    /// The result of a prompt that was a command.
    fn finish_command(&mut self, text: &str) {
        let Some(open) = &self.open else { return };
        self.last_failed = false;
        let (session_id, totals) = (open.session.session_id(), open.session.history().totals());
        if !text.is_empty() {
            self.host.send(spoken_frame(text, session_id));
        }
        let result = local_result(session_id, text, totals.models);
        let queued = self.prompts.queued();
        self.host.send(self.sequence.result(&result, queued));
    }

    fn complain(&mut self, message: &str) {
        let _ = writeln!(self.errors, "lathe: {message}");
    }
}

fn respond(host: &Host, id: &RequestId, answer: Result<Value, RequestError>) {
    host.send(match answer {
        Ok(response) => control_success(id, response),
        Err(error) => control_error(id, &error.to_string()),
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
