//! Keys of dialogs and views, and how the user changes them.
//!
//! A dialog knows its own keys. A binding of the user's file puts another key, or a chord, in the place of one of
//! them: what is pressed is translated before the dialog gets it.

use crate::terminal::key::Key;
use std::borrow::Cow;

/// A kind of dialog or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DialogContext {
    /// Any list to choose from.
    List,
    Settings,
    Theme,
    Model,
    /// Earlier prompts.
    History,
    Rewind,
    Plugins,
    /// A question that waits for an answer.
    Question,
    /// A change or plan, part by part.
    Review,
    /// The changed files.
    Changes,
    /// A page that is read.
    Page,
}

use DialogContext::{
    Changes, History, List, Model, Page, Plugins, Question, Review, Rewind, Settings, Theme,
};

impl DialogContext {
    pub(super) const ALL: [(Self, &'static str); 11] = [
        (List, "list"),
        (Settings, "settings"),
        (Theme, "theme"),
        (Model, "model"),
        (History, "history"),
        (Rewind, "rewind"),
        (Plugins, "plugins"),
        (Question, "question"),
        (Review, "review"),
        (Changes, "changes"),
        (Page, "page"),
    ];

    /// The context of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(context, _)| *context)
    }

    pub(super) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(context, _)| *context == self);
        found.map_or("", |(_, name)| name)
    }

    /// Whether it is a list, which has the actions of all lists.
    fn is_list(self) -> bool {
        !matches!(self, Question | Review | Changes | Page)
    }

    /// The actions of this context: name, the dialog's own key, and what it does.
    pub(super) fn actions(
        self,
    ) -> impl Iterator<Item = &'static (DialogContext, &'static str, &'static str, &'static str)>
    {
        DIALOG_ACTIONS
            .iter()
            .filter(move |(context, ..)| *context == self || *context == List && self.is_list())
    }
}

/// Every action of a dialog: where, its name, the key that the dialog itself knows, and what it does.
const DIALOG_ACTIONS: &[(DialogContext, &str, &str, &str)] = &[
    (List, "next", "down", "the next entry"),
    (List, "previous", "up", "the entry before"),
    (List, "pageDown", "pagedown", "ten entries down"),
    (List, "pageUp", "pageup", "ten entries up"),
    (List, "first", "home", "the first entry"),
    (List, "last", "end", "the last entry"),
    (List, "accept", "enter", "choose the entry"),
    (List, "cancel", "esc", "go back"),
    (Model, "lessEffort", "left", "less effort"),
    (Model, "moreEffort", "right", "more effort"),
    (Settings, "reset", "ctrl+x", "reset the setting"),
    (Question, "yes", "y", "yes, this once"),
    (Question, "no", "n", "no"),
    (Question, "always", "a", "yes, and always"),
    (Question, "editRule", "e", "edit the rule"),
    (Question, "sayWhy", "d", "no, with a reason"),
    (Question, "next", "down", "the next answer"),
    (Question, "previous", "up", "the answer before"),
    (Question, "nextField", "tab", "the next field, or a comment"),
    (Question, "previousField", "shift+tab", "the field before"),
    (Question, "left", "left", "to the left"),
    (Question, "right", "right", "to the right"),
    (Question, "toggle", "space", "mark or unmark"),
    (Question, "review", "h", "review it part by part"),
    (Question, "whole", "ctrl+o", "show all of it"),
    (
        Question,
        "externalEditor",
        "ctrl+g",
        "edit the plan in $EDITOR",
    ),
    (Question, "accept", "enter", "give the selected answer"),
    (Question, "cancel", "esc", "stop"),
    (Review, "acceptPart", "y", "accept the hunk"),
    (Review, "rejectPart", "n", "reject the hunk"),
    (Review, "toggle", "space", "accept or reject the hunk"),
    (Review, "editPart", "e", "edit the hunk"),
    (Review, "comment", "c", "comment on the line"),
    (Review, "nextPart", "tab", "the next hunk"),
    (Review, "next", "down", "a line down"),
    (Review, "previous", "up", "a line up"),
    (Review, "accept", "enter", "end the review"),
    (Review, "cancel", "esc", "go back"),
    (Changes, "next", "down", "the next file, or a line down"),
    (Changes, "previous", "up", "the file before, or a line up"),
    (Changes, "pageDown", "pagedown", "a page down"),
    (Changes, "pageUp", "pageup", "a page up"),
    (Changes, "first", "home", "the beginning"),
    (Changes, "last", "end", "the end"),
    (Changes, "nextFile", "right", "the next file"),
    (Changes, "previousFile", "left", "the file before"),
    (
        Changes,
        "otherSource",
        "tab",
        "since the last commit, or by this session",
    ),
    (Changes, "review", "r", "review the file by hunk"),
    (Changes, "accept", "enter", "open the file"),
    (Changes, "cancel", "esc", "go back"),
    (Page, "next", "down", "a line down"),
    (Page, "previous", "up", "a line up"),
    (Page, "pageDown", "pagedown", "a page down"),
    (Page, "pageUp", "pageup", "a page up"),
    (Page, "first", "home", "the beginning"),
    (Page, "last", "end", "the end"),
    (Page, "cancel", "esc", "close"),
];

/// The key of a dialog that an action stands for; `None` if the context has no such action.
pub(super) fn own_key(context: DialogContext, action: &str) -> Option<Key> {
    let mut actions = context.actions();
    let (.., key, _) = actions.find(|(_, name, ..)| *name == action)?;
    key.parse().ok()
}

