//! The wire between a session and its clients.
//!
//! A session that can be reached from elsewhere listens on a unix socket. Clients (a second terminal, the board, the
//! page behind `lathe serve`, another session) connect to it and exchange lines of JSON:
//!
//! ```text
//! → {"hello":{"v":1,"client":"board","kind":"cli","after":{"epoch":"…","seq":7}}}
//! ← {"snapshot":{…}}                  when there is no `after`, or it is too old
//! ← {"seq":8,"event":{…}}             the same JSON as a frame of `--output-format stream-json`
//! ← {"beat":8}                        everything up to here was sent; then every 10 s
//! → {"id":"UUID","op":{"type":"prompt","content":"go on"}}
//! ← {"ack":"UUID"}                    or {"nak":"UUID","why":"…","code":"…"}
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | the frames as types |
//! | [`folder`] | where sockets are, how they are named and locked, and the list of live sessions |
//! | [`peer`] | who may connect |
//! | [`client`] | a connection, and one that reconnects |
//! | [`question`] | an open question in words |
//!
//! Start with [`Folder::hosts`] and [`Client::connect`], or [`Follower`] for a client that stays.
#![forbid(unsafe_code)]

pub mod client;
pub mod folder;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod peer;
pub mod question;

pub use client::{Client, Follower, OpError, OpSender, Update, WireError};
pub use folder::{ClaimError, Folder, FolderError, HostId, HostInfo, HostState, Registration};
pub use frame::{
    ClientFrame, ClientInfo, ClientKind, Cursor, FrameError, Hello, HostFrame, Nak, NakCode, OpId,
    QueuedPrompt, Size, Snapshot, WireOp,
};
pub use question::Question;
