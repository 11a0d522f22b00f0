//! The host that the browser starts for the extension.
//!
//! Sessions connect to its socket and send one JSON object per line, with an id of their own; the extension answers
//! in any order. Standard error is the log, which the browser keeps.

use crate::folder;
use crate::frame::{self, Reader};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// The longest line of a session.
const LONGEST_LINE: u64 = 1_048_576;
/// How much is read at once.
const PIECE: usize = 65_536;

/// A message of a session, and where its answer goes.
struct Asked {
    message: Value,
    answer: mpsc::UnboundedSender<Value>,
}

/// Runs the host until the browser closes its side.
///
/// # Errors
/// When the socket can't be made, or the browser sends what is no frame.
pub async fn run(
    config_home: &Path,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    log: impl Fn(&str),
) -> io::Result<()> {
    let socket = Socket::bind(config_home)?;
    let (asked, mut waiting) = mpsc::unbounded_channel::<Asked>();
    let listening = lathe_spawn::task(accept(socket.listener.clone(), asked));
    let mut pending: HashMap<u64, (Value, mpsc::UnboundedSender<Value>)> = HashMap::new();
    let mut next = 1_u64;
    let (mut input, mut reader, mut piece) = (input, Reader::default(), vec![0; PIECE]);
    let ended = loop {
        tokio::select! {
            read = input.read(&mut piece) => {
                let count = match read {
                    Ok(0) => break Ok(()),
                    Ok(count) => count,
                    Err(error) => break Err(error),
                };
                reader.push(&piece[..count]);
                if let Err(error) = deliver(&mut reader, &mut pending) {
                    log(&error.to_string());
                    break Err(io::Error::other(error.to_string()));
                }
            }
            Some(Asked { message, answer }) = waiting.recv() => {
                let theirs = message["id"].clone();
                let mut passed = message;
                passed["id"] = json!(next);
                match frame::frame(&passed) {
                    Ok(bytes) => {
                        pending.insert(next, (theirs, answer));
                        next += 1;
                        if let Err(error) = write(&mut output, &bytes).await {
                            break Err(error);
                        }
                    }
                    Err(error) => drop(answer.send(json!({"id": theirs, "error": error.to_string()}))),
                }
            }
        }
    };
    listening.abort();
    ended
}

async fn write(output: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    output.write_all(bytes).await?;
    output.flush().await
}

/// Passes complete messages of the extension on to the sessions that asked.
fn deliver(
    reader: &mut Reader,
    pending: &mut HashMap<u64, (Value, mpsc::UnboundedSender<Value>)>,
) -> Result<(), frame::FrameError> {
    while let Some(mut message) = reader.next_message()? {
        let asked = message["id"].as_u64().and_then(|id| pending.remove(&id));
        // A message without a question, such as a greeting, is for nobody.
        if let Some((theirs, answer)) = asked {
            message["id"] = theirs;
            let _ = answer.send(message);
        }
    }
    Ok(())
}

/// A socket that only this user can open; removed at the end.
struct Socket {
    listener: Arc<UnixListener>,
    path: PathBuf,
}

impl Socket {
    fn bind(config_home: &Path) -> io::Result<Self> {
        let folder = folder(config_home);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        let path = folder.join(format!("host-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            listener: Arc::new(listener),
            path,
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(listener: Arc<UnixListener>, asked: mpsc::UnboundedSender<Asked>) {
    while let Ok((stream, _)) = listener.accept().await {
        let own = nix::unistd::geteuid().as_raw();
        if stream.peer_cred().is_ok_and(|peer| peer.uid() == own) {
            lathe_spawn::task(serve(stream, asked.clone()));
        }
    }
}

/// Serves one session: its questions until it goes away, and answers as they come.
async fn serve(stream: UnixStream, asked: mpsc::UnboundedSender<Asked>) {
    let (reading, mut writing) = stream.into_split();
    let (answer, mut answers) = mpsc::unbounded_channel::<Value>();
    let writer = lathe_spawn::task(async move {
        while let Some(message) = answers.recv().await {
            if writing
                .write_all(format!("{message}\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    });
    let mut lines = BufReader::new(reading);
    loop {
        let mut line = String::new();
        let read = (&mut lines).take(LONGEST_LINE).read_line(&mut line).await;
        // The session is gone, or speaks something else.
        if !read.is_ok_and(|count| count > 0 && line.ends_with('\n')) {
            break;
        }
        let Ok(message @ Value::Object(_)) = serde_json::from_str::<Value>(&line) else {
            break;
        };
        let answer = answer.clone();
        if asked.send(Asked { message, answer }).is_err() {
            break;
        }
    }
    writer.abort();
}

/// The socket of the host that started last and still listens.
pub async fn connect(config_home: &Path) -> Option<UnixStream> {
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = std::fs::read_dir(folder(config_home))
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let is_socket = entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "sock");
            is_socket.then_some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    for (_, path) in found.into_iter().rev() {
        match UnixStream::connect(&path).await {
            Ok(stream) => return Some(stream),
            // Its host was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(path);
            }
            Err(_) => {}
        }
    }
    None
}