/// The meaning of the keys so far in a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialogMatch {
    /// The dialog gets this key.
    Key(Key),
    /// The key was taken away from it.
    Nothing,
    /// The beginning of a chord.
    Wait,
    /// No binding of the user's: the dialog gets what was pressed.
    Unbound,
}

/// The bindings of the user's files for dialogs.
#[derive(Debug, Clone, Default)]
pub(super) struct DialogKeys {
    bindings: Vec<(DialogContext, Vec<Key>, Option<Key>)>,
}

impl DialogKeys {
    /// Puts keys in the place of one that the dialog knows; `None` takes them away.
    pub(super) fn put(&mut self, context: DialogContext, keys: Vec<Key>, own: Option<Key>) {
        self.bindings.retain(|(other, bound, _)| {
            *other != context || !(bound.starts_with(&keys) || keys.starts_with(bound))
        });
        self.bindings.push((context, keys, own));
    }

    /// Looks up keys, in one context after another.
    pub(super) fn find(&self, contexts: &[DialogContext], keys: &[Key]) -> DialogMatch {
        for context in contexts {
            let mut waits = false;
            for (_, bound, own) in self.bindings.iter().filter(|(at, ..)| at == context) {
                if bound == keys {
                    return own.map_or(DialogMatch::Nothing, DialogMatch::Key);
                }
                waits |= bound.starts_with(keys);
            }
            if waits {
                return DialogMatch::Wait;
            }
        }
        DialogMatch::Unbound
    }

    /// The keys for one that the dialog knows: the user's last, or the dialog's own. `None` if none is left.
    pub(super) fn now(&self, contexts: &[DialogContext], own: Key) -> Option<Vec<Key>> {
        let bound = self.bindings.iter().rev().find(|(at, keys, key)| {
            let applies = contexts.contains(at) && *key == Some(own);
            applies && self.find(contexts, keys) == DialogMatch::Key(own)
        });
        if let Some((_, keys, _)) = bound {
            return Some(keys.clone());
        }
        match self.find(contexts, &[own]) {
            DialogMatch::Unbound => Some(vec![own]),
            DialogMatch::Key(_) | DialogMatch::Nothing | DialogMatch::Wait => None,
        }
    }

    /// All keys of dialogs for the help: keys, context, what they do.
    pub(super) fn listing(&self) -> Vec<(String, &'static str, Cow<'static, str>)> {
        let mut rows = Vec::new();
        for (context, name, own, what) in DIALOG_ACTIONS {
            let Some(own_key) = own_key(*context, name) else {
                continue;
            };
            let given = |at: DialogContext| {
                self.bindings
                    .iter()
                    .filter(move |(bound, _, key)| *bound == at && *key == Some(own_key))
                    .map(|(_, keys, _)| written(keys))
            };
            let taken = self.find(&[*context], &[own_key]);
            let kept = matches!(taken, DialogMatch::Unbound | DialogMatch::Wait);
            let mut keys: Vec<String> = given(*context).collect();
            keys.extend(kept.then(|| (*own).to_owned()));
            if !keys.is_empty() {
                rows.push((keys.join(", "), context.name(), (*what).into()));
            }
            // A binding for one kind of list only.
            let narrower = DialogContext::ALL
                .iter()
                .filter(|(at, _)| *context == List && at.is_list() && *at != List);
            for (at, name) in narrower {
                let keys: Vec<String> = given(*at).collect();
                if !keys.is_empty() {
                    rows.push((keys.join(", "), name, (*what).into()));
                }
            }
        }
        rows
    }
}

fn written(keys: &[Key]) -> String {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    keys.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::keymap::chord;

    #[test]
    fn every_action_has_a_real_key_of_its_own() {
        for (context, name, key, _) in DIALOG_ACTIONS {
            assert_eq!(
                own_key(*context, name),
                Some(key.parse().unwrap()),
                "{name}"
            );
            let same = DIALOG_ACTIONS.iter().filter(|(at, other, other_key, _)| {
                at == context && (other == name || other_key == key)
            });
            assert_eq!(same.count(), 1, "{context:?} {name}");
        }
    }

    #[test]
    fn keys_are_translated_by_context_and_the_narrower_one_comes_first() {
        let key = |text: &str| text.parse::<Key>().unwrap();
        let mut keys = DialogKeys::default();
        keys.put(List, vec![key("j")], own_key(List, "next"));
        keys.put(Theme, vec![key("j")], own_key(Theme, "previous"));
        keys.put(List, vec![key("end")], None);
        keys.put(List, chord("g g").unwrap(), own_key(List, "first"));
        let found = |contexts: &[DialogContext], pressed: &str| {
            keys.find(contexts, &chord(pressed).unwrap())
        };
        assert_eq!(found(&[List], "j"), DialogMatch::Key(key("down")));
        assert_eq!(found(&[Theme, List], "j"), DialogMatch::Key(key("up")));
        assert_eq!(found(&[List], "end"), DialogMatch::Nothing);
        assert_eq!(found(&[List], "g"), DialogMatch::Wait);
        assert_eq!(found(&[List], "g g"), DialogMatch::Key(key("home")));
        assert_eq!(found(&[Page], "j"), DialogMatch::Unbound);
        let rows = keys.listing();
        let row = |at: &str, what: &str| {
            let found = rows
                .iter()
                .find(|(_, context, text)| *context == at && text == what);
            found.map(|(keys, ..)| keys.as_str())
        };
        assert_eq!(row("list", "the next entry"), Some("j, down"));
        assert_eq!(row("theme", "the entry before"), Some("j"));
        assert_eq!(row("list", "the last entry"), None);
        assert_eq!(row("question", "no"), Some("n"));
    }
}
