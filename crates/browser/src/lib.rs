//! The bridge between a session and the user's browser.
//!
//! The browser starts [`host`] for our extension and speaks native messaging with it: a length and JSON, over standard
//! input and output. The host listens at a socket that only this user can open. A session starts [`server`] as its MCP
//! server `browser`, which passes calls of tools to that socket. [`install`] writes the files by which the browser
//! finds the host.
#![forbid(unsafe_code)]

pub mod frame;
pub mod host;
pub mod install;
pub mod server;

use std::path::{Path, PathBuf};

/// The name by which the extension asks for the host.
pub const HOST_NAME: &str = "dev.lathe.browser";
/// The id of our extension, which follows from the key in its manifest.
pub const EXTENSION_ID: &str = "ckjlloecfkgclgpikfkobcckddfcklmg";

/// The folder of the sockets and the wrapper.
#[must_use]
pub fn folder(config_home: &Path) -> PathBuf {
    config_home.join("browser")
}
