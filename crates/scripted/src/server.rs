//! The server: takes connections, records and checks requests, and sends replies.

use crate::cache::{BYTES_PER_TOKEN, InputTokens, PromptCache};
use crate::dialect::{AutomaticCache, Dialect, Read};
use crate::gate::{Gate, Gates};
use crate::play::{self, Body};
use crate::reply::{Fault, Reply};
use crate::request::RecordedRequest;
use crate::scenario::{Queue, Scenario, Validation};
use crate::validate::{self, Endpoint, Validator};
use crate::wire::{Ids, Message, Stream};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Requests of more bytes are refused with `413`, as by the API.
const BODY_LIMIT: usize = 32 * 1024 * 1024;

/// Invalid requests and unused replies, a line for each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ScriptProblems(Vec<String>);

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

struct Shared {
    /// The replies have been moved to `queue`.
    scenario: Scenario,
    queue: Mutex<Queue>,
    validator: Mutex<Validator>,
    cache: Mutex<PromptCache>,
    automatic: Mutex<AutomaticCache>,
    requests: Mutex<Vec<RecordedRequest>>,
    count: watch::Sender<usize>,
    problems: Mutex<Vec<String>>,
    gates: Arc<Gates>,
    ids: Ids,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("scenario", &self.scenario)
            .finish_non_exhaustive()
    }
}

impl ScriptedServer {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port is available.
    pub async fn start(scenario: Scenario) -> io::Result<Self> {
        Self::start_on(scenario, 0).await
    }

    /// Starts a server on a port of the loopback interface; 0 is any free one.
    ///
    /// # Errors
    /// When the port can't be had.
    pub async fn start_on(mut scenario: Scenario, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let mut queue = Queue::default();
        scenario
            .replies
            .drain(..)
            .for_each(|reply| queue.push(reply));
        let shared = Arc::new(Shared {
            scenario,
            queue: Mutex::new(queue),
            validator: Mutex::default(),
            cache: Mutex::default(),
            automatic: Mutex::default(),
            requests: Mutex::default(),
            count: watch::Sender::new(0),
            problems: Mutex::default(),
            gates: Arc::default(),
            ids: Ids::new(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(accept(listener, Arc::clone(&shared), stop.clone()));
        Ok(Self {
            address,
            shared,
            stop,
        })
    }

    /// `http://127.0.0.1:PORT`, what `ANTHROPIC_BASE_URL` is set to.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, in the order in which they were complete.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().clone()
    }

    /// One request.
    #[must_use]
    pub fn request(&self, index: usize) -> Option<RecordedRequest> {
        self.shared.requests.lock().get(index).cloned()
    }

    /// The requests to `/v1/messages` so far.
    #[must_use]
    pub fn message_requests(&self) -> Vec<RecordedRequest> {
        let requests = self.shared.requests.lock();
        requests
            .iter()
            .filter(|request| Dialect::of(&request.path).is_some())
            .cloned()
            .collect()
    }

    /// How many requests there have been, kept or not.
    #[must_use]
    pub fn request_count(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Waits until there have been this many requests.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut seen = self.shared.count.subscribe();
        // The sender lives in `self`, so the wait can't fail.
        let _ = seen.wait_for(|seen| *seen >= count).await;
    }

    /// The problems of requests.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.shared.problems.lock().clone()
    }

    /// Replies that should have been used and weren't.
    #[must_use]
    pub fn unused_replies(&self) -> Vec<String> {
        self.shared.queue.lock().unused()
    }

    /// The gate of this name.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.gates.get(name)
    }

    /// Adds a reply.
    pub fn push_reply(&self, reply: Reply) {
        self.shared.queue.lock().push(reply);
    }

