//! The promises of a queue, on every storage.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod behaviours;
#[cfg(feature = "nats")]
mod server;

use lathe_fleet::{Fleet, Folders};

/// Every behaviour as a test of a storage; `$open` gives a new, empty fleet and what must outlive it.
macro_rules! on {
    ($storage:ident, $open:expr, [$($name:ident),* $(,)?]) => {
        mod $storage {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let (fleet, _held) = $open().await;
                    crate::behaviours::$name(fleet).await;
                }
            )*
        }
    };
}

async fn folders() -> (Fleet, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Fleet::new(Folders::open(folder.path()).unwrap()), folder)
}

/// All behaviours on a storage.
macro_rules! all_on {
    ($storage:ident, $open:expr) => {
        on!(
            $storage,
            $open,
            [
                a_job_is_submitted_once_and_finished_once,
                one_of_many_has_a_turn,
                many_takers_take_every_job_once,
                jobs_are_taken_by_class_priority_and_conditions,
                a_silent_worker_loses_its_job_and_can_publish_nothing,
                a_renewed_job_stays_with_its_worker,
                a_failed_job_is_tried_again_and_then_given_up,
                a_job_begins_after_those_before_it,
                jobs_are_cancelled_with_and_without_a_worker,
                the_first_answer_wins_and_a_parked_job_is_queued_by_it,
                a_budget_holds_jobs_back,
                a_tenant_runs_no_more_jobs_at_a_time_than_it_may,
                large_records_and_blobs_come_back_whole,
                messages_reach_who_listens,
                a_lost_message_is_found_by_a_sweep,
                workers_are_listed,
            ]
        );
    };
}

all_on!(on_folders, crate::folders);

#[cfg(feature = "nats")]
all_on!(on_nats, crate::server::fleet);
