//! The worktree of the session itself: going in, coming back, and finding it again when the session is resumed.
//!
//! The main conversation moves as a whole: working folder, permission roots and the rules of the project, instruction
//! files, the memory of files, and with the roots language and MCP servers. The fact in the transcript is written
//! before anything moves, so that a process that dies in between is taken up where it was.

use super::{BRANCHES, Conclusion, Worktree, WorktreeError, folder_of, make, settings_of, sweep};
use crate::context::git::{Git, GitError};
use crate::context::prompt::instructions_text;
use crate::conversation::{Conversation, ConversationShared};
use crate::session::EndReason;
use lathe_permissions::repository::NotTrusted;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::record::{Fact, Record};
use lathe_tools::host::{WorktreeMove, WorktreeWish};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of a refusal that are named.
const MOST_NAMED: usize = 20;

/// The worktree that a session is in, if it is in one.
#[derive(Default)]
pub(crate) struct Place {
    inside: tokio::sync::Mutex<Option<Inside>>,
    /// The folder and branch that the prompt should name; taken when it does.
    moved: Mutex<Option<(PathBuf, String)>>,
}

/// A session in a worktree.
struct Inside {
    worktree: Worktree,
    kept: Kept,
    /// Whether Lathe made it: only then it is ever removed.
    is_own: bool,
}

/// A session in a worktree, as the transcript has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// The working folder before.
    original_cwd: PathBuf,
    worktree_path: PathBuf,
    #[serde(default)]
    worktree_name: String,
    #[serde(default)]
    worktree_branch: String,
    #[serde(default)]
    original_head_commit: String,
    #[serde(default)]
    hook_based: bool,
}

/// Why a session does not move.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error("{0}.")]
    NotTrusted(#[from] NotTrusted),
    #[error("The session is already in the worktree {}. Leave it with ExitWorktree first.", .0.display())]
    AlreadyInside(PathBuf),
    #[error("{} is in use by another session or agent. Choose another name.", .0.display())]
    InUse(PathBuf),
    #[error("{} is not a worktree of this repository; `git worktree list` shows them.", .0.display())]
    Unknown(PathBuf),
    #[error("{} is the repository itself, not a worktree of it.", .0.display())]
    Main(PathBuf),
    #[error("The session is in no worktree that EnterWorktree or --worktree put it into.")]
    NotInside,
    #[error(
        "{} existed before this session, so it isn't removed. Leave it with action keep; `git worktree remove` removes it.",
        .0.display()
    )]
    Foreign(PathBuf),
    #[error("The worktree {} can't be checked ({source}), so it isn't removed. Leave it with action keep.", path.display())]
    Unchecked { path: PathBuf, source: GitError },
    #[error(
        "The worktree has work that exists nowhere else: {0}. Commit and merge it, leave it with action keep, or ask the user whether it may be discarded."
    )]
    Unmerged(String),
}

/// Moves a session into a worktree.
pub(crate) async fn enter(
    shared: &Arc<ConversationShared>,
    wish: WorktreeWish,
) -> Result<WorktreeMove, MoveError> {
    let mut inside = shared.state.worktree.inside.lock().await;
    if let Some(inside) = &*inside {
        return Err(MoveError::AlreadyInside(inside.worktree.path.clone()));
    }
    let original = shared.tools.working_folder.read().clone();
    let (worktree, name, is_own) = match wish {
        WorktreeWish::Named(name) => {
            let worktree = named(shared, &name).await?;
            let is_own = worktree.git.is_some();
            (worktree, name, is_own)
        }
        WorktreeWish::At(path) => {
            let (worktree, is_own) = existing(shared, &path).await?;
            (worktree, String::new(), is_own)
        }
    };
    let kept = Kept {
        original_cwd: original.clone(),
        worktree_path: worktree.path.clone(),
        worktree_name: name,
        worktree_branch: worktree.branch.clone(),
        original_head_commit: worktree.base.clone(),
        hook_based: worktree.git.is_none(),
    };
    note(shared, serde_json::to_value(&kept).unwrap_or_default()).await;
    let new_instructions = move_in(shared, &worktree).await;
    let mut message = format!(
        "The session works in the worktree {} now{}. It is a copy of {}: translate paths that were named before, read a file again before you change it, and write only in the worktree.",
        worktree.path.display(),
        on_branch(&worktree.branch),
        worktree.repository.display()
    );
    for remark in worktree.remarks.iter().chain(&new_instructions) {
        message.push(' ');
        message.push_str(remark);
    }
    let moved = WorktreeMove {
        path: worktree.path.clone(),
        branch: worktree.branch.clone(),
        original,
        removed: false,
        discarded: (0, 0),
        message,
    };
    *inside = Some(Inside {
        worktree,
        kept,
        is_own,
    });
    Ok(moved)
}

