//! Calls as text, for models without native tool calling.
//!
//! The tools are described in the system prompt, the model writes its calls in tags, and results come back as text of
//! the user; the conversation itself keeps real calls and results. `prompt` rewrites requests, `parse` finds calls in
//! words, `read` rewrites the events of a response. Models that can call tools, but wrote a call as text all the same,
//! are understood too: an answer that is nothing but a call is one.

pub(crate) mod grammar;
pub(crate) mod parse;
pub(crate) mod prompt;
pub(crate) mod read;

use crate::provider::ResponseStream;
use futures::stream::{self, StreamExt as _};
use parse::Offered;
use read::Reader;
use std::sync::Arc;

/// How calls in words are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Calls are words, among other words.
    Prompted,
    /// Only an answer that is nothing else is a call.
    Only,
}

/// How calls are made.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// Tools, calls and results are words.
    pub(crate) in_words: bool,
    /// The server holds those words to a grammar.
    pub(crate) grammar: bool,
    /// The server may leave a real call in the words.
    pub(crate) may_be_text: bool,
}

/// A response with the calls in its words turned into real ones.
pub(crate) fn rewritten(
    response: ResponseStream,
    offered: Arc<Offered>,
    mode: Mode,
) -> ResponseStream {
    let reader = Reader::new(offered, mode);
    let events = stream::unfold(
        (response.events, reader, false),
        |(mut events, mut reader, mut over)| async move {
            loop {
                if let Some(piece) = reader.pop() {
                    return Some((Ok(piece), (events, reader, over)));
                }
                if over {
                    return None;
                }
                match events.next().await {
                    Some(Ok(piece)) => reader.take(piece),
                    Some(Err(error)) => return Some((Err(error), (events, reader, true))),
                    None => {
                        over = true;
                        reader.finish();
                    }
                }
            }
        },
    );
    ResponseStream {
        request_id: response.request_id,
        events: events.boxed(),
    }
}
