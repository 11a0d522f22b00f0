//! Key bindings, and how the user changes them.
//!
//! Bindings are looked up by context: first the one that has the focus, then `global`. A binding is
//! one key or a chord of several, one after another. `<config home>/keybindings.json` adds to the
//! defaults and removes some; mistakes are reported and the rest takes effect. The file may have our form, or
//! that of the ecosystem ([`super::foreign_keys`]).

use super::actions::DEFAULTS;
pub(crate) use super::actions::{ACTIONS, Action, Context};
use super::dialog_keys::{self, DialogContext, DialogKeys, DialogMatch};
use super::foreign_keys::{self, ForeignAction, ForeignContext};
use crate::terminal::key::{Code, Key};
use lathe_settings::Places;
use serde_json::Value;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The meaning of the keys so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMatch {
    Action(Action),
    /// The beginning of a chord.
    Wait,
    Nothing,
}

/// All bindings.
#[derive(Debug, Clone)]
pub(crate) struct Keymap {
    bindings: Vec<(Context, Vec<Key>, Action)>,
    /// The slash commands that keys run, without the slash.
    commands: Vec<String>,
    dialogs: DialogKeys,
}

impl Default for Keymap {
    fn default() -> Self {
        let bindings = DEFAULTS
            .iter()
            .filter_map(|(context, keys, action)| Some((*context, chord(keys).ok()?, *action)))
            .collect();
        Self {
            bindings,
            commands: Vec::new(),
            dialogs: DialogKeys::default(),
        }
    }
}

/// The user's files with key bindings, lowest precedence first.
pub(crate) fn files(places: &Places) -> Vec<PathBuf> {
    let homes = places.claude_home.iter().chain([&places.config_home]);
    homes.map(|home| home.join("keybindings.json")).collect()
}

pub(super) fn chord(text: &str) -> Result<Vec<Key>, crate::terminal::key::NotAKey> {
    text.split_whitespace().map(str::parse).collect()
}

/// Why a binding of the user's file is ignored.
#[derive(Debug, thiserror::Error)]
enum BindingError {
    #[error(transparent)]
    NotAKey(#[from] crate::terminal::key::NotAKey),
    #[error("a binding has no key")]
    NoKey,
    #[error("'{0}' can't be bound: ctrl+c and ctrl+d always interrupt and exit")]
    Reserved(String),
    #[error("'{0}' can't be bound in the prompt: it is typed there")]
    Typed(String),
    #[error("unknown action '{action}' for '{keys}'; actions: {}", action_names())]
    UnknownAction { action: String, keys: String },
    #[error("unknown action '{action}' for '{keys}'; actions: {}", dialog_action_names(*context))]
    UnknownDialogAction {
        action: String,
        keys: String,
        context: DialogContext,
    },
    #[error("'{0}': expected the name of an action, or null for none")]
    NotAnAction(String),
    #[error("'{action}' for '{keys}' has no counterpart here")]
    Absent { action: String, keys: String },
}

fn action_names() -> String {
    let names: Vec<&str> = ACTIONS.iter().map(|(_, name, _)| *name).collect();
    names.join(", ")
}

fn dialog_action_names(context: DialogContext) -> String {
    let names: Vec<&str> = context.actions().map(|(_, name, ..)| *name).collect();
    names.join(", ")
}

/// Names of all contexts of our own form.
fn context_names() -> String {
    let ours = Context::ALL.iter().map(|(_, name)| *name);
    let dialogs = DialogContext::ALL.iter().map(|(_, name)| *name);
    ours.chain(dialogs).collect::<Vec<_>>().join(", ")
}

fn unknown_action(action: &str, keys: &str) -> BindingError {
    BindingError::UnknownAction {
        action: action.to_owned(),
        keys: keys.to_owned(),
    }
}

impl Keymap {
    /// The defaults with the user's files on top. Gives what is wrong with the files.
    pub(crate) fn load(files: &[PathBuf]) -> (Self, Vec<String>) {
        let mut keymap = Self::default();
        let mut problems = Vec::new();
        for file in files {
            let of_file = keymap.load_file(file);
            let name = file.display();
            problems.extend(of_file.iter().map(|problem| format!("{name}: {problem}")));
        }
        (keymap, problems)
    }

