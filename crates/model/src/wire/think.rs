//! Reasoning that a server leaves in the text, between `<think>` tags.

use super::emit::Emitter;

const OPENING: [&str; 2] = ["<think>", "<thinking>"];
const CLOSING: [&str; 2] = ["</think>", "</thinking>"];
/// The most text that is held back for a closing tag that has no opening one.
const MOST_HELD: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but blanks came; an opening tag may come.
    Start,
    /// Reasoning may have begun without a tag: text is held back until a closing one or the end.
    Unopened,
    Thinking,
    /// After reasoning, before the first word.
    Between,
    Text,
}

/// Splits text into reasoning and answer. Tags may be cut anywhere.
#[derive(Debug)]
pub(crate) struct ThinkSplitter {
    state: State,
    held: String,
    /// A closing tag without an opening one was seen.
    pub(crate) saw_unopened: bool,
}

impl ThinkSplitter {
    /// `unopened`: answers of this model may begin inside of the reasoning.
    pub(crate) fn new(unopened: bool) -> Self {
        Self {
            state: if unopened {
                State::Unopened
            } else {
                State::Start
            },
            held: String::new(),
            saw_unopened: false,
        }
    }

    /// Takes text, gives out what is certain.
    pub(crate) fn push(&mut self, text: &str, out: &mut dyn Sink) {
        if self.state == State::Text
            && self.held.is_empty()
            && memchr::memchr(b'<', text.as_bytes()).is_none()
        {
            out.text(text);
            return;
        }
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// Makes progress; `false` until more text is there.
    fn step(&mut self, out: &mut dyn Sink) -> bool {
        match self.state {
            State::Start | State::Unopened => {
                let trimmed = self.held.trim_start();
                if let Some(tag) = OPENING.iter().find(|tag| trimmed.starts_with(*tag)) {
                    self.held = trimmed[tag.len()..].to_owned();
                    self.state = State::Thinking;
                    return true;
                }
                if trimmed.is_empty() || OPENING.iter().any(|tag| tag.starts_with(trimmed)) {
                    return false;
                }
                if self.state == State::Start {
                    self.state = State::Text;
                    return true;
                }
                if let Some((at, tag)) = first(&self.held, &CLOSING) {
                    self.saw_unopened = true;
                    out.thinking(self.held[..at].trim());
                    self.held.drain(..at + tag.len());
                    self.state = State::Between;
                    return true;
                }
                if self.held.len() > MOST_HELD {
                    self.state = State::Text;
                    return true;
                }
                false
            }
            State::Thinking => {
                if let Some((at, tag)) = first(&self.held, &CLOSING) {
                    out.thinking(self.held[..at].trim_end());
                    self.held.drain(..at + tag.len());
                    self.state = State::Between;
                    return true;
                }
                let keep = open_end(&self.held, &CLOSING);
                out.thinking(&self.held[..keep]);
                self.held.drain(..keep);
                false
            }
            State::Between => {
                let trimmed = self.held.trim_start();
                if trimmed.is_empty() {
                    self.held.clear();
                    return false;
                }
                self.held = trimmed.to_owned();
                self.state = State::Text;
                true
            }
            State::Text => {
                if let Some((at, tag)) = first(&self.held, &CLOSING) {
                    // Reasoning that nobody announced; from the next answer on it is expected.
                    self.saw_unopened = true;
                    out.text(&self.held[..at]);
                    self.held.drain(..at + tag.len());
                    self.state = State::Between;
                    return true;
                }
                let keep = open_end(&self.held, &CLOSING);
                out.text(&self.held[..keep]);
                self.held.drain(..keep);
                false
            }
        }
    }

    /// Gives out what was held back.
    pub(crate) fn finish(&mut self, out: &mut dyn Sink) {
        let rest = std::mem::take(&mut self.held);
        match self.state {
            State::Thinking => out.thinking(&rest),
            _ if rest.trim().is_empty() && self.state != State::Text => {}
            _ => out.text(&rest),
        }
    }
}

/// Takes reasoning and words.
pub(crate) trait Sink {
    fn text(&mut self, text: &str);
    fn thinking(&mut self, text: &str);
}

impl Sink for Emitter {
    fn text(&mut self, text: &str) {
        Emitter::text(self, text);
    }

    fn thinking(&mut self, text: &str) {
        Emitter::thinking(self, text);
    }
}

fn first<'a>(text: &str, tags: &[&'a str]) -> Option<(usize, &'a str)> {
    let found = tags.iter().filter_map(|tag| Some((text.find(tag)?, *tag)));
    found.min_by_key(|(at, _)| *at)
}

/// Where the end of the text may be the beginning of a tag.
fn open_end(text: &str, tags: &[&str]) -> usize {
    let from = text.rfind('<');
    match from {
        Some(at) if tags.iter().any(|tag| tag.starts_with(&text[at..])) => at,
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Both(String, String);

    impl Sink for Both {
        fn text(&mut self, text: &str) {
            self.0.push_str(text);
        }

        fn thinking(&mut self, text: &str) {
            self.1.push_str(text);
        }
    }

    fn split(text: &str, size: usize, unopened: bool) -> (String, String) {
        let mut splitter = ThinkSplitter::new(unopened);
        let mut both = Both::default();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(size) {
            splitter.push(&piece.iter().collect::<String>(), &mut both);
        }
        splitter.finish(&mut both);
        (both.0, both.1)
    }

    #[test]
    fn reasoning_between_tags_is_split_off_wherever_they_are_cut() {
        for (text, unopened, answer, reasoning) in [
            ("<think>hm\n</think>\n\nyes", false, "yes", "hm"),
            ("\n<thinking>a<b</thinking>c < d", false, "c < d", "a<b"),
            ("plain <b> text", false, "plain <b> text", ""),
            ("hm\n</think>\nyes", true, "yes", "hm"),
            ("<think>hm</think>yes", true, "yes", "hm"),
            ("no reasoning at all", true, "no reasoning at all", ""),
            ("<think>never ends", false, "", "never ends"),
            ("<think></think>yes", false, "yes", ""),
            ("a < b and <thin ice", false, "a < b and <thin ice", ""),
        ] {
            for size in [1, 2, 3, 5, 100] {
                let (words, thought) = split(text, size, unopened);
                let got = (words, thought.trim_end().to_owned());
                assert_eq!(
                    got,
                    (answer.to_owned(), reasoning.to_owned()),
                    "{text:?} by {size}"
                );
            }
        }
    }

    #[test]
    fn a_closing_tag_alone_is_cut_out_and_remembered() {
        let mut splitter = ThinkSplitter::new(false);
        let mut both = Both::default();
        splitter.push("hm</think>yes", &mut both);
        splitter.finish(&mut both);
        assert_eq!(both.0, "hmyes");
        assert!(splitter.saw_unopened);
    }
}
