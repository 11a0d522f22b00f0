//! A real NATS server for the tests of this process; each test has streams of its own there.

use lathe_fleet::{Fleet, Nats, NatsOptions};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// A server that ends with the process.
struct Server {
    url: String,
    _folder: tempfile::TempDir,
    _child: Child,
}

/// The server that scripts/setup-tests installs.
fn program() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    #[expect(
        clippy::disallowed_methods,
        reason = "tests stand outside of the program"
    )]
    let packages = std::env::var_os("LATHE_TEST_PACKAGES")
        .map_or_else(|| root.join("target/test-packages"), PathBuf::from);
    packages.join("nats/bin/nats-server")
}

fn start() -> Server {
    let folder = tempfile::tempdir().unwrap();
    // The server ends when its standard input does: a shell waits for that beside it.
    let script = r#""$0" --jetstream --store_dir "$1" --addr 127.0.0.1 --port -1 2>&1 & read -r _; kill -9 $!"#;
    let mut child = Command::new("bash")
        .args(["-c", script])
        .arg(program())
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash can be started");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut address = None;
    let mut seen = String::new();
    for line in lines.by_ref().map_while(Result::ok) {
        seen.push_str(&line);
        seen.push('\n');
        if let Some((_, found)) = line.split_once("Listening for client connections on ") {
            address = Some(found.trim().to_owned());
        }
        if line.contains("Server is ready") {
            break;
        }
    }
    // A server that can't write its log ends.
    std::thread::spawn(move || lines.for_each(drop));
    let address = address.unwrap_or_else(|| {
        panic!("nats-server did not start (scripts/setup-tests installs it): {seen}")
    });
    Server {
        url: format!("nats://{address}"),
        _folder: folder,
        _child: child,
    }
}

/// A new fleet on the server.
pub(crate) async fn fleet() -> (Fleet, ()) {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(start);
    let nats = Box::pin(Nats::connect(NatsOptions {
        url: server.url.clone(),
        credentials: None,
        replicas: None,
        prefix: format!("t{}", &uuid::Uuid::new_v4().simple().to_string()[..8]),
    }))
    .await
    .unwrap();
    (Fleet::new(nats), ())
}
