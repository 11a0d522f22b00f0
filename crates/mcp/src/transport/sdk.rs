//! A server inside an SDK host: JSON values through two channels of the host.

use super::{FarEnd, Link, SendError, link};
use crate::log::ServerLog;
use crate::manager::MessageChannel;
use crate::transport::Ending;

pub(crate) fn connect(channel: MessageChannel, log: ServerLog, ending: &Ending) -> Link {
    let (near, far) = link(log, ending.clone());
    lathe_spawn::task(run(channel, far));
    near
}

async fn run(mut channel: MessageChannel, mut far: FarEnd) {
    loop {
        tokio::select! {
            message = far.outgoing.recv() => {
                let Some(message) = message else { break };
                let sent = match serde_json::from_str(&message.text) {
                    Ok(value) => channel
                        .outgoing
                        .send(value)
                        .await
                        .map_err(|_| SendError("the host has closed the connection".to_owned())),
                    Err(error) => Err(SendError(error.to_string())),
                };
                let failed = sent.is_err();
                let _ = message.sent.send(sent);
                if failed {
                    far.ending.because("the host has closed the connection");
                    break;
                }
            }
            value = channel.incoming.recv() => {
                let Some(value) = value else {
                    far.ending.because("the host has closed the connection");
                    break;
                };
                if !far.incoming.value(value).await {
                    break;
                }
            }
        }
    }
    far.ending.is_gone();
}
