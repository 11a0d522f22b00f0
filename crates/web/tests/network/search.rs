//! Search services, each as its documentation describes it.

use crate::server::{Server, answer};
use lathe_net::Network;
use lathe_web::search::{Backend, Hit, Query, SearchError, Service, search};
use std::collections::BTreeMap;

fn backend(service: Service, server: &Server) -> Backend {
    Backend {
        service,
        address: Some(server.url("/search")),
        headers: BTreeMap::from([("x-own".to_owned(), "mine".to_owned())]),
        key: Some("the-key".to_owned()),
        engine: Some("engine".to_owned()),
    }
}

fn query() -> Query {
    Query {
        words: "rust & more".to_owned(),
        ..Query::default()
    }
}

fn hit(title: &str, url: &str, snippet: &str) -> Hit {
    Hit {
        title: title.to_owned(),
        url: url.to_owned(),
        snippet: snippet.to_owned(),
    }
}

/// The answer of each service, and its request.
const ANSWERS: [(Service, &str, &[&str]); 6] = [
    (
        Service::Searx,
        r#"{"query": "x", "results": [{"title": "One", "url": "https://one.example/", "content": "first"}, {"title": "Two", "url": "https://two.example/p", "content": ""}], "suggestions": []}"#,
        &["GET /search?q=rust+%26+more&format=json"],
    ),
    (
        Service::Brave,
        r#"{"type": "search", "web": {"results": [{"title": "<strong>One</strong>", "url": "https://one.example/", "description": "first"}, {"title": "Two", "url": "https://two.example/p", "description": ""}]}}"#,
        &[
            "GET /search?q=rust+%26+more&count=20",
            "x-subscription-token: the-key",
        ],
    ),
    (
        Service::Tavily,
        r#"{"query": "x", "answer": null, "results": [{"title": "One", "url": "https://one.example/", "content": "first", "score": 0.9}, {"title": "Two", "url": "https://two.example/p", "content": ""}]}"#,
        &["POST /search", "authorization: Bearer the-key"],
    ),
    (
        Service::Exa,
        r#"{"results": [{"title": "One", "url": "https://one.example/", "highlights": ["first"]}, {"title": "Two", "url": "https://two.example/p"}]}"#,
        &["POST /search", "x-api-key: the-key"],
    ),
    (
        Service::GoogleCse,
        r#"{"kind": "customsearch#search", "items": [{"title": "One", "link": "https://one.example/", "snippet": "first"}, {"title": "Two", "link": "https://two.example/p"}]}"#,
        &[
            "GET /search?q=rust+%26+more&cx=engine&num=10",
            "x-goog-api-key: the-key",
        ],
    ),
    (
        Service::Kagi,
        r#"{"meta": {}, "data": [{"t": 0, "title": "One", "url": "https://one.example/", "snippet": "first"}, {"t": 1, "list": ["related"]}, {"t": 0, "title": "Two", "url": "https://two.example/p"}]}"#,
        &[
            "GET /search?q=rust+%26+more&limit=20",
            "authorization: Bot the-key",
        ],
    ),
];

#[tokio::test]
async fn each_service_is_asked_and_read_in_its_own_format() {
    for (service, body, expected) in ANSWERS {
        let server = Server::start(move |_| {
            answer(
                "200 OK",
                "content-type: application/json\r\n",
                body.as_bytes(),
            )
        })
        .await;
        let hits = search(&backend(service, &server), &query(), &Network::default())
            .await
            .unwrap();
        assert_eq!(
            hits,
            [
                hit("One", "https://one.example/", "first"),
                hit("Two", "https://two.example/p", "")
            ],
            "{service:?}"
        );
        let request = server.requests().remove(0);
        for part in expected.iter().chain(&["x-own: mine"]) {
            assert!(
                request.contains(part),
                "{service:?}: no {part:?} in {request}"
            );
        }
    }
}

#[tokio::test]
async fn results_of_other_domains_and_of_no_page_are_left_out() {
    let body = r#"{"results": [
        {"title": "a", "url": "https://docs.good.example/x", "content": "<b>bold</b>\n text"},
        {"title": "b", "url": "https://notgood.example/", "content": ""},
        {"title": "c", "url": "javascript:alert(1)", "content": ""},
        {"title": "d", "url": 7},
        "nonsense",
        {"title": "e", "url": "https://good.example/", "content": ""}]}"#;
    let server = Server::start(move |_| answer("200 OK", "", body.as_bytes())).await;
    let backend = backend(Service::Searx, &server);
    let only = Query {
        allowed: vec!["good.example".to_owned()],
        ..query()
    };
    let hits = search(&backend, &only, &Network::default()).await.unwrap();
    assert_eq!(
        hits,
        [
            hit("a", "https://docs.good.example/x", "bold text"),
            hit("e", "https://good.example/", "")
        ]
    );
    assert!(
        server.requests()[0].contains("site%3Agood.example"),
        "{}",
        server.requests()[0]
    );
    let without = Query {
        blocked: vec!["good.example".to_owned()],
        ..query()
    };
    let hits = search(&backend, &without, &Network::default())
        .await
        .unwrap();
    assert_eq!(hits, [hit("b", "https://notgood.example/", "")]);
    assert!(
        server.requests()[1].contains("-site%3Agood.example"),
        "{}",
        server.requests()[1]
    );
}

