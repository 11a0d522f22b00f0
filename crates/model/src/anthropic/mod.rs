//! The Anthropic Messages API, and whatever speaks it.
//!
//! [`AnthropicConfig`] is a plain value, usually made by [`AnthropicConfig::of`];
//! [`AnthropicProvider`] is a connection pool with credentials. `transport` builds the HTTP client
//! and explains its errors, `trust` decides which servers are who they say they are, `events` turns
//! responses into events.

pub mod config;
pub(crate) mod credentials;
pub(crate) mod events;
pub(crate) mod gather;
mod headers;
pub(crate) mod transport;

pub use config::{AnthropicConfig, DEFAULT_BASE_URL};
pub use credentials::{KeyHelper, KeyHelperError};
pub(crate) use headers::user_agent;

use crate::body::{Purpose, RequestBody};
use crate::classify::{self, Refusal};
use crate::error::{ApiFailure, ModelError, Origin};
use crate::provider::{Provider, ResponseStream, Transfer};
use crate::request::{ModelRequest, StaleThinking};
use crate::wire::decoding::Unusable;
use bytes::Bytes;
use credentials::CredentialSource;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use headers::{Headers, Telling};
use http::HeaderValue;
use http::header::CONTENT_LENGTH;
use lathe_net::sse::SseDecoder;
use lathe_protocol::stream::StreamPiece;
use reqwest::{Client, Response};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use url::Url;

/// Lets a request say what happens to reasoning that doesn't fit its conversation.
const THINKING_BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";
/// The largest request that the public API takes.
const MAX_REQUEST_BYTES: u64 = 32 * 1024 * 1024;
/// The most of a whole response that is read.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// A provider for the Messages API. Cheap to clone; clones share connections and credentials.
#[derive(Clone)]
pub struct AnthropicProvider {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    messages: Url,
    count_tokens: Url,
    headers: Headers,
    betas: Vec<String>,
    without_experiments: bool,
    extra_body: Map<String, Value>,
    credentials: CredentialSource,
    /// It needs a key, and has known limits; a server of one's own may differ in both.
    is_public_api: bool,
    /// The variable that names the proxy, for messages.
    proxy: Option<&'static str>,
    name: String,
}

impl AnthropicProvider {
    /// Sets up a provider. Nothing is sent yet.
    ///
    /// # Errors
    /// When an address, a header or a CA file is unusable; the message names it.
    pub fn new(config: &AnthropicConfig) -> Result<Self, ModelError> {
        Self::with_credentials(
            config,
            crate::providers::ANTHROPIC,
            CredentialSource::new(config),
        )
    }

    /// Sets up a provider under a name of its own, with credentials from elsewhere.
    pub(crate) fn with_credentials(
        config: &AnthropicConfig,
        name: &str,
        credentials: CredentialSource,
    ) -> Result<Self, ModelError> {
        let address = |path: &str| {
            let mut url = transport::endpoint(&config.base_url, path)?;
            if !config.query.is_empty() {
                url.query_pairs_mut().extend_pairs(&config.query);
            }
            Ok::<Url, ModelError>(url)
        };
        let messages = address("messages")?;
        let count_tokens = address("messages/count_tokens")?;
        let is_public_api = messages.host_str() == Some(config::PUBLIC_HOST);
        let client = transport::client(config, &messages)?;
        let proxy = config.network.proxies.variable_for(&messages);
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                messages,
                count_tokens,
                headers: Headers::new(config, name)?,
                betas: config.betas.clone(),
                without_experiments: config.without_experiments,
                extra_body: config.extra_body.clone(),
                credentials,
                is_public_api,
                proxy,
                name: name.to_owned(),
            }),
        })
    }

    /// Whether a request could be sent at all; `NoCredentials` if the API would need a key and
    /// there is none. For telling so before anything else is done.
    ///
    /// # Errors
    /// [`ModelError::NoCredentials`].
    pub fn check_credentials(&self) -> Result<(), ModelError> {
        if self.inner.is_public_api && self.inner.credentials.is_empty() {
            return Err(ModelError::NoCredentials);
        }
        Ok(())
    }
}

