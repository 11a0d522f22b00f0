//! Server-sent events of a response, in the form that the MCP library takes.

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use lathe_net::sse::{SseDecoder, SseEvent};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

fn from_decoder(event: SseEvent) -> Sse {
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    Sse {
        event: (!event.name.is_empty()).then(|| text(event.name)),
        data: event.data.map(text),
        id: event.id.map(text),
        retry: event.retry,
    }
}

/// The events of a response.
pub(crate) fn events(
    response: reqwest::Response,
    limit: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let decoder = SseDecoder::with_limit(limit);
    let state = (response.bytes_stream().boxed(), decoder, false);
    futures::stream::unfold(state, |(mut bytes, mut decoder, over)| async move {
        if over {
            return None;
        }
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => return Some((Ok(from_decoder(event)), (bytes, decoder, over))),
                Ok(None) => {}
                Err(error) => {
                    let error = SseError::Body(Box::new(error));
                    return Some((Err(error), (bytes, decoder, true)));
                }
            }
            match bytes.next().await {
                None => return None,
                Some(Err(error)) => {
                    let error = SseError::Body(Box::new(error.without_url()));
                    return Some((Err(error), (bytes, decoder, true)));
                }
                Some(Ok(chunk)) => decoder.push(&chunk),
            }
        }
    })
    .boxed()
}
