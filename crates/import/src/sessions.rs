//! Conversations of other agents as transcripts that resume.
//!
//! A conversation becomes prompts and answers as text; calls of tools are named in the answer, with the beginning of
//! their result. Ids are made from the other agent's, so that a second import finds the first.

use crate::agents::Agent;
use crate::plan::Plan;
use crate::read;
use lathe_protocol::ids::SessionId;
use lathe_session::SessionPaths;
use lathe_session::paths::projects_folder;
use lathe_settings::Places;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// How much of a result is kept.
const MOST_OF_RESULT: usize = 2000;
/// The largest file of a conversation.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// Ids of imported records are made in this name space.
const SPACE: Uuid = Uuid::from_u128(0x6c61_7468_652d_696d_706f_7274_2d76_3031);

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The user.
    User,
    /// The model.
    Model,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Who said it.
    pub by: Speaker,
    /// The words.
    pub text: String,
    /// When, in ISO 8601.
    pub at: String,
}

/// A conversation of another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its id there.
    pub id: String,
    /// Its folder.
    pub cwd: PathBuf,
    /// The model, as far as it is known.
    pub model: String,
    /// The prompts and answers, in order.
    pub said: Vec<Said>,
}

/// Plans the import of the conversations of an agent.
pub(crate) fn read(places: &Places, agent: Agent, plan: &mut Plan) {
    let Some(home) = places.environment.home.clone() else {
        return;
    };
    match agent {
        Agent::Claude => claude(places, &home, plan),
        Agent::Codex => {
            for (file, _) in read::files(&home.join(".codex/sessions"), "jsonl") {
                one(places, plan, &file, codex);
            }
        }
        Agent::Gemini => {
            for (file, _) in read::files(&home.join(".gemini/tmp"), "json") {
                let is_chat = file
                    .parent()
                    .is_some_and(|folder| folder.ends_with("chats"));
                if is_chat {
                    let project = places.project.clone();
                    one(places, plan, &file, |file, text| {
                        gemini(file, text, &project)
                    });
                }
            }
        }
        Agent::Opencode => {
            let storage = home.join(".local/share/opencode/storage");
            for (file, _) in read::files(&storage.join("session"), "json") {
                let storage = storage.clone();
                one(places, plan, &file, |_, text| opencode(&storage, text));
            }
        }
        Agent::Cursor => {
            if home.join(".cursor/chats").is_dir() {
                plan.left(
                    "~/.cursor/chats",
                    "conversations are in a database of that program",
                );
            }
        }
        Agent::Aider => {
            let file = places.project.join(".aider.chat.history.md");
            let project = places.project.clone();
            if file.is_file() {
                aider(places, plan, &file, &project);
            }
        }
    }
}

/// Reads a file and plans its conversation.
fn one(
    places: &Places,
    plan: &mut Plan,
    file: &Path,
    convert: impl Fn(&Path, &str) -> Result<Conversation, &'static str>,
) {
    let was = format!("conversation {}", plan.shown(file));
    if std::fs::metadata(file).is_ok_and(|found| found.len() > MOST_BYTES) {
        return plan.left(was, "it is larger than 64 MB");
    }
    let Ok(text) = std::fs::read_to_string(file) else {
        return plan.left(was, "it can't be read as text");
    };
    match convert(file, &text) {
        Ok(conversation) if conversation.said.is_empty() => plan.left(was, "nothing was said"),
        Ok(conversation) => write(places, plan, was, &conversation),
        Err(why) => plan.left(was, why),
    }
}

fn write(places: &Places, plan: &mut Plan, was: String, conversation: &Conversation) {
    let id = id_of(plan.agent, &conversation.id);
    let paths = SessionPaths::new(&places.config_home, &conversation.cwd, id);
    let text = transcript(id, conversation);
    plan.file(was, paths.transcript(), text, "as text");
}

fn id_of(agent: Agent, theirs: &str) -> SessionId {
    let name = format!("{}/{theirs}", agent.name());
    SessionId(Uuid::new_v5(&SPACE, name.as_bytes()))
}

/// The lines of a transcript. Words of one speaker that follow each other are one message.
fn transcript(id: SessionId, conversation: &Conversation) -> String {
    let mut joined: Vec<Said> = Vec::new();
    for said in &conversation.said {
        match joined.last_mut() {
            Some(last) if last.by == said.by => {
                last.text.push_str("\n\n");
                last.text.push_str(&said.text);
            }
            // A conversation begins with its user.
            None if said.by == Speaker::Model => {}
            _ => joined.push(said.clone()),
        }
    }
    let mut text = String::new();
    let mut parent: Option<Uuid> = None;
    let Ok(space) = Uuid::parse_str(&id.to_string()) else {
        return text;
    };
    for (number, said) in joined.iter().enumerate() {
        let uuid = Uuid::new_v5(&space, number.to_string().as_bytes());
        let mut record = json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external",
            "cwd": conversation.cwd, "sessionId": id, "version": env!("CARGO_PKG_VERSION"),
            "gitBranch": "",
        });
        match said.by {
            Speaker::User => {
                record["type"] = "user".into();
                record["message"] = json!({"role": "user", "content": said.text});
            }
            Speaker::Model => {
                record["type"] = "assistant".into();
                record["message"] = json!({
                    "id": format!("msg_{}", uuid.simple()), "type": "message", "role": "assistant",
                    "model": conversation.model, "content": [{"type": "text", "text": said.text}],
                    "stop_reason": "end_turn", "stop_sequence": null,
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                });
            }
        }
        record["uuid"] = Value::from(uuid.to_string());
        record["timestamp"] = Value::from(said.at.clone());
        let _ = writeln!(text, "{record}");
        parent = Some(uuid);
    }
    text
}

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