#[tokio::test]
async fn nothing_found_is_an_answer_too() {
    for (service, body) in [
        (
            Service::GoogleCse,
            r#"{"kind": "customsearch#search", "searchInformation": {"totalResults": "0"}}"#,
        ),
        (Service::Brave, r#"{"type": "search", "query": {}}"#),
        (Service::Searx, r#"{"results": []}"#),
    ] {
        let server = Server::start(move |_| answer("200 OK", "", body.as_bytes())).await;
        let hits = search(&backend(service, &server), &query(), &Network::default()).await;
        assert_eq!(hits, Ok(Vec::new()), "{service:?}");
    }
}

#[tokio::test]
async fn refusals_and_limits_of_services_are_said() {
    let cases: [(&str, &str, &str, &str); 6] = [
        (
            "401 Unauthorized",
            "",
            r#"{"error": {"message": "bad key"}}"#,
            "Tavily refuses the key (401: bad key)",
        ),
        (
            "403 Forbidden",
            "",
            "not json",
            "Tavily refuses the key (403)",
        ),
        (
            "429 Too Many Requests",
            "retry-after: 17\r\n",
            r#"{"detail": {"error": "slow down"}}"#,
            "Tavily limits the rate of searches (429: slow down); try again in 17 s",
        ),
        (
            "432 Plan",
            "",
            r#"{"message": "plan used up"}"#,
            "Tavily limits the rate of searches (432: plan used up)",
        ),
        ("500 Oops", "", "<html>", "Tavily answers 500"),
        (
            "302 Found",
            "location: https://elsewhere.example/\r\n",
            "",
            "Tavily answers 302",
        ),
    ];
    for (status, headers, body, expected) in cases {
        let server = Server::start(move |_| answer(status, headers, body.as_bytes())).await;
        let error = search(
            &backend(Service::Tavily, &server),
            &query(),
            &Network::default(),
        )
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.to_string().contains("the-key"));
    }
}

#[tokio::test]
async fn answers_that_are_none_are_refused() {
    for body in ["", "no json", "[]", "{}", r#"{"results": "none"}"#, "null"] {
        let server = Server::start(move |_| answer("200 OK", "", body.as_bytes())).await;
        let error = search(
            &backend(Service::Searx, &server),
            &query(),
            &Network::default(),
        )
        .await
        .unwrap_err();
        assert!(
            matches!(error, SearchError::Malformed { .. }),
            "{body}: {error:?}"
        );
    }
    let endless = Server::start(|_| {
        crate::server::Answer::Endless(b"HTTP/1.1 200 OK\r\n\r\n[".to_vec(), vec![b' '; 64 * 1024])
    })
    .await;
    let error = search(
        &backend(Service::Searx, &endless),
        &query(),
        &Network::default(),
    )
    .await
    .unwrap_err();
    assert!(matches!(error, SearchError::Malformed { .. }), "{error:?}");
    let nowhere = Backend {
        address: None,
        ..backend(Service::Searx, &endless)
    };
    assert!(matches!(
        nowhere.request(&query()),
        Err(SearchError::NoAddress(_))
    ));
}

#[test]
fn services_with_fields_for_domains_get_them_there() {
    let wanted = Query {
        words: "x".to_owned(),
        allowed: vec!["a.example".to_owned()],
        blocked: vec!["b.example".to_owned()],
    };
    let body = |service| {
        let backend = Backend {
            service,
            address: None,
            headers: BTreeMap::new(),
            key: Some("k".to_owned()),
            engine: None,
        };
        backend.request(&wanted).unwrap()
    };
    let tavily = body(Service::Tavily);
    assert_eq!(tavily.url.as_str(), "https://api.tavily.com/search");
    let sent = tavily.body.unwrap();
    assert_eq!(
        (sent["query"].as_str(), sent["include_domains"][0].as_str()),
        (Some("x"), Some("a.example"))
    );
    assert_eq!(sent["exclude_domains"][0], "b.example");
    let sent = body(Service::Exa).body.unwrap();
    assert_eq!(sent["includeDomains"][0], "a.example");
    assert_eq!(sent["excludeDomains"][0], "b.example");
}
