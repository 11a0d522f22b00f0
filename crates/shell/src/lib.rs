//! Understanding and running shell commands.
//!
//! Two halves that don't need each other. *Understanding* is pure: [`syntax`] takes a command apart the way
//! bash does or refuses it, and [`analysis`] says what each part would do, which the permission decision
//! and `lathe permissions explain` build on. Start with [`analysis::analyse`]. *Running* is all side
//! effects: [`run`] starts commands so that each one comes back and nothing of it stays.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod run;
pub mod syntax;
