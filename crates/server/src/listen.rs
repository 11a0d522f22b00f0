//! Where a server listens: 127.0.0.1, or another address with TLS of its own or behind a proxy that is named.

use crate::serve::ServeError;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, version};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The certificate of a server and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that it was signed with.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Where a server listens, and under which names it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: IpAddr,
    /// The port; 0 is any free one.
    pub port: u16,
    /// The server's own TLS.
    pub tls: Option<TlsFiles>,
    /// Host names under which devices reach it.
    pub names: Vec<String>,
    /// The host name of a proxy in front that ends TLS.
    pub proxy: Option<String>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            tls: None,
            names: Vec::new(),
            proxy: None,
        }
    }
}

impl Listen {
    /// Refuses what would send tokens in plain text over a network.
    ///
    /// # Errors
    /// For another address than this machine's own without TLS or a proxy, or one that no name leads to.
    pub fn check(&self) -> Result<(), ServeError> {
        let address = self.address;
        if !address.is_loopback() && self.tls.is_none() && self.proxy.is_none() {
            return Err(ServeError::PlainText { address });
        }
        let is_named = self.proxy.is_some() || !self.names.is_empty();
        if address.is_unspecified() && !is_named {
            return Err(ServeError::NoName { address });
        }
        Ok(())
    }

    /// The `Host` headers that mean this server.
    #[must_use]
    pub fn hosts(&self, port: u16) -> Vec<String> {
        let mut names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        if !self.address.is_loopback() && !self.address.is_unspecified() {
            names.push(literal(self.address));
        }
        names.extend(self.names.iter().map(|name| name.to_lowercase()));
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if self.tls.is_some() && port == 443 {
            hosts.extend(names);
        }
        hosts.extend(self.proxy.as_deref().map(str::to_lowercase));
        hosts
    }

    /// The beginning of links to this server.
    #[must_use]
    pub fn url(&self, port: u16) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let name = match self.names.first() {
            Some(name) => name.clone(),
            None if self.address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            None => literal(self.address),
        };
        format!("{scheme}://{name}:{port}")
    }

    /// The server's side of TLS, if it has one.
    ///
    /// # Errors
    /// If the certificate or its key can't be used.
    pub(crate) fn acceptor(&self) -> Result<Option<TlsAcceptor>, ServeError> {
        let Some(files) = &self.tls else {
            return Ok(None);
        };
        let certificates = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| ServeError::Tls {
            path: files.key.clone(),
            reason: error.to_string(),
        })?;
        let failed = |error: rustls::Error| ServeError::Tls {
            path: files.certificate.clone(),
            reason: error.to_string(),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(failed)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let failed = |reason: String| ServeError::Tls {
        path: path.to_owned(),
        reason,
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|error| failed(error.to_string()))?
        .collect();
    match found {
        Ok(found) if found.is_empty() => Err(failed("it holds no certificate".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// An address as links and `Host` headers have it.
fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: &str, tls: bool, names: &[&str], proxy: Option<&str>) -> Listen {
        Listen {
            address: address.parse().unwrap(),
            port: 1,
            tls: tls.then(|| TlsFiles {
                certificate: "/c.pem".into(),
                key: "/k.pem".into(),
            }),
            names: names.iter().map(ToString::to_string).collect(),
            proxy: proxy.map(str::to_owned),
        }
    }

    #[test]
    fn nothing_is_served_in_plain_text_over_a_network() {
        let rows = [
            (listen("127.0.0.1", false, &[], None), true),
            (listen("::1", false, &[], None), true),
            (listen("192.168.1.5", false, &[], None), false),
            (listen("192.168.1.5", false, &["box.example"], None), false),
            (listen("0.0.0.0", false, &[], None), false),
            (listen("::", false, &[], None), false),
            (listen("192.168.1.5", true, &[], None), true),
            (listen("0.0.0.0", true, &[], None), false),
            (listen("0.0.0.0", true, &["box.example"], None), true),
            (listen("10.0.0.1", false, &[], Some("box.example")), true),
            (listen("0.0.0.0", false, &[], Some("box.example")), true),
        ];
        for (listen, allowed) in rows {
            assert_eq!(listen.check().is_ok(), allowed, "{listen:?}");
        }
    }

    #[test]
    fn a_server_answers_to_its_own_names_only() {
        let own = listen("192.168.1.5", true, &["Box.example"], None);
        assert_eq!(
            own.hosts(443),
            [
                "127.0.0.1:443",
                "localhost:443",
                "192.168.1.5:443",
                "box.example:443",
                "127.0.0.1",
                "localhost",
                "192.168.1.5",
                "box.example"
            ]
        );
        assert_eq!(own.url(443), "https://Box.example:443");
        let plain = listen("127.0.0.1", false, &[], None);
        assert_eq!(plain.hosts(7), ["127.0.0.1:7", "localhost:7"]);
        assert_eq!(plain.url(7), "http://127.0.0.1:7");
        assert_eq!(
            listen("fd00::1", true, &[], None).url(7),
            "https://[fd00::1]:7"
        );
    }
}
