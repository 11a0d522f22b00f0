//! The rules of a session, compiled once, with where each comes from.
//!
//! The strength of a rule is its behaviour alone: a deny beats an ask beats an allow, whatever the
//! sources and whatever the order. Sources are for explanation and for saving.

use crate::path::ResolvedPath;
use crate::pattern::{Anchors, CommandPattern, DomainPattern, PathPattern, TextPattern, Twins};
use crate::rule::{RuleError, format_rule, names_of, parse_rule};
use lathe_protocol::permission::{Behavior, DecisionReason, RuleSource, RuleValue};
use std::sync::Arc;

/// Tools whose whole work is writing files. A rule for `Edit` covers them all.
pub(crate) const WRITING_TOOLS: &[&str] =
    &["Edit", "LSPEdit", "Write", "MultiEdit", "NotebookEdit"];
/// Tools that read files. A rule for `Read` covers them all.
pub(crate) const READING_TOOLS: &[&str] = &["Read", "Grep", "Glob", "LS", "NotebookRead"];

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Tool and content.
    pub value: RuleValue,
    /// Its effect.
    pub behavior: Behavior,
    /// Where it stands.
    pub source: RuleSource,
    matcher: Matcher,
}

#[derive(Debug, Clone)]
enum Matcher {
    Whole,
    Command(CommandPattern),
    Path(Arc<PathPattern>),
    Domain(DomainPattern),
    /// A skill or an agent: one of these patterns.
    Word(Vec<TextPattern>),
    /// An MCP server's tools.
    Mcp(McpPattern),
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// When its content is not one that the tool's rules can have.
    pub fn new(
        value: RuleValue,
        behavior: Behavior,
        source: RuleSource,
        anchors: &Anchors,
    ) -> Result<Self, RuleError> {
        let bad = |problem: String| RuleError::BadContent {
            rule: format_rule(&value),
            problem,
        };
        let name = value.tool_name.as_str();
        if let Some(parameter) = value.rule_content.as_deref().and_then(parameter_of) {
            return Err(bad(format!(
                "rules by parameter (`{parameter}`) are not understood; write what the tool would do"
            )));
        }
        let matcher = if name.starts_with("mcp__") {
            Matcher::Mcp(McpPattern::new(name))
        } else {
            match (&value.rule_content, kind_of(name)) {
                (None, _) => {
                    if name == "*" && behavior == Behavior::Allow {
                        return Err(RuleError::AllowsEverything(name.to_owned()));
                    }
                    Matcher::Whole
                }
                (Some(content), Kind::Shell) => Matcher::Command(
                    CommandPattern::new(content, &anchors.home)
                        .map_err(|error| bad(error.to_string()))?,
                ),
                (Some(content), Kind::Reads | Kind::Writes) => Matcher::Path(Arc::new(
                    PathPattern::new(content, anchors).map_err(|error| bad(error.to_string()))?,
                )),
                // What a call gave that is no address.
                (Some(content), Kind::Fetch) if content.trim_start().starts_with("input:") => {
                    Matcher::Word(word_patterns(content))
                }
                (Some(content), Kind::Fetch) => Matcher::Domain(
                    DomainPattern::new(content).map_err(|error| bad(error.to_string()))?,
                ),
                (Some(content), Kind::Other) => Matcher::Word(word_patterns(content)),
            }
        };
        Ok(Self {
            value,
            behavior,
            source,
            matcher,
        })
    }

    /// Has the rule hold in a worktree as in its project, and nowhere else.
    pub(crate) fn set_twins(&mut self, twins: Option<&Twins>) {
        if let Matcher::Path(pattern) = &self.matcher {
            self.matcher = Matcher::Path(Arc::new(pattern.with_twins(twins)));
        }
    }

    /// The rule as written.
    #[must_use]
    pub fn text(&self) -> String {
        format_rule(&self.value)
    }

    /// The rule as the reason of a decision.
    #[must_use]
    pub fn reason(&self) -> DecisionReason {
        DecisionReason::Rule {
            rule: self.text(),
            behavior: self.behavior,
            source: self.source,
        }
    }

    /// The command pattern, where the rule is about some shell commands.
    pub(crate) fn command(&self) -> Option<&CommandPattern> {
        match &self.matcher {
            Matcher::Command(pattern) => Some(pattern),
            _ => None,
        }
    }

    /// Whether the rule is about all of a tool that goes by one of these names.
    #[must_use]
    pub fn covers_whole(&self, names: &[&str]) -> bool {
        match &self.matcher {
            Matcher::Whole => {
                let rule = self.value.tool_name.as_str();
                rule == "*"
                    || names
                        .iter()
                        .any(|name| self.names(name) || covers_by_kind(rule, name))
            }
            Matcher::Mcp(pattern) => names.iter().any(|name| pattern.by_name.matches(name)),
            _ => false,
        }
    }

