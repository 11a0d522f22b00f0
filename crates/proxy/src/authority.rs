//! The certificate authority of a session: it signs certificates for the hosts whose connections the proxy looks into.
//!
//! Its key is made for the session and never leaves this process; only commands in the sandbox are told to trust it.
//! X.509 has many options, and a certificate for one use needs few of them, so they are written down here in DER.

use crate::der::{self, Tag};
use base64::Engine as _;
use lathe_sandbox::Host;
use parking_lot::Mutex;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The crypto library refused.
    #[error("no key could be made")]
    Key,
    /// The TLS library refused.
    #[error("a certificate was not accepted: {0}")]
    Tls(#[from] rustls::Error),
}

impl From<ring::error::Unspecified> for AuthorityError {
    fn from(_: ring::error::Unspecified) -> Self {
        Self::Key
    }
}

impl From<ring::error::KeyRejected> for AuthorityError {
    fn from(_: ring::error::KeyRejected) -> Self {
        Self::Key
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    key: EcdsaKeyPair,
    certificate: Vec<u8>,
    random: SystemRandom,
    /// The certificates issued so far.
    issued: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Authority")
    }
}

/// The name of the authority.
const NAME: &str = "Lathe sandbox, one session";
/// How many days certificates are valid, from a day before they are made.
const DAYS: i64 = 397;

impl Authority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// If the crypto library refuses.
    pub(crate) fn new() -> Result<Self, AuthorityError> {
        let random = SystemRandom::new();
        let (_, key) = new_key(&random)?;
        let usages = [
            extension(&[0x55, 0x1d, 0x13], true, &der::sequence(&[&der::yes()])),
            // keyCertSign
            extension(&[0x55, 0x1d, 0x0f], true, &[3, 2, 2, 4]),
            key_extension(&[0x55, 0x1d, 0x0e], &own_identifier(&key)),
        ];
        let certificate = certificate(&Contents {
            subject: NAME,
            public: key.public_key().as_ref(),
            extensions: &usages.concat(),
            signer: &key,
            random: &random,
        })?;
        Ok(Self {
            key,
            certificate,
            random,
            issued: Mutex::default(),
        })
    }

    /// Its certificate, as programs read it.
    pub(crate) fn pem(&self) -> String {
        use std::fmt::Write as _;
        let text = base64::engine::general_purpose::STANDARD.encode(&self.certificate);
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        for line in text.as_bytes().chunks(64) {
            let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// How to answer as a host.
    pub(crate) fn server(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        if let Some(known) = self.issued.lock().get(host) {
            return Ok(Arc::clone(known));
        }
        let (pkcs8, key) = new_key(&self.random)?;
        let name = match host {
            Host::Name(name) => der::tagged(Tag::Context(2), name.as_bytes()),
            Host::Address(IpAddr::V4(address)) => der::tagged(Tag::Context(7), &address.octets()),
            Host::Address(IpAddr::V6(address)) => der::tagged(Tag::Context(7), &address.octets()),
        };
        let above = der::tagged(Tag::Context(0), &own_identifier(&self.key));
        let usages = [
            // digitalSignature
            extension(&[0x55, 0x1d, 0x0f], true, &[3, 2, 7, 0x80]),
            // serverAuth
            extension(
                &[0x55, 0x1d, 0x25],
                false,
                &der::sequence(&[&[6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1]]),
            ),
            extension(&[0x55, 0x1d, 0x11], false, &der::sequence(&[&name])),
            extension(&[0x55, 0x1d, 0x23], false, &der::sequence(&[&above])),
        ];
        let certificate = certificate(&Contents {
            subject: "a host of the sandbox",
            public: key.public_key().as_ref(),
            extensions: &usages.concat(),
            signer: &self.key,
            random: &self.random,
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate)],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8)),
            )?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server = Arc::new(server);
        self.issued.lock().insert(host.clone(), Arc::clone(&server));
        Ok(server)
    }
}

fn new_key(random: &SystemRandom) -> Result<(Vec<u8>, EcdsaKeyPair), AuthorityError> {
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, random)?;
    let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), random)?;
    Ok((document.as_ref().to_vec(), key))
}

/// By what a key is known in the certificates that it signs.
fn own_identifier(key: &EcdsaKeyPair) -> Vec<u8> {
    let hash = digest::digest(&digest::SHA256, key.public_key().as_ref());
    hash.as_ref().iter().take(20).copied().collect()
}

fn key_extension(identifier: &[u8], key: &[u8]) -> Vec<u8> {
    extension(identifier, false, &der::tagged(Tag::Octets, key))
}

fn extension(identifier: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let identifier = der::tagged(Tag::Identifier, identifier);
    let value = der::tagged(Tag::Octets, value);
    let critical = if critical { der::yes() } else { Vec::new() };
    der::sequence(&[&identifier, &critical, &value])
}

