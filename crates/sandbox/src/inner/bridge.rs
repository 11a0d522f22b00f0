//! The bridge from the sandbox's own loopback to the proxy outside.
//!
//! The proxy listens on a unix socket, which crosses network namespaces; programs want a port. Each connection
//! to the port becomes one to the socket, after a line that says which kind it is and for which command.

use crate::launch::PROXY_PORTS;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// How much is copied at once.
const CHUNK: usize = 256 * 1024;

/// The first word of a connection to the proxy.
pub(crate) const GREETING: &str = "LATHE1";

/// The two ports, HTTP and SOCKS.
pub(super) struct Listeners {
    http: TcpListener,
    socks: TcpListener,
}

pub(super) fn listen() -> io::Result<Listeners> {
    let (http, socks) = PROXY_PORTS;
    Ok(Listeners {
        http: TcpListener::bind(("127.0.0.1", http))?,
        socks: TcpListener::bind(("127.0.0.1", socks))?,
    })
}

/// Serves both ports from threads of this process.
pub(super) fn serve(listeners: Listeners, socket: &Path, name: &str) {
    for (listener, kind) in [(listeners.http, "http"), (listeners.socks, "socks")] {
        let greeting: Arc<str> = format!("{GREETING} {kind} {name}\n").into();
        let socket: Arc<Path> = socket.into();
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        // Without threads there is no network; the command runs on.
        drop(thread.spawn(move || {
            for connection in listener.incoming().flatten() {
                let (greeting, socket) = (Arc::clone(&greeting), Arc::clone(&socket));
                let thread = std::thread::Builder::new().stack_size(64 * 1024);
                drop(thread.spawn(move || pass_on(&connection, &socket, &greeting)));
            }
        }));
    }
}

fn pass_on(inside: &TcpStream, socket: &Path, greeting: &str) {
    let Ok(mut outside) = UnixStream::connect(socket) else {
        return;
    };
    if outside.write_all(greeting.as_bytes()).is_err() {
        return;
    }
    let _ = inside.set_nodelay(true);
    std::thread::scope(|scope| {
        let up = || {
            copy(inside, &outside);
            let _ = outside.shutdown(Shutdown::Write);
        };
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        if thread.spawn_scoped(scope, up).is_ok() {
            copy(&outside, inside);
            let _ = inside.shutdown(Shutdown::Write);
        }
    });
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if buffer
                    .get(..count)
                    .is_none_or(|bytes| to.write_all(bytes).is_err())
                {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Connects standard input and output with a host, through the SOCKS port: what ssh needs to get out.
pub(super) fn connect(host: &str, port: u16) -> io::Result<i32> {
    let refused = |reason: &str| io::Error::other(reason.to_owned());
    let length = u8::try_from(host.len()).map_err(|_| refused("the name is too long"))?;
    let mut stream = TcpStream::connect(("127.0.0.1", PROXY_PORTS.1))?;
    stream.write_all(&[5, 1, 0])?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer)?;
    let mut request = vec![5, 1, 0, 3, length];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request)?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    if answer[1] != 0 {
        return Err(refused("the sandbox doesn't allow this host"));
    }
    let sending = stream.try_clone()?;
    std::thread::spawn(move || {
        copy(io::stdin().lock(), &sending);
        let _ = sending.shutdown(Shutdown::Write);
    });
    let mut output = io::stdout().lock();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(0);
        }
        if let Some(bytes) = buffer.get(..count) {
            output.write_all(bytes)?;
            output.flush()?;
        }
    }
}
