//! Kills of the session's process, of the server and of clients at random points: what every client sees in the end is what the
//! transcript has, once each, and every prompt that was sent is there once. `LATHE_KILLS` says how many rounds there are.

use super::{ALLOWED, Stage, runtime, wait};
use lathe_scripted::Reply;
use lathe_testkit::{HANG_LIMIT, Running, TestHome, processes, transcript};
use lathe_wire::{ClientKind, Cursor, Follower, Hello, HostState, OpId, Update};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Takes a moment, and is found among the processes.
const COMMAND: &str = "exec sleep 0.0123";

/// The view of a client: the ids of messages, once each and in order.
#[derive(Debug, Default)]
struct View {
    cursor: Option<Cursor>,
    messages: Vec<String>,
}

impl View {
    fn snapshot(&mut self, snapshot: &Value) {
        self.messages.clear();
        self.cursor = serde_json::from_value(snapshot.clone()).ok();
        for record in snapshot["records"].as_array().into_iter().flatten() {
            self.message(record);
        }
    }

    fn event(&mut self, at: Cursor, event: &Value) {
        let before = self.cursor.take().unwrap();
        assert_eq!(
            before.epoch, at.epoch,
            "another epoch begins with a snapshot"
        );
        assert_eq!(before.seq + 1, at.seq, "an event is missing or came twice");
        self.cursor = Some(at);
        self.message(event);
    }

    fn message(&mut self, frame: &Value) {
        let kind = frame["type"].as_str().unwrap_or_default();
        if let ("user" | "assistant", Some(id)) = (kind, frame["uuid"].as_str()) {
            assert!(
                !self.messages.iter().any(|known| known == id),
                "{id} came twice"
            );
            self.messages.push(id.to_owned());
        }
    }
}

