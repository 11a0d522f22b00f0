//! The ways into a session from elsewhere: addresses for `attach`, answers from several places at once, and what a command of the
//! session itself gets there.

use super::{ALLOWED, Stage, gated, runtime, wait};
use lathe_protocol::permission::PermissionReply;
use lathe_scripted::Reply;
use lathe_testkit::{Running, binary, processes};
use lathe_wire::{Client, HostFrame, HostState, NakCode, OpError, WireOp};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Barrier};

impl Stage {
    /// A server, and the beginning of its links.
    pub(super) fn serve(&self, port: &str, arguments: &[&str]) -> (Running, String) {
        let words = [&["serve", "--port", port], arguments].concat();
        let serving = self.home.spawn(words);
        serving.wait_for_stdout("open the page");
        let said = serving.stdout_so_far();
        let (_, rest) = said.split_once("serving ").unwrap();
        (serving, rest.lines().next().unwrap().trim().to_owned())
    }

    /// The link of `lathe web` to a session.
    fn link(&self, scope: &str, id: &str) -> String {
        let printed = self.home.run(["web", "--print", "--scope", scope, id], "");
        assert_eq!(printed.code(), Some(0), "{printed:?}");
        printed.stdout.lines().next().unwrap().to_owned()
    }

    /// The token of a new device.
    pub(super) fn token(&self, name: &str, scope: &str) -> String {
        let printed = self
            .home
            .run(["devices", "add", name, "--scope", scope], "");
        assert_eq!(printed.code(), Some(0), "{printed:?}");
        printed.stdout.lines().next().unwrap().to_owned()
    }
}

/// The status and the body of a request.
fn http(server: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let host = server.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn links_sockets_and_ssh_all_open_the_terminal() {
    let answers = ["first", "second", "third", "fourth"];
    let stage = Stage::with(
        answers.map(|word| Reply::text(format!("{word} answer"))),
        |home| {
            // An ssh that goes nowhere: the rest of its arguments is the command, in an environment of its own.
            let ssh = home.root().join("bin/ssh");
            std::fs::create_dir_all(ssh.parent().unwrap()).unwrap();
            let lathe = binary::lathe();
            let script = format!(
                "#!/bin/sh\nshift 5\nexec env -i HOME=\"$HOME\" PATH=\"$PATH\" LATHE_CONFIG_DIR=\"$LATHE_CONFIG_DIR\" {} \"$@\"\n",
                lathe.display()
            );
            std::fs::write(&ssh, script).unwrap();
            std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
            let path = std::env::var("PATH").unwrap();
            home.variable(
                "PATH",
                format!("{}:{path}", ssh.parent().unwrap().display()),
            )
        },
    );
    let id = stage.background(&["one"]);
    let host = stage.wait_state(HostState::Idle);
    let (_serving, server) = stage.serve("0", &["--allow-widening"]);
    let session = host.session_id;
    let link = stage.link("admin", &id);
    assert!(
        link.starts_with(&format!("{server}/s/{session}#c=")),
        "{link}"
    );
    let socket = format!("unix:{}", stage.folder().socket(&host.id).display());
    let bare = format!("{server}/s/{session}");
    let ssh = format!("ssh:box/{id}");
    // The code admits this machine once; afterwards the address is enough.
    let places = [(&link, "two"), (&bare, "three"), (&socket, "four")];
    for ((place, words), answer) in places.into_iter().zip(&answers[1..]) {
        let mut terminal = stage.home.terminal(["attach", place], 100, 30);
        terminal.wait_for("first answer");
        terminal.say(words);
        terminal.wait_for(&format!("{answer} answer"));
        terminal.say("/bg");
        assert_eq!(terminal.ended().code(), Some(0), "{place}");
    }
    let mut terminal = stage.home.terminal(["attach", &ssh], 100, 30);
    terminal.wait_for("fourth answer");
    terminal.say("/bg");
    assert_eq!(terminal.ended().code(), Some(0));
    assert_eq!(stage.prompts(), ["one", "two", "three", "four"]);

    // Typing at a terminal is everything: it needs the widest scope, and a code works once.
    let refused = |place: &str, words: &str| {
        let mut terminal = stage.home.terminal(["attach", place], 100, 30);
        terminal.wait_for(words);
        terminal.ended();
    };
    refused(&link, "was used");
    refused(&stage.link("approve", &id), "needs the scope admin");
    refused(&format!("{server}/s/none"), "no live session");
    let kept = stage.home.config().join("server/remotes.json");
    let mode = std::fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let _ = stage.home.run(["stop", &id], "");
}

/// An editor that has a session of another process open.
struct Editor {
    program: Running,
    asked: usize,
}

impl Editor {
    fn open(stage: &Stage, session: &str) -> Self {
        let mut program = stage.home.spawn(["acp"]);
        let folder = stage.home.project();
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "session/load",
                "params": {"sessionId": session, "cwd": folder, "mcpServers": []}}),
        ] {
            program.write(format!("{message}\n").as_bytes());
        }
        Self { program, asked: 0 }
    }

    /// Waits for the next permission question; gives the answer that allows the call once.
    fn question(&mut self) -> String {
        let mut found = None;
        wait("the editor's question", || {
            let said = self.program.stdout_so_far();
            let complete = said.rfind('\n').map_or("", |end| &said[..end]);
            let frames = complete
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let mut asked = frames.filter(|frame| frame["method"] == "session/request_permission");
            found = asked.nth(self.asked);
            found.is_some()
        });
        self.asked += 1;
        let frame = found.unwrap();
        let options = frame["params"]["options"].as_array().unwrap();
        let once = options.iter().find(|option| option["kind"] == "allow_once");
        let outcome = json!({"outcome": "selected", "optionId": once.unwrap()["optionId"]});
        format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": frame["id"], "result": {"outcome": outcome}})
        )
    }
}

