//! The browser: the host alone, and all of it with Chromium, the extension and a page on loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, and stand outside of the program"
)]

use lathe_testkit::{Peer, PeerReply, TestHome, workspace_root};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const HANG_LIMIT: Duration = Duration::from_secs(120);

#[track_caller]
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + HANG_LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} never comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A host that the test plays the browser for.
struct Host {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Host {
    fn start(home: &TestHome) -> Self {
        let mut child = home
            .command(["browser", "host", "chrome-extension://x/"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        wait("the socket", || sockets(home).pop());
        Self {
            child,
            input,
            output,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
        self.input.flush().unwrap();
    }

    fn read(&mut self) -> Value {
        let mut length = [0; 4];
        self.output.read_exact(&mut length).unwrap();
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        self.output.read_exact(&mut message).unwrap();
        serde_json::from_slice(&message).unwrap()
    }

    fn answer(&mut self, message: &Value) {
        let text = message.to_string();
        let mut bytes = u32::try_from(text.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        self.write(&bytes);
    }
}

fn sockets(home: &TestHome) -> Vec<PathBuf> {
    std::fs::read_dir(home.config().join("browser"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "sock"))
        .collect()
}

/// The MCP server of a session.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    fn start(home: &TestHome) -> Self {
        let mut child = home
            .command(["browser", "mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
            next: 0,
        }
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.next += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.input, "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.send("tools/call", &json!({"name": name, "arguments": arguments}));
        self.receive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_host_passes_questions_and_answers_on_and_ends_with_its_input() {
    let home = TestHome::new();
    let mut host = Host::start(&home);
    let socket = sockets(&home).pop().unwrap();
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(&home.config().join("browser")), 0o700);
    let mut server = Server::start(&home);
    server.send("initialize", &json!({}));
    assert_eq!(server.receive()["serverInfo"]["name"], "browser");
    server.send("tools/list", &json!({}));
    assert_eq!(server.receive()["tools"].as_array().unwrap().len(), 6);
    server.send(
        "tools/call",
        &json!({"name": "click", "arguments": {"selector": "#a"}}),
    );
    let asked = host.read();
    assert_eq!(asked["method"], "click");
    assert_eq!(asked["params"]["selector"], "#a");
    host.answer(&json!({"id": asked["id"], "result": "clicked a"}));
    assert_eq!(server.receive()["content"][0]["text"], "clicked a");
    server.send(
        "tools/call",
        &json!({"name": "click", "arguments": {"selector": "#b"}}),
    );
    let asked = host.read();
    host.answer(&json!({"id": asked["id"], "error": "nothing matches #b"}));
    assert_eq!(server.receive()["isError"], true);
    // A question that the browser could not take never reaches it.
    let long = "x".repeat(1_048_000);
    let refused = server.call(
        "type",
        &json!({"selector": "#a", "text": format!("{long}{long}")}),
    );
    assert_eq!(refused["isError"], true, "{refused}");
    drop(host.input);
    assert!(host.child.wait().unwrap().success());
    assert!(sockets(&home).is_empty());
    let refused = server.call("tabs", &json!({}));
    assert!(
        refused["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("no browser is connected")
    );
}

#[test]
fn a_wrong_length_is_logged_and_ends_the_host() {
    for length in [0_u32, 1_048_577, u32::MAX] {
        let home = TestHome::new();
        let mut host = Host::start(&home);
        host.write(&length.to_le_bytes());
        let mut log = String::new();
        host.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        assert!(log.contains("invalid message length"), "{log}");
        assert!(!host.child.wait().unwrap().success());
    }
}

#[test]
fn a_browser_and_an_id_that_are_not_known_are_refused() {
    let home = TestHome::new();
    for arguments in [
        ["browser", "install", "--browser", "lynx"],
        ["browser", "install", "--extension-id", "../x"],
    ] {
        let output = home.run(arguments, "");
        assert_eq!(output.code(), Some(2), "{output:?}");
    }
    assert!(!home.home().join(".config").exists());
}

/// A driver of Chromium, over its HTTP interface.
struct Driver {
    child: Child,
    session: String,
}

impl Driver {
    fn start(home: &TestHome, extension: &std::path::Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = Command::new("chromedriver");
        home.dress(&mut command);
        let child = command
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/setup-tests installs chromium-driver");
        let base = format!("http://127.0.0.1:{port}");
        wait("the driver", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let profile = home.home().join(".config/chromium");
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-features=DisableLoadExtensionCommandLineSwitch".to_owned(),
            format!("--user-data-dir={}", profile.display()),
            format!("--load-extension={}", extension.display()),
        ];
        let wanted =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let started = post(&format!("{base}/session"), &wanted);
        let id = started["value"]["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{started}"));
        Self {
            session: format!("{base}/session/{id}"),
            child,
        }
    }

    fn open(&self, address: &str) {
        let answer = post(&format!("{}/url", self.session), &json!({"url": address}));
        assert_eq!(answer["value"], Value::Null, "{answer}");
    }

    fn click(&self, selector: &str) {
        let element = wait("the element", || {
            let found = json!({"using": "css selector", "value": selector});
            let answer = post(&format!("{}/element", self.session), &found);
            answer["value"]
                .as_object()?
                .values()
                .next()?
                .as_str()
                .map(str::to_owned)
        });
        wait("the element can be clicked", || {
            let answer = post(
                &format!("{}/element/{element}/click", self.session),
                &json!({}),
            );
            answer["value"].is_null().then_some(())
        });
    }

    fn text(&self) -> String {
        let script = json!({"script": "return document.body.innerText", "args": []});
        let answer = post(&format!("{}/execute/sync", self.session), &script);
        answer["value"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = Command::new("curl")
            .args(["-s", "-X", "DELETE", &self.session])
            .output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn post(address: &str, body: &Value) -> Value {
    let output = Command::new("curl")
        .args([
            "-s",
            "--noproxy",
            "*",
            "-X",
            "POST",
            "-H",
            "content-type: application/json",
            "-d",
        ])
        .arg(body.to_string())
        .arg(address)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

const PAGE: &str = "<!doctype html><title>A page</title><h1>Hello from loopback</h1>
<input id=name><button id=go onclick=\"document.getElementById('out').textContent='hello '+document.getElementById('name').value\">Go</button>
<p id=out></p>";

/// The extension with the browser's permission given already: no test can answer the browser's own question. The
/// extension's own list of sites stays as it is.
fn extension(home: &TestHome) -> PathBuf {
    let folder = home.root().join("extension");
    std::fs::create_dir_all(&folder).unwrap();
    for entry in std::fs::read_dir(workspace_root().join("extras/browser-extension")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let file = folder.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    manifest["host_permissions"] = json!(["<all_urls>"]);
    std::fs::write(file, manifest.to_string()).unwrap();
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn a_page_is_read_clicked_and_pictured_in_chromium_once_its_site_is_allowed() {
    let page = Peer::start(|_, _| PeerReply::new(200, "text/html", PAGE));
    let home = TestHome::new();
    let output = home.run(["browser", "install", "--browser", "chromium"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let driver = Driver::start(&home, &extension(&home));
    wait("the host that the browser starts", || sockets(&home).pop());
    let mut server = Server::start(&home);
    driver.open(&page.url());
    let refused = server.call("read_page", &json!({}));
    let why = refused["content"][0]["text"].as_str().unwrap();
    assert!(why.contains("is not allowed"), "{refused}");
    let tabs = server.call("tabs", &json!({}));
    assert!(!tabs.to_string().contains(&page.host()), "{tabs}");

    let popup = format!(
        "chrome-extension://{}/popup.html?site={}",
        lathe_browser::EXTENSION_ID,
        page.url()
    );
    driver.open(&popup);
    driver.click("#change");
    wait("the site is allowed", || {
        driver.text().contains("may read and use").then_some(())
    });

    let opened = server.call("navigate", &json!({"url": page.url()}));
    assert!(opened["isError"].is_null(), "{opened}");
    let read = server.call("read_page", &json!({}));
    let text = read["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("Hello from loopback") && text.contains("#go"),
        "{text}"
    );
    let typed = server.call("type", &json!({"selector": "#name", "text": "Ada"}));
    assert!(typed["isError"].is_null(), "{typed}");
    let clicked = server.call("click", &json!({"selector": "#go"}));
    assert!(clicked["isError"].is_null(), "{clicked}");
    let read = server.call("read_page", &json!({}));
    assert!(read.to_string().contains("hello Ada"), "{read}");
    let missing = server.call("click", &json!({"selector": "#missing"}));
    assert_eq!(missing["isError"], true, "{missing}");
    let picture = server.call("screenshot", &json!({}));
    assert_eq!(picture["content"][0]["mimeType"], "image/jpeg", "{picture}");
    assert!(picture["content"][0]["data"].as_str().unwrap().len() > 500);
    let tabs = server.call("tabs", &json!({}));
    assert!(tabs.to_string().contains(&page.host()), "{tabs}");
    let elsewhere = server.call("navigate", &json!({"url": "file:///etc/passwd"}));
    assert_eq!(elsewhere["isError"], true, "{elsewhere}");
}
