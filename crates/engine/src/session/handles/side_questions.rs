//! Small questions beside the conversation, for the small model: a title, what the user may say next,
//! what happened while they were away, what a call did.
//!
//! None of them is needed, so each may fail silently: it has a time limit, it can be cancelled, it has
//! no tools, and an answer that isn't of the wanted shape is dropped. A face asks for those that it
//! wants; print mode asks for none. Their cost is part of the session's.

use crate::conversation::{Conversation, ConversationShared};
use crate::session::background;
use crate::session::background::ask_beside;
use crate::session::ledger::Part;
use lathe_model::RecoveryPolicy;
use lathe_model::ask::{AskError, complete};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::{EncodedMessage, EncodedMessages};
use lathe_protocol::message::{Message, Role};
use lathe_protocol::record::{Fact, MessageRecord, Record, RecordKind};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How much of the conversation such a question sees.
const MOST_CHARACTERS: usize = 6_000;
/// How much of one message.
const MOST_OF_ONE: usize = 1_500;

const TITLE: &str = "You name conversations. Answer with a title of three to seven words for the one you are shown, in its language, without quotation marks, full stop or Markdown. Nothing else.";
const SUGGESTION: &str = "You are shown the end of a conversation between a user and a coding agent. Answer with the one short message that the user most likely sends next, in their words and language, at most twelve words, plain text. If nothing obvious follows, answer with nothing.";
const AWAY: &str = "You are shown the end of a conversation between a user and a coding agent. The user was away. Tell them in at most three short sentences what was done and what waits for them. Plain text.";
const TOOL_USE: &str = "You are shown what a coding agent's tool was called with and what it returned. Say in at most ten words what was done, as a past-tense phrase without a full stop. Plain text, nothing else.";

const CONDENSE: &str = "You are shown the result of a tool call of a coding agent. Answer with a summary of it that can stand in its place: keep names, paths, line numbers, values, errors and everything else that the agent may still need, in at most 150 words. Plain text, nothing else.";
const CONCLUSIONS: &str = "You are shown one branch of a conversation between a user and a coding agent. Answer with what it found and decided that is of use in another branch: conclusions, changed files, open points, in at most 150 words. Plain text, nothing else.";
/// How a question beside the conversation begins.
const BESIDE: &str = "A question of the user beside the work. Answer it in a few sentences from what you know already, without tools; afterwards the work continues as if it had not been asked.\n\n";
/// The most tokens of an answer to it.
const MOST_BESIDE: u32 = 4_096;
/// How many characters of a text are shown to have it condensed.
const MOST_CONDENSED: usize = 60_000;

const PROGRESS: &str = "You are shown what an agent was told to do and what it did so far. Say in three to seven words what it is doing right now, beginning with a verb in its -ing form, without a full stop. Plain text, nothing else.";