/// A program that drives the session over the wire, and its answer to a question.
struct Driver {
    program: Running,
    operation: String,
}

impl Driver {
    const OPERATION: &str = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e";

    fn open(stage: &Stage, id: &str, question: &str, round: usize) -> Self {
        let mut program = stage.home.spawn(["attach", "--stdio", id]);
        program.write(b"{\"hello\":{\"v\":1,\"client\":\"sdk host\",\"kind\":\"sdk\"}}\n");
        program.wait_for_stdout("\"snapshot\"");
        let reply = json!({"type": "permission_reply", "request_id": question, "reply": {"behavior": "allow"}});
        let operation = json!({"id": format!("{}{round:02}", Self::OPERATION), "op": reply});
        Self {
            program,
            operation: format!("{operation}\n"),
        }
    }

    /// The frame that answers its answer.
    fn answered(&self) -> Value {
        let mut found = None;
        wait("the answer to the driver", || {
            let said = self.program.stdout_so_far();
            let complete = said.rfind('\n').map_or("", |end| &said[..end]);
            let frames = complete
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let mut answers =
                frames.filter(|frame| !frame["ack"].is_null() || !frame["nak"].is_null());
            found = answers.next();
            found.is_some()
        });
        found.unwrap()
    }
}

/// A terminal, a page, a phone, an editor, a program on the wire and a hook answer at the same moment: one of them is heard, once,
/// and all others see who.
#[test]
fn an_approval_is_answered_once_wherever_the_answers_come_from() {
    const ROUNDS: usize = 3;
    let replies = (0..ROUNDS).flat_map(|_| {
        let call = json!({"command": "echo ran >> runs"});
        [Reply::tool_use("Bash", call), Reply::text("ran it")]
    });
    let stage = Stage::new(replies);
    // A hook that takes its time, and answers beside the others.
    let allow = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}});
    let project = stage.home.project();
    let gate = project.join("gate").display().to_string();
    let command = format!("while [ ! -e {gate} ]; do sleep 0.01; done; echo '{allow}'");
    let hooks = json!({"hooks": {"PermissionRequest": [{"hooks": [{"type": "command", "command": command}]}]}});
    std::fs::write(stage.home.config().join("settings.json"), hooks.to_string()).unwrap();
    let (_serving, server) = stage.serve("0", &[]);
    let token = stage.token("phone", "approve");
    let id = stage.background(&["begin"]);
    let terminal = stage.home.terminal(["attach", &id], 100, 30);
    let mut editor = Editor::open(&stage, &stage.host().session_id.to_string());
    for round in 0..ROUNDS {
        let host = stage.wait_state(HostState::NeedsYou);
        let (laptop, snapshot) = runtime().block_on(stage.connect("laptop"));
        drop(laptop);
        let question = snapshot.questions[0]["request_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("/v1/sessions/{}/questions/{question}", host.session_id);
        let allowed = editor.question();
        let mut driver = Driver::open(&stage, &id, &question, round);
        let together = Arc::new(Barrier::new(6));
        let by_phone = {
            let (server, token) = (server.clone(), token.clone());
            let together = Arc::clone(&together);
            std::thread::spawn(move || {
                together.wait();
                http(
                    &server,
                    "POST",
                    &path,
                    &token,
                    r#"{"reply":{"behavior":"allow"}}"#,
                )
            })
        };
        let by_hook = {
            let (gate, together) = (gate.clone(), Arc::clone(&together));
            std::thread::spawn(move || {
                together.wait();
                std::fs::write(gate, "").unwrap();
            })
        };
        let by_laptop = std::thread::scope(|scope| {
            let here = Arc::clone(&together);
            let stage = &stage;
            let question = question.clone();
            let asking = scope.spawn(move || {
                runtime().block_on(async {
                    let (mut client, _) = stage.connect("laptop").await;
                    here.wait();
                    answered(&mut client, &question).await
                })
            });
            let (here, editing) = (Arc::clone(&together), &mut editor.program);
            scope.spawn(move || {
                here.wait();
                editing.write(allowed.as_bytes());
            });
            let (here, driving) = (Arc::clone(&together), &mut driver);
            scope.spawn(move || {
                here.wait();
                driving.program.write(driving.operation.as_bytes());
            });
            together.wait();
            terminal.send("\r");
            asking.join().unwrap()
        });
        by_hook.join().unwrap();
        let (status, body) = by_phone.join().unwrap();
        let (laptop_won, winner) = by_laptop;
        assert_eq!(winner == "laptop", laptop_won, "round {round}: {winner}");
        match status {
            200 => assert_eq!(winner, "phone", "round {round}"),
            409 => assert_eq!(body["by"], winner.as_str(), "round {round}: {body}"),
            _ => panic!("round {round}: {status} {body}"),
        }
        let answer = driver.answered();
        match winner.as_str() {
            "sdk host" => assert!(!answer["ack"].is_null(), "round {round}: {answer}"),
            _ => assert_eq!(answer["by"], winner.as_str(), "round {round}: {answer}"),
        }
        wait("the call", || {
            let runs = std::fs::read_to_string(project.join("runs")).unwrap_or_default();
            runs.lines().count() == round + 1
        });
        stage.wait_state(HostState::Idle);
        std::fs::remove_file(&gate).unwrap();
        if round + 1 < ROUNDS {
            runtime().block_on(async {
                let (client, _) = stage.connect("laptop").await;
                let content = format!("again {round}").into();
                let prompt = WireOp::Prompt {
                    content,
                    uuid: None,
                };
                client.request(prompt).await.unwrap();
            });
        }
    }
    assert_eq!(stage.home.read("runs").lines().count(), ROUNDS);
    drop(terminal);
    let _ = stage.home.run(["stop", &id], "");
}