/// The text of content that is a text or a list of parts.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let parts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            parts.join("\n")
        }
        _ => String::new(),
    }
}

fn cut(text: &str) -> String {
    let kept: String = text.chars().take(MOST_OF_RESULT).collect();
    if kept.len() < text.len() {
        format!("{kept}…")
    } else {
        kept
    }
}

fn time(value: &Value) -> String {
    const UNKNOWN: &str = "1970-01-01T00:00:00.000Z";
    value
        .as_str()
        .filter(|text| text.ends_with('Z'))
        .unwrap_or(UNKNOWN)
        .to_owned()
}

/// A rollout of Codex: `session_meta`, then `response_item`s.
fn codex(_: &Path, text: &str) -> Result<Conversation, &'static str> {
    let mut conversation = Conversation {
        id: String::new(),
        cwd: PathBuf::new(),
        model: "codex".to_owned(),
        said: Vec::new(),
    };
    for line in lines(text) {
        let payload = &line["payload"];
        let at = time(&line["timestamp"]);
        let mut say = |by, text: String| {
            if !text.trim().is_empty() {
                conversation.said.push(Said {
                    by,
                    text,
                    at: at.clone(),
                });
            }
        };
        match (line["type"].as_str(), payload["type"].as_str()) {
            (Some("session_meta"), _) => {
                conversation.id = payload["id"].as_str().unwrap_or_default().to_owned();
                conversation.cwd = payload["cwd"].as_str().unwrap_or_default().into();
            }
            (Some("turn_context"), _) => {
                if let Some(model) = payload["model"].as_str() {
                    model.clone_into(&mut conversation.model);
                }
            }
            (Some("response_item"), Some("message")) => {
                let text = words(&payload["content"]);
                match payload["role"].as_str() {
                    Some("assistant") => say(Speaker::Model, text),
                    // What the program itself puts before the first prompt.
                    Some("user")
                        if !text.trim_start().starts_with('<')
                            && !text.starts_with("# AGENTS.md") =>
                    {
                        say(Speaker::User, text);
                    }
                    _ => {}
                }
            }
            (Some("response_item"), Some("function_call" | "custom_tool_call")) => {
                let name = payload["name"].as_str().unwrap_or_default();
                let input = payload["arguments"].as_str().or(payload["input"].as_str());
                say(
                    Speaker::Model,
                    format!("[{name} {}]", cut(input.unwrap_or_default())),
                );
            }
            (Some("response_item"), Some("function_call_output" | "custom_tool_call_output")) => {
                let output = payload["output"].as_str().map(str::to_owned);
                let output = output.unwrap_or_else(|| words(&payload["output"]["content"]));
                say(Speaker::Model, format!("[result: {}]", cut(&output)));
            }
            _ => {}
        }
    }
    if conversation.id.is_empty() || !conversation.cwd.is_absolute() {
        return Err("it has no session_meta with an id and a folder");
    }
    Ok(conversation)
}

/// A chat of Gemini CLI. Its folder is known by a hash, or by a file beside it.
fn gemini(file: &Path, text: &str, project: &Path) -> Result<Conversation, &'static str> {
    let chat: Value = serde_json::from_str(text).map_err(|_| "it is not JSON")?;
    let hash: String = Sha256::digest(project.to_string_lossy().as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let root = file
        .parent()
        .and_then(Path::parent)
        .and_then(|folder| std::fs::read_to_string(folder.join(".project_root")).ok())
        .map(|text| PathBuf::from(text.trim()));
    let cwd = match root {
        Some(root) if root.is_absolute() => root,
        _ if chat["projectHash"] == *hash => project.to_path_buf(),
        _ => return Err("its folder is not known; run the import in that folder"),
    };
    let mut said = Vec::new();
    for message in chat["messages"].as_array().into_iter().flatten() {
        let by = match message["type"].as_str() {
            Some("user") => Speaker::User,
            Some("gemini") => Speaker::Model,
            _ => continue,
        };
        let mut text = words(&message["content"]);
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let name = call["name"].as_str().unwrap_or_default();
            let shown = call["resultDisplay"].as_str().unwrap_or_default();
            let _ = write!(text, "\n[{name} {}: {}]", call["args"], cut(shown));
        }
        if !text.trim().is_empty() {
            said.push(Said {
                by,
                text,
                at: time(&message["timestamp"]),
            });
        }
    }
    let id = chat["sessionId"].as_str().ok_or("it has no sessionId")?;
    Ok(Conversation {
        id: id.to_owned(),
        cwd,
        model: "gemini".to_owned(),
        said,
    })
}

