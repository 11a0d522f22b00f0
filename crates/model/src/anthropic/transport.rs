//! The HTTP client: TLS, proxies, and what their errors mean.
//!
//! Building a client must be cheap, since it stands between the start of the process and the first
//! request. The expensive part is reading the system's CA certificates, so that happens only when
//! the server or a proxy is spoken to over TLS, and then beside the connecting ([`super::trust`]).

use super::config::{AnthropicConfig, ProxySettings};
use super::trust;
use crate::error::{ModelError, NetworkTrouble};
use reqwest::{Client, ClientBuilder, NoProxy, Proxy};
use std::error::Error as StdError;
use std::time::Duration;
use url::Url;

/// The address of an endpoint below the configured base.
pub(crate) fn endpoint(base: &str, path: &str) -> Result<Url, ModelError> {
    let wrong = |reason: &str| ModelError::Configuration {
        message: format!(
            "ANTHROPIC_BASE_URL is {base:?}, which {reason}; it should look like https://api.anthropic.com"
        ),
    };
    let mut url = Url::parse(base).map_err(|error| wrong(&format!("is no address ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is neither http nor https"));
    }
    // Some give the address with the version already in it.
    let prefix = url
        .path()
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .to_owned();
    url.set_path(&format!("{prefix}/v1/{path}"));
    Ok(url)
}

/// Builds the client for a configuration.
pub(crate) fn client(config: &AnthropicConfig, base: &Url) -> Result<Client, ModelError> {
    install_crypto();
    let mut builder = Client::builder()
        .no_proxy()
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_idle_timeout(Duration::from_secs(90))
        // A redirected POST would lose its body or send the key elsewhere.
        .redirect(reqwest::redirect::Policy::none());
    builder = with_proxies(builder, &config.proxies)?;
    builder = with_certificates(builder, config, base)?;
    builder.build().map_err(|error| ModelError::Configuration {
        message: format!("the HTTP client can't be set up: {}", innermost(&error)),
    })
}

/// The TLS library wants its cryptography chosen once per process. Whoever comes first chooses.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, with the same choice.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn with_proxies(
    mut builder: ClientBuilder,
    settings: &ProxySettings,
) -> Result<ClientBuilder, ModelError> {
    type Make = fn(&str) -> reqwest::Result<Proxy>;
    let proxies: [(&str, &Option<String>, Make); 3] = [
        ("HTTPS_PROXY", &settings.https, |url| Proxy::https(url)),
        ("HTTP_PROXY", &settings.http, |url| Proxy::http(url)),
        ("ALL_PROXY", &settings.all, |url| Proxy::all(url)),
    ];
    for (name, value, make) in proxies {
        let Some(value) = value else { continue };
        let address = if value.contains("://") {
            value.clone()
        } else {
            format!("http://{value}")
        };
        let proxy = make(&address).map_err(|_| ModelError::Configuration {
            message: format!(
                "{name} is not a proxy address; it should look like http://proxy.example:3128"
            ),
        })?;
        let exceptions = settings
            .exceptions
            .as_deref()
            .and_then(NoProxy::from_string);
        builder = builder.proxy(proxy.no_proxy(exceptions));
    }
    Ok(builder)
}

fn with_certificates(
    builder: ClientBuilder,
    config: &AnthropicConfig,
    base: &Url,
) -> Result<ClientBuilder, ModelError> {
    let proxies = [
        &config.proxies.https,
        &config.proxies.http,
        &config.proxies.all,
    ];
    let secure_proxy = proxies
        .into_iter()
        .flatten()
        .any(|address| address.starts_with("https:"));
    if base.scheme() == "http" && !secure_proxy {
        return Ok(builder.tls_certs_only([]));
    }
    Ok(builder.tls_backend_preconfigured(trust::tls_config(config)?))
}

/// What a failed exchange means. `proxy` is the variable that sends it through a proxy, if one does.
pub(crate) fn network_error(error: &reqwest::Error, url: &Url, proxy: Option<&str>) -> ModelError {
    let mut message = innermost(error);
    // The first link names the address, in which any word may occur.
    let causes: Vec<String> = chain(error).into_iter().skip(1).collect();
    let any = |test: fn(&str) -> bool| causes.iter().any(|text| test(text));
    let mut trouble = if any(is_certificate_trouble) {
        NetworkTrouble::Certificate
    } else if error.is_dns() || any(|text| text.contains("dns error")) {
        // EAI_AGAIN is "try again"; anything else says that the name doesn't exist.
        if message.contains("emporary failure") || message.contains("try again") {
            NetworkTrouble::NameLookup
        } else {
            NetworkTrouble::UnknownHost
        }
    } else if any(is_proxy_trouble) {
        NetworkTrouble::Proxy
    } else if has_kind(error, std::io::ErrorKind::ConnectionRefused) {
        NetworkTrouble::Refused
    } else if error.is_connect() && error.is_timeout() {
        NetworkTrouble::ConnectTimeout
    } else if is_tls_trouble(error) {
        NetworkTrouble::Tls
    } else {
        NetworkTrouble::Lost
    };
    if let Some(variable) = proxy
        && matches!(
            trouble,
            NetworkTrouble::NameLookup
                | NetworkTrouble::UnknownHost
                | NetworkTrouble::Refused
                | NetworkTrouble::ConnectTimeout
        )
    {
        // Who didn't answer is the proxy: nobody asked for the server itself yet.
        trouble = NetworkTrouble::Proxy;
        message = format!("{message}; the proxy is that of {variable}");
    }
    ModelError::Network {
        trouble,
        url: shown(url),
        message,
    }
}

