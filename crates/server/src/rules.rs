//! The rules of a remote conversation, as pure functions over frames, id rings and a gate.
//!
//! | part | function |
//! |---|---|
//! | what is sent, and in which form | [`outbound`], [`converted`], [`post`] |
//! | the text that a title is made from | [`title_text`], [`Titler`] |
//! | what is done with a frame that came | [`Inbound::take`] |
//! | how control requests are answered | [`control`] |
//! | images without a type | [`repair_images`] |
//! | where attachments go | [`attachments`], [`upload_path`], [`with_attachments`], [`attach`] |
//! | messages that wait for the history | [`FlushGate`] |
//!
//! [`crate::conversation`] puts them together, and `messages` connects that to a device and a session.

use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

/// How many ids a ring remembers.
pub const RING: usize = 2_048;
/// How many messages a gate holds.
pub const GATE: usize = 1_000;
/// How many attachments of one message are looked for.
const MOST_ATTACHMENTS: usize = 32;

/// The last ids that were seen.
#[derive(Debug, Clone, Default)]
pub struct IdRing {
    order: VecDeque<String>,
    known: HashSet<String>,
}

impl IdRing {
    /// A ring that knows these, such as those at the end of a transcript.
    pub fn refilled(ids: impl IntoIterator<Item = String>) -> Self {
        let mut ring = Self::default();
        for id in ids {
            ring.note(&id);
        }
        ring
    }

