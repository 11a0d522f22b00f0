//! Push and pull.

use crate::archive::{self, BUNDLE, Content, Manifest};
use crate::error::{Refusal, TeleportError};
use crate::git::Git;
use crate::restore::{self, Restored};
use crate::session::{self, Secrets};
use crate::snapshot::{Snapshot, SnapshotOptions, top_folder};
use crate::target::{self, Target};
use lathe_protocol::ids::SessionId;
use lathe_session::{
    Scope, SessionError, SessionInfo, SessionPaths, SessionStore, TranscriptWriter, WriterOptions,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a process that was asked to end is looked at, and how many times.
const LOOK: (Duration, u32) = (Duration::from_millis(100), 100);

/// A session to send away.
#[derive(Debug, Clone)]
pub struct Push {
    /// The session: an id, the beginning of one, or a title. The newest of the folder without it.
    pub session: Option<String>,
    /// Where to.
    pub target: Target,
    /// The source continues as well.
    pub fork: bool,
    /// End a process that has the session open.
    pub interrupt: bool,
    /// How secrets are handled.
    pub secrets: Secrets,
    /// The part of the repository that is carried.
    pub snapshot: SnapshotOptions,
}

/// A session that was sent away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The session.
    pub session: SessionId,
    /// Where it is now.
    pub to: String,
    /// The size of the archive.
    pub bytes: u64,
    /// Stored contents that were left out because they hold secrets.
    pub left_out: Vec<String>,
    /// False if the folder was not in a git repository, so that only the conversation was carried.
    pub with_files: bool,
    /// The answer of the other machine.
    pub answer: Option<String>,
}

/// A session to take in.
#[derive(Debug, Clone)]
pub struct Pull {
    /// Where from.
    pub source: Target,
    /// The folder of the repository here.
    pub folder: PathBuf,
    /// Put the files into a worktree of their own in any case.
    pub worktree: bool,
    /// Take it in as a copy with an id of its own.
    pub fork: bool,
}

/// A session that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The session here.
    pub session: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// Its working folder here.
    pub folder: PathBuf,
    /// The branch that is checked out there.
    pub branch: Option<String>,
    /// True if the files are in a new worktree.
    pub worktree: bool,
    /// The machine that it comes from.
    pub from: String,
}

/// Packs a session and brings it to its target.
///
/// # Errors
/// When something can't be carried ([`Refusal`]), or files and programs fail. The source is as it was then.
pub fn push(
    store: &SessionStore,
    folder: &Path,
    host: &str,
    push: &Push,
) -> Result<Pushed, TeleportError> {
    let info = find(store, push.session.as_deref(), folder)?;
    if let Some(to) = &info.moved {
        return Err(Refusal::Moved {
            id: info.id.to_string(),
            to: to.clone(),
        }
        .into());
    }
    // Held until the end, so that nobody continues it meanwhile.
    let _held = hold(&info, push.interrupt)?;
    let cwd = info.cwd.clone().unwrap_or_else(|| folder.to_owned());
    if !cwd.is_dir() {
        return Err(Refusal::NoFolder(cwd).into());
    }
    let (mut contents, left_out) = session::collect(&info.path, push.secrets)?;
    let top = top_folder(&cwd)?;
    let mut snapshot = None;
    if let Some(top) = &top {
        let mut taken = Snapshot::take(top, push.snapshot)?;
        if push.secrets != Secrets::Carry {
            check_files(top, &taken.changed)?;
        }
        let bundle = taken.bundle(top, push.snapshot.whole)?;
        contents.push((BUNDLE.to_owned(), Content::File(bundle)));
        snapshot = Some(taken);
    }
    let root = top.clone().unwrap_or_else(|| cwd.clone());
    let real = fs::canonicalize(&cwd).unwrap_or_else(|_| cwd.clone());
    let mut manifest = Manifest {
        version: Manifest::VERSION,
        session: info.id,
        title: info.title.clone(),
        created: jiff::Timestamp::now().to_string(),
        host: host.to_owned(),
        folder: real.strip_prefix(&root).unwrap_or(Path::new("")).to_owned(),
        root,
        fork: push.fork,
        tools: tools(&cwd)?,
        git: snapshot.as_ref().map(|snapshot| snapshot.state.clone()),
        files: Vec::new(),
    };
    let mut file = tempfile::NamedTempFile::new().map_err(TeleportError::io("create", &cwd))?;
    archive::write(file.as_file_mut(), &mut manifest, &contents)?;
    let bytes = file.as_file().metadata().map_or(0, |found| found.len());
    let answer = deliver(file.path(), top.as_deref().unwrap_or(&cwd), &info, push)?;
    // Who reads standard output says when it arrived (`mark_moved`).
    if !push.fork && push.target != Target::Standard {
        store.moved(&info, &push.target.describe())?;
    }
    Ok(Pushed {
        session: info.id,
        to: push.target.describe(),
        bytes,
        left_out,
        with_files: top.is_some(),
        answer,
    })
}

