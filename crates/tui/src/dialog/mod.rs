//! Dialogs: what stands in place of the prompt while something must be chosen or answered.
//!
//! One at a time. Every dialog is a small state machine: it takes keys and gives lines; what its answer
//! means is decided by the app ([`Outcome`]).

pub(crate) mod changes;
pub(crate) mod elicitation;
pub(crate) mod form;
pub(crate) mod page;
pub(crate) mod permission;
pub(crate) mod picker;
pub(crate) mod plan;
pub(crate) mod question;

use crate::key::Key;
use crate::markdown::Look;
use crate::screen::Cursor;
use crate::style::Line;
pub(crate) use changes::ChangesDialog;
pub(crate) use elicitation::ElicitationDialog;
pub(crate) use form::Form;
use lathe_protocol::elicitation::{ElicitationReply, ElicitationRequest};
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::PermissionRequest;
pub(crate) use page::Page;
pub(crate) use permission::PermissionDialog;
pub(crate) use picker::{Item, Picker};
pub(crate) use plan::PlanDialog;
pub(crate) use question::QuestionDialog;
use std::path::Path;
use std::sync::Arc;

/// What a choice is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Trust,
    Model,
    Theme,
    Resume,
    RewindTo,
    RewindWhat {
        to: String,
    },
    Mode,
    Memory {
        text: String,
    },
    Config,
    ConfigValue {
        key: String,
    },
    PermissionRule,
    Tasks,
    Mcp,
    Agents,
    Skills,
    OutputStyle,
    McpServer {
        name: String,
    },
    History,
    Effort,
    AddRule,
    Rename,
    AddDirectory,
    /// A title for a session of the list.
    RenameSession {
        id: String,
    },
    /// A page that is only read.
    Reading,
    /// Something is being fetched.
    Fetching,
    Hooks,
    TaskOutput {
        id: String,
    },
    Plugins,
    Plugin {
        id: String,
    },
    PluginInstall,
    PluginConfirm,
    Marketplaces,
    Marketplace {
        name: String,
    },
    AddMarketplace,
    Editors,
    Login,
    KeyHelper,
    Logout,
    Cost,
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The dialog stays.
    Stay,
    /// It was left without an answer.
    Cancelled,
    /// Something was chosen, by its value.
    Chosen(String),
    /// A second thing that can be done with an item.
    Other { value: String, key: char },
    /// A permission question was answered.
    Answered(permission::Answer),
    /// A question of an MCP server was answered.
    Elicited(ElicitationReply),
}

/// Something that waits for the person.
#[derive(Debug, Clone)]
pub(crate) enum Waiting {
    Permission(Arc<PermissionRequest>),
    Elicitation(Arc<ElicitationRequest>),
}

impl Waiting {
    pub(crate) fn id(&self) -> &RequestId {
        match self {
            Self::Permission(request) => &request.request_id,
            Self::Elicitation(request) => &request.request_id,
        }
    }

    /// The dialog in which it is answered.
    pub(crate) fn dialog(self, cwd: &Path) -> Dialog {
        let request = match self {
            Self::Permission(request) => request,
            Self::Elicitation(request) => {
                return Dialog::Elicitation(Box::new(ElicitationDialog::new(request)));
            }
        };
        let fitting = match request.tool_name.as_str() {
            lathe_tools::ask_user_question::NAME => QuestionDialog::new(request.clone())
                .map(|dialog| Dialog::Questions(Box::new(dialog))),
            lathe_tools::plan_mode::EXIT => {
                PlanDialog::new(request.clone()).map(|dialog| Dialog::Plan(Box::new(dialog)))
            }
            _ => None,
        };
        fitting.unwrap_or_else(|| Dialog::Permission(Box::new(PermissionDialog::new(request, cwd))))
    }
}

/// A dialog.
pub(crate) enum Dialog {
    Picker(Picker),
    Form(Form),
    Permission(Box<PermissionDialog>),
    Questions(Box<QuestionDialog>),
    Plan(Box<PlanDialog>),
    Elicitation(Box<ElicitationDialog>),
    Page(Page),
    Changes(Box<ChangesDialog>),
}

impl Dialog {
    /// What it is for, if the person opened it.
    pub(crate) fn purpose(&self) -> Option<&Purpose> {
        match self {
            Self::Picker(picker) => Some(&picker.purpose),
            Self::Form(form) => Some(&form.purpose),
            Self::Page(page) => Some(&page.purpose),
            Self::Changes(_) => Some(&Purpose::Reading),
            Self::Permission(_) | Self::Questions(_) | Self::Plan(_) | Self::Elicitation(_) => None,
        }
    }

