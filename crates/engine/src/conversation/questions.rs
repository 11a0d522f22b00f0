//! Open questions to the user: asked through whichever face is there, raced with the hooks that may
//! answer, answered once. In auto mode a classifier is asked before anyone is disturbed.

use crate::agents::AgentEntry;
use crate::conversation::ConversationShared;
use crate::conversation::hook_model::SessionClassifierModel;
use crate::conversation::hook_points::HookPoints;
use crate::editor::Answering;
use crate::session::events::EventSink;
use lathe_permissions::Permissions;
use lathe_permissions::answer::{AnswererKind, Outcome, Race, Ticket};
use lathe_permissions::classifier::{self, Action, Classifier, Guide, Ruling};
use lathe_protocol::event::{Event, NoticeLevel, SessionState};
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::{
    AskingAgent, Decision, DecisionReason, PermissionMode, PermissionReply, PermissionRequest,
    PermissionUpdate,
};
use lathe_settings::Resolved;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use tokio_util::sync::CancellationToken;

/// How many of the user's messages the classifier is shown.
const MOST_MESSAGES: usize = 20;

/// How many sources of text from outside are named to it.
const MOST_OUTSIDE: usize = 50;

/// Who answers permission questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answerer {
    /// Nobody: calls that would need an answer are denied.
    #[default]
    Nobody,
    /// The face: it gets `PermissionRequested` and replies with an op.
    Face,
}

/// The name of the session's own face among those who answer.
pub(crate) const FACE: &str = "terminal";

/// An open question.
struct Open {
    ticket: Ticket,
    /// Who answers, once somebody does.
    by: Arc<OnceLock<String>>,
}

/// The open questions of a session.
pub struct Questions {
    answerer: Answerer,
    events: EventSink,
    /// ConversationShared with the session's agents, so that an answer finds the question wherever it was asked.
    open: Arc<Mutex<HashMap<RequestId, Open>>>,
    classifier: OnceLock<Arc<Classifier>>,
    guide: Arc<Mutex<Guide>>,
    /// Settings say that nobody is asked; shared with the session's agents.
    refuses: Arc<AtomicBool>,
    messages: Mutex<Vec<String>>,
    /// Where text from outside was read.
    outside: Mutex<Vec<String>>,
    /// The agent whose questions these are.
    asker: Option<AskingAgent>,
    /// Nobody waits for the agent: there is time to let hooks decide first.
    in_background: AtomicBool,
    /// The permissions of the main conversation, which the user's answer to an agent's question changes
    /// too.
    main: Option<Arc<Permissions>>,
    /// The main conversation, of an agent's questions.
    root: Weak<ConversationShared>,
    /// The way to the leader of the team that the session is a member of: it is asked instead of the face.
    leader: OnceLock<crate::agents::team::Line>,
}

/// The end of a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// Someone answered.
    Reply(PermissionReply),
    /// A hook answered.
    HookReply(PermissionReply),
    /// Nobody is there who could.
    NobodyToAsk,
    /// The question is moot: the turn was cancelled.
    Withdrawn,
}

/// How long hooks are waited for before anyone else is asked.
const HOOKS_FIRST: std::time::Duration = std::time::Duration::from_secs(1);

impl Questions {
    /// No questions yet.
    #[must_use]
    pub fn new(answerer: Answerer, events: EventSink) -> Self {
        Self {
            answerer,
            events,
            open: Arc::default(),
            classifier: OnceLock::new(),
            guide: Arc::default(),
            refuses: Arc::default(),
            messages: Mutex::default(),
            outside: Mutex::default(),
            asker: None,
            in_background: AtomicBool::new(false),
            main: None,
            root: Weak::new(),
            leader: OnceLock::new(),
        }
    }

    /// The questions of an agent, in the background or not: asked through the same face, with counters of their
    /// own. The agent waits for its answer, and everything else continues.
    pub(crate) fn for_agent(
        parent: &Self,
        root: &Arc<ConversationShared>,
        entry: &AgentEntry,
    ) -> Self {
        Self {
            answerer: parent.answerer,
            events: root.events.clone(),
            open: parent.open.clone(),
            classifier: OnceLock::new(),
            guide: parent.guide.clone(),
            refuses: parent.refuses.clone(),
            messages: Mutex::new(root.questions.messages.lock().clone()),
            outside: Mutex::new(parent.outside.lock().clone()),
            asker: Some(AskingAgent {
                agent_type: entry.agent_type.clone(),
                agent_name: entry.name.clone(),
                agent_task: entry.description.clone(),
                agent_color: crate::agents::team::color_of(&root.session, entry),
            }),
            in_background: AtomicBool::new(entry.is_background()),
            main: Some(root.permissions.clone()),
            root: Arc::downgrade(root),
            leader: parent.leader.clone(),
        }
    }