fn deliver(
    archive: &Path,
    top: &Path,
    info: &SessionInfo,
    push: &Push,
) -> Result<Option<String>, TeleportError> {
    match &push.target {
        Target::Standard => target::to_standard_output(archive)?,
        Target::File(path) => target::to_file(archive, path)?,
        Target::Git { remote, .. } => {
            target::to_remote(top, archive, remote, &info.id.to_string())?;
        }
        Target::Ssh {
            host, port, path, ..
        } => {
            let bytes = fs::read(archive).map_err(TeleportError::io("read", archive))?;
            let answer = target::over_ssh(host, *port, path, &["pull", "-"], bytes)?;
            return Ok(Some(String::from_utf8_lossy(&answer).trim().to_owned()));
        }
    }
    Ok(None)
}

/// Notes that a session went elsewhere.
///
/// # Errors
/// When there is no such session, or its transcript can't be written.
pub fn mark_moved(
    store: &SessionStore,
    folder: &Path,
    session: &str,
    to: &str,
) -> Result<(), TeleportError> {
    let info = find(store, Some(session), folder)?;
    if info.moved.is_none() {
        let _held = hold(&info, false)?;
        store.moved(&info, to)?;
    }
    Ok(())
}

fn find(
    store: &SessionStore,
    wanted: Option<&str>,
    folder: &Path,
) -> Result<SessionInfo, TeleportError> {
    match wanted {
        Some(wanted) => match (store.resolve(wanted, folder), wanted.parse::<SessionId>()) {
            (Err(SessionError::NotFound { .. }), Ok(id)) if store.find_anywhere(id).is_some() => {
                Ok(store.find_anywhere(id).ok_or(SessionError::NotFound {
                    id: wanted.to_owned(),
                    elsewhere: None,
                })?)
            }
            (found, _) => Ok(found?),
        },
        None => store
            .list(Scope::Project(folder), None)
            .into_iter()
            .find(|info| info.moved.is_none())
            .ok_or_else(|| Refusal::NoSession(folder.to_owned()).into()),
    }
}

/// Takes the lock of a transcript; a process that has it is ended first, if that is wanted.
fn hold(info: &SessionInfo, interrupt: bool) -> Result<TranscriptWriter, TeleportError> {
    let open = || TranscriptWriter::open_append(&info.path, WriterOptions::default());
    let pid = match open() {
        Err(SessionError::InUse { pid, .. }) => pid,
        held => return Ok(held?),
    };
    let refused = || Refusal::InUse {
        id: info.id.to_string(),
        pid,
    };
    let Some(pid) = pid.filter(|_| interrupt) else {
        return Err(refused().into());
    };
    let process = i32::try_from(pid).map_err(|_| refused())?;
    let process = nix::unistd::Pid::from_raw(process);
    if nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).is_err() {
        return Err(refused().into());
    }
    for _ in 0..LOOK.1 {
        match open() {
            Err(SessionError::InUse { .. }) => std::thread::sleep(LOOK.0),
            held => return Ok(held?),
        }
    }
    Err(Refusal::StillInUse(pid).into())
}

