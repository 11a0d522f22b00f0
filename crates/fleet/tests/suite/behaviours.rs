//! The behaviours, each on a fleet that is new and empty.

use lathe_fleet::backend::{Answer, Ask, Wanted, WorkerInfo};
use lathe_fleet::entry::{Entry, JobResult, SnapshotRef, State};
use lathe_fleet::fleet::{Claim, Control, End};
use lathe_fleet::job::{Job, Priority};
use lathe_fleet::log::LogRecord;
use lathe_fleet::{Fleet, QueueError};
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(120);
/// The lease of a worker that is about to be silent.
const SHORT: Duration = Duration::from_secs(1);
/// How long a job is waited for that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a job is waited for that must not come.
const GLANCE: Duration = Duration::from_millis(300);

fn job(id: &str) -> Job {
    Job {
        id: id.to_owned(),
        ..Job::new(format!("prompt of {id}"))
    }
}

fn wanted(lease: Duration) -> Wanted {
    Wanted {
        classes: vec!["default".to_owned()],
        labels: Vec::new(),
        secrets: Vec::new(),
        lease,
    }
}

async fn submit(fleet: &Fleet, job: Job) {
    assert!(fleet.enqueue(job).await.unwrap());
}

async fn claim(fleet: &Fleet, worker: &str) -> Claim {
    let claim = fleet.claim(worker, &wanted(LONG), PATIENCE).await.unwrap();
    claim.expect("a job is there")
}

async fn nothing(fleet: &Fleet, wanted: &Wanted) {
    let claim = fleet.claim("glance", wanted, GLANCE).await.unwrap();
    assert!(claim.is_none(), "{:?}", claim.map(|it| it.entry.job.id));
}

fn done() -> End {
    End::Done(Box::new(JobResult {
        text: "answer".to_owned(),
        ..JobResult::default()
    }))
}

async fn finish(fleet: &Fleet, claim: Claim) {
    assert_eq!(fleet.finish(claim, done(), 0.0).await.unwrap(), State::Done);
}

async fn entry(fleet: &Fleet, id: &str) -> Entry {
    fleet.entry(&job(id).key()).await.unwrap()
}

fn line(text: &str) -> LogRecord {
    LogRecord::Line {
        line: text.to_owned(),
    }
}

async fn lines(fleet: &Fleet, id: &str) -> Vec<String> {
    let records = fleet.log(&job(id).key(), 0).await.unwrap();
    let lines = records.into_iter().filter_map(|(_, record)| match record {
        LogRecord::Line { line } => Some(line),
        _ => None,
    });
    lines.collect()
}

pub(crate) async fn one_of_many_has_a_turn(fleet: Fleet) {
    let backend = fleet.backend();
    let asked = [
        backend.is_first("sweep-1").await.unwrap(),
        backend.is_first("sweep-1").await.unwrap(),
        backend.is_first("sweep-2").await.unwrap(),
    ];
    assert_eq!(asked, [true, false, true]);
}

pub(crate) async fn a_job_is_submitted_once_and_finished_once(fleet: Fleet) {
    submit(&fleet, job("a")).await;
    assert!(!fleet.enqueue(job("a")).await.unwrap(), "known already");
    let mut claim = claim(&fleet, "w1").await;
    assert_eq!(claim.entry.state, State::Running);
    nothing(&fleet, &wanted(LONG)).await;
    fleet.append(&mut claim, &line("one")).await.unwrap();
    fleet.append(&mut claim, &line("two")).await.unwrap();
    assert_eq!(
        fleet.finish(claim, done(), 0.25).await.unwrap(),
        State::Done
    );
    let entry = entry(&fleet, "a").await;
    assert_eq!((entry.state, entry.cost_usd), (State::Done, 0.25));
    assert_eq!(entry.result.unwrap().text, "answer");
    assert_eq!(lines(&fleet, "a").await, ["one", "two"]);
    nothing(&fleet, &wanted(LONG)).await;
    assert!(!fleet.enqueue(job("a")).await.unwrap(), "still known");
    nothing(&fleet, &wanted(LONG)).await;
}

