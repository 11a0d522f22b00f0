//! A session's conversation with one device, in messages: [`crate::rules`] put together.
//!
//! Pure: it is told what came from the session and from the device, and gives what is to be done. The device gets messages,
//! questions and the answers to its own requests; it does not see pieces of answers, progress or tool results.

use crate::problem::Problem;
use crate::rules::{self, ControlAnswer, FlushGate, IdRing, Inbound, Taken, Titler};
use lathe_protocol::content::Content;
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_protocol::permission::PermissionMode;
use lathe_wire::{Cursor, Nak, OpId, Snapshot, WireOp};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr as _;

/// A thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Send a frame to the device.
    Send(Value),
    /// Ask the session for an operation.
    Ask {
        /// Names it.
        id: OpId,
        /// The operation.
        op: Box<WireOp>,
        /// Whether it must be answered within [`CONTROL_LIMIT`]; see [`Conversation::expired`].
        is_control: bool,
    },
}

/// How long a control request may wait for the session.
pub const CONTROL_LIMIT: std::time::Duration = std::time::Duration::from_secs(1);

/// The rights of the device, and its uploads.
pub trait Authority {
    /// Whether it only looks.
    fn is_view_only(&self) -> bool;
    /// Whether it may ask for an operation.
    ///
    /// # Errors
    /// Says why not.
    fn permit(&self, op: &WireOp) -> Result<(), Problem>;
    /// The file of an attachment, if it is there.
    fn fetch(&self, id: &str, name: &str) -> Option<PathBuf>;
}

/// The purpose of an operation.
#[derive(Debug, Clone, PartialEq)]
enum Purpose {
    /// A control request of this id.
    Control(Value),
    /// A message of this id.
    Message(Value),
    /// The answer to a question.
    Answer(String),
}

/// A conversation with one device.
#[derive(Debug, Default)]
pub struct Conversation {
    inbound: Inbound,
    gate: FlushGate<Value>,
    titler: Titler,
    /// Ids of messages that went to this connection.
    shown: IdRing,
    /// The last message that the device has, for its next snapshot.
    after: Option<String>,
    /// Open questions, and whether each is one of an MCP server.
    questions: HashMap<String, bool>,
    asked: HashMap<OpId, Purpose>,
    cursor: Option<Cursor>,
    about: Value,
}

impl Conversation {
    /// A conversation whose rings know the end of a transcript: prompts as received, the rest as posted.
    pub fn refilled(ids: impl IntoIterator<Item = (bool, String)>) -> Self {
        let mut conversation = Self::default();
        for (is_prompt, id) in ids {
            let ring = if is_prompt {
                &mut conversation.inbound.received
            } else {
                &mut conversation.inbound.posted
            };
            ring.note(&id);
        }
        conversation
    }

    /// A connection begins. `after` is the last message that the device has.
    pub fn attached(&mut self, after: Option<String>) {
        self.shown = IdRing::default();
        self.after = after;
        self.asked.clear();
        self.gate.start();
    }

    /// The connection is gone. What the gate holds waits for the next one.
    pub fn detached(&mut self) {
        self.gate.deactivate();
        self.asked.clear();
    }

    /// The conversation is given up; how many messages waited.
    pub fn dropped(&mut self) -> usize {
        self.gate.drop_held()
    }

    /// The session as it is. Its messages are the history: what comes meanwhile waits until [`Conversation::flushed`].
    pub fn snapshot(&mut self, snapshot: &Snapshot) -> Vec<Act> {
        self.gate.start();
        self.cursor = Some(Cursor {
            epoch: snapshot.epoch.clone(),
            seq: snapshot.seq,
        });
        self.about = json!({
            "session_id": snapshot.session_id, "title": snapshot.title,
            "model": snapshot.init["model"], "permission_mode": snapshot.init["permissionMode"],
        });
        let mut acts = Vec::new();
        if snapshot.title.is_some() {
            self.titler.settle();
        }
        let records = match self.after.take() {
            Some(after) => {
                let at = snapshot.records.iter().position(|it| it["uuid"] == after);
                let at = at.map_or(0, |at| at + 1);
                snapshot.records.get(at..).unwrap_or_default()
            }
            None => &snapshot.records,
        };
        // The history is not held back by the gate that holds the rest back for it.
        let mut open = FlushGate::new();
        let records = records.to_vec();
        acts.extend(self.posted(records, &mut open));
        let known: Vec<String> = self.questions.drain().map(|(id, _)| id).collect();
        for question in &snapshot.questions {
            acts.extend(self.question(question.clone()));
        }
        for id in known {
            if !self.questions.contains_key(&id) {
                acts.push(Act::Send(cancelled(&id, &Value::Null)));
            }
        }
        acts
    }