/// Refuses changed files that seem to hold secrets: they can't be hidden there.
fn check_files(top: &Path, changed: &[String]) -> Result<(), TeleportError> {
    let mut found = Vec::new();
    for path in changed {
        let full = top.join(path);
        let small =
            fs::symlink_metadata(&full).is_ok_and(|found| found.is_file() && found.len() < 8 << 20);
        if !small {
            continue;
        }
        let bytes = fs::read(&full).map_err(TeleportError::io("read", &full))?;
        if lathe_session::sanitize::has_secret(&String::from_utf8_lossy(&bytes)) {
            found.push(path.clone());
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.truncate(5);
    Err(Refusal::SecretFiles(found).into())
}

fn tools(folder: &Path) -> Result<BTreeMap<String, String>, TeleportError> {
    let git = Git::new(folder)?.line(&["--version"])?;
    let git = git.trim_start_matches("git version ").to_owned();
    let lathe = env!("CARGO_PKG_VERSION").to_owned();
    Ok([("git".to_owned(), git), ("lathe".to_owned(), lathe)].into())
}

/// Takes in a session.
///
/// # Errors
/// When it can't be put here ([`Refusal`]), the archive is damaged, or files and programs fail. No session is
/// here then that was not before.
pub fn pull(store: &SessionStore, host: &str, pull: &Pull) -> Result<Pulled, TeleportError> {
    let scratch = tempfile::tempdir().map_err(TeleportError::io("create", &pull.folder))?;
    let path = scratch.path().join("archive.tar.gz");
    fetch(pull, &path)?;
    let archive = scratch.path().join("session");
    let file = match &pull.source {
        Target::File(source) => source,
        _ => &path,
    };
    let opened = File::open(file).map_err(TeleportError::io("read", file))?;
    let manifest = archive::read(opened, &archive)?;
    let mut from = SessionPaths::of_transcript(&archive.join(archive::TRANSCRIPT));
    let fork = pull.fork || manifest.fork;
    let (id, replaced) = if fork {
        (SessionId::random(), None)
    } else {
        let replaced = session::replaceable(store, manifest.session, &from.transcript())?;
        (manifest.session, replaced)
    };
    let folder =
        std::path::absolute(&pull.folder).map_err(TeleportError::io("read", &pull.folder))?;
    fs::create_dir_all(&folder).map_err(TeleportError::io("create", &folder))?;
    let folder = fs::canonicalize(&folder).map_err(TeleportError::io("read", &folder))?;
    let restored = put_files(&manifest, &archive, &folder, pull.worktree)?;
    // Joined with nothing, a path would end in a slash.
    let cwd: PathBuf = restored.top.join(&manifest.folder).components().collect();
    fs::create_dir_all(&cwd).map_err(TeleportError::io("create", &cwd))?;
    if fork {
        from = forked(&from, id, scratch.path())?;
    }
    let loaded = lathe_session::load(&from.transcript())?;
    let branch = restored.branch.as_deref();
    let arrival = session::arrival(&manifest, &loaded, id, &restored.top, &cwd, branch);
    let to = store.paths(&cwd, id);
    session::install(&from, &to, &arrival)?;
    if let Some(old) = replaced.filter(|old| *old != to.transcript()) {
        remove(&old)?;
    }
    if !fork {
        confirm(&pull.source, &manifest, host)?;
    }
    Ok(Pulled {
        session: id,
        title: manifest.title,
        worktree: manifest.git.is_some() && !folder.starts_with(&restored.top),
        folder: cwd,
        branch: restored.branch,
        from: manifest.host,
    })
}

fn fetch(pull: &Pull, to: &Path) -> Result<(), TeleportError> {
    match &pull.source {
        Target::File(_) => Ok(()),
        Target::Standard => target::from_standard_input(to),
        Target::Git { remote, session } => {
            target::from_remote(&pull.folder, remote, session.as_deref(), to)
        }
        Target::Ssh {
            host,
            port,
            path,
            session,
        } => {
            let mut words = vec!["push"];
            if pull.fork {
                words.push("--fork");
            }
            words.extend(session.as_deref());
            words.push("-");
            let bytes = target::over_ssh(host, *port, path, &words, Vec::new())?;
            fs::write(to, bytes).map_err(TeleportError::io("write", to))
        }
    }
}

/// Tells the source that the session arrived; only the one that was asked for it doesn't know yet.
fn confirm(source: &Target, manifest: &Manifest, here: &str) -> Result<(), TeleportError> {
    if let Target::Ssh {
        host, port, path, ..
    } = source
    {
        let session = manifest.session.to_string();
        let words = ["moved", &session, here];
        target::over_ssh(host, *port, path, &words, Vec::new())?;
    }
    Ok(())
}

fn put_files(
    manifest: &Manifest,
    archive: &Path,
    folder: &Path,
    worktree: bool,
) -> Result<Restored, TeleportError> {
    match &manifest.git {
        Some(state) => restore::restore(
            state,
            &archive.join(BUNDLE),
            folder,
            &manifest.session.to_string(),
            worktree,
        ),
        None => Ok(Restored {
            top: folder.to_owned(),
            branch: None,
        }),
    }
}

/// The session under another id.
fn forked(
    from: &SessionPaths,
    id: SessionId,
    scratch: &Path,
) -> Result<SessionPaths, TeleportError> {
    let copy = SessionPaths::of_transcript(&scratch.join("fork").join(format!("{id}.jsonl")));
    lathe_session::fork::fork(&from.transcript(), &copy, id, None)?;
    for name in ["subagents", "tool-results"] {
        let source = from.session_folder().join(name);
        if source.is_dir() {
            let target = copy.session_folder().join(name);
            fs::create_dir_all(copy.session_folder())
                .and_then(|()| fs::rename(&source, &target))
                .map_err(TeleportError::io("copy", &source))?;
        }
    }
    Ok(copy)
}

/// Removes the transcript of a session that came back to another folder.
fn remove(transcript: &Path) -> Result<(), TeleportError> {
    fs::remove_file(transcript).map_err(TeleportError::io("remove", transcript))?;
    let folder = SessionPaths::of_transcript(transcript).session_folder();
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(TeleportError::io("remove", &folder)(error))
        }
        _ => Ok(()),
    }
}
