//! `lathe fleet show`.

use super::super::{print, print_line};
use super::{clean, find};
use crate::error::{Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use serde_json::json;

// `lathe fleet show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The job: its id or a prefix of it.
    id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(fleet: &Fleet, arguments: &ShowArguments) -> Outcome {
    let key = find(fleet, &arguments.id).await?;
    let entry = fleet.entry(&key).await.or_failure()?;
    let asks = fleet.asks(&key).await.or_failure()?;
    if arguments.json {
        let mut value = json!(entry);
        value["asks"] = json!(asks);
        return print_line(&format!("{value:#}"));
    }
    let job = &entry.job;
    let mut lines = vec![
        format!("job       {}", job.id),
        format!("title     {}", clean(job.headline(), 100)),
        format!("state     {}", entry.state.name()),
        format!("tenant    {}", job.tenant),
        format!("class     {} ({})", job.class, job.priority.name()),
        format!("attempts  {}", entry.attempt),
        format!("cost      ${:.4}", entry.cost_usd),
    ];
    let mut add = |name: &str, value: Option<&str>| {
        lines.extend(value.map(|value| format!("{name:<10}{}", clean(value, 500))));
    };
    add("worker", entry.worker.as_deref());
    add("reason", entry.reason.as_deref());
    add("session", entry.session.as_deref());
    add("repo", job.place.repo.as_deref());
    let folder = job.place.folder.as_ref().map(|it| it.display().to_string());
    add("folder", folder.as_deref());
    for ask in &asks {
        let answer = match &ask.answer {
            None => "open".to_owned(),
            Some(answer) if answer.allow => format!("allowed by {}", answer.by),
            Some(answer) => format!("denied by {}", answer.by),
        };
        lines.push(format!(
            "question  {}  {} — {answer}",
            ask.id,
            clean(&ask.title, 200)
        ));
    }
    if let Some(result) = &entry.result {
        let has = |name: &str, there: bool| {
            if there {
                format!("{name} ")
            } else {
                String::new()
            }
        };
        lines.push(format!(
            "result    {}{}{}",
            has("diff", result.diff.is_some()),
            has("bundle", result.bundle.is_some()),
            has("structured", result.structured.is_some()),
        ));
        lines.push(String::new());
        lines.push(lathe_protocol::printable::clean(&result.text).into_owned());
    }
    print(&format!("{}\n", lines.join("\n")))
}
