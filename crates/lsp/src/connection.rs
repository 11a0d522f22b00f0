//! Questions and answers over a server's standard input and output.
//!
//! A request has an id, a time limit and a waiter; when nobody waits any more it is cancelled at the server
//! (`$/cancelRequest`). What the server asks or tells goes to a [`Receiver`]. Whatever the server does, every
//! question gets an end: when the process is gone, all that wait are told how it went.

use crate::error::LspError;
use crate::framing::{self, Frame};
use crate::limits::WAITING_MESSAGES;
use crate::process::{Process, describe};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The error's number for a method that isn't known.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Handles messages that a server sends by itself. Called on the reading task, so it must not block.
pub(crate) trait Receiver: Send + Sync + 'static {
    /// It tells something.
    fn notified(&self, method: &str, params: Value);
    /// It asks something.
    ///
    /// # Errors
    /// The number and the text of the error that it gets.
    fn asked(&self, method: &str, params: Value) -> Result<Value, (i64, String)>;
}

type Reply = Result<Value, (i64, String)>;

/// A connection to a running server. When the last hold on it is gone, so is the server.
pub(crate) struct Connection {
    name: String,
    lines: Arc<Lines>,
    next: AtomicI64,
    /// Cancelled when nothing more can be asked.
    over: CancellationToken,
    /// Cancelled when we want no more of it.
    leave: CancellationToken,
    /// Cancelled when it gets no time to end by itself.
    hurry: CancellationToken,
    /// Cancelled when the process is gone.
    gone: CancellationToken,
}

/// State shared by the tasks of a connection.
struct Lines {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Mutex<HashMap<i64, oneshot::Sender<Reply>>>,
    /// How it ended, once it has.
    ending: Mutex<Option<String>>,
}

/// Why a message can't be sent.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("it has stopped reading")]
    Full,
    #[error("its input is closed")]
    Closed,
}

impl Lines {
    /// Queues a message for the writer. Fails at once if the server doesn't read.
    fn send(&self, message: &Value) -> Result<(), SendError> {
        let bytes = framing::frame(message.to_string().as_bytes());
        self.outgoing.try_send(bytes).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Closed,
        })
    }

    fn because(&self, reason: String) {
        self.ending.lock().get_or_insert(reason);
    }
}

impl Connection {
    /// Connects to a process that was just started.
    pub(crate) fn new(
        name: &str,
        process: Process,
        receiver: Arc<dyn Receiver>,
        farewell: Duration,
    ) -> Self {
        let (outgoing, waiting) = mpsc::channel(WAITING_MESSAGES);
        let lines = Arc::new(Lines {
            outgoing,
            waiting: Mutex::default(),
            ending: Mutex::default(),
        });
        let token = CancellationToken::new;
        let (over, leave, hurry, gone) = (token(), token(), token(), token());
        let Process {
            mut running,
            stdin,
            stdout,
            words,
            errors,
        } = process;
        let mut writing = lathe_spawn::task(write(stdin, waiting, leave.clone()));
        let reading = lathe_spawn::task(read(stdout, lines.clone(), receiver));
        let tokens = (over.clone(), leave.clone(), hurry.clone(), gone.clone());
        let shared = lines.clone();
        lathe_spawn::task(async move {
            let (over, leave, hurry, gone) = tokens;
            let mut reading = reading;
            let status = tokio::select! {
                status = running.wait() => {
                    // What it wrote before it ended is still read.
                    let _ = tokio::time::timeout(farewell, &mut reading).await;
                    Some(status)
                }
                _ = &mut reading => None,
                () = leave.cancelled() => None,
            };
            over.cancel();
            let status = match status {
                Some(status) => status,
                None => {
                    // What waits to be written is written, its input is closed, and it gets a moment to
                    // end by itself.
                    leave.cancel();
                    let goes = async {
                        let _ = (&mut writing).await;
                        running.wait().await
                    };
                    let ended = tokio::select! {
                        status = goes => Some(status),
                        () = tokio::time::sleep(farewell) => None,
                        () = hurry.cancelled() => None,
                    };
                    match ended {
                        Some(status) => status,
                        None => {
                            running.kill();
                            running.wait().await
                        }
                    }
                }
            };
            writing.abort();
            running.kill();
            let _ = tokio::time::timeout(Duration::from_millis(500), errors).await;
            reading.abort();
            let mut reason = describe(status);
            if let Some(line) = words.line() {
                reason = format!("{reason}; last line of its output: {line}");
            }
            shared.because(reason);
            shared.waiting.lock().clear();
            drop(running);
            gone.cancel();
        });
        Self {
            name: name.to_owned(),
            lines,
            next: AtomicI64::new(1),
            over,
            leave,
            hurry,
            gone,
        }
    }

    /// Whether nothing more can be asked.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// How it ended; waits until that is known.
    pub(crate) async fn ending(&self) -> LspError {
        self.gone.cancelled().await;
        let reason = self.lines.ending.lock().clone();
        LspError::Ended {
            name: self.name.clone(),
            reason: reason.unwrap_or_else(|| "it ended".to_owned()),
        }
    }

