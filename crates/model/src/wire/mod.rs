//! Common parts of translators: a connection, its credentials, and the conversion of response bytes to events.
//!
//! A translator is two pure functions: from a [`ModelRequest`] to a body ([`Translator::prepare`]), and from
//! the bytes of a response to events of the Messages shape ([`Decode`]). Everything with a clock or a socket is here
//! and in [`crate::recovery`], which stands above.

pub(crate) mod authorize;
pub(crate) mod cache;
pub(crate) mod calls;
pub(crate) mod decoding;
pub(crate) mod emit;
#[cfg(test)]
mod sharing_tests;
pub(crate) mod think;

use crate::anthropic::transport;
use crate::body::RequestBody;
use crate::classify::Refusal;
use crate::classify_foreign;
use crate::error::{ModelError, Origin};
use crate::provider::{Provider, ResponseStream, Transfer};
use crate::request::ModelRequest;
use authorize::Authorizer;
use bytes::Bytes;
use decoding::Decode;
use futures::future::BoxFuture;
use futures::stream;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, USER_AGENT};
use http::{HeaderValue, Method};
use lathe_net::{ClientOptions, Network, Reach};
use parking_lot::Mutex;
use reqwest::{Client, Response};
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use url::Url;

/// How often a request is sent again in another dialect.
const MOST_LESSONS: usize = 6;

/// A request that is ready to be sent.
pub(crate) struct Prepared {
    /// The path below the base address, such as `chat/completions`.
    pub(crate) path: String,
    /// Parameters of the address.
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: RequestBody,
    pub(crate) decoder: Box<dyn Decode>,
}

/// From the Messages shape to a wire format and back.
pub(crate) trait Translator: Send + Sync + 'static {
    /// The request in the wire format.
    fn prepare(&self, request: &ModelRequest, transfer: Transfer) -> Result<Prepared, ModelError>;

    /// Learns from a refusal how the server differs from the usual. `true`: the same request, prepared again,
    /// is another one.
    fn learn(&self, _request: &ModelRequest, _error: &ModelError) -> bool {
        false
    }

    /// Notices about the requests so far, each once.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The configuration of a connection.
pub(crate) struct ConnectionParts<'a> {
    pub(crate) provider: &'a str,
    pub(crate) base: &'a str,
    /// The last part of the path of the endpoint, which a base may have already.
    pub(crate) endpoint: &'a str,
    pub(crate) headers: &'a BTreeMap<String, String>,
    pub(crate) query: &'a BTreeMap<String, String>,
    pub(crate) network: &'a Network,
    pub(crate) client_app: Option<&'a str>,
    pub(crate) authorizer: Authorizer,
    pub(crate) key_hint: String,
}

/// A connection pool to one server, with its credentials.
pub(crate) struct Connection {
    client: Client,
    base: Url,
    headers: HeaderMap,
    /// Headers of ours that the user removed.
    removed: Vec<HeaderName>,
    query: Vec<(String, String)>,
    authorizer: Authorizer,
    proxy: Option<&'static str>,
    provider: String,
    key_hint: String,
    /// Requests whose answer was empty once: the second time, empty is what it is.
    empty: Mutex<HashSet<u64>>,
}

