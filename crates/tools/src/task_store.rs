//! The task list with ids and dependencies: kept in a file, so that it outlives the process and can be
//! shared by agents; every change holds a lock, so that two of them never lose each other's.
//!
//! Without a file (`--no-session-persistence`) it lives in memory.

use lathe_protocol::display::{TodoItem, TodoStatus};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Tasks of one list.
const MOST_TASKS: usize = 1_000;

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Names it: a number, counted up.
    pub id: String,
    /// The task in a line.
    pub subject: String,
    /// The task in detail.
    #[serde(default)]
    pub description: String,
    /// The same as something being done ("Running the tests").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// How far it is.
    pub status: TodoStatus,
    /// The agent or person that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Tasks that wait for it.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Tasks that it waits for.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// Whatever else is to be kept with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Task {
    /// A pending task without an id.
    #[must_use]
    pub fn new(subject: String) -> Self {
        Self {
            id: String::new(),
            subject,
            description: String::new(),
            active_form: None,
            status: TodoStatus::Pending,
            owner: None,
            blocks: Vec::new(),
            blocked_by: Vec::new(),
            metadata: Map::new(),
        }
    }
}

/// The list as it is on disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskList {
    next_id: u64,
    /// Tasks with a smaller id belong to a plan that is finished; faces no longer show them.
    shown_from: u64,
    tasks: Vec<Task>,
}

/// Why the list can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskStoreError {
    /// The file.
    #[error("the task list {} can't be used: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The change is refused.
    #[error(transparent)]
    Refused(#[from] TaskListError),
}

/// Why a task list can't be changed like that. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskListError {
    /// No task has this id.
    #[error("There is no task {id}{}", known_ids(known))]
    NoTask {
        /// The id that was asked for.
        id: String,
        /// The ids of the tasks on the list.
        known: Vec<String>,
    },
    /// An update without a field.
    #[error("Nothing to change: give a field besides taskId.")]
    NothingToChange,
    /// The list is full.
    #[error("The list has {MOST_TASKS} tasks already; delete some that are done.")]
    Full,
    /// The tasks would wait for each other.
    #[error("Task {waiting} can't wait for task {first}, which already waits for it.")]
    Circle {
        /// The task that should wait.
        waiting: String,
        /// The task that it should wait for.
        first: String,
    },
    /// The task is another member's.
    #[error("Task {id} belongs to {owner}. Take another one; TaskList shows which are free.")]
    Owned {
        /// The task.
        id: String,
        /// Its owner.
        owner: String,
    },
    /// A member gives a task to another.
    #[error("Only the leader of the team gives tasks to others.")]
    NotLeader,
    /// A task is begun before those that it waits for.
    #[error("Task {id} waits for #{}.", blockers.join(", #"))]
    Blocked {
        /// The task.
        id: String,
        /// The tasks that it waits for.
        blockers: Vec<String>,
    },
}

impl TaskListError {
    /// Whether somebody else was faster or has the say: trying again as it is gives the same.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Owned { .. } | Self::NotLeader | Self::Blocked { .. }
        )
    }
}

fn known_ids(known: &[String]) -> String {
    if known.is_empty() {
        ": the list is empty.".to_owned()
    } else {
        format!(". There are: {}.", known.join(", "))
    }
}

/// Where a list is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Memory,
    File(PathBuf),
    /// A file for each task: the list of a team.
    Folder(PathBuf),
}

/// A task list.
#[derive(Debug, Default)]
pub struct TaskStore {
    place: RwLock<Place>,
    /// The place of the session's own list, while a team's is used.
    own: Mutex<Option<Place>>,
    memory: Mutex<TaskList>,
}

impl TaskStore {
    /// The list in a file; `None` keeps it in memory.
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> Self {
        Self {
            place: RwLock::new(file.map_or(Place::Memory, Place::File)),
            ..Self::default()
        }
    }

    /// Uses the list of a team from now on, which has a file for each task.
    pub fn use_team(&self, folder: PathBuf) {
        let before = std::mem::replace(&mut *self.place.write(), Place::Folder(folder));
        self.own.lock().get_or_insert(before);
    }

    /// Uses the session's own list again.
    pub fn leave_team(&self) {
        if let Some(own) = self.own.lock().take() {
            *self.place.write() = own;
        }
    }

    /// The list as it is.
    ///
    /// # Errors
    /// When its file can't be read.
    pub fn read(&self) -> Result<TaskList, TaskStoreError> {
        match &*self.place.read() {
            Place::Memory => Ok(self.memory.lock().clone()),
            Place::File(path) => load(path),
            Place::Folder(folder) => load_folder(folder),
        }
    }

