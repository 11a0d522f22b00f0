//! The text of a rule: `Tool` or `Tool(content)`.
//!
//! The content runs from the first unescaped `(` to the closing `)` at the very end, so parentheses
//! inside need no escapes where they are balanced by eye: `Bash(python -c "print(1)")`. `\(`, `\)` and
//! `\\` stand for the characters themselves; every other backslash is kept, because shell commands
//! and path patterns have escapes of their own. [`format_rule`] writes a text that [`parse_rule`] reads
//! back to the same value.

use lathe_protocol::permission::RuleValue;

/// Why a text is not a rule. Such a rule grants nothing and forbids nothing; the reader reports it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing there.
    #[error("an empty rule; write Tool or Tool(content), such as Bash(npm run test:*)")]
    Empty,
    /// `(content)` without a tool.
    #[error("`{0}` names no tool; write Tool(content), such as Read(~/notes/**)")]
    NoTool(String),
    /// A `(` without its `)` at the end.
    #[error("`{0}` has no closing parenthesis at its end")]
    Unclosed(String),
    /// A `)` without a `(`.
    #[error("`{0}` has a closing parenthesis without an opening one")]
    Unopened(String),
    /// Characters that no tool's name has.
    #[error(
        "`{0}` is not a tool's name; names have letters, digits, `_`, `-`, `.` and, for MCP tools, `*`"
    )]
    BadName(String),
    /// A known tool in another spelling.
    #[error("unknown tool `{written}`; did you mean `{meant}`?")]
    Misspelt {
        /// As written.
        written: String,
        /// As it should be.
        meant: &'static str,
    },
    /// An MCP rule with a content.
    #[error("`{0}`: rules for MCP tools take no content; name the tool, such as mcp__server__tool")]
    McpContent(String),
    /// `*` as an allow rule.
    #[error(
        "`{0}` would allow every tool; use the permission mode bypassPermissions if that is meant"
    )]
    AllowsEverything(String),
    /// A content that the tool's rules can't have.
    #[error("`{rule}`: {problem}")]
    BadContent {
        /// The rule.
        rule: String,
        /// The problem.
        problem: String,
    },
}

/// Tools whose rules are understood by content, in their usual spelling. A rule that differs from
/// one of these only by case would silently never match, so it is an error.
const KNOWN_TOOLS: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashInput",
    "BashOutput",
    "Config",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "LSP",
    "LSPEdit",
    "ListAgents",
    "ListMcpResources",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "ReadMcpResource",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "Sleep",
    "SlashCommand",
    "StructuredOutput",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

/// Older and newer names of one tool. A rule may use any of them.
const SAME_TOOL: &[&[&str]] = &[
    &["Agent", "Task"],
    &["BashOutput", "TaskOutput", "AgentOutput"],
    &["KillShell", "TaskStop", "KillBash"],
    &["Skill", "SlashCommand"],
    &["ListMcpResources", "ListMcpResourcesTool"],
    &["ReadMcpResource", "ReadMcpResourceTool"],
];

/// The names of all tools that rules and definitions may mean, but for those of MCP servers.
pub fn known_tools() -> impl Iterator<Item = &'static str> {
    let others = SAME_TOOL.iter().flat_map(|names| names.iter());
    KNOWN_TOOLS.iter().chain(others).copied()
}

/// All names under which rules know a tool, its own included.
pub(crate) fn names_of(tool: &str) -> impl Iterator<Item = &str> {
    let others = SAME_TOOL
        .iter()
        .find(|names| names.contains(&tool))
        .copied()
        .unwrap_or_default();
    std::iter::once(tool).chain(others.iter().copied().filter(move |name| *name != tool))
}

