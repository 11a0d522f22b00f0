//! `lathe fleet init`: files for servers and workers.

use super::super::print;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::job::is_word;
use lathe_headless::exit::Exit;
use lathe_settings::Places;
use std::path::PathBuf;

// `lathe fleet init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// A cluster of three servers instead of a single one.
    #[arg(long)]
    cluster: bool,
    /// The names of the hosts of the servers.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    hosts: Vec<String>,
    /// An account with its own jobs, e.g. for a team. Repeatable.
    #[arg(long, value_name = "NAME", default_value = "team")]
    account: Vec<String>,
    /// Write the files to this folder instead of printing them.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

pub(super) fn run(places: &Places, arguments: &InitArguments) -> Outcome {
    let count = if arguments.cluster { 3 } else { 1 };
    let mut hosts = arguments.hosts.clone();
    if hosts.is_empty() {
        hosts = (1..=count).map(|number| format!("nats-{number}")).collect();
    }
    if hosts.len() != count {
        return Err(CliError::usage(format!("--hosts needs {count} names")));
    }
    let odd = |host: &&String| !host.split('.').all(is_word);
    if let Some(host) = hosts.iter().find(odd) {
        return Err(CliError::usage(format!(
            "{host:?} is not a valid host name"
        )));
    }
    if let Some(account) = arguments.account.iter().find(|name| !is_word(name)) {
        return Err(CliError::usage(format!(
            "{account:?} is not a valid account name"
        )));
    }
    for (name, text) in files(&hosts, &arguments.account) {
        match &arguments.to {
            None => print(&format!("# ---- {name}\n{text}\n"))?,
            Some(folder) => {
                let path = places.environment.cwd.join(folder).join(&name);
                let parent = path.parent().unwrap_or(&path);
                std::fs::create_dir_all(parent).or_failure()?;
                std::fs::write(&path, text).or_failure()?;
                print(&format!("wrote {}\n", path.display()))?
            }
        };
    }
    Ok(Exit::Success)
}

/// The files with their names.
fn files(hosts: &[String], accounts: &[String]) -> Vec<(String, String)> {
    let mut files: Vec<_> = hosts
        .iter()
        .map(|host| (format!("{host}.conf"), server(host, hosts, accounts)))
        .collect();
    let user = accounts.first().map_or("team", String::as_str);
    let servers: Vec<String> = hosts
        .iter()
        .map(|host| format!("nats://{user}:${{NATS_PASSWORD}}@{host}:4222"))
        .collect();
    let url = servers.join(",");
    files.push(("nats-server.service".to_owned(), NATS_UNIT.to_owned()));
    files.push((
        "lathe-worker.service".to_owned(),
        WORKER_UNIT.replace("@URL@", &url),
    ));
    files.push(("compose.yaml".to_owned(), compose(hosts, accounts, &url)));
    files.push((
        "kubernetes.yaml".to_owned(),
        KUBERNETES.replace(
            "@URL@",
            &url.replace("${NATS_PASSWORD}", "$(NATS_PASSWORD)"),
        ),
    ));
    files
}

/// The variables with the passwords of accounts: the first one has the short name.
fn passwords(accounts: &[String]) -> Vec<String> {
    let name = |(number, account): (usize, &String)| match number {
        0 => "NATS_PASSWORD".to_owned(),
        _ => format!("NATS_PASSWORD_{}", account.to_uppercase().replace('-', "_")),
    };
    accounts.iter().enumerate().map(name).collect()
}

/// Where servers tell their settings.
const VARZ: &str = "$SYS.REQ.SERVER.PING.VARZ";

/// The configuration of one server. Passwords come from its environment.
fn server(host: &str, hosts: &[String], accounts: &[String]) -> String {
    let first = accounts.first().map_or("team", String::as_str);
    let mut text = format!(
        "server_name: {host}\nlisten: 0.0.0.0:4222\nhttp: 127.0.0.1:8222\nmax_payload: 1MB\n\njetstream {{\n  store_dir: /var/lib/nats\n  \
         # Acknowledged writes are on the disk: without it, a power failure of all servers loses the last ones.\n  \
         sync_interval: always\n}}\n\n\
         # Passwords are letters and digits that begin with a letter: the server reads variables as configuration.\naccounts {{\n  SYS {{\n    users: [ {{ user: admin, password: $NATS_ADMIN_PASSWORD }} ]\n    \
         # So that `lathe fleet doctor` sees how the servers write to their disks.\n    \
         exports: [ {{ service: \"{VARZ}\", accounts: [{first}], response_type: stream }} ]\n  }}\n"
    );
    for (number, (account, variable)) in accounts.iter().zip(passwords(accounts)).enumerate() {
        let imports = match number {
            0 => {
                format!("    imports: [ {{ service: {{ account: SYS, subject: \"{VARZ}\" }} }} ]\n")
            }
            _ => String::new(),
        };
        text.push_str(&format!(
            "  {account} {{\n    jetstream: enabled\n    users: [ {{ user: {account}, password: ${variable} }} ]\n{imports}  }}\n"
        ));
    }
    text.push_str("}\nsystem_account: SYS\n");
    if hosts.len() > 1 {
        let routes: Vec<String> = hosts
            .iter()
            .map(|host| format!("nats://{host}:6222"))
            .collect();
        text.push_str(&format!(
            "\ncluster {{\n  name: lathe\n  listen: 0.0.0.0:6222\n  routes: [ {} ]\n}}\n",
            routes.join(", ")
        ));
    }
    text
}

