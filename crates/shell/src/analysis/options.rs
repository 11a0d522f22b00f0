//! Reading a command's words as options and operands, by a table of the options that are known.
//!
//! A table is a string of entries separated by blanks:
//!
//! | entry | meaning |
//! |---|---|
//! | `-x` | a flag; several can be combined (`-xy`) |
//! | `-x=` | takes a value, attached or as the next word |
//! | `-x?` | takes a value only when attached |
//! | `-x@` | takes a file that is read, attached or as the next word |
//! | `-#` | digits, as in `head -20` |
//! | `--long`, `--long=`, `--long?`, `--long@` | the same for long options |
//!
//! A table belongs to one program. Only whole names match: many programs accept any unambiguous beginning
//! of a long option, so an abbreviation of a harmless option isn't known here, and neither is one of a
//! harmful option. An option that isn't in the table makes the command not understood.

use super::argument::{Argument, PathOperand};
use super::programs::Refusal;

/// A command's words, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted<'a> {
    /// The options in order.
    pub(super) options: Vec<GivenOption<'a>>,
    /// Everything else.
    pub(super) operands: Vec<&'a Argument>,
    /// Files named by options.
    pub(super) files: Vec<PathOperand>,
    /// Operands that become names of files: none of these may look like an option.
    pub(super) names: Vec<PathOperand>,
    /// Values of options that stand after an operand. Where options end at the first operand, as everywhere but
    /// with GNU's programs, these are operands too.
    pub(super) late_values: Vec<PathOperand>,
    /// How many operands stand before `--`, where it is given.
    pub(super) before_dashes: Option<usize>,
}

/// An option with its value.
#[derive(Debug)]
pub(super) struct GivenOption<'a> {
    /// `-x` or `--long`.
    pub(super) name: String,
    /// The value, where it is a word of its own or could not be decoded.
    pub(super) word: Option<&'a Argument>,
    /// The value, where it is attached.
    pub(super) attached: Option<String>,
}

impl<'a> GivenOption<'a> {
    fn new(name: String, word: Option<&'a Argument>, attached: Option<String>) -> Self {
        Self {
            name,
            word,
            attached,
        }
    }

    /// The value, where it is fixed.
    pub(super) fn value(&self) -> Option<&str> {
        self.attached
            .as_deref()
            .or_else(|| self.word.and_then(Argument::fixed))
    }
}

impl Sorted<'_> {
    /// Whether an option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// Whether one of several options was given.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    /// The fixed values of an option.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = Option<&str>> {
        self.options
            .iter()
            .filter(move |option| option.name == name)
            .map(GivenOption::value)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    Attached,
    File,
}

fn lookup(table: &str, name: &str) -> Option<Takes> {
    table.split_ascii_whitespace().find_map(|entry| {
        let rest = entry.strip_prefix(name)?;
        match rest {
            "" => Some(Takes::Nothing),
            "=" => Some(Takes::Value),
            "?" => Some(Takes::Attached),
            "@" => Some(Takes::File),
            _ => None,
        }
    })
}

/// How words that aren't options end the options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Options can stand after operands.
    Mixed,
    /// The first operand ends the options, as with commands that run commands.
    OperandsLast,
}

/// Sorts words by a table. The reason says which word isn't known to be harmless.
pub(super) fn sort<'a>(
    words: &'a [Argument],
    table: &str,
    order: Order,
) -> Result<Sorted<'a>, Refusal> {
    let mut sorted = Sorted::default();
    let mut position = 0;
    while let Some(word) = words.get(position) {
        position += 1;
        let Some(text) = word.fixed() else {
            if let Some(name) = known_option_with_value(word, table) {
                sorted
                    .options
                    .push(GivenOption::new(name, Some(word), None));
                continue;
            }
            if word.is_names_of_files() {
                sorted.names.push(word.path());
            } else if !word.is_surely_operand() {
                return Err(Refusal::new(format!(
                    "{} could turn into an option",
                    word.text()
                )));
            }
            sorted.operands.push(word);
            if order == Order::OperandsLast {
                break;
            }
            continue;
        };
        if text == "--" {
            sorted.before_dashes = Some(sorted.operands.len());
            break;
        }
        if !text.starts_with('-') || text == "-" {
            sorted.operands.push(word);
            if order == Order::OperandsLast {
                break;
            }
            continue;
        }
        let after = position;
        if text.starts_with("--") {
            long_option(text, words, &mut position, table, &mut sorted)?;
        } else {
            short_options(text, words, &mut position, table, &mut sorted)?;
        }
        if !sorted.operands.is_empty() {
            let values = words.get(after..position).unwrap_or_default();
            sorted.late_values.extend(values.iter().map(Argument::path));
        }
    }
    sorted
        .operands
        .extend(words.get(position..).unwrap_or_default());
    Ok(sorted)
}

