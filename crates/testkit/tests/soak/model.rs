//! The model of the soak: random calls and faults, from a seed.

use lathe_scripted::{Ending, Position, RecordedRequest, Reply};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Words of the request for a summary (`engine`'s own text).
const SUMMARY_REQUEST: &str = "about to be replaced by your summary";
/// The beginning of every prompt of an agent.
const ERRAND: &str = "errand number";
/// Faults in a row; the next request is answered.
const MOST_FAULTS: usize = 3;

pub(crate) fn prompt(number: usize) -> String {
    format!("prompt number {number}: go on with the work")
}

/// The parts of texts by which they are known again: ids of calls and results, and prompts.
pub(crate) fn parts(text: &str, found: &mut HashSet<String>) {
    for (begin, name) in [
        ("\"id\":\"toolu_", "call"),
        ("\"tool_use_id\":\"toolu_", "result"),
        ("prompt number ", "prompt"),
    ] {
        for (at, _) in text.match_indices(begin) {
            let rest = &text[at + begin.len()..];
            let end = rest.find(['"', ':', ' ']).unwrap_or(rest.len());
            found.insert(format!("{name} {}", &rest[..end]));
        }
    }
}

#[derive(Debug)]
struct State {
    random: fastrand::Rng,
    /// Model calls that were answered.
    turns: usize,
    faults_in_a_row: usize,
    counts: BTreeMap<&'static str, usize>,
    carried: HashSet<String>,
}

/// Answers every request.
#[derive(Debug)]
pub(crate) struct Model {
    project: PathBuf,
    state: Mutex<State>,
}

impl Model {
    pub(crate) fn new(seed: u64, project: &Path) -> Self {
        Self {
            project: project.to_owned(),
            state: Mutex::new(State {
                random: fastrand::Rng::with_seed(seed),
                turns: 0,
                faults_in_a_row: 0,
                counts: BTreeMap::new(),
                carried: HashSet::new(),
            }),
        }
    }

    pub(crate) fn turns(&self) -> usize {
        self.state.lock().unwrap().turns
    }

    /// The parts of all requests so far.
    pub(crate) fn carried(&self) -> HashSet<String> {
        self.state.lock().unwrap().carried.clone()
    }

    /// A soak in which nothing happened would prove nothing.
    pub(crate) fn assert_everything_happened(&self) {
        let state = self.state.lock().unwrap();
        for kind in [
            "fault", "summary", "agent", "Bash", "Edit", "Write", "Grep", "parallel",
        ] {
            let count = state.counts.get(kind).copied().unwrap_or_default();
            assert!(count > 0, "there was no {kind}: {:?}", state.counts);
        }
    }

    pub(crate) fn answer(&self, request: &RecordedRequest) -> Reply {
        let mut state = self.state.lock().unwrap();
        remember(&mut state.carried, request.messages());
        if state.faults_in_a_row < MOST_FAULTS && state.random.u8(0..12) == 0 {
            state.faults_in_a_row += 1;
            state.count("fault");
            return fault(&mut state.random);
        }
        state.faults_in_a_row = 0;
        state.turns += 1;
        if request.last_user_text().contains(SUMMARY_REQUEST) {
            state.count("summary");
            return Reply::text("The work goes on: files were read and changed.");
        }
        let step = step_of(request.messages());
        if is_errand(request.messages()) {
            state.count("agent");
            return if step == 0 {
                Reply::tool_use("Read", json!({"file_path": self.file(0), "limit": 3}))
            } else {
                Reply::text("The errand is done.")
            };
        }
        // Four calls on average, then the end of the turn.
        if step > 0 && state.random.u8(0..5) == 0 {
            return Reply::text(format!("Done after {step} steps."));
        }
        let project = self.project.clone();
        state.call(&project)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.project.join(format!("src/file-{number}.txt"))
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock().unwrap();
        write!(f, "{} model calls", state.turns)?;
        for (kind, count) in &state.counts {
            write!(f, ", {count} {kind}")?;
        }
        Ok(())
    }
}

impl State {
    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// A random call, or several.
    fn call(&mut self, project: &Path) -> Reply {
        let number = self.random.usize(0..5);
        let file = project.join(format!("src/file-{number}.txt"));
        let line = self.random.usize(1..50);
        let kinds = [
            "Read",
            "Write",
            "Edit",
            "Bash",
            "Grep",
            "Glob",
            "parallel",
            "Task",
            "wrong",
            "long",
            "background",
        ];
        let kind = kinds[self.random.usize(0..kinds.len())];
        self.count(kind);
        let words = format!("Step with {kind}.");
        match kind {
            "Read" => Reply::thinking("Which lines?").with_text(words).with_tool_use(
                "Read",
                json!({"file_path": file, "offset": line, "limit": 5}),
            ),
            "Write" => Reply::text(words).with_tool_use(
                "Write",
                json!({"file_path": project.join(format!("out/{line}.txt")), "content": format!("content {line}\n")}),
            ),
            // It may fail (not read yet, or more than one place): the session continues.
            "Edit" => Reply::text(words).with_tool_use(
                "Edit",
                json!({"file_path": file, "old_string": format!("line of file {number}\n"), "new_string": format!("line of file {number} \n"),
                    "replace_all": true}),
            ),
            "Bash" => Reply::tool_use("Bash", json!({"command": format!("echo {line}; ls | head -3; exit {}", line % 2)})),
            "Grep" => Reply::tool_use("Grep", json!({"pattern": format!("file {number}"), "path": project})),
            "Glob" => Reply::tool_use("Glob", json!({"pattern": "**/*.txt"})),
            "parallel" => (0..4).fold(Reply::text(words), |reply, index| {
                let file = project.join(format!("src/file-{index}.txt"));
                reply.with_tool_use("Read", json!({"file_path": file, "offset": line, "limit": 2}))
            }),
            "Task" => Reply::tool_use(
                "Task",
                json!({"description": "an errand", "prompt": format!("{ERRAND} {line}: look at a file"),
                    "subagent_type": "general-purpose", "run_in_background": false}),
            ),
            "wrong" => Reply::text(words).with_tool_use("Read", json!({"file": 7})),
            "long" => Reply::tool_use("Bash", json!({"command": format!("seq 1 {}", line * 400)})),
            _ => Reply::tool_use(
                "Bash",
                json!({"command": format!("echo started {line}"), "run_in_background": true}),
            ),
        }
    }
}

fn fault(random: &mut fastrand::Rng) -> Reply {
    match random.u8(0..6) {
        0 => Reply::error(529),
        1 => Reply::error(500),
        2 => Reply::error(429),
        3 => Reply::hang_up(),
        4 => Reply::text("words that break off").drop_after(random.usize(0..600)),
        _ => Reply::text("words that break off").cut(Position::MidBlock(0), Ending::EndOfBody),
    }
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

/// Adds what a request carries: calls, results that were recorded, and prompts.
fn remember(carried: &mut HashSet<String>, messages: &[Value]) {
    for message in messages {
        let text = message["content"].as_str();
        let texts = blocks(message).filter_map(|block| block["text"].as_str());
        for text in text.into_iter().chain(texts) {
            // A summary may quote a prompt; the prompt itself is a whole text.
            if text.starts_with("prompt number ") {
                parts(text, carried);
            }
        }
        for block in blocks(message) {
            let id = |field: &str| {
                block[field]
                    .as_str()
                    .and_then(|id| id.strip_prefix("toolu_"))
            };
            if let Some(id) = id("id").filter(|_| block["type"] == "tool_use") {
                carried.insert(format!("call {id}"));
            }
            // A call without a result is given one that says so; that isn't in the file.
            let added = block["content"]
                .to_string()
                .contains("No result was recorded for this call");
            if let Some(id) = id("tool_use_id").filter(|_| !added) {
                carried.insert(format!("result {id}"));
            }
        }
    }
}

fn has_text(message: &Value, text: &str) -> bool {
    message["role"] == "user" && message["content"].to_string().contains(text)
}

fn is_errand(messages: &[Value]) -> bool {
    messages
        .first()
        .is_some_and(|message| has_text(message, ERRAND))
}

/// How many answers the model has given since the newest prompt.
fn step_of(messages: &[Value]) -> usize {
    let newest = messages
        .iter()
        .rposition(|message| has_text(message, "prompt number ") || has_text(message, ERRAND));
    let after = messages.iter().skip(newest.unwrap_or(0));
    after
        .filter(|message| message["role"] == "assistant")
        .count()
}
