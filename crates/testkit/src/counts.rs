//! Counts that a change may not raise, against the committed ones of `benches/counts.json`.
//!
//! They don't depend on the speed of the machine, nor on how the program was compiled. `UPDATE_COUNTS=1` lowers a
//! committed count to what was measured, and adds one that isn't there; one that must rise is edited by hand, with
//! the reason in the commit.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// More than this times the committed count is a regression.
const MOST: f64 = 1.05;

fn path() -> PathBuf {
    crate::workspace_root().join("benches/counts.json")
}

/// The count of the turns that other work on the machine disturbed least.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn undisturbed(mut each: Vec<u64>) -> u64 {
    each.sort_unstable();
    each[each.len() / 10]
}

/// Fails if a count is above the committed one by more than a twentieth.
///
/// # Panics
/// If it is.
pub fn assert_within(name: &str, count: u64) {
    check(name, count, MOST);
}

/// Fails if a count is above the committed one.
///
/// # Panics
/// If it is.
pub fn assert_at_most(name: &str, count: u64) {
    check(name, count, 1.0);
}

/// The share of a crate in a count, and of its functions.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// The share of the crate.
    pub count: u64,
    /// The share of each of its functions.
    pub functions: Vec<(u64, String)>,
}

/// As [`assert_within`], and names the crates and functions that grew. `parts` is asked only when they are needed; the
/// committed ones stand beside the count, under its name and `by crate`.
///
/// # Panics
/// If it is above.
pub fn assert_within_by(name: &str, count: u64, parts: impl Fn() -> BTreeMap<String, Part>) {
    let list = format!("{name} by crate");
    let mut counts = read();
    let is_new = counts
        .get(name)
        .and_then(Value::as_u64)
        .is_none_or(|known| count < known);
    if updates() && is_new {
        let parts = parts().into_iter();
        let parts: Map<String, Value> = parts.map(|(of, part)| (of, part.count.into())).collect();
        counts.insert(list, parts.into());
        write(counts);
        check(name, count, MOST);
        return;
    }
    let grown = || grown(&parts(), counts.get(&list).unwrap_or(&Value::Null));
    check_saying(name, count, MOST, grown);
}

/// The crates with more than they had, the largest growth first, and their largest functions.
#[must_use]
pub fn grown(parts: &BTreeMap<String, Part>, committed: &Value) -> String {
    let mut grown: Vec<(u64, &String, &Part)> = Vec::new();
    for (name, part) in parts {
        let known = committed.get(name).and_then(Value::as_u64).unwrap_or(0);
        if part.count > known {
            grown.push((part.count - known, name, part));
        }
    }
    grown.sort_by_key(|(more, ..)| std::cmp::Reverse(*more));
    let mut text = String::from("\nWhat grew:");
    for (more, name, part) in grown.into_iter().take(5) {
        text += &format!("\n  {name}: {more} more, {} now", part.count);
        let mut functions = part.functions.clone();
        functions.sort_unstable_by(|one, other| other.cmp(one));
        for (count, function) in functions.into_iter().take(5) {
            text += &format!("\n    {count:>8}  {function}");
        }
    }
    text
}

fn read() -> Map<String, Value> {
    let text = std::fs::read_to_string(path()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn write(counts: Map<String, Value>) {
    std::fs::write(path(), format!("{:#}\n", Value::Object(counts))).unwrap();
}

fn updates() -> bool {
    std::env::var_os("UPDATE_COUNTS").is_some()
}

fn check(name: &str, count: u64, most: f64) {
    check_saying(name, count, most, String::new);
}

#[expect(clippy::cast_precision_loss, reason = "a ratio with two decimals")]
fn check_saying(name: &str, count: u64, most: f64, grown: impl Fn() -> String) {
    let mut counts = read();
    let committed = counts.get(name).and_then(Value::as_u64);
    eprintln!("{name}: {count} (committed: {committed:?})");
    if updates() && committed.is_none_or(|known| count < known) {
        counts.insert(name.to_owned(), count.into());
        write(counts);
        return;
    }
    let committed = committed.unwrap_or_else(|| panic!("{name} is not in benches/counts.json"));
    let ratio = count as f64 / committed as f64;
    assert!(
        ratio <= most,
        "{name}: {count}, {ratio:.2} times the committed {committed} (at most {most}). If a feature needs it, edit \
         benches/counts.json and say why in the commit{}",
        grown()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_grew_is_named_with_its_functions_the_largest_first() {
        let part = |count, function: &str| Part {
            count,
            functions: vec![(1, "small".to_owned()), (count - 1, function.to_owned())],
        };
        let parts = BTreeMap::from([
            ("lathe_a".to_owned(), part(100, "lathe_a::same")),
            ("lathe_b".to_owned(), part(60, "lathe_b::more")),
            ("lathe_c".to_owned(), part(90, "lathe_c::new")),
        ]);
        let text = grown(&parts, &json!({"lathe_a": 100, "lathe_b": 50}));
        let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "lathe_c: 90 more, 90 now",
                "89  lathe_c::new",
                "1  small",
                "lathe_b: 10 more, 60 now",
                "59  lathe_b::more",
                "1  small",
            ]
        );
    }
}
