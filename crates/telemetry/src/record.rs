//! From events of a session to numbers, log records and spans.

use crate::config::Config;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::Display;
use lathe_protocol::event::{Event, HookNotice, ModelUsage, TurnResult};
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_protocol::record::{MessageRecord, RecordMessage};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many log records, and how many spans, wait to be sent. Later ones are dropped and counted.
pub(crate) const MOST_WAITING: usize = 2048;
/// From how many on they are sent before their time.
const MANY: usize = 512;
/// The longest prompt that is sent, where prompts are.
const LONGEST_PROMPT: usize = 60_000;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Int(i64),
    Bool(bool),
}

/// Attributes in order.
pub(crate) type Attributes = Vec<(&'static str, Value)>;

/// The name of a sum, and its attributes as text.
pub(crate) type SeriesKey = (&'static str, Vec<(&'static str, String)>);

/// A log record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    pub(crate) at: u64,
    pub(crate) name: &'static str,
    pub(crate) attributes: Attributes,
    pub(crate) trace: Option<(Id16, Id8)>,
}

pub(crate) type Id16 = [u8; 16];
pub(crate) type Id8 = [u8; 8];

/// A span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: Id16,
    pub(crate) id: Id8,
    pub(crate) parent: Option<Id8>,
    pub(crate) name: &'static str,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: Attributes,
    pub(crate) failed: bool,
}

/// A span that runs.
#[derive(Debug, Clone)]
struct Open {
    id: Id8,
    began: u64,
}

/// The session that is observed.
#[derive(Debug, Default)]
struct Session {
    trace: Id16,
    /// The span outside of this process.
    parent: Option<Id8>,
    span: Option<Open>,
    turn: Option<Open>,
    step: Option<Open>,
    calls: HashMap<String, Open>,
    hooks: HashMap<String, u64>,
    id: String,
}

/// A step: the answer of one request.
#[derive(Debug, Default)]
struct Answer {
    model: String,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_creation: u64,
}

