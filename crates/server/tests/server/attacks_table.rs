//! The attacks that must fail, and the test of each. A test that is renamed or removed is missed here.
use std::path::Path;

const HERE: &str = "crates/server/tests/server";
const SESSIONS: &str = "crates/testkit/tests/background";

/// An attack, and the file and the name of a test that tries it.
const ATTACKS: &[(&str, &str, &str, &str)] = &[
    (
        "no token",
        HERE,
        "attacks.rs",
        "without_a_token_nothing_is_said_anywhere",
    ),
    (
        "a wrong token",
        HERE,
        "attacks.rs",
        "without_a_token_nothing_is_said_anywhere",
    ),
    (
        "a token in the address",
        HERE,
        "attacks.rs",
        "without_a_token_nothing_is_said_anywhere",
    ),
    (
        "a token in a cookie",
        HERE,
        "attacks.rs",
        "without_a_token_nothing_is_said_anywhere",
    ),
    (
        "events and upgrades without a token",
        HERE,
        "attacks.rs",
        "without_a_token_nothing_is_said_anywhere",
    ),
    (
        "a token of a revoked device",
        HERE,
        "attacks.rs",
        "a_code_works_once_and_a_revoked_device_not_at_all",
    ),
    (
        "a code that was used",
        HERE,
        "attacks.rs",
        "a_code_works_once_and_a_revoked_device_not_at_all",
    ),
    (
        "another Host, after DNS rebinding",
        HERE,
        "attacks.rs",
        "other_hosts_and_pages_are_refused_also_with_a_token",
    ),
    (
        "a foreign, null, other-port or look-alike Origin",
        HERE,
        "attacks.rs",
        "other_hosts_and_pages_are_refused_also_with_a_token",
    ),
    (
        "a WebSocket of another site",
        HERE,
        "attacks.rs",
        "other_hosts_and_pages_are_refused_also_with_a_token",
    ),
    (
        "a request of another site, by Sec-Fetch-Site",
        HERE,
        "attacks.rs",
        "requests_that_another_site_made_the_browser_send_are_refused",
    ),
    (
        "reading across origins",
        HERE,
        "attacks.rs",
        "every_response_has_the_strict_headers_and_no_cors",
    ),
    (
        "a form or an image that posts",
        HERE,
        "attacks.rs",
        "simple_requests_and_other_methods_change_nothing",
    ),
    (
        "X-Forwarded-For and the address of the client",
        HERE,
        "attacks.rs",
        "without_a_token_nothing_is_said_anywhere",
    ),
    (
        "the token by the files of the API",
        HERE,
        "api.rs",
        "files_are_those_that_the_session_reads_without_a_question",
    ),
    (
        "the token in files",
        HERE,
        "attacks.rs",
        "tokens_are_in_no_file",
    ),
    (
        "the token in an export, a log or the list of processes",
        SESSIONS,
        "doors.rs",
        "a_command_of_a_session_gets_no_token_and_no_answer",
    ),
    (
        "the token by Referer",
        HERE,
        "attacks.rs",
        "every_response_has_the_strict_headers_and_no_cors",
    ),
    (
        "markup, sequences and reordering in text and questions",
        HERE,
        "page.rs",
        "the_page_works_in_a_browser",
    ),
    (
        "markup, sequences and reordering in names",
        HERE,
        "page.rs",
        "hostile_names_and_questions_of_servers_stay_text",
    ),
    (
        "a question that is not what the model says about it",
        HERE,
        "api.rs",
        "a_question_is_pushed_with_links_that_answer_once",
    ),
    (
        "scopes that a client declares",
        HERE,
        "attacks.rs",
        "scopes_are_those_of_the_token",
    ),
    (
        "a name that a client declares",
        HERE,
        "api.rs",
        "the_wire_passes_frames_and_refuses_what_the_scope_does_not_allow",
    ),
    (
        "the agent answers itself by the socket or a detached child",
        SESSIONS,
        "main.rs",
        "a_session_cannot_answer_its_own_questions",
    ),
    (
        "the agent answers itself by the token file, HTTP or a device",
        SESSIONS,
        "doors.rs",
        "a_command_of_a_session_gets_no_token_and_no_answer",
    ),
    ("traversal", HERE, "attacks.rs", "paths_lead_nowhere_else"),
    (
        "symbolic links",
        HERE,
        "api.rs",
        "files_are_those_that_the_session_reads_without_a_question",
    ),
    (
        "huge heads and bodies",
        HERE,
        "attacks.rs",
        "huge_slow_and_many_are_borne",
    ),
    (
        "huge frames",
        HERE,
        "api.rs",
        "a_huge_frame_ends_its_connection_alone",
    ),
    (
        "requests that never end",
        HERE,
        "attacks.rs",
        "connections_that_never_finish_make_room_for_others",
    ),
    (
        "a thousand sockets",
        HERE,
        "attacks.rs",
        "huge_slow_and_many_are_borne",
    ),
    (
        "a socket of another user",
        "crates/wire/src",
        "folder.rs",
        "sockets_of_another_user_are_left_alone",
    ),
    (
        "a stale socket",
        "crates/wire/src",
        "folder.rs",
        "what_a_dead_host_left_is_recognised_by_its_lock_and_removed",
    ),
    (
        "two servers",
        HERE,
        "attacks.rs",
        "two_servers_do_not_share_a_folder",
    ),
    (
        "another address without TLS",
        HERE,
        "api.rs",
        "another_address_needs_tls_and_is_served_with_it",
    ),
    (
        "garbage on every endpoint",
        HERE,
        "attacks.rs",
        "garbage_leaves_it_serving",
    ),
    (
        "garbage on the socket of a session",
        "crates/host/tests",
        "hub.rs",
        "garbage_does_not_end_the_session_or_other_clients",
    ),
    (
        "a relay that reads",
        HERE,
        "relay.rs",
        "a_relay_process_never_has_the_text",
    ),
    (
        "a relay that changes frames",
        "crates/server/src/relay",
        "channel_tests.rs",
        "a_changed_frame_is_noticed_whatever_was_changed",
    ),
    (
        "a relay that repeats, reorders or drops frames",
        "crates/server/src/relay",
        "channel_tests.rs",
        "replayed_reordered_and_lost_frames_are_noticed_and_made_good",
    ),
    (
        "a link that somebody else opened",
        HERE,
        "relay.rs",
        "a_link_admits_nobody_without_the_users_word",
    ),
    (
        "another host in the room of a relay",
        HERE,
        "relay.rs",
        "a_room_has_one_host_and_devices_see_only_it",
    ),
];

#[test]
fn every_attack_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (attack, folder, file, test) in ATTACKS {
        let text = std::fs::read_to_string(root.join(folder).join(file)).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let found = lines.iter().position(|line| {
            line.starts_with(&format!("fn {test}()"))
                || line.starts_with(&format!("async fn {test}()"))
        });
        let found = found.unwrap_or_else(|| panic!("{attack}: {file} has no test {test}"));
        let attributes = lines[..found].iter().rev().take(3);
        let is_test = attributes
            .clone()
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
        assert!(is_test, "{attack}: {test} is no test");
        assert!(
            attributes.clone().all(|line| !line.contains("ignore")),
            "{attack}"
        );
    }
}