    /// Changes the list, as a whole or not at all.
    ///
    /// # Errors
    /// If the change fails or the file can't be used; then nothing is changed.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut TaskList) -> Result<T, TaskListError>,
    ) -> Result<T, TaskStoreError> {
        // Also keeps the conversations of this process apart.
        let mut memory = self.memory.lock();
        let place = self.place.read().clone();
        let (lock, path) = match &place {
            Place::Memory => {
                let mut list = memory.clone();
                let value = change(&mut list)?;
                *memory = list;
                return Ok(value);
            }
            Place::File(path) => (path.with_extension("lock"), path),
            Place::Folder(folder) => (folder.join(".lock"), folder),
        };
        let failed = |source| TaskStoreError::File {
            path: path.clone(),
            source,
        };
        if let Some(folder) = lock.parent() {
            lathe_session::paths::create_private_folder(folder)
                .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        }
        let lock = File::create(lock).map_err(failed)?;
        lock.lock().map_err(failed)?;
        if let Place::Folder(folder) = &place {
            let before = load_folder(folder)?;
            let mut list = before.clone();
            let value = change(&mut list)?;
            keep_folder(folder, &before, &list)?;
            return Ok(value);
        }
        let mut list = load(path)?;
        let value = change(&mut list)?;
        write_json(path, &list)?;
        Ok(value)
    }
}

fn load(path: &Path) -> Result<TaskList, TaskStoreError> {
    Ok(read_json(path)?.unwrap_or_default())
}

