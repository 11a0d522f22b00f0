//! `lathe attach`: a running session in this terminal.
//!
//! The session draws on a terminal of its own; here its bytes are shown, and what is typed is sent to it.

use super::hosts;
use crate::error::{CliError, Outcome};
use clap::Args;
use lathe_headless::exit::Exit;
use lathe_process::{Command, Running};
use lathe_server::remote::RemoteAddress;
use lathe_settings::Environment;
use lathe_wire::{Client, ClientKind, Folder, Hello, HostFrame, OpSender, Size};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

/// Everything that a session may have switched on, off: synchronized output, colours, paste, focus, cursor.
const LEAVE: &str = "\x1b[?2026l\x1b[m\x1b[?2004l\x1b[?1004l\x1b[?25h";
/// Modes that a session switches on only where the terminal has them, each with the sequence that switches it off.
const SWITCHED: [(&[u8], &str); 4] = [
    (b"\x1b[>1u", "\x1b[<9u"),
    (b"\x1b[>4;1m", "\x1b[>4m"),
    (b"\x1b]9;4;3\x07", "\x1b]9;4;0\x07"),
    (b"\x1b[?1049h", "\x1b[?1049l"),
];

// `lathe attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArguments {
    /// The id of the session, the beginning of it, or its title; for one elsewhere `ssh://HOST/ID`, the link of a server
    /// `https://HOST/s/ID#c=CODE`, or its socket `unix:PATH`.
    pub(crate) id: String,
    /// Speak the wire's JSON lines over standard input and output instead of showing the session.
    #[arg(long)]
    pub(crate) stdio: bool,
}

impl AttachArguments {
    /// Where the session is, if the id is an address.
    pub(crate) fn place(&self) -> Result<Option<Place<'_>>, CliError> {
        if let Some(address) = RemoteAddress::parse(&self.id) {
            let address = address.map_err(CliError::usage)?;
            return Ok(Some(Place::Server(address)));
        }
        if let Some(path) = self.id.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Some(Place::Socket(Path::new(path))));
        }
        let Some(rest) = self.id.strip_prefix("ssh:") else {
            return Ok(None);
        };
        match rest.strip_prefix("//").unwrap_or(rest).split_once('/') {
            Some((host, id)) => Ok(Some(Place::Ssh(host, id))),
            None => Err(CliError::usage("an address looks like ssh://user@host/ID")),
        }
    }
}

/// Where a session is that is not named.
#[derive(Debug, PartialEq)]
pub(crate) enum Place<'a> {
    /// A host of ssh, and the id there.
    Ssh(&'a str, &'a str),
    /// A server.
    Server(RemoteAddress),
    /// A socket of this machine, which may be forwarded from another.
    Socket(&'a Path),
}

/// Restores the terminal however this ends.
pub(crate) struct RawTerminal {
    modes: Termios,
    switched: [bool; SWITCHED.len()],
}

impl RawTerminal {
    pub(crate) fn enter() -> Result<Self, CliError> {
        let failed = |error| CliError::failure(format!("can't use the terminal: {error}"));
        let stdin = rustix::stdio::stdin();
        let modes = tcgetattr(stdin).map_err(failed)?;
        let mut raw = modes.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self {
            modes,
            switched: [false; SWITCHED.len()],
        })
    }

    /// Shows bytes of the session.
    pub(crate) fn show(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        for (seen, (on, _)) in self.switched.iter_mut().zip(SWITCHED) {
            *seen |= bytes.windows(on.len()).any(|part| part == on);
        }
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let mut text = String::new();
        for (seen, (_, off)) in self.switched.iter().zip(SWITCHED) {
            if *seen {
                text.push_str(off);
            }
        }
        text.push_str(LEAVE);
        // Below what the session drew.
        text.push_str("\x1b[J\r\n");
        let _ = self.show(text.as_bytes());
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.modes);
    }
}

pub(crate) fn size() -> Size {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(
        Size {
            columns: 80,
            rows: 24,
        },
        |size| Size {
            columns: size.ws_col,
            rows: size.ws_row,
        },
    )
}

