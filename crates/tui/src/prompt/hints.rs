//! The keys that hints name: those that are bound now, not those by default.

use super::dialog_keys::DialogContext;
use super::keymap::{Action, Context, KeyMatch, Keymap};
use crate::terminal::key::{Code, Key};
use std::sync::LazyLock;

static STANDARD: LazyLock<Keymap> = LazyLock::new(Keymap::default);

impl Keymap {
    /// The keys of somebody who bound none.
    pub(crate) fn standard() -> &'static Self {
        &STANDARD
    }

    /// The key of an action, as hints write it: one that the user bound before one by default. `None` if no key does it.
    pub(crate) fn key(&self, context: Context, action: Action) -> Option<String> {
        let mut bound = self.working(context, action);
        let first = bound.next()?;
        let is_own = |found: &(Context, &[Key])| !STANDARD.bound(action).any(|it| it == *found);
        let own = std::iter::once(first).chain(bound).filter(is_own).last();
        Some(written(own.unwrap_or(first).1))
    }

    /// All keys of an action, as hints write them.
    pub(crate) fn keys(&self, context: Context, action: Action) -> Vec<String> {
        let bound = self.working(context, action);
        bound.map(|(_, keys)| written(keys)).collect()
    }

    /// The keys of an action that no other action takes in this context.
    fn working(&self, context: Context, action: Action) -> impl Iterator<Item = (Context, &[Key])> {
        self.bound(action).filter(move |(at, keys)| {
            let applies = *at == context || *at == Context::Global;
            applies && self.find(context, keys) == KeyMatch::Action(action)
        })
    }

    /// A key with what it does, for a hint; `None` if no key does it.
    pub(crate) fn hint(&self, context: Context, action: Action, what: &str) -> Option<String> {
        Some(format!("{} {what}", self.key(context, action)?))
    }

    /// The hint of a dialog with the keys that are bound now. Its parts stand between ` · ` and begin with the keys that
    /// the dialog itself knows; a part of which no key is left is left out.
    pub(crate) fn dialog_hint(&self, contexts: &[DialogContext], hint: &str) -> String {
        let parts: Vec<String> = hint
            .split(" · ")
            .filter_map(|part| self.hint_part(contexts, part))
            .collect();
        parts.join(" · ")
    }

    fn hint_part(&self, contexts: &[DialogContext], part: &str) -> Option<String> {
        let mut words = Vec::new();
        let mut rest = part;
        while let Some((word, after)) = rest.split_once(' ') {
            let Some(keys) = keys_of(word) else { break };
            words.push(self.word(contexts, &keys));
            rest = after;
        }
        if words.is_empty() {
            return Some(part.to_owned());
        }
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| format!("{} {rest}", words.join(" ")))
    }

    /// A word of keys that a dialog knows, written as those that do the same now.
    fn word(&self, contexts: &[DialogContext], keys: &[Key]) -> Option<String> {
        let now: Vec<Option<Vec<Key>>> = keys
            .iter()
            .map(|key| self.key_in_dialog(contexts, *key))
            .collect();
        let same = now
            .iter()
            .zip(keys)
            .all(|(now, key)| now.as_deref() == Some(&[*key]));
        let now: Vec<String> = now.iter().flatten().map(|keys| written(keys)).collect();
        (!now.is_empty()).then(|| now.join(if same { "" } else { " " }))
    }
}

/// The keys that a word of a hint names: one, or several arrows.
fn keys_of(word: &str) -> Option<Vec<Key>> {
    let arrow = |c: char| ARROWS.iter().find(|(_, sign)| *sign == c);
    let arrows: Option<Vec<Key>> = word
        .chars()
        .map(|c| arrow(c).map(|(code, _)| Key::new(*code)))
        .collect();
    arrows.or_else(|| Some(vec![word.parse().ok()?]))
}

const ARROWS: [(Code, char); 4] = [
    (Code::Up, '↑'),
    (Code::Down, '↓'),
    (Code::Left, '←'),
    (Code::Right, '→'),
];

/// Keys as hints write them: arrows as signs.
fn written(keys: &[Key]) -> String {
    let key = |key: &Key| {
        let name = key.to_string();
        match ARROWS.iter().find(|(code, _)| *code == key.code) {
            Some((_, sign)) => {
                let modifiers = name.rfind('+').map_or(0, |at| at + 1);
                format!("{}{sign}", &name[..modifiers])
            }
            None => name,
        }
    };
    keys.iter().map(key).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn keymap(file: &serde_json::Value) -> Keymap {
        let mut keymap = Keymap::default();
        assert_eq!(keymap.merge(file), Vec::<String>::new());
        keymap
    }

    #[test]
    fn an_action_is_named_by_the_key_that_does_it_now() {
        let standard = Keymap::standard();
        let key = |keymap: &Keymap, action| keymap.key(Context::Prompt, action);
        assert_eq!(key(standard, Action::Transcript).unwrap(), "ctrl+o");
        assert_eq!(key(standard, Action::NextAgent).unwrap(), "ctrl+↓");
        assert_eq!(key(standard, Action::StopAgents).unwrap(), "ctrl+x ctrl+k");
        let bound = keymap(&json!({
            "prompt": {"ctrl+o": "stash", "ctrl+s": null},
            "global": {"f2": "transcript", "ctrl+t": null},
        }));
        assert_eq!(key(&bound, Action::Transcript).unwrap(), "f2");
        assert_eq!(key(&bound, Action::Stash).unwrap(), "ctrl+o");
        assert_eq!(key(&bound, Action::Todos), None);
        assert_eq!(
            bound.hint(Context::Prompt, Action::Stash, "stashes"),
            Some("ctrl+o stashes".to_owned())
        );
    }

    #[test]
    fn the_hint_of_a_dialog_names_the_keys_that_work() {
        let hint = "type · enter choose · y n accept, reject · ←→ where · esc no · 1–9 of 20";
        let contexts = &[DialogContext::Question];
        assert_eq!(Keymap::standard().dialog_hint(contexts, hint), hint);
        let bound = keymap(&json!({
            "question": {"f3": "yes", "y": null, "n": null, "ctrl+x ctrl+n": "cancel", "left": null},
        }));
        assert_eq!(
            bound.dialog_hint(contexts, hint),
            "type · enter choose · f3 accept, reject · → where · ctrl+x ctrl+n no · 1–9 of 20"
        );
        let none = keymap(&json!({"question": {"enter": null}}));
        assert_eq!(
            none.dialog_hint(contexts, "enter choose · esc no"),
            "esc no"
        );
    }
}
