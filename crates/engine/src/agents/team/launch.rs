//! Starting the process of a member: a session in the background, shown in a pane of tmux if that is wanted.

use super::Team;
use crate::conversation::ConversationShared;
use lathe_process::{Command, Ending, Job};
use lathe_tools::ToolError;
use lathe_tools::team::Backend;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the start of a member may take.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long tmux may take.
const TMUX_LIMIT: Duration = Duration::from_secs(10);

/// How new members run, by settings.
pub(super) fn backend(shared: &ConversationShared) -> Result<Backend, ToolError> {
    let settings = shared.session.settings.value.read();
    let mode = settings.get("teammateMode").and_then(|mode| mode.as_str());
    let backend = match mode {
        None | Some("auto" | "in-process") => return Ok(Backend::InProcess),
        Some("process") => Backend::Process,
        Some("tmux") => Backend::Tmux,
        Some(other) => {
            return Err(ToolError::failed(format!(
                "The setting teammateMode is {other:?}: it knows \"in-process\", \"process\" and \"tmux\"."
            )));
        }
    };
    program(shared)?;
    Ok(backend)
}

/// The program that a member runs.
fn program(shared: &ConversationShared) -> Result<&Path, ToolError> {
    shared.session.settings.program.as_deref().ok_or_else(|| {
        ToolError::failed(
            "Settings want members as processes of their own (teammateMode), but this session runs in a program that is not Lathe. Set teammateMode to \"in-process\" or remove it.",
        )
    })
}

/// Starts the process of a member, and waits until it has begun.
pub(super) async fn launch(
    shared: &ConversationShared,
    team: &Team,
    name: &str,
) -> Result<(), ToolError> {
    let seat = format!("{}/{name}", team.store.name());
    let order = team
        .store
        .order(name)
        .map_err(|error| super::refused(&error))?;
    let command = command(shared, &["--bg", "--team-member", &seat])?;
    let finished = lathe_process::run(Job::new(command, START_LIMIT))
        .await
        .map_err(|error| ToolError::failed(format!("{name} can't be started: {error}.")))?;
    let config = team
        .store
        .config()
        .map_err(|error| super::refused(&error))?;
    let process = config.member(name).and_then(|it| it.process.as_ref());
    if process.and_then(|it| it.begun.as_deref()) != Some(order.start.as_str()) {
        let why = finished.stderr.trim();
        return Err(ToolError::failed(format!(
            "{name} did not start: {}",
            if why.is_empty() {
                "its process ended"
            } else {
                why
            }
        )));
    }
    Ok(())
}

fn command(shared: &ConversationShared, words: &[&str]) -> Result<Command, ToolError> {
    let home = &shared.session.settings.loader.places.config_home;
    let folder = shared.tools.working_folder.read().clone();
    Ok(Command::new(program(shared)?)
        .directory(folder)
        .variable("LATHE_CONFIG_DIR", home)
        .arguments(words))
}

/// Shows a member in a pane: of this window, or of a tmux session of the team where this one is not in tmux. The pane is
/// a view: the member works on when it is closed.
pub(super) async fn show_in_tmux(
    shared: &ConversationShared,
    team: &Team,
    name: &str,
) -> Result<Option<String>, ToolError> {
    let title = format!("{}/{name}", team.store.name());
    let home = &shared.session.settings.loader.places.config_home;
    let view: Vec<String> = vec![
        "-e".to_owned(),
        format!("LATHE_CONFIG_DIR={}", home.display()),
        program(shared)?.display().to_string(),
        "attach".to_owned(),
        title.clone(),
    ];
    let own_pane = shared.tools.environment.foreign("TMUX_PANE");
    let inside = shared.tools.environment.foreign("TMUX").is_some();
    let session = format!("lathe-{}", team.store.name());
    let (mut words, told) = match own_pane.filter(|_| inside) {
        Some(pane) => (vec!["split-window", "-d", "-t", pane], None),
        None => {
            let exact = format!("={session}");
            let is_there = tmux(shared, &["has-session", "-t", &exact]).await.is_ok();
            let told = format!("tmux attach -t {session} shows the members.");
            match is_there {
                true => (vec!["split-window", "-d", "-t", &session], Some(told)),
                false => (vec!["new-session", "-d", "-s", &session], Some(told)),
            }
        }
    };
    words.extend(["-P", "-F", "#{pane_id}"]);
    words.extend(view.iter().map(String::as_str));
    let pane = tmux(shared, &words).await?;
    let pane = pane.trim();
    // How it looks is no reason to fail.
    let _ = tmux(shared, &["select-pane", "-t", pane, "-T", &title]).await;
    let _ = tmux(shared, &["select-layout", "-t", pane, "tiled"]).await;
    Ok(told)
}

async fn tmux(shared: &ConversationShared, words: &[&str]) -> Result<String, ToolError> {
    let folder: PathBuf = shared.tools.working_folder.read().clone();
    let command = Command::new("tmux").directory(folder).arguments(words);
    let finished = lathe_process::run(Job::new(command, TMUX_LIMIT))
        .await
        .map_err(|error| {
            ToolError::failed(format!(
                "tmux can't be run ({error}); install it, or set teammateMode to \"process\"."
            ))
        })?;
    if finished.ending != Ending::Exited(0) {
        return Err(ToolError::failed(format!(
            "tmux {} failed: {}",
            words.first().unwrap_or(&""),
            finished.stderr.trim()
        )));
    }
    Ok(finished.stdout)
}
