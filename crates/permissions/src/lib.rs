//! Who may do what.
//!
//! Before a call runs, the engine asks here. [`resolve`] looks at the file system (what the paths of
//! the call really are) and [`decide`] — a pure function — says [`Allow`](Decision::Allow),
//! [`Ask`](Decision::Ask) or [`Deny`](Decision::Deny), always with a reason.
//!
//! - [`rule`], [`pattern`], [`ruleset`]: rules such as `Bash(npm run test:*)` and `Edit(/src/**)`, from
//!   their text to what they match. A deny beats an ask beats an allow, whatever the sources.
//! - [`context`]: what a decision depends on, as plain data.
//! - `order`: the precedence. `files` and `shell` judge what is touched; `protected`
//!   knows which paths need confirmation, and which are secrets.
//! - [`answer`]: asking, with several answerers racing. [`classifier`]: auto mode, where a model answers.
//! - [`settings`]: from settings files and back. [`cli`]: what `lathe permissions …` does.
//! - [`live`]: the changing permissions of a session, and what was refused.
//!
//! Out of scope: this crate never asks a user, runs nothing, and never
//! lets a text that it doesn't understand pass.
//!
//! Start with [`decide`].
#![forbid(unsafe_code)]

pub mod answer;
mod broad;
pub mod classifier;
pub mod cli;
pub mod condition;
mod confinement;
pub mod context;
mod decision;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod glob;
mod later;
mod limits;
pub mod live;
mod message;
mod order;
pub mod path;
pub mod pattern;
mod protected;
pub mod repository;
pub mod rule;
pub mod ruleset;
pub mod sandbox;
pub mod settings;
pub mod shell;
mod shims;
mod suggest;
mod word_pattern;

pub use confinement::confinement;
pub use context::{CallFacts, PermissionContext, ResolvedPaths, SpecialFiles, resolve};
pub use decision::{decide, decide_edit};
pub use later::rules_for_later;
pub use lathe_protocol::permission::Decision;
pub use limits::{Limits, Outside};
pub use live::{ModeGates, ModeRefused, Permissions, PermissionsConfig, Store, UpdateError};
pub use message::denial_message;
pub use protected::IgnoreFile;
pub use rule::{RuleError, format_rule, parse_rule, parse_rule_list};
pub use ruleset::{Rule, RuleProblem, RuleSet};
pub use sandbox::SandboxFacts;
