//! The rows of a run as JSON, for `scripts/performance`.

use serde_json::{Value, json};
use std::path::Path;
use std::sync::Mutex;

/// The cost of one turn of a long session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) turn: usize,
    pub(crate) milliseconds: f64,
    pub(crate) megabytes: f64,
}

static ROWS: Mutex<Vec<Value>> = Mutex::new(Vec::new());
static POINTS: Mutex<Vec<Value>> = Mutex::new(Vec::new());

pub(crate) fn row(what: &str, measured: &str, wanted: &str) {
    let row = json!({"what": what, "measured": measured, "wanted": wanted});
    ROWS.lock().unwrap().push(row);
}

pub(crate) fn point(point: Point) {
    let point = json!({"turn": point.turn, "milliseconds": point.milliseconds, "megabytes": point.megabytes});
    POINTS.lock().unwrap().push(point);
}

/// Adds everything to the file; what it has of an earlier part of the same run stays.
pub(crate) fn write(file: &Path) {
    let before = std::fs::read(file).ok();
    let before: Value = before
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let joined = |name: &str, new: &[Value]| {
        let mut all = before[name].as_array().cloned().unwrap_or_default();
        all.extend_from_slice(new);
        all
    };
    let rows = joined("rows", &ROWS.lock().unwrap());
    let points = joined("turns", &POINTS.lock().unwrap());
    let value = json!({"rows": rows, "turns": points});
    std::fs::write(file, format!("{value:#}\n")).unwrap();
}
