//! One attempt at a job: files, session, questions, snapshots, and the result.
//!
//! Every failure to renew or to append because another worker has the job ends the session at once, and nothing more is
//! published. A storage that can't be reached is waited for as long as the lease holds.

use super::WorkerOptions;
use super::checkout::{Changes, Checkout, CheckoutError};
use super::session::{Session, Start, words};
use super::transcript::{Transcript, place};
use crate::backend::{Answer, Ask};
use crate::entry::{JobResult, SnapshotRef, State};
use crate::error::QueueError;
use crate::fleet::{Claim, Control, End, Fleet};
use crate::log::{Conversation, LogRecord};
use lathe_protocol::ids::SessionId;
use lathe_protocol::permission::PermissionMode;
use lathe_session::SessionError;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How often the transcript, answers and times are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often answers are looked for that no message announced.
const LOOK_FOR_ANSWERS: Duration = Duration::from_secs(2);
/// The most calls that a restart lists.
const LISTED_CALLS: usize = 20;

/// Why an attempt ended without a state of its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// The queue says no, or can't be reached.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The files can't be prepared.
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    /// The session can't be started or talked to.
    #[error("the session can't be reached: {0}")]
    Session(#[from] std::io::Error),
    /// The transcript can't be written.
    #[error(transparent)]
    Transcript(#[from] SessionError),
    /// A task ended unexpectedly.
    #[error("a task of the worker failed: {0}")]
    Task(String),
}

/// A question that the session waits for.
#[derive(Debug)]
struct Open {
    /// The request of the session.
    request: String,
    /// The question in the queue.
    ask: String,
    input: Value,
    since: Instant,
}

/// The times of an attempt.
#[derive(Debug)]
struct Clock {
    begun: Instant,
    renewed: Instant,
    saved: Instant,
    looked: Instant,
    /// When the worker was asked to end.
    stopping: Option<Instant>,
}

/// A running attempt.
pub(super) struct Attempt {
    fleet: Fleet,
    options: Arc<WorkerOptions>,
    claim: Claim,
    checkout: Checkout,
    transcript: Transcript,
    session: Session,
    controls: mpsc::UnboundedReceiver<Vec<u8>>,
    open: Vec<Open>,
    /// Answers from before a restart, which the repeated call is given.
    answers: Vec<Ask>,
    clock: Clock,
    cost: f64,
    stop: CancellationToken,
}

impl Attempt {
    /// Runs an attempt to its end.
    pub(super) async fn run(
        fleet: Fleet,
        options: Arc<WorkerOptions>,
        claim: Claim,
        stop: CancellationToken,
    ) -> Result<State, AttemptError> {
        if let Some(why) = refused(&claim, &options) {
            return Ok(fleet
                .finish(claim, End::Failed(why.to_owned()), 0.0)
                .await?);
        }
        let mut claim = claim;
        let checkout = match prepare(&fleet, &options, &mut claim).await {
            Ok(checkout) => checkout,
            Err(AttemptError::Checkout(error)) => {
                return Ok(fleet
                    .finish(claim, End::Failed(error.to_string()), 0.0)
                    .await?);
            }
            Err(error) => return Err(error),
        };
        let place = checkout.clone();
        let ended = match Self::begin(fleet, options, claim, checkout, stop).await {
            Ok(attempt) => attempt.follow().await,
            Err(error) => Err(error),
        };
        let removed = lathe_spawn::blocking(move || place.remove());
        removed
            .await
            .map_err(|error| AttemptError::Task(error.to_string()))?;
        ended
    }

    async fn begin(
        fleet: Fleet,
        options: Arc<WorkerOptions>,
        mut claim: Claim,
        checkout: Checkout,
        stop: CancellationToken,
    ) -> Result<Self, AttemptError> {
        let key = claim.key();
        let controls = fleet.controls(&key).await?;
        let saved = claim.entry.snapshot.as_ref().map_or(0, |it| it.log);
        let conversation = Conversation::of(&fleet.log(&key, 0).await?, saved);
        let id: SessionId = claim
            .entry
            .session
            .as_deref()
            .unwrap_or_default()
            .parse()
            .map_err(|_| QueueError::damaged(&key, "it has no session"))?;
        let path = place(&options.config_home, &checkout.folder, id);
        let continues = conversation
            .lines
            .iter()
            .any(|line| line.contains(r#""type":"user""#));
        let asks = fleet.asks(&key).await?;
        let (transcript, start, prompt) = if continues {
            let transcript = Transcript::write(path.clone(), &conversation)?;
            let prompt = continuation(&claim, &checkout, &conversation, &asks);
            (transcript, Start::Resume(path), prompt)
        } else {
            (
                Transcript::new(path),
                Start::New,
                claim.entry.job.prompt.clone(),
            )
        };
        let command = command(&claim, &options, &start);
        let mut session = Session::start(command, &checkout.folder).await?;
        session.prompt(&prompt).await?;
        if continues {
            let text = format!("continued in {}", checkout.folder.display());
            fleet.append(&mut claim, &LogRecord::Note { text }).await?;
        }
        let now = Instant::now();
        Ok(Self {
            fleet,
            options,
            claim,
            checkout,
            transcript,
            session,
            controls,
            open: Vec::new(),
            answers: asks
                .into_iter()
                .filter(|ask| ask.answer.is_some())
                .collect(),
            clock: Clock {
                begun: now,
                renewed: now,
                saved: now,
                looked: now,
                stopping: None,
            },
            cost: 0.0,
            stop,
        })
    }

    async fn follow(mut self) -> Result<State, AttemptError> {
        let ended = self.drive().await;
        let end = match ended {
            Ok(end) => end,
            // The session failed, not the queue.
            Err(AttemptError::Session(error)) => End::Failed(self.explain(&error.to_string())),
            Err(AttemptError::Checkout(error)) => End::Failed(error.to_string()),
            Err(error) => {
                self.session.kill();
                return Err(error);
            }
        };
        match self.settle(&end).await {
            Ok(result) => {
                let end = result.map_or(end, End::Done);
                let temporary = self.checkout.is_temporary();
                let state = self.fleet.finish(self.claim, end, self.cost).await?;
                if temporary {
                    self.transcript.remove();
                }
                Ok(state)
            }
            Err(AttemptError::Checkout(error)) => {
                let end = End::Failed(error.to_string());
                Ok(self.fleet.finish(self.claim, end, self.cost).await?)
            }
            Err(error) => {
                self.session.kill();
                Err(error)
            }
        }
    }

    /// Follows the session until the attempt is over.
    async fn drive(&mut self) -> Result<End, AttemptError> {
        let mut tick = tokio::time::interval(TICK);
        loop {
            let end = tokio::select! {
                frame = self.session.next() => match frame {
                    Some(frame) => self.frame(frame).await?,
                    None => Some(End::Failed(self.explain("the session ended without a result"))),
                },
                Some(message) = self.controls.recv() => self.control(&message).await?,
                _ = tick.tick() => self.tick().await?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    fn explain(&self, what: &str) -> String {
        match self.session.errors() {
            errors if errors.is_empty() => what.to_owned(),
            errors => format!("{what}: {errors}"),
        }
    }

    async fn frame(&mut self, frame: Value) -> Result<Option<End>, AttemptError> {
        let key = self.claim.key();
        let kind = frame["type"].as_str().unwrap_or_default();
        if matches!(kind, "assistant" | "user" | "result" | "system") {
            self.fleet
                .live(&key, frame.to_string().into_bytes())
                .await?;
        }
        match kind {
            "control_request" => self.request(&frame).await?,
            "control_cancel_request" => {
                let request = frame["request_id"].as_str().unwrap_or_default();
                self.open.retain(|open| open.request != request);
                self.renew().await?;
            }
            "result" => {
                self.cost = frame["total_cost_usd"].as_f64().unwrap_or_default();
                if frame["is_error"] == true {
                    return Ok(Some(End::Failed(failure(&frame))));
                }
                return Ok(Some(End::Done(Box::new(JobResult {
                    text: frame["result"].as_str().unwrap_or_default().to_owned(),
                    structured: frame
                        .get("structured_output")
                        .filter(|it| !it.is_null())
                        .cloned(),
                    base: self.checkout.base.clone(),
                    turns: frame["num_turns"].as_u64().unwrap_or_default(),
                    usage: serde_json::from_value(frame["modelUsage"].clone()).unwrap_or_default(),
                    ..JobResult::default()
                }))));
            }
            _ => {}
        }
        Ok(None)
    }

    /// A request of the session: a call is about to run, or needs permission.
    async fn request(&mut self, frame: &Value) -> Result<(), AttemptError> {
        let id = frame["request_id"].as_str().unwrap_or_default().to_owned();
        let request = &frame["request"];
        match request["subtype"].as_str() {
            Some("hook_callback") => {
                let input = &request["input"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                self.save_lines().await?;
                let call = LogRecord::Call {
                    id: text(&request["tool_use_id"]),
                    tool: text(&input["tool_name"]),
                    input: input["tool_input"].clone(),
                };
                self.fleet.append(&mut self.claim, &call).await?;
                self.session.reply(&id, &json!({})).await?;
            }
            Some("can_use_tool") => self.question(id, request).await?,
            _ => {
                self.session
                    .refuse(&id, "a job has nobody who could answer this")
                    .await?;
            }
        }
        Ok(())
    }

    async fn question(&mut self, id: String, request: &Value) -> Result<(), AttemptError> {
        let tool = request["tool_name"].as_str().unwrap_or_default();
        let input = &request["input"];
        let folder = self.checkout.folder.clone();
        let same = |ask: &Ask| ask.is_about(tool, input, &folder);
        if let Some(at) = self.answers.iter().position(same) {
            let ask = self.answers.remove(at);
            if let Some(answer) = &ask.answer {
                let response = response(answer, input);
                return Ok(self.session.reply(&id, &response).await?);
            }
        }
        let title = request["title"]
            .as_str()
            .map_or_else(|| format!("{tool} {input}"), str::to_owned);
        let ask = Ask {
            id: format!("{}-{}", self.claim.entry.epoch, self.claim.position()),
            tool: tool.to_owned(),
            input: input.clone(),
            title,
            folder,
            at: self.fleet.backend().now(),
            answer: None,
        };
        // The position in the log makes the name of the question unique.
        let text = format!("asks: {}", ask.title);
        self.fleet
            .append(&mut self.claim, &LogRecord::Note { text })
            .await?;
        self.fleet.ask(&self.claim, &ask).await?;
        self.open.push(Open {
            request: id,
            ask: ask.id,
            input: input.clone(),
            since: Instant::now(),
        });
        self.renew().await
    }

    async fn control(&mut self, message: &[u8]) -> Result<Option<End>, AttemptError> {
        match serde_json::from_slice(message) {
            Ok(Control::Cancel) => Ok(Some(End::Cancelled)),
            Ok(Control::Answered) => {
                self.take_answers().await?;
                Ok(None)
            }
            Ok(Control::Prompt { text }) => {
                self.session.prompt(&text).await?;
                Ok(None)
            }
            Err(error) => {
                tracing::warn!("a message to a job can't be read: {error}");
                Ok(None)
            }
        }
    }

    async fn take_answers(&mut self) -> Result<(), AttemptError> {
        self.clock.looked = Instant::now();
        for ask in self.fleet.asks(&self.claim.key()).await? {
            let at = self.open.iter().position(|open| open.ask == ask.id);
            if let (Some(at), Some(answer)) = (at, &ask.answer) {
                let open = self.open.remove(at);
                let verdict = if answer.allow { "allowed" } else { "denied" };
                let text = format!("{verdict} by {}: {}", answer.by, ask.title);
                self.fleet
                    .append(&mut self.claim, &LogRecord::Note { text })
                    .await?;
                let response = response(answer, &open.input);
                self.session.reply(&open.request, &response).await?;
                self.renew().await?;
            }
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<Option<End>, AttemptError> {
        let times = self.options.times;
        self.save_lines().await?;
        if self.clock.renewed.elapsed() >= times.lease / 4 {
            self.renew().await?;
        }
        if self.claim.entry.cancel {
            return Ok(Some(End::Cancelled));
        }
        if !self.open.is_empty() && self.clock.looked.elapsed() > LOOK_FOR_ANSWERS {
            self.take_answers().await?;
        }
        if self
            .open
            .iter()
            .any(|open| open.since.elapsed() >= times.park_after)
        {
            return Ok(Some(End::Parked));
        }
        if self.clock.saved.elapsed() >= times.snapshot {
            self.snapshot().await?;
        }
        let limit = self
            .claim
            .entry
            .job
            .limits
            .time_limit
            .map(Duration::from_secs);
        if limit.is_some_and(|limit| self.clock.begun.elapsed() >= limit) {
            return Ok(Some(End::Failed("the time limit is over".to_owned())));
        }
        if self.stop.is_cancelled() {
            let since = *self.clock.stopping.get_or_insert_with(Instant::now);
            if since.elapsed() >= times.grace {
                return Ok(Some(End::HandOver("its worker ended".to_owned())));
            }
        }
        Ok(None)
    }

    /// Extends the lease. A storage that can't be reached is an error only once the lease is over.
    async fn renew(&mut self) -> Result<(), AttemptError> {
        let state = if self.open.is_empty() {
            State::Running
        } else {
            State::Asking
        };
        match self.fleet.renew(&mut self.claim, state, None).await {
            Ok(()) => self.clock.renewed = Instant::now(),
            Err(QueueError::Server(why))
                if self.clock.renewed.elapsed() < self.options.times.lease =>
            {
                tracing::warn!("the lease could not be renewed: {why}");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Appends the new lines of the transcript, and of the files beside it, to the log.
    async fn save_lines(&mut self) -> Result<(), AttemptError> {
        for record in self.transcript.next() {
            self.fleet.append(&mut self.claim, &record).await?;
        }
        Ok(())
    }

    /// Runs slow work on a thread of its own, and renews the lease meanwhile.
    async fn alive<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AttemptError> {
        let mut work = lathe_spawn::blocking(work);
        loop {
            tokio::select! {
                done = &mut work => return done.map_err(|error| AttemptError::Task(error.to_string())),
                () = tokio::time::sleep(self.options.times.lease / 4) => self.renew().await?,
            }
        }
    }

    /// Saves the files. A state that can't be saved (a merge under way) is saved the next time.
    async fn snapshot(&mut self) -> Result<(), AttemptError> {
        self.clock.saved = Instant::now();
        self.save_lines().await?;
        let (log, at) = (self.claim.position(), self.fleet.backend().now());
        let checkout = self.checkout.clone();
        let packed = match self.alive(move || checkout.pack()).await? {
            Ok(Some(packed)) => packed,
            Ok(None) => return Ok(()),
            Err(error) => {
                let text = format!("the files could not be saved: {error}");
                return Ok(self
                    .fleet
                    .append(&mut self.claim, &LogRecord::Note { text })
                    .await?);
            }
        };
        let state = serde_json::to_value(&packed.state).map_err(CheckoutError::from)?;
        let blob = self.fleet.put_blob(packed.bundle).await?;
        let snapshot = SnapshotRef {
            blob,
            state,
            log,
            at,
        };
        let state = if self.open.is_empty() {
            State::Running
        } else {
            State::Asking
        };
        self.fleet
            .renew(&mut self.claim, state, Some(snapshot))
            .await?;
        self.clock.renewed = Instant::now();
        Ok(())
    }

    /// Ends the session, and saves what the state needs: blobs first, then the log.
    async fn settle(&mut self, end: &End) -> Result<Option<Box<JobResult>>, AttemptError> {
        match end {
            End::Done(_) => self.session.close().await,
            End::Parked | End::HandOver(_) | End::Cancelled | End::Failed(_) => {
                self.session.stop().await;
            }
        }
        self.save_lines().await?;
        match end {
            End::Parked | End::HandOver(_) => self.snapshot().await?,
            End::Done(result) => {
                let result = JobResult::clone(result);
                return self.result(result).await.map(|it| Some(Box::new(it)));
            }
            End::Failed(_) | End::Cancelled => {}
        }
        Ok(None)
    }

    async fn result(&mut self, mut result: JobResult) -> Result<JobResult, AttemptError> {
        let checkout = self.checkout.clone();
        let Changes { diff, bundle } = self.alive(move || checkout.changes()).await??;
        if let Some(diff) = diff {
            result.diff = Some(self.fleet.put_blob(diff).await?);
        }
        if let Some(bundle) = bundle {
            result.bundle = Some(self.fleet.put_blob(bundle).await?);
        }
        if let Ok(text) = std::fs::read(self.transcript.path()) {
            result.transcript = Some(self.fleet.put_blob(text).await?);
        }
        for (name, text) in self.transcript.files_beside() {
            result.beside.insert(name, self.fleet.put_blob(text).await?);
        }
        result.duration_ms =
            u64::try_from(self.clock.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(result)
    }
}

/// Why this worker does not run a job.
fn refused(claim: &Claim, options: &WorkerOptions) -> Option<&'static str> {
    let rules = &claim.entry.job.rules;
    if !rules.sandbox && !options.allowed.no_sandbox {
        return Some(
            "the job switches the sandbox off, and its worker does not allow that (--allow-no-sandbox)",
        );
    }
    let bypass = rules.permission_mode == Some(PermissionMode::BypassPermissions);
    if bypass && !options.allowed.bypass {
        return Some(
            "the job bypasses permissions, and its worker does not allow that (--allow-bypass)",
        );
    }
    None
}

/// Makes the files of a job, with its newest snapshot, while the lease is renewed.
async fn prepare(
    fleet: &Fleet,
    options: &WorkerOptions,
    claim: &mut Claim,
) -> Result<Checkout, AttemptError> {
    let bundle = match &claim.entry.snapshot {
        Some(snapshot) => Some((snapshot.clone(), fleet.blob(&snapshot.blob).await?)),
        None => None,
    };
    let (entry, work) = (claim.entry.clone(), options.work.clone());
    let mut work = lathe_spawn::blocking(move || {
        let mut checkout = Checkout::prepare(&entry, &work)?;
        if let Some((snapshot, bundle)) = bundle {
            checkout.restore(&snapshot, &bundle, &entry.job.id)?;
        }
        Ok::<_, CheckoutError>(checkout)
    });
    loop {
        tokio::select! {
            done = &mut work => {
                return Ok(done.map_err(|error| AttemptError::Task(error.to_string()))??);
            }
            () = tokio::time::sleep(options.times.lease / 4) => {
                fleet.renew(claim, State::Running, None).await?;
            }
        }
    }
}

/// The session as a command, with the secrets that the job names and no others.
fn command(claim: &Claim, options: &WorkerOptions, start: &Start) -> lathe_process::Command {
    let job = &claim.entry.job;
    let sandbox = if job.rules.sandbox { "1" } else { "0" };
    let secrets = &options.wanted.secrets;
    let named = &job.needs.secrets;
    lathe_process::Command::new(&options.program)
        .arguments(words(&claim.entry, start))
        .without_variables(|name| {
            secrets.iter().any(|it| it == name) && !named.iter().any(|it| it == name)
        })
        .variable("LATHE_SANDBOX", sandbox)
}

fn response(answer: &Answer, input: &Value) -> Value {
    if answer.allow {
        let input = answer.input.as_ref().unwrap_or(input);
        return json!({"behavior": "allow", "updatedInput": input});
    }
    let message = answer.message.as_deref().unwrap_or("The user denied it.");
    json!({"behavior": "deny", "message": message})
}

fn failure(frame: &Value) -> String {
    let errors = frame["errors"].as_array().into_iter().flatten();
    let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
    match (errors.as_slice(), frame["result"].as_str()) {
        ([], Some(text)) if !text.is_empty() => text.to_owned(),
        ([], _) => frame["subtype"]
            .as_str()
            .unwrap_or("the session failed")
            .to_owned(),
        (errors, _) => errors.join("; "),
    }
}

/// The prompt of a session that continues elsewhere: where it is, what may be missing, and answers that came meanwhile.
fn continuation(
    claim: &Claim,
    checkout: &Checkout,
    conversation: &Conversation,
    asks: &[Ask],
) -> String {
    let folder: &Path = &checkout.folder;
    let mut text = format!(
        "This job was interrupted and continues on a worker ({}). The working folder is {} now; earlier paths to it no longer \
         exist.",
        claim.entry.worker.as_deref().unwrap_or_default(),
        folder.display()
    );
    text.push_str(match &claim.entry.snapshot {
        Some(_) => " The files are as they were when they were last saved.",
        None if checkout.is_temporary() => {
            " The files are as at the start of the job: none had been saved."
        }
        None => "",
    });
    if !conversation.calls.is_empty() {
        text.push_str(
            " These calls began since then. Their changes to files may be missing, and effects elsewhere may have happened; \
             check before you repeat them:",
        );
        let skipped = conversation.calls.len().saturating_sub(LISTED_CALLS);
        for (tool, input) in conversation.calls.iter().skip(skipped) {
            let input: String = input.to_string().chars().take(300).collect();
            text.push_str(&format!("\n- {tool} {input}"));
        }
    }
    if let Some(ask) = asks.last()
        && let Some(answer) = &ask.answer
    {
        let verdict = if answer.allow { "allowed" } else { "denied" };
        text.push_str(&format!(
            "\nThe open question ({}) was answered: {verdict}.",
            ask.title
        ));
        if let Some(message) = &answer.message {
            text.push_str(&format!(" {message}"));
        }
        if answer.allow {
            text.push_str(" Make the same call again.");
        }
    }
    text.push_str("\nContinue with the task.");
    text
}
