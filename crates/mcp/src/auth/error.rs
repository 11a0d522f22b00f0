use crate::text;
use url::Url;

/// Why a sign-in failed before the authorisation server decided about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthError {
    #[error("{field}: {address:?} is not an address ({source})")]
    Address {
        field: &'static str,
        address: String,
        source: url::ParseError,
    },
    #[error("{0} doesn't describe an authorisation server")]
    NoMetadata(Url),
    #[error("the authorisation server {0} doesn't describe itself at any well-known address")]
    Undescribed(String),
    #[error("the challenge contains an invalid address: {0}")]
    Challenge(#[source] url::ParseError),
    #[error(
        "the server identifies itself as {}, but its address is {address}; a token for one isn't sent to the other",
        text::line(.claimed, 200)
    )]
    OtherResource { claimed: String, address: String },
    #[error(
        "the authorisation server {expected} identifies itself as {}; refused",
        text::line(.claimed, 200)
    )]
    OtherIssuer { expected: String, claimed: String },
    #[error("the server refers to {0}, which is not a public address; refused")]
    NotPublic(String),
    #[error("the server refers to {0}, which is not encrypted (https); refused")]
    NotEncrypted(String),
    #[error("{host} can't be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error(
        "{0} accepts no registrations; register a client there and pass its id with --client-id"
    )]
    NoRegistrations(String),
    #[error("{issuer} refused the registration: {reason}")]
    Registration { issuer: String, reason: String },
    #[error("the callback port {port} can't be used: {source}")]
    CallbackPort { port: u16, source: std::io::Error },
    #[error("can't listen on 127.0.0.1: {0}")]
    Listen(#[from] std::io::Error),
    #[error("{0} has no authorisation page")]
    NoPage(String),
    #[error(
        "the response names the issuer {}, but the request went to {expected}; refused",
        text::line(.claimed, 200)
    )]
    OtherAnswer { expected: String, claimed: String },
    #[error("the response doesn't name the issuer {0}; refused")]
    UnnamedAnswer(String),
    #[error(
        "the stored client secret is for {bound}, but the server now refers to {issuer}; store it again (`lathe mcp add … --client-secret`) if that is right"
    )]
    OtherSecret { bound: String, issuer: String },
    /// The HTTP client can't be built, or an answer can't be read.
    #[error("{0}")]
    Http(String),
}
