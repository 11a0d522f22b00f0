//! Questions of members that are processes: mail to the leader, who asks its user, and mail back.
//!
//! A question is answered once: by its id, which the member keeps until the answer is there. What comes later, or twice,
//! is dropped. Rules that the user adds with an answer are the leader's; it answers by them when it is asked again.

use super::{LEADER, Team};
use crate::conversation::ConversationShared;
use crate::conversation::questions::{Answer, HookMay, Questions};
use lathe_permissions::CallFacts;
use lathe_protocol::permission::{
    Behavior, Decision, DecisionReason, NETWORK, PermissionReply, PermissionRequest,
    PermissionUpdate,
};
use lathe_tools::team::{Member, MemberState, MessageKind, TeamError, TeamMessage};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// An answer that is waited for; the answer `None` says that nobody is there who could give one.
type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Option<PermissionReply>>>>>;

/// The way from a member to its leader.
#[derive(Clone)]
pub(crate) struct Line {
    pub(super) team: Weak<Team>,
    pub(super) name: String,
    pub(super) waiting: Waiting,
}

/// A question that is on its way. Dropping it takes it back.
pub(crate) struct Asked {
    line: Line,
    id: String,
    kind: MessageKind,
    answer: oneshot::Receiver<Option<PermissionReply>>,
}

/// Why the leader can't be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAsked {
    #[error(transparent)]
    Team(#[from] TeamError),
    #[error("the team is gone")]
    Gone,
}

/// The kinds of a question and its answer.
fn kinds(request: &PermissionRequest) -> (MessageKind, MessageKind) {
    if request.display_name.as_deref() == Some(NETWORK) {
        (MessageKind::NetworkRequest, MessageKind::NetworkResponse)
    } else {
        (
            MessageKind::PermissionRequest,
            MessageKind::PermissionResponse,
        )
    }
}

impl Line {
    /// Sends a question to the leader.
    pub(crate) fn ask(&self, request: &PermissionRequest) -> Result<Asked, NotAsked> {
        let team = self.team.upgrade().ok_or(NotAsked::Gone)?;
        if !team.store.leader().runs()? {
            return Err(NotAsked::Gone);
        }
        let id = request.request_id.to_string();
        let (kind, _) = kinds(request);
        let text = serde_json::to_string(request).unwrap_or_default();
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), sender);
        let message = TeamMessage::new(&self.name, LEADER, kind, &text).about(&id, None);
        let asked = Asked {
            line: self.clone(),
            id,
            kind,
            answer,
        };
        if let Err(error) = team.store.inbox(LEADER).append(&message) {
            self.waiting.lock().remove(&asked.id);
            return Err(error.into());
        }
        Ok(asked)
    }

    /// Takes the leader's answer. One to a question that nobody asks any more is stale.
    pub(super) fn answered(&self, message: &TeamMessage) {
        let is_answer = matches!(
            message.kind,
            MessageKind::PermissionResponse | MessageKind::NetworkResponse
        );
        if !is_answer || message.from != LEADER {
            return;
        }
        let id = message.request_id.as_deref().unwrap_or_default();
        let Some(waiting) = self.waiting.lock().remove(id) else {
            tracing::info!(id, "an answer of the leader came too late");
            return;
        };
        let reply = serde_json::from_str(&message.text).unwrap_or(None);
        // Who asked may be gone by now.
        let _ = waiting.send(reply);
    }
}

impl Asked {
    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Option<PermissionReply> {
        (&mut self.answer).await.ok().flatten()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.line.waiting.lock().remove(&self.id).is_none() {
            return;
        }
        let Some(team) = self.line.team.upgrade() else {
            return;
        };
        let message = TeamMessage::new(&self.line.name, LEADER, self.kind, "withdrawn");
        let message = message.about(&self.id, Some(false));
        if let Err(error) = team.store.inbox(LEADER).append(&message) {
            tracing::info!(%error, "a question can't be taken back");
        }
    }
}

impl Team {
    /// A member is gone, and nobody waits for the answers to its questions.
    pub(super) fn withdraw_questions(&self, name: &str) {
        let mine = format!("{name}/");
        self.asked.lock().retain(|id, cancel| {
            let goes = id.starts_with(&mine);
            if goes {
                cancel.cancel();
            }
            !goes
        });
    }
}

