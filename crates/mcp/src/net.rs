//! HTTP to MCP servers and their authorisation servers: redirects only within an origin, and errors
//! without addresses, which may contain secrets.

use lathe_net::{ClientOptions, NetError, Network, Reach, Redirects};
use lathe_settings::Environment;
use reqwest::Client;
use std::time::Duration;
use url::Url;

pub(crate) use lathe_net::{body, innermost};

/// The time limit of a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The options of all clients in this crate.
pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        redirects: Redirects::SameOrigin,
        connect_timeout: Some(CONNECT),
        ..ClientOptions::default()
    }
}

/// A client for a server's address.
pub(crate) fn client(environment: &Environment, url: &Url) -> Result<Client, NetError> {
    let options = ClientOptions {
        reach: Reach::by_scheme(url),
        ..options()
    };
    Network::of(environment).client(&options)
}
