//! From state to lines: Markdown, code, diffs, cells of the conversation, the live area. Pure functions.

pub(crate) mod ansi;
pub(crate) mod cell;
pub(crate) mod diff;
pub(crate) mod footer;
pub(crate) mod highlight;
pub(crate) mod live;
pub(crate) mod markdown;
pub(crate) mod prompt;
pub(crate) mod shell_edit;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod theme;
pub(crate) mod theme_files;
#[cfg(test)]
pub(crate) mod view_tests;
