//! The decision: may this call run?
//!
//! [`decide`] is a pure function of the call and the context. It only sorts the call by what it
//! touches and collects reasons for and against it; their order of precedence is in
//! [`crate::order`], paths are judged in [`crate::files`] and commands in [`crate::shell`].

use crate::context::{CallFacts, PermissionContext};
use crate::files::{self, Toucher};
use crate::order::{Findings, Question, strictest};
use crate::ruleset::Rule;
use crate::{shell, suggest};
use lathe_protocol::permission::{Behavior, Decision, DecisionReason, RuleSource, Subject};

/// Says whether a call may run, must be asked about, or may not run, and why.
#[must_use]
pub fn decide(call: &CallFacts<'_>, context: &PermissionContext) -> Decision {
    crate::limits::refusal(call, context).unwrap_or_else(|| judge(call, context))
}

/// Says whether a file may be written as any edit of a session that accepts edits: for what Lathe writes itself on a
/// person's request, such as a rewind.
#[must_use]
pub fn decide_edit(path: &std::path::Path, context: &PermissionContext) -> Decision {
    let mut context = context.clone();
    context.mode = lathe_protocol::permission::PermissionMode::AcceptEdits;
    let subject = Subject::Write {
        paths: vec![path.to_path_buf()],
    };
    let call = CallFacts {
        tool_name: "Edit",
        aliases: &[],
        input: &serde_json::Value::Null,
        subject: &subject,
        read_only: false,
        resolved: crate::context::resolve(&subject, &context),
    };
    judge(&call, &context)
}

/// The same without what an agent may do at most.
pub(crate) fn judge(call: &CallFacts<'_>, context: &PermissionContext) -> Decision {
    if let Some(rule) = whole(call, context, Behavior::Deny) {
        return Decision::Deny {
            reason: rule.reason(),
        };
    }
    match call.subject {
        Subject::Nothing => nothing(call, context),
        Subject::Read { paths } => each_path(call, context, paths, |path| {
            files::read(path, Toucher::Tool(call.tool_name), context)
        }),
        Subject::Write { paths } => each_path(call, context, paths, |path| {
            files::write(path, Toucher::Tool(call.tool_name), context)
        }),
        Subject::Shell {
            command,
            cwd,
            unsandboxed,
        } => shell::judge(call, command, cwd, *unsandboxed, context).decision,
        Subject::Typing { program, sandboxed } => typing(call, context, program, *sandboxed),
        Subject::Fetch { url } => fetch(call, context, url),
        Subject::Search { .. } => search(call, context),
        Subject::Mcp {
            server,
            tool,
            read_only,
        } => mcp(call, context, server, tool, *read_only),
        Subject::Named { name, harmless } => named(call, context, name, *harmless),
        Subject::Person => person(call, context),
        Subject::Unknown => unknown(call, context),
    }
}

/// The first rule of a behaviour that is about all of the tool.
fn whole<'a>(
    call: &CallFacts<'_>,
    context: &'a PermissionContext,
    behavior: Behavior,
) -> Option<&'a Rule> {
    let names = call.names();
    context
        .rules
        .with(behavior)
        .find(|rule| match call.subject {
            Subject::Mcp { server, tool, .. } => rule.covers_mcp(server, tool, &names),
            _ => rule.covers_whole(&names),
        })
}

/// Findings with the rules about all of the tool filled in.
fn with_whole_rules(
    call: &CallFacts<'_>,
    context: &PermissionContext,
    question: Question,
) -> Findings {
    let mut findings = Findings::new(question);
    findings.ask = whole(call, context, Behavior::Ask).map(Rule::reason);
    findings.allow = whole(call, context, Behavior::Allow).map(Rule::reason);
    findings.changes = !call.read_only;
    findings
}

fn nothing(call: &CallFacts<'_>, context: &PermissionContext) -> Decision {
    let reason = format!("{} touches nothing outside the session", call.tool_name);
    let mut findings = with_whole_rules(call, context, Question::other(reason.clone()));
    findings.changes = false;
    findings.passes = Some(DecisionReason::Other { reason });
    findings.decide(context.mode)
}

/// Each path gets its verdict; the strictest wins.
fn each_path(
    call: &CallFacts<'_>,
    context: &PermissionContext,
    paths: &[std::path::PathBuf],
    judge: impl Fn(&crate::path::ResolvedPath) -> Findings,
) -> Decision {
    let decisions = paths
        .iter()
        .map(|path| {
            let mut findings = judge(&call.resolved.get(path));
            findings.ask = findings
                .ask
                .or_else(|| whole(call, context, Behavior::Ask).map(Rule::reason));
            findings.decide(context.mode)
        })
        .collect();
    strictest(decisions).unwrap_or_else(|| unknown(call, context))
}

/// Text for a program can mean anything there: the user is asked, once for each program, unless the sandbox is enough.
fn typing(
    call: &CallFacts<'_>,
    context: &PermissionContext,
    program: &str,
    sandboxed: bool,
) -> Decision {
    let mut question = Question::other(if program.is_empty() {
        "it is not known which program would read what is typed".to_owned()
    } else {
        format!("nothing allows typing into {program}")
    });
    if !program.is_empty() {
        question.suggestions = vec![suggest::allow_rule(
            call.tool_name,
            Some(program.to_owned()),
            RuleSource::Session,
        )];
    }
    let names = call.names();
    let on = |behavior| {
        let mut rules = context.rules.with(behavior);
        rules
            .find(|rule: &&Rule| rule.covers_word(&names, program))
            .map(Rule::reason)
    };
    let mut findings = with_whole_rules(call, context, question);
    findings.deny = on(Behavior::Deny);
    findings.ask = findings.ask.or_else(|| on(Behavior::Ask));
    findings.allow = findings.allow.or_else(|| on(Behavior::Allow));
    findings.sandboxed = sandboxed && context.sandbox.bash_sandboxed && context.sandbox.auto_allow;
    findings.decide(context.mode)
}

