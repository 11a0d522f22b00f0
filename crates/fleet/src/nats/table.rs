//! A stream as a table: the newest message of a subject is the value of a key.

use super::{PULL, failed};
use crate::error::QueueError;
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures::StreamExt as _;

/// Error codes of the server: another message came first.
const WRONG_LAST: &str = "wrong last sequence";
/// The message of the server when a subject has as many messages as it may.
const FULL: &str = "maximum messages per subject exceeded";

/// The newest value of a key.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) bytes: Vec<u8>,
    pub(super) revision: u64,
    /// The server's time of writing, in milliseconds.
    pub(super) time: i64,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    context: Context,
    stream: Stream,
    /// The beginning of its subjects, with the dot.
    subjects: String,
}

impl Table {
    pub(super) fn new(context: &Context, stream: Stream, subjects: String) -> Self {
        Self {
            context: context.clone(),
            stream,
            subjects,
        }
    }

    /// The stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The newest value, from the leader.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Value>, QueueError> {
        let subject = format!("{}{key}", self.subjects);
        match self.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(found) => Ok(Some(Value {
                bytes: found.payload.to_vec(),
                revision: found.sequence,
                time: milliseconds(found.time),
            })),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes a value. With a revision, only if the newest one is still that; 0 if there must be none.
    pub(super) async fn put(
        &self,
        key: &str,
        bytes: Vec<u8>,
        revision: Option<u64>,
    ) -> Result<u64, QueueError> {
        let mut headers = HeaderMap::new();
        if let Some(revision) = revision {
            headers.insert(
                async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
                revision.to_string(),
            );
        }
        let subject = format!("{}{key}", self.subjects);
        let sent = self
            .context
            .publish_with_headers(subject, headers, bytes.into())
            .await
            .map_err(failed)?;
        match sent.await {
            Ok(ack) => Ok(ack.sequence),
            Err(error)
                if error.kind() == PublishErrorKind::WrongLastSequence
                    || error.to_string().contains(WRONG_LAST) =>
            {
                Err(QueueError::Conflict)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The messages of a key after a sequence.
    pub(super) async fn history(
        &self,
        key: &str,
        after: u64,
    ) -> Result<Vec<(u64, Vec<u8>)>, QueueError> {
        let subject = format!("{}{key}", self.subjects);
        let mut found = Vec::new();
        let mut next = after + 1;
        loop {
            let message = self
                .stream
                .raw_message_builder()
                .sequence(next)
                .next_by_subject(subject.clone())
                .send()
                .await;
            match message {
                Ok(message) => {
                    next = message.sequence + 1;
                    found.push((message.sequence, message.payload.to_vec()));
                }
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                    return Ok(found);
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The keys that begin with a text that ends with a dot, or all.
    pub(super) async fn keys(&self, start: &str) -> Result<Vec<String>, QueueError> {
        let filter = format!("{}{start}>", self.subjects);
        let mut subjects = self
            .stream
            .info_with_subjects(filter)
            .await
            .map_err(failed)?;
        let mut keys = Vec::new();
        while let Some(subject) = subjects.next().await {
            let (subject, _) = subject.map_err(failed)?;
            keys.extend(subject.strip_prefix(&self.subjects).map(str::to_owned));
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

pub(super) fn milliseconds(time: async_nats::datetime::DateTime) -> i64 {
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Publishes a message to a queue that holds one of its subject at most.
pub(super) async fn publish_unless_there(
    context: &Context,
    subject: String,
    bytes: Vec<u8>,
) -> Result<(), QueueError> {
    let sent = context
        .publish(subject, bytes.into())
        .await
        .map_err(failed)?;
    match tokio::time::timeout(PULL * 20, sent.into_future()).await {
        Err(_) => Err(failed("a job was not acknowledged in time")),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if describe(&error).contains(FULL) => Ok(()),
        Ok(Err(error)) => Err(failed(describe(&error))),
    }
}

/// An error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
