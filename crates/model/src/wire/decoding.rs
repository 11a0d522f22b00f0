//! From the bytes of a response to events, whatever the server thinks a stream is.

use super::Connection;
use super::emit::Emitter;
use crate::anthropic::gather::Gathering;
use crate::anthropic::transport;
use crate::error::ModelError;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use lathe_net::sse::SseDecoder;
use lathe_protocol::stream::StreamPiece;
use reqwest::Response;
use std::sync::Arc;
use url::Url;

/// The most of a whole response that is read.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// How much of something that isn't the API is looked at.
const LOOKED_AT: usize = 512;

/// Why a piece of a response can't be used.
pub(crate) enum Unusable {
    /// It isn't what it should be.
    Malformed(String),
    /// It reports trouble.
    Trouble(ModelError),
}

impl From<serde_json::Error> for Unusable {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(format!("an event can't be read: {error}"))
    }
}

/// A reader of one response.
pub(crate) trait Decode: Send + Sync {
    /// Takes the data of one event of a stream.
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Emitter) -> Result<(), Unusable>;

    /// Takes a whole response.
    fn whole(&mut self, body: &[u8], out: &mut Emitter) -> Result<(), Unusable>;

    /// The stream is over. What is missing is an error.
    fn end(&mut self, out: &mut Emitter) -> Result<(), Unusable>;

    /// Whether the response said that it is complete, so that nothing is missing even if its last line was cut.
    fn is_complete(&self) -> bool {
        true
    }

    /// The kind of answer to ask for.
    fn accepts(&self) -> &'static str {
        "text/event-stream"
    }

    /// Takes bytes that aren't server-sent events; `None` where they are.
    fn frames(&mut self, _bytes: &[u8], _out: &mut Emitter) -> Option<Result<(), Unusable>> {
        None
    }
}

/// The inputs of decoding a response.
pub(crate) struct Source {
    pub(crate) response: Response,
    pub(crate) url: Url,
    pub(crate) model: String,
    /// The same number for repetitions of the same request.
    pub(crate) request: u64,
    pub(crate) connection: Arc<Connection>,
    pub(crate) decoder: Box<dyn Decode>,
}

/// The kind of response.
enum Shape {
    /// Nothing came yet.
    Unknown(Vec<u8>),
    /// Server-sent events.
    Events,
    /// One JSON document, so far.
    Whole(Vec<u8>),
    /// Something else.
    Foreign(Vec<u8>),
}

struct Decoding {
    chunks: Gathering<BoxStream<'static, reqwest::Result<Bytes>>>,
    sse: SseDecoder,
    shape: Shape,
    decoder: Box<dyn Decode>,
    emitter: Emitter,
    connection: Arc<Connection>,
    url: Url,
    model: String,
    request: u64,
    finished: bool,
}

/// The events of a response.
pub(crate) fn decoded(source: Source) -> BoxStream<'static, Result<StreamPiece, ModelError>> {
    let emitter = Emitter::new(&source.model);
    let decoding = Decoding {
        chunks: Gathering::new(source.response.bytes_stream().boxed()),
        sse: SseDecoder::default(),
        shape: Shape::Unknown(Vec::new()),
        decoder: source.decoder,
        emitter,
        connection: source.connection,
        url: source.url,
        model: source.model,
        request: source.request,
        finished: false,
    };
    stream::unfold(decoding, |mut decoding| async move {
        decoding.next().await.map(|item| (item, decoding))
    })
    .boxed()
}

impl Decoding {
    async fn next(&mut self) -> Option<Result<StreamPiece, ModelError>> {
        loop {
            if let Some(piece) = self.emitter.pop() {
                return Some(Ok(piece));
            }
            if self.finished || self.emitter.is_ended() {
                return None;
            }
            let outcome = match self.chunks.next().await {
                Some(Ok(chunk)) => self.take(&chunk),
                Some(Err(error)) => {
                    self.finished = true;
                    let message = transport::innermost(&error);
                    return Some(Err(self.told(ModelError::Truncated { message })));
                }
                None => {
                    self.finished = true;
                    self.finish()
                }
            };
            let outcome = outcome.and_then(|()| self.judge_empty());
            if let Err(unusable) = outcome {
                self.finished = true;
                // What was understood before the trouble has been given out; a retry withdraws it.
                let error = match unusable {
                    Unusable::Trouble(error) => error,
                    Unusable::Malformed(message) => ModelError::Protocol {
                        url: transport::shown(&self.url),
                        message,
                    },
                };
                return Some(Err(self.told(error)));
            }
        }
    }