/// Small questions beside the conversation: titles, suggestions, summaries.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct SideQuestionsHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl SideQuestionsHandle<'_> {
    /// A title for the session; kept with it unless the user gave one.
    pub async fn title(self, cancel: &CancellationToken) -> Option<String> {
        suggest_title(self.shared, cancel).await
    }

    /// A suggestion for the next prompt.
    pub async fn next_prompt(self, cancel: &CancellationToken) -> Option<String> {
        suggest_prompt(self.shared, cancel).await
    }

    /// A suggestion for the next prompt, asked without holding on to the session's handle meanwhile.
    pub fn next_prompt_later(
        self,
        cancel: CancellationToken,
    ) -> impl Future<Output = Option<String>> + Send + 'static {
        let shared = Arc::clone(self.shared);
        async move { suggest_prompt(&shared, &cancel).await }
    }

    /// A summary of what happened while the user was away.
    pub async fn away_summary(self, cancel: &CancellationToken) -> Option<String> {
        away_summary(self.shared, cancel).await
    }

    /// A summary of what happened while the user was away, asked without holding on to the session's handle meanwhile.
    pub fn away_summary_later(
        self,
        cancel: CancellationToken,
    ) -> impl Future<Output = Option<String>> + Send + 'static {
        let shared = Arc::clone(self.shared);
        async move { away_summary(&shared, &cancel).await }
    }

    /// A summary of a tool result, to stand in its place.
    pub fn condense_later(
        self,
        result: String,
        cancel: CancellationToken,
    ) -> impl Future<Output = Option<String>> + Send + 'static {
        let shared = Arc::clone(self.shared);
        async move { ask_small(&shared, CONDENSE, middle(&result), &cancel).await }
    }

    /// A summary of what a branch of the conversation found, for another branch. `read` gives what was said there.
    pub fn conclusions_later(
        self,
        read: impl FnOnce() -> Option<String> + Send + 'static,
        cancel: CancellationToken,
    ) -> impl Future<Output = Option<String>> + Send + 'static {
        let shared = Arc::clone(self.shared);
        async move {
            let said = lathe_spawn::blocking(read).await.ok().flatten()?;
            ask_small(&shared, CONCLUSIONS, middle(&said), &cancel).await
        }
    }

    /// Answers a question of the user from a copy of the conversation. Neither the question nor the answer becomes a
    /// part of it.
    pub fn beside_later(
        self,
        question: String,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<String, BesideError>> + Send + 'static {
        let shared = Arc::clone(self.shared);
        async move { beside(&shared, &question, &cancel).await }
    }

    /// A short description of what a call did.
    pub async fn tool_use(
        self,
        tool: &str,
        input: &str,
        output: &str,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let question = format!(
            "Tool: {tool}\nInput: {}\nOutput: {}",
            beginning(input, MOST_OF_ONE),
            beginning(output, MOST_OF_ONE)
        );
        let answer = ask_small(self.shared, TOOL_USE, question, cancel).await?;
        one_line(&answer, 120)
    }

    /// A short description of what an agent is doing.
    pub async fn progress(
        self,
        order: &str,
        done: &str,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let question = format!(
            "Told to: {}\n\nDone so far:\n{}",
            beginning(order, MOST_OF_ONE),
            beginning(done, MOST_CHARACTERS)
        );
        let answer = ask_small(self.shared, PROGRESS, question, cancel).await?;
        one_line(&answer, 100)
    }
}

/// Asks for a title beside the turns, once, where one is wanted and there is none.
pub(crate) fn name_session(conversation: &mut Conversation) {
    if !std::mem::take(&mut conversation.context.title_wanted)
        || !background::may_spend(conversation)
    {
        return;
    }
    let shared = conversation.shared.clone();
    conversation.shared.session.background.spawn(async move {
        let cancel = shared.state.notes.cancel.clone();
        let _ = suggest_title(&shared, &cancel).await;
    });
}

async fn suggest_title(shared: &ConversationShared, cancel: &CancellationToken) -> Option<String> {
    let said = end_of_conversation(shared).await?;
    let answer = ask_small(shared, TITLE, said, cancel).await?;
    let title = one_line(&answer, 80)?;
    shared.transcript.append(Record::Fact(Fact::AiTitle {
        ai_title: title.clone(),
        session_id: shared.session.id,
    }));
    Some(title)
}

async fn suggest_prompt(shared: &ConversationShared, cancel: &CancellationToken) -> Option<String> {
    let said = end_of_conversation(shared).await?;
    let answer = ask_small(shared, SUGGESTION, said, cancel).await?;
    one_line(&answer, 120)
}

async fn away_summary(shared: &ConversationShared, cancel: &CancellationToken) -> Option<String> {
    let said = end_of_conversation(shared).await?;
    let answer = ask_small(shared, AWAY, said, cancel).await?;
    let answer = answer.trim();
    (!answer.is_empty() && answer.chars().count() <= 600).then(|| answer.to_owned())
}

/// Why a question beside the conversation has no answer.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    /// Nothing was asked yet, so there is nothing to know.
    #[error("the conversation is empty: send the question as a prompt")]
    NotBegun,
    /// The model failed, or its answer can't be read.
    #[error(transparent)]
    Model(#[from] AskError),
    /// The answer has no words.
    #[error("the model returned no text")]
    NoWords,
}

