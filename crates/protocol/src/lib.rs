//! The vocabulary of Lathe.
//!
//! Every word that two crates exchange is defined here once: what the model API takes and gives
//! ([`content`], [`message`], [`stream`], [`usage`]), what a transcript line is ([`record`]), what a
//! face sends the engine ([`op`]) and receives from it ([`event`]), what is asked of the user
//! ([`permission`], [`elicitation`]) and of a hook ([`hook`]), how a call is shown ([`display`]), what an SDK host
//! reads and writes ([`frame`]) and asks ([`control`]), which slash commands there are ([`command`]) and how a problem is reported ([`diagnostic`]).
//!
//! This crate is plain data and pure functions over it. It does no I/O, has no async code and no
//! policy. Fields that a newer peer sends and this version doesn't know survive a round trip.
//!
//! Start with [`content::ContentBlock`] and [`record::Record`].
#![forbid(unsafe_code)]

pub mod command;
pub mod content;
pub mod control;
pub mod diagnostic;
pub mod display;
pub mod elicitation;
pub mod encoded;
pub mod event;
pub mod frame;
pub mod hook;
pub mod ids;
pub mod message;
mod notice_frames;
pub mod op;
pub mod permission;
pub mod printable;
pub mod record;
pub mod stream;
pub mod tool_name;
pub mod usage;
pub mod wildcard;

/// Fields of a JSON object that this version doesn't know, kept so that they are written back.
pub type Extra = serde_json::Map<String, serde_json::Value>;