    fn load_file(&mut self, file: &Path) -> Vec<String> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => return vec![format!("can't be read: {error}")],
        };
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => self.merge(&value),
            Err(error) => vec![format!("not JSON: {error}")],
        }
    }

    /// The slash command of an action, without the slash.
    pub(crate) fn command(&self, number: usize) -> Option<&str> {
        self.commands.get(number).map(String::as_str)
    }

    pub(super) fn merge(&mut self, value: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let Some(contexts) = value.as_object() else {
            return vec![
                r#"expected an object, such as {"prompt": {"ctrl+k ctrl+s": "stash"}}"#.to_owned(),
            ];
        };
        if let Some(Value::Array(blocks)) = contexts.get("bindings") {
            for block in blocks {
                self.merge_foreign(block, &mut problems);
            }
            return problems;
        }
        for (name, bindings) in contexts {
            if name.starts_with('$') {
                continue;
            }
            let context = Context::ALL.iter().find(|(_, known)| known == name);
            let dialog = DialogContext::named(name);
            if context.is_none() && dialog.is_none() {
                problems.push(format!(
                    "unknown context '{name}'; contexts: {}",
                    context_names()
                ));
                continue;
            }
            let Some(bindings) = bindings.as_object() else {
                problems.push(format!("{name}: expected an object of keys and actions"));
                continue;
            };
            for (keys, action) in bindings {
                let bound = match (context, dialog) {
                    (Some((context, _)), _) => self.bind(*context, keys, action),
                    (None, Some(dialog)) => self.bind_dialog(dialog, keys, action),
                    (None, None) => Ok(()),
                };
                if let Err(problem) = bound {
                    problems.push(format!("{name}: {problem}"));
                }
            }
        }
        problems
    }

    /// Binds keys of a dialog to one of its actions.
    fn bind_dialog(
        &mut self,
        context: DialogContext,
        keys: &str,
        action: &Value,
    ) -> Result<(), BindingError> {
        let own = match action {
            Value::Null => None,
            Value::String(name) => {
                let own = dialog_keys::own_key(context, name);
                Some(own.ok_or_else(|| BindingError::UnknownDialogAction {
                    action: name.clone(),
                    keys: keys.to_owned(),
                    context,
                })?)
            }
            _ => return Err(BindingError::NotAnAction(keys.to_owned())),
        };
        self.put_dialog(context, keys, own)
    }

    fn put_dialog(
        &mut self,
        context: DialogContext,
        text: &str,
        own: Option<Key>,
    ) -> Result<(), BindingError> {
        let keys = chord(text)?;
        if keys.is_empty() {
            return Err(BindingError::NoKey);
        }
        if keys.contains(&Key::ctrl('c')) || keys.contains(&Key::ctrl('d')) {
            return Err(BindingError::Reserved(text.to_owned()));
        }
        self.dialogs.put(context, keys, own);
        Ok(())
    }

    /// The keys of an action, with where they apply.
    pub(super) fn bound(&self, action: Action) -> impl Iterator<Item = (Context, &[Key])> {
        let bindings = self.bindings.iter();
        let bindings = bindings.filter(move |(.., bound)| *bound == action);
        bindings.map(|(context, keys, _)| (*context, keys.as_slice()))
    }

    /// The keys that do in a dialog what a key of its own does by default.
    pub(super) fn key_in_dialog(&self, contexts: &[DialogContext], own: Key) -> Option<Vec<Key>> {
        self.dialogs.now(contexts, own)
    }

    /// Looks up keys in a dialog, in one context after another.
    pub(crate) fn find_in_dialog(&self, contexts: &[DialogContext], keys: &[Key]) -> DialogMatch {
        self.dialogs.find(contexts, keys)
    }

    /// Takes over a block of the ecosystem's form.
    fn merge_foreign(&mut self, block: &Value, problems: &mut Vec<String>) {
        let name = block.get("context").and_then(Value::as_str);
        let bindings = block.get("bindings").and_then(Value::as_object);
        let (Some(name), Some(bindings)) = (name, bindings) else {
            problems.push(
                r#"a block of "bindings" needs "context" and "bindings", such as {"context": "Chat", "bindings": {"ctrl+s": "chat:stash"}}"#
                    .to_owned(),
            );
            return;
        };
        let Some(context) = foreign_keys::context(name) else {
            problems.push(format!(
                "unknown context '{name}'; contexts: {}",
                foreign_keys::context_names()
            ));
            return;
        };
        for (keys, action) in bindings {
            let bound = match context {
                ForeignContext::Known(context) => self.bind_foreign(context, keys, action),
                ForeignContext::Dialog(context) => self.bind_foreign_dialog(context, keys, action),
                ForeignContext::Absent => {
                    problems.push(format!("{name}: there is nothing like it here"));
                    return;
                }
            };
            if let Err(problem) = bound {
                problems.push(format!("{name}: {problem}"));
            }
        }
    }

    fn bind_foreign_dialog(
        &mut self,
        context: DialogContext,
        keys: &str,
        action: &Value,
    ) -> Result<(), BindingError> {
        let Value::String(name) = action else {
            return self.bind_dialog(context, keys, action);
        };
        let own = foreign_keys::dialog_action(name)
            .and_then(|action| dialog_keys::own_key(context, action));
        match own {
            Some(own) => self.put_dialog(context, keys, Some(own)),
            None if foreign_keys::is_known(name) => Err(BindingError::Absent {
                action: name.clone(),
                keys: keys.to_owned(),
            }),
            None => Err(BindingError::UnknownDialogAction {
                action: name.clone(),
                keys: keys.to_owned(),
                context,
            }),
        }
    }

    fn bind_foreign(
        &mut self,
        context: Context,
        keys: &str,
        action: &Value,
    ) -> Result<(), BindingError> {
        let (context, action) = match action {
            Value::Null => {
                // Some keys of the prompt are ours everywhere.
                if context == Context::Prompt {
                    self.put(Context::Global, keys, None)?;
                }
                (context, None)
            }
            Value::String(name) => match foreign_keys::action(name, context) {
                Some(ForeignAction::Action(action)) => (context, Some(action)),
                Some(ForeignAction::Command(command)) => {
                    self.commands.push(command.to_owned());
                    (
                        Context::Prompt,
                        Some(Action::Command(self.commands.len() - 1)),
                    )
                }
                Some(ForeignAction::Absent) => {
                    return Err(BindingError::Absent {
                        action: name.clone(),
                        keys: keys.to_owned(),
                    });
                }
                None => return Err(unknown_action(name, keys)),
            },
            _ => return Err(BindingError::NotAnAction(keys.to_owned())),
        };
        self.put(context, keys, action)
    }

    fn bind(&mut self, context: Context, keys: &str, action: &Value) -> Result<(), BindingError> {
        let action = match action {
            Value::Null => None,
            Value::String(name) => Some(
                ACTIONS
                    .iter()
                    .find(|(_, known, _)| known == name)
                    .map(|(action, ..)| *action)
                    .ok_or_else(|| unknown_action(name, keys))?,
            ),
            _ => return Err(BindingError::NotAnAction(keys.to_owned())),
        };
        self.put(context, keys, action)
    }

    /// Binds keys to an action, or to nothing.
    fn put(
        &mut self,
        context: Context,
        keys: &str,
        action: Option<Action>,
    ) -> Result<(), BindingError> {
        let keys_text = keys;
        let keys = chord(keys)?;
        if keys.is_empty() {
            return Err(BindingError::NoKey);
        }
        if keys.iter().any(|key| {
            *key == Key::ctrl('c') || *key == Key::ctrl('d') && context != Context::Transcript
        }) {
            return Err(BindingError::Reserved(keys_text.to_owned()));
        }
        if keys.len() == 1 && keys[0].typed().is_some() && context == Context::Prompt {
            return Err(BindingError::Typed(keys_text.to_owned()));
        }
        self.bindings.retain(|(other, bound, _)| {
            *other != context || !(bound.starts_with(&keys) || keys.starts_with(bound))
        });
        if let Some(action) = action {
            self.bindings.push((context, keys, action));
        }
        Ok(())
    }

    /// Looks up keys in a context.
    pub(crate) fn find(&self, context: Context, keys: &[Key]) -> KeyMatch {
        for wanted in [context, Context::Global] {
            let mut waits = false;
            for (bound_context, bound, action) in &self.bindings {
                if *bound_context != wanted {
                    continue;
                }
                if bound == keys {
                    return KeyMatch::Action(*action);
                }
                waits |= bound.starts_with(keys);
            }
            if waits {
                return KeyMatch::Wait;
            }
        }
        KeyMatch::Nothing
    }

    /// All bindings for the help: keys, context, what they do.
    pub(crate) fn listing(&self) -> Vec<(String, &'static str, Cow<'static, str>)> {
        let mut rows = Vec::new();
        for (action, _, what) in ACTIONS {
            for (context, _) in Context::ALL {
                let keys: Vec<String> = self
                    .bindings
                    .iter()
                    .filter(|(bound, _, bound_action)| *bound == context && bound_action == action)
                    .map(|(_, keys, _)| {
                        keys.iter()
                            .map(ToString::to_string)
                            .collect::<Vec<_>>()
                            .join(" ")
                    })
                    .collect();
                if !keys.is_empty() {
                    rows.push((keys.join(", "), context.name(), (*what).into()));
                }
            }
        }
        for (context, keys, action) in &self.bindings {
            if let Action::Command(number) = action
                && let Some(command) = self.command(*number)
            {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                let what = format!("run /{command}");
                rows.push((keys.join(" "), context.name(), what.into()));
            }
        }
        rows.extend(self.dialogs.listing());
        rows
    }
}

