//! The rules that answers to a question would save, and whether one needs a second look.

use lathe_protocol::permission::{PermissionMode, PermissionRequest, PermissionUpdate};
use serde_json::Value;

/// Whether the user must look twice: no rule and no mode answers such a question.
pub(crate) fn is_dangerous(request: &PermissionRequest) -> bool {
    request.decision_reason_type.as_deref() == Some("safetyCheck")
}

/// The rules that 'always' would save, and what else it changes. Of rules for commands only those that can match
/// again; of several ways to say the same the first, because nobody chose the wider ones.
pub(crate) fn worth_keeping(request: &PermissionRequest) -> Vec<PermissionUpdate> {
    let mut has_rules = false;
    let mut kept = all_worth_keeping(request);
    kept.retain(|update| match update {
        PermissionUpdate::AddRules { .. } => !std::mem::replace(&mut has_rules, true),
        _ => true,
    });
    kept
}

/// The effect of an update that saves no rule, in words that follow "Yes, and".
pub(crate) fn beside_rules(update: &PermissionUpdate) -> Option<String> {
    match update {
        PermissionUpdate::SetMode {
            mode: PermissionMode::AcceptEdits,
            ..
        } => Some("accept all edits this session".to_owned()),
        PermissionUpdate::SetMode { mode, .. } => Some(format!("switch to mode {mode}")),
        PermissionUpdate::AddDirectories { directories, .. } => {
            let names: Vec<String> = directories
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Some(format!("allow work in {}", names.join(", ")))
        }
        _ => None,
    }
}

fn all_worth_keeping(request: &PermissionRequest) -> Vec<PermissionUpdate> {
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
