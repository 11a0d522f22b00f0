//! Being authorised at servers that ask for it (OAuth 2.1).
//!
//! The loop that every connection follows: connect without a token; on a challenge find out who
//! authorises (`discovery`), identify ourselves (`registration`), let the person agree in a
//! browser (`callback`) or use the client's own credentials, and connect again with the token. A
//! later refusal is answered by a refresh (`tokens`), then by asking for the scopes we had and the
//! scopes that are wanted, together, at most twice.
//!
//! Where nobody is at a browser nothing waits: the server is reported as one that needs a sign-in,
//! with the command for it. Credentials lie in the system's keyring (`keyring`), or in a file that only
//! the person can read (`store`); no token, code or secret is ever written to a log.

mod address;
mod authoriser;
mod browser;
mod callback;
mod challenge;
mod discovery;
mod error;
mod key;
mod keyring;
mod registration;
mod store;
mod tokens;

pub(crate) use authoriser::{Access, Authoriser};
pub use browser::{Browser, BrowserError, SystemBrowser};
pub use challenge::Challenge;
pub use keyring::Wanted;
pub use store::{CredentialStore, Keeping, Summary};