/// Reads a rule.
///
/// # Errors
/// When the text is not a rule; the error says what to write instead.
pub fn parse_rule(text: &str) -> Result<RuleValue, RuleError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(RuleError::Empty);
    }
    let open = first_unescaped(text, '(');
    let (name, content) = match open {
        None => {
            if first_unescaped(text, ')').is_some() {
                return Err(RuleError::Unopened(text.to_owned()));
            }
            (text, None)
        }
        Some(open) => {
            if !ends_unescaped(text, ')') {
                return Err(RuleError::Unclosed(text.to_owned()));
            }
            (&text[..open], Some(&text[open + 1..text.len() - 1]))
        }
    };
    if name.is_empty() {
        return Err(RuleError::NoTool(text.to_owned()));
    }
    check_name(name)?;
    let content = content
        .map(unescape)
        .filter(|content| !content.trim().is_empty() && content != "*");
    if name.starts_with("mcp__") && content.is_some() {
        return Err(RuleError::McpContent(text.to_owned()));
    }
    Ok(RuleValue {
        tool_name: name.to_owned(),
        rule_content: content,
    })
}

/// Writes a rule so that [`parse_rule`] reads the same back.
#[must_use]
pub fn format_rule(rule: &RuleValue) -> String {
    let Some(content) = &rule.rule_content else {
        return rule.tool_name.clone();
    };
    let mut text = String::with_capacity(rule.tool_name.len() + content.len() + 2);
    text.push_str(&rule.tool_name);
    text.push('(');
    for character in content.chars() {
        if matches!(character, '(' | ')' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push(')');
    text
}

/// Reads a list of rules, separated by commas or blanks outside parentheses, as `--allowedTools`
/// and `--disallowedTools` take it. Each entry is a rule or the reason why it is none.
#[must_use]
pub fn parse_rule_list(text: &str) -> Vec<Result<RuleValue, RuleError>> {
    split_list(text).into_iter().map(parse_rule).collect()
}

/// Cuts at commas and blanks that stand outside parentheses.
fn split_list(text: &str) -> Vec<&str> {
    let mut entries = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match character {
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && (character == ',' || character.is_whitespace()) => {
                entries.push(&text[start..index]);
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    entries.push(&text[start..]);
    entries.retain(|entry| !entry.trim().is_empty());
    entries
}

fn check_name(name: &str) -> Result<(), RuleError> {
    if name == "*" {
        return Ok(());
    }
    let fine = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '_' | '-' | '.' | ':' | '/')
            || (character == '*' && name.starts_with("mcp__"))
    };
    if !name.chars().all(fine)
        || !name.starts_with(|first: char| first.is_alphabetic() || first == '_')
    {
        return Err(RuleError::BadName(name.to_owned()));
    }
    let known = KNOWN_TOOLS
        .iter()
        .find(|known| known.eq_ignore_ascii_case(name));
    match known {
        Some(meant) if *meant != name => Err(RuleError::Misspelt {
            written: name.to_owned(),
            meant,
        }),
        Some(_) => Ok(()),
        // A rule for a tool that doesn't exist would silently never match.
        None if known_tools().any(|known| known == name) => Ok(()),
        None => match known_tools().find(|known| is_slip(name, known)) {
            Some(meant) => Err(RuleError::Misspelt {
                written: name.to_owned(),
                meant,
            }),
            None => Ok(()),
        },
    }
}

/// Whether a word is another with one letter more, less or changed, or with two that changed places.
fn is_slip(written: &str, meant: &str) -> bool {
    let (written, meant) = (written.as_bytes(), meant.as_bytes());
    let start = written
        .iter()
        .zip(meant)
        .take_while(|(one, other)| one == other);
    let start = start.count();
    let (written, meant) = (&written[start..], &meant[start..]);
    let end = written.iter().rev().zip(meant.iter().rev());
    let end = end.take_while(|(one, other)| one == other).count();
    let written = &written[..written.len() - end];
    let meant = &meant[..meant.len() - end];
    match (written, meant) {
        ([_], [] | [_]) | ([], [_]) => true,
        ([first, second], [one, other]) => first == other && second == one,
        _ => false,
    }
}

fn first_unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == wanted {
            return Some(index);
        }
    }
    None
}

fn ends_unescaped(text: &str, wanted: char) -> bool {
    let Some(before) = text.strip_suffix(wanted) else {
        return false;
    };
    let backslashes = before
        .chars()
        .rev()
        .take_while(|character| *character == '\\')
        .count();
    backslashes % 2 == 0
}

