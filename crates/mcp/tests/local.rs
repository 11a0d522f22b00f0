//! Local servers, well-behaved and otherwise.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Home, LONG, call, local, one, reason, servers, state, until, wait_for};
use futures::future::BoxFuture;
use lathe_mcp::limits::{
    DESCRIPTION_CHARS, INSTRUCTIONS_CHARS, LIST_ITEMS, LIST_PAGES, LOG_BYTES, OPEN_QUESTIONS,
};
use lathe_mcp::{
    CallOptions, Change, Elicitation, ElicitationAnswer, Handlers, InProcess, Manager, McpError,
    MessageChannel, Offers, Root, SamplingRefused, ServerConfig, State, TransportConfig,
    UnknownServer,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_server_is_listed_called_read_and_completed() {
    let home = Home::default();
    let manager = one(&home, local(&["noise"])).await;
    let status = manager.server("s").unwrap();
    assert_eq!(status.state, State::Connected);
    let description = status.description.unwrap();
    assert_eq!(description.info["name"], "fixture");
    assert_eq!(description.protocol_version, "2025-11-25");
    assert_eq!(description.instructions.as_deref(), Some("Be kind."));
    assert!(
        manager
            .tools()
            .iter()
            .any(|tool| tool.item["name"] == "echo")
    );
    assert_eq!(
        call(&manager, "echo", json!({"text": "hello"}))
            .await
            .unwrap(),
        "hello"
    );
    assert_eq!(manager.resources()[0].item["uri"], "note://1");
    assert_eq!(
        manager.resource_templates()[0].item["uriTemplate"],
        "note://{id}"
    );
    let read = manager.read_resource("s", "note://1").await.unwrap();
    assert_eq!(read["contents"][0]["text"], "words");
    let prompt = manager
        .get_prompt("s", "greet", json!({"who": "Ada"}))
        .await
        .unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ada");
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let completed = manager.complete("s", reference, "who", "a").await.unwrap();
    assert_eq!(completed["completion"]["values"], json!(["ada", "alan"]));
    let error = call(&manager, "absent", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "no such tool absent (MCP error -32602)");
    let error = manager
        .call_tool("other", "x", json!({}), CallOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, McpError::Unknown(_)));
    // What isn't a message went to the log.
    assert!(home.log("s").contains("Welcome to the fixture!"));
    manager.shutdown().await;
}

#[tokio::test]
async fn the_protocol_era_of_a_server_is_remembered() {
    let home = Home::default();
    for probed in [1, 1] {
        let manager = one(&home, local(&[])).await;
        assert_eq!(state(&manager), State::Connected);
        manager.shutdown().await;
        assert_eq!(home.log("s").matches("<- server/discover").count(), probed);
    }
    assert_eq!(home.log("s").matches("<- initialize").count(), 2);
}

