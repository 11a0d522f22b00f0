//! Where the credentials of clouds come from, with services on loopback in place of theirs.

use crate::peers::{ask, home, set};
use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::{Output, Peer, PeerReply, TestHome, server};
use serde_json::json;
use std::path::Path;

const MODEL: &str = "us.anthropic.claude-opus-5-5";

/// A home whose `bedrock` is a scripted server.
fn aws(server: &BlockingServer, region: Option<&str>) -> TestHome {
    let mut entry = json!({"baseUrl": server.base_url()});
    if let Some(region) = region {
        entry["region"] = region.into();
    }
    home(&json!({"providers": {"bedrock": entry}}))
}

fn write(home: &TestHome, path: &str, text: &str) {
    let file = home.home().join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// Asks once, and gives the key id and the session token of the signature.
fn signed_by(home: &TestHome, server: &BlockingServer) -> (String, Option<String>) {
    let output = ask(home, &format!("bedrock/{MODEL}"), &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let request = server.requests()[0].clone();
    let authorization = request.header("authorization").unwrap().to_owned();
    let credential = authorization.split("Credential=").nth(1).unwrap();
    let id = credential.split('/').next().unwrap().to_owned();
    (
        id,
        request.header("x-amz-security-token").map(str::to_owned),
    )
}

fn one() -> BlockingServer {
    server([Reply::text("ok")])
}

#[test]
fn aws_keys_of_a_profile_sign_the_request() {
    let server = one();
    let home = aws(&server, None).variable("AWS_PROFILE", "work");
    write(&home, ".aws/config", "[profile work]\nregion = eu-west-1\n");
    write(
        &home,
        ".aws/credentials",
        "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = x\n[work]\naws_access_key_id = AKWORK\naws_secret_access_key = secret-of-work\naws_session_token = token-of-work\n",
    );
    let (id, token) = signed_by(&home, &server);
    assert_eq!(
        (id.as_str(), token.as_deref()),
        ("AKWORK", Some("token-of-work"))
    );
    let authorization = server.requests()[0]
        .header("authorization")
        .unwrap()
        .to_owned();
    assert!(
        authorization.contains("/eu-west-1/bedrock/aws4_request"),
        "{authorization}"
    );
}

#[test]
fn aws_keys_of_the_environment_come_before_a_profile_and_the_setting_before_both() {
    let files = |home: &TestHome| {
        write(
            home,
            ".aws/credentials",
            "[work]\naws_access_key_id = AKWORK\naws_secret_access_key = y\n",
        );
    };
    let server = one();
    let home = aws(&server, Some("us-west-2"))
        .variable("AWS_PROFILE", "work")
        .variable("AWS_ACCESS_KEY_ID", "AKENV")
        .variable("AWS_SECRET_ACCESS_KEY", "z");
    files(&home);
    assert_eq!(signed_by(&home, &server).0, "AKENV");
    let server = one();
    set(
        &home,
        &json!({"providers": {"bedrock": {"baseUrl": server.base_url(), "region": "us-west-2", "profile": "work"}}}),
    );
    assert_eq!(signed_by(&home, &server).0, "AKWORK");
    let authorization = server.requests()[0]
        .header("authorization")
        .unwrap()
        .to_owned();
    assert!(authorization.contains("/us-west-2/"), "{authorization}");
}

#[test]
fn aws_keys_of_a_credential_process_sign_the_request() {
    let server = one();
    let home = aws(&server, Some("us-east-1"));
    let keys = json!({"Version": 1, "AccessKeyId": "AKPROCESS", "SecretAccessKey": "s", "SessionToken": "t-process"});
    write(&home, "keys.json", &keys.to_string());
    let process = format!("cat {}", home.home().join("keys.json").display());
    write(
        &home,
        ".aws/config",
        &format!("[default]\ncredential_process = {process}\n"),
    );
    assert_eq!(
        signed_by(&home, &server),
        ("AKPROCESS".to_owned(), Some("t-process".to_owned()))
    );
}

#[test]
fn aws_keys_of_single_sign_on_sign_the_request_and_an_ended_one_names_the_command() {
    let portal = Peer::start(|request, _| {
        assert!(
            request
                .path
                .starts_with("/federation/credentials?role_name=dev&account_id=123")
        );
        assert_eq!(
            request.header("x-amz-sso_bearer_token"),
            Some("sso-access-token")
        );
        PeerReply::json(
            &json!({"roleCredentials": {"accessKeyId": "AKSSO", "secretAccessKey": "s",
            "sessionToken": "t-sso", "expiration": 4_102_444_800_000_i64}}),
        )
    });
    let server = one();
    let home = aws(&server, Some("us-east-1")).variable("AWS_ENDPOINT_URL_SSO", portal.url());
    write(
        &home,
        ".aws/config",
        "[default]\nsso_session = corp\nsso_account_id = 123\nsso_role_name = dev\n[sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://corp.example/start\n",
    );
    // The name of the file is the SHA-1 of the session's name.
    let cached =
        |ends: &str| json!({"accessToken": "sso-access-token", "expiresAt": ends}).to_string();
    let sum = std::process::Command::new("sh")
        .args(["-c", "printf corp | openssl dgst -sha1 -r | cut -c1-40"])
        .output()
        .unwrap();
    let file = format!(
        ".aws/sso/cache/{}.json",
        String::from_utf8_lossy(&sum.stdout).trim()
    );
    write(&home, &file, &cached("2099-01-01T00:00:00Z"));
    assert_eq!(
        signed_by(&home, &server),
        ("AKSSO".to_owned(), Some("t-sso".to_owned()))
    );
    write(&home, &file, &cached("2020-01-01T00:00:00Z"));
    let output = ask(&home, &format!("bedrock/{MODEL}"), &[]);
    assert!(
        output.stdout.contains("aws sso login") || output.stderr.contains("aws sso login"),
        "{output:#?}"
    );
}

/// A security token service that gives keys named after the action.
fn sts() -> Peer {
    Peer::start(|request, _| {
        let words = format!("{}{}", request.path, request.text());
        let (action, id) = if words.contains("AssumeRoleWithWebIdentity") {
            assert!(words.contains("WebIdentityToken=the-web-token"), "{words}");
            ("AssumeRoleWithWebIdentity", "AKWEB")
        } else {
            let authorization = request.header("authorization").unwrap_or_default();
            assert!(
                authorization.contains("/sts/aws4_request"),
                "{authorization}"
            );
            assert!(
                words.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"),
                "{words}"
            );
            ("AssumeRole", "AKROLE")
        };
        PeerReply::new(
            200,
            "text/xml",
            format!(
                "<{action}Response><{action}Result><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t-{id}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></{action}Result></{action}Response>"
            ),
        )
    })
}

#[test]
fn aws_keys_of_a_role_sign_the_request() {
    let sts = sts();
    for source in [
        "source_profile = base\n[base]\naws_access_key_id = AKBASE\naws_secret_access_key = s\n",
        "credential_source = Environment\n",
    ] {
        let server = one();
        let home = aws(&server, Some("us-east-1")).variable("AWS_ENDPOINT_URL_STS", sts.url());
        let home = if source.contains("Environment") {
            home.variable("AWS_ACCESS_KEY_ID", "AKENV")
                .variable("AWS_SECRET_ACCESS_KEY", "s")
        } else {
            home
        };
        write(
            &home,
            ".aws/config",
            &format!("[profile work]\nrole_arn = arn:aws:iam::1:role/r\n{source}"),
        );
        set(
            &home,
            &json!({"providers": {"bedrock": {"baseUrl": server.base_url(), "region": "us-east-1", "profile": "work"}}}),
        );
        assert_eq!(
            signed_by(&home, &server),
            ("AKROLE".to_owned(), Some("t-AKROLE".to_owned())),
            "{source}"
        );
    }
}

#[test]
fn aws_keys_of_a_web_identity_sign_the_request_and_the_token_is_in_no_address() {
    let sts = sts();
    let server = one();
    let home = aws(&server, Some("us-east-1"));
    let file = home.home().join("token");
    std::fs::write(&file, "the-web-token\n").unwrap();
    let home = home
        .variable("AWS_ENDPOINT_URL_STS", sts.url())
        .variable("AWS_WEB_IDENTITY_TOKEN_FILE", file.display().to_string())
        .variable("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    assert_eq!(signed_by(&home, &server).0, "AKWEB");
    assert!(!sts.requests()[0].path.contains("the-web-token"));
}

#[test]
fn aws_keys_of_a_container_sign_the_request() {
    let container = Peer::start(|request, _| {
        assert_eq!(request.header("authorization"), Some("container-token"));
        PeerReply::json(
            &json!({"AccessKeyId": "AKBOX", "SecretAccessKey": "s", "Token": "t-box",
            "Expiration": "2099-01-01T00:00:00Z"}),
        )
    });
    let server = one();
    let home = aws(&server, Some("us-east-1"))
        .variable(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            format!("{}/keys", container.url()),
        )
        .variable("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token");
    assert_eq!(
        signed_by(&home, &server),
        ("AKBOX".to_owned(), Some("t-box".to_owned()))
    );
}

#[test]
fn aws_keys_of_an_instance_sign_the_request_by_the_second_version_of_its_service() {
    let instance = Peer::start(|request, _| {
        if request.method == "PUT" {
            assert_eq!(request.path, "/latest/api/token");
            return PeerReply::new(200, "text/plain", "imds-token");
        }
        assert_eq!(
            request.header("x-aws-ec2-metadata-token"),
            Some("imds-token")
        );
        match request.path.as_str() {
            "/latest/meta-data/iam/security-credentials/" => {
                PeerReply::new(200, "text/plain", "the-role")
            }
            "/latest/meta-data/iam/security-credentials/the-role" => PeerReply::json(
                &json!({"AccessKeyId": "AKINSTANCE", "SecretAccessKey": "s", "Token": "t-instance"}),
            ),
            _ => PeerReply::not_found(),
        }
    });
    let server = one();
    let home = aws(&server, Some("us-east-1"))
        .variable("AWS_EC2_METADATA_DISABLED", "false")
        .variable("AWS_EC2_METADATA_SERVICE_ENDPOINT", instance.url());
    assert_eq!(signed_by(&home, &server).0, "AKINSTANCE");
}

#[test]
fn aws_credential_export_gives_the_keys_before_everything_else() {
    let server = one();
    let home = aws(&server, None)
        .variable("AWS_ACCESS_KEY_ID", "AKENV")
        .variable("AWS_SECRET_ACCESS_KEY", "z");
    let keys = json!({"Credentials": {"AccessKeyId": "AKEXPORT", "SecretAccessKey": "s", "SessionToken": "t"}});
    set(
        &home,
        &json!({"awsCredentialExport": format!("echo '{keys}'"),
            "providers": {"bedrock": {"baseUrl": server.base_url(), "region": "us-east-1"}}}),
    );
    assert_eq!(signed_by(&home, &server).0, "AKEXPORT");
}

#[test]
fn aws_auth_refresh_signs_in_where_there_are_no_credentials() {
    let server = one();
    let home = aws(&server, Some("us-east-1"));
    let file = home.home().join(".aws/credentials");
    write(
        &home,
        ".aws/config",
        &format!(
            "[default]\ncredential_process = cat {}.json\n",
            file.display()
        ),
    );
    let json = r#"{"AccessKeyId":"AKFRESH","SecretAccessKey":"s"}"#;
    set(
        &home,
        &json!({"awsAuthRefresh": format!("printf '%s' '{json}' >{}.json", file.display()),
            "providers": {"bedrock": {"baseUrl": server.base_url(), "region": "us-east-1"}}}),
    );
    assert_eq!(signed_by(&home, &server).0, "AKFRESH");
}

#[test]
fn aws_without_any_credentials_says_what_can_be_done_and_ends_with_3() {
    let server = server([]);
    let home = aws(&server, Some("us-east-1"));
    let output = ask(&home, &format!("bedrock/{MODEL}"), &[]);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert_ne!(output.code(), Some(0));
    assert!(
        told.contains("AWS_ACCESS_KEY_ID") && told.contains("aws sso login"),
        "{told}"
    );
    let no_region = aws(&server, None);
    let output = ask(&no_region, &format!("bedrock/{MODEL}"), &[]);
    assert_eq!(output.code(), Some(3), "{output:#?}");
    assert!(output.stderr.contains("AWS_REGION"), "{output:#?}");
}

#[test]
fn aws_bearer_token_bedrock_is_sent_instead_of_a_signature() {
    let server = one();
    let home =
        aws(&server, Some("us-east-1")).variable("AWS_BEARER_TOKEN_BEDROCK", "bearer-of-bedrock");
    let output = ask(&home, &format!("bedrock/{MODEL}"), &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let request = server.requests()[0].clone();
    assert_eq!(
        request.header("authorization"),
        Some("Bearer bearer-of-bedrock")
    );
    assert_eq!(request.header("x-amz-date"), None);
}

#[test]
fn skip_bedrock_auth_sends_nothing_about_who_asks() {
    let server = one();
    let home = home(&json!({}))
        .variable("CLAUDE_CODE_USE_BEDROCK", "1")
        .variable("CLAUDE_CODE_SKIP_BEDROCK_AUTH", "1")
        .variable("AWS_REGION", "us-east-1")
        .variable("ANTHROPIC_BEDROCK_BASE_URL", server.base_url());
    // Without a provider in its name, the model is one of Bedrock.
    let output = ask(&home, MODEL, &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let request = server.requests()[0].clone();
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.model(), MODEL);
    assert!(
        request.path.starts_with("/model/us.anthropic.claude"),
        "{}",
        request.path
    );
}

/// A home whose Vertex AI is a scripted server.
fn google(server: &BlockingServer) -> TestHome {
    home(&json!({}))
        .variable("CLAUDE_CODE_USE_VERTEX", "1")
        .variable("ANTHROPIC_VERTEX_PROJECT_ID", "the-project")
        .variable("CLOUD_ML_REGION", "europe-west1")
        .variable(
            "ANTHROPIC_VERTEX_BASE_URL",
            format!("{}/v1", server.base_url()),
        )
        .variable("GCE_METADATA_HOST", "127.0.0.1:9")
}

fn asked_vertex(home: &TestHome) -> Output {
    ask(home, "claude-opus-5-5", &[])
}

fn bearer(server: &BlockingServer) -> String {
    server.requests()[0]
        .header("authorization")
        .unwrap()
        .to_owned()
}

/// A token service that checks the form.
fn tokens(check: fn(&str)) -> Peer {
    Peer::start(move |request, _| {
        check(&request.text());
        PeerReply::json(&json!({"access_token": "ya29.the-access-token", "expires_in": 3600}))
    })
}

#[test]
fn google_credentials_of_a_user_are_exchanged_for_a_token() {
    let tokens = tokens(|form| {
        assert!(form.contains("grant_type=refresh_token"), "{form}");
        assert!(form.contains("refresh_token=1%2F%2Frefresh"), "{form}");
    });
    let server = one();
    let home = google(&server);
    let credentials = json!({"type": "authorized_user", "client_id": "c", "client_secret": "hush", "refresh_token": "1//refresh",
        "token_uri": format!("{}/token", tokens.url())});
    write(
        &home,
        ".config/gcloud/application_default_credentials.json",
        &credentials.to_string(),
    );
    let output = asked_vertex(&home);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(bearer(&server), "Bearer ya29.the-access-token");
    let path = server.requests()[0].path.clone();
    assert_eq!(
        path,
        "/v1/projects/the-project/locations/europe-west1/publishers/anthropic/models/claude-opus-5-5:streamRawPredict"
    );
}

#[test]
fn google_credentials_of_a_service_account_are_a_signed_claim() {
    let tokens = tokens(|form| {
        assert!(form.contains("jwt-bearer"), "{form}");
        let claim = form.split("assertion=").nth(1).unwrap();
        assert_eq!(
            claim.split('&').next().unwrap().split('.').count(),
            3,
            "{form}"
        );
    });
    let server = one();
    let home = google(&server);
    let key = openssl(&home.home().join("key.pem"));
    let credentials = json!({"type": "service_account", "client_email": "robot@the-project.iam", "private_key_id": "k1",
        "private_key": key, "token_uri": format!("{}/token", tokens.url())});
    let file = home.home().join("robot.json");
    std::fs::write(&file, credentials.to_string()).unwrap();
    let home = home.variable("GOOGLE_APPLICATION_CREDENTIALS", file.display().to_string());
    let output = asked_vertex(&home);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(bearer(&server), "Bearer ya29.the-access-token");
    // Google's own package verifies the claim.
    let form = tokens.requests()[0].text();
    let claim = form.split("assertion=").nth(1).unwrap();
    crate::official::checked(&[json!({
        "check": "assertion",
        "assertion": claim.split('&').next().unwrap(),
        "audience": credentials["token_uri"],
        "account": credentials,
        "public": public_key(&home.home().join("key.pem")),
    })]);
}

/// The public half of a key.
fn public_key(file: &Path) -> String {
    let made = std::process::Command::new("openssl")
        .args(["pkey", "-pubout", "-in"])
        .arg(file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap()
}

/// A fresh RSA key in PKCS #8.
fn openssl(file: &Path) -> String {
    let made = std::process::Command::new("openssl")
        .args([
            "genpkey",
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:2048",
            "-out",
        ])
        .arg(file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn google_credentials_of_the_metadata_server_are_used_where_no_file_is() {
    let metadata = Peer::start(|request, _| {
        assert_eq!(request.header("metadata-flavor"), Some("Google"));
        PeerReply::json(&json!({"access_token": "ya29.of-the-machine", "expires_in": 3600}))
    });
    let server = one();
    let home = google(&server).variable("GCE_METADATA_HOST", metadata.host());
    let output = asked_vertex(&home);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(bearer(&server), "Bearer ya29.of-the-machine");
}

#[test]
fn google_without_any_credentials_says_what_can_be_done() {
    let server = server([]);
    let output = asked_vertex(&google(&server));
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(
        told.contains("gcloud auth application-default login"),
        "{told}"
    );
}

#[test]
fn foundry_is_anthropic_at_the_address_of_its_resource() {
    let server = one();
    let home = home(&json!({}))
        .variable("CLAUDE_CODE_USE_FOUNDRY", "1")
        .variable("ANTHROPIC_FOUNDRY_BASE_URL", server.base_url())
        .variable("ANTHROPIC_FOUNDRY_API_KEY", "key-of-foundry");
    let output = ask(&home, "claude-opus-5-5", &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let request = server.requests()[0].clone();
    assert_eq!(request.header("x-api-key"), Some("key-of-foundry"));
    assert_eq!(request.path, "/v1/messages");
    // The address is made from the resource: nothing answers there, and the message names it.
    let home = crate::peers::home(&json!({}))
        .variable("CLAUDE_CODE_USE_FOUNDRY", "1")
        .variable(
            "ANTHROPIC_FOUNDRY_RESOURCE",
            "no-such-resource-of-lathe.invalid#",
        )
        .variable("ANTHROPIC_FOUNDRY_API_KEY", "key-of-foundry")
        .variable("LATHE_MAX_RETRIES", "0");
    let output = ask(&home, "claude-opus-5-5", &[]);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(told.contains("no-such-resource-of-lathe.invalid"), "{told}");
    let missing = crate::peers::home(&json!({})).variable("CLAUDE_CODE_USE_FOUNDRY", "1");
    let output = ask(&missing, "claude-opus-5-5", &[]);
    assert_eq!(output.code(), Some(3), "{output:#?}");
}

#[test]
fn foundry_takes_a_bearer_of_entra_in_a_header() {
    let server = one();
    let home = home(
        &json!({"providers": {"foundry": {"headers": {"authorization": "Bearer ${ENTRA_TOKEN}"}}}}),
    )
    .variable("ENTRA_TOKEN", "entra-access-token")
    .variable("ANTHROPIC_FOUNDRY_BASE_URL", server.base_url());
    let output = ask(&home, "foundry/claude-opus-5-5", &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(bearer(&server), "Bearer entra-access-token");
}

#[test]
fn secrets_of_clouds_are_cut_out_of_what_a_server_repeats() {
    let server = server([Reply::error_with(
        400,
        "invalid_request_error",
        "bad: secret-of-clouds-123 and token-of-clouds-456",
    )]);
    let home = aws(&server, Some("us-east-1"))
        .variable("AWS_ACCESS_KEY_ID", "AKENV")
        .variable("AWS_SECRET_ACCESS_KEY", "secret-of-clouds-123")
        .variable("AWS_SESSION_TOKEN", "token-of-clouds-456");
    let output = ask(&home, &format!("bedrock/{MODEL}"), &[]);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(told.contains("[key]"), "{told}");
    for secret in ["secret-of-clouds-123", "token-of-clouds-456"] {
        assert!(!told.contains(secret), "{told}");
        for file in lathe_testkit::transcript::of_home(&home) {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains(secret), "{}", file.display());
        }
    }
}

/// Everything that is written below a folder, with its place.
fn written_below(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut written = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            written.extend(written_below(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            written.push((path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    written
}

#[test]
fn a_planted_key_is_in_nothing_that_is_written() {
    const PLANTED: [(&str, &str); 4] = [
        ("HOUSE_KEY", "sk-planted-house-4711"),
        ("AWS_SECRET_ACCESS_KEY", "planted/secret+4712"),
        ("AWS_SESSION_TOKEN", "planted-token-4713"),
        ("OPENAI_API_KEY", "sk-planted-openai-4714"),
    ];
    for kind in &crate::house::KINDS {
        let mut house = crate::house::House::new(kind);
        let log = house.home.root().join("trace.log");
        for (name, key) in PLANTED {
            house.home = house.home.variable(name, key);
        }
        house.home = house
            .home
            .variable("LATHE_LOG", "trace")
            .variable("LATHE_LOG_FILE", log.display().to_string());
        let used = if kind.name == "bedrock" {
            &PLANTED[1..3]
        } else {
            &PLANTED[..1]
        };
        let repeated = used
            .iter()
            .map(|(_, key)| *key)
            .collect::<Vec<_>>()
            .join(" and ");
        let server = house.serve([
            // The keys of an AWS account are the user's for all programs, so commands have those.
            Reply::thinking("hm").with_tool_use(
                "Bash",
                json!({"command": "env | grep -v ^AWS_", "description": "shows"}),
            ),
            Reply::text("done"),
            // A server that repeats what it was sent.
            Reply::error_with(401, "authentication_error", format!("wrong key {repeated}"))
                .forever(),
        ]);
        let mut told = String::new();
        for more in [&["--allowedTools", "Bash"][..], &["-c", "--debug"]] {
            let output = house.ask(more);
            told.push_str(&output.stdout);
            told.push_str(&output.stderr);
        }
        let mut written = written_below(&house.home.root());
        assert!(
            written
                .iter()
                .any(|(path, text)| *path == log && text.len() > 1_000)
        );
        written.push(("what was printed".into(), told));
        for request in server.requests() {
            written.push(("an address".into(), request.path.clone()));
            let body = String::from_utf8_lossy(&request.raw_body).into_owned();
            written.push(("a body".into(), body));
        }
        // Nobody declared the first as a key there.
        let keys = if kind.name == "bedrock" {
            &PLANTED[1..]
        } else {
            &PLANTED[..]
        };
        for (path, text) in &written {
            for (name, key) in keys {
                assert!(
                    !text.contains(key),
                    "{name} on {}: {}",
                    kind.name,
                    path.display()
                );
            }
        }
    }
}
