//! Key bindings in the form of the ecosystem: `{"bindings": [{"context": "Chat", "bindings": {"ctrl+e":
//! "chat:externalEditor"}}]}`. Contexts and actions are translated to ours.

use super::dialog_keys::DialogContext;
use super::keymap::{Action, Context};

/// A context of the ecosystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignContext {
    /// One that we have.
    Known(Context),
    /// A kind of dialog.
    Dialog(DialogContext),
    /// Something that doesn't exist here.
    Absent,
}

use ForeignContext::{Absent, Dialog, Known};

const CONTEXTS: &[(&str, ForeignContext)] = &[
    ("Global", Known(Context::Global)),
    ("Task", Known(Context::Global)),
    ("Chat", Known(Context::Prompt)),
    ("Autocomplete", Known(Context::Prompt)),
    ("Transcript", Known(Context::Transcript)),
    ("Scroll", Known(Context::Transcript)),
    ("Select", Dialog(DialogContext::List)),
    ("Settings", Dialog(DialogContext::Settings)),
    ("ThemePicker", Dialog(DialogContext::Theme)),
    ("ModelPicker", Dialog(DialogContext::Model)),
    ("HistorySearch", Dialog(DialogContext::History)),
    ("MessageSelector", Dialog(DialogContext::Rewind)),
    ("Plugin", Dialog(DialogContext::Plugins)),
    ("Confirmation", Dialog(DialogContext::Question)),
    ("DiffDialog", Dialog(DialogContext::Changes)),
    ("Tabs", Dialog(DialogContext::Changes)),
    ("Help", Dialog(DialogContext::Page)),
    ("Doctor", Dialog(DialogContext::Page)),
    ("Attachments", Absent),
    ("Footer", Absent),
    ("MessageActions", Absent),
];

/// Names of the contexts that apply.
pub(super) fn context_names() -> String {
    let names = CONTEXTS.iter().filter(|(_, context)| *context != Absent);
    names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The context of a name; `None` if there is no such context.
pub(super) fn context(name: &str) -> Option<ForeignContext> {
    let found = CONTEXTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, context)| *context)
}

/// Actions in dialogs, and the names of ours.
const DIALOG_ACTIONS: &[(&str, &str)] = &[
    ("select:next", "next"),
    ("select:previous", "previous"),
    ("select:accept", "accept"),
    ("select:cancel", "cancel"),
    ("select:pageUp", "pageUp"),
    ("select:pageDown", "pageDown"),
    ("select:first", "first"),
    ("select:last", "last"),
    ("settings:close", "cancel"),
    ("confirm:yes", "yes"),
    ("confirm:no", "no"),
    ("confirm:next", "next"),
    ("confirm:previous", "previous"),
    ("confirm:nextField", "nextField"),
    ("confirm:previousField", "previousField"),
    ("confirm:toggle", "toggle"),
    ("modelPicker:decreaseEffort", "lessEffort"),
    ("modelPicker:increaseEffort", "moreEffort"),
    ("historySearch:next", "next"),
    ("historySearch:accept", "accept"),
    ("historySearch:cancel", "cancel"),
    ("messageSelector:up", "previous"),
    ("messageSelector:down", "next"),
    ("messageSelector:top", "first"),
    ("messageSelector:bottom", "last"),
    ("messageSelector:select", "accept"),
    ("diff:dismiss", "cancel"),
    ("diff:back", "cancel"),
    ("diff:viewDetails", "accept"),
    ("diff:previousFile", "previousFile"),
    ("diff:nextFile", "nextFile"),
    ("diff:previousSource", "otherSource"),
    ("diff:nextSource", "otherSource"),
    ("tabs:next", "otherSource"),
    ("tabs:previous", "otherSource"),
    ("help:dismiss", "cancel"),
    ("scroll:lineUp", "previous"),
    ("scroll:lineDown", "next"),
    ("scroll:pageUp", "pageUp"),
    ("scroll:pageDown", "pageDown"),
    ("scroll:top", "first"),
    ("scroll:bottom", "last"),
    ("app:toggleTranscript", "whole"),
    ("chat:externalEditor", "externalEditor"),
];

/// Our name of an action in a dialog.
pub(super) fn dialog_action(name: &str) -> Option<&'static str> {
    let found = DIALOG_ACTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, action)| *action)
}

/// Whether the ecosystem has such actions.
pub(super) fn is_known(name: &str) -> bool {
    dialog_action(name).is_some()
        || name
            .split_once(':')
            .is_some_and(|(group, _)| GROUPS.contains(&group))
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

/// Groups of actions of the ecosystem.
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
