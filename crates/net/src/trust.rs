//! Which servers are trusted, and as whom we are known to them.
//!
//! Reading the system's certificates takes longer than everything else between the start of the
//! process and its first byte on the wire: on Linux they are hundreds of files. But they are only
//! needed once the server has answered with its own certificate. So they are read on a thread of
//! their own while the connection is made, and looked at when both are there. All clients of the process
//! share them.

use crate::error::{CertificateProblem, NetError};
use crate::network::{ClientIdentity, Network};
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The error message for a system without certificates.
pub const NO_SYSTEM_CERTIFICATES: &str = "No CA certificates were loaded from the system";

/// The TLS side of a client.
pub(crate) fn tls_config(network: &Network) -> Result<ClientConfig, NetError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| NetError::Tls(error.to_string()))?;
    let mut trusted = Vec::new();
    for path in network.extra_ca_files.iter().chain(&network.ca_file) {
        trusted.extend(authorities(path)?);
    }
    let named: Arc<[CertificateDer<'static>]> = trusted.into();
    let judge: Arc<dyn ServerCertVerifier> = if network.ca_file.is_some() {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(named.iter().cloned());
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| NetError::Tls(error.to_string()))?
    } else {
        SystemTrust::shared(Arc::clone(&named), provider)
    };
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NamedTrust { judge, named }));
    let Some(identity) = &network.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let (chain, key) = client_certificate(identity)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| identity.unusable(CertificateProblem::Mismatch(error.to_string())))
}

fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    certificates(path).map_err(|reason| NetError::CaFile {
        file: path.to_path_buf(),
        reason,
    })
}

impl ClientIdentity {
    fn unusable(&self, reason: CertificateProblem) -> NetError {
        NetError::ClientCertificate {
            file: self.certificate.clone(),
            reason,
        }
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_certificate(identity: &ClientIdentity) -> Result<Identity, NetError> {
    let chain = certificates(&identity.certificate).map_err(|reason| identity.unusable(reason))?;
    let file = identity.key.as_ref().unwrap_or(&identity.certificate);
    let key = PrivateKeyDer::from_pem_file(file).map_err(|error| {
        identity.unusable(CertificateProblem::Key {
            file: file.clone(),
            reason: error.to_string(),
        })
    })?;
    Ok((chain, key))
}

/// The certificates of a PEM file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateProblem> {
    let pem =
        std::fs::read(path).map_err(|error| CertificateProblem::Unreadable(error.to_string()))?;
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| CertificateProblem::NotPem(error.to_string()))?;
    if found.is_empty() {
        return Err(CertificateProblem::Empty);
    }
    Ok(found)
}

/// Another verifier's judgement, except for a server that shows a certificate which the user named.
///
/// `openssl req -x509` makes certificates that are authorities, and people put them on servers. Nothing
/// is wrong with one that was named itself: it is the very one, it is valid at this time (that is looked
/// at before), and it must still be for the server's name. Every other program accepts it.
#[derive(Debug)]
struct NamedTrust {
    judge: Arc<dyn ServerCertVerifier>,
    named: Arc<[CertificateDer<'static>]>,
}

impl ServerCertVerifier for NamedTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.judge.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match judged {
            Err(error) if is_authority_itself(&error) && self.named.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}

/// Whether the only thing that stands against a certificate is that it may sign others.
fn is_authority_itself(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if format!("{other:?}").contains("CaUsedAsEndEntity")
    )
}

/// The system's judgement, with some authorities of the user's own.
#[derive(Debug, Clone)]
struct SystemTrust {
    loaded: Arc<OnceLock<Result<Verifier, rustls::Error>>>,
    extra: Arc<[CertificateDer<'static>]>,
    provider: Arc<CryptoProvider>,
}

/// The trust of every client so far, by its own authorities: nearly always one.
static SHARED: Mutex<Vec<SystemTrust>> = Mutex::new(Vec::new());

impl SystemTrust {
    /// The system's judgement with these authorities, which begins to load here if it isn't loaded.
    fn shared(extra: Arc<[CertificateDer<'static>]>, provider: Arc<CryptoProvider>) -> Arc<Self> {
        let mut shared = SHARED.lock();
        // What could not be loaded may be readable by now.
        shared.retain(|trust| !matches!(trust.loaded.get(), Some(Err(_))));
        if let Some(trust) = shared.iter().find(|trust| trust.extra == extra) {
            return Arc::new(trust.clone());
        }
        let trust = Self {
            loaded: Arc::new(OnceLock::new()),
            extra,
            provider,
        };
        shared.push(trust.clone());
        let ahead = trust.clone();
        // Without a thread the certificates are read when they are needed, which is only slower.
        let _ = std::thread::Builder::new()
            .name("ca-certificates".to_owned())
            .spawn(move || {
                let _ = ahead.verifier();
            });
        Arc::new(trust)
    }

    fn verifier(&self) -> Result<&Verifier, rustls::Error> {
        let load = || {
            Verifier::new_with_extra_roots(self.extra.iter().cloned(), Arc::clone(&self.provider))
        };
        self.loaded.get_or_init(load).as_ref().map_err(Clone::clone)
    }
}

impl ServerCertVerifier for SystemTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verifier = self.verifier()?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier()?
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier()?
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        // Asked for before the first byte is sent: it must not wait for the certificates.
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
