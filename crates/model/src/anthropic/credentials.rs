//! Keys: given ones, and those that a helper command prints.

use super::config::AnthropicConfig;
use crate::error::ModelError;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Runs the user's key command. The argument tells whether the last key was refused, so that a
/// helper with a cache of its own can drop it.
pub type KeyHelper =
    Arc<dyn Fn(bool) -> BoxFuture<'static, Result<String, KeyHelperError>> + Send + Sync>;

/// Why the user's key command gave no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyHelperError(pub String);

/// The credentials of a request.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) api_key: Option<String>,
    pub(crate) bearer: Option<String>,
}

/// Where a provider's credentials come from.
pub(crate) struct CredentialSource {
    given: Credentials,
    helper: Option<KeyHelper>,
    lifetime: Duration,
    /// Held while the helper runs: two requests at once ask for one key, not for two.
    cached: Mutex<Option<(String, Instant)>>,
}

impl CredentialSource {
    pub(crate) fn new(config: &AnthropicConfig) -> Self {
        let given = Credentials {
            api_key: config.api_key.clone(),
            bearer: config.auth_token.clone(),
        };
        Self::of(given, config.key_helper.clone(), config.key_helper_lifetime)
    }

    /// Given credentials, or those of a helper where there are none.
    pub(crate) fn of(given: Credentials, helper: Option<KeyHelper>, lifetime: Duration) -> Self {
        let helper = helper.filter(|_| given == Credentials::default());
        Self {
            given,
            helper,
            lifetime,
            cached: Mutex::new(None),
        }
    }

    /// A key that was given.
    pub(crate) fn key(key: Option<String>) -> Self {
        let given = Credentials {
            api_key: key,
            bearer: None,
        };
        Self::of(given, None, Duration::ZERO)
    }

    /// Whether there is anything to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.given == Credentials::default() && self.helper.is_none()
    }

    /// The credentials for the next request.
    pub(crate) async fn current(&self) -> Result<Credentials, ModelError> {
        let Some(helper) = &self.helper else {
            return Ok(self.given.clone());
        };
        let mut cached = self.cached.lock().await;
        if let Some((key, at)) = cached.as_ref()
            && at.elapsed() < self.lifetime
        {
            return Ok(both_ways(key));
        }
        let key = ask(helper, false).await?;
        *cached = Some((key.clone(), Instant::now()));
        Ok(both_ways(&key))
    }

    /// Asks the helper again after a refusal; `false` without one.
    pub(crate) async fn refresh(&self) -> Result<bool, ModelError> {
        let Some(helper) = &self.helper else {
            return Ok(false);
        };
        let mut cached = self.cached.lock().await;
        *cached = None;
        let key = ask(helper, true).await?;
        *cached = Some((key, Instant::now()));
        Ok(true)
    }
}

async fn ask(helper: &KeyHelper, refresh: bool) -> Result<String, ModelError> {
    let key = helper(refresh)
        .await
        .map_err(|KeyHelperError(message)| ModelError::KeyHelper { message })?;
    let key = key.trim();
    if key.is_empty() {
        return Err(ModelError::KeyHelper {
            message: "it printed nothing".to_owned(),
        });
    }
    Ok(key.to_owned())
}

/// A helper's key may be of either kind, and only its server knows which: it is sent both ways.
fn both_ways(key: &str) -> Credentials {
    Credentials {
        api_key: Some(key.to_owned()),
        bearer: Some(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A helper that numbers its keys.
    fn numbering() -> KeyHelper {
        let calls = AtomicUsize::new(0);
        Arc::new(move |_| {
            let number = calls.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(Ok(format!("key-{number}"))))
        })
    }

    async fn key(source: &CredentialSource) -> Option<String> {
        source.current().await.unwrap().api_key
    }

    #[tokio::test]
    async fn a_helpers_key_is_kept_for_its_lifetime() {
        let config = AnthropicConfig {
            key_helper: Some(numbering()),
            ..AnthropicConfig::default()
        };
        let source = CredentialSource::new(&config);
        assert_eq!(key(&source).await.as_deref(), Some("key-0"));
        assert_eq!(key(&source).await.as_deref(), Some("key-0"));
        assert_eq!(source.refresh().await, Ok(true));
        assert_eq!(key(&source).await.as_deref(), Some("key-1"));
        let config = AnthropicConfig {
            key_helper: Some(numbering()),
            key_helper_lifetime: Duration::ZERO,
            ..AnthropicConfig::default()
        };
        let source = CredentialSource::new(&config);
        assert_eq!(key(&source).await.as_deref(), Some("key-0"));
        assert_eq!(key(&source).await.as_deref(), Some("key-1"));
    }

    #[tokio::test]
    async fn two_requests_at_once_ask_for_one_key() {
        let config = AnthropicConfig {
            key_helper: Some(numbering()),
            ..AnthropicConfig::default()
        };
        let source = CredentialSource::new(&config);
        let (one, two) = futures::join!(key(&source), key(&source));
        assert_eq!(one, two);
    }

    #[tokio::test]
    async fn a_given_key_takes_precedence_over_the_helper() {
        let config = AnthropicConfig {
            api_key: Some("given".into()),
            key_helper: Some(numbering()),
            ..AnthropicConfig::default()
        };
        let source = CredentialSource::new(&config);
        assert_eq!(key(&source).await.as_deref(), Some("given"));
        assert_eq!(source.refresh().await, Ok(false));
    }
}
