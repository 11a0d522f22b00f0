//! The limits of an agent, whatever its session allows.
//!
//! A definition narrows: it may say that its agent only reads, or name the uses of a tool that the agent
//! has (`Bash(git *)`). Modes, rules and people can allow what is inside of that, and nothing beyond.

use crate::context::{CallFacts, PermissionContext};
use crate::decision;
use crate::ruleset::{Rule, RuleSet};
use lathe_protocol::permission::{Decision, DecisionReason, PermissionMode, Subject};

/// The most that an agent may do.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// It changes nothing.
    pub reads_only: bool,
    /// The only uses of the tools that these rules name. Tools that none of them names are free.
    pub only: Vec<Rule>,
    /// The same of the agents that started it: it has no more than each of them.
    pub inherited: Vec<Vec<Rule>>,
    /// Restrictions outside of the working directories, for the session and its agents.
    pub outside: Outside,
}

/// Restrictions outside of the working directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outside {
    /// File tools read nothing there; commands that name something there are asked about.
    pub blocks_reads: bool,
    /// File tools write nothing there, and no settings files.
    pub blocks_writes: bool,
}

/// Why settings refuse a path, if they do.
fn blocked_outside(call: &CallFacts<'_>, context: &PermissionContext) -> Option<Decision> {
    let outside = context.limits.outside;
    let (paths, key, verb) = match call.subject {
        Subject::Read { paths } if outside.blocks_reads => {
            (paths, "blockReadsOutsideWorkingDirectories", "read")
        }
        Subject::Write { paths } if outside.blocks_writes => {
            (paths, "blockWritesOutsideWorkingDirectories", "written")
        }
        _ => return None,
    };
    let refused = paths.iter().find(|path| {
        let path = call.resolved.get(path);
        if verb == "read" {
            !crate::files::is_readable(&path, context)
        } else {
            !crate::files::is_writable(&path, context)
        }
    })?;
    Some(Decision::Deny {
        reason: DecisionReason::WorkingDirectory {
            reason: format!(
                "`{}` may not be {verb}: permissions.{key} blocks paths outside the working directories",
                refused.display()
            ),
        },
    })
}

/// Why a call goes beyond the limits; `None` when it doesn't.
pub(crate) fn refusal(call: &CallFacts<'_>, context: &PermissionContext) -> Option<Decision> {
    let limits = &context.limits;
    if let Some(blocked) = blocked_outside(call, context) {
        return Some(blocked);
    }
    if limits.reads_only && would_change(call, context) {
        return Some(beyond("this agent only reads".to_owned()));
    }
    let names = call.names();
    for layer in std::iter::once(&limits.only).chain(&limits.inherited) {
        let own: Vec<&Rule> = layer.iter().filter(|rule| rule.is_about(&names)).collect();
        if !own.is_empty() && !is_covered(call, &own, context) {
            let uses: Vec<String> = own.iter().map(|rule| rule.text()).collect();
            return Some(beyond(format!(
                "of {} this agent has only {}",
                call.tool_name,
                uses.join(", ")
            )));
        }
    }
    None
}

fn beyond(reason: String) -> Decision {
    Decision::Deny {
        reason: DecisionReason::AgentLimit { reason },
    }
}

/// Whether a call changes anything: what plan mode, which only reads, would refuse.
fn would_change(call: &CallFacts<'_>, context: &PermissionContext) -> bool {
    let mut planning = context.clone();
    planning.mode = PermissionMode::Plan;
    planning.files.plan_file = None;
    planning.files.session_paths.clear();
    let decision = decision::judge(call, &planning);
    let plan = DecisionReason::Mode {
        mode: PermissionMode::Plan,
    };
    matches!(decision, Decision::Deny { reason } if reason == plan)
}