/// Answers a question; whether that was the first answer, and whose was.
async fn answered(client: &mut Client, question: &str) -> (bool, String) {
    let sender = client.sender();
    let op = WireOp::PermissionReply {
        request_id: question.to_owned().into(),
        reply: PermissionReply::allow(),
    };
    let asking = sender.request(op);
    tokio::pin!(asking);
    let mut result = None;
    let mut winner = None;
    loop {
        tokio::select! {
            answer = &mut asking, if result.is_none() => result = Some(answer),
            frame = client.next() => if let Ok(Some(HostFrame::Event { event, .. })) = frame {
                let event: Value = serde_json::from_str(event.get()).unwrap();
                if event["type"] == "question_resolved" && event["request_id"] == question {
                    winner = Some(event["by"].as_str().unwrap_or_default().to_owned());
                }
            },
        }
        match (&result, &winner) {
            (Some(Ok(())), Some(winner)) => return (true, winner.clone()),
            (Some(Err(OpError::Refused(nak))), _) => {
                assert_eq!(nak.code, NakCode::Answered, "{nak:?}");
                return (false, nak.by.clone().unwrap_or_default());
            }
            (Some(Err(error)), _) => panic!("{error}"),
            _ => {}
        }
    }
}

/// A command of the session tries the server: without a token, with what lies in its folder, with a device or a link of its own,
/// as itself and as a child that left it.
#[test]
fn a_command_of_a_session_gets_no_token_and_no_answer() {
    let lathe = binary::lathe();
    let lathe = lathe.to_string_lossy();
    let alone = "env -i HOME=$HOME PATH=$PATH LATHE_CONFIG_DIR=$LATHE_CONFIG_DIR setsid";
    let tries = [
        format!("{lathe} devices add me --scope admin > try-1 2>&1"),
        format!("{lathe} web --print --scope admin > try-2 2>&1"),
        format!("{alone} {lathe} devices add me --scope admin > try-3 2>&1"),
        format!("{alone} sh -c '{lathe} devices pair > try-4 2>&1'"),
        format!("{lathe} serve --port 0 > try-5 2>&1"),
        "cat $LATHE_CONFIG_DIR/server/* > try-6 2>&1".to_owned(),
    ];
    let calls = [
        gated(),
        Reply::tool_use("Bash", json!({"command": tries.join("; ")})),
        Reply::text("tried it"),
    ];
    let stage = Stage::with(calls, |home| {
        let log = home.root().join("log").display().to_string();
        home.variable("LATHE_LOG", "trace")
            .variable("LATHE_LOG_FILE", log)
    });
    let (_serving, server) = stage.serve("0", &[]);
    let token = stage.token("phone", "admin");
    let id = stage.background(&["begin", ALLOWED[0], ALLOWED[1]]);
    let session = stage.host().session_id;
    assert_eq!(http(&server, "GET", "/v1/sessions", &token, "").0, 200);
    stage.home.write("gate", "");
    stage.wait_activity("tried it");
    for number in 1..=5 {
        let text = stage.home.read(format!("try-{number}"));
        assert!(
            text.contains("a program that a session started"),
            "{number}: {text}"
        );
    }
    let devices: Value =
        serde_json::from_str(&stage.home.run(["devices", "--json"], "").stdout).unwrap();
    assert_eq!(devices.as_array().unwrap().len(), 1, "{devices}");
    // What the command could read admits nobody: hashes and addresses.
    let read = stage.home.read("try-6");
    assert!(read.contains("\"hash\""), "{read}");
    let device: Value = serde_json::from_str(
        &std::fs::read_to_string(stage.home.config().join("server/devices.json")).unwrap(),
    )
    .unwrap();
    let hash = device["devices"][0]["hash"].as_str().unwrap();
    for guess in ["", hash, &id] {
        let path = format!("/v1/sessions/{session}/ops");
        let op = r#"{"op":{"type":"set_mode","mode":"bypassPermissions"}}"#;
        assert_eq!(http(&server, "POST", &path, guess, op).0, 401, "{guess}");
    }
    // And the token is nowhere that others read.
    let session = session.to_string();
    let words: [&[&str]; 5] = [
        &["logs", &id],
        &["ps", "--json"],
        &["sessions", "export", &session, "--format", "json"],
        &["sessions", "show", &session],
        &["devices"],
    ];
    for arguments in words {
        let output = stage.home.run(arguments, "");
        assert_eq!(output.code(), Some(0), "{arguments:?}: {output:?}");
        assert!(!output.stdout.contains(&token), "{arguments:?}");
    }
    let log = std::fs::read_to_string(stage.home.root().join("log")).unwrap();
    assert!(!log.is_empty() && !log.contains(&token));
    for process in processes::of_home(&stage.home) {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(&token), "ps");
    }
    let _ = stage.home.run(["stop", &id], "");
}

