//! Notices: short news about the program itself, in a row of their own below the prompt. They are no part of the
//! conversation and never enter the scrollback.
//!
//! One is shown at a time, the most important first, for eight seconds in which it can be seen. An immediate one takes
//! the place of any other. A notice replaces an older one with its key, and those that it makes untrue.

use lathe_protocol::event::News;
pub(crate) use lathe_protocol::event::Priority;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a notice is shown.
pub(crate) const SHOWN: Duration = Duration::from_secs(8);

/// How long it is shown if others wait.
const SHOWN_BEFORE_OTHERS: Duration = Duration::from_secs(2);

/// How many notices are kept to be read later.
const KEPT: usize = 20;

/// A notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) key: Cow<'static, str>,
    pub(crate) text: String,
    pub(crate) priority: Priority,
    /// Keys of notices that are no longer true.
    pub(crate) invalidates: &'static [&'static str],
}

impl Notice {
    pub(crate) fn new(key: &'static str, priority: Priority, text: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            text: text.into(),
            priority,
            invalidates: &[],
        }
    }

    /// News of the engine.
    pub(crate) fn of_news(news: News, text: String) -> Self {
        Self {
            key: news.key.map_or_else(|| text.clone().into(), Cow::Borrowed),
            text,
            priority: news.priority,
            invalidates: news.invalidates,
        }
    }
}

/// The notices that wait, the shown one first.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Vec<Notice>,
    /// Since when the first one can be seen.
    since: Option<Instant>,
    /// The texts of the last ones, the newest last.
    past: VecDeque<String>,
}

impl Notices {
    pub(crate) fn add(&mut self, notice: Notice) {
        self.past.retain(|text| *text != notice.text);
        self.past.push_back(notice.text.clone());
        if self.past.len() > KEPT {
            self.past.pop_front();
        }
        let gone =
            |other: &Notice| other.key == notice.key || notice.invalidates.contains(&&*other.key);
        if self.waiting.first().is_some_and(gone) {
            self.since = None;
        }
        self.waiting.retain(|other| !gone(other));
        // The shown one stays where it is, unless this one can't wait.
        let shown = usize::from(self.since.is_some() && notice.priority < Priority::Immediate);
        let later = self.waiting.iter().skip(shown);
        let at = shown
            + later
                .take_while(|it| it.priority >= notice.priority)
                .count();
        if at == 0 {
            self.since = None;
        }
        self.waiting.insert(at, notice);
    }

    /// The last notices, the oldest first.
    pub(crate) fn past(&self) -> impl Iterator<Item = &str> {
        self.past.iter().map(String::as_str)
    }

    /// The notice to show.
    pub(crate) fn shown(&self) -> Option<&Notice> {
        self.waiting.first()
    }

    /// The row is being drawn: from now on the notice counts as seen.
    pub(crate) fn seen(&mut self, now: Instant) {
        if !self.waiting.is_empty() {
            self.since.get_or_insert(now);
        }
    }

    /// When the next one takes its place.
    pub(crate) fn due(&self) -> Option<Instant> {
        let time = if self.waiting.len() > 1 {
            SHOWN_BEFORE_OTHERS
        } else {
            SHOWN
        };
        self.since.map(|since| since + time)
    }

    /// Takes the shown one away when its time is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.waiting.remove(0);
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(notices: &Notices) -> &str {
        notices.shown().map_or("", |notice| notice.text.as_str())
    }

    #[test]
    fn the_most_important_is_shown_first_and_an_immediate_one_at_once() {
        let now = Instant::now();
        let mut notices = Notices::default();
        notices.add(Notice::new("a", Priority::Low, "low"));
        notices.add(Notice::new("b", Priority::High, "high"));
        assert_eq!(shown(&notices), "high", "nothing was seen yet");
        notices.seen(now);
        notices.add(Notice::new("c", Priority::High, "another"));
        assert_eq!(shown(&notices), "high", "what is seen stays for its time");
        notices.add(Notice::new("d", Priority::Immediate, "now"));
        assert_eq!(shown(&notices), "now");
        let mut at = now;
        for next in ["high", "another", "low"] {
            notices.seen(at);
            notices.expire(at + SHOWN_BEFORE_OTHERS / 2);
            at += SHOWN_BEFORE_OTHERS;
            notices.expire(at);
            assert_eq!(shown(&notices), next);
        }
        notices.seen(at);
        notices.expire(at + SHOWN / 2);
        assert_eq!(shown(&notices), "low", "nothing waits, so it stays longer");
        notices.expire(at + SHOWN);
        assert_eq!((shown(&notices), notices.due()), ("", None));
    }

    #[test]
    fn a_notice_replaces_those_with_its_key_and_those_it_makes_untrue() {
        let mut notices = Notices::default();
        notices.add(Notice::new("context", Priority::High, "9% left"));
        notices.seen(Instant::now());
        notices.add(Notice::new("context", Priority::High, "5% left"));
        assert_eq!(shown(&notices), "5% left");
        notices.add(Notice {
            invalidates: &["context"],
            ..Notice::new("compacted", Priority::Low, "summarised")
        });
        assert_eq!(shown(&notices), "summarised");
        assert_eq!(notices.waiting.len(), 1);
        let past: Vec<&str> = notices.past().collect();
        assert_eq!(past, ["9% left", "5% left", "summarised"]);
    }

    #[test]
    fn news_of_the_engine_without_a_key_replace_only_the_same_words() {
        let mut notices = Notices::default();
        for text in ["one is down", "two is down", "one is down"] {
            let news = News::new(Priority::Medium);
            notices.add(Notice::of_news(news, text.to_owned()));
        }
        assert_eq!((notices.waiting.len(), shown(&notices)), (2, "two is down"));
        let keyed = |text: &str| Notice::of_news(News::of("a", Priority::Low), text.to_owned());
        notices.add(keyed("first"));
        notices.add(keyed("second"));
        assert_eq!(notices.waiting.len(), 3);
        for number in 0..2 * KEPT {
            notices.add(keyed(&number.to_string()));
        }
        assert_eq!(notices.past().count(), KEPT);
    }
}
