//! Workflow: runs a script that directs agents.

use crate::context::{CallContext, ToolContext};
use crate::host::WorkflowOrder;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool's name.
pub const NAME: &str = "Workflow";

/// Runs a workflow.
pub struct Workflow;

/// Which workflow, and what for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The script itself.
    #[serde(default)]
    script: Option<String>,
    /// The name of a saved or built-in workflow.
    #[serde(default)]
    name: Option<String>,
    /// A file with the script.
    #[serde(default)]
    script_path: Option<String>,
    /// The value of `args` in the script.
    #[serde(default)]
    args: Option<Value>,
    /// A run whose finished agents are not run again.
    #[serde(default)]
    resume_from_run_id: Option<String>,
    /// Run the agents as jobs of the user's fleet instead of here.
    #[serde(default)]
    fleet: Option<bool>,
}

impl Input {
    fn title(&self) -> String {
        let named = self.name.as_ref().or(self.script_path.as_ref());
        named.cloned().unwrap_or_else(|| "script".to_owned())
    }
}

impl Tool for Workflow {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("workflow.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            destructive: false,
            ..CallTraits::default()
        }
    }

    /// The script itself can do nothing, and permission is asked for each call of its agents; but a run may be large,
    /// so it is asked about, and rules may name it.
    fn subject(&self, input: &Input, _context: &ToolContext) -> Subject {
        Subject::Named {
            name: input.title(),
            harmless: false,
        }
    }

    fn activity(&self, input: &Input) -> String {
        let elsewhere = input.fleet.unwrap_or_default();
        let place = if elsewhere { " on the fleet" } else { "" };
        format!("Workflow {}{place}", input.title())
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        context.needs_host(NAME)?;
        let given = [&input.script, &input.name, &input.script_path];
        let given = given.into_iter().flatten().count();
        let fits = given == 1 || (given == 0 && input.resume_from_run_id.is_some());
        if !fits {
            return Err(ToolError::invalid(
                "Give exactly one of script, name and scriptPath; a resumed run needs none.",
            ));
        }
        Ok(())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let order = WorkflowOrder {
            script: input.script,
            name: input.name,
            path: input
                .script_path
                .map(|path| context.session.resolve_path(&path)),
            args: input.args.unwrap_or(Value::Null),
            resume: input.resume_from_run_id,
            fleet: input.fleet.unwrap_or_default(),
        };
        let session = context.session.clone();
        let host = session.needs_host(NAME)?;
        let started = host.start_workflow(order, context).await?;
        let text = format!(
            "Workflow {} runs in the background as {}. A notification brings its result; don't poll. Its output: {}",
            started.name,
            started.run_id,
            started.output_file.display()
        );
        Ok(ToolOutput::new(
            text.clone(),
            json!({"status": "started", "runId": started.run_id, "name": started.name, "outputFile": started.output_file}),
            Display::Text { text },
        ))
    }
}
