//! Requests of MCP servers to a session: its folders, the user's answer, a model's answer.

use crate::conversation::ConversationShared;
use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::Answerer;
use futures::future::BoxFuture;
use lathe_mcp::{
    Elicitation, ElicitationAnswer, ElicitationKind, Handlers, Offers, Root, SamplingRefused,
};
use lathe_protocol::elicitation::{self as words, ElicitationReply, ElicitationRequest};
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::hook::HookEvent;
use lathe_protocol::ids::RequestId;
use lathe_tools::mcp_result::clean;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Weak};
use tokio_util::sync::CancellationToken;

/// Answers servers for a session.
pub(super) struct SessionHandlers {
    pub(super) shared: Weak<ConversationShared>,
}

impl Handlers for SessionHandlers {
    fn offers(&self) -> Offers {
        Offers {
            roots: true,
            sampling: true,
            elicitation_form: true,
            elicitation_url: true,
        }
    }

    fn roots(&self) -> Vec<Root> {
        let Some(shared) = self.shared.upgrade() else {
            return Vec::new();
        };
        let folders = shared.tools.roots.read();
        folders.iter().map(|folder| root(folder)).collect()
    }

    fn elicit<'a>(
        &'a self,
        server: &'a str,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async move {
            match self.shared.upgrade() {
                Some(shared) => elicit(&shared, server, question).await,
                None => ElicitationAnswer::Decline,
            }
        })
    }

    fn sample<'a>(
        &'a self,
        server: &'a str,
        request: Value,
    ) -> BoxFuture<'a, Result<Value, SamplingRefused>> {
        Box::pin(async move {
            let over = || SamplingRefused("the session is over".to_owned());
            let shared = self.shared.upgrade().ok_or_else(over)?;
            super::sampling::sample(&shared, server, &request)
                .await
                .map_err(|error| SamplingRefused(error.to_string()))
        })
    }
}

/// A folder's address.
fn root(folder: &Path) -> Root {
    let mut uri = String::from("file://");
    for byte in folder.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            other => {
                use std::fmt::Write as _;
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    Root {
        uri,
        name: folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
    }
}

/// Hooks first, then the face; where nobody is, the question is declined and the user told why.
async fn elicit(
    shared: &Arc<ConversationShared>,
    server: &str,
    question: Elicitation,
) -> ElicitationAnswer {
    let kind = match question.kind {
        ElicitationKind::Form { schema } => words::ElicitationKind::Form {
            requested_schema: schema,
        },
        ElicitationKind::Url {
            url,
            elicitation_id,
        } => words::ElicitationKind::Url {
            url: clean(&url),
            elicitation_id,
        },
    };
    let request = ElicitationRequest {
        request_id: RequestId::random(),
        mcp_server_name: server.to_owned(),
        message: clean(&question.message),
        kind,
    };
    let hooks = &shared.hooks;
    let reply = match hooks.elicitation(&request).await {
        Some(reply) => reply,
        None => ask(shared, &request).await,
    };
    let reply = hooks
        .elicitation_result(&request, &reply)
        .await
        .unwrap_or(reply);
    match reply {
        ElicitationReply::Accept { content } => ElicitationAnswer::Accept(
            content
                .filter(Value::is_object)
                .unwrap_or_else(|| json!({})),
        ),
        ElicitationReply::Decline => ElicitationAnswer::Decline,
        ElicitationReply::Cancel => ElicitationAnswer::Cancel,
    }
}

async fn ask(shared: &Arc<ConversationShared>, request: &ElicitationRequest) -> ElicitationReply {
    let face = shared
        .integrations
        .mcp
        .running()
        .is_some_and(|running| running.face_answers);
    let nobody = shared.questions.answerer() == Answerer::Nobody;
    if (!face && nobody) || shared.questions.refuses() {
        let text = format!(
            "The MCP server {} asked: {:?}. There is no user to answer, so it was declined; an Elicitation hook can answer such questions.",
            request.mcp_server_name, request.message
        );
        shared.events.notice(NoticeLevel::Warning, text);
        return ElicitationReply::Decline;
    }
    let message = format!("{} asks: {}", request.mcp_server_name, request.message);
    lathe_spawn::task({
        let hooks = shared.hooks.clone();
        async move { hooks.notification("elicitation_dialog", &message).await }
    });
    shared
        .integrations
        .mcp
        .elicitations
        .ask(request.clone(), &shared.events)
        .await
        .unwrap_or(ElicitationReply::Cancel)
}

impl HookPoints {
    /// A hook's answer to a server's question, if one answers.
    async fn elicitation(&self, request: &ElicitationRequest) -> Option<ElicitationReply> {
        let outcome = self
            .fire(
                HookEvent::Elicitation,
                Some(&request.mcp_server_name),
                || serde_json::to_value(request).unwrap_or_default(),
                &CancellationToken::new(),
            )
            .await?;
        if outcome.block.is_some() || outcome.stop.is_some() {
            return Some(ElicitationReply::Decline);
        }
        reply_of(&outcome.extra)
    }

    /// Tells hooks of an answer. One of them may put another in its place.
    async fn elicitation_result(
        &self,
        request: &ElicitationRequest,
        reply: &ElicitationReply,
    ) -> Option<ElicitationReply> {
        let fields = || {
            let mut fields = serde_json::to_value(request).unwrap_or_default();
            fields["action"] = reply.action().into();
            if let ElicitationReply::Accept {
                content: Some(content),
            } = reply
            {
                fields["content"] = content.clone();
            }
            fields
        };
        let outcome = self
            .fire(
                HookEvent::ElicitationResult,
                Some(&request.mcp_server_name),
                fields,
                &CancellationToken::new(),
            )
            .await?;
        if outcome.block.is_some() {
            return Some(ElicitationReply::Decline);
        }
        reply_of(&outcome.extra)
    }
}

/// The answer of a hook with `action` and `content`.
fn reply_of(extra: &lathe_protocol::Extra) -> Option<ElicitationReply> {
    let answer = json!({"action": extra.get("action")?, "content": extra.get("content")});
    serde_json::from_value(answer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_addresses() {
        let root = root(Path::new("/a b/ä#1"));
        assert_eq!(root.uri, "file:///a%20b/%C3%A4%231");
        assert_eq!(root.name.as_deref(), Some("ä#1"));
    }

    #[test]
    fn a_hook_answers_with_an_action() {
        let read = |value: Value| reply_of(value.as_object().unwrap());
        assert_eq!(
            read(json!({"action": "accept", "content": {"a": 1}})),
            Some(ElicitationReply::Accept {
                content: Some(json!({"a": 1}))
            })
        );
        assert_eq!(
            read(json!({"action": "decline"})),
            Some(ElicitationReply::Decline)
        );
        assert_eq!(read(json!({"action": "maybe"})), None);
        assert_eq!(read(json!({})), None);
    }
}