/// The fields of a certificate.
struct Contents<'a> {
    subject: &'a str,
    public: &'a [u8],
    extensions: &'a [u8],
    signer: &'a EcdsaKeyPair,
    random: &'a SystemRandom,
}

fn certificate(contents: &Contents<'_>) -> Result<Vec<u8>, AuthorityError> {
    // ecdsa-with-SHA256
    let algorithm = der::sequence(&[&[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]]);
    let mut serial = [0; 16];
    contents.random.fill(&mut serial)?;
    // Positive, and not shorter than it looks.
    serial[0] = serial[0] & 0x3f | 0x40;
    let version = der::tagged(Tag::Constructed(0), &[2, 1, 2]);
    let extensions = der::sequence(&[contents.extensions]);
    let parts: [&[u8]; 8] = [
        &version,
        &der::tagged(Tag::Integer, &serial),
        &algorithm,
        &name(NAME),
        &validity(),
        &name(contents.subject),
        &public_key(contents.public),
        &der::tagged(Tag::Constructed(3), &extensions),
    ];
    let signed = der::sequence(&parts);
    let signature = contents.signer.sign(contents.random, &signed)?;
    Ok(der::sequence(&[
        &signed,
        &algorithm,
        &der::bits(signature.as_ref()),
    ]))
}

fn public_key(point: &[u8]) -> Vec<u8> {
    // id-ecPublicKey on prime256v1
    let algorithm = der::sequence(&[
        &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1],
        &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
    ]);
    der::sequence(&[&algorithm, &der::bits(point)])
}

/// A name with a common name alone.
fn name(text: &str) -> Vec<u8> {
    let common = der::tagged(Tag::Identifier, &[0x55, 4, 3]);
    let value = der::tagged(Tag::Text, text.as_bytes());
    let part = der::tagged(Tag::Set, &der::sequence(&[&common, &value]));
    der::sequence(&[&part])
}

fn validity() -> Vec<u8> {
    let now = jiff::Timestamp::now();
    let day = |days: i64| {
        let moment = now + jiff::SignedDuration::from_hours(24 * days);
        let text = moment.strftime("%Y%m%d%H%M%SZ").to_string();
        // Years up to 2049 have two digits.
        match text.strip_prefix("20") {
            Some(short) if short.starts_with(['2', '3', '4']) => {
                der::tagged(Tag::ShortTime, short.as_bytes())
            }
            _ => der::tagged(Tag::Time, text.as_bytes()),
        }
    };
    der::sequence(&[&day(-1), &day(DAYS)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};

    fn authority_and_leaf(host: &str) -> (Authority, CertificateDer<'static>) {
        let authority = Authority::new().unwrap();
        let host = Host::parse(host).unwrap();
        let server = authority.server(&host).unwrap();
        assert!(Arc::ptr_eq(&server, &authority.server(&host).unwrap()));
        let leaf = leaf_of(&server);
        (authority, leaf)
    }

    /// The certificate that a server shows to a client.
    fn leaf_of(server: &Arc<ServerConfig>) -> CertificateDer<'static> {
        let seen = Arc::new(Mutex::new(None));
        let verifier = Arc::new(Watching(Arc::clone(&seen)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let name = ServerName::try_from("any.example").unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = rustls::ServerConnection::new(Arc::clone(server)).unwrap();
        while seen.lock().is_none() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut bytes.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets().unwrap();
        }
        let leaf = seen.lock().take();
        leaf.unwrap()
    }

    #[derive(Debug)]
    struct Watching(Arc<Mutex<Option<CertificateDer<'static>>>>);

    impl rustls::client::danger::ServerCertVerifier for Watching {
        fn verify_server_cert(
            &self,
            leaf: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            *self.0.lock() = Some(leaf.clone().into_owned());
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            leaf: &CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            self.verify_tls12_signature(message, leaf, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            vec![rustls::SignatureScheme::ECDSA_NISTP256_SHA256]
        }
    }

    #[test]
    fn a_certificate_is_good_for_its_host_and_no_other_and_only_for_who_trusts_the_authority() {
        for (host, other) in [("api.example", "www.example"), ("127.0.0.1", "127.0.0.2")] {
            let (authority, leaf) = authority_and_leaf(host);
            let verify = |authority: &Authority, name: &str| {
                let mut roots = RootCertStore::empty();
                roots
                    .add(CertificateDer::from(authority.certificate.clone()))
                    .unwrap();
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .unwrap();
                let name = ServerName::try_from(name.to_owned()).unwrap();
                verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now())
            };
            verify(&authority, host).unwrap();
            verify(&authority, other).unwrap_err();
            verify(&Authority::new().unwrap(), host).unwrap_err();
        }
    }
}
