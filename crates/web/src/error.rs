use std::time::Duration;

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is no address.
    #[error("{url} is not a URL: {reason}")]
    NotAnAddress {
        /// The input.
        url: String,
        /// Why it is invalid.
        reason: String,
    },
    /// Another scheme than http and https.
    #[error("only http and https addresses can be fetched, not {0}:")]
    Scheme(String),
    /// The address has a name or a password in it.
    #[error(
        "the address has a user name or a password in it; those aren't sent. Remove the part before the @"
    )]
    Credentials,
    /// The host is on this machine or in a private network.
    #[error(
        "{host} is not a public address ({address}). It is reached only if an allow rule names the host literally: WebFetch(domain:{host})"
    )]
    NotPublic {
        /// The host.
        host: String,
        /// The resolved address.
        address: String,
    },
    /// The name has no address.
    #[error("{host} can't be resolved: {reason}")]
    Unresolved {
        /// The host.
        host: String,
        /// The resolver's reason.
        reason: String,
    },
    /// Nothing answers there, or not as it should.
    #[error("{host} can't be reached: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The encrypted address doesn't answer, and the other one wasn't agreed to.
    #[error(
        "{host} doesn't answer over https ({reason}), and http is not encrypted. If that is acceptable, the user can add the host to webFetch.plainHttp in the settings"
    )]
    OnlyPlain {
        /// The host.
        host: String,
        /// Why https failed.
        reason: String,
    },
    /// It leads from an encrypted address to one that isn't.
    #[error("{host} redirects from https to http, which is not encrypted")]
    Downgrade {
        /// The host.
        host: String,
    },
    /// It leads around and around.
    #[error("it redirects more than {0} times")]
    TooManyRedirects(usize),
    /// A redirect without a place to go to.
    #[error("it redirects to something that is not an address")]
    BadRedirect,
    /// It took too long.
    #[error("no complete answer in {} s", .0.as_secs())]
    TimedOut(Duration),
    /// There is too much of it.
    #[error("the response has more than {} MB", .limit / 1_048_576)]
    TooLarge {
        /// How much is taken.
        limit: usize,
    },
    /// There is too much of it once it is unpacked.
    #[error("the response has more than {} MB when decompressed", .limit / 1_048_576)]
    Bomb {
        /// How much is taken.
        limit: usize,
    },
    /// It is packed in a way that wasn't asked for.
    #[error("the response is encoded as {0:?}, which was not requested")]
    Packed(String),
    /// It can't be unpacked.
    #[error("the response can't be decompressed: {0}")]
    Damaged(String),
    /// A client can't be made.
    #[error("{0}")]
    Client(String),
}
