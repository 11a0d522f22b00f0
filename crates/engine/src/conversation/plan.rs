//! Plan mode: looking and thinking first, with a plan that the user agrees to.
//!
//! The plan is a file of its own, `<config home>/plans/<three words>-<id>.md`. Both come from the
//! session's id, so a session that is taken up again, or whose conversation was compacted, finds its
//! plan where it was. In plan mode only reading is possible, and writing that file; the permission
//! decision holds that, not this module. Reminders of it are appended at the end of the
//! conversation when the mode is entered, again now and then, and when it is left.

use crate::conversation::questions::Answerer;
use crate::conversation::{Conversation, ConversationShared};
use lathe_protocol::event::Event;
use lathe_protocol::ids::SessionId;
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::{Fact, Record};
use lathe_tools::host::{PlanModeError, PlanState};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// Model calls in plan mode before the next reminder of it.
const AGAIN_AFTER: u32 = 12;
/// Bytes of a plan that are looked at.
const MOST_BYTES: u64 = 256 * 1024;

/// The state of planning in a conversation.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    /// The mode that was on before plan mode.
    before: Mutex<Option<PermissionMode>>,
}

/// The reminders of plan mode that the model got.
#[derive(Debug, Default)]
pub(crate) struct PlanReminders {
    told: bool,
    calls: u32,
}

const FIRST: [&str; 16] = [
    "amber", "brave", "calm", "clear", "deep", "fair", "gentle", "green", "keen", "light", "plain",
    "quick", "quiet", "sharp", "still", "warm",
];
const SECOND: [&str; 64] = [
    "ash", "bay", "beech", "birch", "brook", "cedar", "clay", "cliff", "clover", "coast", "copper",
    "coral", "creek", "dawn", "dew", "dune", "elm", "ember", "fern", "field", "fjord", "flint",
    "fog", "frost", "glade", "granite", "grove", "harbor", "hazel", "heath", "hill", "iron",
    "island", "ivy", "juniper", "lake", "larch", "maple", "marsh", "meadow", "mist", "moss", "oak",
    "ocean", "olive", "pebble", "pine", "pond", "quartz", "rain", "reed", "ridge", "river", "sage",
    "sand", "slate", "snow", "spring", "stone", "thyme", "tide", "valley", "willow", "wind",
];
const THIRD: [&str; 64] = [
    "badger", "bat", "bear", "beaver", "bee", "bison", "crane", "crow", "deer", "dove", "duck",
    "eagle", "falcon", "finch", "fox", "frog", "gecko", "goose", "hare", "hawk", "heron", "horse",
    "ibex", "jay", "kite", "koala", "lark", "lemur", "lion", "lizard", "lynx", "magpie", "marten",
    "mole", "moose", "moth", "mouse", "newt", "orca", "otter", "owl", "panda", "parrot", "pike",
    "quail", "rabbit", "raven", "robin", "salmon", "seal", "shrew", "sparrow", "squid", "stork",
    "swan", "swift", "tiger", "toad", "trout", "turtle", "vole", "whale", "wolf", "wren",
];

/// The plan's file of a session.
pub(crate) fn file_of(folder: &Path, session: SessionId) -> PathBuf {
    let bytes = session.0.into_bytes();
    // The words are for people; the rest of the id keeps two sessions from sharing a plan.
    let rest: String = bytes[10..]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let pick = |words: &[&'static str], byte: u8| words[usize::from(byte) % words.len()];
    let name = format!(
        "{}-{}-{}-{rest}.md",
        pick(&FIRST, bytes[0]),
        pick(&SECOND, bytes[1]),
        pick(&THIRD, bytes[2])
    );
    folder.join(name)
}

fn read(file: &Path) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    if let Ok(file) = std::fs::File::open(file) {
        // What isn't text is no plan.
        let _ = file.take(MOST_BYTES).read_to_string(&mut text);
    }
    text
}

impl ConversationShared {
    pub(crate) fn plan_file(&self) -> PathBuf {
        let places = &self.session.settings.loader.places;
        let chosen = self
            .session
            .settings
            .value
            .read()
            .get("plansDirectory")
            .cloned();
        let folder = chosen
            .as_ref()
            .and_then(serde_json::Value::as_str)
            .map(|folder| lathe_permissions::path::fold(&places.project.join(folder)))
            // The one file that plan mode writes must not be able to lie anywhere.
            .filter(|folder| folder.starts_with(&places.project))
            .unwrap_or_else(|| places.config_home.join("plans"));
        file_of(&folder, self.session.id)
    }

    pub(crate) fn plan_state(&self) -> PlanState {
        let file = self.plan_file();
        PlanState {
            active: self.permissions.mode() == PermissionMode::Plan,
            text: read(&file),
            file,
            in_agent: self.role.place().is_some(),
        }
    }

