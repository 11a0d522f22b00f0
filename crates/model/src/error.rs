//! Why a model call failed, classified by what has to be done about it.
//!
//! [`ModelError`] has one variant per *reaction*: compact, drop a block, ask for a key, wait, give up.
//! Its text is what the user or an SDK host sees: first `API Error: …`, then a line with the way out.

use std::fmt;
use std::time::Duration;

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The API says that the request is wrong.
    InvalidRequest(Box<ApiFailure>),
    /// The conversation doesn't fit into the context window.
    PromptTooLong {
        /// The message of the API.
        failure: Box<ApiFailure>,
        /// How many tokens it is, if the API said so.
        tokens: Option<u64>,
        /// How many it may be, if the API said so.
        limit: Option<u64>,
    },
    /// The request has too many bytes.
    RequestTooLarge(Box<ApiFailure>),
    /// An image is too large, or can't be read.
    ImageTooLarge {
        /// The message of the API.
        failure: Box<ApiFailure>,
        /// Which block it is, if the API said so.
        at: Option<BlockPosition>,
    },
    /// A PDF is too large or too long, or can't be read.
    PdfTooLarge {
        /// The message of the API.
        failure: Box<ApiFailure>,
        /// Which block it is, if the API said so.
        at: Option<BlockPosition>,
    },
    /// The model doesn't take back reasoning in the conversation (another model's, or the
    /// conversation before it changed). Without the reasoning the request would be accepted.
    ThinkingRejected(Box<ApiFailure>),
    /// The key is missing, wrong, expired, or may not do this.
    Authentication(Box<ApiFailure>),
    /// The account can't pay.
    Billing(Box<ApiFailure>),
    /// Too many requests.
    RateLimited(Box<ApiFailure>),
    /// The API has too much to do.
    Overloaded(Box<ApiFailure>),
    /// There is no such model, or not for this key.
    ModelNotFound(Box<ApiFailure>),
    /// There is no such address on the server.
    NotFound(Box<ApiFailure>),
    /// The API failed.
    Server(Box<ApiFailure>),
    /// The API could not be reached, or the connection broke before it answered.
    Network {
        /// The kind of failure.
        trouble: NetworkTrouble,
        /// The address that was tried.
        url: String,
        /// The message of the system.
        message: String,
    },
    /// The API did not answer in time.
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// A stream stopped moving.
    Stalled {
        /// The limit.
        after: Duration,
    },
    /// A response ended before it was complete.
    Truncated {
        /// How it ended.
        message: String,
    },
    /// The server answers, but not in the API's language.
    Protocol {
        /// The address.
        url: String,
        /// Why the response is invalid.
        message: String,
    },
    /// There is no key at all.
    NoCredentials,
    /// A provider has no key, or a variable that its declaration names isn't set.
    MissingKey {
        /// Which one, and what to do.
        message: String,
    },
    /// The command that prints the key failed.
    KeyHelper {
        /// The mistake.
        message: String,
    },
    /// A setting for the connection is unusable.
    Configuration {
        /// Which one and why.
        message: String,
    },
    /// The call was cancelled.
    Cancelled,
}

/// The details of a refusal by the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiFailure {
    /// The HTTP status; absent when a stream reported the trouble.
    pub status: Option<u16>,
    /// The API's word for it, for example `invalid_request_error`.
    pub kind: Option<String>,
    /// Its message.
    pub message: String,
    /// The API's id of the request.
    pub request_id: Option<String>,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
    /// Its own opinion on trying again.
    pub should_retry: Option<bool>,
    /// Which model of which provider it was; absent for the provider of the `ANTHROPIC_*` variables.
    pub origin: Option<Box<Origin>>,
}

/// Where a refusal came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// `provider/model`.
    pub model: String,
    /// The address that was asked.
    pub url: String,
    /// Where the key comes from, in words.
    pub key: String,
}

/// Where in a request a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPosition {
    /// The message's index.
    pub message: usize,
    /// The block's index in the message.
    pub block: usize,
    /// For a block inside a tool result: its index there.
    pub inner: Option<usize>,
}

/// Kinds of trouble below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkTrouble {
    /// No such host.
    UnknownHost,
    /// The name could not be looked up now.
    NameLookup,
    /// Nobody listens there.
    Refused,
    /// Nobody listens there, and it is this machine: waiting rarely helps.
    NotRunning,
    /// The server's certificate isn't trusted.
    Certificate,
    /// The TLS handshake failed.
    Tls,
    /// The proxy failed or refused.
    Proxy,
    /// No connection in time.
    ConnectTimeout,
    /// The connection broke.
    Lost,
}

