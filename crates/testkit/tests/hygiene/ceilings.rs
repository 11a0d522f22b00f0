//! Numbers that may only fall.

use crate::sources::crates;
use lathe_testkit::workspace_root;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Something that breaks an aim: the crate it is in, and where it is.
pub(crate) struct Offender {
    pub(crate) crate_name: String,
    pub(crate) place: String,
}

const HEADER: &str = "\
# Where the sources are not at the aims of `shape.rs` yet: aim, crate, offenders. A number may only fall;
# UPDATE_CEILINGS=1 cargo test -p lathe-testkit --test hygiene   lowers it.
";

/// One writer at a time: tests of an aim run side by side.
static FILE: Mutex<()> = Mutex::new(());

fn path() -> std::path::PathBuf {
    workspace_root().join("crates/testkit/tests/hygiene/ceilings.txt")
}

type Ceilings = BTreeMap<(String, String), usize>;

fn read() -> Ceilings {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let mut words = line.split_whitespace();
            let mut word = || words.next().unwrap_or_default().to_owned();
            let key = (word(), word());
            (key, word().parse().expect("the third word is a number"))
        })
        .collect()
}

fn write(ceilings: &Ceilings) {
    let mut text = HEADER.to_owned();
    for ((aim, name), count) in ceilings.iter().filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "{aim} {name} {count}");
    }
    std::fs::write(path(), text).unwrap();
}

/// Holds the offenders of every crate against its ceiling, which is 0 if the file has none.
pub(crate) fn assert_within(aim: &str, offenders: &[Offender]) {
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for folder in crates() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        found.insert(name, Vec::new());
    }
    for offender in offenders {
        let places = found.entry(offender.crate_name.clone()).or_default();
        places.push(&offender.place);
    }
    // A failed test leaves the lock poisoned; the file is whole.
    let _guard = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ceilings = read();
    let mut above = String::new();
    let mut below = Vec::new();
    for (name, places) in &found {
        let key = (aim.to_owned(), name.clone());
        let ceiling = ceilings.get(&key).copied().unwrap_or(0);
        if places.len() > ceiling {
            let _ = writeln!(above, "{name}: {} of {ceiling}", places.len());
            for place in places {
                let _ = writeln!(above, "    {place}");
            }
        } else if places.len() < ceiling {
            below.push(format!("{name}: {} of {ceiling}", places.len()));
            ceilings.insert(key, places.len());
        }
    }
    if std::env::var_os("UPDATE_CEILINGS").is_some() {
        ceilings.retain(|(_, name), _| found.contains_key(name));
        write(&ceilings);
        below.clear();
    }
    assert!(above.is_empty(), "{aim}:\n{above}");
    // A crate that is gone needs no ceiling.
    for ((_, name), _) in ceilings.iter().filter(|((of, _), _)| of == aim) {
        if !found.contains_key(name) {
            below.push(format!("{name} is gone"));
        }
    }
    assert!(
        below.is_empty(),
        "{aim} can be lowered, run the test with UPDATE_CEILINGS=1: {}",
        below.join(", ")
    );
}
