//! `xargs`: a command that gets names of files from its input.

use super::super::argument::{Argument, PathKind, PathOperand, VariableArgument};
use super::super::options::{Order, sort};
use super::super::reading::{NamesAsWords, Shows};
use super::table::only_ever_reads;
use super::{PipedNames, Reading, Surroundings, Verdict, judge as judge_inner, refuse};

const OPTIONS: &str = "-0 -r -t -x -n= -L= -P= -s= -I= --null --no-run-if-empty --max-args= --max-procs= --verbose \
    --exit --max-chars=";

/// Commands that do nothing with a word but print it, whatever it is.
const PRINTERS: &[&str] = &["echo", "basename", "dirname", "true"];

/// The command must only read whatever it is given. Words from input are bounded only where they are names that
/// a known command lists; split at blanks they are names only if no name has one.
pub(super) fn judge(words: &[Argument], surroundings: Surroundings<'_>) -> Verdict {
    let sorted = sort(words, OPTIONS, Order::OperandsLast)?;
    let Some((first, rest)) = sorted.operands.split_first() else {
        return Ok(Reading::default());
    };
    let Some(name) = first.fixed() else {
        return refuse(format!("the command {} is not fixed", first.text()));
    };
    let replaced: Vec<Option<&str>> = sorted.values("-I").collect();
    let mut argv = vec![Argument::Fixed(name.to_owned())];
    let given = given_word(surroundings.piped_names);
    let mut placed = false;
    for word in rest {
        match (word.fixed(), replaced.last()) {
            (Some(text), Some(Some(mark))) if text == *mark => {
                argv.push(given.clone());
                placed = true;
            }
            (text, Some(mark)) => {
                let inside = match (text, mark) {
                    (Some(text), Some(mark)) => mark.is_empty() || text.contains(mark),
                    _ => true,
                };
                if inside {
                    return refuse("xargs puts names inside other words");
                }
                argv.push((*word).clone());
            }
            (_, None) => argv.push((*word).clone()),
        }
    }
    if replaced
        .last()
        .is_some_and(|mark| mark.is_none_or(|mark| mark.is_empty() || name.contains(mark)))
    {
        return refuse("xargs replaces the command itself");
    }
    if replaced.is_empty() {
        argv.push(given);
        placed = true;
    }
    if PRINTERS.contains(&name) {
        return judge_inner(&argv, surroundings.deeper());
    }
    let Some(piped) = surroundings.piped_names.filter(|_| placed) else {
        if !only_ever_reads(name) {
            return refuse("it can't be known which words xargs gets from its input");
        }
        let mut inner = judge_inner(&argv, surroundings.deeper())?;
        inner.paths.retain(|path| path.kind != PathKind::Listed);
        inner.names.retain(|path| path.kind != PathKind::Listed);
        inner.paths.push(PathOperand::unbounded("words from input"));
        inner.lists = None;
        return Ok(inner);
    };
    let by_nul = sorted.has_any(&["-0", "--null"]);
    if by_nul != piped.listing.with_nul {
        if !only_ever_reads(name) {
            return refuse("names that end differently than xargs expects");
        }
        return judge(
            words,
            Surroundings {
                piped_names: None,
                ..surroundings
            },
        );
    }
    let mut inner = judge_inner(&argv, surroundings.deeper())?;
    inner.paths.retain(|path| path.kind != PathKind::Listed);
    inner.names.retain(|path| path.kind != PathKind::Listed);
    inner.paths.extend(piped.folders.iter().cloned());
    let mut below = match &inner.below {
        // It goes below what it is given by itself.
        Some(below) if inner.shows == Shows::Contents => below.clone(),
        _ => piped.reading.clone(),
    };
    below.follows_links = true;
    below.names_as_words = if !by_nul {
        NamesAsWords::Plain
    } else if piped.listing.rooted {
        NamesAsWords::Any
    } else {
        NamesAsWords::NoDash
    };
    inner.below = Some(below);
    inner.lists = None;
    Ok(inner)
}

/// The word that stands for the names.
fn given_word(piped: Option<&PipedNames>) -> Argument {
    let rooted = piped.is_some_and(|piped| piped.listing.rooted);
    Argument::Variable(VariableArgument {
        values: Vec::new(),
        source: "words from input".to_owned(),
        prefix: if rooted {
            "./".to_owned()
        } else {
            String::new()
        },
        splits: false,
        multiplies: true,
        path: PathOperand {
            kind: PathKind::Listed,
            text: ".".to_owned(),
        },
    })
}
