//! The command line, declared once: `--help`, the man page and the shell completions come from here.
//!
//! The flags of a session are in `session`, the subcommands in `commands`, values and their parsers in `values`.
//! Flags that other tools of this ecosystem spell in camel case are accepted in both spellings.

mod commands;
mod session;
pub(crate) mod values;

use clap::{CommandFactory as _, Parser};
use std::ffi::OsString;

pub(crate) use commands::*;
pub(crate) use session::*;
pub(crate) use values::{
    InputFormat, OutputFormat, PermissionPrompts, ThinkingDisplayWord, ThinkingWord, agents_json,
};

/// Examples at the end of `--help`.
const EXAMPLES: &str = "\
Examples:
  lathe demo                                   watch the engine fix a failing test; needs no key
  lathe -p \"why does the build fail?\"          print one answer and exit
  git diff | lathe -p \"review this\"            a prompt with piped text
  lathe -p \"fix the tests\" --permission-mode acceptEdits --allowedTools \"Bash(cargo test:*)\"
  lathe -p \"go on\" --continue                  resume the newest session of this folder
  lathe -p \"list the TODOs\" --output-format json | jq -r .result

Exit codes: 0 success · 1 the turn or the session failed · 2 wrong usage · 3 no key · 130 interrupted · 143 terminated

Environment: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL, ANTHROPIC_MODEL, LATHE_CONFIG_DIR, …
(`lathe config env` lists all)";

/// A terminal agent harness: wraps a language model with tools, permissions and sessions.
#[derive(Debug, Parser)]
#[command(
    name = "lathe",
    version,
    about,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = false,
    disable_version_flag = true
)]
pub(crate) struct Arguments {
    /// Print the version.
    #[arg(short = 'v', short_alias = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) session: SessionArguments,
}

/// Commands that run a session, whose flags may stand before them.
const RUN_A_SESSION: [&str; 3] = ["acp", "review", "workflow"];

/// Reads a command line.
pub(crate) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let words = with_overrides(arguments);
    let Some(at) = session_command(&words) else {
        return Arguments::try_parse_from(words);
    };
    let session = Arguments::try_parse_from(&words[..at])?.session;
    let command = Arguments::try_parse_from(words[..1].iter().chain(&words[at..]))?.command;
    Ok(Arguments {
        version: None,
        command,
        session,
    })
}

/// Where a command that runs a session follows flags of the session. With `--print` its name is a prompt.
fn session_command(words: &[OsString]) -> Option<usize> {
    let is_named = |word: &OsString| RUN_A_SESSION.iter().any(|name| word == name);
    let at = words.iter().position(is_named).filter(|at| *at > 1)?;
    let declared = Arguments::command();
    let mut before = words[1..at].iter().map(|word| word.to_str()).peekable();
    while let Some(word) = before.next() {
        let flag = word?;
        if matches!(flag, "-p" | "--print") || !flag.starts_with('-') {
            return None;
        }
        if flag.contains('=') {
            continue;
        }
        let argument = declared.get_arguments().find(|it| is_flag(it, flag))?;
        if !argument.get_action().takes_values() {
            continue;
        }
        let needed = argument
            .get_num_args()
            .map_or(1, |range| range.min_values());
        if needed > 0 {
            before.next()?;
        } else {
            before.next_if(|next| next.is_some_and(|next| !next.starts_with('-')));
        }
    }
    Some(at)
}

fn is_flag(argument: &clap::Arg, flag: &str) -> bool {
    if let Some(name) = flag.strip_prefix("--") {
        argument.get_long() == Some(name)
            || argument
                .get_all_aliases()
                .is_some_and(|aliases| aliases.contains(&name))
    } else {
        let short = flag.strip_prefix('-').and_then(|rest| rest.parse().ok());
        short.is_some() && argument.get_short() == short
    }
}

