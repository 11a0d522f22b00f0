//! `lathe serve`, `lathe web`, `lathe devices`: the door to sessions, and who may use it.

use super::{places, print, print_line, stopped_by_signals};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::{Args, Subcommand};
use lathe_headless::exit::Exit;
use lathe_server::notify::Targets;
use lathe_server::{
    DeviceScope, Devices, Listen, Options, RelayState, ServeError, Server, TlsFiles,
};
use lathe_settings::{Environment, Places};
use lathe_wire::Folder;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// The port of the page.
const PORT: u16 = 4077;
/// How often, and how many times, the start of a server is looked at.
const LOOK: (Duration, u32) = (Duration::from_millis(50), 200);

// Where a server listens.
#[derive(Debug, Args)]
pub(crate) struct ListenArguments {
    /// The port; 0 is any free one.
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// The address to listen on. Any address that other machines can reach needs TLS or a proxy.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    address: IpAddr,
    /// The certificate for TLS, as a PEM file.
    #[arg(long, requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as a PEM file.
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A host name by which devices reach the server, such as box.example. Repeatable.
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// The host name of a TLS-terminating proxy in front of the server, such as box.example. The proxy must set the Host header to it.
    #[arg(long, value_name = "HOST")]
    proxy: Option<String>,
}

impl ListenArguments {
    pub(crate) fn listen(&self, environment: &Environment) -> Listen {
        let file = |path: &PathBuf| environment.resolve(&path.to_string_lossy());
        Listen {
            address: self.address,
            port: self.port,
            tls: match (&self.tls_cert, &self.tls_key) {
                (Some(certificate), Some(key)) => Some(TlsFiles {
                    certificate: file(certificate),
                    key: file(key),
                }),
                _ => None,
            },
            names: self.names.clone(),
            proxy: self.proxy.clone(),
        }
    }
}

// `lathe serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    listen: ListenArguments,
    /// A relay by which remote devices reach this server, such as wss://relay.example; `lathe devices pair` prints links.
    #[arg(long, value_name = "URL")]
    relay: Option<String>,
    /// Let devices with the admin scope widen permissions: modes, rules, folders.
    #[arg(long)]
    allow_widening: bool,
    /// Write a service file (systemd user unit or launchd agent) and print how to enable it.
    #[arg(long)]
    install: bool,
}

// `lathe web`.
#[derive(Debug, Args)]
pub(crate) struct WebArguments {
    /// Print the link without opening a browser.
    #[arg(long)]
    print: bool,
    /// The scope of the page.
    #[arg(long, default_value = "approve", value_name = "SCOPE")]
    scope: DeviceScope,
    /// Open this session: its id or title. The link works for `lathe attach` too.
    id: Option<String>,
}

// `lathe devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    #[command(subcommand)]
    command: Option<DevicesCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DevicesCommand {
    /// List the devices.
    List,
    /// Admit a device and print its token, which is not shown again.
    Add {
        /// Its name, shown to others when it answers.
        name: String,
        /// view, prompt, approve or admin.
        #[arg(long, default_value = "approve", value_name = "SCOPE")]
        scope: DeviceScope,
    },
    /// Print a link for a remote device, and admit the device when both show the same digits.
    Pair {
        /// view, prompt, approve or admin.
        #[arg(long, default_value = "approve", value_name = "SCOPE")]
        scope: DeviceScope,
    },
    /// Set where push messages about pending questions are sent; without flags, show it.
    Notify {
        /// The URL of an ntfy topic.
        #[arg(long, value_name = "URL")]
        ntfy: Option<String>,
        /// A URL that receives the question as JSON.
        #[arg(long, value_name = "URL")]
        webhook: Option<String>,
        /// The base URL of links, as your phone reaches the server.
        #[arg(long, value_name = "URL")]
        link: Option<String>,
        /// Seconds before a message about an open question is sent.
        #[arg(long, default_value_t = 10, value_name = "SECONDS")]
        after: u64,
        /// Stop sending messages.
        #[arg(long, conflicts_with_all = ["ntfy", "webhook", "link"])]
        off: bool,
    },
    /// Remove a device. Its open connections end within seconds.
    Revoke {
        /// Its id or its name.
        device: String,
    },
}

