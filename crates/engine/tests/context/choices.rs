//! Choices of a caller about requests and their cost.

use crate::support::Place;
use lathe_engine::{Restart, SessionChoice};
use lathe_protocol::op::Op;
use lathe_scripted::{Reply, Scenario};
use serde_json::{Value, json};

fn messages_of(place: &Place, index: usize) -> String {
    let requests = place.server.message_requests();
    Value::from(requests[index].messages().to_vec()).to_string()
}

#[tokio::test]
async fn a_budget_of_tokens_is_a_choice_a_variable_or_a_setting_in_this_order() {
    let scenario = Scenario::new().responder(|_| Reply::text("word ".repeat(200)));
    let mut place = Place::new(scenario, 200_000).await;
    place.settings = json!({"maxSessionTokens": 30_000, "maxBudgetUsd": 1_000.0});
    let ended = async |place: &Place, own: Option<u64>| {
        let mut options = place.options();
        options.limits.max_session_tokens = own;
        let mut talk = place.open_with(options).await;
        loop {
            let result = talk.say("go on").await;
            if result.is_error {
                talk.finish().await;
                return result.errors[0].clone();
            }
        }
    };
    assert!(ended(&place, None).await.contains("30000 tokens"));
    place
        .variables
        .push(("LATHE_MAX_SESSION_TOKENS".to_owned(), "20000".to_owned()));
    assert!(ended(&place, None).await.contains("20000 tokens"));
    assert!(ended(&place, Some(10_000)).await.contains("10000 tokens"));
    place.settings = json!({"maxBudgetUsd": 0.0001});
    assert!(
        ended(&place, Some(9_999_999))
            .await
            .contains("maximum budget")
    );
}

#[tokio::test]
async fn what_varies_of_the_prompt_may_be_told_in_the_conversation() {
    let scenario = Scenario::new().responder(|_| Reply::text("fine"));
    let mut place = Place::new(scenario, 200_000).await;
    place.settings = json!({"attribution": {"commit": "Signed-off-by: Us"}});
    let mut options = place.options();
    options.prompt.varying_apart = true;
    let mut talk = place.open_with(options).await;
    talk.say("one").await;
    talk.say("two").await;
    talk.finish().await;
    let requests = place.server.message_requests();
    assert!(!requests[0].system_text().contains("Working folder"));
    let first = messages_of(&place, 1);
    assert_eq!(first.matches("Working folder").count(), 1, "{first}");
    assert!(first.contains("Signed-off-by: Us"));
    // It is part of the conversation: a resume finds it there.
    let mut options = place.options();
    options.prompt.varying_apart = true;
    options.history.session = SessionChoice::Continue;
    let mut talk = place.open_with(options).await;
    talk.say("three").await;
    talk.finish().await;
    assert_eq!(messages_of(&place, 2).matches("Working folder").count(), 1);
}

#[tokio::test]
async fn a_tool_answers_to_another_name_where_the_host_says_so() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use(
            "Shell",
            json!({"command": "echo it is me"}),
        ))
        .reply(Reply::text("done"));
    let place = Place::new(scenario, 200_000).await;
    let mut options = place.options();
    options.tools.aliases = [("Shell".to_owned(), "Bash".to_owned())].into();
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    talk.finish().await;
    assert!(messages_of(&place, 1).contains("it is me"));
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_budget_of_dollars_is_for_this_run_not_for_what_was_spent_before() {
    let scenario = Scenario::new().responder(|_| Reply::text("fine"));
    let place = Place::new(scenario, 200_000).await;
    let spend = async |session: SessionChoice| {
        let mut options = place.options();
        options.history.session = session;
        options.limits.max_budget_usd = Some(0.000_001);
        let mut talk = place.open_with(options).await;
        let first = talk.say("one").await;
        assert!(!first.is_error, "{:?}", first.errors);
        let second = talk.say("two").await;
        assert!(second.errors[0].contains("maximum budget"), "{second:?}");
        let (total, counted) = (
            second.total_cost_usd,
            talk.session.history().spent_in_run_usd(),
        );
        talk.finish().await;
        (total, counted)
    };
    let (total, counted) = spend(SessionChoice::New).await;
    assert!((total - counted).abs() < 1e-9);
    // The totals are the session's; the budget is this run's.
    let (whole, counted) = spend(SessionChoice::Continue).await;
    assert!(whole > total);
    assert!((whole - total - counted).abs() < 1e-9);
    // What a run spent in a session that was cleared counts in the next one.
    let mut options = place.options();
    options.limits.max_budget_usd = Some(0.000_001);
    let mut talk = place.open_with(options.clone()).await;
    assert!(!talk.say("one").await.is_error);
    let next = talk.session.restart(&Restart::Clear, &options);
    talk.finish().await;
    let mut talk = place.open_with(next).await;
    assert!(talk.say("two").await.errors[0].contains("maximum budget"));
    talk.finish().await;
}

