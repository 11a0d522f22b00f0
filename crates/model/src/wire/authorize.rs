//! How a request shows who sends it.

use crate::anthropic::credentials::CredentialSource;
use crate::body::RequestBody;
use crate::cloud::aws::Aws;
use crate::cloud::google::Google;
use crate::error::ModelError;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use http::{HeaderValue, Method};
use parking_lot::Mutex;
use std::sync::Arc;
use url::Url;

/// How a request shows who sends it.
pub(crate) enum Authorizer {
    /// A key in a header.
    Header(Box<KeyHeader>),
    /// A signature of AWS.
    Aws(Arc<Aws>),
    /// An access token of Google.
    Google(Arc<Google>),
}

/// A key in a header.
pub(crate) struct KeyHeader {
    pub(crate) name: HeaderName,
    /// The prefix of the key.
    pub(crate) prefix: &'static str,
    pub(crate) source: CredentialSource,
    /// The keys that were sent, for taking them out of messages.
    pub(crate) seen: Mutex<Vec<String>>,
}

impl KeyHeader {
    pub(crate) fn bearer(source: CredentialSource) -> Self {
        Self::new(AUTHORIZATION, "Bearer ", source)
    }

    pub(crate) fn new(name: HeaderName, prefix: &'static str, source: CredentialSource) -> Self {
        Self {
            name,
            prefix,
            source,
            seen: Mutex::default(),
        }
    }
}

impl Authorizer {
    /// Adds to the headers what the server wants to see.
    pub(crate) async fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &RequestBody,
    ) -> Result<(), ModelError> {
        match self {
            Self::Header(key) => {
                let credentials = key.source.current().await?;
                let Some(secret) = credentials.api_key else {
                    return Ok(());
                };
                note(&key.seen, &secret);
                headers.insert(
                    key.name.clone(),
                    sensitive(format!("{}{secret}", key.prefix))?,
                );
                Ok(())
            }
            Self::Aws(aws) => aws.sign(method, url, headers, body).await,
            Self::Google(google) => {
                let token = google.token().await?;
                headers.insert(AUTHORIZATION, sensitive(format!("Bearer {token}"))?);
                Ok(())
            }
        }
    }

    /// Fetches fresh credentials after a refusal.
    pub(crate) async fn refresh(&self) -> Result<bool, ModelError> {
        match self {
            Self::Header(key) => key.source.refresh().await,
            Self::Aws(aws) => aws.refresh().await,
            Self::Google(google) => google.refresh().await,
        }
    }

    /// The secrets that were sent.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Header(key) => key.seen.lock().clone(),
            Self::Aws(aws) => aws.secrets(),
            Self::Google(google) => google.secrets(),
        }
    }
}

pub(crate) fn note(seen: &Mutex<Vec<String>>, secret: &str) {
    let mut seen = seen.lock();
    if !seen.iter().any(|known| known == secret) {
        seen.push(secret.to_owned());
    }
}

/// A header value that is not shown in logs. The value itself is never repeated in a message.
pub(crate) fn sensitive(text: String) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| ModelError::Configuration {
        message:
            "the API key contains characters that can't be sent (a line break or a non-ASCII character)"
                .to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}
