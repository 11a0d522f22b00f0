//! Settings: where they come from, and which apply.
//!
//! Settings lie in several files — a company's policy, the user's own, the project's, the
//! project's for this person — and on the command line. This crate finds them ([`paths`]), reads
//! them with the place of every key ([`document`]), holds them to the one declaration of all keys
//! ([`schema`], [`validate`]), leaves out what an untrusted folder may not say ([`trust`]), and
//! merges the rest by strength ([`merge`], [`mod@load`]). It also changes them without disturbing what
//! the user wrote ([`mod@write`]) and notices when somebody else does ([`watch`]).
//!
//! Deliberately absent: it never prints, never asks, never stops a start, and reads the
//! process's own environment in one place only ([`paths::Environment::of_process`]). A file that is
//! broken is a [`source::Problem`] in the result and grants nothing.
//!
//! Start with [`load::load`] and [`load::Resolved`].
#![forbid(unsafe_code)]

pub mod cli;
pub mod docs;
pub mod document;
pub mod environment;
pub mod folder_watcher;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod instructions;
pub mod key;
pub mod load;
pub mod merge;
pub mod nearest;
pub mod patch;
pub mod paths;
pub mod quiet;
mod reading;
pub mod regular_file;
pub mod schema;
pub mod source;
pub mod trust;
pub mod trust_store;
pub mod validate;
pub mod watch;
pub mod write;

pub use environment::Variable;
pub use key::KeyPath;
pub use load::{Layer, LoadOptions, Resolved, SourcedRule, load};
pub use paths::{Environment, Places};
pub use schema::Settings;
pub use source::{Problem, Severity, Source};
pub use trust::Trust;
pub use trust_store::TrustStore;
pub use watch::{Change, SettingsWatcher};
pub use write::OwnWrites;