    /// Which question it is, if it came by itself.
    pub(crate) fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Permission(dialog) => Some(&dialog.request.request_id),
            Self::Questions(dialog) => Some(&dialog.request.request_id),
            Self::Plan(dialog) => Some(&dialog.request.request_id),
            Self::Elicitation(dialog) => Some(&dialog.request.request_id),
            Self::Picker(_) | Self::Form(_) | Self::Page(_) | Self::Changes(_) => None,
        }
    }

    /// Whether keys are meant for it. A person who was typing when a question came up goes on typing
    /// until they turn to it.
    pub(crate) fn armed(&self) -> bool {
        match self {
            Self::Permission(dialog) => dialog.armed,
            Self::Questions(dialog) => dialog.armed,
            Self::Plan(dialog) => dialog.armed,
            Self::Elicitation(dialog) => dialog.armed,
            Self::Picker(_) | Self::Form(_) | Self::Page(_) | Self::Changes(_) => true,
        }
    }

    pub(crate) fn arm(&mut self, armed: bool) {
        match self {
            Self::Permission(dialog) => dialog.armed = armed,
            Self::Questions(dialog) => dialog.armed = armed,
            Self::Plan(dialog) => dialog.armed = armed,
            Self::Elicitation(dialog) => dialog.armed = armed,
            Self::Picker(_) | Self::Form(_) | Self::Page(_) | Self::Changes(_) => {}
        }
    }

    /// Everything that the question is about, however long; `None` where the dialog shows it all.
    pub(crate) fn in_full(&self, look: Look<'_>) -> Option<Vec<Line>> {
        match self {
            Self::Permission(dialog) => Some(dialog.in_full(look)),
            Self::Questions(dialog) => Some(dialog.in_full(look)),
            Self::Plan(dialog) => Some(dialog.in_full(look)),
            Self::Elicitation(_)
            | Self::Picker(_)
            | Self::Form(_)
            | Self::Page(_)
            | Self::Changes(_) => None,
        }
    }

    pub(crate) fn key(&mut self, key: Key) -> Outcome {
        match self {
            Self::Picker(picker) => picker.key(key),
            Self::Form(form) => form.key(key),
            Self::Permission(dialog) => dialog.key(key),
            Self::Questions(dialog) => dialog.key(key),
            Self::Plan(dialog) => dialog.key(key),
            Self::Elicitation(dialog) => dialog.key(key),
            Self::Page(page) => page.key(key),
            Self::Changes(dialog) => dialog.key(key),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        match self {
            Self::Picker(picker) => picker.paste(text),
            Self::Form(form) => form.paste(text),
            Self::Permission(dialog) => dialog.paste(text),
            Self::Questions(dialog) => dialog.paste(text),
            Self::Plan(dialog) => dialog.paste(text),
            Self::Elicitation(dialog) => dialog.paste(text),
            Self::Page(_) | Self::Changes(_) => {}
        }
    }

    /// The dialog's lines and where the cursor is in them.
    pub(crate) fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        match self {
            Self::Picker(picker) => picker.view(look, rows),
            Self::Form(form) => form.view(look),
            Self::Permission(dialog) => dialog.view(look, rows),
            Self::Questions(dialog) => dialog.view(look, rows),
            Self::Plan(dialog) => dialog.view(look, rows),
            Self::Elicitation(dialog) => dialog.view(look, rows),
            Self::Page(page) => page.view(look, rows),
            Self::Changes(dialog) => dialog.view(look, rows),
        }
    }
}

/// What the tests of dialogs share: drawing one, and walking through one key by key.
#[cfg(test)]
mod tests {
    use super::{Cursor, Key, Line, Look, Outcome};
    use crate::key::keys;
    use crate::theme::Theme;

    /// The text of a view, a line each.
    pub(super) fn drawn(view: impl FnOnce(Look<'_>) -> (Vec<Line>, Cursor)) -> String {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 60,
        };
        let (lines, _) = view(look);
        lines.iter().map(|line| line.text() + "\n").collect()
    }

    /// Presses keys that leave the dialog open; after each of the table's steps both of its texts are shown.
    /// It is drawn before every key, because a view settles where its pages end.
    pub(super) fn walk<D>(
        dialog: &mut D,
        press: impl Fn(&mut D, Key) -> Outcome,
        shown: impl Fn(&D) -> String,
        table: &[(&str, &str, &str)],
    ) {
        for (pressed, line, position) in table {
            for key in keys(pressed) {
                let _ = shown(dialog);
                assert_eq!(press(dialog, key), Outcome::Stay, "{pressed}");
            }
            let shown = shown(dialog);
            assert!(
                shown.contains(line) && shown.contains(position),
                "{pressed}: {shown}"
            );
        }
    }
}