fn fetch(call: &CallFacts<'_>, context: &PermissionContext, url: &str) -> Decision {
    let parsed = url::Url::parse(url).ok();
    let host = parsed
        .as_ref()
        .and_then(|url| url.host_str())
        .map(str::to_owned);
    let mut question = Question::other(match &host {
        Some(host) => format!("nothing allows fetching from {host}"),
        None => format!("`{url}` names no host that a rule could be about"),
    });
    if let Some(host) = &host {
        let content = Some(format!("domain:{host}"));
        question.suggestions = vec![suggest::allow_rule(
            call.tool_name,
            content,
            RuleSource::LocalSettings,
        )];
    }
    let mut findings = with_whole_rules(call, context, question);
    findings.changes = false;
    if let Some(host) = &host {
        let on = |behavior| {
            context
                .rules
                .with(behavior)
                .find(|rule: &&Rule| rule.covers_host(host))
                .map(Rule::reason)
        };
        findings.deny = on(Behavior::Deny);
        findings.ask = findings.ask.or_else(|| on(Behavior::Ask));
        findings.allow = findings.allow.or_else(|| on(Behavior::Allow));
        if context.rules.documentation_hosts() && is_documentation(url, host) {
            let reason = format!("{host} is well-known documentation");
            findings.passes = Some(DecisionReason::Other { reason });
        }
    } else {
        let (names, given) = (call.names(), format!("input:{url}"));
        let on = |behavior| {
            let mut rules = context.rules.with(behavior);
            rules
                .find(|rule: &&Rule| rule.covers_word(&names, &given))
                .map(Rule::reason)
        };
        findings.deny = on(Behavior::Deny);
        findings.ask = findings.ask.or_else(|| on(Behavior::Ask));
        findings.allow = findings.allow.or_else(|| on(Behavior::Allow));
    }
    findings.decide(context.mode)
}

/// Hosts of documentation, one per line.
const DOCUMENTATION: &str = include_str!("../data/documentation_hosts.txt");

/// Whether an address is one of well-known documentation: by its exact host, at the usual port.
fn is_documentation(url: &str, host: &str) -> bool {
    let usual = url::Url::parse(url).is_ok_and(|url| url.port().is_none());
    usual
        && DOCUMENTATION
            .lines()
            .any(|known| !known.starts_with('#') && known == host)
}

fn search(call: &CallFacts<'_>, context: &PermissionContext) -> Decision {
    let mut question = Question::other("nothing allows searching the web");
    question.suggestions = vec![suggest::allow_rule(
        call.tool_name,
        None,
        RuleSource::LocalSettings,
    )];
    let mut findings = with_whole_rules(call, context, question);
    findings.changes = false;
    findings.decide(context.mode)
}

fn mcp(
    call: &CallFacts<'_>,
    context: &PermissionContext,
    server: &str,
    tool: &str,
    read_only: bool,
) -> Decision {
    let mut question = Question::other(format!(
        "nothing allows the tool {tool} of the MCP server {server}"
    ));
    question.suggestions = vec![suggest::allow_rule(
        call.tool_name,
        None,
        RuleSource::LocalSettings,
    )];
    if let Some(all) = suggest::whole_server(call.tool_name, tool) {
        question
            .suggestions
            .push(suggest::allow_rule(&all, None, RuleSource::LocalSettings));
    }
    let mut findings = with_whole_rules(call, context, question);
    findings.changes = !read_only;
    findings.decide(context.mode)
}

fn named(
    call: &CallFacts<'_>,
    context: &PermissionContext,
    name: &str,
    harmless: bool,
) -> Decision {
    let names = call.names();
    let on = |behavior| {
        context
            .rules
            .with(behavior)
            .find(|rule: &&Rule| rule.covers_word(&names, name))
            .map(Rule::reason)
    };
    let mut question = Question::other(format!("nothing allows {}({name})", call.tool_name));
    question.suggestions = vec![suggest::allow_rule(
        call.tool_name,
        Some(name.to_owned()),
        RuleSource::LocalSettings,
    )];
    let mut findings = with_whole_rules(call, context, question);
    findings.deny = on(Behavior::Deny);
    findings.ask = findings.ask.or_else(|| on(Behavior::Ask));
    findings.allow = findings.allow.or_else(|| on(Behavior::Allow));
    if harmless {
        findings.changes = false;
        let reason = format!("{}({name}) needs no question", call.tool_name);
        findings.passes = Some(DecisionReason::Other { reason });
    }
    findings.decide(context.mode)
}

fn person(call: &CallFacts<'_>, context: &PermissionContext) -> Decision {
    let question = Question::other(format!("{} asks the user a question", call.tool_name));
    let mut findings = with_whole_rules(call, context, question.clone());
    findings.changes = false;
    findings.hard = Some(question);
    findings.decide(context.mode)
}

fn unknown(call: &CallFacts<'_>, context: &PermissionContext) -> Decision {
    let mut question = Question::other(format!(
        "{} doesn't declare what it would touch",
        call.tool_name
    ));
    question.suggestions = vec![suggest::allow_rule(
        call.tool_name,
        None,
        RuleSource::LocalSettings,
    )];
    with_whole_rules(call, context, question).decide(context.mode)
}