/// A client of the server: the events of the session, read until they are current, after the last one that was seen.
fn read_events(server: &str, session: &str, token: &str, view: &mut View) -> Option<()> {
    let host = server.strip_prefix("http://")?;
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(HANG_LIMIT)).ok()?;
    let after = view.cursor.as_ref().map_or_else(String::new, |cursor| {
        format!("Last-Event-ID: {}-{}\r\n", cursor.epoch, cursor.seq)
    });
    // HTTP/1.0 has no chunks: the lines come as they are.
    let request = format!(
        "GET /v1/sessions/{session}/events HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{after}\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = Vec::new();
    let mut buffer = [0; 64 * 1024];
    let is_current = |text: &[u8]| text.windows(10).any(|part| part == b": current\n");
    while !is_current(&text) {
        match stream.read(&mut buffer).ok()? {
            0 => break,
            count => text.extend_from_slice(&buffer[..count]),
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    if !head.contains(" 200 ") {
        return None;
    }
    let complete = body.rfind("\n\n").map_or("", |end| &body[..end]);
    for part in complete.split("\n\n") {
        let field = |name: &str| part.lines().find_map(|line| line.strip_prefix(name));
        let Some(data) = field("data: ") else {
            continue;
        };
        let data: Value = serde_json::from_str(data).unwrap();
        match field("event: ") {
            Some("snapshot") => view.snapshot(&data),
            Some("event") => {
                let (epoch, seq) = field("id: ").unwrap().rsplit_once('-').unwrap();
                let (epoch, seq) = (epoch.to_owned(), seq.parse().unwrap());
                view.event(Cursor { epoch, seq }, &data);
            }
            _ => {}
        }
    }
    is_current(text.as_bytes()).then_some(())
}

/// A client of the socket, read until it is current.
async fn follow(stage: &Stage, view: &mut View) {
    let Some(host) = stage.folder().hosts().unwrap().pop() else {
        return;
    };
    let mut hello = Hello::new("follower", ClientKind::Page);
    hello.after.clone_from(&view.cursor);
    let mut follower = Follower::new(stage.folder(), host.id, hello);
    loop {
        match follower.next().await {
            Update::Snapshot(snapshot) => view.snapshot(&serde_json::to_value(snapshot).unwrap()),
            Update::Event { at, event } => {
                view.event(at, &serde_json::from_str(event.get()).unwrap());
            }
            Update::Current | Update::Ended(_) => return,
            _ => {}
        }
    }
}

/// Sends a prompt under an id; whether the session said that it has it.
fn send(server: &str, session: &str, token: &str, id: OpId, text: &str) -> bool {
    let path = format!("/v1/sessions/{session}/ops");
    let body = json!({"id": id, "op": {"type": "prompt", "content": text}}).to_string();
    let host = server.strip_prefix("http://").unwrap();
    let Ok(mut stream) = TcpStream::connect(host) else {
        return false;
    };
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.read_to_string(&mut answer);
    answer.starts_with("HTTP/1.1 200")
}

struct Town {
    stage: Stage,
    serving: Option<Running>,
    server: String,
    token: String,
    session: String,
}

impl Town {
    /// A session whose turns run a command, which a kill may hit too.
    fn new() -> Self {
        let respond = |request: &lathe_scripted::RecordedRequest| {
            if request.last_results().is_empty() {
                Reply::tool_use("Bash", json!({"command": COMMAND}))
            } else {
                Reply::text("answered")
            }
        };
        let scenario = lathe_scripted::Scenario::new().responder(respond);
        let server = lathe_scripted::BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server)
            .variable("TERM", "xterm-256color")
            .variable("LATHE_PROMPT_SUGGESTIONS", "0")
            .variable("LATHE_SESSION_TITLES", "0")
            .variable("LATHE_MEMORY_EXTRACTION", "off");
        let stage = Stage {
            home,
            _server: server,
        };
        stage.background(&["prompt-start", ALLOWED[0], ALLOWED[1]]);
        let session = stage.wait_state(HostState::Idle).session_id.to_string();
        let (serving, server) = stage.serve("0", &[]);
        let token = stage.token("phone", "prompt");
        Self {
            stage,
            serving: Some(serving),
            server,
            token,
            session,
        }
    }

    /// The ids of the messages in the transcript.
    fn messages(&self) -> Vec<String> {
        let files = transcript::of_home(&self.stage.home);
        let is_shown = |record: &&Value| {
            matches!(record["type"].as_str(), Some("user" | "assistant"))
                && record["isMeta"] != true
        };
        let records = transcript::Transcript::read(&files[0]).records;
        records
            .iter()
            .filter(is_shown)
            .filter_map(|record| Some(record["uuid"].as_str()?.to_owned()))
            .collect()
    }

    /// Kills the server, and starts it again where it was.
    fn kill_server(&mut self) {
        let serving = self.serving.take().unwrap();
        serving.signal(Signal::SIGKILL);
        let _ = serving.finish();
        let port = self.server.rsplit(':').next().unwrap().to_owned();
        self.serving = Some(self.stage.serve(&port, &[]).0);
    }

    /// Kills the session's process, and resumes the session.
    fn kill_host(&self) {
        let pid = self.stage.host().pid;
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        wait("its end", || {
            let hosts = self.stage.folder().hosts().unwrap();
            hosts.first().map(|host| host.pid) != Some(pid)
        });
        wait("the end of its commands", || {
            let left = processes::of_home(&self.stage.home);
            left.iter()
                .all(|process| !process.command.contains("sleep 0.0123"))
        });
        let words = ["--resume", &self.session, ALLOWED[0], ALLOWED[1]];
        self.stage.background(&words);
    }
}

#[test]
fn kills_lose_no_event_and_no_prompt_and_double_none() {
    let rounds: usize = std::env::var("LATHE_KILLS").map_or(4, |text| text.parse().unwrap());
    let seed = std::env::var("LATHE_KILLS_SEED").map_or(11, |text| text.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut town = Town::new();
    let (mut near, mut far) = (View::default(), View::default());
    let mut expected = vec!["prompt-start".to_owned()];
    for round in 0..rounds {
        let text = format!("prompt-{round}");
        let id = OpId::new_v4();
        let sending = {
            let (server, session, token) = (
                town.server.clone(),
                town.session.clone(),
                town.token.clone(),
            );
            let text = text.clone();
            std::thread::spawn(move || send(&server, &session, &token, id, &text))
        };
        // A seeded moment in the middle of it; whatever it hits, the same must hold.
        std::thread::sleep(Duration::from_micros(random.u64(0..30_000)));
        match round % 3 {
            0 => town.kill_host(),
            1 => town.kill_server(),
            _ => {
                // A client that dies in the middle of a line, and one that never reads.
                let socket = town.stage.folder().socket(&town.stage.host().id);
                let mut dying = std::os::unix::net::UnixStream::connect(socket).unwrap();
                let _ = dying.write_all(b"{\"hello\":{\"v\":1,\"client\":\"dying\"}}\n{\"id\":");
            }
        }
        let _ = sending.join();
        // The same prompt under the same id, until the session has it.
        wait("the prompt", || {
            send(&town.server, &town.session, &town.token, id, &text)
        });
        wait("its record", || town.stage.prompts().contains(&text));
        expected.push(text);
        runtime().block_on(follow(&town.stage, &mut near));
        wait("the events", || {
            read_events(&town.server, &town.session, &town.token, &mut far).is_some()
        });
    }
    // Every client comes to show what the transcript has: in a long one at least the messages among the last 200 records,
    // where the four messages of a turn have other records with them.
    let shows_all = |view: &View| {
        let shown = town.messages();
        let from = shown.len().saturating_sub(view.messages.len());
        view.messages == shown[from..] && view.messages.len() >= shown.len().min(200 * 2 / 3)
    };
    wait("the client of the socket", || {
        runtime().block_on(follow(&town.stage, &mut near));
        shows_all(&near)
    });
    wait("the client of the server", || {
        let read = read_events(&town.server, &town.session, &town.token, &mut far);
        read.is_some() && shows_all(&far)
    });
    let found: Vec<String> = town.stage.prompts();
    let found: Vec<&String> = found
        .iter()
        .filter(|text| text.starts_with("prompt-"))
        .collect();
    assert_eq!(found, expected.iter().collect::<Vec<_>>());
    let id = town.stage.host().id.to_string();
    town.serving.take().unwrap().signal(Signal::SIGKILL);
    town.stage.stop(&id);
}
