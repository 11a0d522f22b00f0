//! Programs for which a table of options is enough, each with a table of its own. The notation is that of
//! `options`.

mod archives;
mod files;
mod search;
mod system;
mod text;
pub(super) mod versions;

use super::table::Program;

pub(super) const SHELVES: [&[Program]; 5] = [
    text::PROGRAMS,
    files::PROGRAMS,
    search::PROGRAMS,
    archives::PROGRAMS,
    system::PROGRAMS,
];

/// The program of this name.
pub(super) fn program(name: &str) -> Option<&'static Program> {
    SHELVES
        .iter()
        .flat_map(|shelf| shelf.iter())
        .find(|program| program.names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::SHELVES;
    use std::collections::HashSet;

    #[test]
    fn a_name_stands_for_one_program() {
        let mut seen = HashSet::new();
        for program in SHELVES.iter().flat_map(|shelf| shelf.iter()) {
            for name in program.names {
                assert!(seen.insert(*name), "{name} has two entries");
            }
        }
    }
}
