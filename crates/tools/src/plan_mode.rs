//! EnterPlanMode and ExitPlanMode: planning before doing.
//!
//! ExitPlanMode is a question to the user ([`Subject::Person`]), so every call becomes a permission
//! question whose input holds the whole `plan` and its `planFilePath`. A face replies with
//! [`approve`], which says in which mode the work continues, or *deny* with what the user wants
//! changed: then planning continues with those words.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, InterruptBehavior, Tool, ToolError, ToolOutput};
use lathe_protocol::Extra;
use lathe_protocol::display::Display;
use lathe_protocol::permission::{
    PermissionMode, PermissionReply, PermissionUpdate, RuleSource, Subject,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The name of the tool whose permission question is the approval of a plan.
pub const EXIT: &str = "ExitPlanMode";

/// The modes in which work may continue after a plan, in the order in which they are offered.
pub const MODES_AFTER: [PermissionMode; 3] = [
    PermissionMode::AcceptEdits,
    PermissionMode::Default,
    PermissionMode::Auto,
];

/// Begins to plan.
pub struct EnterPlanMode;

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EnterInput {}

/// Ends planning, if the user agrees.
pub struct ExitPlanMode;

/// The plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExitInput {
    /// The plan in Markdown; left out, it is read from the plan file.
    #[serde(default)]
    plan: Option<String>,
    /// The plan file. Filled in; leave it out.
    #[serde(default)]
    plan_file_path: Option<String>,
}

/// The plan in the input of an ExitPlanMode call, for display.
#[must_use]
pub fn plan_of(input: &Value) -> Option<&str> {
    input.get("plan").and_then(Value::as_str)
}

/// The reply of the user who agrees: the work continues in this mode.
#[must_use]
pub fn approve(mode: PermissionMode) -> PermissionReply {
    PermissionReply::Allow {
        updated_input: None,
        updated_permissions: vec![PermissionUpdate::SetMode {
            mode,
            destination: RuleSource::Session,
        }],
        extra: Extra::new(),
    }
}

/// The reply of the user who wants the plan changed.
#[must_use]
pub fn keep_planning(feedback: &str) -> PermissionReply {
    let feedback = feedback.trim();
    PermissionReply::deny(if feedback.is_empty() {
        KEEP_PLANNING.to_owned()
    } else {
        format!("{CHANGE_PLAN}{feedback}")
    })
}

/// The answer to the model when the user keeps planning.
const KEEP_PLANNING: &str = "The user wants to keep planning. Plan mode is still on: ask what to change, or improve the plan.";

/// The same with what they say.
const CHANGE_PLAN: &str = "The user wants the plan changed before the work begins. Plan mode is still on. Their feedback: ";

/// The result when there is no plan mode to leave.
const NOT_ON: &str = "Plan mode is off already. If the plan was approved, carry it out.";

/// The text shown to the user instead of the one for the model.
#[must_use]
pub fn refusal_words(told: &str) -> Option<String> {
    if told == KEEP_PLANNING {
        return Some("You chose to keep planning.".to_owned());
    }
    if told == NOT_ON {
        return Some("Plan mode is not on.".to_owned());
    }
    told.strip_prefix(CHANGE_PLAN)
        .map(|words| format!("You requested a change: {words}"))
}

impl Tool for EnterPlanMode {
    type Input = EnterInput;

    fn name(&self) -> &'static str {
        "EnterPlanMode"
    }

    fn description(&self) -> &str {
        include_str!("enter_plan_mode.md")
    }

    fn traits(&self, _input: &EnterInput) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            ..CallTraits::READS
        }
    }

    /// It only takes rights away.
    fn subject(&self, _input: &EnterInput, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, _input: &EnterInput) -> String {
        "Entering plan mode".to_owned()
    }

    async fn call(
        &self,
        _input: EnterInput,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(self.name())?;
        let plan = host
            .enter_plan_mode()
            .map_err(|error| ToolError::failed(error.to_string()))?;
        let file = plan.file.display();
        let text = format!(
            "Plan mode is on. Look around, think, and write the plan to {file} (the only file that can be written now). When it is complete, call ExitPlanMode."
        );
        Ok(ToolOutput::new(
            text.clone(),
            json!({"message": text, "planFilePath": plan.file}),
            Display::Text {
                text: format!("Planning, in {file}"),
            },
        ))
    }
}

