//! Pictures that tools returned: shown above their names where the terminal can, named where not.

use crate::app::App;
use crate::app::conversation::Picture;
use crate::app::jobs::JobResult;
use crate::render::cell::picture_line;
use crate::render::style::Line;
use crate::terminal::graphics::{ASK, Ability, Graphic};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use std::time::Instant;

/// Takes the next step for the picture that is due: asks the terminal, draws it, or names it.
pub(crate) fn follow(app: &mut App) {
    while !app.screen.graphics.preparing
        && let Some(picture) = app.conversation.due_picture()
    {
        let (ability, data) = (app.screen.graphics.ability(), picture.data.clone());
        match (ability, data) {
            (Ability::Ask, Some(_)) => {
                app.screen.pending.push_str(ASK);
                app.screen.graphics.asked(Instant::now());
                return;
            }
            (Ability::Wait, Some(_)) => return,
            (Ability::Use(protocol), Some(data)) => {
                let size = (app.screen.width(), app.screen.rows);
                let canvas = app.screen.graphics.canvas(protocol, size.0, size.1);
                app.screen.graphics.preparing = true;
                app.jobs.blocking(move || {
                    let bytes = STANDARD.decode(&*data).ok();
                    let graphic = bytes.and_then(|bytes| canvas.draw(&bytes).ok());
                    Some(JobResult::Picture { picture, graphic })
                });
            }
            (Ability::None, _) | (_, None) => place(app, &picture, None),
        }
    }
}

/// A picture was drawn, or can't be.
pub(crate) fn drawn(app: &mut App, picture: &Arc<Picture>, graphic: Option<Graphic>) {
    app.screen.graphics.preparing = false;
    place(app, picture, graphic);
}

/// A job crashed: it may have been the one that draws.
pub(crate) fn crashed(app: &mut App) {
    if std::mem::take(&mut app.screen.graphics.preparing)
        && let Some(picture) = app.conversation.due_picture()
    {
        place(app, &picture, None);
    }
}

/// Nothing more is drawn: pictures that wait are named.
pub(crate) fn give_up(app: &mut App) {
    while let Some(picture) = app.conversation.due_picture() {
        place(app, &picture, None);
    }
}

fn place(app: &mut App, picture: &Arc<Picture>, graphic: Option<Graphic>) {
    app.with_look(|conversation, look| {
        let lines = match graphic {
            Some(graphic) => {
                let mut lines = vec![Line::empty(); graphic.rows];
                lines.push(Line {
                    graphic: Some(graphic.sequence),
                    ..picture_line(picture, Some(graphic.size), look)
                });
                lines
            }
            None if picture.named_above => Vec::new(),
            None => vec![picture_line(picture, None, look)],
        };
        conversation.place_picture(picture, lines);
    });
}
