//! `/add-dir` allows work in one more folder.

use crate::app::App;
use crate::commands::permissions;
use crate::layers::{Form, Purpose};
use lathe_protocol::permission::{PermissionUpdate, RuleSource};

pub(crate) fn run(app: &mut App, arguments: &str) {
    if arguments.is_empty() {
        let form = Form::new(Purpose::AddDirectory, "Which folder?", "");
        app.layers.open(form);
    } else {
        add(app, arguments);
    }
}

pub(crate) fn add(app: &mut App, path: &str) {
    let folder = app.places.environment.resolve(path);
    if !folder.is_dir() {
        app.warn(format!("{} is not a folder.", folder.display()));
        return;
    }
    let update = PermissionUpdate::AddDirectories {
        directories: vec![folder.clone()],
        destination: RuleSource::Session,
    };
    permissions::apply_update(
        app,
        &update,
        format!("Lathe may now work in {}", folder.display()),
    );
}
