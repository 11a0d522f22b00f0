//! Checks of the servers, for `fleet doctor`.

use super::{Nats, REQUEST};
use crate::backend::Check;
use crate::error::QueueError;
use futures::StreamExt as _;
use serde_json::Value;

/// The oldest version that is supported, and the oldest that is recommended.
const REQUIRED: (u32, u32, u32) = (2, 10, 23);
const RECOMMENDED: (u32, u32, u32) = (2, 12, 0);
/// How long answers of further servers are waited for.
const OTHERS: std::time::Duration = std::time::Duration::from_millis(500);
/// More difference than this between the clocks is reported, in milliseconds.
const SKEW: i64 = 5_000;

fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split(['.', '-']).map(str::parse);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ))
}

/// Judges the version of a server.
fn about_version(text: &str) -> Check {
    match version(text) {
        Some(found) if found < REQUIRED => Check::wrong(
            "server",
            format!("nats-server {text} is older than 2.10.23"),
            "install nats-server 2.12 or later",
        ),
        Some(found) if found < RECOMMENDED => Check::wrong(
            "server",
            format!("nats-server {text} works; 2.12 or later is recommended"),
            "install nats-server 2.12 or later",
        ),
        Some(_) => Check::fine("server", format!("nats-server {text}")),
        None => Check::wrong(
            "server",
            format!("the version {text:?} can't be read"),
            "install nats-server 2.12 or later",
        ),
    }
}

/// Judges the setting that decides when servers write to their disks, from what each of them says.
fn about_syncing(servers: &[Value]) -> Check {
    if servers.is_empty() {
        return Check::fine(
            "fsync",
            "not visible to this account; see that the servers have `sync_interval: always`",
        );
    }
    let later = |it: &&Value| it["data"]["jetstream"]["config"]["sync_always"] != true;
    let later = servers.iter().filter(later);
    let names: Vec<&str> = later
        .map(|it| it["server"]["name"].as_str().unwrap_or("a server"))
        .collect();
    if names.is_empty() {
        let text = "every write is synced before it is acknowledged";
        return Check::fine("fsync", format!("{text} ({} servers)", servers.len()));
    }
    Check::wrong(
        "fsync",
        format!(
            "{} write to their disks later: a power failure of all servers loses the last writes",
            names.join(", ")
        ),
        "set `sync_interval: always` in the jetstream block (`lathe fleet init` prints it)",
    )
}

/// The settings of the servers, as each says them; none where this account may not ask.
async fn settings(nats: &Nats) -> Vec<Value> {
    let inbox = nats.client.new_inbox();
    let Ok(mut answers) = nats.client.subscribe(inbox.clone()).await else {
        return Vec::new();
    };
    let asked = nats
        .client
        .publish_with_reply("$SYS.REQ.SERVER.PING.VARZ", inbox, "".into());
    if asked.await.is_err() {
        return Vec::new();
    }
    let mut found = Vec::new();
    // How many there are is not known: the others answer soon after the first.
    let mut limit = REQUEST;
    while let Ok(Some(answer)) = tokio::time::timeout(limit, answers.next()).await {
        match serde_json::from_slice(&answer.payload) {
            Ok(value) => found.push(value),
            // Nobody answers this account.
            Err(_) => break,
        }
        limit = OTHERS;
    }
    found
}

pub(super) async fn run(nats: &Nats) -> Result<Vec<Check>, QueueError> {
    let info = nats.client.server_info();
    let mut checks = vec![about_version(&info.version)];
    checks.push(about_syncing(&settings(nats).await));
    let stream = nats
        .entries
        .stream()
        .get_info()
        .await
        .map_err(super::failed)?;
    let replicas = stream.config.num_replicas;
    checks.push(match &stream.cluster {
        Some(cluster) if cluster.leader.is_none() => Check::wrong(
            "replicas",
            "the streams have no leader",
            "start the servers that are missing",
        ),
        Some(cluster) if replicas < 3 && !cluster.replicas.is_empty() => Check::wrong(
            "replicas",
            format!("{replicas} servers keep each stream"),
            "nats stream edit --replicas 3 for each stream of the fleet",
        ),
        _ if replicas < 3 => Check::wrong(
            "replicas",
            "one server keeps the streams: without it, nothing runs",
            "run three servers (`lathe fleet init --cluster`)",
        ),
        _ => Check::fine("replicas", format!("{replicas} servers keep each stream")),
    });
    let skew = nats.measure_skew().await?;
    checks.push(if skew.abs() < SKEW {
        Check::fine("clock", format!("{} ms from the server's", skew.abs()))
    } else {
        Check::wrong(
            "clock",
            format!(
                "{} s from the server's; leases are not affected",
                skew / 1000
            ),
            "set the clock of this machine (timedatectl set-ntp true)",
        )
    });
    let mut consumers = nats.jobs.consumers();
    let (mut count, mut stuck) = (0, Vec::new());
    while let Some(consumer) = consumers.next().await {
        let consumer = consumer.map_err(super::failed)?;
        count += 1;
        let idle = consumer.num_waiting == 0 && consumer.num_ack_pending == 0;
        if consumer.num_pending > 0 && idle {
            stuck.push(format!("{} ({})", consumer.name, consumer.num_pending));
        }
    }
    checks.push(if stuck.is_empty() {
        Check::fine("consumers", format!("{count}, none is stuck"))
    } else {
        Check::wrong(
            "consumers",
            format!("jobs that nobody takes: {}", stuck.join(", ")),
            "start workers of these classes",
        )
    });
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_and_settings_of_servers_are_judged() {
        assert!(!about_version("2.9.10").ok && !about_version("2.10.27").ok);
        assert!(about_version("2.15.1").ok && about_version("2.12.0-beta.1").ok);
        assert!(!about_version("dev").ok);
        let server = |name: &str, always: bool| {
            let data = json!({"jetstream": {"config": {"sync_always": always}}});
            json!({"server": {"name": name}, "data": data})
        };
        assert!(about_syncing(&[server("a", true), server("b", true)]).ok);
        let one = about_syncing(&[server("a", true), server("b", false)]);
        assert!(!one.ok && one.text.starts_with("b write"), "{}", one.text);
        assert!(about_syncing(&[]).ok);
    }
}
