//! The list of sessions to continue with: search and preview, all folders or this project, one branch or
//! all, another title, and forks below what they were taken from.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::search;
use crate::layers::{Form, Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::ago;
use crate::render::theme::Theme;
use lathe_engine::Restart;
use lathe_protocol::ids::SessionId;
use lathe_session::{Scope, SessionError, SessionInfo, SessionStore};
use std::collections::HashMap;
use std::path::Path;

pub(crate) fn run(app: &mut App, arguments: &str) {
    if arguments.is_empty() {
        list(app);
    } else {
        open(app, arguments);
    }
}

/// SessionList that are listed.
const MOST: usize = 200;

/// The sessions that were listed, and which part of them is shown.
#[derive(Debug, Default)]
pub(crate) struct SessionList {
    pub(crate) all: Vec<SessionInfo>,
    pub(crate) everywhere: bool,
    /// Only those that ended on this branch.
    pub(crate) branch: Option<String>,
    /// Which one to come back to after something was done with it.
    pub(crate) selected: Option<String>,
}

/// Looks for a session. The present one continues until it is found.
pub(crate) fn open(app: &mut App, wanted: &str) {
    let store = SessionStore::new(&app.places.config_home);
    let cwd = app.places.environment.cwd.clone();
    let wanted = wanted.to_owned();
    app.jobs.blocking(move || {
        let result = store.resolve(&wanted, &cwd).map(Box::new);
        Some(JobResult::Resolved { wanted, result })
    });
}

/// The session was found, or it wasn't.
pub(crate) fn resolved(
    app: &mut App,
    wanted: &str,
    result: Result<Box<SessionInfo>, SessionError>,
) {
    let present = app
        .engine
        .handle
        .as_ref()
        .map(lathe_engine::SessionHandle::session_id);
    match result {
        Ok(info) if Some(info.id) == present => app.remark("This is that session."),
        Ok(info) => app.go_to(
            &Restart::Resume(info.id.to_string()),
            "── another conversation ──",
        ),
        Err(SessionError::NotFound {
            elsewhere: Some(folder),
            ..
        }) => ask_folder(app, wanted, &folder),
        Err(error) => {
            app.warn(error.to_string());
            if app.engine.handle.is_none() && !app.engine.opening {
                app.open_session();
            }
        }
    }
}

/// The session belongs to another folder: asks whether to go there.
fn ask_folder(app: &mut App, wanted: &str, folder: &Path) {
    let purpose = Purpose::OtherFolder {
        id: wanted.to_owned(),
        folder: folder.to_owned(),
    };
    let words = format!("This session belongs to {}", folder.display());
    let items = vec![
        Item::new("go", "Change into that folder and resume it", ""),
        Item::new("stay", "Stay here", ""),
    ];
    app.layers.open(
        Picker::new(purpose, "Resume in another folder?", items)
            .explained(vec![Line::styled(words, app.look.theme.muted)]),
    );
}

/// The answer to that.
pub(crate) fn other_folder(app: &mut App, id: &str, folder: &Path, answer: &str) {
    if answer != "go" {
        if app.engine.handle.is_none() && !app.engine.opening {
            app.open_session();
        }
        return;
    }
    app.engine.restart(&Restart::Resume(id.to_owned()));
    app.remark(format!(
        "── another conversation, in {} ──",
        folder.display()
    ));
    app.move_to(folder);
}

impl SessionList {
    /// The list.
    pub(crate) fn picker(&self, theme: &Theme) -> Picker {
        let shown = self;
        let items = items(&shown.all, shown.branch.as_deref(), shown.everywhere);
        let mut facts = vec![if shown.everywhere {
            "all folders".to_owned()
        } else {
            "this project".to_owned()
        }];
        facts.extend(
            shown
                .branch
                .as_ref()
                .map(|branch| format!("only branch {branch}")),
        );
        let mut explained = vec![Line::styled(facts.join(" · "), theme.muted)];
        if items.is_empty() {
            explained.push(Line::plain("  No other sessions here."));
        }
        let mut picker = Picker::new(Purpose::Resume, "Resume a session", items)
            .explained(explained)
            .filterable()
            .with_key(
                'a',
                if shown.everywhere {
                    "this project"
                } else {
                    "all folders"
                },
            )
            .with_key(
                'b',
                if shown.branch.is_some() {
                    "all branches"
                } else {
                    "its branch"
                },
            )
            .with_key('r', "rename")
            .with_key('s', "search the text");
        if let Some(selected) = &shown.selected {
            picker = picker.at(selected);
        }
        picker
    }
}

/// Reads which sessions there are, and shows them.
pub(crate) fn list(app: &mut App) {
    let everywhere = app.commands.sessions.everywhere;
    let store = SessionStore::new(&app.places.config_home);
    let cwd = app.places.environment.cwd.clone();
    app.jobs.blocking(move || {
        let scope = if everywhere {
            Scope::Everywhere
        } else {
            Scope::Project(&cwd)
        };
        Some(JobResult::Sessions {
            sessions: store.list(scope, Some(MOST)),
            everywhere,
        })
    });
}

pub(crate) fn listed(app: &mut App, sessions: Vec<SessionInfo>, everywhere: bool) {
    let present = app
        .engine
        .handle
        .as_ref()
        .map(lathe_engine::SessionHandle::session_id);
    app.commands.sessions.all = sessions
        .into_iter()
        .filter(|info| Some(info.id) != present)
        .collect();
    app.commands.sessions.everywhere = everywhere;
    let none = app.commands.sessions.all.is_empty();
    if none && (everywhere || app.engine.handle.is_none()) {
        app.remark("There are no other sessions yet.");
        if app.engine.handle.is_none() && !app.engine.opening {
            app.open_session();
        }
        return;
    }
    show(app);
}

/// Shows the sessions that were read, as far as they are wanted.
pub(crate) fn show(app: &mut App) {
    let picker = app.commands.sessions.picker(&app.look.theme);
    app.layers.open(picker);
}

/// A key in the list: other folders, one branch, another title.
pub(crate) fn other_key(app: &mut App, id: &str, key: char) {
    if key == 's' {
        let typed = app.layers.shown::<Picker>().map(Picker::filter);
        let typed = typed.unwrap_or_default().to_owned();
        search::ask(app, &typed);
        return;
    }
    app.commands.sessions.selected = Some(id.to_owned());
    let info = app
        .commands
        .sessions
        .all
        .iter()
        .find(|info| info.id.to_string() == id);
    match key {
        'a' => {
            app.commands.sessions.everywhere = !app.commands.sessions.everywhere;
            list(app);
        }
        'b' => {
            let branch = info.and_then(|info| info.branch.clone());
            app.commands.sessions.branch = match app.commands.sessions.branch.take() {
                Some(_) => None,
                None => branch.or_else(|| app.session.branch.clone()),
            };
            show(app);
        }
        'r' => {
            let title = info
                .and_then(|info| info.custom_title.clone().or_else(|| info.title.clone()))
                .unwrap_or_default();
            let purpose = Purpose::RenameSession { id: id.to_owned() };
            app.layers
                .open(Form::new(purpose, "A title for this session", &title));
        }
        _ => show(app),
    }
}

/// Gives a session of the list another title, and shows the list again.
pub(crate) fn rename(app: &mut App, id: &str, title: &str) {
    let store = SessionStore::new(&app.places.config_home);
    let info = app
        .commands
        .sessions
        .all
        .iter_mut()
        .find(|info| info.id.to_string() == id);
    if let Some(info) = info {
        match store.rename(info, title) {
            Ok(()) => {
                info.title = Some(title.to_owned());
                info.custom_title = Some(title.to_owned());
            }
            Err(error) => {
                app.warn(error.to_string());
            }
        }
    }
    show(app);
}

/// The rows of the list: sessions by when they were last used, forks below what they were taken from.
fn items(sessions: &[SessionInfo], branch: Option<&str>, everywhere: bool) -> Vec<Item> {
    let wanted: Vec<&SessionInfo> = sessions
        .iter()
        .filter(|info| branch.is_none_or(|branch| info.branch.as_deref() == Some(branch)))
        .collect();
    let by_id: HashMap<SessionId, &SessionInfo> =
        wanted.iter().map(|info| (info.id, *info)).collect();
    let mut families: Vec<(&SessionInfo, Vec<&SessionInfo>)> = Vec::new();
    for info in wanted {
        let root = root_of(info, &by_id);
        match families.iter_mut().find(|(known, _)| known.id == root.id) {
            Some((known, forks)) if known.id != info.id => forks.push(info),
            Some(_) => {}
            None => {
                let forks = if root.id == info.id {
                    Vec::new()
                } else {
                    vec![info]
                };
                families.push((root, forks));
            }
        }
    }
    let mut items = Vec::new();
    for (root, forks) in families {
        items.push(item(root, "", everywhere));
        let last = forks.len().saturating_sub(1);
        for (index, fork) in forks.into_iter().enumerate() {
            let mark = if index == last { "└ " } else { "├ " };
            items.push(item(fork, mark, everywhere));
        }
    }
    items
}

/// The session that a fork goes back to, as far as it is listed.
fn root_of<'a>(
    info: &'a SessionInfo,
    by_id: &HashMap<SessionId, &'a SessionInfo>,
) -> &'a SessionInfo {
    let mut root = info;
    // A damaged file may name a circle.
    for _ in 0..by_id.len() {
        match root.forked_from.and_then(|from| by_id.get(&from)) {
            Some(from) => root = from,
            None => break,
        }
    }
    root
}