    /// Whether the rule is about this tool of this MCP server. A grant compares the server and the tool, because the
    /// name of one server can be the beginning of another's; a refusal also takes what reads alike.
    pub(crate) fn covers_mcp(&self, server: &str, tool: &str, names: &[&str]) -> bool {
        match &self.matcher {
            Matcher::Mcp(pattern) if self.behavior == Behavior::Allow => {
                pattern.server.matches(&plain_name(server)) && pattern.tool.matches(tool)
            }
            _ => self.covers_whole(names),
        }
    }

    /// Whether the rule names this tool, by any of its names.
    fn names(&self, tool: &str) -> bool {
        names_of(tool).any(|name| name == self.value.tool_name)
    }

    /// Whether the rule is about a tool that goes by one of these names, or some uses of it.
    pub(crate) fn is_about(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.names(name))
    }

    /// Whether a rule with a word as content (a skill, an agent) matches.
    pub(crate) fn covers_word(&self, names: &[&str], word: &str) -> bool {
        match &self.matcher {
            Matcher::Word(patterns) => {
                let word = word.strip_prefix('/').unwrap_or(word);
                names.iter().any(|name| self.names(name))
                    && patterns.iter().any(|pattern| pattern.matches(word))
            }
            _ => false,
        }
    }

    /// Whether a rule for addresses matches a host.
    pub(crate) fn covers_host(&self, host: &str) -> bool {
        match &self.matcher {
            Matcher::Domain(pattern) => pattern.matches(host, self.behavior != Behavior::Allow),
            _ => false,
        }
    }

    /// Whether the rule is about reading paths.
    pub(crate) fn is_for_reading(&self) -> bool {
        kind_of(&self.value.tool_name) == Kind::Reads
    }

    /// Whether the rule is about writing paths with this tool. A deny or ask for any writing tool
    /// holds for all of them, an allow only if it says `Edit` or names the tool.
    pub(crate) fn is_for_writing(&self, tool: &str) -> bool {
        let rule = self.value.tool_name.as_str();
        kind_of(rule) == Kind::Writes
            && (rule == "Edit" || rule == tool || self.behavior != Behavior::Allow)
    }

    /// Whether one form of a path matches the rule's pattern.
    pub(crate) fn covers_form(&self, form: &std::path::Path, case_insensitive: bool) -> bool {
        match &self.matcher {
            Matcher::Path(pattern) => pattern.matches(form, case_insensitive),
            Matcher::Whole => true,
            _ => false,
        }
    }

    /// The path of the rule's pattern without trailing wildcards; `None` for a rule
    /// without a path.
    pub(crate) fn named_path(&self) -> Option<&std::path::Path> {
        match &self.matcher {
            Matcher::Path(pattern) => Some(pattern.named()),
            _ => None,
        }
    }

    /// Whether every form of a path matches: what it is called, and what it really is.
    pub(crate) fn covers_every_form(&self, path: &ResolvedPath) -> bool {
        path.forms()
            .all(|form| self.covers_form(form, path.case_insensitive))
    }

    /// Whether any form of a path matches.
    pub(crate) fn covers_any_form(&self, path: &ResolvedPath) -> bool {
        path.forms()
            .any(|form| self.covers_form(form, path.case_insensitive))
    }
}

/// The kind of content that a tool's rules have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Shell,
    Reads,
    Writes,
    Fetch,
    Other,
}

pub(crate) fn kind_of(tool: &str) -> Kind {
    match tool {
        "Bash" | "Monitor" => Kind::Shell,
        "WebFetch" => Kind::Fetch,
        _ if READING_TOOLS.contains(&tool) => Kind::Reads,
        _ if WRITING_TOOLS.contains(&tool) => Kind::Writes,
        _ => Kind::Other,
    }
}

/// Whether a rule for all of one tool is also for another: `Edit` for all writing, `Read` for all
/// reading.
fn covers_by_kind(rule: &str, tool: &str) -> bool {
    match rule {
        "Edit" => WRITING_TOOLS.contains(&tool),
        "Read" => READING_TOOLS.contains(&tool),
        _ => false,
    }
}

/// A rule for the tools of an MCP server.
#[derive(Debug, Clone)]
struct McpPattern {
    server: TextPattern,
    tool: TextPattern,
    /// Over the whole name, `mcp__server__tool`.
    by_name: TextPattern,
}