impl Connection {
    pub(crate) fn new(parts: ConnectionParts<'_>) -> Result<Self, ModelError> {
        let base = base_url(parts.provider, parts.base, parts.endpoint)?;
        let options = ClientOptions {
            reach: Reach::by_scheme(&base),
            connect_timeout: Some(std::time::Duration::from_secs(30)),
            ..ClientOptions::default()
        };
        let made = parts.network.client(&options);
        let client = made.map_err(|error| ModelError::Configuration {
            message: error.to_string(),
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, crate::anthropic::user_agent(parts.client_app));
        let mut removed = Vec::new();
        for (name, value) in parts.headers {
            let wrong = |what: &str| ModelError::Configuration {
                message: format!(
                    "providers.{}.headers: {what} of {name:?} is not allowed in HTTP",
                    parts.provider
                ),
            };
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong("the name"))?;
            if value.is_empty() {
                headers.remove(&key);
                removed.push(key);
                continue;
            }
            let mut value =
                HeaderValue::try_from(value.as_str()).map_err(|_| wrong("the value"))?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let proxy = parts.network.proxies.variable_for(&base);
        Ok(Self {
            client,
            headers,
            removed,
            query: parts
                .query
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            authorizer: parts.authorizer,
            proxy,
            provider: parts.provider.to_owned(),
            key_hint: parts.key_hint,
            empty: Mutex::default(),
            base,
        })
    }

    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// Whether the empty answer to a request is the first one to it.
    pub(crate) fn is_first_empty(&self, request: u64) -> bool {
        self.empty.lock().insert(request)
    }

    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    fn url(&self, prepared: &Prepared) -> Url {
        let mut url = self.base.clone();
        let path = format!("{}/{}", url.path().trim_end_matches('/'), prepared.path);
        url.set_path(&path);
        let of_request = prepared.query.iter().map(|(name, value)| (*name, value));
        let of_user = self
            .query
            .iter()
            .map(|(name, value)| (name.as_str(), value));
        let all: Vec<(&str, &String)> = of_request.chain(of_user).collect();
        if !all.is_empty() {
            url.query_pairs_mut().extend_pairs(all);
        }
        url
    }

    /// The origin to name in errors.
    fn origin(&self, model: &str, url: &Url) -> Origin {
        Origin {
            model: format!("{}/{model}", self.provider),
            url: transport::shown(url),
            key: self.key_hint.clone(),
        }
    }

    async fn send(
        &self,
        model: &str,
        prepared: &Prepared,
        transfer: Transfer,
    ) -> Result<(Response, Url), ModelError> {
        let url = self.url(prepared);
        let mut headers = self.headers.clone();
        let accept = match transfer {
            Transfer::Streaming => prepared.decoder.accepts(),
            Transfer::Whole => "application/json",
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(prepared.body.length()));
        self.authorizer
            .sign(&Method::POST, &url, &mut headers, &prepared.body)
            .await?;
        // The user's word comes last.
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        for name in &self.removed {
            headers.remove(name);
        }
        tracing::debug!(url = %transport::shown(&url), bytes = prepared.body.length(), ?transfer, "sending a model request");
        let chunks = prepared.body.chunks();
        let sent = self
            .client
            .post(url.clone())
            .headers(headers)
            .body(reqwest::Body::wrap_stream(stream::iter(
                chunks.map(Ok::<Bytes, std::convert::Infallible>),
            )))
            .send()
            .await;
        let response = sent.map_err(|error| transport::network_error(&error, &url, self.proxy))?;
        let status = response.status();
        if status.is_success() {
            return Ok((response, url));
        }
        if status.is_redirection() {
            let target = response
                .headers()
                .get("location")
                .and_then(|value| value.to_str().ok())
                .unwrap_or("another address");
            return Err(ModelError::Protocol {
                url: transport::shown(&url),
                message: self.redacted(format!(
                    "it redirects to {target}; set providers.{}.baseUrl to that server",
                    self.provider
                )),
            });
        }
        let error = refusal(response).await;
        Err(self.told(error, model, &url))
    }

    /// An error with its origin and without secrets.
    pub(crate) fn told(&self, mut error: ModelError, model: &str, url: &Url) -> ModelError {
        if let Some(failure) = error.failure_mut() {
            failure.message = self.redacted(std::mem::take(&mut failure.message));
            failure.origin = Some(Box::new(self.origin(model, url)));
        } else if let ModelError::Protocol { message, .. } | ModelError::Truncated { message } =
            &mut error
        {
            *message = self.redacted(std::mem::take(message));
        }
        error
    }

    /// A text without the secrets of this connection.
    pub(crate) fn redacted(&self, mut text: String) -> String {
        let secrets = self.authorizer.secrets();
        let of_headers = self
            .headers
            .values()
            .filter(|value| value.is_sensitive())
            .filter_map(|value| value.to_str().ok().map(str::to_owned));
        for secret in secrets.into_iter().chain(of_headers) {
            if secret.len() >= 6 && text.contains(&secret) {
                text = text.replace(&secret, "[key]");
            }
        }
        text
    }
}

/// The base address: without the endpoint, if it was given with it, and without a slash at the end.
fn base_url(provider: &str, base: &str, endpoint: &str) -> Result<Url, ModelError> {
    let wrong = |reason: &str| ModelError::Configuration {
        message: format!(
            "providers.{provider}.baseUrl is {base:?}, which {reason}; it should look like http://localhost:11434/v1"
        ),
    };
    let mut url =
        Url::parse(base.trim()).map_err(|error| wrong(&format!("is not a URL ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is neither http nor https"));
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix(endpoint).unwrap_or(path);
    // `/v1/v1` is never meant.
    let path = path.trim_end_matches('/').replace("/v1/v1", "/v1");
    url.set_path(&path);
    Ok(url)
}

async fn refusal(response: Response) -> ModelError {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = transport::error_body(response).await;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    classify_foreign::refusal(
        &Refusal {
            status,
            body: &body,
            request_id: text("x-request-id")
                .or_else(|| text("request-id"))
                .or_else(|| text("x-amzn-requestid")),
            retry_after_ms: text("retry-after-ms"),
            retry_after: text("retry-after"),
            should_retry: text("x-should-retry"),
        },
        text("x-amzn-errortype"),
    )
}

/// A number for a request, the same for its repetitions.
fn identity(request: &ModelRequest) -> u64 {
    let last = request.messages.last().map(|message| message.bytes);
    let count = request.messages.len();
    BuildHasherDefault::<DefaultHasher>::default().hash_one((&request.model, count, last))
}

/// A provider that is a connection and a translator.
pub(crate) struct HttpProvider<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    connection: Arc<Connection>,
    translator: T,
}

impl<T: Translator> HttpProvider<T> {
    pub(crate) fn new(connection: Connection, translator: T) -> Self {
        Self {
            inner: Arc::new(Inner {
                connection: Arc::new(connection),
                translator,
            }),
        }
    }
}

impl<T: Translator> Inner<T> {
    async fn ask(
        &self,
        request: &ModelRequest,
        transfer: Transfer,
    ) -> Result<ResponseStream, ModelError> {
        let mut lessons = 0;
        loop {
            let prepared = self.translator.prepare(request, transfer)?;
            match self
                .connection
                .send(&request.model, &prepared, transfer)
                .await
            {
                Ok((response, url)) => {
                    let request_id = response
                        .headers()
                        .get("x-request-id")
                        .and_then(|value| value.to_str().ok())
                        .map(str::to_owned);
                    let events = decoding::decoded(decoding::Source {
                        response,
                        url,
                        model: request.model.clone(),
                        request: identity(request),
                        connection: Arc::clone(&self.connection),
                        decoder: prepared.decoder,
                    });
                    return Ok(ResponseStream { request_id, events });
                }
                Err(error) if lessons < MOST_LESSONS && self.translator.learn(request, &error) => {
                    tracing::debug!(%error, "sending the request again in another dialect");
                    lessons += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<T: Translator> Provider for HttpProvider<T> {
    fn name(&self) -> &str {
        self.inner.connection.provider()
    }

    fn stream(
        &self,
        request: &ModelRequest,
        transfer: Transfer,
    ) -> BoxFuture<'static, Result<ResponseStream, ModelError>> {
        let inner = Arc::clone(&self.inner);
        let request = request.clone();
        Box::pin(async move { inner.ask(&request, transfer).await })
    }

    fn count_tokens(&self, request: &ModelRequest) -> BoxFuture<'static, Result<u64, ModelError>> {
        // There is no such endpoint that all servers have.
        let tokens = crate::estimate::request(request);
        Box::pin(std::future::ready(Ok(tokens)))
    }

    fn refresh_credentials(
        &self,
        _request: &ModelRequest,
    ) -> BoxFuture<'static, Result<bool, ModelError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.connection.authorizer().refresh().await })
    }

    fn remarks(&self) -> Vec<String> {
        self.inner.translator.remarks()
    }
}
