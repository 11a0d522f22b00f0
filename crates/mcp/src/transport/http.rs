//! Streamable HTTP: the requests of the SDK's transport.
//!
//! The SDK manages sessions, streams and their resumption. This module makes the requests: with the
//! configured headers, with a token if there is one (a refused token is refreshed once), with
//! limits on answers, and with 401 and 403 distinguished, because they start an authorisation.

use super::stream::events;
use crate::auth::Access;
use crate::limits::{AUTH_BYTES, MESSAGE_BYTES};
use crate::net;
use crate::text;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

const BOTH: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";

#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(crate) struct HttpError {
    text: String,
    /// No connection was made, so the server can't have received the request.
    pub(crate) unsent: bool,
    /// The status of a failed answer.
    pub(crate) status: Option<StatusCode>,
}

impl HttpError {
    fn said(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            unsent: false,
            status: None,
        }
    }
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        Self {
            text: net::innermost(&error),
            unsent: error.is_connect(),
            status: None,
        }
    }
}

type Failure = StreamableHttpError<HttpError>;

/// The state of the stream on which a server with sessions sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnStream {
    /// There is no session, so none will be opened.
    Absent,
    /// It is about to be opened.
    Expected,
    /// The server has answered.
    Answered,
}

/// The HTTP client of one connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    headers: Arc<HeaderMap>,
    access: Access,
    own_stream: Arc<watch::Sender<OwnStream>>,
}

impl HttpClient {
    pub(crate) fn new(client: reqwest::Client, headers: HeaderMap, access: Access) -> Self {
        Self {
            client,
            headers: Arc::new(headers),
            access,
            own_stream: Arc::new(watch::channel(OwnStream::Absent).0),
        }
    }

    /// Watches the state of the server's own stream.
    pub(crate) fn own_stream(&self) -> watch::Receiver<OwnStream> {
        self.own_stream.subscribe()
    }

    /// Sends a request, with a token if there is one; a refused token is refreshed once.
    async fn exchange(
        &self,
        make: impl Fn() -> RequestBuilder + Send,
    ) -> Result<Response, Failure> {
        let token = self.access.bearer().await;
        let send = |token: Option<&str>| {
            let mut request = make().headers((*self.headers).clone());
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            request.send()
        };
        let failed = |error: reqwest::Error| StreamableHttpError::Client(HttpError::from(error));
        let response = send(token.as_deref()).await.map_err(failed)?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(token) = token
            && let Some(fresh) = self.access.refused(&token).await
        {
            return send(Some(&fresh)).await.map_err(failed);
        }
        Ok(response)
    }

    fn request(
        &self,
        method: Method,
        uri: &str,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> RequestBuilder {
        let mut request = self.client.request(method, uri);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request
    }
}

/// A 401, or a 403 with a challenge, requires authorisation.
fn refusal(response: &Response) -> Option<Failure> {
    let challenge = || {
        let values = response.headers().get_all(WWW_AUTHENTICATE);
        let texts: Vec<_> = values
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        texts.join(", ")
    };
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(StreamableHttpError::AuthRequired(
            AuthRequiredError::new(challenge()),
        )),
        StatusCode::FORBIDDEN if response.headers().contains_key(WWW_AUTHENTICATE) => {
            let challenge = challenge();
            let scope = crate::auth::Challenge::parse(&challenge).scope;
            Some(StreamableHttpError::InsufficientScope(
                InsufficientScopeError::new(challenge, scope),
            ))
        }
        _ => None,
    }
}

fn media(response: &Response) -> &str {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// The body of a failed answer, shortened.
fn unusable(status: StatusCode, body: &[u8]) -> Failure {
    let shown = text::line(&String::from_utf8_lossy(&body[..body.len().min(4096)]), 200);
    let text = if shown.is_empty() {
        format!("HTTP {status}")
    } else {
        format!("HTTP {status}: {shown}")
    };
    StreamableHttpError::Client(HttpError {
        status: Some(status),
        ..HttpError::said(text)
    })
}

/// An older server answers the newer protocol's first request with an HTTP error, which the
/// lifecycle must get as an answer to be able to fall back.
fn refused_discovery(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    body: &[u8],
) -> Option<ServerJsonRpcMessage> {
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    if !matches!(request.request, ClientRequest::DiscoverRequest(_)) || !status.is_client_error() {
        return None;
    }
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
        Ok(ServerJsonRpcMessage::Error(error)) => error.error,
        _ => ErrorData::invalid_request(format!("server/discover: HTTP {status}"), None),
    };
    Some(ServerJsonRpcMessage::error(error, Some(request.id.clone())))
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message)?;
        let response = self
            .exchange(|| {
                let mut request = self
                    .request(Method::POST, &uri, &custom_headers)
                    .header(ACCEPT, BOTH)
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone());
                if let Some(session) = &session_id {
                    request = request.header(SESSION, session.as_ref());
                }
                request
            })
            .await?;
        if let Some(refusal) = refusal(&response) {
            return Err(refusal);
        }
        let status = response.status();
        let awaits_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response
            .headers()
            .get(SESSION)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        if session.is_some() && session_id.is_none() {
            self.own_stream.send_replace(OwnStream::Expected);
        }
        if !status.is_success() {
            let body = net::body(response, AUTH_BYTES).await.unwrap_or_default();
            if session_id.is_none()
                && let Some(answer) = refused_discovery(&message, status, &body)
            {
                return Ok(StreamableHttpPostResponse::Json(answer, None));
            }
            return match serde_json::from_slice(&body) {
                Ok(answer @ ServerJsonRpcMessage::Error(_)) => {
                    Ok(StreamableHttpPostResponse::Json(answer, session))
                }
                _ => Err(unusable(status, &body)),
            };
        }
        if media(&response).starts_with("text/event-stream") {
            let events = events(response, MESSAGE_BYTES);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let is_json = media(&response).starts_with("application/json");
        let body = net::body(response, MESSAGE_BYTES)
            .await
            .map_err(|error| StreamableHttpError::Client(HttpError::said(error.to_string())))?;
        match serde_json::from_slice(&body) {
            Ok(answer) if is_json => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // A notification has no answer; the status is enough.
            _ if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
            _ => Err(unusable(status, &body)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.exchange(|| {
            self.request(Method::DELETE, &uri, &custom_headers)
                .header(SESSION, session_id.as_ref())
        })
        .await?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let response = self
            .exchange(|| {
                let mut request = self
                    .request(Method::GET, &uri, &custom_headers)
                    .header(ACCEPT, "text/event-stream");
                if let Some(session) = &session_id {
                    request = request.header(SESSION, session.as_ref());
                }
                if let Some(id) = &last_event_id {
                    request = request.header("last-event-id", id);
                }
                request
            })
            .await;
        self.own_stream.send_replace(OwnStream::Answered);
        let response = response?;
        if let Some(refusal) = refusal(&response) {
            return Err(refusal);
        }
        let status = response.status();
        // Not every server has its own stream, and some report that wrongly.
        if status == StatusCode::METHOD_NOT_ALLOWED
            || (status.is_client_error() && last_event_id.is_none())
            || (status.is_success() && !media(&response).starts_with("text/event-stream"))
        {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(unusable(status, b""));
        }
        Ok(events(response, MESSAGE_BYTES))
    }
}