fn on_branch(branch: &str) -> String {
    match branch {
        "" => String::new(),
        branch => format!(" (branch {branch})"),
    }
}

/// The worktree by a name: the one that is there, or a new one.
async fn named(shared: &ConversationShared, name: &str) -> Result<Worktree, MoveError> {
    let context = shared.permissions.snapshot();
    let folder = shared.tools.working_folder.read().clone();
    if let Ok(git) = Git::new(&context, &folder) {
        let repository = super::outermost(&git, &folder).await;
        let path = folder_of(&repository, &settings_of(shared)).join(name.replace('/', "+"));
        if sweep::is_held(&path) {
            return Err(MoveError::InUse(path));
        }
        if let Some(mut found) = Worktree::take_up(&git, &path).await {
            found
                .remarks
                .push("It already existed, with the work in it.".to_owned());
            return Ok(found);
        }
    }
    Ok(make(shared, name).await?)
}

/// A worktree of the repository that is there, and whether Lathe made it.
async fn existing(shared: &ConversationShared, path: &Path) -> Result<(Worktree, bool), MoveError> {
    let path = std::fs::canonicalize(path).map_err(|_| MoveError::Unknown(path.to_owned()))?;
    let folder = shared.tools.working_folder.read().clone();
    let git = Git::new(&shared.permissions.snapshot(), &folder)?;
    let listed = super::git(&git, &folder, &["worktree", "list", "--porcelain", "-z"]).await;
    let listed = listed.unwrap_or_default();
    let known = |line: &str| {
        let named = line.strip_prefix("worktree ").map(PathBuf::from);
        named.is_some_and(|named| std::fs::canonicalize(&named).unwrap_or(named) == path)
    };
    if !listed.split('\0').any(known) {
        return Err(MoveError::Unknown(path));
    }
    let repository = super::outermost(&git, &folder).await;
    if std::fs::canonicalize(&repository).is_ok_and(|main| main == path) {
        return Err(MoveError::Main(path));
    }
    if sweep::is_held(&path) {
        return Err(MoveError::InUse(path));
    }
    let unknown = || MoveError::Unknown(path.clone());
    let found = Worktree::find(&git, &path).await.ok_or_else(unknown)?;
    let worktrees = folder_of(&repository, &settings_of(shared));
    let in_folder = std::fs::canonicalize(worktrees).is_ok_and(|folder| path.starts_with(folder));
    if !(in_folder && found.branch.starts_with(BRANCHES)) {
        return Ok((found, false));
    }
    let found = Worktree::take_up(&git, &path).await.ok_or_else(unknown)?;
    Ok((found, true))
}

/// Writes to the transcript where the session is, and waits until the system has it.
async fn note(shared: &ConversationShared, worktree_session: Value) {
    shared.transcript.append(Record::Fact(Fact::WorktreeState {
        worktree_session,
        session_id: shared.session.id,
    }));
    // The writer reports a failure and tries again.
    let _ = shared.transcript.flush().await;
}

/// Moves everything that belongs to a folder into a worktree. Gives a text about instruction files that differ.
async fn move_in(shared: &Arc<ConversationShared>, worktree: &Worktree) -> Option<String> {
    shared.permissions.relocate(|context| {
        context.enter_worktree(&worktree.repository, &worktree.path, false);
    });
    let now = (worktree.path.clone(), worktree.branch.clone());
    *shared.state.worktree.moved.lock() = Some(now);
    arrive(shared, &worktree.path).await
}

async fn arrive(shared: &Arc<ConversationShared>, folder: &Path) -> Option<String> {
    *shared.tools.roots.write() = shared.permissions.snapshot().roots.clone();
    let before = {
        let mut now = shared.tools.working_folder.write();
        std::mem::replace(&mut *now, folder.to_owned())
    };
    // A file of the same name elsewhere is another file.
    shared.tools.file_cache.clear();
    let differing = follow_instructions(shared, folder);
    shared.integrations.mcp.roots_changed();
    shared.hooks.cwd_changed(&before, folder).await;
    differing
}