    /// Remembers an id; the oldest is forgotten for it.
    pub fn note(&mut self, id: &str) {
        if !self.known.insert(id.to_owned()) {
            return;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > RING
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether an id is remembered.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.known.contains(id)
    }
}

fn flag(message: &Value, name: &str) -> bool {
    message[name] == true
}

fn blocks(message: &Value) -> &[Value] {
    message["message"]["content"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// Whether a message is sent to the other side: user, assistant and local-command messages; never virtual ones, tool
/// results alone, or progress.
#[must_use]
pub fn outbound(message: &Value) -> bool {
    if flag(message, "isVirtual") {
        return false;
    }
    match message["type"].as_str() {
        Some("assistant") => true,
        Some("user") => {
            let blocks = blocks(message);
            blocks.is_empty() || blocks.iter().any(|block| block["type"] != "tool_result")
        }
        Some("system") => message["subtype"] == "local_command",
        _ => false,
    }
}

/// The user's own words, for a title; `None` for everything else.
#[must_use]
pub fn title_text(message: &Value) -> Option<String> {
    let own = message["type"] == "user"
        && !flag(message, "isMeta")
        && !flag(message, "isCompactSummary")
        && !flag(message, "isVirtual")
        && !blocks(message)
            .iter()
            .any(|block| block["type"] == "tool_result")
        && message.get("origin").is_none_or(is_human);
    if !own {
        return None;
    }
    let text = match &message["message"]["content"] {
        Value::String(text) => text.as_str(),
        Value::Array(blocks) => {
            blocks.iter().find(|block| block["type"] == "text")?["text"].as_str()?
        }
        _ => return None,
    };
    if text.trim_start().starts_with("<task-notification>") {
        return None;
    }
    Some(without_tags(text)).filter(|text| !text.is_empty())
}

fn is_human(origin: &Value) -> bool {
    origin.is_null() || origin == "human" || origin["kind"] == "human"
}

/// A text without the tags that are for display, and what is between them.
fn without_tags(text: &str) -> String {
    const TAGS: [&str; 5] = [
        "system-reminder",
        "command-name",
        "command-message",
        "local-command-stdout",
        "ide_opened_file",
    ];
    let mut text = text.to_owned();
    for tag in TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(from) = text.find(&open) {
            let to = text[from..]
                .find(&close)
                .map_or(text.len(), |at| from + at + close.len());
            text.replace_range(from..to, "");
        }
    }
    text.trim().to_owned()
}

/// Makes a name from the words of the user, until it has enough.
#[derive(Debug, Clone, Default)]
pub struct Titler {
    has_enough: bool,
}

impl Titler {
    /// The session has a name: no words are needed.
    pub fn settle(&mut self) {
        self.has_enough = true;
    }

    /// A name from words, while one is wanted. Words as short as a greeting give one, but better ones may follow.
    pub fn offer(&mut self, words: &str) -> Option<String> {
        const LONGEST: usize = 60;
        const ENOUGH: usize = 12;
        if self.has_enough {
            return None;
        }
        let line = words.lines().find(|line| !line.trim().is_empty())?.trim();
        self.has_enough = line.chars().count() >= ENOUGH;
        if line.chars().count() <= LONGEST {
            return Some(line.to_owned());
        }
        let cut: String = line.chars().take(LONGEST).collect();
        let whole = cut
            .rsplit_once(' ')
            .map_or(cut.as_str(), |(whole, _)| whole);
        Some(format!("{}…", whole.trim_end()))
    }
}

/// The decision about a frame that came.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// An answer to a permission question.
    PermissionAnswer(Value),
    /// A control request, to be answered within a second.
    Control(Value),
    /// Words of the user, handed on without waiting.
    Prompt(Value),
    /// Nothing, and why.
    Dropped(&'static str),
}

/// The inbound side: what was sent lately, and what came lately.
#[derive(Debug, Clone, Default)]
pub struct Inbound {
    /// Ids of messages that were sent; they come back as echoes.
    pub posted: IdRing,
    /// Ids of messages that came; they may be delivered again.
    pub received: IdRing,
}

impl Inbound {
    /// Decides about a frame, in a fixed order. One dirty frame is dropped and never ends a connection.
    pub fn take(&mut self, line: &str) -> Taken {
        let Ok(frame @ Value::Object(_)) = serde_json::from_str::<Value>(line) else {
            return Taken::Dropped("not an object");
        };
        let frame = snake_case(frame);
        match frame["type"].as_str() {
            Some("control_response") => return Taken::PermissionAnswer(frame),
            Some("control_request") => return Taken::Control(frame),
            None => return Taken::Dropped("no type"),
            Some(_) => {}
        }
        if let Some(id) = frame["uuid"].as_str() {
            if self.posted.has(id) {
                return Taken::Dropped("an echo");
            }
            if self.received.has(id) {
                return Taken::Dropped("delivered before");
            }
        }
        if frame["type"] != "user" {
            return Taken::Dropped("not for this side");
        }
        if let Some(id) = frame["uuid"].as_str() {
            self.received.note(id);
        }
        let mut frame = frame;
        repair_images(&mut frame);
        Taken::Prompt(frame)
    }
}

/// The names of the outer fields in snake case; some clients send camel case.
fn snake_case(frame: Value) -> Value {
    let snake = |value: Value, names: &[(&str, &str)]| match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| {
                    let known = names.iter().find(|(camel, _)| *camel == name);
                    (
                        known.map_or(name.clone(), |(_, snake)| (*snake).to_owned()),
                        value,
                    )
                })
                .collect(),
        ),
        other => other,
    };
    const NAMES: &[(&str, &str)] = &[
        ("requestId", "request_id"),
        ("sessionId", "session_id"),
        ("parentToolUseId", "parent_tool_use_id"),
        ("fileAttachments", "file_attachments"),
        ("maxThinkingTokens", "max_thinking_tokens"),
        ("toolUseId", "tool_use_id"),
    ];
    let mut frame = snake(frame, NAMES);
    for inner in ["request", "response"] {
        if let Some(value) = frame.get_mut(inner) {
            *value = snake(value.take(), NAMES);
        }
    }
    frame
}

/// The answer to a control request.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlAnswer {
    /// Done by the session, which then answers with success.
    Do(Value),
    /// An error; never a false success.
    Refuse(Value),
}