impl ModelError {
    /// The message of the API, if there is one.
    #[must_use]
    pub fn failure(&self) -> Option<&ApiFailure> {
        match self {
            Self::InvalidRequest(failure)
            | Self::PromptTooLong { failure, .. }
            | Self::RequestTooLarge(failure)
            | Self::ImageTooLarge { failure, .. }
            | Self::PdfTooLarge { failure, .. }
            | Self::ThinkingRejected(failure)
            | Self::Authentication(failure)
            | Self::Billing(failure)
            | Self::RateLimited(failure)
            | Self::Overloaded(failure)
            | Self::ModelNotFound(failure)
            | Self::NotFound(failure)
            | Self::Server(failure) => Some(failure),
            Self::Network { .. }
            | Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Truncated { .. }
            | Self::Protocol { .. }
            | Self::NoCredentials
            | Self::MissingKey { .. }
            | Self::KeyHelper { .. }
            | Self::Configuration { .. }
            | Self::Cancelled => None,
        }
    }

    /// The same, to be changed.
    pub fn failure_mut(&mut self) -> Option<&mut ApiFailure> {
        match self {
            Self::InvalidRequest(failure)
            | Self::PromptTooLong { failure, .. }
            | Self::RequestTooLarge(failure)
            | Self::ImageTooLarge { failure, .. }
            | Self::PdfTooLarge { failure, .. }
            | Self::ThinkingRejected(failure)
            | Self::Authentication(failure)
            | Self::Billing(failure)
            | Self::RateLimited(failure)
            | Self::Overloaded(failure)
            | Self::ModelNotFound(failure)
            | Self::NotFound(failure)
            | Self::Server(failure) => Some(failure),
            _ => None,
        }
    }

