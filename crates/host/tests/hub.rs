//! The hub with real sockets and many clients: no gap, nothing twice, and nobody waits for somebody else.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_engine::ObserveOptions;
use lathe_host::{Facts, Hub, Request};
use lathe_protocol::event::{
    Event, NoticeLevel, SessionState, TerminalReason, TurnResult, TurnTimes,
};
use lathe_protocol::ids::{RequestId, SessionId, ToolUseId};
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_settings::{Environment, Settings};
use lathe_wire::{
    Client, ClientKind, Cursor, Folder, Follower, Hello, HostFrame, HostId, HostState, NakCode,
    OpError, OpId, Update, WireOp,
};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A session without an engine: its events are sent by the test.
struct Host {
    hub: Hub,
    id: HostId,
    folder: Folder,
    send: Arc<dyn Fn(&Event) + Send + Sync>,
    requests: mpsc::UnboundedReceiver<Request>,
    session: SessionId,
    _root: tempfile::TempDir,
}

fn environment(root: &Path) -> Environment {
    Environment::of_variables([
        ("XDG_RUNTIME_DIR", root.to_string_lossy()),
        ("LATHE_CONFIG_DIR", root.join("config").to_string_lossy()),
    ])
}

fn facts(session: SessionId) -> Facts {
    Facts {
        session_id: session,
        title: Some("release".to_owned()),
        folder: "/work".into(),
        waiting: Vec::new(),
    }
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut environment = environment(root.path());
        let (hub, requests) = Hub::new(&environment);
        let session = SessionId::random();
        let send = observer(&hub, &mut environment);
        hub.opened(&facts(session), &[]);
        let id = hub.listen().unwrap();
        Self {
            folder: Folder::of(&environment),
            hub,
            id,
            send,
            requests,
            session,
            _root: root,
        }
    }

    fn notice(&self, text: &str) {
        (self.send)(&Event::Notice {
            level: NoticeLevel::Notice,
            text: text.to_owned(),
            news: None,
        });
    }

    async fn connect(&self, hello: Hello) -> Client {
        Client::connect(&self.folder, &self.id, hello)
            .await
            .unwrap()
    }

    fn follow(&self, after: Option<Cursor>) -> Follower {
        let mut hello = Hello::new("test", ClientKind::Cli);
        hello.after = after;
        Follower::new(self.folder.clone(), self.id.clone(), hello)
    }
}

/// Begins a session, as the engine does.
fn observer(hub: &Hub, environment: &mut Environment) -> Arc<dyn Fn(&Event) + Send + Sync> {
    let options = hub.observing(ObserveOptions::default());
    options.0.unwrap()(&Settings::default(), environment).unwrap()
}

fn question(id: &str) -> Event {
    Event::PermissionRequested(Arc::new(PermissionRequest {
        request_id: RequestId::from(id),
        title: Some("Run make".to_owned()),
        ..PermissionRequest::new(
            "Bash",
            serde_json::json!({"command": "make"}),
            ToolUseId::from("t"),
        )
    }))
}

/// The texts of the notices up to the last one, and where they are.
async fn texts(follower: &mut Follower, last: &str) -> (Vec<String>, Cursor) {
    let mut texts = Vec::new();
    loop {
        match follower.next().await {
            Update::Event { event, at } => {
                let frame: serde_json::Value = serde_json::from_str(event.get()).unwrap();
                let text = frame.to_string();
                let found = text.split("event-").nth(1).map(|rest| {
                    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    format!("event-{digits}")
                });
                let Some(found) = found else { continue };
                texts.push(found.clone());
                if found == last {
                    return (texts, at);
                }
            }
            Update::Ended(why) => panic!("ended: {why}"),
            _ => {}
        }
    }
}

fn numbered(from: usize, to: usize) -> Vec<String> {
    (from..=to)
        .map(|number| format!("event-{number}"))
        .collect()
}