/// Decides about a control request. `policy` says why a permission mode is refused.
#[must_use]
pub fn control(
    frame: &Value,
    view_only: bool,
    policy: impl Fn(&str) -> Option<String>,
) -> ControlAnswer {
    let request = &frame["request"];
    let refuse = |why: String| {
        ControlAnswer::Refuse(json!({
            "type": "control_response",
            "response": {"subtype": "error", "request_id": frame["request_id"], "error": why},
        }))
    };
    let subtype = request["subtype"].as_str().unwrap_or_default();
    if view_only && subtype != "initialize" {
        return refuse("this device is view-only".to_owned());
    }
    match subtype {
        "initialize" | "interrupt" => ControlAnswer::Do(request.clone()),
        "set_model" if request["model"].is_string() || request["model"].is_null() => {
            ControlAnswer::Do(request.clone())
        }
        "set_max_thinking_tokens"
            if request["max_thinking_tokens"].is_u64()
                || request["max_thinking_tokens"].is_null() =>
        {
            ControlAnswer::Do(request.clone())
        }
        "set_permission_mode" => match request["mode"].as_str() {
            Some(mode) => match policy(mode) {
                None => ControlAnswer::Do(request.clone()),
                Some(why) => refuse(why),
            },
            None => refuse("mode is missing".to_owned()),
        },
        "set_model" => refuse("model must be a string, or null for the default".to_owned()),
        "set_max_thinking_tokens" => {
            refuse("max_thinking_tokens must be a number, or null for the default".to_owned())
        }
        other => refuse(format!("{other:?} is not a request of a remote device")),
    }
}

/// Gives images their media type: the client's `mediaType`, else what their first bytes say. One block without it would
/// make every later request fail, so an image of no known kind becomes a text.
pub fn repair_images(frame: &mut Value) {
    if let Some(content) = frame
        .get_mut("message")
        .and_then(|it| it.get_mut("content"))
    {
        repair_content(content);
    }
}

/// The same for the content of a message.
pub fn repair_content(content: &mut Value) {
    let Some(blocks) = content.as_array_mut() else {
        return;
    };
    for block in blocks {
        if block["type"] != "image" || block["source"]["type"] != "base64" {
            continue;
        }
        let source = &mut block["source"];
        let named = source
            .as_object_mut()
            .and_then(|source| source.remove("mediaType"));
        if source["media_type"].is_string() {
            continue;
        }
        let kind = named
            .as_ref()
            .and_then(Value::as_str)
            .or_else(|| sniffed(source["data"].as_str().unwrap_or_default()))
            .map(str::to_owned);
        match kind {
            Some(kind) => source["media_type"] = kind.into(),
            None => *block = json!({"type": "text", "text": "[an image of an unknown kind]"}),
        }
    }
}

/// The kind of an image by the beginning of its base64 text.
fn sniffed(data: &str) -> Option<&'static str> {
    [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
    ]
    .into_iter()
    .find_map(|(start, kind)| data.starts_with(start).then_some(kind))
}

/// Where an attachment is saved: `<config>/uploads/<session>/<8 characters>_<safe name>`.
#[must_use]
pub fn upload_path(config_home: &Path, session: &str, file_id: &str, name: &str) -> PathBuf {
    let safe = |text: &str, limit: usize| -> String {
        text.chars()
            .map(|letter| match letter {
                'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-' => letter,
                _ => '_',
            })
            .take(limit)
            .collect()
    };
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let base = match safe(base, 100) {
        base if base.trim_matches(['.', '_']).is_empty() => "file".to_owned(),
        base => base,
    };
    let session = safe(session, 64).replace("..", "__");
    config_home
        .join("uploads")
        .join(session)
        .join(format!("{}_{base}", safe(file_id, 8).replace('.', "_")))
}

/// The attachments of a message: the id and the name of each.
#[must_use]
pub fn attachments(frame: &Value) -> Vec<(String, String)> {
    let listed = frame["file_attachments"].as_array();
    let listed = listed.map_or(&[][..], Vec::as_slice);
    let text = |file: &Value, snake: &str, camel: &str| {
        let text = file[snake].as_str().or_else(|| file[camel].as_str())?;
        Some(text.to_owned()).filter(|text| !text.is_empty())
    };
    listed
        .iter()
        .take(MOST_ATTACHMENTS)
        .filter_map(|file| {
            let id = text(file, "file_uuid", "fileUuid")?;
            let name = text(file, "file_name", "fileName").unwrap_or_default();
            Some((id, name))
        })
        .collect()
}

