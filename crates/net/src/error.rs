use std::error::Error as _;
use std::path::PathBuf;

/// Why a file of certificates or keys is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateProblem {
    /// The system refuses to read it.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// It has another format.
    #[error("is not PEM: {0}")]
    NotPem(String),
    /// It is empty, or holds something else.
    #[error("contains no certificate; it must be PEM")]
    Empty,
    /// The key isn't there or is encrypted.
    #[error("has no usable key in {}: {reason}; the key must be PEM and not encrypted", .file.display())]
    Key {
        /// The file of the key.
        file: PathBuf,
        /// The reader's reason.
        reason: String,
    },
    /// The TLS library refuses the pair.
    #[error("and its key don't match: {0}")]
    Mismatch(String),
}

/// Why a client could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// A proxy variable holds something else.
    #[error("{variable} is not a proxy address; it should look like http://proxy.example:3128")]
    Proxy {
        /// The variable.
        variable: &'static str,
    },
    /// A file of certificate authorities can't be used.
    #[error(
        "the CA file {} (NODE_EXTRA_CA_CERTS, LATHE_EXTRA_CA_CERTS or SSL_CERT_FILE) {reason}",
        .file.display()
    )]
    CaFile {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: CertificateProblem,
    },
    /// The client certificate or its key can't be used.
    #[error(
        "the client certificate {} (LATHE_CLIENT_CERT or CLAUDE_CODE_CLIENT_CERT, with its key in LATHE_CLIENT_KEY or CLAUDE_CODE_CLIENT_KEY) {reason}",
        .file.display()
    )]
    ClientCertificate {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: CertificateProblem,
    },
    /// The TLS library refuses the configuration.
    #[error("TLS can't be set up: {0}")]
    Tls(String),
    /// The HTTP library refuses the configuration.
    #[error("the HTTP client can't be set up: {0}")]
    Client(String),
}

/// Why a response's body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// There is more of it than is wanted.
    #[error("an answer of more than {limit} bytes")]
    TooLarge {
        /// How much is read.
        limit: usize,
    },
    /// The connection broke.
    #[error("{0}")]
    Lost(String),
}

/// The root cause of an error, without the address, which may contain secrets.
#[must_use]
pub fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else {
        // The outermost error names the address; its kind is all there is.
        let kind = if error.is_timeout() {
            "it took too long"
        } else if error.is_redirect() {
            "it was redirected elsewhere"
        } else {
            "the request failed"
        };
        return kind.to_owned();
    };
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
