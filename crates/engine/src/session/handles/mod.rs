//! The handles of a session, one per topic. Their answers don't wait for a turn that runs.

mod context;
mod extensions;
mod goal;
mod history;
mod model;
mod permissions;
mod plugins;
mod settings;
pub(crate) mod side_questions;
mod tasks;

pub use context::ContextHandle;
pub use extensions::ExtensionsHandle;
pub use goal::GoalHandle;
pub use history::{ChangedFilesError, HistoryHandle};
pub use model::{EFFORTS, ModelHandle, SwitchError, SwitchSource, UnknownEffort};
pub use permissions::PermissionsHandle;
pub use plugins::PluginsHandle;
pub use settings::SettingsHandle;
pub use side_questions::{BesideError, SideQuestionsHandle};
pub use tasks::{TaskError, TasksHandle};
