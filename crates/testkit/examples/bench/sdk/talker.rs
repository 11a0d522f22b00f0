//! A model that says a word every millisecond: each is an event of its own in a packet of its own, sent
//! when its time has come. A server that waits between events is late by the grain of its clock, and says
//! half as many.

use super::super::processor_time;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Between two words.
pub(super) const PACE: Duration = Duration::from_millis(1);
/// After the last word, until everything that it gives to do is done.
const AFTER: Duration = Duration::from_millis(50);

/// The cost of an answer for the process that received it.
#[derive(Default)]
pub(super) struct Talk {
    /// When each word was sent.
    pub(super) sent: Vec<Instant>,
    /// The listener's processor time from before the first word to after the last.
    pub(super) used: Duration,
    /// How long that was by the clock.
    pub(super) took: Duration,
}

#[derive(Default)]
struct Shared {
    words: AtomicUsize,
    listener: AtomicU32,
    talk: Mutex<Talk>,
}

pub(super) struct Talker {
    address: String,
    shared: Arc<Shared>,
}

impl Talker {
    pub(super) fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", socket.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        // Ends with the program.
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                let (stream, shared) = (stream.unwrap(), serving.clone());
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The next answers, and their reader.
    pub(super) fn say(&self, words: usize, listener: u32) {
        self.shared.words.store(words, Ordering::SeqCst);
        self.shared.listener.store(listener, Ordering::SeqCst);
    }

    /// The measurements of the last answer.
    pub(super) fn last(&self) -> Talk {
        std::mem::take(&mut self.shared.talk.lock().unwrap())
    }
}

/// Answers requests until the other side is gone.
fn serve(stream: TcpStream, shared: &Shared) {
    stream.set_nodelay(true).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    while let Some(length) = head(&mut input) {
        let mut body = vec![0; length];
        if input.read_exact(&mut body).is_err() || answer(&mut output, shared).is_err() {
            return;
        }
    }
}

/// Reads the head of a request; gives the length of its body.
fn head(input: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Some(length);
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
}

fn answer(output: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let words = shared.words.load(Ordering::SeqCst);
    let listener = shared.listener.load(Ordering::SeqCst);
    output.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    event(
        output,
        "message_start",
        r#","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}"#,
    )?;
    event(
        output,
        "content_block_start",
        r#","index":0,"content_block":{"type":"text","text":""}"#,
    )?;
    let mut sent = Vec::with_capacity(words);
    let before = processor_time(listener);
    let started = Instant::now();
    let mut due = started;
    for word in 0..words {
        due += PACE;
        while let Some(rest) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(rest);
        }
        sent.push(Instant::now());
        let delta = format!(r#","index":0,"delta":{{"type":"text_delta","text":"{word:07} "}}"#);
        event(output, "content_block_delta", &delta)?;
    }
    if words > 0 {
        std::thread::sleep(AFTER);
    }
    *shared.talk.lock().unwrap() = Talk {
        sent,
        used: processor_time(listener).saturating_sub(before),
        took: started.elapsed(),
    };
    event(output, "content_block_stop", r#","index":0"#)?;
    event(
        output,
        "message_delta",
        r#","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}"#,
    )?;
    event(output, "message_stop", "")?;
    output.write_all(b"0\r\n\r\n")
}

/// Sends an event in one piece.
fn event(output: &mut TcpStream, kind: &str, rest: &str) -> std::io::Result<()> {
    let text = format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
    output.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}
