//! Events as server-sent events: `id: EPOCH-SEQ`, and `Last-Event-ID` continues after it.

use crate::devices::Device;
use crate::problem::Body;
use crate::serve::Shared;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use lathe_wire::{ClientKind, Cursor, Follower, Hello, HostInfo, Update};
use std::convert::Infallible;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The place that a `Last-Event-ID` names.
#[must_use]
pub fn cursor(text: &str) -> Option<Cursor> {
    let (epoch, seq) = text.rsplit_once('-')?;
    Some(Cursor {
        epoch: epoch.to_owned(),
        seq: seq.parse().ok()?,
    })
    .filter(|cursor| !cursor.epoch.is_empty())
}

fn event(name: &str, at: Option<&Cursor>, data: &str) -> String {
    let mut text = format!("event: {name}\n");
    if let Some(at) = at {
        text.push_str(&format!("id: {}-{}\n", at.epoch, at.seq));
    }
    for line in data.lines() {
        text.push_str(&format!("data: {line}\n"));
    }
    text.push('\n');
    text
}

/// The event of an update; `None` for what is of no interest to a reader.
fn rendered(update: &Update, cursor: Option<&Cursor>) -> Option<String> {
    match update {
        Update::Snapshot(snapshot) => {
            let data = serde_json::to_string(snapshot).unwrap_or_default();
            Some(event("snapshot", cursor, &data))
        }
        Update::Event { at, event: frame } => Some(event("event", Some(at), frame.get())),
        Update::Current => Some(": current\n\n".to_owned()),
        Update::Ended(why) => {
            let data = serde_json::json!({"why": why}).to_string();
            Some(event("ended", None, &data))
        }
        Update::Done(_) | Update::Refused(_) | Update::Reconnecting => None,
    }
}

/// The response that follows a session until the reader, the session or the server goes.
pub(crate) fn stream(
    shared: &Arc<Shared>,
    host: &HostInfo,
    head: &Parts,
    device: &Device,
    stop: CancellationToken,
) -> Response<Body> {
    let mut hello = Hello::new(&device.name, ClientKind::Sdk);
    hello.after = head
        .headers
        .get("last-event-id")
        .and_then(|value| cursor(value.to_str().ok()?));
    let follower = Follower::new(shared.options.folder.clone(), host.id.clone(), hello);
    let state = (follower, Arc::clone(shared), device.clone(), stop, false);
    let stream = futures::stream::unfold(state, |mut state| async move {
        loop {
            let (follower, shared, device, stop, over) = &mut state;
            if *over {
                return None;
            }
            let update = tokio::select! {
                update = follower.next() => update,
                () = stop.cancelled() => return None,
            };
            // A revoked device hears no more, at the next beat at the latest.
            if matches!(update, Update::Current) && !shared.is_known(device) {
                return None;
            }
            *over = matches!(update, Update::Ended(_));
            if let Some(text) = rendered(&update, follower.cursor()) {
                let frame: Result<_, Infallible> = Ok(Frame::data(Bytes::from(text)));
                return Some((frame, state));
            }
        }
    });
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_lines_stay_apart() {
        let at = Cursor {
            epoch: "6f2a-8c1e".to_owned(),
            seq: 7,
        };
        assert_eq!(cursor("6f2a-8c1e-7"), Some(at.clone()));
        for wrong in ["", "7", "-7", "a-b", "a-"] {
            assert_eq!(cursor(wrong), None, "{wrong}");
        }
        assert_eq!(
            event("event", Some(&at), "{\"a\":\n1}"),
            "event: event\nid: 6f2a-8c1e-7\ndata: {\"a\":\ndata: 1}\n\n"
        );
    }
}
