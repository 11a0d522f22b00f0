use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// Anyone can reach it.
    Public,
    /// In a private network.
    Private,
    /// On this machine.
    Loopback,
    /// Link-local (cloud metadata), multicast, unspecified, reserved.
    Reserved,
}

impl AddressClass {
    /// The class of an address. One that embeds an IPv4 address has the class of that one.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, third, _] = address.octets();
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_private() || (first == 100 && (64..128).contains(&second)) {
            Self::Private
        } else if first == 0
            || first >= 240
            || address.is_link_local()
            || address.is_multicast()
            || (first == 198 && matches!(second, 18 | 19))
            || (first == 192 && second == 0 && third == 0)
        {
            Self::Reserved
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let segments = address.segments();
        let embedded = |high: u16, low: u16| {
            Self::of_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        };
        match segments {
            _ if address.is_loopback() => Self::Loopback,
            _ if address.is_unspecified() || address.is_multicast() => Self::Reserved,
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => embedded(high, low),
            [first, ..] if first & 0xfe00 == 0xfc00 => Self::Private,
            // Link-local, and the site-local that came before unique local addresses.
            [first, ..] if first & 0xff80 == 0xfe80 => Self::Reserved,
            // Teredo, local NAT64 and the discard prefix: what is behind them isn't known.
            [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] | [0x100, 0, 0, 0, ..] => Self::Reserved,
            _ => Self::Public,
        }
    }
}

/// Whether a name always stands for this machine.
#[must_use]
pub fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_class_of_what_they_reach() {
        let class = |text: &str| AddressClass::of(text.parse().unwrap());
        let classes = [
            (
                AddressClass::Public,
                "93.184.215.14 1.1.1.1 192.0.2.1 2606:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101 2002:101:101::",
            ),
            (
                AddressClass::Loopback,
                "127.0.0.1 127.255.0.9 ::1 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: ::ffff:0:127.0.0.1",
            ),
            (
                AddressClass::Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fc00::1 fd12::1 ::ffff:10.1.1.1",
            ),
            (
                AddressClass::Reserved,
                "0.0.0.0 0.1.2.3 169.254.169.254 224.0.0.1 240.0.0.1 255.255.255.255 198.18.0.1 192.0.0.8 :: fe80::1 fec0::1 ff02::1 2001::1 64:ff9b:1::1 100::1 ::ffff:169.254.169.254",
            ),
        ];
        for (expected, addresses) in classes {
            for address in addresses.split(' ') {
                assert_eq!(class(address), expected, "{address}");
            }
        }
    }

    #[test]
    fn local_names_are_known_in_any_spelling() {
        for name in ["localhost", "LOCALHOST.", "a.localhost"] {
            assert!(is_local_name(name), "{name}");
        }
        assert!(!is_local_name("localhost.example"));
    }
}