impl Tool for ExitPlanMode {
    type Input = ExitInput;

    fn name(&self) -> &'static str {
        EXIT
    }

    fn description(&self) -> &str {
        include_str!("exit_plan_mode.md")
    }

    fn traits(&self, _input: &ExitInput) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            interrupt: InterruptBehavior::Cancel,
            ..CallTraits::READS
        }
    }

    fn subject(&self, _input: &ExitInput, _context: &ToolContext) -> Subject {
        Subject::Person
    }

    fn activity(&self, _input: &ExitInput) -> String {
        "Showing the plan".to_owned()
    }

    /// The permission question shows the plan, wherever the model wrote it.
    fn fill_in(&self, input: &mut Value, context: &ToolContext) {
        let (Some(host), Some(fields)) = (context.host(), input.as_object_mut()) else {
            return;
        };
        let plan = host.plan();
        let given = fields.get("plan").and_then(Value::as_str).unwrap_or("");
        if given.trim().is_empty() {
            fields.insert("plan".to_owned(), plan.text.into());
        }
        if !plan.file.as_os_str().is_empty() {
            let file = plan.file.display().to_string();
            fields.insert("planFilePath".to_owned(), file.into());
        }
    }

    async fn validate(&self, input: &ExitInput, context: &ToolContext) -> Result<(), ToolError> {
        let plan = context.needs_host(EXIT)?.plan();
        if !plan.active {
            return Err(ToolError::invalid(NOT_ON));
        }
        if input
            .plan
            .as_deref()
            .is_none_or(|plan| plan.trim().is_empty())
        {
            return Err(ToolError::invalid(format!(
                "There is no plan yet: write it to {} first.",
                plan.file.display()
            )));
        }
        Ok(())
    }

    async fn call(&self, input: ExitInput, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(EXIT)?;
        let before = host.plan();
        let plan = input.plan.unwrap_or_default();
        if !before.file.as_os_str().is_empty() && plan.trim() != before.text.trim() {
            // The plan that was agreed to is the one that is kept, also when the user changed it.
            lathe_session::paths::write_private_file(&before.file, plan.as_bytes())
                .map_err(|error| ToolError::failed(format!("The plan was not saved: {error}.")))?;
        }
        let mode = host.leave_plan_mode();
        let text = format!(
            "The user approved the plan. Plan mode is off, permission mode {mode} is on: carry out the plan. It is saved in {}.\n\nThe approved plan:\n{plan}",
            before.file.display()
        );
        let file = input
            .plan_file_path
            .unwrap_or_else(|| before.file.display().to_string());
        Ok(ToolOutput::new(
            text,
            json!({
                "plan": plan, "filePath": file, "mode": mode,
                "isAgent": before.in_agent,
            }),
            Display::Markdown { text: plan },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_carry_the_mode_or_the_feedback() {
        let PermissionReply::Allow {
            updated_permissions,
            ..
        } = approve(PermissionMode::AcceptEdits)
        else {
            panic!("an approval allows");
        };
        assert_eq!(
            updated_permissions,
            [PermissionUpdate::SetMode {
                mode: PermissionMode::AcceptEdits,
                destination: RuleSource::Session
            }]
        );
        let PermissionReply::Deny { message, .. } = keep_planning(" smaller steps ") else {
            panic!("feedback denies");
        };
        assert!(
            message.ends_with("Their feedback: smaller steps"),
            "{message}"
        );
    }
}