#[tokio::test]
async fn a_kept_system_prompt_stays_the_same_over_resumes_until_a_compaction() {
    let place = Place::new(crate::support::chatter(3_000), 200_000).await;
    let open = async |keep: bool, words: &str, session: SessionChoice| {
        let mut options = place.options();
        options.prompt.keep = keep;
        options.prompt.append = Some(words.to_owned());
        options.history.session = session;
        place.open_with(options).await
    };
    let last_system = || {
        let request = place.main_requests().pop().unwrap();
        request.body["system"].clone()
    };
    let mut talk = open(true, "first words", SessionChoice::New).await;
    talk.say("hello").await;
    talk.finish().await;
    let first = last_system();
    assert!(first.to_string().contains("first words"));
    let mut talk = open(true, "second words", SessionChoice::Continue).await;
    talk.say("again").await;
    assert_eq!(last_system(), first);
    talk.session.send(Op::Compact { instructions: None });
    assert!(talk.compacted().await);
    talk.say("after it").await;
    assert!(last_system().to_string().contains("second words"));
    talk.finish().await;
    let mut talk = open(true, "third words", SessionChoice::Continue).await;
    talk.say("and again").await;
    talk.finish().await;
    assert!(last_system().to_string().contains("second words"));
    let mut talk = open(false, "fourth words", SessionChoice::Continue).await;
    talk.say("not kept").await;
    talk.finish().await;
    assert!(last_system().to_string().contains("fourth words"));
}

#[tokio::test]
async fn a_hook_at_the_start_brings_skills_and_hears_of_files_that_it_names() {
    let scenario = Scenario::new().responder(|_| Reply::text("fine"));
    let mut place = Place::new(scenario, 200_000).await;
    std::fs::create_dir_all(place.project().join(".git")).unwrap();
    let skill = place.config().join("skills/winding");
    let start = format!(
        "mkdir -p {0} && printf -- '---\\nname: winding\\ndescription: how clocks are wound\\n---\\nTurn it.\\n' > {0}/SKILL.md && echo '{1}'",
        skill.display(),
        json!({"hookSpecificOutput": {
            "hookEventName": "SessionStart", "reloadSkills": true, "watchPaths": [".env"],
        }})
    );
    let command = |text: &str| json!([{"hooks": [{"type": "command", "command": text}]}]);
    place.settings = json!({"hooks": {
        "SessionStart": command(&start),
        "FileChanged": command("cat >> heard.log; echo >> heard.log"),
    }});
    let mut talk = place.open().await;
    talk.say("hello").await;
    assert!(messages_of(&place, 0).contains("how clocks are wound"));
    let heard = |event: &str| {
        let log = place.project().join("heard.log");
        let event = format!("\"event\":\"{event}\"");
        let file = place.project().join(".env").display().to_string();
        async move {
            loop {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                if text.contains(&event) {
                    assert!(text.contains(&file), "{text}");
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    };
    let patience = std::time::Duration::from_secs(60);
    std::fs::write(place.project().join(".env"), "A=1").unwrap();
    tokio::time::timeout(patience, heard("add")).await.unwrap();
    std::fs::remove_file(place.project().join(".env")).unwrap();
    tokio::time::timeout(patience, heard("unlink"))
        .await
        .unwrap();
    talk.finish().await;
}

#[tokio::test]
async fn near_the_limit_the_provider_is_asked_to_count_and_its_word_goes_before_the_guess() {
    let place = Place::new(crate::support::chatter(10), 60_000).await;
    let counts = || {
        let all = place.server.requests();
        all.iter()
            .filter(|request| request.path.ends_with("/count_tokens"))
            .count()
    };
    let mut talk = place.open().await;
    talk.say("hello").await;
    assert_eq!(counts(), 0, "far from the limit nobody is asked");
    // Our guess for such letters is about twice what this provider counts.
    let letters: String = (0..25_000_u64)
        .map(|number| format!("{:04x}", number.wrapping_mul(0x9e37_79b9) >> 8 & 0xffff))
        .collect();
    let result = talk.say(letters).await;
    assert!(!result.is_error, "{:?}", result.errors);
    let seen = talk.finish().await;
    assert_eq!(
        counts(),
        2,
        "for the prompt alone, and for the conversation with it"
    );
    assert_eq!(seen.compactions, [], "the provider says that there is room");
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_session_of_a_person_is_named_once_after_its_first_turn() {
    let names = |request: &lathe_scripted::RecordedRequest| {
        request.system_text().contains("You name conversations")
    };
    let scenario = Scenario::new().responder(move |request| {
        Reply::text(if names(request) {
            "Clocks that are late"
        } else {
            "fine"
        })
    });
    let mut place = Place::new(scenario, 200_000).await;
    let named = |place: &Place| {
        let requests = place.server.message_requests();
        requests.iter().filter(|request| names(request)).count()
    };
    let talk_of = async |place: &Place, interactive: bool, session: SessionChoice| {
        let mut options = place.options();
        options.interactive = interactive;
        options.history.session = session;
        let mut talk = place.open_with(options).await;
        for words in ["one", "two"] {
            assert!(!talk.say(words).await.is_error);
            talk.session.tasks().settled().await;
        }
        let transcript = talk.session.transcript().to_owned();
        talk.finish().await;
        std::fs::read_to_string(transcript).unwrap()
    };
    talk_of(&place, true, SessionChoice::New).await;
    assert_eq!(named(&place), 0, "the variable goes before everything");
    place.names_sessions = true;
    talk_of(&place, false, SessionChoice::New).await;
    assert_eq!(named(&place), 0, "nobody sits there");
    let kept = talk_of(&place, true, SessionChoice::New).await;
    assert_eq!(named(&place), 1);
    assert!(
        kept.contains(r#""aiTitle":"Clocks that are late""#),
        "{kept}"
    );
    talk_of(&place, true, SessionChoice::Continue).await;
    assert_eq!(named(&place), 1, "it has a name");
    place.settings = json!({"sessionTitles": false});
    talk_of(&place, true, SessionChoice::New).await;
    assert_eq!(named(&place), 1);
}