fn unescape(content: &str) -> String {
    let mut text = String::with_capacity(content.len());
    let mut characters = content.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some(&escaped @ ('(' | ')' | '\\'))) => {
                characters.next();
                text.push(escaped);
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Option<String>) {
        let rule = parse_rule(text).unwrap();
        (rule.tool_name, rule.rule_content)
    }

    #[test]
    fn a_tool_that_is_mistyped_is_named_and_others_are_taken() {
        for (written, meant) in [
            ("Bahs(rm:*)", "Bash"),
            ("bash", "Bash"),
            ("Reed", "Read"),
            ("WebFetc", "WebFetch"),
            ("Edits", "Edit"),
        ] {
            let error = parse_rule(written).unwrap_err().to_string();
            assert!(error.contains(&format!("`{meant}`")), "{written}: {error}");
        }
        for fine in [
            "KillBash",
            "PowerShell",
            "TodoRead",
            "mcp__x__y",
            "Workflow",
            "*",
        ] {
            assert!(parse_rule(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn content_survives_parentheses_and_escapes() {
        let with = |content: &str| ("Bash".to_owned(), Some(content.to_owned()));
        assert_eq!(
            parsed(r#"Bash(python -c "print\(1\)")"#),
            with(r#"python -c "print(1)""#)
        );
        assert_eq!(
            parsed(r#"Bash(python -c "print(1)")"#),
            with(r#"python -c "print(1)""#)
        );
        assert_eq!(parsed(r"Bash(grep a\.b)"), with(r"grep a\.b"));
        assert_eq!(parsed(r"Bash(echo \\)"), with(r"echo \"));
        assert_eq!(parsed("Bash(npm run test:*)"), with("npm run test:*"));
    }

    #[test]
    fn a_star_or_nothing_as_content_means_the_whole_tool() {
        for text in ["Bash", "Bash(*)", "Bash()", " Bash ", "Bash( )"] {
            assert_eq!(parsed(text), ("Bash".to_owned(), None), "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_an_error_that_says_so() {
        assert_eq!(parse_rule("  "), Err(RuleError::Empty));
        assert!(matches!(parse_rule("(x)"), Err(RuleError::NoTool(_))));
        assert!(matches!(
            parse_rule("Bash(npm"),
            Err(RuleError::Unclosed(_))
        ));
        assert!(matches!(
            parse_rule("Bash(npm) x"),
            Err(RuleError::Unclosed(_))
        ));
        assert!(matches!(
            parse_rule(r"Bash(npm\)"),
            Err(RuleError::Unclosed(_))
        ));
        assert!(matches!(parse_rule("Bash)"), Err(RuleError::Unopened(_))));
        assert!(matches!(parse_rule("Ba sh"), Err(RuleError::BadName(_))));
        assert!(matches!(
            parse_rule("mcp__a__b(c)"),
            Err(RuleError::McpContent(_))
        ));
        let error = parse_rule("bash(rm:*)").unwrap_err().to_string();
        assert!(error.contains("`Bash`"), "{error}");
    }

    #[test]
    fn lists_are_cut_outside_parentheses_only() {
        let rules: Vec<String> = parse_rule_list("Bash(git log:*),Read Edit(/src/**), mcp__x__*")
            .into_iter()
            .map(|rule| format_rule(&rule.unwrap()))
            .collect();
        assert_eq!(
            rules,
            ["Bash(git log:*)", "Read", "Edit(/src/**)", "mcp__x__*"]
        );
        assert!(parse_rule_list(" , ").is_empty());
        assert!(parse_rule_list("Bash(a, Read")[0].is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_is_formatted_parses_back(content in "[ -~]{1,40}") {
            proptest::prop_assume!(!content.trim().is_empty() && content != "*");
            let rule = RuleValue { tool_name: "Bash".into(), rule_content: Some(content) };
            proptest::prop_assert_eq!(parse_rule(&format_rule(&rule)).unwrap(), rule);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,60}") {
            let _ = parse_rule(&text);
            let _ = parse_rule_list(&text);
        }
    }
}