/// Collects what is sent.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) sums: BTreeMap<SeriesKey, f64>,
    pub(crate) logs: Vec<Log>,
    pub(crate) spans: Vec<Span>,
    pub(crate) dropped: u64,
    pub(crate) started: u64,
    with_prompts: bool,
    session: Session,
    answer: Option<Answer>,
    /// The totals of each model at the end of the last turn.
    spent: HashMap<String, ModelUsage>,
    /// Calls whose decision is known already, and questions that wait.
    decided: HashSet<String>,
    questions: HashMap<String, (String, String)>,
    /// Calls of the shell that commit, or open a pull request.
    commits: HashMap<String, &'static str>,
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Zero is no id.
    if getrandom::fill(&mut bytes).is_err() || bytes == [0; N] {
        bytes[0] = 1;
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The trace and the span of a `traceparent`.
fn parse_parent(text: &str) -> Option<(Id16, Id8)> {
    let mut parts = text.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = |text: &str| -> Option<Vec<u8>> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect()
    };
    if version != "00" {
        return None;
    }
    Some((
        bytes(trace)?.try_into().ok()?,
        bytes(span)?.try_into().ok()?,
    ))
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn int(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Recorder {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            sums: BTreeMap::new(),
            logs: Vec::new(),
            spans: Vec::new(),
            dropped: 0,
            started: nanoseconds(SystemTime::now()),
            with_prompts: config.with_prompts,
            session: Session::default(),
            answer: None,
            spent: HashMap::new(),
            decided: HashSet::new(),
            questions: HashMap::new(),
            commits: HashMap::new(),
        }
    }

    /// Begins a session, and gives its `traceparent`.
    pub(crate) fn begin_session(&mut self, parent: Option<&str>) -> String {
        let now = nanoseconds(SystemTime::now());
        self.close_session(now);
        let outer = parent.and_then(parse_parent);
        let open = Open {
            id: random(),
            began: now,
        };
        let trace = outer.map_or_else(random, |(trace, _)| trace);
        let line = format!("00-{}-{}-01", hex(&trace), hex(&open.id));
        self.session = Session {
            trace,
            parent: outer.map(|(_, span)| span),
            span: Some(open),
            ..Session::default()
        };
        self.spent.clear();
        self.count("lathe.session.count", vec![], 1.0);
        line
    }

    /// Closes what is open.
    pub(crate) fn end(&mut self, now: SystemTime) {
        self.close_session(nanoseconds(now));
    }

    /// Takes an event in. Returns whether so much waits that it should be sent soon.
    pub(crate) fn observe(&mut self, event: &Event, now: SystemTime) -> bool {
        let now = nanoseconds(now);
        match event {
            Event::TurnStarted(_) => {
                self.session.turn = Some(Open {
                    id: random(),
                    began: now,
                });
            }
            Event::PromptAccepted { record } => self.prompt(record, now),
            Event::Requesting => {
                self.close_step(now);
                self.session.step = Some(Open {
                    id: random(),
                    began: now,
                });
            }
            Event::Record { record, .. } => self.message(record),
            Event::CallStarted {
                tool_use_id,
                tool_name,
                ..
            } => {
                let id = tool_use_id.to_string();
                if !self.decided.contains(&id) {
                    self.decision(tool_name, "accept", "config", now);
                }
                self.session.calls.insert(
                    id,
                    Open {
                        id: random(),
                        began: now,
                    },
                );
            }
            Event::CallFinished {
                tool_use_id,
                tool_name,
                display,
                is_error,
                elapsed,
            } => {
                let id = tool_use_id.to_string();
                if !is_error {
                    self.changes(&id, display);
                }
                let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                self.log(
                    "tool_result",
                    vec![
                        ("tool_name", text(tool_name)),
                        ("success", Value::Bool(!is_error)),
                        ("duration_ms", int(milliseconds)),
                    ],
                    now,
                );
                self.commits.remove(&id);
                self.decided.remove(&id);
                if let Some(open) = self.session.calls.remove(&id) {
                    let parent = self.session.step.as_ref().or(self.session.turn.as_ref());
                    let parent = parent.map(|open| open.id);
                    self.span(
                        "call",
                        &open,
                        parent,
                        vec![("tool_name", text(tool_name))],
                        *is_error,
                        now,
                    );
                }
            }
            Event::PermissionRequested(request) => self.question(request),
            Event::PermissionResolved {
                request_id, reply, ..
            } => {
                self.answered(&request_id.to_string(), reply.as_ref(), now);
            }
            Event::PermissionDenied { denial, .. } => {
                self.decision(&denial.tool_name, "reject", "config", now);
            }
            Event::Retrying {
                attempt, status, ..
            } => {
                self.api_error(status.map(u64::from), u64::from(*attempt), now);
            }
            Event::Hook(notice) => self.hook(notice, now),
            Event::TurnFinished(result) => self.turn_finished(result, now),
            Event::SessionEnded => self.close_session(now),
            _ => {}
        }
        self.logs.len() >= MANY || self.spans.len() >= MANY
    }

    fn prompt(&mut self, record: &MessageRecord, now: u64) {
        self.session.id = record.session_id.to_string();
        let words = match &record.message {
            Some(RecordMessage::Plain(message)) => message.content.text(),
            _ => String::new(),
        };
        let length = words.chars().count() as u64;
        let mut attributes = vec![("prompt_length", int(length))];
        if self.with_prompts {
            let kept: String = words.chars().take(LONGEST_PROMPT).collect();
            attributes.push(("prompt", text(kept)));
        }
        self.log("user_prompt", attributes, now);
    }

    /// An answer of the model: its tokens, and calls of the shell that commit.
    fn message(&mut self, record: &MessageRecord) {
        let Some(RecordMessage::Assistant(message)) = &record.message else {
            return;
        };
        for block in &message.content {
            if let ContentBlock::ToolUse(call) = block
                && let Some(command) = call.input.get("command").and_then(|value| value.as_str())
                && let Some(kind) = kind_of_commit(command)
            {
                self.commits.insert(call.id.to_string(), kind);
            }
        }
        let usage = &message.usage;
        self.answer = Some(Answer {
            model: message.model.clone(),
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_creation: usage.cache_creation_input_tokens,
        });
    }

    fn changes(&mut self, id: &str, display: &Display) {
        if let Display::Diff { hunks, .. } = display {
            let lines = || hunks.iter().flat_map(|hunk| &hunk.lines);
            let count = |sign: char| lines().filter(|line| line.starts_with(sign)).count();
            for (kind, sign) in [("added", '+'), ("removed", '-')] {
                let number = count(sign);
                if number > 0 {
                    #[expect(clippy::cast_precision_loss, reason = "no change has so many lines")]
                    let number = number as f64;
                    self.count(
                        "lathe.lines_of_code.count",
                        vec![("type", kind.to_owned())],
                        number,
                    );
                }
            }
        }
        if let Some(name) = self.commits.get(id).copied() {
            self.count(name, vec![], 1.0);
        }
    }

    fn question(&mut self, request: &PermissionRequest) {
        self.questions.insert(
            request.request_id.to_string(),
            (request.tool_use_id.to_string(), request.tool_name.clone()),
        );
    }

    fn answered(&mut self, request: &str, reply: Option<&PermissionReply>, now: u64) {
        let Some((call, tool)) = self.questions.remove(request) else {
            return;
        };
        self.decided.insert(call);
        match reply {
            Some(PermissionReply::Allow {
                updated_permissions,
                ..
            }) => {
                let source = if updated_permissions.is_empty() {
                    "user_temporary"
                } else {
                    "user_permanent"
                };
                self.decision(&tool, "accept", source, now);
            }
            Some(PermissionReply::Deny { .. }) => self.decision(&tool, "reject", "user", now),
            None => self.decision(&tool, "reject", "withdrawn", now),
        }
    }

    fn decision(&mut self, tool: &str, decision: &str, source: &str, now: u64) {
        self.count(
            "lathe.tool.decision",
            vec![
                ("tool_name", tool.to_owned()),
                ("decision", decision.to_owned()),
                ("source", source.to_owned()),
            ],
            1.0,
        );
        let attributes = vec![
            ("tool_name", text(tool)),
            ("decision", text(decision)),
            ("source", text(source)),
        ];
        self.log("tool_decision", attributes, now);
    }

    /// The error's text is left out: it may quote the request.
    fn api_error(&mut self, status: Option<u64>, attempt: u64, now: u64) {
        let mut attributes = vec![("attempt", int(attempt))];
        attributes.extend(status.map(|status| ("status_code", int(status))));
        self.log("api_error", attributes, now);
    }

    fn hook(&mut self, notice: &HookNotice, now: u64) {
        match notice {
            HookNotice::Started { hook_id, .. } => {
                self.session.hooks.insert(hook_id.clone(), now);
            }
            // Its output is the user's.
            HookNotice::Progress { .. } => {}
            HookNotice::Finished {
                hook_id,
                hook_event,
                outcome,
                ..
            } => {
                let began = self.session.hooks.remove(hook_id).unwrap_or(now);
                let attributes = vec![
                    ("hook_event", text(hook_event)),
                    ("outcome", text(outcome)),
                    ("duration_ms", int(now.saturating_sub(began) / 1_000_000)),
                ];
                self.log("hook", attributes, now);
            }
        }
    }

    fn turn_finished(&mut self, result: &TurnResult, now: u64) {
        self.close_step(now);
        for (model, total) in &result.model_usage {
            let before = self
                .spent
                .insert(model.clone(), total.clone())
                .unwrap_or_default();
            let used = [
                ("input", total.input_tokens, before.input_tokens),
                ("output", total.output_tokens, before.output_tokens),
                (
                    "cacheRead",
                    total.cache_read_input_tokens,
                    before.cache_read_input_tokens,
                ),
                (
                    "cacheCreation",
                    total.cache_creation_input_tokens,
                    before.cache_creation_input_tokens,
                ),
            ];
            for (kind, now, before) in used {
                #[expect(clippy::cast_precision_loss, reason = "no session uses so many tokens")]
                let number = now.saturating_sub(before) as f64;
                let attributes = vec![("model", model.clone()), ("type", kind.to_owned())];
                self.count("lathe.token.usage", attributes, number);
            }
            let dollars = (total.cost_usd - before.cost_usd).max(0.0);
            self.count("lathe.cost.usage", vec![("model", model.clone())], dollars);
        }
        self.count(
            "lathe.active_time.total",
            vec![],
            result.duration.as_secs_f64(),
        );
        if let Some(status) = result.api_error_status {
            self.api_error(Some(u64::from(status)), 0, now);
        }
        if let Some(open) = self.session.turn.take() {
            let parent = self.session.span.as_ref().map(|open| open.id);
            let attributes = vec![("steps", int(u64::from(result.num_turns)))];
            self.span("turn", &open, parent, attributes, result.is_error, now);
        }
    }

    fn close_step(&mut self, now: u64) {
        let answer = self.answer.take();
        let Some(open) = self.session.step.take() else {
            return;
        };
        let parent = self.session.turn.as_ref().map(|open| open.id);
        let mut attributes = Vec::new();
        if let Some(answer) = answer {
            attributes = vec![
                ("model", text(answer.model)),
                ("input_tokens", int(answer.input)),
                ("output_tokens", int(answer.output)),
                ("cache_read_tokens", int(answer.cache_read)),
                ("cache_creation_tokens", int(answer.cache_creation)),
            ];
            let mut logged = attributes.clone();
            logged.push((
                "duration_ms",
                int(now.saturating_sub(open.began) / 1_000_000),
            ));
            self.log("api_request", logged, now);
        }
        self.span("step", &open, parent, attributes, false, now);
    }

    fn close_session(&mut self, now: u64) {
        self.close_step(now);
        if let Some(open) = self.session.turn.take() {
            let parent = self.session.span.as_ref().map(|open| open.id);
            self.span("turn", &open, parent, vec![], true, now);
        }
        if let Some(open) = self.session.span.take() {
            let parent = self.session.parent;
            self.span("session", &open, parent, vec![], false, now);
        }
    }

    fn count(&mut self, name: &'static str, attributes: Vec<(&'static str, String)>, by: f64) {
        *self.sums.entry((name, attributes)).or_default() += by;
    }

    fn log(&mut self, name: &'static str, mut attributes: Attributes, at: u64) {
        if self.logs.len() >= MOST_WAITING {
            self.dropped += 1;
            return;
        }
        attributes.push(("session.id", text(&self.session.id)));
        let within = self.session.step.as_ref().or(self.session.turn.as_ref());
        let within = within.or(self.session.span.as_ref());
        let trace = within.map(|open| (self.session.trace, open.id));
        self.logs.push(Log {
            at,
            name,
            attributes,
            trace,
        });
    }

    fn span(
        &mut self,
        name: &'static str,
        open: &Open,
        parent: Option<Id8>,
        mut attributes: Attributes,
        failed: bool,
        now: u64,
    ) {
        if self.spans.len() >= MOST_WAITING {
            self.dropped += 1;
            return;
        }
        attributes.push(("session.id", text(&self.session.id)));
        self.spans.push(Span {
            trace: self.session.trace,
            id: open.id,
            parent,
            name,
            began: open.began,
            ended: now,
            attributes,
            failed,
        });
    }
}

/// The metric that a command counts for.
fn kind_of_commit(command: &str) -> Option<&'static str> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let has = |wanted: &[&str]| words.windows(wanted.len()).any(|found| found == wanted);
    if has(&["gh", "pr", "create"]) || has(&["glab", "mr", "create"]) {
        return Some("lathe.pull_request.count");
    }
    has(&["git", "commit"]).then_some("lathe.commit.count")
}
