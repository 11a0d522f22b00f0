//! A server over a session on a real socket, and requests as bytes.

use lathe_protocol::ids::SessionId;
use lathe_server::{DeviceScope, Devices, Options, Server};
use lathe_settings::Environment;
use lathe_wire::client::read_line;
use lathe_wire::{
    ClientFrame, Folder, HostFrame, HostId, HostInfo, HostState, Nak, NakCode, OpId, Snapshot,
    WireOp,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};

/// Speaks the wire as a session does, with answers that are known: it is the network that is tested.
pub(crate) struct Peer {
    /// Operations as they came, with who asked.
    pub(crate) ops: Mutex<Vec<(WireOp, Option<String>)>>,
    /// The records of a snapshot.
    pub(crate) records: Mutex<Vec<Value>>,
    answered: Mutex<HashMap<String, Option<String>>>,
    questions: Mutex<BTreeMap<String, Value>>,
    pub(crate) log: Mutex<Vec<String>>,
    changed: tokio::sync::watch::Sender<usize>,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            ops: Mutex::default(),
            records: Mutex::default(),
            answered: Mutex::default(),
            questions: Mutex::default(),
            log: Mutex::new(
                (1..=3)
                    .map(|number| format!("{{\"number\":{number}}}"))
                    .collect(),
            ),
            changed: tokio::sync::watch::Sender::new(0),
        }
    }
}

