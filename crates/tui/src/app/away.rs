//! A summary of the time the user was away, in one line when they come back.
//!
//! A terminal tells when it loses the focus and when it gets it back. When that took a while and a turn
//! ended meanwhile, or is still going on, a small model is asked once, in the background. Its answer is
//! given up as soon as the user says something or goes to another session: then they know already.
//! Never asked for when `awaySummary` is `false`; `LATHE_AWAY_SUMMARY_SECONDS` says how long a while is.

use crate::app::App;
use crate::app::jobs::JobResult;
use lathe_settings::Variable;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Who is away for less knows what they asked for.
const A_WHILE_SECONDS: u64 = 180;

/// The user's absence, and the question about it.
#[derive(Debug, Default)]
pub(crate) struct Away {
    since: Option<Instant>,
    /// Whether a turn ended since then.
    turn_ended: bool,
    asking: Option<CancellationToken>,
    /// Which question is the last one: an answer to an earlier one comes too late.
    question: u64,
}

impl Away {
    /// The user looks elsewhere. Some terminals report it twice; the first report is used.
    pub(crate) fn left(&mut self, now: Instant) {
        if self.since.is_none() {
            self.since = Some(now);
            self.turn_ended = false;
        }
    }

    /// A turn ended.
    pub(crate) fn turn_ended(&mut self) {
        self.turn_ended = self.since.is_some();
    }

    /// The user uses the keyboard: they are here, whatever the terminal told of the focus.
    pub(crate) fn user_is_active(&mut self) {
        self.since = None;
    }

    /// The user is back. Gives whether there is something to tell.
    fn back(&mut self, now: Instant, a_while: Duration, busy: bool) -> bool {
        let Some(since) = self.since.take() else {
            return false;
        };
        (self.turn_ended || busy) && now.saturating_duration_since(since) >= a_while
    }

    /// Gives up asking.
    pub(crate) fn cancel(&mut self) {
        self.question += 1;
        if let Some(asking) = self.asking.take() {
            asking.cancel();
        }
    }

    /// A turn of the last session is not reported in the next one.
    pub(crate) fn session_replaced(&mut self) {
        self.cancel();
        self.turn_ended = false;
    }

    fn begin(&mut self) -> (u64, CancellationToken) {
        self.cancel();
        let cancel = CancellationToken::new();
        self.asking = Some(cancel.clone());
        (self.question, cancel)
    }

    /// An answer came. Gives whether it is still wanted, which it is once.
    fn answered(&mut self, question: u64) -> bool {
        question == self.question && self.asking.take().is_some()
    }
}

/// The terminal has the focus again: asks what to tell, if the user wants it.
pub(crate) fn came_back(app: &mut App) {
    let a_while = app
        .places
        .environment
        .number(Variable::AwaySummarySeconds)
        .unwrap_or(A_WHILE_SECONDS);
    let busy = app.session.busy();
    let tell = app
        .alarms
        .away
        .back(Instant::now(), Duration::from_secs(a_while), busy);
    if !tell || !app.settings.away_summary {
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    let (question, cancel) = app.alarms.away.begin();
    let asked = session.side_questions().away_summary_later(cancel);
    app.jobs.task(async move {
        let text = asked.await?;
        Some(JobResult::AwaySummary { question, text })
    });
}

/// Tells what happened, unless that is no news any more.
pub(crate) fn tell(app: &mut App, question: u64, text: &str) {
    if app.alarms.away.answered(question) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        if let Some(session) = &app.engine.handle {
            session.note_away_summary(&words);
        }
        app.remark(format!("While you were away: {words}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_WHILE: Duration = Duration::from_secs(180);

    #[test]
    fn only_a_long_absence_with_activity_is_summarised() {
        let left = Instant::now();
        let cases = [
            // seconds away, a turn ended, a turn continues, told
            (180, true, false, true),
            (180, false, true, true),
            (179, true, true, false),
            (9_999, false, false, false),
        ];
        for (seconds, ended, busy, told) in cases {
            let mut away = Away::default();
            away.left(left);
            if ended {
                away.turn_ended();
            }
            let now = left + Duration::from_secs(seconds);
            assert_eq!(
                away.back(now, A_WHILE, busy),
                told,
                "{seconds} {ended} {busy}"
            );
            assert!(!away.back(now, A_WHILE, busy), "it is told once");
        }
    }

    #[test]
    fn a_turn_that_ended_before_the_user_left_is_not_summarised() {
        let left = Instant::now();
        let later = left + A_WHILE;
        let mut away = Away::default();
        away.turn_ended();
        away.left(left);
        assert!(!away.back(later, A_WHILE, false));
        away.left(left);
        away.turn_ended();
        assert!(away.back(later, A_WHILE, false));
        away.left(later);
        assert!(!away.back(later + A_WHILE, A_WHILE, false));
        away.left(left);
        away.turn_ended();
        away.session_replaced();
        assert!(!away.back(later, A_WHILE, false));
    }

    #[test]
    fn the_first_loss_of_focus_starts_the_absence_and_a_key_ends_it() {
        let left = Instant::now();
        let later = left + A_WHILE;
        let mut away = Away::default();
        away.left(left);
        away.turn_ended();
        away.left(later);
        assert!(away.back(later, A_WHILE, false));
        away.left(left);
        away.user_is_active();
        away.turn_ended();
        assert!(!away.back(later, A_WHILE, true));
    }

    #[test]
    fn an_answer_is_used_once_and_not_if_it_is_late() {
        let mut away = Away::default();
        let (first, cancelled) = away.begin();
        away.cancel();
        assert!(cancelled.is_cancelled());
        assert!(!away.answered(first));
        let (second, _) = away.begin();
        assert!(!away.answered(first));
        assert!(away.answered(second));
        assert!(!away.answered(second));
    }
}
