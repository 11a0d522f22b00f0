//! Plays a body: chunk after chunk, with its waits, insertions and its end.

use crate::dialect::Dialect;
use crate::gate::Gates;
use crate::reply::{Chunks, Ending, Framing, Reply, Wait};
use crate::wire::{Stream, encode};
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A response body.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

type Chunk = Result<Frame<Bytes>, io::Error>;

#[derive(Debug)]
enum Step {
    Send(Bytes),
    Wait(Wait),
    End(Ending),
}

/// The steps that a reply's body is played in.
fn plan(stream: &Stream, reply: &Reply) -> Vec<Step> {
    let bytes = Bytes::from(stream.bytes.clone());
    let length = bytes.len();
    let mut actions: Vec<(usize, Step)> = Vec::new();
    for insertion in &reply.insertions {
        let raw = Bytes::from(insertion.raw.clone());
        actions.push((stream.offset(&insertion.at), Step::Send(raw)));
    }
    for pause in &reply.pauses {
        actions.push((stream.offset(&pause.at), Step::Wait(pause.wait.clone())));
    }
    if let Some(cut) = &reply.cut {
        actions.push((stream.offset(&cut.at), Step::End(cut.how.clone())));
    }
    // Stable, so that what stands at the same place happens in the order above.
    actions.sort_by_key(|(offset, _)| *offset);

    let mut ends: BTreeSet<usize> = match &reply.chunks {
        Chunks::PerEvent => stream.event_ends().collect(),
        Chunks::Whole => BTreeSet::new(),
        Chunks::Bytes(size) => (1..=length / (*size).max(1))
            .map(|n| n * (*size).max(1))
            .collect(),
        Chunks::At(offsets) => offsets.iter().copied().filter(|at| *at < length).collect(),
    };
    ends.extend(actions.iter().map(|(offset, _)| *offset));
    ends.insert(length);

    let mut steps = Vec::new();
    let mut actions = actions.into_iter().peekable();
    let mut start = 0;
    for end in ends {
        if end > start {
            if start > 0 && reply.chunk_delay_ms > 0 {
                steps.push(Step::Wait(Wait::DelayMs(reply.chunk_delay_ms)));
            }
            steps.push(Step::Send(bytes.slice(start..end)));
            start = end;
        }
        while let Some((_, step)) = actions.next_if(|(offset, _)| *offset <= end) {
            let last = matches!(step, Step::End(_));
            steps.push(step);
            if last {
                return steps;
            }
        }
    }
    steps
}

/// Makes the body of a reply.
pub(crate) fn body(stream: &Stream, reply: &Reply, dialect: Dialect, gates: &Arc<Gates>) -> Body {
    let steps = plan(stream, reply);
    if steps.iter().all(|step| matches!(step, Step::Send(_))) {
        // The common case needs no task.
        let chunks = steps.into_iter().filter_map(|step| match step {
            Step::Send(bytes) => Some(Ok(Frame::data(bytes))),
            _ => None,
        });
        return StreamBody::new(futures::stream::iter(chunks)).boxed_unsync();
    }
    let (sender, receiver) = mpsc::channel::<Chunk>(1);
    let gates = Arc::clone(gates);
    let framing = reply.framing.clone();
    tokio::spawn(async move {
        let hung_up = sender.clone();
        tokio::select! {
            () = hung_up.closed() => {}
            () = play(steps, &sender, &gates, (&framing, dialect)) => {}
        }
    });
    let chunks = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    StreamBody::new(chunks.boxed()).boxed_unsync()
}

async fn play(
    steps: Vec<Step>,
    sender: &mpsc::Sender<Chunk>,
    gates: &Gates,
    framing: (&Framing, Dialect),
) {
    for step in steps {
        match step {
            Step::Send(bytes) => send(sender, bytes).await,
            Step::Wait(wait) => wait_for(&wait, gates).await,
            Step::End(ending) => end(&ending, sender, framing).await,
        }
    }
}

async fn send(sender: &mpsc::Sender<Chunk>, bytes: Bytes) {
    // A client that has gone away is noticed by `closed`.
    let _ = sender.send(Ok(Frame::data(bytes))).await;
}

/// Waits.
pub(crate) async fn wait_for(wait: &Wait, gates: &Gates) {
    match wait {
        Wait::Gate(name) => gates.get(name).pass().await,
        Wait::DelayMs(milliseconds) => {
            tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
        }
        Wait::Forever => std::future::pending().await,
    }
}

async fn end(
    ending: &Ending,
    sender: &mpsc::Sender<Chunk>,
    (framing, dialect): (&Framing, Dialect),
) {
    match ending {
        Ending::EndOfBody => {}
        Ending::Drop => {
            // What was sent before is in the connection's buffer, and an error throws the buffer
            // away. One quiet moment lets the connection write it out first.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let error = io::Error::new(io::ErrorKind::ConnectionReset, "dropped by the scenario");
            let _ = sender.send(Err(error)).await;
        }
        Ending::Silence => std::future::pending().await,
        Ending::KeepAliveComments { every_ms } => loop {
            tokio::time::sleep(Duration::from_millis(*every_ms)).await;
            send(sender, Bytes::from_static(b": ping\n\n")).await;
        },
        Ending::KeepAliveEvents { every_ms } => loop {
            tokio::time::sleep(Duration::from_millis(*every_ms)).await;
            let mut bytes = Vec::new();
            if dialect.is_messages() {
                encode(&json!({"type": "ping"}), framing, dialect, &mut bytes);
            } else {
                bytes.extend_from_slice(b": ping\n\n");
            }
            send(sender, Bytes::from(bytes)).await;
        },
        Ending::ErrorEvent { kind, message } => {
            let mut bytes = Vec::new();
            let event = dialect.error_event(kind, message);
            encode(&event, framing, dialect, &mut bytes);
            send(sender, Bytes::from(bytes)).await;
        }
    }
}
