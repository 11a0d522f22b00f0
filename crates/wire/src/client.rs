//! The client's end of the wire: [`Client`] is one connection, [`Follower`] one that reconnects.

use crate::folder::{Folder, HostId};
use crate::frame::{
    ClientFrame, Cursor, FrameError, Hello, HostFrame, LARGEST_LINE, Nak, OpId, SILENCE, Size,
    Snapshot, WireOp,
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// How many frames wait for a client that does not read them.
const FRAMES: usize = 4_096;
/// How many lines wait for the socket.
const LINES: usize = 256;
/// How long an operation may take.
const OP_LIMIT: Duration = Duration::from_secs(30);
/// The first pause before a reconnection; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why a connection does not work.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The socket can't be reached, or broke.
    #[error("the session can't be reached: {0}")]
    Io(#[from] io::Error),
    /// The host sent something else.
    #[error("the session sent something that is {0}")]
    Frame(#[from] FrameError),
    /// A line is longer than any frame.
    #[error("the session sent a line of more than {LARGEST_LINE} bytes")]
    TooLong,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}

/// The host does not live any more.
#[derive(Debug, thiserror::Error)]
#[error("the session's process is gone")]
struct HostGone;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// The session says no.
    #[error("{}", .0.why)]
    Refused(Box<Nak>),
    /// The connection is closed; it is not known whether it was done.
    #[error("the connection is closed")]
    Closed,
    /// No answer came.
    #[error("the session does not answer")]
    Silent,
}

/// Reads one line without its end into `line`. `false` at the end of the stream. Not cancellation safe.
///
/// # Errors
/// If the stream breaks, or a line is longer than [`LARGEST_LINE`].
pub async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> Result<bool, WireError> {
    line.clear();
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            // A line without an end was cut off.
            return Ok(false);
        }
        let end = available.iter().position(|&byte| byte == b'\n');
        let count = end.unwrap_or(available.len());
        if line.len() + count > LARGEST_LINE {
            return Err(WireError::TooLong);
        }
        line.extend_from_slice(&available[..count]);
        reader.consume(count + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}

type Waiting = Arc<Mutex<HashMap<OpId, oneshot::Sender<Result<(), Box<Nak>>>>>>;

/// The sending half of a [`Client`]; clones share the connection.
#[derive(Debug, Clone)]
pub struct OpSender {
    lines: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
}

impl OpSender {
    /// Asks for an operation and waits until it is done. Frames must be read meanwhile, by another task or before.
    ///
    /// # Errors
    /// If the session refuses it, or no answer comes.
    pub async fn request(&self, op: WireOp) -> Result<(), OpError> {
        self.request_as(OpId::new_v4(), op, None).await
    }

    /// The same with an id, which may be used again after a reconnection, and the name of who asks.
    ///
    /// # Errors
    /// If the session refuses it, or no answer comes.
    pub async fn request_as(
        &self,
        id: OpId,
        op: WireOp,
        by: Option<String>,
    ) -> Result<(), OpError> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(id, sender);
        if self.post(&ClientFrame::Op { id, op, by }).await.is_err() {
            self.waiting.lock().remove(&id);
            return Err(OpError::Closed);
        }
        let answer = tokio::time::timeout(OP_LIMIT, receiver).await;
        self.waiting.lock().remove(&id);
        match answer {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(nak))) => Err(OpError::Refused(nak)),
            Ok(Err(_)) => Err(OpError::Closed),
            Err(_) => Err(OpError::Silent),
        }
    }

    /// Sends a frame without waiting for an answer.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn post(&self, frame: &ClientFrame) -> Result<(), WireError> {
        let sent = self.lines.send(frame.to_line()).await;
        sent.map_err(|_| WireError::Closed)
    }

    /// Types bytes at an attached terminal.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn input(&self, bytes: &[u8]) -> Result<(), WireError> {
        self.post(&ClientFrame::Input(bytes.to_vec())).await
    }

    /// Tells the size of an attached terminal.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn resize(&self, size: Size) -> Result<(), WireError> {
        self.post(&ClientFrame::Size(size)).await
    }
}

