//! Installations: which kind this program is, and how the native kind is installed, updated and removed.
//!
//! Only the native layout ([`layout`]) changes itself. A release is described by a manifest that is signed with
//! the key in the program ([`manifest`]); an archive counts only if it has the size and the hash that the manifest
//! names ([`download`]). A new version is prepared in a folder of its own and takes effect by one rename of a link
//! ([`install`]), so a process that is killed at any point leaves the old version or the new one.
//!
//! Other kinds ([`kind`]) belong to their package manager; the command to use is named instead.
#![forbid(unsafe_code)]

pub mod check;
pub mod diagnosis;
pub mod download;
mod error;
pub mod install;
pub mod kind;
pub mod layout;
pub mod lock;
pub mod manifest;
pub mod migrations;
mod version;

pub use error::UpdateError;
pub use install::{Done, Wanted};
pub use kind::Kind;
pub use layout::Layout;
pub use version::Version;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The target that this program was built for.
pub const TARGET: &str = env!("RELEASE_TARGET");