/// Takes a question of a member, or what takes one back.
pub(super) fn received(root: &Arc<ConversationShared>, team: &Arc<Team>, message: &TeamMessage) {
    let is_question = matches!(
        message.kind,
        MessageKind::PermissionRequest | MessageKind::NetworkRequest
    );
    let Some(id) = message.request_id.clone().filter(|_| is_question) else {
        return;
    };
    let key = format!("{}/{id}", message.from);
    if message.approve.is_some() {
        if let Some(cancel) = team.asked.lock().remove(&key) {
            cancel.cancel();
        }
        return;
    }
    let config = team.store.config().ok();
    let member = config.and_then(|config| config.member(&message.from).cloned());
    let asks = |member: &Member| {
        member.backend.is_process()
            && member.state != MemberState::Stopped
            && team.followed.lock().contains(&member.name)
    };
    let Some(member) = member.filter(asks) else {
        tracing::info!(
            from = message.from,
            "a question of nobody who waits for the answer"
        );
        return;
    };
    let request = serde_json::from_str::<PermissionRequest>(&message.text);
    let request = match request {
        Ok(request) if request.request_id.to_string() == id => request,
        _ => {
            tracing::warn!(from = message.from, "a question of a member can't be read");
            return answer_with(team, &member.name, message, None);
        }
    };
    let cancel = CancellationToken::new();
    if team
        .asked
        .lock()
        .insert(key.clone(), cancel.clone())
        .is_some()
    {
        // The same one twice: it is open.
        return;
    }
    let (root, team, message) = (root.clone(), team.clone(), message.clone());
    lathe_spawn::task(async move {
        let reply = reply_of(&root, &member, request, &cancel).await;
        let is_open = team.asked.lock().remove(&key).is_some();
        if is_open && !cancel.is_cancelled() {
            answer_with(&team, &member.name, &message, reply.as_ref());
        }
    });
}

/// Sends the answer to a question.
fn answer_with(team: &Team, to: &str, question: &TeamMessage, reply: Option<&PermissionReply>) {
    let kind = match question.kind {
        MessageKind::NetworkRequest => MessageKind::NetworkResponse,
        _ => MessageKind::PermissionResponse,
    };
    let allows = matches!(reply, Some(PermissionReply::Allow { .. }));
    let text = serde_json::to_string(&reply).unwrap_or_default();
    let id = question.request_id.as_deref().unwrap_or_default();
    let message = TeamMessage::new(LEADER, to, kind, &text).about(id, Some(allows));
    if let Err(error) = team.store.inbox(to).append(&message) {
        tracing::warn!(%error, "the answer to a question can't be sent");
    }
}

/// The answer to a question of a member: by the leader's rules, or its user's. `None` if there is nobody to ask.
async fn reply_of(
    root: &Arc<ConversationShared>,
    member: &Member,
    request: PermissionRequest,
    cancel: &CancellationToken,
) -> Option<PermissionReply> {
    if let Some(reply) = by_rules(root, member, &request) {
        return Some(reply);
    }
    let entry = root.session.agents.find(&member.agent_id)?;
    let questions = Questions::for_agent(&root.questions, root, &entry);
    // Hooks were asked where the call is.
    let asking = questions.ask(request, &root.hooks, HookMay::Nothing, None, cancel);
    match asking.await {
        Answer::Reply(PermissionReply::Allow {
            updated_input,
            mut updated_permissions,
            extra,
        }) => {
            // The rule is the leader's alone; its mode is no matter of a member's question.
            updated_permissions.retain(|it| !matches!(it, PermissionUpdate::SetMode { .. }));
            root.questions
                .apply(&updated_permissions, &root.permissions);
            Some(PermissionReply::Allow {
                updated_input,
                updated_permissions: Vec::new(),
                extra,
            })
        }
        Answer::Reply(reply) => Some(reply),
        Answer::HookReply(_) | Answer::NobodyToAsk | Answer::Withdrawn => None,
    }
}