/// The memory of a process, in bytes.
fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap() * 1024
}

#[test]
fn two_hundred_clients_of_one_session_miss_nothing_and_cost_little() {
    const CLIENTS: usize = 200;
    const MOST: u64 = 50 * 1024 * 1024;
    let stage = Stage::new([
        Reply::text("first answer"),
        Reply::text("word ".repeat(300)).delta_characters(5),
    ]);
    let id = stage.background(&["one"]);
    let host = stage.wait_activity("first answer");
    let before = resident(host.pid);
    runtime().block_on(async {
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let (client, snapshot) = stage.connect(&number.to_string()).await;
            clients.push((client, snapshot.seq));
        }
        // One of them reads nothing, and harms nobody.
        let (stalled, _) = clients.pop().unwrap();
        let content = "two".to_owned().into();
        let prompt = WireOp::Prompt {
            content,
            uuid: None,
        };
        stalled.request(prompt).await.unwrap();
        for (number, (client, last)) in clients.iter_mut().enumerate() {
            loop {
                let HostFrame::Event { seq, event } = client.next().await.unwrap().unwrap() else {
                    continue;
                };
                assert_eq!(seq, *last + 1, "client {number}");
                *last = seq;
                if event.get().contains("\"type\":\"result\"") {
                    break;
                }
            }
        }
        let now = resident(host.pid);
        assert!(
            now.saturating_sub(before) <= MOST,
            "{before} bytes, now {now}"
        );
        drop((clients, stalled));
    });
    let _ = stage.home.run(["stop", &id], "");
}
