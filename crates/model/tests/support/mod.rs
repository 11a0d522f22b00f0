//! Shared by the tests of this crate: a request, a way to collect deliveries, and a server that
//! does exactly what a test says, byte by byte.
#![allow(dead_code, reason = "each test binary uses its own part")]

use futures::StreamExt;
use lathe_model::{
    AnthropicConfig, AnthropicProvider, Deliveries, Delivery, MessageAssembler, ModelError,
    ModelRequest, RecoveryPolicy,
};
use lathe_protocol::content::{ContentBlock, joined_text};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{AssistantMessage, Role};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A hang guard: nothing here should take a tenth of it.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

pub(crate) fn request() -> ModelRequest {
    let mut request = ModelRequest::new("claude-opus-4-5", 1024);
    let hello = EncodedMessage::new(Role::User, &[ContentBlock::text("hello")]).unwrap();
    request.messages.push(hello);
    request
}

pub(crate) fn config(base_url: &str) -> AnthropicConfig {
    AnthropicConfig {
        base_url: base_url.to_owned(),
        api_key: Some("test-key".to_owned()),
        ..AnthropicConfig::default()
    }
}

pub(crate) fn provider(base_url: &str) -> Arc<AnthropicProvider> {
    Arc::new(AnthropicProvider::new(&config(base_url)).unwrap())
}

/// Waits of a millisecond, limits that a healthy loopback never reaches.
pub(crate) fn quick() -> RecoveryPolicy {
    RecoveryPolicy {
        base_delay: Duration::from_millis(1),
        idle_timeout: Duration::from_secs(20),
        request_timeout: Duration::from_secs(20),
        ..RecoveryPolicy::default()
    }
}

/// Everything that came until the end.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// One word per delivery, events left out.
    pub(crate) steps: Vec<String>,
    /// The message that stands at the end, with retracted parts gone.
    pub(crate) message: Option<AssistantMessage>,
    pub(crate) error: Option<ModelError>,
    pub(crate) deliveries: Vec<Delivery>,
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        joined_text(&self.message.as_ref().expect("a finished message").content)
    }
}

pub(crate) async fn collect(mut stream: Deliveries) -> Outcome {
    let mut steps = Vec::new();
    let mut deliveries = Vec::new();
    let mut error = None;
    let mut assembler = MessageAssembler::default();
    let all = async {
        while let Some(item) = stream.next().await {
            assert!(error.is_none(), "nothing comes after an error");
            match item {
                Ok(delivery) => {
                    match &delivery {
                        Delivery::Requesting { attempt } => {
                            assembler = MessageAssembler::default();
                            steps.push(format!("requesting {attempt}"));
                        }
                        Delivery::Event(event) => {
                            assembler.feed(&event.event).unwrap();
                        }
                        Delivery::Retracted { .. } => steps.push("retracted".to_owned()),
                        Delivery::Retrying {
                            attempt,
                            max_retries,
                            status,
                            kind,
                            ..
                        } => {
                            let status =
                                status.map_or(String::new(), |status| format!(" {status}"));
                            steps.push(format!("retrying {attempt}/{max_retries}{status} {kind}"));
                        }
                        Delivery::FellBack { from, to, .. } => {
                            steps.push(format!("fell back {from} -> {to}"));
                        }
                    }
                    deliveries.push(delivery);
                }
                Err(last) => error = Some(last),
            }
        }
    };
    tokio::time::timeout(GUARD, all)
        .await
        .expect("the stream must end");
    Outcome {
        steps,
        message: assembler.finish().ok(),
        error,
        deliveries,
    }
}

pub(crate) async fn run(provider: Arc<AnthropicProvider>, policy: RecoveryPolicy) -> Outcome {
    collect(lathe_model::run(
        provider,
        request(),
        policy,
        CancellationToken::new(),
    ))
    .await
}

/// A server that hands each connection to the test, with its number from 0.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl RawServer {
    pub(crate) async fn start<F, Done>(handle: F) -> Self
    where
        F: Fn(usize, TcpStream) -> Done + Send + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(handle(number, stream));
            }
        });
        Self { address, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one request: its head as text, and its body by the length that the head gives.
pub(crate) async fn read_request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(
            count > 0,
            "the client hung up before its request was complete"
        );
        bytes.extend_from_slice(&chunk[..count]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut body = bytes.split_off(end);
    let length: usize = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")
                .map(str::to_owned)
        })
        .map_or(0, |length| length.trim().parse().unwrap());
    while body.len() < length {
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(
            count > 0,
            "the client hung up before its request was complete"
        );
        body.extend_from_slice(&chunk[..count]);
    }
    (head, body)
}

/// A complete streamed response of one text.
pub(crate) fn events(text: &str) -> String {
    let start = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let text = serde_json::to_string(text).unwrap();
    let events = [
        start.to_owned(),
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.to_owned(),
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}}"#),
        r#"{"type":"content_block_stop","index":0}"#.to_owned(),
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}"#.to_owned(),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect()
}

/// Answers the next request on a connection with a streamed text, and closes it.
pub(crate) async fn answer(stream: &mut TcpStream, text: &str) -> (String, Vec<u8>) {
    let request = read_request(stream).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(events(text).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    request
}
