//! A word that was meant as a command is not sent to a model.
//!
//! `lathe isntall` parses as a prompt. It would start a conversation that costs money, so a single word that
//! is close to the name of a command, or names a command that other agents have, is an error instead.

use crate::arguments::{Command, SessionArguments};
use crate::error::CliError;
use clap::Subcommand as _;
use lathe_settings::nearest::nearest;

/// The command that every program has, and those of other agents that people try.
const ELSEWHERE: [&str; 7] = ["help", "auth", "chat", "exec", "init", "run", "serve"];

/// Commands of other programs that have another name here.
const RENAMED: [(&str, &str); 7] = [
    ("continue", "--continue"),
    ("remove", "uninstall"),
    ("resume", "--resume"),
    ("self-update", "update"),
    ("selfupdate", "update"),
    ("upgrade", "update"),
    ("version", "--version"),
];

/// Refuses a prompt that looks like a mistyped command. A word after `--`, a prompt of several words and the
/// prompt of `-p` are always prompts.
///
/// # Errors
/// Naming the commands that are near.
pub(crate) fn check(arguments: &SessionArguments) -> Result<(), CliError> {
    let after_dashes = std::env::args_os().any(|word| word == "--");
    match arguments.prompt.as_deref() {
        Some(word) if !arguments.output.print && !after_dashes => judge(word),
        _ => Ok(()),
    }
}

fn judge(word: &str) -> Result<(), CliError> {
    let is_name = word.len() > 2
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    if !is_name {
        return Ok(());
    }
    let lower = word.to_ascii_lowercase();
    // The session's flags are not needed here.
    let command = Command::augment_subcommands(clap::Command::new("lathe"));
    let own: Vec<&str> = command
        .get_subcommands()
        .flat_map(|command| std::iter::once(command.get_name()).chain(command.get_all_aliases()))
        .collect();
    let renamed = RENAMED.iter().find(|(name, _)| *name == lower);
    let meant = match renamed {
        Some((_, meant)) => Some(*meant),
        None => match nearest(&lower, own.iter().copied().chain(ELSEWHERE)) {
            Some(near) => own.iter().copied().find(|name| *name == near),
            None => return Ok(()),
        },
    };
    let mut error = CliError::usage(format!("there is no command '{word}'"));
    if let Some(meant) = meant {
        error = error.hint(format!("did you mean: lathe {meant}"));
    }
    Err(error.hint(format!("to send the word as a prompt: lathe -- {word}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_near_a_command_are_refused_and_others_are_prompts() {
        for word in [
            "updte", "serve", "isntall", "docter", "session", "plugn", "hlep", "memroy", "Update",
            "INSTALL", "upgrade", "resume", "version",
        ] {
            assert!(judge(word).is_err(), "{word}");
        }
        let hints = judge("Upgrade").unwrap_err().to_string();
        assert!(hints.contains("lathe update"), "{hints}");
        for prompt in [
            "hello", "why", "explain", "fix it", "Doctor!", "ls", "refactor", "tests", "Hello",
            "lint",
        ] {
            assert!(judge(prompt).is_ok(), "{prompt}");
        }
    }
}
