//! The list of skills for the model, always at the end of the conversation.

use super::{Extensions, Settled, prompts};
use crate::context::room;
use crate::conversation::Conversation;
use crate::conversation::records::reminder;
use lathe_extensions::Skill;
use lathe_extensions::skills::listing;
use lathe_model::estimate;
use lathe_protocol::record::MessageRecord;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// Where a record of an announcement keeps the names, for a conversation that is taken up again.
const NAMES: &str = "skillNames";

const FIRST: &str = "Skills that you can use with the Skill tool. Use one when it fits what is asked, before you begin:";
const LATER: &str = "Additional skills:";

/// The text to add, and the skills that the model knows after it.
struct Announcement {
    text: String,
    /// The names of the skills that it tells of, in their order.
    names: Vec<String>,
}

impl Extensions {
    /// The skills that the model doesn't know yet. Conditional skills wait until they are active.
    fn announcement(&self, window: u64, prompts: Vec<Skill>) -> Option<Announcement> {
        let skills = self.skills();
        let mut state = self.state.lock();
        // Asked before every request; nearly always nothing has changed.
        if state.settled.as_ref().is_some_and(|settled| {
            Arc::ptr_eq(&settled.skills, &skills)
                && settled.awake == state.awake.len()
                && settled.prompts == prompts
        }) {
            return None;
        }
        let listed: Vec<&Skill> = skills
            .iter()
            .filter(|skill| skill.model_invocable)
            .filter(|skill| !skill.is_conditional() || state.awake.contains(&skill.name))
            .chain(&prompts)
            .collect();
        let new: Vec<&Skill> = listed
            .iter()
            .copied()
            .filter(|skill| {
                let told = state.told.get(&skill.name);
                told.is_none_or(|told| match told.is_empty() {
                    // Told by an earlier run, when what a server says of it wasn't known here yet.
                    true if prompts::is_prompt(skill) => false,
                    _ => *told != skill.summary(),
                })
            })
            .collect();
        let mut gone: Vec<String> = Vec::new();
        if !state.told.is_empty() {
            let there: HashSet<&str> = listed.iter().map(|skill| skill.name.as_str()).collect();
            let told = state.told.keys();
            gone.extend(told.filter(|name| !there.contains(name.as_str())).cloned());
            gone.sort_unstable();
        }
        if new.is_empty() && gone.is_empty() {
            state.settled = Some(Settled {
                skills: Arc::clone(&skills),
                awake: state.awake.len(),
                prompts,
            });
            return None;
        }
        let first = state.told.is_empty();
        let used = usize::try_from(state.told_tokens * 4).unwrap_or(usize::MAX);
        let all = listing::budget(window);
        // What wakes up late still gets a line each.
        let budget = all.saturating_sub(used).max(all / 10);
        let mut text = String::new();
        if !new.is_empty() {
            let head = if first { FIRST } else { LATER };
            // Prompts get what files leave: a server with a thousand of them costs no skill its words.
            let (prompts, files): (Vec<&Skill>, Vec<&Skill>) =
                new.iter().partition(|skill| prompts::is_prompt(skill));
            let mut lists = vec![listing::listing(&files, budget)];
            let left = budget.saturating_sub(lists[0].len()).max(all / 10);
            lists.push(listing::listing(&prompts, left));
            lists.retain(|list| !list.is_empty());
            text = format!("{head}\n{}", lists.join("\n"));
        }
        if !gone.is_empty() {
            let separator = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!("{separator}Removed skills: {}.", gone.join(", ")));
        }
        for name in &gone {
            state.told.remove(name);
        }
        let names: Vec<String> = new.iter().map(|skill| skill.name.clone()).collect();
        state.told.reserve(names.len());
        let told = new
            .iter()
            .map(|skill| (skill.name.clone(), skill.summary().into_owned()));
        state.told.extend(told);
        state.told_tokens += estimate::text(&text);
        Some(Announcement { text, names })
    }

    /// Takes over what an earlier run of the session told and used.
    pub(crate) fn replay(&self, record: &MessageRecord, hidden: &dyn Fn(&Skill) -> bool) {
        if let Some(Value::Array(names)) = record.extra.get(NAMES) {
            let skills = self.skills();
            let mut state = self.state.lock();
            state.settled = None;
            for name in names.iter().filter_map(Value::as_str) {
                let summary = skills.get(name).map(Skill::summary).unwrap_or_default();
                if skills.get(name).is_some_and(Skill::is_conditional) {
                    state.awake.insert(name.to_owned());
                }
                state.told.insert(name.to_owned(), summary.into_owned());
            }
            if let Some(message) = &record.message {
                state.told_tokens += estimate::text(&message.text());
            }
        }
        self.replay_use(record, hidden);
        if record.is_compact_boundary() {
            self.forget_told();
        }
    }
}

/// Puts what is new about skills at the end of the conversation.
pub(crate) fn announce_skills(conversation: &mut Conversation) {
    let filter = conversation.shared.role.filter();
    let has_tool = conversation
        .shared
        .toolbox
        .registry
        .read()
        .find(super::tool::NAME)
        .is_some_and(|tool| filter.is_none_or(|filter| filter.keeps(&**tool)));
    if !has_tool
        || conversation.shared.coordinates()
        || conversation
            .shared
            .permissions
            .is_blanket_denied(super::tool::NAME)
    {
        return;
    }
    let window = room::windows(conversation).window;
    let prompts = conversation.shared.prompt_skills();
    let Some(announcement) = conversation
        .shared
        .integrations
        .extensions
        .announcement(window, prompts)
    else {
        return;
    };
    let mut record = conversation
        .records
        .meta(conversation.tip, reminder(&announcement.text));
    let names: Vec<Value> = announcement.names.into_iter().map(Value::from).collect();
    record.extra.insert(NAMES.into(), names.into());
    conversation.append(record);
}
