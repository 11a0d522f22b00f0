//! Layers: everything that is open above the prompt.
//!
//! A stack. Keys go to the top layer, Esc closes it, and the layer below is there again. Completion and
//! the short help leave the prompt usable; dialogs stand in its place; a question of the engine continues top
//! of whatever dialog is open, and the full-screen transcript on top of that.
//!
//! A layer is a small state machine: it takes keys and gives lines. The meaning of its answer is decided by the
//! app ([`Outcome`], [`Purpose`]).

pub(crate) mod agent;
pub(crate) mod changes;
pub(crate) mod elicitation;
pub(crate) mod form;
pub(crate) mod help;
pub(crate) mod keyboard;
pub(crate) mod page;
pub(crate) mod permission;
pub(crate) mod picker;
pub(crate) mod plan;
pub(crate) mod question;
pub(crate) mod review;
mod stack;
pub(crate) mod transcript;
#[cfg(test)]
mod view_tests;

use crate::prompt::dialog_keys::DialogContext;
use crate::prompt::keymap::Action;
use crate::render::markdown::Look;
use crate::render::style::Line;
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::Key;
pub(crate) use changes::ChangesDialog;
pub(crate) use elicitation::ElicitationDialog;
pub(crate) use form::Form;
use lathe_engine::SwitchSource;
use lathe_protocol::elicitation::{ElicitationReply, ElicitationRequest};
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::PermissionRequest;
pub(crate) use page::Page;
pub(crate) use permission::PermissionDialog;
pub(crate) use picker::{Item, Picker};
pub(crate) use plan::PlanDialog;
pub(crate) use question::QuestionDialog;
pub(crate) use stack::Layers;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a layer is drawn. Layers of a higher level stay above those of a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Below the prompt, which stays usable.
    BelowPrompt,
    /// In place of the prompt.
    Dialog,
    /// In place of the prompt, and the engine waits for the answer.
    Question,
    /// On the alternate screen.
    FullScreen,
}

/// Something that is open above the prompt.
pub(crate) trait Layer: Any + Send {
    fn level(&self) -> Level {
        Level::Dialog
    }

    fn key(&mut self, key: Key) -> Outcome;

    /// An action of the prompt, offered first to layers below it.
    fn action(&mut self, _action: Action) -> Outcome {
        Outcome::Ignored
    }

    fn paste(&mut self, _text: &str) {}

    /// The lines, and where the cursor is in them.
    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor);

    /// The purpose of a dialog that the user opened.
    fn purpose(&self) -> Option<&Purpose> {
        None
    }

    /// The question that is answered here.
    fn request_id(&self) -> Option<&RequestId> {
        None
    }

    /// Whether keys are meant for it. A user who was typing when a question came up continues typing until
    /// they turn to it.
    fn armed(&self) -> bool {
        true
    }

    fn arm(&mut self, _armed: bool) {}

    /// Whose keys of the user's file apply, the first first.
    fn contexts(&self) -> &'static [DialogContext] {
        &[]
    }

    /// Whether characters are text for it now, not commands.
    fn takes_text(&self) -> bool {
        false
    }

    /// Everything that a question is about, however long; `None` where the layer shows it all.
    fn in_full(&self, _look: Look<'_>) -> Option<Vec<Line>> {
        None
    }
}

/// The purpose of a dialog: it decides what an answer does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Trust,
    Model,
    /// A hook wants a switch of the model confirmed.
    ModelSwitch {
        wanted: String,
        source: SwitchSource,
    },
    Theme,
    Resume,
    /// A session that belongs to another folder.
    OtherFolder {
        id: String,
        folder: PathBuf,
    },
    Queue,
    /// The branches of the session.
    Tree,
    /// A name for a place in the tree.
    TreeLabel {
        id: String,
    },
    /// Words to search for in all sessions.
    SearchText,
    /// The messages that were found.
    Found,
    /// How full the window is.
    Context,
    /// The results in the context.
    Contents,
    Insights,
    /// The changed files.
    Changes,
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
    /// A rule that is being changed: behavior, source and rule, a line each.
    EditRule {
        old: String,
    },
    /// Where a rule applies.
    RuleScope {
        rule: String,
    },
    Proposals,
    /// There is no key: where to go from here.
    NoKey,
    /// A key for this session.
    SessionKey,
    /// The provider to log in to.
    Providers,
    /// The key of a provider, to be stored.
    ProviderKey {
        provider: String,
    },
    /// A model of a provider or local server.
    ProviderModel,
    Tasks,
    /// An agent at work.
    Agent {
        id: String,
    },
    Mcp,
    Agents,
    /// The name of an agent that is being created.
    NewAgent,
    /// Where a new agent belongs.
    NewAgentPlace {
        name: String,
    },
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
    /// Work continues in the background, and the user wants to exit.
    Leave,
}

/// The effect of a key on a layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The layer used the key and stays open.
    Stay,
    /// The key is not for this layer.
    Ignored,
    /// The layer was closed without an answer.
    Cancelled,
    /// An item was chosen or a text was entered.
    Chosen(String),
    /// Another key that the layer offers for the selected item.
    Other { value: String, key: char },
    /// A permission question was answered.
    Answered(permission::PermissionAnswer),
    /// A question of an MCP server was answered.
    Elicited(ElicitationReply),
    /// The app is to carry out an action.
    Do(Action),
}

/// A question of the engine that waits for the user.
#[derive(Debug, Clone)]
pub(crate) enum PendingQuestion {
    Permission(Arc<PermissionRequest>),
    Elicitation(Arc<ElicitationRequest>),
}

impl PendingQuestion {
    pub(crate) fn id(&self) -> &RequestId {
        match self {
            Self::Permission(request) => &request.request_id,
            Self::Elicitation(request) => &request.request_id,
        }
    }

    /// The layer in which it is answered.
    pub(crate) fn layer(self, cwd: &Path) -> Box<dyn Layer> {
        let request = match self {
            Self::Permission(request) => request,
            Self::Elicitation(request) => return Box::new(ElicitationDialog::new(request)),
        };
        match request.tool_name.as_str() {
            lathe_tools::ask_user_question::NAME => {
                if let Some(dialog) = QuestionDialog::new(request.clone()) {
                    return Box::new(dialog);
                }
            }
            lathe_tools::plan_mode::EXIT => {
                if let Some(dialog) = PlanDialog::new(request.clone()) {
                    return Box::new(dialog);
                }
            }
            _ => {}
        }
        Box::new(PermissionDialog::new(request, cwd))
    }
}

/// Helpers for the tests of dialogs: drawing one, and walking through one key by key.
#[cfg(test)]
mod tests {
    use super::{Cursor, Key, Line, Look, Outcome};
    use crate::render::theme::Theme;
    use crate::terminal::key::keys;

    /// The text of a view, a line each.
    pub(super) fn drawn(view: impl FnOnce(Look<'_>) -> (Vec<Line>, Cursor)) -> String {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 60,
            keys: crate::prompt::keymap::Keymap::standard(),
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
