//! The queue between appenders and the writer's thread.
//!
//! While the writer gathers a batch, what is appended only lies down here: the thread sleeps until
//! the batch is due. Waking it for each record would cost more than writing it. Whatever somebody
//! waits for wakes it at once.

use super::Command;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
struct State {
    commands: Vec<Command>,
    /// Whether the thread looks here by itself soon, so that nothing needs to wake it.
    gathers: bool,
    /// Nobody can send any more.
    abandoned: bool,
    /// Nobody receives any more.
    closed: bool,
}

#[derive(Default)]
struct QueueState {
    state: Mutex<State>,
    wake: Condvar,
}

/// The appending end. When the last one is gone, the thread hears of it.
pub(super) struct Sender(Arc<QueueState>);

/// The thread's end.
pub(super) struct Receiver(Arc<QueueState>);

/// Why there is nothing to do right now.
pub(super) enum Silence {
    /// It is due.
    Due,
    /// Nothing will ever come again.
    Abandoned,
}

/// A new queue.
pub(super) fn channel() -> (Sender, Receiver) {
    let shared = Arc::new(QueueState::default());
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl Sender {
    /// Adds a command. Gives it back when nobody receives any more.
    pub(super) fn send(&self, command: Command) -> Result<(), Command> {
        let mut state = self.0.state.lock();
        if state.closed {
            return Err(command);
        }
        let urgent = !matches!(command, Command::Append(_));
        state.commands.push(command);
        let wakes = urgent || !state.gathers;
        drop(state);
        if wakes {
            self.0.wake.notify_one();
        }
        Ok(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state.lock().abandoned = true;
        self.0.wake.notify_one();
    }
}

impl Receiver {
    /// Everything that was sent, once there is something that can't wait until `due`, or until then.
    /// When each record is wanted as it comes, `gathers` is false.
    pub(super) fn receive(
        &self,
        due: Option<Instant>,
        gathers: bool,
    ) -> Result<Vec<Command>, Silence> {
        let mut state = self.0.state.lock();
        state.gathers = due.is_some() && gathers;
        let gathers = state.gathers;
        let pressing = |state: &State| {
            let waits = |command: &Command| gathers && matches!(command, Command::Append(_));
            state.abandoned || !state.commands.iter().all(waits)
        };
        while !pressing(&state) {
            match due {
                None => self.0.wake.wait(&mut state),
                Some(due) => {
                    if self.0.wake.wait_until(&mut state, due).timed_out() {
                        break;
                    }
                }
            }
        }
        state.gathers = false;
        if !state.commands.is_empty() {
            Ok(std::mem::take(&mut state.commands))
        } else if state.abandoned {
            Err(Silence::Abandoned)
        } else {
            Err(Silence::Due)
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        // Callers that wait for an answer get an error.
        let left = std::mem::take(&mut state.commands);
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::record::Record;
    use std::time::Duration;
    use tokio::sync::oneshot;

    fn append() -> Command {
        Command::Append(Arc::new(Record::Other(serde_json::json!({}))))
    }

    #[test]
    fn records_wait_for_what_cannot_wait() {
        let (sender, receiver) = channel();
        sender.send(append()).unwrap_or_else(|_| unreachable!());
        assert_eq!(receiver.receive(None, true).ok().unwrap().len(), 1);
        let far = Instant::now() + Duration::from_secs(600);
        let gathering =
            std::thread::spawn(move || receiver.receive(Some(far), true).ok().unwrap().len());
        for _ in 0..3 {
            sender.send(append()).unwrap_or_else(|_| unreachable!());
        }
        let (reply, _answer) = oneshot::channel();
        sender
            .send(Command::Flush(reply))
            .unwrap_or_else(|_| unreachable!());
        assert_eq!(gathering.join().unwrap(), 4);
    }

    #[test]
    fn what_is_due_and_what_is_over_is_told() {
        let (sender, receiver) = channel();
        let now = Some(Instant::now());
        assert!(matches!(receiver.receive(now, true), Err(Silence::Due)));
        sender.send(append()).unwrap_or_else(|_| unreachable!());
        drop(sender);
        assert_eq!(receiver.receive(None, true).ok().unwrap().len(), 1);
        assert!(matches!(
            receiver.receive(None, true),
            Err(Silence::Abandoned)
        ));
        let (sender, receiver) = channel();
        drop(receiver);
        assert!(sender.send(append()).is_err());
    }
}
