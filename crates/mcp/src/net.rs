//! HTTP as we do it everywhere: proxies from the environment, certificates of the system and of
//! `NODE_EXTRA_CA_CERTS`, no redirects to other origins, and errors that don't repeat addresses
//! (those may hold secrets).

use lathe_settings::{Environment, environment};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy};
use std::error::Error as _;
use std::time::Duration;
use url::Url;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How many redirects are followed.
const REDIRECTS: usize = 5;

/// The TLS library wants its cryptography chosen once per process. Whoever comes first chooses.
pub(crate) fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, with the same choice.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// What a client is built from.
pub(crate) fn builder(
    variables: &Environment,
    insecure_only: bool,
) -> Result<ClientBuilder, String> {
    install_crypto();
    let mut builder = Client::builder()
        .no_proxy()
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .redirect(Policy::custom(|attempt| {
            let same = attempt
                .previous()
                .last()
                .is_some_and(|previous| previous.origin() == attempt.url().origin());
            if attempt.previous().len() > REDIRECTS {
                attempt.error("too many redirects")
            } else if same {
                attempt.follow()
            } else {
                attempt.stop()
            }
        }));
    if insecure_only {
        // Reading the system's certificates takes longer than a call on this machine.
        builder = builder.tls_certs_only([]);
    } else if let Some(path) = environment::value(variables, "NODE_EXTRA_CA_CERTS")
        && let Ok(pem) = std::fs::read(variables.resolve(path))
        && let Ok(certificates) = Certificate::from_pem_bundle(&pem)
    {
        builder = builder.tls_certs_merge(certificates);
    }
    with_proxies(builder, variables)
}

type MakeProxy = fn(&str) -> reqwest::Result<Proxy>;

fn with_proxies(
    mut builder: ClientBuilder,
    variables: &Environment,
) -> Result<ClientBuilder, String> {
    let proxies: [(&str, &str, MakeProxy); 3] = [
        ("HTTPS_PROXY", "https_proxy", |url| Proxy::https(url)),
        ("HTTP_PROXY", "http_proxy", |url| Proxy::http(url)),
        ("ALL_PROXY", "all_proxy", |url| Proxy::all(url)),
    ];
    let exceptions = variables.first_variable(&["NO_PROXY", "no_proxy"]);
    for (name, lower, make) in proxies {
        let Some(value) = variables.first_variable(&[name, lower]) else {
            continue;
        };
        let address = if value.contains("://") {
            value.to_owned()
        } else {
            format!("http://{value}")
        };
        let proxy = make(&address)
            .map_err(|_| format!("{name} is not a proxy address like http://proxy.example:3128"))?;
        builder = builder.proxy(proxy.no_proxy(exceptions.and_then(NoProxy::from_string)));
    }
    Ok(builder)
}

/// A client for a server's address.
pub(crate) fn client(variables: &Environment, url: &Url) -> Result<Client, String> {
    builder(variables, url.scheme() == "http")?
        .build()
        .map_err(|error| format!("the HTTP client can't be set up: {}", innermost(&error)))
}

/// What is at the bottom of an error, without the address.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.source().is_none() {
        // The outermost error names the address; its kind is what we have.
        let kind = if error.is_timeout() {
            "it took too long"
        } else if error.is_redirect() {
            "it was redirected elsewhere"
        } else {
            "the request failed"
        };
        return kind.to_owned();
    }
    cause.to_string()
}

/// The body of a response, up to a limit.
pub(crate) async fn body(mut response: reqwest::Response, limit: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| innermost(&error))? {
        if bytes.len() + chunk.len() > limit {
            return Err(format!("an answer of more than {limit} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
