//! Judging a program by its entry in the catalog.

use super::super::argument::{Argument, PathKind, PathOperand};
use super::super::options::{Order, Sorted, sort};
use super::super::reading::{FolderReading, Shows};
use super::catalog::{self, versions};
use super::checks;
use super::{Listing, Obeys, Reading, Refusal, Verdict, paths_of, refuse};

/// The kind of a program's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Every word is text, options included: no word changes what the program does to files.
    Text,
    /// Text, not files.
    Words,
    /// Files or folders that are read.
    Files,
    /// A pattern first, unless one of these options was given, then files.
    PatternThenFiles(&'static [&'static str]),
    /// None are allowed.
    None,
    /// At most one file; a second one would be written.
    OneFile,
}

/// A check that a table of options can't express.
pub(super) type Check = fn(&Sorted<'_>, &[Argument]) -> Result<(), Refusal>;

/// One program, under all its names.
pub(super) struct Program {
    pub(super) names: &'static [&'static str],
    pub(super) options: &'static str,
    operands: Operands,
    shows: Shows,
    /// No option it has, known here or not, does more than read files and print.
    only_ever_reads: bool,
    check: Option<Check>,
    below: Option<fn(&Sorted<'_>) -> Option<FolderReading>>,
    lists: Option<fn(&Sorted<'_>) -> Option<Listing>>,
    /// Endings that it adds to a name of which no file exists.
    endings: &'static [&'static str],
}

impl Program {
    /// A program that shows what is in the files it names.
    pub(super) const fn new(
        names: &'static [&'static str],
        operands: Operands,
        options: &'static str,
    ) -> Self {
        Self {
            names,
            options,
            operands,
            shows: Shows::Contents,
            only_ever_reads: false,
            check: None,
            below: None,
            lists: None,
            endings: &[],
        }
    }

    /// It also opens files whose names end in one of these, where the name itself is no file.
    pub(super) const fn ending(mut self, endings: &'static [&'static str]) -> Self {
        self.endings = endings;
        self
    }

    /// It shows names, sizes and dates only.
    pub(super) const fn names_only(mut self) -> Self {
        self.shows = Shows::Names;
        self
    }

    /// No option it has, known here or not, does more than read files and print. Names of files may stand where
    /// options could, and a word that could be anything makes it read any file, which is for others to judge.
    pub(super) const fn only_ever_reads(mut self) -> Self {
        self.only_ever_reads = true;
        self
    }

    pub(super) const fn checked(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Says which files below a folder it reads.
    pub(super) const fn below(mut self, below: fn(&Sorted<'_>) -> Option<FolderReading>) -> Self {
        self.below = Some(below);
        self
    }

    /// Says whether it prints names of files.
    pub(super) const fn lists(mut self, lists: fn(&Sorted<'_>) -> Option<Listing>) -> Self {
        self.lists = Some(lists);
        self
    }
}

pub(super) fn judge(name: &str, words: &[Argument]) -> Verdict {
    if let [Argument::Fixed(only)] = words
        && let Some(obeys) = versions::asks_version(name, only)
    {
        return Ok(Reading {
            obeys,
            ..Reading::default()
        });
    }
    let Some(program) = catalog::program(name) else {
        return refuse(format!("{name} may change things"));
    };
    if let [Argument::Fixed(only)] = words
        && only == "--help"
    {
        return Ok(Reading::default());
    }
    if program.operands == Operands::Text {
        if let Some(check) = program.check {
            check(&Sorted::default(), words)?;
        }
        return Ok(Reading {
            paths: listed_by_patterns(words),
            shows: program.shows,
            ..Reading::default()
        });
    }
    let with_dash = checks::with_dash(name, words);
    let words = with_dash.as_deref().unwrap_or(words);
    // Where a second operand is written, a word after the first is one to programs that don't look for
    // options there.
    let order = match program.operands {
        Operands::OneFile => Order::OperandsLast,
        _ => Order::Mixed,
    };
    let (unbounded, words) = if program.only_ever_reads {
        set_unbounded_aside(words)
    } else {
        (Vec::new(), words.to_vec())
    };
    let mut sorted = sort(&words, program.options, order)?;
    if let Some(name) = sorted.names.first().filter(|_| !program.only_ever_reads) {
        return refuse(format!("{} could turn into an option", name.text));
    }
    if let Some(check) = program.check {
        check(&sorted, &words)?;
    }
    let mut paths = operand_paths(name, program.operands, &sorted)?;
    let longer: Vec<PathOperand> = paths
        .iter()
        .flat_map(|path| {
            program.endings.iter().map(|ending| PathOperand {
                kind: path.kind,
                text: format!("{}{ending}", path.text),
            })
        })
        .collect();
    paths.extend(longer);
    if program.operands != Operands::Words {
        paths.extend(unbounded);
    }
    let below = program.below.and_then(|below| below(&sorted));
    // Without a folder among its operands it looks through this one, whatever files its options name.
    if below.is_some() && paths.is_empty() {
        paths.push(PathOperand::literal("."));
    }
    paths.append(&mut sorted.files);
    paths.append(&mut sorted.late_values);
    let lists = program.lists.and_then(|lists| lists(&sorted));
    Ok(Reading {
        paths,
        names: sorted.names,
        shows: match lists {
            Some(listing) if listing.names_only => Shows::Names,
            _ => program.shows,
        },
        below,
        lists,
        obeys: Obeys::Nothing,
    })
}

/// The patterns among words that are only printed: they list the files that they match.
pub(super) fn listed_by_patterns(words: &[Argument]) -> Vec<PathOperand> {
    words
        .iter()
        .filter(|word| match word {
            Argument::Fixed(_) => false,
            Argument::Variable(variable) => variable.multiplies || !variable.values.is_empty(),
        })
        .flat_map(Argument::paths)
        .filter(|path| {
            matches!(path.kind, PathKind::Pattern | PathKind::HomePattern)
                && !path.text.contains('{')
        })
        .collect()
}

/// Takes out the words that could become any option or file: the command then reads any file.
fn set_unbounded_aside(words: &[Argument]) -> (Vec<PathOperand>, Vec<Argument>) {
    let mut unbounded = Vec::new();
    let mut kept = Vec::new();
    for word in words {
        match word {
            Argument::Variable(variable)
                if !word.is_surely_operand()
                    && !word.is_names_of_files()
                    && !variable.prefix.starts_with('-') =>
            {
                unbounded.push(PathOperand::unbounded(variable.source.clone()));
            }
            _ => kept.push(word.clone()),
        }
    }
    (unbounded, kept)
}

/// Whether a program takes whatever words it is given, and does no more than read.
pub(super) fn only_ever_reads(name: &str) -> bool {
    catalog::program(name).is_some_and(|program| program.only_ever_reads)
}

fn operand_paths(
    name: &str,
    operands: Operands,
    sorted: &Sorted<'_>,
) -> Result<Vec<PathOperand>, Refusal> {
    match operands {
        Operands::Words | Operands::Text => Ok(Vec::new()),
        Operands::None if sorted.operands.is_empty() => Ok(Vec::new()),
        Operands::None => refuse(format!("{name} with an operand can change a setting")),
        Operands::Files => Ok(paths_of(&sorted.operands)),
        Operands::OneFile => match sorted.operands.as_slice() {
            [] => Ok(Vec::new()),
            [only] if only.is_one_word() => Ok(paths_of([only])),
            _ => refuse(format!("{name} writes to its second operand")),
        },
        Operands::PatternThenFiles(instead) => {
            let skip = usize::from(!sorted.has_any(instead)).min(sorted.operands.len());
            let pattern = sorted.operands.first().filter(|_| skip == 1);
            if pattern.is_some_and(|pattern| !pattern.is_one_word()) {
                // The pattern could become several words: every word may be a file.
                return Ok(paths_of(&sorted.operands));
            }
            Ok(paths_of(sorted.operands.get(skip..).unwrap_or_default()))
        }
    }
}
