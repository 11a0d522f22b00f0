//! The seam between Lathe and a model API.

use crate::error::ModelError;
use crate::request::ModelRequest;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream};
use lathe_protocol::stream::StreamPiece;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Whether the response comes piece by piece or all at once. Both give the same events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transfer {
    /// Piece by piece.
    #[default]
    Streaming,
    /// All at once: for networks that break long streams.
    Whole,
}

/// An accepted request's response.
pub struct ResponseStream {
    /// The provider's id of the request, for support.
    pub request_id: Option<String>,
    /// The events. An error is the last item; so is the message's end.
    pub events: BoxStream<'static, Result<StreamPiece, ModelError>>,
}

impl Stream for ResponseStream {
    type Item = Result<StreamPiece, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.as_mut().poll_next(context)
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

/// A model API. One call is one attempt: trying again is [`crate::recovery`]'s work.
///
/// Dropping a future or a stream that a provider gave out closes the connection it uses.
pub trait Provider: Send + Sync {
    /// A short name for logs and `/status`.
    fn name(&self) -> &str;

    /// Sends the request and waits until the provider accepts or refuses it.
    fn stream(
        &self,
        request: &ModelRequest,
        transfer: Transfer,
    ) -> BoxFuture<'static, Result<ResponseStream, ModelError>>;

    /// How many tokens the request's input is, by the provider's own count.
    fn count_tokens(&self, request: &ModelRequest) -> BoxFuture<'static, Result<u64, ModelError>>;

    /// Fetches fresh credentials after the refusal of a request. `Ok(false)`: there is nothing to refresh, and
    /// asking again would be refused again.
    fn refresh_credentials(
        &self,
        _request: &ModelRequest,
    ) -> BoxFuture<'static, Result<bool, ModelError>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Asks the server of a model for what nobody declared: the window in use, and what the model can do. A server is
    /// asked once for each model. Gives notices for the user.
    fn learn(&self, _model: &str) -> BoxFuture<'static, Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Notices about how requests were sent, each once.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}