/// A session of opencode: its messages and their parts are files of their own.
fn opencode(storage: &Path, text: &str) -> Result<Conversation, &'static str> {
    let session: Value = serde_json::from_str(text).map_err(|_| "it is not JSON")?;
    let id = session["id"].as_str().ok_or("it has no id")?;
    let plain = |name: &str| !name.is_empty() && !name.contains(['/', '.']);
    if !plain(id) {
        return Err("its id is not a name");
    }
    let cwd = PathBuf::from(session["directory"].as_str().unwrap_or_default());
    if !cwd.is_absolute() {
        return Err("its folder is not known");
    }
    let parsed = |path: &Path| -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    };
    let mut messages: BTreeMap<String, Value> = BTreeMap::new();
    for (file, _) in read::files(&storage.join("message").join(id), "json") {
        if let Some(message) = parsed(&file)
            && let Some(id) = message["id"].as_str().filter(|id| plain(id))
        {
            messages.insert(id.to_owned(), message);
        }
    }
    let mut said = Vec::new();
    let mut model = "opencode".to_owned();
    for (id, message) in messages {
        let by = match message["role"].as_str() {
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Model,
            _ => continue,
        };
        if let Some(name) = message["modelID"].as_str() {
            name.clone_into(&mut model);
        }
        let mut text = String::new();
        for (file, _) in read::files(&storage.join("part").join(&id), "json") {
            let Some(part) = parsed(&file) else { continue };
            match part["type"].as_str() {
                Some("text") => text.push_str(part["text"].as_str().unwrap_or_default()),
                Some("tool") => {
                    let name = part["tool"].as_str().unwrap_or_default();
                    let output = part["state"]["output"].as_str().unwrap_or_default();
                    let _ = write!(
                        text,
                        "\n[{name} {}: {}]",
                        part["state"]["input"],
                        cut(output)
                    );
                }
                _ => {}
            }
        }
        if !text.trim().is_empty() {
            said.push(Said {
                by,
                text,
                at: time(&Value::Null),
            });
        }
    }
    Ok(Conversation {
        id: id.to_owned(),
        cwd,
        model,
        said,
    })
}

/// The history of aider: `# aider chat started at …`, prompts behind `####`, its own notes behind `>`.
fn aider(places: &Places, plan: &mut Plan, file: &Path, project: &Path) {
    let Some(text) = read::text(file, plan) else {
        return;
    };
    for part in text.split("# aider chat started at ").skip(1) {
        let (started, body) = part.split_once('\n').unwrap_or((part, ""));
        let started = started.trim();
        let at = format!("{}.000Z", started.replace(' ', "T"));
        let mut said: Vec<Said> = Vec::new();
        for line in body.lines() {
            let (by, words) = match line.strip_prefix("####") {
                Some(words) => (Speaker::User, words.trim()),
                None if line.starts_with('>') => continue,
                None => (Speaker::Model, line),
            };
            match said.last_mut() {
                Some(last) if last.by == by => {
                    last.text.push('\n');
                    last.text.push_str(words);
                }
                _ if words.trim().is_empty() => {}
                _ => said.push(Said {
                    by,
                    text: words.to_owned(),
                    at: at.clone(),
                }),
            }
        }
        for said in &mut said {
            said.text.truncate(said.text.trim_end().len());
        }
        let was = format!("conversation of {started}");
        let conversation = Conversation {
            id: format!("{}/{started}", project.display()),
            cwd: project.to_path_buf(),
            model: "aider".to_owned(),
            said,
        };
        // A start without a prompt is no conversation.
        if conversation
            .said
            .iter()
            .any(|said| said.by == Speaker::User)
        {
            write(places, plan, was, &conversation);
        }
    }
}

/// Transcripts of Claude Code have our form.
fn claude(places: &Places, home: &Path, plan: &mut Plan) {
    let from = home.join(".claude/projects");
    for (file, inside) in read::files(&from, "jsonl") {
        let was = format!("conversation {}", plan.shown(&file));
        let is_session = inside.components().count() == 2
            && file
                .file_stem()
                .and_then(|name| Uuid::parse_str(name.to_str()?).ok())
                .is_some();
        if !is_session {
            continue;
        }
        if std::fs::metadata(&file).is_ok_and(|found| found.len() > MOST_BYTES) {
            plan.left(was, "it is larger than 64 MB");
            continue;
        }
        match std::fs::read_to_string(&file) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => plan.file(
                was,
                projects_folder(&places.config_home).join(inside),
                text,
                "",
            ),
            Err(_) => plan.left(was, "it can't be read as text"),
        }
    }
}