/// Whether rules cover all of a call. Commands that plainly only read are covered by any.
fn is_covered(call: &CallFacts<'_>, rules: &[&Rule], context: &PermissionContext) -> bool {
    let names = call.names();
    let whole = rules.iter().any(|rule| rule.covers_whole(&names));
    whole
        || match call.subject {
            Subject::Read { paths } | Subject::Write { paths } => paths.iter().all(|path| {
                let path = call.resolved.get(path);
                rules.iter().any(|rule| rule.covers_every_form(&path))
            }),
            Subject::Shell { .. } => {
                let mut alone = context.clone();
                alone.mode = PermissionMode::DontAsk;
                alone.rules = RuleSet::default();
                alone.sandbox.bash_sandboxed = false;
                for rule in rules {
                    alone.rules.add((*rule).clone());
                }
                matches!(decision::judge(call, &alone), Decision::Allow { .. })
            }
            Subject::Fetch { url } => url::Url::parse(url)
                .ok()
                .and_then(|url| url.host_str().map(str::to_owned))
                .is_some_and(|host| rules.iter().any(|rule| rule.covers_host(&host))),
            Subject::Typing { program, .. } => {
                rules.iter().any(|rule| rule.covers_word(&names, program))
            }
            Subject::Named { name, .. } => rules.iter().any(|rule| rule.covers_word(&names, name)),
            Subject::Nothing
            | Subject::Search { .. }
            | Subject::Mcp { .. }
            | Subject::Person
            | Subject::Unknown => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::resolve;
    use crate::rule::parse_rule;
    use lathe_protocol::permission::{Behavior, RuleSource};
    use serde_json::Value;
    use std::path::{Path, PathBuf};

    fn context(rules: &[&str]) -> PermissionContext {
        let folder = Path::new("/work/project");
        let mut context =
            PermissionContext::new(folder, Path::new("/home/a"), Path::new("/home/a/.lathe"));
        context.mode = PermissionMode::BypassPermissions;
        let anchors = context.anchors(RuleSource::Session);
        for text in rules {
            let rule = parse_rule(text).unwrap();
            let rule = Rule::new(rule, Behavior::Allow, RuleSource::Session, &anchors).unwrap();
            context.limits.only.push(rule);
        }
        context
    }

    fn allows(context: &PermissionContext, tool: &str, subject: &Subject) -> bool {
        let call = CallFacts {
            tool_name: tool,
            aliases: &[],
            input: &Value::Null,
            subject,
            read_only: false,
            resolved: resolve(subject, context),
        };
        matches!(crate::decide(&call, context), Decision::Allow { .. })
    }

    fn command(text: &str) -> Subject {
        Subject::Shell {
            command: text.to_owned(),
            cwd: PathBuf::from("/work/project"),
            unsandboxed: false,
        }
    }

    fn file(path: &str) -> Subject {
        Subject::Write {
            paths: vec![PathBuf::from(path)],
        }
    }

    #[test]
    fn named_uses_are_the_only_ones_even_where_everything_is_allowed() {
        let context = context(&["Bash(git *)", "Write(//work/project/notes/**)"]);
        for (text, fine) in [
            ("git push", true),
            ("git commit -m x && git push", true),
            ("ls -la", true),
            ("touch x", false),
            ("git push && touch x", false),
            ("git log > x", false),
            ("git push $(touch x)", false),
        ] {
            assert_eq!(allows(&context, "Bash", &command(text)), fine, "{text}");
        }
        assert!(allows(&context, "Write", &file("/work/project/notes/a.md")));
        assert!(!allows(&context, "Write", &file("/work/project/a.md")));
        assert!(
            allows(&context, "Edit", &file("/work/project/a.md")),
            "not named"
        );
    }

    #[test]
    fn reading_changes_nothing() {
        let mut context = context(&[]);
        context.limits.reads_only = true;
        assert!(allows(&context, "Bash", &command("ls -la | head -3")));
        assert!(!allows(&context, "Bash", &command("touch x")));
        assert!(!allows(&context, "Write", &file("/work/project/a.md")));
        assert!(allows(&context, "TaskList", &Subject::Nothing));
    }
}
