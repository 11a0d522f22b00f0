//! The actions of keys, where they apply, and their keys by default.

/// Something that a key can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    Up,
    Down,
    Newline,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordLeft,
    DeleteWordForward,
    KillToEnd,
    KillToStart,
    Yank,
    YankPop,
    Undo,
    Redo,
    Transpose,
    Submit,
    Queue,
    Complete,
    Cancel,
    Transcript,
    Todos,
    ExternalEditor,
    Stash,
    HistorySearch,
    CycleMode,
    Background,
    Keyboard,
    StopAgents,
    NextAgent,
    PreviousAgent,
    Redraw,
    Suspend,
    ModelPicker,
    PasteImage,
    Help,
    Rewind,
    PageUp,
    PageDown,
    Search,
    SearchNext,
    SearchPrevious,
    ExpandAll,
    Copy,
    Close,
    /// A slash command of the keymap, by number.
    Command(usize),
}

/// Where a binding applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Context {
    Global,
    Prompt,
    Transcript,
}

impl Context {
    pub(super) const ALL: [(Self, &'static str); 3] = [
        (Self::Global, "global"),
        (Self::Prompt, "prompt"),
        (Self::Transcript, "transcript"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(context, _)| *context == self)
            .map_or("", |(_, name)| name)
    }
}

/// Every action with its name and what it does, in the order of the help.
pub(crate) const ACTIONS: &[(Action, &str, &str)] = &[
    (Action::Submit, "submit", "send the prompt"),
    (
        Action::Queue,
        "queue",
        "send after the turn; a new line when nothing runs",
    ),
    (Action::Newline, "newline", "insert a new line"),
    (
        Action::Cancel,
        "cancel",
        "interrupt, or close the open view",
    ),
    (Action::CycleMode, "cycleMode", "next permission mode"),
    (
        Action::Transcript,
        "transcript",
        "show the whole conversation",
    ),
    (Action::Todos, "todos", "show or hide the task list"),
    (
        Action::Background,
        "background",
        "move commands and agents to the background",
    ),
    (
        Action::Keyboard,
        "keyboard",
        "type into a running command; right when none runs",
    ),
    (Action::StopAgents, "stopAgents", "stop all agents"),
    (
        Action::NextAgent,
        "nextAgent",
        "open an agent at work, or the next one",
    ),
    (
        Action::PreviousAgent,
        "previousAgent",
        "open the agent before, or go back",
    ),
    (
        Action::ExternalEditor,
        "externalEditor",
        "write the prompt in $EDITOR",
    ),
    (Action::Stash, "stash", "stash the prompt, or restore it"),
    (
        Action::HistorySearch,
        "historySearch",
        "search the history of prompts",
    ),
    (Action::ModelPicker, "modelPicker", "choose the model"),
    (
        Action::PasteImage,
        "pasteImage",
        "attach the image in the clipboard",
    ),
    (Action::Complete, "complete", "accept the completion"),
    (Action::Rewind, "rewind", "go back to an earlier prompt"),
    (Action::Help, "help", "show the keys"),
    (Action::Redraw, "redraw", "redraw the screen"),
    (
        Action::Suspend,
        "suspend",
        "suspend and return to the shell",
    ),
    (Action::Undo, "undo", "undo"),
    (Action::Redo, "redo", "redo"),
    (Action::Left, "left", "left"),
    (Action::Right, "right", "right"),
    (Action::Up, "up", "up, or the previous prompt"),
    (Action::Down, "down", "down, or the next prompt"),
    (Action::WordLeft, "wordLeft", "a word left"),
    (Action::WordRight, "wordRight", "a word right"),
    (Action::LineStart, "lineStart", "start of the line"),
    (Action::LineEnd, "lineEnd", "end of the line"),
    (Action::TextStart, "textStart", "start of the prompt"),
    (Action::TextEnd, "textEnd", "end of the prompt"),
    (Action::DeleteBack, "deleteBack", "delete to the left"),
    (
        Action::DeleteForward,
        "deleteForward",
        "delete to the right",
    ),
    (
        Action::DeleteWordBack,
        "deleteWordBack",
        "cut to the blank on the left",
    ),
    (
        Action::DeleteWordLeft,
        "deleteWordLeft",
        "cut the word on the left",
    ),
    (
        Action::DeleteWordForward,
        "deleteWordForward",
        "cut the word on the right",
    ),
    (Action::KillToEnd, "killToEnd", "cut to the end of the line"),
    (
        Action::KillToStart,
        "killToStart",
        "cut to the start of the line",
    ),
    (Action::Yank, "yank", "insert the last cut"),
    (
        Action::YankPop,
        "yankPop",
        "replace with the cut before that",
    ),
    (Action::Transpose, "transpose", "swap two characters"),
    (Action::PageUp, "pageUp", "a page up"),
    (Action::PageDown, "pageDown", "a page down"),
    (Action::Search, "search", "search"),
    (Action::SearchNext, "searchNext", "next match"),
    (Action::SearchPrevious, "searchPrevious", "previous match"),
    (Action::ExpandAll, "expandAll", "unfold or fold everything"),
    (Action::Copy, "copy", "copy the last answer"),
    (Action::Close, "close", "close"),
];

/// The keys of the actions, until the user binds others.
pub(super) const DEFAULTS: &[(Context, &str, Action)] = &[
    (Context::Global, "esc", Action::Cancel),
    (Context::Global, "ctrl+o", Action::Transcript),
    (Context::Global, "ctrl+t", Action::Todos),
    (Context::Global, "ctrl+b", Action::Background),
    (Context::Prompt, "ctrl+x ctrl+k", Action::StopAgents),
    (Context::Prompt, "ctrl+down", Action::NextAgent),
    (Context::Prompt, "ctrl+up", Action::PreviousAgent),
    (Context::Global, "ctrl+l", Action::Redraw),
    (Context::Global, "ctrl+z", Action::Suspend),
    (Context::Global, "shift+tab", Action::CycleMode),
    (Context::Global, "alt+m", Action::CycleMode),
    (Context::Global, "alt+p", Action::ModelPicker),
    (Context::Prompt, "enter", Action::Submit),
    (Context::Prompt, "shift+enter", Action::Newline),
    (Context::Prompt, "alt+enter", Action::Queue),
    (Context::Prompt, "ctrl+j", Action::Newline),
    (Context::Prompt, "tab", Action::Complete),
    (Context::Prompt, "ctrl+g", Action::ExternalEditor),
    (Context::Prompt, "ctrl+x ctrl+e", Action::ExternalEditor),
    (Context::Prompt, "ctrl+s", Action::Stash),
    (Context::Prompt, "ctrl+r", Action::HistorySearch),
    (Context::Prompt, "ctrl+v", Action::PasteImage),
    (Context::Prompt, "left", Action::Left),
    (Context::Prompt, "right", Action::Right),
    (Context::Prompt, "ctrl+f", Action::Keyboard),
    (Context::Prompt, "up", Action::Up),
    (Context::Prompt, "down", Action::Down),
    (Context::Prompt, "ctrl+p", Action::Up),
    (Context::Prompt, "ctrl+n", Action::Down),
    (Context::Prompt, "alt+left", Action::WordLeft),
    (Context::Prompt, "alt+right", Action::WordRight),
    (Context::Prompt, "ctrl+left", Action::WordLeft),
    (Context::Prompt, "ctrl+right", Action::WordRight),
    (Context::Prompt, "alt+b", Action::WordLeft),
    (Context::Prompt, "alt+f", Action::WordRight),
    (Context::Prompt, "ctrl+a", Action::LineStart),
    (Context::Prompt, "ctrl+e", Action::LineEnd),
    (Context::Prompt, "home", Action::LineStart),
    (Context::Prompt, "end", Action::LineEnd),
    (Context::Prompt, "ctrl+home", Action::TextStart),
    (Context::Prompt, "ctrl+end", Action::TextEnd),
    (Context::Prompt, "alt+<", Action::TextStart),
    (Context::Prompt, "alt+>", Action::TextEnd),
    (Context::Prompt, "backspace", Action::DeleteBack),
    (Context::Prompt, "shift+backspace", Action::DeleteBack),
    (Context::Prompt, "ctrl+h", Action::DeleteBack),
    (Context::Prompt, "delete", Action::DeleteForward),
    (Context::Prompt, "ctrl+w", Action::DeleteWordBack),
    (Context::Prompt, "alt+backspace", Action::DeleteWordLeft),
    (Context::Prompt, "ctrl+backspace", Action::DeleteWordLeft),
    (Context::Prompt, "alt+d", Action::DeleteWordForward),
    (Context::Prompt, "ctrl+delete", Action::DeleteWordForward),
    (Context::Prompt, "ctrl+k", Action::KillToEnd),
    (Context::Prompt, "ctrl+u", Action::KillToStart),
    (Context::Prompt, "ctrl+y", Action::Yank),
    (Context::Prompt, "alt+y", Action::YankPop),
    (Context::Prompt, "ctrl+_", Action::Undo),
    (Context::Prompt, "ctrl+/", Action::Undo),
    (Context::Prompt, "ctrl+x ctrl+u", Action::Undo),
    (Context::Prompt, "alt+_", Action::Redo),
    (Context::Prompt, "ctrl+shift+_", Action::Redo),
    (Context::Prompt, "ctrl+x ctrl+r", Action::Redo),
    (Context::Prompt, "ctrl+x ctrl+t", Action::Transpose),
    (Context::Transcript, "q", Action::Close),
    (Context::Transcript, "esc", Action::Close),
    (Context::Transcript, "ctrl+o", Action::Close),
    (Context::Transcript, "up", Action::Up),
    (Context::Transcript, "k", Action::Up),
    (Context::Transcript, "down", Action::Down),
    (Context::Transcript, "j", Action::Down),
    (Context::Transcript, "b", Action::PageUp),
    (Context::Transcript, "pageup", Action::PageUp),
    (Context::Transcript, "ctrl+u", Action::PageUp),
    (Context::Transcript, "space", Action::PageDown),
    (Context::Transcript, "pagedown", Action::PageDown),
    (Context::Transcript, "ctrl+d", Action::PageDown),
    (Context::Transcript, "g", Action::TextStart),
    (Context::Transcript, "home", Action::TextStart),
    (Context::Transcript, "G", Action::TextEnd),
    (Context::Transcript, "end", Action::TextEnd),
    (Context::Transcript, "/", Action::Search),
    (Context::Transcript, "n", Action::SearchNext),
    (Context::Transcript, "N", Action::SearchPrevious),
    (Context::Transcript, "ctrl+e", Action::ExpandAll),
    (Context::Transcript, "c", Action::Copy),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_page_of_the_terminal_has_a_key_of_every_action() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terminal.md");
        let page = std::fs::read_to_string(docs).unwrap();
        let (_, keys) = page.split_once("\n## Keys\n").unwrap();
        let (keys, _) = keys.split_once("\n### ").unwrap();
        let keys = keys.replace('↓', "down").replace('↑', "up");
        let named = |key: &str| {
            keys.split([' ', ',', '|', '`', '\n', ';'])
                .collect::<Vec<_>>()
                .windows(key.split(' ').count())
                .any(|words| words.join(" ") == key)
        };
        for (action, name, _) in ACTIONS {
            let mut own = DEFAULTS.iter().filter(|(_, _, bound)| bound == action);
            let is_bound = own.clone().next().is_some();
            let is_named = own.any(|(_, key, _)| named(key));
            assert!(!is_bound || is_named, "{name}");
        }
    }
}
