//! A session that can be reached from elsewhere.
//!
//! The process of a session is its host. The [`Hub`] sees the events of the session beside its face, keeps what a
//! client needs to begin ([`lathe_wire::Snapshot`]) and the last events, listens on the session's socket, and passes
//! what clients ask for to the face as a [`Request`]. The engine never waits for a client.
//!
//! | module | contents |
//! |---|---|
//! | `facts` | facts about a session |
//! | `mirror` | the state of a session as its events tell it, and the frames of events |
//! | `ring` | the last events, and the last operations |
//! | `outbox` | the lines that wait for one client |
//! | `state` | the mirror, the clients and the operations that wait |
//! | `hub` | all of it together; requests to the face |
//! | `serve` | connections: who may connect, hello, reading and writing |
//! | [`past`] | background sessions that are over |
//!
//! Start with [`Hub::new`] and [`Hub::listen`].
#![forbid(unsafe_code)]

mod facts;
mod hub;
mod mirror;
mod outbox;
pub mod past;
mod ring;
mod serve;
mod state;

pub use facts::{Facts, HubError};
pub use hub::{Done, Hub, Request};
