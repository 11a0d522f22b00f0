//! Getting one page.

use crate::address::{self, Filter};
use crate::body;
use crate::content::Content;
use crate::error::FetchError;
use lathe_net::{ClientOptions, Network, Reach, Redirects};
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Said to servers.
const USER_AGENT: &str = concat!("Lathe/", env!("CARGO_PKG_VERSION"));
/// A request.
const ACCEPTED: &str = "text/markdown, text/html;q=0.9, */*;q=0.8";
/// The longest address that is taken.
const LONGEST_ADDRESS: usize = 8_192;

/// Limits of one page.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long everything may take.
    pub time: Duration,
    /// The most bytes on the wire.
    pub wire: usize,
    /// The most bytes of a body that is unpacked.
    pub unpacked: usize,
    /// How many redirects are followed.
    pub redirects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            wire: 10 * 1024 * 1024,
            unpacked: 20 * 1024 * 1024,
            redirects: 10,
        }
    }
}

/// The permissions of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// It may be on this machine or in a private network.
    pub private: bool,
    /// It may be asked without encryption if it has none.
    pub plain_http: bool,
}

/// A page.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it was in the end.
    pub url: Url,
    /// The status.
    pub code: u16,
    /// The status in words.
    pub code_text: String,
    /// How many bytes were sent.
    pub bytes: usize,
    /// Its content.
    pub content: Content,
}

/// A page that is elsewhere: on a host that wasn't agreed to.
#[derive(Debug, Clone)]
pub struct Moved {
    /// Where the redirect came from.
    pub from: Url,
    /// Where it leads.
    pub to: Url,
    /// The status.
    pub code: u16,
    /// The status in words.
    pub code_text: String,
}

/// The result of a fetch.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A page.
    Fetched(Box<Fetched>),
    /// A redirect to another host.
    Moved(Box<Moved>),
}

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// The addresses.
    fn lookup<'a>(&'a self, host: &'a str) -> Looking<'a>;
}

/// A lookup on its way.
pub type Looking<'a> = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// The system's resolver.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, host: &'a str) -> Looking<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Gets pages.
pub struct Fetcher {
    network: Network,
    limits: Limits,
    lookup: Arc<dyn Lookup>,
}

