//! Questions and answers.

use crate::support::{Work, is_alive, scripted, until};
use lathe_lsp::{LspError, Operation, QueryAnswer, Question, Standing};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const TEXT: &str = "def é😀 Outer\nsecond line\n";

#[tokio::test]
async fn nothing_is_started_before_it_is_needed_and_all_of_it_ends() {
    let work = Work::new("normal");
    work.write("a.words", TEXT);
    work.write("b.other", TEXT);
    assert_eq!(work.servers.status()[0].standing, Standing::Waiting);
    let error = work
        .ask(Operation::Hover, "b.other", 1, 1)
        .await
        .unwrap_err();
    assert!(matches!(error, LspError::NoServer(_)), "{error}");
    assert_eq!(work.log(), Vec::<serde_json::Value>::new());

    assert_eq!(work.hover().await.unwrap(), "rest: def é😀 Outer");
    assert_eq!(work.servers.status()[0].standing, Standing::Running);
    let begin = &work.log()[0];
    assert_eq!(begin["cwd"], work.root.to_str().unwrap());
    assert_eq!(begin["own"], "yes", "its own variables");
    assert_eq!(
        begin["key"],
        json!(null),
        "keys that are meant for us stay here"
    );
    let process = work.processes()[0];
    assert!(is_alive(process));
    work.servers.shut_down().await;
    assert!(!is_alive(process));
    let last: Vec<_> = work
        .log()
        .into_iter()
        .map(|entry| entry["method"].clone())
        .collect();
    assert_eq!(last[last.len() - 2..], [json!("shutdown"), json!("exit")]);
    let error = work.hover().await.unwrap_err();
    assert!(matches!(error, LspError::NoServer(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_want_to_end_is_made_to() {
    let work = Work::with(|root| {
        let mut entry = scripted(root, "clings");
        entry["shutdownTimeout"] = json!(50);
        json!({"scripted": entry})
    });
    work.write("a.words", TEXT);
    work.hover().await.unwrap();
    let process = work.processes()[0];
    work.servers.shut_down().await;
    assert!(!is_alive(process));
}

#[tokio::test]
async fn a_server_is_set_up_as_its_settings_say() {
    let begun = |change: fn(&mut serde_json::Value), file: &'static str| async move {
        let work = Work::with(|root| {
            let mut entry = scripted(root, "normal");
            entry["transport"] = json!("stdio");
            change(&mut entry);
            json!({"scripted": entry})
        });
        work.write("inner/Marker.toml", "");
        work.write("inner/deep/a.words", TEXT);
        work.write("a.words", TEXT);
        work.ask(Operation::Hover, file, 1, 1).await.unwrap();
        let initialize = work.sent("initialize")[0]["params"].clone();
        let root = work.root.display().to_string();
        work.servers.shut_down().await;
        let uri = initialize["rootUri"].as_str().unwrap().to_owned();
        (initialize, uri.replace(&root, "ROOT"))
    };
    let (initialize, uri) = begun(
        |entry| entry["initializationOptions"] = json!({"strict": true}),
        "inner/deep/a.words",
    )
    .await;
    assert_eq!(initialize["initializationOptions"], json!({"strict": true}));
    assert_eq!(uri, "file://ROOT");
    let marked = |entry: &mut serde_json::Value| entry["rootMarkers"] = json!(["Marker.toml"]);
    let (_, uri) = begun(marked, "inner/deep/a.words").await;
    assert_eq!(uri, "file://ROOT/inner");
    let named = |entry: &mut serde_json::Value| entry["workspaceFolder"] = json!("inner/deep");
    let (_, uri) = begun(named, "inner/deep/a.words").await;
    assert_eq!(uri, "file://ROOT/inner/deep");
}

#[tokio::test]
async fn servers_end_with_the_last_hold_on_them() {
    let work = Work::with(|root| {
        let mut entry = scripted(root, "clings");
        entry["shutdownTimeout"] = json!(50);
        json!({"scripted": entry})
    });
    work.write("a.words", TEXT);
    work.hover().await.unwrap();
    let process = work.processes()[0];
    drop(work);
    until("the process is gone", || !is_alive(process)).await;
}

#[tokio::test]
async fn every_operation_is_answered_in_one_form() {
    let work = Work::new("normal");
    work.write("a.words", TEXT);
    let places = |answer| match answer {
        QueryAnswer::Places(places) => places
            .into_iter()
            .map(|place| {
                (
                    work.shown(&place.path),
                    place.line,
                    place.column,
                    place.text,
                )
            })
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let first = || ("a.words".to_owned(), 1, 1, "def é😀 Outer".to_owned());
    let second = || ("a.words".to_owned(), 2, 1, "second line".to_owned());
    let ask = |operation| work.ask(operation, "a.words", 1, 7);
    assert_eq!(
        places(ask(Operation::GoToDefinition).await.unwrap()),
        [first()]
    );
    assert_eq!(
        places(ask(Operation::GoToImplementation).await.unwrap()),
        [second()]
    );
    assert_eq!(
        places(ask(Operation::FindReferences).await.unwrap()),
        [first(), second()]
    );

    let symbols = |answer| match answer {
        QueryAnswer::Symbols(symbols) => symbols
            .into_iter()
            .map(|symbol| {
                (
                    symbol.name,
                    symbol.kind,
                    symbol.container,
                    symbol.depth,
                    symbol.place.line,
                )
            })
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let outer = || Some("Outer".to_owned());
    assert_eq!(
        symbols(ask(Operation::DocumentSymbol).await.unwrap()),
        [
            ("Outer".to_owned(), "class", None, 0, 1),
            ("inner".to_owned(), "method", outer(), 1, 2)
        ]
    );
    assert_eq!(
        symbols(ask(Operation::WorkspaceSymbol).await.unwrap()),
        [("Outer".to_owned(), "function", Some("mod".to_owned()), 0, 1)]
    );
    assert_eq!(
        symbols(ask(Operation::PrepareCallHierarchy).await.unwrap()),
        [("middle".to_owned(), "function", None, 0, 1)]
    );
    let calls = |answer| match answer {
        QueryAnswer::Calls(calls) => calls
            .into_iter()
            .map(|(symbol, lines)| (symbol.name, lines))
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        calls(ask(Operation::IncomingCalls).await.unwrap()),
        [("caller".to_owned(), vec![2])]
    );
    assert_eq!(
        calls(ask(Operation::OutgoingCalls).await.unwrap()),
        [("callee".to_owned(), vec![1])]
    );
    assert_eq!(
        work.sent("textDocument/didOpen").len(),
        1,
        "a file is opened once"
    );
}

#[tokio::test]
async fn characters_mean_the_same_whatever_the_server_counts_in() {
    for mode in ["normal", "utf8"] {
        let work = Work::new(mode);
        work.write("a.words", "😀é x BAD\n");
        match work.ask(Operation::Hover, "a.words", 1, 4).await.unwrap() {
            QueryAnswer::Text(text) => assert_eq!(text, "rest: x BAD", "{mode}"),
            other => panic!("{other:?}"),
        }
        match work
            .ask(Operation::Diagnostics, "a.words", 1, 1)
            .await
            .unwrap()
        {
            QueryAnswer::Problems(problems) => {
                assert_eq!((problems[0].line, problems[0].column), (1, 6), "{mode}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_symbol_can_be_named_instead_of_its_character() {
    let work = Work::new("normal");
    let path = work.write("a.words", TEXT);
    let ask = |line, query: Option<&str>| {
        let question = Question {
            operation: Operation::Hover,
            path: path.clone(),
            line,
            character: None,
            query: query.map(str::to_owned),
        };
        let servers = work.servers.clone();
        async move { servers.ask(&question, &CancellationToken::new()).await }
    };
    assert_eq!(
        ask(Some(1), Some("Outer")).await.unwrap(),
        QueryAnswer::Text("rest: Outer".to_owned())
    );
    for (line, query, wrong) in [
        (None, None, "needs \"line\""),
        (Some(0), None, "needs \"line\""),
        (Some(9), None, "has 2 lines"),
        (
            Some(2),
            Some("Outer"),
            "line 2 does not contain \"Outer\": second line",
        ),
        (Some(2), None, "needs \"character\""),
    ] {
        let error = ask(line, query).await.unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_somebody_else_changed_is_shown_anew_before_the_next_question() {
    let work = Work::new("normal");
    work.write("a.words", "one\n");
    work.write("b.words", "one\n");
    assert_eq!(work.hover().await.unwrap(), "rest: one");
    work.ask(Operation::Hover, "b.words", 1, 1).await.unwrap();
    work.write("a.words", "two\n");
    work.ask(Operation::Hover, "b.words", 1, 1).await.unwrap();
    let changes = work.sent("textDocument/didChange");
    assert_eq!(
        changes.len(),
        1,
        "the other file that is open was looked at"
    );
    assert_eq!(changes[0]["params"]["contentChanges"][0]["text"], "two\n");
    assert_eq!(work.hover().await.unwrap(), "rest: two");
    std::fs::remove_file(work.root.join("a.words")).unwrap();
    let error = work.hover().await.unwrap_err();
    assert!(matches!(error, LspError::Question(_)), "{error}");
    until("it is closed", || {
        work.sent("textDocument/didClose").len() == 1
    })
    .await;
}

#[tokio::test]
async fn what_a_server_cannot_do_is_said_and_another_is_asked() {
    let work = Work::new("few");
    work.write("a.words", TEXT);
    let error = work
        .ask(Operation::GoToImplementation, "a.words", 1, 1)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the language server scripted can't answer goToImplementation"
    );
    let work = Work::with(|root| {
        json!({"a": scripted(root, "few"), "b": {
            "command": "/usr/bin/env", "args": ["python3", crate::support::fixture(), "normal"],
            "extensionToLanguage": {"words": "words"},
        }})
    });
    work.write("a.words", TEXT);
    let answer = work
        .ask(Operation::GoToImplementation, "a.words", 1, 1)
        .await
        .unwrap();
    assert!(matches!(answer, QueryAnswer::Places(places) if places.len() == 1));
}

#[tokio::test]
async fn other_configuration_ends_what_is_not_in_it() {
    let work = Work::new("normal");
    work.write("a.words", TEXT);
    work.hover().await.unwrap();
    let process = work.processes()[0];
    work.servers.set(lathe_lsp::Servers::default(), None);
    assert!(work.servers.is_empty());
    until("the server is gone", || !is_alive(process)).await;
}