/// The option in a word such as `--since="$x"`, whose name and kind are known though its value isn't.
fn known_option_with_value(word: &Argument, table: &str) -> Option<String> {
    let Argument::Variable(variable) = word else {
        return None;
    };
    let (name, _) = variable.prefix.split_once('=')?;
    // Several words that all start like this are the same option several times.
    let whole = name.starts_with("--") && !variable.splits;
    let takes = whole.then(|| lookup(table, name)).flatten()?;
    matches!(takes, Takes::Value | Takes::Attached).then(|| name.to_owned())
}

fn long_option<'a>(
    text: &str,
    words: &'a [Argument],
    position: &mut usize,
    table: &str,
    sorted: &mut Sorted<'a>,
) -> Result<(), Refusal> {
    let (name, attached) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let unknown = || Refusal::new(format!("option {name} isn't known to be harmless"));
    match (lookup(table, name).ok_or_else(unknown)?, attached) {
        (Takes::Nothing, None) | (Takes::Attached, None) => {
            sorted
                .options
                .push(GivenOption::new(name.to_owned(), None, None));
        }
        (Takes::Nothing, Some(_)) => {
            return Err(Refusal::new(format!("option {name} takes no value")));
        }
        (kind, Some(value)) => {
            if kind == Takes::File {
                sorted.files.push(PathOperand::literal(value));
            }
            sorted.options.push(GivenOption::new(
                name.to_owned(),
                None,
                Some(value.to_owned()),
            ));
        }
        (kind, None) => {
            let value = next_value(words, position, name)?;
            if kind == Takes::File {
                sorted.files.push(value.path());
            }
            sorted
                .options
                .push(GivenOption::new(name.to_owned(), Some(value), None));
        }
    }
    Ok(())
}

fn short_options<'a>(
    text: &str,
    words: &'a [Argument],
    position: &mut usize,
    table: &str,
    sorted: &mut Sorted<'a>,
) -> Result<(), Refusal> {
    let letters = text.get(1..).unwrap_or_default();
    if letters.bytes().all(|byte| byte.is_ascii_digit()) && lookup(table, "-#").is_some() {
        return Ok(());
    }
    for (index, letter) in letters.char_indices() {
        let name = format!("-{letter}");
        let rest = letters.get(index + letter.len_utf8()..).unwrap_or_default();
        let Some(kind) = lookup(table, &name) else {
            return Err(Refusal::new(format!(
                "option {name} isn't known to be harmless"
            )));
        };
        match kind {
            Takes::Nothing => sorted.options.push(GivenOption::new(name, None, None)),
            Takes::Attached => {
                sorted
                    .options
                    .push(GivenOption::new(name, None, Some(rest.to_owned())));
                return Ok(());
            }
            Takes::Value | Takes::File if rest.is_empty() => {
                let value = next_value(words, position, &name)?;
                if kind == Takes::File {
                    sorted.files.push(value.path());
                }
                sorted
                    .options
                    .push(GivenOption::new(name, Some(value), None));
            }
            Takes::Value | Takes::File => {
                if kind == Takes::File {
                    sorted.files.push(PathOperand::literal(rest));
                }
                sorted
                    .options
                    .push(GivenOption::new(name, None, Some(rest.to_owned())));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn next_value<'a>(
    words: &'a [Argument],
    position: &mut usize,
    name: &str,
) -> Result<&'a Argument, Refusal> {
    let Some(value) = words.get(*position) else {
        return Err(Refusal::new(format!("option {name} without its value")));
    };
    if !value.is_one_word() {
        return Err(Refusal::new(format!(
            "{} could become several words",
            value.text()
        )));
    }
    *position += 1;
    Ok(value)
}
