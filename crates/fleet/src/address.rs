//! Addresses of servers, and the user that they name.

/// The user of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// With a name and a password.
    Named {
        /// The name.
        name: String,
        /// The password.
        password: String,
    },
    /// With a token.
    Token(String),
}

/// The servers of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// Their addresses, without a user.
    pub addresses: Vec<String>,
    /// The user that the first address with one names; all servers know it.
    pub user: Option<User>,
}

/// Reads addresses that are separated by commas: `nats://USER:PASSWORD@HOST:PORT`, `nats://TOKEN@HOST:PORT`.
#[must_use]
pub fn read(text: &str) -> Servers {
    let mut servers = Servers {
        addresses: Vec::new(),
        user: None,
    };
    for address in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (scheme, rest) = address.split_once("://").unwrap_or(("nats", address));
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        servers.addresses.push(format!("{scheme}://{host}"));
        let user = user.map(|user| match user.split_once(':') {
            Some((name, password)) => User::Named {
                name: decoded(name),
                password: decoded(password),
            },
            None => User::Token(decoded(user)),
        });
        servers.user = servers.user.take().or(user);
    }
    servers
}

/// Text with `%40` as `@`, and so on.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_an_address_is_apart_from_it() {
        let found = read("nats://ada:p%40ss%25:1@a:4222, tls://b:4222,c");
        assert_eq!(
            found.addresses,
            ["nats://a:4222", "tls://b:4222", "nats://c"]
        );
        let named = User::Named {
            name: "ada".to_owned(),
            password: "p@ss%:1".to_owned(),
        };
        assert_eq!(found.user, Some(named));
        assert_eq!(
            read("nats://t0ken%zz@a").user,
            Some(User::Token("t0ken%zz".to_owned()))
        );
        assert_eq!(read("nats://a,nats://u@b").addresses.len(), 2);
    }
}