    /// Checks that every request was valid and every reply was used.
    ///
    /// # Errors
    /// With a line for each problem.
    pub fn check(&self) -> Result<(), ScriptProblems> {
        let unused = self.unused_replies();
        let unused = unused
            .iter()
            .map(|reply| format!("a reply was never asked for: {reply}"));
        let lines: Vec<String> = self.problems().into_iter().chain(unused).collect();
        if lines.is_empty() {
            Ok(())
        } else {
            Err(ScriptProblems(lines))
        }
    }

    /// Asserts that every request was good and every reply was used.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    #[expect(clippy::panic, reason = "this is a test's assertion")]
    pub fn finish(&self) {
        if let Err(lines) = self.check() {
            panic!("the scripted model objects:\n{lines}");
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Chunks shall leave as they are written.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "can't set TCP_NODELAY");
        }
        let shared = Arc::clone(&shared);
        let stop = stop.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| handle(Arc::clone(&shared), request));
            let builder = auto::Builder::new(TokioExecutor::new());
            tokio::select! {
                () = stop.cancelled() => {}
                served = builder.serve_connection(TokioIo::new(stream), service) => {
                    // Scenarios drop connections, and so do clients.
                    if let Err(error) = served {
                        tracing::debug!(%error, "a connection ended");
                    }
                }
            }
        });
    }
}

async fn handle(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let raw_body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let keep = match shared.scenario.validation {
        Validation::Full => usize::MAX,
        Validation::Light | Validation::Off => 2,
    };
    let dialect = Dialect::of(head.uri.path()).unwrap_or(Dialect::Messages);
    let read = match dialect {
        Dialect::Messages => Read::default(),
        other => other.read(head.uri.path(), &raw_body),
    };
    let in_messages_shape = match dialect {
        Dialect::Messages => raw_body.clone(),
        _ => Bytes::from(read.body.to_string()),
    };
    let outline = validate::Body::parse(&in_messages_shape, keep);
    let recorded = RecordedRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: head.headers,
        body: shared.body_value(&in_messages_shape, outline.as_ref().ok()),
        raw_body: raw_body.clone(),
        received_at_index: 0,
        http_version: format!("{:?}", head.version),
    };
    let recorded = shared.record(recorded);
    match (&head.method, recorded.path.as_str()) {
        (&Method::POST, path) if Dialect::of(path).is_some() => {
            shared.messages(&recorded, outline, dialect, &read).await
        }
        (&Method::POST, "/v1/messages/count_tokens") => Ok(shared.count_tokens(&recorded, outline)),
        (&Method::GET, "/v1/models" | "/v1beta/models") => Ok(shared.models()),
        // A client that looks for local servers; this is none.
        (&Method::GET, "/props" | "/api/tags" | "/api/v0/models") => {
            Ok(shared.error(404, None, None, &[]))
        }
        (&Method::HEAD, _) => Ok(shared.respond(200, &[], "text/plain", Bytes::new())),
        (method, path) => {
            let message = format!("there is no {method} {path}");
            shared.problem(&recorded, &message);
            Ok(shared.error(404, None, Some(&message), &[]))
        }
    }
}

/// The purpose of a request, and its parsed parts.
#[derive(Clone, Copy)]
struct Call<'a> {
    endpoint: Endpoint,
    dialect: Dialect,
    read: &'a Read,
}

/// The result of checking a request.
enum Verdict {
    Good(InputTokens),
    Refused(Response<Body>),
}

impl Shared {
    fn body_value(&self, raw: &[u8], outline: Option<&validate::Body<'_>>) -> Value {
        match (self.scenario.validation, outline) {
            (_, None) => Value::Null,
            (Validation::Full, Some(_)) => serde_json::from_slice(raw).unwrap_or_default(),
            (Validation::Light | Validation::Off, Some(outline)) => {
                let mut fields = outline.fields.clone();
                let messages = outline.messages.iter().flatten();
                let last: Vec<Value> = messages
                    .filter_map(|raw| serde_json::from_str(raw.get()).ok())
                    .collect();
                fields.insert("messages".into(), Value::Array(last));
                Value::Object(fields)
            }
        }
    }

