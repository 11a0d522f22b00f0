//! `lathe fleet budget`.

use super::super::print_line;
use super::refuse_sessions;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_fleet::job::is_word;
use lathe_settings::Places;
use serde_json::json;

// `lathe fleet budget`.
#[derive(Debug, Args)]
pub(crate) struct BudgetArguments {
    /// The tenant.
    #[arg(default_value = "default")]
    tenant: String,
    /// Maximum total cost of its jobs, past ones included; 0 removes the limit.
    #[arg(long, value_name = "USD")]
    limit: Option<f64>,
    /// Maximum number of concurrent jobs; 0 removes the limit.
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(places: &Places, fleet: &Fleet, arguments: &BudgetArguments) -> Outcome {
    let tenant = &arguments.tenant;
    if !is_word(tenant) {
        return Err(CliError::usage(format!(
            "{tenant:?} is not a valid tenant name"
        )));
    }
    if arguments
        .limit
        .is_some_and(|usd| !usd.is_finite() || usd < 0.0)
    {
        return Err(CliError::usage("--limit must be 0 or more"));
    }
    let budget = if arguments.limit.is_some() || arguments.concurrency.is_some() {
        refuse_sessions(places, fleet).await?;
        fleet
            .set_budget(tenant, |budget| {
                if let Some(usd) = arguments.limit {
                    budget.limit_usd = Some(usd).filter(|usd| *usd > 0.0);
                }
                if let Some(most) = arguments.concurrency {
                    budget.concurrency = Some(most).filter(|most| *most > 0);
                }
            })
            .await
            .or_failure()?
    } else {
        fleet.backend().budget(tenant).await.or_failure()?.value
    };
    if arguments.json {
        return print_line(&json!(budget).to_string());
    }
    let reserved: f64 = budget.reserved.values().sum();
    let limit = budget
        .limit_usd
        .map_or_else(|| "no limit".to_owned(), |usd| format!("${usd:.2}"));
    let most = budget
        .concurrency
        .map_or_else(|| "any number of".to_owned(), |most| most.to_string());
    print_line(&format!(
        "{tenant}: ${:.2} spent, ${reserved:.2} reserved, limit {limit}; {most} jobs at a time",
        budget.spent_usd
    ))
}
