//! The messages of a session for a device: [`crate::conversation`] between a device's connection and a session's socket.

use crate::conversation::{Act, Authority, CONTROL_LIMIT, Conversation};
use crate::devices::{Device, DeviceScope};
use crate::problem::Problem;
use crate::rules::{GATE, RING};
use crate::serve::Shared;
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use lathe_protocol::ids::SessionId;
use lathe_protocol::record::Record;
use lathe_wire::{Client, ClientFrame, ClientKind, Hello, HostFrame, HostInfo, OpId, WireOp};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

/// How many conversations wait for their devices to come back.
const MOST: usize = 64;

/// Conversations whose devices are away, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Conversations(parking_lot::Mutex<VecDeque<(Key, Conversation)>>);

type Key = (String, SessionId);

impl Conversations {
    fn take(&self, key: &Key) -> Option<Conversation> {
        let mut all = self.0.lock();
        let at = all.iter().position(|(other, _)| other == key)?;
        all.remove(at).map(|(_, conversation)| conversation)
    }

    fn keep(&self, key: Key, mut conversation: Conversation) {
        conversation.detached();
        let mut all = self.0.lock();
        all.retain(|(other, _)| *other != key);
        all.push_back((key, conversation));
        if all.len() > MOST
            && let Some((_, mut oldest)) = all.pop_front()
        {
            let count = oldest.dropped();
            tracing::debug!(count, "messages of a device that stays away are given up");
        }
    }
}

struct Rights<'a> {
    shared: &'a Shared,
    device: &'a Device,
    session: String,
}

impl Authority for Rights<'_> {
    fn is_view_only(&self) -> bool {
        self.device.scope == DeviceScope::View
    }

    fn permit(&self, op: &WireOp) -> Result<(), Problem> {
        self.shared.permit(self.device, op)
    }

    fn fetch(&self, id: &str, name: &str) -> Option<PathBuf> {
        let home = &self.shared.options.config_home;
        let path = crate::rules::upload_path(home, &self.session, id, name);
        // Best effort: a message is not held up for a file that did not come.
        let found = std::fs::symlink_metadata(&path).ok()?;
        found.is_file().then_some(path)
    }
}

impl Shared {
    /// The ids at the end of a transcript, and whether each is a prompt.
    fn last_ids(&self, session: SessionId) -> Vec<(bool, String)> {
        let Some(info) = self.store.find_anywhere(session) else {
            return Vec::new();
        };
        let Ok(loaded) = lathe_session::load(&info.path) else {
            return Vec::new();
        };
        let history = loaded.history();
        let from = history.len().saturating_sub(RING);
        let ids = history[from..].iter().filter_map(|record| match &**record {
            Record::Message(message) => Some((message.is_prompt(), message.uuid.to_string())),
            _ => None,
        });
        ids.collect()
    }
}

/// Lines for the device, and the time limits of its requests.
#[derive(Default)]
struct Pending {
    lines: VecDeque<String>,
    unflushed: bool,
    limits: VecDeque<(Instant, OpId)>,
    /// The history is on its way, and the gate is closed.
    catching_up: bool,
    /// The session is known.
    has_begun: bool,
}

impl Pending {
    fn say(&mut self, frame: &Value) {
        self.lines.push_back(frame.to_string());
    }

    fn is_written(&self) -> bool {
        self.lines.is_empty() && !self.unflushed
    }
}

/// Waits for the moment; for ever without one.
async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Writes the next line, or flushes if there is none; whether everything is flushed. `None` if the device is gone. Can be
/// given up at any moment: a line is taken when there is room for it.
async fn write(
    out: &mut (impl Sink<String> + Unpin),
    lines: &mut VecDeque<String>,
) -> Option<bool> {
    if lines.is_empty() {
        let flushed = poll_fn(|context| out.poll_flush_unpin(context)).await;
        return flushed.is_ok().then_some(true);
    }
    let ready = poll_fn(|context| out.poll_ready_unpin(context)).await;
    let line = lines.pop_front().unwrap_or_default();
    (ready.is_ok() && out.start_send_unpin(line).is_ok()).then_some(false)
}