impl Provider for AnthropicProvider {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn stream(
        &self,
        request: &ModelRequest,
        transfer: Transfer,
    ) -> BoxFuture<'static, Result<ResponseStream, ModelError>> {
        let provider = self.clone();
        let purpose = match transfer {
            Transfer::Streaming => Purpose::Streaming,
            Transfer::Whole => Purpose::Whole,
        };
        let request = &*self.adapted(request);
        let body = RequestBody::messages_api(request, purpose);
        let betas = needed_betas(request);
        let model = request.model.clone();
        Box::pin(async move {
            let url = &provider.inner.messages;
            let sent = provider.send(url, &body, &model, &betas, transfer).await;
            let (response, telling) = sent?;
            let request_id = header(&response, "request-id").map(str::to_owned);
            let events = match content_kind(&response) {
                ContentKind::Events => decoded(response, url.clone(), request_id.clone(), telling),
                ContentKind::Json => whole(response, url.clone(), request_id.clone(), telling),
                ContentKind::Other(kind) => {
                    return Err(ModelError::Protocol {
                        url: transport::shown(url),
                        message: format!("it sent {kind}"),
                    });
                }
            };
            Ok(ResponseStream { request_id, events })
        })
    }

    fn count_tokens(&self, request: &ModelRequest) -> BoxFuture<'static, Result<u64, ModelError>> {
        let provider = self.clone();
        let request = &*self.adapted(request);
        let body = RequestBody::messages_api(request, Purpose::CountTokens);
        let betas = needed_betas(request);
        let model = request.model.clone();
        Box::pin(async move {
            let url = &provider.inner.count_tokens;
            let sent = provider.send(url, &body, &model, &betas, Transfer::Whole);
            let (response, _) = sent.await?;
            let bytes = read_all(response, url, transport::MAX_ERROR_BYTES).await?;
            let value: Option<Value> = serde_json::from_slice(&bytes).ok();
            value
                .as_ref()
                .and_then(|value| value.get("input_tokens")?.as_u64())
                .ok_or_else(|| ModelError::Protocol {
                    url: transport::shown(url),
                    message: "the answer has no input_tokens".to_owned(),
                })
        })
    }

    fn refresh_credentials(
        &self,
        _request: &ModelRequest,
    ) -> BoxFuture<'static, Result<bool, ModelError>> {
        let provider = self.clone();
        Box::pin(async move { provider.inner.credentials.refresh().await })
    }
}

impl AnthropicProvider {
    /// The request with what the configuration adds to it and takes away.
    fn adapted<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        let inner = &self.inner;
        let mut request = Cow::Borrowed(request);
        if inner.without_experiments {
            let request = request.to_mut();
            request.betas.clear();
            if let Some(thinking) = &mut request.thinking {
                thinking.stale = StaleThinking::Unsaid;
            }
        }
        for (name, value) in &inner.extra_body {
            let extra = &mut request.to_mut().extra;
            extra.insert(name.clone(), value.clone());
        }
        request
    }

    /// Sends a body and gives back an accepted response, or the refusal as an error.
    async fn send(
        &self,
        url: &Url,
        body: &RequestBody,
        model: &str,
        betas: &[String],
        transfer: Transfer,
    ) -> Result<(Response, Telling), ModelError> {
        self.check_credentials()?;
        let inner = &self.inner;
        if inner.is_public_api && body.length() > MAX_REQUEST_BYTES {
            // The API would say the same, but hang up in the middle of the upload, which looks like
            // a lost connection and would be tried again and again.
            return Err(too_large(body.length()));
        }
        let accept = match transfer {
            Transfer::Streaming => "text/event-stream",
            Transfer::Whole => "application/json",
        };
        let credentials = inner.credentials.current().await?;
        let betas = inner.betas.iter().chain(betas);
        let mut headers = inner.headers.of_request(&credentials, betas, accept)?;
        let telling = Telling::new(&inner.headers, &credentials, inner.origin(model, url));
        // A length makes the body one piece for gateways that don't take chunked requests.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.length()));
        tracing::debug!(url = %transport::shown(url), bytes = body.length(), ?transfer, "sending a model request");
        let chunks = body.chunks().map(Ok::<Bytes, std::convert::Infallible>);
        let response = inner
            .client
            .post(url.clone())
            .headers(headers)
            .body(reqwest::Body::wrap_stream(stream::iter(chunks)))
            .send()
            .await
            .map_err(|error| transport::network_error(&error, url, inner.proxy))?;
        let status = response.status();
        if status.is_success() {
            return Ok((response, telling));
        }
        if status.is_redirection() {
            let target = header(&response, "location").unwrap_or("another address");
            let setting = match inner.name.as_str() {
                crate::providers::ANTHROPIC => "ANTHROPIC_BASE_URL".to_owned(),
                name => format!("providers.{name}.baseUrl"),
            };
            return Err(telling.told(ModelError::Protocol {
                url: transport::shown(url),
                message: format!("it redirects to {target}; set {setting} to that server"),
            }));
        }
        Err(telling.told(refusal(response).await))
    }
}

impl Inner {
    /// The origin to name in errors, for another provider than that of the `ANTHROPIC_*` variables.
    fn origin(&self, model: &str, url: &Url) -> Option<Origin> {
        (self.name != crate::providers::ANTHROPIC).then(|| Origin {
            model: format!("{}/{model}", self.name),
            url: transport::shown(url),
            key: format!("the key of the provider {}", self.name),
        })
    }
}

fn too_large(bytes: u64) -> ModelError {
    ModelError::RequestTooLarge(Box::new(ApiFailure {
        status: Some(413),
        kind: Some("request_too_large".to_owned()),
        message: format!(
            "the request has {bytes} bytes, and the API takes at most {MAX_REQUEST_BYTES}"
        ),
        ..ApiFailure::default()
    }))
}

