//! Whether our analyser saw everything that a witness saw.

use lathe_shell::analysis::{Analysis, Argument, PartKind};

use crate::{SeenCommand, SeenWord};

/// The commands of a witness that have no counterpart in an analysis. Each of ours counts for one.
#[must_use]
pub fn overlooked<'a>(analysis: &Analysis, seen: &'a [SeenCommand]) -> Vec<&'a SeenCommand> {
    let mut ours: Vec<&[Argument]> = analysis
        .parts
        .iter()
        .filter(|part| part.kind == PartKind::Command)
        .map(|part| part.argv.as_slice())
        .collect();
    // Those that are known best choose first, lest a vaguer one takes their counterpart.
    let mut seen: Vec<&SeenCommand> = seen.iter().collect();
    seen.sort_by_key(|command| {
        let unknown = command.words.iter().filter(|word| word.value.is_none());
        let nameless = command
            .words
            .first()
            .is_none_or(|name| name.value.is_none());
        (nameless, !is_comparable(command), unknown.count())
    });
    seen.into_iter()
        .filter(
            |command| match ours.iter().position(|argv| agrees(argv, command)) {
                Some(place) => {
                    ours.swap_remove(place);
                    false
                }
                None => true,
            },
        )
        .collect()
}

/// Whether the arguments can be compared one by one. Neither witness expands braces.
fn is_comparable(command: &SeenCommand) -> bool {
    command.complete && !command.words.iter().any(|word| word.source.contains('{'))
}

fn agrees(argv: &[Argument], command: &SeenCommand) -> bool {
    if is_comparable(command) {
        argv.len() == command.words.len()
            && argv
                .iter()
                .zip(&command.words)
                .all(|(ours, theirs)| is_same(ours, theirs))
    } else {
        match (argv.first(), command.words.first()) {
            (Some(ours), Some(theirs)) => is_same(ours, theirs),
            _ => false,
        }
    }
}

/// A word of ours that isn't fixed must at least be the same piece of text, unless theirs isn't either.
fn is_same(ours: &Argument, theirs: &SeenWord) -> bool {
    match (ours, &theirs.value) {
        (Argument::Fixed(ours), Some(theirs)) => ours == theirs,
        (Argument::Variable(ours), Some(_)) => ours.source == theirs.source,
        (_, None) => true,
    }
}
