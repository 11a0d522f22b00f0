use super::*;
use serde_json::json;

fn near(cost: Option<f64>, expected: f64) {
    let cost = cost.unwrap();
    assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
}

#[test]
fn every_short_name_leads_to_a_priced_model() {
    let catalog = Catalog::built_in();
    for alias in ["default", "opus", "sonnet", "haiku", "fable", "OPUS"] {
        let model = catalog.resolve(alias);
        assert!(
            model.known && model.info.prices.is_some(),
            "{alias} → {}",
            model.id
        );
    }
    assert_eq!(catalog.resolve(" ").id, catalog.default_model().id);
    for id in catalog.ids() {
        let info = catalog.find(id).unwrap();
        assert!(info.max_output as u64 <= info.context_window, "{id}");
        assert!(info.name.is_some() && info.thinking.is_some(), "{id}");
    }
}

#[test]
fn versions_and_cloud_names_are_recognised_and_other_models_are_not() {
    let catalog = Catalog::built_in();
    let opus = catalog.find("claude-opus-4-5").unwrap();
    for id in [
        "claude-opus-4-5-20251101",
        "claude-opus-4-5@20251101",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "anthropic/claude-opus-4-5",
        "claude-opus-4-5-latest",
    ] {
        assert_eq!(catalog.find(id), Some(opus), "{id}");
    }
    let first = catalog.find("claude-opus-4-20250514").unwrap();
    assert_eq!(first.prices.unwrap().input, 15.0);
    for id in ["claude-opus-4-99", "claude-opus-45", "gpt-x", "", "claude-"] {
        assert_eq!(catalog.find(id), None, "{id}");
    }
}

#[test]
fn an_unknown_model_works_with_careful_limits_and_no_price() {
    let catalog = Catalog::built_in();
    let model = catalog.resolve("qwen3:latest");
    assert_eq!(model.id, "qwen3:latest");
    assert!(!model.known);
    assert_eq!(model.info.context_window, 200_000);
    assert_eq!(model.info.small_output(), SMALL_OUTPUT);
    assert_eq!(catalog.cost("qwen3:latest", &Usage::default()), None);
}

#[test]
fn the_environment_moves_short_names() {
    let catalog = Catalog::built_in().with_environment(&Environment::of_variables([
        ("ANTHROPIC_MODEL", "sonnet"),
        ("ANTHROPIC_DEFAULT_SONNET_MODEL", "my-sonnet"),
        ("ANTHROPIC_SMALL_FAST_MODEL", "tiny"),
    ]));
    assert_eq!(catalog.default_model().id, "my-sonnet");
    assert_eq!(catalog.small_fast_model().id, "tiny");
    assert_eq!(catalog.resolve("opus").id, "claude-opus-5-5");
    let plain = Catalog::built_in();
    assert_eq!(plain.small_fast_model().id, plain.resolve("haiku").id);
}

#[test]
fn a_long_context_window_is_asked_for_in_the_name() {
    let catalog = Catalog::built_in();
    let model = catalog.resolve("claude-sonnet-4-5[1m]");
    assert_eq!(model.id, "claude-sonnet-4-5");
    assert_eq!(model.info.context_window, 1_000_000);
    assert_eq!(model.betas, ["context-1m-2025-08-07"]);
    assert_eq!(
        catalog.resolve("claude-sonnet-4-5").info.context_window,
        200_000
    );
    let model = catalog.resolve("opus[1m]");
    assert_eq!(
        (model.id.as_str(), model.betas.len()),
        ("claude-opus-5-5", 0)
    );
}

#[test]
fn settings_add_models_and_change_fields_of_known_ones() {
    let mut catalog = Catalog::built_in();
    catalog
        .extend(&json!({
            "models": {
                "house": {"context_window": 32_000, "max_output": 4_000, "prices": {"input": 1, "output": 2}},
                "claude-opus-5-5": {"prices": {"input": 3, "output": 15}}
            },
            "aliases": {"h": "house"}
        }))
        .unwrap();
    assert_eq!(catalog.resolve("h").info.context_window, 32_000);
    let usage = Usage {
        input_tokens: 1_000_000,
        cache_read_input_tokens: 1_000_000,
        ..Usage::default()
    };
    near(catalog.cost("house", &usage), 1.1);
    let opus = catalog.find("claude-opus-5-5").unwrap();
    assert_eq!(
        (opus.prices.unwrap().input, opus.context_window),
        (3.0, 1_000_000)
    );
}

#[test]
fn bad_settings_are_named_and_the_rest_applies() {
    let mut catalog = Catalog::built_in();
    let wrong = catalog
        .extend(&json!({
            "models": {"good": {}, "bad": {"context": 5}, "worse": {"prices": {"input": -1, "output": 0}}},
            "aliases": {"x": 7},
            "price": {}
        }))
        .unwrap_err();
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert!(
        wrong[0]
            .to_string()
            .starts_with("models.bad: unknown field `context`"),
        "{wrong:?}"
    );
    assert!(catalog.resolve("good").known);
    assert!(catalog.extend(&json!([])).is_err());
}

#[test]
fn short_names_that_point_in_a_circle_end() {
    let mut catalog = Catalog::built_in();
    catalog
        .extend(&json!({"aliases": {"a": "b", "b": "a"}}))
        .unwrap();
    let id = catalog.resolve("a").id;
    assert!(id == "a" || id == "b");
}

#[test]
fn thinking_is_fitted_to_what_the_model_takes() {
    let catalog = Catalog::built_in();
    let fit = |model: &str, wanted| {
        catalog
            .resolve(model)
            .info
            .fit_thinking(wanted)
            .map(|thinking: Thinking| thinking.mode)
    };
    assert_eq!(fit("opus", Thinking::disabled()), None);
    assert_eq!(
        fit("opus", Thinking::budget(5000)),
        Some(ThinkingMode::Adaptive)
    );
    assert_eq!(
        fit("sonnet", Thinking::disabled()),
        Some(ThinkingMode::BetweenTools)
    );
    assert_eq!(
        fit("claude-opus-4-5", Thinking::budget(5000)),
        Some(ThinkingMode::Budget(5000))
    );
    assert_eq!(
        fit("claude-opus-4-5", Thinking::adaptive()),
        Some(ThinkingMode::Budget(31_999))
    );
    assert_eq!(
        fit("claude-opus-4-5", Thinking::disabled()),
        Some(ThinkingMode::Disabled)
    );
    assert_eq!(fit("claude-3-haiku", Thinking::adaptive()), None);
    assert_eq!(
        fit("unknown", Thinking::budget(5000)),
        Some(ThinkingMode::Budget(5000))
    );
}