/// Takes the instruction files of another folder. Gives a text about those that were not known.
fn follow_instructions(shared: &ConversationShared, folder: &Path) -> Option<String> {
    let mut instructions = shared.state.instructions.lock();
    let known = instructions.as_ref()?;
    let there = known.for_folder(folder);
    let is_new = |file: &lathe_settings::instructions::InstructionFile| {
        !known.files().iter().any(|other| other.text == file.text)
    };
    let differing: Vec<String> = there
        .files()
        .iter()
        .filter(|file| is_new(file))
        .map(|file| file.path.display().to_string())
        .collect();
    *instructions = Some(there);
    (!differing.is_empty()).then(|| {
        format!(
            "These instruction files differ from the ones you have read; read them: {}.",
            differing.join(", ")
        )
    })
}

/// Moves a session back.
pub(crate) async fn exit(
    shared: &Arc<ConversationShared>,
    remove: bool,
    discard: bool,
) -> Result<WorktreeMove, MoveError> {
    let mut place = shared.state.worktree.inside.lock().await;
    let Some(inside) = &*place else {
        return Err(MoveError::NotInside);
    };
    let path = inside.worktree.path.clone();
    let mut work = super::Work::default();
    if remove {
        if !inside.is_own {
            return Err(MoveError::Foreign(path));
        }
        let checked = inside.worktree.work(None).await;
        work = checked.map_err(|source| MoveError::Unchecked { path, source })?;
        if !work.is_none() && !discard {
            return Err(MoveError::Unmerged(named_work(&work)));
        }
    }
    let Some(inside) = place.take() else {
        return Err(MoveError::NotInside);
    };
    let Inside { worktree, kept, .. } = inside;
    note(shared, Value::Null).await;
    let places = &shared.session.settings.loader.places;
    shared
        .permissions
        .relocate(|context| context.leave_worktree(&places.environment.cwd, &places.project));
    let folder = if kept.original_cwd.is_dir() {
        kept.original_cwd
    } else {
        places.environment.cwd.clone()
    };
    let branch = crate::context::prompt::git_branch(&folder).unwrap_or_default();
    *shared.state.worktree.moved.lock() = Some((folder.clone(), branch));
    arrive(shared, &folder).await;
    let mut moved = WorktreeMove {
        path: worktree.path.clone(),
        branch: worktree.branch.clone(),
        original: folder,
        removed: false,
        discarded: (0, 0),
        message: String::new(),
    };
    let fate = end(shared, &worktree, remove, &work, &mut moved).await;
    moved.message = format!(
        "The session works in {} again. {fate} Read a file again before you change it.",
        moved.original.display()
    );
    Ok(moved)
}

/// Removes a worktree that was left, if that is wanted, and says what became of it.
async fn end(
    shared: &ConversationShared,
    worktree: &Worktree,
    remove: bool,
    work: &super::Work,
    moved: &mut WorktreeMove,
) -> String {
    let place = worktree.path.display();
    if !remove {
        return format!(
            "The worktree {place}{} is as you left it.",
            on_branch(&worktree.branch)
        );
    }
    let outcome = if work.is_none() {
        match worktree.conclude(None).await {
            Conclusion::Removed => Ok(()),
            Conclusion::Kept(why) => Err(why),
        }
    } else {
        worktree.discard().await.map_err(|error| error.to_string())
    };
    match outcome {
        Ok(()) => {
            moved.removed = true;
            moved.discarded = (work.files.len(), work.commits);
            shared.hooks.worktree_removed(&worktree.path).await;
            format!("The worktree {place} is removed.")
        }
        Err(why) => format!("The worktree {place} is still there: {why}"),
    }
}

fn named_work(work: &super::Work) -> String {
    let mut parts = Vec::new();
    if !work.files.is_empty() {
        let mut names: Vec<&str> = work.files.iter().map(String::as_str).collect();
        let more = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(format!("uncommitted files ({}{more})", names.join(", ")));
    }
    match work.commits {
        0 => {}
        1 => parts.push("1 commit that is on no other branch".to_owned()),
        commits => parts.push(format!("{commits} commits that are on no other branch")),
    }
    parts.join(", ")
}

/// The worktree that a session is in, for the session that follows it.
pub(crate) fn path_of(shared: &ConversationShared) -> Option<PathBuf> {
    let inside = shared.state.worktree.inside.try_lock().ok()?;
    inside.as_ref().map(|inside| inside.worktree.path.clone())
}

