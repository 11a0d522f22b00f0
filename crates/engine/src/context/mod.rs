//! The request to the model and how much of its window it takes.
//!
//! A session lives longer than a window. This part counts what is in it (`meter`), makes room before
//! it is full (`room`, `micro`, and the summary in `compaction.rs`), brings back what a summary
//! loses (`restoration`), keeps many results at once from flooding it (`aggregate`), and watches
//! that what was sent once is sent again byte for byte, since that is what the provider's cache pays
//! for (`prefix`).
//!
//! Start with [`Windows`], which says where the limits lie, then `room.rs`, which acts on them.

pub(crate) mod aggregate;
pub(crate) mod compaction;
pub mod git;
pub(crate) mod lean;
pub(crate) mod meter;
pub(crate) mod micro;
pub(crate) mod prefix;
pub mod prompt;
pub(crate) mod reminders;
pub(crate) mod restoration;
pub(crate) mod room;
pub(crate) mod summary;
pub mod surgery;
pub(crate) mod today;
pub(crate) mod usage;

pub use usage::{ContextPart, ContextThresholds, ContextUsage};

use bytes::Bytes;
use lathe_model::catalog::{Compaction, ModelInfo};
use lathe_protocol::ids::ToolUseId;
use std::collections::HashSet;

/// Room kept for an answer, at most.
const MOST_KEPT_FOR_OUTPUT: u64 = 20_000;
/// How far below the effective window compaction begins.
const COMPACTION_MARGIN: u64 = 13_000;
/// How far below that the user is warned.
const WARNING_MARGIN: u64 = 20_000;

/// The smallest window that the user can ask for.
const LEAST_WINDOW: u64 = 10_000;

/// A model's window and the limits that follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Windows {
    /// The model's window.
    pub window: u64,
    /// The model's output limit.
    pub max_output: u64,
    /// At what percentage of the window a conversation is compacted, where that is earlier than usual.
    pub percent: Option<u64>,
}

impl Windows {
    /// Those of a model.
    #[must_use]
    pub fn of(info: &ModelInfo) -> Self {
        Self {
            window: info.context_window,
            max_output: u64::from(info.max_output),
            percent: None,
        }
    }

    /// The same with what the user says about compaction: a smaller window, an earlier percentage.
    #[must_use]
    pub fn limited(mut self, compaction: Compaction) -> Self {
        if let Some(window) = compaction.window {
            self.window = self.window.min(window.max(LEAST_WINDOW));
        }
        self.percent = compaction
            .percent
            .filter(|percent| (1..=100).contains(percent));
        self
    }

    /// The room of a conversation: the window without room for an answer. In a small window the
    /// answer's room is at most a third.
    #[must_use]
    pub fn effective(self) -> u64 {
        let kept = self
            .max_output
            .min(MOST_KEPT_FOR_OUTPUT)
            .min(self.window / 3);
        self.window - kept
    }

    /// Where compaction begins. In a small window the margin is at most a quarter of what is there.
    #[must_use]
    pub fn compact_at(self) -> u64 {
        let effective = self.effective();
        let usual = effective - COMPACTION_MARGIN.min(effective / 4);
        self.percent
            .map_or(usual, |percent| usual.min(self.window * percent / 100))
    }

    /// Where the user is warned.
    #[must_use]
    pub fn warn_at(self) -> u64 {
        let compact_at = self.compact_at();
        compact_at - WARNING_MARGIN.min(compact_at / 4)
    }

    /// The room that compaction keeps free.
    #[must_use]
    pub fn reserve(self) -> u64 {
        self.window - self.compact_at()
    }
}

