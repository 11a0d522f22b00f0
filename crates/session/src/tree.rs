//! The transcript as a tree: every prompt that was given, on branches that were left too.
//!
//! A rewind leaves what came after it in the file. Here all of it is found again: each prompt with the turn that it
//! began, below the prompt that it followed. Going to a turn moves the tip there; nothing is lost by it.

use crate::chain::as_message;
use crate::error::SessionError;
use crate::load::Loaded;
use crate::store::{append_fact, one_line};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::record::{Fact, MessageRecord, Record, RecordKind, RecordMessage};
use lathe_protocol::usage::Usage;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A prompt and the turn that it began.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// The record of the prompt.
    pub id: RecordId,
    /// The node that it followed, by its place in the list.
    pub parent: Option<usize>,
    /// How many branches it is away from the first line.
    pub depth: usize,
    /// The prompt on one line.
    pub text: String,
    /// When it was given.
    pub timestamp: String,
    /// The name that the user gave it.
    pub label: Option<String>,
    /// The last record of its turn: where going to it leads.
    pub end: RecordId,
    /// Whether the conversation goes through it now.
    pub is_current: bool,
    /// The usage of each answer of the turn, with its model.
    pub usages: Vec<(String, Usage)>,
}

/// The prompts of a transcript: a prompt comes before what followed it, and a branch before the next one.
#[must_use]
pub fn tree(loaded: &Loaded) -> Vec<TreeNode> {
    let owners = owners(loaded);
    let current: HashSet<RecordId> = loaded
        .history()
        .iter()
        .filter_map(|record| record.uuid())
        .collect();
    let labels = labels(loaded);
    let mut nodes: Vec<TreeNode> = Vec::new();
    let mut places: HashMap<RecordId, usize> = HashMap::new();
    let mut counted: HashSet<&str> = HashSet::new();
    for message in loaded.messages() {
        let Some(owner) = owners.get(&message.uuid) else {
            continue;
        };
        if *owner == message.uuid && !places.contains_key(owner) {
            let followed = message
                .parent_uuid
                .and_then(|parent| owners.get(&parent))
                .and_then(|prompt| places.get(prompt).copied());
            places.insert(message.uuid, nodes.len());
            nodes.push(node(message, followed, &labels, &current));
        }
        let Some(node) = places.get(owner).and_then(|at| nodes.get_mut(*at)) else {
            continue;
        };
        if message.kind != RecordKind::Progress {
            node.end = message.uuid;
        }
        if let Some(RecordMessage::Assistant(answer)) = &message.message
            && counted.insert(&answer.id)
        {
            node.usages
                .push((answer.model.clone(), answer.usage.clone()));
        }
    }
    in_order(&nodes)
}

fn node(
    message: &MessageRecord,
    parent: Option<usize>,
    labels: &HashMap<RecordId, String>,
    current: &HashSet<RecordId>,
) -> TreeNode {
    let text = message.message.as_ref().map(RecordMessage::text);
    TreeNode {
        id: message.uuid,
        parent,
        depth: 0,
        text: one_line(&text.unwrap_or_default(), 200),
        timestamp: message.timestamp.clone(),
        label: labels.get(&message.uuid).cloned(),
        end: message.uuid,
        is_current: current.contains(&message.uuid),
        usages: Vec::new(),
    }
}

/// The prompt whose turn each record belongs to.
fn owners(loaded: &Loaded) -> HashMap<RecordId, RecordId> {
    let mut owners = HashMap::new();
    for message in loaded.messages().filter(|message| !message.is_sidechain) {
        let before = message.parent_uuid.or(message.logical_parent_uuid);
        let owner = if message.is_prompt() {
            Some(message.uuid)
        } else {
            before.and_then(|before| owners.get(&before).copied())
        };
        if let Some(owner) = owner {
            owners.entry(message.uuid).or_insert(owner);
        }
    }
    owners
}

fn labels(loaded: &Loaded) -> HashMap<RecordId, String> {
    let mut labels = HashMap::new();
    for record in &loaded.records {
        if let Record::Fact(Fact::Label { record, label, .. }) = &**record {
            if label.is_empty() {
                labels.remove(record);
            } else {
                labels.insert(*record, label.clone());
            }
        }
    }
    labels
}

/// Sorts branches right below what they left. The line continues where the conversation goes now, or with the first
/// prompt that followed.
fn in_order(nodes: &[TreeNode]) -> Vec<TreeNode> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent].push(index),
            None => waiting.push((index, usize::from(!waiting.is_empty()))),
        }
    }
    waiting.reverse();
    let mut places = vec![0; nodes.len()];
    let mut sorted: Vec<TreeNode> = Vec::with_capacity(nodes.len());
    while let Some((index, depth)) = waiting.pop() {
        let mut node = nodes[index].clone();
        node.depth = depth;
        node.parent = node.parent.map(|parent| places[parent]);
        places[index] = sorted.len();
        sorted.push(node);
        // A stack: branches come out before the line that they left continues, in the order of the file.
        let children = &children[index];
        let is_current = |child: &&usize| nodes[**child].is_current;
        let line = children.iter().find(is_current).or(children.first());
        waiting.extend(line.map(|child| (*child, depth)));
        let branches = children.iter().rev().filter(|child| Some(*child) != line);
        waiting.extend(branches.map(|child| (*child, depth + 1)));
    }
    sorted
}

/// The words that were said on the way to a record and that the present conversation does not have.
#[must_use]
pub fn said_on_the_way(loaded: &Loaded, to: RecordId) -> String {
    let current: HashSet<RecordId> = loaded
        .history()
        .iter()
        .filter_map(|record| record.uuid())
        .collect();
    let mut said = Vec::new();
    for record in crate::chain::history(&loaded.records, Some(to)) {
        let Some(message) = as_message(&record) else {
            continue;
        };
        let who = match message.kind {
            _ if current.contains(&message.uuid) || message.is_meta => continue,
            RecordKind::User if message.is_prompt() => "User",
            RecordKind::Assistant => "Agent",
            _ => continue,
        };
        let text = message.message.as_ref().map(RecordMessage::text);
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            said.push(format!("{who}: {}", text.trim()));
        }
    }
    said.join("\n\n")
}

/// Moves the tip of a transcript that nobody writes to, so that the conversation continues from a record.
///
/// # Errors
/// If there is no such record, or the transcript can't be read or written.
pub fn go_to(path: &Path, to: RecordId) -> Result<(), SessionError> {
    let loaded = crate::load::load(path)?;
    if loaded.message(to).is_none() {
        return Err(loaded.no_such_record(to));
    }
    let session_id = loaded.session_id().unwrap_or_else(SessionId::random);
    append_fact(
        path,
        Fact::Rewound {
            to: Some(to),
            session_id,
        },
    )
}
