//! Memory of a project between sessions, session notes, and documents that are kept current.
//!
//! [`AutoMemory`] is the folder of memories and its index. [`extraction`], [`notes`] and [`magic_docs`]
//! decide when the model should be asked for something to keep, say what it is asked, and read and write
//! what it answered. Asking itself is the engine's: it has the conversation and the provider.
#![forbid(unsafe_code)]

pub mod extraction;
pub mod magic_docs;
pub mod notes;
pub mod store;

pub use store::{
    AgentHomes, AgentScope, AutoMemory, MemoryError, MemoryIndex, SnapshotState, Topic,
};
