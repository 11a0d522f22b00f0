//! The contract between a tool and the executor.

use crate::context::{CallContext, ToolContext};
use crate::input::{self, InputSchema};
use futures::future::BoxFuture;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::future::Future;
use std::sync::{Arc, OnceLock};

/// Traits of a call, for the executor. The default is the careful value of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallTraits {
    /// Changes nothing outside the session.
    pub read_only: bool,
    /// May run while other such calls run.
    pub concurrency_safe: bool,
    /// May destroy what can't be brought back.
    pub destructive: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
    /// How a user's interruption affects it.
    pub interrupt: InterruptBehavior,
    /// A failure of this call makes its siblings pointless (a shell command in a chain of steps).
    pub failure_cancels_siblings: bool,
}

impl Default for CallTraits {
    fn default() -> Self {
        Self {
            read_only: false,
            concurrency_safe: false,
            destructive: true,
            open_world: true,
            interrupt: InterruptBehavior::Block,
            failure_cancels_siblings: false,
        }
    }
}

impl CallTraits {
    /// Reads local things only.
    pub const READS: Self = Self {
        read_only: true,
        concurrency_safe: true,
        destructive: false,
        open_world: false,
        interrupt: InterruptBehavior::Block,
        failure_cancels_siblings: false,
    };
}

/// How a running call reacts when the user types something meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptBehavior {
    /// It is stopped at once: it only waits for something.
    Cancel,
    /// It finishes first.
    Block,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// For the model.
    pub content: Content,
    /// The structured result that hooks and hosts read.
    pub structured: Value,
    /// For display.
    pub display: Display,
    /// Whether it counts as failed although it ran (a command with a non-zero exit code).
    pub is_error: bool,
}

impl ToolOutput {
    /// A successful result.
    pub fn new(content: impl Into<Content>, structured: Value, display: Display) -> Self {
        Self {
            content: content.into(),
            structured,
            display,
            is_error: false,
        }
    }

    /// Puts words behind the text for the model.
    pub fn add_text(&mut self, more: &str) {
        if let (Content::Text(text), false) = (&mut self.content, more.is_empty()) {
            text.push_str(more);
        }
    }

    /// A successful result of several blocks.
    pub fn blocks(blocks: Vec<ContentBlock>, structured: Value, display: Display) -> Self {
        Self {
            content: Content::Blocks(blocks),
            structured,
            display,
            is_error: false,
        }
    }
}

/// Why a call gave nothing. The text is for the model: what is wrong and what to do next.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The input doesn't fit.
    #[error("{0}")]
    InvalidInput(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// It was stopped.
    #[error("{0}")]
    Cancelled(String),
    /// It passed as a command that only reads, and the kernel refused what it tried. It can be run
    /// again when the user says so.
    #[error("{output}")]
    Blocked {
        /// The refusals, as text.
        what: String,
        /// The output, for the model.
        output: String,
    },
    /// The sandbox refused something to the command, which failed. It can be run outside when the user says so.
    #[error("{output}")]
    Violated {
        /// The refusals, as text.
        what: String,
        /// The output and the refusals, for the model.
        output: String,
    },
}

impl ToolError {
    /// It was tried and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// The input doesn't fit.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidInput(message.into())
    }
}

/// A tool. Only the identity, the input type and `call` are required.
pub trait Tool: Send + Sync + 'static {
    /// The arguments. Doc comments on its fields are what the model reads about them.
    type Input: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// The name that the model calls.
    fn name(&self) -> &'static str;

    /// The description for the model: the `.md` file beside the module.
    fn description(&self) -> &str;

    /// Does the work.
    fn call(
        &self,
        input: Self::Input,
        context: CallContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;

    /// Other names that models and rules use for it.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields of the input that hold a path. `~` and relative paths in them are resolved before
    /// hooks, permissions and the tool itself see the input.
    fn path_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields that are accepted under another name: `(other name, field)`.
    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Puts in what the session knows and the model needn't say, before anyone else sees the input.
    fn fill_in(&self, _input: &mut Value, _context: &ToolContext) {}

    /// Fields of the input that are not offered and have no effect, because they mean nothing where the tool is.
    fn withheld_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether validating a call finds out what it would do, which [`Tool::fill_in`] then puts into the input.
    fn plans(&self) -> bool {
        false
    }

    /// The traits of a call with this input.
    fn traits(&self, _input: &Self::Input) -> CallTraits {
        CallTraits::default()
    }

    /// The subject of a call with this input.
    fn subject(&self, _input: &Self::Input, _context: &ToolContext) -> Subject {
        Subject::Unknown
    }

    /// The activity in a line ("Reading src/main.rs").
    fn activity(&self, _input: &Self::Input) -> String {
        self.name().to_owned()
    }

    /// Checks beyond the schema, before hooks and permission.
    fn validate(
        &self,
        _input: &Self::Input,
        _context: &ToolContext,
    ) -> impl Future<Output = Result<(), ToolError>> + Send {
        async { Ok(()) }
    }

    /// Whether its definition is sent only after the model has looked for it: for tools that few sessions need.
    fn deferred(&self) -> bool {
        false
    }

    /// How many characters of text the model is sent at most; above it the result goes to a file.
    /// `None`: the tool bounds itself.
    fn result_limit(&self) -> Option<usize> {
        Some(100_000)
    }
}

