//! `/rename` gives the session a title.

use crate::app::App;
use crate::layers::{Form, Purpose};

pub(crate) fn run(app: &mut App, arguments: &str) {
    if arguments.is_empty() {
        let form = Form::new(Purpose::Rename, "A title for this session", "");
        app.layers.open(form);
    } else {
        set_title(app, arguments);
    }
}

pub(crate) fn set_title(app: &mut App, title: &str) {
    if let Some(session) = &app.engine.handle {
        session.history().rename(title);
        app.session.title = Some(title.to_owned());
        if let Some(hosting) = &app.engine.hosting {
            hosting.hub.set_title(title);
        }
        app.set_title();
        app.remark("Renamed the session.");
    }
}