/// Keys that aren't bound but type: what the editor inserts.
pub(crate) fn typed(key: Key) -> Option<char> {
    match key.code {
        Code::Char(c) if !key.ctrl && !key.alt && !c.is_control() => Some(c),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(keymap: &Keymap, context: Context, keys: &str) -> KeyMatch {
        keymap.find(context, &chord(keys).unwrap())
    }

    #[test]
    fn every_default_is_a_real_key_and_every_action_has_a_name() {
        assert_eq!(Keymap::default().bindings.len(), DEFAULTS.len());
        for (_, _, action) in DEFAULTS {
            assert!(
                ACTIONS.iter().any(|(named, ..)| named == action),
                "{action:?}"
            );
        }
    }

    #[test]
    fn chords_wait_and_contexts_come_before_the_global_ones() {
        let keymap = Keymap::default();
        assert_eq!(found(&keymap, Context::Prompt, "ctrl+x"), KeyMatch::Wait);
        assert_eq!(
            found(&keymap, Context::Prompt, "ctrl+x ctrl+e"),
            KeyMatch::Action(Action::ExternalEditor)
        );
        assert_eq!(
            found(&keymap, Context::Transcript, "esc"),
            KeyMatch::Action(Action::Close)
        );
        assert_eq!(
            found(&keymap, Context::Prompt, "esc"),
            KeyMatch::Action(Action::Cancel)
        );
        assert_eq!(found(&keymap, Context::Prompt, "ctrl+q"), KeyMatch::Nothing);
    }

    #[test]
    fn a_users_file_changes_bindings_and_names_mistakes() {
        let mut keymap = Keymap::default();
        let problems = keymap.merge(&json!({
            "$schema": "x",
            "prompt": {"ctrl+s": null, "ctrl+k ctrl+s": "stash", "ctrl+c": "undo", "x": "undo", "ctrl+q": "fly"},
            "nowhere": {},
            "question": {"f3": "yes", "f4": "fly", "ctrl+d": "no"},
            "list": {"g g": "first"},
        }));
        assert_eq!(
            keymap.find_in_dialog(&[DialogContext::Question], &[Key::new(Code::Function(3))]),
            DialogMatch::Key(Key::char('y'))
        );
        assert_eq!(
            keymap.find_in_dialog(&[DialogContext::List], &[Key::char('g')]),
            DialogMatch::Wait
        );
        assert_eq!(found(&keymap, Context::Prompt, "ctrl+s"), KeyMatch::Nothing);
        assert_eq!(found(&keymap, Context::Prompt, "ctrl+k"), KeyMatch::Wait);
        assert_eq!(
            found(&keymap, Context::Prompt, "ctrl+k ctrl+s"),
            KeyMatch::Action(Action::Stash)
        );
        assert_eq!(problems.len(), 6, "{problems:?}");
        assert!(
            problems
                .iter()
                .any(|problem| problem.contains("fly") && problem.contains("stash"))
        );
    }
    #[test]
    fn a_file_in_the_form_of_the_ecosystem_counts() {
        let mut keymap = Keymap::default();
        let problems = keymap.merge(&json!({
            "$schema": "https://www.schemastore.org/claude-code-keybindings.json",
            "bindings": [
                {"context": "Chat", "bindings": {
                    "ctrl+e": "chat:externalEditor",
                    "ctrl+u": null,
                    "shift+tab": null,
                    "enter": "chat:newline",
                    "meta+enter": "chat:submit",
                    "ctrl+k ctrl+g": "command:compact",
                    "ctrl+q": "voice:pushToTalk",
                    "ctrl+9": "chat:fly",
                }},
                {"context": "Global", "bindings": {"f2": "app:toggleTodos", "ctrl+c": "app:exit"}},
                {"context": "Transcript", "bindings": {"x": "transcript:exit"}},
                {"context": "Select", "bindings": {"ctrl+j": "select:next", "f5": "select:fly"}},
                {"context": "Confirmation", "bindings": {"f3": "confirm:yes", "n": null, "f4": "confirm:toggleExplanation"}},
                {"context": "DiffDialog", "bindings": {"]": "diff:nextFile"}},
                {"context": "ModelPicker", "bindings": {"+": "modelPicker:increaseEffort"}},
                {"context": "Footer", "bindings": {"x": "footer:next"}},
                {"context": "Nowhere", "bindings": {}},
                {"bindings": {}},
            ]
        }));
        let is = |context, keys: &str, action| {
            assert_eq!(
                found(&keymap, context, keys),
                KeyMatch::Action(action),
                "{keys}"
            );
        };
        is(Context::Prompt, "ctrl+e", Action::ExternalEditor);
        is(Context::Prompt, "enter", Action::Newline);
        is(Context::Prompt, "alt+enter", Action::Submit);
        is(Context::Prompt, "ctrl+k ctrl+g", Action::Command(0));
        is(Context::Prompt, "f2", Action::Todos);
        is(Context::Transcript, "x", Action::Close);
        assert_eq!(keymap.command(0), Some("compact"));
        for gone in ["ctrl+u", "shift+tab"] {
            assert_eq!(found(&keymap, Context::Prompt, gone), KeyMatch::Nothing);
        }
        let dialog = |context, keys: &str| keymap.find_in_dialog(&[context], &chord(keys).unwrap());
        let own = |text: &str| DialogMatch::Key(text.parse().unwrap());
        assert_eq!(dialog(DialogContext::List, "ctrl+j"), own("down"));
        assert_eq!(dialog(DialogContext::Question, "f3"), own("y"));
        assert_eq!(dialog(DialogContext::Question, "n"), DialogMatch::Nothing);
        assert_eq!(dialog(DialogContext::Changes, "]"), own("right"));
        assert_eq!(dialog(DialogContext::Model, "+"), own("right"));
        for told in [
            "pushToTalk",
            "chat:fly",
            "app:exit",
            "select:fly",
            "toggleExplanation",
            "Footer",
            "Nowhere",
            "needs",
        ] {
            assert!(
                problems.iter().any(|problem| problem.contains(told)),
                "{told}: {problems:?}"
            );
        }
        assert_eq!(problems.len(), 8, "{problems:?}");
    }
}