fn item(info: &SessionInfo, mark: &str, everywhere: bool) -> Item {
    let title = info
        .title
        .clone()
        .or_else(|| info.first_prompt.clone())
        .unwrap_or_else(|| "(empty)".to_owned());
    let mut facts = vec![ago(info.modified)];
    facts.extend(
        info.messages
            .map(|count| crate::render::text::counted(count, "message")),
    );
    facts.extend(info.branch.clone().filter(|branch| !branch.is_empty()));
    if everywhere && let Some(cwd) = &info.cwd {
        facts.push(cwd.display().to_string());
    }
    facts.extend(info.tag.clone().map(|tag| format!("#{tag}")));
    let mut item = Item::new(
        info.id.to_string(),
        format!("{mark}{}", title.lines().next().unwrap_or_default()),
        facts.join(" · "),
    );
    item.preview = info.preview(4);
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn session(number: u8, title: &str, branch: &str, from: Option<u8>) -> SessionInfo {
        let id = |number: u8| -> SessionId {
            format!("00000000-0000-4000-8000-0000000000{number:02}")
                .parse()
                .unwrap()
        };
        SessionInfo {
            id: id(number),
            title: Some(title.to_owned()),
            custom_title: None,
            first_prompt: None,
            tag: None,
            branch: Some(branch.to_owned()),
            messages: Some(2),
            size: 1,
            created: None,
            modified: jiff::Timestamp::now(),
            cwd: None,
            path: PathBuf::from("/nowhere.jsonl"),
            forked_from: from.map(id),
            moved: None,
        }
    }

    fn labels(sessions: &[SessionInfo], branch: Option<&str>) -> Vec<String> {
        items(sessions, branch, false)
            .into_iter()
            .map(|item| item.label)
            .collect()
    }

    #[test]
    fn forks_are_listed_below_their_origin() {
        let sessions = [
            session(3, "fork of fork", "main", Some(2)),
            session(4, "other", "main", None),
            session(2, "fork", "topic", Some(1)),
            session(1, "root", "main", None),
            session(6, "alone", "main", Some(9)),
        ];
        assert_eq!(
            labels(&sessions, None),
            ["root", "├ fork of fork", "└ fork", "other", "alone"]
        );
        assert_eq!(labels(&sessions, Some("topic")), ["fork"]);
    }

    #[test]
    fn a_circle_of_forks_is_listed_all_the_same() {
        let sessions = [
            session(1, "a", "main", Some(2)),
            session(2, "b", "main", Some(1)),
        ];
        assert_eq!(labels(&sessions, None).len(), 2);
    }
}