/// Commands of a session must not make tokens: the model would answer its own questions with them.
fn refuse_sessions(places: &Places) -> Result<(), CliError> {
    let folder = Folder::of(&places.environment);
    let hosts = folder
        .all_hosts()
        .unwrap_or_default()
        .iter()
        .map(|host| host.pid)
        .collect();
    let this = lathe_wire::peer::Peer {
        uid: lathe_wire::folder::own_uid(),
        pid: i32::try_from(std::process::id()).ok(),
    };
    match lathe_wire::peer::judge(this, &hosts) {
        Ok(_) => Ok(()),
        Err(why) => Err(CliError::failure(format!(
            "devices can't be admitted from a command of a session ({why})"
        ))
        .hint("run it in a terminal of your own")),
    }
}

/// An error of the server. Addresses and files that flags name are wrong usage.
fn refused(error: ServeError) -> CliError {
    match error {
        ServeError::PlainText { .. } | ServeError::NoName { .. } | ServeError::Tls { .. } => {
            CliError::usage(error)
        }
        error => CliError::failure(error),
    }
}

/// `lathe serve`.
pub(crate) async fn serve(environment: Environment, arguments: ServeArguments) -> Outcome {
    let places = places(environment);
    let program = std::env::current_exe().or_failure()?;
    let listen = arguments.listen.listen(&places.environment);
    if arguments.install {
        listen.check().map_err(refused)?;
        let mut words = words(&listen);
        if let Some(relay) = arguments.relay {
            words.extend(["--relay".to_owned(), relay]);
        }
        if arguments.allow_widening {
            words.push("--allow-widening".to_owned());
        }
        return install(&places, &program, &words);
    }
    refuse_sessions(&places)?;
    let server = Server::start(Options {
        listen,
        relay: arguments.relay,
        allow_widening: arguments.allow_widening,
        environment: places.environment.clone(),
        config_home: places.config_home.clone(),
        folder: Folder::of(&places.environment),
        program,
        jobs: Some(super::fleet::page::jobs(&places)),
    })
    .await
    .map_err(refused)?;
    print_line(&format!(
        "serving {}\nopen the page with `lathe web`",
        server.url()
    ))?;
    let stopped = stopped_by_signals()?;
    let mut relay = server.relay();
    loop {
        tokio::select! {
            () = stopped.cancelled() => break,
            // The sender lives as long as the server.
            Ok(()) = relay.changed() => tell_of_relay(&relay.borrow_and_update())?,
        }
    }
    drop(server);
    Ok(Exit::Success)
}

fn tell_of_relay(state: &RelayState) -> Result<(), CliError> {
    match state {
        RelayState::Untried => {}
        RelayState::Reached => {
            print("the relay is reached\n")?;
        }
        RelayState::Failed(why) => notice(&format!(
            "the relay can't be reached ({why}); it is tried again for as long as the server runs"
        )),
    }
    Ok(())
}

/// The arguments of a server that listens there, for its service file.
fn words(listen: &Listen) -> Vec<String> {
    let mut words = vec!["--port".to_owned(), listen.port.to_string()];
    let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if listen.address != Listen::default().address {
        add("--address", listen.address.to_string());
    }
    if let Some(tls) = &listen.tls {
        add("--tls-cert", tls.certificate.display().to_string());
        add("--tls-key", tls.key.display().to_string());
    }
    for name in &listen.names {
        add("--name", name.clone());
    }
    if let Some(proxy) = &listen.proxy {
        add("--proxy", proxy.clone());
    }
    words
}

fn install(places: &Places, program: &std::path::Path, arguments: &[String]) -> Outcome {
    let home = places
        .environment
        .home
        .as_deref()
        .ok_or_else(|| CliError::failure("there is no home folder").hint("set HOME"))?;
    let service = lathe_server::install::service(home, &places.config_home, program, arguments);
    if let Some(folder) = service.path.parent() {
        std::fs::create_dir_all(folder).or_failure()?;
    }
    std::fs::write(&service.path, &service.text).or_failure()?;
    print_line(&format!(
        "wrote {}\nenable it with:\n  {}",
        service.path.display(),
        service.commands.join("\n  ")
    ))
}

