//! A server that answers with exactly the bytes it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The answer to a request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes, and then the same piece again and again until the reader leaves.
    Endless(Vec<u8>, Vec<u8>),
    /// The bytes, and then nothing, with the connection open.
    Silence(Vec<u8>),
}

/// The server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers by the target of the request.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move { serve(stream, &seen, answer.as_ref()).await });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    /// The heads of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &(dyn Fn(&str) -> Answer + Send + Sync),
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut piece = [0; 4_096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            // The start of TLS, which this server doesn't speak.
            Ok(_) if piece[0] == 0x16 => return,
            Ok(read) => head.extend_from_slice(&piece[..read]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(head);
    match answer(&target) {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Answer::Endless(first, piece) => {
            let _ = stream.write_all(&first).await;
            while stream.write_all(&piece).await.is_ok() {}
        }
        Answer::Silence(bytes) => {
            let _ = stream.write_all(&bytes).await;
            // Until the other side leaves.
            let _ = stream.read(&mut [0; 16]).await;
        }
    }
}

/// A whole answer.
pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Answer {
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    Answer::Bytes(bytes)
}

pub(crate) fn page(body: &str) -> Answer {
    answer("200 OK", "content-type: text/html\r\n", body.as_bytes())
}

pub(crate) fn redirect(to: &str) -> Answer {
    answer("302 Found", &format!("location: {to}\r\n"), b"")
}