/// Reads until everything is there.
async fn current(follower: &mut Follower) -> Option<Box<lathe_wire::Snapshot>> {
    let mut snapshot = None;
    loop {
        match follower.next().await {
            Update::Snapshot(found) => snapshot = Some(found),
            Update::Current => return snapshot,
            Update::Ended(why) => panic!("ended: {why}"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_clients_see_every_event_once_and_in_order() {
    let host = Host::new();
    let mut followers = Vec::new();
    for _ in 0..200 {
        let mut follower = host.follow(None);
        current(&mut follower).await;
        followers.push(follower);
    }
    let reading: Vec<_> = followers
        .into_iter()
        .map(|mut follower| {
            lathe_spawn::task(async move { texts(&mut follower, "event-500").await.0 })
        })
        .collect();
    for number in 1..=500 {
        host.notice(&format!("event-{number}"));
        if number % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for read in reading {
        assert_eq!(read.await.unwrap(), numbered(1, 500));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_harms_nobody_and_gets_a_snapshot_later() {
    let host = Host::new();
    let mut stalled = tokio::net::UnixStream::connect(host.folder.socket(&host.id))
        .await
        .unwrap();
    use tokio::io::AsyncWriteExt as _;
    stalled
        .write_all(b"{\"hello\":{\"v\":1,\"client\":\"stalled\",\"kind\":\"cli\"}}\n")
        .await
        .unwrap();
    let mut follower = host.follow(None);
    current(&mut follower).await;
    let large = "x".repeat(4_000);
    for number in 1..=6_000 {
        host.notice(&format!("event-{number} {large}"));
        if number % 200 == 0 {
            let last = format!("event-{number}");
            let (read, _) = texts(&mut follower, &last).await;
            assert_eq!(read, numbered(number - 199, number));
        }
    }
    // The stalled one reads on: events without a gap, then a snapshot, then events from there.
    let (reader, _writer) = stalled.into_split();
    let mut reader = tokio::io::BufReader::new(reader);
    let mut line = Vec::new();
    let mut last = None;
    let mut snapshots = 0;
    while lathe_wire::client::read_line(&mut reader, &mut line)
        .await
        .unwrap()
    {
        match HostFrame::parse(&line).unwrap() {
            HostFrame::Snapshot(snapshot) => {
                snapshots += 1;
                last = Some(snapshot.seq);
                if snapshots == 2 {
                    break;
                }
            }
            HostFrame::Event { seq, .. } => {
                assert_eq!(Some(seq - 1), last, "a gap");
                last = Some(seq);
            }
            _ => {}
        }
    }
    assert_eq!(snapshots, 2);
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed_or_a_snapshot() {
    let host = Host::new();
    let mut follower = host.follow(None);
    assert!(current(&mut follower).await.is_some());
    host.notice("event-1");
    let (_, at) = texts(&mut follower, "event-1").await;
    drop(follower);
    for number in 2..=100 {
        host.notice(&format!("event-{number}"));
    }
    let mut again = host.follow(Some(at.clone()));
    assert_eq!(texts(&mut again, "event-100").await.0, numbered(2, 100));

    for number in 101..=10_100 {
        host.notice(&format!("event-{number}"));
    }
    // However far behind: a snapshot of bounded size, and a beat that says that this is all.
    let mut hello = Hello::new("raw", ClientKind::Cli);
    hello.after = Some(at.clone());
    let mut raw = host.connect(hello).await;
    let first = raw.next().await.unwrap().unwrap();
    assert!(matches!(first, HostFrame::Snapshot(_)), "{first:?}");
    assert!(first.to_line().len() < 4 * 1024 * 1024);
    let second = raw.next().await.unwrap().unwrap();
    assert!(matches!(second, HostFrame::Beat(_)), "{second:?}");
    let mut behind = host.follow(Some(at.clone()));
    let snapshot = current(&mut behind).await;
    assert_eq!(snapshot.map(|it| it.session_id), Some(host.session));
    host.notice("event-1");
    assert_eq!(texts(&mut behind, "event-1").await.0, numbered(1, 1));

    let other = Cursor {
        epoch: "another conversation".to_owned(),
        ..at
    };
    assert!(current(&mut host.follow(Some(other))).await.is_some());
}

#[tokio::test]
async fn another_conversation_begins_with_a_snapshot_on_the_same_connection() {
    let host = Host::new();
    let mut follower = host.follow(None);
    let first = current(&mut follower).await.unwrap();
    let mut environment = environment(host._root.path());
    let next = observer(&host.hub, &mut environment);
    let session = SessionId::random();
    host.hub.opened(&facts(session), &[]);
    let second = current(&mut follower).await.unwrap();
    assert_eq!(second.session_id, session);
    assert_ne!(second.epoch, first.epoch);
    // The one before is not heard any more.
    host.notice("event-1");
    next(&Event::Notice {
        level: NoticeLevel::Notice,
        text: "event-2".to_owned(),
        news: None,
    });
    assert_eq!(texts(&mut follower, "event-2").await.0, numbered(2, 2));
    assert_eq!(host.folder.hosts().unwrap().len(), 1);
}

#[tokio::test]
async fn an_operation_is_done_once_however_often_it_is_sent() {
    let mut host = Host::new();
    let client = host.connect(Hello::new("board", ClientKind::Cli)).await;
    let id = OpId::new_v4();
    let prompt = WireOp::Prompt {
        content: "go on".into(),
        uuid: None,
    };
    let others = [
        host.connect(Hello::new("board", ClientKind::Cli)).await,
        host.connect(Hello::new("board", ClientKind::Cli)).await,
    ];
    let senders = [client.sender(), others[0].sender(), others[1].sender()];
    let asking = senders.map(|sender| {
        let prompt = prompt.clone();
        lathe_spawn::task(async move { sender.request_as(id, prompt, None).await })
    });
    let mut seen = 0;
    while seen == 0 {
        if let Some(Request::Op { by, done, .. }) = host.requests.recv().await {
            assert_eq!(by, "board");
            seen += 1;
            done.ok();
        }
    }
    for asked in asking {
        asked.await.unwrap().unwrap();
    }
    // From another connection too, also if it is the prompt of another operation.
    let other = host.connect(Hello::new("phone", ClientKind::Page)).await;
    other.sender().request_as(id, prompt, None).await.unwrap();
    let again = WireOp::Prompt {
        content: "go on".into(),
        uuid: Some(lathe_protocol::ids::RecordId(id)),
    };
    other.request(again).await.unwrap();
    while let Ok(request) = host.requests.try_recv() {
        assert!(matches!(request, Request::Clients), "{request:?}");
    }
}

/// The end of the turn before may be told after a prompt came: that says nothing about the prompt.
#[tokio::test]
async fn a_prompt_is_refused_only_when_its_own_turn_ended_without_it() {
    let mut host = Host::new();
    let client = host.connect(Hello::new("board", ClientKind::Cli)).await;
    let sender = client.sender();
    let prompt = WireOp::Prompt {
        content: "go on".into(),
        uuid: None,
    };
    let mut asking = lathe_spawn::task(async move { sender.request(prompt).await });
    loop {
        if let Some(Request::Op { id, done, .. }) = host.requests.recv().await {
            done.when_accepted(lathe_protocol::ids::RecordId(id));
            break;
        }
    }
    let state = |state| (host.send)(&Event::StateChanged(state));
    state(SessionState::Idle);
    state(SessionState::Running);
    tokio::task::yield_now().await;
    assert!(!asking.is_finished(), "{:?}", (&mut asking).await);
    state(SessionState::Idle);
    match asking.await.unwrap() {
        Err(OpError::Refused(nak)) => assert!(nak.why.contains("not accepted"), "{nak:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_prompt_that_the_session_kept_is_not_taken_again() {
    let mut host = Host::new();
    let uuid = lathe_protocol::ids::RecordId::random();
    let mut facts = facts(host.session);
    facts.waiting.push(uuid);
    host.hub.opened(&facts, &[]);
    let client = host.connect(Hello::new("board", ClientKind::Cli)).await;
    let prompt = WireOp::Prompt {
        content: "go on".into(),
        uuid: Some(uuid),
    };
    client.request(prompt).await.unwrap();
    while let Ok(request) = host.requests.try_recv() {
        assert!(matches!(request, Request::Clients), "{request:?}");
    }
}

#[tokio::test]
async fn a_question_is_answered_once_and_the_rest_see_who_did() {
    let mut host = Host::new();
    let first = host.connect(Hello::new("phone", ClientKind::Page)).await;
    let second = host.connect(Hello::new("laptop", ClientKind::Page)).await;
    let mut watching = host.follow(None);
    current(&mut watching).await;
    (host.send)(&Event::StateChanged(SessionState::Running));
    (host.send)(&question("q"));
    let late = host.follow(None);
    let mut late = late;
    let snapshot = current(&mut late).await.unwrap();
    assert_eq!(snapshot.state, HostState::NeedsYou);
    assert_eq!(snapshot.questions[0]["request"]["tool_name"], "Bash");

    let reply = || WireOp::PermissionReply {
        request_id: RequestId::from("q"),
        reply: PermissionReply::allow(),
    };
    let asking = [first.sender(), second.sender()]
        .map(|sender| lathe_spawn::task(async move { sender.request(reply()).await }));
    // The face: the first wins, and the engine says so a moment later.
    let mut winner = None;
    let mut answered = 0;
    while answered < 2 {
        let Some(Request::Op { by, done, .. }) = host.requests.recv().await else {
            continue;
        };
        answered += 1;
        if winner.is_none() {
            winner = Some(by);
            done.ok();
        } else {
            done.too_late(&RequestId::from("q"));
        }
    }
    (host.send)(&Event::PermissionResolved {
        request_id: RequestId::from("q"),
        reply: Some(PermissionReply::allow()),
        by: winner.clone(),
    });
    let mut refused = Vec::new();
    for asked in asking {
        if let Err(OpError::Refused(nak)) = asked.await.unwrap() {
            refused.push(nak);
        }
    }
    let [nak] = refused.as_slice() else {
        panic!("{refused:?}")
    };
    assert_eq!((nak.code, &nak.by), (NakCode::Answered, &winner));
    assert_eq!(nak.reply.as_ref().unwrap()["behavior"], "allow");
    loop {
        if let Update::Event { event, .. } = watching.next().await
            && event.get().contains("question_resolved")
        {
            let frame: serde_json::Value = serde_json::from_str(event.get()).unwrap();
            assert_eq!(frame["by"].as_str(), winner.as_deref());
            break;
        }
    }
    // Nobody answered a question that was withdrawn, and nobody knows one that never was.
    (host.send)(&question("w"));
    (host.send)(&Event::PermissionResolved {
        request_id: RequestId::from("w"),
        reply: None,
        by: None,
    });
    for (id, code) in [("w", NakCode::Withdrawn), ("never", NakCode::Unknown)] {
        let sender = first.sender();
        let asked = lathe_spawn::task(async move {
            let reply = PermissionReply::allow();
            let request_id = RequestId::from(id);
            sender
                .request(WireOp::PermissionReply { request_id, reply })
                .await
        });
        loop {
            if let Some(Request::Op { done, .. }) = host.requests.recv().await {
                done.too_late(&RequestId::from(id));
                break;
            }
        }
        match asked.await.unwrap() {
            Err(OpError::Refused(nak)) => assert_eq!(nak.code, code),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn garbage_does_not_end_the_session_or_other_clients() {
    use tokio::io::AsyncWriteExt as _;
    let host = Host::new();
    let mut follower = host.follow(None);
    current(&mut follower).await;
    for garbage in [
        &b"\n"[..],
        b"\xff\xfe\n",
        b"{\"hello\":{\"v\":99}}\n",
        b"{\"id\":1}\n",
        b"{\"hello\":{\"v\":1}}\n{\"in\":\"?\"}\n{\"op\":1}\nnot json\n",
    ] {
        let socket = host.folder.socket(&host.id);
        let mut stream = tokio::net::UnixStream::connect(socket).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer)
            .await
            .unwrap();
    }
    host.notice("event-1");
    assert_eq!(texts(&mut follower, "event-1").await.0, numbered(1, 1));
}

#[tokio::test]
async fn the_list_shows_the_state_and_the_end_is_told() {
    let host = Host::new();
    let client = host.connect(Hello::new("board", ClientKind::Cli)).await;
    let mut follower = host.follow(None);
    current(&mut follower).await;
    assert_eq!(host.folder.find("release").unwrap().unwrap().id, host.id);
    (host.send)(&question("q"));
    // The description is written a moment later.
    while host.folder.read(&host.id).map(|it| it.state) != Some(HostState::NeedsYou) {
        tokio::task::yield_now().await;
    }
    drop(client);
    host.hub.close("the session ended");
    loop {
        if let Update::Ended(why) = follower.next().await {
            assert_eq!(why, "the session ended");
            break;
        }
    }
    // A description that is being written keeps the files for a moment.
    while !host.folder.hosts().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_turn_that_somebody_stopped_is_listed_as_done_and_not_as_failed() {
    let host = Host::new();
    for (reason, failed) in [
        (TerminalReason::ApiError, true),
        (TerminalReason::AbortedTools, false),
        (TerminalReason::InternalError, true),
        (TerminalReason::AbortedStreaming, false),
    ] {
        (host.send)(&Event::TurnFinished(Arc::new(TurnResult {
            session_id: host.session,
            terminal_reason: reason,
            is_error: true,
            text: String::new(),
            errors: Vec::new(),
            stop_reason: None,
            num_turns: 1,
            duration: std::time::Duration::ZERO,
            duration_api: std::time::Duration::ZERO,
            usage: lathe_protocol::usage::Usage::default(),
            total_cost_usd: 0.0,
            model_usage: Default::default(),
            permission_denials: Vec::new(),
            api_error_status: None,
            structured_output: None,
            deferred_tool_use: None,
            origin: None,
            times: TurnTimes::default(),
        })));
        // The description is written a moment later.
        while host.folder.read(&host.id).map(|it| it.failed) != Some(failed) {
            tokio::task::yield_now().await;
        }
    }
}
