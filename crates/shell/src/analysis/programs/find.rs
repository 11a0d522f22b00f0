//! `find`: starting points, then an expression of tests and actions.

use super::super::argument::{Argument, PathOperand, VariableArgument};
use super::super::reading::{FolderReading, Shows};
use super::{
    Listing, Obeys, Reading, Refusal, Surroundings, Verdict, judge as judge_inner, refuse,
};

/// Tests and options without a value.
const PLAIN: &[&str] = &[
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-not",
    "!",
    "-a",
    "-and",
    "-o",
    "-or",
    "(",
    ")",
    "-depth",
    "-mount",
    "-xdev",
    "-false",
    "-true",
    "-daystart",
    "-quit",
    "-empty",
    "-executable",
    "-readable",
    "-writable",
    "-nouser",
    "-nogroup",
];

/// Tests and options with one value.
const VALUED: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-lname",
    "-ilname",
    "-type",
    "-xtype",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-samefile",
    "-fstype",
    "-used",
    "-printf",
    "-newermt",
    "-newerct",
    "-newerat",
];

pub(super) fn judge(words: &[Argument], surroundings: Surroundings<'_>) -> Verdict {
    if let [Argument::Fixed(only)] = words
        && matches!(only.as_str(), "--version" | "-version" | "--help")
    {
        return Ok(Reading::default());
    }
    let mut expression = Expression {
        words,
        position: 0,
        reading: Reading {
            shows: Shows::Names,
            ..Reading::default()
        },
        reach: FolderReading {
            enters_links: false,
            ..FolderReading::everything()
        },
        alternatives: false,
        acted: false,
        listing: Some(Listing {
            rooted: true,
            names_only: true,
            with_nul: false,
        }),
    };
    expression.starting_points()?;
    expression.tests(surroundings)?;
    let mut reading = expression.reading;
    if reading.paths.is_empty() {
        reading.paths.push(PathOperand::literal("."));
    }
    if reading.below.is_none() {
        reading.below = Some(expression.reach);
    }
    reading.lists = expression.listing;
    Ok(reading)
}

struct Expression<'a> {
    words: &'a [Argument],
    position: usize,
    reading: Reading,
    /// Which files the tests so far let through.
    reach: FolderReading,
    /// Whether tests are joined by anything but 'and'.
    alternatives: bool,
    acted: bool,
    listing: Option<Listing>,
}

impl Expression<'_> {
    fn starting_points(&mut self) -> Result<(), Refusal> {
        while let Some(word) = self.words.get(self.position) {
            match word.fixed() {
                // Links are not followed, which is the default.
                Some("-P") if self.reading.paths.is_empty() => {}
                Some(text) if text.starts_with(['-', '(', ')', ',', '!']) => break,
                _ if word.is_surely_operand() => self.reading.paths.push(word.path()),
                _ => return refuse(format!("{} could turn into an action", word.text())),
            }
            self.position += 1;
        }
        Ok(())
    }

    fn tests(&mut self, surroundings: Surroundings<'_>) -> Result<(), Refusal> {
        while let Some(word) = self.words.get(self.position) {
            let Some(text) = word.fixed() else {
                return refuse(format!("{} could turn into an action", word.text()));
            };
            self.position += 1;
            if text == "-exec" {
                self.exec(surroundings)?;
                continue;
            }
            if PLAIN.contains(&text) {
                match text {
                    "-not" | "!" | "-o" | "-or" | "(" | ")" | "-prune" => self.alternatives = true,
                    "-print0" => {
                        if let Some(listing) = &mut self.listing {
                            listing.with_nul = true;
                        }
                    }
                    "-ls" => self.listing = None,
                    _ => {}
                }
                continue;
            }
            if !VALUED.contains(&text) {
                return refuse(format!("find's {text} may change things"));
            }
            let value = match self.words.get(self.position) {
                Some(value) if value.is_one_word() => value.fixed(),
                _ => return refuse(format!("the value of {text} could become several words")),
            };
            self.position += 1;
            match (text, value) {
                ("-printf", _) => self.listing = None,
                ("-name" | "-iname", Some(name)) if !self.acted && is_plain_pattern(name) => {
                    self.reach.names.push(name.to_owned());
                }
                _ => {}
            }
        }
        // Of several names, and where something else than 'and' joins them, any file may be found.
        if self.alternatives || self.reach.names.len() > 1 {
            self.reach.names.clear();
            if let Some(below) = &mut self.reading.below {
                below.names.clear();
            }
        }
        Ok(())
    }

    /// `-exec command {} ;` where the command itself only reads, whatever file it is given.
    fn exec(&mut self, surroundings: Surroundings<'_>) -> Result<(), Refusal> {
        self.acted = true;
        self.listing = None;
        let rest = self.words.get(self.position..).unwrap_or_default();
        // `;` ends it, and so does `{} +`, whichever comes first.
        let end = rest
            .iter()
            .enumerate()
            .position(|(index, word)| match word.fixed() {
                Some(";") => true,
                Some("+") => {
                    index > 0 && rest.get(index - 1).and_then(Argument::fixed) == Some("{}")
                }
                _ => false,
            });
        let Some(end) = end else {
            return refuse("find's -exec doesn't end");
        };
        let mut argv = Vec::new();
        for word in rest.get(..end).unwrap_or_default() {
            match word.fixed() {
                // What find hands over starts with a starting point, which isn't an option.
                Some("{}") => argv.push(found_file()),
                Some(text) if text.contains("{}") => {
                    return refuse("find puts a file name inside another word");
                }
                Some(_) => argv.push(word.clone()),
                None => return refuse(format!("{} in find's -exec is not fixed", word.text())),
            }
        }
        self.position += end + 1;
        let inner = judge_inner(&argv, surroundings.deeper())?;
        if inner.obeys != Obeys::Nothing {
            self.reading.obeys = self.reading.obeys.max(inner.obeys);
        }
        let paths = inner.paths.into_iter().filter(|path| path.text != FOUND);
        self.reading.paths.extend(paths);
        self.reading.names.extend(inner.names);
        if inner.shows == Shows::Contents {
            self.reading.shows = Shows::Contents;
            // What it is given may be a folder, which it may go through by itself.
            let reach = inner.below.unwrap_or_else(|| self.reach.clone());
            self.reading.below = Some(match self.reading.below.take() {
                None => FolderReading {
                    follows_links: true,
                    ..reach
                },
                Some(_) => FolderReading::everything(),
            });
        }
        Ok(())
    }
}

fn is_plain_pattern(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._-*?".contains(&byte))
}

/// Stands for the files that are found.
const FOUND: &str = "./\u{0}found";

fn found_file() -> Argument {
    Argument::Variable(VariableArgument {
        values: Vec::new(),
        source: "{}".to_owned(),
        prefix: "./".to_owned(),
        splits: false,
        multiplies: true,
        path: PathOperand::literal(FOUND),
    })
}
