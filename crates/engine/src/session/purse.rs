//! Money of a day and of a month, over all sessions of the user: `budget` in settings.
//!
//! The dollars of every session are added up in `spending.json` of the config home, by date, under a lock. Without a budget
//! nothing is kept. A book that can't be read stops the turn: a limit that can't be checked is no limit.

use crate::context::today;
use crate::conversation::ConversationShared;
use crate::turn::decide::Done;
use lathe_protocol::event::{News, NoticeLevel, Priority, TerminalReason};
use lathe_session::paths::write_private_file;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Days that the book keeps: those of this month and the last one.
const DAYS_KEPT: usize = 62;
/// The share of a budget at which the user is warned, in percent.
const WARNED_AT: f64 = 80.0;

/// The part of a session in the book.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Dollars of this session that are in the book, or were spent before this run.
    booked: f64,
    /// Dollars of all sessions, as the book said last.
    known: Spent,
    /// Periods whose share was said.
    warned: Vec<&'static str>,
}

/// Dollars of all sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Spent {
    day: f64,
    month: f64,
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    /// Dollars by date, as `2026-01-31`.
    #[serde(default)]
    days: BTreeMap<String, f64>,
}

/// Why the book can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BookError {
    #[error("{} can't be used: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is damaged: {source}; repair it, or delete it to start again from zero", path.display())]
    Damaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(transparent)]
    Write(#[from] lathe_session::SessionError),
}

/// Adds dollars to the book, under its lock, and gives what all sessions spent.
fn add(path: &Path, today: &str, dollars: f64) -> Result<Spent, BookError> {
    let failed = |source| BookError::File {
        path: path.to_owned(),
        source,
    };
    let lock = path.with_extension("lock");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(lock)
        .map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut book = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| BookError::Damaged {
            path: path.to_owned(),
            source,
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Book::default(),
        Err(error) => return Err(failed(error)),
    };
    if dollars > 0.0 {
        *book.days.entry(today.to_owned()).or_default() += dollars;
        while book.days.len() > DAYS_KEPT {
            book.days.pop_first();
        }
        let text = serde_json::to_vec_pretty(&book).unwrap_or_default();
        write_private_file(path, &text)?;
    }
    let month = today.get(..7).unwrap_or(today);
    let of_month = book.days.iter().filter(|(day, _)| day.starts_with(month));
    Ok(Spent {
        day: book.days.get(today).copied().unwrap_or(0.0),
        month: of_month.map(|(_, dollars)| dollars).sum(),
    })
}

/// The least that any source of settings allows: no source raises what another one set.
fn limit(layers: &[Value], key: &str) -> Option<f64> {
    let values = layers
        .iter()
        .filter_map(|layer| layer.get("settings")?.get("budget")?.get(key)?.as_f64());
    values.reduce(f64::min)
}

impl Purse {
    /// For a session that has spent dollars before this run.
    pub(crate) fn new(spent_before: f64) -> Self {
        let purse = Self::default();
        purse.state.lock().booked = spent_before;
        purse
    }
}

/// Enters what the session spent into the book, and ends the turn where a budget is used up. `session_usd` is what the
/// session has spent in all, agents included.
pub(crate) fn check(shared: &ConversationShared, session_usd: f64) -> Option<Done> {
    let layers = shared.session.settings.layers.read();
    let limits = [
        ("today", limit(&layers, "dayUsd"), "budget.dayUsd"),
        ("this month", limit(&layers, "monthUsd"), "budget.monthUsd"),
    ];
    drop(layers);
    if limits.iter().all(|(_, limit, _)| limit.is_none()) {
        return None;
    }
    let mut state = shared.session.purse.state.lock();
    let variables = &shared.tools.environment.variables;
    let variable = |name: &str| variables.get(name).map(String::as_str);
    let now = jiff::Timestamp::now();
    let date = today::date(now, variable("TZ"), variable("TZDIR"));
    let path = shared
        .session
        .settings
        .loader
        .places
        .config_home
        .join("spending.json");
    let fresh = (session_usd - state.booked).max(0.0);
    match add(&path, &date, fresh) {
        Ok(known) => {
            state.booked += fresh;
            state.known = known;
        }
        Err(error) => {
            return Some(Done::Ended {
                reason: TerminalReason::BudgetExhausted,
                message: format!("The budget of all sessions can't be checked: {error}"),
            });
        }
    }
    let spent = [state.known.day, state.known.month];
    for ((period, limit, key), spent) in limits.into_iter().zip(spent) {
        let Some(limit) = limit else { continue };
        if spent >= limit {
            return Some(Done::Ended {
                reason: TerminalReason::BudgetExhausted,
                message: format!(
                    "The budget for {period} is used up: ${spent:.2} of ${limit:.2} in all sessions; {key} changes it"
                ),
            });
        }
        if spent * 100.0 >= limit * WARNED_AT && !state.warned.contains(&period) {
            state.warned.push(period);
            let text =
                format!("All sessions have spent ${spent:.2} of ${limit:.2} for {period} ({key}).");
            shared
                .events
                .news(News::new(Priority::High), NoticeLevel::Warning, text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sessions_side_by_side_lose_no_cent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spending.json");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        add(&path, "2026-01-31", 0.25).unwrap();
                    }
                });
            }
        });
        let spent = add(&path, "2026-01-31", 0.0).unwrap();
        assert!((spent.day - 50.0).abs() < 1e-9, "{spent:?}");
        // A new day counts anew, and a new month too.
        let next = add(&path, "2026-01-01", 1.0).unwrap();
        assert!((next.day - 1.0).abs() < 1e-9 && (next.month - 51.0).abs() < 1e-9);
        let next = add(&path, "2026-02-01", 0.0).unwrap();
        assert_eq!(next, Spent::default());
    }

    #[test]
    fn old_days_go_and_a_damaged_book_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/spending.json");
        for month in 1..=12 {
            for day in 1..=28 {
                add(&path, &format!("2026-{month:02}-{day:02}"), 1.0).unwrap();
            }
        }
        let book: Book = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(book.days.len(), DAYS_KEPT);
        std::fs::write(&path, "{\"days\": 5}").unwrap();
        let error = add(&path, "2026-01-01", 1.0).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("delete it to start again from zero"),
            "{error}"
        );
    }

    #[test]
    fn no_source_raises_the_budget_of_another() {
        let layers = [
            json!({"source": "userSettings", "settings": {"budget": {"dayUsd": 5, "monthUsd": 50.5}}}),
            json!({"source": "projectSettings", "settings": {"budget": {"dayUsd": 500}}}),
        ];
        assert_eq!(limit(&layers, "dayUsd"), Some(5.0));
        assert_eq!(limit(&layers, "monthUsd"), Some(50.5));
        assert_eq!(limit(&layers[1..], "monthUsd"), None);
    }
}
