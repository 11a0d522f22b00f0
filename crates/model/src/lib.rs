//! Talking to language models.
//!
//! A [`Provider`] sends one [`ModelRequest`] and gives back one stream of events; it knows a wire
//! format and nothing about trying again. [`recovery::run`] stands above any provider and turns
//! "send this" into one stream of [`Delivery`]s in which retries, withdrawn partial output and a
//! switch of model are visible, and which ends in success or in one final [`ModelError`].
//! [`MessageAssembler`] is the pure fold from events to blocks and the finished message;
//! [`Catalog`] knows models, limits and prices; [`estimate`] guesses tokens where nothing counted them.
//!
//! Two rules shape the crate. A request body is a list of byte slices that were serialised once
//! ([`body`]), so a turn costs what it adds and not what the conversation weighs. And nothing here
//! reads the process environment: the caller passes an [`Environment`](lathe_settings::Environment), so that a
//! test or an embedding host decides what is seen.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use futures::StreamExt;
//! use lathe_model::{AnthropicConfig, AnthropicProvider, Delivery, MessageAssembler, ModelRequest};
//! use lathe_model::RecoveryPolicy;
//! use lathe_protocol::{content::ContentBlock, encoded::EncodedMessage, message::Role};
//! use std::sync::Arc;
//! use tokio_util::sync::CancellationToken;
//!
//! let environment = lathe_settings::Environment::of_process()?;
//! let provider = Arc::new(AnthropicProvider::new(&AnthropicConfig::of(&environment)?)?);
//! let mut request = ModelRequest::new("claude-sonnet-5-5", 8192);
//! request.messages.push(EncodedMessage::new(Role::User, &[ContentBlock::text("Hello")])?);
//!
//! let policy = RecoveryPolicy::of(&environment)?;
//! let mut deliveries = lathe_model::run(provider, request, policy, CancellationToken::new());
//! let mut assembler = MessageAssembler::default();
//! while let Some(delivery) = deliveries.next().await {
//!     match delivery? {
//!         // A new attempt: discard everything before it.
//!         Delivery::Requesting { .. } => assembler = MessageAssembler::default(),
//!         Delivery::Event(event) => {
//!             if let Some(completed) = assembler.feed(&event.event)? {
//!                 assert_eq!(completed.index, 0);
//!             }
//!         }
//!         Delivery::Retracted { .. } | Delivery::Retrying { .. } | Delivery::FellBack { .. } => {}
//!     }
//! }
//! let message = assembler.finish()?;
//! # let _ = message;
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`request::ModelRequest`], then [`recovery`], then [`anthropic`].
#![forbid(unsafe_code)]

pub mod anthropic;
pub mod ask;
pub mod assemble;
pub mod body;
pub mod catalog;
mod chat;
mod classify;
mod classify_foreign;
mod cloud;
pub mod discovery;
pub mod error;
pub mod estimate;
mod fitting;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gemini;
pub mod key_store;
mod lenient;
pub mod provider;
pub mod providers;
pub mod recovery;
pub mod request;
mod responses;
pub mod router;
pub mod search;
mod text_calls;
pub mod trial;
mod wire;

pub use anthropic::{AnthropicConfig, AnthropicProvider, KeyHelper, KeyHelperError};
pub use assemble::{CompletedBlock, MessageAssembler, ToolInput};
pub use catalog::{Catalog, CatalogError, EntryError, ModelInfo, ResolvedModel};
pub use error::{ApiFailure, BlockPosition, ModelError, NetworkTrouble};
pub use provider::{Provider, ResponseStream, Transfer};
pub use providers::Directory;
pub use recovery::{
    Amendment, Deliveries, Delivery, FallbackModel, RecoveryPolicy, run, run_amendable,
};
pub use request::{
    CacheMarkers, ModelRequest, StaleThinking, Thinking, ThinkingDisplay, ThinkingMode,
};
pub use router::{Keys, Router};