    /// The history was written: what waited for it.
    pub fn flushed(&mut self) -> Vec<Act> {
        let (messages, lost) = rules::flush(&mut self.inbound, &mut self.gate);
        let mut acts = self.unseen(messages);
        if lost > 0 {
            let gap = json!({"type": "system", "subtype": "messages_dropped", "count": lost});
            acts.insert(0, Act::Send(gap));
        }
        acts
    }

    /// An event of the session.
    pub fn event(&mut self, seq: u64, frame: Value) -> Vec<Act> {
        if let Some(cursor) = &mut self.cursor {
            if seq <= cursor.seq {
                return Vec::new();
            }
            cursor.seq = seq;
        }
        match frame["type"].as_str() {
            Some("control_request") => self.question(frame),
            Some("question_resolved") => {
                let id = frame["request_id"].as_str().unwrap_or_default();
                match self.questions.remove(id) {
                    Some(_) => vec![Act::Send(cancelled(id, &frame))],
                    None => Vec::new(),
                }
            }
            Some("system") if frame["subtype"] == "title" => {
                self.titler.settle();
                self.about["title"] = frame["title"].clone();
                vec![Act::Send(title(&frame["title"]))]
            }
            _ => {
                let mut gate = std::mem::take(&mut self.gate);
                let acts = self.posted(vec![frame], &mut gate);
                self.gate = gate;
                acts
            }
        }
    }

    fn posted(&mut self, messages: Vec<Value>, gate: &mut FlushGate<Value>) -> Vec<Act> {
        let mut named = None;
        let titler = &mut self.titler;
        let offer = |words: &str| named = titler.offer(words).or(named.take());
        let messages = rules::post(messages, &mut self.inbound, gate, offer);
        let mut acts = self.unseen(messages);
        if let Some(name) = named {
            self.about["title"] = name.as_str().into();
            acts.push(Act::Send(title(&name.into())));
        }
        acts
    }

    /// Messages that this connection has not had.
    fn unseen(&mut self, messages: Vec<Value>) -> Vec<Act> {
        let mut acts = Vec::new();
        for message in messages {
            if let Some(id) = message["uuid"].as_str() {
                if self.shown.has(id) {
                    continue;
                }
                self.shown.note(id);
            }
            acts.push(Act::Send(message));
        }
        acts
    }

    fn question(&mut self, frame: Value) -> Vec<Act> {
        let Some(id) = frame["request_id"].as_str() else {
            return Vec::new();
        };
        let is_elicitation = frame["request"]["subtype"] == "elicitation";
        self.questions.insert(id.to_owned(), is_elicitation);
        vec![Act::Send(frame)]
    }

    /// A line of the device.
    pub fn line(&mut self, line: &str, authority: &dyn Authority) -> Vec<Act> {
        match self.inbound.take(line) {
            Taken::PermissionAnswer(frame) => self.answer(&frame, authority),
            Taken::Control(frame) => self.control(&frame, authority),
            Taken::Prompt(frame) => self.prompt(frame, authority),
            Taken::Dropped(why) => {
                tracing::debug!(why, "a frame of a device was dropped");
                Vec::new()
            }
        }
    }

    fn ask(&mut self, id: OpId, op: WireOp, purpose: Purpose) -> Vec<Act> {
        let is_control = matches!(purpose, Purpose::Control(_));
        self.asked.insert(id, purpose);
        vec![Act::Ask {
            id,
            op: Box::new(op),
            is_control,
        }]
    }

    fn answer(&mut self, frame: &Value, authority: &dyn Authority) -> Vec<Act> {
        let response = &frame["response"];
        let Some(id) = response["request_id"].as_str() else {
            return Vec::new();
        };
        let refused = |why: String| vec![Act::Send(not_answered(id, &why, &Value::Null))];
        if authority.is_view_only() {
            return refused("this device is view-only".to_owned());
        }
        if response["subtype"] == "error" {
            // The device can't answer; somebody else may.
            return Vec::new();
        }
        let request_id = RequestId::from(id.to_owned());
        let reply = response["response"].clone();
        let op = if self.questions.get(id) == Some(&true) {
            serde_json::from_value(reply)
                .map(|reply| WireOp::ElicitationReply { request_id, reply })
        } else {
            serde_json::from_value(reply).map(|reply| WireOp::PermissionReply { request_id, reply })
        };
        let op = match op {
            Ok(op) => op,
            Err(error) => return refused(format!("the answer is wrong: {error}")),
        };
        match authority.permit(&op) {
            Ok(()) => self.ask(OpId::new_v4(), op, Purpose::Answer(id.to_owned())),
            Err(problem) => refused(problem.detail),
        }
    }

