//! The command line, declared once: `--help`, the man page and the shell completions come from here.
//!
//! The flags of a session are in `session`, the subcommands in `commands`, values and their parsers in `values`.
//! Flags that other tools of this ecosystem spell in camel case are accepted in both spellings.

mod commands;
mod session;
pub(crate) mod values;

use clap::Parser;
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

/// The arguments with `-c key=value` as `--config key=value`: `-c` alone is `--continue`.
pub(crate) fn with_overrides(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
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
    use clap::CommandFactory as _;

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