pub(crate) async fn many_takers_take_every_job_once(fleet: Fleet) {
    const JOBS: usize = 60;
    for number in 0..JOBS {
        submit(&fleet, job(&format!("n{number}"))).await;
    }
    let mut takers = tokio::task::JoinSet::new();
    for number in 0..6 {
        let fleet = fleet.clone();
        takers.spawn(async move {
            let name = format!("w{number}");
            let mut taken = Vec::new();
            while let Some(claim) = fleet.claim(&name, &wanted(LONG), SHORT).await.unwrap() {
                taken.push(claim.entry.job.id.clone());
                finish(&fleet, claim).await;
            }
            taken
        });
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    for id in takers.join_all().await.into_iter().flatten() {
        *counts.entry(id).or_default() += 1;
    }
    assert_eq!(counts.len(), JOBS);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

pub(crate) async fn jobs_are_taken_by_class_priority_and_conditions(fleet: Fleet) {
    let with = |id: &str, change: fn(&mut Job)| {
        let mut job = job(id);
        change(&mut job);
        job
    };
    submit(&fleet, with("low", |it| it.priority = Priority::Low)).await;
    submit(&fleet, job("normal")).await;
    submit(&fleet, with("high", |it| it.priority = Priority::High)).await;
    submit(&fleet, with("other", |it| it.class = "gpu".to_owned())).await;
    let needs = |it: &mut Job| {
        it.class = "arm".to_owned();
        it.needs.labels = vec!["big".to_owned()];
        it.needs.secrets = vec!["TOKEN".to_owned()];
    };
    submit(&fleet, with("picky", needs)).await;
    for expected in ["high", "normal", "low"] {
        let claim = claim(&fleet, "w").await;
        assert_eq!(claim.entry.job.id, expected);
        finish(&fleet, claim).await;
    }
    nothing(&fleet, &wanted(LONG)).await;
    let mut fits = wanted(LONG);
    fits.classes = vec!["arm".to_owned()];
    nothing(&fleet, &fits).await;
    fits.labels = vec!["big".to_owned(), "fast".to_owned()];
    nothing(&fleet, &fits).await;
    fits.secrets = vec!["TOKEN".to_owned()];
    let claim = fleet.claim("w", &fits, PATIENCE).await.unwrap().unwrap();
    assert_eq!(claim.entry.job.id, "picky");
}

pub(crate) async fn a_silent_worker_loses_its_job_and_can_publish_nothing(fleet: Fleet) {
    submit(&fleet, job("a")).await;
    let first = fleet.claim("w1", &wanted(SHORT), PATIENCE).await.unwrap();
    let mut first = first.unwrap();
    fleet.append(&mut first, &line("first")).await.unwrap();
    let snapshot = SnapshotRef {
        blob: fleet.put_blob(b"files".to_vec()).await.unwrap(),
        state: json!({}),
        log: first.position(),
        at: 1,
    };
    fleet
        .renew(&mut first, State::Running, Some(snapshot.clone()))
        .await
        .unwrap();
    let mut second = claim(&fleet, "w2").await;
    assert_eq!((second.entry.epoch, second.entry.attempt), (2, 2));
    assert_eq!(second.entry.session, first.entry.session);
    assert_eq!(second.entry.snapshot, Some(snapshot));
    let fenced = |result: Result<(), QueueError>| {
        assert!(matches!(result, Err(QueueError::Fenced)), "{result:?}");
    };
    fenced(fleet.append(&mut first, &line("late")).await);
    fenced(fleet.renew(&mut first, State::Running, None).await);
    fenced(fleet.finish(first, done(), 9.0).await.map(|_| ()));
    fleet.append(&mut second, &line("second")).await.unwrap();
    finish(&fleet, second).await;
    assert_eq!(lines(&fleet, "a").await, ["first", "second"]);
    let entry = entry(&fleet, "a").await;
    assert_eq!((entry.state, entry.cost_usd), (State::Done, 0.0));
    nothing(&fleet, &wanted(LONG)).await;
}

pub(crate) async fn a_renewed_job_stays_with_its_worker(fleet: Fleet) {
    submit(&fleet, job("a")).await;
    let held = fleet.claim("w1", &wanted(SHORT), PATIENCE).await.unwrap();
    let mut held = held.unwrap();
    for _ in 0..8 {
        // The look takes the time that the lease must be held for.
        nothing(&fleet, &wanted(SHORT)).await;
        fleet.renew(&mut held, State::Running, None).await.unwrap();
    }
    assert_eq!(held.entry.epoch, 1);
    finish(&fleet, held).await;
}

pub(crate) async fn a_failed_job_is_tried_again_and_then_given_up(fleet: Fleet) {
    submit(&fleet, job("a")).await;
    let failed = || End::Failed("it broke".to_owned());
    let first = claim(&fleet, "w").await;
    let session = first.entry.session.clone();
    let state = fleet.finish(first, failed(), 1.0).await.unwrap();
    assert_eq!(state, State::Queued);
    let second = claim(&fleet, "w").await;
    assert_ne!(second.entry.session, session, "it starts anew");
    let state = fleet.finish(second, failed(), 1.0).await.unwrap();
    assert_eq!(state, State::Failed);
    nothing(&fleet, &wanted(LONG)).await;
    let found = entry(&fleet, "a").await;
    assert_eq!(
        (found.reason.as_deref(), found.cost_usd),
        (Some("it broke"), 2.0)
    );
    fleet.retry(&job("a").key()).await.unwrap();
    finish(&fleet, claim(&fleet, "w").await).await;
    let again = fleet.retry(&job("a").key()).await;
    assert!(
        matches!(again, Err(QueueError::State { state: "done", .. })),
        "{again:?}"
    );
}

pub(crate) async fn a_job_begins_after_those_before_it(fleet: Fleet) {
    let after = |id: &str, before: &[&str]| {
        let mut job = job(id);
        job.needs.after = before.iter().map(|it| (*it).to_owned()).collect();
        job
    };
    submit(&fleet, after("c", &["a", "b"])).await;
    submit(&fleet, after("d", &["c"])).await;
    submit(&fleet, job("a")).await;
    submit(&fleet, job("b")).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        let claim = claim(&fleet, "w").await;
        order.push(claim.entry.job.id.clone());
        finish(&fleet, claim).await;
    }
    assert_eq!(order, ["a", "b", "c", "d"]);
    // One that fails takes those after it along.
    let mut fails = job("e");
    fails.limits.retries = 0;
    submit(&fleet, fails).await;
    submit(&fleet, after("f", &["e"])).await;
    submit(&fleet, after("g", &["f"])).await;
    let claim = claim(&fleet, "w").await;
    assert_eq!(claim.entry.job.id, "e");
    fleet
        .finish(claim, End::Failed("no".to_owned()), 0.0)
        .await
        .unwrap();
    for id in ["f", "g"] {
        assert_eq!(entry(&fleet, id).await.state, State::Cancelled, "{id}");
    }
    nothing(&fleet, &wanted(LONG)).await;
}

pub(crate) async fn jobs_are_cancelled_with_and_without_a_worker(fleet: Fleet) {
    submit(&fleet, job("queued")).await;
    let key = job("queued").key();
    assert_eq!(fleet.cancel(&key).await.unwrap(), State::Cancelled);
    nothing(&fleet, &wanted(LONG)).await;
    submit(&fleet, job("held")).await;
    let mut claim = claim(&fleet, "w").await;
    let key = claim.key();
    let mut controls = fleet.controls(&key).await.unwrap();
    assert_eq!(fleet.cancel(&key).await.unwrap(), State::Running);
    let message = tokio::time::timeout(PATIENCE, controls.recv())
        .await
        .unwrap();
    let control: Control = serde_json::from_slice(&message.unwrap()).unwrap();
    assert_eq!(control, Control::Cancel);
    // Without the message, the next renewal says so.
    fleet.renew(&mut claim, State::Running, None).await.unwrap();
    assert!(claim.entry.cancel);
    let state = fleet.finish(claim, End::Cancelled, 0.0).await.unwrap();
    assert_eq!(state, State::Cancelled);
    assert!(matches!(
        fleet.cancel(&key).await,
        Err(QueueError::State { .. })
    ));
}

fn question(id: &str) -> Ask {
    Ask {
        id: id.to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "make"}),
        title: "Run make".to_owned(),
        folder: "/work".into(),
        at: 5,
        answer: None,
    }
}