#[tokio::test]
async fn a_server_that_dies_of_the_newer_protocol_gets_the_older_one() {
    let home = Home::default();
    let manager = one(&home, local(&["dies-when-asked"])).await;
    assert_eq!(state(&manager), State::Connected);
    assert_eq!(
        call(&manager, "echo", json!({"text": "x"})).await.unwrap(),
        "x"
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn a_call_that_needs_a_page_is_repeated_when_the_page_is_complete() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    assert_eq!(call(&manager, "page", json!({})).await.unwrap(), "done");
    manager.shutdown().await;
    // Nobody is there to open it.
    let manager = Manager::new(home.options(), Arc::new(lathe_mcp::Nobody));
    manager.set_servers(servers([("s", local(&[]))]));
    assert!(manager.settled(LONG).await);
    let error = call(&manager, "page", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("a page is needed"), "{error}");
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_that_answers_one_list_wrongly_keeps_its_tools() {
    let home = Home::default();
    let manager = one(&home, local(&["wrong-prompts"])).await;
    assert_eq!(state(&manager), State::Connected);
    assert_eq!(
        call(&manager, "echo", json!({"text": "x"})).await.unwrap(),
        "x"
    );
    assert!(manager.prompts().is_empty());
    assert_eq!(manager.resources().len(), 1);
    let remarks = manager.server("s").unwrap().remarks;
    assert!(remarks[0].text.contains("Prompts"), "{remarks:?}");
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_that_never_answers_fails_alone() {
    let home = Home::default();
    let manager = home.manager();
    let mut silent = local(&["silent"]);
    silent.start_timeout = Some(Duration::from_millis(300));
    manager.set_servers(servers([("silent", silent), ("s", local(&[]))]));
    // A call of a server that is still being connected waits for it.
    assert_eq!(
        call(&manager, "echo", json!({"text": "x"})).await.unwrap(),
        "x"
    );
    assert!(manager.settled(LONG).await);
    let State::Failed { reason } = manager.server("silent").unwrap().state else {
        panic!("connected");
    };
    assert!(reason.contains("MCP_TIMEOUT"), "{reason}");
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let home = Home::default();
    let manager = one(&home, local(&["fails"])).await;
    assert_eq!(
        reason(&manager),
        "it ended with exit code 5; it said: a reason in red"
    );
    let absent = ServerConfig::stdio("no-such-program-anywhere", []);
    manager.set_servers(servers([("s", absent)]));
    assert!(manager.settled(LONG).await);
    assert!(
        reason(&manager).contains("no such program"),
        "{}",
        reason(&manager)
    );
    let error = call(&manager, "echo", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("no such program"), "{error}");
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_that_dies_is_restarted_once_and_then_only_on_request() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    let mut changes = manager.changes();
    let error = call(&manager, "die", json!({})).await.unwrap_err();
    assert!(matches!(error, McpError::Broken { .. }), "{error}");
    wait_for(&mut changes, |change| {
        matches!(
            change,
            Change::State {
                state: State::Connected,
                ..
            }
        )
    })
    .await;
    assert_eq!(
        call(&manager, "echo", json!({"text": "again"}))
            .await
            .unwrap(),
        "again"
    );

    call(&manager, "die", json!({})).await.unwrap_err();
    let notice = wait_for(&mut changes, |change| {
        matches!(change, Change::Notice { .. })
    })
    .await;
    let Change::Notice { text, .. } = notice else {
        unreachable!()
    };
    assert!(
        text.contains("exit code 7") && text.contains("I die now"),
        "{text}"
    );
    assert!(matches!(state(&manager), State::Failed { .. }));
    assert!(manager.tools().is_empty());
    assert!(call(&manager, "echo", json!({})).await.is_err());

    manager.reconnect("s").await.unwrap();
    assert_eq!(
        call(&manager, "echo", json!({"text": "back"}))
            .await
            .unwrap(),
        "back"
    );
    // It was told once.
    while let Ok(change) = changes.try_recv() {
        assert!(!matches!(change, Change::Notice { .. }));
    }
    manager.shutdown().await;
}

#[tokio::test]
async fn invalid_json_and_wrong_ids_are_ignored() {
    let home = Home::default();
    let manager = one(&home, local(&["invalid", "wrong-ids"])).await;
    for round in 0..3 {
        let text = format!("round {round}");
        assert_eq!(
            call(&manager, "echo", json!({"text": text})).await.unwrap(),
            text
        );
    }
    manager.shutdown().await;
}

#[tokio::test]
async fn a_flood_on_standard_error_is_bounded_and_stops_nothing() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    assert_eq!(call(&manager, "flood", json!({})).await.unwrap(), "flooded");
    assert_eq!(
        call(&manager, "echo", json!({"text": "x"})).await.unwrap(),
        "x"
    );
    let path = lathe_mcp::log::path(&home.options().home, "s");
    assert!(std::fs::metadata(path).unwrap().len() <= LOG_BYTES);
    manager.shutdown().await;
}

#[tokio::test]
async fn lists_are_cut_to_size_with_a_remark() {
    let home = Home::default();
    let manager = home.manager();
    manager.set_servers(servers([
        ("long", local(&["long"])),
        ("all", local(&["many=10000"])),
        ("more", local(&["many=10001"])),
        ("endless", local(&["endless"])),
    ]));
    assert!(manager.settled(LONG).await);
    let status = |name: &str| manager.server(name).unwrap();
    let description = status("long").tools[0]["description"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(description.chars().count(), DESCRIPTION_CHARS);
    assert_eq!(status("all").tools.len(), LIST_ITEMS);
    assert!(status("all").remarks.is_empty());
    assert_eq!(status("more").tools.len(), LIST_ITEMS);
    assert!(status("more").remarks[0].text.contains("only the first"));
    assert_eq!(status("endless").tools.len(), LIST_PAGES);
    assert!(status("endless").remarks[0].text.contains("pages"));
    manager.shutdown().await;
}

#[tokio::test]
async fn a_malicious_server_shows_nothing_it_should_not() {
    let home = Home::default();
    let manager = one(&home, local(&["evil"])).await;
    let status = manager.server("s").unwrap();
    let names: Vec<_> = status
        .tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["good", "Bash"]);
    assert_eq!(status.tools[0]["description"], "plain");
    assert_eq!(status.tools[0]["annotations"]["title"], "red");
    assert_eq!(status.remarks.len(), 4, "{:?}", status.remarks);
    assert!(!format!("{:?}", status.remarks).contains("\\u{1b}"));
    let instructions = status.description.unwrap().instructions.clone().unwrap();
    assert_eq!(instructions.chars().count(), INSTRUCTIONS_CHARS + 1);
    manager.shutdown().await;
}

#[tokio::test]
async fn a_message_without_end_ends_the_connection_and_not_us() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    let error = call(&manager, "huge", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("more than 64 MB"), "{error}");
    manager.shutdown().await;
}

#[tokio::test]
async fn a_changed_list_is_read_again_and_reported() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    let mut changes = manager.changes();
    call(&manager, "change", json!({"name": "fresh"}))
        .await
        .unwrap();
    // What was announced before the answer is there with it.
    let names = manager.tools();
    assert!(names.iter().any(|tool| tool.item["name"] == "fresh"));
    wait_for(
        &mut changes,
        |change| matches!(change, Change::Tools { server } if server == "s"),
    )
    .await;
    assert!(
        manager
            .tools()
            .iter()
            .any(|tool| tool.item["name"] == "fresh")
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled_at_the_server() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    let cancelled = |count: usize| home.log("s").matches("cancelled ").count() == count;
    let hangs = |count: usize| home.log("s").matches("hanging").count() == count;

    let token = CancellationToken::new();
    let options = CallOptions {
        cancel: token.clone(),
        ..CallOptions::default()
    };
    let (outcome, ()) = tokio::join!(manager.call_tool("s", "hang", json!({}), options), async {
        until(|| hangs(1)).await;
        token.cancel();
    });
    assert_eq!(outcome, Err(McpError::Cancelled));
    until(|| cancelled(1)).await;

    let options = CallOptions {
        timeout: Some(Duration::from_millis(50)),
        ..CallOptions::default()
    };
    let outcome = manager.call_tool("s", "hang", json!({}), options).await;
    assert!(
        matches!(outcome, Err(McpError::Timeout { .. })),
        "{outcome:?}"
    );
    until(|| cancelled(2)).await;

    let dropped = {
        let manager = manager.clone();
        tokio::spawn(async move {
            manager
                .call_tool("s", "hang", json!({}), CallOptions::default())
                .await
        })
    };
    until(|| hangs(3)).await;
    dropped.abort();
    until(|| cancelled(3)).await;
    assert_eq!(
        call(&manager, "echo", json!({"text": "x"})).await.unwrap(),
        "x"
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn progress_logs_and_updates_arrive_clean() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    let mut changes = manager.changes();
    let (sender, mut steps) = mpsc::channel(16);
    let options = CallOptions {
        progress: Some(sender),
        ..CallOptions::default()
    };
    manager
        .call_tool("s", "progress", json!({}), options)
        .await
        .unwrap();
    // All of it was told before the answer, however fast the answer came.
    assert_eq!(steps.len(), 3);
    let first = steps.recv().await.unwrap();
    assert_eq!(
        (
            first.total,
            first.message.as_deref().map(|text| text.contains('\u{1b}'))
        ),
        (Some(3.0), Some(false))
    );

    // A server with a log gets the minimum level.
    until(|| home.log("s").contains("level info")).await;
    call(&manager, "log", json!({})).await.unwrap();
    let log = wait_for(&mut changes, |change| matches!(change, Change::Log { .. })).await;
    assert!(
        matches!(log, Change::Log { level, text, .. } if level == "warning" && text == "careful!")
    );

    manager.subscribe("s", "note://1").await.unwrap();
    let updated = wait_for(&mut changes, |change| {
        matches!(change, Change::ResourceUpdated { .. })
    })
    .await;
    assert!(matches!(updated, Change::ResourceUpdated { uri, .. } if uri == "note://1"));
    manager.shutdown().await;
}

#[tokio::test]
async fn the_level_of_logs_is_chosen() {
    let home = Home::default();
    let mut environment = home.environment();
    let level = ("LATHE_MCP_LOG_LEVEL".to_owned(), "Error".to_owned());
    environment.variables.extend([level]);
    let options = lathe_mcp::Options::new(environment, "0");
    let manager = Manager::new(options, Arc::new(common::Person));
    manager.set_servers(servers([("s", local(&[]))]));
    until(|| home.log("s").contains("level error")).await;
    manager.shutdown().await;
}

#[tokio::test]
async fn servers_may_ask_for_folders_for_a_form_and_for_a_model() {
    let home = Home::default();
    let manager = one(&home, local(&[])).await;
    let answer = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let roots = answer(call(&manager, "roots", json!({})).await.unwrap());
    assert_eq!(roots["roots"][0]["uri"], "file:///work");
    let form = answer(call(&manager, "elicit", json!({})).await.unwrap());
    assert_eq!(form["action"], "accept");
    // Unchanged fields have their default, the others the given value.
    assert_eq!(form["content"], json!({"name": "Ada", "age": 7}));
    let sampled = answer(call(&manager, "sample", json!({})).await.unwrap());
    assert_eq!(sampled["content"]["text"], "5 tokens");
    manager.shutdown().await;
}

/// Answers questions on request.
struct Slow(tokio::sync::Semaphore);

impl Handlers for Slow {
    fn offers(&self) -> Offers {
        common::Person.offers()
    }

    fn roots(&self) -> Vec<Root> {
        Vec::new()
    }

    fn elicit<'a>(&'a self, _: &'a str, _: Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async {
            self.0.acquire().await.unwrap().forget();
            ElicitationAnswer::Cancel
        })
    }

    fn sample<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, SamplingRefused>> {
        Box::pin(async { Err(SamplingRefused("no".to_owned())) })
    }
}

