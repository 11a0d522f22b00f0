//! The instructions of a run by crate and function, from a profile that cachegrind wrote.

use crate::counts::Part;
use std::collections::BTreeMap;

/// The crates of a profile, each with its functions. A program without symbols has only `others`.
#[must_use]
pub fn by_crate(profile: &str) -> BTreeMap<String, Part> {
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    let mut function = "";
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if let Some((_, count)) = cost(line) {
            *functions.entry(function).or_default() += count;
        }
    }
    let mut crates: BTreeMap<String, Part> = BTreeMap::new();
    for (name, count) in functions {
        let part = crates.entry(crate_of(name).to_owned()).or_default();
        part.count += count;
        part.functions.push((count, name.to_owned()));
    }
    crates
}

/// A line with a number of a source line and a count.
fn cost(line: &str) -> Option<(u64, u64)> {
    let (place, count) = line.split_once(' ')?;
    Some((place.parse().ok()?, count.trim().parse().ok()?))
}

/// The crate whose function it is: `<lathe_a::B as core::C>::d` and `lathe_a::b::{closure#0}` are of `lathe_a`.
fn crate_of(function: &str) -> &str {
    let mut plain = function;
    loop {
        let shorter = plain.trim_start_matches(['<', '&', '_', '*', '(', '[']);
        let words = ["mut ", "const ", "dyn "].into_iter();
        let shorter = words.fold(shorter, |rest, word| {
            rest.strip_prefix(word).unwrap_or(rest)
        });
        if shorter == plain {
            break;
        }
        plain = shorter;
    }
    let is_name = |name: &str| {
        let mut characters = name.chars();
        characters.next().is_some_and(char::is_alphabetic)
            && characters.all(|character| character.is_alphanumeric() || character == '_')
    };
    match plain.split_once("::") {
        Some((name, _)) if is_name(name) => name,
        _ => "others",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_put_together_by_crate() {
        let profile = "desc: I1 cache\ncmd: lathe -p hi\nevents: Ir\nfl=???\nfn=lathe_a::b::{{closure}}\n0 70\n12 5\n\
                       fn=<lathe_a::C as core::fmt::Display>::fmt\n0 25\nfn=memcpy\n0 8\nfn=???\n0 2\nsummary: 110\n";
        let crates = by_crate(profile);
        let counts: Vec<(&str, u64)> = crates
            .iter()
            .map(|(name, part)| (name.as_str(), part.count))
            .collect();
        assert_eq!(counts, [("lathe_a", 100), ("others", 10)]);
        let functions = &crates["lathe_a"].functions;
        assert!(functions.contains(&(75, "lathe_a::b::{{closure}}".to_owned())));
    }

    #[test]
    fn generic_code_counts_for_the_crate_that_it_is_written_in() {
        for (function, name) in [
            ("<dyn lathe_a::B>::c", "lathe_a"),
            ("<&mut serde_json::ser::S as serde::X>::y", "serde_json"),
            ("alloc::vec::Vec<lathe_a::B>::push", "alloc"),
            ("_dl_relocate_object", "others"),
            ("???", "others"),
        ] {
            assert_eq!(crate_of(function), name, "{function}");
        }
    }
}