/// The state of a conversation's window.
#[derive(Debug, Default)]
pub(crate) struct ContextState {
    pub(crate) meter: meter::Meter,
    pub(crate) prefix: prefix::PrefixWatch,
    pub(crate) reminders: reminders::Reminders,
    pub(crate) room: RoomState,
    /// The results of the newest round that were sent as they are: never touched again.
    pub(crate) sent_results: HashSet<ToolUseId>,
    pub(crate) upkeep: Upkeep,
    /// Reminders of plan mode that the model got.
    pub(crate) plan: crate::conversation::plan::PlanReminders,
    /// Events before the session was resumed that the model doesn't know.
    pub(crate) since_interruption: Option<String>,
    /// Which tools were loaded when the list of tools was written last.
    pub(crate) tools_generation: u64,
    /// Whether that list was the lean one.
    pub(crate) tools_lean: bool,
    /// A guess for the tools of MCP servers.
    pub(crate) mcp_tokens: u64,
    pub(crate) kept_prompt: KeptPrompt,
    /// The model and the effort that the transcript has.
    pub(crate) kept_choice: Option<(String, Option<String>)>,
    /// Whether the session is given a title after its first turn.
    pub(crate) title_wanted: bool,
    sizes: Option<FixedSizes>,
}

/// Failures and warnings of making room.
#[derive(Debug, Default)]
pub(crate) struct RoomState {
    /// Compactions without progress, in a row.
    pub(crate) failures: u32,
    /// Whether the provider has counted nothing since the last compaction.
    pub(crate) unproven: bool,
    /// Whether the user was warned that the window fills up.
    pub(crate) warned: bool,
    /// Whether the user was told that the fixed part alone is too large.
    pub(crate) told_no_room: bool,
    /// Counts that the provider refused, in a row.
    pub(crate) count_failures: u32,
}

/// Work between turns: documents, memory and notes.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    pub(crate) magic_docs: crate::conversation::magic_docs::MagicDocs,
    pub(crate) extracting: crate::conversation::extraction::Extracting,
    /// Calls since the session's notes were updated.
    pub(crate) calls_since_notes: u32,
}

/// Whether the system prompt is kept with the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum KeptPrompt {
    /// It is put together anew whenever the session is opened.
    #[default]
    Off,
    /// It will be, with the next prompt.
    Wanted,
    /// It is.
    Kept,
}

/// Guesses for what stands before the messages, made once.
#[derive(Debug, Clone, Default)]
pub(crate) struct FixedSizes {
    system_bytes: Bytes,
    tools_bytes: Bytes,
    /// The system prompt.
    pub(crate) system: u64,
    /// The tools, those of MCP servers too.
    pub(crate) tools: u64,
}

impl ContextState {
    /// The sizes of the parts that come before the messages. Looked at again only when they changed.
    pub(crate) fn sizes(&mut self, system: &Bytes, tools: &Bytes) -> &FixedSizes {
        let same = |known: &Bytes, now: &Bytes| {
            known.len() == now.len() && (known.as_ptr() == now.as_ptr() || known == now)
        };
        let current = self
            .sizes
            .take()
            .filter(|sizes| same(&sizes.system_bytes, system) && same(&sizes.tools_bytes, tools));
        self.sizes.insert(current.unwrap_or_else(|| FixedSizes {
            system: tokens_of(system),
            tools: tokens_of(tools),
            system_bytes: system.clone(),
            tools_bytes: tools.clone(),
        }))
    }
}

/// A guess for bytes of JSON.
fn tokens_of(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).map_or(0, lathe_model::estimate::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_usual_window_are_those_of_the_manual() {
        let windows = Windows {
            window: 200_000,
            max_output: 64_000,
            percent: None,
        };
        assert_eq!(windows.effective(), 180_000);
        assert_eq!(windows.compact_at(), 167_000);
        assert_eq!(windows.warn_at(), 147_000);
        assert_eq!(windows.reserve(), 33_000);
    }

    #[test]
    fn a_small_window_still_has_room_for_a_conversation() {
        for window in [0, 1, 4_000, 8_192, 32_000, 60_000] {
            let windows = Windows {
                window,
                max_output: 32_000,
                percent: None,
            };
            assert!(windows.compact_at() <= windows.effective());
            assert!(windows.warn_at() <= windows.compact_at());
            assert!(windows.compact_at() >= window / 2, "{windows:?}");
        }
    }

    #[test]
    fn the_fixed_part_is_measured_once() {
        let mut state = ContextState::default();
        let (system, tools) = (
            Bytes::from_static(b"[\"a b c\"]"),
            Bytes::from_static(b"[]"),
        );
        let first = state.sizes(&system, &tools).system;
        assert!(first > 0);
        let longer = Bytes::from("x".repeat(4_000));
        assert!(state.sizes(&longer, &tools).system > first);
    }
}