/// The variable that names the proxy for an address, if it has one. Only for messages: the decision
/// itself is the client's.
pub(crate) fn proxy_variable(settings: &ProxySettings, url: &Url) -> Option<&'static str> {
    let host = url.host_str().unwrap_or_default();
    let exceptions = settings.exceptions.as_deref().unwrap_or_default();
    let excepted = exceptions
        .split(',')
        .map(|entry| entry.trim().trim_start_matches('.'))
        .any(|entry| {
            let parent = host.strip_suffix(entry);
            entry == "*"
                || (!entry.is_empty()
                    && parent.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
        });
    let (specific, variable) = match url.scheme() {
        "https" => (&settings.https, "HTTPS_PROXY"),
        _ => (&settings.http, "HTTP_PROXY"),
    };
    match (excepted, specific, &settings.all) {
        (true, _, _) | (false, None, None) => None,
        (false, Some(_), _) => Some(variable),
        (false, None, Some(_)) => Some("ALL_PROXY"),
    }
}

fn is_certificate_trouble(text: &str) -> bool {
    text.contains("invalid peer certificate") || text.contains(trust::NO_SYSTEM_CERTIFICATES)
}

fn is_proxy_trouble(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("tunnel") || text.contains("socks") || text.contains("proxy")
}

fn is_tls_trouble(error: &reqwest::Error) -> bool {
    causes(error).any(holds_tls_error)
}

/// Looks into I/O errors too: what they wrap is not among their sources.
fn holds_tls_error(error: &(dyn StdError + 'static)) -> bool {
    if error.is::<rustls::Error>() {
        return true;
    }
    let wrapped = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    wrapped.is_some_and(|inner| holds_tls_error(inner))
}

fn has_kind(error: &reqwest::Error, kind: std::io::ErrorKind) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == kind)
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error as &'a (dyn StdError + 'static)), |cause| {
        (*cause).source()
    })
}

fn chain(error: &reqwest::Error) -> Vec<String> {
    causes(error).map(ToString::to_string).collect()
}

/// The deepest cause says what happened; those above it only say where.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    chain(error).pop().unwrap_or_default()
}

/// An address without the secrets that may be in it.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_added_below_any_base() {
        let cases = [
            (
                "https://api.anthropic.com",
                "https://api.anthropic.com/v1/messages",
            ),
            ("https://x.example/", "https://x.example/v1/messages"),
            (
                "http://x.example:8080/gate/way/",
                "http://x.example:8080/gate/way/v1/messages",
            ),
            ("https://x.example/v1", "https://x.example/v1/messages"),
        ];
        for (base, expected) in cases {
            assert_eq!(endpoint(base, "messages").unwrap().as_str(), expected);
        }
    }

    #[test]
    fn a_bad_base_names_the_variable() {
        for base in ["nonsense", "ftp://x", "", "localhost:8080"] {
            let text = endpoint(base, "messages").unwrap_err().to_string();
            assert!(text.contains("ANTHROPIC_BASE_URL"), "{text}");
        }
    }

    #[test]
    fn the_variable_of_a_proxy_is_known_for_messages() {
        let settings = ProxySettings {
            https: Some("http://a".into()),
            http: None,
            all: Some("http://b".into()),
            exceptions: Some("localhost, .internal.example".into()),
        };
        let variable = |url: &str| proxy_variable(&settings, &Url::parse(url).unwrap());
        assert_eq!(variable("https://x.example/"), Some("HTTPS_PROXY"));
        assert_eq!(variable("http://x.example/"), Some("ALL_PROXY"));
        assert_eq!(variable("http://localhost:80/"), None);
        assert_eq!(variable("https://deep.internal.example/"), None);
        assert_eq!(variable("https://notlocalhost/"), Some("HTTPS_PROXY"));
        assert_eq!(
            proxy_variable(
                &ProxySettings::default(),
                &Url::parse("https://x/").unwrap()
            ),
            None
        );
    }

    #[test]
    fn shown_addresses_hold_no_secret() {
        let url = Url::parse("https://user:pass@x.example/v1/messages?key=hidden").unwrap();
        assert_eq!(shown(&url), "https://x.example/v1/messages");
    }
}
