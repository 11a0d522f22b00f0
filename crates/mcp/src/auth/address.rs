//! The addresses that an authorisation may use.
//!
//! A server names its authorisation server, and we fetch from there: without a check, any server
//! could make us send requests to machines in our private network. So metadata and tokens are
//! fetched from public addresses only, and from loopback or private ones only if the MCP server
//! itself has such an address (or the configuration allows it). The addresses that a name resolves
//! to are checked on connection. Addresses other than loopback must be https.

use super::error::AuthError;
use lathe_net::{AddressClass, ClientOptions, Network, is_local_name};
use lathe_settings::Environment;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// The time limit of a request to an authorisation server.
const REQUEST: Duration = Duration::from_secs(30);

/// The allowed addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    private: bool,
    loopback: bool,
}

impl Policy {
    /// The policy for an MCP server's address.
    pub(super) async fn of(server: &Url, allow_private: bool) -> Self {
        let addresses: Vec<IpAddr> = match server.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            Some(Host::Domain(name)) => tokio::net::lookup_host((name, 0))
                .await
                .map(|found| found.map(|address| address.ip()).collect())
                .unwrap_or_default(),
            None => Vec::new(),
        };
        let there = |wanted: AddressClass| {
            let mut classes = addresses.iter().map(|address| AddressClass::of(*address));
            classes.any(|class| class == wanted)
        };
        Self {
            private: allow_private || there(AddressClass::Private),
            loopback: allow_private || there(AddressClass::Loopback),
        }
    }

    fn allows(self, address: IpAddr) -> bool {
        match AddressClass::of(address) {
            AddressClass::Public => true,
            AddressClass::Private => self.private,
            AddressClass::Loopback => self.loopback,
            AddressClass::Reserved => false,
        }
    }

    /// Checks an address before its name is resolved.
    pub(super) fn check(self, url: &Url) -> Result<(), AuthError> {
        let of = |address: IpAddr| {
            let loopback = AddressClass::of(address) == AddressClass::Loopback;
            (self.allows(address), loopback)
        };
        let (allowed, loopback) = match url.host() {
            Some(Host::Ipv4(address)) => of(address.into()),
            Some(Host::Ipv6(address)) => of(address.into()),
            Some(Host::Domain(name)) if is_local_name(name) => (self.loopback, true),
            Some(Host::Domain(_)) => (true, false),
            None => (false, false),
        };
        let shown = url.origin().ascii_serialization();
        if !allowed {
            return Err(AuthError::NotPublic(shown));
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if loopback || self.private => Ok(()),
            _ => Err(AuthError::NotEncrypted(shown)),
        }
    }
}

struct Filter(Policy);

impl Resolve for Filter {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found
                .filter(|address| policy.allows(address.ip()))
                .collect();
            if allowed.is_empty() {
                return Err(
                    format!("{} has no address that may be contacted", name.as_str()).into(),
                );
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// An HTTP client that connects to allowed addresses only.
pub(super) fn client(
    policy: Policy,
    environment: &Environment,
) -> Result<reqwest::Client, AuthError> {
    let options = ClientOptions {
        timeout: Some(REQUEST),
        resolver: Some(Arc::new(Filter(policy))),
        ..crate::net::options()
    };
    Network::of(environment)
        .client(&options)
        .map_err(|error| AuthError::Http(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test]
    async fn a_public_server_leads_to_public_addresses_only() {
        let policy = Policy::of(&url("https://93.184.215.14/mcp"), false).await;
        assert!(policy.check(&url("https://auth.example/x")).is_ok());
        for refused in [
            "https://127.0.0.1/",
            "https://localhost/",
            "https://a.localhost./",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://10.1.2.3/",
            "https://192.168.0.1/",
            "https://169.254.169.254/latest",
            "https://[fe80::1]/",
            "https://[fd00::1]/",
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "http://auth.example/",
            "file:///etc/passwd",
        ] {
            assert!(policy.check(&url(refused)).is_err(), "{refused}");
        }
        // The resolved address is checked, not the name.
        assert!(!policy.allows("127.0.0.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn where_the_server_itself_is_we_may_go() {
        let here = Policy::of(&url("http://127.0.0.1:1/mcp"), false).await;
        assert!(here.check(&url("http://localhost:2/")).is_ok());
        assert!(here.check(&url("https://10.0.0.1/")).is_err());
        let private = Policy::of(&url("http://10.0.0.5/mcp"), false).await;
        assert!(private.check(&url("http://10.0.0.1/")).is_ok());
        assert!(private.check(&url("http://127.0.0.1/")).is_err());
        let told = Policy::of(&url("https://93.184.215.14/mcp"), true).await;
        assert!(told.check(&url("https://192.168.0.1/")).is_ok());
        assert!(told.check(&url("https://169.254.169.254/")).is_err());
    }
}
