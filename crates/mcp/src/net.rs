//! HTTP to MCP servers and their authorisation servers: redirects only within an origin, and errors that don't
//! repeat addresses, which may hold secrets.

use lathe_net::{ClientOptions, Network, Reach, Redirects};
use lathe_settings::Environment;
use reqwest::Client;
use std::time::Duration;
use url::Url;

pub(crate) use lathe_net::innermost;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The options that all clients of this crate have in common.
pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        redirects: Redirects::SameOrigin,
        connect_timeout: Some(CONNECT),
        ..ClientOptions::default()
    }
}

/// A client for a server's address.
pub(crate) fn client(environment: &Environment, url: &Url) -> Result<Client, String> {
    let options = ClientOptions {
        reach: Reach::by_scheme(url),
        ..options()
    };
    Network::of(environment)
        .client(&options)
        .map_err(|error| error.to_string())
}

/// The body of a response, up to a limit.
pub(crate) async fn body(response: reqwest::Response, limit: usize) -> Result<Vec<u8>, String> {
    lathe_net::body(response, limit)
        .await
        .map_err(|error| error.to_string())
}