fn compose(hosts: &[String], accounts: &[String], url: &str) -> String {
    let mut text = "services:\n".to_owned();
    let passwords = passwords(accounts).join(", ");
    for host in hosts {
        text.push_str(&format!(
            "  {host}:\n    image: nats:2.12\n    command: [\"-c\", \"/etc/nats/nats.conf\"]\n    environment: [{passwords}, NATS_ADMIN_PASSWORD]\n    \
             volumes:\n      - ./{host}.conf:/etc/nats/nats.conf:ro\n      - {host}:/var/lib/nats\n    restart: unless-stopped\n"
        ));
    }
    text.push_str(&format!(
        "  worker:\n    image: lathe:latest\n    command: [\"lathe\", \"fleet\", \"worker\", \"--slots\", \"4\", \"--nats\", \"{url}\"]\n    \
         environment: [ANTHROPIC_API_KEY]\n    stop_grace_period: 60s\n    restart: unless-stopped\n    deploy:\n      replicas: 2\nvolumes:\n"
    ));
    for host in hosts {
        text.push_str(&format!("  {host}: {{}}\n"));
    }
    text
}

const NATS_UNIT: &str = "[Unit]
Description=NATS server of a lathe fleet
After=network-online.target

[Service]
EnvironmentFile=/etc/nats/password
ExecStart=/usr/bin/nats-server -c /etc/nats/nats.conf
Restart=always
User=nats
StateDirectory=nats
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
";

const WORKER_UNIT: &str = "[Unit]
Description=lathe fleet worker
After=network-online.target

[Service]
# ANTHROPIC_API_KEY, NATS_PASSWORD and the variables of --secrets.
EnvironmentFile=/etc/lathe/worker
ExecStart=/usr/bin/lathe fleet worker --slots 4 --nats @URL@
# Jobs that run are finished or handed over.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=90
Restart=always
User=lathe
StateDirectory=lathe

[Install]
WantedBy=multi-user.target
";

const KUBERNETES: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: lathe-worker
spec:
  replicas: 4
  selector:
    matchLabels: {app: lathe-worker}
  template:
    metadata:
      labels: {app: lathe-worker}
    spec:
      terminationGracePeriodSeconds: 90
      containers:
        - name: worker
          image: lathe:latest
          command: [lathe, fleet, worker, --slots, \"2\", --nats, \"@URL@\"]
          env:
            - name: ANTHROPIC_API_KEY
              valueFrom: {secretKeyRef: {name: lathe, key: anthropic-api-key}}
            - name: NATS_PASSWORD
              valueFrom: {secretKeyRef: {name: lathe, key: nats-password}}
          resources:
            requests: {cpu: \"1\", memory: 1Gi}
";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_knows_its_members_and_nothing_holds_a_password() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let files = files(&hosts, &["ada".to_owned()]);
        let text = |name: &str| &files.iter().find(|file| file.0 == name).unwrap().1;
        let server = text("b.conf");
        assert!(
            server.contains("server_name: b") && server.contains("nats://c:6222"),
            "{server}"
        );
        assert!(server.contains("sync_interval: always") && server.contains("$NATS_PASSWORD"));
        assert!(text("lathe-worker.service").contains("nats://ada:${NATS_PASSWORD}@a:4222"));
        assert!(text("kubernetes.yaml").contains("$(NATS_PASSWORD)"));
        assert!(text("compose.yaml").contains("- ./c.conf:/etc/nats/nats.conf:ro"));
        let single = super::files(&hosts[..1], &["ada".to_owned()]);
        assert!(!single[0].1.contains("cluster"));
    }

    #[test]
    fn files_for_workers_are_yaml_and_accounts_have_passwords_of_their_own() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let files = files(&hosts, &["ada".to_owned(), "team-b".to_owned()]);
        let text = |name: &str| &files.iter().find(|file| file.0 == name).unwrap().1;
        let yaml =
            |name: &str| -> serde_json::Value { serde_saphyr::from_str(text(name)).unwrap() };
        let compose = yaml("compose.yaml");
        let variables = json!([
            "NATS_PASSWORD",
            "NATS_PASSWORD_TEAM_B",
            "NATS_ADMIN_PASSWORD"
        ]);
        assert_eq!(compose["services"]["b"]["environment"], variables);
        let url = "nats://ada:${NATS_PASSWORD}@a:4222,nats://ada:${NATS_PASSWORD}@b:4222,nats://ada:${NATS_PASSWORD}@c:4222";
        let command = &compose["services"]["worker"]["command"];
        assert_eq!(command.as_array().unwrap().last(), Some(&json!(url)));
        let pod = &yaml("kubernetes.yaml")["spec"]["template"]["spec"];
        let command = &pod["containers"][0]["command"];
        assert_eq!(
            command[6],
            json!(url.replace("${NATS_PASSWORD}", "$(NATS_PASSWORD)"))
        );
        assert!(text("a.conf").contains("user: team-b, password: $NATS_PASSWORD_TEAM_B"));
    }
}
