//! Which hosts a command may reach.
//!
//! A rule is a name (`example.com`), a name with everything below it (`*.example.com`), an address, or `*`;
//! each with or without a port. Names are compared as the resolver does: without regard to case and to a
//! dot at the end. A name never matches as a part of another one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The hosts that a command may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Hosts that may be reached without a question.
    pub allowed: Vec<HostRule>,
    /// Hosts that may not be reached, whatever else says so.
    pub denied: Vec<HostRule>,
    /// Whether a host that no rule names is refused without a question.
    pub strict: bool,
    /// Unix sockets outside the sandbox that may be used.
    pub unix_sockets: UnixSockets,
    /// Whether a command may listen on ports (of its own loopback, where it has one).
    pub no_listening: bool,
    /// A proxy of the user's own, by its port on this machine, for HTTP.
    pub own_http_proxy: Option<u16>,
    /// The same for SOCKS.
    pub own_socks_proxy: Option<u16>,
}

/// Unix sockets that a command may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UnixSockets {
    /// None but those that a command makes as a pair.
    #[default]
    None,
    /// These; the kernel can't tell sockets apart, so those that are visible count too.
    Listed(Vec<PathBuf>),
    /// All.
    All,
}

/// A host, or several, perhaps with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    pattern: Pattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Any,
    Name(String),
    Below(String),
    Address(IpAddr),
}

/// Why a text is no rule for hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a host rule: {reason}; write a name, *.name, an address, or one of them with :port"
)]
pub struct HostRuleError {
    text: String,
    reason: &'static str,
}

/// A host as it was asked for: a name or an address, never a text that could be both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name, in lower case, without a dot at the end.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(address) => write!(formatter, "{address}"),
        }
    }
}

impl Host {
    /// Reads a host. Only a name that can be nothing else, and an address in its usual form, pass: a number
    /// that some resolvers take for an address (`2130706433`, `0x7f.1`, `127.1`) is refused.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Some(address) = bare {
            return address
                .parse::<Ipv6Addr>()
                .ok()
                .map(|address| Self::Address(unmapped(address)));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self::Address(unmapped(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        is_name(&name).then_some(Self::Name(name))
    }
}

/// An address that only wraps one of the older kind counts as that.
fn unmapped(address: Ipv6Addr) -> IpAddr {
    match address.to_ipv4_mapped() {
        Some(address) => address.into(),
        None => address.into(),
    }
}

/// Whether this is a host name that no resolver takes for an address.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
            })
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.starts_with(|first: char| first.is_ascii_digit());
    name.len() <= 253 && !numeric && name.split('.').all(label)
}

impl HostRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// If the text is none.
    pub fn parse(text: &str) -> Result<Self, HostRuleError> {
        let fail = |reason| HostRuleError {
            text: text.to_owned(),
            reason,
        };
        let trimmed = text.trim();
        if trimmed.contains("://") || trimmed.contains('/') || trimmed.contains('@') {
            return Err(fail("it is a URL"));
        }
        let is_v6 = trimmed.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match trimmed.rsplit_once(':') {
            Some((host, port)) if !is_v6 && !trimmed.ends_with(']') => {
                let port = port.parse().map_err(|_| fail("its port is not a number"))?;
                (host, Some(port))
            }
            _ => (trimmed, None),
        };
        let pattern = if host == "*" {
            Pattern::Any
        } else if let Some(name) = host.strip_prefix("*.") {
            match Host::parse(name) {
                Some(Host::Name(name)) => Pattern::Below(name),
                _ => return Err(fail("the part after *. is not a host name")),
            }
        } else {
            match Host::parse(host) {
                Some(Host::Name(name)) => Pattern::Name(name),
                Some(Host::Address(address)) => Pattern::Address(address),
                None => return Err(fail("it is not a host name")),
            }
        };
        Ok(Self { pattern, port })
    }

    /// A rule for one host.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let pattern = match host {
            Host::Name(name) => Pattern::Name(name.clone()),
            Host::Address(address) => Pattern::Address(*address),
        };
        Self {
            pattern,
            port: None,
        }
    }

    /// Whether it means a host and port.
    #[must_use]
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        if self.port.is_some_and(|wanted| wanted != port) {
            return false;
        }
        match (&self.pattern, host) {
            (Pattern::Any, _) => true,
            (Pattern::Name(wanted), Host::Name(name)) => wanted == name,
            (Pattern::Below(parent), Host::Name(name)) => name
                .strip_suffix(parent.as_str())
                .is_some_and(|front| front.ends_with('.') && front.len() > 1),
            (Pattern::Address(wanted), Host::Address(address)) => wanted == address,
            _ => false,
        }
    }

    /// Whether it names this one host, so that a private address is what the user meant.
    #[must_use]
    fn names_address(&self, host: &Host) -> bool {
        matches!((&self.pattern, host), (Pattern::Address(wanted), Host::Address(address)) if wanted == address)
            || matches!((&self.pattern, host), (Pattern::Name(wanted), Host::Name(name)) if wanted == name && name == "localhost")
    }
}

/// The decision of the rules about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostVerdict {
    /// It may be reached.
    Allowed,
    /// It may not be reached: a rule says so.
    Denied,
    /// It may not be reached: only named hosts may, and it isn't one.
    NotListed,
    /// The user must say.
    Unknown,
}

impl NetworkPolicy {
    /// The decision of the rules about a host.
    #[must_use]
    pub fn judge(&self, host: &Host, port: u16) -> HostVerdict {
        let named = |rules: &[HostRule]| rules.iter().any(|rule| rule.matches(host, port));
        if named(&self.denied) {
            HostVerdict::Denied
        } else if named(&self.allowed) {
            HostVerdict::Allowed
        } else if self.strict {
            HostVerdict::NotListed
        } else {
            HostVerdict::Unknown
        }
    }