/// Asks from the newest request, so that the provider's cache holds all but the question.
async fn beside(
    shared: &ConversationShared,
    question: &str,
    cancel: &CancellationToken,
) -> Result<String, BesideError> {
    let last = shared.state.last_request.lock().clone();
    let mut request = last.ok_or(BesideError::NotBegun)?;
    request.messages = with_question(&request.messages, &format!("{BESIDE}{question}"))
        .map_err(AskError::Encode)?;
    background::bound_answer(&mut request, MOST_BESIDE);
    let provider = shared.session.provider.clone();
    let answer = complete(provider, request, RecoveryPolicy::default(), cancel).await?;
    background::note_side_usage(shared, Part::Side, &answer.header);
    let text = answer.text.trim();
    if text.is_empty() {
        return Err(BesideError::NoWords);
    }
    Ok(text.to_owned())
}

/// The messages with a question at their end: in the last one if the user speaks there.
fn with_question(
    messages: &EncodedMessages,
    question: &str,
) -> Result<EncodedMessages, serde_json::Error> {
    let mut messages = messages.clone();
    let mut blocks = Vec::new();
    if let Some(last) = messages.last().filter(|last| last.role == Role::User) {
        blocks = serde_json::from_slice::<Message>(&last.bytes)?
            .content
            .into_blocks();
        messages.truncate(messages.len() - 1);
    }
    blocks.push(ContentBlock::text(question));
    messages.push(EncodedMessage::new(Role::User, &blocks)?);
    Ok(messages)
}

/// A long text without its middle.
fn middle(text: &str) -> String {
    let count = text.chars().count();
    if count <= MOST_CONDENSED {
        return text.to_owned();
    }
    let half = MOST_CONDENSED / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n[…]\n{tail}")
}

async fn ask_small(
    shared: &ConversationShared,
    system: &str,
    prompt: String,
    cancel: &CancellationToken,
) -> Option<String> {
    let model = shared.session.catalog.small_fast_model().id;
    let asked = ask_beside(shared, Part::Side, model, system, prompt, cancel);
    tokio::time::timeout(LIMIT, asked).await.ok()?.ok()
}

/// The last words of both sides, oldest first; `None` when nothing was said.
async fn end_of_conversation(shared: &ConversationShared) -> Option<String> {
    shared.transcript.flush().await.ok()?;
    let path = shared.transcript.path().to_owned();
    let loaded = lathe_spawn::blocking(move || lathe_session::load_tail(&path))
        .await
        .ok()?
        .ok()?;
    let mut said: Vec<String> = Vec::new();
    let mut length = 0;
    for record in loaded.chain().iter().rev() {
        let Record::Message(message) = &**record else {
            continue;
        };
        let Some(words) = words_of(message) else {
            continue;
        };
        length += words.len();
        if length > MOST_CHARACTERS && !said.is_empty() {
            break;
        }
        said.push(words);
    }
    said.reverse();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

/// Who said what, without calls, results and what the harness added.
fn words_of(record: &MessageRecord) -> Option<String> {
    if record.is_meta || record.is_virtual || record.is_api_error_message {
        return None;
    }
    let who = match record.kind {
        RecordKind::Assistant => "Agent",
        RecordKind::User if record.is_compact_summary => "Summary",
        RecordKind::User if record.is_prompt() => "Person",
        _ => return None,
    };
    let mut words = String::new();
    for block in record.message.as_ref()?.blocks() {
        if let ContentBlock::Text(text) = block {
            let _ = write!(words, "{} ", beginning(text.text.trim(), MOST_OF_ONE));
        }
    }
    let words = words.trim();
    (!words.is_empty()).then(|| format!("{who}: {words}"))
}

fn beginning(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// An answer of one plain line; `None` when it is long, formatted or empty.
fn one_line(answer: &str, most: usize) -> Option<String> {
    let line = answer.trim().trim_matches(['"', '\'']).trim();
    let plain = !line.contains(['\n', '`', '*', '#', '<', '|']);
    (plain && !line.is_empty() && line.chars().count() <= most).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_formatted_and_empty_answers_are_dropped() {
        assert_eq!(
            one_line(" \"Run the tests\" ", 80).as_deref(),
            Some("Run the tests")
        );
        for dropped in ["", "  ", "**bold**", "one\ntwo", "# Title", "`code`"] {
            assert_eq!(one_line(dropped, 80), None, "{dropped:?}");
        }
        assert_eq!(one_line(&"x".repeat(81), 80), None);
    }
}