    fn control(&mut self, frame: &Value, authority: &dyn Authority) -> Vec<Act> {
        let policy = |mode: &str| match PermissionMode::from_str(mode) {
            Ok(mode) => authority
                .permit(&WireOp::SetMode { mode })
                .err()
                .map(|problem| problem.detail),
            Err(error) => Some(error.to_string()),
        };
        let request = match rules::control(frame, authority.is_view_only(), policy) {
            ControlAnswer::Refuse(answer) => return vec![Act::Send(answer)],
            ControlAnswer::Do(request) => request,
        };
        let id = &frame["request_id"];
        let op = match request["subtype"].as_str() {
            Some("interrupt") => WireOp::Interrupt { drop_queued: false },
            Some("set_model") => WireOp::SetModel {
                model: request["model"].as_str().unwrap_or("default").to_owned(),
            },
            Some("set_max_thinking_tokens") => WireOp::SetThinking {
                max_thinking_tokens: request["max_thinking_tokens"]
                    .as_u64()
                    .map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            },
            Some("set_permission_mode") => {
                let mode = request["mode"].as_str().unwrap_or_default();
                match PermissionMode::from_str(mode) {
                    Ok(mode) => WireOp::SetMode { mode },
                    Err(error) => return vec![Act::Send(failure(id, &error.to_string()))],
                }
            }
            // Only initialize is left, which the session is not asked for.
            _ => return vec![Act::Send(success(id, &self.about))],
        };
        match authority.permit(&op) {
            Ok(()) => self.ask(OpId::new_v4(), op, Purpose::Control(id.clone())),
            Err(problem) => vec![Act::Send(failure(id, &problem.detail))],
        }
    }

    fn prompt(&mut self, mut frame: Value, authority: &dyn Authority) -> Vec<Act> {
        let id = frame["uuid"].clone();
        let refused = |why: String| vec![Act::Send(not_taken(&id, &why))];
        let uuid = match id.as_str() {
            None => OpId::new_v4(),
            Some(text) => match OpId::parse_str(text) {
                Ok(uuid) => uuid,
                Err(_) => return refused("uuid is not a UUID".to_owned()),
            },
        };
        let files = rules::attachments(&frame);
        let mut content = frame["message"]["content"].take();
        let found: Vec<PathBuf> = files
            .iter()
            .filter_map(|(id, name)| authority.fetch(id, name))
            .collect();
        rules::attach(&mut content, &found);
        let content: Content = match serde_json::from_value(content) {
            Ok(content) => content,
            Err(error) => return refused(format!("message.content is wrong: {error}")),
        };
        let op = WireOp::Prompt {
            content,
            uuid: Some(RecordId(uuid)),
        };
        match authority.permit(&op) {
            Ok(()) => self.ask(uuid, op, Purpose::Message(id)),
            Err(problem) => refused(problem.detail),
        }
    }

    /// The session did an operation.
    pub fn done(&mut self, id: OpId) -> Vec<Act> {
        match self.asked.remove(&id) {
            Some(Purpose::Control(request)) => vec![Act::Send(success(&request, &json!({})))],
            Some(Purpose::Message(_) | Purpose::Answer(_)) | None => Vec::new(),
        }
    }

    /// The session did not do an operation.
    pub fn refused(&mut self, nak: &Nak) -> Vec<Act> {
        let Some(purpose) = self.asked.remove(&nak.id) else {
            return Vec::new();
        };
        vec![Act::Send(match purpose {
            Purpose::Control(request) => failure(&request, &nak.why),
            Purpose::Message(id) => not_taken(&id, &nak.why),
            Purpose::Answer(question) => {
                let first = json!({"by": nak.by, "reply": nak.reply});
                not_answered(&question, &nak.why, &first)
            }
        })]
    }

    /// A control request was not answered in time: an error, never a false success.
    pub fn expired(&mut self, id: OpId) -> Vec<Act> {
        match self.asked.get(&id) {
            Some(Purpose::Control(request)) => {
                let why = "the session did not answer within a second; it may still do it";
                let answer = failure(request, why);
                self.asked.remove(&id);
                vec![Act::Send(answer)]
            }
            _ => Vec::new(),
        }
    }
}

fn title(name: &Value) -> Value {
    json!({"type": "system", "subtype": "title", "title": name})
}

/// A question that needs no answer any more, with who answered it.
fn cancelled(id: &str, resolved: &Value) -> Value {
    json!({"type": "control_cancel_request", "request_id": id, "by": resolved["by"], "reply": resolved["reply"]})
}

fn success(request: &Value, response: &Value) -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": request, "response": response}})
}

fn failure(request: &Value, why: &str) -> Value {
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": request, "error": why}})
}

fn not_taken(id: &Value, why: &str) -> Value {
    json!({"type": "system", "subtype": "message_refused", "uuid": id, "error": why})
}

fn not_answered(question: &str, why: &str, first: &Value) -> Value {
    json!({"type": "system", "subtype": "answer_refused", "request_id": question, "error": why,
        "by": first["by"], "reply": first["reply"]})
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