    /// The HTTP status, if there was an answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.failure().and_then(|failure| failure.status)
    }

    /// The API's id of the request.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.failure()
            .and_then(|failure| failure.request_id.as_deref())
    }

    /// How long the API asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.failure().and_then(|failure| failure.retry_after)
    }

    /// Whether the same request may succeed later. The API's own opinion takes precedence.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        if let Some(opinion) = self.failure().and_then(|failure| failure.should_retry) {
            return opinion;
        }
        match self {
            Self::RateLimited(_)
            | Self::Overloaded(_)
            | Self::Server(_)
            | Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Truncated { .. } => true,
            Self::Network { trouble, .. } => match trouble {
                NetworkTrouble::NameLookup
                | NetworkTrouble::Refused
                | NetworkTrouble::NotRunning
                | NetworkTrouble::Tls
                | NetworkTrouble::Proxy
                | NetworkTrouble::ConnectTimeout
                | NetworkTrouble::Lost => true,
                NetworkTrouble::UnknownHost | NetworkTrouble::Certificate => false,
            },
            Self::InvalidRequest(_)
            | Self::PromptTooLong { .. }
            | Self::RequestTooLarge(_)
            | Self::ImageTooLarge { .. }
            | Self::PdfTooLarge { .. }
            | Self::ThinkingRejected(_)
            | Self::Authentication(_)
            | Self::Billing(_)
            | Self::ModelNotFound(_)
            | Self::NotFound(_)
            | Self::Protocol { .. }
            | Self::NoCredentials
            | Self::MissingKey { .. }
            | Self::KeyHelper { .. }
            | Self::Configuration { .. }
            | Self::Cancelled => false,
        }
    }

    /// The word that SDK hosts know this by.
    #[must_use]
    pub fn sdk_kind(&self) -> &'static str {
        match self {
            Self::Authentication(_)
            | Self::NoCredentials
            | Self::MissingKey { .. }
            | Self::KeyHelper { .. } => "authentication_failed",
            Self::Billing(_) => "billing_error",
            Self::RateLimited(_) => "rate_limit",
            Self::Overloaded(_) => "overloaded",
            Self::InvalidRequest(_)
            | Self::PromptTooLong { .. }
            | Self::RequestTooLarge(_)
            | Self::ImageTooLarge { .. }
            | Self::PdfTooLarge { .. }
            | Self::ThinkingRejected(_)
            | Self::NotFound(_) => "invalid_request",
            Self::ModelNotFound(_) => "model_not_found",
            Self::Server(_)
            | Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Truncated { .. } => "server_error",
            Self::Network { .. }
            | Self::Protocol { .. }
            | Self::Configuration { .. }
            | Self::Cancelled => "unknown",
        }
    }

    /// The first line of the text: what happened.
    #[must_use]
    pub fn summary(&self) -> String {
        if let Some(failure) = self.failure() {
            return failure.to_string();
        }
        match self {
            Self::Network {
                trouble,
                url,
                message,
            } => {
                let what = match trouble {
                    NetworkTrouble::UnknownHost => "no such host",
                    NetworkTrouble::NameLookup => "the host name could not be resolved",
                    NetworkTrouble::Refused | NetworkTrouble::NotRunning => {
                        "the connection was refused"
                    }
                    NetworkTrouble::Certificate => "the server's certificate is not trusted",
                    NetworkTrouble::Tls => "the TLS handshake failed",
                    NetworkTrouble::Proxy => "the proxy did not let the request through",
                    NetworkTrouble::ConnectTimeout => "no connection in time",
                    NetworkTrouble::Lost => "the connection was lost",
                };
                format!("API Error: can't reach {url}: {what} ({message})")
            }
            Self::Timeout { after } => {
                format!("API Error: no answer within {} s", after.as_secs_f64())
            }
            Self::Stalled { after } => {
                format!(
                    "API Error: the response stalled for {} s",
                    after.as_secs_f64()
                )
            }
            Self::Truncated { message } => {
                format!("API Error: the response ended early: {message}")
            }
            Self::Protocol { url, message } => {
                format!("API Error: {url} did not send a valid API response: {message}")
            }
            Self::NoCredentials => "API Error: there is no API key".to_owned(),
            Self::KeyHelper { message } => format!("API Error: apiKeyHelper failed: {message}"),
            Self::Configuration { message } | Self::MissingKey { message } => {
                format!("API Error: {message}")
            }
            Self::Cancelled => "API Error: the request was cancelled".to_owned(),
            // Every other variant carries a failure and has been answered above.
            _ => String::new(),
        }
    }

    /// The second line: the way out, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        if let Some(hint) = self.hint_of_origin() {
            return Some(hint);
        }
        let text = match self {
            Self::PromptTooLong { .. } => "run /compact, or start a new session",
            Self::RequestTooLarge(_) => "run /compact, or attach smaller files",
            Self::ImageTooLarge { .. } => {
                "use a smaller image (at most 5 MB and 8000 pixels a side)"
            }
            Self::PdfTooLarge { .. } => "use fewer pages (the Read tool takes a page range)",
            Self::ThinkingRejected(_) => {
                "start a new session, or continue with the model that wrote the reasoning"
            }
            Self::Authentication(_) => {
                "check ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or the apiKeyHelper setting; make a key at https://platform.claude.com"
            }
            Self::Billing(_) => "check plan and credit at https://platform.claude.com",
            Self::RateLimited(failure) => match failure.retry_after {
                Some(wait) => {
                    return Some(format!("the API asks to wait {} s", wait.as_secs()));
                }
                None => "wait a little, or use another model (--model)",
            },
            Self::Overloaded(_) => "try again later, or name another model with --fallback-model",
            Self::ModelNotFound(_) => {
                "check the model's name (--model, ANTHROPIC_MODEL) and that the key may use it"
            }
            Self::NotFound(_) => "check ANTHROPIC_BASE_URL: the path /v1/messages is added to it",
            Self::Server(_) => "try again; known incidents are listed at https://status.claude.com",
            Self::Network { trouble, .. } => match trouble {
                NetworkTrouble::UnknownHost => {
                    "check the address for a typo (ANTHROPIC_BASE_URL, or baseUrl of the provider)"
                }
                NetworkTrouble::NameLookup => "check the network connection and the name server",
                NetworkTrouble::Refused => {
                    "check the address (ANTHROPIC_BASE_URL, or baseUrl of the provider), and that the server runs"
                }
                NetworkTrouble::NotRunning => {
                    "start the server, or check the address (ANTHROPIC_BASE_URL, or baseUrl of the provider); `lathe models` lists what runs on this machine"
                }
                NetworkTrouble::Certificate => {
                    "if a company proxy inspects TLS, set its CA file in NODE_EXTRA_CA_CERTS (added to the system's) or SSL_CERT_FILE (instead of them)"
                }
                NetworkTrouble::Tls => "check that the address is https, and any proxy in between",
                NetworkTrouble::Proxy => {
                    "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY; NO_PROXY lists hosts to reach directly"
                }
                NetworkTrouble::ConnectTimeout | NetworkTrouble::Lost => {
                    "check the network connection; behind a proxy set HTTPS_PROXY"
                }
            },
            Self::Timeout { .. } => "API_TIMEOUT_MS sets the limit",
            Self::Stalled { .. } => "LATHE_STREAM_IDLE_TIMEOUT_MS sets the limit",
            Self::Truncated { .. } => "try again; a proxy in between may cut long responses",
            Self::Protocol { .. } => {
                "check the address (ANTHROPIC_BASE_URL, or baseUrl and kind of the provider): it must provide that API"
            }
            Self::NoCredentials => {
                "set ANTHROPIC_API_KEY (make one at https://platform.claude.com), or point ANTHROPIC_BASE_URL at a local model"
            }
            Self::KeyHelper { .. } => {
                "run the apiKeyHelper command yourself; it must print the key and exit with 0"
            }
            Self::InvalidRequest(_)
            | Self::Configuration { .. }
            | Self::MissingKey { .. }
            | Self::Cancelled => return None,
        };
        Some(text.to_owned())
    }
}

