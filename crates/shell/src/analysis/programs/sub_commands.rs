//! Programs with sub-commands, each with a table of its own.

use super::super::argument::Argument;
use super::super::options::{Order, Sorted, sort};
use super::{Obeys, Reading, Refusal, Verdict, all_fixed, refuse};

/// A sub-command's words and its options.
pub(super) type SubCommand = (&'static str, &'static str);

/// The table of the longest sub-command that the words start with, and how many words it has.
fn find(words: &[Argument], commands: &[SubCommand]) -> Option<(usize, &'static str)> {
    let given: Vec<&str> = words.iter().map_while(Argument::fixed).collect();
    commands
        .iter()
        .filter_map(|(command, table)| {
            let parts: Vec<&str> = command.split(' ').collect();
            given.starts_with(&parts).then_some((parts.len(), *table))
        })
        .max_by_key(|(length, _)| *length)
}

/// Sorts the words after the sub-command. `everywhere` are options that each of them has.
pub(super) fn sorted<'a>(
    name: &str,
    words: &'a [Argument],
    commands: &[SubCommand],
    everywhere: &str,
) -> Result<Sorted<'a>, Refusal> {
    let Some((length, table)) = find(words, commands) else {
        let shown: Vec<&str> = words.iter().take(2).map(Argument::text).collect();
        return refuse(format!("{name} {} may change things", shown.join(" ")));
    };
    // What goes over a network must not carry what a variable or a file holds.
    if all_fixed(words).is_none() {
        return refuse(format!("{name} with a word that isn't fixed"));
    }
    let sorted = sort(
        words.get(length..).unwrap_or_default(),
        &format!("{table} {everywhere}"),
        Order::Mixed,
    )?;
    // Several of these programs don't take a word that looks like an option for a value.
    let dashed = sorted.options.iter().find(|option| {
        let value = option.word.and_then(Argument::fixed);
        value.is_some_and(|value| value.starts_with('-'))
    });
    match dashed {
        None => Ok(sorted),
        Some(option) => refuse(format!("{} could be without its value", option.name)),
    }
}

pub(super) fn judge(
    name: &str,
    words: &[Argument],
    commands: &[SubCommand],
    everywhere: &str,
    obeys: Obeys,
) -> Verdict {
    if let [Argument::Fixed(only)] = words
        && matches!(only.as_str(), "--version" | "version" | "--help" | "help")
    {
        return Ok(Reading {
            obeys,
            ..Reading::default()
        });
    }
    let sorted = sorted(name, words, commands, everywhere)?;
    Ok(Reading {
        paths: sorted.files,
        obeys,
        ..Reading::default()
    })
}
