//! The tools that a session has, by name.

use crate::bash::Bash;
use crate::bash_input::BashInput;
use crate::edit::Edit;
use crate::glob::Glob;
use crate::grep::Grep;
use crate::input::InputSchema;
use crate::multi_edit::MultiEdit;
use crate::notebook_edit::NotebookEdit;
use crate::read::Read;
use crate::task_output::TaskOutput;
use crate::task_stop::TaskStop;
use crate::todo_write::TodoWrite;
use crate::tool::{DynTool, Erased, Tool};
use crate::write::Write;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// The definition of a tool for the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// The name that the model calls.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The schema of its input.
    pub input_schema: InputSchema,
    /// Words by which a search for tools finds it; not sent to the model.
    #[serde(skip)]
    pub search_hint: Option<String>,
    /// True if it is always sent, however many tools there are; not sent to the model.
    #[serde(skip)]
    pub always_load: bool,
    /// True if it is sent only after the model has looked for it; not sent to the model.
    #[serde(skip)]
    pub deferred: bool,
}

/// A list of tools, sorted by name: the same tools always serialise to the same bytes.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: Vec<Arc<dyn DynTool>>,
    /// Tools that are not offered, and run if the model calls them all the same.
    unlisted: Vec<Arc<dyn DynTool>>,
    late: Option<Arc<dyn LateTools>>,
}

/// Finds tools that weren't in the request to the model, such as those of a server that is still being
/// connected.
pub trait LateTools: Send + Sync {
    /// The tool of that name.
    fn find(&self, name: &str) -> Option<Arc<dyn DynTool>>;
}

/// The built-in tools.
#[must_use]
pub fn builtin() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.add(Bash {
        can_leave_sandbox: true,
    });
    registry.add(BashInput);
    registry.add(Edit);
    registry.add(Glob);
    registry.add(Grep);
    registry.add(MultiEdit);
    registry.add(NotebookEdit);
    registry.add(Read);
    registry.add(TaskOutput);
    registry.add(TaskStop);
    registry.add(TodoWrite);
    registry.add(Write);
    registry
}

impl ToolRegistry {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. One with a name that is taken is not added: nothing can shadow a tool.
    pub fn add<T: Tool>(&mut self, tool: T) {
        self.add_dyn(Arc::new(Erased::new(tool)));
    }

    /// Adds a tool whose input type is hidden. Returns whether its name was free.
    pub fn add_dyn(&mut self, tool: Arc<dyn DynTool>) -> bool {
        if self.find(tool.name()).is_some() {
            return false;
        }
        let place = self
            .tools
            .partition_point(|other| other.name() < tool.name());
        self.tools.insert(place, tool);
        true
    }

    /// Takes out the tools that a condition holds for and puts others in, as far as their names are free.
    /// Gives the names that were taken. Costs a sort, also for thousands of tools.
    pub fn replace(
        &mut self,
        goes: impl Fn(&dyn DynTool) -> bool,
        come: Vec<Arc<dyn DynTool>>,
    ) -> Vec<String> {
        self.tools.retain(|tool| !goes(tool.as_ref()));
        let mut known: HashSet<String> = HashSet::with_capacity(self.tools.len() + come.len());
        for tool in &self.tools {
            known.insert(tool.name().to_owned());
            known.extend(tool.aliases());
        }
        let mut taken = Vec::new();
        for tool in come {
            if known.insert(tool.name().to_owned()) {
                self.tools.push(tool);
            } else {
                taken.push(tool.name().to_owned());
            }
        }
        self.tools
            .sort_by(|one, other| one.name().cmp(other.name()));
        taken
    }

    /// The tool of that name or alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.tools
            .binary_search_by(|tool| tool.name().cmp(name))
            .ok()
            .and_then(|index| self.tools.get(index))
            .or_else(|| {
                self.tools
                    .iter()
                    .find(|tool| tool.aliases().iter().any(|alias| alias == name))
            })
    }

    /// Says who finds tools that are not in the list.
    pub fn set_late(&mut self, late: Arc<dyn LateTools>) {
        self.late = Some(late);
    }

    /// The tool of that name or alias, in the list, unlisted or late.
    #[must_use]
    pub fn find_or_late(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        self.find(name)
            .or_else(|| self.unlisted.iter().find(|tool| tool.name() == name))
            .cloned()
            .or_else(|| self.late.as_ref()?.find(name))
    }

    /// Keeps the tools that a condition holds for.
    pub fn retain(&mut self, keep: impl Fn(&dyn DynTool) -> bool) {
        self.tools.retain(|tool| keep(tool.as_ref()));
        self.unlisted.retain(|tool| keep(tool.as_ref()));
    }

    /// No longer offers the tools that a condition holds for. A model that knows one from elsewhere can still call it.
    pub fn unlist(&mut self, goes: impl Fn(&dyn DynTool) -> bool) {
        let gone = self.tools.extract_if(.., |tool| goes(tool.as_ref()));
        self.unlisted.extend(gone);
    }

    /// Offers tools again that were taken from the list.
    pub fn relist(&mut self, comes: impl Fn(&dyn DynTool) -> bool) {
        let back = self.unlisted.extract_if(.., |tool| comes(tool.as_ref()));
        self.tools.extend(back);
        self.tools
            .sort_by(|one, other| one.name().cmp(other.name()));
    }

    /// Whether the very same tools are in both.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.tools.len() == other.tools.len()
            && self
                .tools
                .iter()
                .zip(&other.tools)
                .all(|(mine, theirs)| Arc::ptr_eq(mine, theirs))
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// The definitions for the model, sorted by name.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.definitions_of(|_| true)
    }

    /// The definitions of the tools that a condition holds for, sorted by name. Schemas of the others are not made.
    #[must_use]
    pub fn definitions_of(&self, wanted: impl Fn(&dyn DynTool) -> bool) -> Vec<ToolDefinition> {
        self.tools
            .iter()
            .filter(|tool| wanted(tool.as_ref()))
            .map(|tool| ToolDefinition {
                name: tool.name().to_owned(),
                description: tool.description().trim_end().to_owned(),
                input_schema: tool.sent_schema(),
                search_hint: tool.search_hint().map(str::to_owned),
                always_load: tool.always_load(),
                deferred: tool.deferred(),
            })
            .collect()
    }
}
