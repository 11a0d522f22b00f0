//! The rules that answers to a question would save, and whether one needs a second look.

use lathe_protocol::permission::{PermissionRequest, PermissionUpdate};
use serde_json::Value;

/// Whether the user must look twice: no rule and no mode answers such a question.
pub(super) fn is_dangerous(request: &PermissionRequest) -> bool {
    request.decision_reason_type.as_deref() == Some("safetyCheck")
}

/// The rules that 'always' would save. Of rules for commands only those that can match again.
pub(super) fn worth_keeping(request: &PermissionRequest) -> Vec<PermissionUpdate> {
    let mut kept = Vec::new();
    for update in &request.permission_suggestions {
        let PermissionUpdate::AddRules {
            rules,
            behavior,
            destination,
        } = update
        else {
            kept.push(update.clone());
            continue;
        };
        let command = request.input.get("command").and_then(Value::as_str);
        let (commands, mut others): (Vec<_>, Vec<_>) = rules
            .iter()
            .cloned()
            .partition(|rule| rule.tool_name == "Bash" && request.tool_name == "Bash");
        if let Some(command) = command.filter(|_| !commands.is_empty()) {
            others.extend(lathe_permissions::rules_for_later(command));
        }
        if !others.is_empty() {
            kept.push(PermissionUpdate::AddRules {
                rules: others,
                behavior: *behavior,
                destination: *destination,
            });
        }
    }
    kept
}
