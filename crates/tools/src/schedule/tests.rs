//! Jobs in memory and on disk, fired, killed and found again.

use super::*;
use std::path::PathBuf;

/// A clock that stands still until it is set.
struct Hands(Mutex<Timestamp>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }

    fn until(&self, _moment: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

struct Place {
    folder: tempfile::TempDir,
    clock: Arc<Hands>,
}

impl Place {
    fn new() -> Self {
        let now = "2026-03-02T08:00:30Z".parse().unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(Hands(Mutex::new(now))),
        }
    }

    fn set(&self, now: &str) {
        *self.clock.0.lock() = now.parse().unwrap();
    }

    /// A session of the project. Dropping it is the end of its process: locks go, files stay.
    fn session(&self) -> Schedule {
        let file = JobsFile::new(self.folder.path(), self.folder.path().join("locks"));
        Schedule::new(Some(file), self.clock.clone(), TimeZone::UTC, true)
    }

    fn transcript(&self, record: Option<RecordId>) -> PathBuf {
        let path = self.folder.path().join("transcript.jsonl");
        let line = record.map(|record| format!("{{\"uuid\":\"{record}\"}}\n"));
        std::fs::write(&path, line.unwrap_or_default()).unwrap();
        path
    }
}

fn job(cron: &str, recurring: bool, durable: bool) -> NewJob {
    NewJob {
        when: When::Cron(cron.to_owned()),
        prompt: "look".to_owned(),
        recurring,
        durable,
        mode: PermissionMode::Default,
    }
}

/// Fires what is due: the prompt arrives and stands in the transcript.
fn fire(place: &Place, schedule: &Schedule) -> Vec<String> {
    let due = schedule.take_due().unwrap().jobs;
    for job in &due {
        let record = RecordId::random();
        let transcript = place.transcript(Some(record));
        schedule.begin(&job.id, record, &transcript).unwrap();
        assert!(
            !schedule
                .take_due()
                .unwrap()
                .jobs
                .iter()
                .any(|it| it.id == job.id),
            "a job that is on its way isn't due again"
        );
        schedule.accepted(record);
    }
    due.into_iter().map(|job| job.id).collect()
}

#[test]
fn missed_times_count_as_one_and_jobs_that_fire_once_are_gone() {
    let place = Place::new();
    let schedule = place.session();
    let often = schedule.create(job("*/10 * * * *", true, false)).unwrap();
    let once = schedule.create(job("0 9 * * *", false, false)).unwrap();
    assert!(fire(&place, &schedule).is_empty());
    place.set("2026-03-02T09:35:00Z");
    let mut fired = fire(&place, &schedule);
    let mut both = vec![often.id.clone(), once.id];
    fired.sort();
    both.sort();
    assert_eq!(fired, both);
    assert!(fire(&place, &schedule).is_empty());
    let left: Vec<String> = schedule.list().into_iter().map(|job| job.id).collect();
    assert_eq!(left, [often.id]);
}

#[test]
fn recurring_jobs_are_late_by_a_tenth_of_their_period_at_most() {
    let place = Place::new();
    let schedule = place.session();
    for _ in 0..20 {
        let hour = schedule.create(job("0 * * * *", true, false)).unwrap();
        let next = schedule.next_of(&hour).unwrap();
        let late = next.duration_since("2026-03-02T09:00:00Z".parse().unwrap());
        assert!((0..=360).contains(&late.as_secs()), "{late}");
        let day = schedule.create(job("0 0 * * *", true, false)).unwrap();
        let next = schedule.next_of(&day).unwrap();
        let late = next.duration_since("2026-03-03T00:00:00Z".parse().unwrap());
        assert!((0..=900).contains(&late.as_secs()), "{late}");
    }
    let once = schedule.create(job("0 9 * * *", false, false)).unwrap();
    let next = schedule.next_of(&once).unwrap();
    assert_eq!(next.to_string(), "2026-03-02T09:00:00Z");
}

