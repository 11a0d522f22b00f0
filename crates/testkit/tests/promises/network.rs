//! How the model is reached: keys, addresses, certificates.

use super::chatty;
use lathe_scripted::BlockingServer;
use lathe_testkit::{TestHome, workspace_root};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

#[test]
fn keys_headers_and_addresses_of_the_environment_reach_the_api() {
    let server = chatty();
    let request = |variables: &[(&str, &str)]| {
        let before = server.message_requests().len();
        let mut home = TestHome::new()
            .variable("ANTHROPIC_BASE_URL", server.base_url())
            .variable("ANTHROPIC_API_KEY", "");
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        let output = home.run(["-p", "go"], "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        server.message_requests()[before].clone()
    };
    let keyed = request(&[("ANTHROPIC_API_KEY", "sk-one")]);
    assert_eq!(keyed.header("x-api-key"), Some("sk-one"));
    let token = request(&[("ANTHROPIC_AUTH_TOKEN", "tok-two")]);
    assert_eq!(token.header("authorization"), Some("Bearer tok-two"));
    let more = request(&[
        ("ANTHROPIC_API_KEY", "sk-one"),
        ("ANTHROPIC_CUSTOM_HEADERS", "X-Team: clocks\nX-Room: tower"),
        ("CLAUDE_AGENT_SDK_CLIENT_APP", "clock-app/3"),
        ("CLAUDE_AGENT_SDK_VERSION", "9.8.7"),
    ]);
    assert_eq!(more.header("x-team"), Some("clocks"));
    assert_eq!(more.header("x-room"), Some("tower"));
    let agent = more.header("user-agent").unwrap();
    assert!(
        agent.contains("clock-app/3") && agent.contains("9.8.7"),
        "{agent}"
    );
    assert!(agent.starts_with("lathe/"), "{agent}");
}

/// A program that speaks TLS in front of a server that doesn't.
const FRONT: &str = "import socket, ssl, sys, threading
backend, cert, key, client_ca = int(sys.argv[1]), *sys.argv[2:5]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
if client_ca:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(client_ca)
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(plain):
    try:
        secure = context.wrap_socket(plain, server_side=True)
    except (ssl.SSLError, OSError):
        return
    other = socket.create_connection(('127.0.0.1', backend))
    threading.Thread(target=copy, args=(secure, other), daemon=True).start()
    copy(other, secure)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

struct Front(Child, u16);

impl Front {
    fn start(backend: &BlockingServer, client_ca: &str) -> Self {
        let port = backend.base_url().rsplit(':').next().unwrap().to_owned();
        let mut child = Command::new("python3")
            .args(["-c", FRONT, port.trim_end_matches('/')])
            .args([data("server.pem"), data("server.key")])
            .arg(client_ca)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        Self(child, line.trim().parse().unwrap())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn data(name: &str) -> PathBuf {
    workspace_root().join("crates/model/tests/data").join(name)
}

/// Whether the model answers, with these variables.
fn answers(front: &Front, variables: &[(&str, PathBuf)]) -> bool {
    let mut home = TestHome::new()
        .variable("ANTHROPIC_API_KEY", "sk-x")
        .variable("LATHE_MAX_RETRIES", "0")
        .variable(
            "ANTHROPIC_BASE_URL",
            format!("https://localhost:{}", front.1),
        );
    for (name, value) in variables {
        home = home.variable(*name, value.display().to_string());
    }
    home.run(["-p", "go"], "").stdout.trim() == "fine"
}

#[test]
fn authorities_of_the_environment_are_trusted() {
    let server = chatty();
    let front = Front::start(&server, "");
    assert!(!answers(&front, &[]));
    for name in [
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "LATHE_EXTRA_CA_CERTS",
    ] {
        assert!(answers(&front, &[(name, data("ca.pem"))]), "{name}");
    }
    // As `openssl rehash` names them.
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(data("ca.pem"), folder.path().join("0a1b2c3d.0")).unwrap();
    let folder = folder.path().to_path_buf();
    assert!(answers(&front, &[("SSL_CERT_DIR", folder)]));
}

#[test]
fn a_certificate_of_the_environment_identifies_the_client() {
    let server = chatty();
    let front = Front::start(&server, data("client-ca.pem").to_str().unwrap());
    let trusted = ("NODE_EXTRA_CA_CERTS", data("ca.pem"));
    assert!(!answers(&front, std::slice::from_ref(&trusted)));
    for (cert, key) in [
        ("LATHE_CLIENT_CERT", "LATHE_CLIENT_KEY"),
        ("CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY"),
    ] {
        let identity = [
            trusted.clone(),
            (cert, data("client.pem")),
            (key, data("client.key")),
        ];
        assert!(answers(&front, &identity), "{cert}");
    }
}

/// A server that says which requests it got; with a certificate it speaks TLS and wants one of its clients.
/// It ends when its input does.
const TELLING: &str = "import http.server, os, ssl, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_):
        pass
    def told(self):
        self.rfile.read(int(self.headers.get('content-length') or 0))
        print(self.command, self.path, flush=True)
        self.send_response(200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', '2')
        self.end_headers()
        self.wfile.write(b'{}')
    do_GET = do_POST = do_DELETE = told
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print(server.server_port, flush=True)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
";

struct Telling {
    child: Child,
    lines: BufReader<ChildStdout>,
    port: u16,
}

impl Telling {
    fn start(certificates: &[&str]) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", TELLING])
            .args(certificates.iter().map(|name| data(name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, lines, port }
    }

    /// The requests that it got until now.
    fn requests(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.lines().map_while(Result::ok).collect()
    }
}

/// A turn with a hook and a server at these addresses.
fn turn_with(home: TestHome, hook: &str, server: &str) -> TestHome {
    let model = chatty();
    let home = home
        .variable("ANTHROPIC_API_KEY", "sk-x")
        .variable("ANTHROPIC_BASE_URL", model.base_url());
    let settings = json!({
        "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "http", "url": hook}]}]},
        "mcpServers": {"far": {"type": "http", "url": server}},
    });
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    home
}

#[test]
fn hooks_servers_and_downloads_have_the_certificates_of_the_environment_too() {
    for identified in [true, false] {
        let telling = Telling::start(&["server.pem", "server.key", "client-ca.pem"]);
        let base = format!("https://localhost:{}", telling.port);
        let mut home = TestHome::new();
        if identified {
            for (name, file) in [
                ("NODE_EXTRA_CA_CERTS", "ca.pem"),
                ("LATHE_CLIENT_CERT", "client.pem"),
                ("LATHE_CLIENT_KEY", "client.key"),
            ] {
                home = home.variable(name, data(file).display().to_string());
            }
        }
        let home = turn_with(home, &format!("{base}/hook"), &format!("{base}/mcp"));
        let list = format!("{base}/marketplace.json");
        // The list is none, so this fails either way.
        let output = home.run(["plugin", "marketplace", "add", &list], "");
        assert_ne!(output.code(), Some(0), "{output:#?}");
        let requests = telling.requests();
        for wanted in ["POST /hook", "POST /mcp", "GET /marketplace.json"] {
            let came = requests.iter().any(|request| request == wanted);
            assert_eq!(came, identified, "{wanted}: {requests:?}");
        }
    }
}

#[test]
fn hooks_and_servers_are_reached_through_the_proxy_of_the_environment_too() {
    let telling = Telling::start(&[]);
    let home = TestHome::new()
        .variable("http_proxy", format!("http://127.0.0.1:{}", telling.port))
        .variable("no_proxy", "127.0.0.1");
    turn_with(home, "http://hook.invalid/hook", "http://mcp.invalid/mcp");
    let requests = telling.requests();
    for wanted in [
        "POST http://hook.invalid/hook",
        "POST http://mcp.invalid/mcp",
    ] {
        let came = requests.iter().any(|request| request == wanted);
        assert!(came, "{wanted}: {requests:?}");
    }
}
