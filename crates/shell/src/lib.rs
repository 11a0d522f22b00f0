//! Understanding and running shell commands.
#![deny(unsafe_code)]

pub mod analysis;
pub mod run;
pub mod syntax;