    /// Makes the plan's file the one that plan mode may write.
    pub(crate) fn open_plan_file(&self) -> PathBuf {
        let file = self.plan_file();
        if let Some(folder) = file.parent()
            && let Err(error) = lathe_session::paths::create_private_folder(folder)
        {
            tracing::warn!(%error, "the folder of plans can't be made");
        }
        let known = self.permissions.snapshot().files.plan_file.clone();
        // Links in the way to it are followed for the decision, so both forms count.
        let real = std::fs::canonicalize(file.parent().unwrap_or(Path::new("/")))
            .ok()
            .zip(file.file_name())
            .map_or_else(|| file.clone(), |(folder, name)| folder.join(name));
        if known.as_deref() != Some(real.as_path()) {
            let (plain, real_file) = (file.clone(), real.clone());
            self.permissions.update_context(move |context| {
                context.files.plan_file = Some(real_file);
                if !context.files.session_paths.contains(&plain) {
                    context.files.session_paths.push(plain);
                }
            });
        }
        file
    }

    /// Enters plan mode because the model wants to.
    pub(crate) fn enter_plan_mode(&self) -> Result<PlanState, PlanModeError> {
        if self.role.place().is_some() {
            return Err(PlanModeError::InAgent);
        }
        if self.questions.answerer() == Answerer::Nobody {
            return Err(PlanModeError::NobodyToAgree);
        }
        let before = self.permissions.mode();
        if before != PermissionMode::Plan {
            self.permissions.set_mode(PermissionMode::Plan)?;
            *self.state.planning.before.lock() = Some(before);
            self.tell_mode(PermissionMode::Plan);
        }
        self.open_plan_file();
        Ok(self.plan_state())
    }

    /// Leaves plan mode after the user agreed. The mode is theirs; where they named none, the one that
    /// was on before.
    pub(crate) fn leave_plan_mode(&self) -> PermissionMode {
        let now = self.permissions.mode();
        let before = self.state.planning.before.lock().take();
        if now != PermissionMode::Plan {
            return now;
        }
        let mode = before
            .filter(|mode| *mode != PermissionMode::Plan)
            .unwrap_or(PermissionMode::Default);
        let mode = match self.permissions.set_mode(mode) {
            Ok(()) => mode,
            Err(_) => {
                // The default mode can always be entered.
                let _ = self.permissions.set_mode(PermissionMode::Default);
                PermissionMode::Default
            }
        };
        self.tell_mode(mode);
        mode
    }

    fn tell_mode(&self, mode: PermissionMode) {
        self.events.send(Event::ModeChanged(mode));
        self.transcript.append(Record::Fact(Fact::Mode {
            mode: mode.name().to_owned(),
            session_id: self.session.id,
        }));
    }
}

/// The reminder of plan mode that is due now, if any.
pub(crate) fn plan_reminder(conversation: &mut Conversation) -> Option<String> {
    let active = conversation.shared.permissions.mode() == PermissionMode::Plan;
    let reminders = &mut conversation.context.plan;
    if !active {
        if !std::mem::take(&mut reminders.told) {
            return None;
        }
        return Some(
            "Plan mode is off: you may change files again, under the usual permissions.".to_owned(),
        );
    }
    if reminders.told && reminders.calls < AGAIN_AFTER {
        reminders.calls += 1;
        return None;
    }
    reminders.told = true;
    reminders.calls = 0;
    let file = conversation.shared.open_plan_file();
    if conversation.shared.role.place().is_some() {
        return Some(
            "Plan mode is on: read-only. Investigate and report; change nothing.".to_owned(),
        );
    }
    let there = if file.exists() {
        "It holds an earlier plan: read it, then continue or replace it."
    } else {
        "It doesn't exist yet."
    };
    let end = if conversation.shared.questions.answerer() == Answerer::Nobody {
        "There is no user to approve it, so give the plan as your answer."
    } else {
        "When it is complete, call ExitPlanMode; settle open questions with AskUserQuestion before that. End your turn only with one of these two."
    };
    let how = conversation.fixed.prompt.planning.as_deref().unwrap_or(
        "Write what will change where, and how it will be verified, as briefly as possible.",
    );
    Some(format!(
        "Plan mode is on: read and think, but change nothing and run nothing that changes anything, until the user has approved a plan. The only file that you may write is the plan: {}. {there} {how} {end}",
        file.display()
    ))
}

/// The plan, for a conversation that was compacted.
pub(crate) fn plan_text(conversation: &Conversation) -> Option<String> {
    if conversation.shared.role.place().is_some() {
        return None;
    }
    let plan = conversation.shared.plan_state();
    if plan.text.trim().is_empty() {
        return None;
    }
    let state = if plan.active {
        "Plan mode is still on: change nothing before the user approves."
    } else {
        "It was written in plan mode; continue with it if it is still relevant."
    };
    Some(format!(
        "The plan of this session, from {}. {state}\n\n{}",
        plan.file.display(),
        plan.text.trim_end()
    ))
}

/// The conversation was compacted: what was said about plan mode is gone.
pub(crate) fn forget_plan_reminders(conversation: &mut Conversation) {
    conversation.context.plan = PlanReminders::default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_always_has_the_same_plan_file() {
        let session: SessionId = "6f2a8c1e-0000-4000-8000-000000000001".parse().unwrap();
        let file = file_of(Path::new("/c"), session);
        assert_eq!(file, file_of(Path::new("/c"), session));
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert_eq!(name.split('-').count(), 4, "{name}");
        let other = "6f2a8c1e-0000-4000-8000-000000000002".parse().unwrap();
        assert_ne!(file, file_of(Path::new("/c"), other));
        assert!(file.starts_with("/c"));
    }
}