/// A tool whose input type is hidden, so that tools of all kinds (built-in, MCP, the caller's own)
/// stand in one list.
pub trait DynTool: Send + Sync {
    /// The name that the model calls.
    fn name(&self) -> &str;
    /// Other names.
    fn aliases(&self) -> Vec<String>;
    /// The description for the model.
    fn description(&self) -> &str;
    /// The schema of its input.
    fn input_schema(&self) -> &Arc<Value>;
    /// The same, to be sent: nobody looks into it.
    fn sent_schema(&self) -> InputSchema {
        InputSchema::Made(Arc::clone(self.input_schema()))
    }
    /// The text limit of a result.
    fn result_limit(&self) -> Option<usize>;
    /// Words by which a search for tools should find it, beside its name and description.
    fn search_hint(&self) -> Option<&str> {
        None
    }
    /// True if it is always sent to the model, however many tools there are.
    fn always_load(&self) -> bool {
        false
    }
    /// Whether its definition is sent only after the model has looked for it.
    fn deferred(&self) -> bool {
        false
    }
    /// Whether validating a call finds out what it would do, so that it is prepared once more.
    fn plans(&self) -> bool {
        false
    }
    /// Checks the input against the schema and gets a call ready.
    ///
    /// # Errors
    /// [`ToolError::InvalidInput`] with a text that tells the model what to change.
    fn prepare(
        self: Arc<Self>,
        input: Value,
        context: &ToolContext,
    ) -> Result<Box<dyn PreparedCall>, ToolError>;
}

/// A call whose input has been checked.
pub trait PreparedCall: Send + Sync {
    /// The input with paths resolved: what hooks, rules and people see.
    fn input(&self) -> &Value;
    /// The traits of the call.
    fn traits(&self) -> CallTraits;
    /// The subject.
    fn subject(&self, context: &ToolContext) -> Subject;
    /// The activity in a line.
    fn activity(&self) -> String;
    /// Checks beyond the schema.
    fn validate<'a>(&'a self, context: &'a ToolContext) -> BoxFuture<'a, Result<(), ToolError>>;
    /// Does the work.
    fn call(
        self: Box<Self>,
        context: CallContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

/// Makes a [`DynTool`] of a [`Tool`].
pub struct Erased<T: Tool> {
    tool: T,
    schema: OnceLock<Arc<Value>>,
}

impl<T: Tool> Erased<T> {
    /// Wraps a tool.
    pub fn new(tool: T) -> Self {
        Self {
            tool,
            schema: OnceLock::new(),
        }
    }
}

struct Prepared<T: Tool> {
    tool: Arc<Erased<T>>,
    value: Value,
    input: T::Input,
    /// Asked for several times on a call's way; for a shell command they are work.
    traits: OnceLock<CallTraits>,
}

impl<T: Tool> DynTool for Erased<T> {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn aliases(&self) -> Vec<String> {
        self.tool
            .aliases()
            .iter()
            .map(|&alias| alias.to_owned())
            .collect()
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn input_schema(&self) -> &Arc<Value> {
        self.schema.get_or_init(|| {
            let mut schema = input::schema_of::<T::Input>();
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            if let Some(properties) = properties {
                for field in self.tool.withheld_fields() {
                    properties.shift_remove(*field);
                }
            }
            Arc::new(schema)
        })
    }

    fn sent_schema(&self) -> InputSchema {
        let stored = input::stored_schema::<T::Input>();
        match stored.filter(|_| self.tool.withheld_fields().is_empty()) {
            Some(text) => InputSchema::Stored(text),
            None => InputSchema::Made(Arc::clone(self.input_schema())),
        }
    }

    fn result_limit(&self) -> Option<usize> {
        self.tool.result_limit()
    }

    fn deferred(&self) -> bool {
        self.tool.deferred()
    }

    fn plans(&self) -> bool {
        self.tool.plans()
    }

    fn prepare(
        self: Arc<Self>,
        value: Value,
        context: &ToolContext,
    ) -> Result<Box<dyn PreparedCall>, ToolError> {
        let mut value = input::rename_fields(value, self.tool.field_aliases());
        // Models that know the field from elsewhere may send it all the same.
        if let Value::Object(fields) = &mut value {
            for field in self.tool.withheld_fields() {
                fields.shift_remove(*field);
            }
        }
        let mut value = input::fit(value, self.input_schema(), self.tool.name())?;
        for field in self.tool.path_fields() {
            if let Some(Value::String(path)) = value.get_mut(*field) {
                *path = context.resolve_path(path).to_string_lossy().into_owned();
            }
        }
        self.tool.fill_in(&mut value, context);
        let input = T::Input::deserialize_checked(&value, self.tool.name())?;
        Ok(Box::new(Prepared {
            tool: self,
            value,
            input,
            traits: OnceLock::new(),
        }))
    }
}

trait DeserializeChecked: Sized {
    fn deserialize_checked(value: &Value, tool: &str) -> Result<Self, ToolError>;
}

impl<I: DeserializeOwned> DeserializeChecked for I {
    fn deserialize_checked(value: &Value, tool: &str) -> Result<Self, ToolError> {
        I::deserialize(value).map_err(|error| {
            ToolError::invalid(format!("The input of {tool} is invalid: {error}."))
        })
    }
}

impl<T: Tool> PreparedCall for Prepared<T> {
    fn input(&self) -> &Value {
        &self.value
    }

    fn traits(&self) -> CallTraits {
        *self
            .traits
            .get_or_init(|| self.tool.tool.traits(&self.input))
    }

    fn subject(&self, context: &ToolContext) -> Subject {
        self.tool.tool.subject(&self.input, context)
    }

    fn activity(&self) -> String {
        self.tool.tool.activity(&self.input)
    }

    fn validate<'a>(&'a self, context: &'a ToolContext) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(self.tool.tool.validate(&self.input, context))
    }

    fn call(
        self: Box<Self>,
        context: CallContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.tool.tool.call(self.input, context).await })
    }
}
