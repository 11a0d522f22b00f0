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

/// How long a session may take to be resumed.
const RESUMED: std::time::Duration = std::time::Duration::from_secs(60);
/// How much of what ssh says is kept.
const MOST_SAID: usize = 2_048;
/// How long ssh may take to say why it ended.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(2);
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
    /// `https://HOST/s/ID#c=CODE`, or its socket `unix:PATH`. Without it, the only session that runs.
    pub(crate) id: Option<String>,
    /// Speak the wire's JSON lines over standard input and output instead of showing the session.
    #[arg(long)]
    pub(crate) stdio: bool,
}

impl AttachArguments {
    /// The id that was given, or that of the only session that runs.
    pub(crate) fn wanted(&self, folder: &Folder) -> Result<String, CliError> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let hosts = folder.hosts().map_err(CliError::failure)?;
        match hosts.as_slice() {
            [one] => Ok(one.id.to_string()),
            [] => Err(CliError::usage("no session runs")
                .hint("`lathe ps` lists sessions that ended too; `lathe attach ID` continues one")),
            several => Err(
                CliError::usage(format!("{} sessions run; name one", several.len()))
                    .hint("`lathe ps` lists them, and `lathe board` shows all on one screen"),
            ),
        }
    }

    /// Where the session is, if the id is an address.
    pub(crate) fn place(&self) -> Result<Option<Place<'_>>, CliError> {
        let Some(id) = self.id.as_deref() else {
            return Ok(None);
        };
        if let Some(address) = RemoteAddress::parse(id) {
            let address = address.map_err(CliError::usage)?;
            return Ok(Some(Place::Server(address)));
        }
        if let Some(path) = id.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Some(Place::Socket(Path::new(path))));
        }
        let Some(rest) = id.strip_prefix("ssh:") else {
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
    let folder = Folder::of(&environment);
    if arguments.stdio {
        return stdio(&folder, &arguments.wanted(&folder)?).await;
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
            return show_over_ssh(host, id, hello).await;
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
            let client = Client::connect_to(path, hello).await.map_err(|error| {
                CliError::failure(format!("{}: {error}", path.display()))
                    .hint("a socket that is forwarded by ssh is there while that ssh runs")
            })?;
            return show(client).await;
        }
    }
    let host = hosts::live(&folder, &arguments.wanted(&folder)?)?;
    lathe_host::past::forget_closed(&folder, &host.id);
    let client = Client::connect(&folder, &host.id, hello).await;
    show(client.map_err(CliError::failure)?).await
}

/// Resumes a session in the background. Gives its id there.
pub(crate) fn resumed(session: &str) -> Result<String, CliError> {
    let program = std::env::current_exe().map_err(CliError::failure)?;
    let command = Command::new(program).arguments(["--bg", "--resume", session]);
    let output = lathe_process::read_blocking(command, RESUMED, MOST_SAID);
    let output = output.map_err(CliError::failure)?;
    if output.ending != lathe_process::Ending::Exited(0) {
        let why = output
            .stderr
            .trim()
            .trim_start_matches("lathe: ")
            .to_owned();
        return Err(CliError::failure(format!(
            "{session} can't be resumed: {why}"
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
    // It has no terminal to ask on: the keys are the session's.
    Command::new("ssh")
        .arguments(["-oBatchMode=yes", "-T", "--", host])
        .arguments(["lathe", "attach", "--stdio", id])
        .spawn()
        .map_err(|error| CliError::failure(format!("ssh can't be started: {error}")))
}

/// Shows a session of another machine. If it can't be reached, what ssh and the program there said is the reason.
async fn show_over_ssh(host: &str, id: &str, hello: Hello) -> Outcome {
    let mut remote = over_ssh(host, id)?;
    let pipes = (
        remote.stdin.take(),
        remote.stdout.take(),
        remote.stderr.take(),
    );
    let (Some(input), Some(output), Some(mut errors)) = pipes else {
        return Err(CliError::failure("ssh has no pipes"));
    };
    let said = lathe_spawn::task(async move {
        let mut kept = Vec::new();
        let mut buffer = vec![0; 4_096];
        while let Ok(count @ 1..) = errors.read(&mut buffer).await {
            kept.extend_from_slice(&buffer[..count]);
            kept.drain(..kept.len().saturating_sub(MOST_SAID));
        }
        String::from_utf8_lossy(&kept).into_owned()
    });
    let mut client = Client::over(output, input, hello);
    let Ok(Some(first)) = client.next().await else {
        drop(client);
        let words = tokio::time::timeout(LAST_WORDS, said).await;
        let words = words.ok().and_then(Result::ok).unwrap_or_default();
        let words = lathe_protocol::printable::clean(words.trim()).into_owned();
        let why = if words.is_empty() {
            "ssh ended without a word"
        } else {
            &words
        };
        return Err(CliError::failure(format!("{host}: {why}")).hint(format!(
            "`ssh {host} lathe ps` must work without a question: with a key, and `lathe` on the PATH there"
        )));
    };
    show_from(client, Some(first)).await
}

/// Speaks the wire over standard input and output.
async fn stdio(folder: &Folder, id: &str) -> Outcome {
    let host = hosts::live(folder, id)?;
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
async fn show(client: Client) -> Outcome {
    show_from(client, None).await
}

/// As [`show`], after a first frame that was read already.
async fn show_from(mut client: Client, mut first: Option<HostFrame>) -> Outcome {
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
        let next = async {
            match first.take() {
                Some(frame) => Ok(Some(frame)),
                None => client.next().await,
            }
        };
        tokio::select! {
            frame = next => match frame {
                Ok(Some(HostFrame::Output(bytes))) => {
                    if terminal.show(&bytes).is_err() {
                        break Err("the terminal was closed".to_owned());
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
            _ = hung_up.recv() => break Err("the terminal was closed".to_owned()),
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
