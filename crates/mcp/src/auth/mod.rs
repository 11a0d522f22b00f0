//! Being authorised at servers that ask for it (OAuth 2.1).

mod browser;

pub use browser::{Browser, SystemBrowser};
