//! HTTP clients, made in one place.
//!
//! A [`Network`] is how this machine reaches others: proxies, certificate authorities and the client
//! certificate, as the environment names them. A [`Client`](reqwest::Client) is made from it with what one
//! use needs ([`ClientOptions`]): which redirects are followed, how long it waits, where it may go. So a
//! proxy or a company's certificate authority applies to the model, MCP servers, hooks and downloads alike.
//!
//! Making a client is cheap, since it happens between the start of the process and the first request. Reading
//! the system's certificates isn't, so they are read when a server is reached over TLS, on a thread of their
//! own, while the connection is made, and once for all clients.
//!
//! [`sse`] reads the event streams that models and MCP servers answer with.
//!
//! Start with [`Network::of`] and [`Network::client`].
#![forbid(unsafe_code)]

mod address;
mod client;
mod error;
mod network;
pub mod sse;
mod trust;

pub use address::{AddressClass, is_local_name};
pub use client::{ClientOptions, Reach, Redirects, body, install_crypto, is_loopback};
pub use error::{BodyError, CertificateProblem, NetError, innermost};
pub use network::{ClientIdentity, Network, Proxies};
pub use trust::NO_SYSTEM_CERTIFICATES;
