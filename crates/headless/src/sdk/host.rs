//! The line to the host: frames out, answers in.
//!
//! Frames go through one writer in order. A question to the host is a future; dropping it withdraws the
//! question, and when the host is gone every open question fails.

use crate::output::Lines;
use futures::future::BoxFuture;
use lathe_hooks::CallbackHost;
use lathe_protocol::frame::control_request;
use lathe_protocol::hook::{HookInput, HookOutput};
use lathe_protocol::ids::RequestId;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::{Notify, oneshot};

/// What the host said to a question.
type Answer = Result<Value, String>;

/// The host. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` is the end.
    frames: mpsc::Sender<Option<Value>>,
    open: Mutex<Questions>,
    backlog: Arc<Backlog>,
}

/// Frames that are not written yet.
#[derive(Default)]
struct Backlog {
    count: AtomicUsize,
    drained: Notify,
}

/// How many frames may wait before the session is held back.
const HIGH_WATER: usize = 256;

#[derive(Default)]
struct Questions {
    waiting: HashMap<RequestId, oneshot::Sender<Answer>>,
    closed: bool,
}

/// Writes frames until [`Host::finish`], or until the last [`Host`] is gone.
pub struct FrameWriter {
    thread: Option<JoinHandle<()>>,
}

impl FrameWriter {
    /// Waits until everything is written.
    pub fn finish(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Host {
    /// A host that reads what is written to `output`. Writing has its own thread: a host that reads
    /// slowly must not stop the session from hearing it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(output: impl Write + Send + 'static) -> std::io::Result<(Self, FrameWriter)> {
        let (frames, receiver) = mpsc::channel::<Option<Value>>();
        let backlog = Arc::new(Backlog::default());
        let written = backlog.clone();
        let thread = std::thread::Builder::new()
            .name("frames".to_owned())
            .spawn(move || {
                let mut lines = Lines::new(output);
                while let Ok(Some(frame)) = receiver.recv() {
                    lines.json(&frame);
                    written.count.fetch_sub(1, Ordering::Relaxed);
                    written.drained.notify_waiters();
                }
            })?;
        let inner = Inner {
            frames,
            open: Mutex::default(),
            backlog,
        };
        Ok((
            Self {
                inner: Arc::new(inner),
            },
            FrameWriter {
                thread: Some(thread),
            },
        ))
    }

    /// Sends a frame.
    pub fn send(&self, frame: Value) {
        // A writer that is gone has nobody left to write to.
        self.inner.backlog.count.fetch_add(1, Ordering::Relaxed);
        let _ = self.inner.frames.send(Some(frame));
    }

    /// Waits until the host has read most of what was sent. Whoever waits for this before taking more
    /// from the session holds the model back instead of filling the memory.
    pub async fn room(&self) {
        let backlog = &self.inner.backlog;
        loop {
            let drained = backlog.drained.notified();
            tokio::pin!(drained);
            // Listening begins before the look, so that nothing is missed in between.
            drained.as_mut().enable();
            if backlog.count.load(Ordering::Relaxed) <= HIGH_WATER {
                return;
            }
            drained.await;
        }
    }

    /// Nothing more is written after what was sent so far.
    pub fn finish(&self) {
        let _ = self.inner.frames.send(None);
    }

    /// Asks the host under an id of our own choice.
    pub async fn ask(&self, id: RequestId, request: Value) -> Answer {
        let (sender, receiver) = oneshot::channel();
        {
            let mut open = self.inner.open.lock();
            if open.closed {
                return Err("Stream closed".to_owned());
            }
            open.waiting.insert(id.clone(), sender);
        }
        let withdrawal = Withdrawal {
            host: self,
            id: &id,
        };
        self.send(control_request(&id, request));
        let answer = receiver
            .await
            .unwrap_or_else(|_| Err("Stream closed".to_owned()));
        drop(withdrawal);
        answer
    }

    /// The host's answer. One to a question that nobody waits for is ignored.
    pub fn answered(&self, id: &RequestId, answer: Answer) {
        let sender = self.inner.open.lock().waiting.remove(id);
        if let Some(sender) = sender {
            let _ = sender.send(answer);
        }
    }

    /// The host says nothing more: open questions fail, and so do later ones.
    pub fn close(&self) {
        let mut open = self.inner.open.lock();
        open.closed = true;
        open.waiting.clear();
    }
}

/// Withdraws a question that was dropped before its answer came.
struct Withdrawal<'a> {
    host: &'a Host,
    id: &'a RequestId,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let unanswered = self
            .host
            .inner
            .open
            .lock()
            .waiting
            .remove(self.id)
            .is_some();
        if unanswered {
            self.host
                .send(json!({"type": "control_cancel_request", "request_id": self.id}));
        }
    }
}

impl CallbackHost for Host {
    fn call<'a>(
        &'a self,
        callback_id: &'a str,
        input: &'a HookInput,
        tool_use_id: Option<&'a str>,
    ) -> BoxFuture<'a, Result<HookOutput, String>> {
        Box::pin(async move {
            let request = json!({
                "subtype": "hook_callback", "callback_id": callback_id, "input": input,
                "tool_use_id": tool_use_id,
            });
            let answer = self.ask(RequestId::random(), request).await?;
            serde_json::from_value(answer)
                .map_err(|error| format!("the hook's answer doesn't fit: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(buffer: &Buffer) -> Vec<Value> {
        let bytes = buffer.0.lock();
        let text = std::str::from_utf8(&bytes).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn a_question_is_answered_once_and_a_dropped_one_is_withdrawn() {
        let buffer = Buffer::default();
        let (host, writer) = Host::start(buffer.clone()).unwrap();
        let asking = tokio::spawn({
            let host = host.clone();
            async move { host.ask("a".into(), json!({"subtype": "x"})).await }
        });
        while host.inner.open.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        host.answered(&"unknown".into(), Ok(json!(1)));
        host.answered(&"a".into(), Ok(json!(2)));
        host.answered(&"a".into(), Ok(json!(3)));
        assert_eq!(asking.await.unwrap(), Ok(json!(2)));

        let dropped = host.ask("b".into(), json!({}));
        assert!(
            tokio::time::timeout(std::time::Duration::from_millis(1), dropped)
                .await
                .is_err()
        );
        drop(host);
        writer.finish();
        let frames = lines(&buffer);
        assert_eq!(frames.len(), 3);
        assert_eq!(
            frames[2],
            json!({"type": "control_cancel_request", "request_id": "b"})
        );
    }

    #[tokio::test]
    async fn when_the_host_is_gone_questions_fail() {
        let (host, _writer) = Host::start(io::sink()).unwrap();
        let asking = tokio::spawn({
            let host = host.clone();
            async move { host.ask("a".into(), json!({})).await }
        });
        while host.inner.open.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        host.close();
        assert_eq!(asking.await.unwrap(), Err("Stream closed".to_owned()));
        assert_eq!(
            host.ask("b".into(), json!({})).await,
            Err("Stream closed".to_owned())
        );
    }
}
