//! The rule that 'always allow' would save: enough for the next such question, and no more.

use crate::context::PermissionContext;
use crate::path::ResolvedPath;
use lathe_protocol::permission::{
    Behavior, PermissionMode, PermissionUpdate, RuleSource, RuleValue,
};
use std::path::{Path, PathBuf};

/// An update that adds one allow rule.
pub(crate) fn allow_rule(
    tool: &str,
    content: Option<String>,
    destination: RuleSource,
) -> PermissionUpdate {
    PermissionUpdate::AddRules {
        rules: vec![RuleValue {
            tool_name: tool.to_owned(),
            rule_content: content,
        }],
        behavior: Behavior::Allow,
        destination,
    }
}

/// The rule for all tools of the server whose tool has this name: `mcp__server` of `mcp__server__tool`.
pub(crate) fn whole_server(name: &str, tool: &str) -> Option<String> {
    let rest = name.strip_prefix("mcp__")?;
    // The tool's own name has as many characters in the whole name; its letters may differ.
    let server = rest.len().checked_sub(tool.chars().count() + 2)?;
    let (server, tail) = rest.split_at_checked(server)?;
    (!server.is_empty() && tail.starts_with("__")).then(|| format!("mcp__{server}"))
}

/// For a write: edits in general, and the folders that lie outside the roots.
pub(crate) fn writing(path: &ResolvedPath, context: &PermissionContext) -> Vec<PermissionUpdate> {
    let directories = folders_outside(path, context);
    if directories
        .iter()
        .any(|folder| is_too_wide(folder, context))
    {
        return naming(path, "Edit");
    }
    let mut suggestions = Vec::new();
    if !matches!(
        context.mode,
        PermissionMode::AcceptEdits | PermissionMode::Auto
    ) {
        suggestions.push(PermissionUpdate::SetMode {
            mode: PermissionMode::AcceptEdits,
            destination: RuleSource::Session,
        });
    }
    if !directories.is_empty() {
        suggestions.push(PermissionUpdate::AddDirectories {
            directories,
            destination: RuleSource::Session,
        });
    }
    suggestions
}

/// For a read outside the roots: rules for its folder.
pub(crate) fn reading(path: &ResolvedPath, context: &PermissionContext) -> Vec<PermissionUpdate> {
    let folders = folders_outside(path, context);
    if folders.iter().any(|folder| is_too_wide(folder, context)) {
        return naming(path, "Read");
    }
    let rules: Vec<RuleValue> = folders
        .iter()
        .filter_map(|folder| absolute_pattern(folder))
        .map(|pattern| RuleValue {
            tool_name: "Read".into(),
            rule_content: Some(format!("{pattern}/**")),
        })
        .collect();
    if rules.is_empty() {
        return Vec::new();
    }
    vec![PermissionUpdate::AddRules {
        rules,
        behavior: Behavior::Allow,
        destination: RuleSource::Session,
    }]
}

/// Folders that nobody means when they say yes to one file in them: the root, what lies right below
/// it, and whatever holds the home folder. The one for temporary files is meant to be shared.
fn is_too_wide(folder: &Path, context: &PermissionContext) -> bool {
    let top = folder
        .parent()
        .is_none_or(|parent| parent.parent().is_none());
    (top && folder != Path::new("/tmp")) || context.home.starts_with(folder)
}

/// For a secret, and for a name that needs a second look: rules that name the file itself.
pub(crate) fn naming(path: &ResolvedPath, tool: &str) -> Vec<PermissionUpdate> {
    let mut rules: Vec<RuleValue> = Vec::new();
    for form in path.touched() {
        let Some(content) = absolute_pattern(form) else {
            return Vec::new();
        };
        let rule = RuleValue {
            tool_name: tool.into(),
            rule_content: Some(content),
        };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    vec![PermissionUpdate::AddRules {
        rules,
        behavior: Behavior::Allow,
        destination: RuleSource::Session,
    }]
}

/// The folders that have to become roots for a path to lie inside.
fn folders_outside(path: &ResolvedPath, context: &PermissionContext) -> Vec<PathBuf> {
    if path.real.is_none() {
        return Vec::new();
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for form in path.touched() {
        let inside = context
            .roots
            .iter()
            .any(|root| crate::path::starts_with(form, root, path.case_insensitive));
        let Some(folder) = form.parent().filter(|_| !inside) else {
            continue;
        };
        let folder = folder.to_path_buf();
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// A path as a rule's content that matches it literally; `None` for the file system's root.
fn absolute_pattern(path: &Path) -> Option<String> {
    path.parent()?;
    let mut text = String::from("/");
    for character in path.to_str()?.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!') {
            text.push('\\');
        }
        text.push(character);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_told_from_the_tools_name() {
        for (name, tool, server) in [
            ("mcp__files__read", "read", Some("mcp__files")),
            ("mcp__a__b__c", "b__c", Some("mcp__a")),
            ("mcp__a__b_c", "b.c", Some("mcp__a")),
            ("mcp__a__b_", "bä", Some("mcp__a")),
            ("ReadMcpResource", "resources/read", None),
            ("mcp____x", "x", None),
        ] {
            assert_eq!(whole_server(name, tool).as_deref(), server, "{name}");
        }
    }
}
