//! A client that hides nothing: raw HTTP/1.1 over TCP, chunk by chunk.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "json! needs no borrow at every call"
)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A response as it came.
#[derive(Debug, Default)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// The HTTP chunks, or one piece for a body with a length.
    pub(crate) chunks: Vec<Vec<u8>>,
    /// Whether the body ended as it should.
    pub(crate) complete: bool,
}

impl RawResponse {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value.as_str())
    }

    /// The events of a stream with plain framing.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.text()
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

/// A request that the API would take, with these messages.
pub(crate) fn body(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 100, "stream": true, "messages": messages})
}

/// A first request.
pub(crate) fn hello() -> Value {
    body(json!([{"role": "user", "content": "hello"}]))
}

pub(crate) fn connect(base_url: &str) -> TcpStream {
    let stream = TcpStream::connect(base_url.strip_prefix("http://").unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

pub(crate) fn send(stream: &mut TcpStream, path: &str, body: &str) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: scripted\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
}

/// Reads the status and the headers.
pub(crate) fn read_head(reader: &mut impl BufRead) -> Option<RawResponse> {
    let mut response = RawResponse::default();
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    response.status = line.split(' ').nth(1)?.parse().ok()?;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        response.headers.push((name.to_owned(), value.to_owned()));
    }
    Some(response)
}

/// Reads one HTTP chunk; `None` when the connection breaks, empty at the end of the body.
pub(crate) fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    Some(chunk)
}

/// One request on a connection of its own; `None` if there was no answer.
pub(crate) fn post_to(base_url: &str, path: &str, body: &str) -> Option<RawResponse> {
    let mut stream = connect(base_url);
    send(&mut stream, path, body);
    let mut reader = BufReader::new(stream);
    let mut response = read_head(&mut reader)?;
    if let Some(length) = response.header("content-length") {
        let mut bytes = vec![0; length.parse().unwrap()];
        response.complete = reader.read_exact(&mut bytes).is_ok();
        response.chunks.push(bytes);
        return Some(response);
    }
    while let Some(chunk) = read_chunk(&mut reader) {
        if chunk.is_empty() {
            response.complete = true;
            break;
        }
        response.chunks.push(chunk);
    }
    Some(response)
}

pub(crate) fn post(base_url: &str, body: &Value) -> RawResponse {
    post_to(base_url, "/v1/messages", &body.to_string()).expect("an answer")
}