/// The arguments with `-c key=value` as `--config key=value`: `-c` alone is `--continue`.
fn with_overrides(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let end = arguments
        .iter()
        .position(|argument| argument == "--")
        .unwrap_or(arguments.len());
    for index in 1..end {
        let next = arguments.get(index + 1).and_then(|next| next.to_str());
        if arguments[index] == "-c" && next.is_some_and(values::is_override) {
            arguments[index] = "--config".into();
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn both_spellings_and_both_forms_are_accepted() {
        let parse = |args: &[&str]| {
            Arguments::try_parse_from([&["lathe", "-p", "x"], args].concat())
                .unwrap()
                .session
        };
        for args in [
            &["--allowedTools", "Read,Edit"][..],
            &["--allowed-tools", "Read,Edit"],
            &["--allowedTools=Read,Edit"],
        ] {
            assert_eq!(parse(args).permissions.allowed_tools, ["Read,Edit"]);
        }
        assert_eq!(
            parse(&["--tools", ""]).permissions.tools.as_deref(),
            Some("")
        );
        assert_eq!(
            parse(&["--system-prompt=-x"])
                .system
                .system_prompt
                .as_deref(),
            Some("-x")
        );
        assert_eq!(
            parse(&["--setting-sources="])
                .settings
                .setting_sources
                .as_deref(),
            Some("")
        );
        assert_eq!(
            parse(&["--resume=abc"]).session.resume.as_deref(),
            Some("abc")
        );
        assert_eq!(parse(&["--debug"]).log.debug.as_deref(), Some(""));
        assert_eq!(
            parse(&["--debug=lathe_model=trace"]).log.debug.as_deref(),
            Some("lathe_model=trace")
        );
    }

    #[test]
    fn flags_of_a_session_may_stand_before_a_command_that_runs_one() {
        let parse = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            read([OsString::from("lathe")].into_iter().chain(words))
        };
        for line in [
            "--model opus review",
            "--model=opus -d review main",
            "--model opus --allowed-tools Read workflow run research",
            "--model opus acp",
        ] {
            let read = parse(line).unwrap();
            assert!(read.command.is_some(), "{line}");
            assert_eq!(read.session.model.model.as_deref(), Some("opus"), "{line}");
        }
        let prompt = parse("-p review").unwrap();
        assert!(prompt.command.is_none());
        assert_eq!(prompt.session.prompt.as_deref(), Some("review"));
        let value = parse("--model acp").unwrap();
        assert_eq!(value.session.model.model.as_deref(), Some("acp"));
        assert!(parse("--model opus workflow nothing").is_err());
        assert!(parse("--no-such-flag acp").is_err());
    }

    #[test]
    fn a_short_c_with_a_key_sets_it_and_continues_otherwise() {
        let parse = |args: &[&str]| {
            let words = args.iter().map(OsString::from);
            Arguments::try_parse_from(with_overrides(
                [OsString::from("lathe")].into_iter().chain(words),
            ))
            .unwrap()
            .session
        };
        let both = parse(&[
            "-p",
            "x",
            "-c",
            "model=opus",
            "-c",
            "permissions.allow=[\"Read\"]",
        ]);
        assert_eq!(both.settings.config.len(), 2);
        assert!(!both.session.continue_session);
        let plain = parse(&["-p", "-c", "go on: a=b"]);
        assert!(plain.session.continue_session && plain.settings.config.is_empty());
        let after = parse(&["-p", "--", "-c"]);
        assert_eq!(after.prompt.as_deref(), Some("-c"));
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_right() {
        let error = Arguments::try_parse_from(["lathe", "-p", "x", "--permission-mode", "yolo"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("yolo") && error.contains("acceptEdits"),
            "{error}"
        );
        let error =
            Arguments::try_parse_from(["lathe", "-p", "x", "--max-turns", "0"]).unwrap_err();
        assert!(error.to_string().contains("max-turns"));
        let error =
            Arguments::try_parse_from(["lathe", "-p", "x", "--session-id", "mine"]).unwrap_err();
        assert!(error.to_string().contains("expected a UUID"), "{error}");
    }
}
