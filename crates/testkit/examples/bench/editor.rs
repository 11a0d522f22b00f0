//! The wait of an editor: from a prompt to the first words of its answer, over the Agent Client Protocol.

use super::{median, milliseconds, processor_time, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// How many prompts are measured; the first ones connect and set up.
const PROMPTS: usize = 60;
const SET_UP: usize = 10;

struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Editor {
    fn start(home: &TestHome) -> Self {
        let mut command = home.command(["acp"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    fn send(&mut self, id: usize, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input
            .write_all(format!("{message}\n").as_bytes())
            .unwrap();
    }

    /// Reads messages up to one that fits.
    fn until(&mut self, fits: impl Fn(&str) -> bool) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            if fits(&line) {
                return line;
            }
        }
    }

    fn answer(&mut self, id: usize) -> Value {
        let wanted = format!("\"id\":{id}");
        let line = self.until(|line| line.contains(&wanted) && !line.contains("\"method\""));
        serde_json::from_str(&line).unwrap()
    }
}

pub(crate) fn rows() {
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(|_| Reply::text("fine"));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    let mut editor = Editor::start(&home);
    editor.send(0, "initialize", &json!({"protocolVersion": 1}));
    editor.answer(0);
    let workspace = json!({"cwd": home.project(), "mcpServers": []});
    editor.send(1, "session/new", &workspace);
    let session = editor.answer(1)["result"]["sessionId"].clone();
    let pid = editor.child.id();
    let mut times: Vec<(Duration, Duration)> = Vec::new();
    for id in 2..PROMPTS + 2 {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
        let (began, used) = (Instant::now(), processor_time(pid));
        editor.send(id, "session/prompt", &prompt);
        editor.until(|line| line.contains("agent_message_chunk"));
        let own = processor_time(pid).saturating_sub(used);
        times.push((began.elapsed(), own));
        editor.answer(id);
    }
    let times = times.split_off(SET_UP);
    let clock = median(times.iter().map(|time| time.0).collect());
    let own = median(times.iter().map(|time| time.1).collect());
    row(
        "editor: prompt to first update, our own time",
        &format!("{:.2} ms", milliseconds(own)),
        &format!(
            "≤ 5 ms (by the clock, with the model's server, {:.2})",
            milliseconds(clock)
        ),
    );
    drop(editor.input);
    editor.child.wait().unwrap();
}
