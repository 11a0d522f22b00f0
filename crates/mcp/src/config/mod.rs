//! Which servers there are: from files, settings, plugins and flags to a list.
//!
//! Servers are declared in several places; of two with one name the stronger place counts: a company's
//! policy, `--mcp-config`, the local settings of this person, the project (`.mcp.json`), the person's own
//! settings, plugins. What is declared is not yet started: a server that the project brings needs the
//! folder's trust and a person's word ([`choices`]), a policy may refuse it ([`policy`]), and its variables
//! must be there ([`expand`]). [`load()`] says of each server where it stands, and never fails: what is wrong
//! with one is said of that one.
//!
//! [`edit`] changes the files without disturbing what is in them, [`import`] reads those of other clients.
//!
//! Start with [`load()`] and [`Standing`].

pub mod choices;
pub mod edit;
pub mod entry;
pub mod expand;
pub mod import;
mod load;
pub mod policy;

pub use choices::Choices;
pub use entry::{ConfigError, Place};
pub use load::{
    Declared, PluginServers, Request, Scope, Servers, Standing, files, load, own_servers,
    read_flags, refusal,
};