impl ModelError {
    /// The way out where another provider than that of the `ANTHROPIC_*` variables refused.
    fn hint_of_origin(&self) -> Option<String> {
        let origin = self.failure()?.origin.as_deref()?;
        let Origin { model, url, key } = origin;
        let provider = model.split('/').next().unwrap_or_default();
        Some(match self {
            Self::Authentication(_) => format!("check {key}"),
            Self::Billing(_) => {
                format!("check plan and credit at {provider}, or use another model (--model)")
            }
            Self::ModelNotFound(failure) if failure.message.contains("on-demand throughput") => {
                format!(
                    "{model} can't be called by its plain id: use its inference profile (us., eu. or global. before the id)"
                )
            }
            Self::ModelNotFound(_) => {
                format!(
                    "check the model's name ({model} at {url}) and that the key may use it; `lathe models` lists models"
                )
            }
            Self::NotFound(_) => {
                format!(
                    "check providers.{provider}.baseUrl: {url} does not exist (model {model}; Azure needs …/openai/v1 and the deployment's name)"
                )
            }
            Self::Server(_) => format!("try again; {url} reported an error"),
            _ => return None,
        })
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match self.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("API Error:")?;
        if let Some(status) = self.status {
            write!(f, " {status}")?;
        }
        match (self.message.as_str(), &self.kind) {
            ("", Some(kind)) => write!(f, " {kind}")?,
            ("", None) => {}
            (message, _) => write!(f, " {message}")?,
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, message: &str) -> Box<ApiFailure> {
        Box::new(ApiFailure {
            status: Some(status),
            message: message.into(),
            request_id: Some("req_1".into()),
            ..ApiFailure::default()
        })
    }

    #[test]
    fn the_text_starts_with_the_status_and_ends_with_the_way_out() {
        let error = ModelError::InvalidRequest(failure(400, "messages: empty"));
        assert_eq!(
            error.to_string(),
            "API Error: 400 messages: empty (request req_1)"
        );
        let error = ModelError::Authentication(failure(401, "invalid x-api-key"));
        let text = error.to_string();
        assert!(
            text.starts_with("API Error: 401 invalid x-api-key"),
            "{text}"
        );
        assert!(text.contains("\nhint: check ANTHROPIC_API_KEY"), "{text}");
    }

    #[test]
    fn an_unreachable_host_names_the_address_and_the_setting() {
        let error = ModelError::Network {
            trouble: NetworkTrouble::Refused,
            url: "http://127.0.0.1:1/v1/messages".into(),
            message: "os error 111".into(),
        };
        let text = error.to_string();
        assert!(text.contains("http://127.0.0.1:1/v1/messages"), "{text}");
        assert!(text.contains("ANTHROPIC_BASE_URL"), "{text}");
    }

    #[test]
    fn the_apis_own_opinion_on_trying_again_takes_precedence() {
        let mut refused = failure(529, "busy");
        refused.should_retry = Some(false);
        assert!(!ModelError::Overloaded(refused).is_retryable());
        let mut allowed = failure(400, "odd");
        allowed.should_retry = Some(true);
        assert!(ModelError::InvalidRequest(allowed).is_retryable());
        assert!(ModelError::Overloaded(failure(529, "busy")).is_retryable());
    }

    #[test]
    fn errors_stay_small_to_pass_around() {
        assert!(size_of::<ModelError>() <= 64, "{}", size_of::<ModelError>());
    }
}
