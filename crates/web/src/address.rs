//! Which addresses may be reached.

use crate::error::FetchError;
use crate::fetch::Lookup;
use lathe_net::{AddressClass, is_local_name};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use url::{Host, Url};

/// Checks an address as far as it can be checked without resolving its name.
pub(crate) fn check_literal(url: &Url, private: bool) -> Result<(), FetchError> {
    let refused = |address: String| FetchError::NotPublic {
        host: url.host_str().unwrap_or_default().to_owned(),
        address,
    };
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(name)) if is_local_name(name) && !private => {
            return Err(refused("this machine".to_owned()));
        }
        Some(Host::Domain(_)) => return Ok(()),
        None => {
            return Err(FetchError::NotAnAddress {
                url: url.to_string(),
                reason: "it has no host".to_owned(),
            });
        }
    };
    if private || AddressClass::of(address) == AddressClass::Public {
        Ok(())
    } else {
        Err(refused(address.to_string()))
    }
}

/// Resolves names, and gives only those addresses that may be reached. The connection is made to one of them, so
/// that a name can't stand for something else in between.
pub(crate) struct Filter {
    pub(crate) lookup: Arc<dyn Lookup>,
    /// Whether addresses that aren't public may be reached.
    pub(crate) private: bool,
    /// The hosts of proxies, which stand anywhere.
    pub(crate) proxies: Vec<String>,
    /// Why a name was refused: the client's own error doesn't say.
    pub(crate) refusal: Arc<Mutex<Option<FetchError>>>,
}

impl Resolve for Filter {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let free = self.private || self.proxies.contains(&host);
        let (lookup, refusal) = (self.lookup.clone(), self.refusal.clone());
        Box::pin(async move {
            match allowed(lookup.as_ref(), &host, free).await {
                Ok(found) => Ok(Box::new(found.into_iter()) as Addrs),
                Err(error) => {
                    *refusal.lock() = Some(error.clone());
                    Err(error.into())
                }
            }
        })
    }
}

/// The addresses of a name that may be reached. If one of them may not, none may: who names both wants to be
/// tried until the other one is taken.
pub(crate) async fn allowed(
    lookup: &dyn Lookup,
    host: &str,
    free: bool,
) -> Result<Vec<SocketAddr>, FetchError> {
    let found = lookup
        .lookup(host)
        .await
        .map_err(|error| FetchError::Unresolved {
            host: host.to_owned(),
            reason: error.to_string(),
        })?;
    let inner = found
        .iter()
        .find(|address| !free && AddressClass::of(**address) != AddressClass::Public);
    match inner {
        Some(inner) => Err(FetchError::NotPublic {
            host: host.to_owned(),
            address: inner.to_string(),
        }),
        None if found.is_empty() => Err(FetchError::Unresolved {
            host: host.to_owned(),
            reason: "it has no address".to_owned(),
        }),
        None => Ok(found
            .into_iter()
            .map(|address| SocketAddr::new(address, 0))
            .collect()),
    }
}
