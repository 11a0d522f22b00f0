use super::*;
use serde_json::{Value, json};

fn directory(settings: Value) -> (Directory, Vec<ProviderProblem>) {
    let settings: Settings = serde_json::from_value(settings).unwrap();
    Directory::of(&settings, &Environment::default())
}

#[test]
fn a_reference_is_cut_at_the_first_slash_and_only_behind_a_provider() {
    let (directory, problems) = directory(json!({"providers": {
        "house": {"kind": "openai-chat", "baseUrl": "http://localhost:1/v1"}
    }}));
    assert_eq!(problems, []);
    let located = directory.located("openrouter/anthropic/claude-x");
    assert_eq!(
        (located.provider, located.model),
        ("openrouter", "anthropic/claude-x")
    );
    let located = directory.located("house/org/model");
    assert_eq!((located.provider, located.model), ("house", "org/model"));
    for plain in ["qwen/qwen3", "claude-opus-5-5", "house/", "/x"] {
        let located = directory.located(plain);
        assert_eq!((located.provider, located.model), (ANTHROPIC, plain));
    }
    assert_eq!(directory.canonical("anthropic/claude-x"), "claude-x");
    assert_eq!(directory.canonical("house/m"), "house/m");
}

#[test]
fn users_entries_are_merged_over_the_built_in_ones() {
    let (directory, problems) = directory(json!({"providers": {
        "ollama": {"baseUrl": "http://gpu:11434/v1", "models": ["qwen3"]},
        "openai": {"models": {"gpt-5": {"contextWindow": 400_000, "thinking": true}}}
    }}));
    assert_eq!(problems, []);
    let ollama = directory.get("ollama").unwrap();
    assert_eq!(ollama.kind, Kind::Chat);
    assert_eq!(ollama.base_url.as_deref(), Some("http://gpu:11434/v1"));
    assert!(ollama.models.contains_key("qwen3") && !ollama.is_local());
    let openai = directory.get("openai").unwrap();
    assert!(openai.needs_key);
    assert_eq!(openai.facts("gpt-5").reasoning, Some(true));
    assert_eq!(openai.facts("gpt-5").context_window, Some(400_000));
}

#[test]
fn every_spelling_of_a_kind_is_known() {
    for (word, kind) in [
        ("anthropic", Kind::Anthropic),
        ("openai", Kind::Responses),
        ("openai-responses", Kind::Responses),
        ("openai-chat", Kind::Chat),
        ("openai-compatible", Kind::Chat),
        ("openai-completions", Kind::Chat),
        ("gemini", Kind::Gemini),
        ("google", Kind::Gemini),
        ("bedrock", Kind::Bedrock),
        ("vertex", Kind::Vertex),
    ] {
        for key in ["kind", "type"] {
            let (directory, problems) =
                directory(json!({"providers": {"x": {key: word, "baseUrl": "http://h"}}}));
            assert_eq!(problems, []);
            assert_eq!(directory.get("x").unwrap().kind, kind, "{word}");
        }
    }
}

#[test]
fn a_wrong_declaration_is_named_and_ignored() {
    let (directory, problems) = directory(json!({"providers": {
        "a b": {"kind": "openai-chat", "baseUrl": "http://h"},
        "nokind": {"baseUrl": "http://h"},
        "nourl": {"kind": "openai-chat"}
    }}));
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(
        texts
            .iter()
            .any(|text| text.contains("providers.nokind") && text.contains("kind"))
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("providers.nourl") && text.contains("baseUrl"))
    );
    assert!(directory.get("nourl").is_none());
}

#[test]
fn keys_of_other_programs_get_a_hint_with_ours() {
    let (_, problems) = directory(json!({"providers": {"x": {
        "kind": "openai-chat", "baseUrl": "http://h", "base_url": "http://h",
        "env_key": "K", "extra_body": {}, "npm": "p", "http_headers": {}
    }}}));
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (key, ours) in [
        ("base_url", "baseUrl"),
        ("env_key", "apiKeyEnv"),
        ("extra_body", "body"),
        ("npm", "kind"),
        ("http_headers", "headers"),
    ] {
        let named =
            |text: &&String| text.contains(&format!("providers.x.{key}")) && text.contains(ours);
        assert!(texts.iter().find(named).is_some(), "{key}: {texts:?}");
    }
}

#[test]
fn variables_are_filled_in_and_a_missing_one_is_named() {
    let environment = Environment::of_variables([("HOST", "h"), ("EMPTY", "")]);
    let filled = |text: &str| values::filled(text, &environment);
    assert_eq!(
        filled("http://${HOST}/${PORT:-1}$x").unwrap(),
        "http://h/1$x"
    );
    assert_eq!(filled("${EMPTY:-d}").unwrap(), "d");
    assert_eq!(filled("plain ${").unwrap(), "plain ${");
    assert!(filled("${KEY}").unwrap_err().to_string().contains("KEY"));
}

#[test]
fn quirks_of_known_servers_are_data_and_the_users_word_wins() {
    let (directory, _) = directory(json!({"providers": {
        "mistral": {"models": {"m": {"quirks": {"toolIds": "any"}}}}
    }}));
    let of = |name: &str, model: &str| quirks::of(directory.get(name).unwrap(), model);
    assert!(of("mistral", "other").short_ids());
    assert!(!of("mistral", "m").short_ids());
    assert_eq!(of("openrouter", "x").effort(), EffortField::Reasoning);
    assert_eq!(of("deepseek", "x").effort(), EffortField::Thinking);
    assert_eq!(of("vllm", "x").effort(), EffortField::TemplateArguments);
    assert_eq!(of("xai", "x").effort(), EffortField::None);
    assert_eq!(
        of("deepseek", "x").reasoning(),
        Some(ReasoningField::Content)
    );
    assert_eq!(of("groq", "x").system_role, None);
}

#[test]
fn variables_choose_the_default_provider() {
    let environment = Environment::of_variables([("CLAUDE_CODE_USE_BEDROCK", "1")]);
    let (directory, _) = Directory::of(&Settings::default(), &environment);
    assert_eq!(directory.default_provider(), "bedrock");
    assert_eq!(
        directory.located("us.anthropic.claude-x").provider,
        "bedrock"
    );
}
