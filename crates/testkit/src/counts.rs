//! Counts that a change may not raise, against the committed ones of `benches/counts.json`.
//!
//! They don't depend on the speed of the machine, nor on how the program was compiled. `UPDATE_COUNTS=1` lowers a
//! committed count to what was measured, and adds one that isn't there; one that must rise is edited by hand, with
//! the reason in the commit.

use serde_json::{Map, Value};
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

#[expect(clippy::cast_precision_loss, reason = "a ratio with two decimals")]
fn check(name: &str, count: u64, most: f64) {
    let text = std::fs::read_to_string(path()).unwrap();
    let mut counts: Map<String, Value> = serde_json::from_str(&text).unwrap();
    let committed = counts.get(name).and_then(Value::as_u64);
    eprintln!("{name}: {count} (committed: {committed:?})");
    if std::env::var_os("UPDATE_COUNTS").is_some() && committed.is_none_or(|known| count < known) {
        counts.insert(name.to_owned(), count.into());
        std::fs::write(path(), format!("{:#}\n", Value::Object(counts))).unwrap();
        return;
    }
    let committed = committed.unwrap_or_else(|| panic!("{name} is not in benches/counts.json"));
    let ratio = count as f64 / committed as f64;
    assert!(
        ratio <= most,
        "{name}: {count}, {ratio:.2} times the committed {committed} (at most {most}). If a feature needs it, edit \
         benches/counts.json and say why in the commit"
    );
}