/// `lathe web`.
pub(crate) fn web(environment: Environment, arguments: &WebArguments) -> Outcome {
    let places = places(environment);
    refuse_sessions(&places)?;
    let path = match &arguments.id {
        None => String::new(),
        Some(wanted) => {
            let host = super::hosts::live(&Folder::of(&places.environment), wanted)?;
            format!("s/{}", host.session_id)
        }
    };
    let address = match lathe_server::running(&places.config_home) {
        Some(address) => address,
        None => start(&places)?,
    };
    let code = Devices::new(&places.config_home)
        .code(arguments.scope)
        .or_failure()?;
    let link = format!("{address}/{path}#c={code}");
    if !arguments.print {
        let opener = if cfg!(target_os = "macos") {
            "open"
        } else {
            "xdg-open"
        };
        // Where there is no browser, the link is printed all the same.
        let _ = lathe_process::Command::new(opener).argument(&link).launch();
    }
    print_line(&format!("{link}\nthe link works once, for ten minutes"))
}

/// Starts a server in the background, and waits until it listens.
fn start(places: &Places) -> Result<String, CliError> {
    let program = std::env::current_exe().or_failure()?;
    let command = lathe_process::Command::new(program).argument("serve");
    command.launch().or_failure()?;
    for _ in 0..LOOK.1 {
        if let Some(address) = lathe_server::running(&places.config_home) {
            return Ok(address);
        }
        std::thread::sleep(LOOK.0);
    }
    Err(CliError::failure("the server did not start").hint("run `lathe serve` to see why"))
}

/// `lathe devices`.
pub(crate) fn devices(environment: Environment, arguments: DevicesArguments) -> Outcome {
    let places = places(environment);
    let devices = Devices::new(&places.config_home);
    match arguments.command.unwrap_or(DevicesCommand::List) {
        DevicesCommand::List => {
            let list = devices.list().or_failure()?;
            if arguments.json {
                let list: Vec<_> = list
                    .iter()
                    .map(|it| json!({"id": it.id, "name": it.name, "scope": it.scope, "created": it.created}))
                    .collect();
                return print(&format!("{:#}\n", json!(list)));
            }
            if list.is_empty() {
                return print_line("no devices; `lathe web` admits the browser");
            }
            let lines: String = list
                .iter()
                .map(|it| {
                    format!(
                        "{}  {:<8} {}  {}\n",
                        it.id,
                        it.scope.name(),
                        it.created,
                        it.name
                    )
                })
                .collect();
            print(&lines)
        }
        DevicesCommand::Add { name, scope } => {
            refuse_sessions(&places)?;
            let (device, token) = devices.admit(&name, scope).or_failure()?;
            if arguments.json {
                return print(&format!(
                    "{}\n",
                    json!({"id": device.id, "name": device.name, "scope": device.scope, "token": token})
                ));
            }
            print_line(&format!(
                "{token}\nthe token of {} ({}); it is not shown again",
                device.name, device.id
            ))
        }
        DevicesCommand::Pair { scope } => {
            refuse_sessions(&places)?;
            super::relay::pair(devices.folder(), scope)
        }
        DevicesCommand::Notify {
            ntfy,
            webhook,
            link,
            after,
            off,
        } => {
            refuse_sessions(&places)?;
            let targets = Targets {
                ntfy,
                webhook,
                link,
                after_seconds: after,
            };
            notify(&places, &targets, off)
        }
        DevicesCommand::Revoke { device } => match devices.revoke(&device).or_failure()? {
            0 => Err(CliError::usage(format!("there is no device {device:?}"))
                .hint("`lathe devices` lists them")),
            count => print_line(&format!("revoked {count}")),
        },
    }
}

/// `lathe devices notify`.
fn notify(places: &Places, targets: &Targets, off: bool) -> Outcome {
    let config_home = &places.config_home;
    if off || targets.has_any() {
        targets.save(config_home).or_failure()?;
    }
    match Targets::read(config_home) {
        Some(targets) => print_line(&format!(
            "questions that wait for {} s are sent to: {}",
            targets.after_seconds,
            [targets.ntfy, targets.webhook]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", ")
        )),
        None => print_line("no push messages are sent"),
    }
}
