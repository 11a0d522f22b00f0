//! Authorisation at servers (OAuth 2.1).
//!
//! Every connection first tries without a token. On a challenge it finds the authorisation server
//! (`discovery`), identifies the client (`registration`), lets the user consent in a browser
//! (`callback`) or uses the client's own credentials, and connects again with the token. A later
//! refusal leads to a refresh (`tokens`), then to a new authorisation with the scopes granted
//! before and the required ones, at most twice.
//!
//! Without a browser nothing waits: the server is reported as requiring a sign-in, with the command
//! for it. Credentials are in the system's keyring (`lathe-keyring`) or in a file that only the user can
//! read (`store`); no token, code or secret is ever logged.

mod address;
mod authoriser;
mod browser;
mod callback;
mod challenge;
mod discovery;
mod error;
mod key;
mod registration;
mod store;
mod tokens;

pub(crate) use authoriser::{Access, Authoriser};
pub use browser::{Browser, BrowserError, SystemBrowser};
pub use challenge::Challenge;
pub use lathe_keyring::StorageChoice;
pub use store::{CredentialStorage, CredentialStore, Summary};