impl McpPattern {
    fn new(name: &str) -> Self {
        let rest = name.strip_prefix("mcp__").unwrap_or(name);
        let (server, tool) = rest.split_once("__").unwrap_or((rest, "*"));
        let whole_server = !rest.contains("__") && !name.ends_with('*');
        Self {
            server: TextPattern::new(server),
            tool: TextPattern::new(tool),
            by_name: if whole_server {
                TextPattern::new(&format!("{name}__*"))
            } else {
                TextPattern::new(name)
            },
        }
    }
}

/// A server's name as it stands in the names of its tools.
fn plain_name(server: &str) -> String {
    server
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') {
                character
            } else {
                '_'
            }
        })
        .collect()
}

/// Names of parameters that rules are written for elsewhere.
const PARAMETERS: &[&str] = &[
    "model",
    "isolation",
    "subagent_type",
    "run_in_background",
    "timeout",
    "description",
    "prompt",
    "dangerouslyDisableSandbox",
    "file_path",
];

/// The parameter that a content such as `model:opus` is about.
fn parameter_of(content: &str) -> Option<&str> {
    let (name, value) = content.trim().split_once(':')?;
    (PARAMETERS.contains(&name) && value != "*").then_some(name)
}

/// `name` by itself; `name:*` is the name with any arguments, and everything of the plugin that is called so.
fn word_patterns(content: &str) -> Vec<TextPattern> {
    let content = content.trim();
    let content = content.strip_prefix('/').unwrap_or(content);
    match content.strip_suffix(":*") {
        Some(prefix) => vec![
            TextPattern::new(&format!("{prefix} *")),
            TextPattern::new(&format!("{prefix}:*")),
        ],
        None => vec![TextPattern::new(content)],
    }
}

/// A rule that has no effect, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// Where: a file and line, or the flag's name.
    pub place: String,
    /// The text.
    pub rule: String,
    /// The action.
    pub behavior: Behavior,
    /// Why it has no effect.
    pub error: RuleError,
}

impl std::fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.error)?;
        match self.behavior {
            Behavior::Allow => write!(f, " (the rule grants nothing)"),
            Behavior::Ask | Behavior::Deny => {
                write!(f, " (the rule stops nothing until it is fixed)")
            }
        }
    }
}

/// All rules of a session. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Arc<Vec<Arc<Rule>>>,
    /// Only policy grants: allow rules of every other source are kept and have no effect.
    only_policy_grants: bool,
    /// Well-known documentation is fetched without a question.
    documentation_hosts: bool,
}