    /// Gives the request its number and keeps it.
    fn record(&self, mut request: RecordedRequest) -> RecordedRequest {
        let mut requests = self.requests.lock();
        request.received_at_index = *self.count.borrow();
        if self.scenario.keep_requests {
            requests.push(request.clone());
        }
        self.count.send_modify(|count| *count += 1);
        request
    }

    fn problem(&self, request: &RecordedRequest, problem: &str) {
        let line = format!("request {}: {problem}", request.received_at_index);
        tracing::warn!("{line}");
        self.problems.lock().push(line);
    }

    async fn messages(
        &self,
        request: &RecordedRequest,
        outline: Result<validate::Body<'_>, validate::BodyError>,
        dialect: Dialect,
        read: &Read,
    ) -> Result<Response<Body>, io::Error> {
        let call = Call {
            endpoint: Endpoint::Messages,
            dialect,
            read,
        };
        let input = match self.verdict(request, outline, &call) {
            Verdict::Good(input) => input,
            Verdict::Refused(response) => return Ok(response),
        };
        let listed = self.queue.lock().take(request);
        let made_up = || {
            self.scenario
                .responder
                .as_ref()
                .map(|responder| responder(request))
        };
        let Some(reply) = listed.or_else(made_up) else {
            let message = format!(
                "the scenario has no reply left (last user text: {:?}, last tool result: {:?})",
                shortened(&request.last_user_text()),
                shortened(&request.last_tool_result()),
            );
            self.problem(request, &message);
            return Ok(self.error_in(dialect, 400, None, Some(&message), &[]));
        };
        for wait in &reply.before_headers {
            play::wait_for(wait, &self.gates).await;
        }
        let headers: Vec<(&str, &str)> = reply
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        match &reply.fault {
            Some(Fault::HangUp) => {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "hung up"));
            }
            Some(Fault::NeverAnswer) => std::future::pending().await,
            Some(Fault::Error {
                status,
                kind,
                message,
            }) => {
                return Ok(self.error_in(
                    dialect,
                    *status,
                    kind.as_deref(),
                    message.as_deref(),
                    &headers,
                ));
            }
            Some(Fault::Raw {
                status,
                content_type,
                body,
            }) => {
                let stream = Stream::plain(body.clone().into_bytes());
                let body = play::body(&stream, &reply, dialect, &self.gates);
                return Ok(self.with_body(*status, &headers, content_type, body));
            }
            None => {}
        }
        let message = Message::new(&reply, request, &self.ids, input);
        self.validator
            .lock()
            .issued
            .remember(&message.model, &message.content);
        let (stream, content_type) = if request.wants_stream() {
            let kind = match dialect {
                Dialect::Bedrock => "application/vnd.amazon.eventstream",
                _ => "text/event-stream; charset=utf-8",
            };
            (message.stream(&reply, dialect), kind)
        } else {
            (
                Stream::plain(dialect.whole(&message).to_string().into_bytes()),
                "application/json",
            )
        };
        let body = play::body(&stream, &reply, dialect, &self.gates);
        Ok(self.with_body(200, &headers, content_type, body))
    }

    /// Checks a request's headers and body.
    fn verdict(
        &self,
        request: &RecordedRequest,
        outline: Result<validate::Body<'_>, validate::BodyError>,
        call: &Call<'_>,
    ) -> Verdict {
        let Call {
            endpoint,
            dialect,
            read,
        } = *call;
        let bytes = request.raw_body.len();
        if bytes > BODY_LIMIT {
            let message = "Request exceeds the maximum size";
            return Verdict::Refused(self.error(413, None, Some(message), &[]));
        }
        if let Some(refused) = self.check_key(request, dialect) {
            return refused;
        }
        if self.scenario.validation == Validation::Off {
            return Verdict::Good(InputTokens {
                plain: bytes as u64 / BYTES_PER_TOKEN,
                ..InputTokens::default()
            });
        }
        let mut problems = read.problems.clone();
        if dialect == Dialect::Messages && request.header("anthropic-version") != Some("2023-06-01")
        {
            problems.push("anthropic-version: header must be 2023-06-01".to_owned());
        }
        let content_type = request.header("content-type").unwrap_or_default();
        if !content_type.starts_with("application/json") {
            problems.push(format!(
                "content-type: must be application/json, not {content_type:?}"
            ));
        }
        let mut input = InputTokens {
            plain: bytes as u64 / BYTES_PER_TOKEN,
            ..InputTokens::default()
        };
        match (outline, self.scenario.validation) {
            (Err(problem), _) => problems.push(problem.to_string()),
            (Ok(body), Validation::Light | Validation::Off) => Validator::check_outline(
                &body,
                endpoint,
                &self.scenario.allowed_fields,
                &mut problems,
            ),
            (Ok(body), Validation::Full) => {
                let prefix = self.validator.lock().check(
                    &body,
                    endpoint,
                    &self.scenario.allowed_fields,
                    request.header("anthropic-beta").unwrap_or_default(),
                    &mut problems,
                );
                input.plain = prefix.tokens();
                if problems.is_empty() && endpoint == Endpoint::Messages {
                    if let Some(window) = self.scenario.context_window
                        && prefix.tokens() > window
                    {
                        let message = dialect.too_long(prefix.tokens(), window);
                        return Verdict::Refused(self.error_in(
                            dialect,
                            400,
                            None,
                            Some(&message),
                            &[],
                        ));
                    }
                    let minimum = self.scenario.cache_minimum_tokens;
                    input = if dialect.is_messages() {
                        self.cache.lock().account(&prefix, minimum)
                    } else {
                        let (read, total) = self.automatic.lock().account(&read.units);
                        InputTokens {
                            plain: (total - read) / BYTES_PER_TOKEN,
                            read: read / BYTES_PER_TOKEN,
                            ..InputTokens::default()
                        }
                    };
                }
            }
        }
        if problems.is_empty() {
            return Verdict::Good(input);
        }
        for problem in &problems {
            self.problem(request, problem);
        }
        Verdict::Refused(self.error_in(dialect, 400, None, Some(&problems.join("; ")), &[]))
    }

    /// Checks who sends a request; gives the refusal.
    fn check_key(&self, request: &RecordedRequest, dialect: Dialect) -> Option<Verdict> {
        let accepted = &self.scenario.accepted_keys;
        match request.key() {
            None if dialect == Dialect::Messages => {
                self.problem(request, "neither x-api-key nor a bearer token is given");
                return Some(Verdict::Refused(self.error(401, None, None, &[])));
            }
            key if !accepted.is_empty()
                && dialect != Dialect::Bedrock
                && !accepted
                    .iter()
                    .any(|accepted| Some(accepted.as_str()) == key) =>
            {
                // Some servers repeat the key; a client must not pass it on.
                let message = format!("Incorrect API key provided: {}", key.unwrap_or_default());
                let message = match dialect {
                    Dialect::Messages => "invalid x-api-key",
                    _ => message.as_str(),
                };
                return Some(Verdict::Refused(self.error_in(
                    dialect,
                    401,
                    None,
                    Some(message),
                    &[],
                )));
            }
            _ => {}
        }
        None
    }

    fn count_tokens(
        &self,
        request: &RecordedRequest,
        outline: Result<validate::Body<'_>, validate::BodyError>,
    ) -> Response<Body> {
        let call = Call {
            endpoint: Endpoint::CountTokens,
            dialect: Dialect::Messages,
            read: &Read::default(),
        };
        match self.verdict(request, outline, &call) {
            Verdict::Good(input) => self.json(200, &json!({"input_tokens": input.plain}), &[]),
            Verdict::Refused(response) => response,
        }
    }

    fn models(&self) -> Response<Body> {
        let models = &self.scenario.models;
        let data: Vec<Value> = models
            .iter()
            .map(|id| {
                json!({
                    "type": "model",
                    "id": id,
                    "display_name": id,
                    "created_at": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        let listing = json!({
            "data": data,
            "has_more": false,
            "first_id": models.first(),
            "last_id": models.last(),
        });
        self.json(200, &listing, &[])
    }

    /// An error as the API words it.
    fn error(
        &self,
        status: u16,
        kind: Option<&str>,
        message: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        self.error_in(Dialect::Messages, status, kind, message, headers)
    }

    /// An error as a format words it.
    fn error_in(
        &self,
        dialect: Dialect,
        status: u16,
        kind: Option<&str>,
        message: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        let (usual_kind, usual_message) = usual_error(status);
        let body = dialect.error(
            status,
            kind.unwrap_or(usual_kind),
            message.unwrap_or(usual_message),
            &self.ids.next("req"),
        );
        self.json(status, &body, headers)
    }

    fn json(&self, status: u16, body: &Value, headers: &[(&str, &str)]) -> Response<Body> {
        self.respond(
            status,
            headers,
            "application/json",
            Bytes::from(body.to_string()),
        )
    }

    fn respond(
        &self,
        status: u16,
        headers: &[(&str, &str)],
        content_type: &str,
        body: Bytes,
    ) -> Response<Body> {
        let body = http_body_util::Full::new(body)
            .map_err(|never| match never {})
            .boxed_unsync();
        self.with_body(status, headers, content_type, body)
    }

    fn with_body(
        &self,
        status: u16,
        headers: &[(&str, &str)],
        content_type: &str,
        body: Body,
    ) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let request_id = self.ids.next("req");
        let usual = [
            ("content-type", content_type),
            ("request-id", request_id.as_str()),
        ];
        let limits: &[(&str, &str)] = if self.scenario.rate_limit_headers {
            RATE_LIMIT_HEADERS
        } else {
            &[]
        };
        for (name, value) in usual.iter().chain(limits).chain(headers) {
            insert_header(response.headers_mut(), name, value);
        }
        response
    }
}

fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) {
    match (
        HeaderName::from_bytes(name.as_bytes()),
        HeaderValue::from_str(value),
    ) {
        (Ok(name), Ok(value)) => {
            headers.insert(name, value);
        }
        _ => tracing::warn!("{name}: {value} can't be a header"),
    }
}

const RATE_LIMIT_HEADERS: &[(&str, &str)] = &[
    ("anthropic-ratelimit-requests-limit", "4000"),
    ("anthropic-ratelimit-requests-remaining", "3999"),
    ("anthropic-ratelimit-requests-reset", "2030-01-01T00:00:00Z"),
    ("anthropic-ratelimit-input-tokens-limit", "2000000"),
    ("anthropic-ratelimit-input-tokens-remaining", "1999000"),
    ("anthropic-ratelimit-output-tokens-limit", "400000"),
    ("anthropic-ratelimit-output-tokens-remaining", "399000"),
];

/// The type and the wording that belong to a status.
fn usual_error(status: u16) -> (&'static str, &'static str) {
    match status {
        401 => ("authentication_error", "invalid x-api-key"),
        402 => ("billing_error", "Your credit balance is too low"),
        403 => (
            "permission_error",
            "Your API key does not have permission to do this",
        ),
        404 => (
            "not_found_error",
            "The requested resource could not be found",
        ),
        408 | 504 => ("timeout_error", "Request timed out"),
        409 => ("conflict_error", "The request conflicts with another one"),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => (
            "rate_limit_error",
            "This request would exceed your rate limit",
        ),
        529 => ("overloaded_error", "Overloaded"),
        500..=599 => ("api_error", "Internal server error"),
        _ => ("invalid_request_error", "The request is invalid"),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}