fn answer(allow: bool, by: &str) -> Answer {
    Answer {
        allow,
        message: None,
        input: None,
        by: by.to_owned(),
    }
}

pub(crate) async fn the_first_answer_wins_and_a_parked_job_is_queued_by_it(fleet: Fleet) {
    submit(&fleet, job("a")).await;
    let mut held = claim(&fleet, "w").await;
    let key = held.key();
    fleet.ask(&held, &question("q1")).await.unwrap();
    fleet.renew(&mut held, State::Asking, None).await.unwrap();
    assert_eq!(entry(&fleet, "a").await.state, State::Asking);
    let parked = fleet.finish(held, End::Parked, 0.5).await.unwrap();
    assert_eq!(parked, State::Parked);
    nothing(&fleet, &wanted(LONG)).await;
    assert!(
        fleet
            .answer(&key, "q1", &answer(true, "ada"))
            .await
            .unwrap()
    );
    assert!(
        !fleet
            .answer(&key, "q1", &answer(false, "eve"))
            .await
            .unwrap()
    );
    let asks = fleet.asks(&key).await.unwrap();
    assert_eq!(asks[0].answer, Some(answer(true, "ada")));
    let held = claim(&fleet, "w2").await;
    assert_eq!(
        (held.entry.attempt, held.entry.epoch),
        (1, 2),
        "parking is no attempt"
    );
    // An answer that comes while a job is being parked is not lost.
    fleet.ask(&held, &question("q2")).await.unwrap();
    fleet
        .answer(&key, "q2", &answer(false, "ada"))
        .await
        .unwrap();
    fleet.finish(held, End::Parked, 0.0).await.unwrap();
    finish(&fleet, claim(&fleet, "w3").await).await;
    assert_eq!(entry(&fleet, "a").await.cost_usd, 0.5);
}