/// A connection to a session.
///
/// Read it with [`Client::next`] all the time: a host drops deltas for a client that does not, and answers to
/// operations come in the same stream.
#[derive(Debug)]
pub struct Client {
    sender: OpSender,
    frames: mpsc::Receiver<Result<HostFrame, WireError>>,
    tasks: [JoinHandle<()>; 2],
}

impl Client {
    /// Connects to a live session and says hello.
    ///
    /// # Errors
    /// If the session can't be reached. A refusal is the first frame.
    pub async fn connect(folder: &Folder, id: &HostId, hello: Hello) -> Result<Self, WireError> {
        Self::connect_to(&folder.socket(id), hello).await
    }

    /// The same by the path of the socket.
    ///
    /// # Errors
    /// If the session can't be reached.
    pub async fn connect_to(socket: &Path, hello: Hello) -> Result<Self, WireError> {
        let stream = UnixStream::connect(socket).await?;
        let (reader, writer) = stream.into_split();
        Ok(Self::over(reader, writer, hello))
    }

    /// Speaks the wire over any two streams, such as those of `ssh HOST lathe attach --stdio ID`.
    pub fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        hello: Hello,
    ) -> Self {
        let (lines, waiting_lines) = mpsc::channel(LINES);
        let (frames_in, frames) = mpsc::channel(FRAMES);
        let waiting = Waiting::default();
        // The queue is empty: it has room for the first line.
        let _ = lines.try_send(ClientFrame::Hello(hello).to_line());
        let tasks = [
            lathe_spawn::task(write_lines(writer, waiting_lines)),
            lathe_spawn::task(read_frames(reader, frames_in, waiting.clone())),
        ];
        Self {
            sender: OpSender { lines, waiting },
            frames,
            tasks,
        }
    }

    /// The sending half.
    #[must_use]
    pub fn sender(&self) -> OpSender {
        self.sender.clone()
    }

    /// The next frame; answers to [`OpSender::request`] are given there and not here. `None` when the host closed
    /// the connection. Cancellation safe.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn next(&mut self) -> Result<Option<HostFrame>, WireError> {
        self.frames.recv().await.transpose()
    }

    /// Asks for an operation and waits until it is done. Events that come meanwhile are read later.
    ///
    /// # Errors
    /// If the session refuses it, or no answer comes.
    pub async fn request(&self, op: WireOp) -> Result<(), OpError> {
        self.sender.request(op).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn write_lines(
    mut writer: impl AsyncWrite + Send + Unpin + 'static,
    mut lines: mpsc::Receiver<Vec<u8>>,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

async fn read_frames(
    reader: impl AsyncRead + Send + Unpin + 'static,
    frames: mpsc::Sender<Result<HostFrame, WireError>>,
    waiting: Waiting,
) {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    let mut line = Vec::new();
    loop {
        let frame = match read_line(&mut reader, &mut line).await {
            Ok(true) => HostFrame::parse(&line).map_err(WireError::from),
            Ok(false) => break,
            Err(error) => Err(error),
        };
        let frame = match frame {
            Ok(HostFrame::Ack(id)) => match waiting.lock().remove(&id) {
                Some(answer) => {
                    let _ = answer.send(Ok(()));
                    continue;
                }
                None => Ok(HostFrame::Ack(id)),
            },
            Ok(HostFrame::Nak(nak)) => match waiting.lock().remove(&nak.id) {
                Some(answer) => {
                    let _ = answer.send(Err(nak));
                    continue;
                }
                None => Ok(HostFrame::Nak(nak)),
            },
            other => other,
        };
        let over = frame.is_err();
        if frames.send(frame).await.is_err() || over {
            break;
        }
    }
    // Nobody answers any more.
    waiting.lock().clear();
}

/// A message of a [`Follower`].
#[derive(Debug)]
pub enum Update {
    /// The session as it is now; what was shown before is replaced.
    Snapshot(Box<Snapshot>),
    /// The next event. There is no gap before it.
    Event {
        /// Where it is.
        at: Cursor,
        /// The frame.
        event: Box<RawValue>,
    },
    /// Everything up to now was told.
    Current,
    /// An operation of [`Follower::send`] was done.
    Done(OpId),
    /// An operation of [`Follower::send`] was not done.
    Refused(Box<Nak>),
    /// The connection broke; it is being made again.
    Reconnecting,
    /// The session is over, and why.
    Ended(String),
}

/// A connection that is made again when it breaks, until the session's process is gone. Events come once each and in
/// order; operations that were not answered are sent again under the same id, which does them once.
#[derive(Debug)]
pub struct Follower {
    folder: Folder,
    id: HostId,
    hello: Hello,
    client: Option<Client>,
    unanswered: VecDeque<(OpId, WireOp, Option<String>)>,
    pause: Duration,
    ended: bool,
}

impl Follower {
    /// Follows a session; `hello.after` says what was seen already.
    #[must_use]
    pub fn new(folder: Folder, id: HostId, hello: Hello) -> Self {
        Self {
            folder,
            id,
            hello,
            client: None,
            unanswered: VecDeque::new(),
            pause: Duration::ZERO,
            ended: false,
        }
    }

    /// The last event that was seen.
    #[must_use]
    pub fn cursor(&self) -> Option<&Cursor> {
        self.hello.after.as_ref()
    }

    /// Sends an operation, now or after the next reconnection; [`Update::Done`] or [`Update::Refused`] answers.
    pub async fn send(&mut self, op: WireOp, by: Option<String>) -> OpId {
        let id = OpId::new_v4();
        self.unanswered.push_back((id, op.clone(), by.clone()));
        if let Some(client) = &self.client {
            // If it fails, it is sent again after the reconnection.
            let _ = client.sender.post(&ClientFrame::Op { id, op, by }).await;
        }
        id
    }

    /// The next update. After [`Update::Ended`] nothing more comes. Cancellation safe.
    pub async fn next(&mut self) -> Update {
        loop {
            if self.ended {
                std::future::pending::<()>().await;
            }
            let Some(client) = &mut self.client else {
                match self.connect().await {
                    Ok(()) => continue,
                    Err(gone) => {
                        self.ended = true;
                        return Update::Ended(gone.to_string());
                    }
                }
            };
            let frame = match tokio::time::timeout(SILENCE, client.next()).await {
                Ok(Ok(Some(frame))) => frame,
                Ok(Ok(None) | Err(_)) | Err(_) => {
                    self.client = None;
                    return Update::Reconnecting;
                }
            };
            self.pause = Duration::ZERO;
            if let Some(update) = self.take(frame) {
                return update;
            }
        }
    }

    fn take(&mut self, frame: HostFrame) -> Option<Update> {
        match frame {
            HostFrame::Snapshot(snapshot) => {
                self.hello.after = Some(Cursor {
                    epoch: snapshot.epoch.clone(),
                    seq: snapshot.seq,
                });
                Some(Update::Snapshot(snapshot))
            }
            HostFrame::Event { seq, event } => match &mut self.hello.after {
                Some(after) if seq <= after.seq => None,
                Some(after) if seq == after.seq + 1 => {
                    after.seq = seq;
                    let at = after.clone();
                    Some(Update::Event { at, event })
                }
                // A gap, or an event before anything: start over with a snapshot.
                _ => {
                    self.hello.after = None;
                    self.client = None;
                    Some(Update::Reconnecting)
                }
            },
            HostFrame::Beat(_) => Some(Update::Current),
            HostFrame::Ack(id) => {
                self.unanswered.retain(|(other, ..)| *other != id);
                Some(Update::Done(id))
            }
            HostFrame::Nak(nak) => {
                self.unanswered.retain(|(other, ..)| *other != nak.id);
                Some(Update::Refused(nak))
            }
            HostFrame::Bye(why) => {
                self.client = None;
                self.ended = true;
                Some(Update::Ended(why))
            }
            HostFrame::Output(_) => None,
        }
    }

    /// Connects, as often as it takes while the host lives.
    async fn connect(&mut self) -> Result<(), HostGone> {
        loop {
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            match Client::connect(&self.folder, &self.id, self.hello.clone()).await {
                Ok(client) => {
                    for (id, op, by) in self.unanswered.clone() {
                        let frame = ClientFrame::Op { id, op, by };
                        if client.sender.post(&frame).await.is_err() {
                            break;
                        }
                    }
                    self.client = Some(client);
                    return Ok(());
                }
                Err(_) if self.folder.is_live(&self.id) => {}
                Err(_) => return Err(HostGone),
            }
        }
    }
}