#[tokio::test]
async fn a_server_cannot_bury_the_person_in_questions_or_us_in_notifications() {
    let home = Home::default();
    let slow = Arc::new(Slow(tokio::sync::Semaphore::new(0)));
    let manager = Manager::new(home.options(), slow.clone());
    manager.set_servers(servers([("s", local(&[]))]));
    assert!(manager.settled(LONG).await);
    let declined = || home.log("s").matches("one was declined").count();
    let answered = tokio::join!(call(&manager, "elicit-many", json!({})), async {
        until(|| declined() == 40 - OPEN_QUESTIONS).await;
        slow.0.add_permits(OPEN_QUESTIONS);
    });
    let answers = answered.0.unwrap();
    assert_eq!(answers.matches("cancel").count(), OPEN_QUESTIONS);

    // They are handled side by side: each is listened for by itself.
    let listening = [
        ("notifications/small", json!({"x": 1}), manager.changes()),
        ("notifications/big", Value::Null, manager.changes()),
    ];
    call(&manager, "custom", json!({})).await.unwrap();
    for (wanted, held, mut changes) in listening {
        let told = wait_for(
            &mut changes,
            |change| matches!(change, Change::Notification { method, .. } if method == wanted),
        )
        .await;
        assert!(matches!(told, Change::Notification { params, .. } if params == held));
    }
    manager.shutdown().await;
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_does_not_want_to_end() {
    let home = Home::default();
    let pids = home.path().join("pids");
    let manager = one(
        &home,
        local(&["stubborn", &format!("pids={}", pids.display())]),
    )
    .await;
    let written = std::fs::read_to_string(&pids).unwrap();
    manager.shutdown().await;
    for pid in written.split(' ') {
        let status = std::path::PathBuf::from(format!("/proc/{pid}/stat"));
        // Gone, or a zombie that its new parent has not reaped.
        until(|| std::fs::read_to_string(&status).map_or(true, |text| text.contains(") Z "))).await;
    }
}

#[tokio::test]
async fn a_server_ends_with_its_manager_and_inherits_no_keys_of_ours() {
    let home = Home::default();
    let mut options = home.options();
    let variables = &mut options.environment.variables;
    variables.insert("ANTHROPIC_API_KEY".to_owned(), "sesame".to_owned());
    variables.insert("PLAIN".to_owned(), "inherited".to_owned());
    let manager = Manager::new(options, Arc::new(common::Person));
    manager.set_servers(servers([("s", local(&[]))]));
    assert!(manager.settled(LONG).await);
    let pid = call(&manager, "pid", json!({})).await.unwrap();
    let given = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let given = String::from_utf8_lossy(&given).into_owned();
    assert!(given.contains("PLAIN=inherited") && !given.contains("sesame"));
    drop(manager);
    until(|| !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
}

#[tokio::test]
async fn three_local_servers_start_at_a_time() {
    let home = Home::default();
    let times = home.path().join("times");
    let habits = ["slow=0.05".to_owned(), format!("times={}", times.display())];
    let habits: Vec<&str> = habits.iter().map(String::as_str).collect();
    let manager = home.manager();
    let names: Vec<String> = (0..7).map(|number| format!("s{number}")).collect();
    manager.set_servers(
        names
            .iter()
            .map(|name| (name.clone(), local(&habits)))
            .collect(),
    );
    assert!(manager.settled(LONG).await);
    assert!(
        manager
            .status()
            .iter()
            .all(|status| status.state == State::Connected)
    );
    let text = std::fs::read_to_string(&times).unwrap();
    let mut moments: Vec<(f64, i32)> = text
        .lines()
        .map(|line| {
            let (kind, moment) = line.split_once(' ').unwrap();
            (
                moment.parse().unwrap(),
                if kind == "start" { 1 } else { -1 },
            )
        })
        .collect();
    moments.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let mut running = 0;
    for (_, change) in moments {
        running += change;
        assert!(running <= 3);
    }
    manager.shutdown().await;
}

#[tokio::test]
async fn servers_come_and_go_and_are_switched() {
    let home = Home::default();
    let manager = home.manager();
    let mut off = local(&[]);
    off.disabled = true;
    let set = manager.set_servers(servers([("s", local(&[])), ("off", off.clone())]));
    assert_eq!(set.added, ["s", "off"]);
    assert!(manager.settled(LONG).await);
    assert_eq!(manager.server("off").unwrap().state, State::Disabled);
    let before = call(&manager, "pid", json!({})).await.unwrap();

    // The same configuration leaves a connection alone; another one replaces it.
    let set = manager.set_servers(servers([("s", local(&[])), ("off", off)]));
    assert_eq!((set.added.len(), set.removed.len()), (0, 0));
    assert_eq!(call(&manager, "pid", json!({})).await.unwrap(), before);
    let set = manager.set_servers(servers([("s", local(&["noise"]))]));
    assert_eq!(
        (set.added, set.removed),
        (vec!["s".to_owned()], vec!["off".to_owned()])
    );
    assert_ne!(call(&manager, "pid", json!({})).await.unwrap(), before);

    manager.set_enabled("s", false).await.unwrap();
    assert_eq!(state(&manager), State::Disabled);
    assert!(manager.tools().is_empty());
    assert!(
        call(&manager, "echo", json!({}))
            .await
            .unwrap_err()
            .to_string()
            .contains("disabled")
    );
    manager.set_enabled("s", true).await.unwrap();
    assert_eq!(
        call(&manager, "echo", json!({"text": "on"})).await.unwrap(),
        "on"
    );
    assert!(matches!(
        manager.set_enabled("gone", true).await,
        Err(McpError::Unknown(_))
    ));
    let frame = manager.server("s").unwrap().to_frame();
    assert_eq!(frame["status"], "connected");
    assert_eq!(
        frame["serverInfo"],
        json!({"name": "fixture", "version": "1"})
    );
    manager.shutdown().await;
    assert!(manager.status().is_empty());
}

/// A host with one server, which answers by hand.
struct Host;

impl InProcess for Host {
    fn open(&self, name: &str) -> Result<MessageChannel, UnknownServer> {
        if name != "calculator" {
            return Err(UnknownServer(name.to_owned()));
        }
        let (outgoing, mut asked) = mpsc::channel::<Value>(8);
        let (answers, incoming) = mpsc::channel(8);
        tokio::spawn(async move {
            while let Some(message) = asked.recv().await {
                let result = match message["method"].as_str().unwrap() {
                    "initialize" => json!({
                        "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                        "serverInfo": {"name": "calculator", "version": "1"},
                    }),
                    "tools/list" => {
                        json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}]})
                    }
                    "tools/call" => {
                        let arguments = &message["params"]["arguments"];
                        let sum =
                            arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
                        json!({"content": [{"type": "text", "text": sum.to_string()}]})
                    }
                    method => {
                        assert!(message.get("id").is_none(), "{method}");
                        continue;
                    }
                };
                answers
                    .send(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
                    .await
                    .unwrap();
            }
        });
        Ok(MessageChannel { outgoing, incoming })
    }
}

#[tokio::test]
async fn a_server_in_a_host_is_a_server_like_any_other() {
    let home = Home::default();
    let mut options = home.options();
    options.in_process = Some(Arc::new(Host));
    let manager = Manager::new(options, Arc::new(common::Person));
    let sdk = |name: &str| {
        ServerConfig::new(TransportConfig::Sdk {
            name: name.to_owned(),
        })
    };
    manager.set_servers(servers([("s", sdk("calculator")), ("gone", sdk("gone"))]));
    assert!(manager.settled(LONG).await);
    assert_eq!(
        call(&manager, "add", json!({"a": 2, "b": 3}))
            .await
            .unwrap(),
        "5"
    );
    let State::Failed { reason } = manager.server("gone").unwrap().state else {
        panic!()
    };
    assert_eq!(reason, "there is no server gone");
    manager.shutdown().await;
}