pub(crate) async fn a_budget_holds_jobs_back(fleet: Fleet) {
    fleet
        .set_budget("default", |it| it.limit_usd = Some(10.0))
        .await
        .unwrap();
    for id in ["a", "b"] {
        let mut job = job(id);
        job.limits.budget_usd = Some(6.0);
        submit(&fleet, job).await;
    }
    let first = claim(&fleet, "w").await;
    nothing(&fleet, &wanted(LONG)).await;
    let waiting = entry(&fleet, if first.entry.job.id == "a" { "b" } else { "a" }).await;
    assert!(waiting.reason.unwrap().contains("budget"));
    fleet.finish(first, done(), 2.0).await.unwrap();
    let second = claim(&fleet, "w").await;
    fleet.finish(second, done(), 8.0).await.unwrap();
    let budget = fleet.backend().budget("default").await.unwrap().value;
    assert_eq!((budget.spent_usd, budget.reserved.len()), (10.0, 0));
    submit(&fleet, job("c")).await;
    nothing(&fleet, &wanted(LONG)).await;
}

pub(crate) async fn a_tenant_runs_no_more_jobs_at_a_time_than_it_may(fleet: Fleet) {
    fleet
        .set_budget("default", |it| it.concurrency = Some(2))
        .await
        .unwrap();
    for id in ["a", "b", "c"] {
        submit(&fleet, job(id)).await;
    }
    let first = claim(&fleet, "w").await;
    let _second = claim(&fleet, "w").await;
    nothing(&fleet, &wanted(LONG)).await;
    finish(&fleet, first).await;
    claim(&fleet, "w").await;
}

pub(crate) async fn large_records_and_blobs_come_back_whole(fleet: Fleet) {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| it.to_le_bytes()[1]).collect();
    let name = fleet.put_blob(bytes.clone()).await.unwrap();
    assert_eq!(
        fleet.put_blob(bytes.clone()).await.unwrap(),
        name,
        "twice is once"
    );
    assert_eq!(fleet.blob(&name).await.unwrap(), bytes);
    assert!(fleet.blob(&name.replace(&name[..4], "0000")).await.is_err());
    submit(&fleet, job("a")).await;
    let mut claim = claim(&fleet, "w").await;
    let large = "x".repeat(1_500_000);
    for text in ["before", &large, "after"] {
        fleet.append(&mut claim, &line(text)).await.unwrap();
    }
    let found = lines(&fleet, "a").await;
    assert_eq!(found.len(), 3);
    assert!(found[1] == large && found[2] == "after");
}

pub(crate) async fn messages_reach_who_listens(fleet: Fleet) {
    let key = job("a").key();
    fleet.live(&key, b"{\"n\":0}".to_vec()).await.unwrap();
    let mut one = fleet.watch(&key).await.unwrap();
    let mut two = fleet.watch(&key).await.unwrap();
    for number in 1..=50 {
        let frame = json!({"n": number}).to_string().into_bytes();
        fleet.live(&key, frame).await.unwrap();
    }
    for receiver in [&mut one, &mut two] {
        for number in 1..=50 {
            let frame = tokio::time::timeout(PATIENCE, receiver.recv())
                .await
                .unwrap();
            let frame: serde_json::Value = serde_json::from_slice(&frame.unwrap()).unwrap();
            assert_eq!(frame["n"], number);
        }
    }
}

pub(crate) async fn a_lost_message_is_found_by_a_sweep(fleet: Fleet) {
    // As a submission leaves it that was killed between its two steps.
    fleet
        .backend()
        .put(&Entry::new(job("a"), 1_000), 0)
        .await
        .unwrap();
    nothing(&fleet, &wanted(LONG)).await;
    fleet.sweep().await.unwrap();
    let claim = claim(&fleet, "w").await;
    assert_eq!(claim.entry.job.id, "a");
    fleet.sweep().await.unwrap();
    nothing(&fleet, &wanted(LONG)).await;
    finish(&fleet, claim).await;
}

pub(crate) async fn workers_are_listed(fleet: Fleet) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let worker = WorkerInfo {
        name: "w1".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        slots: 2,
        busy: 1,
        classes: vec!["default".to_owned()],
        labels: Vec::new(),
        at: now.as_millis().try_into().unwrap(),
    };
    fleet.present(&worker).await.unwrap();
    assert_eq!(fleet.backend().workers().await.unwrap(), [worker]);
    let checks = fleet.backend().checks().await.unwrap();
    assert!(!checks.is_empty());
}
