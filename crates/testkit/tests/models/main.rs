//! One suite of behaviour, run on every kind of provider: what the user sees doesn't depend on the wire.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "tables of JSON values read better without references"
)]

mod complaints;
mod credentials;
mod declared;
mod discovery;
mod house;
mod official;
mod peers;
mod scenarios;
mod small;
mod streams;
mod words;

use house::{House, KINDS};

fn every_scenario_on(kind: &'static str) {
    let kind = KINDS.iter().find(|known| known.name == kind).unwrap();
    let mut failed = Vec::new();
    for (name, scenario) in scenarios::ALL {
        if kind.skips.contains(name) {
            continue;
        }
        let outcome = std::panic::catch_unwind(|| scenario(&House::new(kind)));
        if let Err(panic) = outcome {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            failed.push(format!("{name}: {}", text.unwrap_or_default()));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} scenarios fail on {}:\n{}",
        failed.len(),
        scenarios::ALL.len(),
        kind.name,
        failed.join("\n")
    );
}

#[test]
fn there_are_forty_scenarios() {
    assert!(scenarios::ALL.len() >= 40, "{}", scenarios::ALL.len());
}

#[test]
fn every_scenario_on_anthropic() {
    every_scenario_on("anthropic");
}

#[test]
fn every_scenario_on_openai_chat() {
    every_scenario_on("openai-chat");
}

#[test]
fn every_scenario_on_openai_responses() {
    every_scenario_on("openai");
}

#[test]
fn every_scenario_on_gemini() {
    every_scenario_on("gemini");
}

#[test]
fn every_scenario_on_bedrock() {
    every_scenario_on("bedrock");
}

#[test]
fn every_scenario_on_vertex() {
    every_scenario_on("vertex");
}
