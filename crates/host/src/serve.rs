//! Connections of clients: who may connect, hello, reading and writing.

use crate::hub::Hub;
use crate::outbox::{Next, Outbox};
use lathe_wire::client::read_line;
use lathe_wire::frame::{BEAT, VERSION};
use lathe_wire::peer::{self, Refused, Standing};
use lathe_wire::{ClientFrame, FrameError, Hello, HostFrame, Nak, NakCode, WireError};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// How long a client may take to say hello.
const HELLO: Duration = Duration::from_secs(5);
/// How many frames that are none a client may send.
const BAD_FRAMES: u32 = 16;
/// How many pieces of typing wait for the session to read them.
const TYPED: usize = 256;

/// Takes connections until the process ends.
pub(crate) async fn accept(hub: Hub, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                lathe_spawn::task(connection(hub.clone(), stream));
            }
            Err(error) => {
                // Too many open files, for example: others may close theirs.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Judges who is at the other end.
fn judge(hub: &Hub, stream: &UnixStream) -> Result<Standing, Refused> {
    let peer = peer::of(stream).map_err(|_| Refused::Invisible)?;
    let own = std::process::id().cast_signed();
    if peer.pid == Some(own) && peer.uid == lathe_wire::folder::own_uid() {
        // This program itself, not something that it started.
        return Ok(Standing::User);
    }
    let hosts = hub.shared.folder.all_hosts().unwrap_or_default();
    let mut processes: HashSet<i32> = hosts.iter().map(|host| host.pid).collect();
    processes.insert(own);
    peer::judge(peer, &processes)
}

async fn connection(hub: Hub, stream: UnixStream) {
    let standing = judge(&hub, &stream);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    let standing = match standing {
        Ok(standing) => standing,
        Err(refused) => return bye(&mut writer, &refused.to_string()).await,
    };
    let hello = match tokio::time::timeout(HELLO, hello(&mut reader)).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(why)) => return bye(&mut writer, &why.to_string()).await,
        Err(_) => return bye(&mut writer, &HelloError::Missing.to_string()).await,
    };
    let Some((number, outbox)) = hub.join(&hello, standing) else {
        return bye(&mut writer, "too many clients are connected").await;
    };
    tokio::select! {
        () = write(&hub, number, &outbox, writer) => {}
        () = read(&hub, number, &outbox, reader) => {}
    }
    hub.part(number);
}

async fn bye(writer: &mut OwnedWriteHalf, why: &str) {
    let line = HostFrame::Bye(why.to_owned()).to_line();
    // Somebody who is gone needs no reason.
    let _ = writer.write_all(&line).await;
}

/// Why a client is not let in.
#[derive(Debug, thiserror::Error)]
enum HelloError {
    #[error("no hello came")]
    Missing,
    #[error("version {0} of the wire is not known here, only {VERSION}")]
    Version(u32),
    #[error("the first frame is no hello")]
    Other,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

async fn hello(reader: &mut BufReader<OwnedReadHalf>) -> Result<Hello, HelloError> {
    let mut line = Vec::new();
    if !read_line(reader, &mut line).await? {
        return Err(HelloError::Missing);
    }
    match ClientFrame::parse(&line)? {
        ClientFrame::Hello(hello) if hello.v == VERSION => Ok(hello),
        ClientFrame::Hello(hello) => Err(HelloError::Version(hello.v)),
        _ => Err(HelloError::Other),
    }
}

async fn write(hub: &Hub, number: u64, outbox: &Outbox, mut writer: OwnedWriteHalf) {
    let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
    loop {
        let lines = tokio::select! {
            next = outbox.next() => match next {
                Next::Lines(lines) => lines,
                Next::StartOver => {
                    hub.start_over(number);
                    continue;
                }
                Next::Closed => return,
            },
            _ = beat.tick() => vec![hub.beat()],
        };
        for line in lines {
            if writer.write_all(&line).await.is_err() {
                return;
            }
        }
    }
}

async fn read(hub: &Hub, number: u64, outbox: &Arc<Outbox>, mut reader: BufReader<OwnedReadHalf>) {
    let mut line = Vec::new();
    let mut bad = 0;
    let typing = typing(hub.clone(), number);
    while let Ok(true) = read_line(&mut reader, &mut line).await {
        match ClientFrame::parse(&line) {
            Ok(ClientFrame::Op { id, op, by }) => hub.op(number, id, op, by),
            Ok(ClientFrame::Input(bytes)) => {
                if typing.send(bytes).await.is_err() {
                    break;
                }
            }
            Ok(ClientFrame::Size(size)) => hub.resized(number, size),
            Ok(ClientFrame::Hello(_)) => {}
            Err(error) => {
                // One frame that is none does not end a connection; many do.
                bad += 1;
                if let Some(id) = ClientFrame::id_in(&line) {
                    let nak = Nak {
                        id,
                        why: error.to_string(),
                        code: NakCode::Invalid,
                        by: None,
                        reply: None,
                    };
                    outbox.answer(HostFrame::Nak(Box::new(nak)).to_line().into());
                }
                if bad > BAD_FRAMES {
                    outbox.answer(HostFrame::Bye(error.to_string()).to_line().into());
                    outbox.close();
                }
            }
        }
    }
    // What was asked for is still answered: a script writes its operations and closes its end.
    outbox.close();
    std::future::pending::<()>().await;
}

/// Types what a terminal sends. On a thread: the session may not read for a moment.
fn typing(hub: Hub, number: u64) -> mpsc::Sender<Vec<u8>> {
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(TYPED);
    lathe_spawn::task(async move {
        while let Some(bytes) = receiver.recv().await {
            let Some(console) = hub.typing(number) else {
                continue;
            };
            let typed = lathe_spawn::blocking(move || console.write(&bytes));
            if !matches!(typed.await, Ok(Ok(()))) {
                return;
            }
        }
    });
    sender
}
