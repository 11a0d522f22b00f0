//! The cost of a session that is not in this terminal: the echo of a key through its socket beside one in the same process, a client
//! that comes back far behind, and many clients at once.

use super::{median, megabytes, milliseconds, row};
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_settings::Environment;
use lathe_testkit::{Terminal, TestHome};
use lathe_wire::{
    Client, ClientKind, Cursor, Folder, Hello, HostFrame, HostInfo, HostState, WireOp,
};
use std::time::{Duration, Instant};

/// Events that a client misses.
const MISSED: usize = 10_000;
/// Clients of one session.
const CLIENTS: usize = 200;

pub(super) fn rows() {
    let pieces = "word ".repeat(MISSED + 2_000);
    let scenario = Scenario::new()
        .reply(Reply::text("first"))
        .reply(Reply::text(pieces).delta_characters(5));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server)
        .variable("TERM", "xterm-256color")
        .variable("LATHE_PROMPT_SUGGESTIONS", "0")
        .variable("LATHE_MEMORY_EXTRACTION", "off");
    let mut own = home.terminal::<&str>([], 100, 30);
    own.wait_for("claude");
    let here = echo(&own);
    own.leave();
    let _ = home.run(["--bg", "hello"], "");
    let folder = {
        let config = home.config().to_string_lossy().into_owned();
        Folder::of(&Environment::of_variables([("LATHE_CONFIG_DIR", config)]))
    };
    let host = idle(&folder);
    let attached = home.terminal(["attach", host.id.as_str()], 100, 30);
    attached.wait_for("first");
    let there = echo(&attached);
    drop(attached);
    row(
        "attached: key to echo, and in the same process",
        &format!("{:.2} / {:.2} ms", milliseconds(there), milliseconds(here)),
        "≤ 2 ms more",
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let before = resident(&host);
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(connect(&folder, &host, None).await.0);
        }
        row(
            "attached: memory for 200 clients",
            &format!(
                "{:.1} MB",
                megabytes(resident(&host).saturating_sub(before))
            ),
            "≤ 50 MB",
        );
        drop(clients);
        let (client, cursor) = connect(&folder, &host, None).await;
        let content = "write".to_owned().into();
        let _ = client
            .request(WireOp::Prompt {
                content,
                uuid: None,
            })
            .await;
        drop(client);
        // Nothing else runs here: the thread may wait.
        idle(&folder);
        let started = Instant::now();
        let (_, now) = connect(&folder, &host, Some(cursor.clone())).await;
        row(
            "attached: current again, events behind",
            &format!(
                "{:.1} ms, {}",
                milliseconds(started.elapsed()),
                now.seq - cursor.seq
            ),
            "≤ 200 ms",
        );
    });
    let _ = home.run(["stop", host.id.as_str()], "");
}

/// The middle time from a key to its echo.
fn echo(terminal: &Terminal) -> Duration {
    let mut typed = String::new();
    let times = (0..60)
        .map(|index| {
            typed.push(char::from(b'a' + index % 26));
            let wanted = format!("❯ {typed}");
            let pressed = Instant::now();
            terminal.send(&typed[typed.len() - 1..]);
            terminal.wait_for(&wanted);
            pressed.elapsed()
        })
        .collect();
    terminal.send("\u{15}");
    median(times)
}

fn idle(folder: &Folder) -> HostInfo {
    loop {
        let host = folder.hosts().unwrap().pop();
        if let Some(host) =
            host.filter(|host| host.state == HostState::Idle && host.activity.is_some())
        {
            return host;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Connects and reads until everything is there.
async fn connect(folder: &Folder, host: &HostInfo, after: Option<Cursor>) -> (Client, Cursor) {
    let mut hello = Hello::new("bench", ClientKind::Page);
    hello.after.clone_from(&after);
    let mut client = Client::connect(folder, &host.id, hello).await.unwrap();
    let mut epoch = after.map(|after| after.epoch).unwrap_or_default();
    loop {
        match client.next().await.unwrap().unwrap() {
            HostFrame::Snapshot(snapshot) => epoch = snapshot.epoch,
            HostFrame::Beat(seq) => return (client, Cursor { epoch, seq }),
            _ => {}
        }
    }
}

/// The memory of the session's process.
fn resident(host: &HostInfo) -> u64 {
    std::fs::read_to_string(format!("/proc/{}/status", host.pid))
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}
