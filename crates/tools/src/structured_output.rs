//! StructuredOutput: the way in which the model hands over an answer of a shape that the caller gave.
//!
//! The schema is the caller's; input that doesn't fit is refused with what is wrong, so that the model
//! can mend it. Nothing is done with the value here: the engine takes it from the result.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, DynTool, PreparedCall, ToolError, ToolOutput};
use futures::future::BoxFuture;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_schema::Schema;
use serde_json::Value;
use std::sync::Arc;

/// The tool's name.
pub const NAME: &str = "StructuredOutput";

/// Takes the answer in the caller's shape.
#[derive(Debug)]
pub struct StructuredOutput {
    schema: Schema,
    /// The schema as it is sent.
    value: Arc<Value>,
}

impl StructuredOutput {
    /// A tool whose input has the given shape.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        let value = Arc::new(schema.value().clone());
        Self { schema, value }
    }
}

impl DynTool for StructuredOutput {
    fn name(&self) -> &str {
        NAME
    }

    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    fn description(&self) -> &str {
        include_str!("structured_output.md")
    }

    fn input_schema(&self) -> &Arc<Value> {
        &self.value
    }

    fn result_limit(&self) -> Option<usize> {
        None
    }

    fn prepare(
        self: Arc<Self>,
        input: Value,
        _context: &ToolContext,
    ) -> Result<Box<dyn PreparedCall>, ToolError> {
        let problems = self.schema.problems(&input);
        if problems.is_empty() {
            return Ok(Box::new(Given(input)));
        }
        Err(ToolError::invalid(format!(
            "The output doesn't match the required schema: {}. Fix these and call {NAME} again.",
            problems.join("; ")
        )))
    }
}

struct Given(Value);

impl PreparedCall for Given {
    fn input(&self) -> &Value {
        &self.0
    }

    fn traits(&self) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self) -> String {
        "Returning the answer".to_owned()
    }

    fn validate<'a>(&'a self, _context: &'a ToolContext) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn call(
        self: Box<Self>,
        _context: CallContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            Ok(ToolOutput::new(
                "Structured output provided successfully",
                self.0,
                Display::None,
            ))
        })
    }
}
