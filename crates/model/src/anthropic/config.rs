//! The configuration of a connection to the Messages API.

use super::credentials::KeyHelper;
use crate::error::ModelError;
use crate::providers::{KeySource, ProviderEntry, values};
use lathe_net::Network;
use lathe_settings::{Environment, Variable};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// The address used unless another is set.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// The host of Anthropic's own API.
pub(super) const PUBLIC_HOST: &str = "api.anthropic.com";
/// The variable of the key where settings name none.
const OWN_KEY: &str = "ANTHROPIC_API_KEY";

/// How to reach the Messages API, and as whom. A plain value: nothing here has looked at the
/// process's environment or the disk.
#[derive(Clone)]
pub struct AnthropicConfig {
    /// The server's address; `/v1/messages` is added to it.
    pub base_url: String,
    /// Sent as `x-api-key`.
    pub api_key: Option<String>,
    /// Sent as `Authorization: Bearer`.
    pub auth_token: Option<String>,
    /// Asked for a key when neither of the two is set; its answer is sent both ways.
    pub key_helper: Option<KeyHelper>,
    /// How long the helper's answer is good.
    pub key_helper_lifetime: Duration,
    /// Beta features asked for with every request.
    pub betas: Vec<String>,
    /// Requests name no beta features but these.
    pub without_experiments: bool,
    /// Fields that are added to the body of every request.
    pub extra_body: Map<String, Value>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Parameters of the address.
    pub query: Vec<(String, String)>,
    /// Added to the User-Agent: the program that Lathe works for.
    pub client_app: Option<String>,
    /// Proxies and certificates.
    pub network: Network,
    /// How long connecting may take.
    pub connect_timeout: Duration,
}

impl Default for AnthropicConfig {
    fn default() -> Self {
        Self {
            base_url: DEFAULT_BASE_URL.to_owned(),
            api_key: None,
            auth_token: None,
            key_helper: None,
            key_helper_lifetime: Duration::from_secs(300),
            betas: Vec::new(),
            without_experiments: false,
            extra_body: Map::new(),
            headers: Vec::new(),
            query: Vec::new(),
            client_app: None,
            network: Network::default(),
            connect_timeout: Duration::from_secs(30),
        }
    }
}

/// The host's part of the user agent: the application, and the version of its SDK.
pub(crate) fn client_app(environment: &Environment) -> Option<String> {
    let app = environment.get(Variable::ClientApp);
    let app = app.map(|app| format!("client-app/{app}"));
    let sdk = environment.get(Variable::SdkVersion);
    let sdk = sdk.map(|version| format!("agent-sdk/{version}"));
    let parts: Vec<String> = app.into_iter().chain(sdk).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

impl AnthropicConfig {
    /// The configuration as the environment describes it.
    ///
    /// # Errors
    /// When `ANTHROPIC_CUSTOM_HEADERS` or a number can't be read.
    pub fn of(environment: &Environment) -> Result<Self, ModelError> {
        let get = |variable| environment.get(variable).map(str::to_owned);
        let mut config = Self::default();
        if let Some(url) = get(Variable::BaseUrl) {
            config.base_url = url;
        }
        config.api_key = get(Variable::ApiKey);
        config.auth_token = get(Variable::AuthToken);
        config.betas = list(environment.get(Variable::Betas));
        config.without_experiments = environment.is_on(Variable::DisableExperimentalBetas);
        if let Some((name, text)) = environment.get_named(Variable::ExtraBody) {
            config.extra_body =
                serde_json::from_str(text).map_err(|error| ModelError::Configuration {
                    message: format!("{name} must be a JSON object: {error}"),
                })?;
        }
        config.client_app = client_app(environment);
        if let Some(text) = environment.get(Variable::CustomHeaders) {
            config.headers = headers(text)?;
        }
        // The trace that a host started; anything else is left out rather than sent on.
        let is_trace = |text: &String| {
            text.len() >= 55
                && text
                    .chars()
                    .all(|letter| letter.is_ascii_hexdigit() || letter == '-')
        };
        if let Some(trace) = get(Variable::TraceParent).filter(is_trace) {
            config.headers.push(("traceparent".to_owned(), trace));
        }
        if let Some((name, text)) = environment.get_named(Variable::ApiKeyHelperTtl) {
            let milliseconds = text.parse().map_err(|_| ModelError::Configuration {
                message: format!("{name} must be a whole number, not {text:?}"),
            })?;
            config.key_helper_lifetime = Duration::from_millis(milliseconds);
        }
        config.network = Network::of(environment);
        Ok(config)
    }

    /// Takes over what settings declare about the provider `anthropic`.
    ///
    /// # Errors
    /// When a variable that the declaration names isn't set.
    pub fn declare(
        &mut self,
        entry: &ProviderEntry,
        environment: &Environment,
        helper: impl Fn(&str) -> KeyHelper,
    ) -> Result<(), ModelError> {
        let fill = |key: &str, text: &str| {
            values::filled(text, environment).map_err(|unset| ModelError::MissingKey {
                message: format!("providers.{}.{key}: {unset}", entry.name),
            })
        };
        if let Some(url) = entry.base_url.as_deref()
            && url != DEFAULT_BASE_URL
        {
            self.base_url = fill("baseUrl", url)?;
        }
        for (name, value) in &entry.headers {
            let value = fill(&format!("headers.{name}"), value)?;
            self.headers.push((name.clone(), value));
        }
        for (name, value) in &entry.query {
            let value = fill(&format!("query.{name}"), value)?;
            self.query.push((name.clone(), value));
        }
        self.extra_body.extend(entry.body.clone());
        match &entry.key {
            KeySource::Variables(names) if names.iter().all(|name| name != OWN_KEY) => {
                let key = names.iter().find_map(|name| environment.foreign(name));
                self.api_key = key.map(|key| key.trim().to_owned());
                self.auth_token = None;
                self.key_helper = None;
            }
            KeySource::Helper(command) => {
                self.api_key = None;
                self.auth_token = None;
                self.key_helper = Some(helper(command));
            }
            KeySource::Variables(_) | KeySource::None => {}
        }
        Ok(())
    }

    /// Whether the address is that of Anthropic's own API, which needs a key.
    #[must_use]
    pub fn is_public(&self) -> bool {
        let host = url::Url::parse(self.base_url.trim());
        host.is_ok_and(|url| url.host_str() == Some(PUBLIC_HOST))
    }

    /// Where the key comes from, in the words that SDK hosts know.
    #[must_use]
    pub fn key_source(&self) -> &'static str {
        if self.api_key.is_some() {
            "ANTHROPIC_API_KEY"
        } else if self.auth_token.is_some() {
            "ANTHROPIC_AUTH_TOKEN"
        } else if self.key_helper.is_some() {
            "apiKeyHelper"
        } else {
            "none"
        }
    }
}

