//! The runs of a session, as faces show them.

use crate::agents::{AgentEntry, WORKFLOW};
use crate::conversation::ConversationShared;
use crate::session::handles::TaskError;
use lathe_session::SessionPaths;
use lathe_tools::host::AgentTask;
use std::path::PathBuf;
use std::sync::Arc;

/// A run of a workflow and its agents.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// The run.
    pub run: AgentTask,
    /// Whether it starts no agents for now.
    pub paused: bool,
    /// Its agents, oldest first.
    pub agents: Vec<AgentTask>,
}

/// The runs of a session, oldest first.
pub(crate) fn runs(shared: &ConversationShared) -> Vec<RunView> {
    let all = shared.session.agents.all();
    let runs = all.iter().filter(|entry| entry.agent_type == WORKFLOW);
    runs.map(|run| RunView {
        run: run.view(),
        paused: *run.paused.borrow(),
        agents: all
            .iter()
            .filter(|entry| entry.parent.as_ref() == Some(&run.id))
            .map(|entry| entry.view())
            .collect(),
    })
    .collect()
}

/// The journal of an earlier run, and the file of its script: of this session, or of another one of the same project.
pub(super) fn kept(paths: &SessionPaths, id: &str) -> Option<(String, PathBuf)> {
    if !id.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return None;
    }
    let own = std::iter::once(paths.subagents());
    let sessions = std::fs::read_dir(paths.project_folder());
    let others = sessions.into_iter().flatten().flatten();
    let mut folders = own.chain(others.map(|session| session.path().join("subagents")));
    folders.find_map(|folder| {
        let file = |end: &str| folder.join(format!("workflow-{id}.{end}"));
        let journal = std::fs::read(file("jsonl")).ok()?;
        Some((lathe_workflow::continuable(&journal), file("js")))
    })
}

/// The run of an id.
pub(crate) fn run_of(shared: &ConversationShared, id: &str) -> Option<Arc<AgentEntry>> {
    let entry = shared.session.agents.find(id)?;
    (entry.agent_type == WORKFLOW).then_some(entry)
}

/// Saves the script of a run among the workflows of the project.
pub(crate) fn save(
    shared: &ConversationShared,
    id: &str,
    name: &str,
) -> Result<PathBuf, TaskError> {
    let run = run_of(shared, id).ok_or_else(|| TaskError::NoSuchAgent(id.to_owned()))?;
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(TaskError::NotSaved(format!(
            "{name:?} is no name: letters, digits, - and _"
        )));
    }
    let folder = shared.session.agents.paths.subagents();
    let script = folder.join(format!("workflow-{}.js", run.id));
    let text = super::read(&script).map_err(|error| TaskError::NotSaved(error.to_string()))?;
    let places = &shared.session.settings.loader.places;
    let target = places
        .project
        .join(".lathe/workflows")
        .join(format!("{name}.js"));
    let write = || -> std::io::Result<()> {
        use std::io::Write as _;
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // One that is there is somebody's work.
        let mut file = std::fs::File::create_new(&target)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|error| TaskError::NotSaved(format!("{}: {error}", target.display())))?;
    Ok(target)
}
