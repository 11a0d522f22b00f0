//! The transcript store from outside: real files, real processes, real git.

mod api_rules;
mod conversation;
mod load;
mod properties;
mod store;
mod support;
mod undo;
mod writer;
