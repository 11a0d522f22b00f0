//! The headers of a request: ours, those that say who asks, and the user's, which come last. And what errors say of them.

use super::config::AnthropicConfig;
use super::credentials::Credentials;
use crate::error::{ModelError, Origin};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{HeaderName, HeaderValue};

const API_VERSION: &str = "2023-06-01";
const BETA: &str = "anthropic-beta";

/// The headers of every request to a server.
pub(super) struct Headers {
    ours: HeaderMap,
    /// The user's; without a value, one of ours is removed.
    own: Vec<(HeaderName, Option<HeaderValue>)>,
}

impl Headers {
    pub(super) fn new(config: &AnthropicConfig, provider: &str) -> Result<Self, ModelError> {
        let mut ours = HeaderMap::new();
        ours.insert("anthropic-version", HeaderValue::from_static(API_VERSION));
        ours.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        ours.insert(USER_AGENT, user_agent(config.client_app.as_deref()));
        let setting = if provider == crate::providers::ANTHROPIC {
            "ANTHROPIC_CUSTOM_HEADERS".to_owned()
        } else {
            format!("providers.{provider}.headers")
        };
        let mut own = Vec::new();
        for (name, value) in &config.headers {
            let wrong = |what: &str| ModelError::Configuration {
                message: format!("{setting}: {what} of {name:?} is not allowed in HTTP"),
            };
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong("the name"))?;
            let mut text = HeaderValue::try_from(value.as_str()).map_err(|_| wrong("the value"))?;
            text.set_sensitive(true);
            own.push((key, (!value.is_empty()).then_some(text)));
        }
        Ok(Self { ours, own })
    }

    /// The headers of one request.
    pub(super) fn of_request<'a>(
        &self,
        credentials: &Credentials,
        betas: impl Iterator<Item = &'a String>,
        accept: &'static str,
    ) -> Result<HeaderMap, ModelError> {
        let mut headers = self.ours.clone();
        show(credentials, &mut headers)?;
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        for (name, value) in &self.own {
            match value {
                Some(value) => headers.insert(name, value.clone()),
                None => headers.remove(name),
            };
        }
        let removed = |(name, value): &(HeaderName, Option<HeaderValue>)| {
            name.as_str() == BETA && value.is_none()
        };
        if !self.own.iter().any(removed) {
            add_betas(&mut headers, betas)?;
        }
        Ok(headers)
    }

    fn secrets(&self) -> impl Iterator<Item = String> + '_ {
        let values = self.own.iter().filter_map(|(_, value)| value.as_ref());
        values.filter_map(|value| value.to_str().ok().map(str::to_owned))
    }
}

/// Completes errors: which model of which provider it was, and without the secrets that were sent.
#[derive(Clone, Default)]
pub(super) struct Telling {
    origin: Option<Origin>,
    secrets: Vec<String>,
}

impl Telling {
    pub(super) fn new(
        headers: &Headers,
        credentials: &Credentials,
        origin: Option<Origin>,
    ) -> Self {
        let keys = [&credentials.api_key, &credentials.bearer];
        let keys = keys.into_iter().flatten().cloned();
        let secrets = keys.chain(headers.secrets());
        Self {
            origin,
            secrets: secrets.filter(|secret| secret.len() >= 6).collect(),
        }
    }

    pub(super) fn told(&self, mut error: ModelError) -> ModelError {
        if let Some(failure) = error.failure_mut() {
            self.redact(&mut failure.message);
            failure.origin = self.origin.clone().map(Box::new);
        } else if let ModelError::Protocol { message, .. } | ModelError::Truncated { message } =
            &mut error
        {
            self.redact(message);
        }
        error
    }

    fn redact(&self, text: &mut String) {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "[key]");
            }
        }
    }
}

pub(crate) fn user_agent(client_app: Option<&str>) -> HeaderValue {
    const OWN: &str = concat!("lathe/", env!("CARGO_PKG_VERSION"));
    client_app
        .and_then(|app| HeaderValue::try_from(format!("{OWN} ({app})")).ok())
        .unwrap_or_else(|| HeaderValue::from_static(OWN))
}

fn show(credentials: &Credentials, headers: &mut HeaderMap) -> Result<(), ModelError> {
    // The value itself is never repeated in a message.
    let secret = |text: String| {
        let mut value = HeaderValue::try_from(text).map_err(|_| ModelError::Configuration {
            message: "the API key contains characters that can't be sent (a line break or a non-ASCII character)".to_owned(),
        })?;
        value.set_sensitive(true);
        Ok::<HeaderValue, ModelError>(value)
    };
    if let Some(key) = &credentials.api_key {
        headers.insert("x-api-key", secret(key.clone())?);
    }
    if let Some(token) = &credentials.bearer {
        headers.insert(AUTHORIZATION, secret(format!("Bearer {token}"))?);
    }
    Ok(())
}

fn add_betas<'a>(
    headers: &mut HeaderMap,
    betas: impl Iterator<Item = &'a String>,
) -> Result<(), ModelError> {
    // A beta header among the custom ones is used too.
    let own = headers
        .get(BETA)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let mut names: Vec<&str> = own
        .iter()
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect();
    for beta in betas {
        if !names.contains(&beta.as_str()) {
            names.push(beta);
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    let value = HeaderValue::try_from(names.join(",")).map_err(|_| ModelError::Configuration {
        message: "a beta name contains characters that can't be sent".to_owned(),
    })?;
    headers.insert(BETA, value);
    Ok(())
}