async fn refusal(response: Response) -> ModelError {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = transport::error_body(response).await;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    classify::refusal(&Refusal {
        status,
        body: &body,
        request_id: text("request-id").or_else(|| text("x-request-id")),
        retry_after_ms: text("retry-after-ms"),
        retry_after: text("retry-after"),
        should_retry: text("x-should-retry"),
    })
}

async fn read_all(response: Response, url: &Url, limit: usize) -> Result<Bytes, ModelError> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| broken(&error))?;
        if body.len() + chunk.len() > limit {
            return Err(ModelError::Protocol {
                url: transport::shown(url),
                message: format!("the answer is larger than {limit} bytes"),
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Bytes::from(body))
}

/// A response that breaks off after it was accepted.
fn broken(error: &reqwest::Error) -> ModelError {
    ModelError::Truncated {
        message: transport::innermost(error),
    }
}

enum ContentKind {
    Events,
    Json,
    Other(String),
}

fn content_kind(response: &Response) -> ContentKind {
    let kind = header(response, "content-type").unwrap_or_default();
    let essence = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match essence.as_str() {
        // A server that doesn't say is taken at its word that it speaks the API.
        "text/event-stream" | "" => ContentKind::Events,
        "application/json" => ContentKind::Json,
        _ => ContentKind::Other(kind.to_owned()),
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
}

struct Decoding {
    chunks: gather::Gathering<BoxStream<'static, reqwest::Result<Bytes>>>,
    decoder: SseDecoder,
    url: Url,
    request_id: Option<String>,
    telling: Telling,
    /// The connection gave its last byte.
    drained: bool,
    /// Nothing more is given out.
    finished: bool,
}

/// A streamed response's events, as they come.
fn decoded(
    response: Response,
    url: Url,
    request_id: Option<String>,
    telling: Telling,
) -> BoxStream<'static, Result<StreamPiece, ModelError>> {
    let decoding = Decoding {
        chunks: gather::Gathering::new(response.bytes_stream().boxed()),
        decoder: SseDecoder::default(),
        url,
        request_id,
        telling,
        drained: false,
        finished: false,
    };
    stream::unfold(decoding, |mut decoding| async move {
        decoding.next().await.map(|item| (item, decoding))
    })
    .boxed()
}

impl Decoding {
    async fn next(&mut self) -> Option<Result<StreamPiece, ModelError>> {
        while !self.finished {
            let event = match self.decoder.next_event() {
                Ok(Some(event)) => Some(event),
                Ok(None) if self.drained => {
                    self.finished = true;
                    self.decoder.finish()
                }
                Ok(None) => {
                    match self.chunks.next().await {
                        Some(Ok(chunk)) => self.decoder.push(&chunk),
                        Some(Err(error)) => return self.end(broken(&error)),
                        None => self.drained = true,
                    }
                    continue;
                }
                Err(error) => return self.end(self.protocol(error.to_string())),
            };
            match event.map(|event| events::read(event, self.request_id.as_deref())) {
                Some(Ok(Some(event))) => return Some(Ok(event)),
                Some(Ok(None)) | None => {}
                Some(Err(Unusable::Trouble(error))) => return self.end(error),
                // An event that the end of the stream cut off is no event.
                Some(Err(Unusable::Malformed(_))) if self.finished => {}
                Some(Err(Unusable::Malformed(message))) => {
                    return self.end(self.protocol(message));
                }
            }
        }
        None
    }

    fn protocol(&self, message: String) -> ModelError {
        ModelError::Protocol {
            url: transport::shown(&self.url),
            message,
        }
    }

    fn end(&mut self, error: ModelError) -> Option<Result<StreamPiece, ModelError>> {
        self.finished = true;
        Some(Err(self.telling.told(error)))
    }
}

/// A whole response as the events that a stream would have sent.
fn whole(
    response: Response,
    url: Url,
    request_id: Option<String>,
    telling: Telling,
) -> BoxStream<'static, Result<StreamPiece, ModelError>> {
    let events = async move {
        let outcome = async {
            let bytes = read_all(response, &url, MAX_RESPONSE_BYTES).await?;
            let message = events::message(&bytes, request_id.as_deref());
            let unusable = |unusable| match unusable {
                Unusable::Trouble(error) => error,
                Unusable::Malformed(message) => ModelError::Protocol {
                    url: transport::shown(&url),
                    message,
                },
            };
            let events = message.and_then(|message| Ok(events::from_message(message)?));
            events.map_err(unusable)
        };
        let items: VecDeque<Result<StreamPiece, ModelError>> = match outcome.await {
            Ok(events) => events.into_iter().map(Ok).collect(),
            Err(error) => VecDeque::from([Err(telling.told(error))]),
        };
        stream::iter(items)
    };
    stream::once(events).flatten().boxed()
}

/// The beta features that a request names, and those that its fields need.
pub(crate) fn needed_betas(request: &ModelRequest) -> Vec<String> {
    let mut betas = request.betas.clone();
    if request
        .thinking
        .is_some_and(|thinking| thinking.stale == StaleThinking::Drop)
    {
        betas.push(THINKING_BINDING_BETA.to_owned());
    }
    betas
}