/// Puts a session that is being opened where it should be: into the worktree that the caller wants, or into the one
/// that it was in. Gives a remark.
pub(crate) async fn open(
    conversation: &mut Conversation,
    wish: Option<WorktreeWish>,
    kept: Option<&Value>,
) -> Result<Option<String>, MoveError> {
    let shared = conversation.shared.clone();
    let remark = match (wish, kept) {
        (Some(wish), _) => {
            let moved = enter(&shared, wish).await?;
            let record = conversation.records.meta(
                conversation.tip,
                crate::conversation::records::reminder(&moved.message),
            );
            conversation.append(record);
            Some(format!(
                "The session works in the worktree {}{}",
                moved.path.display(),
                on_branch(&moved.branch)
            ))
        }
        (None, Some(kept)) if !kept.is_null() => Some(take_up(&shared, kept).await),
        (None, _) => None,
    };
    follow(conversation, true);
    Ok(remark)
}

/// Goes back into the worktree that the session was in, if it can be found and nobody else is in it.
async fn take_up(shared: &Arc<ConversationShared>, kept: &Value) -> String {
    let Ok(kept) = serde_json::from_value::<Kept>(kept.clone()) else {
        return "The record of the session's worktree can't be read; the session continues in the original folder".to_owned();
    };
    let path = &kept.worktree_path;
    let instead = |why: &str| {
        format!(
            "The session was in the worktree {}, {why}; it continues in the original folder",
            path.display()
        )
    };
    if !path.is_dir() {
        note(shared, Value::Null).await;
        return instead("which no longer exists");
    }
    let context = shared.permissions.snapshot();
    let found = if kept.hook_based {
        // Nothing proves that a folder of a hook belongs to the project but that the user trusted both.
        let project = context.project.clone();
        context
            .trusted
            .then(|| (Worktree::made_by_hook(path.clone(), project), false))
    } else if sweep::is_held(path) {
        return instead("which another session uses");
    } else {
        existing(shared, path).await.ok()
    };
    let Some((mut worktree, is_own)) = found else {
        return instead("which is not a worktree of this repository any more");
    };
    if !kept.original_head_commit.is_empty() {
        worktree.base.clone_from(&kept.original_head_commit);
    }
    move_in(shared, &worktree).await;
    let remark = format!(
        "The session continues in the worktree {}{}",
        path.display(),
        on_branch(&worktree.branch)
    );
    *shared.state.worktree.inside.lock().await = Some(Inside {
        worktree,
        kept,
        is_own,
    });
    remark
}

/// Has records and the system prompt name the folder that the session moved to. The prompt waits for a moment when the
/// prefix of requests is new anyway.
pub(crate) fn follow(conversation: &mut Conversation, prefix_is_new: bool) {
    let shared = conversation.shared.clone();
    let moved = {
        let mut moved = shared.state.worktree.moved.lock();
        if let Some((_, branch)) = &*moved {
            conversation.records.git_branch.clone_from(branch);
        }
        if prefix_is_new { moved.take() } else { None }
    };
    let Some((folder, branch)) = moved else {
        return;
    };
    let prompt = &mut conversation.fixed.prompt;
    prompt.surroundings.cwd = folder;
    prompt.surroundings.git_branch = Some(branch).filter(|branch| !branch.is_empty());
    if let Some(instructions) = shared.state.instructions.lock().as_ref() {
        prompt.instructions = instructions_text(instructions);
    }
    conversation.fixed.system = prompt.encode();
}

/// The session ends: its worktree goes if nothing is in it, and what stays is said. A session that another one follows
/// leaves it to that.
pub(crate) async fn close(shared: &ConversationShared, reason: EndReason) {
    let Some(inside) = shared.state.worktree.inside.lock().await.take() else {
        return;
    };
    if !inside.is_own || matches!(reason, EndReason::Clear | EndReason::Resume) {
        return;
    }
    match inside.worktree.conclude(None).await {
        Conclusion::Removed => {
            note(shared, Value::Null).await;
            // The last hooks need a folder to run in.
            *shared.tools.working_folder.write() = inside.kept.original_cwd;
            shared.hooks.worktree_removed(&inside.worktree.path).await;
        }
        Conclusion::Kept(why) => shared.events.notice(NoticeLevel::Info, why),
    }
}
