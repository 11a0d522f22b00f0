//! Sending records to the host as they are written, for hosts that keep sessions elsewhere.

use super::host::Host;
use lathe_engine::TranscriptObserver;
use serde_json::{Value, json};
use std::sync::Arc;

/// How many bytes of records one frame holds: readers refuse lines of more than 1 MiB.
const FRAME_BYTES: usize = 700_000;

/// Sends every batch that reached the transcript. The records are whole: what lies beside the
/// transcript (images, long outputs) is inside them, so that they can be resumed from elsewhere.
pub(super) fn observer(host: Host) -> TranscriptObserver {
    TranscriptObserver(Arc::new(move |path, records| {
        let mut entries: Vec<Value> = Vec::new();
        let mut bytes = 0;
        for record in records {
            let Ok(entry) = serde_json::to_value(&**record) else {
                continue;
            };
            let size = entry.to_string().len();
            if bytes + size > FRAME_BYTES && !entries.is_empty() {
                host.send(frame(path, &entries));
                entries.clear();
                bytes = 0;
            }
            bytes += size;
            entries.push(entry);
        }
        if !entries.is_empty() {
            host.send(frame(path, &entries));
        }
    }))
}

fn frame(path: &std::path::Path, entries: &[Value]) -> Value {
    json!({"type": "transcript_mirror", "filePath": path, "entries": entries})
}