impl RuleSet {
    /// All rules, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(AsRef::as_ref)
    }

    /// The rules of one behaviour.
    pub fn with(&self, behavior: Behavior) -> impl Iterator<Item = &Rule> {
        let only_policy = self.only_policy_grants && behavior == Behavior::Allow;
        self.iter().filter(move |rule| {
            rule.behavior == behavior && (!only_policy || rule.source == RuleSource::PolicySettings)
        })
    }

    /// Whether allow rules apply only if they come from policy.
    pub fn set_only_policy_grants(&mut self, only: bool) {
        self.only_policy_grants = only;
    }

    /// Whether allow rules apply only if they come from policy.
    #[must_use]
    pub fn only_policy_grants(&self) -> bool {
        self.only_policy_grants
    }

    /// Whether well-known documentation is fetched without a question.
    pub fn set_documentation_hosts(&mut self, pass: bool) {
        self.documentation_hosts = pass;
    }

    /// Whether well-known documentation is fetched without a question.
    #[must_use]
    pub fn documentation_hosts(&self) -> bool {
        self.documentation_hosts
    }

    /// Whether an allow rule names exactly this host, which also allows it on this machine or in a private network.
    #[must_use]
    pub fn names_host(&self, host: &str) -> bool {
        self.with(Behavior::Allow).any(|rule| match &rule.matcher {
            Matcher::Domain(pattern) => pattern.names(host),
            _ => false,
        })
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds a rule; one that is there already (same behaviour and source) is not added again.
    pub fn add(&mut self, rule: Rule) {
        let known = self.iter().any(|known| {
            known.value == rule.value
                && known.behavior == rule.behavior
                && known.source == rule.source
        });
        if !known {
            Arc::make_mut(&mut self.rules).push(Arc::new(rule));
        }
    }

    /// Adds rules from texts. Those that don't parse are returned with their source and have no effect.
    pub fn add_texts<'a>(
        &mut self,
        texts: impl IntoIterator<Item = (&'a str, String)>,
        behavior: Behavior,
        source: RuleSource,
        anchors: &Anchors,
    ) -> Vec<RuleProblem> {
        let mut problems = Vec::new();
        for (text, place) in texts {
            match parse_rule(text).and_then(|value| Rule::new(value, behavior, source, anchors)) {
                Ok(rule) => self.add(rule),
                Err(error) => {
                    problems.push(RuleProblem {
                        place,
                        rule: text.to_owned(),
                        behavior,
                        error,
                    });
                }
            }
        }
        problems
    }

    /// Has the rules hold in a worktree as in its project, and nowhere else.
    pub(crate) fn set_twins(&mut self, twins: Option<&Twins>) {
        for rule in Arc::make_mut(&mut self.rules) {
            Arc::make_mut(rule).set_twins(twins);
        }
    }

    /// Keeps the rules for which `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(&Rule) -> bool) {
        if self.iter().all(&keep) {
            return;
        }
        Arc::make_mut(&mut self.rules).retain(|rule| keep(rule));
    }

    /// Whether a deny rule takes the whole tool away.
    #[must_use]
    pub fn denies_whole(&self, tool: &str) -> bool {
        self.with(Behavior::Deny)
            .any(|rule| rule.covers_whole(&[tool]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors() -> Anchors {
        Anchors {
            home: "/h".into(),
            cwd: "/w".into(),
            settings_folder: "/w".into(),
            twins: None,
        }
    }

    fn rule(text: &str, behavior: Behavior) -> Rule {
        Rule::new(
            parse_rule(text).unwrap(),
            behavior,
            RuleSource::UserSettings,
            &anchors(),
        )
        .unwrap()
    }

    #[test]
    fn whole_tools_are_known_by_all_their_names() {
        let denies = |text: &str, tool: &str| {
            let mut rules = RuleSet::default();
            rules.add(rule(text, Behavior::Deny));
            rules.denies_whole(tool)
        };
        assert!(denies("Task", "Agent"));
        assert!(denies("KillBash", "KillShell"));
        assert!(denies("Edit", "Write"));
        assert!(denies("Edit", "NotebookEdit"));
        assert!(!denies("Write", "Edit"));
        assert!(denies("Read", "Grep"));
        assert!(denies("*", "Anything"));
        assert!(denies("mcp__a", "mcp__a__b"));
        assert!(denies("mcp__a__*", "mcp__a__b"));
        assert!(denies("mcp__a__b", "mcp__a__b"));
        assert!(denies("mcp__a__get_*", "mcp__a__get_x"));
        assert!(denies("mcp__*", "mcp__a__b"));
        assert!(!denies("mcp__a", "mcp__ab__c"));
        assert!(!denies("mcp__a__b", "mcp__a__bc"));
        assert!(!denies("Bash(rm:*)", "Bash"));
    }

    #[test]
    fn bad_rules_are_returned_with_their_place() {
        let mut rules = RuleSet::default();
        let texts = [
            ("Bash(x", "a.json:3".to_owned()),
            ("Bash(ls)", "a.json:4".to_owned()),
            ("WebFetch(x.org)", "a.json:5".to_owned()),
        ];
        let problems = rules.add_texts(
            texts.iter().map(|(text, place)| (*text, place.clone())),
            Behavior::Allow,
            RuleSource::UserSettings,
            &anchors(),
        );
        assert_eq!(rules.len(), 1);
        assert_eq!(problems.len(), 2);
        assert!(
            problems[0].to_string().starts_with("a.json:3: "),
            "{}",
            problems[0]
        );
        assert!(
            problems[1].to_string().contains("domain:"),
            "{}",
            problems[1]
        );
    }

    #[test]
    fn everything_can_be_denied_but_not_allowed_in_one_word() {
        let all = RuleValue {
            tool_name: "*".into(),
            rule_content: None,
        };
        assert!(Rule::new(all.clone(), Behavior::Deny, RuleSource::CliArg, &anchors()).is_ok());
        assert!(Rule::new(all, Behavior::Allow, RuleSource::CliArg, &anchors()).is_err());
    }

    #[test]
    fn a_word_rule_matches_the_word_or_its_prefix() {
        let skill = rule("Skill(review:*)", Behavior::Allow);
        assert!(skill.covers_word(&["Skill"], "review"));
        assert!(skill.covers_word(&["Skill"], "review pr"));
        assert!(!skill.covers_word(&["Skill"], "reviewer"));
        assert!(rule("Task(explore)", Behavior::Deny).covers_word(&["Agent"], "explore"));
    }

    #[test]
    fn adding_a_rule_twice_keeps_one() {
        let mut rules = RuleSet::default();
        rules.add(rule("Bash(ls)", Behavior::Allow));
        rules.add(rule("Bash(ls)", Behavior::Allow));
        rules.add(rule("Bash(ls)", Behavior::Deny));
        assert_eq!(rules.len(), 2);
    }
}