    /// Tells the server something. What can't be told is found out by the next question.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Err(error) = self.lines.send(&message) {
            self.give_up(error.to_string());
        }
    }

    /// Asks the server something.
    ///
    /// # Errors
    /// When it refuses, takes too long or ends, or nobody waits any more.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Value, LspError> {
        if self.is_over() {
            return Err(self.ending().await);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.lines.waiting.lock().insert(id, sender);
        // Whatever happens from here on, the question doesn't stay behind.
        let mut question = Question {
            lines: &self.lines,
            id,
            open: true,
        };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if let Err(error) = self.lines.send(&message) {
            question.open = false;
            self.give_up(error.to_string());
            return Err(self.ending().await);
        }
        let answer = tokio::select! {
            answer = answer => answer,
            () = self.over.cancelled() => {
                question.open = false;
                return Err(self.ending().await);
            }
            () = cancel.cancelled() => return Err(LspError::Cancelled),
            () = tokio::time::sleep(limit) => {
                return Err(LspError::TimedOut {
                    name: self.name.clone(),
                    method: method.to_owned(),
                    limit,
                });
            }
        };
        question.open = false;
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err((code, message))) => Err(LspError::Refused {
                name: self.name.clone(),
                method: method.to_owned(),
                code,
                message: message.chars().take(500).collect(),
            }),
            Err(_) => Err(self.ending().await),
        }
    }

    /// Ends the server the polite way, then any way.
    pub(crate) async fn close(&self, limit: Duration) {
        if !self.is_over() {
            let nobody = CancellationToken::new();
            let _ = self.request("shutdown", Value::Null, limit, &nobody).await;
            self.notify("exit", &Value::Null);
        }
        self.leave.cancel();
        self.gone.cancelled().await;
    }

    /// Wants no more of a server that misbehaves.
    pub(crate) fn give_up(&self, reason: String) {
        self.lines.because(reason);
        self.over.cancel();
        self.leave.cancel();
    }
}

impl Connection {
    /// Ends the server at once, and waits until it is gone.
    pub(crate) async fn kill(&self) {
        self.over.cancel();
        self.leave.cancel();
        self.hurry.cancel();
        self.gone.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave.cancel();
    }
}

/// A question that somebody waits for.
struct Question<'a> {
    lines: &'a Lines,
    id: i64,
    open: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.lines.waiting.lock().remove(&self.id);
        if self.open {
            let params = json!({"id": self.id});
            let _ = self
                .lines
                .send(&json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params}));
        }
    }
}

async fn write(
    mut stdin: ChildStdin,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    leave: CancellationToken,
) {
    loop {
        let bytes = tokio::select! {
            biased;
            bytes = waiting.recv() => bytes,
            () = leave.cancelled() => None,
        };
        let Some(bytes) = bytes else {
            return;
        };
        let sent = async {
            stdin.write_all(&bytes).await?;
            stdin.flush().await
        };
        if sent.await.is_err() {
            return;
        }
    }
}

async fn read(stdout: ChildStdout, lines: Arc<Lines>, receiver: Arc<dyn Receiver>) {
    let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
    loop {
        match framing::read(&mut stdout).await {
            Ok(Some(Frame::Message(bytes))) => {
                let Ok(message) = serde_json::from_slice::<Value>(&bytes) else {
                    tracing::debug!("a language server sent a message that is no JSON");
                    continue;
                };
                match message {
                    Value::Array(batch) => {
                        for message in batch {
                            receive(message, &lines, receiver.as_ref());
                        }
                    }
                    message => receive(message, &lines, receiver.as_ref()),
                }
            }
            Ok(Some(Frame::TooLong(length))) => {
                tracing::warn!(length, "a language server's message is too long");
            }
            Ok(None) => return,
            Err(error) => {
                lines.because(error.to_string());
                return;
            }
        }
        // A server that floods mustn't keep everybody else from their turn.
        tokio::task::yield_now().await;
    }
}

fn receive(mut message: Value, lines: &Lines, receiver: &dyn Receiver) {
    let Some(map) = message.as_object_mut() else {
        return;
    };
    let id = map.remove("id").filter(|id| !id.is_null());
    let method = match map.remove("method") {
        Some(Value::String(method)) => Some(method),
        _ => None,
    };
    match (method, id) {
        (Some(method), Some(id)) => {
            let params = map.remove("params").unwrap_or_default();
            let reply = match receiver.asked(&method, params) {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err((code, message)) => json!({
                    "jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message},
                }),
            };
            if let Err(error) = lines.send(&reply) {
                tracing::debug!(%error, "a reply to a language server can't be sent");
            }
        }
        (Some(method), None) => {
            receiver.notified(&method, map.remove("params").unwrap_or_default());
        }
        (None, Some(id)) => {
            // Some servers send the number back as text.
            let number = id
                .as_i64()
                .or_else(|| id.as_str().and_then(|text| text.parse().ok()));
            let waiting = number.and_then(|number| lines.waiting.lock().remove(&number));
            let Some(waiting) = waiting else {
                tracing::debug!(%id, "a language server answered an unknown request");
                return;
            };
            let answer = match map.remove("error").filter(|error| !error.is_null()) {
                Some(error) => {
                    let text = error.get("message").and_then(Value::as_str);
                    Err((
                        error.get("code").and_then(Value::as_i64).unwrap_or(0),
                        text.unwrap_or("it gives no reason").to_owned(),
                    ))
                }
                None => Ok(map.remove("result").unwrap_or_default()),
            };
            let _ = waiting.send(answer);
        }
        (None, None) => tracing::debug!("a language server sent a message without a meaning"),
    }
}
