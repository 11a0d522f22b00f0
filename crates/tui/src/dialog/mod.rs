//! Dialogs: what stands in place of the prompt while something must be chosen or answered.
//!
//! One at a time. Every dialog is a small state machine: it takes keys and gives lines; what its answer
//! means is decided by the app ([`Outcome`]).

pub(crate) mod form;
pub(crate) mod permission;
pub(crate) mod picker;

use crate::key::Key;
use crate::markdown::Look;
use crate::screen::Cursor;
use crate::style::Line;
pub(crate) use form::Form;
pub(crate) use permission::PermissionDialog;
pub(crate) use picker::{Item, Picker};

/// What a choice is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Trust,
    Model,
    Theme,
    Resume,
    RewindTo,
    RewindWhat { to: String },
    Mode,
    Memory { text: String },
    Config,
    ConfigValue { key: String },
    PermissionRule,
    Tasks,
    History,
    Effort,
    AddRule,
    Rename,
    AddDirectory,
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
}

/// A dialog.
pub(crate) enum Dialog {
    Picker(Picker),
    Form(Form),
    Permission(Box<PermissionDialog>),
}

impl Dialog {
    pub(crate) fn key(&mut self, key: Key) -> Outcome {
        match self {
            Self::Picker(picker) => picker.key(key),
            Self::Form(form) => form.key(key),
            Self::Permission(dialog) => dialog.key(key),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        match self {
            Self::Picker(picker) => picker.paste(text),
            Self::Form(form) => form.paste(text),
            Self::Permission(dialog) => dialog.paste(text),
        }
    }

    /// The dialog's lines and where the cursor is in them.
    pub(crate) fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        match self {
            Self::Picker(picker) => picker.view(look, rows),
            Self::Form(form) => form.view(look),
            Self::Permission(dialog) => dialog.view(look, rows),
        }
    }
}