/// Reads a file; `None` when there is none.
fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, TaskStoreError> {
    let failed = |source| TaskStoreError::File {
        path: path.to_owned(),
        source,
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed(std::io::Error::other(error.to_string()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), TaskStoreError> {
    let bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    lathe_session::paths::write_private_file(path, &bytes).map_err(|error| TaskStoreError::File {
        path: path.to_owned(),
        source: std::io::Error::other(error.to_string()),
    })
}

/// The file of a folder that holds what belongs to no single task.
const COUNTERS: &str = ".list.json";

/// Reads a list with a file for each task. A process that was killed between two files leaves dependencies that only one
/// side knows; they are made whole here.
fn load_folder(folder: &Path) -> Result<TaskList, TaskStoreError> {
    let mut list: TaskList = read_json(&folder.join(COUNTERS))?.unwrap_or_default();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(list),
        Err(source) => {
            return Err(TaskStoreError::File {
                path: folder.to_owned(),
                source,
            });
        }
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let id = name.strip_suffix(".json");
        if let Some(number) = id.and_then(|id| id.parse::<u64>().ok())
            && let Some(task) = read_json::<Task>(&entry.path())?
        {
            list.next_id = list.next_id.max(number);
            list.tasks.push(task);
        }
    }
    list.tasks
        .sort_by_key(|task| task.id.parse::<u64>().unwrap_or(u64::MAX));
    let known: Vec<String> = list.tasks.iter().map(|task| task.id.clone()).collect();
    let mut pairs = Vec::new();
    for task in &mut list.tasks {
        task.blocks.retain(|id| known.contains(id));
        task.blocked_by.retain(|id| known.contains(id));
        pairs.extend(task.blocks.iter().map(|id| (task.id.clone(), id.clone())));
        let first = task.blocked_by.iter();
        pairs.extend(first.map(|id| (id.clone(), task.id.clone())));
    }
    for (first, waiting) in pairs {
        // One that would make a circle was written by another hand; it is left out.
        let _ = list.make_wait(&waiting, &first);
    }
    Ok(list)
}

/// Writes what changed: the counters first, so that an id is never used twice.
fn keep_folder(folder: &Path, before: &TaskList, now: &TaskList) -> Result<(), TaskStoreError> {
    if (before.next_id, before.shown_from) != (now.next_id, now.shown_from) {
        let counters = TaskList {
            tasks: Vec::new(),
            ..now.clone()
        };
        write_json(&folder.join(COUNTERS), &counters)?;
    }
    for task in &now.tasks {
        if before.get(&task.id) != Some(task) {
            write_json(&folder.join(format!("{}.json", task.id)), task)?;
        }
    }
    for task in &before.tasks {
        if now.get(&task.id).is_none() {
            let path = folder.join(format!("{}.json", task.id));
            std::fs::remove_file(&path).map_err(|source| TaskStoreError::File { path, source })?;
        }
    }
    Ok(())
}

/// Who changes the list of a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The member's name.
    pub name: String,
    /// Whether it is the leader, who may give tasks to others.
    pub leads: bool,
}

impl TaskList {
    /// The tasks, oldest first.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Task> {
        let id = id.trim_start_matches('#');
        self.tasks.iter().find(|task| task.id == id)
    }

    /// One of them, to be changed.
    ///
    /// # Errors
    /// When there is none of that id; names those that there are.
    pub fn get_mut(&mut self, id: &str) -> Result<&mut Task, TaskListError> {
        let id = id.trim_start_matches('#');
        match self.tasks.iter().position(|task| task.id == id) {
            Some(index) => Ok(&mut self.tasks[index]),
            None => Err(TaskListError::NoTask {
                id: id.to_owned(),
                known: self.tasks.iter().map(|task| task.id.clone()).collect(),
            }),
        }
    }

    /// Adds a task; gives it with its id.
    ///
    /// # Errors
    /// When the list is full.
    pub fn add(&mut self, mut task: Task) -> Result<Task, TaskListError> {
        if self.tasks.len() >= MOST_TASKS {
            return Err(TaskListError::Full);
        }
        self.next_id += 1;
        if self.is_finished() {
            self.shown_from = self.next_id;
        }
        task.id = self.next_id.to_string();
        self.tasks.push(task.clone());
        Ok(task)
    }

    /// Takes a task away, also from what others wait for.
    pub fn remove(&mut self, id: &str) {
        self.tasks.retain(|task| task.id != id);
        for task in &mut self.tasks {
            task.blocks.retain(|other| other != id);
            task.blocked_by.retain(|other| other != id);
        }
    }

    /// Makes one task wait for another, seen from both.
    ///
    /// # Errors
    /// When one of them isn't there, or they would wait for each other.
    pub fn make_wait(&mut self, waiting: &str, first: &str) -> Result<(), TaskListError> {
        let waiting = self.get_mut(waiting)?.id.clone();
        let first = self.get_mut(first)?.id.clone();
        if self.waits_for(&first, &waiting) {
            return Err(TaskListError::Circle { waiting, first });
        }
        let task = self.get_mut(&waiting)?;
        if !task.blocked_by.contains(&first) {
            task.blocked_by.push(first.clone());
        }
        let task = self.get_mut(&first)?;
        if !task.blocks.contains(&waiting) {
            task.blocks.push(waiting);
        }
        Ok(())
    }

    fn waits_for(&self, task: &str, other: &str) -> bool {
        let mut open = vec![task.to_owned()];
        let mut seen = Vec::new();
        while let Some(id) = open.pop() {
            if id == other {
                return true;
            }
            if seen.contains(&id) {
                continue;
            }
            if let Some(task) = self.get(&id) {
                open.extend(task.blocked_by.iter().cloned());
            }
            seen.push(id);
        }
        false
    }

    /// Whether a member of a team may change a task like that: tasks of others are theirs, only the leader gives tasks
    /// to others, and a task that waits for another can't be begun.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_claim(
        &self,
        id: &str,
        seat: &Seat,
        owner: Option<&str>,
        begins: bool,
    ) -> Result<(), TaskListError> {
        let Some(task) = self.get(id) else {
            return Ok(());
        };
        if !seat.leads {
            if let Some(of) = task.owner.as_ref().filter(|of| **of != seat.name) {
                return Err(TaskListError::Owned {
                    id: task.id.clone(),
                    owner: of.clone(),
                });
            }
            if owner.is_some_and(|owner| !owner.is_empty() && owner != seat.name) {
                return Err(TaskListError::NotLeader);
            }
        }
        let blockers = self.open_blockers(task);
        if begins && !blockers.is_empty() {
            return Err(TaskListError::Blocked {
                id: task.id.clone(),
                blockers,
            });
        }
        Ok(())
    }

    /// Returns the unfinished tasks of a member that is gone. Gives their ids.
    pub fn release(&mut self, owner: &str) -> Vec<String> {
        let mut released = Vec::new();
        for task in &mut self.tasks {
            if task.owner.as_deref() == Some(owner) && !task.status.is_finished() {
                task.owner = None;
                task.status = TodoStatus::Pending;
                released.push(task.id.clone());
            }
        }
        released
    }

    /// The tasks that a task still waits for. A failed task keeps others waiting: its result is missing. A
    /// cancelled one does not.
    #[must_use]
    pub fn open_blockers(&self, task: &Task) -> Vec<String> {
        self.blockers(task).map(|task| task.id.clone()).collect()
    }

    fn blockers<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a Task> {
        let open =
            |task: &&Task| !matches!(task.status, TodoStatus::Completed | TodoStatus::Cancelled);
        let blockers = task.blocked_by.iter().filter_map(|id| self.get(id));
        blockers.filter(open)
    }

    /// Whether nothing of it is left to do.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.tasks.iter().all(|task| task.status.is_finished())
    }

    /// The list as faces show it: without the plans that were finished before.
    #[must_use]
    pub fn shown(&self) -> Vec<TodoItem> {
        let present = |task: &&Task| task.id.parse().is_ok_and(|id: u64| id >= self.shown_from);
        self.tasks
            .iter()
            .filter(present)
            .map(|task| TodoItem {
                content: task.subject.clone(),
                status: task.status,
                active_form: task
                    .active_form
                    .clone()
                    .unwrap_or_else(|| task.subject.clone()),
                owner: task.owner.clone(),
                waits_for: if task.status.is_finished() {
                    Vec::new()
                } else {
                    self.blockers(task).map(|it| it.subject.clone()).collect()
                },
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(subject: &str) -> Task {
        Task::new(subject.to_owned())
    }

    #[test]
    fn a_list_outlives_its_store_and_ids_are_never_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/tasks.json");
        let store = TaskStore::new(Some(file.clone()));
        for subject in ["one", "two"] {
            store.change(|list| list.add(task(subject))).unwrap();
        }
        store
            .change(|list| {
                list.remove("2");
                Ok(())
            })
            .unwrap();
        let again = TaskStore::new(Some(file));
        let added = again.change(|list| list.add(task("three"))).unwrap();
        assert_eq!(added.id, "3");
        assert_eq!(again.read().unwrap().tasks().len(), 2);
    }

    #[test]
    fn tasks_wait_for_each_other_but_never_in_a_circle() {
        let mut list = TaskList::default();
        for subject in ["one", "two", "three"] {
            list.add(task(subject)).unwrap();
        }
        list.make_wait("2", "1").unwrap();
        list.make_wait("#3", "2").unwrap();
        assert!(
            list.make_wait("1", "3")
                .unwrap_err()
                .to_string()
                .contains("already")
        );
        assert!(
            list.make_wait("1", "9")
                .unwrap_err()
                .to_string()
                .contains("1, 2, 3")
        );
        assert_eq!(list.get("1").unwrap().blocks, ["2"]);
        assert_eq!(list.open_blockers(list.get("3").unwrap()), ["2"]);
        for (status, waits) in [
            (TodoStatus::InProgress, true),
            (TodoStatus::Failed, true),
            (TodoStatus::Cancelled, false),
            (TodoStatus::Completed, false),
        ] {
            list.get_mut("2").unwrap().status = status;
            let blockers = list.open_blockers(list.get("3").unwrap());
            assert_eq!(!blockers.is_empty(), waits, "{}", status.word());
        }
    }

    #[test]
    fn a_finished_plan_is_not_shown_with_the_next_one() {
        let mut list = TaskList::default();
        list.add(task("one")).unwrap();
        list.add(task("two")).unwrap();
        list.make_wait("2", "1").unwrap();
        list.get_mut("2").unwrap().owner = Some("ana".to_owned());
        let shown = list.shown();
        assert_eq!(shown[1].waits_for, ["one"]);
        assert_eq!(shown[1].owner.as_deref(), Some("ana"));
        list.get_mut("1").unwrap().status = TodoStatus::Completed;
        list.get_mut("2").unwrap().status = TodoStatus::Cancelled;
        assert_eq!(list.shown().len(), 2, "until something new is planned");
        list.add(task("three")).unwrap();
        list.add(task("four")).unwrap();
        let shown = list.shown();
        let shown: Vec<&str> = shown.iter().map(|item| item.content.as_str()).collect();
        assert_eq!(shown, ["three", "four"]);
        assert_eq!(list.tasks().len(), 4, "they can still be read");
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasks.json");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let store = TaskStore::new(Some(file.clone()));
                    for _ in 0..10 {
                        store.change(|list| list.add(task("x"))).unwrap();
                    }
                });
            }
        });
        let list = TaskStore::new(Some(file)).read().unwrap();
        assert_eq!(list.tasks().len(), 40);
    }

    #[test]
    fn sixteen_members_over_two_hundred_tasks_own_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("team");
        let store = TaskStore::default();
        store.use_team(place.clone());
        for number in 0..200 {
            let added = store.change(|list| list.add(task(&number.to_string())));
            assert_eq!(added.unwrap().id, (number + 1).to_string());
        }
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for member in 0..16 {
                let (place, done) = (place.clone(), &done);
                scope.spawn(move || {
                    // Each with a store of its own, as processes have.
                    let store = TaskStore::default();
                    store.use_team(place);
                    let seat = Seat {
                        name: format!("m{member}"),
                        leads: false,
                    };
                    loop {
                        let claimed = store.change(|list| {
                            let free = list.tasks().iter().find(|task| task.owner.is_none());
                            let Some(id) = free.map(|task| task.id.clone()) else {
                                return Ok(None);
                            };
                            list.check_claim(&id, &seat, Some(&seat.name), true)?;
                            let task = list.get_mut(&id)?;
                            task.owner = Some(seat.name.clone());
                            task.status = TodoStatus::InProgress;
                            Ok(Some(id))
                        });
                        let Some(id) = claimed.unwrap() else { break };
                        done.lock().push(id.clone());
                        // One member dies with what it holds.
                        if member == 3 && done.lock().len() > 20 {
                            store.change(|list| Ok(list.release(&seat.name))).unwrap();
                            let mut done = done.lock();
                            done.retain(|other| *other != id);
                            break;
                        }
                        store
                            .change(|list| {
                                list.get_mut(&id)?.status = TodoStatus::Completed;
                                Ok(())
                            })
                            .unwrap();
                    }
                });
            }
        });
        let mut done = done.into_inner();
        assert_eq!(done.len(), 200, "none lost");
        done.sort();
        done.dedup();
        assert_eq!(done.len(), 200, "none twice");
        let list = store.read().unwrap();
        assert!(list.is_finished() && list.tasks().len() == 200);
        assert!(list.tasks().iter().all(|task| task.owner.is_some()));
        assert!(place.join("7.json").exists(), "a file for each");
        store.leave_team();
        assert!(store.read().unwrap().tasks().is_empty());
    }

    #[test]
    fn tasks_of_others_are_theirs_and_only_the_leader_gives_tasks() {
        let mut list = TaskList::default();
        list.add(task("one")).unwrap();
        list.add(task("two")).unwrap();
        list.make_wait("2", "1").unwrap();
        list.get_mut("1").unwrap().owner = Some("ana".to_owned());
        let seat = |name: &str, leads| Seat {
            name: name.to_owned(),
            leads,
        };
        let ben = seat("ben", false);
        let refused = list.check_claim("1", &ben, Some("ben"), true).unwrap_err();
        assert!(refused.to_string().contains("belongs to ana") && refused.is_refusal());
        assert_eq!(
            list.check_claim("2", &ben, Some("ana"), false),
            Err(TaskListError::NotLeader)
        );
        let early = list.check_claim("2", &ben, None, true).unwrap_err();
        assert_eq!(early.to_string(), "Task 2 waits for #1.");
        list.check_claim("1", &seat("team-lead", true), Some("ben"), true)
            .unwrap();
        list.check_claim("1", &seat("ana", false), None, true)
            .unwrap();
        assert_eq!(list.release("ana"), ["1"]);
        assert_eq!(list.get("1").unwrap().owner, None);
    }

    #[test]
    fn a_list_that_a_killed_process_left_halfway_is_made_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = TaskStore::default();
        store.use_team(folder.path().to_owned());
        for subject in ["one", "two", "three"] {
            store.change(|list| list.add(task(subject))).unwrap();
        }
        store.change(|list| list.make_wait("2", "1")).unwrap();
        store.change(|list| list.make_wait("3", "2")).unwrap();
        // Only one side of a dependency was written, and a task that others wait for is gone.
        let path = folder.path().join("2.json");
        let mut two: Task = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        two.blocked_by.clear();
        std::fs::write(&path, serde_json::to_vec(&two).unwrap()).unwrap();
        std::fs::remove_file(folder.path().join("3.json")).unwrap();
        let list = store.read().unwrap();
        assert_eq!(list.get("2").unwrap().blocked_by, ["1"]);
        assert!(list.get("2").unwrap().blocks.is_empty());
        let next = store.change(|list| list.add(task("four"))).unwrap();
        assert_eq!(next.id, "4", "an id is never used again");
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let store = TaskStore::new(None);
        store.change(|list| list.add(task("one"))).unwrap();
        let refused: Result<(), _> = store.change(|list| {
            list.remove("1");
            Err(TaskListError::Full)
        });
        assert!(refused.is_err());
        assert_eq!(store.read().unwrap().tasks().len(), 1);
    }
}