    /// Asks the leader of a team from now on.
    pub(crate) fn ask_leader(&self, line: crate::agents::team::Line) {
        // A session is a member of one team.
        let _ = self.leader.set(line);
    }

    /// Sends a question to the leader, if there is one. Returns whether it was sent.
    fn sent_to_leader(&self, race: &mut Race, request: &PermissionRequest) -> bool {
        let Some(line) = self.leader.get().filter(|_| !self.refuses()) else {
            return false;
        };
        let what = request.title.as_deref().unwrap_or(&request.tool_name);
        match line.ask(request) {
            Ok(asked) => {
                race.enter(AnswererKind::Leader, asked.answer());
                let text = format!("Waiting for the leader: {what}");
                self.events.notice(NoticeLevel::Info, text);
                true
            }
            Err(error) => {
                let text =
                    format!("The leader can't be reached ({error}), so you are asked: {what}");
                self.events.notice(NoticeLevel::Warning, text);
                false
            }
        }
    }

    /// Who answers.
    pub(crate) fn answerer(&self) -> Answerer {
        if self.refuses() {
            Answerer::Nobody
        } else {
            self.answerer
        }
    }

    /// Whether settings say that nobody is asked.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// Takes over what settings say about questions and about auto mode, now and when they change.
    pub(crate) fn take_settings(&self, settings: &Resolved) {
        let guide = lathe_permissions::settings::guide_of(settings);
        if let Some(classifier) = self.classifier.get() {
            classifier.set_guide(&guide);
        }
        *self.guide.lock() = guide;
        let refuses = lathe_permissions::settings::denies_questions(settings);
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// The agent continues in the background.
    pub(crate) fn send_to_background(&self) {
        self.in_background.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_in_background(&self) -> bool {
        self.in_background.load(Ordering::Relaxed)
    }

    /// Whether a coordinator's worker asks: then automated checks come first, however it runs.
    fn is_worker(&self) -> bool {
        self.root.upgrade().is_some_and(|root| root.coordinates())
    }

    /// The state of the session when no question is open.
    fn state_without_questions(&self) -> SessionState {
        let root = self.root.upgrade();
        if root.is_some_and(|root| !root.inbox.busy.load(Ordering::Relaxed)) {
            SessionState::Idle
        } else {
            SessionState::Running
        }
    }

    /// Gives the agent of a conversation a classifier of its own, with the session's guide.
    pub(crate) fn take_classifier(&self, shared: &Arc<ConversationShared>) {
        let model = Arc::new(SessionClassifierModel {
            shared: Arc::downgrade(shared),
        });
        let classifier = Classifier::new(model, &self.guide.lock());
        let _ = self.classifier.set(Arc::new(classifier));
    }

    /// Looks over what an agent did, when it hands over in auto mode.
    pub(crate) async fn review(
        &self,
        order: &str,
        actions: &[(String, Value)],
        result: &str,
    ) -> Option<String> {
        self.classifier.get()?.review(order, actions, result).await
    }

    /// Remembers what the user said: the classifier judges by it.
    pub(crate) fn note_message(&self, text: &str) {
        let mut messages = self.messages.lock();
        if messages.len() == MOST_MESSAGES {
            messages.remove(0);
        }
        messages.push(text.chars().take(4_000).collect());
    }

    /// Text from outside was read.
    pub(crate) fn read_from_outside(&self, source: &str) {
        let mut outside = self.outside.lock();
        if outside.len() < MOST_OUTSIDE && outside.iter().all(|known| known != source) {
            outside.push(source.to_owned());
        }
    }

    /// Lets the classifier decide what would be asked, in auto mode and where it may.
    pub(crate) async fn classify(
        &self,
        decision: Decision,
        tool_name: &str,
        input: &Value,
        cwd: &Path,
        mode: PermissionMode,
    ) -> Decision {
        let (Decision::Ask { reason, .. }, PermissionMode::Auto) = (&decision, mode) else {
            return decision;
        };
        let Some(classifier) = self.classifier.get() else {
            return decision;
        };
        if !classifier::may_answer(&decision) {
            return decision;
        }
        let messages = self.messages.lock().clone();
        let outside = self.outside.lock().clone();
        let action = Action {
            tool_name,
            input,
            question: &reason.text(),
            cwd: &cwd.to_string_lossy(),
            messages: &messages,
            outside: &outside,
        };
        match classifier.rule(&action).await {
            Ruling::Allow { reason } => Decision::Allow {
                reason: DecisionReason::Classifier { reason },
            },
            Ruling::Deny { reason } => Decision::Deny {
                reason: DecisionReason::Classifier { reason },
            },
            Ruling::Ask { reason } => {
                self.events.notice(NoticeLevel::Info, reason);
                decision
            }
        }
    }

    /// Asks, and waits for the first answer. Hooks race the face, and so does who may answer beside it; the losers
    /// are withdrawn.
    pub(crate) async fn ask(
        &self,
        mut request: PermissionRequest,
        hooks: &Arc<HookPoints>,
        may_approve: HookMay,
        beside: Option<Answering>,
        cancel: &CancellationToken,
    ) -> Answer {
        request.agent.clone_from(&self.asker);
        let mut race = Race::new(request);
        let request = race.request().clone();
        let over = race.over();
        if may_approve != HookMay::Nothing && hooks.wants_permission_requests(&request.tool_name) {
            let (hooks, request, over) = (hooks.clone(), request.clone(), over.clone());
            let mut asking = lathe_spawn::task(async move {
                let reply = hooks.permission_request(&request, &over).await?;
                narrowed(reply, may_approve)
            });
            // A host may answer at once, and a hook takes a moment to start: hooks have their say first. Where nobody
            // waits for the agent, nobody is disturbed before they have.
            let patience = async {
                if self.is_in_background() || self.is_worker() {
                    std::future::pending::<()>().await;
                } else {
                    tokio::time::sleep(HOOKS_FIRST).await;
                }
            };
            tokio::select! {
                reply = &mut asking => if let Ok(Some(reply)) = reply {
                    return Answer::HookReply(reply);
                },
                () = patience => {
                    race.enter(AnswererKind::Hook, async move { asking.await.ok().flatten() });
                }
                () = cancel.cancelled() => return Answer::Withdrawn,
            }
        }
        let asked = !self.sent_to_leader(&mut race, &request) && self.answerer() == Answerer::Face;
        let answered_by: Arc<OnceLock<String>> = Arc::default();
        if asked {
            let question = Open {
                ticket: race.ticket(AnswererKind::Host),
                by: answered_by.clone(),
            };
            if let Some(beside) = beside {
                race.enter(AnswererKind::Editor, beside);
            }
            let first = {
                let mut open = self.open.lock();
                open.insert(request.request_id.clone(), question);
                open.len() == 1
            };
            self.events
                .send(Event::PermissionRequested(request.clone()));
            if first {
                self.events
                    .send(Event::StateChanged(SessionState::RequiresAction));
            }
            lathe_spawn::task(notify(hooks.clone(), request.clone()));
        }
        // However the wait ends (an answer, a cancellation, a dropped future), the question is closed.
        let mut closing = Closing {
            questions: self,
            id: &request.request_id,
            asked,
            reply: None,
            by: None,
        };
        let outcome = race.run(cancel).await;
        match outcome {
            Outcome::Answered { by, reply } => {
                if by != AnswererKind::Classifier
                    && let Some(classifier) = self.classifier.get()
                {
                    classifier.person_answered();
                }
                closing.reply = Some(reply.clone());
                closing.by = Some(match &by {
                    AnswererKind::Host => answered_by
                        .get()
                        .cloned()
                        .unwrap_or_else(|| FACE.to_owned()),
                    AnswererKind::Editor => "editor".to_owned(),
                    AnswererKind::Leader => lathe_tools::team::LEADER.to_owned(),
                    AnswererKind::Hook => "hook".to_owned(),
                    AnswererKind::Classifier => "classifier".to_owned(),
                });
                if by == AnswererKind::Hook {
                    Answer::HookReply(reply)
                } else {
                    Answer::Reply(reply)
                }
            }
            Outcome::NobodyAnswered => Answer::NobodyToAsk,
            Outcome::Withdrawn => Answer::Withdrawn,
        }
    }

    /// A face's answer. Returns whether the question was open: the first answer wins, once.
    pub fn answer(&self, id: &RequestId, reply: PermissionReply) -> bool {
        self.answer_as(id, reply, FACE)
    }

    /// The same by somebody else than the session's face, who is named to everyone.
    pub(crate) fn answer_as(&self, id: &RequestId, reply: PermissionReply, by: &str) -> bool {
        let question = self.open.lock().remove(id);
        question.is_some_and(|question| {
            // Set before the race hears of the answer; nobody else has this question any more.
            let _ = question.by.set(by.to_owned());
            question.ticket.answer(reply)
        })
    }

    /// The face is gone: open questions fail.
    pub fn withdraw_all(&self) {
        self.open.lock().clear();
    }

    /// The permissions that changes of the whole session reach: those of the main conversation.
    pub(crate) fn of_session<'a>(&'a self, own: &'a Permissions) -> &'a Permissions {
        self.main.as_deref().unwrap_or(own)
    }

    /// Carries out what the user chose beside the answer itself.
    pub(crate) fn apply(&self, updates: &[PermissionUpdate], permissions: &Permissions) {
        for update in updates {
            let is_mode = matches!(update, PermissionUpdate::SetMode { .. });
            if let Some(main) = &self.main
                && !is_mode
                && !std::ptr::eq(main.as_ref(), permissions)
                && let Err(error) = main.apply(update)
            {
                self.events.notice(
                    NoticeLevel::Warning,
                    format!("The permission change could not be saved: {error}"),
                );
            }
            match permissions.apply(update) {
                Ok(()) => {
                    if let PermissionUpdate::SetMode { mode, .. } = update {
                        self.events.send(Event::ModeChanged(*mode));
                    }
                }
                Err(error) => self.events.notice(
                    NoticeLevel::Warning,
                    format!("The permission change could not be saved: {error}"),
                ),
            }
        }
    }
}

/// The answers that hooks may give to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookMay {
    /// Anything.
    Decide,
    /// Only no: a hard check, an ask rule or a secret needs confirmation.
    Refuse,
    /// None: they were asked elsewhere.
    Nothing,
}

impl HookMay {
    /// The answers that hooks may give to a question of the permission decision.
    pub(crate) fn answer(reason: &DecisionReason, hard: bool) -> Self {
        let reserved = hard
            || matches!(
                reason,
                DecisionReason::Rule { .. } | DecisionReason::SafetyCheck { .. }
            );
        if reserved { Self::Refuse } else { Self::Decide }
    }
}

/// A hook's answer without what a hook can't do: approve what needs confirmation, take deny or ask rules away, enter a mode
/// that lets more pass, add folders.
fn narrowed(reply: PermissionReply, may: HookMay) -> Option<PermissionReply> {
    use lathe_protocol::permission::Behavior;
    let mut reply = reply;
    if let PermissionReply::Allow {
        updated_permissions,
        ..
    } = &mut reply
    {
        if may != HookMay::Decide {
            return None;
        }
        updated_permissions.retain(|update| match update {
            PermissionUpdate::AddRules { .. } | PermissionUpdate::RemoveDirectories { .. } => true,
            PermissionUpdate::ReplaceRules { behavior, .. }
            | PermissionUpdate::RemoveRules { behavior, .. } => *behavior == Behavior::Allow,
            PermissionUpdate::SetMode { mode, .. } => matches!(
                mode,
                PermissionMode::Default | PermissionMode::Plan | PermissionMode::DontAsk
            ),
            PermissionUpdate::AddDirectories { .. } => false,
        });
    }
    Some(reply)
}

/// Tells Notification hooks that the user is waited for. A hook that began runs to its end, however soon the answer
/// comes.
async fn notify(hooks: Arc<HookPoints>, request: Arc<PermissionRequest>) {
    let wanted = request.title.as_deref().unwrap_or(&request.tool_name);
    let message = format!("Lathe needs your permission: {wanted}");
    hooks.notification("permission_prompt", &message).await;
}

struct Closing<'a> {
    questions: &'a Questions,
    id: &'a RequestId,
    asked: bool,
    reply: Option<PermissionReply>,
    by: Option<String>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if !self.asked {
            return;
        }
        let last = {
            let mut open = self.questions.open.lock();
            open.remove(self.id);
            open.is_empty()
        };
        self.questions.events.send(Event::PermissionResolved {
            request_id: self.id.clone(),
            reply: self.reply.take(),
            by: self.by.take(),
        });
        if last {
            self.questions.events.send(Event::StateChanged(
                self.questions.state_without_questions(),
            ));
        }
    }
}
