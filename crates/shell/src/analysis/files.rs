//! Simple file commands, which 'accept edits' lets through inside the roots.

use super::argument::{Argument, PathOperand};
use super::options::{GivenOption, Order, sort};
use super::programs::in_place_files;

/// A command that does nothing but change files that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCommand {
    /// Its effect.
    pub action: FileAction,
    /// Every path it reads, creates, changes or removes. All must pass.
    pub paths: Vec<PathOperand>,
}

/// The effect of a [`FileCommand`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAction {
    /// `mkdir`
    MakeFolder,
    /// `touch`
    Touch,
    /// `mv`
    Move,
    /// `cp`
    Copy,
    /// `rm`
    Remove,
    /// `rmdir`
    RemoveFolder,
    /// `ln`
    Link,
    /// `sed -i`: an edit of the files it names.
    EditInPlace,
}

const COMMANDS: &[(&str, FileAction, &str)] = &[
    (
        "mkdir",
        FileAction::MakeFolder,
        "-p -v -m= --parents --verbose --mode=",
    ),
    (
        "touch",
        FileAction::Touch,
        "-a -c -h -m -d= -t= -r@ --no-create --date= --time= --reference@ --no-dereference",
    ),
    (
        "mv",
        FileAction::Move,
        "-f -i -n -u -v -T -t@ --force --interactive --no-clobber --update? --verbose --no-target-directory --target-directory@",
    ),
    (
        "cp",
        FileAction::Copy,
        "-a -f -i -n -p -P -r -R -d -u -v -T -x -l -s -L -H -t@ --archive --force --interactive --no-clobber --recursive \
        --update? --verbose --no-target-directory --target-directory@ --preserve? --no-preserve= --dereference --no-dereference --parents \
        --one-file-system --reflink? --sparse=",
    ),
    (
        "rm",
        FileAction::Remove,
        "-f -i -I -r -R -d -v --force --interactive? --recursive --dir --verbose --one-file-system",
    ),
    (
        "rmdir",
        FileAction::RemoveFolder,
        "-p -v --parents --verbose --ignore-fail-on-non-empty",
    ),
    (
        "ln",
        FileAction::Link,
        "-s -f -n -v -T -r -t@ --symbolic --force --no-dereference --verbose --relative --no-target-directory --target-directory@",
    ),
];

/// Whether a program is one of the file commands, whatever its arguments.
#[must_use]
pub fn is_file_program(name: &str) -> bool {
    COMMANDS.iter().any(|(known, _, _)| *known == name)
}

/// Recognises a file command by its words, wrappers taken off.
pub(super) fn file_command(argv: &[Argument]) -> Option<FileCommand> {
    let (first, words) = argv.split_first()?;
    let name = first.fixed()?;
    if name == "sed" {
        let paths = in_place_files(words)?;
        return (!paths.is_empty()).then_some(FileCommand {
            action: FileAction::EditInPlace,
            paths,
        });
    }
    let (_, action, table) = COMMANDS.iter().find(|(known, _, _)| *known == name)?;
    let sorted = sort(words, table, Order::Mixed).ok()?;
    // A name that looks like an option would be one.
    if !sorted.names.is_empty() {
        return None;
    }
    // Everything below the folder is read through its links then, which no list of names shows.
    // With `--parents` the copies come to be where their whole names say.
    let follows = |option: &GivenOption<'_>| {
        matches!(option.name.as_str(), "-L" | "--dereference" | "--parents")
    };
    if *action == FileAction::Copy && sorted.options.iter().any(follows) {
        return None;
    }
    let mut paths: Vec<PathOperand> = match action {
        // The last operand has a meaning of its own.
        FileAction::Copy | FileAction::Move | FileAction::Link => {
            let operands = sorted.operands.iter();
            operands.map(|operand| operand.path()).collect()
        }
        _ => {
            let operands = sorted.operands.iter();
            operands.flat_map(|operand| operand.paths()).collect()
        }
    };
    paths.extend(sorted.files);
    (!paths.is_empty()).then_some(FileCommand {
        action: *action,
        paths,
    })
}
