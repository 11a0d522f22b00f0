//! The faces without a terminal: print mode ([`mod@print`]), the SDK protocol ([`sdk`]) and editors ([`acp`]).
//!
//! A face sends ops to a session and renders its events. It decides nothing: what may run,
//! what is kept and when a turn ends is the engine's. On standard output there is nothing but what
//! was promised; everything else goes to standard error, and a clean run leaves that empty.
//!
//! Start with [`mod@print`].
#![forbid(unsafe_code)]

pub mod acp;
pub mod command;
pub mod exit;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod output;
mod permission_tool;
pub mod print;
pub mod sdk;
pub mod sequence;