/// Puts the attachments that were found in front of the words of a message.
pub fn attach(content: &mut Value, paths: &[PathBuf]) {
    if paths.is_empty() {
        return;
    }
    match content {
        Value::String(text) => *text = with_attachments(text, paths),
        Value::Array(blocks) => {
            let words = blocks.iter_mut().find(|block| block["type"] == "text");
            match words {
                Some(block) => {
                    let text = block["text"].as_str().unwrap_or_default();
                    block["text"] = with_attachments(text, paths).into();
                }
                None => {
                    let text = with_attachments("", paths);
                    blocks.insert(0, json!({"type": "text", "text": text.trim_end()}));
                }
            }
        }
        _ => {}
    }
}

/// A prompt with the attachments that could be fetched in front, as `@path`.
#[must_use]
pub fn with_attachments(text: &str, paths: &[PathBuf]) -> String {
    let mut all = String::new();
    for path in paths {
        let path = path.to_string_lossy();
        if path.contains(' ') {
            all.push_str(&format!("@\"{path}\" "));
        } else {
            all.push_str(&format!("@{path} "));
        }
    }
    all.push_str(text);
    all
}

/// Holds messages back while the history is being sent, so that nothing overtakes it.
#[derive(Debug, Default)]
pub struct FlushGate<T> {
    active: bool,
    held: VecDeque<T>,
    lost: usize,
}

impl<T> FlushGate<T> {
    /// An open gate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            active: false,
            held: VecDeque::new(),
            lost: 0,
        }
    }

    /// Holds messages from here on.
    pub fn start(&mut self) {
        self.active = true;
    }

    /// Takes messages if they must wait. `true` if they were held; the oldest are given up beyond [`GATE`].
    pub fn enqueue(&mut self, messages: impl IntoIterator<Item = T>) -> bool {
        if !self.active {
            return false;
        }
        self.held.extend(messages);
        while self.held.len() > GATE {
            self.held.pop_front();
            self.lost += 1;
        }
        true
    }

    /// Opens the gate and hands out what waited, and how many were given up.
    pub fn end(&mut self) -> (Vec<T>, usize) {
        self.active = false;
        (
            self.held.drain(..).collect(),
            std::mem::take(&mut self.lost),
        )
    }

    /// Gives up what waits; how many there were.
    pub fn drop_held(&mut self) -> usize {
        self.active = false;
        let count = self.held.len();
        self.held.clear();
        count
    }

    /// Opens the gate but keeps what waits for the next transport.
    pub fn deactivate(&mut self) {
        self.active = false;
    }
}

/// A message as it is sent: its words and who said them, without what only a terminal shows.
#[must_use]
pub fn converted(message: Value) -> Value {
    const FIELDS: [&str; 9] = [
        "type",
        "subtype",
        "uuid",
        "session_id",
        "parent_tool_use_id",
        "timestamp",
        "message",
        "content",
        "origin",
    ];
    match message {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(name, _)| FIELDS.contains(&name.as_str()))
                .collect(),
        ),
        other => other,
    }
}

/// Messages ready to send. In this order: filtered, their words to `title`, converted, held by the gate if it is closed, and
/// noted as posted **before** they go, so that an echo is known however fast it is.
pub fn post(
    messages: Vec<Value>,
    inbound: &mut Inbound,
    gate: &mut FlushGate<Value>,
    mut title: impl FnMut(&str),
) -> Vec<Value> {
    let messages: Vec<Value> = messages
        .into_iter()
        .filter(outbound)
        .map(|message| {
            if let Some(words) = title_text(&message) {
                title(&words);
            }
            converted(message)
        })
        .collect();
    if messages.is_empty() || gate.enqueue(messages.iter().cloned()) {
        return Vec::new();
    }
    note_posted(&messages, inbound);
    messages
}

/// Opens the gate: the messages that waited, noted as posted, and how many were given up.
pub fn flush(inbound: &mut Inbound, gate: &mut FlushGate<Value>) -> (Vec<Value>, usize) {
    let (messages, lost) = gate.end();
    note_posted(&messages, inbound);
    (messages, lost)
}

fn note_posted(messages: &[Value], inbound: &mut Inbound) {
    for id in messages
        .iter()
        .filter_map(|message| message["uuid"].as_str())
    {
        inbound.posted.note(id);
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