/// The answer that the leader's rules give. Relative paths mean the same only in the same folder.
fn by_rules(
    root: &Arc<ConversationShared>,
    member: &Member,
    request: &PermissionRequest,
) -> Option<PermissionReply> {
    if *root.tools.working_folder.read() != member.cwd {
        return None;
    }
    let tools = root.toolbox.registry.read().clone();
    let tool = tools.find_or_late(&request.tool_name)?;
    let aliases = tool.aliases();
    let prepared = tool
        .clone()
        .prepare(request.input.clone(), &root.tools)
        .ok()?;
    let context = root.permissions.snapshot();
    let subject = prepared.subject(&root.tools);
    let facts = CallFacts {
        tool_name: tool.name(),
        aliases: &aliases,
        input: prepared.input(),
        subject: &subject,
        read_only: prepared.traits().read_only,
        resolved: lathe_permissions::resolve(&subject, &context),
    };
    match lathe_permissions::decide(&facts, &context) {
        Decision::Allow {
            reason:
                DecisionReason::Rule {
                    behavior: Behavior::Allow,
                    ..
                },
        } => Some(PermissionReply::Allow {
            updated_input: None,
            updated_permissions: Vec::new(),
            extra: lathe_protocol::Extra::default(),
        }),
        Decision::Deny { reason } => Some(PermissionReply::Deny {
            message: lathe_permissions::denial_message(&facts, &reason),
            interrupt: false,
            extra: lathe_protocol::Extra::default(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::ids::{RequestId, ToolUseId};
    use lathe_tools::team::TeamStore;
    use serde_json::json;

    fn question(display_name: &str) -> PermissionRequest {
        PermissionRequest {
            request_id: RequestId::random(),
            tool_name: "WebFetch".to_owned(),
            input: json!({"url": "https://a.example/"}),
            tool_use_id: ToolUseId::from("call".to_owned()),
            permission_suggestions: Vec::new(),
            blocked_path: None,
            decision_reason: None,
            decision_reason_type: None,
            display_name: Some(display_name.to_owned()),
            title: None,
            description: None,
            agent_id: None,
            agent: None,
        }
    }

    fn answer(from: &str, question: &TeamMessage, id: &str) -> TeamMessage {
        let reply = json!({"behavior": "allow", "updatedPermissions": []});
        let kind = match question.kind {
            MessageKind::NetworkRequest => MessageKind::NetworkResponse,
            _ => MessageKind::PermissionResponse,
        };
        TeamMessage::new(from, "ana", kind, &reply.to_string()).about(id, Some(true))
    }

    #[tokio::test]
    async fn an_answer_counts_once_by_its_id_and_only_from_the_leader() {
        let home = tempfile::tempdir().unwrap();
        let store = TeamStore::create(home.path(), "crew", "", "s").unwrap();
        let team = Arc::new(Team::new(Arc::new(store), None));
        let line = Line {
            team: Arc::downgrade(&team),
            name: "ana".to_owned(),
            waiting: Waiting::default(),
        };
        let inbox = team.store.inbox(LEADER);
        for (name, kind) in [
            ("WebFetch", MessageKind::PermissionRequest),
            (NETWORK, MessageKind::NetworkRequest),
        ] {
            let asked = line.ask(&question(name)).unwrap();
            let sent = inbox.unread().unwrap().pop().unwrap();
            assert_eq!(sent.kind, kind);
            assert_eq!(sent.from, "ana");
            let id = sent.request_id.clone().unwrap();
            line.answered(&answer("ben", &sent, &id));
            line.answered(&answer("ana", &sent, &id));
            line.answered(&answer(LEADER, &sent, "another"));
            line.answered(&TeamMessage {
                kind: MessageKind::Message,
                ..answer(LEADER, &sent, &id)
            });
            assert_eq!(line.waiting.lock().len(), 1, "none of these is the answer");
            line.answered(&answer(LEADER, &sent, &id));
            assert!(line.waiting.lock().is_empty());
            line.answered(&answer(LEADER, &sent, &id));
            let reply = asked.answer().await;
            assert!(
                matches!(reply, Some(PermissionReply::Allow { .. })),
                "{reply:?}"
            );
            let newest = inbox.unread().unwrap().pop().unwrap();
            assert_eq!(newest.id, sent.id, "an answered question is not withdrawn");
        }
        // A question whose call is stopped is taken back, and its answer is stale.
        let asked = line.ask(&question("WebFetch")).unwrap();
        drop(asked);
        let newest = inbox.unread().unwrap().pop().unwrap();
        assert_eq!(newest.approve, Some(false));
        assert!(line.waiting.lock().is_empty());
        drop(team);
        assert!(matches!(
            line.ask(&question("WebFetch")),
            Err(NotAsked::Gone)
        ));
    }
}
