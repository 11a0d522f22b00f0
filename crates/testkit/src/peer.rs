//! A plain HTTP server on loopback for peers that aren't model servers, or that say what no model server should.

use serde_json::Value;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A request that a peer got.
#[derive(Debug, Clone)]
pub struct PeerRequest {
    /// `GET`, `POST`…
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, by lower-case name.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl PeerRequest {
    /// A header by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// An answer of a peer.
#[derive(Debug, Clone)]
pub struct PeerReply {
    status: u16,
    content_type: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl PeerReply {
    /// An answer of any kind.
    #[must_use]
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// JSON.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self::new(200, "application/json", value.to_string())
    }

    /// Server-sent events, as they are.
    #[must_use]
    pub fn events(text: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/event-stream", text)
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Nothing is there.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "text/plain", "404 page not found")
    }
}

/// A peer that answers by a function until it is dropped.
pub struct Peer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<PeerRequest>>>,
    closing: Arc<AtomicBool>,
}

impl Peer {
    /// Starts a peer. The function gets a request and the number of requests before it.
    ///
    /// # Panics
    /// When no port is available.
    #[must_use]
    pub fn start(
        answer: impl Fn(&PeerRequest, usize) -> PeerReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("an address");
        let requests: Arc<Mutex<Vec<PeerRequest>>> = Arc::default();
        let closing = Arc::new(AtomicBool::new(false));
        let (seen, closed, answer) = (requests.clone(), closing.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), seen, answer) = (stream, seen.clone(), answer.clone()) else {
                    continue;
                };
                std::thread::spawn(move || serve(stream, &seen, answer.as_ref()));
            }
        });
        Self {
            address,
            requests,
            closing,
        }
    }

    /// Its address, such as `http://127.0.0.1:1234`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<PeerRequest> {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<PeerRequest>>,
    answer: &dyn Fn(&PeerRequest, usize) -> PeerReply,
) {
    let Ok(mut output) = stream.try_clone() else {
        return;
    };
    let Some(request) = read(&mut BufReader::new(stream)) else {
        return;
    };
    let number = {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(request.clone());
        seen.len() - 1
    };
    let reply = answer(&request, number);
    let mut head = format!(
        "HTTP/1.1 {} Reply\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n",
        reply.status,
        reply.content_type,
        reply.body.len()
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let _ = output.write_all(head.as_bytes());
    let _ = output.write_all(&reply.body);
    let _ = output.flush();
}

fn read(input: &mut impl std::io::BufRead) -> Option<PeerRequest> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let value = |name: &str| {
        let found = headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value): &(String, String)| value.clone())
    };
    let mut body = Vec::new();
    if let Some(length) = value("content-length").and_then(|text| text.parse().ok()) {
        body.resize(length, 0);
        input.read_exact(&mut body).ok()?;
    } else if value("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        loop {
            let mut size = String::new();
            input.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            input.read_exact(&mut chunk).ok()?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    Some(PeerRequest {
        method,
        path,
        headers,
        body,
    })
}
