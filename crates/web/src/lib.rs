//! Pages of the web, for a model to read.
//!
//! [`Fetcher`] gets one page: from addresses that the caller may reach, within limits of time and size, without
//! cookies or credentials. [`html::to_markdown`] makes text of it. Both expect the other side to be hostile: a
//! server that redirects to the private network, a name that resolves to another address the second time, a body
//! that never ends or grows a thousandfold when it is unpacked, HTML that is ten thousand levels deep.
//!
//! Start with [`Fetcher::fetch`].
#![forbid(unsafe_code)]

mod address;
mod body;
mod cache;
mod charset;
mod content;
mod error;
mod fetch;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod html;
pub mod search;

pub use cache::Cache;
pub use content::{Content, Kind};
pub use error::FetchError;
pub use fetch::{
    Access, Fetched, Fetcher, Limits, Looking, Lookup, Moved, Outcome, SystemLookup, parse,
};
