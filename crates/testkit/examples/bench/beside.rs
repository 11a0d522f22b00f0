//! The cost of what runs beside sessions: the page of `lathe serve`, and jobs on the queue of this machine.

use super::{median, megabytes, milliseconds, processor_time, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Jobs that are run one after the other.
const JOBS: usize = 20;
/// How often the page is fetched.
const FETCHES: usize = 51;

pub(super) fn rows() {
    page();
    jobs();
}

/// Fetches a path; the bytes of the answer.
fn fetch(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}");
    answer
}

/// The files that a page names.
fn parts(page: &str) -> Vec<String> {
    let named = page.split("\"/").skip(1);
    let names = named.filter_map(|rest| Some(format!("/{}", rest.split_once('"')?.0)));
    names.filter(|name| name.contains('.')).collect()
}

/// Ends the process with the value.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The page with everything that it loads.
fn page() {
    let home = TestHome::new();
    let mut command = home.command(["serve", "--port", "0"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let serving = Serving(child);
    let address = line.trim().rsplit("http://").next().unwrap().to_owned();
    let first = String::from_utf8(fetch(&address, "/")).unwrap();
    let files = parts(&first);
    let whole = || {
        let begun = fetch(&address, "/").len();
        let rest = files.iter().map(|file| fetch(&address, file).len());
        begun + rest.sum::<usize>()
    };
    let bytes = u64::try_from(whole()).unwrap();
    let before = processor_time(serving.0.id());
    let times = (0..FETCHES).map(|_| {
        let started = Instant::now();
        whole();
        started.elapsed()
    });
    let time = median(times.collect());
    let own = (processor_time(serving.0.id()) - before) / u32::try_from(FETCHES).unwrap();
    row(
        "the page with everything that it loads",
        &format!("{:.0} KB", megabytes(bytes) * 1e3),
        &format!(
            "{} files in {:.1} ms, of which our own time {:.2} ms",
            files.len() + 1,
            milliseconds(time),
            milliseconds(own)
        ),
    );
}

/// Jobs of one answer each, from the queue to their result.
fn jobs() {
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(|_| Reply::text("done"));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    let lines: String = (0..JOBS)
        .map(|number| format!("{{\"id\": \"job-{number}\", \"prompt\": \"go\"}}\n"))
        .collect();
    home.write("jobs.jsonl", lines);
    let submitted = timed(&home, &["fleet", "submit", "--local", "-f", "jobs.jsonl"]);
    let worked = timed(&home, &["fleet", "worker", "--local", "--until-empty"]);
    let each = |time: Duration| milliseconds(time / u32::try_from(JOBS).unwrap());
    row(
        "fleet: a job of one answer, by the clock",
        &format!("{:.1} ms", each(worked)),
        &format!("submitting one takes {:.2} ms", each(submitted)),
    );
}

fn timed(home: &TestHome, arguments: &[&str]) -> Duration {
    let started = Instant::now();
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    started.elapsed()
}
