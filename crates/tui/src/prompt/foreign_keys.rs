//! Key bindings in the form of the ecosystem: `{"bindings": [{"context": "Chat", "bindings": {"ctrl+e":
//! "chat:externalEditor"}}]}`. Contexts and actions are translated to ours.

use super::keymap::{Action, Context};

/// A context of the ecosystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignContext {
    /// One that we have.
    Known(Context),
    /// A dialog or list whose keys can't be changed here.
    Fixed,
}

/// The context of a name; `None` if there is no such context.
pub(super) fn context(name: &str) -> Option<ForeignContext> {
    use ForeignContext::{Fixed, Known};
    Some(match name {
        "Global" | "Task" => Known(Context::Global),
        "Chat" | "Autocomplete" => Known(Context::Prompt),
        "Transcript" | "Scroll" => Known(Context::Transcript),
        "Settings" | "Confirmation" | "Tabs" | "Help" | "HistorySearch" | "ThemePicker"
        | "Attachments" | "Footer" | "MessageSelector" | "MessageActions" | "DiffDialog"
        | "ModelPicker" | "Select" | "Plugin" | "Doctor" => Fixed,
        _ => return None,
    })
}

/// The counterpart of an action of the ecosystem.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ForeignAction<'a> {
    Action(Action),
    /// Runs a slash command.
    Command(&'a str),
    /// Known, but there is nothing like it.
    Absent,
}

const ACTIONS: &[(&str, Action)] = &[
    ("app:interrupt", Action::Cancel),
    ("app:redraw", Action::Redraw),
    ("app:toggleTodos", Action::Todos),
    ("app:toggleTranscript", Action::Transcript),
    ("history:search", Action::HistorySearch),
    ("history:previous", Action::Up),
    ("history:next", Action::Down),
    ("chat:cancel", Action::Cancel),
    ("chat:killAgents", Action::StopAgents),
    ("chat:cycleMode", Action::CycleMode),
    ("chat:modelPicker", Action::ModelPicker),
    ("chat:submit", Action::Submit),
    ("chat:newline", Action::Newline),
    ("chat:undo", Action::Undo),
    ("chat:externalEditor", Action::ExternalEditor),
    ("chat:stash", Action::Stash),
    ("chat:imagePaste", Action::PasteImage),
    ("chat:messageActions", Action::Rewind),
    ("autocomplete:accept", Action::Complete),
    ("autocomplete:dismiss", Action::Cancel),
    ("autocomplete:previous", Action::Up),
    ("autocomplete:next", Action::Down),
    ("transcript:toggleShowAll", Action::ExpandAll),
    ("transcript:exit", Action::Close),
    ("task:background", Action::Background),
    ("scroll:lineUp", Action::Up),
    ("scroll:lineDown", Action::Down),
    ("scroll:pageUp", Action::PageUp),
    ("scroll:pageDown", Action::PageDown),
    ("scroll:halfPageUp", Action::PageUp),
    ("scroll:halfPageDown", Action::PageDown),
    ("scroll:fullPageUp", Action::PageUp),
    ("scroll:fullPageDown", Action::PageDown),
    ("scroll:top", Action::TextStart),
    ("scroll:bottom", Action::TextEnd),
];

/// Groups of actions that belong to dialogs and lists, or to things that don't exist here.
const GROUPS: &[&str] = &[
    "app",
    "history",
    "chat",
    "autocomplete",
    "confirm",
    "permission",
    "transcript",
    "historySearch",
    "task",
    "theme",
    "help",
    "tabs",
    "attachments",
    "footer",
    "messageSelector",
    "messageActions",
    "diff",
    "modelPicker",
    "select",
    "plugin",
    "settings",
    "voice",
    "scroll",
    "selection",
    "doctor",
    "strip",
];

/// The action of a name, in a context; `None` if there is no such action.
pub(super) fn action(name: &str, context: Context) -> Option<ForeignAction<'_>> {
    if let Some((_, action)) = ACTIONS.iter().find(|(known, _)| *known == name) {
        return Some(ForeignAction::Action(match (action, context) {
            (Action::Transcript, Context::Transcript) => Action::Close,
            (action, _) => *action,
        }));
    }
    let (group, rest) = name.split_once(':')?;
    if group == "command" && !rest.is_empty() {
        return Some(ForeignAction::Command(rest));
    }
    GROUPS.contains(&group).then_some(ForeignAction::Absent)
}