/// Passes messages between a device and a session until either goes away. `after` is the last message that the device has.
pub(crate) async fn converse(
    lines: impl Stream<Item = String> + Unpin,
    out: impl Sink<String> + Unpin,
    shared: &Arc<Shared>,
    host: &HostInfo,
    device: &Device,
    after: Option<String>,
) {
    let key = (device.id.clone(), host.session_id);
    let mut conversation = match shared.messages.take(&key) {
        Some(conversation) => conversation,
        None => {
            let (shared, session) = (Arc::clone(shared), host.session_id);
            let ids = lathe_spawn::blocking(move || shared.last_ids(session)).await;
            Conversation::refilled(ids.unwrap_or_default())
        }
    };
    conversation.attached(after);
    pass(lines, out, shared, host, device, &mut conversation).await;
    shared.messages.keep(key, conversation);
}

async fn pass(
    mut lines: impl Stream<Item = String> + Unpin,
    mut out: impl Sink<String> + Unpin,
    shared: &Arc<Shared>,
    host: &HostInfo,
    device: &Device,
    conversation: &mut Conversation,
) {
    let rights = Rights {
        shared,
        device,
        session: host.session_id.to_string(),
    };
    let mut pending = Pending::default();
    let hello = Hello::new(&device.name, ClientKind::Page);
    let Ok(mut client) = Client::connect(&shared.options.folder, &host.id, hello).await else {
        let gone = ended("the session's process is gone").to_string();
        let _ = out.send(gone).await;
        return;
    };
    let sender = client.sender();
    loop {
        if pending.catching_up && pending.is_written() {
            pending.catching_up = false;
            let acts = conversation.flushed();
            note(acts, &mut pending);
        }
        let limit = pending.limits.front().map(|(at, _)| *at);
        let acts = tokio::select! {
            biased;
            written = write(&mut out, &mut pending.lines), if !pending.is_written() => {
                let Some(is_flushed) = written else { return };
                pending.unflushed = !is_flushed;
                continue;
            }
            // A device that does not read makes the session drop events for it, and gets a snapshot.
            frame = client.next(), if pending.lines.len() < GATE => match frame {
                Ok(Some(HostFrame::Beat(_))) if !shared.is_known(device) => return,
                Ok(Some(HostFrame::Bye(why))) => {
                    let _ = out.send(ended(&why).to_string()).await;
                    return;
                }
                Ok(Some(HostFrame::Snapshot(snapshot))) => {
                    pending.catching_up = true;
                    pending.has_begun = true;
                    conversation.snapshot(&snapshot)
                }
                Ok(Some(frame)) => heard(conversation, &frame),
                Ok(None) | Err(_) => return,
            },
            // The first request is answered from the snapshot.
            line = lines.next(), if pending.has_begun => match line {
                Some(line) => conversation.line(&line, &rights),
                None => return,
            },
            () = moment(limit) => match pending.limits.pop_front() {
                Some((_, id)) => conversation.expired(id),
                None => Vec::new(),
            },
        };
        for (id, op) in note(acts, &mut pending) {
            let by = Some(device.name.clone());
            if sender.post(&ClientFrame::Op { id, op, by }).await.is_err() {
                return;
            }
        }
    }
}

fn ended(why: &str) -> Value {
    json!({"type": "system", "subtype": "ended", "why": why})
}

fn heard(conversation: &mut Conversation, frame: &HostFrame) -> Vec<Act> {
    match frame {
        HostFrame::Event { seq, event } => {
            let frame = serde_json::from_str(event.get()).unwrap_or_default();
            conversation.event(*seq, frame)
        }
        HostFrame::Ack(id) => conversation.done(*id),
        HostFrame::Nak(nak) => conversation.refused(nak),
        _ => Vec::new(),
    }
}

/// Queues what is sent to the device; gives what the session is asked for.
fn note(acts: Vec<Act>, pending: &mut Pending) -> Vec<(OpId, WireOp)> {
    let mut asked = Vec::new();
    for act in acts {
        match act {
            Act::Send(frame) => pending.say(&frame),
            Act::Ask { id, op, is_control } => {
                if is_control {
                    pending
                        .limits
                        .push_back((Instant::now() + CONTROL_LIMIT, id));
                }
                asked.push((id, *op));
            }
        }
    }
    asked
}
