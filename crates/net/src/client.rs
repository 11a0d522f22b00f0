use crate::error::{BodyError, NetError, innermost};
use crate::network::Network;
use parking_lot::Mutex;
use reqwest::dns::Resolve;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// How many redirects are followed at most.
const MOST_REDIRECTS: usize = 5;

/// Which redirects a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Redirects {
    /// None: a redirected POST would lose its body, or send a secret elsewhere.
    None,
    /// Those that stay on the same scheme, host and port; others are the answer.
    SameOrigin,
    /// Those that lead to an encrypted address, or from this machine to this machine; others are errors.
    Encrypted,
}

/// Where a client goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// To any address.
    Anywhere,
    /// To `http` addresses only. Such a client needs no certificates.
    WithoutTls,
    /// To this machine, never through a proxy.
    ThisMachine,
}

impl Reach {
    /// The parts for connecting to an address, through a proxy if one is set.
    #[must_use]
    pub fn by_scheme(url: &Url) -> Self {
        if url.scheme() == "http" {
            Self::WithoutTls
        } else {
            Self::Anywhere
        }
    }

    /// As [`Reach::Anywhere`], but this machine is never reached through a proxy.
    #[must_use]
    pub fn by_host(url: &Url) -> Self {
        if is_loopback(url) {
            Self::ThisMachine
        } else {
            Self::Anywhere
        }
    }
}

/// Whether an address is on this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The options of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// Which redirects are followed.
    pub redirects: Redirects,
    /// Where it goes.
    pub reach: Reach,
    /// The user agent; `None` sends none.
    pub user_agent: Option<&'static str>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// How long a whole request may take.
    pub timeout: Option<Duration>,
    /// Decides which addresses a name stands for, and so which may be reached.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// Whether bodies are given as they were sent, for a caller that unpacks them within limits of its own.
    pub packed: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            redirects: Redirects::None,
            reach: Reach::Anywhere,
            user_agent: None,
            connect_timeout: None,
            timeout: None,
            resolver: None,
            packed: false,
        }
    }
}

/// The options of a shared client. Those with a resolver aren't shared.
type Key = (
    Redirects,
    Reach,
    Option<&'static str>,
    Option<Duration>,
    Option<Duration>,
    bool,
);

static SHARED: Mutex<Vec<(Network, Key, Client)>> = Mutex::new(Vec::new());
/// How many clients are kept; a process needs two or three.
const MOST_SHARED: usize = 8;

impl Network {
    /// A client that is kept for the next one who asks for the same, with its open connections.
    ///
    /// # Errors
    /// As [`Network::client`].
    pub fn shared_client(&self, options: &ClientOptions) -> Result<Client, NetError> {
        if options.resolver.is_some() {
            return self.client(options);
        }
        let key = (
            options.redirects,
            options.reach,
            options.user_agent,
            options.connect_timeout,
            options.timeout,
            options.packed,
        );
        let mut shared = SHARED.lock();
        let known = shared
            .iter()
            .find(|(network, known, _)| *known == key && network == self);
        if let Some((_, _, client)) = known {
            return Ok(client.clone());
        }
        let client = self.client(options)?;
        if shared.len() >= MOST_SHARED {
            shared.remove(0);
        }
        shared.push((self.clone(), key, client.clone()));
        Ok(client)
    }
}

impl ClientOptions {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub(crate) fn builder(&self) -> ClientBuilder {
        install_crypto();
        let mut builder = Client::builder()
            .no_proxy()
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(60))
            .pool_idle_timeout(Duration::from_secs(90))
            .redirect(self.redirects.policy());
        if let Some(user_agent) = self.user_agent {
            builder = builder.user_agent(user_agent);
        }
        if let Some(limit) = self.connect_timeout {
            builder = builder.connect_timeout(limit);
        }
        if let Some(limit) = self.timeout {
            builder = builder.timeout(limit);
        }
        if self.packed {
            builder = builder.no_gzip();
        }
        if let Some(resolver) = &self.resolver {
            builder = builder.dns_resolver(Arc::clone(resolver));
        }
        builder
    }
}

impl Redirects {
    fn policy(self) -> Policy {
        match self {
            Self::None => Policy::none(),
            Self::SameOrigin => Policy::custom(|attempt| {
                let same = attempt
                    .previous()
                    .last()
                    .is_some_and(|previous| previous.origin() == attempt.url().origin());
                if attempt.previous().len() > MOST_REDIRECTS {
                    attempt.error("too many redirects")
                } else if same {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            }),
            Self::Encrypted => Policy::custom(|attempt| {
                let stays_here = is_loopback(attempt.url())
                    && attempt.previous().first().is_some_and(is_loopback);
                if attempt.previous().len() > MOST_REDIRECTS {
                    attempt.error("too many redirects")
                } else if attempt.url().scheme() == "https" || stays_here {
                    attempt.follow()
                } else {
                    attempt.error("it redirects to an address that is not encrypted")
                }
            }),
        }
    }
}

/// Chooses the cryptography of the TLS library, which wants that once per process.
pub fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster, with the same choice.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Reads the body of a response, up to a limit.
///
/// # Errors
/// If there is more of it, or the connection breaks.
pub async fn body(mut response: Response, limit: usize) -> Result<Vec<u8>, BodyError> {
    let lost = |error: reqwest::Error| BodyError::Lost(innermost(&error));
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if bytes.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