    /// An answer without a word and without a call is asked for again, once.
    fn judge_empty(&self) -> Result<(), Unusable> {
        if self.emitter.ended_empty() && self.connection.is_first_empty(self.request) {
            return Err(Unusable::Trouble(ModelError::Truncated {
                message: "the answer is empty".to_owned(),
            }));
        }
        Ok(())
    }

    fn told(&self, error: ModelError) -> ModelError {
        self.connection.told(error, &self.model, &self.url)
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Unusable> {
        if let Some(outcome) = self.decoder.frames(chunk, &mut self.emitter) {
            return outcome;
        }
        match &mut self.shape {
            Shape::Unknown(held) => {
                held.extend_from_slice(chunk);
                let text = held.strip_prefix(b"\xef\xbb\xbf").unwrap_or(held);
                let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
                let Some(first) = first.copied() else {
                    return Ok(());
                };
                let held = std::mem::take(held);
                self.shape = match first {
                    b'{' | b'[' => Shape::Whole(held),
                    b'<' => Shape::Foreign(held),
                    _ => {
                        self.sse.push(&held);
                        self.shape = Shape::Events;
                        return self.drain();
                    }
                };
                Ok(())
            }
            Shape::Events => {
                self.sse.push(chunk);
                self.drain()
            }
            Shape::Whole(held) => {
                if held.len() + chunk.len() > MAX_RESPONSE_BYTES {
                    let message = format!("the answer is larger than {MAX_RESPONSE_BYTES} bytes");
                    return Err(Unusable::Malformed(message));
                }
                held.extend_from_slice(chunk);
                Ok(())
            }
            Shape::Foreign(held) => {
                if held.len() < LOOKED_AT {
                    held.extend_from_slice(chunk);
                }
                Ok(())
            }
        }
    }

    fn drain(&mut self) -> Result<(), Unusable> {
        loop {
            let event = self
                .sse
                .next_event()
                .map_err(|error| Unusable::Malformed(error.to_string()))?;
            let Some(event) = event else {
                return Ok(());
            };
            if let Some(data) = event.data {
                self.decoder.event(&event.name, &data, &mut self.emitter)?;
            }
        }
    }

    fn finish(&mut self) -> Result<(), Unusable> {
        match std::mem::replace(&mut self.shape, Shape::Events) {
            Shape::Whole(body) => {
                self.decoder.whole(&body, &mut self.emitter)?;
            }
            Shape::Foreign(body) => {
                let text = String::from_utf8_lossy(&body);
                let words: Vec<&str> = text.split_whitespace().take(12).collect();
                return Err(Unusable::Malformed(format!(
                    "it sent a page instead of the API's answer ({})",
                    words.join(" ")
                )));
            }
            Shape::Events | Shape::Unknown(_) => {
                let mut cut = self.sse.is_within_line();
                let rest = self.sse.finish().and_then(|event| event.data);
                if let Some(data) = rest.filter(|data| !data.trim_ascii().is_empty()) {
                    // An event that the end of the stream cut off is no event.
                    cut = match self.decoder.event(b"", &data, &mut self.emitter) {
                        Ok(()) => false,
                        Err(Unusable::Malformed(_)) => true,
                        Err(trouble) => return Err(trouble),
                    };
                }
                if cut && !self.decoder.is_complete() {
                    return Err(broken());
                }
            }
        }
        if self.emitter.is_ended() {
            return Ok(());
        }
        self.decoder.end(&mut self.emitter)
    }
}

/// The end of a response that never said that it was complete.
pub(crate) fn broken() -> Unusable {
    Unusable::Trouble(ModelError::Truncated {
        message: "the end of the message is missing".to_owned(),
    })
}