impl Fetcher {
    /// For a network. The user's client certificate is never shown to a page.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self::with(network, Limits::default(), Arc::new(SystemLookup))
    }

    /// With other limits, and another way to resolve names.
    #[must_use]
    pub fn with(network: Network, limits: Limits, lookup: Arc<dyn Lookup>) -> Self {
        Self {
            network: Network {
                identity: None,
                ..network
            },
            limits,
            lookup,
        }
    }

    /// Gets a page.
    ///
    /// # Errors
    /// When it may not be reached, or can't, or is more than the limits allow.
    pub async fn fetch(&self, url: &Url, access: Access) -> Result<Outcome, FetchError> {
        let limit = self.limits.time;
        let work = Box::pin(self.follow(url, access));
        tokio::time::timeout(limit, work)
            .await
            .unwrap_or(Err(FetchError::TimedOut(limit)))
    }

    async fn follow(&self, url: &Url, access: Access) -> Result<Outcome, FetchError> {
        let mut url = url.clone();
        url.set_fragment(None);
        for _ in 0..=self.limits.redirects {
            let mut response = self.ask(&mut url, access).await?;
            let status = response.status();
            if !is_redirect(status) {
                let page = self.page(url, &mut response).await?;
                return Ok(Outcome::Fetched(Box::new(page)));
            }
            let next = target(&url, &response)?;
            if next.host() != url.host() {
                return Ok(Outcome::Moved(Box::new(Moved {
                    from: url,
                    to: next,
                    code: status.as_u16(),
                    code_text: words(status),
                })));
            }
            if url.scheme() == "https" && next.scheme() == "http" && !access.plain_http {
                return Err(FetchError::Downgrade {
                    host: host_of(&url),
                });
            }
            url = next;
        }
        Err(FetchError::TooManyRedirects(self.limits.redirects))
    }

    /// Sends one request: encrypted, unless the host is one of our own or that was agreed to.
    async fn ask(&self, url: &mut Url, access: Access) -> Result<Response, FetchError> {
        address::check_literal(url, access.private)?;
        let stays_plain = url.scheme() == "http" && access.private && is_near(url);
        if url.scheme() == "https" || stays_plain {
            return self.send(url, access).await;
        }
        let mut upgraded = url.clone();
        // It can't fail: both are schemes with hosts.
        let _ = upgraded.set_scheme("https");
        match self.send(&upgraded, access).await {
            Ok(response) => {
                *url = upgraded;
                Ok(response)
            }
            Err(FetchError::Unreachable { .. }) if access.plain_http => {
                self.send(url, access).await
            }
            Err(FetchError::Unreachable { host, reason }) => {
                Err(FetchError::OnlyPlain { host, reason })
            }
            Err(other) => Err(other),
        }
    }

    async fn send(&self, url: &Url, access: Access) -> Result<Response, FetchError> {
        let refusal = Arc::new(Mutex::new(None));
        let proxied = self.network.proxies.variable_for(url).is_some();
        if let (true, Some(Host::Domain(host))) = (proxied, url.host()) {
            // The proxy resolves the name; what is known here is checked all the same.
            let checked = address::allowed(self.lookup.as_ref(), host, access.private).await;
            if let Err(error @ FetchError::NotPublic { .. }) = checked {
                return Err(error);
            }
        }
        let options = ClientOptions {
            redirects: Redirects::None,
            reach: Reach::by_host(url),
            user_agent: Some(USER_AGENT),
            connect_timeout: Some(Duration::from_secs(10)),
            timeout: None,
            resolver: Some(Arc::new(Filter {
                lookup: self.lookup.clone(),
                private: access.private,
                proxies: self.proxy_hosts(),
                refusal: refusal.clone(),
            })),
            packed: true,
        };
        let client = self
            .network
            .client(&options)
            .map_err(|error| FetchError::Client(error.to_string()))?;
        let sent = client
            .get(url.clone())
            .header(ACCEPT, ACCEPTED)
            .header(ACCEPT_ENCODING, "gzip, deflate")
            .send()
            .await;
        sent.map_err(|error| {
            let refused = refusal.lock().take();
            refused.unwrap_or_else(|| FetchError::Unreachable {
                host: host_of(url),
                reason: lathe_net::innermost(&error),
            })
        })
    }

    fn proxy_hosts(&self) -> Vec<String> {
        let proxies = &self.network.proxies;
        [&proxies.https, &proxies.http, &proxies.all]
            .into_iter()
            .flatten()
            .filter_map(|proxy| {
                let proxy = if proxy.contains("://") {
                    Url::parse(proxy)
                } else {
                    Url::parse(&format!("http://{proxy}"))
                };
                proxy.ok()?.host_str().map(str::to_owned)
            })
            .collect()
    }

    async fn page(&self, url: Url, response: &mut Response) -> Result<Fetched, FetchError> {
        let status = response.status();
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .unwrap_or_default();
        let bytes = body::read(response, &self.limits).await?;
        let sent = bytes.len();
        let unpacked = body::unpack(response, bytes, &self.limits).await?;
        let address = url.clone();
        let work = lathe_spawn::blocking(move || Content::of(unpacked, &content_type, &address));
        let content = work
            .await
            .map_err(|error| FetchError::Damaged(error.to_string()))?;
        Ok(Fetched {
            url,
            code: status.as_u16(),
            code_text: words(status),
            bytes: sent,
            content,
        })
    }
}

/// Reads an address as the user or a model writes it.
///
/// # Errors
/// When it is none, or one that is never fetched.
pub fn parse(text: &str) -> Result<Url, FetchError> {
    let text = text.trim();
    let bad = |reason: String| FetchError::NotAnAddress {
        url: text.chars().take(200).collect(),
        reason,
    };
    if text.len() > LONGEST_ADDRESS {
        return Err(bad(format!("it is longer than {LONGEST_ADDRESS} bytes")));
    }
    let url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Credentials);
    }
    match url.host_str() {
        None | Some("") => Err(bad("it has no host".to_owned())),
        Some(_) => Ok(url),
    }
}

/// Whether a host is named as one of this machine or a private network.
fn is_near(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => lathe_net::is_local_name(name),
        Some(_) => address::check_literal(url, false).is_err(),
        None => false,
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn target(url: &Url, response: &Response) -> Result<Url, FetchError> {
    let location = response
        .headers()
        .get(LOCATION)
        .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
        .ok_or(FetchError::BadRedirect)?;
    let mut next = url.join(location).map_err(|_| FetchError::BadRedirect)?;
    next.set_fragment(None);
    parse(next.as_str()).map_err(|error| match error {
        FetchError::NotAnAddress { .. } => FetchError::BadRedirect,
        other => other,
    })
}

fn words(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("Unknown").to_owned()
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