#[test]
fn recurring_jobs_end_after_seven_days() {
    let place = Place::new();
    let schedule = place.session();
    schedule.create(job("0 12 * * *", true, true)).unwrap();
    let mut fires = 0;
    for day in 2..=20 {
        place.set(&format!("2026-03-{day:02}T12:30:00Z"));
        fires += fire(&place, &schedule).len();
    }
    assert_eq!(fires, 7);
    assert!(schedule.list().is_empty());
}

#[test]
fn a_process_that_is_killed_between_fires_loses_none_and_doubles_none() {
    let place = Place::new();
    let made = place
        .session()
        .create(job("0 * * * *", true, true))
        .unwrap();
    let mut fired = Vec::new();
    for hour in 9..15 {
        place.set(&format!("2026-03-02T{hour:02}:20:00Z"));
        // Killed before the note, after the note, after the record, after everything: the next one continues.
        for killed_at in 0..4 {
            let schedule = place.session();
            let due = schedule.take_due().unwrap().jobs;
            let Some(job) = due.first() else { continue };
            assert_eq!(job.id, made.id);
            if killed_at == 0 {
                continue;
            }
            let record = RecordId::random();
            let transcript = place.transcript(None);
            schedule.begin(&job.id, record, &transcript).unwrap();
            if killed_at == 1 {
                continue;
            }
            place.transcript(Some(record));
            fired.push(hour);
            if killed_at == 3 {
                schedule.accepted(record);
            }
        }
    }
    assert_eq!(fired, [9, 10, 11, 12, 13, 14]);
}

#[test]
fn one_session_fires_the_jobs_of_a_project_and_the_next_takes_over() {
    let place = Place::new();
    let (first, second) = (place.session(), place.session());
    let made = second.create(job("* * * * *", false, true)).unwrap();
    assert!(first.take_due().unwrap().jobs.is_empty());
    let own = second.create(job("* * * * *", false, false)).unwrap();
    place.set("2026-03-02T08:05:00Z");
    assert_eq!(fire(&place, &second), [own.id]);
    drop(first);
    assert_eq!(fire(&place, &second), [made.id]);
}

#[test]
fn jobs_of_another_program_are_taken_over_once() {
    let place = Place::new();
    let folder = place.folder.path().join(".claude");
    std::fs::create_dir(&folder).unwrap();
    let text = r#"{"tasks": [{"id": "abc", "cron": "* * * * *", "prompt": "look", "createdAt": 1772438400000}]}"#;
    std::fs::write(folder.join("scheduled_tasks.json"), text).unwrap();
    place.set("2026-03-02T08:05:00Z");
    assert_eq!(fire(&place, &place.session()), ["abc"]);
    assert!(fire(&place, &place.session()).is_empty());
    assert!(place.session().list().is_empty());
}

#[test]
fn a_paused_job_waits_and_catches_nothing_up() {
    let place = Place::new();
    let schedule = place.session();
    let made = schedule.create(job("0 9 * * *", true, true)).unwrap();
    schedule.pause(&made.id, true).unwrap();
    place.set("2026-03-03T12:00:00Z");
    assert!(fire(&place, &schedule).is_empty());
    schedule.pause(&made.id, false).unwrap();
    assert!(fire(&place, &schedule).is_empty());
    place.set("2026-03-04T12:00:00Z");
    assert_eq!(fire(&place, &schedule).len(), 1);
}

#[test]
fn what_can_not_be_kept_is_refused_with_its_reason() {
    let place = Place::new();
    let short = Schedule::new(None, place.clock.clone(), TimeZone::UTC, false);
    let told = |schedule: &Schedule, new: NewJob| schedule.create(new).unwrap_err().to_string();
    assert!(told(&short, job("* * * * *", true, false)).contains("ends with its answer"));
    assert!(told(&short, job("* * * * *", true, true)).contains("trust"));
    let schedule = place.session();
    assert!(told(&schedule, job("* * *", true, false)).contains("five fields"));
    for _ in 0..MOST_JOBS {
        schedule.create(job("* * * * *", true, false)).unwrap();
    }
    assert!(told(&schedule, job("* * * * *", true, false)).contains("50 jobs"));
    let error = schedule.delete("nobody").unwrap_err().to_string();
    assert!(
        error.contains("There is no job nobody. There are: "),
        "{error}"
    );
}