impl fmt::Debug for AnthropicConfig {
    /// Without secrets: a configuration ends up in debug logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header_names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("AnthropicConfig")
            .field("base_url", &self.base_url)
            .field("key_source", &self.key_source())
            .field("betas", &self.betas)
            .field("header_names", &header_names)
            .field("extra_ca_files", &self.network.extra_ca_files)
            .field("ca_file", &self.network.ca_file)
            .finish_non_exhaustive()
    }
}

fn list(text: Option<&str>) -> Vec<String> {
    text.unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

fn headers(text: &str) -> Result<Vec<(String, String)>, ModelError> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| match line.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            }
            // The line may hold a secret, so it isn't repeated.
            _ => Err(ModelError::Configuration {
                message: "ANTHROPIC_CUSTOM_HEADERS must hold one `Name: value` per line".to_owned(),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<AnthropicConfig, ModelError> {
        AnthropicConfig::of(&Environment::of_variables(pairs.iter().copied()))
    }

    #[test]
    fn the_usual_variables_are_read() {
        let config = from(&[
            ("ANTHROPIC_BASE_URL", "http://localhost:1"),
            ("ANTHROPIC_API_KEY", " key "),
            ("ANTHROPIC_AUTH_TOKEN", ""),
            ("ANTHROPIC_BETAS", "a, b,"),
            ("ANTHROPIC_CUSTOM_HEADERS", "X-One: 1\n\nX-Two: a:b\n"),
            ("https_proxy", "http://proxy"),
        ])
        .unwrap();
        assert_eq!(config.base_url, "http://localhost:1");
        assert_eq!(config.api_key.as_deref(), Some("key"));
        assert_eq!(config.auth_token, None);
        assert_eq!(config.betas, ["a", "b"]);
        assert_eq!(
            config.headers,
            [
                ("X-One".to_owned(), "1".to_owned()),
                ("X-Two".to_owned(), "a:b".to_owned())
            ]
        );
        let proxies = &config.network.proxies;
        assert_eq!(proxies.https.as_deref(), Some("http://proxy"));
        assert_eq!(config.key_source(), "ANTHROPIC_API_KEY");
    }

    #[test]
    fn a_hosts_trace_goes_with_the_requests_and_nothing_else_does() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let config = from(&[("TRACEPARENT", trace)]).unwrap();
        assert_eq!(
            config.headers,
            [("traceparent".to_owned(), trace.to_owned())]
        );
        let wrong = from(&[("TRACEPARENT", "x\r\nevil: 1")]).unwrap();
        assert_eq!(wrong.headers, []);
    }

    #[test]
    fn a_bad_header_line_is_named_but_not_repeated() {
        let error = from(&[("ANTHROPIC_CUSTOM_HEADERS", "secret-without-name")]).unwrap_err();
        assert!(
            error.to_string().contains("ANTHROPIC_CUSTOM_HEADERS"),
            "{error}"
        );
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let config = from(&[
            ("ANTHROPIC_API_KEY", "sk-hidden"),
            ("ANTHROPIC_CUSTOM_HEADERS", "X-One: hidden"),
        ])
        .unwrap();
        assert!(!format!("{config:?}").contains("hidden"));
    }
}