/// Attaches to a session that runs.
pub(crate) async fn run(environment: Environment, arguments: AttachArguments) -> Outcome {
    if arguments.stdio {
        return stdio(&environment, &arguments.id).await;
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(CliError::usage("attach needs a terminal")
            .hint("--stdio speaks JSON lines; `lathe logs` prints what a session does"));
    }
    let mut hello = Hello::new("terminal", ClientKind::Terminal);
    hello.size = Some(size());
    match arguments.place()? {
        None => {}
        Some(Place::Ssh(host, id)) => {
            let mut remote = over_ssh(host, id)?;
            let (Some(input), Some(output)) = (remote.stdin.take(), remote.stdout.take()) else {
                return Err(CliError::failure("ssh has no pipes"));
            };
            return show(Client::over(output, input, hello)).await;
        }
        Some(Place::Server(address)) => {
            let places = super::places(environment);
            let connecting =
                lathe_server::remote::connect(&address, &places.environment, &places.config_home);
            let stream = connecting.await.map_err(CliError::failure)?;
            let (reader, writer) = tokio::io::split(stream);
            return show(Client::over(reader, writer, hello)).await;
        }
        Some(Place::Socket(path)) => {
            let client = Client::connect_to(path, hello).await;
            return show(client.map_err(CliError::failure)?).await;
        }
    }
    let folder = Folder::of(&environment);
    let host = hosts::live(&folder, &arguments.id)?;
    let client = Client::connect(&folder, &host.id, hello).await;
    show(client.map_err(CliError::failure)?).await
}

/// Starts `lathe attach --stdio` on another machine.
fn over_ssh(host: &str, id: &str) -> Result<Running, CliError> {
    let safe = |text: &str| {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"@.-_:[]".contains(&byte);
        !text.is_empty() && !text.starts_with('-') && text.bytes().all(fine)
    };
    if !safe(host) || !safe(id) {
        return Err(CliError::usage("an address looks like ssh://user@host/ID"));
    }
    Command::new("ssh")
        .arguments(["-T", host, "lathe", "attach", "--stdio", id])
        .spawn()
        .map_err(|error| CliError::failure(format!("ssh can't be started: {error}")))
}

/// Speaks the wire over standard input and output.
async fn stdio(environment: &Environment, id: &str) -> Outcome {
    let folder = Folder::of(environment);
    let host = hosts::live(&folder, id)?;
    let stream = UnixStream::connect(folder.socket(&host.id)).await;
    let stream = stream
        .map_err(|error| CliError::failure(format!("the session can't be reached: {error}")))?;
    let (mut reader, mut writer) = stream.into_split();
    let (mut input, mut output) = (tokio::io::stdin(), tokio::io::stdout());
    let sending = async {
        let _ = tokio::io::copy(&mut input, &mut writer).await;
        // The session still answers what was sent; it closes the connection then.
        drop(writer);
        std::future::pending::<()>().await;
    };
    let receiving = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count) = reader.read(&mut buffer).await {
            let written = async {
                use tokio::io::AsyncWriteExt as _;
                output.write_all(&buffer[..count]).await?;
                output.flush().await
            };
            if count == 0 || written.await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
    }
    Ok(Exit::Success)
}

/// Shows a session until it or this terminal ends.
async fn show(mut client: Client) -> Outcome {
    let handlers = (
        signal(SignalKind::window_change()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut resized), Ok(mut terminated), Ok(mut hung_up)) = handlers else {
        return Err(CliError::failure("can't install signal handlers"));
    };
    let mut terminal = RawTerminal::enter()?;
    let typing = lathe_spawn::task(type_keys(client.sender()));
    let words = loop {
        tokio::select! {
            frame = client.next() => match frame {
                Ok(Some(HostFrame::Output(bytes))) => {
                    if terminal.show(&bytes).is_err() {
                        break Err("the terminal is gone".to_owned());
                    }
                }
                Ok(Some(HostFrame::Bye(why))) => break Ok(why),
                Ok(Some(_)) => {}
                Ok(None) => break Err("the session closed the connection".to_owned()),
                Err(error) => break Err(error.to_string()),
            },
            _ = resized.recv() => {
                // If the connection is closed, the next frame says so.
                let _ = client.sender().resize(size()).await;
            }
            _ = terminated.recv() => break Err("terminated".to_owned()),
            _ = hung_up.recv() => break Err("the terminal is gone".to_owned()),
        }
    };
    typing.abort();
    drop(terminal);
    match words {
        Ok(words) => super::print_line(&lathe_protocol::printable::clean(&words)),
        Err(why) => Err(CliError::failure(why)),
    }
}

/// Sends what is typed. Ends with the terminal.
async fn type_keys(sender: OpSender) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = stdin.read(&mut buffer).await {
        if count == 0 || sender.input(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
