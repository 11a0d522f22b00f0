//! The addresses that an authorisation may use.
//!
//! A server names its authorisation server, and we fetch from there: without a check, any server
//! could make us send requests to machines in our private network. So metadata and tokens are
//! fetched from public addresses only, and from loopback or private ones only if the MCP server
//! itself has such an address (or the configuration allows it). The addresses that a name resolves
//! to are checked on connection. Addresses other than loopback must be https.

use super::error::AuthError;
use lathe_net::{ClientOptions, Network};
use lathe_settings::Environment;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// The time limit of a request to an authorisation server.
const REQUEST: Duration = Duration::from_secs(30);

/// The reach of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Public,
    Private,
    Loopback,
    /// Link-local (cloud metadata), multicast, unspecified: never.
    Reserved,
}

fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

fn class_v4(address: Ipv4Addr) -> Class {
    let [first, second, ..] = address.octets();
    if address.is_loopback() {
        Class::Loopback
    } else if address.is_private() || (first == 100 && (64..128).contains(&second)) {
        Class::Private
    } else if first == 0
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || (first == 198 && matches!(second, 18 | 19))
    {
        Class::Reserved
    } else {
        Class::Public
    }
}

fn class_v6(address: Ipv6Addr) -> Class {
    let segments = address.segments();
    // Addresses that embed an IPv4 address are classified as that one.
    let low = Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    match segments {
        _ if address.is_loopback() => Class::Loopback,
        _ if address.is_unspecified() || address.is_multicast() => Class::Reserved,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => class_v4(low),
        [0x2002, high, rest, ..] => {
            class_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(rest)))
        }
        [first, ..] if first & 0xfe00 == 0xfc00 => Class::Private,
        [first, ..] if first & 0xffc0 == 0xfe80 => Class::Reserved,
        [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] => Class::Reserved,
        _ => Class::Public,
    }
}

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
        let there = |wanted: Class| addresses.iter().any(|address| class(*address) == wanted);
        Self {
            private: allow_private || there(Class::Private),
            loopback: allow_private || there(Class::Loopback),
        }
    }

    fn allows(self, address: IpAddr) -> bool {
        match class(address) {
            Class::Public => true,
            Class::Private => self.private,
            Class::Loopback => self.loopback,
            Class::Reserved => false,
        }
    }

    /// Checks an address before its name is resolved.
    pub(super) fn check(self, url: &Url) -> Result<(), AuthError> {
        let loopback_name = |name: &str| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        };
        let (allowed, loopback) = match url.host() {
            Some(Host::Ipv4(address)) => (
                self.allows(address.into()),
                class_v4(address) == Class::Loopback,
            ),
            Some(Host::Ipv6(address)) => (
                self.allows(address.into()),
                class_v6(address) == Class::Loopback,
            ),
            Some(Host::Domain(name)) if loopback_name(name) => (self.loopback, true),
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
                return Err(format!("{} has no address that may be asked", name.as_str()).into());
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
