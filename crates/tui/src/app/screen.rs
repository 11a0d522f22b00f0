//! The screen: its size, what is drawn on it, and whether it must be drawn again.

use crate::render::style::{ColorDepth, Encoder};
use crate::terminal;
use crate::terminal::full_screen::FullScreen;
use crate::terminal::graphics::Graphics;
use crate::terminal::inline_screen::InlineScreen;
use crate::terminal::{ReaderControl, inline_screen};
use lathe_settings::Environment;

pub(crate) struct Screen {
    pub(crate) inline: InlineScreen,
    /// The alternate screen, while it is shown.
    pub(crate) full: Option<FullScreen>,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// Written before the next frame.
    pub(crate) pending: String,
    pub(crate) dirty: bool,
    /// Draw without waiting for the next frame.
    pub(crate) urgent: bool,
    pub(crate) reader: Option<ReaderControl>,
    /// How images are shown.
    pub(crate) graphics: Graphics,
}

impl Screen {
    pub(crate) fn new(environment: &Environment, depth: ColorDepth) -> Self {
        let (columns, rows) = terminal::size();
        let variable = |name: &str| environment.foreign(name).map(str::to_owned);
        let encoder = Encoder {
            depth,
            links: depth != ColorDepth::None && variable("TERM").as_deref() != Some("linux"),
        };
        Self {
            inline: InlineScreen::new(encoder, columns, inline_screen::rewraps(variable)),
            full: None,
            columns,
            rows,
            pending: String::new(),
            dirty: true,
            urgent: true,
            reader: None,
            graphics: Graphics::new(environment),
        }
    }
}

impl Screen {
    /// Columns that are written to: a row is never filled.
    pub(crate) fn width(&self) -> usize {
        self.columns.saturating_sub(1).max(1)
    }

    /// Draw without waiting for the next frame.
    pub(crate) fn changed_now(&mut self) {
        self.dirty = true;
        self.urgent = true;
    }

    /// Columns for the prompt's text.
    pub(crate) fn prompt_columns(&self) -> usize {
        self.width().saturating_sub(1).max(8)
    }
}
