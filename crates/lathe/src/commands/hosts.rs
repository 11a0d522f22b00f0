//! `lathe ps`, `logs`, `stop` and `rm`: sessions that run, with or without a terminal.

use super::{print, print_line};
use crate::error::{CliError, Outcome};
use clap::{Args, Subcommand};
use lathe_headless::exit::Exit;
use lathe_host::past::{self, Past};
use lathe_protocol::printable;
use lathe_session::SessionStore;
use lathe_settings::Environment;
use lathe_settings::paths::config_home;
use lathe_wire::folder::FindError;
use lathe_wire::{
    Client, ClientKind, Folder, Follower, Hello, HostFrame, HostId, HostInfo, OpError, Snapshot,
    Update, WireError, WireOp,
};
use serde_json::{Value, json};
use std::time::Duration;

// The commands about running sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum HostsCommand {
    /// List running sessions, and background sessions that ended.
    Ps(PsArguments),
    /// Open a session in this terminal; a session that ended is first resumed in the background.
    Attach(super::attach::AttachArguments),
    /// Show all sessions on one screen: view, reply, attach, stop.
    Board,
    /// Print what a session did.
    Logs(LogsArguments),
    /// End sessions.
    Stop(NamedArguments),
    /// Remove ended background sessions from the list; their transcripts stay.
    Rm(NamedArguments),
}

// `lathe ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

// `lathe logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// The session: an id or a prefix of it, or a title.
    id: String,
    /// Keep printing new output.
    #[arg(short, long)]
    follow: bool,
}

// `lathe stop` and `lathe rm`.
#[derive(Debug, Args)]
pub(crate) struct NamedArguments {
    /// The sessions: ids or prefixes of them, or titles.
    #[arg(required = true)]
    ids: Vec<String>,
}

impl From<FindError> for CliError {
    fn from(error: FindError) -> Self {
        Self::failure(error)
    }
}

/// The live session that a text names.
pub(crate) fn live(folder: &Folder, wanted: &str) -> Result<HostInfo, CliError> {
    folder.find(wanted)?.ok_or_else(|| {
        CliError::failure(format!("no session named '{wanted}' runs"))
            .hint("`lathe ps` lists the sessions")
    })
}

/// `lathe ps`.
pub(crate) fn ps(environment: &Environment, arguments: &PsArguments) -> Outcome {
    let folder = Folder::of(environment);
    let hosts = folder.hosts().map_err(CliError::failure)?;
    let past = past::list(&folder);
    if arguments.json {
        let live = hosts.iter().map(|host| {
            let mut value = serde_json::to_value(host).unwrap_or_default();
            value["live"] = true.into();
            value
        });
        let over = past.iter().map(|past| {
            let mut value = serde_json::to_value(past).unwrap_or_default();
            value["live"] = false.into();
            value["failed"] = past.failed().into();
            value
        });
        let all: Vec<Value> = live.chain(over).collect();
        return print_line(&json!(all).to_string());
    }
    if hosts.is_empty() && past.is_empty() {
        return print("No session runs. `lathe --bg \"…\"` starts one in the background.\n");
    }
    let mut rows = vec![["ID", "STATE", "WHERE", "NAME", "ACTIVITY"].map(str::to_owned)];
    rows.extend(hosts.iter().map(|host| row(host, host.state.words())));
    rows.extend(past.iter().map(|past| {
        let state = if past.failed() { "failed" } else { "ended" };
        row(&past.info, state)
    }));
    print(&table(&rows))
}

pub(crate) fn row(host: &HostInfo, state: &str) -> [String; 5] {
    let text = |text: &str| -> String { printable::clean(text).chars().take(60).collect() };
    let place = if host.background {
        "background"
    } else {
        "terminal"
    };
    let name = host.title.clone().unwrap_or_else(|| {
        let name = host.folder.file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    });
    [
        host.id.to_string(),
        state.to_owned(),
        place.to_owned(),
        text(&name),
        text(host.activity.as_deref().unwrap_or_default()),
    ]
}

