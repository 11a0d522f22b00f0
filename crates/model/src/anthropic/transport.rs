//! The address of the API, its HTTP client, and what the client's errors mean.

use super::config::AnthropicConfig;
use crate::error::{ModelError, NetworkTrouble};
use futures::StreamExt as _;
use lathe_net::{ClientOptions, Reach};
use reqwest::{Client, Response};
use std::error::Error as StdError;
use url::Url;

/// The most of an error answer that is read.
pub(crate) const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The beginning of an error answer. What came before the connection broke is good enough for a message.
pub(crate) async fn error_body(response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BYTES - body.len())]);
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    body
}

/// The address of an endpoint below the configured base.
pub(crate) fn endpoint(base: &str, path: &str) -> Result<Url, ModelError> {
    let wrong = |reason: &str| ModelError::Configuration {
        message: format!(
            "ANTHROPIC_BASE_URL is {base:?}, which {reason}; it should look like https://api.anthropic.com"
        ),
    };
    let mut url = Url::parse(base).map_err(|error| wrong(&format!("is not a URL ({error})")))?;
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

/// Builds the client for a configuration. It follows no redirects: a redirected POST would lose its body or
/// send the key elsewhere.
pub(crate) fn client(config: &AnthropicConfig, base: &Url) -> Result<Client, ModelError> {
    let options = ClientOptions {
        reach: Reach::by_scheme(base),
        connect_timeout: Some(config.connect_timeout),
        ..ClientOptions::default()
    };
    let made = config.network.client(&options);
    made.map_err(|error| ModelError::Configuration {
        message: error.to_string(),
    })
}

/// The error for a failed exchange. `proxy` is the variable that sends it through a proxy, if one does.
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
        if lathe_net::is_loopback(url) {
            NetworkTrouble::NotRunning
        } else {
            NetworkTrouble::Refused
        }
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
                | NetworkTrouble::NotRunning
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

fn is_certificate_trouble(text: &str) -> bool {
    text.contains("invalid peer certificate") || text.contains(lathe_net::NO_SYSTEM_CERTIFICATES)
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
    fn shown_addresses_hold_no_secret() {
        let url = Url::parse("https://user:pass@x.example/v1/messages?key=hidden").unwrap();
        assert_eq!(shown(&url), "https://x.example/v1/messages");
    }
}
