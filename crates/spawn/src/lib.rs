//! Starts tasks of the runtime.
//!
//! The runtime's own functions are compiled anew for each future they are given: some forty small functions
//! per call, twice, once for each kind of runtime. A hundred calls made a tenth of the program out of nothing
//! but copies. Here the future goes into a box first, so there is one copy for each kind of *result*, and most
//! tasks have none. The box is one more allocation for a task that lives for a whole exchange or longer.
//!
//! Start with [`task`]; [`blocking`] is for work that keeps a thread.

#![forbid(unsafe_code)]

use std::pin::Pin;
use tokio::task::JoinHandle;

/// Starts a task on the runtime this is called on.
///
/// # Panics
/// Outside a runtime, as [`tokio::spawn`] does.
#[inline]
pub fn task<R: Send + 'static>(work: impl Future<Output = R> + Send + 'static) -> JoinHandle<R> {
    boxed(Box::pin(work))
}

/// Runs what keeps a thread, a file or a process, on a thread where that holds up nobody.
///
/// # Panics
/// Outside a runtime, as [`tokio::task::spawn_blocking`] does.
#[inline]
pub fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    boxed_blocking(Box::new(work))
}

#[expect(clippy::disallowed_methods, reason = "this is the place")]
#[inline(never)]
fn boxed<R: Send + 'static>(work: Pin<Box<dyn Future<Output = R> + Send>>) -> JoinHandle<R> {
    tokio::spawn(work)
}

#[expect(clippy::disallowed_methods, reason = "this is the place")]
#[inline(never)]
fn boxed_blocking<R: Send + 'static>(work: Box<dyn FnOnce() -> R + Send>) -> JoinHandle<R> {
    tokio::task::spawn_blocking(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_and_a_thread_bring_back_what_they_made() {
        assert_eq!(task(async { 6 * 7 }).await.ok(), Some(42));
        let here = std::thread::current().id();
        let there = blocking(|| std::thread::current().id()).await.ok();
        assert!(there.is_some_and(|there| there != here));
    }

    #[tokio::test]
    async fn a_task_that_panics_is_told_to_who_waits_for_it() {
        let work = async {
            assert!(std::env::args().count() > 1_000_000, "a panic of the test");
        };
        assert!(task(work).await.is_err_and(|error| error.is_panic()));
    }
}