fn table(rows: &[[String; 5]]) -> String {
    let mut widths = [0; 5];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// `lathe stop`.
pub(crate) async fn stop(environment: Environment, arguments: NamedArguments) -> Outcome {
    let folder = Folder::of(&environment);
    for wanted in &arguments.ids {
        let host = live(&folder, wanted)?;
        end(&folder, &host.id).await?;
        print(&format!("{} ended\n", host.id))?;
    }
    Ok(Exit::Success)
}

/// Asks a session to end, and waits until its process has.
async fn end(folder: &Folder, id: &HostId) -> Result<(), CliError> {
    let failed = |error: WireError| CliError::failure(error);
    let hello = Hello::new("stop", ClientKind::Cli);
    let mut client = Client::connect(folder, id, hello).await.map_err(failed)?;
    refused(&mut client).await?;
    match client.request(WireOp::Stop).await {
        // The session may close the connection before the answer is read.
        Ok(()) | Err(OpError::Closed) => {}
        Err(error) => return Err(CliError::failure(error)),
    }
    for _ in 0..1_500 {
        if !folder.is_live(id) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(CliError::failure(format!("{id} did not end within 15 s")))
}

/// Reads the first frame: a refusal is an error, anything else is the session.
async fn refused(client: &mut Client) -> Result<Option<Box<Snapshot>>, CliError> {
    match client.next().await {
        Ok(Some(HostFrame::Bye(why))) => Err(CliError::failure(why)),
        Ok(Some(HostFrame::Snapshot(snapshot))) => Ok(Some(snapshot)),
        Ok(Some(_)) => Ok(None),
        Ok(None) => Err(CliError::failure("the session closed the connection")),
        Err(error) => Err(CliError::failure(error)),
    }
}

/// `lathe rm`.
pub(crate) fn rm(environment: &Environment, arguments: &NamedArguments) -> Outcome {
    let folder = Folder::of(environment);
    for wanted in &arguments.ids {
        if let Some(host) = folder.find(wanted)? {
            return Err(CliError::failure(format!("{} runs", host.id))
                .hint(format!("lathe stop {}", host.id)));
        }
        let past = ended(&folder, wanted)?;
        past::remove(&folder, &past.info.id).map_err(CliError::failure)?;
        print(&format!("{} removed\n", past.info.id))?;
    }
    Ok(Exit::Success)
}

/// The background session that ended and that a text names.
fn ended(folder: &Folder, wanted: &str) -> Result<Past, CliError> {
    let found = past::list(folder).into_iter().find(|past| {
        let title = past.info.title.as_deref();
        past.info.id.as_str().starts_with(wanted) || title == Some(wanted)
    });
    found.ok_or_else(|| {
        CliError::failure(format!("no background session is named '{wanted}'"))
            .hint("`lathe ps` lists the sessions")
    })
}

/// The id of the session that a text names and that does not run.
pub(crate) fn resumable(environment: &Environment, wanted: &str) -> Result<String, CliError> {
    let folder = Folder::of(environment);
    if let Ok(past) = ended(&folder, wanted) {
        return Ok(past.info.session_id.to_string());
    }
    let store = SessionStore::new(config_home(environment));
    // An id of a host is the beginning of its session's, without the dash.
    let dashed = match wanted.split_at_checked(8) {
        Some((first, rest)) if !rest.is_empty() && !wanted.contains('-') => {
            format!("{first}-{rest}")
        }
        _ => wanted.to_owned(),
    };
    let found = store
        .resolve(&dashed, &environment.cwd)
        .or_else(|_| store.resolve(wanted, &environment.cwd))?;
    Ok(found.id.to_string())
}

/// `lathe logs`.
pub(crate) async fn logs(environment: Environment, arguments: LogsArguments) -> Outcome {
    let folder = Folder::of(&environment);
    let Some(host) = folder.find(&arguments.id)? else {
        let session = resumable(&environment, &arguments.id)?;
        let store = SessionStore::new(config_home(&environment));
        let text = lathe_session::cli::export(
            &store,
            &session,
            &environment.cwd,
            lathe_session::export::ExportFormat::Markdown,
            lathe_session::cli::Privacy::Whole,
        )?;
        return print_line(&text);
    };
    let hello = Hello::new("logs", ClientKind::Cli);
    let mut following = Follower::new(folder, host.id, hello);
    loop {
        match following.next().await {
            Update::Snapshot(snapshot) => {
                for record in &snapshot.records {
                    print(&words(record))?;
                }
            }
            Update::Event { event, .. } => {
                let frame: Value = serde_json::from_str(event.get()).unwrap_or_default();
                print(&words(&frame))?;
            }
            Update::Current if !arguments.follow => return Ok(Exit::Success),
            Update::Ended(why) => return print(&format!("— {why}\n")),
            _ => {}
        }
    }
}

/// A frame in words; empty if it is not worth a line.
pub(crate) fn words(frame: &Value) -> String {
    let clean = |text: &str| printable::clean(text).into_owned();
    match frame["type"].as_str() {
        Some("user" | "assistant") => {
            let is_user = frame["type"] == "user";
            let content = &frame["message"]["content"];
            let mut out = String::new();
            // Reminders are said by the program, not by the user.
            let is_reminder = |text: &str| text.trim_start().starts_with("<system-reminder>");
            if let Some(text) = content.as_str().filter(|text| !is_reminder(text)) {
                out.push_str(&format!("> {}\n", clean(text)));
            }
            for block in content.as_array().into_iter().flatten() {
                let text = |name: &str| clean(block[name].as_str().unwrap_or_default());
                match block["type"].as_str() {
                    Some("text") if is_user && is_reminder(&text("text")) => {}
                    Some("text") if is_user => out.push_str(&format!("> {}\n", text("text"))),
                    Some("text") => out.push_str(&format!("{}\n", text("text"))),
                    Some("tool_use") => {
                        let input = clean(&block["input"].to_string());
                        out.push_str(&format!("● {} {input}\n", text("name")));
                    }
                    _ => {}
                }
            }
            out
        }
        Some("control_request") => {
            let request = &frame["request"];
            let title = request["title"].as_str().or(request["tool_name"].as_str());
            format!("? {}\n", clean(title.unwrap_or("a question")))
        }
        Some("question_resolved") => match frame["by"].as_str() {
            Some(by) => format!("  answered by {}\n", clean(by)),
            None => "  withdrawn\n".to_owned(),
        },
        Some("result") if frame["is_error"] == true => {
            format!("✗ {}\n", clean(&frame["errors"].to_string()))
        }
        _ => String::new(),
    }
}
