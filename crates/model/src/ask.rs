//! One question, one answer: titles, classifiers, hooks, summaries.
//!
//! A question has no history and no tools, so it needs no conversation: [`ask`] sends it through the same
//! recovery as everything else and collects the words. [`complete`] does the same for a request that
//! the caller built.

use crate::assemble::AssembleError;
use crate::{Delivery, MessageAssembler, ModelError, ModelRequest, Provider, RecoveryPolicy, run};
use futures::StreamExt as _;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{AssistantMessage, Role};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A question to a model.
#[derive(Debug, Clone)]
pub struct Question {
    /// The model's id.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The question itself.
    pub prompt: String,
    /// The most tokens that the answer may have.
    pub max_tokens: u32,
}

impl Question {
    pub(crate) fn request(&self) -> Result<ModelRequest, AskError> {
        let mut request = ModelRequest::new(&self.model, self.max_tokens);
        request.system = serde_json::json!([{"type": "text", "text": self.system}])
            .to_string()
            .into();
        let words = [ContentBlock::text(&self.prompt)];
        let message = EncodedMessage::new(Role::User, &words).map_err(AskError::Encode)?;
        request.messages.push(message);
        Ok(request)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its words.
    pub text: String,
    /// Model, stop reason and usage, as the provider reported them; without content.
    pub header: AssistantMessage,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The provider failed, after all that recovery could do.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The stream can't be understood.
    #[error("the model's answer can't be read: {0}")]
    Malformed(#[from] AssembleError),
    /// The question can't be encoded.
    #[error("the question can't be encoded: {0}")]
    Encode(serde_json::Error),
    /// The stream ended before it began.
    #[error("the model gave no answer")]
    Nothing,
}

/// Asks a question that needs no history and no tools.
///
/// # Errors
/// When the provider fails for good, or its answer can't be read.
pub async fn ask(
    provider: Arc<dyn Provider>,
    question: &Question,
    cancel: &CancellationToken,
) -> Result<Answer, AskError> {
    let request = question.request()?;
    complete(provider, request, RecoveryPolicy::default(), cancel).await
}

/// Sends a request and collects the words of its answer.
///
/// # Errors
/// When the provider fails for good, or its answer can't be read.
pub async fn complete(
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    policy: RecoveryPolicy,
    cancel: &CancellationToken,
) -> Result<Answer, AskError> {
    let assembler = assembled(provider, request, policy, cancel).await?;
    let header = assembler.header().ok_or(AskError::Nothing)?.clone();
    Ok(Answer {
        text: assembler.text(),
        header,
    })
}

/// Sends a request and puts its answer together.
pub(crate) async fn assembled(
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    policy: RecoveryPolicy,
    cancel: &CancellationToken,
) -> Result<MessageAssembler, AskError> {
    let mut deliveries = run(provider, request, policy, cancel.clone());
    let mut assembler = MessageAssembler::default();
    while let Some(delivery) = deliveries.next().await {
        match delivery? {
            Delivery::Event(event) => {
                assembler.feed(&event.event)?;
            }
            Delivery::Retracted { .. } | Delivery::FellBack { .. } => {
                assembler = MessageAssembler::default();
            }
            Delivery::Requesting { .. } | Delivery::Retrying { .. } => {}
        }
    }
    Ok(assembler)
}
