//! `/mcp`: the MCP servers of the session, and what a user can do with them.

use crate::app::App;
use crate::app::jobs::{JobResult, Report};
use crate::layers::{Item, Page, Picker, Purpose};
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, reveal};
use crate::render::theme::Theme;
use futures::future::BoxFuture;
use lathe_engine::mcp::control::McpServer;
use lathe_mcp::auth::{Browser, BrowserError, SystemBrowser};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// Opens the page of a sign-in, and says its address: where there is no browser, it can still be
/// followed.
struct AnnouncingBrowser {
    system: SystemBrowser,
    sender: UnboundedSender<JobResult>,
}

/// Tools of a server that are named in its dialog.
const TOOLS_SHOWN: usize = 12;

impl Browser for AnnouncingBrowser {
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), BrowserError>> {
        Box::pin(async move {
            let words = format!("sign in on this page: {}", reveal(url));
            let _ = self.sender.send(JobResult::Reported(Report::Done(words)));
            if let Err(error) = self.system.open(url).await {
                tracing::info!(%error, "the page of a sign-in was not opened");
            }
            Ok(())
        })
    }
}

/// The list of servers, or something done with one of them: `reconnect`, `enable`, `disable`,
/// `login`, `logout`, `tools`.
pub(crate) fn run(app: &mut App, arguments: &str) {
    if let Some((what, name)) = arguments.split_once(char::is_whitespace) {
        act(app, what, name.trim());
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    let servers = session.mcp().servers();
    if !arguments.is_empty() {
        show(app, arguments);
        return;
    }
    if servers.is_empty() {
        app.remark(
            "No MCP servers: `lathe mcp add` adds one, and a project can have an .mcp.json.",
        );
        return;
    }
    let picker = servers_picker(&servers);
    app.layers.open(picker);
    refresh_when_settled(app, &servers);
}

/// Shows servers again that are being connected, once that is over.
pub(crate) fn refresh_when_settled(app: &mut App, servers: &[McpServer]) {
    let connecting = servers
        .iter()
        .any(|server| server.state == lathe_mcp::State::Pending);
    if let Some(session) = app.engine.handle.as_ref().filter(|_| connecting) {
        let control = session.mcp();
        app.jobs.task(async move {
            control.settled().await;
            Some(JobResult::ServersSettled)
        });
    }
}

/// Something was done with a server: the dialog that shows it continues showing it.
pub(crate) fn changed(app: &mut App, report: Report) {
    app.report(report);
    settled(app);
}

/// All servers have settled: refreshes a dialog that shows them.
pub(crate) fn settled(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let servers = session.mcp().servers();
    let picker = match app.layers.purpose() {
        Some(Purpose::Mcp) => Some(servers_picker(&servers)),
        Some(Purpose::McpServer { name }) => servers
            .iter()
            .find(|server| server.name == *name)
            .map(|server| server_picker(server, &app.look.theme)),
        _ => None,
    };
    if let Some(picker) = picker {
        app.layers.open(picker);
    }
}

/// One server: what it is, and what can be done with it.
pub(crate) fn show(app: &mut App, name: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let servers = session.mcp().servers();
    let Some(server) = servers.iter().find(|server| server.name == name) else {
        app.warn(format!("No MCP server '{name}'; /mcp lists them."));
        return;
    };
    let picker = server_picker(server, &app.look.theme);
    app.layers.open(picker);
    refresh_when_settled(app, &servers);
}

/// All tools of a server, with what they say of themselves.
pub(crate) fn show_tools(app: &mut App, name: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let servers = session.mcp().servers();
    let Some(server) = servers.iter().find(|server| server.name == name) else {
        app.warn(format!("No MCP server '{name}'; /mcp lists them."));
        return;
    };
    app.layers.open(tools_page(server, &app.look.theme));
}

/// Does something with a server, in the background: it may take a while.
pub(crate) fn act(app: &mut App, what: &str, name: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let control = session.mcp();
    let (what, name) = (what.to_owned(), name.to_owned());
    match what.as_str() {
        "back" => run(app, ""),
        "tools" => show_tools(app, &name),
        "login" => {
            app.remark(format!("MCP server {name}: signing in …"));
            let browser = Arc::new(AnnouncingBrowser {
                system: SystemBrowser::new(app.places.environment.clone()),
                sender: app.jobs.sender(),
            });
            app.jobs.task(async move {
                let done = control.log_in(&name, browser).await;
                Some(JobResult::report(
                    done.map(|()| format!("MCP server {name}: signed in and connected"))
                        .map_err(|error| format!("MCP server {name}: {error}")),
                ))
            });
        }
        "logout" => app.jobs.task(async move {
            let done = control.log_out(&name).await;
            Some(JobResult::report(
                done.map(|any| {
                    if any {
                        format!("MCP server {name}: signed out")
                    } else {
                        format!("MCP server {name}: was not signed in")
                    }
                })
                .map_err(|error| format!("MCP server {name}: {error}")),
            ))
        }),
        "approve" | "refuse" => {
            let shown = name.clone();
            app.jobs.task(async move {
                let yes = what == "approve";
                let report = match control.decide(&name, yes) {
                    Err(error) => Report::Failed(error.to_string()),
                    Ok(()) if yes => {
                        // Approved servers are used at once.
                        let _ = control.reconnect(&name).await;
                        Report::Done(format!("MCP server {name}: approved"))
                    }
                    Ok(()) => Report::Done(format!("MCP server {name}: rejected")),
                };
                Some(JobResult::ServerChanged(report))
            });
            show(app, &shown);
        }
        "reconnect" | "enable" | "disable" => {
            if app.layers.purpose() == Some(&Purpose::McpServer { name: name.clone() }) {
                show(app, &name);
            }
            app.jobs.task(async move {
                let done = match what.as_str() {
                    "reconnect" => control.reconnect(&name).await,
                    "enable" => control.set_enabled(&name, true).await,
                    _ => control.set_enabled(&name, false).await,
                };
                let server = control
                    .servers()
                    .into_iter()
                    .find(|server| server.name == name);
                let stands = server.map_or_else(String::new, |server| summary(&server));
                let done = done
                    .map(|()| format!("MCP server {name}: {stands}"))
                    .map_err(|error| format!("MCP server {name}: {error}"));
                Some(JobResult::ServerChanged(done.into()))
            });
        }
        _ => app.warn(format!(
            "Unknown: /mcp {what}. Use reconnect, enable, disable, login, logout or tools with a server's name."
        )),
    }
}

/// The servers, each with where it stands.
pub(crate) fn servers_picker(servers: &[McpServer]) -> Picker {
    let items = servers
        .iter()
        .map(|server| {
            let mut item = Item::new(server.name.clone(), server.name.clone(), summary(server));
            item.preview = server
                .error
                .iter()
                .flat_map(|error| error.lines().take(3))
                .map(str::to_owned)
                .collect();
            item
        })
        .collect();
    Picker::new(Purpose::Mcp, "MCP servers", items)
}

/// One server: what it is, and what can be done with it.
pub(crate) fn server_picker(server: &McpServer, theme: &Theme) -> Picker {
    let lines = server_lines(server, theme);
    let mut items = Vec::new();
    if server.needs_approval {
        items.push(Item::new(
            "approve",
            "Approve",
            "remembered for this project",
        ));
        items.push(Item::new("refuse", "Reject", "remembered for this project"));
    } else if server.state == lathe_mcp::State::Disabled {
        items.push(Item::new("enable", "Enable", "for this session"));
    } else {
        items.push(Item::new("reconnect", "Reconnect", ""));
        items.push(Item::new("disable", "Disable", "for this session"));
    }
    let remote = matches!(server.transport, "http" | "sse" | "ws");
    if remote && !server.needs_approval && server.state != lathe_mcp::State::Disabled {
        let sign_in = Item::new("login", "Sign in", "opens your browser");
        let wants = server.state == lathe_mcp::State::NeedsAuth;
        items.insert(if wants { 0 } else { items.len() }, sign_in);
        if !wants {
            items.push(Item::new(
                "logout",
                "Sign out",
                "removes the stored sign-in",
            ));
        }
    }
    if !server.tools.is_empty() {
        items.push(Item::new(
            "tools",
            "Show tools",
            counted(server.tools.len(), "tool"),
        ));
    }
    items.push(Item::new("back", "Back to the list", ""));
    let purpose = Purpose::McpServer {
        name: server.name.clone(),
    };
    let title = format!("MCP server {}", clean(&server.name));
    Picker::new(purpose, title, items).explained(lines)
}

fn server_lines(server: &McpServer, theme: &Theme) -> Vec<Line> {
    let fact = |name: &str, value: String| {
        Line::styled(format!("{name:<10}"), theme.muted).with(value, Style::PLAIN)
    };
    let mut lines = vec![
        fact("state", summary(server)),
        fact("from", format!("{} ({})", server.scope, server.transport)),
    ];
    // Commands and addresses are shown verbatim: a user may have to decide by them.
    for key in ["command", "args", "url", "env", "headers"] {
        if let Some(value) = server.entry.get(key) {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let hidden = matches!(key, "env" | "headers");
            let text = if hidden {
                let names: Vec<&str> = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                names.join(", ")
            } else {
                text
            };
            lines.push(fact(key, reveal(&text)));
        }
    }
    if let Some(error) = &server.error {
        lines.push(Line::styled(clean(error).replace('\n', " "), theme.warning));
    }
    for remark in &server.remarks {
        lines.push(Line::styled(clean(remark).replace('\n', " "), theme.muted));
    }
    for (name, description) in server.tools.iter().take(TOOLS_SHOWN) {
        let first = clean(description)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        lines
            .push(Line::styled(format!("  {} ", clean(name)), theme.code).with(first, theme.muted));
    }
    if server.tools.len() > TOOLS_SHOWN {
        let more = server.tools.len() - TOOLS_SHOWN;
        lines.push(Line::styled(
            format!("  … and {}", counted(more, "more tool")),
            theme.muted,
        ));
    }
    lines
}

/// All tools of a server, with what they say of themselves.
pub(crate) fn tools_page(server: &McpServer, theme: &Theme) -> Page {
    let mut lines = Vec::new();
    for (name, description) in &server.tools {
        lines.push(Line::styled(clean(name), theme.code));
        let words = clean(description);
        lines.extend(
            words
                .lines()
                .map(|line| Line::styled(format!("  {line}"), theme.muted)),
        );
    }
    let title = format!("Tools of {}", clean(&server.name));
    Page::of_lines(Purpose::Reading, title, lines)
}

/// Where a server stands, in a line.
fn summary(server: &McpServer) -> String {
    if server.needs_approval {
        return "needs approval".to_owned();
    }
    match &server.state {
        lathe_mcp::State::Connected => {
            format!("connected · {}", counted(server.tools.len(), "tool"))
        }
        lathe_mcp::State::Pending => "connecting".to_owned(),
        lathe_mcp::State::NeedsAuth => "needs sign-in".to_owned(),
        lathe_mcp::State::Disabled => "disabled".to_owned(),
        lathe_mcp::State::Failed { reason } => {
            let first = reason.lines().next().unwrap_or_default();
            format!("failed: {}", clean(first))
        }
    }
}