    /// Whether a private address may be connected to: only when a rule names exactly this address (or
    /// `localhost`).
    #[must_use]
    pub fn allows_private(&self, host: &Host, port: u16) -> bool {
        let mut rules = self.allowed.iter();
        rules.any(|rule| rule.matches(host, port) && rule.names_address(host))
    }
}

/// Whether an address belongs to this machine or its surroundings: never reached by a name that leads there.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => {
            let segments = address.segments();
            if let Some(address) = address.to_ipv4_mapped() {
                return is_private_v4(address);
            }
            // Addresses that carry one of the older kind: 6to4, NAT64, and the deprecated compatible form.
            let carried = |high: u16, low: u16| {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                Ipv4Addr::new(a, b, c, d)
            };
            let inner = match segments {
                [0x2002, high, low, ..] => Some(carried(high, low)),
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(carried(high, low)),
                [0, 0, 0, 0, 0, 0, high, low] => Some(carried(high, low)),
                _ => None,
            };
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || segments[0] & 0xfe00 == 0xfc00
                || segments[0] & 0xffc0 == 0xfe80
                || segments[0] & 0xffc0 == 0xfec0
                || (segments[0] == 0x2001 && segments[1] == 0xdb8)
                || (segments[0] == 0x2001 && segments[1] == 0)
                || (segments[0] == 0x64 && segments[1] == 0xff9b && segments[2] == 1)
                || inner.is_some_and(is_private_v4)
        }
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    fn policy(allowed: &[&str], denied: &[&str]) -> NetworkPolicy {
        let rules = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| HostRule::parse(text).unwrap())
                .collect()
        };
        NetworkPolicy {
            allowed: rules(allowed),
            denied: rules(denied),
            ..NetworkPolicy::default()
        }
    }

    #[test]
    fn a_name_matches_itself_and_nothing_that_looks_like_it() {
        let policy = policy(&["example.com", "*.example.org", "api.test:8443"], &[]);
        let judge = |text: &str, port| policy.judge(&host(text), port);
        for allowed in [
            "example.com",
            "EXAMPLE.com",
            "example.com.",
            "a.example.org",
            "a.b.example.org",
        ] {
            assert_eq!(judge(allowed, 443), HostVerdict::Allowed, "{allowed}");
        }
        for unknown in [
            "evilexample.com",
            "example.com.evil.net",
            "a.example.com",
            "example.org",
            "evilexample.org",
        ] {
            assert_eq!(judge(unknown, 443), HostVerdict::Unknown, "{unknown}");
        }
        assert_eq!(judge("api.test", 8443), HostVerdict::Allowed);
        assert_eq!(judge("api.test", 443), HostVerdict::Unknown);
    }

    #[test]
    fn a_denied_host_stays_denied() {
        let mut policy = policy(&["*"], &["*.bad.com", "bad.com", "192.0.2.1"]);
        assert_eq!(policy.judge(&host("x.bad.com"), 1), HostVerdict::Denied);
        assert_eq!(policy.judge(&host("bad.com."), 1), HostVerdict::Denied);
        assert_eq!(policy.judge(&host("192.0.2.1"), 1), HostVerdict::Denied);
        assert_eq!(
            policy.judge(&host("::ffff:192.0.2.1"), 1),
            HostVerdict::Denied
        );
        assert_eq!(policy.judge(&host("good.com"), 1), HostVerdict::Allowed);
        policy.allowed.clear();
        policy.strict = true;
        assert_eq!(policy.judge(&host("good.com"), 1), HostVerdict::NotListed);
    }

    #[test]
    fn a_number_that_some_resolver_takes_for_an_address_is_no_host() {
        for text in [
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "127.1",
            "0177.0.0.1",
            "1.2.3.4.5",
            "",
            ".",
            "a..b",
            "a b",
            "a\0b",
            "-a.com",
            "a/b",
            "user@host",
            "[::1",
            "::1]",
            "host:80",
            "ex\u{e4}mple.com",
            "127.0.0.1.",
            "1.2.3.0x4",
        ] {
            assert_eq!(Host::parse(text), None, "{text:?}");
        }
        assert_eq!(host("[::1]"), Host::Address(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(
            host("::ffff:10.0.0.1"),
            Host::Address(Ipv4Addr::new(10, 0, 0, 1).into())
        );
    }

    #[test]
    fn addresses_of_this_machine_and_its_surroundings_are_private() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "::127.0.0.1",
            "ff02::1",
            "2001::1",
        ] {
            assert!(is_private(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "93.184.216.34",
            "2606:4700::1111",
            "2002:101:101::",
        ] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_private_address_is_reached_only_if_a_rule_names_it() {
        let policy = policy(&["*", "127.0.0.1:3000", "localhost"], &[]);
        assert!(policy.allows_private(&host("127.0.0.1"), 3000));
        assert!(!policy.allows_private(&host("127.0.0.1"), 3001));
        assert!(policy.allows_private(&host("localhost"), 80));
        assert!(!policy.allows_private(&host("rebind.example.com"), 80));
    }

    #[test]
    fn a_rule_that_is_none_is_refused() {
        for text in [
            "https://example.com",
            "example.com/path",
            "a b",
            "*.1.2.3.4",
            "example.com:port",
            "",
            "*example.com",
            "a.*.com",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text:?}");
        }
    }
}