pub(crate) struct Site {
    pub(crate) home: tempfile::TempDir,
    pub(crate) server: Server,
    pub(crate) session: SessionId,
    pub(crate) peer: Arc<Peer>,
    pub(crate) tokens: HashMap<DeviceScope, String>,
    folder: Folder,
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::with(false).await
    }

    pub(crate) async fn with(allow_widening: bool) -> Self {
        Self::changed(|options| options.allow_widening = allow_widening).await
    }

    /// A site with other options.
    pub(crate) async fn changed(change: impl FnOnce(&mut Options)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        std::fs::create_dir(&config).unwrap();
        let environment =
            Environment::of_variables([("LATHE_CONFIG_DIR", config.to_str().unwrap())]);
        let folder = Folder::of(&environment);
        let session = SessionId::random();
        let peer = Arc::new(Peer::default());
        host(&folder, session, home.path(), Arc::clone(&peer));
        let devices = Devices::new(&config);
        let tokens = [
            DeviceScope::View,
            DeviceScope::Prompt,
            DeviceScope::Approve,
            DeviceScope::Admin,
        ]
        .map(|scope| (scope, devices.admit(scope.name(), scope).unwrap().1));
        let mut options = options(&folder, &config);
        change(&mut options);
        let server = Server::start(options).await.unwrap();
        Self {
            home,
            server,
            session,
            peer,
            tokens: tokens.into(),
            folder,
        }
    }

    /// Ends the server and starts it again at the same port.
    pub(crate) async fn restart(self) -> Self {
        let port = self.server.address().port();
        let mut options = self.options();
        options.listen.port = port;
        drop(self.server);
        // The port and the lock are free once the listener's task has ended.
        let server = loop {
            match Server::start(options.clone()).await {
                Ok(server) => break server,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        Self { server, ..self }
    }

    pub(crate) fn options(&self) -> Options {
        options(&self.folder, &self.home.path().join("config"))
    }

    pub(crate) fn devices(&self) -> Devices {
        Devices::new(&self.home.path().join("config"))
    }

    pub(crate) fn host_header(&self) -> String {
        format!("127.0.0.1:{}", self.server.address().port())
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// A request with more headers, as text; the whole response.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Response {
        let mut stream = self.connect().await;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            self.host_header(),
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // A server that refuses early closes before it has read all.
        let _ = stream.write_all(body).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        Response::parse(&bytes)
    }

    pub(crate) async fn get(&self, scope: DeviceScope, path: &str) -> Response {
        let headers = format!("Authorization: Bearer {}\r\n", self.tokens[&scope]);
        self.raw("GET", path, &headers, b"").await
    }

    pub(crate) async fn post(&self, scope: DeviceScope, path: &str, body: &Value) -> Response {
        let headers = format!(
            "Authorization: Bearer {}\r\nContent-Type: application/json\r\n",
            self.tokens[&scope]
        );
        self.raw("POST", path, &headers, body.to_string().as_bytes())
            .await
    }
}

fn options(folder: &Folder, config: &std::path::Path) -> Options {
    Options {
        listen: lathe_server::Listen::default(),
        relay: None,
        allow_widening: false,
        environment: Environment::of_variables([("LATHE_CONFIG_DIR", config.to_str().unwrap())]),
        config_home: config.to_owned(),
        folder: folder.clone(),
        program: "/bin/false".into(),
        jobs: None,
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Response {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Self {
            status: head
                .split(' ')
                .nth(1)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0),
            head: head.to_lowercase(),
            text: body.to_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn host(folder: &Folder, session: SessionId, cwd: &std::path::Path, peer: Arc<Peer>) {
    folder.prepare().unwrap();
    let id = HostId::of(session);
    let registration = folder.claim(&id).unwrap();
    let listener = registration.listen().unwrap();
    let info = json!({"id": id, "session_id": session, "title": "the session", "folder": cwd, "state": "needs-you",
        "pid": std::process::id(), "config_home": folder.config_home(), "changed_ms": 5});
    let info: HostInfo = serde_json::from_value(info).unwrap();
    assert_eq!(info.state, HostState::NeedsYou);
    registration.publish(&info).unwrap();
    drop(lathe_spawn::task(async move {
        let _registration = registration;
        while let Ok((stream, _)) = listener.accept().await {
            drop(lathe_spawn::task(client(
                stream,
                session,
                Arc::clone(&peer),
            )));
        }
    }));
}

async fn client(stream: UnixStream, session: SessionId, peer: Arc<Peer>) {
    let (reader, mut writer) = stream.into_split();
    let (lines, mut incoming) = tokio::sync::mpsc::channel(64);
    drop(lathe_spawn::task(async move {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while read_line(&mut reader, &mut line)
            .await
            .is_ok_and(|more| more)
        {
            if lines.send(line.clone()).await.is_err() {
                return;
            }
        }
    }));
    let mut changed = peer.changed.subscribe();
    let mut sent = None;
    loop {
        let mut out = Vec::new();
        if let Some(sent) = &mut sent {
            let log = peer.log.lock();
            for (number, event) in log.iter().enumerate().skip(*sent) {
                out.extend(lathe_wire::frame::event_line(
                    number as u64 + 1,
                    event.as_bytes(),
                ));
            }
            if !out.is_empty() {
                out.extend(HostFrame::Beat(log.len() as u64).to_line());
            }
            *sent = log.len();
        }
        if writer.write_all(&out).await.is_err() {
            return;
        }
        let line = tokio::select! {
            line = incoming.recv() => line,
            _ = changed.changed() => continue,
        };
        let Some(line) = line else { return };
        let mut out = Vec::new();
        match ClientFrame::parse(&line) {
            Ok(ClientFrame::Hello(hello)) => {
                let count = peer.log.lock().len();
                sent = Some(match hello.after {
                    Some(after) => usize::try_from(after.seq).unwrap(),
                    None => {
                        let snapshot = peer.snapshot(session, count as u64);
                        out.extend(HostFrame::Snapshot(Box::new(snapshot)).to_line());
                        count
                    }
                });
                out.extend(HostFrame::Beat(count as u64).to_line());
            }
            Ok(ClientFrame::Op { id, op, by }) => {
                peer.ops.lock().push((op.clone(), by.clone()));
                // A session that hangs answers nothing.
                if !matches!(&op, WireOp::SetModel { model } if model == "silent") {
                    out.extend(answer(&peer, id, &op, by.as_deref()).to_line());
                }
            }
            _ => {}
        }
        if writer.write_all(&out).await.is_err() {
            return;
        }
    }
}

impl Peer {
    /// Sends an event to everyone.
    pub(crate) fn emit(&self, event: &Value) {
        self.log.lock().push(event.to_string());
        self.changed.send_modify(|count| *count += 1);
    }

    fn snapshot(&self, session: SessionId, seq: u64) -> Snapshot {
        let questions: Vec<Value> = self.questions.lock().values().cloned().collect();
        let records = self.records.lock().clone();
        serde_json::from_value(
            json!({"epoch": "e-1", "seq": seq, "state": "needs-you", "session_id": session,
            "records": records, "questions": questions, "title": "the session"}),
        )
        .unwrap()
    }

    /// Asks everyone.
    pub(crate) fn ask(&self, question: &Value) {
        let id = question["request_id"].as_str().unwrap().to_owned();
        self.questions.lock().insert(id, question.clone());
        self.emit(question);
    }
}

fn answer(peer: &Peer, id: OpId, op: &WireOp, by: Option<&str>) -> HostFrame {
    let nak = |code, why: &str, by| {
        HostFrame::Nak(Box::new(Nak {
            id,
            why: why.to_owned(),
            code,
            by,
            reply: Some(json!({"behavior": "allow"})),
        }))
    };
    match op {
        WireOp::PermissionReply { request_id, reply } => {
            let request = request_id.to_string();
            if request == "gone" {
                return nak(NakCode::Withdrawn, "the question was withdrawn", None);
            }
            let first = peer.answered.lock().get(&request).cloned();
            if let Some(first) = first {
                return nak(NakCode::Answered, "answered already", first);
            }
            peer.answered
                .lock()
                .insert(request.clone(), by.map(str::to_owned));
            peer.questions.lock().remove(&request);
            peer.emit(&json!({"type": "question_resolved", "request_id": request, "by": by, "reply": reply}));
        }
        WireOp::SetModel { model } if model == "none" => {
            return nak(NakCode::Refused, "there is no such model", None);
        }
        WireOp::Prompt { content, .. } => {
            peer.emit(&json!({"type": "user", "uuid": id, "isReplay": true, "message": {"role": "user", "content": content}}));
            for piece in ["Streamed ", "**words**"] {
                peer.emit(&json!({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}}));
            }
            peer.emit(&json!({"type": "assistant", "uuid": uuid::Uuid::new_v4(), "message": {"role": "assistant", "content": [{"type": "text", "text": "Streamed **words**"}]}}));
        }
        _ => peer.emit(&json!({"type": "result", "subtype": "success"})),
    }
    HostFrame::Ack(id)
}
